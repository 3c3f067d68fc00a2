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
use base::ip::{FlowKey, Header, protocol};
use base::time::Time;
use carriage::{emit, set_ttl};
use manet::host::{self, Event, Host, NotEncapsulated, Outcome};
use manet::{Arrival, Neighbour, Router, Sending};
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
    host: Host<PacketId>,
    recalls_queue: bool,
    /// Ports on which the protocol runs.
    ports: Vec<PortId>,
    /// All addresses of the node on its other interfaces, too.
    addresses: BTreeMap<usize, Vec<IpAddr>>,
    /// Ports at the other ends of the node's links: what comes from there is not the network's.
    outside: BTreeSet<PortId>,
    /// The neighbours that have sent messages, by their ports.
    names: BTreeMap<PortId, Neighbour>,
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
            host: Host::new(router, options.host()),
            recalls_queue: options.recalls_queue,
            ports,
            outside,
            addresses: BTreeMap::new(),
            names: BTreeMap::new(),
            changes: VecDeque::new(),
            recalls: VecDeque::new(),
            outgoing: VecDeque::new(),
            counters: RoutingCounters::default(),
        }
    }

    /// The protocol.
    #[must_use]
    pub fn router(&self) -> &dyn Router {
        self.host.router()
    }

    /// Counters of routing events outside the protocol.
    #[must_use]
    pub fn counters(&self) -> RoutingCounters {
        let host::Stats { demands, outlet, .. } = self.host.stats();
        let expired = self.host.expired();
        RoutingCounters {
            encapsulated: demands.packets_encapsulated,
            decapsulated: outlet.packets_decapsulated,
            tunnel_malformed: demands.packets_not_encapsulated
                + outlet.packets_not_decapsulated
                + outlet.packets_misdirected
                + outlet.packets_from_self,
            too_big: demands.packets_too_big,
            unreachable: demands.packets_unreachable - expired,
            expired,
            evicted: demands.packets_evicted,
            ..self.counters
        }
    }

    /// Packets that wait for a route.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.host.waiting()
    }

    fn receive(&mut self, now: Time, from: Neighbour, header: &Header, packet: &[u8]) {
        let Some(message) = carriage::message(self.host.carrier(), header, packet) else {
            self.counters.malformed += 1;
            return;
        };
        let is_unicast = !is_for_all(header.destination);
        let arrival = Arrival { from, is_unicast, ttl: header.ttl };
        self.host.handle_message(now, &arrival, message);
    }

    /// Takes a packet without a route.
    fn hold(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        origin: Origin,
        packet: PacketId,
    ) -> Verdict {
        let octets = engine.packets.get(packet).len();
        let origin = self.origin(origin);
        match self.host.handle_unrouted(engine.now, header, origin, octets, packet) {
            Outcome::Held => Verdict::Taken,
            Outcome::Found(..) | Outcome::Malformed(_) | Outcome::Unreachable(_) => {
                Verdict::Refused(Error::HostUnreachable)
            }
        }
    }

    /// Sends a packet to its gateway; `mtu` is the MTU of the interface.
    fn encapsulate(&mut self, engine: &mut Engine, mtu: usize, packet: PacketId) -> Verdict {
        let now = engine.now;
        let octets = engine.packets.get_mut(packet);
        let header = Header::parse(octets).ok();
        let Some((gateway, header)) =
            header.and_then(|it| Some((self.gateway(it.destination)?, it)))
        else {
            return Verdict::Malformed;
        };
        match self.host.encapsulate(now, octets, gateway, mtu) {
            Ok(()) => {}
            Err(NotEncapsulated::TooBig { mtu }) => return Verdict::Refused(too_big(mtu)),
            Err(NotEncapsulated::Impossible) => return Verdict::Malformed,
        }
        let is_own = self.host.is_local(header.source);
        let origin = if is_own { Origin::Local } else { Origin::Link(None) };
        self.outgoing.push_back((packet, Way::Rerouted(origin)));
        Verdict::Taken
    }

    fn decapsulate(&mut self, engine: &mut Engine, packet: PacketId) -> Verdict {
        if !self.host.decapsulate(engine.packets.get_mut(packet)) {
            return Verdict::Malformed;
        }
        self.outgoing.push_back((packet, Way::Released(None)));
        Verdict::Taken
    }

    /// The gateway that packets for `destination` have to be sent to.
    pub(crate) fn gateway(&self, destination: IpAddr) -> Option<Ipv4Addr> {
        self.host.gateway(destination)
    }

    /// Does what the protocol says.
    fn take_events(&mut self, engine: &mut Engine) {
        while let Some(event) = self.host.poll_event() {
            match event {
                Event::Route(prefix, route) => {
                    self.counters.route_changes += 1;
                    self.changes.push_back(RouteChange { prefix, route });
                }
                Event::Found(packet, _) => {
                    self.outgoing.push_back((packet, Way::Rerouted(Origin::Local)));
                }
                Event::Unreachable(packet) => self.outgoing.push_back((packet, Way::Refused)),
                Event::Evicted(packet) => engine.remove(packet),
                // Counters say how often there was a reason; nobody reads along.
                Event::Notice(_) => {}
            }
        }
    }

    /// Writes what the protocol has to say now on an interface.
    fn say(&mut self, engine: &mut Engine, interface: usize, source: Ipv4Addr) {
        let mut payload = Vec::new();
        let carrier = self.host.carrier();
        while let Some(sending) = self.host.poll_transmit(engine.now, interface, &mut payload) {
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

    /// How a packet came, in the words of the protocol. HBH gives back packets of the node itself, too.
    fn origin(&self, origin: Origin) -> host::Origin {
        match origin {
            Origin::Local => host::Origin::Own,
            Origin::Link(Some(port)) if self.outside.contains(&port) => host::Origin::Own,
            Origin::Link(port) => {
                let from = port.and_then(|port| self.names.get(&port).copied());
                from.map_or(host::Origin::Unknown, host::Origin::Neighbour)
            }
        }
    }

    fn neighbour(&self, link: LinkAddress) -> Option<Neighbour> {
        match link {
            LinkAddress::Broadcast => None,
            LinkAddress::Port(port) => self.names.get(&port).copied(),
        }
    }
}

impl Service for Routing {
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        match hook {
            Hook::Prerouting { interface, header, .. } => {
                self.host.is_message(header, octets)
                    && (is_for_all(header.destination) || self.host.is_local(header.destination))
                    && self.host.interfaces().any(|(index, ..)| index == *interface)
            }
            Hook::Unrouted { header, .. } => {
                header.is_v4()
                    && !is_for_all(header.destination)
                    && self.host.interfaces().next().is_some()
            }
            Hook::Postrouting { .. } if self.host.has_gateways() => Header::parse(octets)
                .is_ok_and(|header| {
                    self.gateway(header.destination).is_some()
                        && !self.host.is_message(&header, octets)
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
                let of = |(index, _, mtu)| (index == next.interface).then_some(mtu);
                let mtu = self.host.interfaces().find_map(of).unwrap_or(usize::MAX);
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
        self.host.handle_error(now, flow, octets, error)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.host.handle_timeout(now);
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.host.handle_timeout(engine.now);
        self.take_events(engine);
        let interfaces: Vec<_> = self.host.interfaces().map(|(at, it, _)| (at, it)).collect();
        for (interface, source) in interfaces {
            self.say(engine, interface, source);
        }
    }

    fn poll_packet(&mut self, _engine: &mut Engine) -> Option<(PacketId, Way)> {
        self.outgoing.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.host.next_timeout()
    }

    fn class_of(&self, protocol: u8, payload: &[u8]) -> Option<Class> {
        self.host.carrier().carries(protocol, payload).then_some(Class::Routing)
    }

    fn report(&self) -> Option<ServiceReport> {
        #[derive(Serialize)]
        struct State {
            counters: RoutingCounters,
            waiting: usize,
            routes: usize,
            protocol: Map<String, Value>,
        }
        let counted = self.host.counters().into_iter();
        let state = State {
            counters: self.counters(),
            waiting: self.waiting(),
            routes: self.router().routes().len(),
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
        self.host.handle_break(now, neighbour);
        if self.recalls_queue {
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
        let is_rerouted = self.host.handle_unsent(engine.packets.get_mut(packet));
        if is_rerouted {
            self.counters.rerouted += 1;
            self.outgoing.push_back((packet, Way::Rerouted(Origin::Local)));
        }
        is_rerouted
    }

    fn handle_interface(&mut self, now: Time, index: usize, attachment: &Attachment<'_>) {
        let Attachment { port, addresses, mtu, is_up, .. } = *attachment;
        self.addresses.insert(index, addresses.to_vec());
        self.host.handle_addresses(self.addresses.values().flatten().copied().collect());
        if !self.ports.contains(&port) {
            return;
        }
        let address = addresses.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        });
        let interface = address.filter(|_| is_up).map(|address| (address, mtu));
        self.host.handle_interface(now, index, interface);
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
        let origin = self.origin(origin);
        self.host.handle_passage(now, (source, destination), origin, Some(next));
    }

    fn poll_route(&mut self) -> Option<RouteChange> {
        self.changes.pop_front()
    }
}
