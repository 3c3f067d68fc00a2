//! The engineering order wire: twelve bits in every frame (Annex C, section 3.2.4 and 5).
//!
//! ```text
//!   11    8 7        0
//!  +-------+----------+
//!  | type  | content  |
//!  +-------+----------+
//! ```

/// The rates that a data rate change can name, in bit/s; the index is the code.
pub const RATES: [u32; 12] = [75, 150, 300, 600, 1200, 2400, 3200, 3600, 4800, 6400, 8000, 9600];

/// A message of the order wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Eow {
    /// Type 4: what the sender can do (Edition 3).
    Capabilities(Capabilities),
    /// Type 15: which extension profiles the sender has (EP7).
    Extensions(Extensions),
    /// Type 7: a high-rate change request; the frame's extended message holds the rest.
    HighRateRequest {
        /// 0 110A, 1 110B, 2 S4285, 3 S4539, 4 S4529, 5 S4415, 6 S4481; 5 bits.
        waveform: u8,
        /// 1 to 8.
        channels: u8,
    },
    /// Type 0: nothing.
    #[default]
    None,
    /// A type without a meaning here: 5, 6 and 8 to 14.
    Other {
        /// The type, 4 bits.
        kind: u8,
        /// The content.
        content: u8,
    },
    /// Type 1: a data rate that is asked for or advised.
    RateRequest(RateRequest),
    /// Type 2: the answer to it.
    RateResponse {
        /// What becomes of the change.
        response: Response,
        /// 0 none, 1 both directions must be equal, 2 cannot change the rate, 3 nor the
        /// interleaver, 4 neither, 5 not consistent with local conditions; 5 bits.
        reason: u8,
    },
    /// Type 3: the sender does not know this type.
    Unrecognised {
        /// The type, 4 bits.
        kind: u8,
    },
}

/// A data rate for the receiver of the frame to transmit with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RateRequest {
    /// Index into [`RATES`], 4 bits.
    pub rate: u8,
    /// 0 none, 1 short, 2 long; 2 bits.
    pub interleaver: u8,
    /// It is advice, and no change to be agreed upon.
    pub is_advice: bool,
    /// Both directions of the sender's modem have one rate.
    pub is_tied: bool,
}

/// The outcome of a data rate change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Response {
    /// It is accepted.
    Accept,
    /// It is off.
    Cancel,
    /// It is done.
    Confirm,
    /// A number without a meaning, 4 to 7.
    Other(u8),
    /// It is refused.
    Refuse,
}

/// What a node can do, a bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities(pub u8);

impl Capabilities {
    /// Data rate changes.
    pub const RATE_CHANGE: Self = Self(0x80);
    /// STANAG 4529.
    pub const S4529: Self = Self(0x40);
    /// MIL-STD-188-110A.
    pub const MIL_110A: Self = Self(0x20);
    /// More than 2400 bit/s.
    pub const HIGH_RATE: Self = Self(0x10);
    /// Transmits and receives at once.
    pub const FULL_DUPLEX: Self = Self(0x08);
    /// Transmits and receives on different frequencies.
    pub const SPLIT_FREQUENCY: Self = Self(0x04);
    /// Automatic link establishment other than STANAG 4538's.
    pub const OTHER_ALE: Self = Self(0x02);
    /// ARCS.
    pub const ARCS: Self = Self(0x01);

    /// Those of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether everything in `other` is included.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Extension profiles, a bit each, from the least significant one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Extensions(pub u8);

impl Extensions {
    /// Padding frames.
    pub const PADDING: Self = Self(0x01);
    /// Data in the same transmission as the link request.
    pub const PIPELINING: Self = Self(0x02);
    /// Rate changes by advice alone.
    pub const ADVICE: Self = Self(0x04);
    /// Long frame numbers.
    pub const LONG_NUMBERS: Self = Self(0x08);
    /// Slotted access.
    pub const SLOTS: Self = Self(0x10);
    /// The end of a transmission is the end of its last block.
    pub const BLOCK_END: Self = Self(0x20);
    /// Compact confirmations.
    pub const COMPACT_CONFIRM: Self = Self(0x40);
    /// Segments of a C_PDU of several lengths.
    pub const VARIABLE_SEGMENTS: Self = Self(0x80);

    /// Those of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether everything in `other` is included.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Eow {
    /// From the type, 4 bits, and the content.
    #[must_use]
    pub fn from_bits(kind: u8, content: u8) -> Self {
        match kind & 0x0f {
            0 => Self::None,
            1 => Self::RateRequest(RateRequest {
                rate: content >> 4,
                interleaver: content >> 2 & 3,
                is_advice: content & 2 != 0,
                is_tied: content & 1 != 0,
            }),
            2 => Self::RateResponse {
                response: match content >> 5 {
                    0 => Response::Accept,
                    1 => Response::Refuse,
                    2 => Response::Cancel,
                    3 => Response::Confirm,
                    other => Response::Other(other),
                },
                reason: content & 0x1f,
            },
            3 => Self::Unrecognised { kind: content & 0x0f },
            4 => Self::Capabilities(Capabilities(content)),
            7 => Self::HighRateRequest {
                waveform: content >> 3,
                channels: if content & 7 == 0 { 8 } else { content & 7 },
            },
            15 => Self::Extensions(Extensions(content)),
            kind => Self::Other { kind, content },
        }
    }

    /// The type, 4 bits, and the content.
    #[must_use]
    pub fn bits(self) -> (u8, u8) {
        match self {
            Self::None => (0, 0),
            Self::RateRequest(RateRequest { rate, interleaver, is_advice, is_tied }) => {
                let other = u8::from(is_advice) << 1 | u8::from(is_tied);
                (1, rate << 4 | (interleaver & 3) << 2 | other)
            }
            Self::RateResponse { response, reason } => {
                let response = match response {
                    Response::Accept => 0,
                    Response::Refuse => 1,
                    Response::Cancel => 2,
                    Response::Confirm => 3,
                    Response::Other(other) => other,
                };
                (2, response << 5 | reason & 0x1f)
            }
            Self::Unrecognised { kind } => (3, kind & 0x0f),
            Self::Capabilities(Capabilities(content)) => (4, content),
            Self::HighRateRequest { waveform, channels } => (7, waveform << 3 | channels & 7),
            Self::Extensions(Extensions(content)) => (15, content),
            Self::Other { kind, content } => (kind & 0x0f, content),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_wire_message_is_read_back() {
        for kind in 0..16 {
            for content in 0..=255 {
                let eow = Eow::from_bits(kind, content);

                let (emitted_kind, emitted) = eow.bits();

                assert_eq!(emitted_kind, kind);
                assert_eq!(Eow::from_bits(kind, emitted), eow);
                assert!(emitted == content || [0, 3].contains(&kind), "{eow:?}");
            }
        }
    }

    #[test]
    fn an_advised_rate_is_the_octets_of_the_standard() {
        let advice = RateRequest { rate: 11, interleaver: 1, is_advice: true, is_tied: false };

        assert_eq!(Eow::RateRequest(advice).bits(), (1, 0xb6));
        assert_eq!(RATES[11], 9600);
    }
}
