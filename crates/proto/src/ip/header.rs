//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers behind one type.
//!
//! ```text
//!  IPv4  0      1      2   3     4  5   6    7     8     9        10  11     12..16  16..20
//!      +------+------+-------+-------+----+------+-----+--------+--------+--------+-------------+
//!      |ver|hl|class | total | ident |flags,offset | ttl | proto  |checksum| source | destination |
//!      +------+------+-------+-------+----+------+-----+--------+--------+--------+-------------+
//!
//!  IPv6  0         1        2   3  4   5      6       7       8..24    24..40
//!      +---------+--------+------+---------+-------+-------+--------+-------------+
//!      |ver|class|class|flow label | length | next  | hops  | source | destination |
//!      +---------+--------+------+---------+-------+-------+--------+-------------+
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum::Checksum;
use super::ecn;

/// Octets of an IPv4 header without options.
pub const V4_HEADER: usize = 20;
/// Octets of an IPv6 header without extension headers.
pub const V6_HEADER: usize = 40;

const V4_DONT_FRAGMENT: u16 = 0x4000;
const V4_MORE_FRAGMENTS: u16 = 0x2000;
const V4_OFFSET: u16 = 0x1fff;

/// What an IP header says, whichever its version.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Where the packet comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// The protocol (IPv4) or the type of the next header (IPv6).
    pub protocol: u8,
    /// Hops left: time to live (IPv4) or hop limit (IPv6).
    pub ttl: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Whether routers may not fragment it; always so for IPv6.
    pub dont_fragment: bool,
    /// The place in a fragmented IPv4 packet; `None` for a whole packet and for IPv6.
    pub fragment: Option<Fragment>,
    /// Octets of the header: with options for IPv4, without extension headers for IPv6.
    pub len: usize,
    /// Octets of the packet, header included.
    pub total_len: usize,
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fragment {
    /// Octets before this fragment's payload.
    pub offset: usize,
    /// Whether more follow.
    pub more: bool,
    /// The packet's identification.
    pub ident: u32,
}

/// Why octets are not an IP packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The IPv4 header checksum does not match.
    #[error("wrong header checksum")]
    Checksum,
    /// The header length is below 20 or beyond the packet.
    #[error("header length {0} does not fit")]
    HeaderLength(usize),
    /// The total length is below the header's or beyond the octets at hand.
    #[error("total length {claimed}, {have} octets at hand")]
    Length {
        /// What the header claims.
        claimed: usize,
        /// What is there.
        have: usize,
    },
    /// There are too few octets for a header.
    #[error("{have} octets are too few for an IP header")]
    Truncated {
        /// What is there.
        have: usize,
    },
    /// Neither version 4 nor 6.
    #[error("IP version {0}")]
    Version(u8),
}

impl Header {
    /// Reads the header at the start of `octets`; what follows `total_len` is padding.
    ///
    /// # Errors
    /// When it is no IP packet, or a cut one.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        match octets.first().map(|first| first >> 4) {
            Some(4) => Self::parse_v4(octets),
            Some(6) => Self::parse_v6(octets),
            Some(version) => Err(Malformed::Version(version)),
            None => Err(Malformed::Truncated { have: 0 }),
        }
    }

    fn parse_v4(octets: &[u8]) -> Result<Self, Malformed> {
        let Some(fixed) = octets.first_chunk::<V4_HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let len = usize::from(fixed[0] & 0x0f) * 4;
        if len < V4_HEADER || len > octets.len() {
            return Err(Malformed::HeaderLength(len));
        }
        let total_len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if total_len < len || total_len > octets.len() {
            return Err(Malformed::Length { claimed: total_len, have: octets.len() });
        }
        if Checksum::default().with(&octets[..len]).finish() != 0 {
            return Err(Malformed::Checksum);
        }

        let flags = u16::from_be_bytes([fixed[6], fixed[7]]);
        let fragment = Fragment {
            offset: usize::from(flags & V4_OFFSET) * 8,
            more: flags & V4_MORE_FRAGMENTS != 0,
            ident: u16::from_be_bytes([fixed[4], fixed[5]]).into(),
        };
        Ok(Self {
            source: v4_address(&fixed[12..16]),
            destination: v4_address(&fixed[16..20]),
            protocol: fixed[9],
            ttl: fixed[8],
            traffic_class: fixed[1],
            dont_fragment: flags & V4_DONT_FRAGMENT != 0,
            fragment: (fragment.more || fragment.offset > 0).then_some(fragment),
            len,
            total_len,
        })
    }

    fn parse_v6(octets: &[u8]) -> Result<Self, Malformed> {
        let Some(fixed) = octets.first_chunk::<V6_HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let total_len = V6_HEADER + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if total_len > octets.len() {
            return Err(Malformed::Length { claimed: total_len, have: octets.len() });
        }

        Ok(Self {
            source: v6_address(&fixed[8..24]),
            destination: v6_address(&fixed[24..40]),
            protocol: fixed[6],
            ttl: fixed[7],
            traffic_class: fixed[0] << 4 | fixed[1] >> 4,
            dont_fragment: true,
            fragment: None,
            len: V6_HEADER,
            total_len,
        })
    }

    /// Whether the packet is IPv4.
    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.source.is_ipv4()
    }
}

/// A header to be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Spec {
    /// Where the packet comes from.
    pub source: IpAddr,
    /// Where it goes; of the same version as `source`.
    pub destination: IpAddr,
    /// The protocol or the type of the next header.
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Sets the don't-fragment bit; IPv6 has none.
    pub dont_fragment: bool,
    /// IPv4 identification.
    pub ident: u16,
}

impl Spec {
    /// A header with a TTL of 64, no class, no fragmentation.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        debug_assert_eq!(source.is_ipv4(), destination.is_ipv4(), "one version");
        Self {
            source,
            destination,
            protocol,
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
            ident: 0,
        }
    }

    /// Octets of this header.
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.source.is_ipv4() { V4_HEADER } else { V6_HEADER }
    }

    /// Appends the header of a packet with `payload_len` octets after it.
    ///
    /// # Panics
    /// When the packet would be longer than an IP packet can be.
    pub fn emit(&self, payload_len: usize, out: &mut Vec<u8>) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = u16::try_from(V4_HEADER + payload_len).expect("fits an IPv4 packet");
                let flags = if self.dont_fragment { V4_DONT_FRAGMENT } else { 0 };
                let mut header = [0; V4_HEADER];
                header[0] = 0x45;
                header[1] = self.traffic_class;
                header[2..4].copy_from_slice(&total.to_be_bytes());
                header[4..6].copy_from_slice(&self.ident.to_be_bytes());
                header[6..8].copy_from_slice(&flags.to_be_bytes());
                header[8] = self.ttl;
                header[9] = self.protocol;
                header[12..16].copy_from_slice(&source.octets());
                header[16..20].copy_from_slice(&destination.octets());
                rewrite_v4_checksum(&mut header);
                out.extend_from_slice(&header);
            }
            (source, destination) => {
                let payload = u16::try_from(payload_len).expect("fits an IPv6 packet");
                let mut header = [0; V6_HEADER];
                header[0] = 0x60 | self.traffic_class >> 4;
                header[1] = self.traffic_class << 4;
                header[4..6].copy_from_slice(&payload.to_be_bytes());
                header[6] = self.protocol;
                header[7] = self.ttl;
                header[8..24].copy_from_slice(&v6(source).octets());
                header[24..40].copy_from_slice(&v6(destination).octets());
                out.extend_from_slice(&header);
            }
        }
    }
}

/// Computes the checksum of an IPv4 header again; `header` is the header alone.
pub fn rewrite_v4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = Checksum::default().with(header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Takes one from the hops left of a packet that `Header::parse` accepts.
///
/// Returns whether it may still travel; at 0 or 1 nothing changes.
#[must_use]
pub fn decrement_ttl(packet: &mut [u8]) -> bool {
    let is_v4 = packet[0] >> 4 == 4;
    let field = if is_v4 { 8 } else { 7 };
    if packet[field] <= 1 {
        return false;
    }
    packet[field] -= 1;
    if is_v4 {
        let len = header_len(packet[0]);
        rewrite_v4_checksum(&mut packet[..len]);
    }
    true
}

/// Gives a packet that `Header::parse` accepts one more hop, if it has not as many as can be.
pub fn increment_ttl(packet: &mut [u8]) {
    let is_v4 = packet[0] >> 4 == 4;
    let field = if is_v4 { 8 } else { 7 };
    packet[field] = packet[field].saturating_add(1);
    if is_v4 {
        let len = header_len(packet[0]);
        rewrite_v4_checksum(&mut packet[..len]);
    }
}

/// Sets congestion experienced on a packet that `Header::parse` accepts.
///
/// Returns whether its transport speaks ECN; if not, nothing changes (RFC 3168, 5).
#[must_use]
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    if packet[0] >> 4 == 4 {
        if packet[1] & ecn::CE == ecn::NOT_ECT {
            return false;
        }
        packet[1] |= ecn::CE;
        let len = header_len(packet[0]);
        rewrite_v4_checksum(&mut packet[..len]);
    } else {
        if packet[1] >> 4 & ecn::CE == ecn::NOT_ECT {
            return false;
        }
        packet[1] |= ecn::CE << 4;
    }
    true
}

/// The six DSCP bits of a packet whose header was read.
#[must_use]
pub fn dscp(packet: &[u8]) -> u8 {
    match packet[0] >> 4 {
        4 => packet[1] >> 2,
        _ => (packet[0] & 0x0f) << 2 | packet[1] >> 6,
    }
}

fn header_len(first: u8) -> usize {
    usize::from(first & 0x0f) * 4
}

fn v4_address(octets: &[u8]) -> IpAddr {
    Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()
}

fn v6_address(octets: &[u8]) -> IpAddr {
    let octets: [u8; 16] = octets.try_into().expect("a slice of 16");
    Ipv6Addr::from(octets).into()
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
