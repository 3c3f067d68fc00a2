//! Counters of connections to and from other gateways.

use super::link::Stage;

base::counters! {
    /// The counters.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Stats {
        /// Connections that carry a program's data now.
        pub(super) sessions: gauge(connections);
        /// Connections that are ready and carry no data now.
        pub(super) spare: gauge(connections);
        /// Connections of others that have not said yet what they are for.
        pub(super) arriving: gauge(connections);
        /// Sessions opened for programs here.
        pub(super) sessions_opened: counter(sessions);
        /// Sessions opened on a connection that was ready.
        pub(super) opened_on_spare: counter(sessions);
        /// Sessions that others opened.
        pub(super) sessions_received: counter(sessions);
        /// Sessions that ended with all their data.
        pub(super) sessions_finished: counter(sessions);
        /// Sessions that broke off.
        pub(super) sessions_reset: counter(sessions);
        /// Sessions whose target's host had all that the client said, to the end, and the client's gateway was told.
        pub(super) closes_confirmed: counter(sessions);
        /// Sessions broken because the other gateway did not keep to the protocol.
        pub(super) protocol_errors: counter(sessions);
        /// Sessions refused by the far end.
        pub(super) sessions_refused: counter(sessions);
        /// Sessions refused here.
        pub(super) sessions_declined: counter(sessions);
        /// Sessions that did not come about here because their client's address had its share of all places.
        pub(super) sessions_over_share: counter(sessions);
        /// Attempts to connect to other gateways.
        pub(super) connects_tried: counter(connections);
        /// Attempts to connect to other gateways that failed.
        pub(super) connects_failed: counter(connections);
        /// Connections that ended unused.
        pub(super) spares_lost: counter(connections);
        /// Connections of strangers, refused.
        pub(super) strangers_refused: counter(connections);
        /// Connections of others without data, broken off in favour of newer ones.
        pub(super) arrivals_displaced: counter(connections);
        /// Connections of others without data, broken off for silence.
        pub(super) arrivals_silent: counter(connections);
        /// Connections that began with something else than an opening.
        pub(super) openings_malformed: counter(connections);
        /// Octets that programs here wrote.
        pub(super) octets_written: counter(octets);
        /// Octets that programs here were given.
        pub(super) octets_read: counter(octets);
    }
}

impl Stats {
    /// A link is at this stage no longer.
    pub fn forget(&mut self, stage: &Stage) {
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
