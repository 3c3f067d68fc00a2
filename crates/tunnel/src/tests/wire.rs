//! What goes over the wire.

use gf::coefficients::Coefficients;
use proptest::prelude::*;

use crate::proof::{Proof, SECRET};
use crate::wire::{Body, Malformed, Message, Report};

#[test]
fn a_source_is_what_the_layout_says() {
    let symbol = [0, 2, 0, 1, 0xaa, 0xbb];
    let message =
        Message { body: Body::Source { number: 0x01_0203, symbol: &symbol }, ..Message::default() };

    let octets = emit(&message);

    assert_eq!(octets, [0x01, 1, 2, 3, 0, 2, 0, 1, 0xaa, 0xbb]);
    assert_eq!(Message::parse(&octets), Ok(message));
}

#[test]
fn a_repair_with_a_floor_is_what_the_layout_says() {
    let body = Body::Repair { first: 7, count: 0x0102, symbol: &[0xcc] };
    let message = Message { floor: Some(5), body, ..Message::default() };

    let octets = emit(&message);

    assert_eq!(octets, [0x12, 0, 0, 5, 0, 0, 7, 1, 2, 0xcc]);
    assert_eq!(Message::parse(&octets), Ok(message));
}

#[test]
fn a_report_is_what_the_layout_says() {
    let report = Report {
        newest: 0x0102_0304,
        received_at: 0x0506_0708,
        delay: 0x090a,
        received: 0x0b0c_0d0e,
        marked: 0x0f10,
        runs: 0x1112,
        first_missing: 0x13_1415,
        extent: 0x0200,
        missing: 0x0003,
        rank: 0x0001,
        holes: vec![(0, 1), (0x81, 2)],
    };
    let message = Message { report: Some(report), wants_report: true, ..Message::default() };

    let octets = emit(&message);

    #[rustfmt::skip]
    assert_eq!(octets, [
        0x28,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 0x13, 0x14, 0x15,
        2, 0, 0, 3, 0, 1, 2,
        0, 1, 0x81, 0x01, 2,
    ]);
    assert_eq!(Message::parse(&octets), Ok(message));
}

#[test]
fn contexts_and_what_is_understood_are_what_the_layout_says() {
    let contexts = vec![(7, 0x01_0203), (9, 4)];
    let message = Message { contexts, understands: Some(0x81), ..Message::default() };

    let octets = emit(&message);

    assert_eq!(octets, [0x40, 2, 7, 1, 2, 3, 9, 0, 0, 4, 0x81]);
    assert_eq!(Message::parse(&octets), Ok(message));
}

#[test]
fn horizons_and_proofs_are_what_the_layout_says() {
    let horizons = vec![(1, 0x0102_0304), (3, 5)];
    let proof = Proof { is_backup: true, question: [6; SECRET], answer: [7; SECRET] };
    let message = Message { horizons, body: Body::Proof(proof), ..Message::default() };

    let octets = emit(&message);

    let head = [0x85, 2, 1, 1, 2, 3, 4, 3, 0, 0, 0, 5, 1];
    assert_eq!(octets, [&head[..], &[6; SECRET], &[7; SECRET]].concat());
    assert_eq!(Message::parse(&octets), Ok(message));
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let report = |extent: u8, holes: &[u8]| {
        let mut octets = vec![0x08];
        octets.extend_from_slice(&[0; 22]);
        octets.extend_from_slice(&[extent, 0, 0, 0, 0]);
        octets.extend_from_slice(holes);
        Message::parse(&octets).map(|_| ()).unwrap_err()
    };

    assert_eq!(Message::parse(&[]), Err(Malformed::Truncated));
    assert_eq!(Message::parse(&[0x80]), Err(Malformed::Truncated));
    assert_eq!(Message::parse(&[0x80, 0]), Err(Malformed::Horizons(0)));
    assert_eq!(Message::parse(&[0x80, 4, 1, 0, 0, 0, 0]), Err(Malformed::Horizons(4)));
    assert_eq!(Message::parse(&[0x07]), Err(Malformed::Flags(0x07)));
    assert_eq!(Message::parse(&[0x01, 0, 0]), Err(Malformed::Truncated));
    assert_eq!(Message::parse(&[0x02, 0, 0, 0, 0, 0, 9]), Err(Malformed::NoWindow));
    assert_eq!(Message::parse(&[0x40, 0]), Err(Malformed::Contexts(0)));
    assert_eq!(Message::parse(&[0x40, 9]), Err(Malformed::Contexts(9)));
    assert_eq!(Message::parse(&[0x40, 1, 7, 0, 0]), Err(Malformed::Truncated));
    assert_eq!(report(9, &[1, 9, 1]), Malformed::Hole);
    assert_eq!(report(9, &[1, 0, 0]), Malformed::Hole);
    assert_eq!(report(9, &[49]), Malformed::Hole);
    assert_eq!(report(9, &[1, 0x81, 0x80]), Malformed::Hole);
}

#[test]
fn coefficients_are_a_function_of_the_number_and_never_zero() {
    let of = |number| Coefficients::of(number).take(2_000).collect::<Vec<_>>();

    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
    assert!(of(5).iter().all(|&coefficient| coefficient != 0));
    assert_eq!(of(1)[..8], GOLDEN, "both ends must agree for ever");
}

const GOLDEN: [u8; 8] = [26, 158, 116, 196, 100, 1, 169, 244];

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_octets_are_read_or_refused_and_read_back_the_same(
        octets in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let Ok(message) = Message::parse(&octets) else { return Ok(()) };

        let again = emit(&message);

        prop_assert_eq!(Message::parse(&again), Ok(message));
    }
}

fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    message.emit(&mut octets);
    octets
}
