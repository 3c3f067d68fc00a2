//! What is sealed in a datagram.
//!
//! ```text
//!  octet 0     flags: bits 0 to 2 the kind of body, bit 3 a report follows, bit 4 a floor follows,
//!              bit 5 the peer is asked for a report, bits 6 and 7 zero
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
//!  body        kind 0  nothing
//!              kind 1  source: number 3, symbol
//!              kind 2  repair: first source 3, count 2, coded symbol
//!              kind 3  probe: padding
//!              kind 4  probe reply: size of the probe's payload 2
//!
//!  symbol      records: length 2, wait 2, inner packet; ends with its octets or a length of zero
//! ```
//!
//! `wait` says how many sources back the packet is that has to be released before this one; zero
//! means none. A repair is the sum of the sources of its window, each times a coefficient
//! ([`super::coefficients`]); its datagram's number seeds them. Symbols are padded with zeros to the
//! longest (RFC 8681 calls them source and repair symbols of a sliding window).

/// Octets before the body, with neither report nor floor.
pub(super) const FLAGS: usize = 1;
/// Octets of a source's number.
pub(super) const SOURCE_HEADER: usize = 3;
/// Octets of a repair's window.
pub(super) const REPAIR_HEADER: usize = 5;
/// Octets before an inner packet in a symbol.
pub(super) const RECORD_HEADER: usize = 4;
/// Octets of a floor.
pub(super) const FLOOR: usize = 3;
/// Octets of a report without its holes.
const REPORT: usize = 28;
/// Octets of a report at most.
pub(super) const MAX_REPORT: usize = REPORT + 4 * MAX_HOLES;
/// Holes that a report lists at most.
pub(super) const MAX_HOLES: usize = 48;

const KIND: u8 = 0b0000_0111;
const HAS_REPORT: u8 = 0b0000_1000;
const HAS_FLOOR: u8 = 0b0001_0000;
const WANTS_REPORT: u8 = 0b0010_0000;
const RESERVED: u8 = 0b1100_0000;

/// What a datagram says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message<'a> {
    pub(super) report: Option<Report>,
    /// Low 24 bits.
    pub(super) floor: Option<u32>,
    pub(super) wants_report: bool,
    pub(super) body: Body<'a>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Body<'a> {
    #[default]
    Empty,
    Probe {
        padding: usize,
    },
    ProbeReply {
        size: u16,
    },
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

/// What one end tells the other of what it received.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Report {
    pub(super) newest: u32,
    pub(super) received_at: u32,
    pub(super) delay: u16,
    pub(super) received: u32,
    pub(super) marked: u16,
    pub(super) runs: u16,
    /// Low 24 bits.
    pub(super) first_missing: u32,
    pub(super) extent: u16,
    pub(super) missing: u16,
    pub(super) rank: u16,
    /// (skip, length), from the first missing on.
    pub(super) holes: Vec<(u16, u16)>,
}

/// Why a payload is not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Malformed {
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
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(octets);
        let flags = reader.u8()?;
        if flags & RESERVED != 0 {
            return Err(Malformed::Flags(flags));
        }
        let report = (flags & HAS_REPORT != 0).then(|| Report::parse(&mut reader)).transpose()?;
        let floor = (flags & HAS_FLOOR != 0).then(|| reader.u24()).transpose()?;
        let body = match flags & KIND {
            0 => Body::Empty,
            1 => Body::Source { number: reader.u24()?, symbol: reader.0 },
            2 => {
                let (first, count) = (reader.u24()?, reader.u16()?);
                if count == 0 {
                    return Err(Malformed::NoWindow);
                }
                Body::Repair { first, count, symbol: reader.0 }
            }
            3 => Body::Probe { padding: reader.0.len() },
            4 => Body::ProbeReply { size: reader.u16()? },
            _ => return Err(Malformed::Flags(flags)),
        };
        Ok(Self { report, floor, wants_report: flags & WANTS_REPORT != 0, body })
    }

    /// Appends the message to `out`.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let kind = match self.body {
            Body::Empty => 0,
            Body::Source { .. } => 1,
            Body::Repair { .. } => 2,
            Body::Probe { .. } => 3,
            Body::ProbeReply { .. } => 4,
        };
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(
            kind | flag(self.report.is_some(), HAS_REPORT)
                | flag(self.floor.is_some(), HAS_FLOOR)
                | flag(self.wants_report, WANTS_REPORT),
        );
        if let Some(report) = &self.report {
            report.emit(out);
        }
        if let Some(floor) = self.floor {
            push_u24(out, floor);
        }
        match self.body {
            Body::Empty => {}
            Body::Probe { padding } => out.resize(out.len() + padding, 0),
            Body::ProbeReply { size } => out.extend_from_slice(&size.to_be_bytes()),
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

/// The inner packets of a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records<'a> {
    symbol: &'a [u8],
    at: usize,
}

/// An inner packet in a symbol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Record {
    /// Sources back to the one that has to be released first; 0 for none.
    pub(super) wait: u16,
    /// Where the packet lies in the symbol.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'a> Records<'a> {
    pub(super) fn of(symbol: &'a [u8]) -> Self {
        Self { symbol, at: 0 }
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    /// Ends at the padding, or at what is cut off.
    fn next(&mut self) -> Option<Record> {
        let (header, packets) = self.symbol.get(self.at..)?.split_first_chunk::<RECORD_HEADER>()?;
        let [len_high, len_low, wait_high, wait_low] = *header;
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        if len == 0 || len > packets.len() {
            return None;
        }
        let start = self.at + RECORD_HEADER;
        self.at = start + len;
        Some(Record { wait: u16::from_be_bytes([wait_high, wait_low]), start, end: self.at })
    }
}

/// Writes the header of the record that fills `record`.
pub(super) fn fill_record_header(record: &mut [u8], wait: u16) {
    let Some((header, packet)) = record.split_first_chunk_mut::<RECORD_HEADER>() else { return };
    let [len_high, len_low] = u16::try_from(packet.len()).expect("an IP packet").to_be_bytes();
    let [wait_high, wait_low] = wait.to_be_bytes();
    *header = [len_high, len_low, wait_high, wait_low];
}

fn push_u24(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes()[1..]);
}

/// Values up to 2^14 - 1; greater ones are cut to that.
fn push_varint(out: &mut Vec<u8>, value: u16) {
    let [high, low] = value.min(0x3fff).to_be_bytes();
    if high == 0 && low < 0x80 {
        out.push(low);
    } else {
        out.extend_from_slice(&[0x80 | high << 1 | low >> 7, low & 0x7f]);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.take::<1>().map(|[octet]| octet)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn u24(&mut self) -> Result<u32, Malformed> {
        self.take::<3>().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    fn varint(&mut self) -> Result<u16, Malformed> {
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
