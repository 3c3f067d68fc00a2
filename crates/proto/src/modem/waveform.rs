//! Waveforms: how many bits go how fast, in which blocks, after which preamble.

use std::time::Duration;

/// A family of waveforms.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Family {
    /// STANAG 4539 and MIL-STD-188-110, 3 kHz, 75 to 9,600 bit/s.
    Stanag4539,
    /// STANAG 5069 and MIL-STD-188-110D appendix D, 48 kHz, up to 240,000 bit/s.
    Wideband48,
}

/// How long bits are spread out in time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Interleaver {
    /// 0.12 s.
    UltraShort,
    /// 0.36 s.
    VeryShort,
    /// About 0.5 to 1 s.
    #[default]
    Short,
    /// About 2 s.
    Medium,
    /// About 4 to 10 s.
    Long,
    /// About 8.6 s.
    VeryLong,
}

/// A waveform that exists.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Waveform {
    family: Family,
    bits_per_s: u32,
    interleaver: Interleaver,
}

/// Why there is no such waveform.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no waveform has this rate with this interleaver")]
pub struct NoSuchWaveform;

impl Waveform {
    /// The waveform of this family.
    ///
    /// # Errors
    /// When the family has none with this rate and interleaver.
    pub fn new(
        _family: Family,
        _bits_per_s: u32,
        _interleaver: Interleaver,
    ) -> Result<Self, NoSuchWaveform> {
        todo!()
    }

    /// The family.
    #[must_use]
    pub fn family(self) -> Family {
        self.family
    }

    /// User bits per second while blocks are sent.
    #[must_use]
    pub fn bits_per_s(self) -> u32 {
        self.bits_per_s
    }

    /// The interleaver.
    #[must_use]
    pub fn interleaver(self) -> Interleaver {
        self.interleaver
    }

    /// User bits of an interleaver block.
    #[must_use]
    pub fn block_bits(self) -> u32 {
        todo!()
    }

    /// How long a block is on the air.
    #[must_use]
    pub fn block_time(self) -> Duration {
        todo!()
    }

    /// How long the preamble is on the air.
    #[must_use]
    pub fn preamble(self) -> Duration {
        todo!()
    }

    /// Bits that the modem adds after the last octet: the end of message and the coder's flush.
    #[must_use]
    pub fn end_bits(self) -> u32 {
        todo!()
    }

    /// Blocks that carry this many octets and the end of message.
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
}
