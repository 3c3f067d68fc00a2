//! Segments as octets.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::{Flags, Malformed, Options, SackBlocks, Segment, Timestamps};
use crate::ip::{self, Spec, protocol};

const CLIENT: &str = "10.0.0.1:1000";
const SERVER: &str = "10.0.0.2:2000";

#[test]
fn a_segment_is_the_octets_of_the_rfc() {
    let segment = Segment { payload: b"hi!", ..blank() };
    let mut out = Vec::new();

    segment.emit(&mut out);

    let expected = [
        0x45, 0x00, 0x00, 0x2b, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x26, 0xcb, // IP
        10, 0, 0, 1, 10, 0, 0, 2, // addresses
        0x03, 0xe8, 0x07, 0xd0, // ports 1000, 2000
        0x01, 0x02, 0x03, 0x04, // sequence
        0x05, 0x06, 0x07, 0x08, // acknowledgement
        0x50, 0x18, 0x10, 0x00, // 5 words, PSH ACK, window 4096
        0xe6, 0x91, 0x00, 0x00, // checksum, urgent
        b'h', b'i', b'!',
    ];
    assert_eq!(out, expected);
    assert_eq!(parse(&out), Ok(segment));
}

#[test]
fn each_option_is_the_octets_of_its_rfc() {
    let mut sack = SackBlocks::default();
    sack.push(0x0102_0304, 0x0506_0708);
    sack.push(0x1112_1314, 0x1516_1718);
    let cases: [(Options, &[u8]); 5] = [
        (Options { mss: Some(1_460), ..Options::default() }, &[2, 4, 0x05, 0xb4]),
        (Options { window_scale: Some(7), ..Options::default() }, &[1, 3, 3, 7]),
        (Options { sack_permitted: true, ..Options::default() }, &[1, 1, 4, 2]),
        (
            Options {
                timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 }),
                ..Options::default()
            },
            &[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        ),
        (
            Options { sack, ..Options::default() },
            &[1, 1, 5, 18, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        ),
    ];
    for (options, octets) in cases {
        let (emitted, len) = options.emit();

        assert_eq!(&emitted[..len], octets);
        assert_eq!(options.emitted_len(), len);
        assert_eq!(Options::parse(octets), Ok(options));
    }
}

#[test]
fn unknown_options_are_skipped_and_the_end_ends() {
    let octets = [34, 4, 9, 9, 1, 2, 4, 0x02, 0x18, 0, 3, 99];

    assert_eq!(Options::parse(&octets).unwrap().mss, Some(536));
    assert_eq!(Options::parse(&octets).unwrap().window_scale, None);
}

#[test]
fn options_with_wrong_lengths_are_refused() {
    let cases: [&[u8]; 9] = [
        &[2],
        &[2, 3, 5],
        &[2, 4, 5],
        &[3, 2],
        &[4, 3, 0],
        &[5, 9, 0, 0, 0, 0, 0, 0, 0],
        &[8, 9, 0, 0, 0, 0, 0, 0, 0],
        &[99, 0],
        &[99, 1],
    ];
    for octets in cases {
        let result = Options::parse(octets);
        assert!(matches!(result, Err(Malformed::Option { .. })), "{octets:?}: {result:?}");
    }
}

#[test]
fn syn_and_fin_take_a_number_each() {
    let len = |flags: Flags| Segment { flags, ..blank() }.len();

    assert_eq!(len(Flags::ACK), 0);
    assert_eq!([Flags::SYN, Flags::FIN, Flags::SYN | Flags::FIN].map(len), [1, 1, 2]);
}

#[test]
fn four_blocks_fit_alone_and_three_with_timestamps() {
    let mut sack = SackBlocks::default();
    for block in 1..=5 {
        sack.push(block * 10, block * 10 + 5);
    }
    let alone = Options { sack, ..Options::default() };
    let timestamps = Some(Timestamps { value: 1, echo: 2 });
    let with_timestamps = Options { sack, timestamps, ..Options::default() };

    assert_eq!(alone.emit().1, 36);
    assert_eq!(with_timestamps.emit().1, 40);
    let (octets, len) = with_timestamps.emit();
    assert_eq!(Options::parse(&octets[..len]).unwrap().sack.as_slice(), &sack.as_slice()[..3]);
}

#[test]
fn cut_and_damaged_segments_are_refused() {
    let mut good = Vec::new();
    blank().emit(&mut good);
    let damaged = |at: usize, octet: u8| {
        let mut packet = good.clone();
        packet[at] = octet;
        parse(&packet).unwrap_err()
    };
    let mut short = Vec::new();
    Spec::new(address(CLIENT).ip(), address(SERVER).ip(), protocol::TCP).emit(19, &mut short);
    short.extend([0; 19]);

    assert_eq!(damaged(36, 0xff), Malformed::Checksum);
    assert_eq!(damaged(32, 0x40), Malformed::Offset(16));
    assert_eq!(damaged(32, 0x60), Malformed::Offset(24));
    assert_eq!(parse(&short), Err(Malformed::Truncated { have: 19 }));
}

#[test]
fn congestion_is_marked_by_both_bits_of_the_field() {
    let is_marked = |traffic_class| Segment { traffic_class, ..blank() }.is_congestion_marked();

    assert_eq!([0, 1, 2, 3, 0xfc, 0xff].map(is_marked), [false, false, false, true, false, true]);
}

#[test]
fn a_reset_answers_what_belongs_to_no_connection() {
    let with_ack = Segment { payload: b"abc", ..blank() };
    let syn = Segment { flags: Flags::SYN, ..blank() };
    let reset = Segment { flags: Flags::RST, ..blank() };

    let answer = with_ack.reset_for().unwrap();
    assert_eq!((answer.seq, answer.flags), (0x0506_0708, Flags::RST));
    assert_eq!((answer.source, answer.destination), (address(SERVER), address(CLIENT)));
    let answer = syn.reset_for().unwrap();
    assert_eq!((answer.seq, answer.ack), (0, 0x0102_0305));
    assert_eq!(answer.flags, Flags::RST | Flags::ACK);
    assert_eq!(reset.reset_for(), None);
    assert_eq!((with_ack.len(), syn.len(), reset.len()), (3, 1, 0));
    assert!(!syn.is_empty() && reset.is_empty());
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_is_emitted_parses_back(segment in segments(), payload in octets(100)) {
        let segment = Segment { payload: &payload, ..segment };
        let mut out = Vec::new();
        segment.emit(&mut out);

        let header = ip::Header::parse(&out).unwrap();
        let offset = header.len;
        let parsed = Segment::parse(&header, &out, offset).unwrap();

        // Blocks for which there was no room are gone.
        let kept = parsed.options.sack.as_slice();
        prop_assert!(segment.options.sack.as_slice().starts_with(kept));
        let options = Options { sack: parsed.options.sack, ..segment.options };
        prop_assert_eq!(parsed, Segment { options, ..segment });
    }

    #[test]
    fn arbitrary_octets_never_panic(
        octets in octets(120),
        offset in 0_usize..200,
        is_v6: bool,
    ) {
        let ip = if is_v6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.0.2"] };
        let [source, destination] = ip.map(|text| text.parse().unwrap());
        let mut packet = Vec::new();
        Spec::new(source, destination, protocol::TCP).emit(octets.len(), &mut packet);
        packet.extend(&octets);
        let header = ip::Header::parse(&packet).unwrap();

        let _ = Segment::parse(&header, &packet, offset);
        let _ = Options::parse(&octets);
    }
}

fn segments() -> impl Strategy<Value = Segment<'static>> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>(), any::<u16>());
    let ip = (any::<bool>(), any::<u8>(), any::<u8>());
    (numbers, options(), ip).prop_map(
        |((seq, ack, flags, window, urgent), options, (is_v6, ttl, traffic_class))| {
            let ends: [SocketAddr; 2] = if is_v6 {
                [address("[fd00::1]:1"), address("[fd00::2]:2")]
            } else {
                [address(CLIENT), address(SERVER)]
            };
            Segment {
                source: ends[0],
                destination: ends[1],
                seq,
                ack,
                flags: Flags(flags),
                window,
                urgent,
                options,
                payload: &[],
                ttl,
                traffic_class,
                dont_fragment: true,
            }
        },
    )
}

fn options() -> impl Strategy<Value = Options> {
    let timestamps = prop::option::of((any::<u32>(), any::<u32>()));
    let blocks = prop::collection::vec((any::<u32>(), any::<u32>()), 0..5);
    (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), timestamps, blocks).prop_map(
        |(mss, window_scale, sack_permitted, timestamps, blocks)| {
            let mut sack = SackBlocks::default();
            for (from, to) in blocks {
                sack.push(from, to);
            }
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            Options { mss, window_scale, sack_permitted, timestamps, sack }
        },
    )
}

fn octets(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

fn parse(packet: &[u8]) -> Result<Segment<'_>, Malformed> {
    let header = ip::Header::parse(packet).unwrap();
    Segment::parse(&header, packet, header.len)
}

fn blank() -> Segment<'static> {
    Segment {
        source: address(CLIENT),
        destination: address(SERVER),
        seq: 0x0102_0304,
        ack: 0x0506_0708,
        flags: Flags::PSH | Flags::ACK,
        window: 4_096,
        urgent: 0,
        options: Options::default(),
        payload: &[],
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}
