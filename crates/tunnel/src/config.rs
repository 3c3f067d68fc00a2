//! The configuration of a tunnel.

use std::time::Duration;

use base::parameter::Kind;

use crate::secure;

base::parameters! {
    /// Parameters of a tunnel to one peer.
    pub static PARAMETERS = "tunnel";

    /// The parameters of a tunnel.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from default() {
        /// The outer rate that is never exceeded; without, the tunnel finds out.
        // In bit/s.
        #[allowed(Kind::Rate { may_be_unlimited: false })]
        pub max_rate: Option<f64> = None;

        /// An outer packet that is believed to pass until the search for the path's MTU knows; it begins there, and
        /// goes below where this does not pass either.
        // Octets of an outer IP packet.
        #[allowed(Kind::count(576..=1_500).of("octets"))]
        pub base_mtu: usize = 1_280;

        /// How long a packet is worth recovering after it was sent first; without, the longer of 2 s and four round
        /// trips.
        #[allowed(Kind::period(Duration::from_millis(50)..=Duration::from_secs(60)))]
        pub deadline: Option<Duration> = None;

        /// How much delay a packet bears before the transport inside sends it again; the longer the round trip is
        /// beside it, the more is repaired in advance.
        // The minimum RTO of a TCP.
        #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(60)))]
        pub patience: Duration = Duration::from_millis(200);

        /// What waits to be sent, over all flows.
        #[allowed(Kind::count(65_536..=1 << 30).of("octets"))]
        pub queue: usize = 8 << 20;

        /// Whether headers of the packets inside are compressed, both ways, if the peer does it too.
        #[allowed(Kind::Flag)]
        pub compress_headers: bool = true;

        /// Whether the outer packets carry the DSCP of those inside, which shows it to everybody on the way.
        // Only packets of one DSCP then share a datagram.
        #[allowed(Kind::Flag)]
        pub copy_dscp: bool = false;

        /// How long the peer may be silent, though it was sent something, until the path is down.
        #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
        pub dead_after: Duration = Duration::from_secs(10);

        /// Octets of an outer IP packet that the local interface takes; the search ends there, at 16 384 at most.
        pub max_mtu: usize = 1_500;

        /// Octets that the driver adds to a datagram, [`secure::OUTER_V4`] unless it goes by IPv6.
        pub overhead: usize = secure::OUTER_V4;

        /// The most unacknowledged sources, 1 to 8 192.
        pub window: usize = 8_192;
    }
}

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}
