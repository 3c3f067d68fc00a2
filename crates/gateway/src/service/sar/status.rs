//! What an operator is told.

use serde::Serialize;

use super::Sar;

/// How the service is.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    state: &'static str,
    /// Programs that are connected.
    programs: usize,
    /// Messages that wait or are under way.
    to_send: usize,
    /// Messages that have arrived and were not taken.
    to_take: usize,
    to_take_octets: usize,
    /// Messages whose outcomes can be asked for.
    outcomes_known: usize,
    /// Outcomes forgotten before their time.
    outcomes_forgotten: u64,
    store: String,
}

impl Sar {
    pub(super) fn status(&self) -> Status {
        let state = if self.room_for_arrivals().has_any() { "running" } else { "full" };
        Status {
            state,
            programs: self.clients.len(),
            to_send: self.outbox.open_len(),
            to_take: self.inbox.len(),
            to_take_octets: self.inbox.octets(),
            outcomes_known: self.outbox.ended_len(),
            outcomes_forgotten: self.outbox.forgotten,
            store: self.config.store.display().to_string(),
        }
    }
}
