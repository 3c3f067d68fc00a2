//! A routing protocol in a node: exchanges messages with neighbours and sets the node's routes.
//!
//! ```text
//!  Prerouting ─ one of its messages ─▶ handle_message  poll_transmit ─▶ queue of the interface
//!  Unrouted ─▶ handle_demand, own packets wait        poll_event ─▶ poll_route ─▶ forwarding table
//!  handle_break ─▶ handle_break                                  └▶ those that waited go on
//!  Postrouting ─ route has a gateway ─▶ half tunnel ─▶ Input at the gateway ─▶ routed on
//! ```

mod carriage;
mod config;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use base::ip::icmp::Error;
use base::ip::{FlowKey, Header, Prefix, minimal, protocol};
use base::time::{Time, earliest};
use carriage::{emit, is_carried_by, set_ttl};
use manet::path_mtu::PathMtus;
use manet::waiting::Waiting;
use manet::{Arrival, Demand, Event, Interface, Neighbour, Router, Sending};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    Attachment, Hook, LinkFeedback, Origin, Passage, RouteChange, RouteFinder, Service,
    ServiceReport, Verdict, Way,
};
use crate::counters::Class;
use crate::engine::{Engine, PacketId, is_for_all};
use crate::ids::PortId;
use crate::medium::LinkAddress;
use crate::node::stack::too_big;
pub use config::{RoutingConfig, RoutingCounters, RoutingOptions, RoutingProtocol, Unsent};

/// A routing protocol and what the node does for it.
#[derive(Debug)]
pub struct Routing {
    router: Box<dyn Router>,
    options: RoutingOptions,
    /// Ports on which the protocol runs.
    ports: Vec<PortId>,
    /// The address and MTU of each such port that is up, by interface index.
    interfaces: BTreeMap<usize, (Ipv4Addr, usize)>,
    /// All addresses of the node on its other interfaces, too.
    addresses: BTreeMap<usize, Vec<IpAddr>>,
    /// Ports at the other ends of the node's links: what comes from there is not the network's.
    outside: BTreeSet<PortId>,
    /// The neighbours that have sent messages, by their ports.
    names: BTreeMap<PortId, Neighbour>,
    waiting: Waiting<PacketId>,
    /// Prefixes that are reached through gateways.
    tunnels: BTreeMap<Prefix, Ipv4Addr>,
    path_mtus: PathMtus,
    changes: VecDeque<RouteChange>,
    recalls: VecDeque<(usize, LinkAddress)>,
    outgoing: VecDeque<(PacketId, Way)>,
    counters: RoutingCounters,
}

impl Routing {
    pub(crate) fn new(
        router: Box<dyn Router>,
        options: RoutingOptions,
        ports: Vec<PortId>,
        outside: BTreeSet<PortId>,
    ) -> Self {
        Self {
            router,
            ports,
            outside,
            interfaces: BTreeMap::new(),
            addresses: BTreeMap::new(),
            names: BTreeMap::new(),
            waiting: Waiting::new(options.waiting),
            options,
            tunnels: BTreeMap::new(),
            path_mtus: PathMtus::default(),
            changes: VecDeque::new(),
            recalls: VecDeque::new(),
            outgoing: VecDeque::new(),
            counters: RoutingCounters::default(),
        }
    }

    /// The protocol.
    #[must_use]
    pub fn router(&self) -> &dyn Router {
        &*self.router
    }

    /// Counters of routing events outside the protocol.
    #[must_use]
    pub fn counters(&self) -> RoutingCounters {
        self.counters
    }

    /// Packets that wait for a route.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn receive(&mut self, now: Time, from: Neighbour, header: &Header, packet: &[u8]) {
        let Some(message) = carriage::message(self.router.carrier(), header, packet) else {
            self.counters.malformed += 1;
            return;
        };
        let is_unicast = !is_for_all(header.destination);
        let arrival = Arrival { from, is_unicast, ttl: header.ttl };
        self.router.handle_message(now, &arrival, message);
    }

    /// Takes a packet without a route.
    fn hold(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        origin: Origin,
        packet: PacketId,
    ) -> Verdict {
        let IpAddr::V4(destination) = header.destination else {
            return Verdict::Refused(Error::HostUnreachable);
        };
        let now = engine.now;
        if !self.is_own(header, origin) {
            let from = match origin {
                Origin::Link(Some(port)) => self.names.get(&port).copied(),
                Origin::Link(None) | Origin::Local => None,
            };
            // Without the neighbour there is nobody to be told.
            if from.is_some() {
                self.router.handle_demand(now, &Demand { destination, from });
            }
            return Verdict::Refused(Error::HostUnreachable);
        }
        let octets = engine.packets.get(packet).len();
        for (_, evicted) in self.waiting.push(now, destination, octets, packet) {
            self.counters.evicted += 1;
            engine.remove(evicted);
        }
        self.router.handle_demand(now, &Demand { destination, from: None });
        Verdict::Taken
    }

    /// Sends a packet to its gateway; `mtu` is the MTU of the interface.
    fn encapsulate(&mut self, engine: &mut Engine, mtu: usize, packet: PacketId) -> Verdict {
        let octets = engine.packets.get_mut(packet);
        let header = Header::parse(octets).ok();
        let Some((gateway, header)) =
            header.and_then(|it| Some((self.gateway(it.destination)?, it)))
        else {
            return Verdict::Malformed;
        };
        let mtu = self.path_mtus.mtu(engine.now, gateway, mtu).saturating_sub(minimal::OVERHEAD);
        if octets.len() > mtu {
            self.counters.too_big += 1;
            return Verdict::Refused(too_big(mtu));
        }
        if minimal::encapsulate(octets, gateway).is_err() {
            self.counters.tunnel_malformed += 1;
            return Verdict::Malformed;
        }
        self.counters.encapsulated += 1;
        let is_own = self.is_local(header.source);
        let origin = if is_own { Origin::Local } else { Origin::Link(None) };
        self.outgoing.push_back((packet, Way::Rerouted(origin)));
        Verdict::Taken
    }

    fn decapsulate(&mut self, engine: &mut Engine, packet: PacketId) -> Verdict {
        if minimal::decapsulate(engine.packets.get_mut(packet)).is_err() {
            self.counters.tunnel_malformed += 1;
            return Verdict::Malformed;
        }
        self.counters.decapsulated += 1;
        self.outgoing.push_back((packet, Way::Released(None)));
        Verdict::Taken
    }

    /// The gateway that packets for `destination` have to be sent to.
    pub(crate) fn gateway(&self, destination: IpAddr) -> Option<Ipv4Addr> {
        let tunnels = self.tunnels.iter();
        let matches = tunnels.filter(|(prefix, _)| prefix.contains(destination));
        let (_, gateway) = matches.max_by_key(|(prefix, _)| prefix.bits())?;
        // What goes to the gateway itself needs none.
        (destination != IpAddr::V4(*gateway)).then_some(*gateway)
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Route(prefix, route) => {
                self.counters.route_changes += 1;
                match route.and_then(|route| route.gateway) {
                    None => _ = self.tunnels.remove(&prefix),
                    Some(gateway) => _ = self.tunnels.insert(prefix, gateway),
                }
                self.changes.push_back(RouteChange { prefix, route });
                if route.is_some() {
                    let found: Vec<Ipv4Addr> = self
                        .waiting
                        .destinations()
                        .filter(|destination| prefix.contains((*destination).into()))
                        .collect();
                    for destination in found {
                        let packets = self.waiting.take(destination).into_iter();
                        let way = Way::Rerouted(Origin::Local);
                        self.outgoing.extend(packets.map(|packet| (packet, way)));
                    }
                }
            }
            // Counters say how often there was a reason; nobody reads along.
            Event::Notice(_) => {}
            Event::Unreachable(destination) => {
                let packets = self.waiting.take(destination);
                self.counters.unreachable += packets.len() as u64;
                self.refuse(packets);
            }
        }
    }

    fn refuse(&mut self, packets: Vec<PacketId>) {
        self.outgoing.extend(packets.into_iter().map(|packet| (packet, Way::Refused)));
    }

    /// Writes what the protocol has to say now on an interface.
    fn say(&mut self, engine: &mut Engine, interface: usize, source: Ipv4Addr) {
        let mut payload = Vec::new();
        let carrier = self.router.carrier();
        while let Some(sending) = self.router.poll_transmit(engine.now, interface, &mut payload) {
            let Sending { to, ttl } = sending;
            let reached = if is_for_all(to.into()) {
                Some(LinkAddress::Broadcast)
            } else {
                let here = self
                    .ports
                    .iter()
                    .find(|port| engine.ports[port.index()].interface == interface);
                here.and_then(|port| engine.resolve(*port, to.into()))
            };
            let Some(reached) = reached else { continue };
            let packet = engine.add(|out| {
                emit(carrier, (source, to), &payload, out);
                set_ttl(out, ttl);
            });
            self.outgoing.push_back((packet, Way::Sent { interface, to: reached }));
        }
    }

    /// Whether the node is the first of the network that has a packet.
    fn is_own(&self, header: &Header, origin: Origin) -> bool {
        match origin {
            Origin::Local => true,
            Origin::Link(Some(port)) => self.outside.contains(&port),
            // HBH gives back packets of the node itself, too.
            Origin::Link(None) => self.is_local(header.source),
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        self.addresses.values().any(|addresses| addresses.contains(&address))
    }

    fn neighbour(&self, link: LinkAddress) -> Option<Neighbour> {
        match link {
            LinkAddress::Broadcast => None,
            LinkAddress::Port(port) => self.names.get(&port).copied(),
        }
    }

    fn is_message(&self, header: &Header, packet: &[u8]) -> bool {
        let payload = packet.get(header.len..).unwrap_or_default();
        header.is_v4()
            && !header.is_later_fragment()
            && is_carried_by(self.router.carrier(), header.protocol, payload)
    }
}

impl Service for Routing {
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        match hook {
            Hook::Prerouting { interface, header, .. } => {
                self.is_message(header, octets)
                    && (is_for_all(header.destination) || self.is_local(header.destination))
                    && self.interfaces.contains_key(interface)
            }
            Hook::Unrouted { header, .. } => {
                header.is_v4() && !is_for_all(header.destination) && !self.interfaces.is_empty()
            }
            Hook::Postrouting { .. } if !self.tunnels.is_empty() => Header::parse(octets)
                .is_ok_and(|header| {
                    self.gateway(header.destination).is_some() && !self.is_message(&header, octets)
                }),
            Hook::Input { flow, header, .. } => {
                flow.protocol == protocol::MINIMAL && header.is_v4()
            }
            Hook::Diverted | Hook::Forward { .. } | Hook::Postrouting { .. } => false,
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        match *hook {
            Hook::Prerouting { interface, from, header } => {
                if let IpAddr::V4(address) = header.source {
                    let from_here = Neighbour { interface, address };
                    self.names.insert(from, from_here);
                    let octets = engine.packets.get(packet);
                    self.receive(engine.now, from_here, header, octets);
                }
                engine.remove(packet);
                Verdict::Taken
            }
            Hook::Unrouted { header, origin } => self.hold(engine, header, origin, packet),
            Hook::Postrouting { next } => {
                let interface = self.interfaces.get(&next.interface);
                let mtu = interface.map_or(usize::MAX, |(_, mtu)| *mtu);
                self.encapsulate(engine, mtu, packet)
            }
            Hook::Input { .. } => self.decapsulate(engine, packet),
            Hook::Diverted | Hook::Forward { .. } => Verdict::Malformed,
        }
    }

    fn handle_error(
        &mut self,
        now: Time,
        flow: &FlowKey,
        octets: usize,
        error: Option<Error>,
    ) -> bool {
        let IpAddr::V4(gateway) = flow.destination else { return false };
        if flow.protocol != protocol::MINIMAL || !self.is_local(flow.source) {
            return false;
        }
        if let Some(Error::TooBig { mtu }) = error {
            self.path_mtus.handle_too_big(now, gateway, octets, mtu.into());
        }
        true
    }

    fn handle_timeout(&mut self, now: Time) {
        self.router.handle_timeout(now);
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.router.handle_timeout(engine.now);
        let expired = self.waiting.expire(engine.now);
        self.counters.expired += expired.len() as u64;
        self.refuse(expired.into_iter().map(|(_, packet)| packet).collect());
        while let Some(event) = self.router.poll_event() {
            self.take_event(event);
        }
        let interfaces: Vec<_> = self.interfaces.iter().map(|(at, it)| (*at, it.0)).collect();
        for (interface, source) in interfaces {
            self.say(engine, interface, source);
        }
    }

    fn poll_packet(&mut self, _engine: &mut Engine) -> Option<(PacketId, Way)> {
        self.outgoing.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        earliest(self.router.next_timeout(), self.waiting.next_timeout())
    }

    fn class_of(&self, protocol: u8, payload: &[u8]) -> Option<Class> {
        is_carried_by(self.router.carrier(), protocol, payload).then_some(Class::Routing)
    }

    fn report(&self) -> Option<ServiceReport> {
        #[derive(Serialize)]
        struct State {
            counters: RoutingCounters,
            waiting: usize,
            routes: usize,
            protocol: Map<String, Value>,
        }
        let counted = self.router.counters().into_iter();
        let state = State {
            counters: self.counters,
            waiting: self.waiting.len(),
            routes: self.router.routes().len(),
            protocol: counted.map(|(it, count)| (it.name.to_owned(), count.into())).collect(),
        };
        Some(ServiceReport::new("routing", state))
    }

    fn as_link_feedback(&mut self) -> Option<&mut dyn LinkFeedback> {
        Some(self)
    }

    fn as_route_finder(&mut self) -> Option<&mut dyn RouteFinder> {
        Some(self)
    }
}

impl LinkFeedback for Routing {
    fn handle_break(&mut self, now: Time, interface: usize, to: LinkAddress) {
        let neighbour = self.neighbour(to).filter(|it| it.interface == interface);
        let Some(neighbour) = neighbour else { return };
        self.counters.unsent += 1;
        self.router.handle_break(now, neighbour);
        if self.options.recalls_queue {
            self.recalls.push_back((interface, to));
        }
    }

    fn handle_unsent(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        to: LinkAddress,
        packet: PacketId,
    ) -> bool {
        if self.neighbour(to).is_none_or(|it| it.interface != interface) {
            return false;
        }
        let octets = engine.packets.get_mut(packet);
        let Ok(header) = Header::parse(octets) else { return false };
        let is_its = self.is_message(&header, octets);
        if is_its || !self.is_local(header.source) || self.options.own_unsent == Unsent::Drop {
            return false;
        }
        if header.protocol == protocol::MINIMAL {
            // Another gateway may be found.
            let _ = minimal::decapsulate(octets);
        }
        self.counters.rerouted += 1;
        self.outgoing.push_back((packet, Way::Rerouted(Origin::Local)));
        true
    }

    fn handle_interface(&mut self, now: Time, index: usize, attachment: &Attachment<'_>) {
        let Attachment { port, addresses, mtu, is_up, .. } = *attachment;
        self.addresses.insert(index, addresses.to_vec());
        if !self.ports.contains(&port) {
            return;
        }
        let address = addresses.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        });
        match address.filter(|_| is_up) {
            None => {
                self.interfaces.remove(&index);
                self.router.handle_interface(now, index, None);
            }
            Some(address) => {
                self.interfaces.insert(index, (address, mtu));
                let room = mtu.saturating_sub(self.router.carrier().headers());
                let interface = Interface { address, room };
                self.router.handle_interface(now, index, Some(&interface));
            }
        }
    }

    fn poll_recall(&mut self) -> Option<(usize, LinkAddress)> {
        self.recalls.pop_front()
    }
}

impl RouteFinder for Routing {
    fn handle_passage(&mut self, now: Time, passage: &Passage<'_>) {
        let Passage { header, origin, next } = *passage;
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (header.source, header.destination)
        else {
            return;
        };
        let Some(next) = self.neighbour(next.neighbour).filter(|it| it.interface == next.interface)
        else {
            return;
        };
        let from = match origin {
            Origin::Link(Some(port)) => self.names.get(&port).copied(),
            Origin::Link(None) | Origin::Local => None,
        };
        if from.is_none() && !self.is_own(header, origin) {
            return;
        }
        let passage = manet::Passage { source, destination, from, next };
        self.router.handle_passage(now, &passage);
    }

    fn poll_route(&mut self) -> Option<RouteChange> {
        self.changes.pop_front()
    }
}
