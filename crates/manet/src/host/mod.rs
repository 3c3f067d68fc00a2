//! The node around a routing protocol: its table, packets waiting for a route, half tunnels, and routes in use.
//!
//! ```text
//!                       ┌──────────────────────── Host ───────────────────────┐
//!  no route ───────────▶│ own? ─▶ Waiting ─▶ found, or refused                │─▶ poll_event
//!  a message ──────────▶│ ours? ─▶ ┌────────┐ ─▶ possible? ─▶ Table           │
//!  packets that left ──▶│ whose? ─▶│ Router │                                │─▶ poll_transmit
//!  not delivered ──────▶│ ────────▶└────────┘    encapsulate, decapsulate     │
//!                       └─────────────────────────────────────────────────────┘
//! ```
//!
//! A driver (a node of the simulator, `trackway run`) brings packets and messages, and writes routes into its
//! forwarding table. All that can be decided without a kernel or a simulated medium is decided here, once for both.

mod path_mtu;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use base::counter::Counter;
use base::ip::icmp;
use base::ip::{FlowKey, Header, Prefix, minimal, protocol};
use base::time::{Time, earliest};
use path_mtu::PathMtus;
use table::Table;

use crate::waiting::{self, Waiting};
use crate::{
    Arrival, Carrier, Demand, Interface, Neighbour, Notice, Passage, Route, Router, Sending,
    is_host,
};

/// Configuration of a host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Config {
    /// Limits of the queue for packets without a route; without room for packets none waits.
    pub waiting: waiting::Config,
    /// The addresses of the network's nodes, if they are known.
    pub manet: Option<Prefix>,
    /// Whether others reach the Internet by this node: what comes from outside of the network is the node's own.
    pub is_gateway: bool,
    /// Whether a packet handed in for lack of a route may have a route by now: the driver sets its forwarding table
    /// while packets are on their way here.
    pub may_be_late: bool,
    /// Whether a packet of this node's own that the link layer could not deliver is dropped, and not routed again.
    pub drops_unsent: bool,
}

/// How a packet came to this node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// It is the node's own, or comes from outside of the network.
    Own,
    /// This neighbour sent it.
    Neighbour(Neighbour),
    /// Nobody knows: it is the node's own if its source is.
    Unknown,
}

/// What becomes of a packet without a route.
#[derive(Debug, Eq, PartialEq)]
pub enum Outcome<P> {
    /// It has a route, and was late only.
    Found(P, Route),
    /// It waits for a route.
    Held,
    /// It goes to no single host, or the protocol has no interface: it is dropped.
    Malformed(P),
    /// The packet's route is broken: the packet is dropped, and the sender told.
    Unreachable(P),
}

/// What the driver should know.
#[derive(Debug, Eq, PartialEq)]
pub enum Event<P> {
    /// A packet that waited was dropped to make room for others.
    Evicted(P),
    /// A packet that waited has a route.
    Found(P, Route),
    /// An operator should know this.
    Notice(Notice),
    /// The route to a prefix is this one from now on, or there is none any more.
    Route(Prefix, Option<Route>),
    /// No route was found for a packet in time: the packet is dropped, and the sender told.
    Unreachable(P),
}

/// Why a packet does not enter a half tunnel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotEncapsulated {
    /// The packet is too long for the path to the gateway: the sender is told.
    #[error("only {mtu} octets fit")]
    TooBig {
        /// Octets that fit.
        mtu: usize,
    },
    /// Half tunnels cannot carry the packet, for example a fragment.
    #[error("it is not possible")]
    Impossible,
}

base::counters! {
    /// Counters of what a node does for its routing protocol; the protocol has its own counters.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// The protocol's messages and routes.
        pub messages: struct Messages {
            /// Messages of the routing protocol received.
            pub messages_received: counter(messages);
            /// Our own messages received back.
            pub messages_own: counter(messages);
            /// Routes to no hosts: loopback, groups, broadcast.
            pub routes_forbidden: counter(routes);
        }
        /// Packets without a route.
        pub demands: struct Demands {
            /// Packets without a route.
            pub demands: counter(packets);
            /// Of those, packets of others: their way here is broken.
            pub demands_in_transit: counter(packets);
            /// Dropped: no IPv4, or to nobody in particular.
            pub demands_malformed: counter(packets);
            /// Packets in vain: no route was found, or too late.
            pub packets_unreachable: counter(packets);
            /// Dropped: too many waited.
            pub packets_evicted: counter(packets);
            /// Packets to the Internet, sent to the gateway in a half tunnel.
            pub packets_encapsulated: counter(packets);
            /// Dropped: fragments, which a half tunnel does not take.
            pub packets_not_encapsulated: counter(packets);
            /// Dropped: too long for a half tunnel; their senders are told.
            pub packets_too_big: counter(packets);
            /// Pairs of addresses whose packets keep routes in use.
            pub passages: counter(addresses);
        }
        /// Half tunnels that begin here.
        pub inlet: struct Inlet {
            /// Errors of routers: a packet in a half tunnel was too long for them.
            pub half_tunnels_narrowed: counter(messages);
        }
        /// Half tunnels that end here.
        pub outlet: struct Outlet {
            /// Packets taken out of half tunnels.
            pub packets_decapsulated: counter(packets);
            /// Dropped: no such packet, or damaged.
            pub packets_not_decapsulated: counter(packets);
            /// Dropped: from a host outside the MANET, or to a host inside.
            pub packets_misdirected: counter(packets);
            /// Dropped: their source is an address of this gateway.
            pub packets_from_self: counter(packets);
        }
    }
}

/// A routing protocol on a node, with packets waiting for routes: a core in the sense of [`base::contract`].
///
/// - Facts in: `handle_*`.
/// - Decisions out: [`poll_event`](Self::poll_event), then [`poll_transmit`](Self::poll_transmit) for each interface
///   that has room. [`encapsulate`](Self::encapsulate) and [`decapsulate`](Self::decapsulate) change packets in place.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
#[derive(Debug)]
pub struct Host<P> {
    router: Box<dyn Router>,
    config: Config,
    /// The interfaces that the protocol uses: our address and the MTU.
    interfaces: BTreeMap<usize, (Ipv4Addr, usize)>,
    /// All addresses of this host.
    own: BTreeSet<IpAddr>,
    table: Table,
    waiting: Waiting<P>,
    paths: PathMtus,
    events: VecDeque<Event<P>>,
    stats: Stats,
}

impl<P> Host<P> {
    /// A node without interfaces.
    #[must_use]
    pub fn new(router: Box<dyn Router>, config: Config) -> Self {
        Self {
            router,
            config,
            interfaces: BTreeMap::new(),
            own: BTreeSet::new(),
            table: Table::default(),
            waiting: Waiting::new(config.waiting),
            paths: PathMtus::default(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes all addresses of this host, on whatever interface.
    pub fn handle_addresses(&mut self, own: BTreeSet<IpAddr>) {
        self.own = own;
    }

    /// Takes our address on an interface that the protocol uses, and the octets of the longest packet there; `None`
    /// while the interface is down or gone.
    pub fn handle_interface(
        &mut self,
        now: Time,
        index: usize,
        interface: Option<(Ipv4Addr, usize)>,
    ) {
        match interface {
            Some((address, mtu)) => {
                self.interfaces.insert(index, (address, mtu));
                let room = mtu.saturating_sub(self.router.carrier().headers());
                self.router.handle_interface(now, index, Some(&Interface { address, room }));
            }
            None => {
                self.interfaces.remove(&index);
                self.router.handle_interface(now, index, None);
            }
        }
        self.take_events();
    }

    /// Learns which attached networks this node reaches now.
    pub fn handle_attached(&mut self, now: Time, reached: &[Prefix]) {
        self.router.handle_attached(now, reached);
        self.take_events();
    }

    /// Takes a message that a neighbour sent.
    pub fn handle_message(&mut self, now: Time, arrival: &Arrival, message: &[u8]) {
        if self.interfaces.values().any(|(own, _)| *own == arrival.from.address) {
            self.stats.messages.messages_own += 1;
            return;
        }
        self.stats.messages.messages_received += 1;
        self.router.handle_message(now, arrival, message);
        self.take_events();
    }

    /// Takes a packet of this many octets without a route: an own packet waits for one.
    pub fn handle_unrouted(
        &mut self,
        now: Time,
        header: &Header,
        origin: Origin,
        octets: usize,
        packet: P,
    ) -> Outcome<P> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (header.source, header.destination)
        else {
            self.stats.demands.demands_malformed += 1;
            return Outcome::Malformed(packet);
        };
        if !is_host(destination) || self.interfaces.is_empty() {
            self.stats.demands.demands_malformed += 1;
            return Outcome::Malformed(packet);
        }
        self.stats.demands.demands += 1;
        let is_own = self.is_own(origin, source);
        if self.config.may_be_late
            && let Some(route) = self.table.find(destination)
            && (is_own || route.gateway.is_none())
        {
            return Outcome::Found(packet, route);
        }
        if is_own {
            for (_, evicted) in self.waiting.push(now, destination, octets, packet) {
                self.stats.demands.packets_evicted += 1;
                self.events.push_back(Event::Evicted(evicted));
            }
            self.router.handle_demand(now, &Demand { destination, from: None });
            self.take_events();
            return Outcome::Held;
        }
        self.stats.demands.demands_in_transit += 1;
        let senders = match (origin, self.table.find(source)) {
            (Origin::Neighbour(from), _) => vec![from],
            // The way back to the sender begins with the neighbour that sent the packet here.
            (Origin::Own | Origin::Unknown, Some(back)) => vec![back.next],
            (Origin::Own | Origin::Unknown, None) => {
                self.interfaces.keys().map(|&interface| everybody(interface)).collect()
            }
        };
        for from in senders {
            self.router.handle_demand(now, &Demand { destination, from: Some(from) });
        }
        self.take_events();
        Outcome::Unreachable(packet)
    }

    /// Learns that a packet leaves, or left a moment ago, which keeps the packet's routes. `next` is the next hop, if
    /// known.
    pub fn handle_passage(
        &mut self,
        now: Time,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        origin: Origin,
        next: Option<Neighbour>,
    ) {
        let route = || self.table.find(destination).map(|route| route.next);
        let Some(next) = next.or_else(route) else { return };
        self.stats.demands.passages += 1;
        let from = match origin {
            Origin::Neighbour(from) => Some(from),
            // The way to the sender is the way from it: routes on demand are made both ways at once.
            Origin::Unknown if !self.is_own(origin, source) => {
                self.table.find(source).map(|back| back.next)
            }
            Origin::Own | Origin::Unknown => None,
        };
        self.router.handle_passage(now, &Passage { source, destination, from, next });
        self.take_events();
    }

    /// Learns that a neighbour does not answer, or that the link layer could not deliver a packet there.
    pub fn handle_break(&mut self, now: Time, neighbour: Neighbour) {
        self.router.handle_break(now, neighbour);
        self.take_events();
    }

    /// Takes a packet that the link layer could not bring to a neighbour; returns whether it is to be routed again.
    ///
    /// Messages of the protocol are not routed again, because the protocol sends newer ones. Neither are packets of
    /// other nodes, because the break is reported to their senders.
    pub fn handle_unsent(&mut self, packet: &mut Vec<u8>) -> bool {
        let Ok(header) = Header::parse(packet) else { return false };
        let is_own = self.is_local(header.source) && !self.is_message(&header, packet);
        if !is_own || self.config.drops_unsent {
            return false;
        }
        if header.protocol == protocol::MINIMAL {
            // Another gateway may be found.
            let _ = minimal::decapsulate(packet);
        }
        true
    }

    /// Takes an ICMP error about a packet of `octets` octets in flow `flow`; false if the flow is no half tunnel of
    /// this node.
    pub fn handle_error(
        &mut self,
        now: Time,
        flow: &FlowKey,
        octets: usize,
        error: Option<icmp::Error>,
    ) -> bool {
        let IpAddr::V4(gateway) = flow.destination else { return false };
        if flow.protocol != protocol::MINIMAL || !self.is_local(flow.source) {
            return false;
        }
        if let Some(icmp::Error::TooBig { mtu }) = error {
            self.stats.inlet.half_tunnels_narrowed += 1;
            self.paths.handle_too_big(now, gateway, octets, mtu.into());
        }
        true
    }

    /// Acts on deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.router.handle_timeout(now);
        let expired = self.waiting.expire(now);
        self.refuse(expired.into_iter().map(|(_, packet)| packet).collect());
        self.take_events();
    }

    /// Puts a packet into the half tunnel to `gateway`, which begins with an interface of this `mtu`.
    ///
    /// # Errors
    /// When the packet does not fit, or may not be carried so.
    pub fn encapsulate(
        &mut self,
        now: Time,
        packet: &mut Vec<u8>,
        gateway: Ipv4Addr,
        mtu: usize,
    ) -> Result<(), NotEncapsulated> {
        let mtu = self.paths.mtu(now, gateway, mtu).saturating_sub(minimal::OVERHEAD);
        if packet.len() > mtu {
            self.stats.demands.packets_too_big += 1;
            return Err(NotEncapsulated::TooBig { mtu });
        }
        if minimal::encapsulate(packet, gateway).is_err() {
            self.stats.demands.packets_not_encapsulated += 1;
            return Err(NotEncapsulated::Impossible);
        }
        self.stats.demands.packets_encapsulated += 1;
        Ok(())
    }

    /// Takes a packet out of the half tunnel that ends here; false if it is to be dropped, which is counted.
    #[must_use]
    pub fn decapsulate(&mut self, packet: &mut Vec<u8>) -> bool {
        let outlet = &mut self.stats.outlet;
        let inner = minimal::decapsulate(packet).ok().and_then(|()| Header::parse(packet).ok());
        let Some(header) = inner else {
            outlet.packets_not_decapsulated += 1;
            return false;
        };
        if !is_outward(self.config.manet, &header) {
            outlet.packets_misdirected += 1;
            return false;
        }
        // A kernel would mistake a packet from an address of this host for its own.
        if self.own.contains(&header.source) {
            outlet.packets_from_self += 1;
            return false;
        }
        outlet.packets_decapsulated += 1;
        true
    }

    /// What the driver should know; ask until `None`.
    pub fn poll_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front()
    }

    /// Writes the next message for an interface that has room to `out`; whom it is for.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        interface: usize,
        out: &mut Vec<u8>,
    ) -> Option<Sending> {
        self.router.poll_transmit(now, interface, out)
    }

    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.router.next_timeout(), self.waiting.next_timeout())
    }

    /// The protocol.
    #[must_use]
    pub fn router(&self) -> &dyn Router {
        &*self.router
    }

    /// The carrier of the protocol's messages.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.router.carrier()
    }

    /// The interfaces that the protocol uses, with our address and the MTU.
    pub fn interfaces(&self) -> impl Iterator<Item = (usize, Ipv4Addr, usize)> {
        self.interfaces.iter().map(|(&index, &(address, mtu))| (index, address, mtu))
    }

    /// The route that packets to an address take: the one with the longest prefix.
    #[must_use]
    pub fn route(&self, destination: Ipv4Addr) -> Option<Route> {
        self.table.find(destination)
    }

    /// The gateway that packets to an address are sent to in a half tunnel; what goes to the gateway itself needs none.
    #[must_use]
    pub fn gateway(&self, destination: IpAddr) -> Option<Ipv4Addr> {
        let IpAddr::V4(destination) = destination else { return None };
        self.table.find(destination)?.gateway.filter(|gateway| *gateway != destination)
    }

    /// Whether any route leads through a gateway.
    #[must_use]
    pub fn has_gateways(&self) -> bool {
        self.table.has_gateways()
    }

    /// All routes, in the order of their addresses.
    #[must_use]
    pub fn routes(&self) -> Vec<(Prefix, Route)> {
        self.table.routes()
    }

    /// Whether a packet is a message of the protocol.
    #[must_use]
    pub fn is_message(&self, header: &Header, packet: &[u8]) -> bool {
        let payload = packet.get(header.len..).unwrap_or_default();
        header.is_v4()
            && !header.is_later_fragment()
            && self.carrier().carries(header.protocol, payload)
    }

    /// Whether an address is this host's.
    #[must_use]
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    /// How many packets wait for a route.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many packets have waited for too long.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.waiting.stats().expired
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The protocol's own counters.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static Counter, u64)> {
        self.router.counters()
    }

    /// Whether a packet enters the network at this node.
    fn is_own(&self, origin: Origin, source: Ipv4Addr) -> bool {
        let source = IpAddr::V4(source);
        let is_outside = || self.config.manet.is_none_or(|manet| !manet.contains(source));
        match origin {
            Origin::Own => true,
            Origin::Neighbour(_) => false,
            Origin::Unknown => self.is_local(source) || (self.config.is_gateway && is_outside()),
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.router.poll_event() {
            match event {
                crate::Event::Route(prefix, route) => self.take_route(prefix, route),
                crate::Event::Unreachable(destination) => {
                    let packets = self.waiting.take(destination);
                    self.refuse(packets);
                }
                crate::Event::Notice(notice) => self.events.push_back(Event::Notice(notice)),
            }
        }
    }

    fn take_route(&mut self, prefix: Prefix, route: Option<Route>) {
        if !is_routable(prefix) {
            self.stats.messages.routes_forbidden += 1;
            return;
        }
        if self.table.set(prefix, route) == route {
            return;
        }
        self.events.push_back(Event::Route(prefix, route));
        if route.is_none() {
            return;
        }
        let concerned = |address: &Ipv4Addr| prefix.contains(IpAddr::V4(*address));
        let found: Vec<_> = self.waiting.destinations().filter(concerned).collect();
        for destination in found {
            let Some(route) = self.table.find(destination) else { continue };
            let packets = self.waiting.take(destination).into_iter();
            self.events.extend(packets.map(|packet| Event::Found(packet, route)));
        }
    }

    fn refuse(&mut self, packets: Vec<P>) {
        self.stats.demands.packets_unreachable += packets.len() as u64;
        self.events.extend(packets.into_iter().map(Event::Unreachable));
    }
}

impl Carrier {
    /// Whether the payload of an IP packet is a message that is carried so.
    #[must_use]
    pub fn carries(self, protocol: u8, payload: &[u8]) -> bool {
        match self {
            Self::Ip(own) => protocol == own,
            Self::Udp(port) => {
                let ports = payload.first_chunk::<4>();
                protocol == protocol::UDP
                    && ports.is_some_and(|&[_, _, a, b]| u16::from_be_bytes([a, b]) == port)
            }
        }
    }
}

/// Stands for all neighbours on an interface, as the sender of a packet from an unknown neighbour.
fn everybody(interface: usize) -> Neighbour {
    Neighbour { interface, address: Ipv4Addr::BROADCAST }
}

/// Whether a network may contain hosts: neighbours' routes must not lead this host's own packets away.
fn is_routable(prefix: Prefix) -> bool {
    let IpAddr::V4(address) = prefix.network().address() else { return false };
    let is_everything = prefix.bits() == 0;
    is_everything || matches!(address.octets()[0], 1..=126 | 128..=223)
}

/// Whether a packet goes from a node of the network to a host that is none; if nobody knows the nodes, to any host.
fn is_outward(manet: Option<Prefix>, header: &Header) -> bool {
    let IpAddr::V4(destination) = header.destination else { return false };
    let is_between = manet
        .is_none_or(|manet| manet.contains(header.source) && !manet.contains(header.destination));
    is_between && is_host(destination)
}
