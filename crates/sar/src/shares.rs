//! Fair shares of a bounded table: counts what each source holds, and picks the entry to drop when the table is full.
//!
//! A source above its fair share gives up its own oldest entry. If no source is above its share, as in a flood with one
//! address per datagram, the oldest entry of all goes: a transfer that progresses faster than the table turns over
//! stays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The unit that shares are counted for: an IPv4 address without its port, or an IPv6 network of 64 bits, because a
/// host may use any number of addresses inside.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// An IPv4 address.
    V4(u32),
    /// The first 64 bits of an IPv6 address.
    V6(u64),
}

impl Source {
    /// The source that an address counts for.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
            }
        }
    }
}

/// Entries of a table by source and age.
#[derive(Debug)]
pub struct Shares<K> {
    entries: BTreeMap<(Source, u64), (K, u64)>,
    by_age: BTreeMap<u64, Source>,
    weights: BTreeMap<Source, u64>,
    heaviest: BTreeSet<(u64, Source)>,
    /// What all entries weigh.
    total: u64,
    next: u64,
}

/// Names an entry until it is touched or removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntryId {
    source: Source,
    age: u64,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_age: BTreeMap::new(),
            weights: BTreeMap::new(),
            heaviest: BTreeSet::new(),
            total: 0,
            next: 0,
        }
    }
}

impl<K: Copy> Shares<K> {
    /// Adds an entry, the youngest of all.
    pub fn insert(&mut self, source: Source, key: K, weight: u64) -> EntryId {
        let age = self.next;
        self.next += 1;
        self.entries.insert((source, age), (key, weight));
        self.by_age.insert(age, source);
        self.total += weight;
        let before = self.weights.get(&source).copied().unwrap_or(0);
        self.weigh(source, before, before + weight);
        EntryId { source, age }
    }

    /// Removes an entry.
    pub fn remove(&mut self, place: EntryId) {
        let EntryId { source, age } = place;
        let Some((_, weight)) = self.entries.remove(&(source, age)) else { return };
        self.by_age.remove(&age);
        self.total -= weight;
        let before = self.weights.get(&source).copied().unwrap_or(0);
        self.weigh(source, before, before.saturating_sub(weight));
    }

    /// The entry that goes first, where a source may hold `fair`.
    pub fn first(&self, fair: u64) -> Option<K> {
        let heaviest = self.heaviest.last().filter(|(weight, _)| *weight > fair);
        let source = match heaviest {
            Some((_, source)) => *source,
            None => *self.by_age.first_key_value()?.1,
        };
        let mut own = self.entries.range((source, 0)..);
        own.next().map(|(_, (key, _))| *key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    fn weigh(&mut self, source: Source, before: u64, after: u64) {
        self.heaviest.remove(&(before, source));
        if after == 0 {
            self.weights.remove(&source);
        } else {
            self.weights.insert(source, after);
            self.heaviest.insert((after, source));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn an_address_of_ipv4_and_a_network_of_ipv6_are_a_source() {
        assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("fd00:1::1"), source("fd00:1::ffff:2"));
        assert_ne!(source("fd00:1::1"), source("fd00:1:0:1::1"));
    }

    #[test]
    fn whoever_holds_more_than_is_fair_gives_up_its_own_and_else_the_oldest_goes() {
        let mut shares = Shares::default();
        let (a, b) = (source("10.0.0.1"), source("10.0.0.2"));
        let oldest = shares.insert(a, 1, 5);
        (10..14).for_each(|key| _ = shares.insert(b, key, 5));

        assert_eq!((shares.first(10), shares.first(20)), (Some(10), Some(1)));
        shares.remove(oldest);
        let young = shares.insert(a, 2, 5);
        assert_eq!((shares.first(20), shares.len(), shares.total()), (Some(10), 5, 25));
        shares.remove(young);
        shares.remove(young);
        assert_eq!((shares.len(), shares.total()), (4, 20));
    }
    proptest! {
        #![proptest_config(harness::cases(128))]

        #[test]
        fn of_a_list_the_same_goes_first(
            steps in vec((any::<bool>(), 0_u32..4, 0_u64..9), 1..60),
            fair in 0_u64..40,
        ) {
            let mut shares = Shares::default();
            // Oldest first: place, source, key and weight.
            let mut list: Vec<(EntryId, Source, usize, u64)> = Vec::new();
            for (key, (is_new, source, weight)) in steps.into_iter().enumerate() {
                let source = Source::V4(source);
                if is_new || list.is_empty() {
                    list.push((shares.insert(source, key, weight), source, key, weight));
                } else {
                    let (place, ..) = list.remove(usize::try_from(weight).unwrap() % list.len());
                    shares.remove(place);
                }

                let weight_of = |source: Source| -> u64 {
                    list.iter().filter(|it| it.1 == source).map(|it| it.3).sum()
                };
                let heaviest = list.iter().map(|it| (weight_of(it.1), it.1)).max();
                let heaviest = heaviest.filter(|(weight, _)| *weight > fair);
                let first = list.iter().find(|it| heaviest.is_none_or(|(_, source)| it.1 == source));
                prop_assert_eq!(shares.first(fair), first.map(|it| it.2));
                prop_assert_eq!(shares.len(), list.len());
                prop_assert_eq!(shares.total(), list.iter().map(|it| it.3).sum::<u64>());
            }
        }
    }
}
