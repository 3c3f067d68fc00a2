//! A node's HBH: its peers, their flows, and the links that lead to them.

use std::net::IpAddr;

use super::config::Config;
use crate::rng::Rng;
use crate::time::Time;

/// A neighbour that speaks HBH, numbered by the driver.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Peer(pub u32);

/// A link that leads to one or more peers, numbered by the driver.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Link(pub u32);

/// What the driver knows of a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerConfig {
    /// The link that leads there.
    pub link: Link,
    /// Our address on that link, the source of acknowledgements.
    pub local: IpAddr,
    /// The peer's address, their destination; of the same version.
    pub remote: IpAddr,
    /// Octets of the longest IP packet that the link carries.
    pub mtu: usize,
}

/// What a packet brings along from hop to hop.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Carried {
    /// Retries left for the rest of the path; `None` at the ingress.
    pub budget: Option<u8>,
}

/// Why HBH did not take a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The queue towards the peer is full: the packet is dropped.
    #[error("the queue is full")]
    Full,
    /// No IP packet.
    #[error("not an IP packet: {0}")]
    Malformed(#[from] crate::ip::Malformed),
    /// Longer than the link carries with HBH's header: its sender is to be told this MTU.
    #[error("longer than {mtu} octets")]
    TooBig {
        /// Octets that fit.
        mtu: usize,
    },
    /// No such peer.
    #[error("unknown peer")]
    UnknownPeer,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The peer asks to slow down for a flow.
    Congested(Peer),
}

/// What happened, counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Data messages transmitted, repeats included.
    pub data_sent: u64,
    /// Data messages that were repeats.
    pub data_repeated: u64,
    /// Packets that carried nothing but acknowledgements.
    pub acks_sent: u64,
}

/// A node's HBH.
#[derive(Debug)]
pub struct Hop {
    config: Config,
    stats: Stats,
}

impl Hop {
    /// A node without peers.
    #[must_use]
    pub fn new(config: Config, _rng: Rng) -> Self {
        Self { config, stats: Stats::default() }
    }

    /// Adds a neighbour that speaks HBH, or changes what is known of it.
    pub fn add_peer(&mut self, _now: Time, _peer: Peer, _config: PeerConfig) {}

    /// Forgets a neighbour and hands back, one call of `orphan` each and oldest first, the packets
    /// that it has not acknowledged, so that they can take another way.
    pub fn remove_peer(&mut self, _now: Time, _peer: Peer, _orphan: impl FnMut(&[u8], Carried)) {}

    /// Takes the packets of one destination back from `peer`, for a route that changed.
    ///
    /// `orphan` gets those not acknowledged whose destination `is_moved`.
    pub fn reroute(
        &mut self,
        _now: Time,
        _peer: Peer,
        _is_moved: impl Fn(IpAddr) -> bool,
        _orphan: impl FnMut(&[u8], Carried),
    ) {
    }

    /// Takes an IP packet whose next hop is `peer`; its TTL is already decremented.
    ///
    /// # Errors
    /// When the packet was not taken.
    pub fn handle_packet(
        &mut self,
        _now: Time,
        _peer: Peer,
        _packet: &[u8],
        _carried: Carried,
    ) -> Result<(), Refused> {
        Err(Refused::UnknownPeer)
    }

    /// Takes an HBH packet (an IP packet of our protocol) that `peer` sent.
    ///
    /// When it brings a packet that is new, `out` is that packet, restored, and what it carries is
    /// returned; the driver routes it on.
    pub fn handle_message(
        &mut self,
        _now: Time,
        _peer: Peer,
        _packet: &[u8],
        _out: &mut Vec<u8>,
    ) -> Option<Carried> {
        None
    }

    /// Takes a restored packet for which this node is the last hop.
    pub fn handle_egress(&mut self, _now: Time, _packet: &[u8]) {}

    /// Writes to `out` the next packet that leaves HBH here; false when there is none yet.
    #[must_use]
    pub fn poll_egress(&mut self, _now: Time, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Writes to `out` the next IP packet to send over `link`, and returns whom it is for.
    ///
    /// The choice is made now, so ask only while the link has room.
    #[must_use]
    pub fn poll_transmit(&mut self, _now: Time, _link: Link, _out: &mut Vec<u8>) -> Option<Peer> {
        None
    }

    /// What the driver should know; ask until `None`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, _now: Time) {}

    /// The parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}
