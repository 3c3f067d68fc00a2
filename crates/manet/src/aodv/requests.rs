//! Remembers requests, so that each is handled only once (RFC 3561, 6.5).

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

use super::wire::Request;

/// Requests of the last `PATH_DISCOVERY_TIME`.
#[derive(Debug)]
pub struct SeenRequests {
    most: usize,
    age: Duration,
    requests: BTreeSet<(Ipv4Addr, u32)>,
    /// Expiry times, ascending.
    order: VecDeque<(Time, (Ipv4Addr, u32))>,
}

/// What a request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sight {
    First,
    /// The request is new, and the oldest one was forgotten for it: a repetition of the oldest may be handled again.
    FirstInPlace,
    Repeated,
}

impl SeenRequests {
    pub fn new(most: usize, age: Duration) -> Self {
        Self { most, age, requests: BTreeSet::new(), order: VecDeque::new() }
    }

    /// Whether a request comes for the first time; it is remembered.
    pub fn look(&mut self, now: Time, originator: Ipv4Addr, id: u32) -> Sight {
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
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    fn forget(&mut self, now: Time) {
        while let Some((_, request)) = self.order.pop_front_if(|(until, _)| *until <= now) {
            self.requests.remove(&request);
        }
    }
}

// Remembers this node's recent RREQs, to tell their echoes from the requests of another node with its address.

/// This node's requests of the last `PATH_DISCOVERY_TIME`.
#[derive(Debug)]
pub struct OwnRequests {
    most: usize,
    age: Duration,
    made: VecDeque<Made>,
    /// Until when nothing is certain: first because of messages written before a restart, later because of echoes of
    /// forgotten requests.
    unsure_until: Time,
}

#[derive(Debug)]
struct Made {
    until: Time,
    id: u32,
    destination: Ipv4Addr,
    originator_sequence: u32,
}

impl OwnRequests {
    pub fn new(most: usize, age: Duration) -> Self {
        Self { most, age, made: VecDeque::new(), unsure_until: Time::ZERO }
    }

    /// Until when echoes of messages from before the start may arrive.
    pub fn start(&mut self, until: Time) {
        self.unsure_until = until;
    }

    /// The node makes a request.
    pub fn make(&mut self, now: Time, request: &Request) {
        while self.made.pop_front_if(|made| made.until <= now).is_some() {}
        if self.made.len() >= self.most
            && let Some(forgotten) = self.made.pop_front()
        {
            self.unsure_until = self.unsure_until.max(forgotten.until);
        }
        let Request { id, destination, originator_sequence, .. } = *request;
        let until = now + self.age;
        self.made.push_back(Made { until, id, destination, originator_sequence });
    }

    /// The id and the originator's number of the last request.
    #[cfg(test)]
    pub fn last(&self) -> Option<(u32, u32)> {
        self.made.back().map(|made| (made.id, made.originator_sequence))
    }

    /// Whether it is too early to tell.
    pub fn is_unsure(&self, now: Time) -> bool {
        now < self.unsure_until
    }

    /// Whether this node may have made a request with its own address as originator.
    pub fn may_have_made(&self, now: Time, request: &Request) -> bool {
        let is_it = |made: &Made| {
            (made.id, made.destination, made.originator_sequence)
                == (request.id, request.destination, request.originator_sequence)
        };
        self.is_unsure(now) || self.made.iter().any(is_it)
    }
}
