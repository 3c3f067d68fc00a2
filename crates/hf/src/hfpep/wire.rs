//! Openings: the head of a stream tells the far end whom to connect to (STANAG 5066 Annex X).
//!
//! ```text
//!   7   6   5   4    3    2     1     0
//!  +-----------+----+-----+-----+------+------+
//!  | magic number                             |
//!  +-----------+----+-----+-----+------+------+
//!  | version   | V6 | TLS | SNI | Auth | ALPN |
//!  +-----------+----+-----+-----+------+------+
//!  | ports: source (2), destination (2)       |  without Auth
//!  | addresses: source, destination (4 or 16) |
//!  | length (2), SNI or Auth ID               |  with SNI or Auth
//!  | length (1), ALPN                         |  with ALPN
//!  +------------------------------------------+
//! ```
//! Version 1 is for connections between gateways alone: its octets are the same, and what comes back is in
//! [pieces](super::pieces).
//!
//! Points left open by the published figure are decided here and written down in `docs/guide/hfpep.md`: the magic
//! number, version 0, and that ports and addresses are there unless an Auth ID says where to go.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::slep::Source;

/// The first octet unless another is configured.
pub const MAGIC: u8 = 0x50;
/// Octets of an SNI or Auth ID at most: a domain name has no more, and neither has an email address
/// that mail can be sent to.
pub const MAX_NAME: usize = 255;

const VERSION: u8 = 0;
/// The version of openings whose responder answers in pieces.
const IN_PIECES: u8 = 1;
const V6: u8 = 0x10;
const TLS: u8 = 0x08;
const SNI: u8 = 0x04;
const AUTH: u8 = 0x02;
const ALPN: u8 = 0x01;

/// Whom the far end is to connect to, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Opening {
    /// To whom.
    pub target: Target,
    /// Whether the far end is to speak TLS with the target, and the names needed for TLS.
    pub tls: Option<Tls>,
}

/// To whom the far end is to connect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// To an address, as if the connection came from another.
    Address {
        /// The client's address.
        source: SocketAddr,
        /// The server's address, in the same IP version as the source.
        destination: SocketAddr,
    },
    /// To whoever this Auth ID stands for at the far end.
    AuthId(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { source, destination } => write!(f, "{destination} for {source}"),
            Self::AuthId(id) => f.write_str(id),
        }
    }
}

/// What the far end needs to know to speak TLS with the target.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tls {
    /// The name that the target's certificate must have; never with an Auth ID, which says it.
    pub sni: Option<String>,
    /// The protocol agreed with the client, such as `h2`.
    pub alpn: Option<Vec<u8>>,
}

/// Why an opening cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The octets are no opening.
    #[error("no HF-PEP: it begins with {0:#04x}")]
    Magic(u8),
    /// The version is not known here, or not over this bearer.
    #[error("HF-PEP version {0}, which is not known here")]
    Version(u8),
    /// It says both SNI and Auth, or says them or ALPN without TLS.
    #[error("flags {0:#04x} that exclude each other")]
    Flags(u8),
    /// A name is empty, too long or not text.
    #[error("a name that is none")]
    Name,
}

/// The opening of another gateway, whether the answer is wanted in [pieces](super::pieces), and the rest.
pub type OfGateway<'a> = (Opening, bool, &'a [u8]);

impl Opening {
    /// Whose connection it is: the client's address, unless an Auth ID stands for it.
    #[must_use]
    pub fn source(&self) -> Source {
        match &self.target {
            Target::Address { source, .. } => source.ip().into(),
            Target::AuthId(_) => Source::NOBODY,
        }
    }

    /// Splits an opening off the head of these octets, and returns it with the rest; `None` while there are too few
    /// octets.
    ///
    /// # Errors
    /// When no further octets could complete an opening.
    pub fn split_first(magic: u8, octets: &[u8]) -> Result<Option<(Self, &[u8])>, Malformed> {
        Self::split(magic, octets, VERSION)
    }

    /// The same of another gateway on a connection of its own.
    ///
    /// # Errors
    /// When no further octets could complete an opening.
    pub fn split_first_of_gateway(
        magic: u8,
        octets: &[u8],
    ) -> Result<Option<OfGateway<'_>>, Malformed> {
        let is_in_pieces = octets.get(1).is_some_and(|flags| flags >> 5 == IN_PIECES);
        let version = if is_in_pieces { IN_PIECES } else { VERSION };
        let split = Self::split(magic, octets, version)?;
        Ok(split.map(|(opening, rest)| (opening, is_in_pieces, rest)))
    }

    fn split(magic: u8, octets: &[u8], version: u8) -> Result<Option<(Self, &[u8])>, Malformed> {
        match octets.first() {
            Some(&first) if first != magic => return Err(Malformed::Magic(first)),
            _ => {}
        }
        let Some((&[_, flags], rest)) = octets.split_first_chunk() else { return Ok(None) };
        if flags >> 5 != version {
            return Err(Malformed::Version(flags >> 5));
        }
        let has = |flag| flags & flag != 0;
        let is_contradiction = (has(SNI) && has(AUTH))
            || ((has(SNI) || has(ALPN)) && !has(TLS))
            || (has(AUTH) && has(V6));
        if is_contradiction {
            return Err(Malformed::Flags(flags));
        }
        let mut rest = Rest(rest);
        let mut addresses = None;
        if !has(AUTH) {
            let Some(both) = rest.addresses(has(V6)) else { return Ok(None) };
            addresses = Some(both);
        }
        let mut name = None;
        if has(SNI) || has(AUTH) {
            let Some(text) = rest.name()? else { return Ok(None) };
            name = Some(text);
        }
        let mut alpn = None;
        if has(ALPN) {
            let Some(octets) = rest.alpn()? else { return Ok(None) };
            alpn = Some(octets);
        }
        let (target, sni) = match addresses {
            Some((source, destination)) => (Target::Address { source, destination }, name),
            None => (Target::AuthId(name.ok_or(Malformed::Name)?), None),
        };
        let tls = has(TLS).then_some(Tls { sni, alpn });
        Ok(Some((Self { target, tls }, rest.0)))
    }

    /// Appends the octets. Names longer than [`MAX_NAME`] are cut, which makes them names of nobody.
    pub fn emit(&self, magic: u8, out: &mut Vec<u8>) {
        self.emit_version(magic, VERSION, out);
    }

    /// The same to another gateway on a connection of its own, which is to answer in [pieces](super::pieces).
    pub fn emit_for_pieces(&self, magic: u8, out: &mut Vec<u8>) {
        self.emit_version(magic, IN_PIECES, out);
    }

    fn emit_version(&self, magic: u8, version: u8, out: &mut Vec<u8>) {
        let (sni, alpn) = match &self.tls {
            Some(tls) => (tls.sni.as_deref(), tls.alpn.as_deref()),
            None => (None, None),
        };
        let mut flags = version << 5;
        let mut set = |flag, is_set| flags |= if is_set { flag } else { 0 };
        set(TLS, self.tls.is_some());
        set(ALPN, alpn.is_some());
        let name = match &self.target {
            Target::Address { destination, .. } => {
                set(V6, destination.is_ipv6());
                set(SNI, sni.is_some());
                sni
            }
            Target::AuthId(id) => {
                set(AUTH, true);
                Some(id.as_str())
            }
        };
        out.extend_from_slice(&[magic, flags]);
        if let Target::Address { source, destination } = &self.target {
            for end in [source, destination] {
                out.extend_from_slice(&end.port().to_be_bytes());
            }
            for end in [source, destination] {
                match end.ip() {
                    IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
                    IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
                }
            }
        }
        if let Some(name) = name {
            let octets = &name.as_bytes()[..name.len().min(MAX_NAME)];
            out.extend_from_slice(&[0, u8::try_from(octets.len()).unwrap_or(u8::MAX)]);
            out.extend_from_slice(octets);
        }
        if let Some(alpn) = alpn {
            let octets = &alpn[..alpn.len().min(MAX_NAME)];
            out.push(u8::try_from(octets.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(octets);
        }
    }
}

/// The octets not yet read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let (&octets, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(octets))
    }

    fn address(&mut self, is_v6: bool) -> Option<IpAddr> {
        if is_v6 {
            let octets: [u8; 16] = self.take(16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        } else {
            let octets: [u8; 4] = self.take(4)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
    }

    fn addresses(&mut self, is_v6: bool) -> Option<(SocketAddr, SocketAddr)> {
        let (source_port, destination_port) = (self.number()?, self.number()?);
        let (source, destination) = (self.address(is_v6)?, self.address(is_v6)?);
        Some((SocketAddr::new(source, source_port), SocketAddr::new(destination, destination_port)))
    }

    fn name(&mut self) -> Result<Option<String>, Malformed> {
        let Some(len) = self.number() else { return Ok(None) };
        if len == 0 || usize::from(len) > MAX_NAME {
            return Err(Malformed::Name);
        }
        let Some(octets) = self.take(len.into()) else { return Ok(None) };
        let is_text = octets.iter().all(u8::is_ascii_graphic);
        let name = std::str::from_utf8(octets).ok().filter(|_| is_text);
        name.map(|name| Some(name.to_owned())).ok_or(Malformed::Name)
    }

    fn alpn(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(&[len]) = self.take(1) else { return Ok(None) };
        if len == 0 {
            return Err(Malformed::Name);
        }
        Ok(self.take(len.into()).map(<[u8]>::to_vec))
    }
}
