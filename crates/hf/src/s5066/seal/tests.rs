use proptest::prelude::*;

use super::*;

const SAP: Sap = Sap::new(13);
const A: Address = Address::node(0x000a_141e);
const B: Address = Address::node(0x000a_141f);
const C: Address = Address::node(0x000a_1420);
const GROUP: Address = Address::group(7);

fn secret() -> [u8; KEY] {
    std::array::from_fn(|at| u8::try_from(at).unwrap())
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn config(own: Address) -> Config {
    Config {
        key: Key::new(&secret()),
        own,
        unauthenticated: BTreeSet::new(),
        clock: Duration::from_millis(1_790_000_000_500),
    }
}

/// One that has been there since this time.
fn member(own: Address, since: Time) -> Member {
    let mut member = Member::new(config(own));
    member.start(since);
    member
}

fn way(from: Address, to: Address) -> Envelope {
    Envelope { from, from_sap: SAP, to, to_sap: SAP }
}

/// The octets were computed by another implementation of BLAKE2s (`hashlib` of Python 3) from the definition above.
#[test]
fn a_seal_is_twelve_octets_before_the_u_pdu() {
    let u_pdu = *b"\x19\xa1\xb2\x00\x07\x00\x00\x01question";

    let sealed = member(A, at(0)).seal(at(0), SAP, B, SAP, &u_pdu);

    let head = [0x94, 0xee, 0x02, 0x00, 0x45, 0x14, 0xb0, 0xec, 0xb8, 0x46, 0x79, 0xe0];
    assert_eq!(sealed, [&head[..], &u_pdu].concat());
    assert_eq!(head.len(), usize::from(OVERHEAD));
    assert!(is_sealed(&sealed) && behind(&sealed) == u_pdu);
    let to_group = member(A, at(0)).seal(at(0), SAP, GROUP, SAP, &u_pdu);
    assert_eq!(to_group[HEAD..12], [0xba, 0x69, 0xa0, 0x72, 0xad, 0xe5, 0x13, 0x29]);
    assert_eq!(member(B, at(0)).open(at(0), way(A, B), &sealed), Ok(&u_pdu[..]));
    assert_eq!(format!("{:?}", config(A).key), "Key(secret)");
}

#[test]
fn another_sender_receiver_access_point_or_key_is_a_forgery() {
    let sealed = member(A, at(0)).seal(at(0), SAP, B, SAP, b"all right");
    let other_sap = Sap::new(9);
    let envelopes = [
        way(C, B),
        way(A, C),
        way(A, GROUP),
        way(B, A),
        Envelope { from_sap: other_sap, ..way(A, B) },
        Envelope { to_sap: other_sap, ..way(A, B) },
    ];

    for envelope in envelopes {
        let refused = member(envelope.to, at(0)).open(at(0), envelope, &sealed);
        assert_eq!(refused, Err(Refusal::Forged), "{envelope:?}");
    }
    let key = Key::new(&[9; KEY]);
    let mut stranger = Member::new(Config { key, ..config(B) });
    assert_eq!(stranger.open(at(0), way(A, B), &sealed), Err(Refusal::Forged));
    assert_eq!(member(B, at(0)).open(at(0), way(A, B), &sealed), Ok(&b"all right"[..]));
}

#[test]
fn what_is_repeated_is_refused_and_what_is_late_is_not() {
    let (mut a, mut b) = (member(A, at(0)), member(B, at(0)));
    let sealed: Vec<_> = (0..NUMBERS + 2).map(|_| a.seal(at(10), SAP, B, SAP, b"x")).collect();

    // All but the first two, the newest first.
    for u_pdu in sealed[2..].iter().rev() {
        assert_eq!(b.open(at(11), way(A, B), u_pdu), Ok(&b"x"[..]));
        assert_eq!(b.open(at(11), way(A, B), u_pdu), Err(Refusal::Replayed));
    }
    // As many as are remembered were sealed after these.
    assert_eq!(b.open(at(11), way(A, B), &sealed[1]), Err(Refusal::Replayed));
    let newest = a.seal(at(86_400), SAP, B, SAP, b"y");
    assert_eq!(b.open(at(86_400), way(A, B), &newest), Ok(&b"y"[..]));
    assert_eq!(b.open(at(86_400), way(A, B), &sealed[2]), Err(Refusal::Replayed));
    assert_eq!(b.others[&A].numbers.len(), NUMBERS);
}

#[test]
fn a_u_pdu_of_a_day_ago_is_taken_once() {
    let (mut a, mut b) = (member(A, at(0)), member(B, at(0)));
    let late = a.seal(at(0), SAP, B, SAP, b"late");
    let new = a.seal(at(100_000), SAP, B, SAP, b"new");

    assert_eq!(b.open(at(100_000), way(A, B), &new), Ok(&b"new"[..]));
    assert_eq!(b.open(at(100_000), way(A, B), &late), Ok(&b"late"[..]));
    assert_eq!(b.open(at(100_000), way(A, B), &late), Err(Refusal::Replayed));
}

#[test]
fn a_sender_that_starts_again_goes_on() {
    let mut b = member(B, at(0));
    // It has sealed more than its clock has numbers.
    let mut a = member(A, at(0));
    let before: Vec<_> = (0..5_000).map(|_| a.seal(at(0), SAP, B, SAP, b"x")).collect();
    assert!(before.iter().all(|u_pdu| b.open(at(0), way(A, B), u_pdu).is_ok()));

    let again = member(A, at(8)).seal(at(8), SAP, B, SAP, b"y");

    assert_eq!(b.open(at(8), way(A, B), &again), Ok(&b"y"[..]));
    // Its clock was set back meanwhile, by less than what is remembered reaches back.
    let mut set_back = member(A, at(8));
    set_back.handle_clock(at(9), config(A).clock + Duration::from_secs(5));
    let earlier = set_back.seal(at(9), SAP, B, SAP, b"z");
    assert_eq!(b.open(at(9), way(A, B), &earlier), Ok(&b"z"[..]));
}

#[test]
fn a_receiver_that_starts_again_takes_nothing_from_before() {
    let mut a = member(A, at(0));
    let old = a.seal(at(1_000), SAP, B, SAP, b"old");
    let recent = a.seal(at(1_800), SAP, B, SAP, b"recent");
    let new = a.seal(at(2_001), SAP, B, SAP, b"new");
    let mut again = member(B, at(2_000));

    let refused = again.open(at(2_001), way(A, B), &old);
    assert_eq!(refused, Err(Refusal::Behind { by: Duration::from_secs(1_000) }));
    assert_eq!(again.open(at(2_001), way(A, B), &new), Ok(&b"new"[..]));
    // The clocks may differ by so much. What is older stays refused, also when its sender is known.
    assert_eq!(again.open(at(2_001), way(A, B), &recent), Ok(&b"recent"[..]));
    assert_eq!(again.open(at(2_001), way(A, B), &old), Err(Refusal::Replayed));
}

#[test]
fn clocks_may_differ_by_five_minutes_and_are_set_while_all_runs() {
    let mut a = member(A, at(0));
    let mut b = member(B, at(0));
    let ahead = |by: u64| config(A).clock + Duration::from_secs(by);
    a.handle_clock(at(0), ahead(301));
    let wrong = a.seal(at(0), SAP, B, SAP, b"x");
    a.handle_clock(at(1), ahead(300));

    let refused = b.open(at(0), way(A, B), &wrong);
    assert_eq!(refused, Err(Refusal::Ahead { by: Duration::from_secs(301) }));
    // Numbers go on where they were until the clock has caught up.
    let after = a.seal(at(2), SAP, B, SAP, b"y");
    assert_eq!(b.open(at(2), way(A, B), &after), Ok(&b"y"[..]));
    // More than a day apart, the number is rebuilt wrongly.
    a.handle_clock(at(3), ahead(200_000));
    let far = a.seal(at(3), SAP, B, SAP, b"z");
    assert_eq!(b.open(at(3), way(A, B), &far), Err(Refusal::Forged));
    b.handle_clock(at(3), ahead(200_000));
    assert_eq!(b.open(at(3), way(A, B), &far), Ok(&b"z"[..]));
}

#[test]
fn what_a_member_says_to_a_group_does_not_come_back_to_it() {
    let mut a = member(A, at(0));
    let sealed = a.seal(at(0), SAP, GROUP, SAP, b"all");

    assert_eq!(a.open(at(0), way(A, GROUP), &sealed), Err(Refusal::Replayed));
    assert_eq!(member(B, at(0)).open(at(0), way(A, GROUP), &sealed), Ok(&b"all"[..]));
}

#[test]
fn a_wrong_own_address_is_noticed() {
    let sealed = member(A, at(0)).seal(at(0), SAP, B, SAP, b"x");

    // Its node is B.
    let refused = member(C, at(0)).open(at(0), way(A, B), &sealed);

    assert_eq!(refused, Err(Refusal::Misnamed { said: B }));
}

#[test]
fn nodes_that_are_listed_need_no_seal_and_others_do() {
    let unauthenticated = [C].into();
    let mut b = Member::new(Config { unauthenticated, ..config(B) });
    let sealed = member(A, at(0)).seal(at(0), SAP, B, SAP, b"x");

    assert_eq!(b.open(at(0), way(C, B), b"plain"), Ok(&b"plain"[..]));
    assert_eq!(b.open(at(0), way(A, B), b"plain"), Err(Refusal::Unsealed));
    // Too short for a seal and an octet.
    assert_eq!(b.open(at(0), way(A, B), &sealed[..12]), Err(Refusal::Unsealed));
    assert_eq!(b.open(at(0), way(A, B), &sealed), Ok(&b"x"[..]));
}

#[test]
fn so_many_members_are_remembered_and_none_is_forgotten() {
    let mut b = member(B, at(0));
    let first = member(Address::node(1), at(0)).seal(at(0), SAP, B, SAP, b"x");
    for number in 1..=u32::try_from(MEMBERS).unwrap() {
        let other = Address::node(number);
        let sealed = member(other, at(0)).seal(at(0), SAP, B, SAP, b"x");
        assert_eq!(b.open(at(0), way(other, B), &sealed), Ok(&b"x"[..]));
    }
    let sealed = member(A, at(0)).seal(at(0), SAP, B, SAP, b"x");

    assert_eq!(b.open(at(0), way(A, B), &sealed), Err(Refusal::Crowded));
    assert_eq!(b.open(at(0), way(Address::node(1), B), &first), Err(Refusal::Replayed));
}

#[test]
fn notices_are_two_octets() {
    for (notice, octets) in [
        (Notice::Keyless, [0x9f, 1]),
        (Notice::Forged, [0x9f, 2]),
        (Notice::Unsealed, [0x9f, 3]),
        (Notice::Clock, [0x9f, 4]),
        (Notice::Other(77), [0x9f, 77]),
    ] {
        assert_eq!(notice.octets(), octets);
        assert_eq!(Notice::parse(&octets), Some(notice));
    }
    assert_eq!(Notice::parse(&[0x9f]), None);
    assert_eq!(Notice::parse(&[0x9f, 1, 0]), None);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn no_octet_of_a_seal_or_of_what_it_covers_can_be_changed(
        u_pdu in prop::collection::vec(any::<u8>(), 1..100),
        place in any::<prop::sample::Index>(),
        flip in 1_u8..,
    ) {
        let mut sealed = member(A, at(0)).seal(at(5), SAP, B, SAP, &u_pdu);
        let place = place.index(sealed.len());
        sealed[place] ^= flip;

        let refused = member(B, at(0)).open(at(5), way(A, B), &sealed).map(<[u8]>::to_vec);

        // Without its mark it is not sealed at all.
        let is_marked = sealed[0] & MARK_BITS == MARK;
        let expected = if is_marked { Refusal::Forged } else { Refusal::Unsealed };
        prop_assert_eq!(refused, Err(expected));
    }

    #[test]
    fn whatever_a_stranger_says_is_refused_and_leaves_nothing_behind(
        u_pdus in prop::collection::vec(
            (any::<u32>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..60)),
            0..50,
        ),
        is_marked in any::<bool>(),
    ) {
        let mut b = member(B, at(0));
        for (from, to, mut u_pdu) in u_pdus {
            if let Some(first) = u_pdu.first_mut().filter(|_| is_marked) {
                *first = MARK | *first & !MARK_BITS;
            }
            let envelope = way(Address::node(from), Address::node(to));
            let refused = b.open(at(0), envelope, &u_pdu);
            prop_assert!(matches!(refused, Err(Refusal::Forged | Refusal::Unsealed)));
        }
        prop_assert!(b.others.is_empty());
    }

    #[test]
    fn each_u_pdu_is_taken_once_in_whatever_order_and_however_often_ends_start_again(
        steps in prop::collection::vec((0_u8..20, any::<prop::sample::Index>(), 0_u64..50), 1..200),
    ) {
        let (mut a, mut b) = (member(A, at(0)), member(B, at(0)));
        let mut now = Time::ZERO + Duration::from_millis(1);
        let mut sealed: Vec<(Vec<u8>, Time)> = Vec::new();
        let mut taken = BTreeSet::new();
        let mut started = at(0);

        for (kind, which, wait) in steps {
            now += Duration::from_secs(wait) + Duration::from_millis(1);
            match kind {
                0 => a = member(A, now),
                1 => {
                    b = member(B, now);
                    started = now;
                    // Up to so long before its start it cannot tell.
                    let slack = CLOCKS + Duration::from_millis(1);
                    taken.retain(|which: &usize| started.since(sealed[*which].1) > slack);
                }
                2..=9 => sealed.push((a.seal(now, SAP, B, SAP, &[kind]), now)),
                _ if sealed.is_empty() => {}
                _ => {
                    let which = which.index(sealed.len());
                    let (u_pdu, made) = &sealed[which];
                    let is_new = !taken.contains(&which);
                    let is_taken = b.open(now, way(A, B), u_pdu).is_ok();
                    prop_assert!(!is_taken || is_new, "{which} is taken twice");
                    prop_assert!(is_taken || !is_new || *made < started, "{which} is refused");
                    taken.extend(is_taken.then_some(which));
                }
            }
        }
    }
}
