//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// A one's complement sum in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds octets; an odd last octet counts as if a zero followed.
    #[must_use]
    pub fn with(self, octets: &[u8]) -> Self {
        // A carry out of 64 bits is worth 1, as one out of 16 bits is, so whole words may be added.
        let mut sum = self.0;
        let (words, tail) = octets.as_chunks::<8>();
        for word in words {
            let (added, carry) = sum.overflowing_add(u64::from_be_bytes(*word));
            sum = added + u64::from(carry);
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        let (added, carry) = sum.overflowing_add(u64::from_be_bytes(last));
        Self(added + u64::from(carry))
    }

    /// Adds a 16-bit number.
    #[must_use]
    pub fn with_u16(self, value: u16) -> Self {
        self.with(&value.to_be_bytes())
    }

    /// The checksum to write: the complement of the sum.
    #[must_use]
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).expect("folded below 2^16")
    }
}

/// The sum over the pseudo header of TCP, UDP and ICMPv6 (RFC 9293, 3.1; RFC 8200, 8.1).
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Checksum {
    let sum = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Checksum::default().with(&source.octets()).with(&destination.octets())
        }
        (source, destination) => {
            Checksum::default().with(&v6_octets(source)).with(&v6_octets(destination))
        }
    };
    sum.with_u16(u16::from(protocol)).with(&(len as u64).to_be_bytes())
}

fn v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
