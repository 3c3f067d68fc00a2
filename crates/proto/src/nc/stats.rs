//! What a tunnel counts.

/// Counters of one tunnel. They only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Inner packets taken.
    pub packets_in: u64,
    /// Inner packets released.
    pub packets_out: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
}
