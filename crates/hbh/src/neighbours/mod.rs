//! Finds the neighbours that speak HBH.
//!
//! ```text
//!                 hello heard                 its hello repeats our session
//!    (unknown) ───────────────▶  heard  ──────────────────────────────────▶  up
//!        ▲                         │  ◀──────────────────────────────────────│
//!        │                         │     its session is another               │
//!        └─────────────────────────┴──────────────────────────────────────────┘
//!             silence, goodbye, it started again, or it does not hear us
//! ```
//! A neighbour that fell silent while packets went to it is missed: for many minutes we ask whether
//! it is back, so that the neighbour is up again as soon as the link is.
//!
//! A neighbour is up when each has seen that the other hears it, and that both count the same
//! conversation: HBH's state towards it starts fresh then, at both ends.
//!
//! A recorded hello proves nothing: each hello of a boot counts once and in order, and another boot
//! takes the place of a neighbour that is up only when it repeats our current session.

mod admission;
mod claims;
mod hellos;
mod neighbour;
mod reception;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use base::ethernet::Mac;
use base::rng::Rng;
use base::time::{Time, earliest};
use serde::Serialize;

use super::auth::End;
use super::hello::{Heard, Hello, MAX_NEIGHBOURS};
use super::{LinkReport, Peer, Profile};

pub use claims::{Listed, NotListed};

use neighbour::Neighbour;
use reception::Departures;
use sessions::Sessions;

/// Between two hellos, unless given.
pub const HELLO_INTERVAL: Duration = Duration::from_secs(2);
/// Intervals of silence after which a neighbour is forgotten, unless given.
pub const HOLD_INTERVALS: u32 = 10;
/// Neighbours at most, unless given.
pub const LIMIT: usize = 256;
/// While a conversation is about to start, hellos are this frequent.
const EAGER_INTERVAL: Duration = Duration::from_millis(300);
/// For how long.
const EAGER_FOR: Duration = Duration::from_secs(5);
/// Answers to one hello are spread over this time to avoid collisions.
const ANSWER_SPREAD: Duration = Duration::from_millis(10);
/// After this long a silence, while packets go to a neighbour, we ask whether the neighbour is
/// there.
const DOUBT_AFTER: Duration = Duration::from_secs(1);
/// Between two such questions.
const DOUBT_INTERVAL: Duration = Duration::from_millis(400);

/// What can be set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The HBH that we run.
    pub profile: Profile,
    /// Between two hellos on an interface.
    pub interval: Duration,
    /// How long a neighbour may be silent.
    pub hold: Duration,
    /// The most neighbours that are up, over all interfaces; as many again may be merely heard.
    pub limit: usize,
    /// If given, only gateways with one of these addresses become neighbours.
    pub only: Option<Vec<Listed>>,
}

impl Config {
    /// What holds unless given.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let (interval, limit) = (HELLO_INTERVAL, LIMIT);
        Self { profile, interval, hold: interval * HOLD_INTERVALS, limit, only: None }
    }
}

/// What changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// A station claims an address of a neighbour that is up.
    Disputed(Place),
    /// A neighbour does not speak HBH any more, or starts it afresh.
    Down(Place, Peer),
    /// A neighbour that does not run the same HBH.
    Incompatible(Place),
    /// The link to an HBH neighbour, as measured by its hellos.
    Measured(Peer, LinkReport),
    /// A station claims an address that the configuration gives to another.
    Misplaced(Place),
    /// A neighbour speaks HBH.
    Up(Place, Peer),
}

/// A neighbour's place: the position of our interface, and the neighbour's hardware address there.
pub type Place = (usize, Mac);

/// Counters of hellos.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Hellos sent.
    pub hellos_sent: u64,
    /// Hellos received.
    pub hellos_received: u64,
    /// ... of those, from gateways with another profile.
    pub hellos_incompatible: u64,
    /// ... of those, from gateways not on the list of neighbours.
    pub hellos_unlisted: u64,
    /// ... of those, from stations with an address that is bound to another.
    pub hellos_misplaced: u64,
    /// ... of those, from stations with an address of a neighbour that is up.
    pub hellos_disputed: u64,
    /// ... of those, repeated by another station than their sender.
    pub hellos_relayed: u64,
    /// ... of those, no newer than an earlier hello.
    pub hellos_stale: u64,
    /// ... of those, ignored because of too many neighbours.
    pub hellos_full: u64,
    /// Stations forgotten that were merely heard, because there were too many.
    pub neighbours_evicted: u64,
    /// Times a neighbour came up.
    pub neighbours_up: u64,
    /// Times a neighbour went down.
    pub neighbours_down: u64,
}

/// The gateways that are heard, on all interfaces.
#[derive(Debug)]
pub struct Neighbours {
    config: Config,
    boot: u64,
    /// Of the last hello.
    counter: u64,
    rng: Rng,
    sessions: Sessions,
    interfaces: Vec<Interface>,
    known: BTreeMap<Place, Neighbour>,
    places: BTreeMap<Peer, Place>,
    by_address: BTreeMap<(usize, IpAddr), Peer>,
    next_peer: u32,
    /// When something is due, at the earliest.
    due: Option<Time>,
    events: VecDeque<Event>,
    stats: Stats,
}

#[derive(Debug)]
struct Interface {
    station: Mac,
    addresses: Vec<IpAddr>,
    hello_at: Option<Time>,
    is_running: bool,
    /// The last neighbour that a hello named, when there are too many for one.
    named: Option<Mac>,
    departures: Departures,
}

impl Neighbours {
    /// Nobody is known yet, and no interface.
    #[must_use]
    pub fn new(config: Config, mut rng: Rng) -> Self {
        Self {
            config,
            boot: rng.bits(),
            counter: 0,
            sessions: Sessions::new(&mut rng),
            rng,
            interfaces: Vec::new(),
            known: BTreeMap::new(),
            places: BTreeMap::new(),
            by_address: BTreeMap::new(),
            next_peer: 0,
            due: None,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Updates one of our interfaces: hardware address, addresses, and whether the interface runs.
    /// Positions are small, and the position of an interface that is gone may be used again.
    pub fn handle_interface(
        &mut self,
        now: Time,
        interface: usize,
        station: Mac,
        addresses: &[IpAddr],
        is_running: bool,
    ) {
        if self.interfaces.len() <= interface {
            self.interfaces.resize_with(interface + 1, Interface::unknown);
        }
        let state = &mut self.interfaces[interface];
        let is_same_station = state.station == station;
        if is_same_station && state.addresses == addresses && state.is_running == is_running {
            return;
        }
        state.station = station;
        state.addresses = addresses.to_vec();
        state.is_running = is_running && !addresses.is_empty();
        state.hello_at = state.is_running.then_some(now);
        if !state.is_running || !is_same_station {
            let gone: Vec<Place> =
                self.known.keys().copied().filter(|p| p.0 == interface).collect();
            for place in gone {
                self.forget(now, place);
            }
        }
        self.note_due();
    }

    /// Takes a hello that the station at `place` sent.
    pub fn handle_hello(&mut self, now: Time, place: Place, hello: Hello) {
        self.hear(now, place, hello);
        self.note_due();
    }

    fn hear(&mut self, now: Time, place: Place, hello: Hello) {
        self.stats.hellos_received += 1;
        if hello.boot == self.boot || !place.1.is_station() || !self.interfaces[place.0].is_running
        {
            return;
        }
        if hello.station != place.1 {
            self.stats.hellos_relayed += 1;
            return;
        }
        let us = hello.neighbours.iter().find(|heard| heard.boot == self.boot).copied();
        if hello.is_goodbye {
            self.handle_goodbye(now, place, &hello, us);
            return;
        }
        if hello.profile != self.config.profile {
            self.stats.hellos_incompatible += 1;
            self.events.push_back(Event::Incompatible(place));
            return;
        }
        if let Err(unfounded) = self.judge(place, &hello.addresses) {
            self.refuse(place, unfounded);
            return;
        }
        self.sessions.renew_after(now, self.config.hold);
        if !self.is_counted(now, place, &hello, us) {
            return;
        }
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        neighbour.counter = hello.counter;
        neighbour.heard = now;
        neighbour.is_doubted = false;
        neighbour.arrivals.count(now, hello.number);

        let at = neighbour.may_answer_at(now) + self.rng.within(ANSWER_SPREAD);
        // A question that names some is for these.
        let wants_answer = hello.wants_answer && (us.is_some() || !hello.is_partial);
        neighbour.take(at, us, hello.is_partial, wants_answer);
        let its_session = us.map_or(0, |us| us.session);
        let is_afresh = its_session != neighbour.its_session && !(us.is_none() && hello.is_partial);
        let addresses_changed = neighbour.addresses != hello.addresses;
        neighbour.addresses = hello.addresses;
        if is_afresh {
            neighbour.its_session = its_session;
            neighbour.answer_at = Some(at);
            self.take_down(now, place);
        }
        let session = self.known.get(&place).map(|neighbour| neighbour.session);
        if us.is_some_and(|us| Some(us.echo) == session) {
            self.bring_up(now, place, addresses_changed);
        }
        if let (Some(us), Some(peer)) = (us, self.peer_at(place)) {
            let report = self.interfaces[place.0].departures.report(now, us.reception);
            self.events.push_back(Event::Measured(peer, report));
        }
    }

    /// Notes that the station at `place` sent a valid HBH packet.
    pub fn handle_alive(&mut self, now: Time, place: Place) {
        if let Some(neighbour) = self.known.get_mut(&place) {
            neighbour.heard = now;
            neighbour.is_doubted = false;
        }
    }

    /// Takes that a packet is sent to the station at `place`.
    pub fn handle_sent(&mut self, now: Time, place: Place) {
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        neighbour.used = now;
        if !neighbour.is_doubted && now.since(neighbour.heard) > DOUBT_AFTER {
            neighbour.is_doubted = true;
            neighbour.answer_at = Some(now);
            self.due = earliest(self.due, Some(now));
        }
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.is_due(now) {
            return;
        }
        let hold = self.config.hold;
        let silent: Vec<Place> = self
            .known
            .iter()
            .filter(|(_, neighbour)| neighbour.expires_at(hold) <= now)
            .map(|(&place, _)| place)
            .collect();
        for place in silent {
            let is_missed = self.known.get(&place).is_some_and(Neighbour::is_missed);
            if is_missed {
                self.take_down(now, place);
            } else {
                self.forget(now, place);
            }
        }
        self.note_due();
    }

    /// The next hello to send on an interface, and to whom.
    pub fn poll_transmit(&mut self, now: Time, interface: usize) -> Option<(Mac, Hello)> {
        if !self.is_due(now) {
            return None;
        }
        let hello = self.next_hello(now, interface)?;
        self.note_due();
        Some(hello)
    }

    /// The goodbye hellos, which name all neighbours that we hear.
    pub fn goodbyes(&mut self, now: Time, interface: usize) -> Vec<Hello> {
        let known = self.known.range(places_on(interface));
        let heard: Vec<_> = known.map(|(_, neighbour)| neighbour.as_heard(now)).collect();
        let goodbye = |neighbours: &[Heard]| {
            let hello = self.hello(interface, false, true, neighbours.to_vec());
            Hello { is_goodbye: true, ..hello }
        };
        heard.chunks(MAX_NEIGHBOURS).map(goodbye).collect()
    }

    /// What changed; ask until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call `handle_timeout`, then `poll_transmit`, at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The neighbour at `place`, if it is up.
    #[must_use]
    pub fn peer_at(&self, place: Place) -> Option<Peer> {
        self.known.get(&place)?.peer
    }

    /// The neighbour that has an address, if it is up.
    #[must_use]
    pub fn peer_with(&self, interface: usize, address: IpAddr) -> Option<Peer> {
        self.by_address.get(&(interface, address)).copied()
    }

    /// Where a neighbour is.
    #[must_use]
    pub fn place_of(&self, peer: Peer) -> Option<Place> {
        self.places.get(&peer).copied()
    }

    /// The addresses of the neighbour at `place`.
    #[must_use]
    pub fn addresses(&self, place: Place) -> &[IpAddr] {
        self.known.get(&place).map_or(&[], |neighbour| &neighbour.addresses)
    }

    /// Both ends of the conversation with the neighbour at `place`: ours, and its.
    #[must_use]
    pub fn ends(&self, place: Place) -> Option<(End, End)> {
        let neighbour = self.known.get(&place)?;
        let ours = End { boot: self.boot, session: neighbour.session };
        Some((ours, End { boot: neighbour.boot, session: neighbour.its_session }))
    }

    /// All that are up, in order.
    pub fn peers(&self) -> impl Iterator<Item = (Peer, Place)> + '_ {
        self.places.iter().map(|(&peer, &place)| (peer, place))
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Computes anew when something is due. What is heard in the meantime makes it later only.
    fn note_due(&mut self) {
        let hellos = self.interfaces.iter().filter_map(|interface| interface.hello_at).min();
        let hold = self.config.hold;
        self.due = self.known.values().fold(hellos, |at, neighbour| {
            let due = earliest(neighbour.answer_at, Some(neighbour.expires_at(hold)));
            earliest(at, due)
        });
    }
}

impl Interface {
    /// An interface before anything is known about it.
    fn unknown() -> Self {
        Self {
            station: Mac([0; 6]),
            addresses: Vec::new(),
            hello_at: None,
            is_running: false,
            named: None,
            departures: Departures::default(),
        }
    }
}

fn places_on(interface: usize) -> std::ops::RangeInclusive<Place> {
    (interface, Mac([0; 6]))..=(interface, Mac::EVERYONE)
}

#[cfg(test)]
mod tests;
