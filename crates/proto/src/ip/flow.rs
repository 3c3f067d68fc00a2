//! Which packets belong together.

use std::net::IpAddr;

use super::header::{Fragment, Header, V6_HEADER};
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
        let Transport { protocol, offset, fragment } = Transport::of(header, packet);
        let ports = match protocol {
            protocol::TCP | protocol::UDP if fragment.is_none() => {
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

/// The transport header of a packet, behind any IPv6 extension headers (RFC 8200, 4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transport {
    /// The transport protocol.
    pub protocol: u8,
    /// Where its header starts; where its payload goes on in a later fragment.
    pub offset: usize,
    /// The place in a fragmented packet; `None` for a whole one.
    pub fragment: Option<Fragment>,
}

impl Transport {
    /// The transport header of a packet.
    #[must_use]
    pub fn of(header: &Header, packet: &[u8]) -> Self {
        if header.is_v4() {
            let (protocol, offset) = (header.protocol, header.len);
            Self { protocol, offset, fragment: header.fragment }
        } else {
            Self::of_v6(header, packet)
        }
    }

    fn of_v6(header: &Header, packet: &[u8]) -> Self {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const AUTHENTICATION: u8 = 51;
        const DESTINATION_OPTIONS: u8 = 60;

        let mut found = Self { protocol: header.protocol, offset: V6_HEADER, fragment: None };
        while let Some(&[following, len]) =
            packet.get(found.offset..header.total_len).and_then(<[u8]>::first_chunk::<2>)
        {
            found.offset += match found.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => (usize::from(len) + 1) * 8,
                AUTHENTICATION => (usize::from(len) + 2) * 4,
                protocol::V6_FRAGMENT => {
                    let rest = packet.get(found.offset..header.total_len).unwrap_or_default();
                    let Some(&[_, _, hi, lo, a, b, c, d]) = rest.first_chunk::<8>() else { break };
                    let place = u16::from_be_bytes([hi, lo]);
                    found.fragment = Some(Fragment {
                        offset: usize::from(place & !7),
                        more: place & 1 != 0,
                        ident: u32::from_be_bytes([a, b, c, d]),
                    });
                    8
                }
                _ => break,
            };
            found.protocol = following;
            // What follows in a later fragment is no header.
            if found.fragment.is_some_and(|fragment| fragment.offset > 0) {
                break;
            }
        }
        found
    }
}
