//! Messages between two ends about flows of UDP, version 0. A message is the data of one SLEP datagram between the
//! extended addresses [`USER`].
//!
//! ```text
//!  octet 0    1      2      3 ...
//!      +-------+------+------+------ - -
//!      | v k n |      n      | fields, then the datagram    v: version, 2 bits; k: kind, 2 bits;
//!      +-------+------+------+------ - -                    n: number of the flow, 20 bits
//!
//!  kind     said by     fields, the most significant octet first
//!  0 open   initiator   how 1, ports: source 2, destination 2, addresses: source, destination (4 or 16 each)
//!  1 data   initiator   -
//!  2 answer responder   -
//!  3 word   either      what 1: 0 accepted; 1 unknown, checksum 2; 2 refused, reason 1; 3 closed
//!
//!  how:  bit 7 IPv6, bit 6 reliable answers, bits 5 and 4 zero, bits 3 to 0 priority of answers
//! ```
//!
//! The meaning of each is in `docs/guide/hfpep.md`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::slep::{Addresses, Reason};

/// The extended address of both ends.
pub const USER: u8 = 2;
/// The extended addresses of a datagram, the same for both ends.
pub const ADDRESSES: Addresses = Addresses { to: USER, from: USER };
/// Octets before the datagram of a message that is no opening.
pub const HEADER: usize = 3;

const VERSION: u8 = 0;
const KIND_OPEN: u8 = 0;
const KIND_DATA: u8 = 1;
const KIND_ANSWER: u8 = 2;
const KIND_WORD: u8 = 3;

const V6: u8 = 0x80;
const RELIABLE: u8 = 0x40;
const RESERVED: u8 = 0x30;
const PRIORITY: u8 = 0x0f;

const ACCEPTED: u8 = 0;
const UNKNOWN: u8 = 1;
const REFUSED: u8 = 2;
const CLOSED: u8 = 3;

/// Names a flow between two nodes: 20 bits, chosen by its initiator.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Number(u32);

/// A message from one end to the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// The flow concerned.
    pub flow: Number,
    /// The contents.
    pub body: Body<'a>,
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body<'a> {
    /// A datagram for the target, and whom it is between: the responder need not know the flow.
    Open(Opening, &'a [u8]),
    /// A datagram for the target of a flow that the responder knows.
    Data(&'a [u8]),
    /// A datagram for the client.
    Answer(&'a [u8]),
    /// Something about the flow itself.
    Word(Word),
}

/// Whom a flow is between, and how its answers are carried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opening {
    /// The client.
    pub source: SocketAddr,
    /// The target. If one of both is IPv6, both are: an IPv4 address is written as IPv6 then.
    pub destination: SocketAddr,
    /// Whether answers are repeated until this end has acknowledged them.
    pub is_reliable: bool,
    /// The priority of answers, 0 to 15.
    pub priority: u8,
}

/// Something about a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Word {
    /// The responder knows the flow: an opening need not be repeated.
    Accepted,
    /// The responder does not know the flow, and has not taken the datagram with this [`checksum`].
    Unknown(u16),
    /// The responder does not carry the flow.
    Refused(Reason),
    /// The initiator does not know the flow: nobody waits for its answers.
    Closed,
}

/// Why octets are no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The version is not known here.
    #[error("version {0} of flows, version 0 is known here")]
    Version(u8),
    /// The message is too short for its kind, or too long.
    #[error("{have} octets are no message of kind {kind}")]
    Length {
        /// The kind.
        kind: u8,
        /// Octets there are.
        have: usize,
    },
    /// Bits are set that mean nothing.
    #[error("an opening with unknown flags: {0:#04x}")]
    Flags(u8),
    /// A word that is not known here.
    #[error("word {0} about a flow is not known here")]
    Word(u8),
}

impl Number {
    /// The low 20 bits.
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0x000f_ffff)
    }

    /// The one after it; 0 follows the last.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

impl Opening {
    /// Octets in front of the datagram in a message with an opening.
    #[must_use]
    pub fn header(&self) -> usize {
        HEADER + 1 + 4 + if self.is_v6() { 32 } else { 8 }
    }

    fn is_v6(&self) -> bool {
        self.source.is_ipv6() || self.destination.is_ipv6()
    }

    /// Whether both are between the same client and target.
    #[must_use]
    pub fn has_ends_of(&self, other: &Self) -> bool {
        (self.source, self.destination) == (other.source, other.destination)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flag = |flag, is_set| if is_set { flag } else { 0 };
        let is_v6 = self.is_v6();
        let how = flag(V6, is_v6) | flag(RELIABLE, self.is_reliable) | self.priority.min(PRIORITY);
        out.push(how);
        for end in [self.source, self.destination] {
            out.extend_from_slice(&end.port().to_be_bytes());
        }
        for end in [self.source, self.destination] {
            match end.ip() {
                IpAddr::V4(address) if is_v6 => {
                    out.extend_from_slice(&address.to_ipv6_mapped().octets());
                }
                IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
            }
        }
    }

    /// Reads the fields of an opening, and returns them with the rest; `None` if fields are missing.
    fn split_first(octets: &[u8]) -> Result<Option<(Self, &[u8])>, Malformed> {
        let Some((&[how, s1, s2, d1, d2], rest)) = octets.split_first_chunk() else {
            return Ok(None);
        };
        if how & RESERVED != 0 {
            return Err(Malformed::Flags(how));
        }
        let (ends, rest): ([IpAddr; 2], &[u8]) = if how & V6 == 0 {
            let Some((&[a, b, c, d, e, f, g, h], rest)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            ([Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into()], rest)
        } else {
            let Some((&source, rest)) = rest.split_first_chunk::<16>() else { return Ok(None) };
            let Some((&destination, rest)) = rest.split_first_chunk::<16>() else {
                return Ok(None);
            };
            ([Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into()], rest)
        };
        let [source, destination] = ends;
        let opening = Self {
            source: SocketAddr::new(source, u16::from_be_bytes([s1, s2])),
            destination: SocketAddr::new(destination, u16::from_be_bytes([d1, d2])),
            is_reliable: how & RELIABLE != 0,
            priority: how & PRIORITY,
        };
        Ok(Some((opening, rest)))
    }
}

impl<'a> Message<'a> {
    /// Reads the message that fills `octets`.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let have = octets.len();
        let Some((&[first, high, low], rest)) = octets.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Length {
                kind: octets.first().map_or(0, |it| it >> 4 & 3),
                have,
            });
        };
        if first >> 6 != VERSION {
            return Err(Malformed::Version(first >> 6));
        }
        let flow = Number::new(u32::from_be_bytes([0, first, high, low]));
        let kind = first >> 4 & 3;
        let short = Malformed::Length { kind, have };
        let body = match kind {
            KIND_OPEN => {
                let (opening, data) = Opening::split_first(rest)?.ok_or(short)?;
                Body::Open(opening, data)
            }
            KIND_DATA => Body::Data(rest),
            KIND_ANSWER => Body::Answer(rest),
            _ => Body::Word(match *rest {
                [ACCEPTED] => Word::Accepted,
                [UNKNOWN, high, low] => Word::Unknown(u16::from_be_bytes([high, low])),
                [REFUSED, reason] => Word::Refused(Reason(reason)),
                [CLOSED] => Word::Closed,
                [] | [ACCEPTED..=CLOSED, ..] => return Err(short),
                [what, ..] => return Err(Malformed::Word(what)),
            }),
        };
        Ok(Self { flow, body })
    }

    /// Appends the octets.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let kind = match self.body {
            Body::Open(..) => KIND_OPEN,
            Body::Data(_) => KIND_DATA,
            Body::Answer(_) => KIND_ANSWER,
            Body::Word(_) => KIND_WORD,
        };
        let [_, first, high, low] = self.flow.0.to_be_bytes();
        out.extend_from_slice(&[VERSION << 6 | kind << 4 | first, high, low]);
        match self.body {
            Body::Open(opening, data) => {
                opening.emit(out);
                out.extend_from_slice(data);
            }
            Body::Data(data) | Body::Answer(data) => out.extend_from_slice(data),
            Body::Word(Word::Accepted) => out.push(ACCEPTED),
            Body::Word(Word::Unknown(checksum)) => {
                out.push(UNKNOWN);
                out.extend_from_slice(&checksum.to_be_bytes());
            }
            Body::Word(Word::Refused(reason)) => out.extend_from_slice(&[REFUSED, reason.0]),
            Body::Word(Word::Closed) => out.push(CLOSED),
        }
    }
}

/// Tells a datagram from others: the CRC-16 that headers of D_PDUs have, and the length added without carry.
#[must_use]
pub fn checksum(data: &[u8]) -> u16 {
    base::crc::header(data) ^ base::serial::low16(data.len() as u64)
}
