//! Packets as the octets of the standard, and streams of any octets.

use proptest::prelude::*;

use super::*;
use crate::modem::lan::scan::{Found, scan};

#[test]
fn packets_are_the_octets_of_the_standard() {
    let id = *b"abcdefghijkl";
    let cases = [
        (Packet::Connect { version: 12 }, "01 0001", "0c"),
        (Packet::ConnectAck { version: 12 }, "02 0001", "0c"),
        (Packet::Error, "ff 0000", ""),
        (Packet::KeepAlive, "00 0000", ""),
        (Packet::Arm, "00 0001", "01"),
        (Packet::Start, "00 0001", "02"),
        (Packet::RequestStatus, "00 0001", "03"),
        (Packet::AbortReception, "00 0001", "06"),
        (Packet::Probe, "00 0001", "0b"),
        (
            Packet::Transfer { order: Order::Only, id, octets: &[0xaa, 0xbb] },
            "00 0010",
            "00 02 6162636465666768696a6b6c aabb",
        ),
        (Packet::Nak { cause: Cause::Underrun, id }, "00 000e", "04 01 6162636465666768696a6b6c"),
        (
            Packet::Status(Status {
                state: State::ArmedReady,
                space: 0x100,
                fill: 2,
                critical_ms: 3,
                critical_octets: 4,
            }),
            "00 0012",
            "05 03 00000100 00000002 00000003 00000004",
        ),
        (
            Packet::Carrier { is_on: true, bits_per_s: 9_600, block_bits: 10_368 },
            "00 000a",
            "08 01 00002580 00002880",
        ),
        (
            Packet::TransmitSetup { bits_per_s: 9_600, block_bits: 10_368 },
            "00 0009",
            "09 00002580 00002880",
        ),
        (
            Packet::InitialSetup(Setup {
                round_trip_ms: 1,
                least_ms: 2,
                most_ms: 3,
                is_synchronous: true,
                asynchronous: [0; 4],
            }),
            "00 0012",
            "0a 00000001 00000002 00000003 01 00000000",
        ),
    ];
    for (packet, header, payload) in cases {
        let mut expected = hex("49 50 55");
        expected.extend(hex(header));
        expected.extend(crc::header(&expected).to_be_bytes());
        let payload = hex(payload);
        expected.extend(&payload);
        if !payload.is_empty() {
            expected.extend(crc::header(&payload).to_be_bytes());
        }
        let mut out = Vec::new();

        packet.emit(&mut out);

        assert_eq!(out, expected, "{packet:?}");
        assert_eq!(scan(&out), Found::Packet(out.len(), packet));
        for len in 0..out.len() {
            assert_eq!(scan(&out[..len]), Found::Nothing, "{packet:?} {len}");
        }
    }
}

#[test]
fn the_crc_has_its_high_octet_first() {
    let mut out = Vec::new();

    Packet::Connect { version: 12 }.emit(&mut out);

    // By the bit by bit code of A.5.3.
    let bitwise = |octets: &[u8]| {
        octets.iter().fold(0_u16, |mut register, octet| {
            for bit in 0..8 {
                let is_set = (register ^ u16::from(octet >> bit)) & 1 == 1;
                register = register >> 1 ^ if is_set { 0x9299 } else { 0 };
            }
            register
        })
    };
    assert_eq!(out[6..8], bitwise(&out[..6]).to_be_bytes());
    assert_eq!(out[9..11], bitwise(&[12]).to_be_bytes());
}

#[test]
fn damage_costs_as_little_as_it_can() {
    let mut good = Vec::new();
    Packet::Arm.emit(&mut good);
    let flip = |index: usize| {
        let mut bad = good.clone();
        bad[index] ^= 1;
        bad.extend(&good);
        bad
    };

    assert_eq!(scan(&flip(0)), Found::Noise(good.len()));
    assert_eq!(scan(&flip(3)), Found::Noise(good.len()));
    assert_eq!(scan(&flip(8)), Found::Damaged(good.len()));
    assert_eq!(scan(b"xyz\x49\x50"), Found::Noise(3));
}

#[test]
fn what_is_not_allowed_is_wrong() {
    for (kind, payload) in [
        (0x03, ""),
        (0x01, ""),
        (0x01, "0c0c"),
        (0x00, "07"),
        (0x00, "0c"),
        (0x00, "0100"),
        (0x00, "00"),
        (0x00, "00 05 6162636465666768696a6b6c"),
        (0x00, "05 07 00000000 00000000 00000000 00000000"),
        (0x00, "08 02 00000000 00000000"),
        (0x00, "09 00000000"),
    ] {
        let payload = hex(payload);
        let mut octets = PREAMBLE.to_vec();
        octets.push(kind);
        octets.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        octets.extend(crc::header(&octets).to_be_bytes());
        if !payload.is_empty() {
            octets.extend(&payload);
            octets.extend(crc::header(&payload).to_be_bytes());
        }

        assert_eq!(scan(&octets), Found::Wrong(octets.len()), "{kind} {payload:?}");
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_octets_are_scanned_to_their_end(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut rest = &octets[..];
        loop {
            match scan(rest) {
                Found::Nothing => break,
                Found::Noise(len)
                | Found::Damaged(len)
                | Found::Wrong(len)
                | Found::Packet(len, _) => {
                    prop_assert!(len > 0);
                    rest = &rest[len..];
                }
            }
        }
        prop_assert!(rest.len() <= HEADER + MAX_PAYLOAD + CRC);
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len() / 2).map(|pair| &digits[2 * pair..2 * pair + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
