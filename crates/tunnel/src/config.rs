//! The configuration of a tunnel.

use std::time::Duration;

use crate::secure;

/// The parameters of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Octets of an outer IP packet that is believed to fit the path until it is known, 296 to 16 384:
    /// the search for the path MTU begins there, and goes below where this does not pass either.
    pub base_mtu: usize,
    /// Octets of an outer IP packet that the local interface takes; the search ends there, at 16 384 at
    /// most.
    pub max_mtu: usize,
    /// Octets that the driver adds to a datagram, [`secure::OUTER_V4`] unless it goes by IPv6.
    pub overhead: usize,
    /// How long after its first transmission a packet is recovered before it is given up.
    pub deadline: Duration,
    /// The delay after which the inner transport retransmits a packet: the minimum RTO of a TCP. The
    /// longer the round trip is in comparison, the more repairs are sent in advance.
    pub patience: Duration,
    /// The capacity of the queue over all flows, in octets.
    pub queue: usize,
    /// The most unacknowledged sources, 1 to 8 192.
    pub window: usize,
    /// The highest allowed outer rate in bit/s; `None` for no limit.
    pub max_rate: Option<f64>,
    /// Whether headers of inner packets are compressed, each way, if the peer does it too.
    pub compress_headers: bool,
    /// Whether datagrams carry the DSCP of the packets in them; then only packets of one DSCP share a datagram.
    pub copy_dscp: bool,
    /// The longest silence of a peer that was sent something, before the path counts as down.
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
            compress_headers: true,
            copy_dscp: false,
            dead_after: Duration::from_secs(10),
        }
    }
}
