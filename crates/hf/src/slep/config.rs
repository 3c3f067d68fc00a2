//! What can be set.

use std::net::IpAddr;
use std::time::Duration;

use base::parameter::Kind;

use crate::s5066::seal;
use crate::s5066::sis::{Mode, Sap, Service};

base::parameters! {
    /// What users may set of SLEP.
    pub static PARAMETERS = "slep";

    /// The parameters of a SLEP.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from default() {
        /// The access point of both ends.
        #[allowed(Kind::count(0..=15))]
        pub sap: Sap = Sap::new(13);

        /// Against other clients of the same node: a higher rank takes the access point from a lower.
        #[allowed(Kind::count(0..=14))]
        pub rank: u8 = 0;

        /// The longest U_PDU; the node may say less.
        #[allowed(Kind::count(128..=2_048).of("octets"))]
        pub mtu: u16 = 2_048;

        /// How many of a stream may come before the user here has read the first.
        #[allowed(Kind::count(4..=16_384).of("U_PDUs"))]
        pub window: u16 = 4_096;

        /// The first octets of a stream that was idle, which go before others of its priority.
        #[allowed(Kind::count(0..=1_048_576).of("octets"))]
        pub interactive: usize = 4_096;

        /// What is kept at most.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub limits: flat struct Limits {
            /// Streams at a time.
            #[allowed(Kind::count(1..=1_000_000))]
            pub streams: usize = 16_384;

            /// Streams at a time with one other node.
            #[allowed(Kind::count(1..=32_768))]
            pub streams_of_peer: usize = 16_384;

            /// What a stream takes from its user before it is sent.
            #[allowed(Kind::count(4_096..=67_108_864).of("octets"))]
            pub unsent as "send-buffer": usize = 256 << 10;

            /// What waits in all streams to be sent, or for the other end to say that it has it.
            #[allowed(Kind::count(65_536..=4_294_967_296).of("octets"))]
            pub sent: usize = 128 << 20;

            /// What arrived in all streams and was not read; more is dropped and sent again.
            #[allowed(Kind::count(65_536..=4_294_967_296).of("octets"))]
            pub received: usize = 64 << 20;

            /// Other nodes that are remembered.
            pub peers: usize = 1_024;

            /// Streams that are over and remembered, with one other node.
            pub closed: usize = 1_024;

            /// Octets from one other node that arrived before the first part of their stream.
            pub early: usize = 256 << 10;

            /// Octets of datagrams: one limit for outgoing ones until sent or acknowledged, the same for received ones
            /// until taken.
            pub datagrams: usize = 1 << 20;
        }

        /// How long is waited for what.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub times: flat struct Times {
            /// How long a stream may be idle until the other end is asked whether it still has it.
            #[allowed(Kind::period(Duration::from_secs(10)..=LONGEST))]
            pub keep_alive: Duration = Duration::from_secs(900);

            /// How long a stream that needs a word of the other end waits until it asks; twice as long each time.
            #[allowed(Kind::period(Duration::from_secs(1)..=LONGEST))]
            pub ask_after: Duration = Duration::from_secs(120);

            /// How long without any sign of another node until what waits for it is given up.
            #[allowed(Kind::period(Duration::from_secs(10)..=LONGEST))]
            pub give_up: Duration = Duration::from_secs(900);

            /// Until another node that did not answer is tried again, at first; it doubles, up to 120 s.
            #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(120)))]
            "retry" at retry.0;

            /// How long what arrived before the first part of its stream is kept.
            pub early: Duration = Duration::from_secs(300);

            /// Until another node that did not answer is tried again: at first and at most.
            pub retry: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(120));

            /// Until a client that was refused or unbound tries again: at first and at most.
            pub rebind: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
        }

        /// Octets that the node has without having confirmed them: at least and at most.
        pub node_window: (usize, usize) = (4 << 10, 4 << 20);

        /// How long the node's backlog may last: the node gets as many octets as it confirms in this time.
        pub horizon: Duration = Duration::from_secs(150);

        /// The group that other ends are to be members of; `None` for everybody.
        pub group: Option<seal::Config> = None;
    }
}

impl Config {
    /// What the client is bound with: acknowledged, as it arrives, confirmed by the node.
    pub(crate) fn service(&self) -> Service {
        Service::of(Mode::Arq { in_order: false })
    }
}

/// Whose a stream is: sources of one priority take turns, however many streams each has, and none keeps
/// more octets than its share.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Source(pub u128);

impl Source {
    /// Nobody in particular: all such streams take turns like the streams of one source, without a share.
    pub const NOBODY: Self = Self(0);
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        })
    }
}

/// How a stream is carried in the direction away from here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// 0 to 15, the highest.
    pub priority: u8,
    /// How long a part may wait at the node before it is to be handed over again; `None` for ever.
    pub ttl: Option<Duration>,
    /// Whether to compress the stream where compression helps.
    pub is_compressed: bool,
    /// Whose it is.
    pub source: Source,
}

impl Default for Options {
    fn default() -> Self {
        Self { priority: 4, ttl: None, is_compressed: false, source: Source::NOBODY }
    }
}

/// A week: longer than any link is away.
const LONGEST: Duration = Duration::from_secs(604_800);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}
