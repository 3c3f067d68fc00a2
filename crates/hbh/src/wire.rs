//! The messages of HBH: version 3 of the wire, and the layout of the paper.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-+-+-----------+---------------+-------------------------------+
//!  |T|   flags     |   protocol    |            FlowID             |  T  0 HDM (data), 1 HAM (ack)
//!  +-+-+-----------+---------------+-------------------------------+
//!  |            checksum           |             SeqNb             |
//!  +-------------------------------+-------------------------------+
//!
//!            HDM                                       HAM
//!  flags     RACK (1) | repair (1) | bundle (1)        HCN (1) | number of SACK intervals (6)
//!            | hole (1) | patient (1) | repeat (1)
//!            | outstanding (1)
//!  protocol  of the data                               59 nothing follows, 253 another message does
//!  SeqNb     this packet                               the next packet expected
//!  then      [repeat (2)] [outstanding (2)]            echo (1) | repeat (1) | recovered (6)
//!            [older: count, (back, len, octets)...]    [echo: SeqNb or repeat (2), delay (2)]
//!            data                                      intervals (2 each)
//!
//!  repair    as an HDM with: SeqNb the first packet covered, its repeat number, mask, sum; the low
//!            four flags are the octets of the mask less one
//! ```
//!
//! The first transmission of a packet has the packet's number as its name, each other transmission a
//! number of its own: no two that may meet in the network share a name. Several messages may stand in one
//! packet: acknowledgements first, at most one HDM or repair last.
//!
//! The layout of the paper has numbers of eight bits: T, Q and OptionValue, SeqNb (1), FlowID (2),
//! checksum (2), protocol (1), reserved (1), and knows neither echo nor repair.

mod ack;
mod data;
mod repair;

pub use self::ack::{ACK, Ack, Echo, INTERVAL, Intervals, MAX_INTERVALS};
pub use self::data::{Data, MAX_BACK, MAX_OLDER, Older, older, push_older};
pub use self::repair::{MAX_MASK, Mask, Repair};
use base::ip::Checksum;

/// Octets of the header.
pub const HEADER: usize = 8;
/// Octets of the number of a repeat, and of the distance to the lowest outstanding packet.
pub const EXTRA: usize = 2;
/// Recovered packets are counted modulo this.
pub const RECOVERED: u8 = 64;
const FLAG_ACK: u8 = 0x80;
const FLAG_REQUEST: u8 = 0x40;
const FLAG_REPAIR: u8 = 0x20;
const CHECKSUM: std::ops::Range<usize> = 4..6;

/// How messages are laid out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Layout {
    /// Version 3: numbers of 16 bits.
    #[default]
    Wide,
    /// The paper's: numbers of 8 bits.
    Paper,
}

/// The low bits of the number of a packet or repeat, as sent on the wire.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Seq(pub u16);

impl Layout {
    /// The most packets between the lowest outstanding one and any other.
    #[must_use]
    pub fn span(self) -> usize {
        match self {
            Self::Paper => 127,
            Self::Wide => 16_384,
        }
    }

    /// The most octets before a packet's data.
    #[must_use]
    pub fn overhead(self) -> usize {
        match self {
            Self::Paper => HEADER,
            Self::Wide => HEADER + 2 * EXTRA,
        }
    }

    /// The low bits of a number.
    #[must_use]
    pub fn low(self, number: u64) -> Seq {
        let [a, b, ..] = number.to_le_bytes();
        match self {
            Self::Paper => Seq(a.into()),
            Self::Wide => Seq(u16::from_le_bytes([a, b])),
        }
    }

    /// The number with these low bits that is closest to `near`.
    #[must_use]
    pub fn complete(self, Seq(low): Seq, near: u64) -> u64 {
        let [a, b, ..] = near.to_le_bytes();
        let ahead = match self {
            Self::Paper => low.to_le_bytes()[0].wrapping_sub(a).cast_signed().into(),
            Self::Wide => i64::from(low.wrapping_sub(u16::from_le_bytes([a, b])).cast_signed()),
        };
        near.saturating_add_signed(ahead)
    }
}

/// A flow on one hop, numbered by its sender.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowId(pub u16);

/// The name of a transmission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transmission {
    /// The first transmission of the packet with this number.
    First(Seq),
    /// A repeat of a packet, or a repair, by its own number.
    Repeat(Seq),
}

/// One HBH message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message<'a> {
    /// HAM, an acknowledgement.
    Ack(Ack<'a>),
    /// HDM, a packet.
    Data(Data<'a>),
    /// A sum of packets.
    Repair(Repair<'a>),
}

/// Why octets are not HBH.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// An older packet does not precede its carrier.
    #[error("an older packet {0} numbers back")]
    Back(u8),
    /// The checksum does not match.
    #[error("wrong HBH checksum")]
    Checksum,
    /// What follows an acknowledgement is neither nothing nor a message.
    #[error("protocol {0} cannot follow an acknowledgement")]
    Follower(u8),
    /// More older packets than may ride.
    #[error("{0} older packets")]
    TooMany(u8),
    /// There are too few octets.
    #[error("{have} octets, {want} needed")]
    Truncated {
        /// What is there.
        have: usize,
        /// Octets taken by the header, or by what the header announces.
        want: usize,
    },
    /// Octets follow that nothing announced.
    #[error("{0} octets too many")]
    Trailing(usize),
}

impl<'a> Message<'a> {
    /// Reads the first message in `octets`, and returns the message with the octets of the following messages.
    ///
    /// # Errors
    /// When it is cut, damaged, or followed by what cannot be.
    pub fn split_first(layout: Layout, octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let Some((header, rest)) = octets.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len(), want: HEADER });
        };
        if header[0] & FLAG_ACK != 0 {
            let (own, after) = octets.split_at(Self::len_of_ack(layout, octets)?);
            if Checksum::default().with(own).finish() != 0 {
                return Err(Malformed::Checksum);
            }
            return Ok((Self::Ack(Ack::parse(layout, own, after)?), after));
        }
        if Checksum::default().with(octets).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        let message = match layout {
            Layout::Paper => Self::Data(Data::parse_paper(*header, rest)),
            Layout::Wide if header[0] & FLAG_REPAIR != 0 => {
                Self::Repair(Repair::parse(*header, rest)?)
            }
            Layout::Wide => Self::Data(Data::parse(*header, rest)?),
        };
        Ok((message, &[]))
    }

    /// The protocol and the beginning of the data that a packet's messages carry, unchecked; `None` where
    /// there is none. A repair has no protocol.
    #[must_use]
    pub fn carried(layout: Layout, mut octets: &'a [u8]) -> Option<(Option<u8>, &'a [u8])> {
        loop {
            let (header, rest) = octets.split_first_chunk::<HEADER>()?;
            if header[0] & FLAG_ACK != 0 {
                octets = &octets[Self::len_of_ack(layout, octets).ok()?..];
                continue;
            }
            return match layout {
                Layout::Paper => {
                    let data = Data::parse_paper(*header, rest);
                    Some((Some(data.protocol), data.payload))
                }
                Layout::Wide if header[0] & FLAG_REPAIR != 0 => Some((None, rest)),
                Layout::Wide => {
                    let data = Data::parse(*header, rest).ok()?;
                    Some((Some(data.protocol), data.payload))
                }
            };
        }
    }

    /// Octets of the acknowledgement at the beginning of `octets`.
    fn len_of_ack(layout: Layout, octets: &[u8]) -> Result<usize, Malformed> {
        let want = ack::len_of(layout, octets)?;
        let have = octets.len();
        if have < want { Err(Malformed::Truncated { have, want }) } else { Ok(want) }
    }

    /// Appends the message.
    pub fn emit(&self, layout: Layout, out: &mut Vec<u8>) {
        match self {
            Self::Ack(ack) => ack.emit(layout, out),
            Self::Data(data) => data.emit(layout, out),
            Self::Repair(repair) => repair.emit(out),
        }
    }
}

fn write_checksum(message: &mut [u8]) {
    message[CHECKSUM].fill(0);
    let sum = Checksum::default().with(message).finish();
    message[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
