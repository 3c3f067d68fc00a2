//! Encodes and decodes the sealed content of a datagram.
//!
//! ```text
//!  octet 0     flags: bits 0 to 2 the kind of body, bit 3 a report follows, bit 4 a floor follows,
//!              bit 5 the peer is asked for a report, bit 6 contexts follow, bit 7 horizons follow
//!  report      newest        4   greatest datagram number received, low 32 bits
//!              received_at   4   when, in microseconds of the peer's clock, low 32 bits
//!              delay         2   how long the report waited since, in units of 32 microseconds
//!              received      4   datagrams received in all, low 32 bits
//!              marked        2   of those, with congestion experienced, low 16 bits
//!              runs          2   runs of datagrams that did not come, in all, low 16 bits
//!              first missing 3   all sources before it are there or given up, low 24 bits
//!              extent        2   sources from there to the newest that is known of
//!              missing       2   sources among them that are missing
//!              rank          2   equations at hand that solve for missing ones
//!              holes         1   count, at most 48; then that many (skip, length), each a number in
//!                                base 128, from the first missing on
//!  floor       3                 sources before it will not be sent again, low 24 bits
//!  contexts    count 1, at most 8; then that many (context 1, source 3): contexts known to the sender, each
//!              with the source that announced the headers, low 24 bits
//!  horizons    count 1, at most 3; then that many (path 1, newest 4): the greatest number received on each other path,
//!              low 32 bits; only beside a report, which is about the path of its datagram
//!  body        kind 0  nothing, or an octet ([`super::understanding`])
//!              kind 1  source: number 3, symbol
//!              kind 2  repair: first source 3, count 2, coded symbol
//!              kind 3  probe: padding
//!              kind 4  probe reply: size of the probe's payload 2
//!              kind 5  proof of a further path: flags 1 (bit 0: a backup), question 8, answer 8 ([`super::proof`])
//!              kind 6  a datagram of a handshake, while the first path does not serve
//! ```
//!
//! A symbol consists of records ([`super::record`]). A repair is the sum of the sources of its window, each times a
//! coefficient ([`gf::coefficients`]); its datagram's number seeds them. Symbols are padded with zeros to the longest
//! (RFC 8681 calls them source and repair symbols of a sliding window).

use std::time::Duration;

use super::number::PATHS;
use super::proof::{Proof, SECRET};

/// Octets before the body, with neither report nor floor.
pub const FLAGS: usize = 1;
/// Octets of a source's number.
pub const SOURCE_HEADER: usize = 3;
/// Octets of a repair's window.
pub const REPAIR_HEADER: usize = 5;
/// The most sources that a repair covers: more would not stay in a second-level cache.
pub const MAX_REPAIR_WINDOW: u64 = 1_024;
/// Octets of a floor.
pub const FLOOR: usize = 3;
/// Octets of a report without holes.
const REPORT: usize = 28;
/// Octets of a report at most.
pub const MAX_REPORT: usize = REPORT + 4 * MAX_HOLES;
/// Holes that a report lists at most.
pub const MAX_HOLES: usize = 48;
/// Contexts that a message lists at most.
pub const MAX_CONTEXTS: usize = 8;
/// Octets of each of them.
pub const CONTEXT: usize = 4;
/// Horizons of other paths that a message lists at most, and octets of all of them.
const MAX_HORIZONS: usize = PATHS - 1;
pub const HORIZONS: usize = 1 + 5 * MAX_HORIZONS;
/// The greatest number that two octets in base 128 hold.
pub const MAX_VARINT: u16 = 0x3fff;

const KIND: u8 = 0b0000_0111;
const HAS_REPORT: u8 = 0b0000_1000;
const HAS_FLOOR: u8 = 0b0001_0000;
const WANTS_REPORT: u8 = 0b0010_0000;
const HAS_CONTEXTS: u8 = 0b0100_0000;
const HAS_HORIZONS: u8 = 0b1000_0000;

/// The flag of a proof: the path is a backup.
const BACKUP: u8 = 0b0000_0001;

/// What a datagram says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message<'a> {
    pub report: Option<Report>,
    /// Low 24 bits.
    pub floor: Option<u32>,
    pub wants_report: bool,
    /// Known header contexts, and the low 24 bits of the sources that announced them.
    pub contexts: Vec<(u8, u32)>,
    /// Other paths by their places, and the low 32 bits of the greatest number received on each.
    pub horizons: Vec<(u8, u32)>,
    /// What the sender understands; only with an empty body.
    pub understands: Option<u8>,
    pub body: Body<'a>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Body<'a> {
    #[default]
    Empty,
    Probe {
        padding: usize,
    },
    ProbeReply {
        size: u16,
    },
    Proof(Proof),
    Handshake(&'a [u8]),
    Repair {
        /// Low 24 bits.
        first: u32,
        count: u16,
        symbol: &'a [u8],
    },
    Source {
        /// Low 24 bits.
        number: u32,
        symbol: &'a [u8],
    },
}

/// A report: tells the other end which datagrams and sources were received.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    pub newest: u32,
    pub received_at: u32,
    pub delay: u16,
    pub received: u32,
    pub marked: u16,
    pub runs: u16,
    /// Low 24 bits.
    pub first_missing: u32,
    pub extent: u16,
    pub missing: u16,
    pub rank: u16,
    /// (skip, length), from the first missing on.
    pub holes: Vec<(u16, u16)>,
}

/// Why a payload is not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    #[error("{0} contexts")]
    Contexts(u8),
    #[error("{0} horizons, or none of another path")]
    Horizons(u8),
    #[error("flags {0:#04x} are not defined")]
    Flags(u8),
    #[error("a hole does not fit the report")]
    Hole,
    #[error("the window of a repair is empty")]
    NoWindow,
    #[error("it ends too early")]
    Truncated,
}

impl<'a> Message<'a> {
    /// Reads the message that fills `octets`.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::of(octets);
        let flags = reader.u8()?;
        let report = (flags & HAS_REPORT != 0).then(|| Report::parse(&mut reader)).transpose()?;
        let floor = (flags & HAS_FLOOR != 0).then(|| reader.u24()).transpose()?;
        let contexts =
            if flags & HAS_CONTEXTS != 0 { parse_contexts(&mut reader)? } else { Vec::new() };
        let horizons =
            if flags & HAS_HORIZONS != 0 { parse_horizons(&mut reader)? } else { Vec::new() };
        let mut understands = None;
        let body = match flags & KIND {
            0 => {
                understands = reader.rest().first().copied();
                Body::Empty
            }
            1 => Body::Source { number: reader.u24()?, symbol: reader.rest() },
            2 => {
                let (first, count) = (reader.u24()?, reader.u16()?);
                if count == 0 {
                    return Err(Malformed::NoWindow);
                }
                Body::Repair { first, count, symbol: reader.rest() }
            }
            3 => Body::Probe { padding: reader.rest().len() },
            4 => Body::ProbeReply { size: reader.u16()? },
            5 => Body::Proof(Proof {
                is_backup: reader.u8()? & BACKUP != 0,
                question: reader.take::<SECRET>()?,
                answer: reader.take::<SECRET>()?,
            }),
            6 => Body::Handshake(reader.rest()),
            _ => return Err(Malformed::Flags(flags)),
        };
        let wants_report = flags & WANTS_REPORT != 0;
        Ok(Self { report, floor, wants_report, contexts, horizons, understands, body })
    }

    /// Appends the message to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let kind = match self.body {
            Body::Empty => 0,
            Body::Source { .. } => 1,
            Body::Repair { .. } => 2,
            Body::Probe { .. } => 3,
            Body::ProbeReply { .. } => 4,
            Body::Proof(_) => 5,
            Body::Handshake(_) => 6,
        };
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(
            kind | flag(self.report.is_some(), HAS_REPORT)
                | flag(self.floor.is_some(), HAS_FLOOR)
                | flag(self.wants_report, WANTS_REPORT)
                | flag(!self.contexts.is_empty(), HAS_CONTEXTS)
                | flag(!self.horizons.is_empty(), HAS_HORIZONS),
        );
        if let Some(report) = &self.report {
            report.emit(out);
        }
        if let Some(floor) = self.floor {
            push_u24(out, floor);
        }
        if !self.contexts.is_empty() {
            let contexts = &self.contexts[..self.contexts.len().min(MAX_CONTEXTS)];
            out.push(u8::try_from(contexts.len()).expect("at most 8"));
            for &(id, source) in contexts {
                out.push(id);
                push_u24(out, source);
            }
        }
        if !self.horizons.is_empty() {
            let horizons = &self.horizons[..self.horizons.len().min(MAX_HORIZONS)];
            out.push(u8::try_from(horizons.len()).expect("at most 3"));
            for &(path, newest) in horizons {
                out.push(path);
                out.extend_from_slice(&newest.to_be_bytes());
            }
        }
        match self.body {
            Body::Empty => out.extend(self.understands),
            Body::Probe { padding } => out.resize(out.len() + padding, 0),
            Body::ProbeReply { size } => out.extend_from_slice(&size.to_be_bytes()),
            Body::Proof(Proof { is_backup, question, answer }) => {
                out.push(flag(is_backup, BACKUP));
                out.extend_from_slice(&question);
                out.extend_from_slice(&answer);
            }
            Body::Handshake(datagram) => out.extend_from_slice(datagram),
            Body::Repair { first, count, symbol } => {
                push_u24(out, first);
                out.extend_from_slice(&count.to_be_bytes());
                out.extend_from_slice(symbol);
            }
            Body::Source { number, symbol } => {
                push_u24(out, number);
                out.extend_from_slice(symbol);
            }
        }
    }
}

impl Report {
    /// One unit of `delay`.
    pub const DELAY_UNIT: Duration = Duration::from_micros(32);

    /// How long the report waited at the peer.
    pub fn delay(&self) -> Duration {
        Self::DELAY_UNIT * u32::from(self.delay)
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut report = Self {
            newest: reader.u32()?,
            received_at: reader.u32()?,
            delay: reader.u16()?,
            received: reader.u32()?,
            marked: reader.u16()?,
            runs: reader.u16()?,
            first_missing: reader.u24()?,
            extent: reader.u16()?,
            missing: reader.u16()?,
            rank: reader.u16()?,
            holes: Vec::new(),
        };
        let count = usize::from(reader.u8()?);
        if count > MAX_HOLES {
            return Err(Malformed::Hole);
        }
        let mut end = 0;
        for _ in 0..count {
            let (skip, len) = (reader.varint()?, reader.varint()?);
            end += u32::from(skip) + u32::from(len);
            if len == 0 || end > u32::from(report.extent) {
                return Err(Malformed::Hole);
            }
            report.holes.push((skip, len));
        }
        Ok(report)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.newest.to_be_bytes());
        out.extend_from_slice(&self.received_at.to_be_bytes());
        out.extend_from_slice(&self.delay.to_be_bytes());
        out.extend_from_slice(&self.received.to_be_bytes());
        out.extend_from_slice(&self.marked.to_be_bytes());
        out.extend_from_slice(&self.runs.to_be_bytes());
        push_u24(out, self.first_missing);
        out.extend_from_slice(&self.extent.to_be_bytes());
        out.extend_from_slice(&self.missing.to_be_bytes());
        out.extend_from_slice(&self.rank.to_be_bytes());
        let holes = &self.holes[..self.holes.len().min(MAX_HOLES)];
        out.push(u8::try_from(holes.len()).expect("at most 48"));
        for &(skip, len) in holes {
            push_varint(out, skip);
            push_varint(out, len);
        }
    }
}

fn parse_contexts(reader: &mut Reader<'_>) -> Result<Vec<(u8, u32)>, Malformed> {
    let count = reader.u8()?;
    if count == 0 || usize::from(count) > MAX_CONTEXTS {
        return Err(Malformed::Contexts(count));
    }
    (0..count).map(|_| Ok((reader.u8()?, reader.u24()?))).collect()
}

fn parse_horizons(reader: &mut Reader<'_>) -> Result<Vec<(u8, u32)>, Malformed> {
    let count = reader.u8()?;
    if count == 0 || usize::from(count) > MAX_HORIZONS {
        return Err(Malformed::Horizons(count));
    }
    (0..count).map(|_| Ok((reader.u8()?, reader.u32()?))).collect()
}

fn push_u24(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes()[1..]);
}

/// Values up to 2^14 - 1; greater ones are cut to that.
pub fn push_varint(out: &mut Vec<u8>, value: u16) {
    let [high, low] = value.min(MAX_VARINT).to_be_bytes();
    if high == 0 && low < 0x80 {
        out.push(low);
    } else {
        out.extend_from_slice(&[0x80 | high << 1 | low >> 7, low & 0x7f]);
    }
}

/// Reads octets from the front.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn of(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// Octets that are still to be read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn many(&mut self, octets: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(octets).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.take::<1>().map(|[octet]| octet)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn u24(&mut self) -> Result<u32, Malformed> {
        self.take::<3>().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn varint(&mut self) -> Result<u16, Malformed> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u16::from(first));
        }
        let second = self.u8()?;
        if second >= 0x80 {
            return Err(Malformed::Hole);
        }
        Ok(u16::from(first & 0x7f) << 7 | u16::from(second))
    }
}
