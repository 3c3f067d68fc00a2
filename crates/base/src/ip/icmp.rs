//! Writes and reads the ICMP errors that gateways and routers need (RFC 792, RFC 4443).

use std::net::IpAddr;

use super::checksum::{Checksum, pseudo_header};
use super::flow::FlowKey;
use super::header::{Header, Spec};
use super::protocol;

/// Octets of the header of an ICMP error.
const HEADER: usize = 8;
/// An error carries no more than keeps it within the minimum IPv4 packet (RFC 1812, 4.3.2.3).
const V4_ERROR_LIMIT: usize = 576;
/// An error carries no more than keeps it within the minimum IPv6 MTU (RFC 4443, 2.4 c).
const V6_ERROR_LIMIT: usize = 1280;

/// Errors that a gateway sends in a second at most.
pub const ERRORS_PER_SECOND: u32 = 200;

/// An error about a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// The destination host cannot be reached.
    HostUnreachable,
    /// Nothing listens on the port.
    PortUnreachable,
    /// The host does not know the packet's protocol.
    ProtocolUnreachable,
    /// An administrator's rule forbids the packet (RFC 1812, 5.2.7.1; RFC 4443, 3.1).
    Prohibited,
    /// The packet is longer than `mtu` and may not be fragmented (RFC 1191; RFC 8201).
    TooBig {
        /// Octets that do fit.
        mtu: u16,
    },
    /// The hops were used up.
    TtlExceeded,
}

impl Error {
    fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::HostUnreachable => (3, 1, 0),
            Self::ProtocolUnreachable => (3, 2, 0),
            Self::PortUnreachable => (3, 3, 0),
            Self::Prohibited => (3, 13, 0),
            Self::TooBig { mtu } => (3, 4, u32::from(mtu)),
            Self::TtlExceeded => (11, 0, 0),
        }
    }

    fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::HostUnreachable => (1, 3, 0),
            // A parameter problem; the number says where the fixed header has the protocol.
            Self::ProtocolUnreachable => (4, 1, 6),
            Self::PortUnreachable => (1, 4, 0),
            Self::Prohibited => (1, 1, 0),
            Self::TooBig { mtu } => (2, 0, u32::from(mtu)),
            Self::TtlExceeded => (3, 0, 0),
        }
    }

    fn parse(is_v4: bool, message: &[u8]) -> Option<Self> {
        let &[kind, code, _, _, a, b, c, d] = message.first_chunk::<HEADER>()?;
        // In IPv4 the first two octets may say how long the quoted packet is (RFC 4884, 4.1).
        let mtu =
            if is_v4 { u32::from_be_bytes([0, 0, c, d]) } else { u32::from_be_bytes([a, b, c, d]) };
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        match (is_v4, kind, code) {
            (true, 3, 2) | (false, 4, 1) => Some(Self::ProtocolUnreachable),
            (true, 3, 3) | (false, 1, 4) => Some(Self::PortUnreachable),
            (true, 3, 4) | (false, 2, _) => Some(Self::TooBig { mtu }),
            (true, 3, _) | (false, 1, _) => Some(Self::HostUnreachable),
            (true, 11, _) | (false, 3, _) => Some(Self::TtlExceeded),
            _ => None,
        }
    }

    /// Appends the error about `offender` as a packet from `source` to the offender's sender.
    ///
    /// Returns false and appends nothing where an error would be wrong: about another ICMP
    /// error, a later fragment, or a packet to or from anything but a host (RFC 1122, 3.2.2).
    #[must_use]
    pub fn emit(self, source: IpAddr, offender: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(header) = Header::parse(offender) else { return false };
        if source.is_ipv4() != header.is_v4() || !is_owed_an_error(&header, offender) {
            return false;
        }

        let ((kind, code, word), protocol, limit) = if header.is_v4() {
            (self.v4(), protocol::ICMP, V4_ERROR_LIMIT)
        } else {
            (self.v6(), protocol::ICMPV6, V6_ERROR_LIMIT)
        };
        let spec = Spec::new(source, header.source, protocol);
        let quoted = &offender[..header.total_len.min(limit - spec.header_len() - HEADER)];
        let len = HEADER + quoted.len();
        spec.emit(len, out);
        let start = out.len();
        out.extend_from_slice(&[kind, code, 0, 0]);
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(quoted);

        let sum = if header.is_v4() {
            Checksum::default()
        } else {
            pseudo_header(source, header.source, protocol, len)
        };
        let sum = sum.with(&out[start..]).finish();
        out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
        true
    }
}

/// The report of an ICMP error about the quoted packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Report {
    /// What is wrong; `None` for what no transport has a use for.
    pub error: Option<Error>,
    /// The flow of the packet.
    pub flow: FlowKey,
    /// The four octets in which TCP has its sequence number.
    pub seq: u32,
    /// Octets of the packet, which the error may quote in part.
    pub octets: usize,
}

impl Report {
    /// Reads the message in a packet with this `header`; `None` also for another protocol than ICMP and for a wrong
    /// checksum.
    #[must_use]
    pub fn of_packet(header: &Header, packet: &[u8]) -> Option<Self> {
        let message = packet.get(header.transport.offset..header.total_len)?;
        let sum = match (header.is_v4(), header.transport.protocol) {
            (true, protocol::ICMP) => Checksum::default(),
            (false, protocol) if protocol == protocol::ICMPV6 => {
                pseudo_header(header.source, header.destination, protocol, message.len())
            }
            _ => return None,
        };
        if sum.with(message).finish() == 0 { Self::parse(header, message) } else { None }
    }

    /// Reads a message with its checksum verified, which came in a packet with `header`; `None` when it quotes
    /// no IP packet with 8 octets of payload, or a fragment that is not the first.
    #[must_use]
    pub fn parse(header: &Header, message: &[u8]) -> Option<Self> {
        let mut quoted = message.get(HEADER..)?.to_vec();
        let claimed = match quoted.first()? >> 4 {
            4 => usize::from(u16::from_be_bytes([*quoted.get(2)?, *quoted.get(3)?])),
            6 => 40 + usize::from(u16::from_be_bytes([*quoted.get(4)?, *quoted.get(5)?])),
            _ => return None,
        };
        // The lengths in the header describe the whole packet: fill up the cut part.
        quoted.resize(quoted.len().max(claimed), 0);
        let inner = Header::parse(&quoted).ok()?;
        // The quoted octets of a later fragment contain no header.
        if inner.is_later_fragment() {
            return None;
        }
        let (mut flow, offset) = FlowKey::of(&inner, &quoted);
        flow.protocol = inner.transport.protocol;
        (flow.source_port, flow.destination_port) = inner.ports(&quoted).unwrap_or_default();
        let seq = u32::from_be_bytes(*quoted.get(offset + 4..)?.first_chunk()?);
        Some(Self {
            error: Error::parse(header.is_v4(), message),
            flow,
            seq,
            octets: inner.total_len,
        })
    }
}

fn is_owed_an_error(header: &Header, packet: &[u8]) -> bool {
    let is_host = |address: IpAddr| match address {
        IpAddr::V4(address) => {
            !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
        }
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
    };
    let is_first = !header.is_later_fragment();
    let kind = packet.get(header.transport.offset).copied().unwrap_or_default();
    let is_error = match header.transport.protocol {
        protocol::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        protocol::ICMPV6 => kind < 128,
        _ => false,
    };
    is_host(header.source) && is_host(header.destination) && is_first && !is_error
}
