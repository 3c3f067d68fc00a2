//! Contents of acknowledgements: bitmaps of the standard, and lists for windows of thousands.

use super::{CpduSegment, Fsn, Numbers};

/// The most octets of a bitmap in a header.
pub const MAX_BITMAP: usize = 16;

/// An acknowledgement in a header (Annex C, section 3.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack<'a> {
    /// The oldest frame that has not arrived.
    pub lwe: Fsn,
    /// From `lwe + 1` on, least significant bit first: what has arrived. At most [`MAX_BITMAP`]
    /// octets.
    pub bitmap: &'a [u8],
}

impl<'a> Ack<'a> {
    /// What it says. With long numbers a full bitmap says nothing of what lies after it.
    #[must_use]
    pub fn report(&self, numbers: Numbers) -> Report<'a> {
        let is_last = match numbers {
            Numbers::Long => self.bitmap.len() < MAX_BITMAP,
            Numbers::Short => true,
        };
        let base = numbers.fsn(u64::from(self.lwe.0) + 1);
        let (octets, coding) = (self.bitmap, Coding::Bitmap);
        Report { numbers, lwe: self.lwe, base, coding, octets, is_last }
    }

    pub(crate) fn emit(&self, numbers: Numbers, out: &mut Vec<u8>) {
        debug_assert!(self.bitmap.len() <= MAX_BITMAP, "it fits a header");
        numbers.emit(self.lwe, out);
        out.extend_from_slice(self.bitmap);
    }
}

/// An acknowledgement with a list as long as a segment; several cover a window. The format is ours: the text of EP5
/// about this is not public.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LongAck<'a> {
    /// The oldest frame that has not arrived.
    pub lwe: Fsn,
    /// The first frame of the list, not before `lwe`.
    pub base: Fsn,
    /// Nothing has arrived of what lies after the list.
    pub is_last: bool,
    /// How the list is written.
    pub coding: Coding,
    /// The list; an empty one has no check sum.
    pub list: CpduSegment<'a>,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Coding {
    /// A bit a frame, least significant first, 1 for one that has arrived.
    Bitmap,
    /// Lengths of runs, alternately of missing and of arrived frames, missing first; seven bits an octet, the high
    /// ones first, bit 7 set in all but the last octet.
    Runs,
}

impl<'a> LongAck<'a> {
    /// What it says; with a bad list, nothing beyond the lower edge.
    #[must_use]
    pub fn report(&self) -> Report<'a> {
        let octets = if self.list.is_good { self.list.octets } else { &[] };
        Report {
            numbers: Numbers::Long,
            lwe: self.lwe,
            base: self.base,
            coding: self.coding,
            octets,
            is_last: self.is_last && self.list.is_good,
        }
    }
}

/// What an acknowledgement says, whatever frame it came in.
///
/// All before `lwe` has arrived, `lwe` has not. The runs tell of the frames from `base` on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Report<'a> {
    /// How long the numbers are.
    pub numbers: Numbers,
    /// The oldest frame that has not arrived.
    pub lwe: Fsn,
    /// Where the runs begin.
    pub base: Fsn,
    /// Nothing has arrived of what lies after the runs.
    pub is_last: bool,
    coding: Coding,
    octets: &'a [u8],
}

impl<'a> Report<'a> {
    /// The runs, from `base` on; none is empty.
    #[must_use]
    pub fn runs(&self) -> Runs<'a> {
        Runs { coding: self.coding, octets: self.octets, bit: 0, has_arrived: false }
    }
}

/// Frames next to each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// Whether they have arrived or are missing.
    pub has_arrived: bool,
    /// How many they are.
    pub len: u32,
}

/// Goes through the runs of a report.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    coding: Coding,
    octets: &'a [u8],
    /// Bits read of the first octet.
    bit: u32,
    /// Whether the next run is of arrived frames.
    has_arrived: bool,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        match self.coding {
            Coding::Bitmap => self.next_bits(),
            Coding::Runs => self.next_length(),
        }
    }
}

impl Runs<'_> {
    fn next_bits(&mut self) -> Option<Run> {
        let has_arrived = self.octets.first()? >> self.bit & 1 == 1;
        let mut len = 0;
        while let Some((&octet, rest)) = self.octets.split_first() {
            let flipped = if has_arrived { !octet } else { octet };
            let same = (flipped >> self.bit).trailing_zeros().min(8 - self.bit);
            len += same;
            self.bit += same;
            if self.bit < 8 {
                break;
            }
            (self.bit, self.octets) = (0, rest);
        }
        Some(Run { has_arrived, len })
    }

    fn next_length(&mut self) -> Option<Run> {
        while !self.octets.is_empty() {
            let has_arrived = self.has_arrived;
            self.has_arrived = !has_arrived;
            let mut len: u32 = 0;
            while let Some((&octet, rest)) = self.octets.split_first() {
                self.octets = rest;
                // Nothing is longer than the circle of numbers, so what is cut off is hostile.
                len = len.saturating_mul(1 << 7).saturating_add(u32::from(octet & 0x7f));
                if octet & 0x80 == 0 {
                    break;
                }
            }
            if len > 0 {
                return Some(Run { has_arrived, len });
            }
        }
        None
    }
}

/// Appends a length in the coding of a list of runs.
pub(crate) fn emit_length(len: u32, out: &mut Vec<u8>) {
    let octets = length_octets(len);
    for index in (0..octets).rev() {
        let [bits, ..] = (len >> (7 * index)).to_le_bytes();
        let more = if index > 0 { 0x80 } else { 0 };
        out.push(bits & 0x7f | more);
    }
}

/// Octets of a length.
pub(crate) const fn length_octets(len: u32) -> usize {
    match len {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 5,
    }
}
