//! Which neighbours speak HBH.
//!
//! ```text
//!                 hello heard                 its hello repeats our session
//!    (unknown) ───────────────▶  heard  ──────────────────────────────────▶  up
//!        ▲                         │  ◀──────────────────────────────────────│
//!        │                         │     its session is another               │
//!        └─────────────────────────┴──────────────────────────────────────────┘
//!             silence, goodbye, it started again, or it does not hear us
//! ```
//! A neighbour is up when each has seen that the other hears it, and that both count the same
//! conversation: HBH's state towards it starts fresh then, at both ends.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use proto::hbh::{Peer, Profile};
use proto::rng::Rng;
use proto::time::{Time, earliest};

use crate::frame::Mac;
use crate::hello::{Heard, Hello, MAX_NEIGHBOURS};

/// While a conversation is about to start, hellos are this frequent.
const EAGER_INTERVAL: Duration = Duration::from_millis(300);
/// For how long.
const EAGER_FOR: Duration = Duration::from_secs(5);
/// Answers to one neighbour are no more frequent than this.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);
/// Answers to one hello are spread over this, so that they do not collide.
const ANSWER_SPREAD: Duration = Duration::from_millis(10);
/// A neighbour that is silent for this long while packets go there is asked whether it is there.
const DOUBT_AFTER: Duration = Duration::from_secs(1);
/// Between two such questions.
const DOUBT_INTERVAL: Duration = Duration::from_millis(400);
/// What part of the usual time a neighbour may be silent that is asked.
const DOUBT_HOLD: u32 = 3;

/// What can be set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The HBH that we run.
    pub profile: Profile,
    /// Between two hellos on an interface.
    pub interval: Duration,
    /// How long a neighbour may be silent.
    pub hold: Duration,
    /// Neighbours at most, over all interfaces.
    pub limit: usize,
    /// If given, only gateways that have one of these addresses become neighbours.
    pub only: Option<Vec<IpAddr>>,
}

/// What changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// A neighbour does not speak HBH any more, or starts it afresh.
    Down(Place, Peer),
    /// A neighbour that does not run the same HBH.
    Incompatible(Place),
    /// A neighbour speaks HBH.
    Up(Place, Peer),
}

/// Where a neighbour is: the position of our interface, and its hardware address there.
pub type Place = (usize, Mac);

/// Counters of hellos.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Hellos sent.
    pub hellos_sent: u64,
    /// Hellos received.
    pub hellos_received: u64,
    /// ... of those, from gateways that run another profile.
    pub hellos_incompatible: u64,
    /// ... of those, from gateways that are not on the list of neighbours.
    pub hellos_unlisted: u64,
    /// ... of those, ignored because there are too many neighbours.
    pub hellos_full: u64,
    /// Times a neighbour came up.
    pub neighbours_up: u64,
    /// Times a neighbour went down.
    pub neighbours_down: u64,
}

/// The gateways that are heard, on all interfaces.
#[derive(Debug)]
pub struct Neighbours {
    config: Config,
    boot: u32,
    rng: Rng,
    interfaces: Vec<Interface>,
    known: BTreeMap<Place, Neighbour>,
    places: BTreeMap<Peer, Place>,
    by_address: BTreeMap<(usize, IpAddr), Peer>,
    next_peer: u32,
    events: VecDeque<Event>,
    stats: Stats,
}

#[derive(Debug, Default)]
struct Interface {
    addresses: Vec<IpAddr>,
    hello_at: Option<Time>,
    is_running: bool,
    /// The last neighbour that a hello named, when there are too many for one.
    named: Option<Mac>,
}

#[derive(Debug)]
struct Neighbour {
    boot: u32,
    addresses: Vec<IpAddr>,
    session: u16,
    its_session: u16,
    peer: Option<Peer>,
    first_heard: Time,
    heard: Time,
    is_doubted: bool,
    answered: Time,
    answer_at: Option<Time>,
    is_incompatible: bool,
}

impl Neighbours {
    /// Nobody is known yet.
    #[must_use]
    pub fn new(config: Config, interfaces: usize, mut rng: Rng) -> Self {
        let boot = u32::try_from(rng.below(1 << 32)).unwrap_or_default();
        Self {
            config,
            boot,
            rng,
            interfaces: (0..interfaces).map(|_| Interface::default()).collect(),
            known: BTreeMap::new(),
            places: BTreeMap::new(),
            by_address: BTreeMap::new(),
            next_peer: 0,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes what is now known of one of our interfaces.
    pub fn handle_interface(
        &mut self,
        now: Time,
        interface: usize,
        addresses: &[IpAddr],
        is_running: bool,
    ) {
        let state = &mut self.interfaces[interface];
        if state.addresses == addresses && state.is_running == is_running {
            return;
        }
        state.addresses = addresses.to_vec();
        state.is_running = is_running && !addresses.is_empty();
        state.hello_at = state.is_running.then_some(now);
        if !state.is_running {
            let gone: Vec<Place> =
                self.known.keys().copied().filter(|p| p.0 == interface).collect();
            for place in gone {
                self.forget(place);
            }
        }
    }

    /// Takes a hello that the station at `place` sent.
    pub fn handle_hello(&mut self, now: Time, place: Place, hello: Hello) {
        self.stats.hellos_received += 1;
        if hello.boot == self.boot || !place.1.is_station() || !self.interfaces[place.0].is_running
        {
            return;
        }
        if hello.is_goodbye {
            self.forget(place);
            return;
        }
        if let Some(only) = &self.config.only
            && !hello.addresses.iter().any(|address| only.contains(address))
        {
            self.stats.hellos_unlisted += 1;
            return;
        }
        if self.known.get(&place).is_some_and(|known| known.boot != hello.boot) {
            self.forget(place);
        }
        if !self.known.contains_key(&place) {
            if self.known.len() >= self.config.limit {
                self.stats.hellos_full += 1;
                return;
            }
            let session = 1 + u16::try_from(self.rng.below(0xffff)).unwrap_or_default();
            self.known.insert(place, Neighbour::new(now, hello.boot, session));
        }
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        neighbour.heard = now;
        neighbour.is_doubted = false;
        if hello.profile != self.config.profile {
            self.stats.hellos_incompatible += 1;
            if !neighbour.is_incompatible {
                neighbour.is_incompatible = true;
                self.events.push_back(Event::Incompatible(place));
            }
            return;
        }

        let us = hello.neighbours.iter().find(|heard| heard.boot == self.boot).copied();
        let is_partial = hello.neighbours.len() >= MAX_NEIGHBOURS;
        let at = now.max(neighbour.answered + ANSWER_INTERVAL) + self.rng.within(ANSWER_SPREAD);
        neighbour.take(at, us, is_partial, hello.wants_answer);
        let is_up = us.is_some_and(|us| us.echo == neighbour.session);
        let its_session = us.map_or(0, |us| us.session);
        let is_afresh = its_session != neighbour.its_session && !(us.is_none() && is_partial);
        let addresses_changed = neighbour.addresses != hello.addresses;
        neighbour.addresses = hello.addresses;
        if is_afresh {
            neighbour.its_session = its_session;
            neighbour.answer_at = Some(at);
            self.take_down(place);
        }
        if is_up {
            self.bring_up(place, addresses_changed);
        }
    }

    /// Takes that the station at `place` sent an HBH packet that its peer understood.
    pub fn handle_alive(&mut self, now: Time, place: Place) {
        if let Some(neighbour) = self.known.get_mut(&place) {
            neighbour.heard = now;
            neighbour.is_doubted = false;
        }
    }

    /// Takes that a packet is sent to the station at `place`.
    pub fn handle_sent(&mut self, now: Time, place: Place) {
        if let Some(neighbour) = self.known.get_mut(&place)
            && !neighbour.is_doubted
            && now.since(neighbour.heard) > DOUBT_AFTER
        {
            neighbour.is_doubted = true;
            neighbour.answer_at = Some(now);
        }
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let hold = self.config.hold;
        let silent: Vec<Place> = self
            .known
            .iter()
            .filter(|(_, neighbour)| neighbour.expires_at(hold) <= now)
            .map(|(&place, _)| place)
            .collect();
        for place in silent {
            self.forget(place);
        }
    }

    /// The next hello to send on an interface, and to whom.
    pub fn poll_transmit(&mut self, now: Time, interface: usize) -> Option<(Mac, Hello)> {
        if !self.interfaces[interface].is_running {
            return None;
        }
        if self.interfaces[interface].hello_at.is_some_and(|at| at <= now) {
            let interval = if self.is_eager(now, interface) {
                EAGER_INTERVAL.min(self.config.interval)
            } else {
                self.config.interval
            };
            // Jitter keeps gateways that started together apart.
            let next = now + interval.mul_f64(0.75) + self.rng.within(interval / 2);
            let wants_answer = self.known.range(places_on(interface)).next().is_none();
            let hello = self.hello(interface, wants_answer);
            self.interfaces[interface].hello_at = Some(next);
            self.stats.hellos_sent += 1;
            return Some((Mac::EVERYONE, hello));
        }
        let (&place, neighbour) = self
            .known
            .range_mut(places_on(interface))
            .find(|(_, neighbour)| neighbour.answer_at.is_some_and(|at| at <= now))?;
        neighbour.answer_at = neighbour.is_doubted.then_some(now + DOUBT_INTERVAL);
        neighbour.answered = now;
        let wants_answer = neighbour.peer.is_none() || neighbour.is_doubted;
        let mut hello = self.hello(interface, wants_answer);
        if let Some(neighbour) = self.known.get(&place) {
            hello.neighbours = vec![neighbour.as_heard()];
        }
        self.stats.hellos_sent += 1;
        Some((place.1, hello))
    }

    /// The hello to leave with.
    #[must_use]
    pub fn goodbye(&self, interface: usize) -> Hello {
        Hello {
            profile: self.config.profile,
            boot: self.boot,
            wants_answer: false,
            is_goodbye: true,
            addresses: self.interfaces[interface].addresses.clone(),
            neighbours: Vec::new(),
        }
    }

    /// What changed; ask until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call `handle_timeout`, then `poll_transmit`, at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let hellos = self.interfaces.iter().filter_map(|interface| interface.hello_at).min();
        let hold = self.config.hold;
        self.known.values().fold(hellos, |at, neighbour| {
            let due = earliest(neighbour.answer_at, Some(neighbour.expires_at(hold)));
            earliest(at, due)
        })
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

    /// All that are up, in order.
    pub fn peers(&self) -> impl Iterator<Item = (Peer, Place)> + '_ {
        self.places.iter().map(|(&peer, &place)| (peer, place))
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether a neighbour was heard a moment ago that is not up yet, or nobody was.
    fn is_eager(&self, now: Time, interface: usize) -> bool {
        self.known.range(places_on(interface)).any(|(_, neighbour)| {
            let is_pending = neighbour.peer.is_none() && !neighbour.is_incompatible;
            is_pending && now.since(neighbour.first_heard) < EAGER_FOR
        })
    }

    fn hello(&mut self, interface: usize, wants_answer: bool) -> Hello {
        let state = &mut self.interfaces[interface];
        let all = || self.known.range(places_on(interface));
        let named = state.named.take();
        let later = all().filter(|((_, mac), _)| named.is_some_and(|named| *mac > named));
        let earlier = all().filter(|((_, mac), _)| named.is_none_or(|named| *mac <= named));
        let listed: Vec<_> = later.chain(earlier).take(MAX_NEIGHBOURS).collect();
        if listed.len() == MAX_NEIGHBOURS {
            state.named = listed.last().map(|((_, mac), _)| *mac);
        }
        Hello {
            profile: self.config.profile,
            boot: self.boot,
            wants_answer,
            is_goodbye: false,
            addresses: state.addresses.clone(),
            neighbours: listed.into_iter().map(|(_, neighbour)| neighbour.as_heard()).collect(),
        }
    }

    fn bring_up(&mut self, place: Place, addresses_changed: bool) {
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        let peer = match neighbour.peer {
            Some(_) if !addresses_changed => return,
            Some(peer) => peer,
            None => {
                let peer = Peer(self.next_peer);
                self.next_peer = self.next_peer.wrapping_add(1);
                neighbour.peer = Some(peer);
                self.places.insert(peer, place);
                self.stats.neighbours_up += 1;
                peer
            }
        };
        self.by_address.retain(|_, of| *of != peer);
        for &address in &neighbour.addresses {
            self.by_address.insert((place.0, address), peer);
        }
        self.events.push_back(Event::Up(place, peer));
    }

    fn take_down(&mut self, place: Place) {
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        if let Some(peer) = neighbour.peer.take() {
            self.places.remove(&peer);
            self.by_address.retain(|_, of| *of != peer);
            self.stats.neighbours_down += 1;
            self.events.push_back(Event::Down(place, peer));
        }
    }

    fn forget(&mut self, place: Place) {
        self.take_down(place);
        self.known.remove(&place);
    }
}

impl Neighbour {
    fn new(now: Time, boot: u32, session: u16) -> Self {
        Self {
            boot,
            addresses: Vec::new(),
            session,
            its_session: 0,
            peer: None,
            first_heard: now,
            heard: now,
            is_doubted: false,
            answered: now - ANSWER_INTERVAL,
            answer_at: None,
            is_incompatible: false,
        }
    }

    /// Takes what its hello says of us; an answer, if it needs one, is due `at`.
    fn take(&mut self, at: Time, us: Option<Heard>, is_partial: bool, wants_answer: bool) {
        self.is_incompatible = false;
        let is_agreed = us.is_some_and(|us| us.echo == self.session)
            || (us.is_none() && is_partial && self.peer.is_some());
        if wants_answer || !is_agreed {
            self.answer_at = Some(at);
        }
    }

    fn expires_at(&self, hold: Duration) -> Time {
        self.heard + if self.is_doubted { hold / DOUBT_HOLD } else { hold }
    }

    fn as_heard(&self) -> Heard {
        Heard { boot: self.boot, session: self.session, echo: self.its_session }
    }
}

fn places_on(interface: usize) -> std::ops::RangeInclusive<Place> {
    (interface, Mac([0; 6]))..=(interface, Mac::EVERYONE)
}

#[cfg(test)]
mod tests;
