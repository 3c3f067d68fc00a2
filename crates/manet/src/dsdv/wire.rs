//! The messages of DSDV: entries one after the other, and nothing else.
//!
//! ```text
//!  octet 0             4             8            12
//!        +-------------+-------------+-------------+
//!        | destination |    hops     |   number    |      as in ns-3
//!        +-------------+-------------+-------------+
//! ```

use std::net::Ipv4Addr;

/// Octets of an entry.
pub const ENTRY: usize = 12;

/// A distance of at least this many hops means no route, as in ns-2.
pub const INFINITE: u8 = 250;

/// One entry of an update: a destination with its distance and sequence number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The destination; 0.0.0.0 is the default route.
    pub destination: Ipv4Addr,
    /// Hops from there to it.
    pub hops: u32,
    /// The age of the entry: the destination gives even numbers, and a node that loses the route gives the following
    /// odd one.
    pub number: u32,
}

/// Why octets are no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{have} octets are no entry of {ENTRY}")]
pub struct Malformed {
    /// How many there are.
    pub have: usize,
}

impl Entry {
    /// Reads the whole entries of a message; also returns whether a piece of an entry follows.
    ///
    /// # Errors
    /// When there is none.
    pub fn parse_all(octets: &[u8]) -> Result<(impl Iterator<Item = Self> + '_, bool), Malformed> {
        match octets.as_chunks::<ENTRY>() {
            ([], _) => Err(Malformed { have: octets.len() }),
            (entries, rest) => Ok((entries.iter().map(Self::read), !rest.is_empty())),
        }
    }

    /// Appends the entry.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.destination.octets());
        out.extend_from_slice(&self.hops.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
    }

    fn read(&[d0, d1, d2, d3, h0, h1, h2, h3, n0, n1, n2, n3]: &[u8; ENTRY]) -> Self {
        Self {
            destination: Ipv4Addr::new(d0, d1, d2, d3),
            hops: u32::from_be_bytes([h0, h1, h2, h3]),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_is_its_twelve_octets() {
        let octets = [10, 0, 0, 7, 0, 0, 0, 2, 0, 0, 1, 4];

        let (entries, is_cut) = Entry::parse_all(&octets).unwrap();

        let destination = Ipv4Addr::new(10, 0, 0, 7);
        let expected = Entry { destination, hops: 2, number: 260 };
        assert_eq!((entries.collect::<Vec<_>>(), is_cut), (vec![expected], false));
    }

    #[test]
    fn a_message_has_an_entry_at_least_and_a_cut_one_costs_no_other() {
        for have in [0, 1, 11] {
            assert_eq!(Entry::parse_all(&vec![0; have]).err(), Some(Malformed { have }));
        }
        for (have, expected) in [(12, (1, false)), (13, (1, true)), (35, (2, true))] {
            let octets = vec![0; have];
            let (entries, is_cut) = Entry::parse_all(&octets).unwrap();
            assert_eq!((entries.count(), is_cut), expected);
        }
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn what_was_read_is_written_the_same(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok((entries, is_cut)) = Entry::parse_all(&octets) {
                let mut again = Vec::new();
                entries.for_each(|entry| entry.emit(&mut again));
                prop_assert!(octets.starts_with(&again));
                prop_assert_eq!(octets.len() > again.len(), is_cut);
            }
        }
    }
}
