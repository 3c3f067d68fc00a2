//! The OLSR router: the calls of the driver, and the results for the driver.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::rng::Rng;
use base::serial::low16;
use base::time::Time;

use super::advert::Advert;
use super::config::Config;
use super::neighbourhood::Neighbourhood;
use super::numbers::Numbers;
use super::outbox::Outbox;
use super::routes::{self, Own};
use super::stats::{Counter, Stats};
use super::topology::Topology;
use super::wire::Seq;
use super::{PORT, is_node};
use crate::notices::Notices;
use crate::{Arrival, Carrier, Event, Interface, Neighbour, Route, Router, Sending};

/// Octets of the longest UDP payload over IPv4.
const MOST_ROOM: usize = 65_507;

/// OLSR on a node.
#[derive(Debug)]
pub struct Olsr {
    pub(super) config: Config,
    pub(super) rng: Rng,
    pub(super) own: Identity,
    pub(super) ports: BTreeMap<usize, Port>,
    pub(super) hood: Neighbourhood,
    pub(super) topology: Topology,
    pub(super) advert: Advert,
    pub(super) numbers: Numbers,
    pub(super) notices: Notices,
    /// When to announce the other addresses, and the networks.
    pub(super) mid_at: Option<Time>,
    pub(super) hna_at: Option<Time>,
    /// Whether the routes may be others than the last that were calculated.
    pub(super) are_routes_stale: bool,
    routes: BTreeMap<Prefix, Route>,
    events: VecDeque<Event>,
    pub(super) stats: Stats,
}

/// The addresses of the node.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// The interface with the main address, and the main address itself, which stays when the interface goes down.
    main: Option<(usize, Ipv4Addr)>,
    /// All, the main one too.
    pub(super) addresses: BTreeSet<Ipv4Addr>,
}

/// An interface that is up.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) interface: Interface,
    pub(super) outbox: Outbox,
    /// When the next HELLO is due, and whether one is owed that the interface had no room for.
    pub(super) hello_at: Time,
    pub(super) owes_hello: bool,
}

impl Identity {
    /// The main address of this node, once known.
    pub(super) fn main(&self) -> Option<Ipv4Addr> {
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
            notices: Notices::default(),
            mid_at: None,
            hna_at: None,
            are_routes_stale: false,
            routes: BTreeMap::new(),
            events: VecDeque::new(),
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

    /// The neighbours that relay this node's broadcasts.
    pub fn relays(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.hood.relays().iter().copied()
    }

    /// Draws how much earlier or later something happens than it might.
    pub(super) fn jitter(&mut self) -> Duration {
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

    /// Draws conclusions from what is different: relays, and what TC messages tell.
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
        let routes = routes::calculate(own, &self.hood, &self.topology);
        let gone = self.routes.keys().filter(|prefix| !routes.contains_key(prefix));
        self.events.extend(gone.map(|prefix| Event::Route(*prefix, None)));
        let is_new = |(prefix, route): &(&Prefix, &Route)| self.routes.get(prefix) != Some(route);
        let new = routes.iter().filter(is_new);
        self.events.extend(new.map(|(prefix, route)| Event::Route(*prefix, Some(*route))));
        self.routes = routes;
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
                owes_hello: false,
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

    fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.settle(now);
        self.originate(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.calculate();
        self.events.pop_front().or_else(|| self.notices.poll().map(Event::Notice))
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
        self.routes.iter().map(|(prefix, route)| (*prefix, *route)).collect()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.stats.named()
    }
}

/// Sets a wanted deadline if unset, and clears an unwanted one.
fn schedule(deadline: &mut Option<Time>, is_wanted: bool, at: impl FnOnce() -> Time) {
    *deadline = if is_wanted { deadline.or_else(|| Some(at())) } else { None };
}
