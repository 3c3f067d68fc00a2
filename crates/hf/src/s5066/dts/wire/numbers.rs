//! Sequence numbers of frames: of 8 bits in Edition 3 (Annex C, section 3.3), of 16 with EP5.

/// How long the numbers of frames are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Numbers {
    /// 16 bits (EP5), windows to 32 768.
    Long,
    /// 8 bits, windows to 128.
    #[default]
    Short,
}

impl Numbers {
    /// The largest window: half of the numbers (Annex C, section 6.2).
    #[must_use]
    pub const fn max_window(self) -> u32 {
        match self {
            Self::Long => 1 << 15,
            Self::Short => 1 << 7,
        }
    }

    /// How the frame that is the `absolute`th since the last reset is numbered.
    #[must_use]
    pub const fn fsn(self, absolute: u64) -> Fsn {
        let [low, high, ..] = absolute.to_le_bytes();
        match self {
            Self::Long => Fsn(u16::from_le_bytes([low, high])),
            Self::Short => Fsn(low as u16),
        }
    }

    /// Octets of a number.
    pub(crate) const fn octets(self) -> usize {
        match self {
            Self::Long => 2,
            Self::Short => 1,
        }
    }

    pub(crate) fn emit(self, fsn: Fsn, out: &mut Vec<u8>) {
        out.extend_from_slice(&fsn.0.to_be_bytes()[2 - self.octets()..]);
    }

    /// How far `to` lies after `from`, going round.
    #[must_use]
    pub const fn distance(self, from: Fsn, to: Fsn) -> u32 {
        let distance = to.0.wrapping_sub(from.0);
        match self {
            Self::Long => distance as u32,
            Self::Short => (distance & 0xff) as u32,
        }
    }
}

/// The number of a frame; short numbers are below 256. Numbers go round, hence no `Ord`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Fsn(pub u16);
