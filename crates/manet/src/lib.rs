//! Routing protocols for IPv4: for mobile ad hoc networks, and for point-to-point links.
//!
//! ```text
//!            handle_demand (no route)               poll_transmit (a message)
//!  IP stack ─────────────────────────▶  ┌────────┐ ─────────────────────────▶  link
//!           ─ handle_passage ────────▶  │ Router │ ◀─────────────────────────
//!           ◀─────────────────────────  └────────┘   handle_message, handle_break
//!            poll_event: routes to set
//! ```
//!
//! One trait covers all protocols, so that a driver (a node of the simulator, `trackway run`) names none of them. A
//! [`host::Host`] is a protocol with what a node does for it: packets that wait for a route, half tunnels, routes in
//! use. The driver sends messages by their carrier, and writes routes into its forwarding table.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

pub mod aodv;
pub mod dsdv;
mod events;
pub mod host;
pub mod olsr;
pub mod ospf;
pub mod waiting;

use std::fmt::Debug;
use std::net::Ipv4Addr;

use base::counter::Counter;
use base::ip::{Prefix, V4_HEADER, udp};
use base::time::Time;

/// A routing protocol on a node. It keeps the [`contract`](base::contract).
///
/// After any `handle_*` the driver polls events, then transmits on each interface that has room.
pub trait Router: Debug + Send {
    /// The carrier of the protocol's messages.
    fn carrier(&self) -> Carrier;

    /// Handles an interface that is new or has changed. `None` while the interface is down or gone; routes through it
    /// end then.
    fn handle_interface(&mut self, now: Time, index: usize, interface: Option<&Interface>);

    /// Handles a message from a neighbour.
    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]);

    /// Handles a packet without a route. A protocol that finds routes on demand searches for one if the packet is the
    /// node's own, and otherwise reports the missing route to the neighbour.
    fn handle_demand(&mut self, _now: Time, _demand: &Demand) {}

    /// Reports that a packet leaves by a route of the protocol: routes in use stay.
    fn handle_passage(&mut self, _now: Time, _passage: &Passage) {}

    /// Learns that the link layer could not bring a packet to a neighbour.
    fn handle_break(&mut self, now: Time, neighbour: Neighbour);

    /// Learns which attached networks, among the configured ones, this node can reach now. The others are not
    /// announced, and packets to them follow routes of other nodes. Before the first call all count as reached.
    fn handle_attached(&mut self, _now: Time, _reached: &[Prefix]) {}

    /// Acts on deadlines that have passed.
    fn handle_timeout(&mut self, now: Time);

    /// The next thing that the driver should know.
    fn poll_event(&mut self) -> Option<Event>;

    /// Writes the next message for an interface that has room to `out`; whom it is for.
    fn poll_transmit(&mut self, now: Time, interface: usize, out: &mut Vec<u8>) -> Option<Sending>;

    /// When to call `handle_timeout` at the latest.
    fn next_timeout(&self) -> Option<Time>;

    /// The routes given to the driver, ordered by prefix.
    fn routes(&self) -> Vec<(Prefix, Route)>;

    /// Its counters, for reports and metrics.
    fn counters(&self) -> Vec<(&'static Counter, u64)>;
}

/// The carrier of a routing protocol's messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    /// IP itself, as this protocol.
    Ip(u8),
    /// UDP, from this port to the same.
    Udp(u16),
}

/// An interface that a routing protocol runs on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its address there.
    pub address: Ipv4Addr,
    /// Octets of the longest message in one packet on the interface.
    pub room: usize,
}

/// A neighbour on an interface.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Neighbour {
    /// The index of the interface.
    pub interface: usize,
    /// The neighbour's address there.
    pub address: Ipv4Addr,
}

/// How a message came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// The neighbour that sent it: the IP source.
    pub from: Neighbour,
    /// Whether it was sent to one node and not to all.
    pub is_unicast: bool,
    /// The TTL in its IP header, as received.
    pub ttl: u8,
}

impl Carrier {
    /// Octets of all headers before a message, IP included.
    #[must_use]
    pub const fn headers(self) -> usize {
        match self {
            Self::Ip(_) => V4_HEADER,
            Self::Udp(_) => V4_HEADER + udp::HEADER,
        }
    }

    /// The UDP port, where UDP carries them.
    #[must_use]
    pub const fn port(self) -> Option<u16> {
        match self {
            Self::Ip(_) => None,
            Self::Udp(port) => Some(port),
        }
    }
}

/// Whom a message is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sending {
    /// The destination: a neighbour's address, or a common one, 255.255.255.255 or a group's.
    pub to: Ipv4Addr,
    /// TTL of the IP header.
    pub ttl: u8,
}

/// A packet without a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Demand {
    /// Its destination.
    pub destination: Ipv4Addr,
    /// The neighbour that sent the packet for forwarding; `None` if the packet is the node's own.
    pub from: Option<Neighbour>,
}

/// A packet that leaves by a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Passage {
    /// Its source address.
    pub source: Ipv4Addr,
    /// Its destination address.
    pub destination: Ipv4Addr,
    /// The neighbour that sent it; `None` if it is the node's own.
    pub from: Option<Neighbour>,
    /// The neighbour to send to.
    pub next: Neighbour,
}

/// What a driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The route to a prefix is this one from now on, or there is none any more.
    Route(Prefix, Option<Route>),
    /// No route to this destination was found: packets that wait for one are to be dropped, and
    /// their senders told.
    Unreachable(Ipv4Addr),
    /// An operator should know this.
    Notice(Notice),
}

/// News about other nodes, for an operator.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Notice {
    /// Another node uses our address, or forges messages in our name; a neighbour passed such a message on.
    AddressDisputed {
        /// Our address.
        address: Ipv4Addr,
        /// The neighbour that sent the message.
        from: Neighbour,
    },
    /// Parts of a message could not be read and were skipped. The rest counts, and other nodes get the message
    /// unchanged.
    Unreadable {
        /// The neighbour that sent the message.
        from: Neighbour,
        /// The node that wrote it.
        originator: Ipv4Addr,
    },
}

/// Where packets to a prefix go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// The next hop.
    pub next: Neighbour,
    /// Hops to the destination, or to the gateway.
    pub hops: u8,
    /// The gateway through which the destination is reached in a half tunnel: the source sends
    /// packets to the gateway in minimal encapsulation (RFC 2004).
    pub gateway: Option<Ipv4Addr>,
}

/// Whether the address can belong to one host.
fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_loopback())
}
