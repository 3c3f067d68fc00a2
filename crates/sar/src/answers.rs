//! Schedules answers: at most one for each transfer, spread in time where many nodes would answer at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::budget::Budget;
use base::rng::Rng;
use base::time::Time;

use super::config::{Config, Limits};
use super::message::Precedence;
use super::shares::{EntryId, Shares, Source};
use super::wire::Ports;

/// Names the transfer of an arrived PDU: the other node, serial number and ports. A forger must guess the ports to
/// interfere.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    pub peer: IpAddr,
    pub serial: u16,
    pub ports: Ports,
}

/// A transfer: of the other node to us, or ours to it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct About {
    pub peer: IpAddr,
    pub serial: u16,
    pub is_ours: bool,
}

/// What is said.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Say {
    /// The segments arrived by the time of sending; an unknown transfer has none.
    Partial,
    Complete,
    AbortConfirm,
    AbortRequest,
}

/// An answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    pub say: Say,
    pub ports: Ports,
    pub is_final: bool,
    pub precedence: Precedence,
}

/// An arrived PDU, and where answers to it go.
#[derive(Debug)]
pub struct Reply<'a> {
    pub answers: &'a mut Answers,
    pub now: Time,
    pub key: Key,
    pub precedence: Precedence,
    /// Whether the PDU was sent to a group, so that others answer too.
    pub is_group: bool,
}

impl Reply<'_> {
    pub fn schedule(&mut self, say: Say, is_final: bool) {
        let (about, answer) = self.answer(say, is_final);
        self.answers.schedule(self.now, about, answer, self.is_group);
    }

    /// Schedules an answer about an unknown transfer; `is_known` tells whether its node is known.
    pub fn schedule_stray(&mut self, say: Say, is_final: bool, is_known: bool) {
        let (about, answer) = self.answer(say, is_final);
        self.answers.schedule_stray(self.now, about, answer, is_known, self.is_group);
    }

    fn answer(&self, say: Say, is_final: bool) -> (About, Answer) {
        let Key { peer, serial, ports } = self.key;
        let about = About { peer, serial, is_ours: false };
        (about, Answer { say, ports: ports.swapped(), is_final, precedence: self.precedence })
    }
}

/// All answers that wait for their time or for the bearer.
#[derive(Debug)]
pub struct Answers {
    most: usize,
    spread: Duration,
    /// Answers a second about transfers that are not known.
    strange_answers: u32,
    all: BTreeMap<About, Scheduled>,
    due: BTreeSet<(Time, About)>,
    shares: Shares<About>,
    /// The common budget for answers to unknown nodes about unknown transfers.
    strange: Budget,
    /// The same budget for each known node alone, so that strangers cannot use it up.
    own: BTreeMap<IpAddr, Budget>,
    /// Nodes with a budget, oldest budget first.
    owners: VecDeque<IpAddr>,
    rng: Rng,
    /// The time of the last call, before which nothing is due any more.
    seen: Time,
    full: u64,
    limited: u64,
}

/// An answer that waits.
#[derive(Clone, Copy, Debug)]
struct Scheduled {
    at: Time,
    answer: Answer,
    place: EntryId,
}

/// Nodes that are known and have a budget of their own, at most.
const OWNERS: usize = 1_024;
/// One source may fill this part of the room for answers while others want room.
const FAIR: u64 = 8;

impl Answers {
    pub fn new(now: Time, config: &Config, rng: Rng) -> Self {
        let Limits { answers: most, strange_answers, .. } = config.limits;
        Self {
            most,
            spread: config.times.spread,
            strange_answers,
            all: BTreeMap::new(),
            due: BTreeSet::new(),
            shares: Shares::default(),
            strange: Budget::per_second(now, strange_answers),
            own: BTreeMap::new(),
            owners: VecDeque::new(),
            rng,
            seen: now,
            full: 0,
            limited: 0,
        }
    }

    /// Schedules an answer; with a random delay if many other nodes answer too. An answer about the same transfer is
    /// replaced if it says less, and keeps its time.
    pub fn schedule(&mut self, now: Time, about: About, answer: Answer, is_group: bool) {
        if let Some(Scheduled { answer: waiting, .. }) = self.all.get_mut(&about) {
            let is_final = waiting.is_final || answer.is_final;
            if waiting.say <= answer.say {
                *waiting = answer;
            }
            waiting.is_final = is_final;
            return;
        }
        let at = if is_group { now + self.rng.within(self.spread) } else { now };
        self.insert(at, about, answer);
    }

    /// Schedules an answer for this time, unless an answer about the same transfer is waiting already.
    pub fn schedule_at(&mut self, at: Time, about: About, answer: Answer) {
        if !self.all.contains_key(&about) {
            self.insert(at, about, answer);
        }
    }

    /// Where there is no room, an answer of whoever has most gives way.
    fn insert(&mut self, at: Time, about: About, answer: Answer) {
        while self.all.len() >= self.most
            && let Some(first) = self.shares.first(self.most as u64 / FAIR)
        {
            self.full += 1;
            self.take(first);
        }
        let place = self.shares.insert(Source::of(about.peer), about, 1);
        self.all.insert(about, Scheduled { at, answer, place });
        self.due.insert((at, about));
    }

    fn take(&mut self, about: About) -> Option<Answer> {
        let Scheduled { at, answer, place } = self.all.remove(&about)?;
        self.due.remove(&(at, about));
        self.shares.remove(place);
        Some(answer)
    }

    /// Schedules an answer about an unknown transfer, unless the budget of this node, or of all unknown nodes, is used
    /// up.
    pub fn schedule_stray(
        &mut self,
        now: Time,
        about: About,
        answer: Answer,
        is_known: bool,
        is_group: bool,
    ) {
        if self.all.contains_key(&about) || self.spends(now, about.peer, is_known) {
            self.schedule(now, about, answer, is_group);
        } else {
            self.limited += 1;
        }
    }

    fn spends(&mut self, now: Time, peer: IpAddr, is_known: bool) -> bool {
        if !is_known {
            return self.strange.spend(now);
        }
        if !self.own.contains_key(&peer) {
            if self.owners.len() >= OWNERS
                && let Some(oldest) = self.owners.pop_front()
            {
                self.own.remove(&oldest);
            }
            self.owners.push_back(peer);
        }
        let budget = || Budget::per_second(now, self.strange_answers);
        self.own.entry(peer).or_insert_with(budget).spend(now)
    }

    /// Takes one that is due.
    pub fn pop(&mut self, now: Time) -> Option<(About, Answer)> {
        let (at, about) = *self.due.first()?;
        if at > now {
            return None;
        }
        Some((about, self.take(about)?))
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.seen = self.seen.max(now);
    }

    /// When the next one becomes due; one that is due waits for the bearer and has no deadline.
    pub fn next_timeout(&self) -> Option<Time> {
        let first = self.due.first()?.0;
        if first > self.seen {
            return Some(first);
        }
        let later = (self.seen + Duration::from_nanos(1), LEAST);
        self.due.range(later..).next().map(|(at, _)| *at)
    }

    /// Answers that gave way because there was no room.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Answers about unknown transfers that no budget allowed.
    pub fn limited(&self) -> u64 {
        self.limited
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }
}

/// Before every other at the same time.
const LEAST: About = About { peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED), serial: 0, is_ours: false };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_share_a_budget_and_a_bounded_number_of_known_nodes_have_their_own() {
        let mut config = Config::default();
        config.limits.strange_answers = 3;
        let mut answers = Answers::new(Time::ZERO, &config, Rng::stream(1, "answers"));
        let mut spent = |is_known, nodes: std::ops::Range<u32>| {
            let nodes = nodes.flat_map(|node| [node; 5]);
            nodes
                .filter(|node| {
                    let peer = IpAddr::V4(Ipv4Addr::from_bits(*node));
                    answers.spends(Time::ZERO, peer, is_known)
                })
                .count()
        };

        assert_eq!(spent(false, 0..10), 3);
        assert_eq!(spent(true, 0..2_000), 3 * 2_000);
        assert_eq!((answers.own.len(), answers.owners.len()), (OWNERS, OWNERS));
    }
}
