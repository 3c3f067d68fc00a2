//! Which datagrams go where, and how.

use std::net::IpAddr;

use base::ip::{BadSources, Header, Spec, protocol, rewrite_v4_checksum};

use super::{Bench, FAR, config, icmp, tell, u_pdu, udp};
use crate::ipclient::Event;
use crate::s5066::Address;
use crate::s5066::service::{Failure, Mode, Outcome};

const ICMP: u8 = protocol::ICMP;

#[test]
fn a_datagram_is_a_u_pdu_as_it_is() {
    let mut bench = Bench::new(config());
    let packet = udp([10, 0, 2, 9], 0, 500);
    bench.send(&packet);

    let requests = bench.requests();

    assert_eq!(requests.len(), 1);
    assert_eq!(u_pdu(&requests[0]), packet);
    assert_eq!(bench.client.stats().unconfirmed, 500);
    bench.outcome(&requests[0], Outcome::Done);
    assert_eq!(bench.client.stats().unconfirmed, 0);
    assert_eq!(bench.client.stats().handed.confirmed, 1);
}

#[test]
fn dscp_gives_the_priority_and_the_destination_the_mode() {
    let mut bench = Bench::new(config());
    // Routine, AF11, EF, network; a group, and a group address of one node.
    for (dscp, to) in [
        (0, [10, 0, 2, 9]),
        (10, [10, 0, 2, 9]),
        (46, [10, 0, 2, 200]),
        (56, [10, 0, 2, 9]),
        (0, [239, 1, 0, 1]),
        (0, [239, 2, 0, 1]),
    ] {
        bench.send(&udp(to, dscp, 100));
    }

    let told: Vec<_> = bench.requests().iter().map(tell).collect();

    assert_eq!(
        told,
        [
            "0.0.0.2 Arq { in_order: true } 14: 100",
            "0.0.0.3 Arq { in_order: true } 10: 100",
            "0.0.0.2 Arq { in_order: true } 2: 100",
            "0.0.0.2 Arq { in_order: true } 0: 100",
            "16.0.0.7 NonArq { in_order: false, repeats: 0 } 0: 100",
            "0.0.0.2 Arq { in_order: true } 0: 100",
        ]
    );
}

#[test]
fn all_that_can_be_set_of_a_class_is_heeded() {
    let mut config = config();
    config.classes[46].unicast = Mode::NonArq { in_order: false, repeats: 2 };
    config.classes[46].priority = 15;
    config.classes[46].group_repeats = 3;
    config.classes[8].unicast = Mode::Arq { in_order: true };
    config.other_multicast = Some(Address::BROADCAST);
    let mut bench = Bench::new(config);
    for (dscp, to) in [(46, [10, 0, 2, 9]), (46, [239, 1, 0, 1]), (8, [10, 0, 2, 9]), (0, [255; 4])]
    {
        bench.send(&udp(to, dscp, 100));
    }

    let told: Vec<_> = bench.requests().iter().map(tell).collect();

    assert_eq!(
        told,
        [
            "0.0.0.2 NonArq { in_order: false, repeats: 2 } 15: 100",
            "16.0.0.7 NonArq { in_order: false, repeats: 3 } 15: 100",
            "0.0.0.2 Arq { in_order: true } 2: 100",
            "31.255.255.255 NonArq { in_order: false, repeats: 0 } 0: 100",
        ]
    );
}

#[test]
fn nobody_is_told_of_an_unknown_group_but_the_sender_of_an_unknown_host() {
    let mut bench = Bench::new(config());
    bench.send(&udp([239, 3, 0, 1], 0, 100));
    bench.send(&udp([10, 0, 3, 1], 0, 100));

    let told: Vec<_> = bench.packets().iter().map(|packet| icmp(packet)).collect();

    assert_eq!(told, [(ICMP, 3, 1)]);
    assert_eq!(bench.client.stats().taken.no_route, 2);
    assert!(bench.requests().is_empty());
}

#[test]
fn what_is_too_long_is_cut_where_that_is_allowed() {
    let mut bench = Bench::new(config());
    bench.send(&udp([10, 0, 2, 9], 0, 5_000));

    let requests = bench.requests();

    let told: Vec<_> = requests
        .iter()
        .map(|request| {
            let header = Header::parse(u_pdu(request)).unwrap();
            let fragment = header.fragment.unwrap();
            (header.total_len, fragment.offset, fragment.more)
        })
        .collect();
    assert_eq!(told, [(2_044, 0, true), (2_044, 2_024, true), (952, 4_048, false)]);
    assert_eq!(bench.client.stats().taken.fragmented, 1);
}

#[test]
fn the_sender_of_what_may_not_be_cut_is_told_the_mtu() {
    let mut bench = Bench::new(config());
    let [from, to] = ["10.0.1.9", "10.0.2.9"].map(|address| address.parse().unwrap());
    let mut whole = Vec::new();
    Spec::new(from, to, protocol::UDP).emit(2_029, &mut whole);
    whole.resize(2_049, 0);
    let [from, to] = ["fd00:1::9", "fd00:2::9"].map(|address| address.parse().unwrap());
    let mut v6 = Vec::new();
    Spec::new(from, to, protocol::UDP).emit(2_009, &mut v6);
    v6.resize(2_049, 0);
    bench.send(&whole);
    bench.send(&v6);

    let packets = bench.packets();

    let told: Vec<_> = packets.iter().map(|packet| icmp(packet)).collect();
    assert_eq!(told, [(ICMP, 3, 4), (protocol::ICMPV6, 2, 0)]);
    assert_eq!(packets[0][26..28], 2_048_u16.to_be_bytes());
    assert_eq!(packets[1][46..48], 2_048_u16.to_be_bytes());
    assert_eq!(bench.client.stats().taken.too_big, 2);
}

#[test]
fn ipv6_goes_like_ipv4() {
    let mut bench = Bench::new(config());
    let [from, to] = ["fd00:1::9", "fd00:2::9"].map(|address| address.parse().unwrap());
    let mut packet = Vec::new();
    let class = 46 << 2;
    Spec { traffic_class: class, ..Spec::new(from, to, protocol::UDP) }.emit(10, &mut packet);
    packet.resize(50, 0);
    bench.send(&packet);

    let requests = bench.requests();

    assert_eq!(
        requests.iter().map(tell).collect::<Vec<_>>(),
        ["0.0.0.2 Arq { in_order: true } 10: 50"]
    );
    assert_eq!(u_pdu(&requests[0]), packet);
}

#[test]
fn what_arrives_goes_to_the_stack_if_it_is_a_datagram() {
    let mut bench = Bench::new(config());
    let packet = udp([10, 0, 1, 9], 0, 300);
    bench.receive(&packet);
    bench.receive(b"hello");
    bench.receive(&packet[..200]);
    bench.receive(&[&packet[..], b"more"].concat());

    assert_eq!(bench.packets(), [packet]);
    assert_eq!(bench.client.stats().received.received_malformed, 3);
}

#[test]
fn nobody_sends_from_this_host_s_addresses_or_those_of_another_node() {
    let mut bench = Bench::new(config());
    let from = |source: [u8; 4]| {
        let mut packet = udp([10, 0, 1, 9], 0, 100);
        packet[12..16].copy_from_slice(&source);
        rewrite_v4_checksum(&mut packet[..20]);
        packet
    };
    // Behind the far node, a router that no route leads to, and another host of this LAN.
    let good = [[10, 0, 2, 9], [192, 0, 2, 7], [10, 0, 1, 9]].map(from);
    good.iter().for_each(|packet| bench.receive(packet));
    bench.receive(&from([10, 0, 1, 1]));
    bench.receive(&from([10, 0, 2, 200]));
    for nobody in [[224, 0, 0, 1], [127, 0, 0, 1], [0, 0, 0, 0], [255; 4]] {
        bench.receive(&from(nobody));
    }
    assert_eq!(bench.packets(), good);

    let own = [IpAddr::from([10, 0, 1, 9]), IpAddr::from([10, 0, 2, 9])];
    bench.client.handle_addresses(own.into());
    good.iter().for_each(|packet| bench.receive(packet));
    bench.receive(&from([10, 0, 1, 1]));

    assert_eq!(bench.packets(), [from([192, 0, 2, 7]), from([10, 0, 1, 1])]);
    let expected =
        BadSources { packets_from_self: 3, packets_disallowed: 1, packets_not_unicast: 4 };
    let stats = bench.client.stats().received;
    assert_eq!((stats.bad_sources, stats.packets_out), (expected, 5));
}

#[test]
fn what_is_no_datagram_is_not_sent() {
    let mut bench = Bench::new(config());
    for packet in [&b""[..], b"hello", &udp([10, 0, 2, 9], 0, 100)[..50]] {
        bench.send(packet);
    }

    assert!(bench.requests().is_empty());
    assert_eq!(bench.client.stats().taken.malformed, 3);
}

#[test]
fn the_sender_is_told_that_the_node_does_not_respond_but_not_too_often() {
    let mut bench = Bench::new(config());
    for _ in 0..30 {
        bench.send(&udp([10, 0, 2, 9], 0, 100));
    }
    for request in bench.requests() {
        bench.outcome(&request, Outcome::not_arrived(Failure::NoResponse));
    }

    let told: Vec<_> = bench.packets().iter().map(|packet| icmp(packet)).collect();

    assert_eq!(told, [(ICMP, 3, 1); 20]);
    let stats = bench.client.stats();
    assert_eq!(
        (stats.handed.unreachable, stats.received.icmp_sent, stats.received.icmp_limited),
        (30, 20, 10)
    );
    assert_eq!(stats.unconfirmed, 0);
}

#[test]
fn the_sender_is_told_that_the_other_node_has_no_client() {
    let mut bench = Bench::new(config());
    bench.server.handle_introduced(FAR, true);
    for len in [100, 101] {
        bench.send(&udp([10, 0, 2, 9], 0, len));
    }
    let requests = bench.requests();
    // One is confirmed before, the other is not.
    bench.outcome(&requests[0], Outcome::Done);
    for request in &requests {
        bench.reject_from_far(request);
    }

    let told: Vec<_> = bench.packets().iter().map(|packet| icmp(packet)).collect();
    assert_eq!(told, [(ICMP, 3, 1); 2]);
    let stats = bench.client.stats();
    assert_eq!((stats.handed.confirmed, stats.handed.unreceived, stats.handed.refused), (2, 2, 0));
    assert_eq!(bench.events, [Event::Unreceived { node: FAR }; 2]);
}
