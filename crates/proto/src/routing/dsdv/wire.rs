//! Messages: entries one after the other, and nothing else.
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

/// As many hops as this, or more, are no route; as in ns-2.
pub const INFINITE: u8 = 250;

/// What a node says of a destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The destination; 0.0.0.0 is the default route.
    pub destination: Ipv4Addr,
    /// Hops from there to it.
    pub hops: u32,
    /// How new that is: the destination gives even numbers, and who loses the route the odd one that
    /// follows.
    pub number: u32,
}

/// Why octets are no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{have} octets are not a whole number of entries of {ENTRY}, or none")]
pub struct Malformed {
    /// How many there are.
    pub have: usize,
}

impl Entry {
    /// Reads the entries of a message.
    ///
    /// # Errors
    /// When there is none, or more than whole ones.
    pub fn parse_all(octets: &[u8]) -> Result<impl Iterator<Item = Self> + '_, Malformed> {
        match octets.as_chunks::<ENTRY>() {
            (entries, []) if !entries.is_empty() => Ok(entries.iter().map(Self::read)),
            _ => Err(Malformed { have: octets.len() }),
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

        let entries: Vec<_> = Entry::parse_all(&octets).unwrap().collect();

        let destination = Ipv4Addr::new(10, 0, 0, 7);
        assert_eq!(entries, [Entry { destination, hops: 2, number: 260 }]);
    }

    #[test]
    fn a_message_is_whole_entries_and_at_least_one() {
        for have in [0, 1, 11, 13] {
            assert_eq!(Entry::parse_all(&vec![0; have]).err(), Some(Malformed { have }));
        }
    }

    proptest! {
        #[test]
        fn what_was_read_is_written_the_same(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(entries) = Entry::parse_all(&octets) {
                let mut again = Vec::new();
                entries.for_each(|entry| entry.emit(&mut again));
                prop_assert_eq!(&again, &octets);
            }
        }
    }
}
