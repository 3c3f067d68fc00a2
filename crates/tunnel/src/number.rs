//! The numbers of datagrams: each path to a peer counts its own.
//!
//! ```text
//!   bit 63  62 60   59 56   55                        0
//!      ┌──┬───────┬───────┬────────────────────────────┐
//!      │0 │ zero  │ path  │ sequence on that path      │
//!      └──┴───────┴───────┴────────────────────────────┘
//! ```
//!
//! Path and sequence together are the nonce of the cipher, so no nonce comes twice though paths count by themselves. On
//! the first path, the number is the sequence.

/// Paths to a peer at most.
pub const PATHS: usize = 4;
/// Where the path stands in a number.
const SHIFT: u32 = 56;
const SEQUENCE: u64 = (1 << SHIFT) - 1;

/// One of the paths to a peer, by its place in the order in which both ends configure them.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct PathId(u8);

impl PathId {
    /// The path on which keys are agreed on.
    pub const FIRST: Self = Self(0);

    /// The path at a place; `None` from [`PATHS`] on.
    #[must_use]
    pub fn new(place: usize) -> Option<Self> {
        u8::try_from(place).ok().filter(|_| place < PATHS).map(Self)
    }

    /// Its place.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The path of datagram `number`; `None` from [`PATHS`] on.
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        Self::new(usize::try_from(number >> SHIFT).ok()?)
    }

    /// The number of datagram `sequence` on the path.
    #[must_use]
    pub fn number(self, sequence: u64) -> u64 {
        u64::from(self.0) << SHIFT | sequence & SEQUENCE
    }

    /// All possible paths.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PATHS).filter_map(Self::new)
    }
}

/// The sequence in a number.
pub fn sequence(number: u64) -> u64 {
    number & SEQUENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_different_paths_differ() {
        let paths: Vec<_> = PathId::all().collect();
        assert_eq!(paths.len(), PATHS);

        for path in paths {
            for counted in [0, 1, SEQUENCE] {
                let number = path.number(counted);
                assert_eq!((PathId::of(number), sequence(number)), (Some(path), counted));
            }
        }
        assert_eq!(PathId::FIRST.number(7), 7);
        assert_eq!(PathId::of(1 << 59), None);
        assert_eq!(PathId::new(PATHS), None);
    }
}
