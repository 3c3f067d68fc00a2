//! Runs the services of a node: hooks, deadlines and reports.

mod sending;

use std::any::Any;
use std::net::IpAddr;

use base::ip::icmp::Error;
use base::ip::{FlowKey, Prefix};
use base::time::Time;

use super::deadlines::{DeadlineId, Owner};
use super::queue::Waiting;
use super::service::{
    Attachment, Hook, Origin, Passage, RouteChange, Service, ServiceReport, Verdict, Way,
};
use super::{Interface, NextHop, Node, Route};
use crate::counters::Class;
use crate::engine::{Engine, PacketId};
use crate::medium::LinkAddress;
use crate::route_log::RouteRecord;

/// The metric of routes from routing protocols: better than shortest paths, worse than routes set by
/// hand.
const METRIC: u32 = 500;

/// The services of a node.
#[derive(Debug, Default)]
pub struct Services {
    /// In the order in which they were added, and are asked.
    running: Vec<Running>,
    /// Prefixes routed into a service, by its index, before all other routes.
    prefixes: Vec<(Prefix, usize)>,
    /// Which is asked first for a datagram.
    turn: usize,
    /// Whether any finds routes.
    has_finder: bool,
}

#[derive(Debug)]
struct Running {
    service: Box<dyn Service>,
    deadline: DeadlineId,
    /// Whether something was handed in since it was last settled.
    is_touched: bool,
}

impl Running {
    /// Whether it sends its own frames over an interface.
    fn uses(&mut self, interface: usize) -> bool {
        self.service.as_frames().is_some_and(|frames| frames.uses(interface))
    }

    /// Where its datagrams go, with the place of each far end.
    fn far_ends(&mut self) -> impl Iterator<Item = (usize, IpAddr)> + use<> {
        let ends = self.service.as_datagrams().map(|datagrams| datagrams.far_ends());
        let places = ends.into_iter().flatten().enumerate();
        places.filter_map(|(place, end)| Some((place, end?)))
    }
}

impl Node {
    /// Starts a service and returns its index.
    pub fn add_service(&mut self, engine: &mut Engine, mut service: Box<dyn Service>) -> usize {
        let index = self.services.running.len();
        let deadline = self.deadlines.add(Owner::Service(index));
        self.services.has_finder |= service.as_route_finder().is_some();
        self.services.running.push(Running { service, deadline, is_touched: true });
        for interface in 0..self.interfaces.len() {
            self.tell_interface(engine, interface);
        }
        self.settle(engine);
        index
    }

    /// Tells all services what is known of an interface.
    pub fn tell_interface(&mut self, engine: &Engine, index: usize) {
        let Interface { port, ref addresses, is_up, ref config, .. } = self.interfaces[index];
        let has_neighbours = engine.medium_of(port).has_neighbours(engine.now, port);
        let is_acknowledged = engine.medium_of(port).is_acknowledged();
        let mtu = config.mtu;
        let attachment =
            Attachment { port, addresses, mtu, is_up, has_neighbours, is_acknowledged };
        for running in &mut self.services.running {
            if let Some(service) = running.service.as_link_feedback() {
                service.handle_interface(engine.now, index, &attachment);
            }
            running.is_touched = true;
        }
    }

    /// Routes a prefix into a service, whatever other routes say.
    pub fn route_into(&mut self, prefix: Prefix, service: usize) {
        self.services.prefixes.push((prefix, service));
    }

    /// All services of type `S` on the node, each with an index.
    pub fn services<S: Service>(&self) -> impl Iterator<Item = (usize, &S)> {
        self.services.running.iter().enumerate().filter_map(|(index, running)| {
            let service: &dyn Any = &*running.service;
            Some((index, service.downcast_ref()?))
        })
    }

    /// Changes the node's first service of type `S` that satisfies `is_it`; the service is settled afterwards.
    pub fn with_service<S: Service, T>(
        &mut self,
        engine: &mut Engine,
        is_it: impl Fn(&S) -> bool,
        change: impl FnOnce(&mut S) -> T,
    ) -> Option<T> {
        let changed = self.services.running.iter_mut().find_map(|running| {
            let service: &mut dyn Any = &mut *running.service;
            let service = service.downcast_mut().filter(|it| is_it(it))?;
            running.is_touched = true;
            Some(service)
        });
        let changed = changed.map(change);
        self.settle(engine);
        changed
    }

    /// The reports of the node's services.
    pub fn reports(&self) -> impl Iterator<Item = ServiceReport> {
        self.services.running.iter().filter_map(|running| running.service.report())
    }

    /// Packets that services hold beyond the engine's sight.
    pub fn under_way(&self) -> usize {
        self.services.running.iter().map(|running| running.service.under_way()).sum()
    }

    /// The service that packets to `destination` are routed into: that with the longest prefix.
    pub fn service_to(&self, destination: IpAddr) -> Option<usize> {
        let prefixes = self.services.prefixes.iter();
        let matches = prefixes.filter(|(prefix, _)| prefix.contains(destination));
        matches.map(|(prefix, index)| (prefix.bits(), *index)).max().map(|(_, index)| index)
    }

    /// Offers a packet to one service after the other; false if none has taken it.
    #[must_use]
    pub fn offer(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> bool {
        let octets = engine.packets.get(packet);
        let mut running = self.services.running.iter();
        let Some(index) = running.position(|it| it.service.claims(hook, octets)) else {
            return false;
        };
        self.hand(engine, index, hook, packet);
        true
    }

    /// Offers a packet that is about to be passed on; false if no service has taken it.
    #[must_use]
    pub fn offer_forwarded(
        &mut self,
        engine: &mut Engine,
        next: NextHop,
        packet: PacketId,
    ) -> bool {
        for index in 0..self.services.running.len() {
            let mut far_ends = self.services.running[index].far_ends();
            let is_towards = far_ends.any(|(_, far)| self.route(engine, far) == Some(next));
            let hook = Hook::Forward { is_towards };
            let service = &self.services.running[index].service;
            if service.claims(&hook, engine.packets.get(packet)) {
                self.hand(engine, index, &hook, packet);
                return true;
            }
        }
        false
    }

    /// Hands a packet to a service.
    pub fn hand(&mut self, engine: &mut Engine, index: usize, hook: &Hook<'_>, packet: PacketId) {
        let running = &mut self.services.running[index];
        running.is_touched = true;
        match (running.service.handle(engine, hook, packet), hook) {
            (Verdict::Malformed, _) => {
                self.counters.malformed_transport += 1;
                engine.packets.remove(packet);
            }
            (Verdict::Refused(error), hook) => {
                let is_too_big = matches!(error, Error::TooBig { .. });
                match hook {
                    Hook::Postrouting { .. } if is_too_big => self.counters.too_big += 1,
                    Hook::Unrouted { .. } => self.counters.no_route += 1,
                    _ => {}
                }
                self.refuse(engine, error, packet);
            }
            (Verdict::Taken, _) => {}
        }
    }

    /// Tells of an ICMP error; false if it is about a packet of no service.
    pub fn tell_error(
        &mut self,
        now: Time,
        flow: &FlowKey,
        octets: usize,
        error: Option<Error>,
    ) -> bool {
        let mut running = self.services.running.iter_mut();
        running.any(|running| {
            let is_its = running.service.handle_error(now, flow, octets, error);
            running.is_touched |= is_its;
            is_its
        })
    }

    /// Tells of a packet that could not be brought to a neighbour, and offers it; false if no service has
    /// taken it.
    #[must_use]
    pub fn offer_unsent(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        to: LinkAddress,
        packet: PacketId,
    ) -> bool {
        let now = engine.now;
        let octets = engine.packets.get(packet);
        let running = &mut self.services.running;
        let mut listeners = running.iter_mut().filter_map(|it| it.service.as_link_feedback());
        let is_break = !listeners.any(|it| it.vouches(interface, to, octets));
        for running in &mut *running {
            running.is_touched = true;
            if is_break && let Some(service) = running.service.as_link_feedback() {
                service.handle_break(now, interface, to);
            }
        }
        [true, false].into_iter().any(|has_frames| {
            running.iter_mut().any(|running| {
                let is_asked = running.uses(interface) == has_frames;
                let listener = running.service.as_link_feedback().filter(|_| is_asked);
                listener.is_some_and(|it| it.handle_unsent(engine, interface, to, packet))
            })
        })
    }

    /// Whether any service finds routes.
    pub fn has_finder(&self) -> bool {
        self.services.has_finder
    }

    /// Tells the services that find routes that a packet is about to leave.
    pub fn tell_passage(&mut self, now: Time, passage: &Passage<'_>) {
        let running = self.services.running.iter_mut();
        for finder in running.filter_map(|it| it.service.as_route_finder()) {
            // It keeps routes for longer: nothing comes of it now.
            finder.handle_passage(now, passage);
        }
    }

    /// Tells services of the next hop of a packet that none of them took.
    pub fn tell_next_hop(&mut self, now: Time, next: NextHop) {
        for running in &mut self.services.running {
            let watcher = running.service.as_route_watcher();
            running.is_touched |= watcher.is_some_and(|it| it.handle_next_hop(now, next));
        }
    }

    /// Tells all services that routes have changed.
    pub fn tell_routes(&mut self, engine: &Engine) {
        for index in 0..self.services.running.len() {
            self.tell_routes_to(engine, index);
            self.services.running[index].is_touched = true;
        }
    }

    fn tell_routes_to(&mut self, engine: &Engine, service: usize) {
        let Self { table, interfaces, services, .. } = self;
        let Services { running, has_finder, .. } = services;
        let Some(watcher) = running[service].service.as_route_watcher() else { return };
        let route = |destination| {
            table.search(destination, |index, via| interfaces[index].resolve(engine, via))
        };
        watcher.handle_routes(engine.now, &route, *has_finder);
    }

    /// Marks the services that send datagrams over an interface for settling: a service waiting for the
    /// interface may have another deadline now.
    pub fn touch_senders(&mut self, engine: &Engine, interface: usize) {
        for index in 0..self.services.running.len() {
            let is_over = self.has_far_end_over(engine, index, interface);
            self.services.running[index].is_touched |= is_over;
        }
    }

    /// Has services settled that use an interface.
    pub fn touch_users(&mut self, interface: usize) {
        for running in &mut self.services.running {
            running.is_touched |= running.uses(interface);
        }
    }

    pub fn handle_service_timeout(&mut self, now: Time, index: usize) {
        let running = &mut self.services.running[index];
        running.service.handle_timeout(now);
        running.is_touched = true;
    }

    /// Settles the first service that was touched; false if none was.
    pub fn settle_services(&mut self, engine: &mut Engine) -> bool {
        let touched = self.services.running.iter().position(|running| running.is_touched);
        let Some(index) = touched else { return false };
        self.services.running[index].is_touched = false;
        let service = &mut self.services.running[index].service;
        service.settle(engine);
        if service.as_route_watcher().is_some_and(|it| it.needs_routes()) {
            self.tell_routes_to(engine, index);
        }
        self.take_routes(engine, index);
        self.take_recalls(engine, index);
        while let Some((packet, way)) = self.services.running[index].service.poll_packet(engine) {
            self.enter(engine, packet, way);
        }
        for interface in 0..self.interfaces.len() {
            if self.sends_over(engine, index, interface) {
                self.pump(engine, interface);
            }
        }
        self.ask_for_route(engine, index);
        let Running { service, deadline, .. } = &self.services.running[index];
        let (deadline, next) = (*deadline, service.next_timeout());
        self.set_deadline(engine, deadline, next);
        true
    }

    /// Takes the routes that a service has found and lost.
    fn take_routes(&mut self, engine: &mut Engine, index: usize) {
        let mut has_changed = false;
        while let Some(finder) = self.services.running[index].service.as_route_finder()
            && let Some(change) = finder.poll_route()
        {
            self.change_route(engine, change);
            has_changed = true;
        }
        if has_changed {
            self.tell_routes(engine);
        }
    }

    /// Takes queued packets back for a service.
    fn take_recalls(&mut self, engine: &mut Engine, index: usize) {
        while let Some(service) = self.services.running[index].service.as_link_feedback()
            && let Some((interface, to)) = service.poll_recall()
        {
            for waiting in self.interfaces[interface].recall(to) {
                if !self.offer_unsent(engine, interface, to, waiting.packet) {
                    engine.lose(self.interfaces[interface].port, waiting.packet);
                }
            }
        }
    }

    /// The traffic class of a packet.
    pub fn class_of(&self, packet: &[u8]) -> Class {
        Class::of(packet, |protocol, payload| self.own_class(protocol, payload))
    }

    /// The traffic class of a payload, if a service of the node knows.
    pub fn own_class(&self, protocol: u8, payload: &[u8]) -> Option<Class> {
        let mut services = self.services.running.iter();
        services.find_map(|running| running.service.class_of(protocol, payload))
    }

    /// Puts a packet of a service where it enters the IP stack.
    fn enter(&mut self, engine: &mut Engine, packet: PacketId, way: Way) {
        match way {
            Way::In(interface) => {
                let port = self.interfaces[interface].port;
                self.counters.received += 1;
                self.prerouting(engine, interface, port, packet);
            }
            Way::Out => self.output(engine, packet),
            Way::Refused => self.refuse_unrouted(engine, packet),
            Way::Released(from) => {
                if let Some(header) = self.parse(engine, packet) {
                    self.input_or_forward(engine, &header, packet, Origin::Link(from));
                }
            }
            Way::Rerouted(origin) => {
                let Some(header) = self.parse(engine, packet) else { return };
                if let Some(next) = self.route_packet(engine, &header, packet, origin) {
                    self.postrouting(engine, next, packet, origin);
                }
            }
            Way::Sent { interface, to } => {
                let octets = engine.packets.get(packet).len();
                self.counters.originated += 1;
                let waiting = Waiting { packet, to, octets, is_local: true, is_routing: true };
                self.enqueue_waiting(engine, interface, waiting);
            }
        }
    }

    /// Gives the node a route of a routing protocol, or takes it.
    fn change_route(&mut self, engine: &mut Engine, RouteChange { prefix, route }: RouteChange) {
        match route {
            None => self.table.remove(prefix, Some(METRIC)),
            Some(route) => {
                let interface = route.next.interface;
                let via = Some(route.next.address.into());
                self.table.add(Route { prefix, metric: METRIC, interface, via });
            }
        }
        if let Some(log) = &mut engine.route_log {
            log.add(RouteRecord { time: engine.now, node: self.id, prefix, route });
        }
    }
}
