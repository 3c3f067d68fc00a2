//! Counters of an HF-PEP: connections, openings, datagrams, and flows of UDP.

use super::flows;

base::counters! {
    /// Counters of an HF-PEP since its start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Connections opened here.
        pub sessions_opened: counter(connections);
        /// Connections not opened: their source had three times as many as there were free places.
        pub sessions_over_share: counter(connections);
        /// Connections opened here whose stream was opened with data.
        pub opened_with_data: counter(connections);
        /// Connections opened here whose target the other end has confirmed before anything was said.
        pub sessions_confirmed: counter(connections);
        /// Streams whose other end said something else than an answer to the opening.
        pub answers_malformed: counter(streams);
        /// Connections that another end has opened.
        pub sessions_received: counter(connections);
        /// Connections that both ends have finished.
        pub sessions_finished: counter(connections);
        /// Connections that were broken off.
        pub sessions_reset: counter(connections);
        /// Streams that began with something else than an opening.
        pub openings_malformed: counter(streams);
        /// Streams whose opening was not there as a whole when a silent node would have been given up.
        pub openings_missing: counter(streams);
        /// Datagrams for nobody here: their extended address differs from the one for UDP flows.
        pub datagrams_unwanted: counter(datagrams);
        /// Connections there are.
        pub sessions: gauge(connections);
        /// Flows of UDP.
        pub flows: all flows::Stats;
    }
}
