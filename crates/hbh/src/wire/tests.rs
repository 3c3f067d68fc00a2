use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[test]
fn an_hdm_is_these_octets() {
    let data = Data {
        flow: FlowId(0x1234),
        seq: Seq(200),
        wants_ack: true,
        outstanding: 70,
        has_hole: true,
        is_patient: false,
        copy: 2,
        protocol: 6,
        older: Older::default(),
        payload: &[0xaa, 0xbb],
    };
    let mut out = Vec::new();

    data.emit(&mut out);

    // 0x40 RACK | 70 & 0x3f; 0x20 hole | 1 << 3 | 2
    assert_eq!(out[..4], [0x46, 200, 0x12, 0x34]);
    assert_eq!(out[6..], [6, 0x2a, 0xaa, 0xbb]);
    assert_eq!(Message::split_first(&out), Ok((Message::Data(data), &[][..])));
}

#[test]
fn a_ham_with_an_echo_and_two_intervals_is_these_octets() {
    let echo = Echo {
        of: Transmission::Packet { seq: Seq(9), copy: 1 },
        delay: Some(Duration::from_micros(32)),
    };
    let ack = Ack {
        is_congested: true,
        recovered: 5,
        echo: Some(echo),
        intervals: Intervals::new(&[[7, 7], [9, 10]]),
        ..Ack::new(FlowId(1), Seq(5))
    };
    let mut out = Vec::new();

    ack.emit(&mut out);

    assert_eq!(out[..4], [0xc2, 5, 0, 1]);
    assert_eq!(out[6..], [59, 0x85, 9, 1, 0, 2, 7, 7, 9, 10]);
    assert_eq!(Message::split_first(&out), Ok((Message::Ack(ack), &[][..])));
    let runs = [(Seq(7), Seq(7)), (Seq(9), Seq(10))];
    assert_eq!(ack.intervals.iter().collect::<Vec<_>>(), runs);
}

#[test]
fn messages_follow_each_other_in_one_packet() {
    let mut out = Vec::new();
    let ack = Ack { is_followed: true, ..Ack::new(FlowId(1), Seq(5)) };
    ack.emit(&mut out);
    let data = Data {
        flow: FlowId(2),
        seq: Seq(0),
        wants_ack: false,
        outstanding: 0,
        has_hole: false,
        is_patient: false,
        copy: 0,
        protocol: 17,
        older: Older::default(),
        payload: &[],
    };
    data.emit(&mut out);

    let (first, rest) = Message::split_first(&out).unwrap();
    let (second, rest) = Message::split_first(rest).unwrap();

    assert_eq!(first, Message::Ack(ack));
    assert_eq!(second, Message::Data(data));
    assert!(rest.is_empty());
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let mut ham = Vec::new();
    Ack::new(FlowId(1), Seq(5)).emit(&mut ham);
    let followed_by = |protocol: u8| {
        let mut octets = ham.clone();
        octets[6] = protocol;
        write_checksum(&mut octets);
        octets
    };

    let cases = [
        (ham[..7].to_vec(), Malformed::Truncated { have: 7, want: 8 }),
        ([&ham[..], &[0]].concat(), Malformed::Trailing(1)),
        (followed_by(6), Malformed::Follower(6)),
        (followed_by(253), Malformed::Truncated { have: 0, want: 8 }),
        ([&[0x81], &ham[1..]].concat(), Malformed::Truncated { have: 8, want: 10 }),
        ([&[0xc0], &ham[1..]].concat(), Malformed::Checksum),
    ];

    for (octets, reason) in cases {
        assert_eq!(Message::split_first(&octets), Err(reason), "{octets:02x?}");
    }
}

proptest! {
    #[test]
    fn an_hdm_comes_back_as_it_went(
        (flow, seq, wants_ack) in any::<(u16, u8, bool)>(),
        (outstanding, (has_hole, is_patient), copy) in (0..=MAX_SPAN, any::<(bool, bool)>(), 0..COPIES),
        riders in prop::collection::vec((1..=MAX_SPAN, prop::collection::vec(any::<u8>(), 0..60)), 0..=MAX_OLDER),
        (protocol, payload) in (any::<u8>(), prop::collection::vec(any::<u8>(), 0..99)),
    ) {
        let mut ridden = Vec::new();
        for (back, octets) in &riders {
            prop_assert!(push_older(*back, octets, &mut ridden));
        }
        let data = Data {
            flow: FlowId(flow),
            seq: Seq(seq),
            wants_ack,
            outstanding,
            has_hole,
            is_patient,
            copy,
            protocol,
            older: older(&ridden),
            payload: &payload,
        };
        let mut out = Vec::new();
        data.emit(&mut out);

        prop_assert_eq!(Message::split_first(&out), Ok((Message::Data(data), &[][..])));
        let read: Vec<_> = data.older.iter().map(|(back, octets)| (back, octets.to_vec())).collect();
        prop_assert_eq!(read, riders);
    }

    #[test]
    fn a_repair_comes_back_as_it_went(
        (flow, first, id, protocol) in (any::<u16>(), any::<u8>(), 0..REPAIRS, any::<u8>()),
        mask in prop::collection::vec(any::<u8>(), 1..=16),
        sum in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let mask = Mask::new(&mask).unwrap();
        let flow = FlowId(flow);
        let repair = Repair { flow, first: Seq(first), id, protocol, mask, sum: &sum };
        let mut out = Vec::new();
        repair.emit(&mut out);

        prop_assert_eq!(Message::split_first(&out), Ok((Message::Repair(repair), &[][..])));
    }

    #[test]
    fn no_octets_make_the_parser_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut rest = &octets[..];
        while let Ok((_, after)) = Message::split_first(rest) {
            prop_assert!(after.len() < rest.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed(bit in 0_usize..18 * 8) {
        let data = Data {
            flow: FlowId(7),
            seq: Seq(3),
            wants_ack: false,
            outstanding: 3,
            has_hole: false,
        is_patient: false,
            copy: 0,
            protocol: 6,
            older: Older::default(),
            payload: &[5; 10],
        };
        let mut out = Vec::new();
        data.emit(&mut out);
        out[bit / 8] ^= 1 << (bit % 8);

        prop_assert!(Message::split_first(&out).is_err());
    }
}
