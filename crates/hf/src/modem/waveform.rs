//! Waveforms: how many bits go how fast, in which blocks, after which preamble.
//!
//! ```text
//!  | preamble | block | block | ... | block |      whole interleaver blocks
//!               user bits ──────────▶ end of message, flush, fill
//! ```
//!
//! | bit/s                  | interleavers                          | source                    |
//! |------------------------|---------------------------------------|---------------------------|
//! | 75, 150, …, 2,400      | short 0.6 s, long 4.8 s               | MIL-STD-188-110C 5.3.2    |
//! | 3,200, 4,800, …, 9,600 | 1, 3, 9, 18, 36 or 72 frames of 0.12 s | appendix C; STANAG 4539  |
//! | 48 kHz, to 240,000     | 0.16, 0.48, 1.92 or 7.68 s            | MIL-STD-188-110D app. D   |

mod name;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use name::{NotAWaveform, NotAnInterleaver};

/// A family of waveforms.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Family {
    /// STANAG 4539 and MIL-STD-188-110, 3 kHz, 75 to 9,600 bit/s.
    Stanag4539,
    /// STANAG 5069 and MIL-STD-188-110D appendix D, 48 kHz, 1,200 to 240,000 bit/s.
    Wideband48,
}

/// How long bits are spread out in time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Interleaver {
    /// 0.12 to 0.16 s.
    UltraShort,
    /// 0.36 s.
    VeryShort,
    /// 0.48 to 1.08 s.
    #[default]
    Short,
    /// About 2 s.
    Medium,
    /// 4.3 to 7.7 s.
    Long,
    /// 8.64 s.
    VeryLong,
}

/// A waveform that exists.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Waveform {
    family: Family,
    bits_per_s: u32,
    interleaver: Interleaver,
}

/// Why a requested waveform does not exist.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoSuchWaveform {
    /// The rate has other interleavers.
    #[error(
        "no {bits_per_s} bit/s with {interleaver} interleaver, only {}",
        name::list(family.interleavers(*bits_per_s))
    )]
    Interleaver {
        /// The family.
        family: Family,
        /// The rate, which exists.
        bits_per_s: u32,
        /// The interleaver missing at this rate.
        interleaver: Interleaver,
    },
    /// The family has other rates.
    #[error("no {bits_per_s} bit/s in {family}, only {}", name::list(family.rates()))]
    Rate {
        /// The family.
        family: Family,
        /// The rate missing in this family.
        bits_per_s: u32,
    },
}

impl Family {
    /// All families.
    pub const ALL: [Self; 2] = [Self::Stanag4539, Self::Wideband48];

    /// The rates that it has, in bit/s, the slowest first.
    #[must_use]
    pub const fn rates(self) -> &'static [u32] {
        match self {
            Self::Stanag4539 => {
                &[75, 150, 300, 600, 1_200, 2_400, 3_200, 4_800, 6_400, 8_000, 9_600]
            }
            // MIL-STD-188-110D, table D-II, the row of 48 kHz.
            Self::Wideband48 => &[
                1_200, 2_400, 4_800, 9_600, 16_000, 24_000, 48_000, 72_000, 96_000, 120_000,
                144_000, 192_000, 240_000,
            ],
        }
    }

    /// The interleavers that a rate has, the shortest first; none for a rate that does not exist.
    #[must_use]
    pub fn interleavers(self, bits_per_s: u32) -> &'static [Interleaver] {
        use Interleaver::{Long, Medium, Short, UltraShort, VeryLong, VeryShort};

        if !self.rates().contains(&bits_per_s) {
            return &[];
        }
        match self {
            Self::Stanag4539 if bits_per_s <= FASTEST_110A => &[Short, Long],
            Self::Stanag4539 => &[UltraShort, VeryShort, Short, Medium, Long, VeryLong],
            // Walsh modulation has no ultra short interleaver (table D-XXXVII).
            Self::Wideband48 if bits_per_s == SLOWEST_WIDEBAND => &[Short, Medium, Long],
            Self::Wideband48 => &[UltraShort, Short, Medium, Long],
        }
    }
}

impl Interleaver {
    /// All interleavers, the shortest first.
    pub const ALL: [Self; 6] =
        [Self::UltraShort, Self::VeryShort, Self::Short, Self::Medium, Self::Long, Self::VeryLong];
}

impl Waveform {
    /// The waveform of this family.
    ///
    /// # Errors
    /// When the family has none with this rate and interleaver.
    pub fn new(
        family: Family,
        bits_per_s: u32,
        interleaver: Interleaver,
    ) -> Result<Self, NoSuchWaveform> {
        match family.interleavers(bits_per_s) {
            [] => Err(NoSuchWaveform::Rate { family, bits_per_s }),
            some if some.contains(&interleaver) => Ok(Self { family, bits_per_s, interleaver }),
            _ => Err(NoSuchWaveform::Interleaver { family, bits_per_s, interleaver }),
        }
    }

    /// All waveforms of a family, the slowest first.
    pub fn all(family: Family) -> impl Iterator<Item = Self> {
        family.rates().iter().flat_map(move |&bits_per_s| {
            family.interleavers(bits_per_s).iter().map(move |&interleaver| Self {
                family,
                bits_per_s,
                interleaver,
            })
        })
    }

    /// The waveform with this rate and this many bits in a block.
    #[must_use]
    pub fn of_block(bits_per_s: u32, block_bits: u32) -> Option<Self> {
        let mut all = Family::ALL.into_iter().flat_map(Self::all);
        all.find(|other| (other.bits_per_s(), other.block_bits()) == (bits_per_s, block_bits))
    }

    /// The waveform with the next higher rate and, as nearly as may be, this interleaver.
    #[must_use]
    pub fn faster(self) -> Option<Self> {
        let rate = self.family.rates().iter().find(|&&rate| rate > self.bits_per_s)?;
        self.at_rate(*rate)
    }

    /// The waveform with the next lower rate and, as nearly as may be, this interleaver.
    #[must_use]
    pub fn slower(self) -> Option<Self> {
        let rate = self.family.rates().iter().rev().find(|&&rate| rate < self.bits_per_s)?;
        self.at_rate(*rate)
    }

    /// The waveform of the same family at another rate, with the nearest interleaver.
    #[must_use]
    pub fn at_rate(self, bits_per_s: u32) -> Option<Self> {
        let there = self.family.interleavers(bits_per_s).iter();
        let distance = |other: Interleaver| (other as u8).abs_diff(self.interleaver as u8);
        let interleaver = *there.min_by_key(|&&other| distance(other))?;
        Some(Self { bits_per_s, interleaver, ..self })
    }

    /// The family.
    #[must_use]
    pub const fn family(self) -> Family {
        self.family
    }

    /// User bits per second while blocks are sent.
    #[must_use]
    pub const fn bits_per_s(self) -> u32 {
        self.bits_per_s
    }

    /// The interleaver.
    #[must_use]
    pub const fn interleaver(self) -> Interleaver {
        self.interleaver
    }

    /// User bits of an interleaver block.
    #[must_use]
    pub const fn block_bits(self) -> u32 {
        // Exact: every rate is a multiple of 25 bit/s, every block one of 40 ms.
        self.bits_per_s / 25 * (self.block_ms() / 40)
    }

    /// How long a block is on the air.
    ///
    /// From 3,200 to 9,600 bit/s this counts the 72 symbols that come again after every 72 frames
    /// of 287 symbols, evenly, which makes a frame 0.12 s and the rate exact.
    #[must_use]
    pub const fn block_time(self) -> Duration {
        Duration::from_millis(self.block_ms() as u64)
    }

    /// How long the preamble is on the air, without symbols for level control.
    #[must_use]
    pub const fn preamble(self) -> Duration {
        match (self.family, self.interleaver) {
            // 3 or 24 segments of 480 symbols at 2,400 Bd (MIL-STD-188-110C, 5.3.2.3.7.1).
            (Family::Stanag4539, Interleaver::Long) if self.is_110a() => {
                Duration::from_millis(4_800)
            }
            (Family::Stanag4539, _) if self.is_110a() => Duration::from_millis(600),
            // 287 symbols (appendix C.5.2.1).
            (Family::Stanag4539, _) => Duration::from_nanos(287 * 1_000_000_000 / 2_400),
            // One super-frame of 10 Walsh symbols of 512 chips, or three of 18 (appendix D.5.2.1).
            (Family::Wideband48, Interleaver::Medium | Interleaver::Long) => {
                Duration::from_nanos(3 * 18 * 512 * 1_000_000_000 / 38_400)
            }
            (Family::Wideband48, _) => Duration::from_nanos(10 * 512 * 1_000_000_000 / 38_400),
        }
    }

    /// Bits that the modem adds after the last octet: the end of message, and up to 2,400 bit/s
    /// what flushes the coder; the other codes bite their tails.
    #[must_use]
    pub const fn end_bits(self) -> u32 {
        if self.is_110a() { END_OF_MESSAGE + FLUSH } else { END_OF_MESSAGE }
    }

    /// Blocks needed for this many octets and the end of message.
    #[must_use]
    pub fn blocks(self, octets: usize) -> u32 {
        let bits = octets as u64 * 8 + u64::from(self.end_bits());
        u32::try_from(bits.div_ceil(u64::from(self.block_bits()))).unwrap_or(u32::MAX)
    }

    /// Octets that fill this many blocks and leave room for the end of message.
    #[must_use]
    pub fn octets(self, blocks: u32) -> usize {
        let bits = u64::from(blocks) * u64::from(self.block_bits());
        usize::try_from(bits.saturating_sub(u64::from(self.end_bits())) / 8).unwrap_or(usize::MAX)
    }

    /// How long a transmission of this many octets is on the air.
    #[must_use]
    pub fn air_time(self, octets: usize) -> Duration {
        self.preamble() + self.block_time() * self.blocks(octets)
    }

    /// The rate as data rate changes write it: STANAG 5066 Annex C, the EOW of type 1.
    #[must_use]
    pub fn rate_code(self) -> Option<u8> {
        if self.family != Family::Stanag4539 {
            return None;
        }
        let code = RATE_CODES.iter().position(|&rate| rate == self.bits_per_s)?;
        u8::try_from(code).ok()
    }

    /// The interleaver as data rate changes write it; only short and long have codes.
    #[must_use]
    pub const fn interleaver_code(self) -> Option<u8> {
        match self.interleaver {
            Interleaver::Short => Some(1),
            Interleaver::Long => Some(2),
            Interleaver::UltraShort
            | Interleaver::VeryShort
            | Interleaver::Medium
            | Interleaver::VeryLong => None,
        }
    }

    /// The waveform named by a data rate change, if any.
    #[must_use]
    pub fn of_codes(rate: u8, interleaver: u8) -> Option<Self> {
        let bits_per_s = *RATE_CODES.get(usize::from(rate))?;
        let interleaver = match interleaver {
            1 => Interleaver::Short,
            2 => Interleaver::Long,
            _ => return None,
        };
        Self::new(Family::Stanag4539, bits_per_s, interleaver).ok()
    }

    const fn is_110a(self) -> bool {
        matches!(self.family, Family::Stanag4539) && self.bits_per_s <= FASTEST_110A
    }

    const fn block_ms(self) -> u32 {
        match self.family {
            Family::Stanag4539 if self.is_110a() => match self.interleaver {
                Interleaver::Long => 4_800,
                _ => 600,
            },
            Family::Stanag4539 => {
                120 * match self.interleaver {
                    Interleaver::UltraShort => 1,
                    Interleaver::VeryShort => 3,
                    Interleaver::Short => 9,
                    Interleaver::Medium => 18,
                    Interleaver::Long => 36,
                    Interleaver::VeryLong => 72,
                }
            }
            // Frames of 80 ms. The numbers of frames are ours: those that come nearest to the
            // times at 3 kHz (table D-XXXVII); for want of a half frame 0.12 s became 0.16 s.
            Family::Wideband48 => {
                80 * match self.interleaver {
                    Interleaver::UltraShort | Interleaver::VeryShort => 2,
                    Interleaver::Short => 6,
                    Interleaver::Medium => 24,
                    Interleaver::Long | Interleaver::VeryLong => 96,
                }
            }
        }
    }
}

/// Up to here, the single tone waveform of MIL-STD-188-110A.
const FASTEST_110A: u32 = 2_400;
/// The only wideband rate with Walsh modulation.
const SLOWEST_WIDEBAND: u32 = 1_200;
/// Bits of the pattern that ends a message, `0x4b65a5b2`.
const END_OF_MESSAGE: u32 = 32;
/// MIL-STD-188-110C, 5.3.2.3.2: bits that flush the coder.
const FLUSH: u32 = 144;
/// STANAG 5066 Annex C, 3.5: what the codes 0 to 11 stand for.
const RATE_CODES: [u32; 12] =
    [75, 150, 300, 600, 1_200, 2_400, 3_200, 3_600, 4_800, 6_400, 8_000, 9_600];
