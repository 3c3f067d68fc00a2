//! Counters of connections to and from other gateways.

use serde::Serialize;

use super::link::Stage;

/// The counters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(in crate::service::hfpep) struct Stats {
    /// Connections that carry a program's data now, and connections that carry none.
    pub(super) sessions: u64,
    pub(super) spare: u64,
    pub(super) arriving: u64,
    pub(super) sessions_opened: u64,
    /// Sessions opened on a connection that was ready.
    pub(super) opened_on_spare: u64,
    pub(super) sessions_received: u64,
    pub(super) sessions_finished: u64,
    pub(super) sessions_reset: u64,
    /// Connections refused by the far end, and connections refused here.
    pub(super) sessions_refused: u64,
    pub(super) sessions_declined: u64,
    pub(super) connects_tried: u64,
    pub(super) connects_failed: u64,
    /// Connections that ended unused.
    pub(super) spares_lost: u64,
    /// Connections of strangers, refused.
    pub(super) strangers_refused: u64,
    /// Connections of others without data, broken off in favour of newer ones, and broken off for silence.
    pub(super) arrivals_displaced: u64,
    pub(super) arrivals_silent: u64,
    /// Connections that began with something else than an opening.
    pub(super) openings_malformed: u64,
    /// Octets that programs here wrote, and were given.
    pub(super) octets_written: u64,
    pub(super) octets_read: u64,
}

impl Stats {
    /// A link is at this stage no longer.
    pub(super) fn forget(&mut self, stage: &Stage) {
        match stage {
            Stage::Arriving { .. } => self.arriving -= 1,
            Stage::Asked { .. }
            | Stage::Connecting { .. }
            | Stage::Cut { .. }
            | Stage::Held { .. }
            | Stage::Open { .. } => self.sessions -= 1,
            Stage::Refused { .. } => {}
            Stage::Spare => self.spare -= 1,
        }
    }
}
