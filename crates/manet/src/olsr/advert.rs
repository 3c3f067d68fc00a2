//! Decides which neighbours a node's TC messages announce, and when (RFC 3626, 9.2 and 9.3).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use base::time::Time;

use super::config::Config;
use super::wire::Seq;

/// A changed TC message goes out early, but not sooner after the last than this part of the interval.
const EARLY: u32 = 4;

/// The set of neighbours to announce in TC messages, with its ANSN.
#[derive(Debug)]
pub struct Advert {
    ansn: Seq,
    neighbours: BTreeSet<Ipv4Addr>,
    /// When the next message is due, and when the last was sent.
    due: Option<Time>,
    sent: Option<Time>,
    /// Until when to announce an empty set of neighbours.
    empty_until: Time,
}

impl Advert {
    pub fn new(ansn: Seq) -> Self {
        let neighbours = BTreeSet::new();
        Self { ansn, neighbours, due: None, sent: None, empty_until: Time::ZERO }
    }

    pub fn neighbours(&self) -> &BTreeSet<Ipv4Addr> {
        &self.neighbours
    }

    /// Tells of others from now on: first at `early`, or soon after, if there was nothing to tell or a
    /// neighbour was lost, and else when the next message is due.
    pub fn set(&mut self, now: Time, neighbours: BTreeSet<Ipv4Addr>, early: Time, config: &Config) {
        let has_lost = !self.neighbours.is_subset(&neighbours);
        let pause = config.tc_interval / EARLY;
        let early = self.sent.map_or(early, |sent| early.max(sent + pause));
        match self.due {
            Some(due) if has_lost => self.due = Some(due.min(early)),
            Some(_) => {}
            None => self.due = Some(early),
        }
        if neighbours.is_empty() {
            self.empty_until = now + config.topology_hold;
        }
        self.ansn = self.ansn.next();
        self.neighbours = neighbours;
    }

    /// Somebody announced neighbours in the node's name under this ANSN. If others would believe it newer
    /// than the node's own, the node continues after it, and announces the truth at `early` or soon after.
    pub fn overtake(&mut self, now: Time, ansn: Seq, early: Time, config: &Config) {
        if self.ansn != ansn && self.ansn.is_after(ansn) {
            return;
        }
        let early = self.sent.map_or(early, |sent| early.max(sent + config.tc_interval / EARLY));
        self.due = Some(self.due.map_or(early, |due| due.min(early)));
        self.ansn = ansn.next();
        if self.neighbours.is_empty() {
            self.empty_until = now + config.topology_hold;
        }
    }

    /// Returns the content of the TC message that is due, and schedules the next one at `next`.
    pub fn take(&mut self, now: Time, next: Time) -> Option<(Seq, Vec<Ipv4Addr>)> {
        self.due.take_if(|due| *due <= now)?;
        if self.neighbours.is_empty() && self.empty_until <= now {
            return None;
        }
        (self.due, self.sent) = (Some(next), Some(now));
        Some((self.ansn, self.neighbours.iter().copied().collect()))
    }

    pub fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }
}
