//! The PDUs of the segmentation/reassembly protocol (MIL-STD-2045-47001D, S/R appendix), octets in and out.
//!
//! ```text
//!   0             15 16            31
//!  +----------------+----------------+    type  PDU                                  HLEN
//!  |  source port   |destination port|    0, 2  data, acknowledged or not            3
//!  +---+----------+-+----------------+    4     partial acknowledgement              3..104
//!  |typ|   HLEN   |P| serial number  |    6     complete acknowledgement             2
//!  +---+----------+-+----------------+    1     abort request                        2
//!  |   what the type has, in words   |    5     abort confirm                        2
//!  +---------------------------------+    3     acknowledgement request              3
//!                                         7     repair: ours, undefined in the standard  5
//!
//!  data       segment number, last segment number | data
//!  partial    starting segment number, mask: bit 0 is that segment, 1 = received | zeros to a word
//!  request    last sent segment number, zeros
//!  repair     first segment, last segment number | segments covered, number |
//!             octets of the last segment, zeros | coded segment
//! ```
//!
//! HLEN counts 32-bit words. P asks for an answer at once; in an answer the same bit, F, marks it as an answer.

mod mask;

pub use mask::{LONGEST_MASK, Mask, MaskBuffer};

/// Octets before the data of a segment.
pub const DATA_HEADER: usize = 12;
/// Octets before the coded segment of a repair.
pub const REPAIR_HEADER: usize = 20;
/// Octets of a partial acknowledgement before the mask.
pub(crate) const PARTIAL_HEADER: usize = 10;
/// Octets that all PDUs have.
const COMMON: usize = 8;
/// Length of a word in octets: the unit of HLEN.
pub(crate) const WORD: usize = 4;
/// Words of the longest header: a mask of 3,248 bits.
const LONGEST_HEADER: u16 = 104;

/// A PDU: what fills a UDP datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pdu<'a> {
    /// Ports of the sending and receiving programs, not of UDP.
    pub ports: Ports,
    /// Which transfer of its originator.
    pub serial: u16,
    /// What it says.
    pub body: Body<'a>,
}

/// Ports of the programs at both ends.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ports {
    /// Port of the sending program.
    pub source: u16,
    /// Port of the destination program.
    pub destination: u16,
}

/// What a PDU says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body<'a> {
    /// The destination ends the transfer, on request.
    AbortConfirm {
        /// Whether it answers a P.
        is_final: bool,
    },
    /// The transfer is over without success.
    AbortRequest {
        /// Whether a confirmation is asked for.
        polls: bool,
    },
    /// The originator asks what has arrived.
    AckRequest {
        /// The highest segment sent so far.
        last_sent: u16,
    },
    /// All has arrived.
    Complete {
        /// Whether it answers a P.
        is_final: bool,
    },
    /// A segment.
    Data {
        /// Whether the originator waits for acknowledgements.
        is_acknowledged: bool,
        /// Whether an answer is asked for now.
        polls: bool,
        /// The segment's number, and the number of segments.
        place: Place,
        /// Its octets, at least one.
        data: &'a [u8],
    },
    /// What has arrived so far.
    Partial {
        /// Whether it answers a P.
        is_final: bool,
        /// Which segments.
        mask: Mask<'a>,
    },
    /// A sum of segments.
    Repair {
        /// Whether an answer is asked for now.
        polls: bool,
        /// The segments in the sum.
        cover: Cover,
        /// The sum.
        symbol: &'a [u8],
    },
}

/// A segment's number, 1 to `last`, which is their count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    number: u16,
    last: u16,
}

/// The segments in a repair, and their coefficients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cover {
    /// The first of them.
    pub first: Place,
    /// Number of consecutive segments; all exist.
    pub span: u16,
    /// The repair's number in the transfer, from which the coefficients follow.
    pub number: u16,
    /// Octets of the transfer's last segment, at most as many as the symbol has.
    pub tail: u16,
}

/// Why octets are not a PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A segment without octets, or a repair without a symbol.
    #[error("there is no data behind the header")]
    Empty,
    /// HLEN does not fit the type.
    #[error("a header of {words} words is not one of type {kind}")]
    HeaderLength {
        /// The type.
        kind: u8,
        /// What HLEN says.
        words: u16,
    },
    /// The mask starts with a segment that it says has arrived, or goes on after segment 65,535.
    #[error("the mask of the segments from {start} on contradicts itself")]
    Mask {
        /// The starting segment number.
        start: u16,
    },
    /// A segment's number is 0, or above the last one.
    #[error("there is no segment {number} of {last}")]
    Number {
        /// The number.
        number: u16,
        /// The last segment number.
        last: u16,
    },
    /// A repair covers no segment, or some that do not exist, or a longer one than itself.
    #[error("a repair cannot cover {span} segments from {first} on")]
    Cover {
        /// The first.
        first: u16,
        /// How many.
        span: u16,
    },
    /// There is more than the PDU.
    #[error("{extra} octets follow the PDU")]
    Trailing {
        /// How much.
        extra: usize,
    },
    /// There is less than the PDU.
    #[error("{have} octets are not the {need} of the header")]
    Truncated {
        /// What is there.
        have: usize,
        /// What must be.
        need: usize,
    },
}

impl Ports {
    /// Those of an answer.
    #[must_use]
    pub const fn swapped(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

impl Place {
    /// Segment `number` of `last`.
    ///
    /// # Errors
    /// If the number is outside the transfer.
    pub const fn new(number: u16, last: u16) -> Result<Self, Malformed> {
        if number == 0 || number > last {
            return Err(Malformed::Number { number, last });
        }
        Ok(Self { number, last })
    }

    /// From 1 on.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.number
    }

    /// The number of the last segment.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether it is the last segment.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.number == self.last
    }
}

impl Cover {
    /// The number of the last segment in the repair.
    #[must_use]
    pub const fn end(self) -> u16 {
        self.first.number + (self.span - 1)
    }
}

impl<'a> Pdu<'a> {
    /// Reads the PDU that fills `octets`.
    ///
    /// # Errors
    /// When they are none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let Some((&[a, b, c, d, e, f, g, h], _)) = octets.split_first_chunk::<COMMON>() else {
            return Err(Malformed::Truncated { have: octets.len(), need: COMMON });
        };
        let ports =
            Ports { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) };
        let control = u16::from_be_bytes([e, f]);
        let (kind, words, flag) = (e >> 5, control >> 1 & 0x0fff, control & 1 == 1);
        let allowed = match kind {
            0 | 2 | 3 => 3..=3,
            4 => 3..=LONGEST_HEADER,
            7 => 5..=5,
            _ => 2..=2,
        };
        if !allowed.contains(&words) {
            return Err(Malformed::HeaderLength { kind, words });
        }
        let need = usize::from(words) * WORD;
        let Some((header, rest)) = octets.split_at_checked(need) else {
            return Err(Malformed::Truncated { have: octets.len(), need });
        };
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let body = match kind {
            0 | 2 => {
                let place = Place::new(half(8), half(10))?;
                if rest.is_empty() {
                    return Err(Malformed::Empty);
                }
                Body::Data { is_acknowledged: kind == 0, polls: flag, place, data: rest }
            }
            7 => Self::repair(flag, [half(8), half(10), half(12), half(14), half(16)], rest)?,
            _ if !rest.is_empty() => return Err(Malformed::Trailing { extra: rest.len() }),
            1 => Body::AbortRequest { polls: flag },
            3 => Body::AckRequest { last_sent: half(8) },
            4 => Body::Partial { is_final: flag, mask: Mask::new(half(8), &header[10..])? },
            5 => Body::AbortConfirm { is_final: flag },
            _ => Body::Complete { is_final: flag },
        };
        Ok(Self { ports, serial: u16::from_be_bytes([g, h]), body })
    }

    fn repair(polls: bool, fields: [u16; 5], symbol: &'a [u8]) -> Result<Body<'a>, Malformed> {
        let [first, last, span, number, tail] = fields;
        let place = Place::new(first, last)?;
        if symbol.is_empty() {
            return Err(Malformed::Empty);
        }
        let exist = span > 0 && span - 1 <= last - first;
        if !exist || tail == 0 || usize::from(tail) > symbol.len() {
            return Err(Malformed::Cover { first, span });
        }
        Ok(Body::Repair { polls, cover: Cover { first: place, span, number, tail }, symbol })
    }

    /// Appends the octets.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (kind, words, flag) = match &self.body {
            Body::AbortConfirm { is_final } => (5, 2, *is_final),
            Body::AbortRequest { polls } => (1, 2, *polls),
            Body::AckRequest { .. } => (3, 3, true),
            Body::Complete { is_final } => (6, 2, *is_final),
            Body::Data { is_acknowledged, polls, .. } => {
                (if *is_acknowledged { 0 } else { 2 }, 3, *polls)
            }
            Body::Partial { is_final, mask } => (4, mask.header_words(), *is_final),
            Body::Repair { polls, .. } => (7, 5, *polls),
        };
        let control = kind << 13 | words << 1 | u16::from(flag);
        halves(out, [self.ports.source, self.ports.destination, control, self.serial]);
        match &self.body {
            Body::AbortConfirm { .. } | Body::AbortRequest { .. } | Body::Complete { .. } => {}
            Body::AckRequest { last_sent } => halves(out, [*last_sent, 0]),
            Body::Data { place, data, .. } => {
                halves(out, [place.number, place.last]);
                out.extend_from_slice(data);
            }
            Body::Partial { mask, .. } => mask.emit(out),
            Body::Repair { cover, symbol, .. } => {
                let Cover { first, span, number, tail } = *cover;
                halves(out, [first.number, first.last, span, number, tail, 0]);
                out.extend_from_slice(symbol);
            }
        }
    }
}

fn halves<const N: usize>(out: &mut Vec<u8>, numbers: [u16; N]) {
    for number in numbers {
        out.extend_from_slice(&number.to_be_bytes());
    }
}
