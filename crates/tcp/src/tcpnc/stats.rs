//! Counters of the layer.

/// Counters of a layer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Segments of TCP's that carried new octets and were taken for coding.
    pub segments: u64,
    /// Segments of our TCP with octets sent before.
    pub segments_again: u64,
    /// Segments of TCP's dropped because too many packets were held.
    pub full: u64,
    /// Combinations sent, all kinds.
    pub combinations_sent: u64,
    /// Combinations sent after a coding window, for redundancy.
    pub redundant_sent: u64,
    /// Combinations sent because TCP sent again.
    pub resent: u64,
    /// Retransmissions of TCP's at which packets known to be missing were resent together.
    pub repairs: u64,
    /// Coding windows closed early.
    pub flushes: u64,
    /// Combinations received, all kinds.
    pub combinations_received: u64,
    /// Combinations received that told nothing new.
    pub dependent: u64,
    /// Combinations received outside the range that the decoder can hold.
    pub refused: u64,
    /// Packets decoded and given to TCP.
    pub delivered: u64,
    /// Packets decoded that have no length a packet can have.
    pub undecodable: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Acknowledgements received.
    pub acks_received: u64,
    /// Acknowledgements received of data never sent, or with impossible runs.
    pub bad_acks: u64,
    /// Acknowledgements received that others overtook.
    pub stale_acks: u64,
    /// TCP's own acknowledgements that went no further.
    pub acks_swallowed: u64,
}
