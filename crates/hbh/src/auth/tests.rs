use std::collections::BTreeSet;
use std::net::IpAddr;

use base::ip::{Spec, mark_congestion};
use proptest::prelude::*;

use super::*;

#[test]
fn a_sealed_packet_is_these_octets() {
    let (mut left, _) = pair(1, 2);
    let mut packet = packet("10.0.0.1", "10.0.0.2", b"hop");

    left.seal(&mut packet).unwrap();
    left.seal(&mut vec![0x60; 40]).unwrap_err();
    let mut second = self::packet("10.0.0.1", "10.0.0.2", b"hop");
    left.seal(&mut second).unwrap();

    let expected = [
        0x45, 0, 0, 34, 0, 0, 0x40, 0, 64, 253, 0x25, 0xdd, 10, 0, 0, 1, 10, 0, 0, 2, b'h', b'o',
        b'p', 0, 0, 0,
    ];
    assert_eq!(packet[..26], expected, "{packet:02x?}");
    // Computed with Python's hashlib and a SipHash written from its paper.
    assert_eq!(packet[26..], [0x2c, 0x6e, 0x85, 0x43, 0xc3, 0x86, 0x7f, 0xbe], "{packet:02x?}");
    assert_eq!(second[23..26], [0, 0, 1], "what was not sealed has no number");
    assert_ne!(second[26..], packet[26..]);
}

#[test]
fn only_the_other_end_of_the_conversation_opens_a_packet_and_only_once() {
    let (mut left, mut right) = pair(1, 2);
    let plain = packet("fd00::1", "fd00::2", b"some data");
    let mut sealed = plain.clone();
    left.seal(&mut sealed).unwrap();
    let mut out = Vec::new();

    // Another session of either, another start, another key, and the sender itself.
    let key = GroupKey::new(&[7; KEY]);
    for (ours, theirs) in [
        (end(20, 3), end(10, 1)),
        (end(20, 2), end(10, 2)),
        (end(21, 2), end(10, 1)),
        (end(20, 2), end(11, 1)),
        (end(10, 1), end(20, 2)),
    ] {
        let mut other = key.channel(ours, theirs);
        assert_eq!(other.open(&sealed, &mut out), Err(Untrusted::Forged), "{ours:?} {theirs:?}");
    }
    let mut stranger = GroupKey::new(&[8; KEY]).channel(end(20, 2), end(10, 1));
    assert_eq!(stranger.open(&sealed, &mut out), Err(Untrusted::Forged));

    assert_eq!(right.open(&sealed, &mut out), Ok(()));
    assert_eq!(out, plain);
    let again = right.open(&sealed, &mut out);
    assert_eq!(again, Err(Untrusted::Replayed(replay::Stale::Again)));
}

#[test]
fn what_queues_may_change_is_believed_and_nothing_else() {
    for plain in [packet("10.0.0.1", "10.0.0.2", b"x"), packet("fd00::1", "fd00::2", b"x")] {
        let (mut left, mut right) = pair(1, 2);
        let mut sealed = plain.clone();
        // ECN-capable, so that a queue may mark it.
        if sealed[0] >> 4 == 4 {
            sealed[1] |= 1;
        } else {
            sealed[1] |= 1 << 4;
        }
        if sealed[0] >> 4 == 4 {
            rewrite_v4_checksum(&mut sealed[..20]);
        }
        left.seal(&mut sealed).unwrap();
        let ttl = if sealed[0] >> 4 == 4 { 8 } else { 7 };

        let mut marked = sealed.clone();
        assert!(mark_congestion(&mut marked));
        let mut older = sealed.clone();
        older[ttl] -= 1;
        if older[0] >> 4 == 4 {
            rewrite_v4_checksum(&mut older[..20]);
        }

        let mut out = Vec::new();
        assert_eq!(right.open(&older, &mut out), Err(Untrusted::Forged));
        assert_eq!(right.open(&marked, &mut out), Ok(()));
        assert_eq!(Header::parse(&out).unwrap().traffic_class & 3, 3, "the mark is kept");
    }
}

#[test]
fn packets_may_overtake_each_other_by_the_window_and_no_more() {
    let (mut left, mut right) = pair(1, 2);
    let last = usize::try_from(REORDERING).unwrap() + 2;
    let sealed: Vec<_> = (0..=last)
        .map(|_| {
            let mut packet = packet("10.0.0.1", "10.0.0.2", b"x");
            left.seal(&mut packet).unwrap();
            packet
        })
        .collect();
    let mut out = Vec::new();

    assert_eq!(right.open(&sealed[last], &mut out), Ok(()));
    assert_eq!(right.open(&sealed[2], &mut out), Ok(()));
    assert_eq!(right.open(&sealed[3], &mut out), Ok(()));
    let late = right.open(&sealed[1], &mut out);
    assert_eq!(late, Err(Untrusted::Replayed(replay::Stale::TooOld)));
}

#[test]
fn numbers_go_on_beyond_those_that_fit_the_trailer() {
    let (mut left, mut right) = pair(1, 2);
    let mut out = Vec::new();
    let mut send = |left: &mut Channel, right: &mut Channel| {
        let mut sealed = packet("10.0.0.1", "10.0.0.2", b"x");
        left.seal(&mut sealed).unwrap();
        right.open(&sealed, &mut out)
    };

    // Up to half of what the trailer counts may be lost in between.
    for lost in [0, 1 << 20, (1 << 23) - 2, (1 << 23) - 2, (1 << 23) - 2, 3] {
        left.sealed += lost;
        assert_eq!(send(&mut left, &mut right), Ok(()), "{lost} lost, {}", left.sealed);
    }
    assert!(left.sealed > 1 << 24);
}

#[test]
fn what_has_no_trailer_is_refused() {
    let (_, mut right) = pair(1, 2);

    for payload in [&b""[..], &[0; TRAILER - 1]] {
        let packet = packet("10.0.0.1", "10.0.0.2", payload);
        assert_eq!(right.open(&packet, &mut Vec::new()), Err(Untrusted::Malformed));
    }
    let short = right.open(&packet("10.0.0.1", "10.0.0.2", &[0; TRAILER]), &mut Vec::new());
    assert_eq!(short, Err(Untrusted::Forged));
    assert_eq!(right.open(&[0x45; 12], &mut Vec::new()), Err(Untrusted::Malformed));
}

#[test]
fn a_packet_as_long_as_ip_allows_has_no_room_for_a_trailer() {
    let (mut left, _) = pair(1, 2);
    let mut long = packet("10.0.0.1", "10.0.0.2", &vec![0; 65_535 - 20 - TRAILER + 1]);
    let before = long.clone();

    assert_eq!(left.seal(&mut long), Err(Unsealed::TooLong));
    assert_eq!(long, before);
}

#[test]
fn a_hello_has_the_tag_of_its_group_alone() {
    let (ours, other) = (GroupKey::new(&[7; KEY]), GroupKey::new(&[8; KEY]));

    let tag = ours.tag(b"hello");

    assert!(ours.is_tag(b"hello", &tag));
    assert!(!ours.is_tag(b"hellp", &tag));
    assert!(!other.is_tag(b"hello", &tag));
    assert_ne!(ours.id(), other.id());
    assert_ne!(ours.id(), 0);
    assert_eq!(format!("{ours:?}"), format!("GroupKey({:04x}, secret)", ours.id()));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_is_sealed_opens_as_it_was(
        is_v4 in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 0..1_500),
    ) {
        let (mut left, mut right) = pair(1, 2);
        let plain = any_packet(is_v4, &payload);
        let mut sealed = plain.clone();
        let mut out = Vec::new();

        prop_assert_eq!(left.seal(&mut sealed), Ok(()));
        prop_assert_eq!(sealed.len(), plain.len() + TRAILER);
        prop_assert_eq!(Header::parse(&sealed).unwrap().total_len, sealed.len());
        // Ethernet fills short frames up.
        sealed.extend_from_slice(&[0; 20]);
        prop_assert_eq!(right.open(&sealed, &mut out), Ok(()));
        prop_assert_eq!(out, plain);
    }

    #[test]
    fn any_flipped_bit_is_refused(
        is_v4 in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
    ) {
        let (mut left, mut right) = pair(1, 2);
        let mut sealed = any_packet(is_v4, &payload);
        left.seal(&mut sealed).unwrap();
        let at = at.index(sealed.len() * 8);
        sealed[at / 8] ^= 1 << (at % 8);
        let is_open_to_change = match is_v4 {
            true => at / 8 == 1 || (10..12).contains(&(at / 8)),
            false => at < 16 && (4..12).contains(&(at ^ 7)),
        };
        if is_v4 && Header::parse(&sealed).is_err() {
            // With the checksum that an attacker would give it.
            let len = usize::from(sealed[0] & 0x0f) * 4;
            if sealed[0] >> 4 == 4 && (20..=sealed.len()).contains(&len) {
                rewrite_v4_checksum(&mut sealed[..len]);
            }
        }

        let outcome = right.open(&sealed, &mut Vec::new());

        prop_assert_eq!(outcome.is_err(), !is_open_to_change, "bit {}: {:?}", at, outcome);
    }

    #[test]
    fn each_packet_is_taken_once_in_any_order(
        picks in prop::collection::vec(0_usize..40, 1..200),
    ) {
        let (mut left, mut right) = pair(1, 2);
        let sealed: Vec<_> = (0..40_u8)
            .map(|octet| {
                let mut packet = packet("10.0.0.1", "10.0.0.2", &[octet]);
                left.seal(&mut packet).unwrap();
                packet
            })
            .collect();
        let mut taken = BTreeSet::new();

        for pick in picks {
            let outcome = right.open(&sealed[pick], &mut Vec::new());
            prop_assert_eq!(outcome.is_ok(), taken.insert(pick));
        }
    }

    #[test]
    fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let (mut left, mut right) = pair(1, 2);
        let _ = right.open(&octets, &mut Vec::new());
        let _ = left.seal(&mut octets.clone());
    }
}

/// Two ends of one conversation.
fn pair(left: u32, right: u32) -> (Channel, Channel) {
    let key = GroupKey::new(&[7; KEY]);
    let (left, right) = (end(10, left), end(20, right));
    (key.channel(left, right), key.channel(right, left))
}

fn end(boot: u64, session: u32) -> End {
    End { boot, session }
}

fn any_packet(is_v4: bool, payload: &[u8]) -> Vec<u8> {
    let [from, to] = if is_v4 { ["10.0.0.1", "10.0.0.2"] } else { ["fd00::1", "fd00::2"] };
    packet(from, to, payload)
}

fn packet(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let [from, to] = [from, to].map(|text| text.parse::<IpAddr>().unwrap());
    let mut packet = Vec::new();
    Spec::new(from, to, 253).emit(payload.len(), &mut packet);
    packet.extend_from_slice(payload);
    packet
}
