//! The two check sums of STANAG 5066 (Annex C, sections 3.2.8 and 3.2.11). The shorter one is also that
//! of packets to a modem behind TCP (MIL-STD-188-110D, A.5.3).
//!
//! Both take the least significant bit of an octet first, start at zero, and go on the air low
//! octet first.

/// x16 + x15 + x12 + x11 + x8 + x6 + x3 + 1, lowest power in the highest bit.
const HEADER: u16 = 0x9299;
/// x32 + x27 + x25 + x23 + x21 + x18 + x17 + x16 + x13 + x10 + x8 + x7 + x6 + x3 + x2 + x + 1.
const SEGMENT: u32 = 0xf3a4_e550;

const HEADER_TABLE: [u16; 256] = header_table();
/// `SEGMENT_TABLES[n][octet]`: the checksum of `octet` followed by `n` octets of zero.
static SEGMENT_TABLES: [[u32; 256]; 8] = segment_tables();

/// The CRC-16 over the header of a frame, addresses included, sync octets not.
#[must_use]
pub fn header(octets: &[u8]) -> u16 {
    octets.iter().fold(0, |register: u16, &octet| {
        let [low, high] = register.to_le_bytes();
        HEADER_TABLE[usize::from(low ^ octet)] ^ u16::from(high)
    })
}

/// The CRC-32 over the segment of a C_PDU.
#[must_use]
pub fn segment(octets: &[u8]) -> u32 {
    let (chunks, rest) = octets.as_chunks::<8>();
    let mut register = 0_u32;
    for chunk in chunks {
        let [a, b, c, d] = register.to_le_bytes();
        let mixed = [
            chunk[0] ^ a,
            chunk[1] ^ b,
            chunk[2] ^ c,
            chunk[3] ^ d,
            chunk[4],
            chunk[5],
            chunk[6],
            chunk[7],
        ];
        register = 0;
        for (table, octet) in SEGMENT_TABLES.iter().rev().zip(mixed) {
            register ^= table[usize::from(octet)];
        }
    }
    rest.iter().fold(register, |register, &octet| {
        let [low, ..] = register.to_le_bytes();
        SEGMENT_TABLES[0][usize::from(low ^ octet)] ^ register >> 8
    })
}

const fn header_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0_u16;
    while index < 256 {
        let mut register = index;
        let mut bit = 0;
        while bit < 8 {
            register = register >> 1 ^ if register & 1 == 1 { HEADER } else { 0 };
            bit += 1;
        }
        table[index as usize] = register;
        index += 1;
    }
    table
}

const fn segment_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0_u32;
    while index < 256 {
        let mut register = index;
        let mut bit = 0;
        while bit < 8 {
            register = register >> 1 ^ if register & 1 == 1 { SEGMENT } else { 0 };
            bit += 1;
        }
        tables[0][index as usize] = register;
        index += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut index = 0;
        while index < 256 {
            let before = tables[n - 1][index];
            tables[n][index] = tables[0][(before & 0xff) as usize] ^ before >> 8;
            index += 1;
        }
        n += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_vectors_of_the_standard_hold() {
        let octets = [0xf0, 0x00, 0x00, 0x47, 0x05, 0x64, 0x02];

        assert_eq!(header(&octets), 0x1e5f);
        assert_eq!(segment(&octets), 0xf417_8f95);
        assert_eq!(header(b"123456789"), 0x7d01);
        assert_eq!(segment(b"123456789"), 0x6738_a384);
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn eight_octets_at_a_time_are_one_at_a_time(
            octets in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let slow = octets.iter().fold(0_u32, |register, &octet| {
                (0..8).fold(register ^ u32::from(octet), |register, _| {
                    register >> 1 ^ if register & 1 == 1 { SEGMENT } else { 0 }
                })
            });

            prop_assert_eq!(segment(&octets), slow);
        }
    }
}
