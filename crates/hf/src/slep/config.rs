//! What can be set.

use std::net::IpAddr;
use std::time::Duration;

use crate::s5066::seal;
use crate::s5066::sis::{Mode, Sap, Service};

/// The parameters of a SLEP.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The access point, the same at every end.
    pub sap: Sap,
    /// How important it is to its node, 0 to 15.
    pub rank: u8,
    /// Octets of a U_PDU at most; less if the node says so.
    pub mtu: u16,
    /// Parts of a stream the other end may send ahead of the user's reading here.
    pub window: u16,
    /// Octets that the node has without having confirmed them: at least and at most.
    pub node_window: (usize, usize),
    /// How long the node's backlog may last: the node gets as many octets as it confirms in this time.
    pub horizon: Duration,
    /// Head start in octets: a stream that was idle sends this many before other streams of its priority.
    pub interactive: usize,
    /// What is kept at most.
    pub limits: Limits,
    /// How long is waited for what.
    pub times: Times,
    /// The group that other ends are to be members of; `None` for everybody.
    pub group: Option<seal::Config>,
}

/// What is kept at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Streams in all.
    pub streams: usize,
    /// Streams with one other node.
    pub streams_of_peer: usize,
    /// Other nodes that are remembered.
    pub peers: usize,
    /// Streams that are over and remembered, with one other node.
    pub closed: usize,
    /// Octets that a stream takes from its user before they are sent.
    pub unsent: usize,
    /// Octets of all streams waiting to be sent or to be acknowledged by the other end.
    pub sent: usize,
    /// Octets of all streams that arrived and were not read.
    pub received: usize,
    /// Octets from one other node that arrived before the first part of their stream.
    pub early: usize,
    /// Octets of datagrams: one limit for outgoing ones until sent or acknowledged, the same for received ones until
    /// taken.
    pub datagrams: usize,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// Without a word about a stream that is idle, until the other end is asked.
    pub keep_alive: Duration,
    /// Without a word about a stream that cannot go on without, until the other end is asked.
    pub ask_after: Duration,
    /// Without any sign of another node, until what waits for it is given up.
    pub give_up: Duration,
    /// How long what arrived before the first part of its stream is kept.
    pub early: Duration,
    /// Until another node that did not answer is tried again: at first and at most.
    pub retry: (Duration, Duration),
    /// Until a client that was refused or unbound tries again: at first and at most.
    pub rebind: (Duration, Duration),
}

impl Default for Config {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            sap: Sap::new(13),
            rank: 0,
            mtu: 2_048,
            window: 4_096,
            node_window: (4 << 10, 4 << 20),
            horizon: seconds(150),
            interactive: 4_096,
            limits: Limits {
                streams: 16_384,
                streams_of_peer: 16_384,
                peers: 1_024,
                closed: 1_024,
                unsent: 256 << 10,
                sent: 128 << 20,
                received: 64 << 20,
                early: 256 << 10,
                datagrams: 1 << 20,
            },
            times: Times {
                keep_alive: seconds(900),
                ask_after: seconds(120),
                give_up: seconds(900),
                early: seconds(300),
                retry: (seconds(5), seconds(120)),
                rebind: (seconds(1), seconds(60)),
            },
            group: None,
        }
    }
}

impl Config {
    /// What the client is bound with: acknowledged, as it arrives, confirmed by the node.
    pub(super) fn service(&self) -> Service {
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
