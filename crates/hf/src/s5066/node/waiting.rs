//! Requests that wait for the radio, the most urgent first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base::time::{Time, earliest};

use super::super::service::{MAX_PRIORITY, PRIORITIES, Request, RequestId};

/// A queue of requests; of one priority the oldest goes first, expedited ones before all others.
#[derive(Debug, Default)]
pub struct Waiting {
    requests: BTreeMap<Key, Request>,
    /// Octets of each priority.
    octets: [usize; PRIORITIES],
    pushed: u64,
    /// A time that no request expires before; `None` if none expires.
    next_expiry: Option<Time>,
}

/// The order of the queue: expedited requests first, then by priority, then by age.
type Key = (Reverse<bool>, Reverse<u8>, u64);

impl Waiting {
    pub fn push(&mut self, request: Request) {
        self.octets[priority(&request)] += request.s_pdu.len();
        self.next_expiry = earliest(self.next_expiry, request.expires);
        let key = (Reverse(request.is_expedited), Reverse(request.priority), self.pushed);
        self.pushed += 1;
        self.requests.insert(key, request);
    }

    /// Octets of each priority.
    pub fn by_priority(&self) -> [usize; PRIORITIES] {
        self.octets
    }

    /// The most urgent request.
    pub fn first(&self) -> Option<&Request> {
        self.requests.first_key_value().map(|(_, request)| request)
    }

    pub fn pop(&mut self) -> Option<Request> {
        let (_, request) = self.requests.pop_first()?;
        self.octets[priority(&request)] -= request.s_pdu.len();
        Some(request)
    }

    /// Removes the most urgent request among expedited or other ones.
    pub fn pop_if(&mut self, expedited: bool) -> Option<Request> {
        let (&key, _) = self.of(expedited).next()?;
        let request = self.requests.remove(&key)?;
        self.octets[priority(&request)] -= request.s_pdu.len();
        Some(request)
    }

    /// The most urgent request among expedited or other ones.
    pub fn first_if(&self, expedited: bool) -> Option<&Request> {
        self.of(expedited).next().map(|(_, request)| request)
    }

    /// The least urgent request among expedited or other ones.
    pub fn last_if(&self, expedited: bool) -> Option<&Request> {
        self.of(expedited).next_back().map(|(_, request)| request)
    }

    /// All expedited or all other requests, the most urgent first.
    pub fn iter_if(&self, expedited: bool) -> impl Iterator<Item = &Request> {
        self.of(expedited).map(|(_, request)| request)
    }

    fn of(&self, expedited: bool) -> impl DoubleEndedIterator<Item = (&Key, &Request)> {
        let first = (Reverse(expedited), Reverse(u8::MAX), 0);
        let last = (Reverse(expedited), Reverse(0), u64::MAX);
        self.requests.range(first..=last)
    }

    /// Removes the request with this number.
    pub fn remove(&mut self, id: RequestId) -> Option<Request> {
        let (&key, _) = self.requests.iter().find(|(_, request)| request.id == id)?;
        let request = self.requests.remove(&key)?;
        self.octets[priority(&request)] -= request.s_pdu.len();
        Some(request)
    }

    /// Removes all expired requests.
    pub fn expire(&mut self, now: Time) -> Vec<Request> {
        if self.next_expiry.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let is_due = |request: &Request| request.expires.is_some_and(|at| at <= now);
        let due: Vec<Key> = self
            .requests
            .iter()
            .filter(|(_, request)| is_due(request))
            .map(|(key, _)| *key)
            .collect();
        let expired: Vec<_> = due.iter().filter_map(|key| self.requests.remove(key)).collect();
        for request in &expired {
            self.octets[priority(request)] -= request.s_pdu.len();
        }
        self.next_expiry = self.requests.values().filter_map(|request| request.expires).min();
        expired
    }

    /// Removes all requests; with `may_retry`, those that may be retried stay.
    pub fn give_up(&mut self, may_retry: bool) -> Vec<Request> {
        let is_given_up = |_: &Key, request: &mut Request| !(may_retry && request.is_retried);
        let given_up: Vec<_> = self.requests.extract_if(.., is_given_up).collect();
        for (_, request) in &given_up {
            self.octets[priority(request)] -= request.s_pdu.len();
        }
        self.next_expiry = self.requests.values().filter_map(|request| request.expires).min();
        given_up.into_iter().map(|(_, request)| request).collect()
    }

    /// All requests, the most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.requests.values()
    }

    pub fn next_expiry(&self) -> Option<Time> {
        self.next_expiry
    }

    /// The octets of requests with at least this priority.
    pub fn octets(&self, priority: u8) -> usize {
        self.octets.iter().skip(usize::from(priority)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

fn priority(request: &Request) -> usize {
    usize::from(request.priority.min(MAX_PRIORITY))
}
