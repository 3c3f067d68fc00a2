//! Finds the neighbours that speak HBH.
//!
//! ```text
//!                 hello heard                 its hello repeats our session
//!    (unknown) ───────────────▶  heard  ──────────────────────────────────▶  up
//!        ▲                         │  ◀──────────────────────────────────────│
//!        │                         │     its session is another               │
//!        └─────────────────────────┴──────────────────────────────────────────┘
//!             silence, goodbye, it ended, it started again, or it does not hear us
//! ```
//! A neighbour that fell silent while packets went to it is missed: for many minutes we ask whether
//! it is back, so that the neighbour is up again as soon as the link is.
//!
//! A neighbour that does not answer packets in its usual time is asked alone, which makes the kernel of a host whose HBH
//! has ended say so (ICMP). Anybody can forge such an error, so each error causes questions of its own, and counts if all
//! of them stay without an answer.
//!
//! A neighbour is up when each has seen that the other hears it, and that both count the same
//! conversation: HBH's state towards it starts fresh then, at both ends.
//!
//! In a crowd, where more stations are heard than a hello names, neighbours are met in passing, and few are sent to. There
//! a conversation begins only with a station that packets go to, and hellos name only such stations.
//!
//! A recorded hello proves nothing: each hello of a boot counts once and in order, and another boot
//! takes the place of a neighbour that is up only when it repeats our current session.

mod next_hops;
mod reception;
mod strangers;

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher as _;
use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;
use std::time::Duration;

use base::ethernet::{Mac, NoMac};
use base::rng::Rng;
use base::time::{Time, earliest};
use next_hops::NextHops;
use reception::{Arrivals, Departures};
use siphasher::sip::SipHasher24;
use strangers::Strangers;

use super::auth::End;
use super::hello::{Heard, Hello, MAX_NEIGHBOURS, Reception};
use super::{LinkReport, Peer, Profile, TCP_LIFETIME};

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
/// If packets to a neighbour were not answered for so long, or for the time that an answer may take, we ask whether the
/// neighbour is there.
const DOUBT_AFTER: Duration = Duration::from_secs(1);
/// Between two such questions.
const DOUBT_INTERVAL: Duration = Duration::from_millis(400);
/// Questions to a neighbour alone since it was heard, at most, and as many after an ICMP error: a radio repeats each of
/// them to a departed neighbour.
const MOST_ASKED: u8 = 3;
/// Pause between the first and the second of these questions; the pause before the third is twice as long.
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Time that an answer may take longer than the ICMP error of a kernel without HBH.
const ANSWER_WITHIN: Duration = Duration::from_millis(40);
/// Pause between the questions after an ICMP error, or a quarter of the round trip if that is longer. A short fade does
/// not lose all of them, and traffic is plain at most three round trips and 300 ms after the death of a process.
const TRIAL_INTERVAL: Duration = Duration::from_millis(40);

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
    Down(Place, Peer, Departure),
    /// A neighbour that does not run the same HBH.
    Incompatible(Place),
    /// The link to an HBH neighbour, as measured by its hellos.
    Measured(Peer, LinkReport),
    /// A station claims an address that the configuration gives to another.
    Misplaced(Place),
    /// A neighbour speaks HBH.
    Up(Place, Peer),
}

/// Why a neighbour is no longer up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Departure {
    /// Its host says that nothing there speaks HBH any more: packets reach the host as plain IP.
    Ended,
    /// It has said goodbye.
    Goodbye,
    /// It is not heard any more, does not hear us, started again, or its interface is gone.
    Lost,
}

/// A neighbour's place: the position of our interface, and the neighbour's hardware address there.
pub type Place = (usize, Mac);

base::counters! {
    /// Counters of hellos.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Hellos sent.
        pub hellos_sent: counter(messages);
        /// Hellos received.
        pub hellos_received: counter(messages);
        /// ... of those, from gateways with another profile.
        pub hellos_incompatible: counter(messages);
        /// ... of those, from gateways not on the list of neighbours.
        pub hellos_unlisted: counter(messages);
        /// ... of those, from stations with an address that is bound to another.
        pub hellos_misplaced: counter(messages);
        /// ... of those, from stations with an address of a neighbour that is up.
        pub hellos_disputed: counter(messages);
        /// ... of those, repeated by another station than their sender.
        pub hellos_relayed: counter(messages);
        /// ... of those, no newer than an earlier hello.
        pub hellos_stale: counter(messages);
        /// ... of those, ignored because of too many neighbours.
        pub hellos_full: counter(messages);
        /// ICMP errors "protocol unreachable" from hosts of neighbours.
        pub refusals_received: counter(messages);
        /// Times that the neighbour answered nevertheless: such errors were late or forged.
        pub refusals_refuted: counter(times);
        /// Stations forgotten that were merely heard, because there were too many.
        pub neighbours_evicted: counter(stations);
        /// Times a neighbour came up.
        pub neighbours_up: counter(neighbours);
        /// Times a neighbour went down.
        pub neighbours_down: counter(neighbours);
    }
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
    strangers: Strangers,
    next_hops: NextHops,
    /// The next hop, not heard yet, that is asked, and when.
    unmet: Option<(Mac, Time)>,
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

    /// Takes other times: between two hellos, and of the silence after which a neighbour is forgotten.
    pub fn set_times(&mut self, now: Time, interval: Duration, hold: Duration) {
        (self.config.interval, self.config.hold) = (interval, hold);
        for state in &mut self.interfaces {
            state.hello_at = state.hello_at.map(|at| at.min(now + interval));
        }
        self.note_due();
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
            state.strangers = Strangers::default();
            (state.next_hops, state.unmet) = (NextHops::default(), None);
            let gone: Vec<Place> =
                self.known.keys().copied().filter(|p| p.0 == interface).collect();
            for place in gone {
                self.forget(now, place, Departure::Lost);
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
        let left_us_out =
            hello.is_partial && us.is_none() && self.config.profile == Profile::Default;
        let is_needed = !left_us_out && !self.is_crowd(place.0) || self.is_needed(now, place);
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        neighbour.counter = hello.counter;
        self.stats.refusals_refuted += u64::from(neighbour.handle_heard(now));
        neighbour.said_hello = now;
        neighbour.arrivals.count(now, hello.number);

        let at = neighbour.may_answer_at(now) + self.rng.within(ANSWER_SPREAD);
        neighbour.left_us_out = left_us_out;
        // A question that names stations is only for the named stations.
        let is_to_us = us.is_some() || !hello.is_partial;
        let may_answer = is_needed || is_to_us && hello.number == 0;
        if may_answer {
            neighbour.take(at, us, hello.is_partial, hello.wants_answer && is_to_us);
        }
        let its_session = us.map_or(0, |us| us.session);
        let is_afresh = its_session != neighbour.its_session && !(us.is_none() && hello.is_partial);
        let addresses_changed = neighbour.addresses != hello.addresses;
        neighbour.addresses = hello.addresses;
        if is_afresh {
            neighbour.its_session = its_session;
            if may_answer {
                neighbour.answer_at = Some(at);
            }
            self.take_down(now, place, Departure::Lost);
        }
        let report = us.map(|us| self.interfaces[place.0].departures.report(now, us.reception));
        let round_trip = report.and_then(|report| report.round_trip);
        if let (Some(neighbour), Some(round_trip)) = (self.known.get_mut(&place), round_trip) {
            let former = neighbour.round_trip.unwrap_or(round_trip);
            neighbour.round_trip = Some(round_trip.max((former * 3 + round_trip) / 4));
        }
        let session = self.known.get(&place).map(|neighbour| neighbour.session);
        if us.is_some_and(|us| Some(us.echo) == session) {
            self.bring_up(now, place, addresses_changed);
        }
        if let (Some(report), Some(peer)) = (report, self.peer_at(place)) {
            self.events.push_back(Event::Measured(peer, report));
        }
    }

    /// Takes that a packet goes to the station at `place` by plain IP: in a crowd a conversation begins then. Returns
    /// whether a hello is due now.
    pub fn handle_next_hop(&mut self, now: Time, place: Place) -> bool {
        let is_crowd = self.is_crowd(place.0);
        let known = self.known.get_mut(&place);
        let is_met = known.as_ref().is_some_and(|it| it.peer.is_some());
        let left_us_out = known.as_ref().is_some_and(|it| it.left_us_out);
        let Some(interface) = self.interfaces.get_mut(place.0) else { return false };
        if is_met
            || !(is_crowd || left_us_out)
            || !interface.is_running
            || !interface.next_hops.note(now, place.1, self.config.hold)
        {
            return false;
        }
        match known {
            Some(neighbour) => neighbour.answer_at = Some(now),
            None => interface.unmet = Some((place.1, now)),
        }
        self.due = earliest(self.due, Some(now));
        true
    }

    /// Whether stations were heard with which a conversation begins when packets go there.
    #[must_use]
    pub fn needs_next_hops(&self) -> bool {
        let is_met = |(place, it): (&Place, &Neighbour)| {
            it.peer.is_some() || !(it.left_us_out || self.is_crowd(place.0))
        };
        !self.known.iter().all(is_met)
    }

    /// Notes that the station at `place` seems to have sent an HBH packet: no answer to the question whether its HBH has
    /// ended.
    pub fn handle_flow(&mut self, now: Time, place: Place) {
        if let Some(neighbour) = self.known.get_mut(&place)
            && neighbour.trial.is_none()
        {
            neighbour.handle_heard(now);
        }
    }

    /// Notes that the station at `place` sent a valid HBH packet.
    pub fn handle_alive(&mut self, now: Time, place: Place) {
        if let Some(neighbour) = self.known.get_mut(&place) {
            self.stats.refusals_refuted += u64::from(neighbour.handle_heard(now));
        }
    }

    /// Takes that a packet is sent to the station at `place`, which answers packets within `patience` if it can; `None`
    /// if nobody knows.
    pub fn handle_sent(&mut self, now: Time, place: Place, patience: Option<Duration>) {
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        if let Some(patience) = patience
            && neighbour.is_overdue(now, patience)
            && neighbour.may_be_asked(now)
        {
            neighbour.ask(now);
            self.due = earliest(self.due, Some(now));
        }
        neighbour.used = now;
        neighbour.patience = patience.unwrap_or_default();
        let missed_since = match patience {
            Some(_) => neighbour.unanswered_since.unwrap_or(now),
            None => neighbour.heard,
        };
        let is_missed = now.since(missed_since) > DOUBT_AFTER.max(neighbour.patience);
        if !neighbour.is_doubted && is_missed {
            neighbour.is_doubted = true;
            neighbour.answer_at = Some(now);
            self.due = earliest(self.due, Some(now));
        }
    }

    /// Takes an ICMP error by which the host of the neighbour at `place` says that it runs no HBH; `round_trip` is the
    /// time to the neighbour and back. Returns whether there is such a neighbour.
    ///
    /// The error may be late or forged, so the neighbour is asked several times, and is down if no answer comes.
    pub fn handle_refusal(&mut self, now: Time, place: Place, round_trip: Duration) -> bool {
        let neighbour = self.known.get_mut(&place).filter(|neighbour| neighbour.peer.is_some());
        let Some(neighbour) = neighbour else { return false };
        self.stats.refusals_received += 1;
        // Forged errors cause no more questions than this.
        let may_count = neighbour.asked > 0 || now.since(neighbour.asked_at) >= ASK_INTERVAL;
        if neighbour.trial.is_none() && may_count {
            neighbour.trial = Some(Trial { left: MOST_ASKED, at: now, round_trip });
            self.note_due();
        }
        true
    }

    /// Takes that the station at `place`, no neighbour, sent an HBH packet: it may take us for what we were before a
    /// restart, and finds out by a hello to it alone.
    pub fn handle_stranger(&mut self, now: Time, place: Place) {
        let crowd = self.crowd(place.0);
        let Some(interface) = self.interfaces.get_mut(place.0) else { return };
        if self.config.profile == Profile::Paper
            || !interface.is_running
            || !interface.strangers.admit(now, place.1, crowd)
        {
            return;
        }
        let at = now + self.rng.within(ANSWER_SPREAD);
        match self.known.get_mut(&place) {
            Some(neighbour) => {
                let at = at.max(neighbour.may_answer_at(now));
                neighbour.answer_at = earliest(neighbour.answer_at, Some(at));
            }
            None => interface.strangers.next = Some((place.1, at)),
        }
        self.note_due();
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.is_due(now) {
            return;
        }
        let hold = self.config.hold;
        self.known.values_mut().for_each(|neighbour| neighbour.pursue_trial(now));
        let silent: Vec<Place> = self
            .known
            .iter()
            .filter(|(place, neighbour)| neighbour.expires_at(hold, self.is_crowd(place.0)) <= now)
            .map(|(&place, _)| place)
            .collect();
        for place in silent {
            let Some(neighbour) = self.known.get(&place) else { continue };
            if neighbour.ends_at().is_some_and(|at| at <= now) {
                self.forget(now, place, Departure::Ended);
            } else if neighbour.is_missed() {
                self.take_down(now, place, Departure::Lost);
            } else {
                self.forget(now, place, Departure::Lost);
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

    /// The goodbye hellos, which together name all neighbours heard on the interface.
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

    /// When the neighbour at `place` was heard last.
    #[must_use]
    pub fn last_heard(&self, place: Place) -> Option<Time> {
        self.known.get(&place).map(|neighbour| neighbour.heard)
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
        let on_interface = |interface: &Interface| {
            let asked = [interface.strangers.next, interface.unmet].into_iter().flatten();
            earliest(interface.hello_at, asked.map(|(_, at)| at).min())
        };
        let hellos = self.interfaces.iter().filter_map(on_interface).min();
        let hold = self.config.hold;
        self.due = self.known.iter().fold(hellos, |at, (place, neighbour)| {
            let expires_at = neighbour.expires_at(hold, self.is_crowd(place.0));
            let due = earliest(neighbour.answer_at, Some(expires_at));
            let trial = neighbour.trial.as_ref().map(|trial| trial.at);
            earliest(at, earliest(due, earliest(neighbour.ask_at, trial)))
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
            strangers: Strangers::default(),
            next_hops: NextHops::default(),
            unmet: None,
        }
    }
}

fn places_on(interface: usize) -> std::ops::RangeInclusive<Place> {
    (interface, Mac([0; 6]))..=(interface, Mac::EVERYONE)
}

#[cfg(test)]
mod tests;

// Composes hellos, and schedules them.

/// Neighbours that a hello to everyone names, in turn: more names would fill a slow radio.
const LISTED: usize = 8;
/// Round trips of hellos between two hellos to everyone, at least.
const ROUND_TRIPS: u32 = 4;
/// Where a hello and its answer take so long, many would wait in the radio while nothing is heard.
const SLOW: Duration = Duration::from_millis(500);
/// Intervals grow with the neighbours, so many times at most: well below what neighbours wait.
const MOST_CROWDED: u32 = 4;

impl Neighbours {
    /// The next hello to send on an interface, and to whom.
    fn next_hello(&mut self, now: Time, interface: usize) -> Option<(Mac, Hello)> {
        if !self.interfaces.get(interface).is_some_and(|interface| interface.is_running) {
            return None;
        }
        if self.interfaces[interface].hello_at.is_some_and(|at| at <= now) {
            let eager = self.eager_interval(now, interface).unwrap_or(self.config.interval);
            let times = if self.are_talking(now, interface) { MOST_CROWDED } else { 1 };
            let interval = eager.min(self.config.interval) * times.max(self.crowd(interface));
            let interval = interval.max(self.least_pause(now, interface));
            // Jitter keeps gateways that started together apart.
            let next = now + interval.mul_f64(0.75) + self.rng.within(interval / 2);
            let number = self.interfaces[interface].departures.number(now);
            let hello = Hello { number, ..self.usual_hello(now, interface) };
            self.interfaces[interface].hello_at = Some(next);
            return Some((Mac::EVERYONE, hello));
        }
        let stranger = &mut self.interfaces[interface].strangers.next;
        if let Some((station, _)) = stranger.take_if(|(_, at)| *at <= now) {
            return Some((station, self.usual_hello(now, interface)));
        }
        if let Some((station, _)) = self.interfaces[interface].unmet.take() {
            self.stats.hellos_sent += 1;
            return Some((station, self.hello(interface, true, false, Vec::new())));
        }
        let mut known = self.known.range_mut(places_on(interface));
        if let Some((&place, neighbour)) =
            known.find(|(_, neighbour)| neighbour.ask_at.is_some_and(|at| at <= now))
        {
            neighbour.ask_at = None;
            let named = vec![neighbour.as_heard(now)];
            self.stats.hellos_sent += 1;
            return Some((place.1, self.hello(interface, true, true, named)));
        }
        if let Some(question) = self.question(now, interface) {
            return Some((Mac::EVERYONE, question));
        }
        let pause = self.least_pause(now, interface) / 2;
        let (&place, neighbour) = self
            .known
            .range_mut(places_on(interface))
            .find(|(_, neighbour)| neighbour.answer_at.is_some_and(|at| at <= now))?;
        neighbour.answer_at =
            neighbour.is_doubted.then(|| now + pause.max(neighbour.doubt_interval()));
        neighbour.answered = now;
        let challenger = neighbour.challenger.take();
        let wants_answer = neighbour.peer.is_none() || challenger.is_some();
        let neighbours = challenger.into_iter().chain([neighbour.as_heard(now)]).collect();
        self.stats.hellos_sent += 1;
        Some((place.1, self.hello(interface, wants_answer, true, neighbours)))
    }

    /// A hello that names all we hear, or some of them in turn.
    fn usual_hello(&mut self, now: Time, interface: usize) -> Hello {
        let wants_answer = self.known.range(places_on(interface)).next().is_none();
        let (neighbours, is_partial) = self.heard(now, interface);
        self.stats.hellos_sent += 1;
        self.hello(interface, wants_answer, is_partial, neighbours)
    }

    /// Asks whether missed neighbours are there, if a question is due.
    ///
    /// The question goes to everyone: a radio would repeat a question to a departed neighbour again and again.
    fn question(&mut self, now: Time, interface: usize) -> Option<Hello> {
        let crowd = self.crowd(interface);
        let pause = self.least_pause(now, interface) / 2;
        let after = |neighbour: &Neighbour| match neighbour.peer {
            Some(_) => pause.max(neighbour.doubt_interval() * crowd),
            None => pause.max(DOUBT_INTERVAL.max(self.config.interval / 4) * crowd),
        };
        let is_due = |neighbour: &Neighbour, by: Time| {
            // Another boot at the place is answered alone: a question about the former boot tells it nothing.
            let is_asked = neighbour.is_doubted && neighbour.challenger.is_none();
            is_asked && neighbour.answer_at.is_some_and(|at| at <= by)
        };
        if !self.known.range(places_on(interface)).any(|(_, it)| is_due(it, now)) {
            return None;
        }
        let mut named = Vec::new();
        let known = self.known.range_mut(places_on(interface)).map(|(_, neighbour)| neighbour);
        // Those who will be asked soon are asked by the same question.
        let asked = known.filter(|neighbour| is_due(neighbour, now + after(neighbour) / 2));
        for neighbour in asked.take(LISTED) {
            neighbour.answer_at = Some(now + after(neighbour));
            neighbour.answered = now;
            named.push(neighbour.as_heard(now));
        }
        self.stats.hellos_sent += 1;
        Some(self.hello(interface, true, true, named))
    }

    /// How many times as long intervals are: where many talk at the same place, each talks less.
    fn crowd(&self, interface: usize) -> u32 {
        if self.is_crowd(interface) {
            return MOST_CROWDED;
        }
        let times = self.known.range(places_on(interface)).count() / LISTED;
        u32::try_from(times).unwrap_or(u32::MAX).clamp(1, MOST_CROWDED)
    }

    /// Whether more stations are heard than a hello names.
    fn is_crowd(&self, interface: usize) -> bool {
        self.config.profile == Profile::Default
            && self.known.range(places_on(interface)).nth(LISTED).is_some()
    }

    /// Whether packets went to a station lately, or a conversation with it has just begun.
    fn is_needed(&self, now: Time, place: Place) -> bool {
        let hold = self.config.hold;
        let is_used = |it: &Neighbour| it.peer.is_some() && now.since(it.used) < hold;
        self.known.get(&place).is_some_and(is_used)
            || self.interfaces[place.0].next_hops.contains(now, place.1, hold)
    }

    /// Whether recent packets both ways make hellos needless: on a slow half-duplex radio each costs two turn-rounds.
    /// Newcomers are answered all the same.
    fn are_talking(&self, now: Time, interface: usize) -> bool {
        let mut known = self.known.range(places_on(interface)).map(|(_, it)| it).peekable();
        self.config.profile == Profile::Default
            && known.peek().is_some()
            && known.all(|neighbour| neighbour.is_talking(now, self.config.interval))
    }

    /// The time between two hellos while a neighbour that was heard a moment ago is not up yet. It grows: on a slow radio
    /// the neighbour's answer takes seconds.
    fn eager_interval(&self, now: Time, interface: usize) -> Option<Duration> {
        let is_crowd = self.is_crowd(interface);
        let known = self.known.range(places_on(interface)).map(|(_, neighbour)| neighbour);
        let new = known.filter(|it| it.peer.is_none() && !(is_crowd || it.left_us_out));
        let age = new.map(|it| now.since(it.first_heard)).filter(|age| *age < EAGER_FOR).min()?;
        Some(EAGER_INTERVAL.max(age / 2))
    }

    /// The shortest pause between two hellos to everyone: hellos take a small part of a slow link if the next one waits
    /// for much longer than the answer to the last one took, and longer still while nothing is heard.
    fn least_pause(&self, now: Time, interface: usize) -> Duration {
        let known = || self.known.range(places_on(interface)).map(|(_, neighbour)| neighbour);
        let Some(round_trip) = known().filter_map(|it| it.round_trip).min() else {
            return Duration::ZERO;
        };
        let silence = known().map(|it| now.since(it.heard)).min().unwrap_or_default();
        let is_slow = round_trip >= SLOW;
        let pause =
            (round_trip * ROUND_TRIPS).max(if is_slow { silence / 2 } else { Duration::ZERO });
        pause.min(self.config.hold / 4)
    }

    /// Those who are named in the next hello to everyone, and whether there are others.
    fn heard(&mut self, now: Time, interface: usize) -> (Vec<Heard>, bool) {
        let is_crowd = self.is_crowd(interface);
        let named = self.interfaces[interface].named.take();
        let all = || {
            let known = self.known.range(places_on(interface));
            known.filter(|(place, _)| !is_crowd || self.is_needed(now, **place))
        };
        let later = all().filter(|((_, mac), _)| named.is_some_and(|named| *mac > named));
        let earlier = all().filter(|((_, mac), _)| named.is_none_or(|named| *mac <= named));
        let listed: Vec<_> = later.chain(earlier).take(LISTED).collect();
        let has_others = all().nth(LISTED).is_some();
        let last = listed.last().filter(|_| has_others).map(|((_, mac), _)| *mac);
        let heard = listed.into_iter().map(|(_, neighbour)| neighbour.as_heard(now)).collect();
        self.interfaces[interface].named = last;
        (heard, is_crowd || has_others)
    }

    /// A hello to one station.
    fn hello(
        &mut self,
        interface: usize,
        wants_answer: bool,
        is_partial: bool,
        neighbours: Vec<Heard>,
    ) -> Hello {
        self.counter += 1;
        let Interface { station, addresses, .. } = &self.interfaces[interface];
        Hello {
            profile: self.config.profile,
            boot: self.boot,
            counter: self.counter,
            wants_answer,
            is_goodbye: false,
            is_partial,
            number: 0,
            station: *station,
            addresses: addresses.clone(),
            neighbours,
        }
    }
}

// Decides when a station becomes a neighbour, and when a neighbour has to go.

impl Neighbours {
    /// Whether a hello is the newest of its boot; the boot must be known at `place` already, or
    /// become known now.
    fn is_counted(&mut self, now: Time, place: Place, hello: &Hello, us: Option<Heard>) -> bool {
        let session = self.sessions.number(place, hello.boot);
        let is_fresh = us.is_some_and(|us| us.echo == session);
        match self.known.get_mut(&place) {
            Some(known) if known.boot == hello.boot => {
                let is_newer = hello.counter > known.counter;
                self.stats.hellos_stale += u64::from(!is_newer);
                return is_newer;
            }
            // The hello may be a recording, older than the present boot of the neighbour.
            Some(known) if known.peer.is_some() && !is_fresh => {
                let echo = us.map_or(0, |us| us.session);
                let reception = Reception::default();
                known.challenger = Some(Heard { boot: hello.boot, session, echo, reception });
                known.answer_at = Some(known.may_answer_at(now) + self.rng.within(ANSWER_SPREAD));
                return false;
            }
            Some(known) if known.peer.is_some() => self.forget(now, place, Departure::Lost),
            Some(_) => {
                self.known.remove(&place);
            }
            None => {}
        }
        self.forget_former(place, hello);
        self.make_room();
        self.known.insert(place, Neighbour::new(now, hello.boot, session));
        true
    }

    /// Forgets where a node was before its interface had another hardware address: hellos that named both places would
    /// tell the node two session numbers, and it would believe each in turn.
    fn forget_former(&mut self, place: Place, hello: &Hello) {
        self.known.retain(|at, known| {
            let is_its = at.0 == place.0 && known.boot == hello.boot && known.peer.is_none();
            !is_its || known.addresses.iter().all(|address| !hello.addresses.contains(address))
        });
    }

    /// If too many stations are merely heard, forgets the one silent for longest.
    fn make_room(&mut self) {
        if self.known.len() - self.places.len() < self.config.limit {
            return;
        }
        let heard = self.known.iter().filter(|(_, neighbour)| neighbour.peer.is_none());
        if let Some((&oldest, _)) = heard.min_by_key(|(_, neighbour)| neighbour.heard) {
            self.known.remove(&oldest);
            self.stats.neighbours_evicted += 1;
        }
    }

    /// A goodbye counts when it belongs to the conversation that we have.
    fn handle_goodbye(&mut self, now: Time, place: Place, hello: &Hello, us: Option<Heard>) {
        let Some(known) = self.known.get(&place) else { return };
        let is_ours = us.is_some_and(|us| us.echo == known.session);
        if known.boot == hello.boot && hello.counter > known.counter && is_ours {
            self.forget(now, place, Departure::Goodbye);
        } else {
            self.stats.hellos_stale += 1;
        }
    }

    fn refuse(&mut self, place: Place, unfounded: Unfounded) {
        match unfounded {
            Unfounded::Disputed => {
                self.stats.hellos_disputed += 1;
                self.events.push_back(Event::Disputed(place));
            }
            Unfounded::Misplaced => {
                self.stats.hellos_misplaced += 1;
                self.events.push_back(Event::Misplaced(place));
            }
            Unfounded::Unlisted => self.stats.hellos_unlisted += 1,
        }
    }

    fn bring_up(&mut self, now: Time, place: Place, addresses_changed: bool) {
        let is_new = self.known.get(&place).is_some_and(|known| known.peer.is_none());
        if is_new && self.places.len() >= self.config.limit && !self.displace(now) {
            self.stats.hellos_full += 1;
            return;
        }
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        let peer = match neighbour.peer {
            Some(_) if !addresses_changed => return,
            Some(peer) => peer,
            None => {
                let peer = Peer(self.next_peer);
                self.next_peer = self.next_peer.wrapping_add(1);
                neighbour.peer = Some(peer);
                neighbour.used = now;
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

    /// Makes room for one more neighbour: forgets the neighbour to which no packet was sent for
    /// longest, if the time is long. False when no neighbour can go.
    fn displace(&mut self, now: Time) -> bool {
        let up = self.known.iter().filter(|(_, neighbour)| neighbour.peer.is_some());
        let Some((&place, idle)) = up.min_by_key(|(_, neighbour)| neighbour.used) else {
            return false;
        };
        if now.since(idle.used) < self.config.hold {
            return false;
        }
        self.forget(now, place, Departure::Lost);
        true
    }

    /// Ends the conversation with a neighbour, if there is one; the next conversation has another number, so that
    /// messages of the old conversation do not count.
    fn take_down(&mut self, now: Time, place: Place, why: Departure) {
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        if let Some(peer) = neighbour.peer.take() {
            self.sessions.renew(now);
            neighbour.session = self.sessions.number(place, neighbour.boot);
            self.places.remove(&peer);
            self.by_address.retain(|_, of| *of != peer);
            self.stats.neighbours_down += 1;
            self.events.push_back(Event::Down(place, peer, why));
        }
    }

    fn forget(&mut self, now: Time, place: Place, why: Departure) {
        self.take_down(now, place, why);
        self.known.remove(&place);
        // The session number that the station last heard from us must bring nobody up again.
        self.sessions.renew(now);
    }
}

// Decides whether a station may have its addresses.

/// A neighbour that HBH may be spoken with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Listed {
    /// An address that it has.
    pub address: IpAddr,
    /// The only station that may have the address; if absent, the first station to claim the
    /// address, while up.
    pub station: Option<Mac>,
}

/// Why a text names no neighbour.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotListed {
    /// What should be an IP address is none.
    #[error("{0}")]
    Address(#[from] AddrParseError),
    /// What should be a hardware address is none.
    #[error("{0}")]
    Station(#[from] NoMac),
}

impl FromStr for Listed {
    type Err = NotListed;

    /// Reads `10.0.0.2` or `10.0.0.2 at 02:11:22:33:44:55`.
    fn from_str(text: &str) -> Result<Self, NotListed> {
        Ok(match text.split_once(" at ") {
            None => Self { address: text.trim().parse()?, station: None },
            Some((address, station)) => {
                let station = Some(station.trim().parse()?);
                Self { address: address.trim().parse()?, station }
            }
        })
    }
}

/// Why a station may not have the addresses that it claims.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Unfounded {
    /// Another neighbour, now up, has one of the addresses.
    Disputed,
    /// The configuration gives one of the addresses to another station.
    Misplaced,
    /// None of the addresses is on the list.
    Unlisted,
}

impl Neighbours {
    fn judge(&self, place: Place, addresses: &[IpAddr]) -> Result<(), Unfounded> {
        if let Some(only) = &self.config.only {
            let of = |address: IpAddr| only.iter().filter(move |listed| listed.address == address);
            if !addresses.iter().any(|address| of(*address).next().is_some()) {
                return Err(Unfounded::Unlisted);
            }
            let is_misplaced = |address: &IpAddr| {
                let mut stations = of(*address).filter_map(|listed| listed.station).peekable();
                stations.peek().is_some() && stations.all(|station| station != place.1)
            };
            if addresses.iter().any(is_misplaced) {
                return Err(Unfounded::Misplaced);
            }
        }
        let is_held = |address: &IpAddr| {
            let holder = self.by_address.get(&(place.0, *address));
            holder.and_then(|peer| self.places.get(peer)).is_some_and(|holder| *holder != place)
        };
        if addresses.iter().any(is_held) { Err(Unfounded::Disputed) } else { Ok(()) }
    }
}

// The state of a station that says hello.

/// Answers to one neighbour are no more frequent than this.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);
/// A neighbour that was asked may be silent for a third of the usual time, or three times as long as its answers may
/// take.
const DOUBT_HOLD: u32 = 3;

/// A station that says hello.
#[derive(Debug)]
struct Neighbour {
    boot: u64,
    /// The counter of the last hello we accepted.
    counter: u64,
    addresses: Vec<IpAddr>,
    session: u32,
    its_session: u32,
    peer: Option<Peer>,
    first_heard: Time,
    heard: Time,
    /// When its last hello came.
    said_hello: Time,
    /// When a packet was last sent there, and how long the answer to it may take.
    used: Time,
    patience: Duration,
    is_doubted: bool,
    /// When the first unanswered packet was sent there.
    unanswered_since: Option<Time>,
    /// Questions sent to this station alone since it was last heard.
    asked: u8,
    /// When the last of these questions was sent.
    asked_at: Time,
    /// When such a question is due.
    ask_at: Option<Time>,
    /// An ICMP error said that its host runs no HBH, and the station was not heard since.
    trial: Option<Trial>,
    /// Whether its last hello named only others: it is in a crowd.
    left_us_out: bool,
    answered: Time,
    answer_at: Option<Time>,
    /// Another boot at the same place, not yet proven to hear us now.
    challenger: Option<Heard>,
    arrivals: Arrivals,
    /// The time that a hello and the answer to it took, of the latest ones the longest.
    round_trip: Option<Duration>,
}

/// Questions to a station whose host has said, by an ICMP error, that it runs no HBH.
#[derive(Debug)]
struct Trial {
    /// Questions still to be asked.
    left: u8,
    /// When the next one is due; if none is left, when the station is gone.
    at: Time,
    /// The time to the station and back.
    round_trip: Duration,
}

impl Neighbour {
    fn new(now: Time, boot: u64, session: u32) -> Self {
        Self {
            boot,
            counter: 0,
            addresses: Vec::new(),
            session,
            its_session: 0,
            peer: None,
            first_heard: now,
            heard: now,
            said_hello: now,
            used: now,
            patience: Duration::ZERO,
            is_doubted: false,
            unanswered_since: None,
            asked: 0,
            asked_at: now,
            ask_at: None,
            trial: None,
            left_us_out: false,
            answered: now - ANSWER_INTERVAL,
            answer_at: None,
            challenger: None,
            arrivals: Arrivals::default(),
            round_trip: None,
        }
    }

    /// Notes that the station was heard; returns whether an ICMP error had announced its end.
    fn handle_heard(&mut self, now: Time) -> bool {
        self.heard = now;
        self.is_doubted = false;
        (self.unanswered_since, self.asked, self.ask_at) = (None, 0, None);
        self.trial.take().is_some()
    }

    /// Notes that a packet is sent; returns whether no packet was answered for longer than its `patience`.
    ///
    /// What needs an answer is sent again in that time. If nothing was sent for twice the time, the packets before
    /// needed none: they were acknowledgements.
    fn is_overdue(&mut self, now: Time, patience: Duration) -> bool {
        if now.since(self.used) > patience * 2 {
            self.unanswered_since = None;
        }
        now.since(*self.unanswered_since.get_or_insert(now)) >= patience
    }

    /// Whether it has not been asked too often, or a moment ago.
    fn may_be_asked(&self, now: Time) -> bool {
        let pause =
            if self.asked == 0 { Duration::ZERO } else { ASK_INTERVAL * (1 << (self.asked - 1)) };
        let is_open = self.peer.is_some() && self.trial.is_none();
        is_open && self.asked < MOST_ASKED && now.since(self.asked_at) >= pause
    }

    /// Has the station alone asked whether it is there.
    fn ask(&mut self, now: Time) {
        (self.asked, self.asked_at, self.ask_at) = (self.asked + 1, now, Some(now));
    }

    /// Asks the next question after an ICMP error, if one is due.
    fn pursue_trial(&mut self, now: Time) {
        let Some(trial) = self.trial.as_mut().filter(|it| it.left > 0 && it.at <= now) else {
            return;
        };
        trial.left -= 1;
        trial.at = now
            + match trial.left {
                0 => trial.round_trip * 5 / 4 + ANSWER_WITHIN,
                _ => TRIAL_INTERVAL.max(trial.round_trip / 4),
            };
        (self.asked_at, self.ask_at) = (now, Some(now));
    }

    /// When the station is gone unless it is heard before, if all questions after an ICMP error were asked.
    fn ends_at(&self) -> Option<Time> {
        self.trial.as_ref().filter(|trial| trial.left == 0).map(|trial| trial.at)
    }

    /// When an answer may go there, at the earliest.
    fn may_answer_at(&self, now: Time) -> Time {
        now.max(self.answered + ANSWER_INTERVAL)
    }

    /// Evaluates what the station's hello says about us; an answer, if needed, is due `at`.
    fn take(&mut self, at: Time, us: Option<Heard>, is_partial: bool, wants_answer: bool) {
        let is_agreed = us.is_some_and(|us| us.echo == self.session)
            || (us.is_none() && is_partial && self.peer.is_some());
        if wants_answer || !is_agreed {
            self.answer_at = Some(at);
        }
    }

    /// When it has been silent for too long to be up, or to be remembered.
    fn expires_at(&self, hold: Duration, is_crowd: bool) -> Time {
        let silence = match (self.is_doubted, self.peer) {
            (true, Some(_)) => (hold / DOUBT_HOLD).max(self.patience * DOUBT_HOLD).min(hold),
            // It was up, and is asked whether it is back. In a crowd it has moved away, and is heard when it comes back.
            (true, None) if !is_crowd => TCP_LIFETIME,
            _ => hold,
        };
        let silent = self.heard + silence;
        self.ends_at().map_or(silent, |at| at.min(silent))
    }

    /// Whether packets went both ways within this time.
    fn is_talking(&self, now: Time, within: Duration) -> bool {
        let is_recent = |at: Time| now.since(at) < within;
        let brings_packets = self.heard > self.said_hello;
        self.peer.is_some() && brings_packets && is_recent(self.heard) && is_recent(self.used)
    }

    /// The time between two questions to a doubted neighbour, so that the answer to the first can come.
    fn doubt_interval(&self) -> Duration {
        DOUBT_INTERVAL.max(self.patience)
    }

    /// Whether packets go there, and nothing comes.
    fn is_missed(&self) -> bool {
        self.is_doubted && self.peer.is_some()
    }

    fn as_heard(&self, now: Time) -> Heard {
        Heard {
            boot: self.boot,
            session: self.session,
            echo: self.its_session,
            reception: self.arrivals.reception(now),
        }
    }
}

// Numbers our conversations without remembering to whom each number was told.
//
// A number is a function of the station, its boot and an epoch, under a key that is drawn at each start. So a station
// can still prove with its number that our hellos arrive, even if we forgot the station because too many others said
// hello. A new epoch begins when a neighbour is forgotten and after some time, and no number is used for two
// conversations.

#[derive(Debug)]
struct Sessions {
    key: (u64, u64),
    epoch: u64,
    since: Time,
}

impl Sessions {
    fn new(rng: &mut Rng) -> Self {
        Self { key: (rng.bits(), rng.bits()), epoch: 0, since: Time::ZERO }
    }

    /// Our number of a conversation with the station at `place` that started as `boot`: never 0.
    fn number(&self, (interface, station): Place, boot: u64) -> u32 {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hasher.write(&self.epoch.to_be_bytes());
        hasher.write(&(interface as u64).to_be_bytes());
        hasher.write(&station.0);
        hasher.write(&boot.to_be_bytes());
        let [a, b, c, d, ..] = hasher.finish().to_be_bytes();
        u32::from_be_bytes([a, b, c, d]).max(1)
    }

    /// Begins a new epoch: numbers told before prove nothing any more.
    fn renew(&mut self, now: Time) {
        self.epoch += 1;
        self.since = now;
    }

    /// Begins a new epoch if the present epoch has lasted for `time`.
    fn renew_after(&mut self, now: Time, time: Duration) {
        if now.since(self.since) >= time {
            self.renew(now);
        }
    }
}
