//! Answers that are owed: at most one for each transfer, spread in time where many would answer at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::config::Config;
use super::message::Precedence;
use super::wire::Ports;
use crate::budget::Budget;
use crate::rng::Rng;
use crate::time::Time;

/// Which transfer: of the other node, or ours to it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct About {
    pub(super) peer: IpAddr,
    pub(super) serial: u16,
    pub(super) is_ours: bool,
}

/// What is said.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Say {
    /// What has arrived, as it is when it is sent; nothing, if the transfer is not known.
    Partial,
    Complete,
    AbortConfirm,
    AbortRequest,
}

/// An answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) say: Say,
    pub(super) ports: Ports,
    pub(super) is_final: bool,
    pub(super) precedence: Precedence,
}

/// All that are owed.
#[derive(Debug)]
pub(super) struct Answers {
    all: BTreeMap<About, (Time, Answer)>,
    due: BTreeSet<(Time, About)>,
    /// For answers about transfers that are not known.
    strange: Budget,
    rng: Rng,
    /// The time of the last call, before which nothing is due any more.
    seen: Time,
    pub(super) full: u64,
    pub(super) limited: u64,
}

impl Answers {
    pub(super) fn new(now: Time, config: &Config, rng: Rng) -> Self {
        let strange = Budget::per_second(now, config.limits.strange_answers);
        let (all, due) = (BTreeMap::new(), BTreeSet::new());
        Self { all, due, strange, rng, seen: now, full: 0, limited: 0 }
    }

    /// Owes one; if many others owe one too, then some time later. One about the same transfer is
    /// replaced if it says less, and keeps its time.
    pub(super) fn owe(
        &mut self,
        now: Time,
        config: &Config,
        about: About,
        answer: Answer,
        is_group: bool,
    ) {
        if let Some((_, owed)) = self.all.get_mut(&about) {
            let is_final = owed.is_final || answer.is_final;
            if owed.say <= answer.say {
                *owed = answer;
            }
            owed.is_final = is_final;
            return;
        }
        if self.all.len() >= config.limits.answers {
            self.full += 1;
            return;
        }
        let at = if is_group { now + self.rng.within(config.times.spread) } else { now };
        self.all.insert(about, (at, answer));
        self.due.insert((at, about));
    }

    /// Owes one about a transfer that is not known, unless there were too many.
    pub(super) fn owe_stranger(
        &mut self,
        now: Time,
        config: &Config,
        about: About,
        answer: Answer,
        is_group: bool,
    ) {
        if self.all.contains_key(&about) || self.strange.spend(now) {
            self.owe(now, config, about, answer, is_group);
        } else {
            self.limited += 1;
        }
    }

    /// Takes one that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<(About, Answer)> {
        let (at, about) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        let (_, answer) = self.all.remove(&about)?;
        Some((about, answer))
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.seen = self.seen.max(now);
    }

    /// When the next one becomes due; one that is due waits for the bearer and has no deadline.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let first = self.due.first()?.0;
        if first > self.seen {
            return Some(first);
        }
        let later = (self.seen + Duration::from_nanos(1), LEAST);
        self.due.range(later..).next().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

/// Before every other at the same time.
const LEAST: About = About { peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED), serial: 0, is_ours: false };
