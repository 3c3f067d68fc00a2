//! The OLSR router: the calls of the driver, and the results for the driver.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::counter::{Counter as Counted, named};
use base::ip::Prefix;
use base::rng::Rng;
use base::serial::low16;
use base::time::Time;

use super::advert::Advert;
use super::config::{Config, TcRedundancy};
use super::neighbourhood::{Greeting, Neighbourhood};
use super::numbers::Numbers;
use super::outbox::{Outbox, Refused};
use super::routes::{self, Own};
use super::stats::{Counter, Stats};
use super::topology::Topology;
use super::wire::{
    ADDRESS, Addresses, BLOCK_HEADER, HELLO_HEADER, Header, Hello, Hna, Interval, Kind, LinkCode,
    MESSAGE_HEADER, Malformed, Message, PACKET_HEADER, Packet, Seq, TC_HEADER, Tc,
};
use super::{PORT, is_node};
use crate::events::Events;
use crate::{Arrival, Carrier, Event, Interface, Neighbour, Notice, Route, Router, Sending};

/// Octets of the longest UDP payload over IPv4.
const MOST_ROOM: usize = 65_507;

/// OLSR on a node.
#[derive(Debug)]
pub struct Olsr {
    config: Config,
    rng: Rng,
    own: Identity,
    ports: BTreeMap<usize, Port>,
    hood: Neighbourhood,
    topology: Topology,
    advert: Advert,
    numbers: Numbers,
    /// When to announce the other addresses, and the networks.
    mid_at: Option<Time>,
    hna_at: Option<Time>,
    /// Whether the routes may be others than the last that were calculated.
    are_routes_stale: bool,
    events: Events,
    stats: Stats,
}

/// The addresses of the node.
#[derive(Debug, Default)]
struct Identity {
    /// The interface with the main address, and the main address itself, which stays when the interface goes down.
    main: Option<(usize, Ipv4Addr)>,
    /// All, the main one too.
    addresses: BTreeSet<Ipv4Addr>,
}

/// An interface that is up.
#[derive(Debug)]
struct Port {
    interface: Interface,
    outbox: Outbox,
    /// When the next HELLO is due, and whether one is owed that the interface had no room for.
    hello_at: Time,
    is_hello_due: bool,
}

impl Identity {
    /// The main address of this node, once known.
    fn main(&self) -> Option<Ipv4Addr> {
        self.main.map(|(_, address)| address)
    }
}

impl Olsr {
    /// Makes a node without interfaces. The first interface to come up gives the main address.
    #[must_use]
    pub fn new(config: Config, mut rng: Rng) -> Self {
        let ansn = Seq(low16(rng.bits()));
        Self {
            own: Identity::default(),
            ports: BTreeMap::new(),
            hood: Neighbourhood::new(&config),
            topology: Topology::new(&config.bounds),
            advert: Advert::new(ansn),
            numbers: Numbers::new(Seq(low16(rng.bits())), config.duplicate_hold),
            mid_at: None,
            hna_at: None,
            are_routes_stale: false,
            events: Events::default(),
            stats: Stats::default(),
            config,
            rng,
        }
    }

    /// What happened, counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The symmetric neighbours by their main addresses.
    pub fn neighbours(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.hood.symmetric().keys().copied()
    }

    /// The neighbours chosen to relay broadcasts.
    pub fn relays(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.hood.relays().iter().copied()
    }

    /// Draws how much earlier or later something happens than it might.
    fn jitter(&mut self) -> Duration {
        self.rng.within(self.config.max_jitter)
    }

    /// Removes what has ended.
    fn expire(&mut self, now: Time) {
        self.hood.expire(now, &self.config);
        let [links, aliases, networks] = self.topology.expire(now);
        self.are_routes_stale |= links || aliases || networks;
        if aliases {
            self.hood.handle_names();
        }
    }

    /// Draws conclusions from changes: for the relays, and for the content of TC messages.
    fn settle(&mut self, now: Time) {
        let changes = self.hood.take_changes();
        let mut are_relays_new = false;
        if changes.is_reach {
            self.are_routes_stale = true;
            let (topology, coverage) = (&self.topology, self.config.mpr_coverage);
            let name = |address| topology.main_of(address);
            are_relays_new = self.hood.choose_relays(&self.own.addresses, name, coverage);
        }
        if changes.is_reach || changes.is_selectors || are_relays_new {
            self.advertise(now);
        }
    }

    /// Learns that the node's addresses are others.
    fn rename(&mut self, now: Time) {
        let addresses = self.ports.values().map(|port| port.interface.address);
        self.own.addresses = addresses.chain(self.own.main()).collect();
        self.hood.handle_names();
        let has_aliases = !self.other_addresses().is_empty();
        let has_networks = !self.ports.is_empty() && !self.networks().is_empty();
        let (mid, hna) = (self.config.mid_interval, self.config.hna_interval);
        schedule(&mut self.mid_at, has_aliases, || now + self.rng.within(mid));
        schedule(&mut self.hna_at, has_networks, || now + self.rng.within(hna));
    }

    /// Recalculates the routes and finds the differences.
    fn calculate(&mut self) {
        if !std::mem::take(&mut self.are_routes_stale) {
            return;
        }
        self.stats.count(Counter::Calculations);
        let own = Own { addresses: &self.own.addresses, attached: &self.config.attached };
        self.events.set_routes(routes::calculate(own, &self.hood, &self.topology));
    }
}

impl Router for Olsr {
    fn carrier(&self) -> Carrier {
        Carrier::Udp(PORT)
    }

    fn handle_interface(&mut self, now: Time, index: usize, interface: Option<&Interface>) {
        self.expire(now);
        let was = self.ports.get(&index).map(|port| port.interface.address);
        if was.is_some() && was != interface.map(|interface| interface.address) {
            self.ports.remove(&index);
            self.hood.remove_interface(index);
        }
        if let Some(interface) = interface.filter(|interface| is_node(interface.address)) {
            let interface = Interface { room: interface.room.min(MOST_ROOM), ..interface.clone() };
            if self.own.main.is_none_or(|(main, _)| main == index) {
                self.own.main = Some((index, interface.address));
            }
            let hello_at = now + self.jitter();
            let outbox = Outbox::new(Seq(low16(self.rng.bits())));
            let port = self.ports.entry(index).or_insert(Port {
                interface: interface.clone(),
                outbox,
                hello_at,
                is_hello_due: false,
            });
            let dropped = port.outbox.shrink(interface.room);
            self.stats.add(Counter::MessagesTooBig, dropped as u64);
            port.interface = interface;
        }
        self.rename(now);
        self.settle(now);
        self.handle_timeout(now);
    }

    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]) {
        self.expire(now);
        self.take_packet(now, arrival.from, payload);
        self.settle(now);
    }

    fn handle_break(&mut self, now: Time, neighbour: Neighbour) {
        self.expire(now);
        if self.hood.handle_break(now, neighbour, &self.config) {
            self.stats.count(Counter::LinksBroken);
        }
        self.settle(now);
    }

    fn handle_attached(&mut self, now: Time, reached: &[Prefix]) {
        let before = std::mem::replace(&mut self.config.attached, reached.to_vec());
        self.are_routes_stale = true;
        self.rename(now);
        if reached.iter().any(|network| !before.contains(network)) && self.hna_at.is_some() {
            self.hna_at = Some(now + self.jitter());
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.settle(now);
        self.originate(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.calculate();
        self.events.poll()
    }

    fn poll_transmit(&mut self, now: Time, interface: usize, out: &mut Vec<u8>) -> Option<Sending> {
        self.greet(now, interface);
        let port = self.ports.get_mut(&interface)?;
        if !port.outbox.poll(now, port.interface.room, out) {
            return None;
        }
        self.stats.count(Counter::PacketsSent);
        Some(Sending { to: Ipv4Addr::BROADCAST, ttl: 1 })
    }

    fn next_timeout(&self) -> Option<Time> {
        let ports = self.ports.values();
        let ports = ports.flat_map(|port| [Some(port.hello_at), port.outbox.next_timeout()]);
        let own = [
            self.advert.next_timeout(),
            self.mid_at,
            self.hna_at,
            self.hood.next_timeout(),
            self.topology.next_timeout(),
        ];
        ports.chain(own).flatten().min()
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        self.events.routes()
    }

    fn counters(&self) -> Vec<(&'static Counted, u64)> {
        named(&self.stats)
    }
}

/// Sets a wanted deadline if unset, and clears an unwanted one.
fn schedule(deadline: &mut Option<Time>, is_wanted: bool, at: impl FnOnce() -> Time) {
    *deadline = if is_wanted { deadline.or_else(|| Some(at())) } else { None };
}

// Handles received packets: reads their messages and decides which to forward (RFC 3626, 3.4).

impl Olsr {
    /// Takes a packet of a neighbour.
    fn take_packet(&mut self, now: Time, from: Neighbour, octets: &[u8]) {
        let is_own = self.own.addresses.contains(&from.address);
        if is_own || !is_node(from.address) || !self.ports.contains_key(&from.interface) {
            self.stats.count(Counter::PacketsStray);
            return;
        }
        let Ok(packet) = Packet::parse(octets) else {
            self.stats.count(Counter::PacketsMalformed);
            return;
        };
        self.stats.count(Counter::PacketsReceived);
        self.hood.handle_packet(now, from, packet.seq, &self.config);
        for message in packet.messages() {
            let originator = message.as_ref().map_or(from.address, |it| it.header.originator);
            let strange = self.stats.of(Counter::EntriesStrange);
            let taken = message.and_then(|message| self.take(now, from, packet.seq, &message));
            if taken.is_err() {
                self.stats.count(Counter::PacketsMalformed);
            }
            if taken.is_err() || self.stats.of(Counter::EntriesStrange) > strange {
                self.events.add_notice(Notice::Unreadable { from, originator });
            }
        }
    }

    fn take(
        &mut self,
        now: Time,
        from: Neighbour,
        seq: Seq,
        message: &Message<'_>,
    ) -> Result<(), Malformed> {
        let header = &message.header;
        let refused =
            if self.own.addresses.contains(&header.originator) || !is_node(header.originator) {
                self.take_own(now, from, message);
                Some(Counter::MessagesOwn)
            } else if header.ttl == 0 {
                Some(Counter::MessagesExpired)
            } else if header.kind == Kind::HELLO {
                return self.take_hello(now, from, seq, message);
            } else if self.hood.symmetric_at(from).is_none() {
                Some(Counter::MessagesStrange)
            } else {
                None
            };
        if let Some(counter) = refused {
            self.stats.count(counter);
            return Ok(());
        }

        let taken = if self.topology.is_duplicate(header.originator, header.seq) {
            self.stats.count(Counter::MessagesDuplicate);
            Ok(())
        } else {
            self.take_body(now, message)
        };
        // Forwarding needs only the header: others may understand a message unknown to this node (RFC 3626, 3.4.1).
        self.forward(now, from, message);
        taken
    }

    /// Handles a message under our own address: an echo, or a message of another node. The content of another node is
    /// contradicted where others would believe it for longer than our own messages.
    fn take_own(&mut self, now: Time, from: Neighbour, message: &Message<'_>) {
        let header = &message.header;
        let is_ours = self.own.addresses.contains(&header.originator);
        if !is_ours || self.numbers.may_be_ours(now, header.seq) {
            return;
        }
        self.stats.count(Counter::MessagesDisputed);
        self.events.add_notice(Notice::AddressDisputed { address: header.originator, from });
        self.numbers.overtake(header.seq);
        if header.kind == Kind::TC
            && let Ok(tc) = Tc::parse(message.body)
        {
            let early = now + self.jitter();
            self.advert.overtake(now, tc.ansn, early, &self.config);
        }
    }

    fn take_hello(
        &mut self,
        now: Time,
        from: Neighbour,
        seq: Seq,
        message: &Message<'_>,
    ) -> Result<(), Malformed> {
        // A HELLO from farther away would describe links of another node.
        if message.header.hops > 0 {
            self.stats.count(Counter::HellosForwarded);
            return Ok(());
        }
        let hello = &Hello::parse(message.body)?;
        let Some(port) = self.ports.get(&from.interface) else { return Ok(()) };
        let greeting = Greeting {
            from,
            seq,
            header: &message.header,
            hello,
            here: port.interface.address,
            own: &self.own.addresses,
        };
        self.hood.handle_hello(now, &greeting, &self.config, &mut self.stats);
        Ok(())
    }

    /// Handles the content of a flooded message of a known kind.
    fn take_body(&mut self, now: Time, message: &Message<'_>) -> Result<(), Malformed> {
        let (header, body, stats) = (&message.header, message.body, &mut self.stats);
        let (until, originator) = (now + header.validity(), header.originator);
        let is_changed = match header.kind {
            Kind::TC => self.topology.handle_tc(until, originator, &Tc::parse(body)?, stats),
            Kind::MID => {
                let is_known = |address| {
                    self.own.addresses.contains(&address)
                        || self.hood.symmetric().contains_key(&address)
                };
                let addresses = Addresses::parse(body);
                let is_changed =
                    self.topology.handle_mid(until, originator, &addresses, is_known, stats);
                if is_changed {
                    self.hood.handle_names();
                }
                is_changed
            }
            Kind::HNA => self.topology.handle_hna(until, originator, &Hna::parse(body), stats),
            Kind(_) => false,
        };
        self.are_routes_stale |= is_changed;
        Ok(())
    }

    /// Forwards a message by the rules for all, of kinds that are unknown too (RFC 3626, 3.4.1).
    fn forward(&mut self, now: Time, from: Neighbour, message: &Message<'_>) {
        let header = &message.header;
        let sender = self.hood.symmetric_at(from);
        let is_asked = header.ttl > 1 && sender.is_some_and(|main| self.hood.is_selector(main));
        let until = now + self.config.duplicate_hold;
        let name = (header.originator, header.seq);
        if !self.topology.remember(until, name, from.interface, is_asked, &mut self.stats) {
            return;
        }
        self.stats.count(Counter::MessagesForwarded);
        let due = now + self.jitter();
        let octets: Arc<[u8]> = message.relayed().into();
        for port in self.ports.values_mut() {
            let (room, most) = (port.interface.room, self.config.bounds.queue);
            match port.outbox.forward(due, octets.clone(), room, most) {
                Ok(()) => {}
                Err(Refused::Full) => self.stats.count(Counter::MessagesFull),
                Err(Refused::TooBig) => self.stats.count(Counter::MessagesTooBig),
            }
        }
    }
}

// Makes a node's own messages, and decides when they are due (RFC 3626, 5.2, 6.2, 9.2 and 12.2).

impl Olsr {
    /// Recalculates the set of neighbours that TC messages announce.
    fn advertise(&mut self, now: Time) {
        let mut neighbours: BTreeSet<Ipv4Addr> = self.hood.selectors().collect();
        match self.config.tc_redundancy {
            TcRedundancy::Selectors => {}
            TcRedundancy::Relays => neighbours.extend(self.hood.relays()),
            TcRedundancy::All => neighbours = self.hood.symmetric().keys().copied().collect(),
        }
        if neighbours != *self.advert.neighbours() {
            let early = now + self.jitter();
            self.advert.set(now, neighbours, early, &self.config);
        }
    }

    /// The node's addresses without the main one.
    fn other_addresses(&self) -> Vec<Ipv4Addr> {
        let main = self.own.main();
        self.own.addresses.iter().copied().filter(|address| Some(*address) != main).collect()
    }

    /// The networks of IPv4 behind the node.
    fn networks(&self) -> Vec<(Ipv4Addr, u8)> {
        let attached = self.config.attached.iter().map(|prefix| prefix.network());
        let networks = attached.filter_map(|prefix| match prefix.address() {
            IpAddr::V4(address) => Some((address, prefix.bits())),
            IpAddr::V6(_) => None,
        });
        networks.collect()
    }

    /// Makes the messages that are due.
    fn originate(&mut self, now: Time) {
        for port in self.ports.values_mut() {
            if port.hello_at <= now {
                port.is_hello_due = true;
                let jitter = self.rng.within(self.config.max_jitter);
                port.hello_at = now + self.config.hello_interval.saturating_sub(jitter);
            }
        }
        if self.advert.is_due(now) {
            self.originate_tc(now);
        }
        if self.mid_at.is_some_and(|due| due <= now) {
            self.mid_at = Some(self.after(now, self.config.mid_interval));
            let addresses = self.other_addresses();
            let hold = self.config.mid_hold;
            let form = Form { kind: Kind::MID, hold, header: 0, entry: ADDRESS };
            let sent = self.flood(now, &form, &addresses, Addresses::emit);
            self.stats.add(Counter::MidSent, sent);
        }
        if self.hna_at.is_some_and(|due| due <= now) {
            self.hna_at = Some(self.after(now, self.config.hna_interval));
            let networks = self.networks();
            let hold = self.config.hna_hold;
            let form = Form { kind: Kind::HNA, hold, header: 0, entry: 2 * ADDRESS };
            let sent = self.flood(now, &form, &networks, Hna::emit);
            self.stats.add(Counter::HnaSent, sent);
        }
        self.ports.values_mut().for_each(|port| port.outbox.handle_timeout(now));
    }

    fn originate_tc(&mut self, now: Time) {
        let next = self.after(now, self.config.tc_interval);
        let Some((ansn, neighbours)) = self.advert.take(now, next) else { return };
        let hold = self.config.topology_hold;
        let form = Form { kind: Kind::TC, hold, header: TC_HEADER, entry: ADDRESS };
        let sent = self.flood(now, &form, &neighbours, |part, out| Tc::emit(ansn, part, out));
        self.stats.add(Counter::TcSent, sent);
    }

    /// When a message sent once per `interval` is due again.
    fn after(&mut self, now: Time, interval: Duration) -> Time {
        now + interval.saturating_sub(self.jitter())
    }

    /// Floods messages: as many as needed for each to fit a packet on each interface. Returns their number.
    fn flood<T>(
        &mut self,
        now: Time,
        form: &Form,
        entries: &[T],
        emit: impl Fn(&[T], &mut Vec<u8>),
    ) -> u64 {
        let Some(originator) = self.own.main().filter(|_| !self.ports.is_empty()) else { return 0 };
        self.ports.values_mut().for_each(|port| port.outbox.withdraw(form.kind));
        let room = self.ports.values().map(|port| port.interface.room).min().unwrap_or_default();
        let room = room.saturating_sub(PACKET_HEADER + MESSAGE_HEADER + form.header);
        let most = room / form.entry;
        if most == 0 {
            self.stats.count(Counter::MessagesTooBig);
            return 0;
        }

        let nothing = entries.is_empty().then_some(entries);
        let parts = entries.chunks(most).chain(nothing);
        let mut sent = 0;
        for part in parts {
            let header = Header {
                kind: form.kind,
                validity: Interval::at_least(form.hold),
                originator,
                ttl: u8::MAX,
                hops: 0,
                seq: self.numbers.give(now),
            };
            let mut octets = Vec::new();
            header.emit(&mut octets, |out| emit(part, out));
            let octets: Arc<[u8]> = octets.into();
            self.ports.values_mut().for_each(|port| {
                port.outbox.push_own(now, form.kind, octets.clone());
            });
            sent += 1;
        }
        sent
    }

    /// Makes the HELLO due on an interface: as many messages as needed for each to fit a packet.
    fn greet(&mut self, now: Time, interface: usize) {
        let (Some(originator), Some(port)) = (self.own.main(), self.ports.get_mut(&interface))
        else {
            return;
        };
        if !std::mem::take(&mut port.is_hello_due) {
            return;
        }
        port.outbox.withdraw(Kind::HELLO);
        let room = port.interface.room;
        let room = room.saturating_sub(PACKET_HEADER + MESSAGE_HEADER + HELLO_HEADER);
        if room < BLOCK_HEADER + ADDRESS {
            self.stats.count(Counter::MessagesTooBig);
            return;
        }

        let told = self.hood.told(interface);
        let interval = Interval::at_least(self.config.hello_interval);
        let willingness = self.config.willingness;
        for part in split(&told, room) {
            let header = Header {
                kind: Kind::HELLO,
                validity: Interval::at_least(self.config.neighbour_hold),
                originator,
                ttl: 1,
                hops: 0,
                seq: self.numbers.give(now),
            };
            let mut octets = Vec::new();
            header.emit(&mut octets, |out| Hello::emit(interval, willingness, part, out));
            if let Some(port) = self.ports.get_mut(&interface) {
                port.outbox.push_own(now, Kind::HELLO, octets.into());
            }
            self.stats.count(Counter::HellosSent);
        }
    }
}

/// The layout of messages with the same kind.
struct Form {
    kind: Kind,
    /// How long receivers keep the content.
    hold: Duration,
    /// Octets before the first entry, and of each.
    header: usize,
    entry: usize,
}

/// Splits the neighbours into HELLOs with `room` octets for blocks each; one empty part if there are no neighbours.
fn split(told: &[(LinkCode, Ipv4Addr)], room: usize) -> Vec<&[(LinkCode, Ipv4Addr)]> {
    let (mut parts, mut rest) = (Vec::new(), told);
    loop {
        let (mut len, mut count) = (0, 0);
        let mut last = None;
        for (code, _) in rest {
            let block = if last == Some(*code) { 0 } else { BLOCK_HEADER };
            if len + block + ADDRESS > room {
                break;
            }
            len += block + ADDRESS;
            count += 1;
            last = Some(*code);
        }
        let (part, others) = rest.split_at(count);
        parts.push(part);
        rest = others;
        if rest.is_empty() {
            return parts;
        }
    }
}
