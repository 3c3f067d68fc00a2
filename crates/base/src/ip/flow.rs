//! Identifies the flow of a packet.

use std::net::IpAddr;

use super::header::Header;

/// Addresses, ports and protocol: one direction of a conversation.
///
/// Ports are 0 if not visible: for other protocols, and for every fragment, so that all fragments of a packet stay in
/// one flow.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey {
    /// Where the packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// The transport protocol, behind any IPv6 extension headers; for fragments, the first header of the packet's
    /// fragmentable part.
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
        let ports = header.ports(packet).filter(|_| header.fragment.is_none());
        let (source_port, destination_port) = ports.unwrap_or_default();
        let key = Self {
            source: header.source,
            destination: header.destination,
            protocol: header.fragment.map_or(header.transport.protocol, |fragment| fragment.kind),
            source_port,
            destination_port,
        };
        (key, header.transport.offset)
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
