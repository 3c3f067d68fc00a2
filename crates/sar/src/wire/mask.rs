//! The mask of a partial acknowledgement: one bit per arrived segment.

use super::{Malformed, WORD};

/// Bits of the longest mask.
pub const LONGEST_MASK: u16 = 3_248;
/// Octets of the longest mask: those bits, in the half word after the starting number and 101 words.
const LONGEST: usize = 406;

/// All segments below `start` have arrived, `start` has not, and bits describe the segments from
/// `start` on.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    start: u16,
    /// Two octets, and four for each further word.
    octets: &'a [u8],
}

/// A mask that is being made.
#[derive(Clone, Debug)]
pub struct MaskBuffer {
    start: u16,
    len: usize,
    octets: [u8; LONGEST],
}

impl<'a> Mask<'a> {
    /// `octets` are what follows the starting number, up to the end of the header.
    pub(crate) fn new(start: u16, octets: &'a [u8]) -> Result<Self, Malformed> {
        let mask = Self { start, octets };
        let is_first_there = octets.first().is_some_and(|octet| octet & 0x80 != 0);
        if start == 0 || is_first_there || mask.highest().is_none() {
            return Err(Malformed::Mask { start });
        }
        Ok(mask)
    }

    /// The lowest segment that has not arrived.
    #[must_use]
    pub const fn start(&self) -> u16 {
        self.start
    }

    /// The segments from the start on that have arrived, in order.
    pub fn arrived(&self) -> impl Iterator<Item = u16> + use<'a> {
        let (start, octets) = (self.start, self.octets);
        octets.iter().enumerate().filter(|(_, octet)| **octet != 0).flat_map(move |(at, octet)| {
            (0..8_u16).filter(move |bit| octet & 0x80 >> bit != 0).filter_map(move |bit| {
                u16::try_from(at * 8).ok().and_then(|at| start.checked_add(at)?.checked_add(bit))
            })
        })
    }

    /// The highest segment that has arrived, 0 if none has; `None` if it had a number above 65,535.
    fn highest(&self) -> Option<u16> {
        let Some(at) = self.octets.iter().rposition(|octet| *octet != 0) else {
            return self.start.checked_sub(1);
        };
        let bit = 7 - self.octets[at].trailing_zeros();
        let offset = at * 8 + usize::try_from(bit).ok()?;
        self.start.checked_add(u16::try_from(offset).ok()?)
    }

    /// The highest segment that has arrived; 0 when none has.
    #[must_use]
    pub fn highest_arrived(&self) -> u16 {
        self.highest().unwrap_or(0)
    }

    /// Whether nothing at all has arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.highest_arrived() == 0
    }

    /// Length of a header with this mask, in words.
    pub(crate) fn header_words(&self) -> u16 {
        let words = (super::COMMON + 2 + self.octets.len()) / WORD;
        u16::try_from(words).expect("a mask has at most 406 octets")
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start.to_be_bytes());
        out.extend_from_slice(self.octets);
    }
}

/// Masks are equal that tell the same, however many zeros they end with.
impl PartialEq for Mask<'_> {
    fn eq(&self, other: &Self) -> bool {
        let cut =
            |octets: &[u8]| octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        self.start == other.start
            && self.octets[..cut(self.octets)] == other.octets[..cut(other.octets)]
    }
}

impl Eq for Mask<'_> {}

impl MaskBuffer {
    /// A mask in which nothing from `start` on has arrived.
    #[must_use]
    pub const fn new(start: u16) -> Self {
        Self { start, len: 2, octets: [0; LONGEST] }
    }

    /// Segment `number` has arrived, if it is above the start and in reach of the longest mask.
    pub fn set(&mut self, number: u16) {
        let Some(offset) = number.checked_sub(self.start) else { return };
        if offset == 0 || offset >= LONGEST_MASK {
            return;
        }
        let at = usize::from(offset / 8);
        self.octets[at] |= 0x80 >> (offset % 8);
        // Two octets are the rest of the first word.
        let words = (at + 2) / WORD;
        self.len = self.len.max(2 + words * WORD);
    }

    /// It as it is sent.
    #[must_use]
    pub fn mask(&self) -> Mask<'_> {
        Mask { start: self.start, octets: &self.octets[..self.len] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_empty_where_nothing_has_arrived() {
        let mut mask = MaskBuffer::new(1);
        assert!(mask.mask().is_empty());
        mask.set(9);
        assert!(!mask.mask().is_empty());
        assert!(!MaskBuffer::new(2).mask().is_empty(), "the first");
    }
}
