//! Octets as the RFC draws them, and whatever else may come.

use proptest::prelude::*;

use super::*;

/// A packet with a HELLO and a TC message, written out by hand.
const PACKET: [u8; 60] = [
    0, 60, 0x12, 0x34, //
    1, 0x86, 0, 36, 10, 0, 0, 1, 1, 0, 0xff, 0xff, // HELLO: 6 s
    0, 0, 0x05, 3, // 2 s, default willingness
    0x06, 0, 0, 12, 10, 0, 0, 2, 10, 0, 0, 3, // symmetric links
    0x0a, 0, 0, 8, 10, 0, 0, 4, // to a relay
    2, 0xe7, 0, 20, 10, 0, 0, 9, 254, 1, 0, 7, // TC: 15 s, over one hop
    0xab, 0xcd, 0, 0, 10, 0, 0, 5, // ANSN, a neighbour
];

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

fn code(link: LinkType, neighbour: NeighbourType) -> LinkCode {
    LinkCode { link, neighbour }
}

#[test]
fn a_packet_by_hand_is_read_and_written() {
    let packet = Packet::parse(&PACKET).unwrap();
    let messages: Vec<Message<'_>> = packet.messages().map(Result::unwrap).collect();
    let [hello, tc] = messages[..] else { panic!("{messages:?}") };
    let hello_body = Hello::parse(hello.body).unwrap();
    let neighbours: Vec<(LinkCode, Ipv4Addr)> = hello_body
        .blocks()
        .flat_map(|block| block.addresses.iter().map(move |address| (block.code, address)))
        .collect();
    let tc_body = Tc::parse(tc.body).unwrap();

    assert_eq!(packet.seq, Seq(0x1234));
    assert_eq!(hello.header.validity(), Duration::from_secs(6));
    assert_eq!(hello_body.interval.duration(), Duration::from_secs(2));
    assert_eq!((hello.header.ttl, hello_body.willingness), (1, 3));
    assert_eq!(
        neighbours,
        [
            (code(LinkType::Symmetric, NeighbourType::Symmetric), address(2)),
            (code(LinkType::Symmetric, NeighbourType::Symmetric), address(3)),
            (code(LinkType::Symmetric, NeighbourType::Mpr), address(4)),
        ]
    );
    assert_eq!((tc.header.originator, tc.header.hops, tc_body.ansn), (address(9), 1, Seq(0xabcd)));
    assert_eq!(tc.header.validity(), Duration::from_secs(15));
    assert_eq!(tc_body.neighbours.iter().collect::<Vec<_>>(), [address(5)]);

    let mut written = vec![0; PACKET_HEADER];
    hello.header.emit(&mut written, |out| {
        Hello::emit(hello_body.interval, hello_body.willingness, &neighbours, out);
    });
    tc.header.emit(&mut written, |out| Tc::emit(tc_body.ansn, &[address(5)], out));
    Packet::finish(packet.seq, &mut written);
    assert_eq!(written, PACKET);
}

#[test]
fn a_packet_is_as_long_as_it_says_and_ends_with_the_message_that_is_not() {
    let cut = Packet::parse(&PACKET[..59]);
    assert_eq!(cut, Err(Malformed::Length { claimed: 60, have: 59 }));
    let mut long = PACKET;
    long[43] = 24;

    let packet = Packet::parse(&long).unwrap();

    let messages: Vec<bool> = packet.messages().map(|message| message.is_ok()).collect();
    assert_eq!(messages, [true, false]);
}

#[test]
fn networks_by_hand_are_read_and_written() {
    let octets = [0, 0, 0, 0, 0, 0, 0, 0, 10, 2, 0, 0, 255, 255, 0, 0];

    let hna = Hna::parse(&octets);
    let mut written = Vec::new();
    Hna::emit(&[(Ipv4Addr::UNSPECIFIED, 0), (Ipv4Addr::new(10, 2, 0, 0), 16)], &mut written);

    let networks: Vec<String> = hna.iter().map(|prefix| prefix.unwrap().to_string()).collect();
    assert_eq!(networks, ["0.0.0.0/0", "10.2.0.0/16"]);
    assert_eq!(written, octets);
}

#[test]
fn an_entry_that_cannot_be_read_costs_no_other() {
    let octets = [10, 0, 0, 0, 255, 0, 255, 0, 10, 2, 0, 0, 255, 255, 0, 0, 10];

    let hna = Hna::parse(&octets);
    let tc = Tc::parse(&octets[..11]).unwrap();
    let body =
        [&[0, 0, 5, 3, 6, 0, 0, 10, 10, 0, 0, 1, 9, 9, 0xff, 0, 0, 4, 6, 0, 0, 99][..], &[1; 8]];
    let body = body.concat();
    let hello = Hello::parse(&body).unwrap();

    assert_eq!(hna.iter().collect::<Vec<_>>(), [None, Some("10.2.0.0/16".parse().unwrap())]);
    assert!(hna.is_cut() && tc.neighbours.is_cut());
    assert_eq!(tc.neighbours.iter().count(), 1);
    let told = hello.blocks().flat_map(|block| block.addresses.iter());
    assert_eq!(told.collect::<Vec<_>>(), [address(1)]);
    assert_eq!(hello.strange(), 3, "a cut address, a kind without a meaning, an impossible size");
}

#[test]
fn codes_without_a_meaning_are_left_out() {
    let body = [0, 0, 5, 3, 0x02, 0, 0, 8, 10, 0, 0, 1, 0x16, 0, 0, 4, 0x05, 0, 0, 8, 10, 0, 0, 2];

    let hello = Hello::parse(&body).unwrap();

    assert_eq!(hello.strange(), 2);
    let codes: Vec<LinkCode> = hello.blocks().map(|block| block.code).collect();
    assert_eq!(codes, [code(LinkType::Asymmetric, NeighbourType::Symmetric)]);
}

#[test]
fn a_message_is_relayed_with_one_hop_more_and_nothing_else_changed() {
    let octets = [9, 0, 0, 13, 1, 2, 3, 4, 255, 255, 0, 1, 77, 5, 5];

    let (message, rest) = Message::split_first(&octets).unwrap();

    assert_eq!(rest, [5, 5]);
    assert_eq!(message.relayed(), [9, 0, 0, 13, 1, 2, 3, 4, 254, 255, 0, 1, 77]);
}

#[test]
fn the_times_of_the_rfc_are_exact_and_others_no_shorter() {
    for (seconds, octet) in [(2, 0x05), (6, 0x86), (15, 0xe7), (30, 0xe8)] {
        let time = Duration::from_secs(seconds);
        assert_eq!(Interval::at_least(time), Interval(octet));
        assert_eq!(Interval(octet).duration(), time);
    }
    assert_eq!(Interval::at_least(Duration::ZERO).duration(), Duration::from_micros(62_500));
    assert_eq!(Interval::at_least(Duration::MAX), Interval::LONGEST);
    assert_eq!(Interval::LONGEST.duration(), Duration::from_secs(3_968));
}

#[test]
fn numbers_are_ordered_around_their_wrap() {
    assert!(Seq(0).is_after(Seq(65_535)) && !Seq(65_535).is_after(Seq(0)));
    assert!(Seq(32_767).is_after(Seq(0)) && !Seq(32_769).is_after(Seq(0)));
    assert!(!Seq(7).is_after(Seq(7)));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_time_that_can_be_said_is_the_shortest_that_is_no_shorter(millis in 1_u64..3_968_000) {
        let time = Duration::from_millis(millis);

        let said = Interval::at_least(time);

        let all = (0..=255).map(|octet| Interval(octet).duration());
        prop_assert_eq!(Some(said.duration()), all.filter(|it| *it >= time).min());
    }

    #[test]
    fn what_is_written_is_read(
        (kind, validity, originator) in any::<(u8, u8, u32)>(),
        (ttl, hops, number) in any::<(u8, u8, u16)>(),
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..5),
    ) {
        let header = Header {
            kind: Kind(kind),
            validity: Interval(validity),
            originator: Ipv4Addr::from_bits(originator),
            ttl,
            hops,
            seq: Seq(number),
        };
        let mut octets = vec![0; PACKET_HEADER];
        for body in &bodies {
            header.emit(&mut octets, |out| out.extend_from_slice(body));
        }
        Packet::finish(Seq(number), &mut octets);

        let packet = Packet::parse(&octets).unwrap();

        let read: Vec<Message<'_>> = packet.messages().map(Result::unwrap).collect();
        prop_assert!(read.iter().all(|message| message.header == header));
        prop_assert!(read.iter().map(|message| message.body).eq(&bodies));
    }

    #[test]
    fn any_octets_are_read_or_refused(mut octets in prop::collection::vec(any::<u8>(), 0..200)) {
        if let (true, Ok(len)) = (octets.len() >= 4, u16::try_from(octets.len())) {
            octets[..2].copy_from_slice(&len.to_be_bytes());
        }
        let Ok(packet) = Packet::parse(&octets) else { return Ok(()) };
        for message in packet.messages().filter_map(Result::ok) {
            read_all(message.body);
        }
        read_all(&octets);
    }
}

fn read_all(body: &[u8]) {
    if let Ok(hello) = Hello::parse(body) {
        hello.blocks().for_each(|block| _ = block.addresses.iter().count());
    }
    if let Ok(tc) = Tc::parse(body) {
        let mut written = Vec::new();
        Tc::emit(tc.ansn, &tc.neighbours.iter().collect::<Vec<_>>(), &mut written);
        assert!(body[TC_HEADER..].starts_with(&written[TC_HEADER..]));
        assert_eq!(written.len() < body.len(), tc.neighbours.is_cut());
    }
    let hna = Hna::parse(body);
    assert_eq!(hna.iter().count(), body.len() / 8);
    assert_eq!(hna.is_cut(), !body.len().is_multiple_of(8));
}
