//! The HBH header, version 2.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-+-+-----------+---------------+-------------------------------+
//!  |T|Q|OptionValue|     SeqNb     |            FlowID             |  T  0 HDM (data), 1 HAM (ack)
//!  +-+-+-----------+---------------+---------------+---------------+  Q  RACK in HDM, HCN in HAM
//!  |            checksum           |   OrigProto   |   Reserved    |
//!  +-------------------------------+---------------+---------------+
//!
//!            HDM                                     HAM
//!  Option    lowest outstanding, low 6 bits          number of SACK intervals
//!  SeqNb     this packet                             the next packet expected
//!  OrigProto protocol of the data                    59 nothing follows, 253 another message does
//!  Reserved  repair (1) | bundle (1) | hole (1)      echo (1) | 0 (1) | recovered (6)
//!            | patient (1) | outstanding high (1)
//!            | copy (3)
//!  then      [older: count, (back, len, octets)...]  [echo: seq, copy, delay (2)] intervals (2 each)
//!            data
//!
//!  repair    as an HDM with: SeqNb the first packet covered, then id, octets of mask, mask, sum
//! ```
//!
//! The profile `seed` leaves its reserved bits, and the option value of an HDM, at zero. Several
//! messages may stand in one packet: acknowledgements first, at most one HDM or repair last.

mod ack;
mod data;
mod repair;

pub use self::ack::{ACK, Ack, Echo, INTERVAL, Intervals, MAX_INTERVALS, Transmission};
pub use self::data::{Data, MAX_OLDER, Older, older, push_older};
pub use self::repair::{Mask, REPAIRS, Repair};
use base::ip::Checksum;

/// Octets of the header.
pub const HEADER: usize = 8;
/// The most packets between the lowest outstanding one and any other.
pub const MAX_SPAN: u8 = 127;
/// Copies of a packet are told apart modulo this.
pub const COPIES: u8 = 8;
/// Recovered packets are counted modulo this.
pub const RECOVERED: u8 = 64;
const FLAG_ACK: u8 = 0x80;
const FLAG_REQUEST: u8 = 0x40;
const OPTION: u8 = 0x3f;
const FLAG_REPAIR: u8 = 0x80;

/// The number of a packet within its flow and hop. The order of numbers is circular, so `Seq` has
/// no `Ord`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Seq(pub u8);

impl Seq {
    /// How far `self` lies after `other`; negative when it lies before.
    #[must_use]
    pub fn since(self, other: Self) -> i8 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// The number `n` packets later.
    #[must_use]
    pub fn plus(self, n: u8) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The number `n` packets earlier.
    #[must_use]
    pub fn minus(self, n: u8) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

/// A flow on one hop, numbered by its sender.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowId(pub u16);

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
    /// A mask of no or of too many octets.
    #[error("a mask of {0} octets")]
    Mask(u8),
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
    /// Reads the first of the messages that `octets` are, and returns it with the octets of the others.
    ///
    /// # Errors
    /// When it is cut, damaged, or followed by what cannot be.
    pub fn split_first(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let Some((header, rest)) = octets.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len(), want: HEADER });
        };
        if header[0] & FLAG_ACK != 0 {
            let (ack, rest) = Ack::split_first(*header, octets)?;
            return Ok((Self::Ack(ack), rest));
        }
        if Checksum::default().with(octets).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        let message = if header[7] & FLAG_REPAIR == 0 {
            Self::Data(Data::parse(*header, rest)?)
        } else {
            Self::Repair(Repair::parse(*header, rest)?)
        };
        Ok((message, &[]))
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ack(ack) => ack.emit(out),
            Self::Data(data) => data.emit(out),
            Self::Repair(repair) => repair.emit(out),
        }
    }
}

fn write_checksum(message: &mut [u8]) {
    message[4..6].fill(0);
    let sum = Checksum::default().with(message).finish();
    message[4..6].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
