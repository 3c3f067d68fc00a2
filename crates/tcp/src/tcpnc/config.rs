//! Configuration of the layer, with defaults.

use std::time::Duration;

/// The parameters of a layer; both ends may differ in all but the protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The IP protocol number of the layer's packets.
    pub protocol: u8,
    /// Combinations sent in addition to the ones of a coding window: the seed's k, at most 255.
    pub extra: usize,
    /// Packets of a coding window, the seed's n; `None` follows the loss rate.
    pub window: Option<usize>,
    /// The probability that a coding window is to survive with (the seed's 0.9), 0 to 1.
    pub target: f64,
    /// Packets of a coding window at most, 1 to 255.
    pub max_window: usize,
    /// The loss rate to expect before there is an estimate.
    pub initial_loss: f64,
    /// Transmissions over which the loss rate is taken, at least 1.
    pub period: u32,
    /// The gain of the loss rate's mean, 0 to 1.
    pub gain: f64,
    /// Whether one retransmission of TCP's repairs all packets known to be missing (TCP/NCwER), or
    /// only itself.
    pub enhanced_retransmission: bool,
    /// The target probability that a repair brings all missing packets, 0 to 1; with 0 as many combinations are sent as
    /// packets are missing.
    pub repair_target: f64,
    /// Combinations sent at once for what is missing from one coding window, at most; at least 1.
    pub max_burst: usize,
    /// A coding window is closed early when TCP sends nothing new for so long.
    pub flush_after: Duration,
    /// Whether TCP gets an acknowledgement for every arrival, as in the paper, where unneeded redundancy then looks
    /// like duplicates, or only for arrivals that leave a packet unseen.
    pub acknowledges_redundancy: bool,
    /// Packets held for coding and for decoding, at most, each; more than twice `max_window`, up
    /// to 32,768.
    pub max_packets: usize,
    /// Octets held for decoding, at most; more than TCP's receive buffer and a coding window.
    pub receive_buffer: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            protocol: super::PROTOCOL,
            extra: 3,
            window: None,
            target: 0.9,
            max_window: 100,
            initial_loss: 0.1,
            period: 100,
            gain: 0.25,
            enhanced_retransmission: true,
            repair_target: 0.9,
            max_burst: 32,
            flush_after: Duration::from_millis(100),
            acknowledges_redundancy: false,
            max_packets: 1_024,
            receive_buffer: 1 << 20,
        }
    }
}
