//! The frames of the fact sheet's vectors, both ways; the long ones as octets written out.

use base::crc;
use proptest::prelude::*;

use super::*;

const A: Address = Address::node(0x000a_141e);
const B: Address = Address::node(0x000a_141f);
const C_PDU: &[u8] = &[0x00, 0x02, 0x99, 0x00, b'H', b'E', b'L', b'L', b'O'];

#[test]
fn every_frame_is_the_octets_of_its_vector() {
    let whole = Data {
        fsn: Fsn(17),
        is_start: true,
        is_end: true,
        in_order: true,
        is_drop: false,
        at_upper_edge: false,
        at_lower_edge: false,
        segment: CpduSegment::new(C_PDU),
    };
    let unordered = Data { fsn: Fsn(18), in_order: false, ..whole };
    let short = Numbers::Short;
    let ack = |lwe, bitmap| Ack { lwe: Fsn(lwe), bitmap };
    let reset = Reset { is_full: true, id: 1, ..Reset::default() };
    let rate = RateRequest { rate: 5, interleaver: 1, is_advice: false, is_tied: false };
    let vectors = [
        (
            frame(20, A, B, Body::Data { numbers: short, data: whole, ack: None }),
            "90EB 000014E9 00A141E00A141F E00911 D5C5 0002990048454C4C4F EABFA568",
        ),
        (
            frame(3, B, A, Body::Ack { is_expedited: false, ack: ack(18, &[5]) }),
            "90EB 100003E8 00A141F00A141E 1205 7D3F",
        ),
        (
            frame(3, B, A, Body::Ack { is_expedited: false, ack: ack(18, &[]) }),
            "90EB 100003E7 00A141F00A141E 12 2FBF",
        ),
        (
            frame(20, A, B, Body::Data { numbers: short, data: unordered, ack: Some(ack(7, &[])) }),
            "90EB 200014EA 00A141E00A141F C0091207 2B2E 0002990048454C4C4F EABFA568",
        ),
        (
            frame(3, A, B, Body::Reset { numbers: short, reset }),
            "90EB 300003E9 00A141E00A141F 080001 0C47",
        ),
        (
            frame(
                6,
                A,
                B,
                Body::Expedited(Expedited {
                    is_start: true,
                    is_end: true,
                    id: 3,
                    fsn: 0,
                    segment: CpduSegment::new(C_PDU),
                }),
            ),
            "90EB 400006E9 00A141E00A141F CC0900 3CFB 0002990048454C4C4F EABFA568",
        ),
        (
            frame(3, B, A, Body::Ack { is_expedited: true, ack: ack(1, &[]) }),
            "90EB 500003E7 00A141F00A141E 01 A746",
        ),
        (
            Frame {
                header: Header { eow: Eow::RateRequest(rate), ..header(3, A, B) },
                body: Body::Management(Management {
                    is_valid: true,
                    is_ack: false,
                    id: 9,
                    extended: None,
                }),
            },
            "90EB 615403E8 00A141E00A141F 0209 C78F",
        ),
        (
            frame(6, A, B, Body::Datagram(datagram(false))),
            "90EB 700006EF 00A141E00A141F 10092300090000 0032 A1D5 0002990048454C4C4F EABFA568",
        ),
        (
            frame(
                2,
                A,
                B,
                Body::Datagram(Datagram {
                    is_expedited: true,
                    id: 5,
                    size: 1,
                    window: 8,
                    segment: CpduSegment::new(&[0x10]),
                    ..datagram(true)
                }),
            ),
            "90EB 800002EF 00A141E00A141F 00010500010000 0008 3D65 10 AA9C741E",
        ),
        (
            frame(2, A, B, Body::Warning { received: 0, reason: Reason::NotConnected }),
            "90EB F00002E7 00A141E00A141F 01 6AC8",
        ),
    ];

    for (frame, text) in vectors {
        let octets = hex(text);
        let mut out = Vec::new();

        frame.emit(&mut out);

        assert_eq!(out, octets, "{text}");
        assert_eq!(Frame::read(&octets), Ok((frame, octets.len())), "{text}");
        assert_eq!(frame.size(), octets.len(), "{text}");
    }
}

#[test]
fn the_example_of_the_standard_is_read() {
    let octets = hex("90EB F0 00 00 47 05 64 02 5F 1E");

    let (frame, len) = Frame::read(&octets).unwrap();

    assert_eq!(len, octets.len());
    assert_eq!((frame.header.to, frame.header.from), (Address::node(5), Address::node(100)));
    assert_eq!(frame.body, Body::Warning { received: 0, reason: Reason::Invalid });
}

#[test]
fn the_long_frames_are_the_octets_of_the_document() {
    let data = Data {
        fsn: Fsn(0x1234),
        is_start: false,
        is_end: true,
        in_order: false,
        is_drop: false,
        at_upper_edge: true,
        at_lower_edge: false,
        segment: CpduSegment::new(b"HI"),
    };
    let reset = Reset { is_rx_command: true, lwe: Fsn(0x0102), id: 3, ..Reset::default() };
    let list = LongAck {
        lwe: Fsn(0x1000),
        base: Fsn(0x1001),
        is_last: true,
        coding: Coding::Runs,
        list: CpduSegment::new(&[0x00, 0x81, 0x00, 0x02]),
    };
    let ack = Some(Ack { lwe: Fsn(0x0a0b), bitmap: &[1] });
    let numbers = Numbers::Long;
    let vectors = [
        (Body::Data { numbers, data, ack: None }, "9", "48 02 12 34"),
        (Body::LongAck(list), "A", "10 00 C0 04 10 01"),
        (Body::LongAck(LongAck { list: CpduSegment::new(&[]), ..list }), "A", "10 00 C0 00 10 01"),
        (Body::Data { numbers, data, ack }, "B", "48 02 12 34 0A 0B 01"),
        (Body::Reset { numbers, reset }, "C", "02 01 02 03"),
        (Body::Extension { kind: 0xaa, octets: &[1, 2] }, "D", "AA 01 02"),
        (Body::Padding { count: 5 }, "E", "00 05"),
    ];

    for (body, kind, specific) in vectors {
        let frame = frame(1, A, B, body);
        let mut out = Vec::new();
        frame.emit(&mut out);

        let specific = hex(specific);
        let size = 0xe0 | u8::try_from(6 + specific.len()).unwrap();
        let mut expected = hex(&format!("90EB {kind}0 00 01 {size:02X} 00A141E00A141F"));
        expected.extend(&specific);
        assert_eq!(out[..expected.len()], expected);
        assert_eq!(out.len(), frame.size());
        assert_eq!(Frame::read(&out), Ok((frame, out.len())));
    }
}

#[test]
fn addresses_of_odd_size_share_an_octet() {
    for (size, text) in [(5, "A141E A141F"), (7, "00A141E 00A141F")] {
        let frame = Frame {
            header: Header { address_size: size, ..header(0, A, B) },
            body: Body::Warning { received: 0, reason: Reason::UnknownKind },
        };
        let mut out = Vec::new();
        frame.emit(&mut out);

        assert_eq!(out[5] >> 5, size);
        let digits: String = out[6..].iter().map(|octet| format!("{octet:02X}")).collect();
        assert!(digits.starts_with(&text.replace(' ', "")), "{digits}");
    }
}

#[test]
fn an_address_gets_the_octets_it_needs() {
    let small = Frame {
        header: Header { address_size: 1, ..header(0, Address::node(0x12), Address::node(3)) },
        body: Body::Warning { received: 0, reason: Reason::UnknownKind },
    };
    let mut out = Vec::new();
    small.emit(&mut out);

    assert_eq!(out[5] >> 5, 2);
    assert_eq!(out[6..8], [0x12, 0x03]);
}

#[test]
fn a_group_is_told_by_a_flag_of_datagrams() {
    let group = Address::group(0x000a_141e);
    let frame = frame(0, group, B, Body::Datagram(datagram(false)));
    let mut out = Vec::new();
    frame.emit(&mut out);

    assert_eq!(out[13] & 4, 4);
    assert_eq!(Frame::read(&out).unwrap().0, frame);
}

#[test]
fn what_is_no_frame_is_refused() {
    let good = hex("90EB F0 00 00 47 05 64 02 5F 1E");
    for len in 0..good.len() {
        assert!(
            matches!(Frame::read(&good[..len]), Err(Malformed::Truncated { need }) if need > len)
        );
    }
    let with = |index: usize, octet| {
        let mut octets = good.clone();
        octets[index] = octet;
        octets
    };
    assert_eq!(Frame::read(&with(0, 0x91)), Err(Malformed::Sync));
    assert_eq!(Frame::read(&with(7, 0x65)), Err(Malformed::HeaderSum));
    assert!(matches!(Frame::read(&with(5, 0x07)), Err(Malformed::Sizes { .. })));
    assert!(matches!(Frame::read(&with(5, 0x45)), Err(Malformed::Sizes { .. })));
    let mut data = with(2, 0x00);
    let sum = crc::header(&data[2..9]).to_le_bytes();
    data[9..].copy_from_slice(&sum);
    assert!(matches!(Frame::read(&data), Err(Malformed::Body { kind: 0, len: 1, .. })));
}

#[test]
fn a_report_tells_the_runs_of_both_codings() {
    let arrived = |has_arrived, len| Run { has_arrived, len };
    let short = Ack { lwe: Fsn(255), bitmap: &[0b0001_1101, 0xff, 0x01] };
    let report = short.report(Numbers::Short);
    assert_eq!(report.base, Fsn(0));
    assert!(report.is_last);
    assert_eq!(
        report.runs().collect::<Vec<_>>(),
        [
            arrived(true, 1),
            arrived(false, 1),
            arrived(true, 3),
            arrived(false, 3),
            arrived(true, 9),
            arrived(false, 7),
        ],
    );

    let list = LongAck {
        lwe: Fsn(0xffff),
        base: Fsn(0xffff),
        is_last: true,
        coding: Coding::Runs,
        list: CpduSegment::new(&[0x01, 0x81, 0x00, 0x00, 0x02]),
    };
    assert_eq!(
        list.report().runs().collect::<Vec<_>>(),
        [arrived(false, 1), arrived(true, 128), arrived(true, 2)],
    );
    let bad = LongAck { list: CpduSegment { is_good: false, ..list.list }, ..list };
    assert_eq!(bad.report().runs().next(), None);
    assert!(!bad.report().is_last);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_octets_make_a_frame_that_is_read_back_or_none(
        kind in 0_u8..16,
        rest in prop::collection::vec(any::<u8>(), 3..100),
        specific in 0_usize..26,
    ) {
        // A header with a good check sum, so that most of them make sense.
        let addresses = usize::from(rest[2] >> 5).max(1);
        let mut octets = vec![0x90, 0xeb, kind << 4 | rest[0] & 0x0f, rest[0], rest[1]];
        octets.push(u8::try_from(addresses << 5 | (6 + specific)).unwrap());
        octets.extend(rest[3..].iter().chain([&0; 40]).take(addresses + specific));
        let sum = crc::header(&octets[2..]);
        octets.extend(sum.to_le_bytes());
        octets.extend_from_slice(&rest);

        match Frame::read_end(&octets) {
            Ok((frame, len)) => {
                let mut again = Vec::new();
                frame.emit(&mut again);
                prop_assert_eq!(again.len(), frame.size());
                prop_assert!(len <= octets.len());
                prop_assert_eq!(Frame::read(&again), Ok((frame, again.len())));
            }
            Err(Malformed::Body { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn a_length_is_read_back(len in 1_u32..100_000) {
        let mut list = Vec::new();
        ack::emit_length(0, &mut list);
        ack::emit_length(len, &mut list);

        prop_assert_eq!(list.len(), 1 + ack::length_octets(len));
        let (lwe, base) = (Fsn(0), Fsn(0));
        let (coding, list) = (Coding::Runs, CpduSegment::new(&list));
        let report = LongAck { lwe, base, is_last: true, coding, list }.report();
        prop_assert_eq!(report.runs().collect::<Vec<_>>(), [Run { has_arrived: true, len }]);
    }
}

fn header(eot: u8, to: Address, from: Address) -> Header {
    Header { eow: Eow::None, eot, to, from, address_size: 7 }
}

fn frame(eot: u8, to: Address, from: Address, body: Body<'_>) -> Frame<'_> {
    Frame { header: header(eot, to, from), body }
}

fn datagram(is_expedited: bool) -> Datagram<'static> {
    let segment = CpduSegment::new(C_PDU);
    let (id, size, offset, window) = (0x123, 9, 0, 50);
    Datagram { is_expedited, id, in_order: false, size, offset, window, segment }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&digits[index..index + 2], 16).unwrap())
        .collect()
}
