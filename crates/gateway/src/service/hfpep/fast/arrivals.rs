//! Bounds the connections made by other gateways that carry nothing: spare ones, connections without an opening
//! yet, and refused ones.
//!
//! ```text
//!   source ─▶ its connections, the oldest first       too many in total: the oldest of the
//!                                                     source with most connections gives way
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use super::link::LinkId;

/// The connections, by where they come from.
#[derive(Debug)]
pub struct Arrivals {
    most: usize,
    len: usize,
    by_source: BTreeMap<IpAddr, BTreeSet<LinkId>>,
}

impl Arrivals {
    /// Makes room for `most` connections, which is at least one.
    pub fn new(most: usize) -> Self {
        Self { most, len: 0, by_source: BTreeMap::new() }
    }

    /// Adds a connection, and returns the one that has to give way, if any. Numbers of links grow with time.
    #[must_use]
    pub fn add(&mut self, from: IpAddr, link: LinkId) -> Option<LinkId> {
        self.len += usize::from(self.by_source.entry(source(from)).or_default().insert(link));
        if self.len <= self.most {
            return None;
        }
        let all = self.by_source.values();
        let greediest = all.max_by_key(|links| (links.len(), Reverse(links.first().copied())))?;
        greediest.first().copied()
    }

    /// One carries something, or is gone.
    pub fn remove(&mut self, from: IpAddr, link: LinkId) {
        let source = source(from);
        let Some(links) = self.by_source.get_mut(&source) else { return };
        self.len -= usize::from(links.remove(&link));
        if links.is_empty() {
            self.by_source.remove(&source);
        }
    }

    /// Counts the connections from a source.
    pub fn of(&self, from: IpAddr) -> usize {
        self.by_source.get(&source(from)).map_or(0, BTreeSet::len)
    }
}

/// The source that an address counts for: with IPv6 a network of 64 bits, where a host has as many addresses as it
/// likes.
pub fn source(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_whoever_has_most_gives_way() {
        let mut arrivals = Arrivals::new(4);
        let mut gone = Vec::new();

        for (number, from) in (0..).zip(["10.0.0.2", "10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"]) {
            assert_eq!(arrivals.add(from.parse().unwrap(), LinkId(number)), None, "{number}");
        }
        for (number, from) in (4..).zip(["10.0.0.1", "10.0.0.3", "10.0.0.2", "10.0.0.4"]) {
            let oldest = arrivals.add(from.parse().unwrap(), LinkId(number)).unwrap();
            for from in ["10.0.0.1", "10.0.0.2"] {
                arrivals.remove(from.parse().unwrap(), oldest);
            }
            gone.push(oldest.0);
        }

        assert_eq!((gone, arrivals.len), (vec![1, 2, 0, 3], 4));
    }

    #[test]
    fn addresses_of_one_network_are_one_source() {
        let mut arrivals = Arrivals::new(3);

        let added = ["fd01::1", "fd02::1", "fd01::2", "fd01::3"].map(|from| from.parse().unwrap());
        let gone: Vec<_> =
            (0..).zip(added).map(|(number, from)| arrivals.add(from, LinkId(number))).collect();

        assert_eq!(gone, [None, None, None, Some(LinkId(0))]);
        assert_eq!(arrivals.of("fd01::9".parse().unwrap()), 3);
    }
}
