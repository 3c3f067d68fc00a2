//! What hellos say, and when they go out.

use super::{DOUBT_INTERVAL, EAGER_FOR, EAGER_INTERVAL, Interface, Neighbours, places_on};
use crate::ethernet::Mac;
use crate::hbh::hello::{Heard, Hello, MAX_NEIGHBOURS};
use crate::time::Time;

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
        let (&place, neighbour) = self
            .known
            .range_mut(places_on(interface))
            .find(|(_, neighbour)| neighbour.answer_at.is_some_and(|at| at <= now))?;
        let interval = match neighbour.peer {
            Some(_) => DOUBT_INTERVAL,
            None => DOUBT_INTERVAL.max(self.config.interval / 4),
        };
        neighbour.answer_at = neighbour.is_doubted.then_some(now + interval);
        neighbour.answered = now;
        let challenger = neighbour.challenger.take();
        let wants_answer = neighbour.peer.is_none() || neighbour.is_doubted || challenger.is_some();
        let neighbours = challenger.into_iter().chain([neighbour.as_heard(now)]).collect();
        self.stats.hellos_sent += 1;
        Some((place.1, self.hello(interface, wants_answer, true, neighbours)))
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
        let listed: Vec<_> = later.chain(earlier).take(MAX_NEIGHBOURS).collect();
        let is_partial = all().nth(MAX_NEIGHBOURS).is_some();
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
