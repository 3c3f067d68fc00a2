//! The DSDV router: schedules updates, and handles messages from neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use base::counter::{Counter as Counted, named};
use base::ip::Prefix;
use base::rng::Rng;
use base::serial;
use base::time::{Time, earliest};

use super::config::Config;
use super::stats::Stats;
use super::table::{News, Outcome, Table, Way, is_leap};
use super::wire::{ENTRY, Entry, INFINITE};
use crate::events::Events;
use crate::{
    Arrival, Carrier, Event, Interface, Neighbour, Notice, Route, Router, Sending, is_host,
};

/// DSDV on a node.
#[derive(Debug)]
pub struct Dsdv {
    config: Config,
    rng: Rng,
    /// Our own sequence number: even.
    number: u32,
    /// Whether this node reaches the network behind it, if it is a gateway.
    has_uplink: bool,
    ports: BTreeMap<usize, Port>,
    /// When each neighbour was last heard.
    neighbours: BTreeMap<Neighbour, Time>,
    table: Table,
    /// When the next full update is due; `None` without interfaces.
    full_at: Option<Time>,
    /// When the next triggered update may be sent.
    trigger_from: Time,
    /// When the next triggered update about leaps of sequence numbers may be sent.
    urgent_from: Time,
    /// Since when neighbours are to be told our own number, because a neighbour has a wrong one.
    correct_at: Option<Time>,
    /// How long a triggered update waits, drawn anew after each update.
    lag: std::time::Duration,
    /// When all nodes have heard our number, or given up routes to us from before our start.
    is_known_by: Option<Time>,
    events: Events,
    stats: Stats,
}

/// An interface, and what is still to be sent on it.
#[derive(Debug)]
struct Port {
    interface: Interface,
    /// Whether our own entry is due.
    is_own_due: bool,
    /// Destinations due in the next update.
    due: BTreeSet<Ipv4Addr>,
}

/// Updates about leaps of sequence numbers may be sent `URGENCY` times as often as others: within a few updates, a
/// wrong number reaches its destination and the right number comes back.
const URGENCY: u32 = 4;

impl Dsdv {
    /// DSDV without interfaces.
    #[must_use]
    pub fn new(config: Config, mut rng: Rng) -> Self {
        let lag = rng.within(config.jitter);
        Self {
            config,
            rng,
            number: 0,
            has_uplink: true,
            ports: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            table: Table::default(),
            full_at: None,
            trigger_from: Time::ZERO,
            urgent_from: Time::ZERO,
            correct_at: None,
            lag,
            is_known_by: None,
            events: Events::default(),
            stats: Stats::default(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Known destinations, with a route or without.
    #[must_use]
    pub fn known(&self) -> usize {
        self.table.len()
    }

    /// Handles an entry from a neighbour's message.
    fn handle_entry(&mut self, now: Time, from: Neighbour, entry: Entry) {
        let Entry { destination, hops, number } = entry;
        let is_default = destination.is_unspecified();
        if !is_default && !is_host(destination) {
            self.stats.bad_entries += 1;
            return;
        }
        if self.is_own(destination) {
            self.handle_claim(now, from, entry);
            return;
        }
        // An odd number means no route, whatever the distance says.
        let way = if !number.is_multiple_of(2) {
            None
        } else {
            let Some(hops) = u8::try_from(hops).ok().filter(|hops| *hops < INFINITE) else {
                self.stats.bad_entries += 1;
                return;
            };
            if hops + 1 == INFINITE {
                self.stats.too_far += 1;
                return;
            }
            Some(Way { next: from, hops: hops + 1 })
        };

        let is_new = way.is_some() && !self.table.contains(destination);
        if is_new && self.table.len() >= self.config.destinations && self.table.forget() {
            self.stats.forgotten += 1;
        }
        let news = News { number, way, from };
        match self.table.handle(now, &self.config, destination, news) {
            Outcome::Broken => self.stats.broken += 1,
            Outcome::Full => self.stats.destinations_full += 1,
            Outcome::Heard => {}
            Outcome::Stale => self.stats.stale += 1,
            Outcome::Undercut => self.stats.undercut += 1,
        }
    }

    /// Handles a neighbour's entry about ourselves. A higher number than ours stems from before a restart, or says that
    /// a route to us broke; we continue above it. A number far below ours is answered, too: whoever believes it would
    /// wait for our next full update.
    fn handle_claim(&mut self, now: Time, from: Neighbour, claim: Entry) {
        let Entry { destination, number, .. } = claim;
        let is_default = destination.is_unspecified();
        let is_higher = number != self.number && !serial::is_after(self.number, number);
        // A default route that is alive may be another gateway's.
        let is_alive = number.is_multiple_of(2);
        let has_leapt = is_leap(number, self.number);
        if !(is_higher || has_leapt) || is_default && is_alive {
            return;
        }
        if has_leapt {
            self.correct_at.get_or_insert(now);
        }
        if !is_higher {
            // The number rises with the correction, else nodes on the way would not pass it on.
            return;
        }
        // Nobody but us gives even numbers for us; numbers from before a restart are forgotten by now.
        if is_alive && self.is_known_by.is_some_and(|at| at <= now) {
            self.stats.disputed += 1;
            self.events.add_notice(Notice::AddressDisputed { address: destination, from });
        }
        self.number = (number & !1).wrapping_add(2);
        self.stats.raised += 1;
        if !has_leapt {
            self.update_soon(now);
        }
    }

    /// Announces the present number in a full update, as early as the distance from triggered updates allows.
    fn update_soon(&mut self, now: Time) {
        self.full_at = self.full_at.map(|at| at.min(self.trigger_from.max(now) + self.lag));
    }

    /// Whether neighbours are told of a default route through this node.
    fn is_gateway(&self) -> bool {
        self.config.is_gateway && self.has_uplink
    }

    /// Gives up neighbours, and the routes through them.
    fn lose(&mut self, now: Time, is_lost: impl Fn(Neighbour) -> bool) -> u64 {
        let before = self.neighbours.len();
        self.neighbours.retain(|neighbour, _| !is_lost(*neighbour));
        self.stats.broken += self.table.break_through(now, is_lost);
        (before - self.neighbours.len()) as u64
    }

    /// When the first neighbour has been silent for too long.
    fn silence_at(&self) -> Option<Time> {
        let first = self.neighbours.values().min()?;
        Some(*first + self.config.patience())
    }

    /// When the next triggered update is due.
    fn trigger_at(&self) -> Option<Time> {
        if self.ports.is_empty() {
            return None;
        }
        let usual = self.table.next_change().map(|at| (at + self.lag).max(self.trigger_from));
        let urgent = earliest(self.correct_at, self.table.urgent_since());
        earliest(usual, urgent.map(|at| (at + self.lag).max(self.urgent_from)))
    }

    /// Advertises all settled routes on all interfaces.
    fn update_fully(&mut self, now: Time) {
        self.stats.full_updates += 1;
        self.number = self.number.wrapping_add(2);
        let settled = self.table.take_settled(now, self.config.patience());
        self.schedule_update(now, &settled);
        let interval = self.config.update_interval;
        let certain = interval.mul_f64(1.0 - self.config.update_spread);
        let random = self.rng.within(interval.mul_f64(self.config.update_spread));
        self.full_at = Some(now + certain + random + self.lag);
    }

    /// Advertises the settled changes.
    fn update_changes(&mut self, now: Time) {
        self.stats.triggered_updates += 1;
        if self.correct_at.is_some() {
            self.number = self.number.wrapping_add(2);
        }
        let changes = self.table.take_changes(now);
        self.schedule_update(now, &changes);
    }

    /// Puts destinations into the next update of every interface, beside our own entry.
    fn schedule_update(&mut self, now: Time, destinations: &BTreeSet<Ipv4Addr>) {
        for port in self.ports.values_mut() {
            port.is_own_due = true;
            port.due.extend(destinations);
        }
        self.correct_at = None;
        self.trigger_from = now + self.config.trigger_spacing;
        self.urgent_from = now + self.config.trigger_spacing / URGENCY;
        self.lag = self.rng.within(self.config.jitter);
    }

    fn is_own(&self, destination: Ipv4Addr) -> bool {
        destination.is_unspecified() && self.is_gateway()
            || self.ports.values().any(|port| port.interface.address == destination)
    }
}

impl Router for Dsdv {
    fn carrier(&self) -> Carrier {
        Carrier::Udp(super::PORT)
    }

    fn handle_interface(&mut self, now: Time, index: usize, interface: Option<&Interface>) {
        if self.ports.get(&index).map(|port| &port.interface) == interface {
            return;
        }
        let address = self.ports.get(&index).map(|port| port.interface.address);
        if interface.is_none() || interface.map(|interface| interface.address) != address {
            self.lose(now, |neighbour| neighbour.interface == index);
            if let Some(gone) = self.ports.remove(&index) {
                // Others are told, since our word of the other addresses goes on.
                self.table.renounce(now, &self.config, gone.interface.address, self.number);
            }
        }
        if let Some(interface) = interface {
            self.table.remove(interface.address);
            let fresh =
                Port { interface: interface.clone(), is_own_due: false, due: BTreeSet::new() };
            self.ports.entry(index).or_insert(fresh).interface = interface.clone();
            let first = now + self.rng.within(self.config.start_jitter);
            self.full_at = earliest(self.full_at, Some(first));
            self.is_known_by.get_or_insert(now + self.config.patience());
        }
        if self.ports.is_empty() {
            self.full_at = None;
        }
    }

    fn handle_attached(&mut self, now: Time, reached: &[Prefix]) {
        let default = Ipv4Addr::UNSPECIFIED;
        let has_uplink = reached.iter().any(|network| network.bits() == 0);
        if !self.config.is_gateway || has_uplink == self.has_uplink {
            return;
        }
        self.has_uplink = has_uplink;
        if has_uplink {
            self.table.remove(default);
            // The odd number by which the default route ended counts less than this one.
            self.number = self.number.wrapping_add(2);
            self.update_soon(now);
        } else {
            self.table.renounce(now, &self.config, default, self.number);
        }
    }

    fn handle_message(&mut self, now: Time, arrival: &Arrival, payload: &[u8]) {
        let from = arrival.from;
        if !self.ports.contains_key(&from.interface)
            || self.is_own(from.address)
            || !is_host(from.address)
        {
            self.stats.foreign += 1;
            return;
        }
        let Ok((entries, is_cut)) = Entry::parse_all(payload) else {
            self.stats.malformed += 1;
            return;
        };
        let is_known = self.neighbours.contains_key(&from);
        if !is_known && self.neighbours.len() >= self.config.neighbours {
            self.stats.neighbours_full += 1;
            return;
        }
        self.stats.received += 1;
        self.neighbours.insert(from, now);
        let bad = self.stats.bad_entries;
        self.stats.bad_entries += u64::from(is_cut);
        for entry in entries {
            self.handle_entry(now, from, entry);
        }
        if self.stats.bad_entries > bad {
            self.events.add_notice(Notice::Unreadable { from, originator: from.address });
        }
    }

    fn handle_break(&mut self, now: Time, neighbour: Neighbour) {
        if self.config.link_breaks {
            self.stats.unreachable += self.lose(now, |lost| lost == neighbour);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.silence_at().is_some_and(|at| at <= now) {
            let patience = self.config.patience();
            let silent = self.neighbours.iter().filter(|(_, heard)| **heard + patience <= now);
            let silent: BTreeSet<Neighbour> = silent.map(|(neighbour, _)| *neighbour).collect();
            self.stats.silent += self.lose(now, |neighbour| silent.contains(&neighbour));
        }
        if self.full_at.is_some_and(|at| at <= now) {
            self.update_fully(now);
        }
        if self.trigger_at().is_some_and(|at| at <= now) {
            self.update_changes(now);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.table.poll_event().or_else(|| self.events.poll())
    }

    fn poll_transmit(
        &mut self,
        _now: Time,
        interface: usize,
        out: &mut Vec<u8>,
    ) -> Option<Sending> {
        let room = self.ports.get(&interface)?.interface.room / ENTRY;
        let mut own: Vec<Ipv4Addr> = self.ports.values().map(|it| it.interface.address).collect();
        own.extend(self.is_gateway().then_some(Ipv4Addr::UNSPECIFIED));
        let number = self.number;
        let port = self.ports.get_mut(&interface)?;
        if room == 0 {
            // Not even a single entry fits: the interface is useless.
            port.is_own_due = false;
            port.due.clear();
        }

        out.clear();
        if std::mem::take(&mut port.is_own_due) {
            // The address on this link goes first: neighbours know this address.
            let here = port.interface.address;
            own.sort_by_key(|address| *address != here);
            for destination in own.into_iter().take(room) {
                Entry { destination, hops: 0, number }.emit(out);
            }
        }
        while out.len() < room * ENTRY
            && let Some(destination) = port.due.pop_first()
        {
            if let Some(entry) = self.table.advertise(destination) {
                entry.emit(out);
            }
        }
        if out.is_empty() {
            return None;
        }
        self.stats.sent += 1;
        // It is for neighbours alone.
        Some(Sending { to: Ipv4Addr::BROADCAST, ttl: 1 })
    }

    fn next_timeout(&self) -> Option<Time> {
        earliest(earliest(self.full_at, self.trigger_at()), self.silence_at())
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        self.table.routes()
    }

    fn counters(&self) -> Vec<(&'static Counted, u64)> {
        named(&self.stats)
    }
}
