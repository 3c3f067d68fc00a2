use proptest::prelude::*;

use super::*;

#[test]
fn a_hello_is_these_octets() {
    let hello = Hello {
        profile: Profile::Paper,
        boot: 0x0102_0304_0506_0708,
        counter: 9,
        wants_answer: true,
        is_goodbye: false,
        is_partial: true,
        number: 12,
        station: Mac([2, 0, 0, 0, 0, 1]),
        addresses: vec![IpAddr::from([192, 0, 2, 1])],
        neighbours: vec![Heard {
            boot: 0x1112_1314_1516_1718,
            session: 10,
            echo: 11,
            reception: Reception { heard: 13, lost: 14, last: 15, age: 16 },
        }],
    };

    let mut octets = Vec::new();
    hello.emit(None, &mut octets);
    let mut tagged = Vec::new();
    hello.emit(Some(&key(7)), &mut tagged);

    let mut expected = vec![
        0x80, 2, 0, 0, 0xdb, 0xa1, 0xff, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9, 5, 1,
        1, 12, 2, 0, 0, 0, 0, 1, 0, 0, 4, 192, 0, 2, 1, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
        0x18, 0, 0, 0, 10, 0, 0, 0, 11, 13, 14, 15, 0, 0, 0, 0, 16,
    ];
    assert_eq!(octets, expected, "{octets:02x?}");
    assert_eq!(Hello::parse(&octets, None), Ok(hello.clone()));
    // Computed with Python's hashlib.
    expected[4..6].copy_from_slice(&[0x73, 0xb8]);
    expected[34..36].copy_from_slice(&[0x3d, 0x4f]);
    expected.extend([
        0x0b, 0x53, 0x41, 0x2c, 0x88, 0x9f, 0xa1, 0xf2, 0x34, 0x66, 0x62, 0x1e, 0xde, 0xd6, 0xad,
        0xbd,
    ]);
    assert_eq!(tagged, expected, "{tagged:02x?}");
    assert_eq!(Hello::parse(&tagged, Some(&key(7))), Ok(hello));
}

#[test]
fn what_is_not_a_hello_says_why() {
    let mut octets = Vec::new();
    example().emit(None, &mut octets);

    let changed = |at: usize, to: u8| {
        let mut octets = octets.clone();
        octets[at] = to;
        with_checksum(&mut octets);
        Hello::parse(&octets, None).unwrap_err()
    };
    assert_eq!(changed(0, 0), Malformed::Kind);
    assert_eq!([1, 2, 4].map(|version| changed(1, version)), [1, 2, 4].map(Malformed::Version));
    assert_eq!(changed(7, 7), Malformed::Profile(7));
    assert_eq!(changed(25, 17), Malformed::TooMany);
    assert_eq!(changed(26, 33), Malformed::TooMany);
    assert_eq!(changed(25, 16), Malformed::Family(0));
    assert_eq!(changed(26, 0), Malformed::Trailing { extra: NEIGHBOUR });
    assert_eq!(Hello::parse(&octets[..6], None), Err(Malformed::Truncated { have: 6 }));
    let mut short = octets[..20].to_vec();
    with_checksum(&mut short);
    assert_eq!(Hello::parse(&short, None), Err(Malformed::Truncated { have: 20 }));
}

#[test]
fn only_a_hello_of_the_group_is_read() {
    let written = |key: Option<&GroupKey>| {
        let mut octets = Vec::new();
        example().emit(key, &mut octets);
        octets
    };
    let (ours, other) = (key(7), key(8));

    let mut forged = written(Some(&other));
    forged[34..36].copy_from_slice(&ours.id().to_be_bytes());
    with_checksum(&mut forged);
    let read = |octets: &[u8], key| Hello::parse(octets, key).map(|_| ());
    assert_eq!(read(&written(Some(&ours)), Some(&ours)), Ok(()));
    assert_eq!(read(&written(None), Some(&ours)), Err(Malformed::Keyless));
    assert_eq!(read(&written(Some(&other)), Some(&ours)), Err(Malformed::OtherKey));
    assert_eq!(read(&written(Some(&ours)), None), Err(Malformed::Keyed));
    assert_eq!(read(&forged, Some(&ours)), Err(Malformed::Forged));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_is_written_can_be_read(hello in any_hello(), is_keyed in any::<bool>()) {
        let key = is_keyed.then(|| key(7));
        let mut octets = Vec::new();
        hello.emit(key.as_ref(), &mut octets);

        prop_assert!(Hello::is_one(&octets));
        prop_assert_eq!(Hello::parse(&octets, key.as_ref()), Ok(hello));
    }

    #[test]
    fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Hello::parse(&octets, None);
        let _ = Hello::parse(&octets, Some(&key(7)));
    }

    #[test]
    fn a_flipped_bit_is_noticed(
        hello in any_hello(),
        at in any::<prop::sample::Index>(),
        is_careful in any::<bool>(),
    ) {
        let mut octets = Vec::new();
        hello.emit(Some(&key(7)), &mut octets);
        let at = at.index(octets.len() * 8);
        octets[at / 8] ^= 1 << (at % 8);
        // With the checksum that an attacker would give it.
        if is_careful && !CHECKSUM.contains(&(at / 8)) {
            with_checksum(&mut octets);
        }

        prop_assert!(Hello::parse(&octets, Some(&key(7))).is_err());
    }
}

fn key(octet: u8) -> GroupKey {
    GroupKey::new(&[octet; 32])
}

fn with_checksum(octets: &mut [u8]) {
    octets[CHECKSUM].fill(0);
    let sum = Checksum::default().with(octets).finish();
    octets[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

fn example() -> Hello {
    Hello {
        profile: Profile::Default,
        boot: 7,
        counter: 1,
        wants_answer: false,
        is_goodbye: true,
        is_partial: false,
        number: 0,
        station: Mac([2, 0, 0, 0, 0, 1]),
        addresses: vec![IpAddr::from([0; 16])],
        neighbours: vec![Heard { boot: 0, session: 0, echo: 0, reception: Reception::default() }],
    }
}

fn any_hello() -> impl Strategy<Value = Hello> {
    let address = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ];
    let heard = any::<(u64, u32, u32, [u8; 3], u32)>().prop_map(
        |(boot, session, echo, [heard, lost, last], age)| Heard {
            boot,
            session,
            echo,
            reception: Reception { heard, lost, last, age },
        },
    );
    let addresses = prop::collection::vec(address, 0..=MAX_ADDRESSES);
    let neighbours = prop::collection::vec(heard, 0..=MAX_NEIGHBOURS);
    (any::<([bool; 4], u64, u64, u8, [u8; 6])>(), addresses, neighbours).prop_map(
        |((flags, boot, counter, number, station), addresses, neighbours)| Hello {
            profile: if flags[0] { Profile::Paper } else { Profile::Default },
            boot,
            counter,
            wants_answer: flags[1],
            is_goodbye: flags[2],
            is_partial: flags[3],
            number,
            station: Mac(station),
            addresses,
            neighbours,
        },
    )
}
