//! Octets, written out by hand from the standard's layouts.

use proptest::prelude::*;

use crate::wire::{Body, Cover, LONGEST_MASK, Malformed, MaskBuffer, Pdu, Place, Ports};

const PORTS: Ports = Ports { source: 5_000, destination: 1_581 };

fn emitted(body: Body<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    Pdu { ports: PORTS, serial: 16_000, body }.emit(&mut octets);
    assert_eq!(Pdu::parse(&octets), Ok(Pdu { ports: PORTS, serial: 16_000, body }));
    octets
}

#[test]
fn the_published_example_is_written_as_published() {
    let octets = emitted(Body::AckRequest { last_sent: 260 });

    let published = [0x13, 0x88, 0x06, 0x2d, 0x60, 0x07, 0x3e, 0x80, 0x01, 0x04, 0x00, 0x00];
    assert_eq!(octets, published);
}

#[test]
fn each_type_has_its_control_word() {
    let place = Place::new(1, 1).unwrap();
    let data = |is_acknowledged, polls| Body::Data { is_acknowledged, polls, place, data: b"x" };
    let mask = MaskBuffer::new(3);
    let partial = Body::Partial { is_final: true, mask: mask.mask() };
    let cover = Cover { first: place, span: 1, number: 9, tail: 1 };

    let words = [
        (data(true, true), [0x00, 0x07]),
        (data(true, false), [0x00, 0x06]),
        (data(false, false), [0x40, 0x06]),
        (partial, [0x80, 0x07]),
        (Body::Complete { is_final: true }, [0xc0, 0x05]),
        (Body::AbortRequest { polls: false }, [0x20, 0x04]),
        (Body::AbortConfirm { is_final: true }, [0xa0, 0x05]),
        (Body::Repair { polls: false, cover, symbol: b"x" }, [0xe0, 0x0a]),
    ];

    for (body, word) in words {
        assert_eq!(emitted(body)[4..6], word, "{body:?}");
    }
}

#[test]
fn a_mask_has_a_bit_for_each_segment_from_the_first_missing_one_on() {
    let mut mask = MaskBuffer::new(3);
    mask.set(4);
    mask.set(6);

    let octets = emitted(Body::Partial { is_final: true, mask: mask.mask() });

    assert_eq!(octets[8..], [0, 3, 0x50, 0]);
    assert_eq!(mask.mask().arrived().collect::<Vec<_>>(), [4, 6]);
}

#[test]
fn the_longest_mask_has_a_header_of_104_words() {
    let mut mask = MaskBuffer::new(1);
    mask.set(1 + LONGEST_MASK - 1);
    mask.set(1 + LONGEST_MASK);

    let octets = emitted(Body::Partial { is_final: true, mask: mask.mask() });

    assert_eq!((octets.len(), &octets[4..6]), (416, &[0x80, 0xd1][..]));
    assert_eq!(mask.mask().arrived().collect::<Vec<_>>(), [LONGEST_MASK], "one is out of reach");
}

#[test]
fn a_repair_is_written_as_documented() {
    let first = Place::new(2, 7).unwrap();
    let cover = Cover { first, span: 5, number: 0x0102, tail: 3 };

    let octets = emitted(Body::Repair { polls: true, cover, symbol: &[0xaa; 4] });

    let fields = [0, 2, 0, 7, 0, 5, 1, 2, 0, 3, 0, 0, 0xaa, 0xaa, 0xaa, 0xaa];
    assert_eq!((&octets[4..6], &octets[8..]), (&[0xe0, 0x0b][..], &fields[..]));
}

#[test]
fn what_cannot_be_is_refused() {
    let with = |control: u16, rest: &[u8]| {
        let octets = [&[0, 1, 0, 2][..], &control.to_be_bytes(), &[0, 9], rest].concat();
        Pdu::parse(&octets).map(|_| ()).unwrap_err()
    };
    let length = |kind, words| Malformed::HeaderLength { kind, words };

    assert_eq!(with(0, &[0; 8]), length(0, 0));
    assert_eq!(with(1 << 1, &[0; 8]), length(0, 1));
    assert_eq!(with(4_095 << 1, &[0; 8]), length(0, 4_095));
    assert_eq!(with(4 << 13 | 4_095 << 1, &[0; 8]), length(4, 4_095));
    assert_eq!(with(4 << 13 | 104 << 1, &[0; 8]), Malformed::Truncated { have: 16, need: 416 });
    assert_eq!(with(4 << 13 | 3 << 1, &[0, 0, 0, 0]), Malformed::Mask { start: 0 });
    assert_eq!(with(4 << 13 | 3 << 1, &[0, 1, 0x80, 0]), Malformed::Mask { start: 1 });
    let above = with(4 << 13 | 3 << 1, &[0xff, 0xff, 0x40, 0]);
    assert_eq!(above, Malformed::Mask { start: 65_535 });
    assert_eq!(with(3 << 1, &[0, 0, 0, 1, 7]), Malformed::Number { number: 0, last: 1 });
    assert_eq!(with(3 << 1, &[0, 3, 0, 2, 7]), Malformed::Number { number: 3, last: 2 });
    assert_eq!(with(3 << 1, &[0, 1, 0, 2]), Malformed::Empty);
    assert_eq!(with(6 << 13 | 2 << 1, &[0]), Malformed::Trailing { extra: 1 });
    assert_eq!(Pdu::parse(&[0; 7]), Err(Malformed::Truncated { have: 7, need: 8 }));
    let repair = |fields: [u8; 12]| with(7 << 13 | 5 << 1, &[&fields[..], &[1, 2]].concat());
    let cover = |span| Malformed::Cover { first: 1, span };
    assert_eq!(repair([0, 1, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0]), cover(0));
    assert_eq!(repair([0, 1, 0, 3, 0, 4, 0, 0, 0, 1, 0, 0]), cover(4));
    assert_eq!(repair([0, 1, 0, 3, 0, 3, 0, 0, 0, 3, 0, 0]), cover(3), "longer than itself");
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_was_written_is_read(
        (kind, flag) in (0_u8..8, any::<bool>()),
        (ports, serial) in ((any::<u16>(), any::<u16>()), any::<u16>()),
        (last, number, span) in (1_u16.., any::<u16>(), 1_u16..),
        data in prop::collection::vec(any::<u8>(), 1..600),
        set in prop::collection::vec(any::<u16>(), 0..20),
    ) {
        let place = Place::new(number % last + 1, last).unwrap();
        let span = span.min(last - place.number() + 1);
        let mut mask = MaskBuffer::new(place.number());
        set.iter().for_each(|further| mask.set(place.number().saturating_add(further % 3_300)));
        let body = match kind {
            0 | 2 => {
                Body::Data { is_acknowledged: kind == 0, polls: flag, place, data: &data }
            }
            1 => Body::AbortRequest { polls: flag },
            3 => Body::AckRequest { last_sent: number },
            4 => Body::Partial { is_final: flag, mask: mask.mask() },
            5 => Body::AbortConfirm { is_final: flag },
            6 => Body::Complete { is_final: flag },
            _ => {
                let cover = Cover { first: place, span, number, tail: 1 };
                Body::Repair { polls: flag, cover, symbol: &data }
            }
        };
        let pdu = Pdu { ports: Ports { source: ports.0, destination: ports.1 }, serial, body };
        let mut octets = Vec::new();

        pdu.emit(&mut octets);

        prop_assert_eq!(Pdu::parse(&octets), Ok(pdu));
    }

    #[test]
    fn any_octets_are_survived_and_read_twice_alike(
        octets in prop::collection::vec(any::<u8>(), 0..64),
        control in prop::option::of((0_u16..8, 0_u16..7)),
    ) {
        let mut octets = octets;
        if let (Some((kind, words)), Some(word)) = (control, octets.get_mut(4..6)) {
            word.copy_from_slice(&(kind << 13 | words << 1).to_be_bytes());
        }
        if let Ok(pdu) = Pdu::parse(&octets) {
            let mut again = Vec::new();
            pdu.emit(&mut again);
            prop_assert_eq!(Pdu::parse(&again), Ok(pdu));
        }
    }
}
