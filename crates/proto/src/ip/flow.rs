//! Which packets belong together.

use std::net::IpAddr;

use super::header::{Header, V6_HEADER};
use super::protocol;

/// Addresses, ports and protocol of one direction of a conversation.
///
/// Ports are 0 where there are none to see: other protocols, and every fragment, so that all
/// fragments of a packet stay in one flow.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey {
    /// Where the packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// The transport protocol, behind any IPv6 extension headers.
    pub protocol: u8,
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
}

impl FlowKey {
    /// The flow of a packet, and where its transport header starts.
    #[must_use]
    pub fn of(header: &Header, packet: &[u8]) -> (Self, usize) {
        let (protocol, offset, is_fragment) = if header.is_v4() {
            (header.protocol, header.len, header.fragment.is_some())
        } else {
            v6_transport(header, packet)
        };
        let ports = match protocol {
            protocol::TCP | protocol::UDP if !is_fragment => {
                packet.get(offset..header.total_len).and_then(<[u8]>::first_chunk::<4>)
            }
            _ => None,
        };
        let [source_port, destination_port] = ports.map_or([0, 0], |&[a, b, c, d]| {
            [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
        });
        let key = Self {
            source: header.source,
            destination: header.destination,
            protocol,
            source_port,
            destination_port,
        };
        (key, offset)
    }

    /// The same conversation seen from the other end.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

/// The transport protocol, its offset, and whether the packet is a fragment (RFC 8200, 4).
fn v6_transport(header: &Header, packet: &[u8]) -> (u8, usize, bool) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION_OPTIONS: u8 = 60;

    let (mut next, mut offset, mut is_fragment) = (header.protocol, V6_HEADER, false);
    while let Some(&[following, len]) =
        packet.get(offset..header.total_len).and_then(<[u8]>::first_chunk::<2>)
    {
        offset += match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => (usize::from(len) + 1) * 8,
            AUTHENTICATION => (usize::from(len) + 2) * 4,
            protocol::V6_FRAGMENT => {
                is_fragment = true;
                8
            }
            _ => break,
        };
        next = following;
    }
    (next, offset, is_fragment)
}
