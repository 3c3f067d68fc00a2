//! What is on the wire.

use std::net::SocketAddr;

use base::ip::{Header, pseudo_header};
use proptest::prelude::*;

use super::super::wire::{Ack, Body, Combination, HEADER, Malformed, Message, Runs};

const PROTOCOL: u8 = 254;

#[test]
fn a_combination_is_written_as_drawn() {
    let combination = Combination {
        first: 0x0102_0304,
        count: 5,
        back: 6,
        id: 0x0708_090a,
        key: 0x0b0c,
        coded: &[1, 2, 3, 4, 5, 6, 7],
    };

    let octets = emit(&Body::Combination(combination));

    let expected = [
        0x11, 5, 0x9c, 0x40, 0, 80, 1, 2, 3, 4, 7, 8, 9, 10, 0, 6, 11, 12, 0x0e, 0x18, //
        1, 2, 3, 4, 5, 6, 7,
    ];
    assert_eq!(octets[20..], expected);
}

#[test]
fn an_acknowledgement_is_written_as_drawn() {
    let mut runs = Runs::default();
    runs.push(0, 2);
    runs.push(9, 1);
    let ack = Ack { unseen: 258, echo: Some(772), window: 65_535, is_hole: true, runs };

    let octets = emit(&Body::Ack(ack));

    let expected = [
        0x12, 2, 0x9c, 0x40, 0, 80, 0, 0, 1, 2, 0, 0, 3, 4, 0xff, 0xff, 0, 3, 0x38, 0x3b, //
        0, 0, 0, 2, 0, 9, 0, 1,
    ];
    assert_eq!(octets[20..], expected);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let coded = [0; 6];
    let combination = Combination { first: 0, count: 1, back: 0, id: 0, key: 0, coded: &coded };
    let combination = emit(&Body::Combination(combination));
    let ack = emit(&Body::Ack(Ack::default()));

    assert_eq!(parse(&patched(&combination, 0, 0x13)), Err(Malformed::Kind(0x13)));
    assert_eq!(parse(&patched(&combination, 1, 0)), Err(Malformed::Empty));
    assert_eq!(parse(&cut(&combination, 1)), Err(Malformed::Truncated { have: HEADER + 5 }));
    assert_eq!(parse(&cut(&ack, 1)), Err(Malformed::Truncated { have: HEADER - 1 }));
    assert_eq!(parse(&patched(&ack, 1, 1)), Err(Malformed::Truncated { have: HEADER }));
    assert_eq!(parse(&patched(&ack, 1, 9)), Err(Malformed::Run(9)));
    assert_eq!(parse(&patched(&ack, 17, 4)), Err(Malformed::Flags(4)));
    let mut damaged = combination;
    damaged[25] ^= 1;
    assert_eq!(parse(&damaged), Err(Malformed::Checksum));
}

#[test]
fn runs_that_touch_or_go_back_are_refused() {
    for second in [(2, 1), (1, 1), (5, 0), (u16::MAX, 1)] {
        let mut runs = Runs::default();
        runs.push(0, 2);
        runs.push(second.0, second.1);
        let ack = Ack { runs, ..Ack::default() };

        assert_eq!(parse(&emit(&Body::Ack(ack))), Err(Malformed::Run(1)), "{second:?}");
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn a_message_is_read_as_it_was_written(
        first: u32, count in 1_u8.., back: u16, id: u32, key: u16,
        coded in prop::collection::vec(any::<u8>(), 6..100),
        echo: Option<u32>, window: u16, is_hole: bool,
        gaps in prop::collection::vec((1_u16..500, 1_u16..500), 0..8),
    ) {
        let combination = Combination { first, count, back, id, key, coded: &coded };
        let mut runs = Runs::default();
        let mut at = 0;
        for (gap, len) in gaps {
            runs.push(at + gap, len);
            at += gap + len;
        }
        let ack = Ack { unseen: first, echo, window, is_hole, runs };

        for body in [Body::Combination(combination), Body::Ack(ack)] {
            let octets = emit(&body);
            let header = Header::parse(&octets).unwrap();
            let message = Message::parse(&header, &octets, header.len).unwrap();

            prop_assert_eq!(message.body, body);
            prop_assert_eq!(message.source, source());
            prop_assert_eq!(message.destination, destination());
        }
    }

    #[test]
    fn no_octets_make_the_parser_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut packet = emit(&Body::Ack(Ack::default()));
        packet.truncate(20);
        packet.extend(&octets);
        let _ = parse(&resum(packet));
    }
}

fn source() -> SocketAddr {
    "10.0.0.1:40000".parse().unwrap()
}

fn destination() -> SocketAddr {
    "10.0.0.2:80".parse().unwrap()
}

fn emit(body: &Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let (source, destination) = (source(), destination());
    Message { source, destination, protocol: PROTOCOL, body: *body }.emit(&mut out);
    out
}

fn parse(packet: &[u8]) -> Result<(), Malformed> {
    let header = Header::parse(packet).unwrap();
    Message::parse(&header, packet, header.len).map(|_| ())
}

/// The packet with one octet of the message changed and right checksums.
fn patched(packet: &[u8], at: usize, octet: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[20 + at] = octet;
    resum(packet)
}

fn cut(packet: &[u8], octets: usize) -> Vec<u8> {
    resum(packet[..packet.len() - octets].to_vec())
}

/// Sets the lengths and the checksums right.
fn resum(mut packet: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    base::ip::rewrite_v4_checksum(&mut packet[..20]);
    if packet.len() >= 20 + HEADER {
        packet[38..40].fill(0);
        let (from, to) = (source().ip(), destination().ip());
        let sum = pseudo_header(from, to, PROTOCOL, packet.len() - 20).with(&packet[20..]);
        packet[38..40].copy_from_slice(&sum.finish().to_be_bytes());
    }
    packet
}
