use std::net::{IpAddr, SocketAddr};

use base::ip::{Header, Prefix, Spec, protocol, rewrite_v4_checksum, udp};
use base::tcp::{Flags, Options, Segment, Timestamps};
use proptest::prelude::*;

use super::table::NoTable;
use super::{Announcement, Malformed};
use super::{Context, Table, Undone};
use crate::ipclient::Route;
use crate::s5066::Address;

const NODE: Address = Address::node(2);

/// A table with these networks.
fn table(networks: &[&str]) -> Table {
    let networks = networks.iter().map(|network| network.parse::<Prefix>().unwrap());
    let routes = networks.map(|prefix| Route { prefix, to: NODE });
    Table::of(&routes.collect::<Vec<_>>(), NODE)
}

/// The networks behind two ends.
fn ends() -> [Table; 2] {
    [table(&["10.1.0.0/24", "fd01::/64"]), table(&["10.2.0.0/24", "10.3.0.0/16", "fd02::/64"])]
}

fn is_v6(from: &str) -> bool {
    from.contains(':')
}

fn udp(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let [source, destination]: [SocketAddr; 2] = [from, to].map(|end| end.parse().unwrap());
    let mut packet = Vec::new();
    udp::Datagram { source, destination, payload }.emit(&mut packet);
    packet
}

fn tcp(flags: Flags, options: Options, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    Segment {
        source: "10.1.0.5:40000".parse().unwrap(),
        destination: "10.2.0.7:80".parse().unwrap(),
        seq: 1_000_000_000,
        ack: 2_000_000_000,
        flags,
        window: 500,
        urgent: 0,
        options,
        payload,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    }
    .emit(&mut packet);
    packet
}

fn ping(from: &str, to: &str, payload: usize) -> Vec<u8> {
    let [source, destination]: [IpAddr; 2] = [from, to].map(|end| end.parse().unwrap());
    let (number, kind) = match is_v6(from) {
        true => (protocol::ICMPV6, 128),
        false => (protocol::ICMP, 8),
    };
    let mut packet = Vec::new();
    Spec::new(source, destination, number).emit(8 + payload, &mut packet);
    let start = packet.len();
    packet.extend_from_slice(&[kind, 0, 0, 0, 0x12, 0x34, 0, 1]);
    packet.resize(packet.len() + payload, 0x5a);
    let sum = match is_v6(from) {
        true => base::ip::pseudo_header(source, destination, number, 8 + payload),
        false => base::ip::Checksum::default(),
    };
    let sum = sum.with(&packet[start..]).finish();
    packet[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Octets that a datagram without payload comes to.
fn compressed(packet: &[u8]) -> Option<usize> {
    let [near, far] = ends();
    let context = Context::new(&far, &near);
    let compressed = context.compress(packet)?;
    assert_eq!(context.restore(&compressed).unwrap(), packet);
    Some(compressed.len())
}

#[test]
fn usual_datagrams_come_to_so_many_octets() {
    let stamps =
        Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::default() };

    let v4 = |from: &str, to: &str| {
        compressed(&udp(&format!("10.1.0.5:{from}"), &format!("10.2.0.7:{to}"), &[]))
    };
    let sizes = [v4("40000", "53"), v4("4000", "4000"), v4("4000", "5000")];
    assert_eq!(sizes, [Some(8), Some(7), Some(9)]);
    let v6 = |host: &str| compressed(&udp(&format!("[fd01::{host}]:40000"), "[fd02::7]:53", &[]));
    let sizes = [v6("5"), v6("ff"), v6("100"), v6("ffff"), v6("1:0")];
    assert_eq!(sizes, [Some(9), Some(9), Some(10), Some(10), Some(16)]);
    assert_eq!(compressed(&tcp(Flags::ACK, Options::default(), &[])), Some(19));
    assert_eq!(compressed(&tcp(Flags::ACK, stamps, &[])), Some(27));
    assert_eq!(compressed(&ping("10.1.0.5", "10.2.0.7", 0)), Some(8));
    assert_eq!(compressed(&ping("fd01::5", "fd02::7", 0)), Some(8));
}

#[test]
fn the_octets_are_as_documented() {
    let [near, far] = ends();
    let packet = udp("10.1.0.5:4000", "10.2.0.7:4000", b"hi");

    let octets = Context::new(&far, &near).compress(&packet).unwrap();

    // 11, version 0, UDP 00, TTL 00, class 0, | atomic 0, first network 1, host 5; first network 1, host 7; the same
    // port twice 00, 4000 in 16 bits; checksum 1; and 10 bits of check.
    let expected = [0b1100_0000, 0b0100_0001, 0b0110_0000, 0b1110_0000, 0b0111_1101];
    assert_eq!(octets[..5], expected);
    assert_eq!((octets[5] >> 2, octets.len(), &octets[7..]), (1, 9, &b"hi"[..]));
}

#[test]
fn what_is_unusual_goes_as_it_is_or_with_more_octets() {
    let usual = udp("10.1.0.5:40000", "10.2.0.7:53", &[0; 20]);
    let change = |place: usize, to: u8| {
        let mut packet = usual.clone();
        packet[place] = to;
        rewrite_v4_checksum(&mut packet[..20]);
        compressed(&packet)
    };

    assert_eq!(compressed(&usual), Some(28));
    // A fragment, the reserved bit, another version, a wrong length.
    assert_eq!([change(6, 0x20), change(6, 0x80), change(0, 0x55), change(3, 0)], [None; 4]);
    // Another class, TTL, identification that counts, address; and a transport that is wrong.
    assert_eq!([change(1, 0xb8), change(8, 17)], [Some(29); 2]);
    assert_eq!(compressed(&udp("11.1.0.5:40000", "10.2.0.7:53", &[0; 20])), Some(32));
    assert_eq!(change(6, 0), Some(30));
    assert_eq!(change(27, 0), Some(34));
}

#[test]
fn the_identification_of_an_atomic_datagram_becomes_zero_unless_it_may_be_protected() {
    let [near, far] = ends();
    let context = Context::new(&far, &near);
    let numbered = |number: u8| {
        let mut packet = udp("10.1.0.5:40000", "10.2.0.7:53", &[0; 20]);
        packet[4..6].copy_from_slice(&[7, 7]);
        packet[9] = number;
        rewrite_v4_checksum(&mut packet[..20]);
        packet
    };
    let restored = |packet: &[u8]| context.restore(&context.compress(packet).unwrap()).unwrap();

    let mut expected = numbered(protocol::TCP);
    expected[4..6].fill(0);
    rewrite_v4_checksum(&mut expected[..20]);
    assert_eq!(restored(&numbered(protocol::TCP)), expected);
    // Authentication header.
    assert_eq!(restored(&numbered(51)), numbered(51));
}

#[test]
fn other_tables_are_noticed_and_not_made_addresses_of() {
    let [near, far] = ends();
    let others = [table(&["10.1.0.0/24"]), table(&["10.9.0.0/24", "fd01::/64"]), table(&[])];
    let good = Context::new(&far, &near);
    for number in 0..200_u8 {
        let packet = udp("10.1.0.5:4000", "10.2.0.7:4000", &[number; 20]);
        let octets = good.compress(&packet).unwrap();
        for other in &others {
            let restored = Context::new(&far, other).restore(&octets);
            assert!(matches!(restored, Err(Undone::Check | Undone::Unreadable)), "{restored:?}");
        }
    }
    // The other way round is another context too.
    let octets = good.compress(&udp("10.1.0.5:4000", "10.2.0.7:4000", &[7; 20])).unwrap();
    assert_eq!(Context::new(&near, &far).restore(&octets), Err(Undone::Check));
}

#[test]
fn an_announcement_is_as_documented() {
    let asking = Announcement { asks: true, heard: 0x0102_0304, table: ends()[1].clone() };
    let mut octets = Vec::new();
    asking.emit(&mut octets);

    let mut expected = vec![0xa1, 1, 2, 3, 4, 24, 10, 2, 0, 16, 10, 3, 128, 0xfd, 2];
    expected.resize(expected.len() + 6, 0);
    assert_eq!(octets, expected);
    assert_eq!(Announcement::parse(&octets), Ok(asking));
}

#[test]
fn what_is_no_announcement_is_refused() {
    let parse = |after: &[u8]| Announcement::parse(&[&[0xa0, 0, 0, 0, 0], after].concat());

    assert_eq!(Announcement::parse(&[0xa0; 4]), Err(Malformed::Truncated { have: 4 }));
    assert_eq!(Announcement::parse(&[0xa2; 5]), Err(Malformed::First(0xa2)));
    assert_eq!(parse(&[24, 10, 2]), Err(Malformed::Table(NoTable::Cut)));
    assert_eq!(parse(&[33, 10, 2, 0, 0, 0]), Err(Malformed::Table(NoTable::Network(33))));
    // Bits beyond those that count.
    assert_eq!(parse(&[7, 3]), Err(Malformed::Table(NoTable::Network(7))));
    let nine: Vec<u8> = (0..9).flat_map(|network| [8, network]).collect();
    assert_eq!(parse(&nine), Err(Malformed::Table(NoTable::TooMany)));
}

#[test]
fn a_table_has_the_first_networks_of_a_node_and_no_default_route() {
    let networks: Vec<String> = (0..12).map(|network| format!("10.{network}.0.0/16")).collect();
    let mut names: Vec<&str> = networks.iter().map(String::as_str).collect();
    names.insert(0, "0.0.0.0/0");

    assert_eq!(table(&names), table(&names[1..9]));
    assert_ne!(table(&names).name(), table(&names[1..8]).name());
    assert_ne!(table(&[]).name(), 0);
}

/// Datagrams of any sort: right, with some octets changed, and none at all.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let host = prop_oneof![
        any::<u8>().prop_map(|host| IpAddr::from([10, 1, 0, host])),
        any::<[u8; 2]>().prop_map(|[a, b]| IpAddr::from([10, 3, a, b])),
        any::<[u8; 4]>().prop_map(IpAddr::from),
    ];
    let host_v6 = prop_oneof![
        any::<u16>().prop_map(|host| IpAddr::from([0xfd01, 0, 0, 0, 0, 0, 0, host])),
        any::<[u16; 4]>().prop_map(|[a, b, c, d]| IpAddr::from([0xfd02, 0, 0, 0, a, b, c, d])),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ];
    let hosts =
        prop_oneof![prop::array::uniform2(host.boxed()), prop::array::uniform2(host_v6.boxed()),];
    let port = || prop_oneof![0_u16..2_000, 30_000_u16..40_000, Just(4_000)];
    let ends = (hosts, port(), port())
        .prop_map(|([a, b], from, to)| [SocketAddr::new(a, from), SocketAddr::new(b, to)]);
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    let numbers = (any::<u32>(), any::<u8>(), any::<u8>(), any::<bool>(), 0_u8..4);
    let whole = (ends, payload, numbers).prop_map(|(ends, payload, numbers)| {
        let [source, destination] = ends;
        let (seq, flags, ttl, has_stamps, kind) = numbers;
        let mut packet = Vec::new();
        let options = Options {
            timestamps: has_stamps.then_some(Timestamps { value: seq, echo: 7 }),
            sack_permitted: ttl > 200,
            ..Options::default()
        };
        match kind {
            0 => udp::Datagram { source, destination, payload: &payload }.emit(&mut packet),
            1 => ping(&source.ip().to_string(), &destination.ip().to_string(), payload.len())
                .clone_into(&mut packet),
            _ => Segment {
                source,
                destination,
                seq,
                ack: seq / 3,
                flags: Flags(flags),
                window: 900,
                urgent: 0,
                options,
                payload: &payload,
                ttl,
                traffic_class: ttl & 3,
                dont_fragment: has_stamps,
            }
            .emit(&mut packet),
        }
        packet
    });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let changed = (whole, changes, any::<bool>()).prop_map(|(mut packet, changes, is_repaired)| {
        for (place, to) in changes {
            let place = place.index(packet.len());
            packet[place] = to;
        }
        if is_repaired && packet[0] == 0x45 {
            rewrite_v4_checksum(&mut packet[..20]);
        }
        packet
    });
    prop_oneof![9 => changed, 1 => prop::collection::vec(any::<u8>(), 0..80)]
}

proptest! {
    #![proptest_config(harness::cases(2_000))]

    #[test]
    fn a_datagram_comes_back_as_it_was_or_is_not_compressed(packet in datagram()) {
        let [near, far] = ends();
        let context = Context::new(&far, &near);
        let Some(octets) = context.compress(&packet) else { return Ok(()) };

        let restored = context.restore(&octets).unwrap();

        prop_assert!(octets.len() < packet.len());
        prop_assert!(Context::is_compressed(octets[0] >> 4));
        let header = Header::parse(&packet).unwrap();
        let mut expected = packet.clone();
        let is_known = [protocol::ICMP, protocol::TCP, protocol::UDP].contains(&header.protocol);
        if header.is_v4() && header.dont_fragment && is_known {
            expected[4..6].fill(0);
            rewrite_v4_checksum(&mut expected[..20]);
        }
        prop_assert_eq!(restored, expected);
    }

    #[test]
    fn whatever_claims_to_be_compressed_is_restored_to_a_datagram_or_refused(
        mut octets in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        if let Some(first) = octets.first_mut() {
            *first |= 0xc0;
        }
        let [near, far] = ends();
        if let Ok(packet) = Context::new(&far, &near).restore(&octets) {
            prop_assert_eq!(Header::parse(&packet).map(|it| it.total_len), Ok(packet.len()));
        }
    }

    #[test]
    fn a_table_that_is_read_is_written_the_same(
        octets in prop::collection::vec(prop_oneof![Just(0_u8), Just(8), Just(64), any::<u8>()], 0..40),
    ) {
        if let Ok(table) = Table::parse(&octets) {
            let mut written = Vec::new();
            table.emit(&mut written);
            prop_assert_eq!(Table::parse(&written), Ok(table));
        }
    }
}
