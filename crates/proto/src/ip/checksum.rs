//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// A one's complement sum in progress: what was added, less than 2^16 for each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds octets; an odd last octet counts as if a zero followed.
    #[must_use]
    pub fn with(self, octets: &[u8]) -> Self {
        // The sum of words in the other byte order is the sum with its octets swapped (RFC 1071,
        // 2 B), and 32 bits at a time add up to the same. Independent lanes become vectors.
        let mut lanes = [0_u64; 4];
        let mut add = |block: &[u8; 16]| {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_le_bytes(*word));
            }
        };
        let (blocks, tail) = octets.as_chunks::<16>();
        blocks.iter().for_each(&mut add);
        if !tail.is_empty() {
            let mut last = [0; 16];
            last[..tail.len()].copy_from_slice(tail);
            add(&last);
        }
        let sum = fold(lanes.into_iter().map(|lane| u64::from(fold(lane))).sum());
        Self(self.0 + u64::from(sum.swap_bytes()))
    }

    /// Adds a 16-bit number.
    #[must_use]
    pub fn with_u16(self, value: u16) -> Self {
        self.with(&value.to_be_bytes())
    }

    /// The checksum to write: the complement of the sum.
    #[must_use]
    pub fn finish(self) -> u16 {
        !fold(self.0)
    }
}

/// The one's complement sum of the 16-bit words of a number.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded below 2^16")
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
