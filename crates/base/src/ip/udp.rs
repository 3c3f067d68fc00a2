//! UDP (RFC 768).
//!
//! ```text
//!      0      2      4      6        8
//!      +------+------+------+--------+------ - -
//!      |source| dest |length|checksum| payload
//!      +------+------+------+--------+------ - -
//! ```

use std::net::SocketAddr;

use super::checksum::pseudo_header;
use super::header::{Header, Spec};
use super::protocol;

/// Octets of the header.
pub const HEADER: usize = 8;

/// A datagram that came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
    /// What it carries.
    pub payload: &'a [u8],
}

/// Why the payload of an IP packet is not a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum does not match.
    #[error("wrong UDP checksum")]
    Checksum,
    /// The length field does not fit the packet.
    #[error("UDP length {claimed}, {have} octets at hand")]
    Length {
        /// What the header claims.
        claimed: usize,
        /// What is there.
        have: usize,
    },
    /// There are too few octets for a header.
    #[error("{have} octets are too few for a UDP header")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

impl<'a> Datagram<'a> {
    /// Reads the datagram that starts at `offset` of an IP packet.
    ///
    /// # Errors
    /// When it is cut or damaged.
    pub fn parse(header: &Header, packet: &'a [u8], offset: usize) -> Result<Self, Malformed> {
        let octets = packet.get(offset..header.total_len).unwrap_or_default();
        let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = octets.first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let claimed = usize::from(u16::from_be_bytes([l0, l1]));
        if claimed < HEADER || claimed > octets.len() {
            return Err(Malformed::Length { claimed, have: octets.len() });
        }
        let octets = &octets[..claimed];
        let has_checksum = [c0, c1] != [0, 0] || !header.is_v4();
        let sum = pseudo_header(header.source, header.destination, protocol::UDP, claimed);
        if has_checksum && sum.with(octets).finish() != 0 {
            return Err(Malformed::Checksum);
        }

        Ok(Self {
            source: SocketAddr::new(header.source, u16::from_be_bytes([s0, s1])),
            destination: SocketAddr::new(header.destination, u16::from_be_bytes([d0, d1])),
            payload: &octets[HEADER..],
        })
    }

    /// Appends the datagram as a whole IP packet.
    ///
    /// # Panics
    /// When the payload is longer than a datagram can be.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_in_class(0, out);
    }

    /// The same with this traffic class, DSCP and ECN.
    ///
    /// # Panics
    /// When the payload is longer than a datagram can be.
    pub fn emit_in_class(&self, traffic_class: u8, out: &mut Vec<u8>) {
        let len = HEADER + self.payload.len();
        let octets = u16::try_from(len).expect("fits a datagram");
        let spec = Spec::new(self.source.ip(), self.destination.ip(), protocol::UDP);
        Spec { traffic_class, ..spec }.emit(len, out);
        let start = out.len();
        out.extend_from_slice(&self.source.port().to_be_bytes());
        out.extend_from_slice(&self.destination.port().to_be_bytes());
        out.extend_from_slice(&octets.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(self.payload);

        let sum = pseudo_header(self.source.ip(), self.destination.ip(), protocol::UDP, len);
        let sum = match sum.with(&out[start..]).finish() {
            0 => 0xffff,
            sum => sum,
        };
        out[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
    }
}
