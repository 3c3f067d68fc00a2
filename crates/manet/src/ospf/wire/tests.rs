//! Packets are read as they were written, and what is none is refused.

use proptest::prelude::*;

use super::*;

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn key() -> impl Strategy<Value = Key> {
    (any::<u8>(), address(), address()).prop_map(|(kind, id, router)| Key { kind, id, router })
}

fn lsa() -> impl Strategy<Value = Lsa> {
    let body = prop::collection::vec(any::<u8>(), 0..80);
    (key(), any::<u8>(), any::<i32>(), body, any::<u16>()).prop_map(
        |(key, options, number, body, age)| {
            let mut lsa = Lsa::new(key, options, number, &body);
            lsa.header.age = age;
            lsa
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    let lsas = || prop::collection::vec(lsa(), 0..5);
    let headers = || lsas().prop_map(|lsas| lsas.iter().map(|it| it.header).collect::<Vec<_>>());
    let hello = (any::<u32>(), any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>());
    let hello = (hello, address(), address(), prop::collection::vec(address(), 0..5)).prop_map(
        |((mask, interval, options, priority, dead), one, other, neighbours)| {
            let elected = [one, other];
            Body::Hello(Hello { mask, interval, options, priority, dead, elected, neighbours })
        },
    );
    let description = (any::<u16>(), any::<u8>(), any::<[bool; 3]>(), any::<u32>(), headers())
        .prop_map(|(mtu, options, [is_first, has_more, is_master], number, headers)| {
            Body::Description(Description {
                mtu,
                options,
                is_first,
                has_more,
                is_master,
                number,
                headers,
            })
        });
    prop_oneof![
        hello,
        description,
        prop::collection::vec(key(), 0..5).prop_map(Body::Request),
        lsas().prop_map(Body::Update),
        headers().prop_map(Body::Acknowledgement),
    ]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_was_written_is_read_the_same(router in address(), area: u32, body in body()) {
        let packet = Packet { router, area, body };
        let mut octets = Vec::new();

        packet.emit(&mut octets);

        prop_assert_eq!(Packet::parse(&octets), Ok((packet.clone(), false)));
        octets.extend([1, 2, 3]);
        prop_assert_eq!(Packet::parse(&octets), Ok((packet, false)), "what follows is not its");
    }

    #[test]
    fn any_octets_are_survived(mut octets in prop::collection::vec(any::<u8>(), 0..120), kind in 0_u8..7) {
        let _ = Packet::parse(&octets);
        let _ = RouterLsa::parse(&octets);
        // As far as the body, too.
        let length = u16::try_from(octets.len()).unwrap();
        if octets.len() >= HEADER {
            octets[..2].copy_from_slice(&[2, kind]);
            octets[2..4].copy_from_slice(&length.to_be_bytes());
            octets[12..24].fill(0);
            let checksum = Checksum::default().with(&octets).finish();
            octets[12..14].copy_from_slice(&checksum.to_be_bytes());
            if let Ok((packet, _)) = Packet::parse(&octets) {
                let mut again = Vec::new();
                packet.emit(&mut again);
                prop_assert_eq!(Packet::parse(&again), Ok((packet, false)));
            }
        }
    }

    #[test]
    fn a_flipped_octet_of_an_lsa_is_noticed(lsa in lsa(), at in 0_usize..78, flips in 1_u8..255) {
        prop_assert!(lsa.is_intact());
        prop_assert!(lsa.header.checksum.to_be_bytes().iter().all(|octet| *octet != 0));
        let mut changed = lsa.clone();
        let mut body = changed.body.to_vec();
        if let Some(octet) = body.get_mut(at) {
            let before = *octet;
            *octet ^= flips;
            // To Fletcher's sums 0 and 255 are the same.
            prop_assume!(before % 255 != *octet % 255);
            changed.body = body.into();
            prop_assert!(!changed.is_intact());
        }
        changed = lsa.clone();
        changed.header.age ^= 77;
        prop_assert!(changed.is_intact(), "the age is not covered");
    }

    #[test]
    fn of_two_instances_one_is_newer_or_they_are_the_same(one in lsa(), number in -2..2, age: u16) {
        let mut other = one.header;
        other.number = other.number.saturating_add(number);
        other.age = age;
        let newness = one.header.newness(&other);
        prop_assert_eq!(newness, other.newness(&one.header).reverse());
        if number != 0 && one.header.number.checked_add(number).is_some() {
            prop_assert_eq!(newness, 0.cmp(&number));
        }
    }
}

#[test]
fn packets_have_the_sizes_that_the_standard_gives() {
    let size = |body| {
        let mut octets = Vec::new();
        Packet { router: [1, 1, 1, 1].into(), area: 0, body }.emit(&mut octets);
        octets.len()
    };
    let lsa = Lsa::new(Key::of_router([1, 1, 1, 1].into()), 2, 1, &[0; 4 + 24]);
    let hello = Hello {
        mask: 0,
        interval: 10,
        options: 2,
        priority: 1,
        dead: 40,
        elected: [Ipv4Addr::UNSPECIFIED; 2],
        neighbours: vec![[2, 2, 2, 2].into()],
    };
    let description = Description {
        mtu: 1_500,
        options: 2,
        is_first: false,
        has_more: false,
        is_master: true,
        number: 1,
        headers: vec![lsa.header],
    };

    assert_eq!(size(Body::Hello(hello)), 44 + 4);
    assert_eq!(size(Body::Description(description)), 32 + 20);
    assert_eq!(size(Body::Request(vec![lsa.header.key])), 24 + 12);
    assert_eq!(size(Body::Update(vec![lsa.clone()])), 28 + 24 + 2 * 12);
    assert_eq!(size(Body::Acknowledgement(vec![lsa.header])), 24 + 20);
}

#[test]
fn a_routers_links_are_read_past_metrics_of_further_services() {
    let octets = [
        [0, 0, 0, 2].as_slice(),
        &[10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 0, 7, 8, 0, 0, 9],
        &[10, 1, 0, 0, 255, 255, 0, 0, 3, 0, 0, 5],
    ];

    let lsa = RouterLsa::parse(&octets.concat()).unwrap();

    let seen: Vec<_> = lsa.links.iter().map(|it| (it.kind, it.metric)).collect();
    assert_eq!(seen, [(link::POINT_TO_POINT, 7), (link::STUB, 5)]);
    assert_eq!(RouterLsa::parse(&octets.concat()[..30]), Err(Malformed::Truncated { have: 30 }));
}

/// A packet whose body is these octets.
fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + body.len()).unwrap().to_be_bytes();
    let mut octets = vec![2, kind, length[0], length[1], 1, 1, 1, 1];
    octets.resize(HEADER, 0);
    octets.extend(body);
    let checksum = Checksum::default().with(&octets).finish();
    octets[12..14].copy_from_slice(&checksum.to_be_bytes());
    octets
}

fn router_lsa(router: u8) -> Lsa {
    Lsa::new(Key::of_router([router; 4].into()), 2, 1, &[0; 4])
}

/// An update that says to hold `count` LSAs, each with the length that its header claims.
fn update(count: u32, lengths: &[u16]) -> (Vec<u8>, bool) {
    let mut body = count.to_be_bytes().to_vec();
    for (router, length) in (1..).zip(lengths) {
        let mut lsa = router_lsa(router);
        lsa.header.length = *length;
        lsa.emit(&mut body);
    }
    let (packet, is_cut) = Packet::parse(&packet(4, &body)).unwrap();
    let Body::Update(lsas) = packet.body else { panic!("{packet:?}") };
    (lsas.iter().map(|lsa| lsa.header.key.router.octets()[0]).collect(), is_cut)
}

#[test]
fn lsas_before_a_length_that_cannot_be_believed_count() {
    // Each of these LSAs has 24 octets: a header of 20, and 4 more.
    for (lengths, expected) in [
        (&[24, 24, 24][..], (vec![1, 2, 3], false)),
        (&[24, 19, 24], (vec![1], true)),
        (&[24, 0, 24], (vec![1], true)),
        (&[24, 24, 25], (vec![1, 2], true)),
        (&[24, u16::MAX, 24], (vec![1], true)),
        (&[19, 24], (vec![], true)),
    ] {
        let count = u32::try_from(lengths.len()).unwrap();
        assert_eq!(update(count, lengths), expected, "{lengths:?}");
    }
}

#[test]
fn a_number_of_lsas_that_is_wrong_costs_none_of_them() {
    assert_eq!(update(3, &[24, 24]), (vec![1, 2], true));
    assert_eq!(update(u32::MAX, &[24, 24]), (vec![1, 2], true));
    assert_eq!(update(1, &[24, 24]), (vec![1], true));
    assert_eq!(update(0, &[]), (vec![], false));
}

#[test]
fn a_cut_entry_costs_no_other() {
    let header = |router| {
        let mut octets = Vec::new();
        router_lsa(router).header.emit(&mut octets);
        octets
    };
    let hello = [0, 0, 0, 0, 0, 10, 2, 1, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0];
    let hello = [&hello[..], &[7, 7, 7, 7], &[8, 8]].concat();
    let description = [&[5, 220, 2, 0, 0, 0, 0, 9][..], &header(1), &header(2)[..19]].concat();
    let key = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let request = [&key[..], &key[..11]].concat();
    let acknowledgement = [&header(1)[..], &header(2)[..1]].concat();

    for (kind, body) in [(1, hello), (2, description), (3, request), (5, acknowledgement)] {
        let (packet, is_cut) = Packet::parse(&packet(kind, &body)).unwrap();

        let entries = match packet.body {
            Body::Hello(hello) => hello.neighbours.len(),
            Body::Description(description) => description.headers.len(),
            Body::Request(keys) => keys.len(),
            Body::Acknowledgement(headers) => headers.len(),
            Body::Update(_) => panic!("there is none here"),
        };
        assert_eq!((entries, is_cut), (1, true), "kind {kind}");
    }
}
