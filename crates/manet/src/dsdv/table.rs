//! The routing table: next hop, metric and sequence number of each destination.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::serial;
use base::time::Time;

use super::Config;
use super::wire;
use crate::{Event, Neighbour, Route};

/// The entry of one destination.
#[derive(Clone, Debug)]
struct Known {
    number: u32,
    /// The way there; `None` when it broke.
    way: Option<Way>,
    /// When neighbours may be told: a better route may still come before that.
    settled_at: Time,
    /// When neighbours are to be told of a change, without waiting for the next full update.
    advertise_at: Option<Time>,
    /// When the first news with this number came.
    first_at: Time,
    /// When the way was last changed for a better one.
    best_at: Time,
    /// How long the best news usually comes after the first.
    settling: Duration,
    /// The hops that neighbours were last told.
    advertised_hops: Option<u8>,
    /// When the route broke, if ever.
    broken_at: Time,
    /// Until when neighbours are told of each new number without waiting for better ways: the number has leapt.
    alert_until: Time,
}

/// A way to a destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Way {
    pub next: Neighbour,
    pub hops: u8,
}

/// An entry of a message, as relevant for the table.
#[derive(Clone, Copy, Debug)]
pub struct News {
    pub number: u32,
    /// The route through the neighbour; `None` when the neighbour has no route.
    pub way: Option<Way>,
    pub from: Neighbour,
}

/// What became of news.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The way of a destination broke.
    Broken,
    /// There was no room for another destination.
    Full,
    /// The news confirms the route, or is better.
    Heard,
    /// The news is older than our own: we know that no route exists.
    Stale,
    /// The next hop no longer has what our route rests on.
    Undercut,
}

/// The table: all destinations, and those with news for the driver.
#[derive(Debug, Default)]
pub struct Table {
    known: BTreeMap<Ipv4Addr, Known>,
    changed: BTreeSet<Ipv4Addr>,
    /// Since when neighbours are to be told of a number that has leapt; `None` while there is none.
    urgent_at: Option<Time>,
}

/// Numbers rise by two with each full update. A difference above `LEAP` means several missed updates, an absent node
/// or a forgery: the destination corrects the number when the update reaches it.
const LEAP: u32 = 4;

/// Whether two numbers of a destination differ more than usual between nodes in contact.
pub fn is_leap(one: u32, other: u32) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead.min(ahead.wrapping_neg()) > LEAP
}

impl Table {
    /// Takes news of a destination.
    pub fn handle(
        &mut self,
        now: Time,
        config: &Config,
        destination: Ipv4Addr,
        news: News,
    ) -> Outcome {
        let Some(known) = self.known.get_mut(&destination) else {
            // There is nothing to break, and nobody here to be warned.
            let Some(way) = news.way else { return Outcome::Heard };
            if self.known.len() >= config.destinations {
                return Outcome::Full;
            }
            self.known.insert(destination, Known::new(now, config, news.number, Some(way)));
            self.changed.insert(destination);
            return Outcome::Heard;
        };

        let (before, number) = (known.way, known.number);
        let outcome = if serial::replaces(news.number, known.number) {
            known.renew(now, config, news)
        } else if known.number == news.number {
            known.compare(now, news)
        } else if known.way.is_none() && news.way.is_some() {
            known.advertise_at.get_or_insert(now);
            Outcome::Stale
        } else {
            Outcome::Heard
        };
        if known.way != before {
            self.changed.insert(destination);
        }
        if known.number != number && known.is_alert(now, number) {
            self.urgent_at.get_or_insert(now);
        }
        outcome
    }

    /// Breaks the routes through these neighbours; how many there were.
    pub fn break_through(&mut self, now: Time, is_lost: impl Fn(Neighbour) -> bool) -> u64 {
        let mut broken = 0;
        for (destination, known) in &mut self.known {
            if known.way.is_some_and(|way| is_lost(way.next)) {
                known.lose(now);
                self.changed.insert(*destination);
                broken += 1;
            }
        }
        broken
    }

    /// Makes room for another destination: the route that broke first is forgotten; false if there is none whose end
    /// neighbours were told.
    pub fn forget(&mut self) -> bool {
        let is_over = |known: &Known| known.way.is_none() && known.advertise_at.is_none();
        let broken = self.known.iter().filter(|(_, known)| is_over(known));
        let oldest = broken.min_by_key(|(destination, known)| (known.broken_at, **destination));
        let Some(oldest) = oldest.map(|(destination, _)| *destination) else { return false };
        self.known.remove(&oldest);
        true
    }

    /// Removes the entry of a destination that is our own from now on.
    pub fn remove(&mut self, destination: Ipv4Addr) {
        if self.known.remove(&destination).is_some_and(|known| known.way.is_some()) {
            self.changed.insert(destination);
        }
    }

    /// Announces the end of our own destination with number `number`. In a full table the farthest destination gives
    /// way: its neighbour announces it again in the next update, but nobody else can announce our destination's end.
    pub fn renounce(&mut self, now: Time, config: &Config, destination: Ipv4Addr, number: u32) {
        if self.known.len() >= config.destinations && !self.forget() {
            let farthest = self
                .known
                .iter()
                .max_by_key(|(destination, known)| (known.way.map(|way| way.hops), **destination));
            if let Some(farthest) = farthest.map(|(destination, _)| *destination) {
                self.remove(farthest);
            }
        }
        self.known.insert(destination, Known::new(now, config, number.wrapping_add(1), None));
    }

    /// Returns the entry to send to neighbours, and marks the destination as sent now.
    pub fn advertise(&mut self, destination: Ipv4Addr) -> Option<wire::Entry> {
        let known = self.known.get_mut(&destination)?;
        known.advertised_hops = Some(known.hops());
        let (hops, number) = (known.hops().into(), known.number);
        Some(wire::Entry { destination, hops, number })
    }

    /// The next route that has changed.
    pub fn poll_event(&mut self) -> Option<Event> {
        let destination = self.changed.pop_first()?;
        let way = self.known.get(&destination).and_then(|known| known.way);
        Some(Event::Route(prefix(destination), way.map(Way::route)))
    }

    /// All routes, in the order of their prefixes.
    pub fn routes(&self) -> Vec<(Prefix, Route)> {
        let ways = self.known.iter().filter_map(|(to, known)| Some((*to, known.way?)));
        ways.map(|(destination, way)| (prefix(destination), way.route())).collect()
    }

    /// When the first change is due to be advertised.
    pub fn next_change(&self) -> Option<Time> {
        self.known.values().filter_map(|known| known.advertise_at).min()
    }

    /// Since when numbers that have leapt are to be advertised.
    pub fn urgent_since(&self) -> Option<Time> {
        self.urgent_at
    }

    /// Takes the destinations whose changes are due to be advertised now.
    pub fn take_changes(&mut self, now: Time) -> BTreeSet<Ipv4Addr> {
        self.urgent_at = None;
        let known = self.known.iter_mut();
        let due = known.filter_map(|(destination, known)| {
            known.advertise_at.take_if(|at| *at <= now).map(|_| *destination)
        });
        due.collect()
    }

    /// Takes the destinations of a full update: all settled ones. A route that broke more than `patience` ago is left
    /// out, unless it is due for another reason: neighbours that have not heard of the break have given us up.
    pub fn take_settled(&mut self, now: Time, patience: Duration) -> BTreeSet<Ipv4Addr> {
        self.urgent_at = None;
        let settled = self.known.iter_mut().filter(|(_, known)| known.settled_at <= now);
        let advertised = settled.filter_map(|(destination, known)| {
            let is_past = known.way.is_none() && now.since(known.broken_at) > patience;
            let is_due = known.advertise_at.take().is_some();
            (!is_past || is_due).then_some(*destination)
        });
        advertised.collect()
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn contains(&self, destination: Ipv4Addr) -> bool {
        self.known.contains_key(&destination)
    }
}

/// How long a leap is answered at least, whatever the settling time.
const ALERT: Duration = Duration::from_secs(5);

impl Known {
    /// A new destination, announced to neighbours at once.
    fn new(now: Time, config: &Config, number: u32, way: Option<Way>) -> Self {
        Self {
            number,
            way,
            settled_at: now,
            advertise_at: Some(now),
            first_at: now,
            best_at: now,
            settling: config.settling,
            advertised_hops: None,
            broken_at: now,
            alert_until: now,
        }
    }

    /// Has neighbours told at once if the number has leapt from `before`, now or a moment ago: the right number then
    /// travels as fast as the wrong number did. Returns whether neighbours are told.
    fn is_alert(&mut self, now: Time, before: u32) -> bool {
        if is_leap(self.number, before) {
            self.alert_until = now + self.settling.max(ALERT);
        } else if self.alert_until <= now {
            return false;
        }
        self.settled_at = now;
        self.advertise_at = Some(now);
        true
    }

    /// Takes news with a higher number, which count whatever they say.
    fn renew(&mut self, now: Time, config: &Config, news: News) -> Outcome {
        if self.way.is_some() {
            let seen = self.best_at.since(self.first_at);
            let weight = config.settling_weight;
            self.settling = self.settling.mul_f64(weight) + seen.mul_f64(1.0 - weight);
        }
        let was_broken = self.way.is_none();
        self.number = news.number;
        (self.first_at, self.best_at) = (now, now);
        let Some(way) = news.way else {
            if was_broken {
                return Outcome::Heard;
            }
            self.fail(now);
            return Outcome::Broken;
        };

        self.way = Some(way);
        if was_broken {
            self.settled_at = now;
            self.advertise_at = Some(now);
        } else {
            self.settle(now);
        }
        Outcome::Heard
    }

    /// Takes news with the same number: a shorter way counts.
    fn compare(&mut self, now: Time, news: News) -> Outcome {
        let (Some(mine), Some(theirs)) = (self.way, news.way) else { return Outcome::Heard };
        if theirs.hops < mine.hops {
            self.way = Some(theirs);
            self.best_at = now;
            self.settle(now);
        } else if news.from == mine.next && theirs.hops > mine.hops {
            // Under the same number a route only gets shorter: the neighbour has forgotten its route, and
            // may route through us now.
            self.lose(now);
            return Outcome::Undercut;
        }
        Outcome::Heard
    }

    /// Gives the way up, under the odd number that says so.
    fn lose(&mut self, now: Time) {
        self.number = self.number.wrapping_add(1);
        self.fail(now);
    }

    fn fail(&mut self, now: Time) {
        self.way = None;
        self.broken_at = now;
        // A broken route is announced without delay.
        self.settled_at = now;
        self.advertise_at = Some(now);
    }

    /// Decides when neighbours learn the route: a route of unchanged length needs no update of its own.
    fn settle(&mut self, now: Time) {
        if self.advertise_at.is_some_and(|_| self.settled_at <= now) {
            // An announcement is due already, of a new destination, for example.
            return;
        }
        if self.advertised_hops == Some(self.hops()) {
            self.settled_at = now;
            self.advertise_at = None;
        } else {
            self.settled_at = (self.first_at + self.settling * 2).max(now);
            self.advertise_at = Some(self.settled_at);
        }
    }

    fn hops(&self) -> u8 {
        self.way.map_or(wire::INFINITE, |way| way.hops)
    }
}

impl Way {
    fn route(self) -> Route {
        Route { next: self.next, hops: self.hops, gateway: None }
    }
}

/// The destinations that an entry is about.
fn prefix(destination: Ipv4Addr) -> Prefix {
    let bits = if destination.is_unspecified() { 0 } else { 32 };
    Prefix::new(destination.into(), bits).expect("an address has 32 bits")
}
