//! Remembers requests, so that each is handled only once (RFC 3561, 6.5).

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

/// Requests of the last `PATH_DISCOVERY_TIME`.
#[derive(Debug)]
pub(super) struct Seen {
    most: usize,
    age: Duration,
    requests: BTreeSet<(Ipv4Addr, u32)>,
    /// Expiry times, ascending.
    order: VecDeque<(Time, (Ipv4Addr, u32))>,
}

/// What a request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sight {
    First,
    /// The request is new, and the oldest one was forgotten for it: a repetition of the oldest may be handled again.
    FirstInPlace,
    Repeated,
}

impl Seen {
    pub(super) fn new(most: usize, age: Duration) -> Self {
        Self { most, age, requests: BTreeSet::new(), order: VecDeque::new() }
    }

    /// Whether a request comes for the first time; it is remembered.
    pub(super) fn look(&mut self, now: Time, originator: Ipv4Addr, id: u32) -> Sight {
        self.forget(now);
        let request = (originator, id);
        if self.requests.contains(&request) {
            return Sight::Repeated;
        }
        let forgotten = match self.requests.len() >= self.most {
            true => self.order.pop_front(),
            false => None,
        };
        if let Some((_, oldest)) = forgotten {
            self.requests.remove(&oldest);
        }
        self.requests.insert(request);
        self.order.push_back((now + self.age, request));
        if forgotten.is_some() { Sight::FirstInPlace } else { Sight::First }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    fn forget(&mut self, now: Time) {
        while let Some((_, request)) = self.order.pop_front_if(|(until, _)| *until <= now) {
            self.requests.remove(&request);
        }
    }
}
