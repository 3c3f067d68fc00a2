//! What a rule can look at.

use std::net::IpAddr;

use base::ip::Header;

/// One direction of a conversation, as far as rules look at it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow<'a> {
    /// Where its packets come from.
    pub source: IpAddr,
    /// Where they go; of the same version as `source`.
    pub destination: IpAddr,
    /// The transport protocol, behind any IPv6 extension headers.
    pub protocol: u8,
    /// The source and the destination port, where they can be seen: TCP and UDP, whole packets and
    /// first fragments.
    pub ports: Option<(u16, u16)>,
    /// The code point of the IP header, 0 to 63.
    pub dscp: u8,
    /// The interface that it enters by, where that is known.
    pub interface: Option<&'a str>,
}

impl<'a> Flow<'a> {
    /// The flow that a packet belongs to.
    pub(crate) fn of(header: &Header, packet: &[u8], interface: Option<&'a str>) -> Self {
        Self {
            source: header.source,
            destination: header.destination,
            protocol: header.transport.protocol,
            ports: header.ports(packet),
            dscp: header.traffic_class >> 2,
            interface,
        }
    }
}
