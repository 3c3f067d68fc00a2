//! The packets of OSPF (RFC 2328, appendix A).
//!
//! ```text
//!  octet 0         1      2        4          8       12         14     16               24
//!        +---------+------+--------+----------+-------+----------+------+----------------+---- - -
//!        | version | kind | length | router   | area  | checksum | auth | authentication | body
//!        +---------+------+--------+----------+-------+----------+------+----------------+---- - -
//!  hello          | mask 4 | interval 2 | options | priority | dead 4 | DR 4 | BDR 4 | neighbours
//!  description    | MTU 2 | options | I M MS | number 4 | headers of LSAs
//!  request        | kind 4, id 4, router 4 of each LSA
//!  update         | count 4 | LSAs
//!  acknowledgement| headers of LSAs
//! ```
//!
//! Authentication is null: the field is written as zeros, ignored on reading, and excluded from the checksum. Octets
//! beyond the packet's own length field do not belong to the packet.
//!
//! A list is read up to the first entry that does not fit. Nothing marks where the next LSA begins except the length of
//! the one before, so nothing behind a wrong length is read; entries before the wrong length count (RFC 2328, 13).

mod lsa;
mod reader;
#[cfg(test)]
mod tests;

pub use lsa::{Header, Key, Lsa, Point, RouterLsa, kind, link};

use std::net::Ipv4Addr;

use base::ip::Checksum;
use reader::Reader;

/// Octets of the common packet header.
pub const HEADER: usize = 24;
/// Octets of a hello without neighbours.
pub const HELLO: usize = 44;
/// Octets of a description without headers.
pub const DESCRIPTION: usize = 32;
/// Octets of an update without LSAs.
pub const UPDATE: usize = 28;
/// Octets of an LSA key in a request.
pub const REQUESTED: usize = 12;

const VERSION: u8 = 2;
const NO_AUTHENTICATION: u16 = 0;

/// Bits of the options.
pub mod options {
    /// The area takes routes from outside: no stub area.
    pub const EXTERNAL: u8 = 0x02;
}

/// A packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Packet {
    /// The router ID of the sender.
    pub router: Ipv4Addr,
    /// Its area.
    pub area: u32,
    /// What it says.
    pub body: Body,
}

/// What a packet says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// Whom the router hears.
    Hello(Hello),
    /// What it has.
    Description(Description),
    /// What it wants.
    Request(Vec<Key>),
    /// LSAs.
    Update(Vec<Lsa>),
    /// What it got.
    Acknowledgement(Vec<Header>),
}

/// A hello.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The mask of the link's network, which nobody reads on point-to-point links.
    pub mask: u32,
    /// Seconds from one hello to the next.
    pub interval: u16,
    /// What the router can do.
    pub options: u8,
    /// For elections, absent on point-to-point links.
    pub priority: u8,
    /// Seconds of silence after which the router gives a neighbour up.
    pub dead: u32,
    /// The elected router and its deputy; nobody here.
    pub elected: [Ipv4Addr; 2],
    /// The IDs of the routers heard by the sender.
    pub neighbours: Vec<Ipv4Addr>,
}

/// A packet of the database description.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Description {
    /// The MTU of the sender's interface.
    pub mtu: u16,
    /// What the router can do.
    pub options: u8,
    /// Whether this packet is the first.
    pub is_first: bool,
    /// Whether more follow.
    pub has_more: bool,
    /// Whether the sender leads the exchange.
    pub is_master: bool,
    /// The number of the part.
    pub number: u32,
    /// What there is.
    pub headers: Vec<Header>,
}

/// Why octets are no packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// It is authenticated.
    #[error("authentication of type {0} is not spoken, only the null one (type 0)")]
    Authentication(u16),
    /// The checksum is wrong.
    #[error("the checksum of the packet is wrong")]
    Checksum,
    /// There is no such kind.
    #[error("unknown kind of packet {0}")]
    Kind(u8),
    /// Octets are left that are no link of a router.
    #[error("{extra} octets are left over in the body")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// Octets are missing.
    #[error("cut off after {have} octets")]
    Truncated {
        /// How many there are.
        have: usize,
    },
    /// Not version 2.
    #[error("OSPF of version {0}, only version 2 is spoken")]
    Version(u8),
}

impl Packet {
    /// Reads a packet at the beginning of `octets`; also returns whether the end of its list could not be read.
    ///
    /// # Errors
    /// When it is none, is damaged or is authenticated.
    pub fn parse(octets: &[u8]) -> Result<(Self, bool), Malformed> {
        let mut header = Reader::new(octets);
        let version = header.u8()?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let kind = header.u8()?;
        let length = usize::from(header.u16()?);
        let router = header.address()?;
        let area = header.u32()?;
        let _checksum = header.u16()?;
        let authentication = header.u16()?;
        let Some(body) = octets.get(HEADER..length) else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        if authentication != NO_AUTHENTICATION {
            return Err(Malformed::Authentication(authentication));
        }
        if Checksum::default().with(&octets[..16]).with(body).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        let (body, is_cut) = Body::parse(kind, body)?;
        Ok((Self { router, area, body }, is_cut))
    }

    /// Writes the packet to `out`, replacing its content.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend([VERSION, self.body.kind(), 0, 0]);
        out.extend(self.router.octets());
        out.extend(self.area.to_be_bytes());
        out.resize(HEADER, 0);
        self.body.emit(out);
        let length = u16::try_from(out.len()).unwrap_or(u16::MAX);
        out[2..4].copy_from_slice(&length.to_be_bytes());
        let checksum = Checksum::default().with(out).finish();
        out[12..14].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 1,
            Self::Description(_) => 2,
            Self::Request(_) => 3,
            Self::Update(_) => 4,
            Self::Acknowledgement(_) => 5,
        }
    }

    fn parse(kind: u8, octets: &[u8]) -> Result<(Self, bool), Malformed> {
        let mut reader = Reader::new(octets);
        let body = match kind {
            1 => Self::Hello(Hello::read(&mut reader)?),
            2 => Self::Description(Description::read(&mut reader)?),
            3 => Self::Request(reader.rest(REQUESTED, Key::read)?),
            4 => {
                let count = reader.u32()?;
                // The count is the sender's word, so it reserves nothing.
                let mut lsas = Vec::new();
                for _ in 0..count {
                    let Some(lsa) = Lsa::read(&mut reader) else {
                        return Ok((Self::Update(lsas), true));
                    };
                    lsas.push(lsa);
                }
                Self::Update(lsas)
            }
            5 => Self::Acknowledgement(reader.rest(lsa::HEADER, Header::read)?),
            _ => return Err(Malformed::Kind(kind)),
        };
        Ok((body, !reader.is_empty()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => hello.emit(out),
            Self::Description(description) => description.emit(out),
            Self::Request(keys) => keys.iter().for_each(|key| key.emit(out)),
            Self::Update(lsas) => {
                let count = u32::try_from(lsas.len()).unwrap_or(u32::MAX);
                out.extend(count.to_be_bytes());
                lsas.iter().for_each(|lsa| lsa.emit(out));
            }
            Self::Acknowledgement(headers) => headers.iter().for_each(|header| header.emit(out)),
        }
    }
}

impl Hello {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            mask: reader.u32()?,
            interval: reader.u16()?,
            options: reader.u8()?,
            priority: reader.u8()?,
            dead: reader.u32()?,
            elected: [reader.address()?, reader.address()?],
            neighbours: reader.rest(4, Reader::address)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.mask.to_be_bytes());
        out.extend(self.interval.to_be_bytes());
        out.extend([self.options, self.priority]);
        out.extend(self.dead.to_be_bytes());
        for address in self.elected.iter().chain(&self.neighbours) {
            out.extend(address.octets());
        }
    }
}

impl Description {
    const MASTER: u8 = 1;
    const MORE: u8 = 2;
    const FIRST: u8 = 4;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (mtu, options, flags) = (reader.u16()?, reader.u8()?, reader.u8()?);
        Ok(Self {
            mtu,
            options,
            is_first: flags & Self::FIRST != 0,
            has_more: flags & Self::MORE != 0,
            is_master: flags & Self::MASTER != 0,
            number: reader.u32()?,
            headers: reader.rest(lsa::HEADER, Header::read)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = [
            (self.is_first, Self::FIRST),
            (self.has_more, Self::MORE),
            (self.is_master, Self::MASTER),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit);
        out.extend(self.mtu.to_be_bytes());
        out.extend([self.options, flags]);
        out.extend(self.number.to_be_bytes());
        self.headers.iter().for_each(|header| header.emit(out));
    }
}

/// The network mask with this many bits.
#[must_use]
pub fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}
