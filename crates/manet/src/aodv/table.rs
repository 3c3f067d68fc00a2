//! The routing table (RFC 3561, 6.2): the route to each destination, and how new it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::serial::{is_after, replaces};
use base::time::Time;

use super::super::Neighbour;

/// The routing table: one entry per destination.
#[derive(Debug)]
pub struct Table {
    entries: BTreeMap<Ipv4Addr, Entry>,
    /// Destinations in the order in which room is made: in a circle, where use gives one more turn. Some are
    /// forgotten already.
    turns: VecDeque<Ipv4Addr>,
    /// Destinations at most.
    most: usize,
    /// A lower bound of the earliest expiry of all entries, or never.
    due: Option<Time>,
    /// Destinations whose route may be another one than the driver knows.
    changed: BTreeSet<Ipv4Addr>,
}

/// The routing entry of a destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The destination's sequence number, if any is known.
    pub sequence: Option<u32>,
    pub hops: u8,
    pub next: Neighbour,
    /// Whether packets may take the route. If not, the sequence number is still good.
    pub is_valid: bool,
    /// When a valid route ends, and when one that ended is forgotten.
    pub until: Time,
    /// Since when the route leads by its next hop.
    pub since: Time,
    /// Whether the route was used or heard again since its last turn for eviction.
    is_used: bool,
    /// Neighbours that use the route and are told when it ends.
    pub precursors: BTreeSet<Neighbour>,
}

/// A route offered by a message.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// `None` for a neighbour that was heard: the route is direct, so it is good whatever is known.
    pub sequence: Option<u32>,
    pub hops: u8,
    pub next: Neighbour,
    pub until: Time,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// There is no room for another destination.
    Full,
    /// The known route is as good or newer.
    Stale,
    /// It is the route now.
    Updated,
    /// The same, and another destination was forgotten for it.
    UpdatedInPlace,
}

impl Table {
    pub fn new(most: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            turns: VecDeque::new(),
            most,
            due: None,
            changed: BTreeSet::new(),
        }
    }

    /// Takes the route of a message if its number [`replaces`] the known one, or is equal with fewer hops. Along a
    /// route sequence numbers do not fall, and hops fall where numbers are equal: so no route is a loop.
    pub fn offer(&mut self, now: Time, destination: Ipv4Addr, offer: Offer) -> Taken {
        let Some(entry) = self.entries.get_mut(&destination) else {
            let has_made_room = self.entries.len() >= self.most;
            if has_made_room && !self.make_room() {
                return Taken::Full;
            }
            let Offer { sequence, hops, next, until } = offer;
            let entry = Entry {
                sequence,
                hops,
                next,
                is_valid: true,
                until,
                since: now,
                is_used: false,
                precursors: BTreeSet::new(),
            };
            self.entries.insert(destination, entry);
            self.turns.push_back(destination);
            self.note(destination, until);
            return if has_made_room { Taken::UpdatedInPlace } else { Taken::Updated };
        };
        let is_better = match (offer.sequence, entry.sequence) {
            (None, _) => !entry.is_valid || entry.hops > offer.hops,
            (Some(_), None) => true,
            (Some(new), Some(old)) if new == old => !entry.is_valid || offer.hops < entry.hops,
            (Some(new), Some(old)) => replaces(new, old),
        };
        if !is_better {
            return Taken::Stale;
        }
        if !entry.is_valid || entry.next != offer.next {
            entry.since = now;
        }
        entry.sequence = offer.sequence.or(entry.sequence);
        entry.hops = offer.hops;
        entry.next = offer.next;
        entry.is_valid = true;
        entry.until = offer.until;
        self.note(destination, offer.until);
        Taken::Updated
    }

    /// Forgets a destination that was not used for a whole turn: whoever makes up destinations would keep
    /// real ones out otherwise. That makes a circle possible only where the made-up ones are more than there
    /// is room for.
    fn make_room(&mut self) -> bool {
        for _ in 0..=2 * self.turns.len() {
            let Some(oldest) = self.turns.pop_front() else { return false };
            let Some(entry) = self.entries.get_mut(&oldest) else { continue };
            if !std::mem::take(&mut entry.is_used) {
                self.entries.remove(&oldest);
                self.changed.insert(oldest);
                return true;
            }
            self.turns.push_back(oldest);
        }
        false
    }

    /// Lets a route end no earlier than this, since it is used.
    pub fn extend(&mut self, destination: Ipv4Addr, until: Time) {
        if let Some(entry) = self.entries.get_mut(&destination) {
            entry.until = entry.until.max(until);
            entry.is_used = true;
        }
    }

    /// Prolongs a valid route to at least this time.
    pub fn extend_valid(&mut self, destination: Ipv4Addr, until: Time) {
        if self.valid(destination).is_some() {
            self.extend(destination, until);
        }
    }

    /// The route may be another one than the driver knows.
    pub fn note_changed(&mut self, destination: Ipv4Addr) {
        self.changed.insert(destination);
    }

    /// Each route may be another one than the driver knows.
    pub fn note_all_changed(&mut self) {
        self.changed.extend(self.entries.keys());
    }

    /// Ends the route; the entry stays until the given time. The next route has to be newer than this one and than the
    /// number in the error, so that it cannot lead back here.
    pub fn invalidate(
        &mut self,
        destination: Ipv4Addr,
        error: Option<u32>,
        until: Time,
    ) -> Option<Entry> {
        let entry = self.entries.get_mut(&destination).filter(|entry| entry.is_valid)?;
        let next = entry.sequence.map(successor);
        entry.sequence = match (next, error) {
            (Some(next), Some(error)) if is_after(error, next) => Some(error),
            (Some(next), _) => Some(next),
            (None, error) => error,
        };
        entry.is_valid = false;
        entry.until = until;
        let was = entry.clone();
        entry.precursors.clear();
        self.note(destination, until);
        Some(was)
    }

    /// Makes a neighbour one that is told when the route ends; false if there is no room.
    #[must_use]
    pub fn add_precursor(
        &mut self,
        destination: Ipv4Addr,
        neighbour: Neighbour,
        most: usize,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(&destination) else { return true };
        if entry.precursors.len() >= most && !entry.precursors.contains(&neighbour) {
            return false;
        }
        entry.precursors.insert(neighbour);
        entry.is_used = true;
        true
    }

    /// Ends expired routes, and forgets routes that ended long ago; returns how many ended.
    pub fn expire(&mut self, now: Time, delete_period: Duration) -> u64 {
        if self.due.is_none_or(|due| due > now) {
            return 0;
        }
        let over: Vec<(Ipv4Addr, bool)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.until <= now)
            .map(|(&destination, entry)| (destination, entry.is_valid))
            .collect();
        let mut ended = 0;
        for (destination, is_valid) in over {
            if is_valid {
                self.invalidate(destination, None, now + delete_period);
                ended += 1;
            } else {
                self.entries.remove(&destination);
            }
        }
        self.due = self.entries.values().map(|entry| entry.until).min();
        if self.turns.len() > 2 * self.most {
            let mut seen = BTreeSet::new();
            let entries = &self.entries;
            self.turns.retain(|it| entries.contains_key(it) && seen.insert(*it));
        }
        ended
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// A destination whose route may have changed.
    pub fn poll_changed(&mut self) -> Option<Ipv4Addr> {
        self.changed.pop_first()
    }

    pub fn get(&self, destination: Ipv4Addr) -> Option<&Entry> {
        self.entries.get(&destination)
    }

    /// The route that packets may take.
    pub fn valid(&self, destination: Ipv4Addr) -> Option<&Entry> {
        self.entries.get(&destination).filter(|entry| entry.is_valid)
    }

    /// The destinations with a route through this neighbour, in order.
    pub fn through(&self, neighbour: Neighbour) -> Vec<Ipv4Addr> {
        self.valid_where(|entry| entry.next == neighbour)
    }

    /// The destinations with a route out of this interface, in order.
    pub fn on(&self, interface: usize) -> Vec<Ipv4Addr> {
        self.valid_where(|entry| entry.next.interface == interface)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn valid_where(&self, holds: impl Fn(&Entry) -> bool) -> Vec<Ipv4Addr> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.is_valid && holds(entry))
            .map(|(&destination, _)| destination)
            .collect()
    }

    fn note(&mut self, destination: Ipv4Addr, until: Time) {
        self.changed.insert(destination);
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }
}

/// The sequence number after `sequence`, never 0: in an error 0 means an unknown number.
pub fn successor(sequence: u32) -> u32 {
    sequence.wrapping_add(1).max(1)
}
