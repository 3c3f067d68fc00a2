//! The opening.

use proptest::prelude::*;

use crate::hfpep::wire::{MAGIC, MAX_NAME, Malformed};
use crate::hfpep::{Opening, Target, Tls};

fn emitted(opening: &Opening) -> Vec<u8> {
    let mut octets = Vec::new();
    opening.emit(MAGIC, &mut octets);
    octets
}

fn address(text: &str) -> Target {
    let [source, destination] = ["1000", "443"].map(|port| format!("{text}:{port}").parse());
    Target::Address { source: source.unwrap(), destination: destination.unwrap() }
}

#[test]
fn openings_are_these_octets() {
    let plain = Opening { target: address("10.1.2.3"), tls: None };
    let tls = Tls { sni: Some("a.b".to_owned()), alpn: Some(b"h2".to_vec()) };
    let named = Opening { target: address("10.1.2.3"), tls: Some(tls) };
    let by_id = Opening { target: Target::AuthId("tak".to_owned()), tls: Some(Tls::default()) };

    let ends = [3, 232, 1, 187, 10, 1, 2, 3, 10, 1, 2, 3];
    assert_eq!(emitted(&plain), [&[0x50, 0][..], &ends].concat());
    assert_eq!(emitted(&named), [&[0x50, 0x0d][..], &ends, b"\0\x03a.b\x02h2"].concat());
    assert_eq!(emitted(&by_id), *b"\x50\x0a\0\x03tak");
}

#[test]
fn only_gateways_read_the_version_whose_answer_comes_in_pieces() {
    let opening = Opening { target: address("10.1.2.3"), tls: None };
    let mut octets = Vec::new();
    opening.emit_for_pieces(MAGIC, &mut octets);
    octets.extend_from_slice(b"rest");
    let plain = emitted(&opening);

    assert_eq!((octets[1], &octets[2..14]), (0x20, &plain[2..]));
    assert_eq!(Opening::split_first(MAGIC, &octets), Err(Malformed::Version(1)));
    let read = |octets| Opening::split_first_of_gateway(MAGIC, octets);
    assert_eq!(read(&octets[..]), Ok(Some((opening.clone(), true, &b"rest"[..]))));
    assert_eq!(read(&plain), Ok(Some((opening, false, &b""[..]))));
    assert_eq!(read(&[MAGIC, 0x40]), Err(Malformed::Version(2)));
    assert_eq!(read(&octets[..5]), Ok(None));
}

#[test]
fn what_is_none_is_told_as_early_as_can_be() {
    let read = |octets: &[u8]| Opening::split_first(MAGIC, octets).map(|it| it.is_some());

    assert_eq!(read(&[0x51]), Err(Malformed::Magic(0x51)));
    assert_eq!(read(&[0x50, 0x20]), Err(Malformed::Version(1)));
    for flags in [0x04, 0x01, 0x0e, 0x1a] {
        assert_eq!(read(&[0x50, flags]), Err(Malformed::Flags(flags)));
    }
    assert_eq!(read(&[0x50, 0x0a, 0, 0]), Err(Malformed::Name));
    assert_eq!(read(&[0x50, 0x0a, 1, 0]), Err(Malformed::Name));
    assert_eq!(read(b"\x50\x0a\0\x02a\n"), Err(Malformed::Name));
}

fn target() -> impl Strategy<Value = (Target, bool)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4], u16, u16)>().prop_map(|(from, to, source, destination)| {
            let (source, destination) = ((from, source).into(), (to, destination).into());
            (Target::Address { source, destination }, true)
        }),
        any::<([u8; 16], [u8; 16], u16, u16)>().prop_map(|(from, to, source, destination)| {
            let (source, destination) = ((from, source).into(), (to, destination).into());
            (Target::Address { source, destination }, true)
        }),
        "[!-~]{1,255}".prop_map(|id| (Target::AuthId(id), false)),
    ]
}

fn opening() -> impl Strategy<Value = Opening> {
    let sni = prop::option::of("[!-~]{1,255}");
    let alpn = prop::option::of(prop::collection::vec(any::<u8>(), 1..=MAX_NAME));
    let tls = prop::option::of((sni, alpn));
    (target(), tls).prop_map(|((target, may_have_sni), tls)| {
        let tls = tls.map(|(sni, alpn)| Tls { sni: sni.filter(|_| may_have_sni), alpn });
        Opening { target, tls }
    })
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_was_written_is_read_and_not_before_it_is_whole(
        opening in opening(),
        data in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let head = emitted(&opening);
        let whole = [&head[..], &data].concat();

        for len in 0..head.len() {
            prop_assert_eq!(Opening::split_first(MAGIC, &whole[..len]), Ok(None));
        }
        let read = Opening::split_first(MAGIC, &whole);
        prop_assert_eq!(read, Ok(Some((opening, &data[..]))));
    }

    #[test]
    fn any_octets_are_an_opening_none_or_too_few(octets in prop::collection::vec(any::<u8>(), 0..600)) {
        for magic in [MAGIC, octets.first().copied().unwrap_or(0)] {
            if let Ok(Some((opening, rest))) = Opening::split_first(magic, &octets) {
                let mut again = Vec::new();
                opening.emit(magic, &mut again);
                again.extend_from_slice(rest);
                prop_assert_eq!(&again, &octets);
            }
        }
    }
}
