//! Records of the store, in and out of octets.
//!
//! ```text
//!   0        4      5
//!  +--------+------+---------------------+    numbers are big endian; an address is 4 or 6 and its
//!  | length | kind | as the kind has it  |    octets, a text or data its length in 32 bits and itself
//!  +--------+------+---------------------+    length: of kind and what follows
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sar::{Ending, Failure, Outcome, Ports, Remembered, Resume};

/// Bound of the numbers from which counting goes on: no counter reaches its end.
pub const NUMBERS: u64 = 1 << 63;

/// What is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A program's message was accepted.
    Accepted(Accepted),
    /// A transfer starts: for the destination at this position, or for all.
    Started {
        id: u64,
        part: Option<u16>,
        resume: Resume,
        /// The order in which transfers started.
        order: u64,
    },
    /// The outcome of a message for the destination at this position, while other destinations are open.
    Outcome { id: u64, part: u16, outcome: Outcome },
    /// A message has an outcome for all destinations.
    Ended(Ended),
    /// A message arrived.
    Arrived(Arrived),
    /// A program has taken a message that arrived.
    Taken(u64),
    /// A transfer that arrived is not to be taken again.
    Known(Known),
    /// Nobody wants to know any more; it is noted in memory only.
    Forgotten(Key),
}

/// A message of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    pub(crate) id: u64,
    /// The name by which the program finds its message again; empty if the program gave none.
    pub(crate) name: String,
    pub(crate) ports: Ports,
    pub(crate) precedence: u8,
    pub(crate) is_acknowledged: bool,
    pub(crate) via: Option<IpAddr>,
    /// By the store's clock.
    pub(crate) expires: Option<u64>,
    pub(crate) destinations: Vec<IpAddr>,
    pub(crate) data: Arc<[u8]>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub(crate) id: u64,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) name: String,
    pub(crate) outcomes: Vec<(IpAddr, Outcome)>,
}

/// A message that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    pub(crate) number: u64,
    pub(crate) source: IpAddr,
    pub(crate) ports: Ports,
    pub(crate) precedence: u8,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    /// Of its transfer.
    pub(crate) identity: Remembered,
    pub(crate) data: Arc<[u8]>,
}

/// A transfer that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub(crate) number: u64,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) identity: Remembered,
}

/// Names data that is kept until another record ends it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Key {
    Accepted(u64),
    Arrived(u64),
    Ended(u64),
    Known(u64),
}

const ACCEPTED: u8 = 1;
const STARTED: u8 = 2;
const OUTCOME: u8 = 3;
const ENDED: u8 = 4;
const ARRIVED: u8 = 5;
const TAKEN: u8 = 6;
const KNOWN: u8 = 7;
const FORGOTTEN: u8 = 8;
/// The position that means all destinations.
const ALL: u16 = u16::MAX;

impl Record {
    /// The data that the record is about, where it is kept for itself.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Accepted(it) => Some(Key::Accepted(it.id)),
            Self::Arrived(it) => Some(Key::Arrived(it.number)),
            Self::Ended(it) => Some(Key::Ended(it.id)),
            Self::Known(it) => Some(Key::Known(it.number)),
            Self::Started { .. } | Self::Outcome { .. } | Self::Taken(_) | Self::Forgotten(_) => {
                None
            }
        }
    }

    /// Appends its octets.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; 4]);
        self.emit_fields(out);
        let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn emit_fields(&self, out: &mut Vec<u8>) {
        match self {
            Self::Accepted(it) => {
                out.push(ACCEPTED);
                out.extend(it.id.to_be_bytes());
                emit_octets(it.name.as_bytes(), out);
                emit_ports(it.ports, out);
                out.extend([it.precedence, u8::from(it.is_acknowledged)]);
                out.push(u8::from(it.via.is_some()));
                it.via.iter().for_each(|via| emit_address(*via, out));
                out.extend(it.expires.unwrap_or(u64::MAX).to_be_bytes());
                out.extend(u16::try_from(it.destinations.len()).unwrap_or(ALL).to_be_bytes());
                it.destinations.iter().for_each(|to| emit_address(*to, out));
                emit_octets(&it.data, out);
            }
            Self::Started { id, part, resume, order } => {
                out.push(STARTED);
                out.extend(id.to_be_bytes());
                out.extend(part.unwrap_or(ALL).to_be_bytes());
                out.extend(resume.serial.to_be_bytes());
                out.extend(resume.segment.to_be_bytes());
                out.extend(order.to_be_bytes());
            }
            Self::Outcome { id, part, outcome } => {
                out.push(OUTCOME);
                out.extend(id.to_be_bytes());
                out.extend(part.to_be_bytes());
                out.push(code_of(*outcome));
            }
            Self::Ended(it) => {
                out.push(ENDED);
                out.extend(it.id.to_be_bytes());
                out.extend(it.at.to_be_bytes());
                emit_octets(it.name.as_bytes(), out);
                out.extend(u16::try_from(it.outcomes.len()).unwrap_or(ALL).to_be_bytes());
                for (to, outcome) in &it.outcomes {
                    emit_address(*to, out);
                    out.push(code_of(*outcome));
                }
            }
            Self::Arrived(it) => {
                out.push(ARRIVED);
                out.extend(it.number.to_be_bytes());
                emit_address(it.source, out);
                emit_ports(it.ports, out);
                out.push(it.precedence);
                out.extend(it.at.to_be_bytes());
                emit_identity(&it.identity, out);
                emit_octets(&it.data, out);
            }
            Self::Taken(number) => {
                out.push(TAKEN);
                out.extend(number.to_be_bytes());
            }
            Self::Known(Known { number, at, identity }) => {
                out.push(KNOWN);
                out.extend(number.to_be_bytes());
                out.extend(at.to_be_bytes());
                emit_identity(identity, out);
            }
            Self::Forgotten(key) => {
                out.push(FORGOTTEN);
                let (kind, id) = match key {
                    Key::Accepted(id) => (ACCEPTED, id),
                    Key::Arrived(id) => (ARRIVED, id),
                    Key::Ended(id) => (ENDED, id),
                    Key::Known(id) => (KNOWN, id),
                };
                out.push(kind);
                out.extend(id.to_be_bytes());
            }
        }
    }

    /// Reads the first record of several and returns the octets of the others; `None` if it is none.
    pub fn split_first(octets: &[u8]) -> Option<(Self, &[u8])> {
        let (length, rest) = octets.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (own, rest) = rest.split_at_checked(length)?;
        let mut fields = Fields(own);
        let record = fields.record()?;
        fields.0.is_empty().then_some((record, rest))
    }
}

fn emit_octets(octets: &[u8], out: &mut Vec<u8>) {
    out.extend(u32::try_from(octets.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(octets);
}

fn emit_identity(identity: &Remembered, out: &mut Vec<u8>) {
    emit_address(identity.source, out);
    out.extend(identity.serial.to_be_bytes());
    emit_ports(identity.ports, out);
    out.extend(identity.last.to_be_bytes());
    out.extend(identity.fingerprint.to_be_bytes());
    out.push(u8::from(identity.ending == Ending::Delivered));
}

fn emit_ports(ports: Ports, out: &mut Vec<u8>) {
    out.extend(ports.source.to_be_bytes());
    out.extend(ports.destination.to_be_bytes());
}

fn emit_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(6);
            out.extend(v6.octets());
        }
    }
}

/// Outcomes as they are stored.
const OUTCOMES: [(u8, Outcome); 7] = [
    (1, Outcome::Delivered),
    (2, Outcome::Expired),
    (3, Outcome::Failed(Failure::Aborted)),
    (4, Outcome::Failed(Failure::Lost)),
    (5, Outcome::Failed(Failure::Silent)),
    (6, Outcome::Sent),
    (7, Outcome::Cancelled),
];

fn code_of(outcome: Outcome) -> u8 {
    OUTCOMES.iter().find(|(_, it)| *it == outcome).map_or(0, |(code, _)| *code)
}

/// The unread rest of a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A number that others are counted on from.
    fn number(&mut self) -> Option<u64> {
        self.u64().filter(|it| *it < NUMBERS)
    }

    fn octets(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_be_bytes(self.take()?)).ok()?;
        let (octets, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(octets)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.octets()?.to_vec()).ok()
    }

    fn ports(&mut self) -> Option<Ports> {
        Some(Ports { source: self.u16()?, destination: self.u16()? })
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.u8()? {
            4 => self.take::<4>().map(|it| IpAddr::V4(Ipv4Addr::from(it))),
            6 => self.take::<16>().map(|it| IpAddr::V6(Ipv6Addr::from(it))),
            _ => None,
        }
    }

    fn outcome(&mut self) -> Option<Outcome> {
        let code = self.u8()?;
        OUTCOMES.iter().find(|(its, _)| *its == code).map(|(_, outcome)| *outcome)
    }

    fn identity(&mut self) -> Option<Remembered> {
        Some(Remembered {
            source: self.address()?,
            serial: self.u16()?,
            ports: self.ports()?,
            last: self.u16()?,
            fingerprint: self.u64()?,
            ending: if self.u8()? == 1 { Ending::Delivered } else { Ending::Aborted },
        })
    }

    fn record(&mut self) -> Option<Record> {
        Some(match self.u8()? {
            ACCEPTED => Record::Accepted(self.accepted()?),
            STARTED => {
                let (id, part) = (self.number()?, self.u16()?);
                let resume = Resume { serial: self.u16()?, segment: self.u16()? };
                let part = (part != ALL).then_some(part);
                Record::Started { id, part, resume, order: self.number()? }
            }
            OUTCOME => {
                let (id, part) = (self.number()?, self.u16()?);
                Record::Outcome { id, part, outcome: self.outcome()? }
            }
            ENDED => {
                let (id, at, name) = (self.number()?, self.u64()?, self.text()?);
                let count = self.u16()?;
                let outcomes = (0..count).map(|_| Some((self.address()?, self.outcome()?)));
                Record::Ended(Ended { id, at, name, outcomes: outcomes.collect::<Option<_>>()? })
            }
            ARRIVED => Record::Arrived(Arrived {
                number: self.number()?,
                source: self.address()?,
                ports: self.ports()?,
                precedence: self.u8()?,
                at: self.u64()?,
                identity: self.identity()?,
                data: self.octets()?.into(),
            }),
            TAKEN => Record::Taken(self.number()?),
            KNOWN => {
                let (number, at) = (self.number()?, self.u64()?);
                let identity = self.identity()?;
                Record::Known(Known { number, at, identity })
            }
            FORGOTTEN => {
                let (kind, id) = (self.u8()?, self.number()?);
                Record::Forgotten(match kind {
                    ACCEPTED => Key::Accepted(id),
                    ARRIVED => Key::Arrived(id),
                    ENDED => Key::Ended(id),
                    KNOWN => Key::Known(id),
                    _ => return None,
                })
            }
            _ => return None,
        })
    }

    fn accepted(&mut self) -> Option<Accepted> {
        let (id, name, ports) = (self.number()?, self.text()?, self.ports()?);
        let (precedence, is_acknowledged) = (self.u8()?, self.u8()? == 1);
        let via = if self.u8()? == 1 { Some(self.address()?) } else { None };
        let expires = Some(self.u64()?).filter(|at| *at != u64::MAX);
        let count = self.u16()?;
        let destinations = (0..count).map(|_| self.address()).collect::<Option<_>>()?;
        let data = self.octets()?.into();
        Some(Accepted {
            id,
            name,
            ports,
            precedence,
            is_acknowledged,
            via,
            expires,
            destinations,
            data,
        })
    }
}
