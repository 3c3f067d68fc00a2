//! The AODV node: handles messages and timers, and reports routes to the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use base::budget::Budget;
use base::ip::Prefix;
use base::rng::Rng;
use base::serial::{is_after, is_near, low32};
use base::time::{Time, earliest};

use super::super::notices::Notices;
use super::super::{
    Arrival, Carrier, Demand, Event, Interface, Neighbour, Notice, Passage, Route, Router, Sending,
};
use super::config::{Config, Hellos};
use super::discovery::{Discoveries, Limit, Step};
use super::internet::Hosts;
use super::neighbours::{Neighbours, Room, Said};
use super::outbox::Outbox;
use super::own::Own;
use super::seen::Seen;
use super::stats::Stats;
use super::table::{Entry, Offer, Table, Taken};
use super::wire::Message;
use super::{PORT, table};

/// AODV on a node. See [`Router`] for how it is driven.
#[derive(Debug)]
pub struct Aodv {
    pub(super) config: Config,
    rng: Rng,
    pub(super) links: BTreeMap<usize, Link>,
    /// The node's own sequence number; 0 before there is one.
    pub(super) sequence: u32,
    /// The IDs of the node's requests: random, because others would take requests with guessed IDs for repeated.
    ids: Rng,
    pub(super) table: Table,
    pub(super) hosts: Hosts,
    pub(super) seen: Seen,
    pub(super) own: Own,
    pub(super) neighbours: Neighbours,
    pub(super) discoveries: Discoveries,
    pub(super) request_limit: Limit,
    /// Budgets for relaying requests: one for strangers, one for neighbours that send hellos.
    pub(super) forwards: [Budget; 2],
    /// Limits of three kinds of error: routes that others ended, packets without a route, and sequence numbers unknown
    /// to their own node. Forged causes of one kind use up only that kind.
    pub(super) error_limit: Limit,
    pub(super) refusal_limit: Limit,
    pub(super) number_limit: Limit,
    pub(super) outbox: Outbox,
    /// What the driver was told.
    given: BTreeMap<Ipv4Addr, Route>,
    /// Destinations not found, to report to the driver.
    unreachable: BTreeSet<Ipv4Addr>,
    notices: Notices,
    /// Whether there has been an interface.
    is_started: bool,
    /// Until when the node waits after it has started.
    pub(super) waits_until: Option<Time>,
    /// Until when the node counts as part of an active route.
    pub(super) active_until: Time,
    pub(super) hello_due: Option<Time>,
    pub(super) stats: Stats,
}

/// An interface that is up.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: Ipv4Addr,
    pub(super) room: usize,
    /// When the last message to all was written.
    pub(super) broadcast_at: Option<Time>,
}

impl Aodv {
    /// A node without interfaces; its jitter comes from `rng`.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        Self {
            links: BTreeMap::new(),
            sequence: 0,
            ids: rng.clone(),
            table: Table::new(config.bounds.routes),
            hosts: Hosts::default(),
            seen: Seen::new(config.bounds.requests, config.path_discovery_time()),
            own: Own::new(config.bounds.requests, config.path_discovery_time()),
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
            notices: Notices::default(),
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

    /// The node's sequence number, and what it knows of a destination: the sequence number, the hops
    /// and whether the route is valid.
    #[cfg(test)]
    pub(super) fn known(&self, destination: Ipv4Addr) -> Option<(Option<u32>, u8, bool)> {
        let entry = self.table.get(destination)?;
        Some((entry.sequence, entry.hops, entry.is_valid))
    }

    /// How much it remembers.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 5] {
        let (seen, neighbours) = (self.seen.len(), self.neighbours.len());
        [self.table.len(), seen, neighbours, self.discoveries.len(), self.hosts.len()]
    }

    pub(super) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.links.values().any(|link| link.address == address)
    }

    /// Whether an address belongs to a host behind a gateway.
    pub(super) fn is_internet(&self, address: Ipv4Addr) -> bool {
        !self.config.internet.manet.contains(address.into())
    }

    pub(super) fn is_waiting(&self, now: Time) -> bool {
        self.waits_until.is_some_and(|until| until > now)
    }

    /// The node's sequence number, one more than before.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence = table::successor(self.sequence);
        self.sequence
    }

    /// The id of the node's next request.
    pub(super) fn next_request(&mut self) -> u32 {
        low32(self.ids.bits())
    }

    /// Raises our sequence number to one that the network already knows, forged or not, so that our next message counts
    /// as newer; running route discoveries are repeated at once.
    pub(super) fn raise(&mut self, now: Time, number: u32) {
        if number != self.sequence && !is_after(self.sequence, number) {
            self.sequence = number;
            self.stats.raised += 1;
            self.discoveries.hurry(now);
        }
    }

    /// Notes that the node is part of an active route, and therefore has to send hellos.
    pub(super) fn note_activity(&mut self, now: Time) {
        self.active_until = now + self.config.active_route_timeout;
        if self.config.hello.mode == Hellos::Active && self.hello_due.is_none() {
            self.hello_due = Some(now);
        }
    }

    /// Offers a route through a neighbour to the table.
    pub(super) fn offer(&mut self, now: Time, destination: Ipv4Addr, offer: Offer) -> Taken {
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
    pub(super) fn expect(&mut self, now: Time, neighbour: Neighbour) {
        if self.config.hello.mode != Hellos::Off {
            let interval = self.config.hello.interval;
            let until = now + interval + interval / 2;
            self.neighbours.expect(now, neighbour, until, &self.config);
        }
    }

    /// A neighbour was heard, so there is a route to it (RFC 3561, 6.2).
    pub(super) fn offer_neighbour(&mut self, now: Time, neighbour: Neighbour) {
        let until = now + self.config.active_route_timeout;
        let offer = Offer { sequence: None, hops: 1, next: neighbour, until };
        if self.offer(now, neighbour.address, offer) == Taken::Stale
            && self.table.valid(neighbour.address).is_some_and(|entry| entry.next == neighbour)
        {
            self.table.extend(neighbour.address, until);
        }
    }

    pub(super) fn add_precursor(&mut self, destination: Ipv4Addr, neighbour: Neighbour) {
        if !self.table.add_precursor(destination, neighbour, self.config.bounds.precursors) {
            self.stats.dropped.full += 1;
        }
    }

    /// Reports that another node writes messages with this address of ours.
    pub(super) fn dispute(&mut self, address: Ipv4Addr, from: Neighbour) {
        self.stats.dropped.disputed += 1;
        self.notices.add(Notice::AddressDisputed { address, from });
    }

    /// Writes a message to a neighbour; whether it will be sent.
    pub(super) fn unicast(&mut self, next: Neighbour, ttl: u8, message: &Message) -> bool {
        let sending = Sending { to: next.address, ttl };
        self.write(next.interface, None, sending, message)
    }

    /// Writes a message to all on an interface; whether it will be sent.
    pub(super) fn broadcast(
        &mut self,
        now: Time,
        interface: usize,
        ttl: u8,
        message: &Message,
    ) -> bool {
        let at = now + self.rng.within(self.config.jitter);
        let is_sent = self.write(
            interface,
            (at > now).then_some(at),
            Sending { to: Ipv4Addr::BROADCAST, ttl },
            message,
        );
        if is_sent && let Some(link) = self.links.get_mut(&interface) {
            link.broadcast_at = Some(now);
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
        let fits = self.links.get(&interface).is_some_and(|link| octets.len() <= link.room);
        let is_sent = fits && self.outbox.push(interface, at, sending, octets);
        if !is_sent {
            self.stats.dropped.unsent += 1;
        }
        is_sent
    }

    /// Forgets the Internet hosts whose gateway cannot be reached any more.
    pub(super) fn settle_hosts(&mut self, now: Time) {
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
        if is_internet && self.config.internet.gateway || !is_usable(destination) {
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
    fn carrier(&self) -> Carrier {
        Carrier::Udp(PORT)
    }

    fn handle_interface(&mut self, now: Time, index: usize, interface: Option<&Interface>) {
        match interface {
            Some(interface) => {
                let Interface { address, room } = *interface;
                let link =
                    self.links.entry(index).or_insert(Link { address, room, broadcast_at: None });
                link.address = address;
                link.room = room;
                if !self.is_started {
                    let until = now + self.config.delete_period;
                    self.own.start(until);
                    self.waits_until = self.config.wait_after_reboot.then_some(until);
                }
                self.is_started = true;
                if self.config.hello.mode == Hellos::Always && self.hello_due.is_none() {
                    self.hello_due = Some(now);
                }
            }
            None => {
                self.links.remove(&index);
                self.outbox.forget(index);
                self.neighbours.forget(index);
                let ended = self.table.on(index);
                self.end(now, ended);
            }
        }
    }

    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]) {
        let from = arrival.from;
        if !self.links.contains_key(&from.interface) || !is_usable(from.address) {
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
            self.notices.add(Notice::Unreadable { from, originator: from.address });
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
                // Whoever floods is no way to others.
                if !self.neighbours.may_say(now, from, Said::Reply)
                    || reply.hops > 0 && self.neighbours.floods(now, from, Said::Reply)
                {
                    self.stats.dropped.flooded += 1;
                    return;
                }
                self.handle_reply(now, arrival, reply);
            }
            Message::Error(errors) => {
                if !self.neighbours.may_say(now, from, Said::Error) {
                    self.stats.dropped.flooded += 1;
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
            // The packet returns to the neighbour that sent it: one of us two has a wrong route.
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
        self.settle_hosts(now);
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
        unreachable.or_else(|| self.notices.poll().map(Event::Notice))
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

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.stats.named()
    }
}

/// Whether a node can have this address.
pub(super) fn is_usable(address: Ipv4Addr) -> bool {
    let is_none = address.is_unspecified() || address.is_loopback();
    !is_none && !address.is_multicast() && !address.is_broadcast()
}
