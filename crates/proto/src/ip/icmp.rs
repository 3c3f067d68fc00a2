//! The ICMP messages that a gateway or router must be able to write (RFC 792, RFC 4443).

use std::net::IpAddr;

use super::checksum::{Checksum, pseudo_header};
use super::header::{Header, Spec};
use super::protocol;

/// Octets of the header of an error message.
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
    /// A rule of an administrator forbids it (RFC 1812, 5.2.7.1; RFC 4443, 3.1).
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
            Self::PortUnreachable => (3, 3, 0),
            Self::Prohibited => (3, 13, 0),
            Self::TooBig { mtu } => (3, 4, u32::from(mtu)),
            Self::TtlExceeded => (11, 0, 0),
        }
    }

    fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::HostUnreachable => (1, 3, 0),
            Self::PortUnreachable => (1, 4, 0),
            Self::Prohibited => (1, 1, 0),
            Self::TooBig { mtu } => (2, 0, u32::from(mtu)),
            Self::TtlExceeded => (3, 0, 0),
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

fn is_owed_an_error(header: &Header, packet: &[u8]) -> bool {
    let is_host = |address: IpAddr| match address {
        IpAddr::V4(address) => {
            !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
        }
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
    };
    let is_first = header.fragment.is_none_or(|fragment| fragment.offset == 0);
    let kind = packet.get(header.len).copied().unwrap_or_default();
    let is_error = match header.protocol {
        protocol::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        protocol::ICMPV6 => kind < 128,
        _ => false,
    };
    is_host(header.source) && is_host(header.destination) && is_first && !is_error
}
