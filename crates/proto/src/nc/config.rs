//! What can be set.

use std::time::Duration;

use crate::secure;

/// The parameters of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Octets of an outer IP packet that surely pass, 576 to 65 535: where the search for the path
    /// MTU begins.
    pub base_mtu: usize,
    /// Octets of an outer IP packet that the local interface takes; the search ends there.
    pub max_mtu: usize,
    /// Octets that the driver adds to a datagram, [`secure::OUTER_V4`] unless it goes by IPv6.
    pub overhead: usize,
    /// How long a packet is worth recovering after it was sent first; then it is given up.
    pub deadline: Duration,
    /// How much delay a packet bears before the transport inside sends it again: the least timeout
    /// of a TCP. The longer the round trip is beside it, the more is repaired in advance.
    pub patience: Duration,
    /// Octets that wait to be sent, at most, over all flows.
    pub queue: usize,
    /// Sources that may be unacknowledged at a time, 1 to 8 192.
    pub window: usize,
    /// Outer rate that is never exceeded, in bit/s; `None` to find it.
    pub max_rate: Option<f64>,
    /// How long a peer may be silent, though it was sent something, until the path is down.
    pub dead_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_mtu: 1_280,
            max_mtu: 1_500,
            overhead: secure::OUTER_V4,
            deadline: Duration::from_secs(2),
            patience: Duration::from_millis(200),
            queue: 8 << 20,
            window: 8_192,
            max_rate: None,
            dead_after: Duration::from_secs(10),
        }
    }
}
