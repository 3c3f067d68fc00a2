//! Headers of GRE as octets.
//!
//! ```text
//!  bit 0 1 2 3 4 5          13  16                            31
//!     +-+-+-+-+-+----------+----+-------------------------------+
//!     |C|0|K|S|0|  0       | 0  | EtherType of what is carried  |
//!     +-+-+-+-+-+----------+----+-------------------------------+
//!     | checksum                | 0                             |  if C
//!     | key                                                     |  if K
//!     | sequence number                                         |  if S
//!     +---------------------------------------------------------+
//! ```

use crate::ip::Checksum;

/// Octets of a header without options.
pub const HEADER: usize = 4;
/// Octets of each option.
pub const OPTION: usize = 4;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of IPv6 (RFC 7676, 3.1).
pub const IPV6: u16 = 0x86dd;

/// RFC 2784, 2.2.
const HAS_CHECKSUM: u16 = 0x8000;
/// RFC 2890, 2.
const HAS_KEY: u16 = 0x2000;
const HAS_SEQUENCE: u16 = 0x1000;
/// Bits 1 to 5 but the key's and the sequence number's: RFC 2784, 2.3.
const REFUSED: u16 = 0x4c00;
const VERSION: u16 = 0x0007;

/// A packet in GRE.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// Which tunnel between the two hosts; without, the only one.
    pub key: Option<u32>,
    /// EtherType of the payload.
    pub protocol: u16,
    /// What is carried.
    pub payload: &'a [u8],
}

/// Why octets are no packet in GRE.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// Bits with a meaning only in other protocols, for example source routes (RFC 1701).
    #[error("flags {0:#06x} are not of RFC 2784 and 2890")]
    Flags(u16),
    /// Fewer octets than the header has.
    #[error("{have} octets, the header alone is {need}")]
    Truncated {
        /// Octets there are.
        have: usize,
        /// Octets of the header.
        need: usize,
    },
    /// Another version; 1 is that of PPTP.
    #[error("version {0}, only 0 is known")]
    Version(u8),
}

impl<'a> Packet<'a> {
    /// Reads the packet that fills `octets`. A sequence number is passed over: what arrives late is
    /// not held back, and whoever carries IP sorts for itself.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let have = octets.len();
        let Some((&[f0, f1, p0, p1], rest)) = octets.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have, need: HEADER });
        };
        let flags = u16::from_be_bytes([f0, f1]);
        let [version, _] = (flags & VERSION).to_le_bytes();
        if version != 0 {
            return Err(Malformed::Version(version));
        }
        if flags & REFUSED != 0 {
            return Err(Malformed::Flags(flags));
        }
        let has = |flag| flags & flag != 0;
        let options = [HAS_CHECKSUM, HAS_KEY, HAS_SEQUENCE].into_iter().filter(|flag| has(*flag));
        let need = HEADER + OPTION * options.count();
        let Some(payload) = octets.get(need..) else {
            return Err(Malformed::Truncated { have, need });
        };
        if has(HAS_CHECKSUM) && Checksum::default().with(octets).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        let before = if has(HAS_CHECKSUM) { OPTION } else { 0 };
        let key = rest.get(before..).and_then(<[u8]>::first_chunk).filter(|_| has(HAS_KEY));
        Ok(Self {
            key: key.map(|&key| u32::from_be_bytes(key)),
            protocol: u16::from_be_bytes([p0, p1]),
            payload,
        })
    }

    /// Appends the packet, with a checksum if that is asked for.
    pub fn emit(&self, has_checksum: bool, out: &mut Vec<u8>) {
        let start = out.len();
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        let flags = flag(has_checksum, HAS_CHECKSUM) | flag(self.key.is_some(), HAS_KEY);
        out.extend(flags.to_be_bytes());
        out.extend(self.protocol.to_be_bytes());
        if has_checksum {
            out.extend([0; OPTION]);
        }
        out.extend(self.key.into_iter().flat_map(u32::to_be_bytes));
        out.extend(self.payload);
        if has_checksum {
            let sum = Checksum::default().with(&out[start..]).finish();
            out[start + HEADER..start + HEADER + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_are_these_octets() {
        let packet = Packet { key: None, protocol: IPV4, payload: &[0x45, 1, 2] };
        let keyed = Packet { key: Some(0x0102_0304), protocol: IPV6, ..packet };
        let emit = |packet: &Packet<'_>, has_checksum| {
            let mut out = vec![9];
            packet.emit(has_checksum, &mut out);
            out.split_off(1)
        };

        assert_eq!(emit(&packet, false), [0, 0, 8, 0, 0x45, 1, 2]);
        assert_eq!(emit(&keyed, false), [0x20, 0, 0x86, 0xdd, 1, 2, 3, 4, 0x45, 1, 2]);
        // 8000 + 0800 + 0000 + 4501 + 0200 = cf01, whose complement is 30fe.
        assert_eq!(emit(&packet, true), [0x80, 0, 8, 0, 0x30, 0xfe, 0, 0, 0x45, 1, 2]);
    }

    #[test]
    fn a_sequence_number_is_passed_over_and_what_is_not_of_the_standards_is_refused() {
        let numbered = [0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0x45];
        let expected = Packet { key: Some(7), protocol: IPV4, payload: &[0x45] };
        assert_eq!(Packet::parse(&numbered), Ok(expected));

        for (octets, why) in [
            (&[0, 0, 8][..], Malformed::Truncated { have: 3, need: 4 }),
            (&[0x20, 0, 8, 0, 1, 2, 3], Malformed::Truncated { have: 7, need: 8 }),
            (&[0, 1, 0x88, 0x0b], Malformed::Version(1)),
            (&[0x40, 0, 8, 0], Malformed::Flags(0x4000)),
            (&[0x08, 0, 8, 0], Malformed::Flags(0x0800)),
            (&[0x04, 0, 8, 0], Malformed::Flags(0x0400)),
            (&[0x80, 0, 8, 0, 0x30, 0xff, 0, 0, 0x45, 1, 2], Malformed::Checksum),
        ] {
            assert_eq!(Packet::parse(octets), Err(why));
        }
        // Bits 6 to 12 are ignored (RFC 2784, 2.3).
        assert!(Packet::parse(&[0x03, 0xf8, 8, 0]).is_ok());
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn what_was_written_is_read(
            key in any::<Option<u32>>(),
            protocol in any::<u16>(),
            payload in prop::collection::vec(any::<u8>(), 0..99),
            has_checksum in any::<bool>(),
        ) {
            let packet = Packet { key, protocol, payload: &payload };
            let mut out = Vec::new();
            packet.emit(has_checksum, &mut out);

            prop_assert_eq!(Packet::parse(&out), Ok(packet));
        }

        #[test]
        fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Packet::parse(&octets);
        }
    }
}
