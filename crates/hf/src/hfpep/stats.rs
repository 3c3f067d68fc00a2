//! Counters of an HF-PEP: connections, openings, datagrams, and flows of UDP.

use serde::Serialize;

use super::flows;

/// Counters of an HF-PEP since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Connections opened here.
    pub sessions_opened: u64,
    /// Connections not opened: their source had three times as many as there were free places.
    pub sessions_over_share: u64,
    /// Connections opened here whose stream was opened with data.
    pub opened_with_data: u64,
    /// Connections opened here whose target the other end has confirmed before anything was said.
    pub sessions_confirmed: u64,
    /// Streams whose other end said something else than an answer to the opening.
    pub answers_malformed: u64,
    /// Connections that another end has opened.
    pub sessions_received: u64,
    /// Connections that both ends have finished.
    pub sessions_finished: u64,
    /// Connections that were broken off.
    pub sessions_reset: u64,
    /// Streams that began with something else than an opening.
    pub openings_malformed: u64,
    /// Streams whose opening was not there as a whole when a silent node would have been given up.
    pub openings_missing: u64,
    /// Datagrams for nobody here: their extended address differs from the one for UDP flows.
    pub datagrams_unwanted: u64,
    /// Connections there are.
    pub sessions: u64,
    /// Flows of UDP.
    #[serde(flatten)]
    pub flows: flows::Stats,
}
