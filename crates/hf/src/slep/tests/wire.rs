//! Octets of each PDU, and what is none.

use proptest::prelude::*;

use crate::slep::reason::Reason;
use crate::slep::wire::*;

const INITIATOR: Name = Name { is_responder: false, number: 0x1234 };
const RESPONDER: Name = Name { is_responder: true, number: 0x1234 };

fn part(number: u16, data: &[u8]) -> Part<'_> {
    Part { number, is_coded: false, is_last: false, data }
}

fn proves(pdu: &Pdu<'_>, octets: &[u8]) {
    let mut emitted = Vec::new();
    pdu.emit(&mut emitted);

    assert_eq!(emitted, octets);
    assert_eq!(Pdu::parse(octets).as_ref(), Ok(pdu));
}

#[test]
fn datagrams_have_an_octet_of_their_own_or_five() {
    let addresses = Addresses { to: 7, from: 9 };
    let name = Some(DatagramName { epoch: 0x0102, id: 0x0304 });
    let none = Addresses::default();

    proves(
        &Pdu::Datagram { name: None, addresses: none, is_coded: false, data: b"hi" },
        &[0x00, b'h', b'i'],
    );
    proves(
        &Pdu::Datagram { name: None, addresses, is_coded: true, data: b"hi" },
        &[0x06, 7, 9, b'h', b'i'],
    );
    proves(
        &Pdu::Datagram { name, addresses, is_coded: false, data: b"hi" },
        &[0x0c, 1, 2, 3, 4, 7, 9, b'h', b'i'],
    );
    proves(
        &Pdu::Receipt { epoch: 0x0102, ids: Ids::new(&[[0, 1], [0, 3]]) },
        &[0x10, 1, 2, 0, 1, 0, 3],
    );
}

#[test]
fn an_open_says_who_it_is_for_with_its_first_part_only() {
    let first = Some(First { accepts: DEFLATE, guard: None });
    let addresses = Addresses::default();
    let open = Open {
        epoch: 0x0102,
        stream: INITIATOR,
        part: part(0, b"hi"),
        first,
        addresses,
        credit: None,
    };

    proves(&Pdu::Open(open), &[0x18, 1, 2, 0x12, 0x34, 0, 0, 1, b'h', b'i']);
    let guarded = Open {
        first: Some(First { accepts: DEFLATE, guard: Some(0x0506) }),
        addresses: Addresses { to: 7, from: 9 },
        part: Part { is_last: true, ..part(0, b"hi") },
        ..open
    };
    proves(&Pdu::Open(guarded), &[0x1d, 1, 2, 0x12, 0x34, 0, 0, 0x81, 5, 6, 7, 9, b'h', b'i']);
    let later = Open { part: part(3, b"hi"), first: None, ..open };
    proves(&Pdu::Open(later), &[0x18, 1, 2, 0x12, 0x34, 0, 3, b'h', b'i']);
    let credit = Some(Credit { next: 1, limit: 0x0201 });
    let answer = Open { stream: RESPONDER, credit, ..open };
    proves(&Pdu::Open(answer), &[0x1c, 1, 2, 0x92, 0x34, 0, 0, 1, 0, 1, 2, 1, b'h', b'i']);
}

#[test]
fn data_has_five_octets_and_four_with_credit() {
    let data = Data { stream: INITIATOR, part: part(0x0304, b"hi"), credit: None };
    proves(&Pdu::Data(data), &[0x20, 0x12, 0x34, 3, 4, b'h', b'i']);

    let part = Part { is_coded: true, is_last: true, ..data.part };
    let credit = Some(Credit { next: 5, limit: 6 });
    proves(
        &Pdu::Data(Data { stream: RESPONDER, part, credit }),
        &[0x27, 0x92, 0x34, 3, 4, 0, 5, 0, 6, b'h', b'i'],
    );
}

#[test]
fn control_is_short() {
    let ranges = [Ranges::octets(0x0506, 2)];
    let state = State {
        is_question: true,
        is_answer: false,
        has_heard: true,
        epoch: 0x0102,
        stream: INITIATOR,
        credit: Credit { next: 3, limit: 4 },
        ranges: Ranges::new(&ranges),
    };
    proves(&Pdu::State(state), &[0x2d, 1, 2, 0x12, 0x34, 0, 3, 0, 4, 5, 6, 0, 2]);
    proves(&Pdu::Reset { stream: RESPONDER, reason: Reason::NO_ROOM }, &[0x30, 0x92, 0x34, 9]);
    let hello = Hello { is_question: true, epoch: 0x0102, uptime: 0x0304_0506, accepts: DEFLATE };
    proves(&Pdu::Hello(hello), &[0x3c, 1, 2, 3, 4, 5, 6, 1]);
}

#[test]
fn what_is_no_pdu_is_refused() {
    assert_eq!(Pdu::parse(&[]), Err(Malformed::Truncated));
    assert_eq!(Pdu::parse(&[0x40, 0]), Err(Malformed::Version(1)));
    assert_eq!(Pdu::parse(&[0x31, 0, 0, 0]), Err(Malformed::Flags(1)));
    assert_eq!(Pdu::parse(&[0x30, 0, 0]), Err(Malformed::Truncated));
    assert_eq!(Pdu::parse(&[0x30, 0, 0, 0, 0]), Err(Malformed::Trailing));
    assert_eq!(Pdu::parse(&[0x28, 0, 0, 0, 0, 0, 0, 0, 0, 1]), Err(Malformed::Trailing));
    // Addresses behind a number other than 0 say nothing.
    assert_eq!(Pdu::parse(&[0x1c, 0, 0, 0, 0, 0, 1, 0, 0]), Err(Malformed::Flags(4)));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_is_read_is_written_the_same_way(
        head in 0_u8..0x40,
        rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let octets = [vec![head], rest].concat();
        let Ok(pdu) = Pdu::parse(&octets) else { return Ok(()) };

        let mut emitted = Vec::new();
        pdu.emit(&mut emitted);

        // Addresses that are both 0 need not have been there.
        prop_assert_eq!(Pdu::parse(&emitted), Ok(pdu));
        prop_assert!(emitted == octets || emitted.len() + 2 == octets.len());
    }
}
