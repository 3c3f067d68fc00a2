use std::time::Duration;

use base::ip::protocol::{EXPERIMENT, NONE};
use proptest::prelude::*;

use super::*;

const LAYOUTS: [Layout; 2] = [Layout::Wide, Layout::Paper];

fn written(layout: Layout, message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.emit(layout, &mut out);
    out
}

fn read(layout: Layout, octets: &[u8]) -> Result<Message<'_>, Malformed> {
    Message::split_first(layout, octets).map(|(message, rest)| {
        assert!(rest.is_empty());
        message
    })
}

#[test]
fn an_hdm_is_these_octets() {
    let plain = Data { wants_ack: true, ..Data::new(FlowId(0x1234), Seq(0x1c8), 6, &[0xaa, 0xbb]) };
    let repeat = Data {
        repeat: Some(Seq(0x4321)),
        outstanding: Some(70),
        has_hole: true,
        is_patient: true,
        ..plain
    };

    let [one, two] = [plain, repeat].map(|data| written(Layout::Wide, &Message::Data(data)));

    assert_eq!((&one[..4], &one[6..]), (&[0x40, 6, 0x12, 0x34][..], &[1, 200, 0xaa, 0xbb][..]));
    assert_eq!(two[..4], [0x40 | 8 | 4 | 2 | 1, 6, 0x12, 0x34]);
    assert_eq!(two[6..], [1, 200, 0x43, 0x21, 0, 70, 0xaa, 0xbb]);
    assert_eq!(read(Layout::Wide, &two), Ok(Message::Data(repeat)));
}

#[test]
fn the_hdm_and_ham_of_the_paper_are_these_octets() {
    let data = Data { wants_ack: true, ..Data::new(FlowId(0x1234), Seq(200), 6, &[0xaa]) };
    let mut intervals = Vec::new();
    Intervals::write(Layout::Paper, 5, [(7, 8), (9, 11)], &mut intervals);
    let intervals = Intervals::new(&intervals);
    let ack = Ack { is_congested: true, intervals, ..Ack::new(FlowId(1), Seq(5)) };

    let hdm = written(Layout::Paper, &Message::Data(data));
    let ham = written(Layout::Paper, &Message::Ack(ack));

    assert_eq!((&hdm[..4], &hdm[6..]), (&[0x40, 200, 0x12, 0x34][..], &[6, 0, 0xaa][..]));
    assert_eq!((&ham[..4], &ham[6..]), (&[0xc2, 5, 0, 1][..], &[NONE, 0, 7, 7, 9, 10][..]));
    let runs: Vec<_> = ack.arrived(Layout::Paper, 1_029).collect();
    assert_eq!(runs, [(1_031, 1_032), (1_033, 1_035)]);
}

#[test]
fn a_ham_with_an_echo_and_two_intervals_is_these_octets() {
    let delay = Some(Duration::from_micros(32));
    let mut intervals = Vec::new();
    Intervals::write(Layout::Wide, 5, [(7, 8), (9, 11)], &mut intervals);
    for (of, kind) in
        [(Transmission::First(Seq(0x109)), 0x80), (Transmission::Repeat(Seq(0x109)), 0xc0)]
    {
        let echo = Some(Echo { of, delay });
        let intervals = Intervals::new(&intervals);
        let ack = Ack { recovered: 5, echo, intervals, ..Ack::new(FlowId(1), Seq(0x205)) };

        let out = written(Layout::Wide, &Message::Ack(ack));

        assert_eq!(out[..4], [0x82, NONE, 0, 1]);
        assert_eq!(out[6..], [2, 5, kind | 5, 1, 9, 0, 2, 2, 1, 1, 2]);
        assert_eq!(read(Layout::Wide, &out), Ok(Message::Ack(ack)));
    }
}

#[test]
fn messages_follow_each_other_in_one_packet() {
    for layout in LAYOUTS {
        let ack = Ack { is_followed: true, ..Ack::new(FlowId(1), Seq(5)) };
        let data = Data::new(FlowId(2), Seq(0), 17, &[]);
        let mut out = written(layout, &Message::Ack(ack));
        data.emit(layout, &mut out);

        let (first, rest) = Message::split_first(layout, &out).unwrap();

        assert_eq!(first, Message::Ack(ack));
        assert_eq!(read(layout, rest), Ok(Message::Data(data)));
        assert_eq!(Message::carried(layout, &out), Some((Some(17), &[][..])));
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (layout, len, follower) in [(Layout::Wide, 9, 1), (Layout::Paper, 8, 6)] {
        let ham = written(layout, &Message::Ack(Ack::new(FlowId(1), Seq(5))));
        let followed_by = |protocol: u8| {
            let mut octets = ham.clone();
            octets[follower] = protocol;
            write_checksum(&mut octets);
            octets
        };

        let cases = [
            (ham[..7].to_vec(), Malformed::Truncated { have: 7, want: 8 }),
            ([&ham[..], &[0]].concat(), Malformed::Trailing(1)),
            (followed_by(6), Malformed::Follower(6)),
            (followed_by(EXPERIMENT), Malformed::Truncated { have: 0, want: 8 }),
            ([&[0x81], &ham[1..]].concat(), Malformed::Truncated { have: len, want: len + 2 }),
            ([&[0xc0], &ham[1..]].concat(), Malformed::Checksum),
        ];

        for (octets, reason) in cases {
            assert_eq!(Message::split_first(layout, &octets), Err(reason), "{octets:02x?}");
        }
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn an_hdm_comes_back_as_it_went(
        (flow, seq, wants_ack) in any::<(u16, u16, bool)>(),
        (repeat, outstanding) in any::<(Option<u16>, Option<u16>)>(),
        (has_hole, is_patient) in any::<(bool, bool)>(),
        riders in prop::collection::vec((1..=MAX_BACK, prop::collection::vec(any::<u8>(), 0..60)), 0..=MAX_OLDER),
        (protocol, payload) in (any::<u8>(), prop::collection::vec(any::<u8>(), 0..99)),
    ) {
        let mut ridden = Vec::new();
        for (back, octets) in &riders {
            prop_assert!(push_older(*back, octets, &mut ridden));
        }
        let data = Data {
            repeat: repeat.map(Seq),
            outstanding,
            wants_ack,
            has_hole,
            is_patient,
            older: older(&ridden),
            ..Data::new(FlowId(flow), Seq(seq), protocol, &payload)
        };

        let out = written(Layout::Wide, &Message::Data(data));

        prop_assert_eq!(read(Layout::Wide, &out), Ok(Message::Data(data)));
        let carried: Vec<_> = data.older.iter().map(|(back, octets)| (back, octets.to_vec())).collect();
        prop_assert_eq!(carried, riders);
    }

    #[test]
    fn runs_come_back_from_a_ham_as_they_went(
        next in 0..u64::MAX / 2,
        steps in prop::collection::vec((1..700_u64, 1..700_u64), 0..12),
    ) {
        let mut end = next;
        let runs: Vec<(u64, u64)> = steps.iter().map(|(gap, run)| {
            let first = end + gap;
            end = first + run;
            (first, end)
        }).collect();
        let mut intervals = Vec::new();
        Intervals::write(Layout::Wide, next, runs.iter().copied(), &mut intervals);
        let ack = Ack { intervals: Intervals::new(&intervals), ..Ack::new(FlowId(1), Seq(0)) };

        let mut read: Vec<(u64, u64)> = Vec::new();
        for (first, past) in ack.arrived(Layout::Wide, next) {
            match read.last_mut() {
                Some(last) if last.1 == first => last.1 = past,
                _ => read.push((first, past)),
            }
        }

        prop_assert_eq!(read, runs);
    }

    #[test]
    fn a_number_is_completed_from_its_low_bits(near in 1_u64 << 32..1 << 40, ahead in -120_i64..120) {
        for layout in LAYOUTS {
            let number = near.saturating_add_signed(ahead);
            prop_assert_eq!(layout.complete(layout.low(number), near), number);
        }
    }

    #[test]
    fn a_repair_comes_back_as_it_went(
        (flow, first, repeat, protocol) in any::<(u16, u16, u16, u8)>(),
        mask in prop::collection::vec(any::<u8>(), 1..=MAX_MASK),
        sum in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let mask = Mask::new(&mask).unwrap();
        let (flow, first, repeat) = (FlowId(flow), Seq(first), Seq(repeat));
        let repair = Repair { flow, first, repeat, protocol, mask, sum: &sum };

        let out = written(Layout::Wide, &Message::Repair(repair));

        prop_assert_eq!(read(Layout::Wide, &out), Ok(Message::Repair(repair)));
    }

    #[test]
    fn no_octets_make_the_parser_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        for layout in LAYOUTS {
            let _ = Message::carried(layout, &octets);
            let mut rest = &octets[..];
            while let Ok((message, after)) = Message::split_first(layout, rest) {
                if let Message::Ack(ack) = message {
                    prop_assert!(ack.arrived(layout, 1 << 32).count() <= MAX_INTERVALS);
                }
                prop_assert!(after.len() < rest.len());
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed(bit in 0_usize..18 * 8) {
        let data = Data::new(FlowId(7), Seq(3), 6, &[5; 10]);
        let mut out = written(Layout::Wide, &Message::Data(data));
        out[bit / 8] ^= 1 << (bit % 8);

        prop_assert!(Message::split_first(Layout::Wide, &out).is_err());
    }
}
