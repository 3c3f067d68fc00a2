//! LSAs: the announcements of routers about themselves (RFC 2328, A.4 and 12).
//!
//! ```text
//!  octet 0     2         3      4    8        12       16         18       20
//!        +-----+---------+------+----+--------+--------+----------+--------+---- - -
//!        | age | options | kind | id | router | number | checksum | length | body
//!        +-----+---------+------+----+--------+--------+----------+--------+---- - -
//!  a router's body:  | flags | 0 | count 2 | of each link: id 4, data 4, kind, TOS count, metric 2
//! ```

use std::cmp::Ordering;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::Malformed;
use super::reader::Reader;

/// Octets of an LSA's header.
pub const HEADER: usize = 20;
/// Length of a link in a router's LSA, in octets.
const LINK: usize = 12;
/// Two instances whose ages differ by more than this are different ones (RFC 2328, B).
const MAX_AGE_DIFF: u16 = 900;

/// Kinds of LSAs.
pub mod kind {
    /// What a router's links are.
    pub const ROUTER: u8 = 1;
    /// The last flooded kind; kinds up to here also cover networks, summaries and external destinations.
    pub const LAST: u8 = 5;
}

/// Kinds of links of routers.
pub mod link {
    /// To another router.
    pub const POINT_TO_POINT: u8 = 1;
    /// To a network with nothing behind it.
    pub const STUB: u8 = 3;
}

/// The key of an LSA, common to its instances.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// Its kind; 1 to 5 are known.
    pub kind: u8,
    /// What it is about.
    pub id: Ipv4Addr,
    /// The router that says it.
    pub router: Ipv4Addr,
}

/// The header of an LSA: identifies one instance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Seconds since it was made.
    pub age: u16,
    /// What its router can do.
    pub options: u8,
    /// Which one.
    pub key: Key,
    /// Which instance of it: the higher, the newer.
    pub number: i32,
    /// The checksum of all but the age.
    pub checksum: u16,
    /// Octets of the LSA, header included.
    pub length: u16,
}

/// An LSA.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lsa {
    /// The header, with the correct length.
    pub header: Header,
    /// The octets after it.
    pub body: Arc<[u8]>,
}

/// The body of a router LSA: the links of a router.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RouterLsa {
    /// Bits for the kind of router.
    pub flags: u8,
    /// The links.
    pub links: Vec<Point>,
}

/// A link of a router.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// The number of the router at the other end, or the address of the network.
    pub id: Ipv4Addr,
    /// The router's own address, or the mask of the network.
    pub data: u32,
    /// Its [kind](link).
    pub kind: u8,
    /// What it costs.
    pub metric: u16,
}

impl Key {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        // A request has 32 bits for the kind, although only five kinds exist.
        let kind = u8::try_from(reader.u32()?).unwrap_or(u8::MAX);
        Ok(Self { kind, id: reader.address()?, router: reader.address()? })
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.extend(u32::from(self.kind).to_be_bytes());
        out.extend(self.id.octets());
        out.extend(self.router.octets());
    }

    /// Whether LSAs of this kind are kept and flooded.
    #[must_use]
    pub fn is_known(&self) -> bool {
        (kind::ROUTER..=kind::LAST).contains(&self.kind)
    }

    /// The key of a router LSA.
    #[must_use]
    pub fn of_router(router: Ipv4Addr) -> Self {
        Self { kind: kind::ROUTER, id: router, router }
    }
}

impl Header {
    /// The age at which an LSA ends, in seconds (RFC 2328, B).
    pub const MAX_AGE: u16 = 3_600;
    /// The number of the first instance (RFC 2328, 12.1.6).
    pub const FIRST: i32 = -0x7fff_ffff;
    /// The number of the last instance.
    pub const LAST: i32 = 0x7fff_ffff;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (age, options, kind) = (reader.u16()?, reader.u8()?, reader.u8()?);
        Ok(Self {
            age,
            options,
            key: Key { kind, id: reader.address()?, router: reader.address()? },
            number: reader.i32()?,
            checksum: reader.u16()?,
            length: reader.u16()?,
        })
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.age.to_be_bytes());
        out.extend([self.options, self.key.kind]);
        out.extend(self.key.id.octets());
        out.extend(self.key.router.octets());
        out.extend(self.number.to_be_bytes());
        out.extend(self.checksum.to_be_bytes());
        out.extend(self.length.to_be_bytes());
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.age >= Self::MAX_AGE
    }

    /// Tells the newer of two instances (RFC 2328, 13.1); `Equal` means the same instance.
    #[must_use]
    pub fn newness(&self, other: &Self) -> Ordering {
        let by_age = match (self.is_over(), other.is_over()) {
            (false, false) if self.age.abs_diff(other.age) > MAX_AGE_DIFF => {
                other.age.cmp(&self.age)
            }
            (one, another) => one.cmp(&another),
        };
        self.number.cmp(&other.number).then(self.checksum.cmp(&other.checksum)).then(by_age)
    }
}

impl Lsa {
    /// An LSA that is made now.
    #[must_use]
    pub fn new(key: Key, options: u8, number: i32, body: &[u8]) -> Self {
        let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
        let header = Header { age: 0, options, key, number, checksum: 0, length };
        let mut lsa = Self { header, body: body.into() };
        let octets = lsa.octets();
        lsa.header.checksum = checksum(&octets[2..]);
        lsa
    }

    /// Reads an LSA; `None` when the length field is shorter than a header, or exceeds the rest of the packet.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let header = Header::read(reader).ok()?;
        let body = usize::from(header.length).checked_sub(HEADER)?;
        let body = reader.take(body).ok()?;
        Some(Self { header, body: body.into() })
    }

    /// Appends it.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        self.header.emit(out);
        out.extend(&*self.body);
    }

    /// How many octets it has.
    #[must_use]
    pub fn size(&self) -> usize {
        HEADER + self.body.len()
    }

    /// Whether its checksum is right.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let (low, high) = sums(&self.octets()[2..]);
        low == 0 && high == 0
    }

    fn octets(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(self.size());
        self.emit(&mut octets);
        octets
    }
}

impl RouterLsa {
    /// Reads the body of a router's LSA. Metrics of further types of service are left out.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let [flags, _] = [reader.u8()?, reader.u8()?];
        let count = reader.u16()?;
        let mut links = Vec::new();
        for _ in 0..count {
            let (id, data, kind) = (reader.address()?, reader.u32()?, reader.u8()?);
            let further = usize::from(reader.u8()?);
            links.push(Point { id, data, kind, metric: reader.u16()? });
            reader.take(4 * further)?;
        }
        reader.end()?;
        Ok(Self { flags, links })
    }

    /// Appends the body; links beyond the 65,535th are left out.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let count = u16::try_from(self.links.len()).unwrap_or(u16::MAX);
        out.extend([self.flags, 0]);
        out.extend(count.to_be_bytes());
        out.reserve(LINK * usize::from(count));
        for link in self.links.iter().take(usize::from(count)) {
            out.extend(link.id.octets());
            out.extend(link.data.to_be_bytes());
            out.extend([link.kind, 0]);
            out.extend(link.metric.to_be_bytes());
        }
    }
}

/// Offset of the checksum within the covered octets: all but the age.
const CHECKSUM_AT: u32 = 14;

/// The Fletcher checksum (RFC 905, annex B) of an LSA without its age, whose own octets are zero.
fn checksum(octets: &[u8]) -> u16 {
    let (low, high) = sums(octets);
    let after = u32::try_from(octets.len()).unwrap_or(u32::MAX) - CHECKSUM_AT - 1;
    let first = (after % MODULUS * low + MODULUS - high) % MODULUS;
    let second = (2 * MODULUS - low - first) % MODULUS;
    // Zero and 255 are the same to the sums; the field itself is never zero.
    let written = |sum: u32| u8::try_from(if sum == 0 { MODULUS } else { sum }).unwrap_or(0);
    u16::from_be_bytes([written(first), written(second)])
}

const MODULUS: u32 = 255;

fn sums(octets: &[u8]) -> (u32, u32) {
    octets.iter().fold((0, 0), |(low, high), octet| {
        let low = (low + u32::from(*octet)) % MODULUS;
        (low, (high + low) % MODULUS)
    })
}
