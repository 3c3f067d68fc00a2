//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// A one's complement sum in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds octets; an odd last octet counts as if a zero followed.
    #[must_use]
    pub fn with(self, octets: &[u8]) -> Self {
        // The order of octets affects only the octet order of the sum (RFC 1071, 2 B), and sums of 32-bit words cannot
        // overflow: so whole words are added at a time.
        let mut lanes = [0_u64; 8];
        let (blocks, tail) = octets.as_chunks::<32>();
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let mut last = [0; 32];
        last[..tail.len()].copy_from_slice(tail);
        for (lane, word) in lanes.iter_mut().zip(last.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
        let sum = fold(lanes.into_iter().fold(0, add));
        Self(add(self.0, u64::from(u16::from_be_bytes(sum.to_ne_bytes()))))
    }

    /// Adds a number of one or more whole 16-bit words.
    #[must_use]
    pub fn with_number(self, value: impl Into<u64>) -> Self {
        Self(add(self.0, value.into()))
    }

    /// The checksum to write: the complement of the sum.
    #[must_use]
    pub fn finish(self) -> u16 {
        !fold(self.0)
    }
}

/// A carry out of 64 bits is worth 1, just as a carry out of 16 bits.
fn add(sum: u64, more: u64) -> u64 {
    let (added, carry) = sum.overflowing_add(more);
    added + u64::from(carry)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let [.., high, low] = sum.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// The sum over the pseudo header of TCP, UDP and ICMPv6 (RFC 9293, 3.1; RFC 8200, 8.1).
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Checksum {
    let sum = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Checksum::default().with_number(source.to_bits()).with_number(destination.to_bits())
        }
        (source, destination) => {
            Checksum::default().with(&v6_octets(source)).with(&v6_octets(destination))
        }
    };
    sum.with_number(protocol).with_number(len as u64)
}

fn v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
