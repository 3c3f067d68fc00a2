//! Recognizes the headers of a packet, if their kind is understood.

use base::ip::{Checksum, V4_HEADER, V6_HEADER, protocol};
use base::tcp;

/// Octets of headers at most: IPv6, and TCP with all options.
pub const MAX_HEADERS: usize = V6_HEADER + tcp::HEADER + tcp::MAX_OPTIONS;

const UDP_HEADER: usize = 8;
const V4_WITHOUT_OPTIONS: u8 = 0x45;
/// All but the bit that forbids fragments, and the reserved one.
const V4_FRAGMENT: u16 = 0x3fff;

/// The headers of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    pub(super) is_v4: bool,
    pub(super) transport: Transport,
    /// Octets of all headers.
    pub(super) len: usize,
}

/// What follows the IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// A protocol that is not understood: payload.
    Other,
    Tcp,
    Udp,
}

impl Shape {
    /// Reads the headers of a packet; `None` unless its lengths and the checksum of an IPv4 header follow
    /// from the rest.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let is_v4 = packet.first()? >> 4 == 4;
        let (protocol, start) = if is_v4 {
            (v4_protocol(packet)?, V4_HEADER)
        } else {
            (v6_protocol(packet)?, V6_HEADER)
        };
        let rest = &packet[start..];
        let (transport, len) = match protocol {
            protocol::TCP => (Transport::Tcp, tcp_header(rest)?),
            protocol::UDP if is_whole_datagram(rest) => (Transport::Udp, UDP_HEADER),
            _ => (Transport::Other, 0),
        };
        Some(Self { is_v4, transport, len: start + len })
    }

    /// Octets of the IP header.
    pub fn ip_len(&self) -> usize {
        if self.is_v4 { V4_HEADER } else { V6_HEADER }
    }
}

fn v4_protocol(packet: &[u8]) -> Option<u8> {
    let fixed = packet.first_chunk::<V4_HEADER>()?;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & V4_FRAGMENT;
    let checksum = u16::from_be_bytes([fixed[10], fixed[11]]);
    let is_plain = fixed[0] == V4_WITHOUT_OPTIONS
        && total == packet.len()
        && fragment == 0
        && checksum == v4_checksum(fixed);
    is_plain.then_some(fixed[9])
}

fn v6_protocol(packet: &[u8]) -> Option<u8> {
    let fixed = packet.first_chunk::<V6_HEADER>()?;
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    (fixed[0] >> 4 == 6 && V6_HEADER + payload == packet.len()).then_some(fixed[6])
}

/// The checksum that an IPv4 header should have, whatever it has.
pub fn v4_checksum(fixed: &[u8; V4_HEADER]) -> u16 {
    let mut header = *fixed;
    header[10..12].fill(0);
    Checksum::default().with(&header).finish()
}

fn tcp_header(segment: &[u8]) -> Option<usize> {
    let len = tcp::header_len(segment.first_chunk()?);
    (len >= tcp::HEADER && len <= segment.len()).then_some(len)
}

fn is_whole_datagram(rest: &[u8]) -> bool {
    rest.first_chunk::<UDP_HEADER>().is_some_and(|&[_, _, _, _, high, low, ..]| {
        usize::from(u16::from_be_bytes([high, low])) == rest.len()
    })
}
