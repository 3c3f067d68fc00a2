//! The AODV node: handles messages and timers, and reports routes to the driver.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::budget::Budget;
use base::counter::{Counter as Counted, named};
use base::ip::Prefix;
use base::rng::Rng;
use base::serial::{is_after, is_near, low32, replaces};
use base::time::{Time, earliest};

use super::PORT;
use super::config::{Config, Hellos, Profile};
use super::discovery::{Discoveries, Limit, Step};
use super::internet::Hosts;
use super::neighbours::{MessageKind, Neighbours, Room};
use super::outbox::Outbox;
use super::requests::{OwnRequests, SeenRequests, Sight};
use super::stats::Stats;
use super::table::{self, Entry, Offer, Table, Taken};
use super::wire::{ERROR_HEADER, Errors, Message, Reply, Request, UNREACHABLE_LEN};
use crate::events::Events;
use crate::{
    Arrival, Carrier, Demand, Event, Interface, Neighbour, Notice, Passage, Route, Router, Sending,
    is_host,
};

/// AODV on a node. See [`Router`] for how it is driven.
#[derive(Debug)]
pub struct Aodv {
    config: Config,
    rng: Rng,
    ports: BTreeMap<usize, Port>,
    /// The node's own sequence number; 0 before there is one.
    sequence: u32,
    /// The IDs of the node's requests: random, because others would take requests with guessed IDs for repeated.
    ids: Rng,
    table: Table,
    hosts: Hosts,
    seen_requests: SeenRequests,
    own_requests: OwnRequests,
    neighbours: Neighbours,
    discoveries: Discoveries,
    request_limit: Limit,
    /// Budgets for relaying requests: first for strangers, then for neighbours with hellos.
    forwards: [Budget; 2],
    /// Separate limits for errors about routes ended by others, about packets without a route, and about sequence
    /// numbers unknown to their own node: forged causes use up a single limit.
    error_limit: Limit,
    refusal_limit: Limit,
    number_limit: Limit,
    outbox: Outbox,
    /// What the driver was told.
    given: BTreeMap<Ipv4Addr, Route>,
    /// Destinations not found, to report to the driver.
    unreachable: BTreeSet<Ipv4Addr>,
    events: Events,
    /// Whether there has been an interface.
    is_started: bool,
    /// Until when the node waits after it has started.
    waits_until: Option<Time>,
    /// Until when the node counts as part of an active route.
    active_until: Time,
    hello_due: Option<Time>,
    stats: Stats,
}

/// An interface that is up.
#[derive(Debug)]
struct Port {
    address: Ipv4Addr,
    room: usize,
    /// When the last message to all was written.
    broadcast_at: Option<Time>,
}

impl Aodv {
    /// A node without interfaces; its jitter comes from `rng`.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        Self {
            ports: BTreeMap::new(),
            sequence: 0,
            ids: rng.clone(),
            table: Table::new(config.bounds.routes),
            hosts: Hosts::default(),
            seen_requests: SeenRequests::new(config.bounds.requests, config.path_discovery_time()),
            own_requests: OwnRequests::new(config.bounds.requests, config.path_discovery_time()),
            neighbours: Neighbours::new(),
            discoveries: Discoveries::default(),
            request_limit: Limit::new(config.rreq_rate),
            forwards: config.forward_rates().map(|rate| Budget::per_second(Time::ZERO, rate)),
            error_limit: Limit::new(config.rerr_rate),
            refusal_limit: Limit::new(config.rerr_rate),
            number_limit: Limit::new(config.rerr_rate),
            outbox: Outbox::new(config.bounds.messages),
            given: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            events: Events::default(),
            is_started: false,
            waits_until: None,
            active_until: Time::ZERO,
            hello_due: None,
            rng,
            stats: Stats::default(),
            config,
        }
    }

    /// What is set.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.ports.values().any(|port| port.address == address)
    }

    /// Whether an address belongs to a host behind a gateway.
    fn is_internet(&self, address: Ipv4Addr) -> bool {
        !self.config.internet.manet.contains(address.into())
    }

    fn is_waiting(&self, now: Time) -> bool {
        self.waits_until.is_some_and(|until| until > now)
    }

    /// The node's sequence number, one more than before.
    fn next_sequence(&mut self) -> u32 {
        self.sequence = table::successor(self.sequence);
        self.sequence
    }

    /// The id of the node's next request.
    fn next_request(&mut self) -> u32 {
        low32(self.ids.bits())
    }

    /// Raises our sequence number to `number`, seen in the network and perhaps forged, so that our next message counts
    /// as newer; running route discoveries are repeated at once.
    fn raise(&mut self, now: Time, number: u32) {
        if number != self.sequence && !is_after(self.sequence, number) {
            self.sequence = number;
            self.stats.raised += 1;
            self.discoveries.hurry(now);
        }
    }

    /// Notes that the node is part of an active route, and therefore has to send hellos.
    fn note_activity(&mut self, now: Time) {
        self.active_until = now + self.config.active_route_timeout;
        if self.config.hello.mode == Hellos::Active && self.hello_due.is_none() {
            self.hello_due = Some(now);
        }
    }

    /// Offers a route through a neighbour to the table.
    fn offer(&mut self, now: Time, destination: Ipv4Addr, offer: Offer) -> Taken {
        // A hello may come a quarter of its interval late.
        let lately = now - self.config.hello.interval.mul_f64(1.25);
        let is_there = |next: Neighbour| self.neighbours.is_there(next, lately);
        if let Some(known) = self.table.valid(destination).filter(|it| is_there(it.next))
            && offer.hops > 1
        {
            let is_far = match (offer.sequence, known.sequence) {
                (Some(new), Some(old)) => !is_near(new, old),
                _ => false,
            };
            // A neighbour that we hear is nowhere else, whatever number others claim. On active routes all nodes send
            // hellos: such a next hop gives way to one without hellos only if the number is one that the destination
            // can have counted to.
            let is_elsewhere = known.next.address == destination;
            if is_elsewhere || is_far && known.next != offer.next && !is_there(offer.next) {
                return Taken::Stale;
            }
        }
        let taken = self.table.offer(now, destination, offer);
        match taken {
            Taken::Full => self.stats.dropped.full += 1,
            Taken::Stale => {}
            Taken::Updated => self.discoveries.end(destination),
            Taken::UpdatedInPlace => {
                self.stats.dropped.full += 1;
                self.discoveries.end(destination);
                return Taken::Updated;
            }
        }
        taken
    }

    /// A neighbour is on an active route and should send a hello at once and then one per interval; one hello in two
    /// may be lost. A route through a neighbour never heard again is no route.
    fn expect(&mut self, now: Time, neighbour: Neighbour) {
        if self.config.hello.mode != Hellos::Off {
            let interval = self.config.hello.interval;
            let until = now + interval + interval / 2;
            self.neighbours.expect(now, neighbour, until, &self.config);
        }
    }

    /// Adds a route to a neighbour that was heard (RFC 3561, 6.2).
    fn offer_neighbour(&mut self, now: Time, neighbour: Neighbour) {
        let until = now + self.config.active_route_timeout;
        let offer = Offer { sequence: None, hops: 1, next: neighbour, until };
        if self.offer(now, neighbour.address, offer) == Taken::Stale
            && self.table.valid(neighbour.address).is_some_and(|entry| entry.next == neighbour)
        {
            self.table.extend(neighbour.address, until);
        }
    }

    fn add_precursor(&mut self, destination: Ipv4Addr, neighbour: Neighbour) {
        if !self.table.add_precursor(destination, neighbour, self.config.bounds.precursors) {
            self.stats.dropped.full += 1;
        }
    }

    /// Whether a neighbour may send one more message of a kind. Whoever floods is no way to others.
    fn may_take(
        &mut self,
        now: Time,
        from: Neighbour,
        kind: MessageKind,
        is_relayed: bool,
    ) -> bool {
        let may = self.neighbours.may_send(now, from, kind)
            && !(is_relayed && self.neighbours.floods(now, from, kind));
        self.stats.dropped.flooded += u64::from(!may);
        may
    }

    /// Reports that another node writes messages under our address `address`.
    fn dispute(&mut self, address: Ipv4Addr, from: Neighbour) {
        self.stats.dropped.disputed += 1;
        self.events.add_notice(Notice::AddressDisputed { address, from });
    }

    /// Writes a message to a neighbour; whether it will be sent.
    fn unicast(&mut self, next: Neighbour, ttl: u8, message: &Message) -> bool {
        let sending = Sending { to: next.address, ttl };
        self.write(next.interface, None, sending, message)
    }

    /// Writes a message to all on an interface; whether it will be sent.
    fn broadcast(&mut self, now: Time, interface: usize, ttl: u8, message: &Message) -> bool {
        let at = now + self.rng.within(self.config.jitter);
        let is_sent = self.write(
            interface,
            (at > now).then_some(at),
            Sending { to: Ipv4Addr::BROADCAST, ttl },
            message,
        );
        if is_sent && let Some(port) = self.ports.get_mut(&interface) {
            port.broadcast_at = Some(now);
        }
        is_sent
    }

    fn write(
        &mut self,
        interface: usize,
        at: Option<Time>,
        sending: Sending,
        message: &Message,
    ) -> bool {
        let mut octets = Vec::new();
        message.emit(&mut octets);
        let fits = self.ports.get(&interface).is_some_and(|port| octets.len() <= port.room);
        let is_sent = fits && self.outbox.push(interface, at, sending, octets);
        if !is_sent {
            self.stats.dropped.unsent += 1;
        }
        is_sent
    }

    /// Forgets the Internet hosts whose gateway cannot be reached any more.
    fn settle_hosts(&mut self, now: Time) {
        let table = &self.table;
        self.hosts.expire(now, |gateway| table.valid(gateway).is_some());
    }

    /// The route for packets to a destination: none while the node waits, since neighbours may still use routes from
    /// before the start.
    fn route(&self, destination: Ipv4Addr) -> Option<Route> {
        if self.waits_until.is_some() {
            return None;
        }
        let route = |entry: &Entry, gateway| Route { next: entry.next, hops: entry.hops, gateway };
        match self.hosts.gateway(destination) {
            Some(gateway) => Some(route(self.table.valid(gateway)?, Some(gateway))),
            None => Some(route(self.table.valid(destination)?, None)),
        }
    }

    /// News about a destination that the driver does not know yet.
    fn news(&mut self, destination: Ipv4Addr) -> Option<Event> {
        let route = self.route(destination);
        let known = match route {
            Some(route) => self.given.insert(destination, route),
            None => self.given.remove(&destination),
        };
        (known != route).then(|| Event::Route(Prefix::host(destination.into()), route))
    }

    /// Asks for the destinations that are due.
    fn search(&mut self, now: Time) {
        loop {
            let ready = self.request_limit.ready_at();
            let not_before = self.waits_until.map_or(ready, |until| until.max(ready));
            let Some((destination, step)) = self.discoveries.poll(now, not_before, &self.config)
            else {
                return;
            };
            match step {
                Step::Ask { ttl } => self.ask(now, destination, ttl),
                Step::GiveUp => {
                    self.stats.discoveries_failed += 1;
                    self.tell_unreachable(destination);
                }
            }
        }
    }

    fn tell_unreachable(&mut self, destination: Ipv4Addr) {
        if self.unreachable.len() < self.config.bounds.routes {
            self.unreachable.insert(destination);
        }
    }

    /// Searches for a route to the destination of this node's packet.
    fn demand(&mut self, now: Time, destination: Ipv4Addr) {
        if self.discoveries.contains(destination) || self.is_own(destination) {
            return;
        }
        if self.route(destination).is_some() {
            // The driver asks for a route that we gave it already, so we report the route again.
            self.given.remove(&destination);
            self.table.note_changed(destination);
            return;
        }
        let is_internet = self.is_internet(destination);
        if is_internet && self.config.internet.gateway || !is_host(destination) {
            self.tell_unreachable(destination);
            return;
        }
        if is_internet && self.reuse_gateway(now, destination) {
            return;
        }
        if self.discoveries.len() >= self.config.bounds.discoveries {
            self.stats.dropped.full += 1;
            self.tell_unreachable(destination);
            return;
        }
        self.stats.discoveries += 1;
        let last_seen = self.table.get(destination).map(|entry| entry.hops);
        self.discoveries.begin(now, destination, last_seen, &self.config);
        self.search(now);
    }

    /// Sends an Internet host's packets to the nearest gateway that serves another one, if any does.
    fn reuse_gateway(&mut self, now: Time, host: Ipv4Addr) -> bool {
        if !self.config.internet.reuse_gateway {
            return false;
        }
        let reached = self.hosts.gateways().filter_map(|gateway| {
            let entry = self.table.valid(gateway)?;
            Some((entry.hops, gateway))
        });
        let Some((_, gateway)) = reached.min() else { return false };
        let until = now + self.config.active_route_timeout;
        self.hosts.set(host, gateway, until, self.config.bounds.internet)
    }
}

impl Router for Aodv {
    fn handle_attached(&mut self, _now: Time, reached: &[Prefix]) {
        self.config.internet.gateway = reached.iter().any(|network| network.bits() == 0);
    }

    fn carrier(&self) -> Carrier {
        Carrier::Udp(PORT)
    }

    fn handle_interface(&mut self, now: Time, index: usize, interface: Option<&Interface>) {
        match interface {
            Some(interface) => {
                let Interface { address, room } = *interface;
                let port =
                    self.ports.entry(index).or_insert(Port { address, room, broadcast_at: None });
                port.address = address;
                port.room = room;
                if !self.is_started {
                    let until = now + self.config.delete_period;
                    self.own_requests.start(until);
                    self.waits_until = self.config.wait_after_reboot.then_some(until);
                }
                self.is_started = true;
                if self.config.hello.mode == Hellos::Always && self.hello_due.is_none() {
                    self.hello_due = Some(now);
                }
            }
            None => {
                self.ports.remove(&index);
                self.outbox.forget(index);
                self.neighbours.forget(index);
                let ended = self.table.on(index);
                self.end(now, ended);
            }
        }
    }

    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]) {
        let from = arrival.from;
        if !self.ports.contains_key(&from.interface) || !is_host(from.address) {
            self.stats.dropped.forged += 1;
            return;
        }
        if self.is_own(from.address) {
            self.stats.dropped.own += 1;
            return;
        }
        let Ok((message, skipped)) = Message::parse(payload) else {
            self.stats.dropped.malformed += 1;
            return;
        };
        if skipped > 0 {
            self.stats.dropped.parts += skipped;
            self.events.add_notice(Notice::Unreadable { from, originator: from.address });
        }
        match self.neighbours.hear(now, from, &self.config) {
            Room::Enough => {}
            Room::Made => self.stats.dropped.full += 1,
            Room::None => {
                self.stats.dropped.full += 1;
                return;
            }
        }
        match message {
            Message::Request(request) => self.handle_request(now, arrival, request),
            Message::Reply(reply) if self.is_hello(arrival, &reply) => {
                self.handle_hello(now, from, &reply);
            }
            Message::Reply(reply) => {
                if !self.may_take(now, from, MessageKind::Reply, reply.hops > 0) {
                    return;
                }
                self.handle_reply(now, arrival, reply);
            }
            Message::Error(errors) => {
                if !self.may_take(now, from, MessageKind::Error, false) {
                    return;
                }
                self.handle_errors(now, from, &errors);
            }
            Message::Acknowledgement => {
                self.stats.received.acknowledgements += 1;
                if !self.neighbours.acknowledge(from) {
                    self.stats.dropped.unexpected += 1;
                }
            }
        }
        self.settle_hosts(now);
    }

    fn handle_demand(&mut self, now: Time, demand: &Demand) {
        match demand.from {
            None => self.demand(now, demand.destination),
            Some(from) => self.refuse(now, demand.destination, from),
        }
    }

    fn handle_passage(&mut self, now: Time, passage: &Passage) {
        self.note_activity(now);
        let Passage { source, destination, from, next } = *passage;
        if from == Some(next) {
            // The packet would return to its sender: the neighbour or this node has a wrong route.
            self.end(now, vec![destination]);
            return;
        }
        self.use_route(now, destination, next);
        self.use_route(now, next.address, next);
        self.expect(now, next);
        if let Some(gateway) = self.hosts.gateway(destination) {
            self.use_route(now, gateway, next);
        }
        if from.is_none() {
            self.hosts.extend(destination, now + self.config.active_route_timeout);
        }
        if let Some(from) = from {
            self.use_route(now, source, from);
            self.use_route(now, from.address, from);
        }
    }

    fn handle_break(&mut self, now: Time, neighbour: Neighbour) {
        self.lose(now, neighbour);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.waits_until.take_if(|until| *until <= now).is_some() {
            self.table.note_all_changed();
        }
        let ignored_for = self.config.unidirectional.blacklist_timeout;
        let (ignored, gone) = self.neighbours.expire(now, ignored_for);
        self.stats.blacklisted += ignored;
        gone.into_iter().for_each(|neighbour| self.lose(now, neighbour));
        self.stats.routes_expired += self.table.expire(now, self.config.delete_period);
        self.settle_hosts(now);
        self.search(now);
        self.say_hello(now);
        self.outbox.handle_timeout(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        while let Some(destination) = self.table.poll_changed() {
            self.hosts.note_gateway(destination);
            if let Some(event) = self.news(destination) {
                return Some(event);
            }
        }
        while let Some(host) = self.hosts.poll_changed() {
            if let Some(event) = self.news(host) {
                return Some(event);
            }
        }
        let unreachable = self.unreachable.pop_first().map(Event::Unreachable);
        unreachable.or_else(|| self.events.poll())
    }

    fn poll_transmit(
        &mut self,
        _now: Time,
        interface: usize,
        out: &mut Vec<u8>,
    ) -> Option<Sending> {
        self.outbox.poll(interface, out)
    }

    fn next_timeout(&self) -> Option<Time> {
        [
            self.waits_until,
            self.table.next_timeout(),
            self.hosts.next_timeout(),
            self.neighbours.next_timeout(),
            self.discoveries.next_timeout(),
            self.outbox.next_timeout(),
            self.hello_due,
        ]
        .into_iter()
        .fold(None, earliest)
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        let given = self.given.iter();
        given.map(|(&destination, &route)| (Prefix::host(destination.into()), route)).collect()
    }

    fn counters(&self) -> Vec<(&'static Counted, u64)> {
        named(&self.stats)
    }
}

// Sends route requests, and relays requests of others (RFC 3561, 6.3 and 6.5).

impl Aodv {
    /// Asks all for a route, so far.
    fn ask(&mut self, now: Time, destination: Ipv4Addr, ttl: u8) {
        if !self.request_limit.spend(now) {
            return;
        }
        let id = self.next_request();
        let originator_sequence = self.next_sequence();
        let interfaces: Vec<(usize, Ipv4Addr)> =
            self.ports.iter().map(|(&index, port)| (index, port.address)).collect();
        for (interface, originator) in interfaces {
            let request = Request {
                join: false,
                repair: false,
                gratuitous: self.config.gratuitous,
                destination_only: self.config.destination_only,
                hops: 0,
                id,
                destination,
                destination_sequence: self.table.get(destination).and_then(|entry| entry.sequence),
                originator,
                originator_sequence,
            };
            self.own_requests.make(now, &request);
            let is_sent = self.broadcast(now, interface, ttl, &Message::Request(request));
            self.stats.sent.requests += u64::from(is_sent);
        }
    }

    fn handle_request(&mut self, now: Time, arrival: &Arrival, request: Request) {
        self.stats.received.requests += 1;
        let from = arrival.from;
        let Request { originator, destination, .. } = request;
        if self.is_own(originator) {
            self.stats.dropped.own += 1;
            if !self.own_requests.may_have_made(now, &request) {
                self.dispute(originator, from);
            }
            self.raise(now, request.originator_sequence);
            return;
        }
        // Who has come no hop is the neighbour itself.
        let is_first = request.hops == 0;
        if !is_host(originator)
            || !is_host(destination)
            || originator == destination
            || is_first != (originator == from.address)
        {
            self.stats.dropped.forged += 1;
            return;
        }
        if self.neighbours.is_ignored(now, from) {
            self.stats.dropped.blacklisted += 1;
            return;
        }
        if !self.may_take(now, from, MessageKind::Request, !is_first) {
            return;
        }
        self.offer_neighbour(now, from);
        match self.seen_requests.look(now, originator, request.id) {
            Sight::First => {}
            Sight::FirstInPlace => self.stats.dropped.full += 1,
            Sight::Repeated => {
                self.stats.dropped.repeated += 1;
                return;
            }
        }
        let Some(hops) = request.hops.checked_add(1) else {
            self.stats.dropped.expired += 1;
            return;
        };
        let request = Request { hops, ..request };
        if self.learn_way_back(now, from, &request) {
            self.answer_or_forward(now, arrival, request);
        }
    }

    /// Learns the way back to the originator; whether there is one.
    fn learn_way_back(&mut self, now: Time, from: Neighbour, request: &Request) -> bool {
        let Request { originator, hops, originator_sequence, .. } = *request;
        let there_and_back = 2 * self.config.net_traversal_time();
        let travelled = 2 * self.config.node_traversal_time * u32::from(hops);
        let minimal = now + there_and_back.saturating_sub(travelled);
        let until = self.table.valid(originator).map_or(minimal, |entry| entry.until.max(minimal));
        let sequence = Some(originator_sequence);
        match self.offer(now, originator, Offer { sequence, hops, next: from, until }) {
            Taken::Full => return false,
            Taken::Stale => self.table.extend_valid(originator, minimal),
            Taken::Updated | Taken::UpdatedInPlace => {}
        }
        let is_known = self.table.valid(originator).is_some();
        if !is_known {
            // It is older than what ended the last route to the originator. Either a newer request has overtaken it, or
            // the originator does not know the number that the network has for it, and is told.
            self.stats.dropped.stale += 1;
            if let Some(number) = self.table.get(originator).and_then(|entry| entry.sequence) {
                self.tell_number(now, from, originator, number);
            }
        }
        is_known
    }

    fn answer_or_forward(&mut self, now: Time, arrival: &Arrival, request: Request) {
        let from = arrival.from;
        if self.is_own(request.destination) {
            self.answer(now, from, &request);
        } else if self.config.internet.gateway && self.is_internet(request.destination) {
            self.answer_for_internet(now, from, &request);
        } else if self.is_waiting(now) {
            self.stats.dropped.waiting += 1;
        } else if self.knows(from, &request) {
            self.answer_for_another(now, from, &request);
        } else {
            self.forward_request(now, arrival, request);
        }
    }

    /// Whether this node may answer for the destination (RFC 3561, 6.6).
    fn knows(&self, from: Neighbour, request: &Request) -> bool {
        if request.destination_only || self.is_internet(request.destination) {
            return false;
        }
        let Some(entry) = self.table.valid(request.destination) else { return false };
        let Some(known) = entry.sequence else { return false };
        let is_new = request.destination_sequence.is_none_or(|wanted| !replaces(wanted, known));
        // A route to the destination must not lead through the asking node. The RFC does not say so: it relies on the
        // asker's memory, which may be lost.
        let leads_back = entry.next == from || entry.next.address == request.originator;
        is_new && !leads_back
    }

    fn forward_request(&mut self, now: Time, arrival: &Arrival, request: Request) {
        if arrival.ttl <= 1 {
            self.stats.dropped.expired += 1;
            return;
        }
        let is_known =
            self.config.hello.mode == Hellos::Off || self.neighbours.says_hello(arrival.from);
        if !self.forwards[usize::from(is_known)].spend(now) {
            self.stats.dropped.flooded += 1;
            return;
        }
        let ttl = (arrival.ttl - 1).min(self.config.net_diameter);
        let known = self.table.get(request.destination).and_then(|entry| entry.sequence);
        let destination_sequence = match (request.destination_sequence, known) {
            (Some(wanted), Some(known)) if replaces(known, wanted) => Some(known),
            (wanted, known) => wanted.or(known),
        };
        let message = Message::Request(Request { destination_sequence, ..request });
        let interfaces: Vec<usize> = self.ports.keys().copied().collect();
        for interface in interfaces {
            // Relayed requests leave room for this node's own messages.
            if self.outbox.waiting(interface) >= self.config.bounds.messages.div_ceil(2) {
                self.stats.dropped.unsent += 1;
                continue;
            }
            let is_sent = self.broadcast(now, interface, ttl, &message);
            self.stats.sent.requests_forwarded += u64::from(is_sent);
        }
    }

    /// The remaining lifetime of a route, to be announced to another node.
    fn remaining(&self, now: Time, destination: Ipv4Addr) -> Duration {
        self.table.valid(destination).map_or(Duration::ZERO, |entry| entry.until.since(now))
    }
}

// Sends and handles route replies (RFC 3561, 6.6 to 6.8).

/// How far a node's own number may be ahead of the number known to others, after counting on: hours of requests at the
/// highest usual rate.
const COUNTED: u32 = 1 << 16;

impl Aodv {
    /// Answers as the destination.
    fn answer(&mut self, now: Time, from: Neighbour, request: &Request) {
        // Counts on from the known number: nodes on the way with a route of the same number would drop the answer, a
        // case that the RFC leaves open (AODV-UU counts on too). The same holds if our number is further ahead than we
        // have ever counted: an answer with our own number would look old to nodes whose number lies beyond ours on the
        // circle.
        if let Some(wanted) = request.destination_sequence {
            let ahead = self.sequence.wrapping_sub(wanted);
            if ahead == 0 || ahead > COUNTED {
                self.sequence = wanted;
                self.next_sequence();
            }
        }
        if self.sequence == 0 {
            self.next_sequence();
        }
        // Of a node's addresses, all except the address on the link to the neighbour count as one hop farther.
        let is_here =
            self.ports.get(&from.interface).is_some_and(|port| port.address == request.destination);
        let reply = Reply {
            hops: u8::from(!is_here),
            ..self.reply_to(request, request.destination, self.sequence)
        };
        self.send_reply(now, request.originator, reply, self.config.net_diameter);
    }

    /// Answers as the gateway to the Internet: with a route to itself, newer than any before, since
    /// nodes on the way would drop it otherwise.
    fn answer_for_internet(&mut self, now: Time, from: Neighbour, request: &Request) {
        let Some(port) = self.ports.get(&from.interface) else { return };
        let address = port.address;
        let sequence = self.next_sequence();
        let reply = Reply {
            lifetime: self.config.active_route_timeout,
            internet: Some(request.destination),
            ..self.reply_to(request, address, sequence)
        };
        self.send_reply(now, request.originator, reply, self.config.net_diameter);
    }

    /// Answers a request for a destination to which we have a route, and sends the destination a route to the
    /// originator if the request asks for a gratuitous reply.
    fn answer_for_another(&mut self, now: Time, from: Neighbour, request: &Request) {
        let Request { originator, destination, .. } = *request;
        let Some(entry) = self.table.valid(destination) else { return };
        let (next, hops, sequence) = (entry.next, entry.hops, entry.sequence.unwrap_or(0));
        let lifetime = self.remaining(now, destination);
        let reply = Reply { hops, lifetime, ..self.reply_to(request, destination, sequence) };
        self.add_precursor(destination, from);
        self.add_precursor(originator, next);
        self.send_reply(now, originator, reply, self.config.net_diameter);

        if request.gratuitous
            && let Some(entry) = self.table.valid(originator)
        {
            let reply = Reply {
                hops: entry.hops,
                destination: originator,
                sequence: entry.sequence.unwrap_or(request.originator_sequence),
                originator: destination,
                lifetime: self.remaining(now, originator),
                ..reply
            };
            self.send_reply(now, destination, reply, self.config.net_diameter);
        }
    }

    fn reply_to(&self, request: &Request, destination: Ipv4Addr, sequence: u32) -> Reply {
        Reply::new(destination, sequence, request.originator, self.config.my_route_timeout)
    }

    /// Sends a reply towards its receiver.
    fn send_reply(&mut self, now: Time, towards: Ipv4Addr, reply: Reply, ttl: u8) {
        if let Some(next) = self.next_towards(now, towards)
            && self.write_reply(now, next, reply, ttl)
        {
            self.stats.sent.replies += 1;
        }
    }

    /// The next hop for a reply; sending prolongs its route.
    fn next_towards(&mut self, now: Time, originator: Ipv4Addr) -> Option<Neighbour> {
        let Some(next) = self.table.valid(originator).map(|entry| entry.next) else {
            self.stats.dropped.no_reverse_route += 1;
            return None;
        };
        self.table.extend_valid(originator, now + self.config.active_route_timeout);
        self.note_activity(now);
        Some(next)
    }

    fn write_reply(&mut self, now: Time, next: Neighbour, reply: Reply, ttl: u8) -> bool {
        let by = now + self.config.unidirectional.next_hop_wait;
        let acknowledge = self.config.unidirectional.acknowledge
            && self.neighbours.await_acknowledgement(next, by);
        self.unicast(next, ttl, &Message::Reply(Reply { acknowledge, ..reply }))
    }

    fn handle_reply(&mut self, now: Time, arrival: &Arrival, reply: Reply) {
        let from = arrival.from;
        self.stats.received.replies += 1;
        if reply.acknowledge && self.unicast(from, 1, &Message::Acknowledgement) {
            self.stats.sent.acknowledgements += 1;
        }
        if self.is_own(reply.destination) {
            self.stats.dropped.own += 1;
            // Only this node may increment the number.
            if is_after(reply.sequence, self.sequence) && !self.own_requests.is_unsure(now) {
                self.dispute(reply.destination, from);
            }
            self.raise(now, reply.sequence);
            return;
        }
        if !arrival.is_unicast
            || !is_host(reply.destination)
            || !is_host(reply.originator)
            || (reply.hops == 0) != (reply.destination == from.address)
        {
            self.stats.dropped.forged += 1;
            return;
        }
        self.offer_neighbour(now, from);
        let Some(hops) = reply.hops.checked_add(1) else {
            self.stats.dropped.expired += 1;
            return;
        };
        let reply = Reply { hops, ..reply };
        if self.learn_way(now, from, &reply) {
            self.accept_or_forward(now, arrival, reply);
        }
    }

    /// Learns the way to the destination; whether it is news.
    fn learn_way(&mut self, now: Time, from: Neighbour, reply: &Reply) -> bool {
        let lifetime = reply.lifetime.min(self.config.longest_lifetime());
        if lifetime == Duration::ZERO {
            self.stats.dropped.stale += 1;
            return false;
        }
        let offer = Offer {
            sequence: Some(reply.sequence),
            hops: reply.hops,
            next: from,
            until: now + lifetime,
        };
        match self.offer(now, reply.destination, offer) {
            Taken::Full => false,
            Taken::Stale => {
                self.stats.dropped.stale += 1;
                self.contradict(now, from, reply);
                false
            }
            Taken::Updated | Taken::UpdatedInPlace => {
                self.expect(now, from);
                true
            }
        }
    }

    /// A reply is older than the last, ended route to its destination: the destination does not know the number stored
    /// here, and is informed. The searching node asks again as soon as the destination can know.
    fn contradict(&mut self, now: Time, from: Neighbour, reply: &Reply) {
        let known = self.table.get(reply.destination).filter(|entry| !entry.is_valid);
        let Some(number) = known.and_then(|entry| entry.sequence) else { return };
        self.tell_number(now, from, reply.destination, number);
        if self.is_own(reply.originator) {
            let there = self.config.node_traversal_time * u32::from(reply.hops);
            self.discoveries.hurry_one(reply.destination, now + there);
        }
    }

    fn accept_or_forward(&mut self, now: Time, arrival: &Arrival, reply: Reply) {
        if self.is_own(reply.originator) {
            self.note_activity(now);
            if let Some(host) = reply.internet {
                self.accept_gateway(now, host, &reply);
            }
            return;
        }
        if self.is_waiting(now) {
            self.stats.dropped.waiting += 1;
            return;
        }
        if arrival.ttl <= 1 {
            self.stats.dropped.expired += 1;
            return;
        }
        let from = arrival.from;
        let Some(next) = self.next_towards(now, reply.originator) else { return };
        if next == from {
            self.stats.dropped.no_reverse_route += 1;
            return;
        }
        self.add_precursor(reply.destination, next);
        self.add_precursor(from.address, next);
        self.add_precursor(reply.originator, from);
        let ttl = (arrival.ttl - 1).min(self.config.net_diameter);
        if self.write_reply(now, next, reply, ttl) {
            self.stats.sent.replies_forwarded += 1;
        }
    }

    /// A gateway answered for an Internet host. A gateway already in use gives way to a nearer one.
    fn accept_gateway(&mut self, now: Time, host: Ipv4Addr, reply: &Reply) {
        if !self.is_internet(host) || !is_host(host) || self.is_internet(reply.destination) {
            self.stats.dropped.forged += 1;
            return;
        }
        let gateway = reply.destination;
        let nearer =
            self.hosts.gateway(host).filter(|&other| other != gateway).is_none_or(|other| {
                self.table.valid(other).is_none_or(|entry| reply.hops < entry.hops)
            });
        if !nearer {
            self.stats.dropped.stale += 1;
            return;
        }
        let until = now + reply.lifetime.min(self.config.longest_lifetime());
        if self.hosts.set(host, gateway, until, self.config.bounds.internet) {
            self.discoveries.end(host);
        } else {
            self.stats.dropped.full += 1;
        }
    }
}

// Sends and handles hellos, which show the presence of neighbours (RFC 3561, 6.9).

impl Aodv {
    /// Says hello where nothing else was said, if it is due.
    fn say_hello(&mut self, now: Time) {
        if self.hello_due.is_none_or(|due| due > now) {
            return;
        }
        let is_wanted = match self.config.hello.mode {
            Hellos::Active => self.active_until > now,
            Hellos::Always => true,
            Hellos::Off => false,
        };
        let interval = self.config.hello.interval;
        self.hello_due = (is_wanted && !self.ports.is_empty()).then_some(now + interval);
        // While it waits, nobody should take it for a way, unless it has answered for itself.
        let is_hidden = self.is_waiting(now) && self.active_until <= now;
        if self.hello_due.is_none() || is_hidden {
            return;
        }
        let silent: Vec<(usize, Ipv4Addr)> = self
            .ports
            .iter()
            .filter(|(_, port)| port.broadcast_at.is_none_or(|at| at + interval <= now))
            .map(|(&index, port)| (index, port.address))
            .collect();
        // ns-2's AODV-UU, whose values the other profile has, sends none.
        let hello_interval = (self.config.profile == Profile::Hello).then_some(interval);
        for (interface, address) in silent {
            let lifetime = interval * u32::from(self.config.hello.allowed_loss);
            let hello = Reply::new(address, self.sequence, address, lifetime);
            let hello = Reply { hello_interval, ..hello };
            let is_sent = self.broadcast(now, interface, 1, &Message::Reply(hello));
            self.stats.sent.hellos += u64::from(is_sent);
        }
    }

    /// Whether a reply is a hello, which only shows the sender's presence.
    fn is_hello(&self, arrival: &Arrival, reply: &Reply) -> bool {
        let is_neighbours = reply.hops == 0 && reply.destination == arrival.from.address;
        !arrival.is_unicast && is_neighbours
    }

    /// Notes that a neighbour is present, and its sequence number.
    fn handle_hello(&mut self, now: Time, from: Neighbour, hello: &Reply) {
        self.stats.received.hellos += 1;
        let allowed = self.config.hello;
        // Never sooner than with our own interval: a forged short interval must not end a neighbour.
        let interval = hello.hello_interval.unwrap_or_default().max(allowed.interval);
        let silence = interval.saturating_mul(allowed.allowed_loss.into());
        let silence = silence.min(self.config.longest_lifetime()).max(Duration::from_millis(1));
        // Nodes without a sequence number write 0.
        let sequence = Some(hello.sequence).filter(|&sequence| sequence != 0);
        let offer = Offer { sequence, hops: 1, next: from, until: now + silence };
        let is_ours =
            |node: &Self| node.table.valid(from.address).is_some_and(|entry| entry.next == from);
        let kept = self.table.valid(from.address).map(|entry| entry.until);
        if self.offer(now, from.address, offer) != Taken::Updated {
            // The sequence number is the known one or older; even so, the sender is a neighbour.
            self.offer(now, from.address, Offer { sequence: None, ..offer });
        }
        if is_ours(self) {
            self.table.extend(from.address, kept.unwrap_or(now).max(now + silence));
        }
        if self.config.hello.mode != Hellos::Off {
            self.neighbours.hello(now, from, silence);
        }
    }
}

// Handles broken routes, and reports them to their users (RFC 3561, 6.11).

/// The least lifetime of a route despite forged errors.
const LEAST: Duration = Duration::from_secs(1);

/// A destination that cannot be reached, and the neighbours to inform.
struct Loss {
    destination: Ipv4Addr,
    sequence: u32,
    told: BTreeSet<Neighbour>,
}

/// How errors are written.
#[derive(Clone, Copy, Debug, Default)]
struct Tell {
    no_delete: bool,
    /// Whether a packet was refused, and no route ended.
    is_refusal: bool,
    /// To all, even if only one neighbour is known to use the routes.
    to_all: bool,
}

impl Loss {
    fn of(destination: Ipv4Addr, entry: Entry) -> Self {
        Self { destination, sequence: entry.sequence.unwrap_or(0), told: entry.precursors }
    }
}

impl Aodv {
    /// A neighbour cannot be reached any more.
    fn lose(&mut self, now: Time, neighbour: Neighbour) {
        self.stats.breaks += 1;
        let ignored_for = self.config.unidirectional.blacklist_timeout;
        self.stats.blacklisted += u64::from(self.neighbours.lose(now, neighbour, ignored_for));
        let lost = self.table.through(neighbour);
        self.end(now, lost);
    }

    /// Ends routes, and reports the end to the neighbours using these routes.
    fn end(&mut self, now: Time, destinations: Vec<Ipv4Addr>) {
        let forgotten = now + self.config.delete_period;
        let losses: Vec<Loss> = destinations
            .into_iter()
            .filter_map(|destination| {
                let entry = self.table.invalidate(destination, None, forgotten)?;
                Some(Loss::of(destination, entry))
            })
            .collect();
        self.tell(now, Tell::default(), &losses);
        self.settle_hosts(now);
    }

    fn handle_errors(&mut self, now: Time, from: Neighbour, errors: &Errors) {
        self.stats.received.errors += 1;
        let forgotten = now + self.config.delete_period;
        let mut losses = Vec::new();
        // While somebody forges errors in the name of this neighbour, its routes last at least this long. A real error
        // ignored now comes again with the next packet that the neighbour cannot forward.
        let is_flood = self.neighbours.floods(now, from, MessageKind::Error);
        for &(destination, sequence) in &errors.unreachable {
            if sequence != 0
                && self.take_number(now, from, errors.no_delete, (destination, sequence))
            {
                continue;
            }
            self.lose_host(destination, from);
            let Some(entry) = self.table.valid(destination).filter(|entry| entry.next == from)
            else {
                continue;
            };
            if errors.no_delete {
                losses.push(Loss::of(destination, entry.clone()));
                continue;
            }
            if destination == from.address {
                // Whoever can be heard can be reached.
                self.stats.dropped.forged += 1;
                continue;
            }
            if is_flood && now.since(entry.since) < LEAST {
                self.stats.dropped.flooded += 1;
                continue;
            }
            // Nodes that do not know the number write 0.
            let sequence = Some(sequence).filter(|&sequence| sequence != 0);
            let ended = self.table.invalidate(destination, sequence, forgotten);
            losses.extend(ended.map(|entry| Loss::of(destination, entry)));
        }
        self.tell(now, Tell { no_delete: errors.no_delete, ..Tell::default() }, &losses);
    }

    /// Handles a sequence number that a neighbour knows: raises our own number to it, or passes another node's number
    /// on towards that node without ending the route. Returns whether the message was of this kind.
    fn take_number(
        &mut self,
        now: Time,
        from: Neighbour,
        no_delete: bool,
        (node, number): (Ipv4Addr, u32),
    ) -> bool {
        if self.is_own(node) {
            self.raise(now, number);
            return true;
        }
        let Some(entry) = self.table.valid(node).filter(|it| no_delete && it.next != from) else {
            return false;
        };
        // Whether it is news only the node itself can tell: others may know of any number.
        let next = entry.next;
        self.tell_number(now, next, node, number);
        true
    }

    /// Tells a node, through this neighbour, that the network knows a newer sequence number for it than the node itself
    /// uses, so its messages count as old. The message is an RERR with the N flag: nodes without this extension ignore
    /// it, because they have no route to that node through us.
    fn tell_number(&mut self, now: Time, to: Neighbour, node: Ipv4Addr, number: u32) {
        if !self.number_limit.spend(now) {
            self.stats.dropped.errors_limited += 1;
            return;
        }
        let errors = Errors { no_delete: true, unreachable: vec![(node, number)] };
        let is_sent = self.unicast(to, 1, &Message::Error(errors));
        self.stats.sent.errors += u64::from(is_sent);
    }

    /// An Internet host cannot be reached through the neighbour that leads to its gateway.
    fn lose_host(&mut self, host: Ipv4Addr, from: Neighbour) {
        if let Some(gateway) = self.hosts.gateway(host)
            && self.table.valid(gateway).is_some_and(|entry| entry.next == from)
        {
            self.hosts.remove(host);
        }
    }

    /// Reports to a neighbour that we have no route for its packet. While the node waits, all other neighbours are
    /// informed too, because they may have known the route before the restart (RFC 3561, 6.13).
    fn refuse(&mut self, now: Time, destination: Ipv4Addr, from: Neighbour) {
        let until = now + self.config.delete_period;
        let is_waiting = self.is_waiting(now);
        if is_waiting {
            self.waits_until = Some(until);
        } else if self.table.valid(destination).is_some() {
            // There is one by now.
            return;
        } else {
            self.table.extend(destination, until);
        }
        let sequence = self.table.get(destination).and_then(|entry| entry.sequence);
        let told = BTreeSet::from([from]);
        let loss = Loss { destination, sequence: sequence.unwrap_or(0), told };
        let how = Tell { is_refusal: true, to_all: is_waiting, ..Tell::default() };
        self.tell(now, how, &[loss]);
    }

    /// Prolongs a route because a packet uses it, if the packet took the present route. Without a present route the old
    /// entry is kept: the other end may still have a route.
    fn use_route(&mut self, now: Time, destination: Ipv4Addr, next: Neighbour) {
        let Some(entry) = self.table.get(destination) else { return };
        let until = match entry.is_valid {
            true if entry.next == next => now + self.config.active_route_timeout,
            true => return,
            false => now + self.config.delete_period,
        };
        self.table.extend(destination, until);
    }

    /// Sends errors to the users of the routes: to a single user alone, or to all.
    fn tell(&mut self, now: Time, how: Tell, losses: &[Loss]) {
        let Tell { no_delete, is_refusal, to_all } = how;
        let told: BTreeSet<Neighbour> =
            losses.iter().flat_map(|loss| loss.told.iter().copied()).collect();
        let unreachable: Vec<(Ipv4Addr, u32)> = losses
            .iter()
            .filter(|loss| !loss.told.is_empty())
            .map(|loss| (loss.destination, loss.sequence))
            .collect();
        let interfaces: BTreeSet<usize> =
            told.iter().map(|neighbour| neighbour.interface).collect();
        let alone = told.first().copied().filter(|_| told.len() == 1 && !to_all);
        for interface in interfaces {
            let room = self.ports.get(&interface).map_or(0, |port| port.room);
            let most = (room.saturating_sub(ERROR_HEADER) / UNREACHABLE_LEN).clamp(1, 255);
            for part in unreachable.chunks(most) {
                let limit =
                    if is_refusal { &mut self.refusal_limit } else { &mut self.error_limit };
                if !limit.spend(now) {
                    self.stats.dropped.errors_limited += 1;
                    continue;
                }
                let message = Message::Error(Errors { no_delete, unreachable: part.to_vec() });
                let is_sent = match alone {
                    Some(neighbour) => self.unicast(neighbour, 1, &message),
                    None => self.broadcast(now, interface, 1, &message),
                };
                self.stats.sent.errors += u64::from(is_sent);
            }
        }
    }
}
