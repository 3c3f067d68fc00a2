//! Octets of messages.

use std::net::SocketAddr;

use proptest::prelude::*;

use crate::hfpep::flows::wire::{Body, Malformed, Message, Number, Opening, Word, checksum};
use crate::slep::Reason;

fn opening(source: &str, destination: &str, is_reliable: bool, priority: u8) -> Opening {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Opening { source, destination, is_reliable, priority }
}

fn octets(number: u32, body: Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Message { flow: Number::new(number), body }.emit(&mut out);
    out
}

#[test]
fn each_message_has_its_octets() {
    let v4 = opening("10.1.0.9:5353", "10.2.0.1:53", false, 4);
    let v6 = opening("[fd01::9]:1", "[fd02::1]:2", true, 15);
    let mapped = opening("10.1.0.9:1", "[fd02::1]:2", false, 0);
    let ports_v6 = [0, 1, 0, 2];
    let far = [0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let near = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let near_mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 9];

    for (number, body, expected) in [
        (
            0x1_2345,
            Body::Open(v4, b"query"),
            [&[0x01, 0x23, 0x45, 4, 0x14, 0xe9, 0, 53, 10, 1, 0, 9, 10, 2, 0, 1][..], b"query"]
                .concat(),
        ),
        (5, Body::Open(v6, b""), [&[0, 0, 5, 0xcf][..], &ports_v6, &near, &far].concat()),
        (
            5,
            Body::Open(mapped, b""),
            [&[0, 0, 5, 0x80][..], &ports_v6, &near_mapped, &far].concat(),
        ),
        (0xf_ffff, Body::Data(b"more"), b"\x1f\xff\xffmore".to_vec()),
        (0x1_0002, Body::Answer(b""), vec![0x21, 0, 2]),
        (1, Body::Word(Word::Accepted), vec![0x30, 0, 1, 0]),
        (1, Body::Word(Word::Unknown(0xabcd)), vec![0x30, 0, 1, 1, 0xab, 0xcd]),
        (1, Body::Word(Word::Refused(Reason::BLOCKED)), vec![0x30, 0, 1, 2, 4]),
        (1, Body::Word(Word::Closed), vec![0x30, 0, 1, 3]),
    ] {
        assert_eq!(octets(number, body), expected, "{body:?}");
        if let Body::Open(opening, data) = body {
            assert_eq!(opening.header() + data.len(), expected.len());
        }
        if body != Body::Open(mapped, b"") {
            assert_eq!(Message::parse(&expected), Ok(Message { flow: Number::new(number), body }));
        }
    }
}

#[test]
fn what_is_no_message_is_refused_with_a_reason() {
    let whole = octets(1, Body::Open(opening("1.2.3.4:5", "6.7.8.9:10", false, 0), b""));
    let mut flagged = whole.clone();
    flagged[3] |= 0x10;
    let short = |kind, have| Malformed::Length { kind, have };

    for (octets, expected) in [
        (&[][..], short(0, 0)),
        (&[0x10, 0], short(1, 2)),
        (&[0x40, 0, 0], Malformed::Version(1)),
        (&whole[..15], short(0, 15)),
        (&flagged, Malformed::Flags(0x10)),
        (&[0x30, 0, 0], short(3, 3)),
        (&[0x30, 0, 0, 0, 0], short(3, 5)),
        (&[0x30, 0, 0, 1, 0], short(3, 5)),
        (&[0x30, 0, 0, 2], short(3, 4)),
        (&[0x30, 0, 0, 4], Malformed::Word(4)),
    ] {
        assert_eq!(Message::parse(octets), Err(expected), "{octets:x?}");
    }
}

#[test]
fn a_checksum_tells_zeros_of_different_lengths_apart() {
    let sums: Vec<u16> = (0..4).map(|len| checksum(&vec![0; len])).collect();

    assert_eq!(sums, [0, 1, 2, 3]);
    assert_ne!(checksum(b"abc"), checksum(b"acb"));
    // Worked out octet by octet elsewhere: 0xe8ff, and five octets.
    assert_eq!(checksum(b"query"), 0xe8fa);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_is_read_is_written_again(octets in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(message) = Message::parse(&octets) {
            let mut out = Vec::new();
            message.emit(&mut out);
            prop_assert_eq!(out, octets);
        }
    }

    #[test]
    fn what_is_written_is_read(
        number in any::<u32>(),
        source in any::<SocketAddr>(),
        destination in any::<SocketAddr>(),
        (is_reliable, priority) in (any::<bool>(), 0..16_u8),
        data in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let plain = |it: SocketAddr| SocketAddr::new(it.ip(), it.port());
        let (source, destination) = (plain(source), plain(destination));
        let opening = Opening { source, destination, is_reliable, priority };
        let octets = octets(number, Body::Open(opening, &data));

        let Ok(Message { flow, body: Body::Open(read, rest) }) = Message::parse(&octets) else {
            panic!("{octets:x?}");
        };
        prop_assert_eq!((flow, rest), (Number::new(number), &data[..]));
        let canonical = |it: SocketAddr| (it.ip().to_canonical(), it.port());
        prop_assert_eq!(canonical(read.source), canonical(source));
        prop_assert_eq!(canonical(read.destination), canonical(destination));
        prop_assert_eq!((read.is_reliable, read.priority), (is_reliable, priority));
    }
}
