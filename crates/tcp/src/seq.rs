//! Sequence numbers as positions in the whole stream.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use base::serial;

/// A place in the sequence space that does not wrap: the wire carries its low 32 bits.
///
/// Being 64 bits wide it has an ordinary order, so no window arithmetic is circular. It starts
/// one turn above zero, where a little can be taken away from any place.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Seq(u64);

impl Seq {
    /// The place of an initial sequence number.
    pub fn initial(wire: u32) -> Self {
        Self((1 << 32) | u64::from(wire))
    }

    /// The place nearest to `self` that the wire writes as `wire`.
    pub fn nearest(self, wire: u32) -> Self {
        Self(serial::expand(wire, u32::BITS, self.0))
    }

    /// What the wire carries.
    pub fn wire(self) -> u32 {
        serial::low32(self.0)
    }

    /// Octets from `earlier` to here; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// As `since`, for an index into a buffer.
    pub fn offset_from(self, earlier: Self) -> usize {
        usize::try_from(self.since(earlier)).unwrap_or(usize::MAX)
    }
}

impl Add<u64> for Seq {
    type Output = Self;

    fn add(self, octets: u64) -> Self {
        Self(self.0.saturating_add(octets))
    }
}

impl Sub<u64> for Seq {
    type Output = Self;

    fn sub(self, octets: u64) -> Self {
        Self(self.0.saturating_sub(octets))
    }
}

impl AddAssign<u64> for Seq {
    fn add_assign(&mut self, octets: u64) {
        *self = *self + octets;
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.wire().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_crosses_the_wrap_both_ways() {
        let late = Seq::initial(0xffff_fff0);
        let early = Seq::initial(5);

        assert_eq!(late.nearest(0x10).since(late), 0x20);
        assert_eq!(early.since(early.nearest(0xffff_fffb)), 10);
        assert_eq!(late.nearest(0x10).wire(), 0x10);
    }
}
