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
    #[test]
    fn what_was_written_is_read_the_same(router in address(), area: u32, body in body()) {
        let packet = Packet { router, area, body };
        let mut octets = Vec::new();

        packet.emit(&mut octets);

        prop_assert_eq!(Packet::parse(&octets), Ok(packet.clone()));
        octets.extend([1, 2, 3]);
        prop_assert_eq!(Packet::parse(&octets), Ok(packet), "what follows is not its");
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
            if let Ok(packet) = Packet::parse(&octets) {
                let mut again = Vec::new();
                packet.emit(&mut again);
                prop_assert_eq!(Packet::parse(&again), Ok(packet));
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

#[test]
fn a_length_that_does_not_fit_is_refused() {
    let update = |length: u16| {
        let mut lsa = Lsa::new(Key::of_router([1, 1, 1, 1].into()), 2, 1, &[0; 4]);
        lsa.header.length = length;
        let mut octets = Vec::new();
        let body = Body::Update(vec![lsa]);
        Packet { router: [1, 1, 1, 1].into(), area: 0, body }.emit(&mut octets);
        Packet::parse(&octets)
    };

    assert_eq!(update(19), Err(Malformed::Lsa { length: 19 }));
    assert_eq!(update(25), Err(Malformed::Lsa { length: 25 }));
    assert_eq!(update(20), Err(Malformed::Trailing { extra: 4 }));
}
