//! The OSPF router: handles packets and timers.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::{Prefix, V4_HEADER};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::PROTOCOL;
use super::config::Config;
use super::database::Database;
use super::neighbour::{Neighbour as Peer, State};
use super::own::Own;
use super::stats::{Counter, Stats};
use super::wire::{self, Body, Header, Malformed, Packet};
use crate::{Arrival, Carrier, Event, Interface, Neighbour, Route, Router, Sending};

/// OSPF on a node.
#[derive(Debug)]
pub struct Ospf {
    pub(super) config: Config,
    pub(super) rng: Rng,
    /// The router ID, once known.
    pub(super) id: Option<Ipv4Addr>,
    pub(super) links: BTreeMap<usize, Link>,
    pub(super) database: Database,
    pub(super) own: Own,
    /// Whether the routes may differ from what the database says.
    pub(super) is_outdated: bool,
    pub(super) routes: BTreeMap<Prefix, Route>,
    pub(super) events: VecDeque<Event>,
    pub(super) stats: Stats,
}

/// A link, with the neighbour at the other end.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) interface: Interface,
    pub(super) hello_at: Time,
    pub(super) owes_hello: bool,
    pub(super) neighbour: Option<Peer>,
    pub(super) acks: Acks,
}

/// Acknowledgements of LSAs received on a link.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Acknowledgements that may be delayed until others join them.
    pub(super) delayed: Vec<Header>,
    /// Until then.
    pub(super) due: Option<Time>,
    /// Those that leave now.
    pub(super) owed: VecDeque<Header>,
}

/// Packets shorter than this cannot hold one LSA of each kind of a small network.
const LEAST_ROOM: usize = 128;

impl Ospf {
    /// OSPF without links.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        Self {
            id: config.router_id,
            config,
            rng,
            links: BTreeMap::new(),
            database: Database::default(),
            own: Own::default(),
            is_outdated: false,
            routes: BTreeMap::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How far it is with the neighbour on a link.
    #[must_use]
    pub fn state(&self, interface: usize) -> Option<State> {
        Some(self.links.get(&interface)?.neighbour.as_ref()?.state)
    }

    /// LSAs that it has.
    #[must_use]
    pub fn lsas(&self) -> usize {
        self.database.len()
    }

    pub(super) fn peer_mut(&mut self, interface: usize) -> Option<&mut Peer> {
        self.links.get_mut(&interface)?.neighbour.as_mut()
    }

    /// Changes how far it is with a neighbour, and tells the others where that matters to them.
    pub(super) fn set_state(&mut self, interface: usize, state: State) {
        let Some(peer) = self.peer_mut(interface) else { return };
        let before = peer.state;
        if state <= State::ExStart {
            peer.reset(state);
        }
        peer.state = state;
        if state == State::Full && before != State::Full {
            self.stats.count(Counter::Adjacencies);
        }
        if (before == State::Full) != (state == State::Full) {
            self.originate_soon();
        }
    }

    /// Gives the neighbour on a link up.
    pub(super) fn lose(&mut self, interface: usize) {
        let Some(link) = self.links.get_mut(&interface) else { return };
        let Some(peer) = link.neighbour.take() else { return };
        link.acks = Acks::default();
        self.stats.count(Counter::NeighboursLost);
        if peer.state == State::Full {
            self.originate_soon();
        }
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.links.values().any(|link| link.interface.address == address)
    }

    fn take(&mut self, now: Time, from: Neighbour, packet: Packet) {
        let interface = from.interface;
        if packet.area != self.config.area {
            self.stats.count(Counter::AreaMismatches);
            return;
        }
        if Some(packet.router) == self.id || packet.router.is_unspecified() {
            self.stats.count(Counter::PacketsStray);
            return;
        }
        if let Body::Hello(hello) = &packet.body {
            self.handle_hello(now, from, packet.router, hello);
            return;
        }
        let state = match self.peer_mut(interface) {
            Some(peer) if peer.id == packet.router => peer.state,
            _ => {
                self.stats.count(Counter::PacketsEarly);
                return;
            }
        };
        if state < State::Exchange && !matches!(packet.body, Body::Description(_)) {
            self.stats.count(Counter::PacketsEarly);
            return;
        }
        self.stats.count(Counter::PacketsReceived);
        match packet.body {
            Body::Hello(_) => {}
            Body::Description(description) => self.handle_description(now, interface, &description),
            Body::Request(keys) => self.handle_request(interface, &keys),
            Body::Update(lsas) => {
                for lsa in lsas {
                    self.handle_lsa(now, interface, lsa);
                }
            }
            Body::Acknowledgement(headers) => {
                self.handle_acknowledgement(now, interface, &headers);
            }
        }
    }

    /// Does what is due now; what an event brought about, too.
    fn settle(&mut self, now: Time) {
        let dead_at = |link: &Link| Some(link.neighbour.as_ref()?.dead_at);
        let dead = self.links.iter().filter(|(_, link)| dead_at(link).is_some_and(|at| at <= now));
        for interface in dead.map(|(at, _)| *at).collect::<Vec<_>>() {
            self.lose(interface);
        }
        let hello_interval = self.config.hello_interval;
        for link in self.links.values_mut() {
            if link.hello_at <= now {
                link.owes_hello = true;
                link.hello_at = now + hello_interval;
            }
            link.acks.handle_timeout(now);
            let again = link.neighbour.as_mut().map_or(0, |peer| peer.handle_timeout(now));
            self.stats.add(Counter::LsasRetransmitted, again);
        }
        while let Some(key) = self.database.poll_over(now) {
            self.is_outdated = true;
            self.flood(now, key, None);
        }
        self.originate(now);
        if self.forget_over() {
            self.originate(now);
        }
    }
}

impl Router for Ospf {
    fn carrier(&self) -> Carrier {
        Carrier::Ip(PROTOCOL)
    }

    fn handle_interface(&mut self, now: Time, index: usize, interface: Option<&Interface>) {
        let interface = interface.filter(|it| it.room >= LEAST_ROOM);
        let known = self.links.get(&index).map(|link| &link.interface);
        if known == interface {
            return;
        }
        if known.map(|it| it.address) != interface.map(|it| it.address) {
            self.lose(index);
            self.links.remove(&index);
        }
        if let Some(interface) = interface {
            self.id = self.id.or(Some(interface.address));
            let hello_at = now + self.rng.within(self.config.start_jitter);
            let link = self.links.entry(index).or_insert(Link {
                interface: interface.clone(),
                hello_at,
                owes_hello: false,
                neighbour: None,
                acks: Acks::default(),
            });
            link.interface = interface.clone();
        }
        self.originate_soon();
        self.is_outdated = true;
        self.settle(now);
        self.calculate(now);
    }

    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]) {
        self.settle(now);
        let from = arrival.from;
        let is_host = !from.address.is_unspecified() && !from.address.is_multicast();
        if !self.links.contains_key(&from.interface) || !is_host || self.is_own(from.address) {
            self.stats.count(Counter::PacketsStray);
            return;
        }
        match Packet::parse(payload) {
            Ok(packet) => self.take(now, from, packet),
            Err(Malformed::Checksum) => self.stats.count(Counter::PacketsDamaged),
            Err(Malformed::Authentication(_)) => self.stats.count(Counter::PacketsAuthenticated),
            Err(_) => self.stats.count(Counter::PacketsMalformed),
        }
        self.settle(now);
        self.calculate(now);
    }

    fn handle_break(&mut self, now: Time, neighbour: Neighbour) {
        let known = self.links.get(&neighbour.interface).and_then(|it| it.neighbour.as_ref());
        if known.is_some_and(|peer| peer.address == neighbour.address) {
            self.lose(neighbour.interface);
        }
        self.settle(now);
        self.calculate(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.settle(now);
        self.calculate(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transmit(&mut self, now: Time, interface: usize, out: &mut Vec<u8>) -> Option<Sending> {
        let packet = self.next_packet(now, interface)?;
        packet.emit(out);
        Some(Sending { to: super::ALL_ROUTERS, ttl: 1 })
    }

    fn next_timeout(&self) -> Option<Time> {
        let links = self.links.values().flat_map(|link| {
            let neighbour = link.neighbour.as_ref().and_then(Peer::next_timeout);
            [Some(link.hello_at), link.acks.due, neighbour]
        });
        let links = links.flatten().min();
        let own = self.own.next_timeout(&self.config);
        earliest(links, earliest(own, self.database.next_timeout()))
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        self.routes.iter().map(|(prefix, route)| (*prefix, *route)).collect()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.stats.named()
    }
}

impl Link {
    /// Octets of the longest packet on the link.
    pub(super) fn room(&self) -> usize {
        // The length of a packet has 16 bits.
        self.interface.room.min(usize::from(u16::MAX) - V4_HEADER)
    }

    /// How many entries of `each` octets fit a packet beside `others`.
    pub(super) fn entries(&self, others: usize, each: usize) -> usize {
        self.room().saturating_sub(others) / each
    }
}

impl Acks {
    /// Acknowledges an LSA at once.
    pub(super) fn push_direct(&mut self, header: Header, most: usize) {
        if self.owed.len() < most {
            self.owed.push_back(header);
        }
    }

    /// Acknowledges an LSA within the delay.
    pub(super) fn push_delayed(&mut self, now: Time, delay: Duration, header: Header, most: usize) {
        if self.delayed.len() < most {
            self.delayed.push(header);
            self.due = self.due.or(Some(now + delay));
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.due.take_if(|at| *at <= now).is_some() {
            self.owed.extend(self.delayed.drain(..));
        }
    }
}

/// Octets of an acknowledgement or description besides headers, and of each header.
pub(super) const HEADERS: (usize, usize) = (wire::HEADER, 20);
