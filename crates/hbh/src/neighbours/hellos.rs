//! Composes hellos, and schedules them.

use base::ethernet::Mac;
use base::time::Time;

use super::neighbour::Neighbour;
use super::{DOUBT_INTERVAL, EAGER_FOR, EAGER_INTERVAL, Interface, Neighbours, places_on};
use crate::hello::{Heard, Hello};

/// Neighbours that a hello to everyone names, in turn: more of them would fill a slow radio.
const LISTED: usize = 8;
/// Intervals grow with the neighbours, so many times at most: well below what neighbours wait.
const MOST_CROWDED: u32 = 4;

impl Neighbours {
    /// The next hello to send on an interface, and to whom.
    pub(super) fn next_hello(&mut self, now: Time, interface: usize) -> Option<(Mac, Hello)> {
        if !self.interfaces.get(interface).is_some_and(|interface| interface.is_running) {
            return None;
        }
        if self.interfaces[interface].hello_at.is_some_and(|at| at <= now) {
            let interval = if self.is_eager(now, interface) {
                EAGER_INTERVAL.min(self.config.interval)
            } else {
                self.config.interval
            };
            let interval = interval * self.crowd(interface);
            // Jitter keeps gateways that started together apart.
            let next = now + interval.mul_f64(0.75) + self.rng.within(interval / 2);
            let wants_answer = self.known.range(places_on(interface)).next().is_none();
            let (neighbours, is_partial) = self.heard(now, interface);
            let number = self.interfaces[interface].departures.number(now);
            let hello = self.hello(interface, wants_answer, is_partial, neighbours);
            let hello = Hello { number, ..hello };
            self.interfaces[interface].hello_at = Some(next);
            self.stats.hellos_sent += 1;
            return Some((Mac::EVERYONE, hello));
        }
        if let Some(question) = self.question(now, interface) {
            return Some((Mac::EVERYONE, question));
        }
        let (&place, neighbour) = self
            .known
            .range_mut(places_on(interface))
            .find(|(_, neighbour)| neighbour.answer_at.is_some_and(|at| at <= now))?;
        neighbour.answer_at = None;
        neighbour.answered = now;
        let challenger = neighbour.challenger.take();
        let wants_answer = neighbour.peer.is_none() || challenger.is_some();
        let neighbours = challenger.into_iter().chain([neighbour.as_heard(now)]).collect();
        self.stats.hellos_sent += 1;
        Some((place.1, self.hello(interface, wants_answer, true, neighbours)))
    }

    /// Asks the neighbours that are missed whether they are there, if it is time to.
    ///
    /// The question goes to everyone: a radio would repeat it again and again for who is gone.
    fn question(&mut self, now: Time, interface: usize) -> Option<Hello> {
        let crowd = self.crowd(interface);
        let after = |neighbour: &Neighbour| match neighbour.peer {
            Some(_) => DOUBT_INTERVAL * crowd,
            None => DOUBT_INTERVAL.max(self.config.interval / 4) * crowd,
        };
        let is_due = |neighbour: &Neighbour, by: Time| {
            neighbour.is_doubted && neighbour.answer_at.is_some_and(|at| at <= by)
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
        let times = self.known.range(places_on(interface)).count() / LISTED;
        u32::try_from(times).unwrap_or(u32::MAX).clamp(1, MOST_CROWDED)
    }

    /// Whether a neighbour was heard a moment ago that is not up yet, or nobody was.
    fn is_eager(&self, now: Time, interface: usize) -> bool {
        self.known.range(places_on(interface)).any(|(_, neighbour)| {
            neighbour.peer.is_none() && now.since(neighbour.first_heard) < EAGER_FOR
        })
    }

    /// Those who are named in the next hello to everyone, and whether there are others.
    fn heard(&mut self, now: Time, interface: usize) -> (Vec<Heard>, bool) {
        let state = &mut self.interfaces[interface];
        let all = || self.known.range(places_on(interface));
        let named = state.named.take();
        let later = all().filter(|((_, mac), _)| named.is_some_and(|named| *mac > named));
        let earlier = all().filter(|((_, mac), _)| named.is_none_or(|named| *mac <= named));
        let listed: Vec<_> = later.chain(earlier).take(LISTED).collect();
        let is_partial = all().nth(LISTED).is_some();
        if is_partial {
            state.named = listed.last().map(|((_, mac), _)| *mac);
        }
        (listed.into_iter().map(|(_, neighbour)| neighbour.as_heard(now)).collect(), is_partial)
    }

    /// A hello to one station.
    pub(super) fn hello(
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
