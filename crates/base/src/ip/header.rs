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
use super::{ecn, protocol};

/// Octets of an IPv4 header without options.
pub const V4_HEADER: usize = 20;
/// Octets of an IPv6 header without extension headers.
pub const V6_HEADER: usize = 40;

const V4_DONT_FRAGMENT: u16 = 0x4000;
const V4_MORE_FRAGMENTS: u16 = 0x2000;
const V4_OFFSET: u16 = 0x1fff;

/// The most IPv6 extension headers (RFC 8200, 4) read in a row; in a packet with more, the transport counts as
/// invisible. RFC 8504, 5.3, expects 8 of a host.
const MAX_EXTENSIONS: usize = 8;
/// Octets of TCP's header without options (RFC 9293, 3.1).
const TCP_HEADER: usize = 20;
/// Octets of UDP's header (RFC 768).
const UDP_HEADER: usize = 8;

/// The content of an IP header, of either version.
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
    /// The place in a fragmented packet; `None` for a whole one, and for an IPv6 packet that only claims to be a
    /// fragment (RFC 6946).
    pub fragment: Option<Fragment>,
    /// The transport header.
    pub transport: Transport,
    /// Octets of the header: with options for IPv4, without extension headers for IPv6.
    pub len: usize,
    /// Octets of the packet, header included.
    pub total_len: usize,
}

/// The position of a fragment in its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fragment {
    /// Octets of the packet's fragmentable part before this fragment.
    pub offset: usize,
    /// Whether more follow.
    pub more: bool,
    /// The packet's identification.
    pub ident: u32,
    /// What the fragmentable part begins with: the protocol (IPv4) or the type of a header (IPv6), the same in all
    /// fragments of a packet.
    pub kind: u8,
    /// Where this fragment's data begins, counted within this packet: behind the fragment header.
    pub start: usize,
}

impl Fragment {
    /// Whether another fragment has the beginning of the packet, and so the transport header.
    #[must_use]
    pub fn is_later(&self) -> bool {
        self.offset > 0
    }
}

/// The transport header of a packet, behind any IPv6 extension headers (RFC 8200, 4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transport {
    /// The transport protocol. A later fragment of IPv6 names a protocol too, which does not count (RFC 8200, 4.5); if
    /// the extension headers do not end within the packet, the type of the first unread one.
    pub protocol: u8,
    /// Where its header starts; where its payload goes on in a later fragment.
    pub offset: usize,
    /// Whether its header is within this packet, for TCP without options: not in a later fragment, and not where the
    /// packet or the first fragment ends before it (RFC 1858, RFC 7112).
    pub is_whole: bool,
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
    /// When the octets are no IP packet, or a cut one.
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
            kind: fixed[9],
            start: len,
        };
        Ok(Self {
            source: v4_address(&fixed[12..16]),
            destination: v4_address(&fixed[16..20]),
            protocol: fixed[9],
            ttl: fixed[8],
            traffic_class: fixed[1],
            dont_fragment: flags & V4_DONT_FRAGMENT != 0,
            fragment: (fragment.more || fragment.is_later()).then_some(fragment),
            transport: Transport {
                protocol: fixed[9],
                offset: len,
                is_whole: !fragment.is_later() && has_room(fixed[9], total_len - len),
            },
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

        let (transport, fragment) = behind_extensions(&octets[..total_len], fixed[6]);
        Ok(Self {
            source: v6_address(&fixed[8..24]),
            destination: v6_address(&fixed[24..40]),
            protocol: fixed[6],
            ttl: fixed[7],
            traffic_class: fixed[0] << 4 | fixed[1] >> 4,
            dont_fragment: true,
            fragment,
            transport,
            len: V6_HEADER,
            total_len,
        })
    }

    /// Whether the packet is IPv4.
    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.source.is_ipv4()
    }

    /// Whether it is a fragment, and another has the transport header.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.is_later())
    }

    /// The source and the destination port, where they can be seen: TCP and UDP, in whole packets and first fragments
    /// that have the whole transport header.
    #[must_use]
    pub fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        let Transport { protocol, offset, is_whole } = self.transport;
        if !is_whole || !matches!(protocol, protocol::TCP | protocol::UDP) {
            return None;
        }
        let &[a, b, c, d] = packet.get(offset..self.total_len)?.first_chunk::<4>()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// Octets of headers in the packet's fragmentable part, up to the end of the transport header without options: no
    /// other fragment may contain any of these octets (RFC 1858, 4; RFC 5722).
    #[must_use]
    pub fn octets_of_headers(&self) -> usize {
        let Transport { protocol, offset, .. } = self.transport;
        let start = self.fragment.map_or(self.len, |fragment| fragment.start);
        (offset + transport_len(protocol)).saturating_sub(start)
    }
}

/// Octets of a transport header without options; 0 for protocols without ports.
fn transport_len(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => TCP_HEADER,
        protocol::UDP => UDP_HEADER,
        _ => 0,
    }
}

fn has_room(protocol: u8, octets: usize) -> bool {
    octets >= transport_len(protocol)
}

/// Reads the extension headers of an IPv6 packet, the first of type `first`: returns the transport behind them, and the
/// place of a fragment in the whole packet.
fn behind_extensions(packet: &[u8], first: u8) -> (Transport, Option<Fragment>) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION_OPTIONS: u8 = 60;

    let (mut protocol, mut offset, mut fragment) = (first, V6_HEADER, None);
    for _ in 0..=MAX_EXTENSIONS {
        let rest = packet.get(offset..).unwrap_or_default();
        let following = rest.first_chunk::<2>();
        let octets = match (protocol, following) {
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS, Some(&[_, len])) => {
                (usize::from(len) + 1) * 8
            }
            (AUTHENTICATION, Some(&[_, len])) => (usize::from(len) + 2) * 4,
            (protocol::V6_FRAGMENT, Some(_)) => {
                let Some(&[next, _, hi, lo, a, b, c, d]) = rest.first_chunk::<8>() else { break };
                // A fragment of a fragment: the content appears only after both are reassembled.
                if fragment.is_some() {
                    break;
                }
                let place = u16::from_be_bytes([hi, lo]);
                let found = Fragment {
                    offset: usize::from(place & !7),
                    more: place & 1 != 0,
                    ident: u32::from_be_bytes([a, b, c, d]),
                    kind: next,
                    start: offset + 8,
                };
                // What follows in a later fragment is no header.
                if found.is_later() {
                    let transport =
                        Transport { protocol: next, offset: found.start, is_whole: false };
                    return (transport, Some(found));
                }
                fragment = found.more.then_some(found);
                8
            }
            (
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | AUTHENTICATION | protocol::V6_FRAGMENT,
                None,
            ) => break,
            (protocol, _) => {
                let is_whole = offset <= packet.len() && has_room(protocol, rest.len());
                let offset = offset.min(packet.len());
                return (Transport { protocol, offset, is_whole }, fragment);
            }
        };
        offset += octets;
        protocol = following.map_or(protocol::NONE, |following| following[0]);
    }
    (Transport { protocol, offset: offset.min(packet.len()), is_whole: false }, fragment)
}

/// A header to be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Spec {
    /// Where the packet comes from.
    pub source: IpAddr,
    /// The destination, of the same version as `source`.
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

/// Decrements the hops left in a packet that `Header::parse` accepts.
///
/// Returns whether it may still travel; at 0 or 1 nothing changes.
#[must_use]
pub fn decrement_ttl(packet: &mut [u8]) -> bool {
    let ttl = ttl(packet);
    if *ttl <= 1 {
        return false;
    }
    *ttl -= 1;
    rewrite_checksum(packet);
    true
}

/// Increments the hops left in a packet that `Header::parse` accepts, up to the maximum.
pub fn increment_ttl(packet: &mut [u8]) {
    let ttl = ttl(packet);
    *ttl = ttl.saturating_add(1);
    rewrite_checksum(packet);
}

/// Sets congestion experienced on a packet that `Header::parse` accepts.
///
/// Returns whether its transport speaks ECN; if not, nothing changes (RFC 3168, 5).
#[must_use]
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    let shift = if packet[0] >> 4 == 4 { 0 } else { 4 };
    if packet[1] >> shift & ecn::CE == ecn::NOT_ECT {
        return false;
    }
    packet[1] |= ecn::CE << shift;
    rewrite_checksum(packet);
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

/// The TTL or hop limit of a packet.
fn ttl(packet: &mut [u8]) -> &mut u8 {
    let field = if packet[0] >> 4 == 4 { 8 } else { 7 };
    &mut packet[field]
}

/// Renews the header checksum of an IPv4 packet; IPv6 has none.
fn rewrite_checksum(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        let len = usize::from(packet[0] & 0x0f) * 4;
        rewrite_v4_checksum(&mut packet[..len]);
    }
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
