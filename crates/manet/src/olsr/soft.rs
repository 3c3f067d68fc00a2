//! A bounded table with entries that expire unless renewed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use base::time::Time;

use super::stats::{Counter, Stats};

/// A bounded table with expiring entries.
#[derive(Clone, Debug)]
pub struct Soft<K, V> {
    entries: BTreeMap<K, (Time, V)>,
    /// The keys in order of expiry.
    ends: BTreeSet<(Time, K)>,
    most: usize,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renewed {
    /// The table has no room.
    Full,
    /// It was known.
    Known,
    /// It is new.
    New,
}

impl Renewed {
    /// Whether the entry is new; a refusal is counted as `full`.
    pub fn is_new(self, stats: &mut Stats, full: Counter) -> bool {
        stats.add(full, u64::from(self == Self::Full));
        self == Self::New
    }
}

impl<K: Copy + Ord, V> Soft<K, V> {
    /// An empty table of at most so many entries.
    pub fn new(most: usize) -> Self {
        Self { entries: BTreeMap::new(), ends: BTreeSet::new(), most }
    }

    /// Sets an entry and when it ends.
    pub fn renew(&mut self, key: K, until: Time, value: V) -> Renewed {
        let is_full = self.entries.len() >= self.most;
        let renewed = match self.entries.get_mut(&key) {
            Some((end, known)) => {
                self.ends.remove(&(*end, key));
                (*end, *known) = (until, value);
                Renewed::Known
            }
            None if is_full => return Renewed::Full,
            None => {
                self.entries.insert(key, (until, value));
                Renewed::New
            }
        };
        self.ends.insert((until, key));
        renewed
    }

    /// Renews an entry of a node that has `count` entries; a new one needs room in the node's share of the table.
    pub fn renew_of(&mut self, count: &mut usize, key: K, until: Time, value: V) -> Renewed {
        if *count >= self.share() && !self.contains(&key) {
            return Renewed::Full;
        }
        let renewed = self.renew(key, until, value);
        *count += usize::from(renewed == Renewed::New);
        renewed
    }

    /// Removes the entry that expires first, if the table is full.
    pub fn make_room(&mut self) -> bool {
        if self.entries.len() < self.most {
            return false;
        }
        let Some((_, key)) = self.ends.pop_first() else { return false };
        self.entries.remove(&key).is_some()
    }

    /// Removes an entry; whether there was one.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some((end, _)) = self.entries.remove(key) else { return false };
        self.ends.remove(&(end, *key))
    }

    /// Removes the entries of a range for which `is_over` is true; whether there were any.
    pub fn remove_if(
        &mut self,
        range: impl RangeBounds<K>,
        is_over: impl Fn(&K, &V) -> bool,
    ) -> bool {
        let over: Vec<K> = self
            .entries
            .range(range)
            .filter(|(key, (_, value))| is_over(key, value))
            .map(|(key, _)| *key)
            .collect();
        over.iter().for_each(|key| _ = self.remove(key));
        !over.is_empty()
    }

    /// Removes the entries that have ended; whether there were any.
    pub fn expire(&mut self, now: Time) -> bool {
        let mut has_expired = false;
        while let Some(&(end, key)) = self.ends.first().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, key));
            self.entries.remove(&key);
            has_expired = true;
        }
        has_expired
    }

    /// When the first entry ends.
    pub fn next_timeout(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, (_, value))| (key, value))
    }

    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        self.entries.range(range).map(|(key, (_, value))| (key, value))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The most entries per node: one eighth of the table, which no node can fill alone.
    fn share(&self) -> usize {
        (self.most / 8).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn an_entry_ends_when_it_was_last_said_to() {
        let mut soft = Soft::new(3);
        assert_eq!(soft.renew('a', at(5), 1), Renewed::New);
        assert_eq!(soft.renew('b', at(3), 2), Renewed::New);
        assert_eq!(soft.renew('b', at(7), 3), Renewed::Known);

        assert!(!soft.expire(at(4)));
        assert!(soft.expire(at(5)));

        assert_eq!((soft.get(&'a'), soft.get(&'b')), (None, Some(&3)));
        assert_eq!(soft.next_timeout(), Some(at(7)));
        assert!(soft.remove(&'b'));
        assert_eq!((soft.next_timeout(), soft.len()), (None, 0));
    }

    #[test]
    fn a_full_table_refuses_or_gives_up_what_ends_first() {
        let mut soft = Soft::new(2);
        soft.renew('a', at(5), ());
        assert!(!soft.make_room());
        soft.renew('b', at(3), ());

        assert_eq!(soft.renew('c', at(9), ()), Renewed::Full);
        assert!(soft.make_room());

        assert_eq!(soft.renew('c', at(9), ()), Renewed::New);
        assert_eq!(soft.iter().map(|it| *it.0).collect::<String>(), "ac");
    }
}
