//! The OSPF router: handles packets and timers.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::counter::{Counter as Counted, named};
use base::ip::{Prefix, V4_HEADER};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::PROTOCOL;
use super::config::Config;
use super::database::Database;
use super::spf::{self, Way};
use super::stats::{Counter, Stats};
use super::wire::{
    self, Body, Description, Header, Hello, Key, Lsa, Malformed, Packet, Point, RouterLsa, kind,
    link, mask, options,
};
use crate::events::Events;
use crate::{Arrival, Carrier, Event, Interface, Neighbour, Notice, Route, Router, Sending};

/// OSPF on a node.
#[derive(Debug)]
pub struct Ospf {
    config: Config,
    rng: Rng,
    /// The router ID, once known.
    id: Option<Ipv4Addr>,
    ports: BTreeMap<usize, Port>,
    database: Database,
    origination: Origination,
    /// Whether the routes may differ from what the database says.
    is_outdated: bool,
    events: Events,
    stats: Stats,
}

/// A link, with the neighbour at the other end.
#[derive(Debug)]
struct Port {
    interface: Interface,
    hello_at: Time,
    is_hello_due: bool,
    neighbour: Option<Peer>,
    acks: Acks,
}

/// Acknowledgements of LSAs received on a link.
#[derive(Debug, Default)]
struct Acks {
    /// Acknowledgements that may be delayed until others join them.
    delayed: Vec<Header>,
    /// Until then.
    due: Option<Time>,
    /// Those that leave now.
    ready: VecDeque<Header>,
}

/// Shorter packets cannot hold an LSA of each kind even in a small network.
const LEAST_ROOM: usize = 128;

impl Ospf {
    /// OSPF without links.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        Self {
            id: config.router_id,
            config,
            rng,
            ports: BTreeMap::new(),
            database: Database::default(),
            origination: Origination::default(),
            is_outdated: false,
            events: Events::default(),
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
        Some(self.ports.get(&interface)?.neighbour.as_ref()?.state)
    }

    /// LSAs that it has.
    #[must_use]
    pub fn lsas(&self) -> usize {
        self.database.len()
    }

    fn peer_mut(&mut self, interface: usize) -> Option<&mut Peer> {
        self.ports.get_mut(&interface)?.neighbour.as_mut()
    }

    /// Changes how far it is with a neighbour, and tells the others where that matters to them.
    fn set_state(&mut self, interface: usize, state: State) {
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
    fn lose(&mut self, interface: usize) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let Some(peer) = port.neighbour.take() else { return };
        port.acks = Acks::default();
        self.stats.count(Counter::NeighboursLost);
        if peer.state == State::Full {
            self.originate_soon();
        }
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.ports.values().any(|port| port.interface.address == address)
    }

    /// Takes a packet; `is_cut` means that the end of the packet's list was unreadable.
    fn take(&mut self, now: Time, from: Neighbour, packet: Packet, is_cut: bool) {
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
            if self.handle_hello(now, from, packet.router, hello) && is_cut {
                self.note_cut(from, packet.router);
            }
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
        if is_cut {
            self.note_cut(from, packet.router);
        }
        match packet.body {
            Body::Hello(_) => {}
            Body::Description(description) => self.handle_description(now, interface, &description),
            Body::Request(keys) => self.handle_request(interface, &keys),
            Body::Update(lsas) => {
                for lsa in lsas {
                    self.handle_lsa(now, from, lsa);
                }
            }
            Body::Acknowledgement(headers) => {
                self.handle_acknowledgement(now, interface, &headers);
            }
        }
    }

    /// A packet of a neighbour ends with something that could not be read.
    fn note_cut(&mut self, from: Neighbour, router: Ipv4Addr) {
        self.stats.count(Counter::PartsUnreadable);
        self.events.add_notice(Notice::Unreadable { from, originator: router });
    }

    /// Acts on deadlines that have passed, and on the consequences of an event.
    fn settle(&mut self, now: Time) {
        let dead_at = |port: &Port| Some(port.neighbour.as_ref()?.dead_at);
        let dead = self.ports.iter().filter(|(_, port)| dead_at(port).is_some_and(|at| at <= now));
        for interface in dead.map(|(at, _)| *at).collect::<Vec<_>>() {
            self.lose(interface);
        }
        let hello_interval = self.config.hello_interval;
        for port in self.ports.values_mut() {
            if port.hello_at <= now {
                port.is_hello_due = true;
                port.hello_at = now + hello_interval;
            }
            port.acks.handle_timeout(now);
            let again = port.neighbour.as_mut().map_or(0, |peer| peer.handle_timeout(now));
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
        let known = self.ports.get(&index).map(|port| &port.interface);
        if known == interface {
            return;
        }
        if known.map(|it| it.address) != interface.map(|it| it.address) {
            self.lose(index);
            self.ports.remove(&index);
        }
        if let Some(interface) = interface {
            self.id = self.id.or(Some(interface.address));
            let hello_at = now + self.rng.within(self.config.start_jitter);
            let port = self.ports.entry(index).or_insert(Port {
                interface: interface.clone(),
                hello_at,
                is_hello_due: false,
                neighbour: None,
                acks: Acks::default(),
            });
            port.interface = interface.clone();
        }
        self.originate_soon();
        self.settle(now);
        self.calculate(now);
    }

    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]) {
        self.settle(now);
        let from = arrival.from;
        let is_host = !from.address.is_unspecified() && !from.address.is_multicast();
        if !self.ports.contains_key(&from.interface) || !is_host || self.is_own(from.address) {
            self.stats.count(Counter::PacketsStray);
        } else {
            match Packet::parse(payload) {
                Ok((packet, is_cut)) => self.take(now, from, packet, is_cut),
                Err(Malformed::Checksum) => self.stats.count(Counter::PacketsDamaged),
                Err(Malformed::Authentication(_)) => {
                    self.stats.count(Counter::PacketsAuthenticated);
                }
                Err(_) => self.stats.count(Counter::PacketsMalformed),
            }
        }
        self.settle(now);
        self.calculate(now);
    }

    fn handle_break(&mut self, now: Time, neighbour: Neighbour) {
        let known = self.ports.get(&neighbour.interface).and_then(|it| it.neighbour.as_ref());
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
        self.events.poll()
    }

    fn poll_transmit(&mut self, now: Time, interface: usize, out: &mut Vec<u8>) -> Option<Sending> {
        let packet = self.next_packet(now, interface)?;
        packet.emit(out);
        Some(Sending { to: super::ALL_ROUTERS, ttl: 1 })
    }

    fn next_timeout(&self) -> Option<Time> {
        let links = self.ports.values().flat_map(|port| {
            let neighbour = port.neighbour.as_ref().and_then(Peer::next_timeout);
            [Some(port.hello_at), port.acks.due, neighbour]
        });
        let links = links.flatten().min();
        let own = self.origination.next_timeout(&self.config);
        earliest(links, earliest(own, self.database.next_timeout()))
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        self.events.routes()
    }

    fn counters(&self) -> Vec<(&'static Counted, u64)> {
        named(&self.stats)
    }
}

impl Port {
    /// Octets of the longest packet on the link.
    fn room(&self) -> usize {
        // The length of a packet has 16 bits.
        self.interface.room.min(usize::from(u16::MAX) - V4_HEADER)
    }

    /// How many entries of `each` octets fit a packet beside `others`.
    fn entries(&self, others: usize, each: usize) -> usize {
        self.room().saturating_sub(others) / each
    }
}

impl Acks {
    /// Acknowledges an LSA at once.
    fn push_direct(&mut self, header: Header, most: usize) {
        if self.ready.len() < most {
            self.ready.push_back(header);
        }
    }

    /// Acknowledges an LSA within the delay.
    fn push_delayed(&mut self, now: Time, delay: Duration, header: Header, most: usize) {
        if self.delayed.len() < most {
            self.delayed.push(header);
            self.due = self.due.or(Some(now + delay));
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.due.take_if(|at| *at <= now).is_some() {
            self.ready.extend(self.delayed.drain(..));
        }
    }
}

/// Octets of an acknowledgement or description besides headers, and of each header.
const HEADERS: (usize, usize) = (wire::HEADER, 20);

// Progress of the router's own LSA: its latest number, and the next one due.

/// State of the router's own LSA: the number of the latest instance, and when the next one is due.
#[derive(Debug, Default)]
struct Origination {
    /// Sequence number of our latest instance, perhaps learnt from another router.
    number: Option<i32>,
    /// When the latest instance was made.
    made_at: Option<Time>,
    /// Whether the content may have changed.
    is_wanted: bool,
    /// Whether a new instance is needed even with the same content.
    is_forced: bool,
    /// Whether the instance with the last number is being flushed, so that the first number can follow.
    is_wrapping: bool,
}

impl Origination {
    /// When the next instance is due.
    fn next_timeout(&self, config: &Config) -> Option<Time> {
        let wait = if self.is_wanted { config.min_ls_interval } else { config.refresh_interval };
        // Neighbours have to acknowledge first.
        if self.is_wrapping { None } else { Some(self.made_at? + wait) }
    }
}

// The neighbour on a link, and the state of the adjacency (RFC 2328, 10).

/// How far a router and its neighbour are.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// The neighbour was heard, but has not confirmed hearing us.
    Init,
    /// Both hear each other, and agree on who leads the exchange.
    ExStart,
    /// Both describe their databases.
    Exchange,
    /// What we lack is under way.
    Loading,
    /// Both know the same: the link counts.
    Full,
}

/// A neighbour.
#[derive(Debug)]
struct Peer {
    /// Its number.
    id: Ipv4Addr,
    /// Its address on the link.
    address: Ipv4Addr,
    /// When it is given up.
    dead_at: Time,
    state: State,
    exchange: Exchange,
    requests: Requests,
    retransmissions: Retransmissions,
}

/// The exchange of descriptions.
#[derive(Debug, Default)]
struct Exchange {
    /// Whether we lead it.
    is_master: bool,
    /// Sequence number of the description in flight.
    number: u32,
    /// The database summary list: LSAs still to be described (RFC 2328, 10).
    summaries: VecDeque<Key>,
    /// The part that we sent last, or send next.
    sent: Option<Description>,
    /// Flags, options and number of the latest description received.
    heard: Option<([bool; 3], u8, u32)>,
    /// Whether our part is to be sent.
    is_due: bool,
    /// When it is to be sent again.
    again_at: Option<Time>,
}

/// The link state request list: LSAs that the neighbour has and we lack (RFC 2328, 10).
#[derive(Debug, Default)]
struct Requests {
    lsas: BTreeMap<Key, Header>,
    /// Wanted LSAs that were requested and have not arrived.
    asked: BTreeSet<Key>,
    again_at: Option<Time>,
}

/// The link state retransmission list: LSAs that the neighbour is to get (RFC 2328, 10).
#[derive(Debug, Default)]
struct Retransmissions {
    /// LSAs that the neighbour has to acknowledge, each with the time of its retransmission; `None` while it waits to
    /// be sent now.
    lsas: BTreeMap<Key, Option<Time>>,
    /// LSAs requested by the neighbour, or known to the neighbour in an old instance.
    answers: BTreeSet<Key>,
}

impl Peer {
    fn new(id: Ipv4Addr, address: Ipv4Addr, dead_at: Time) -> Self {
        Self {
            id,
            address,
            dead_at,
            state: State::Init,
            exchange: Exchange::default(),
            requests: Requests::default(),
            retransmissions: Retransmissions::default(),
        }
    }

    /// Returns to a state and forgets the previous exchange.
    fn reset(&mut self, state: State) {
        self.state = state;
        self.exchange = Exchange { number: self.exchange.number, ..Exchange::default() };
        self.requests = Requests::default();
        self.retransmissions = Retransmissions::default();
    }

    /// Whether LSAs are flooded to it.
    fn takes_lsas(&self) -> bool {
        self.state >= State::Exchange
    }

    /// Schedules the retransmissions that are due; returns the number of LSAs.
    fn handle_timeout(&mut self, now: Time) -> u64 {
        let is_due = |at: &mut Time| *at <= now;
        if self.exchange.again_at.take_if(is_due).is_some() {
            self.exchange.is_due = true;
        }
        if self.requests.again_at.take_if(is_due).is_some() {
            self.requests.asked.clear();
        }
        let mut again = 0;
        for at in self.retransmissions.lsas.values_mut() {
            again += u64::from(at.take_if(is_due).is_some());
        }
        again
    }

    fn next_timeout(&self) -> Option<Time> {
        let again = earliest(self.exchange.again_at, self.requests.again_at);
        let lsas = self.retransmissions.lsas.values().flatten().min().copied();
        earliest(Some(self.dead_at), earliest(again, lsas))
    }
}

impl Requests {
    /// What a request would ask for now. One is under way at a time.
    fn is_askable(&self) -> bool {
        !self.lsas.is_empty() && self.asked.is_empty()
    }

    /// Forgets an LSA that came.
    fn remove(&mut self, key: &Key) {
        self.lsas.remove(key);
        self.asked.remove(key);
        if self.asked.is_empty() {
            self.again_at = None;
        }
    }
}

impl Retransmissions {
    /// Has an LSA sent, in its newest instance, until it is acknowledged.
    fn add(&mut self, key: Key) {
        self.lsas.insert(key, None);
    }

    /// Takes an acknowledgement; false when none was due.
    fn remove(&mut self, key: &Key) -> bool {
        self.lsas.remove(key).is_some()
    }

    /// What is to be sent now.
    fn ready(&self) -> BTreeSet<Key> {
        let lsas = self.lsas.iter().filter(|(_, again_at)| again_at.is_none());
        lsas.map(|(key, _)| key).chain(&self.answers).copied().collect()
    }

    fn sent(&mut self, key: &Key, again_at: Time) {
        self.answers.remove(key);
        if let Some(at) = self.lsas.get_mut(key) {
            *at = Some(again_at);
        }
    }

    /// Gives up sending an LSA.
    fn forget(&mut self, key: &Key) {
        self.answers.remove(key);
        self.lsas.remove(key);
    }
}

// Sends and handles hellos: they find the router at the other end of a link (RFC 2328, 9.5 and 10.5).

impl Ospf {
    /// Takes a hello; whether it agrees with our configuration. The mask in it means nothing on point-to-point links
    /// (RFC 2328, 10.5).
    fn handle_hello(
        &mut self,
        now: Time,
        from: Neighbour,
        router: Ipv4Addr,
        hello: &Hello,
    ) -> bool {
        let Neighbour { interface, address } = from;
        let ours = (self.config.hello_interval.as_secs(), self.config.dead_interval.as_secs());
        if (u64::from(hello.interval), u64::from(hello.dead)) != ours {
            self.stats.count(Counter::IntervalMismatches);
            return false;
        }
        if hello.options & options::EXTERNAL == 0 {
            self.stats.count(Counter::OptionMismatches);
            return false;
        }
        self.stats.count(Counter::PacketsReceived);
        let is_known = self.peer_mut(interface).is_some_and(|peer| peer.id == router);
        if !is_known {
            self.lose(interface);
        }
        let dead_at = now + self.config.dead_interval;
        let Some(port) = self.ports.get_mut(&interface) else { return false };
        let peer = port.neighbour.get_or_insert_with(|| Peer::new(router, address, dead_at));
        peer.dead_at = dead_at;
        if peer.address != address {
            peer.address = address;
            self.is_outdated = true;
        }
        // A new neighbour need not wait for our next hello to hear that we hear it.
        port.is_hello_due |= !is_known;

        let state = peer.state;
        let hears_us = self.id.is_some_and(|id| hello.neighbours.contains(&id));
        if hears_us && state == State::Init {
            self.begin_exchange(interface);
        } else if !hears_us && state > State::Init {
            // It has started anew, and need not wait either.
            self.set_state(interface, State::Init);
            if let Some(port) = self.ports.get_mut(&interface) {
                port.is_hello_due = true;
            }
        }
        true
    }

    /// What to say on a link.
    fn hello(&self, interface: usize) -> Option<Body> {
        let port = self.ports.get(&interface)?;
        let heard = port.neighbour.as_ref().map(|peer| peer.id);
        Some(Body::Hello(Hello {
            mask: mask(self.config.link_bits),
            interval: u16::try_from(self.config.hello_interval.as_secs()).unwrap_or(u16::MAX),
            options: options::EXTERNAL,
            priority: 1,
            dead: u32::try_from(self.config.dead_interval.as_secs()).unwrap_or(u32::MAX),
            elected: [Ipv4Addr::UNSPECIFIED; 2],
            neighbours: heard.into_iter().collect(),
        }))
    }
}

// Database exchange: two neighbours describe their databases, and request missing LSAs (RFC 2328, 10.6 to 10.9).

impl Ospf {
    /// Begins an exchange: each claims to lead it.
    fn begin_exchange(&mut self, interface: usize) {
        let fresh = u32::try_from(self.rng.bits() & 0xffff).unwrap_or_default();
        let mtu = self.mtu(interface);
        self.set_state(interface, State::ExStart);
        let Some(peer) = self.peer_mut(interface) else { return };
        // Each exchange uses fresh sequence numbers.
        let number = peer.exchange.number.wrapping_add(1 + fresh);
        peer.exchange.number = number;
        peer.exchange.is_master = true;
        peer.exchange.is_due = true;
        peer.exchange.sent = Some(Description {
            mtu,
            options: options::EXTERNAL,
            is_first: true,
            has_more: true,
            is_master: true,
            number,
            headers: Vec::new(),
        });
    }

    /// Restarts the exchange after a packet of the neighbour that calls for a new one.
    fn restart_exchange(&mut self, interface: usize) {
        self.stats.count(Counter::ExchangesRestarted);
        self.begin_exchange(interface);
    }

    fn mtu(&self, interface: usize) -> u16 {
        let room = self.ports.get(&interface).map_or(0, Port::room);
        u16::try_from(room + base::ip::V4_HEADER).unwrap_or(u16::MAX)
    }

    fn handle_description(&mut self, now: Time, interface: usize, it: &Description) {
        if it.mtu > self.mtu(interface) {
            self.stats.count(Counter::MtuMismatches);
            return;
        }
        let Some(own) = self.id else { return };
        let state = self.peer_mut(interface).map(|peer| peer.state);
        if state == Some(State::Init) {
            // A description also proves that the neighbour hears us.
            self.begin_exchange(interface);
        }
        let Some(peer) = self.peer_mut(interface) else { return };
        let heard = ([it.is_first, it.has_more, it.is_master], it.options, it.number);
        if peer.state == State::ExStart {
            let claims = it.is_first && it.has_more && it.is_master && it.headers.is_empty();
            let follows = !it.is_first && !it.is_master && it.number == peer.exchange.number;
            if claims && peer.id > own {
                peer.exchange.is_master = false;
                peer.exchange.number = it.number;
            } else if !follows || peer.id > own {
                return;
            }
            peer.state = State::Exchange;
            peer.exchange.again_at = None;
            peer.exchange.is_due = false;
            peer.exchange.heard = Some(heard);
            self.list(now, interface);
            self.handle_part(now, interface, it);
            return;
        }

        let exchange = &mut peer.exchange;
        if exchange.heard == Some(heard) {
            // The answer of a slave was lost, and what a master sends again comes by its own time.
            exchange.is_due |= !exchange.is_master;
            return;
        }
        let expected = exchange.number.wrapping_add(u32::from(!exchange.is_master));
        let is_other = exchange.heard.is_some_and(|(_, options, _)| options != it.options);
        if peer.state > State::Exchange
            || it.is_first
            || is_other
            || it.is_master == exchange.is_master
            || it.number != expected
        {
            self.restart_exchange(interface);
            return;
        }
        exchange.heard = Some(heard);
        exchange.number = it.number;
        self.handle_part(now, interface, it);
    }

    /// Lists the LSAs to describe. LSAs at their maximum age are sent instead.
    fn list(&mut self, now: Time, interface: usize) {
        let mut left = VecDeque::new();
        let mut over = Vec::new();
        let room = self.ports.get(&interface).map_or(0, Port::room).saturating_sub(wire::UPDATE);
        for (key, entry) in self.database.iter() {
            let header = entry.header(now);
            if usize::from(header.length) > room {
                // The neighbour would ask for it for ever.
                self.stats.count(Counter::LsasTooBig);
            } else if header.is_over() {
                over.push(*key);
            } else {
                left.push_back(*key);
            }
        }
        let Some(peer) = self.peer_mut(interface) else { return };
        over.into_iter().for_each(|key| peer.retransmissions.add(key));
        peer.exchange.summaries = left;
        peer.exchange.sent = None;
    }

    /// Takes a part of the neighbour's description, and says our next one.
    fn handle_part(&mut self, now: Time, interface: usize, it: &Description) {
        if it.headers.iter().any(|header| !header.key.is_known()) {
            self.restart_exchange(interface);
            return;
        }
        let lacks = |header: &&Header| {
            let known = self.database.get(&header.key).map(|entry| entry.header(now));
            known.is_none_or(|known| known.newness(header) == Ordering::Less)
        };
        let lacking: Vec<Header> = it.headers.iter().filter(lacks).copied().collect();
        // Does not request LSAs that have no room: the adjacency forms without them.
        let most = self.config.bounds.lsas + 1;
        let mtu = self.mtu(interface);
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let room = port.entries(wire::DESCRIPTION, HEADERS.1);
        let Some(peer) = &mut port.neighbour else { return };
        for header in lacking {
            if peer.requests.lsas.len() < most || peer.requests.lsas.contains_key(&header.key) {
                peer.requests.lsas.insert(header.key, header);
            } else {
                self.stats.count(Counter::LsasFull);
            }
        }

        let exchange = &mut peer.exchange;
        exchange.again_at = None;
        let said_all = exchange.sent.as_ref().is_some_and(|sent| !sent.has_more);
        if exchange.is_master && said_all && !it.has_more {
            self.end_exchange(interface);
            return;
        }
        let is_master = exchange.is_master;
        if is_master {
            exchange.number = exchange.number.wrapping_add(1);
        }
        let number = exchange.number;
        let part: Vec<Key> = {
            let len = room.min(exchange.summaries.len());
            exchange.summaries.drain(..len).collect()
        };
        let has_more = !exchange.summaries.is_empty();
        let known = part.iter().filter_map(|key| Some(self.database.get(key)?.header(now)));
        exchange.sent = Some(Description {
            mtu,
            options: options::EXTERNAL,
            is_first: false,
            has_more,
            is_master,
            number,
            headers: known.collect(),
        });
        exchange.is_due = true;
        if !is_master && !has_more && !it.has_more {
            self.end_exchange(interface);
        }
    }

    fn end_exchange(&mut self, interface: usize) {
        if let Some(peer) = self.peer_mut(interface) {
            peer.state = State::Loading;
        }
        self.load(interface);
    }

    /// Ends the loading where nothing is lacking.
    fn load(&mut self, interface: usize) {
        let Some(peer) = self.peer_mut(interface) else { return };
        if peer.state == State::Loading && peer.requests.lsas.is_empty() {
            self.set_state(interface, State::Full);
        }
    }

    fn handle_request(&mut self, interface: usize, keys: &[Key]) {
        if keys.iter().any(|key| self.database.get(key).is_none()) {
            self.restart_exchange(interface);
            return;
        }
        if let Some(peer) = self.peer_mut(interface) {
            peer.retransmissions.answers.extend(keys);
        }
    }
}

impl Peer {
    /// The next part of the description to send.
    fn poll_description(&mut self, again_at: Time) -> Option<Description> {
        let exchange = &mut self.exchange;
        if !std::mem::take(&mut exchange.is_due) {
            return None;
        }
        // Only the master sends unasked.
        exchange.again_at =
            (exchange.is_master && self.state <= State::Exchange).then_some(again_at);
        exchange.sent.clone()
    }
}

// Floods LSAs to all routers, hop by hop, until every neighbour has acknowledged (RFC 2328, 13).

impl Ospf {
    /// Takes an LSA of an update.
    fn handle_lsa(&mut self, now: Time, from: Neighbour, lsa: Lsa) {
        let interface = from.interface;
        let is_intact = lsa.is_intact();
        if !lsa.header.key.is_known() || !is_intact {
            self.stats.count(Counter::LsasDamaged);
            if !is_intact {
                self.events
                    .add_notice(Notice::Unreadable { from, originator: lsa.header.key.router });
            }
            return;
        }
        let header = Header { age: lsa.header.age.min(Header::MAX_AGE), ..lsa.header };
        let key = header.key;
        let known = self.database.get(&key).map(|entry| entry.header(now));
        if header.is_over() && known.is_none() && !self.is_exchanging() {
            self.acknowledge_at_once(interface, header);
            return;
        }
        match known.map_or(Ordering::Greater, |known| header.newness(&known)) {
            Ordering::Greater => self.handle_newer(now, from, lsa),
            Ordering::Equal | Ordering::Less if self.is_wanted(interface, &key) => {
                // The neighbour had described a newer instance before.
                self.restart_exchange(interface);
            }
            Ordering::Equal => {
                self.stats.count(Counter::LsasDuplicate);
                // By sending the same instance, the neighbour acknowledges ours.
                let is_implied =
                    self.peer_mut(interface).is_some_and(|it| it.retransmissions.remove(&key));
                if !is_implied {
                    self.acknowledge_at_once(interface, header);
                }
            }
            Ordering::Less => self.handle_older(now, interface, key),
        }
    }

    fn handle_newer(&mut self, now: Time, from: Neighbour, lsa: Lsa) {
        let interface = from.interface;
        let (header, key) = (lsa.header, lsa.header.key);
        let came_at = self.database.came_at(&key);
        if came_at.is_some_and(|at| now.since(at) < self.config.min_ls_arrival) {
            self.stats.count(Counter::LsasEarly);
            return;
        }
        let is_own = Some(key.router) == self.id;
        let most = self.config.bounds.lsas;
        let delay = self.config.ack_delay;
        if let Some(port) = self.ports.get_mut(&interface) {
            port.acks.push_delayed(now, delay, header, most);
        }
        if !is_own && !self.database.has_room(&lsa, &self.config.bounds) {
            self.stats.count(Counter::LsasFull);
            if let Some(peer) = self.peer_mut(interface) {
                peer.requests.remove(&key);
            }
            self.load(interface);
            return;
        }
        for port in self.ports.values_mut() {
            if let Some(peer) = &mut port.neighbour {
                peer.retransmissions.remove(&key);
            }
        }
        // A relay does not judge the content of LSAs.
        if key.kind == kind::ROUTER && RouterLsa::parse(&lsa.body).is_err() {
            self.stats.count(Counter::LsasUnreadable);
            self.events.add_notice(Notice::Unreadable { from, originator: key.router });
        }
        self.install(now, lsa, Some(now));
        self.flood(now, key, Some(interface));
        if is_own {
            self.reclaim(now, &header);
        }
    }

    /// Sends our newer instance to a neighbour that sent an older one.
    fn handle_older(&mut self, now: Time, interface: usize, key: Key) {
        self.stats.count(Counter::LsasOld);
        let least = self.config.min_ls_arrival;
        if !self.database.may_return(now, &key, least) {
            return;
        }
        if let Some(peer) = self.peer_mut(interface) {
            peer.retransmissions.answers.insert(key);
        }
    }

    fn install(&mut self, now: Time, lsa: Lsa, came_at: Option<Time>) {
        self.stats.count(Counter::LsasInstalled);
        self.is_outdated = true;
        self.database.install(now, lsa, came_at);
    }

    /// Sends an LSA of the database to all neighbours except its sender.
    fn flood(&mut self, now: Time, key: Key, from: Option<usize>) {
        let Some(header) = self.database.get(&key).map(|entry| entry.header(now)) else { return };
        let mut ready = Vec::new();
        for (at, port) in &mut self.ports {
            let Some(peer) = port.neighbour.as_mut().filter(|peer| peer.takes_lsas()) else {
                continue;
            };
            if let Some(wanted) = peer.requests.lsas.get(&key) {
                let newness = header.newness(wanted);
                if newness == Ordering::Less {
                    continue;
                }
                peer.requests.remove(&key);
                ready.push(*at);
                if newness == Ordering::Equal {
                    continue;
                }
            }
            if from != Some(*at) {
                peer.retransmissions.add(key);
            }
        }
        for interface in ready {
            self.load(interface);
        }
    }

    fn handle_acknowledgement(&mut self, now: Time, interface: usize, headers: &[Header]) {
        for header in headers {
            let known = self.database.get(&header.key).map(|entry| entry.header(now));
            let is_known = known.is_some_and(|known| known.newness(header) == Ordering::Equal);
            let peer = self.peer_mut(interface).filter(|_| is_known);
            if !peer.is_some_and(|peer| peer.retransmissions.remove(&header.key)) {
                self.stats.count(Counter::AcknowledgementsStray);
            }
        }
    }

    /// Forgets LSAs that are over, once all neighbours know; whether there were any.
    fn forget_over(&mut self) -> bool {
        if self.is_exchanging() {
            return false;
        }
        let peers = || self.ports.values().filter_map(|port| port.neighbour.as_ref());
        let is_owed = |key: &&Key| peers().any(|peer| peer.retransmissions.lsas.contains_key(key));
        let done: Vec<Key> = self.database.over().filter(|key| !is_owed(key)).copied().collect();
        for key in &done {
            self.database.remove(key);
        }
        self.stats.add(Counter::LsasFlushed, done.len() as u64);
        !done.is_empty()
    }

    /// Whether an exchange with any neighbour is running: until its end nothing is forgotten.
    fn is_exchanging(&self) -> bool {
        let mut peers = self.ports.values().filter_map(|port| port.neighbour.as_ref());
        peers.any(|peer| matches!(peer.state, State::Exchange | State::Loading))
    }

    fn is_wanted(&mut self, interface: usize, key: &Key) -> bool {
        self.peer_mut(interface).is_some_and(|peer| peer.requests.lsas.contains_key(key))
    }

    fn acknowledge_at_once(&mut self, interface: usize, header: Header) {
        let most = self.config.bounds.lsas;
        if let Some(port) = self.ports.get_mut(&interface) {
            port.acks.push_direct(header, most);
        }
    }
}

// Makes the router's own LSA (RFC 2328, 12.4 and 13.4).

impl Ospf {
    /// Says that the router's own LSA may have changed. Its routes may even if the LSA has not: a neighbour that is back
    /// before the next LSA was due leaves none.
    fn originate_soon(&mut self) {
        self.origination.is_wanted = true;
        self.is_outdated = true;
    }

    /// Makes a new instance of the router's own LSA if that is due and needed.
    fn originate(&mut self, now: Time) {
        let Some(id) = self.id else { return };
        let made_at = self.origination.made_at;
        if made_at.is_some_and(|at| at + self.config.refresh_interval <= now) {
            self.origination.is_forced = true;
        }
        self.origination.is_wanted |= self.origination.is_forced;
        let is_early = made_at.is_some_and(|at| at + self.config.min_ls_interval > now);
        if !self.origination.is_wanted || is_early {
            return;
        }
        let key = Key::of_router(id);
        let mut body = Vec::new();
        self.say().emit(&mut body);
        let known = self.database.get(&key);
        if !self.origination.is_forced && known.is_some_and(|known| known.body() == body) {
            self.origination.is_wanted = false;
            return;
        }
        if self.origination.is_wrapping {
            if known.is_some() {
                return;
            }
            self.origination.is_wrapping = false;
            self.origination.number = None;
        }
        let number = match self.origination.number {
            None => Header::FIRST,
            Some(Header::LAST) => {
                self.origination.is_wrapping = true;
                self.database.end(now, &key);
                self.flood(now, key, None);
                return;
            }
            Some(number) => number + 1,
        };
        self.stats.count(Counter::Originations);
        self.origination.number = Some(number);
        self.origination.made_at = Some(now);
        (self.origination.is_wanted, self.origination.is_forced) = (false, false);
        self.install(now, Lsa::new(key, options::EXTERNAL, number, &body), None);
        self.flood(now, key, None);
    }

    /// A neighbour has a newer LSA in this router's name: from before a restart.
    fn reclaim(&mut self, now: Time, header: &Header) {
        self.stats.count(Counter::OriginationsRaised);
        let is_own = self.id.map(Key::of_router) == Some(header.key);
        if is_own {
            self.origination.number = Some(header.number);
            (self.origination.is_wanted, self.origination.is_forced) = (true, true);
        } else {
            // The router has nothing of this kind left to announce.
            self.database.end(now, &header.key);
            self.flood(now, header.key, None);
        }
    }

    /// Builds the router LSA from the present links.
    fn say(&self) -> RouterLsa {
        let mut links = Vec::new();
        let metric = self.config.cost;
        for port in self.ports.values() {
            let address = port.interface.address;
            if let Some(peer) = port.neighbour.as_ref().filter(|it| it.state == State::Full) {
                let data = address.to_bits();
                links.push(Point { id: peer.id, data, kind: link::POINT_TO_POINT, metric });
            }
            let data = mask(self.config.link_bits);
            let id = (address.to_bits() & data).into();
            links.push(Point { id, data, kind: link::STUB, metric });
        }
        for network in self.config.attached.iter().map(Prefix::network) {
            if let IpAddr::V4(id) = network.address() {
                let data = mask(network.bits());
                links.push(Point { id, data, kind: link::STUB, metric: 0 });
            }
        }
        RouterLsa { flags: 0, links }
    }
}

// Chooses the next packet to send on a link with room.

impl Ospf {
    /// The next packet for a link.
    fn next_packet(&mut self, now: Time, interface: usize) -> Option<Packet> {
        let (router, area) = (self.id?, self.config.area);
        let body = self.next_body(now, interface)?;
        self.stats.count(match body {
            Body::Hello(_) => Counter::HellosSent,
            Body::Description(_) => Counter::DescriptionsSent,
            Body::Request(_) => Counter::RequestsSent,
            Body::Update(_) => Counter::UpdatesSent,
            Body::Acknowledgement(_) => Counter::AcknowledgementsSent,
        });
        Some(Packet { router, area, body })
    }

    fn next_body(&mut self, now: Time, interface: usize) -> Option<Body> {
        let again_at = now + self.config.retransmit_interval;
        let port = self.ports.get_mut(&interface)?;
        if std::mem::take(&mut port.is_hello_due) {
            return self.hello(interface);
        }
        if !port.acks.ready.is_empty() {
            let (others, each) = HEADERS;
            let count = port.entries(others, each).min(port.acks.ready.len());
            return Some(Body::Acknowledgement(port.acks.ready.drain(..count).collect()));
        }
        let asked = port.entries(wire::HEADER, wire::REQUESTED);
        let room = port.room() - wire::UPDATE;
        let peer = port.neighbour.as_mut()?;
        if let Some(description) = peer.poll_description(again_at) {
            return Some(Body::Description(description));
        }
        if matches!(peer.state, State::Exchange | State::Loading) && peer.requests.is_askable() {
            let requests = &mut peer.requests;
            requests.asked = requests.lsas.keys().take(asked).copied().collect();
            requests.again_at = Some(again_at);
            return Some(Body::Request(requests.asked.iter().copied().collect()));
        }
        let lsas = self.next_lsas(now, interface, room)?;
        Some(Body::Update(lsas))
    }

    /// The LSAs of the next update: as many as fit.
    fn next_lsas(&mut self, now: Time, interface: usize, room: usize) -> Option<Vec<Lsa>> {
        let again_at = now + self.config.retransmit_interval;
        let delay = u16::try_from(self.config.transmit_delay.as_secs()).unwrap_or(Header::MAX_AGE);
        let peer = self.ports.get_mut(&interface)?.neighbour.as_mut()?;
        let mut left = room;
        let mut lsas = Vec::new();
        for key in peer.retransmissions.ready() {
            let Some(entry) = self.database.get(&key) else {
                peer.retransmissions.forget(&key);
                continue;
            };
            let mut lsa = entry.lsa(now);
            if lsa.size() > room {
                self.stats.count(Counter::LsasTooBig);
                peer.retransmissions.forget(&key);
                continue;
            }
            if lsa.size() > left {
                break;
            }
            left -= lsa.size();
            lsa.header.age = lsa.header.age.saturating_add(delay).min(Header::MAX_AGE);
            lsas.push(lsa);
            peer.retransmissions.sent(&key, again_at);
        }
        (!lsas.is_empty()).then_some(lsas)
    }
}

// Routes from the database (RFC 2328, 16.1).

impl Ospf {
    /// Finds the routes anew where the database has changed.
    fn calculate(&mut self, now: Time) {
        if !std::mem::take(&mut self.is_outdated) {
            return;
        }
        self.stats.count(Counter::Calculations);
        let routes = self.best_routes(now);
        self.events.set_routes(routes);
    }

    /// The best routes according to the database.
    fn best_routes(&self, now: Time) -> BTreeMap<Prefix, Route> {
        let Some(own) = self.id else { return BTreeMap::new() };
        let lsas = self.database.iter().filter(|(key, entry)| {
            key.kind == kind::ROUTER && key.id == key.router && !entry.header(now).is_over()
        });
        let routers: BTreeMap<Ipv4Addr, RouterLsa> = lsas
            .filter_map(|(key, entry)| Some((key.router, RouterLsa::parse(entry.body()).ok()?)))
            .collect();
        let full = self.ports.iter().filter_map(|(interface, port)| {
            let peer = port.neighbour.as_ref().filter(|peer| peer.state == State::Full)?;
            let next = Neighbour { interface: *interface, address: peer.address };
            Some((peer.id, Way { cost: self.config.cost.into(), hops: 1, next }))
        });
        let links = self.ports.values().flat_map(|port| {
            let address = port.interface.address;
            [spf::network(address, self.config.link_bits), spf::network(address, 32)]
        });
        let here: BTreeSet<Prefix> =
            links.flatten().chain(self.config.attached.iter().map(Prefix::network)).collect();
        spf::routes(own, full.collect(), &routers, &here)
    }
}
