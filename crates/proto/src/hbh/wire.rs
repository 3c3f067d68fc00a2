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

use std::fmt;
use std::time::Duration;

use crate::ip::Checksum;
use crate::ip::protocol::{EXPERIMENT, NONE};

/// Octets of the header.
pub const HEADER: usize = 8;
/// The most intervals that one acknowledgement holds.
pub const MAX_INTERVALS: usize = 63;
/// The most packets between the lowest outstanding one and any other.
pub const MAX_SPAN: u8 = 127;
/// Copies of a packet are told apart modulo this.
pub const COPIES: u8 = 8;
/// Recovered packets are counted modulo this.
pub const RECOVERED: u8 = 64;
/// The most older packets that one HDM carries along.
pub const MAX_OLDER: usize = 3;
/// Numbers of repairs go round after this many.
pub const REPAIRS: u8 = 128;
/// Octets of a HAM with an echo, before its intervals.
pub const ACK: usize = HEADER + ECHO;
/// Octets of an interval.
pub const INTERVAL: usize = 2;

const ECHO: usize = 4;
const FLAG_ACK: u8 = 0x80;
const FLAG_REQUEST: u8 = 0x40;
const OPTION: u8 = 0x3f;
const FLAG_REPAIR: u8 = 0x80;
const FLAG_BUNDLE: u8 = 0x40;
const FLAG_HOLE: u8 = 0x20;
const FLAG_PATIENT: u8 = 0x10;
const OUTSTANDING_HIGH: u8 = 0x08;
const FLAG_ECHO: u8 = 0x80;
/// In the copy octet of an echo: it names a repair.
const ECHO_OF_REPAIR: u8 = 0x80;
/// Unit of the delay in an echo.
const DELAY_UNIT: Duration = Duration::from_micros(16);
/// Octets of a repair before its mask: its number, and how long the mask is.
const REPAIR_FIXED: usize = 2;

/// The number of a packet within its flow and hop. Its order is circular, so it has no `Ord`.
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

/// An HDM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data<'a> {
    /// The flow.
    pub flow: FlowId,
    /// This packet's number.
    pub seq: Seq,
    /// RACK: an acknowledgement is asked for at once.
    pub wants_ack: bool,
    /// How many numbers back the sender's lowest outstanding packet is, 0 to 127.
    pub outstanding: u8,
    /// Something before this packet will not come: it was refused, expired or given up.
    pub has_hole: bool,
    /// Its acknowledgement may wait for several round trips, as long as nothing is missing.
    pub is_patient: bool,
    /// Which transmission of this packet it is, 0 to 7 and round again.
    pub copy: u8,
    /// The protocol of the data.
    pub protocol: u8,
    /// Packets before this one that have not been acknowledged, oldest first.
    pub older: Older<'a>,
    /// What the IP packet carried.
    pub payload: &'a [u8],
}

/// Short packets that ride on a later one of their flow, as its receiver will see them: its IP
/// header, with what they carried.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Older<'a>(&'a [u8]);

/// A sum of packets of a flow, from which its receiver gets one that is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Repair<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The first packet that may be covered.
    pub first: Seq,
    /// Which repair it is, 0 to 127 and round again; its coefficients follow from it.
    pub id: u8,
    /// The protocol of the packets.
    pub protocol: u8,
    /// Which packets are covered.
    pub mask: Mask<'a>,
    /// The sum.
    pub sum: &'a [u8],
}

/// Which packets a repair covers: bit `i` of octet `n`, counted from the least significant, stands
/// for `first + 8 n + i`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mask<'a>(&'a [u8]);

/// A HAM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The lowest number that has not arrived and may still come.
    pub next: Seq,
    /// HCN: packets come in faster than they go out.
    pub is_congested: bool,
    /// Packets that did not come by themselves, but by repairs or on later ones, modulo 64.
    pub recovered: u8,
    /// The transmission that arrived last.
    pub echo: Option<Echo>,
    /// What has arrived beyond `next`.
    pub intervals: Intervals<'a>,
}

/// Which transmission reached the receiver last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Echo {
    /// The transmission.
    pub of: Transmission,
    /// How long it lay there before this was written; `None` above a second.
    pub delay: Option<Duration>,
}

/// Something that was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transmission {
    /// A packet.
    Packet {
        /// Its number.
        seq: Seq,
        /// Which transmission of it.
        copy: u8,
    },
    /// A repair.
    Repair {
        /// Its number.
        id: u8,
    },
}

/// Runs of packets that have arrived, both ends included.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Intervals<'a>(&'a [[u8; INTERVAL]]);

impl Intervals<'_> {
    /// The runs as (first, last).
    pub fn iter(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.0.iter().map(|&[first, last]| (Seq(first), Seq(last)))
    }
}

impl fmt::Debug for Intervals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0).finish()
    }
}

impl<'a> Older<'a> {
    /// Splits the older packets from what follows them.
    fn split(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let cut = |want| Malformed::Truncated { have: octets.len(), want };
        let (&count, mut rest) = octets.split_first().ok_or(cut(1))?;
        if usize::from(count) > MAX_OLDER {
            return Err(Malformed::TooMany(count));
        }
        for _ in 0..count {
            let (&[back, len], after) = rest.split_first_chunk::<2>().ok_or(cut(3))?;
            if back == 0 || back > MAX_SPAN {
                return Err(Malformed::Back(back));
            }
            rest = after.get(usize::from(len)..).ok_or(cut(usize::from(len)))?;
        }
        let (own, payload) = octets.split_at(octets.len() - rest.len());
        Ok((Self(own), payload))
    }

    /// How many numbers before the HDM's each packet has, and what it carried.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut rest = self.0.get(1..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (&[back, len], after) = rest.split_first_chunk::<2>()?;
            let (octets, after) = after.split_at_checked(usize::from(len))?;
            rest = after;
            Some((back, octets))
        })
    }

    /// Octets that it takes in an HDM.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Older<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Appends an older packet, `back` numbers before the one that will carry it, to `older`; false
/// when it cannot ride.
pub fn push_older(back: u8, octets: &[u8], older: &mut Vec<u8>) -> bool {
    let count = older.first().copied().unwrap_or(0);
    let Ok(len) = u8::try_from(octets.len()) else { return false };
    if usize::from(count) >= MAX_OLDER || back == 0 || back > MAX_SPAN {
        return false;
    }
    if older.is_empty() {
        older.push(0);
    }
    older[0] += 1;
    older.extend_from_slice(&[back, len]);
    older.extend_from_slice(octets);
    true
}

/// The packets that [`push_older`] put into `octets`.
#[must_use]
pub fn older(octets: &[u8]) -> Older<'_> {
    Older::split(octets).map_or(Older::default(), |(older, _)| older)
}

impl<'a> Mask<'a> {
    /// The mask that `octets` are, 1 to 16 of them.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Option<Self> {
        (1..=16).contains(&octets.len()).then_some(Self(octets))
    }

    /// How far after the first number the covered ones lie.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<'a> {
        let octets = self.0;
        (0..MAX_SPAN).filter(move |&offset| {
            octets.get(usize::from(offset / 8)).is_some_and(|octet| octet >> (offset % 8) & 1 == 1)
        })
    }
}

/// Why octets are not HBH.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// An older packet that does not lie before the one that carries it.
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
        /// What the header, or what it announces, takes.
        want: usize,
    },
    /// There are octets that nothing announced.
    #[error("{0} octets too many")]
    Trailing(usize),
}

impl<'a> Message<'a> {
    /// Reads the first message of `octets`, and returns it with the octets of those after it.
    ///
    /// # Errors
    /// When it is cut, damaged, or followed by what cannot be.
    pub fn parse(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let Some((header, rest)) = octets.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len(), want: HEADER });
        };
        if header[0] & FLAG_ACK != 0 {
            let (ack, rest) = Ack::parse(*header, octets)?;
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
}

impl<'a> Ack<'a> {
    /// Without any intervals yet.
    #[must_use]
    pub fn new(flow: FlowId, next: Seq) -> Self {
        Self {
            flow,
            next,
            is_congested: false,
            recovered: 0,
            echo: None,
            intervals: Intervals(&[]),
        }
    }

    fn parse(
        [flags, seq, f0, f1, _, _, protocol, reserved]: [u8; HEADER],
        octets: &'a [u8],
    ) -> Result<(Self, &'a [u8]), Malformed> {
        let echo = if reserved & FLAG_ECHO == 0 { 0 } else { ECHO };
        let want = HEADER + echo + usize::from(flags & OPTION) * INTERVAL;
        let Some((own, rest)) = octets.split_at_checked(want) else {
            return Err(Malformed::Truncated { have: octets.len(), want });
        };
        if Checksum::default().with(own).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        match protocol {
            EXPERIMENT if rest.is_empty() => {
                return Err(Malformed::Truncated { have: 0, want: HEADER });
            }
            EXPERIMENT => {}
            NONE if rest.is_empty() => {}
            NONE => return Err(Malformed::Trailing(rest.len())),
            _ => return Err(Malformed::Follower(protocol)),
        }

        let ack = Ack {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            next: Seq(seq),
            is_congested: flags & FLAG_REQUEST != 0,
            recovered: reserved & (RECOVERED - 1),
            echo: own[HEADER..HEADER + echo].first_chunk::<ECHO>().map(Echo::parse),
            intervals: Intervals(own[HEADER + echo..].as_chunks::<INTERVAL>().0),
        };
        Ok((ack, rest))
    }
}

impl Echo {
    fn parse(&[number, copy, d0, d1]: &[u8; ECHO]) -> Self {
        let units = u16::from_be_bytes([d0, d1]);
        let delay = (units < u16::MAX).then(|| DELAY_UNIT * u32::from(units));
        let of = if copy & ECHO_OF_REPAIR == 0 {
            Transmission::Packet { seq: Seq(number), copy: copy & (COPIES - 1) }
        } else {
            Transmission::Repair { id: number & (REPAIRS - 1) }
        };
        Self { of, delay }
    }

    fn emit(self) -> [u8; ECHO] {
        let units = self.delay.map_or(u128::MAX, |delay| delay.as_nanos() / DELAY_UNIT.as_nanos());
        let [d0, d1] = u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes();
        match self.of {
            Transmission::Packet { seq, copy } => [seq.0, copy, d0, d1],
            Transmission::Repair { id } => [id, ECHO_OF_REPAIR, d0, d1],
        }
    }
}

impl<'a> Data<'a> {
    fn parse(
        [flags, seq, f0, f1, _, _, protocol, reserved]: [u8; HEADER],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let (older, payload) = if reserved & FLAG_BUNDLE == 0 {
            (Older::default(), rest)
        } else {
            Older::split(rest)?
        };
        Ok(Self {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            seq: Seq(seq),
            wants_ack: flags & FLAG_REQUEST != 0,
            outstanding: flags & OPTION | (reserved & OUTSTANDING_HIGH) << 3,
            has_hole: reserved & FLAG_HOLE != 0,
            is_patient: reserved & FLAG_PATIENT != 0,
            copy: reserved & (COPIES - 1),
            protocol,
            older,
            payload,
        })
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        debug_assert!(self.outstanding <= MAX_SPAN, "in range");
        let request = if self.wants_ack { FLAG_REQUEST } else { 0 };
        let [f0, f1] = self.flow.0.to_be_bytes();
        let bundle = if self.older.is_empty() { 0 } else { FLAG_BUNDLE };
        let hole = if self.has_hole { FLAG_HOLE } else { 0 };
        let patient = if self.is_patient { FLAG_PATIENT } else { 0 };
        let high = (self.outstanding >> 3) & OUTSTANDING_HIGH;
        let reserved = bundle | hole | patient | high | self.copy & (COPIES - 1);
        let start = out.len();
        out.extend_from_slice(&[
            request | self.outstanding & OPTION,
            self.seq.0,
            f0,
            f1,
            0,
            0,
            self.protocol,
            reserved,
        ]);
        out.extend_from_slice(self.older.0);
        out.extend_from_slice(self.payload);
        write_checksum(&mut out[start..]);
    }
}

impl<'a> Repair<'a> {
    fn parse(
        [_, seq, f0, f1, _, _, protocol, _]: [u8; HEADER],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let cut = |want| Malformed::Truncated { have: rest.len() + HEADER, want };
        let (&[id, len], rest) =
            rest.split_first_chunk::<REPAIR_FIXED>().ok_or(cut(HEADER + REPAIR_FIXED))?;
        let want = HEADER + REPAIR_FIXED + usize::from(len);
        let (mask, sum) = rest.split_at_checked(usize::from(len)).ok_or(cut(want))?;
        Ok(Self {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            first: Seq(seq),
            id: id & (REPAIRS - 1),
            protocol,
            mask: Mask::new(mask).ok_or(Malformed::Mask(len))?,
            sum,
        })
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let [f0, f1] = self.flow.0.to_be_bytes();
        let len = u8::try_from(self.mask.0.len()).expect("at most 16");
        let start = out.len();
        out.extend_from_slice(&[0, self.first.0, f0, f1, 0, 0, self.protocol, FLAG_REPAIR]);
        out.extend_from_slice(&[self.id & (REPAIRS - 1), len]);
        out.extend_from_slice(self.mask.0);
        out.extend_from_slice(self.sum);
        write_checksum(&mut out[start..]);
    }

    /// Octets of a repair with a mask for `span` packets, without its sum.
    #[must_use]
    pub const fn overhead(span: usize) -> usize {
        HEADER + REPAIR_FIXED + span.div_ceil(8)
    }
}

/// Appends a HAM; at most [`MAX_INTERVALS`] of the intervals are written.
///
/// `is_followed`: another message comes after it in the same packet.
pub fn emit_ack(
    ack: &Ack<'_>,
    intervals: impl Iterator<Item = (Seq, Seq)>,
    is_followed: bool,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let [f0, f1] = ack.flow.0.to_be_bytes();
    let follower = if is_followed { EXPERIMENT } else { NONE };
    let echo = if ack.echo.is_some() { FLAG_ECHO } else { 0 };
    let reserved = echo | ack.recovered & (RECOVERED - 1);
    out.extend_from_slice(&[0, ack.next.0, f0, f1, 0, 0, follower, reserved]);
    if let Some(echo) = ack.echo {
        out.extend_from_slice(&echo.emit());
    }
    let mut count = 0;
    for (first, last) in intervals.take(MAX_INTERVALS) {
        out.extend_from_slice(&[first.0, last.0]);
        count += 1;
    }
    out[start] = FLAG_ACK | if ack.is_congested { FLAG_REQUEST } else { 0 } | count;
    write_checksum(&mut out[start..]);
}

fn write_checksum(message: &mut [u8]) {
    message[4..6].fill(0);
    let sum = Checksum::default().with(message).finish();
    message[4..6].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
