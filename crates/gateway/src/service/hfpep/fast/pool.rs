//! Connections to another gateway that are open before they are needed.
//!
//! ```text
//!   not up: one attempt ── established ──▶ up: as many as are wanted
//!      ▲  1 s, 2 s … 30 s                        │
//!      └──────── refused, no answer, lost ───────┘
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use base::time::Time;

use super::link::LinkId;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// How long the last failure says something of a gateway that is not asked again.
const KNOWN: Duration = Duration::from_secs(30);

/// The spare connections to one gateway.
#[derive(Debug)]
pub struct Pool {
    wanted: usize,
    /// Established connections, and connections being made.
    ready: BTreeSet<LinkId>,
    dialled: BTreeSet<LinkId>,
    /// Whether the gateway was heard of last.
    is_up: bool,
    /// How long to wait after the next failure, and until when after the last.
    patience: Duration,
    retry_at: Option<Time>,
}

impl Pool {
    pub fn new(wanted: usize) -> Self {
        Self {
            wanted,
            ready: BTreeSet::new(),
            dialled: BTreeSet::new(),
            is_up: false,
            patience: SHORTEST,
            retry_at: None,
        }
    }

    /// Sets the wanted number of spare connections; surplus ones go when used or lost.
    pub fn want(&mut self, wanted: usize) {
        self.wanted = wanted;
    }

    /// How many connections are to be made now.
    pub fn lacks(&self, now: Time) -> usize {
        if self.retry_at.is_some_and(|at| at > now) {
            return 0;
        }
        // One connection is enough to find out whether anybody is there.
        let wanted = if self.is_up { self.wanted } else { self.wanted.min(1) };
        wanted.saturating_sub(self.ready.len() + self.dialled.len())
    }

    /// A connection for the pool is being made.
    pub fn add(&mut self, link: LinkId) {
        self.dialled.insert(link);
    }

    /// Takes a connection for use: the most recently established, as its path most likely still works; else one being
    /// made.
    pub fn take(&mut self) -> Option<LinkId> {
        self.ready.pop_last().or_else(|| self.dialled.pop_first())
    }

    /// The gateway has taken a connection, maybe one of the pool.
    pub fn rise(&mut self, link: LinkId) {
        if self.dialled.remove(&link) {
            self.ready.insert(link);
        }
        self.is_up = true;
        self.retry_at = None;
    }

    /// A connection could not be made, or one of the pool was lost after so long.
    pub fn fall(&mut self, now: Time, lost: Option<(LinkId, Duration)>) {
        if let Some((link, age)) = lost {
            self.ready.remove(&link);
            self.dialled.remove(&link);
            if age > LONGEST {
                self.patience = SHORTEST;
            }
        }
        self.is_up &= !self.ready.is_empty();
        // Several may fail for one reason.
        if self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = Some(now + self.patience);
            self.patience = (self.patience * 2).min(LONGEST);
        }
    }

    /// The far end has taken a connection of a program: it is well.
    pub fn confirm(&mut self) {
        self.patience = SHORTEST;
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let is_empty = self.ready.is_empty() && self.dialled.is_empty();
        self.retry_at.filter(|_| self.wanted > 0 && is_empty)
    }

    /// How many are established.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether the gateway was asked for a connection, and has not taken the last one. Without spare connections it is
    /// not asked again by itself, and nobody knows after a while.
    pub fn is_silent(&self, now: Time) -> bool {
        let is_known = |at: Time| self.wanted > 0 || now < at + KNOWN;
        !self.is_up && (self.retry_at.is_some_and(is_known) || !self.dialled.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn one_attempt_finds_out_whether_anybody_is_there() {
        let mut pool = Pool::new(3);

        let before = pool.lacks(at(0));
        pool.add(LinkId(1));
        let meanwhile = pool.lacks(at(0));
        pool.rise(LinkId(1));

        assert_eq!((before, meanwhile, pool.lacks(at(0))), (1, 0, 2));
    }

    #[test]
    fn a_gateway_is_silent_from_the_first_attempt_until_it_takes_a_connection() {
        let mut pool = Pool::new(1);
        let mut told = vec![pool.is_silent(at(0))];

        pool.add(LinkId(1));
        told.push(pool.is_silent(at(0)));
        pool.rise(LinkId(1));
        told.push(pool.is_silent(at(0)));
        pool.fall(at(0), Some((LinkId(1), Duration::ZERO)));
        told.push(pool.is_silent(at(0)));

        assert_eq!(told, [false, true, false, true]);
    }

    #[test]
    fn without_spare_connections_silence_is_forgotten_after_a_while() {
        for (wanted, expected) in [(0, [true, true, false]), (1, [true, true, true])] {
            let mut pool = Pool::new(wanted);
            pool.fall(at(0), None);

            assert_eq!([0, 30, 31].map(|seconds| pool.is_silent(at(seconds))), expected);
        }
    }

    #[test]
    fn failures_that_come_together_count_once_and_then_twice_as_long() {
        let mut pool = Pool::new(3);
        let mut retries = Vec::new();

        let mut now = at(0);
        for _ in 0..7 {
            pool.fall(now, None);
            pool.fall(now, Some((LinkId(2), Duration::ZERO)));
            now = pool.next_timeout().unwrap();
            retries.push(now.since(Time::ZERO).as_secs());
            assert_eq!(pool.lacks(now), 1);
        }

        assert_eq!(retries, [1, 3, 7, 15, 31, 61, 91]);
    }

    #[test]
    fn what_is_established_goes_first_and_what_is_taken_is_replaced() {
        let mut pool = Pool::new(2);
        pool.add(LinkId(1));
        pool.rise(LinkId(1));
        pool.add(LinkId(2));

        let taken = [pool.take(), pool.take(), pool.take()];

        assert_eq!(taken, [Some(LinkId(1)), Some(LinkId(2)), None]);
        assert_eq!(pool.lacks(at(0)), 2);
    }
}
