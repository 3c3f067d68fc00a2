//! What others may claim: nothing of it fills memory, and little of it does harm.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;

use super::{Net, main, secs};
use crate::olsr::wire::{
    ADDRESS, Addresses, BLOCK_HEADER, HELLO_HEADER, Header, Hello, Hna, Interval, Kind, LinkCode,
    LinkType, MESSAGE_HEADER, NeighbourType, PACKET_HEADER, Packet, Seq, Tc,
};
use crate::olsr::{Bounds, Config, Counter, TcRedundancy};
use crate::{Interface, Neighbour, Notice, Router};

/// A message like one that came over some hops.
fn header(kind: Kind, originator: Ipv4Addr, seq: u16) -> Header {
    let validity = Interval::at_least(Duration::from_secs(15));
    Header { kind, validity, originator, ttl: 20, hops: 3, seq: Seq(seq) }
}

fn packet(header: Header, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut octets = vec![0; PACKET_HEADER];
    header.emit(&mut octets, body);
    Packet::finish(Seq(0), &mut octets);
    octets
}

fn tc(originator: Ipv4Addr, seq: u16, ansn: u16, neighbours: &[Ipv4Addr]) -> Vec<u8> {
    packet(header(Kind::TC, originator, seq), |out| Tc::emit(Seq(ansn), neighbours, out))
}

fn hello(originator: Ipv4Addr, neighbours: &[(LinkCode, Ipv4Addr)]) -> Vec<u8> {
    let header = Header { ttl: 1, hops: 0, ..header(Kind::HELLO, originator, 0) };
    let interval = Interval::at_least(Duration::from_secs(2));
    packet(header, |out| Hello::emit(interval, 3, neighbours, out))
}

/// An address that no node has.
fn made_up(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x1400_0000 + number)
}

const SYMMETRIC: LinkCode =
    LinkCode { link: LinkType::Symmetric, neighbour: NeighbourType::Symmetric };
const MPR: LinkCode = LinkCode { link: LinkType::Symmetric, neighbour: NeighbourType::Mpr };

/// A line of three that knows its ways; node 0 hears what the tests make up as from node 1.
fn settled(bounds: Bounds) -> Net {
    let mut net = Net::new(3, &super::line(3), &Config { bounds, ..Config::default() });
    net.run_until(secs(20.0));
    assert_eq!(net.faults(), [""; 0]);
    net
}

#[test]
fn messages_in_the_name_of_the_node_itself_are_ignored() {
    let mut net = settled(Bounds::default());

    net.inject((0, 0), main(1), &tc(main(0), 1, 1, &[made_up(1)]));
    net.inject((0, 0), main(1), &hello(main(0), &[(SYMMETRIC, made_up(1))]));
    net.inject((0, 0), main(1), &hello(Ipv4Addr::BROADCAST, &[]));
    net.inject((0, 0), main(0), &hello(made_up(2), &[]));

    assert_eq!(net.count(0, Counter::MessagesOwn), 3);
    assert_eq!(net.count(0, Counter::PacketsStray), 1);
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn messages_go_on_while_they_have_hops_left_and_whatever_they_are() {
    let mut net = settled(Bounds::default());
    net.sent = Some(Vec::new());
    let body = |out: &mut Vec<u8>| out.extend_from_slice(b"something else");
    for (seq, ttl) in [(1, 0), (2, 1), (3, 2), (4, 255)] {
        let header = Header { ttl, hops: 255, ..header(Kind(200), made_up(1), seq) };
        // Node 1 is the relay of node 0.
        net.inject((1, 0), main(0), &packet(header, body));
        net.inject((1, 0), main(0), &packet(header, body));
    }

    net.run_until(net.now + Duration::from_secs(1));

    let sent = net.sent.take().unwrap();
    let unknown = sent.iter().filter(|(_, at, _)| *at == (1, 0)).flat_map(|(_, _, octets)| {
        let messages = Packet::parse(octets).unwrap().messages();
        messages.map(|it| it.unwrap().header).filter(|it| it.kind == Kind(200)).collect::<Vec<_>>()
    });
    let mut unknown: Vec<_> = unknown.map(|it| (it.seq.0, it.ttl, it.hops)).collect();
    unknown.sort_unstable();
    assert_eq!(unknown, [(3, 1, 255), (4, 254, 255)]);
    assert_eq!(net.count(1, Counter::MessagesExpired), 2);
    assert!(net.count(1, Counter::MessagesDuplicate) >= 3);
}

#[test]
fn a_message_goes_on_once_and_only_if_a_selector_brings_an_interface_its_first_copy() {
    let mut net = Net::new(3, &super::line(3), &Config::default());
    net.start(1, Config::default(), &[0, 1], 1);
    net.link((0, 0), (1, 1));
    net.run_until(secs(20.0));
    // A neighbour of node 1 that did not choose it as its relay; nodes 0 and 2 did.
    let other = made_up(9);
    net.inject((1, 0), other, &hello(other, &[(SYMMETRIC, main(1))]));
    let mut forwarded = |seq, copies: [(usize, Ipv4Addr); 2]| {
        let before = net.count(1, Counter::MessagesForwarded);
        for (interface, from) in copies {
            net.inject((1, interface), from, &tc(made_up(1), seq, 1, &[]));
        }
        net.count(1, Counter::MessagesForwarded) - before
    };

    assert_eq!(forwarded(1, [(0, main(0)), (1, main(0))]), 1);
    assert_eq!(forwarded(2, [(0, other), (0, main(0))]), 0);
    assert_eq!(forwarded(3, [(0, other), (1, main(0))]), 1);
}

/// An HNA message as olsrd's SmartGateway sends it (from `OLSRv1_HNA_sgw_1.pcap` of tcpdump's tests): the
/// mask of 0.0.0.0 has flags and speeds, and behind it stands an ordinary network.
const SMART_GATEWAY: [u8; 28] = [
    4, 0x2c, 0, 0x1c, 0xac, 0x1f, 0xaf, 0xdc, 0xff, 0, 0x6c, 0xe5, //
    0, 0, 0, 0, 0, 7, 4, 4, //
    10, 0xaf, 0xdc, 0, 0xff, 0xff, 0xff, 0,
];

#[test]
fn a_strange_entry_costs_no_other_and_the_message_goes_on_as_it_came() {
    let mut net = settled(Bounds::default());
    net.sent = Some(Vec::new());
    let mut octets = vec![0; PACKET_HEADER];
    octets.extend(SMART_GATEWAY);
    // A TC message without its ANSN says nothing at all to us.
    header(Kind::TC, made_up(1), 1).emit(&mut octets, |out| out.extend([1, 2]));
    Packet::finish(Seq(0), &mut octets);

    // Node 1 is the relay of node 0.
    net.inject((1, 0), main(0), &octets);
    net.run_until(net.now + Duration::from_secs(1));

    let gateway = Ipv4Addr::new(172, 31, 175, 220);
    let network = "10.175.220.0/24".parse().unwrap();
    for node in [1, 2] {
        let networks: Vec<_> = net.olsr(node).topology.networks().collect();
        assert_eq!(networks, [(gateway, network)], "node {node}");
        assert_eq!(net.count(node, Counter::EntriesStrange), 1, "node {node}");
        assert_eq!(net.count(node, Counter::PacketsMalformed), 1, "node {node}");
    }
    let from = Neighbour { interface: 0, address: main(0) };
    let notice = |originator| Notice::Unreadable { from, originator };
    let told = &net.nodes[1].as_ref().unwrap().notices;
    assert_eq!(told[..], [notice(made_up(1)), notice(gateway)]);
    let sent = net.sent.take().unwrap();
    let by_relay = || sent.iter().filter(|(_, at, _)| *at == (1, 0)).map(|(_, _, octets)| octets);
    let mut on = SMART_GATEWAY;
    (on[8], on[9]) = (0xfe, 1);
    assert!(by_relay().any(|octets| octets.windows(on.len()).any(|it| it == on)));
    assert!(by_relay().any(|octets| octets.windows(2).any(|it| it == [1, 2])), "the TC too");
}

#[test]
fn a_node_says_that_another_one_has_its_address() {
    // Nodes 0 and 6 of a line have one main address. All nodes tell all of their neighbours.
    let config = Config { tc_redundancy: TcRedundancy::All, ..Config::default() };
    let mut net = Net::new(7, &super::line(7), &config);
    let interface = Interface { address: main(0), room: super::ROOM };
    net.interface(6, 0, Some(&interface));

    net.run_until(secs(200.0));

    for (node, neighbour) in [(0, main(1)), (6, main(5))] {
        assert!(net.count(node, Counter::MessagesDisputed) > 3, "node {node}");
        let from = Neighbour { interface: 0, address: neighbour };
        let notice = Notice::AddressDisputed { address: main(0), from };
        assert!(net.nodes[node].as_ref().unwrap().notices.contains(&notice), "node {node}");
    }
    for node in 1..6 {
        assert_eq!(net.count(node, Counter::MessagesDisputed), 0, "node {node}");
    }
}

#[test]
fn what_is_forged_in_a_nodes_name_is_contradicted_within_two_seconds() {
    let config = Config { tc_redundancy: TcRedundancy::All, ..Config::default() };
    let mut net = Net::new(4, &super::line(4), &config);
    net.run_until(secs(60.0));
    assert_eq!(net.faults(), [""; 0]);
    // Node 3 is said to have other neighbours, under ANSNs around the circle; and its next numbers are used.
    let next = net.olsr(3).numbers.next();
    for step in 0..40 {
        let number = next.0.wrapping_add(step);
        let forged = tc(main(3), number, step.wrapping_mul(0x1999), &[made_up(1)]);
        net.inject((1, 0), main(0), &forged);
        net.inject((2, 0), main(1), &forged);
        net.inject((3, 0), main(2), &forged);
    }

    net.run_until(net.now + Duration::from_secs(2));

    for node in 0..3 {
        let told: Vec<_> = net.olsr(node).topology.told_by(main(3)).collect();
        assert_eq!(told, [main(2)], "node {node}");
    }
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn echoes_of_own_messages_are_no_other_nodes() {
    let mut net = Net::new(5, &super::line(5), &Config::default());
    net.run_until(secs(300.0));
    net.start(2, Config::default(), &[0], 2);
    net.run_until(secs(600.0));

    let own: u64 = (0..5).map(|node| net.count(node, Counter::MessagesOwn)).sum();
    let disputed: u64 = (0..5).map(|node| net.count(node, Counter::MessagesDisputed)).sum();
    assert!(own > 20, "{own}");
    assert_eq!(disputed, 0);
}

#[test]
fn who_never_carries_does_not_though_it_is_chosen() {
    let mut net = settled(Bounds::default());
    net.start(1, Config { willingness: 0, ..Config::default() }, &[0], 2);
    net.run_until(secs(40.0));

    net.inject((1, 0), main(0), &hello(main(0), &[(MPR, main(1))]));
    net.inject((1, 0), main(0), &tc(made_up(1), 1, 1, &[made_up(2)]));

    assert_eq!(net.count(1, Counter::MessagesForwarded), 0);
    assert!(net.olsr(1).topology.told_by(made_up(1)).count() == 1, "it believes");
}

#[test]
fn only_symmetric_neighbours_are_believed_and_only_of_their_own_links() {
    let mut net = settled(Bounds::default());
    let before = net.count(0, Counter::Calculations);

    net.inject((0, 0), made_up(7), &tc(main(2), 1, 9_999, &[made_up(1)]));
    let far = Header { hops: 1, ..header(Kind::HELLO, made_up(7), 0) };
    let interval = Interval::at_least(Duration::from_secs(2));
    let far = packet(far, |out| Hello::emit(interval, 7, &[(SYMMETRIC, main(0))], out));
    net.inject((0, 0), made_up(7), &far);

    assert_eq!(net.count(0, Counter::MessagesStrange), 1);
    assert_eq!(net.count(0, Counter::HellosForwarded), 1);
    assert_eq!(net.count(0, Counter::Calculations), before);
}

#[test]
fn a_message_that_is_handed_in_after_its_link_has_ended_is_not_believed() {
    let mut net = settled(Bounds::default());

    // The driver is late: nothing was handled since.
    net.now += Duration::from_secs(7);
    net.inject((0, 0), main(1), &tc(made_up(1), 1, 1, &[made_up(2)]));

    assert_eq!(net.count(0, Counter::MessagesStrange), 1);
    assert_eq!(net.olsr(0).topology.told_by(made_up(1)).count(), 0);
}

#[test]
fn a_node_that_claims_to_reach_everyone_has_an_eighth_of_the_memory() {
    let bounds = Bounds { topology: 800, two_hop: 400, ..Bounds::default() };
    let mut net = settled(bounds);
    let all: Vec<Ipv4Addr> = (0..1_000).map(made_up).collect();

    for (seq, part) in (0..).zip(all.chunks(300)) {
        net.inject((0, 0), main(1), &tc(main(2), seq, 20_000, part));
        let told: Vec<_> = part.iter().map(|it| (SYMMETRIC, *it)).collect();
        net.inject((0, 0), main(1), &hello(main(1), &told));
    }

    let links = net.olsr(0).topology.told_by(main(2)).count();
    let [_, two_hop] = net.olsr(0).hood.sizes();
    assert_eq!((links, two_hop), (100, 50));
    assert!(net.count(0, Counter::TopologyFull) > 800);
    assert!(net.count(0, Counter::TwoHopFull) > 900);
    assert_eq!(net.walk(0, main(2)), Some(2));
}

#[test]
fn a_flood_of_new_nodes_stays_within_bounds_and_leaves_what_was_known() {
    let bounds = Bounds {
        links: 20,
        two_hop: 100,
        topology: 500,
        aliases: 50,
        networks: 60,
        duplicates: 200,
        queue: 30,
    };
    let mut net = settled(bounds);
    for number in 0..3_000 {
        let node = made_up(number);
        let (net_address, seq) = (made_up(500_000 + number), 7);
        net.inject((0, 0), main(1), &tc(node, seq, 1, &[made_up(100_000 + number), main(2)]));
        let mid = packet(header(Kind::MID, node, 8), |out| {
            Addresses::emit(&[made_up(200_000 + number)], out);
        });
        net.inject((0, 0), main(1), &mid);
        let hna = packet(header(Kind::HNA, node, 9), |out| Hna::emit(&[(net_address, 32)], out));
        net.inject((0, 0), main(1), &hna);
        net.inject((0, 0), node, &hello(node, &[(MPR, main(0))]));
    }

    let sizes = net.olsr(0).topology.sizes();
    let [links, two_hop] = net.olsr(0).hood.sizes();
    assert_eq!(sizes, [500, 50, 60, 200]);
    assert!(links == 20 && two_hop <= 100, "{links}, {two_hop}");
    for counter in [
        Counter::LinksFull,
        Counter::TopologyFull,
        Counter::AliasesFull,
        Counter::NetworksFull,
        Counter::DuplicatesForgotten,
    ] {
        assert!(net.count(0, counter) > 1_000, "{counter:?}");
    }
    assert_eq!(net.walk(0, main(1)), Some(1));
    assert_eq!(net.walk(0, main(2)), Some(2));
    net.run_until(net.now + Duration::from_secs(60));
    assert_eq!(net.faults(), [""; 0], "and all of it ends");
    assert_eq!(net.nodes[0].as_ref().unwrap().table.len(), 2);
}

#[test]
fn what_waits_for_an_interface_without_room_has_a_bound() {
    let mut net = settled(Bounds { queue: 30, ..Bounds::default() });
    let from = crate::Neighbour { interface: 0, address: main(0) };
    let arrival = crate::Arrival { from, is_unicast: false, ttl: 1 };
    let now = net.now;
    let olsr = &mut net.nodes[1].as_mut().unwrap().olsr;

    for number in 0..100 {
        olsr.handle_message(now, &arrival, &tc(made_up(number), 1, 1, &[main(0)]));
    }

    assert!(net.count(1, Counter::MessagesFull) >= 70);
}

#[test]
fn what_waits_and_does_not_fit_any_more_is_dropped_and_counted() {
    let mut net = settled(Bounds::default());
    let many: Vec<Ipv4Addr> = (0..100).map(made_up).collect();
    for (seq, neighbours) in [(1, &many[..1]), (2, &many)] {
        net.inject((1, 0), main(0), &tc(made_up(200), seq, 1, neighbours));
    }

    let narrow = Interface { address: main(1), room: 200 };
    net.interface(1, 0, Some(&narrow));

    assert_eq!(net.count(1, Counter::MessagesTooBig), 1);
}

#[test]
fn an_interface_that_was_full_for_long_gets_the_latest_of_each_message_only() {
    let mut net = settled(Bounds::default());
    let mut now = net.now;
    let olsr = &mut net.nodes[1].as_mut().unwrap().olsr;

    while now < secs(25.5) {
        now = olsr.next_timeout().unwrap();
        olsr.handle_timeout(now);
        while olsr.poll_event().is_some() {}
    }
    let mut out = Vec::new();
    let mut kinds = Vec::new();
    while olsr.poll_transmit(now, 0, &mut out).is_some() {
        let messages = Packet::parse(&out).unwrap().messages();
        kinds.extend(messages.map(|message| message.unwrap().header.kind));
    }

    assert!(olsr.stats().of(Counter::TcSent) > 2);
    assert_eq!(kinds, [Kind::TC, Kind::HELLO]);
}

#[test]
fn hellos_held_back_by_a_full_interface_are_not_sent_beside_newer_ones() {
    let mut net = Net::new(4, &super::star(4), &Config::default());
    net.run_until(secs(20.0));
    // A HELLO has room for one of the three neighbours from now on.
    let room = PACKET_HEADER + MESSAGE_HEADER + HELLO_HEADER + BLOCK_HEADER + ADDRESS;
    net.interface(0, 0, Some(&Interface { address: main(0), room }));
    let olsr = &mut net.nodes[0].as_mut().unwrap().olsr;
    let mut out = Vec::new();

    let sent = [1, usize::MAX].map(|most| {
        let now = olsr.ports[&0].hello_at;
        olsr.handle_timeout(now);
        let packets = std::iter::from_fn(|| {
            olsr.poll_transmit(now, 0, &mut out)?;
            let mut messages = Packet::parse(&out).unwrap().messages();
            Some(messages.next().unwrap().unwrap().header.kind)
        });
        packets.filter(|kind| *kind == Kind::HELLO).take(most).count()
    });

    assert_eq!(sent, [1, 3]);
}

#[test]
fn an_old_number_is_ignored_and_a_forged_one_blocks_no_longer_than_it_holds() {
    let mut net = Net::new(4, &super::line(4), &Config::default());
    net.run_until(secs(20.0));
    let ansn = |net: &Net| {
        let sent = net.sent.as_ref().unwrap();
        let own = sent.iter().filter(|it| it.1 == (2, 0)).rev();
        let mut messages = own.flat_map(|(_, _, octets)| {
            let messages = Packet::parse(octets).unwrap().messages();
            messages.map(Result::unwrap).collect::<Vec<_>>()
        });
        let is_own = |it: &crate::olsr::wire::Message<'_>| {
            (it.header.kind, it.header.originator) == (Kind::TC, main(2))
        };
        Tc::parse(messages.find(is_own).unwrap().body).unwrap().ansn
    };
    net.sent = Some(Vec::new());
    net.run_until(secs(30.0));
    let ansn = ansn(&net);

    net.inject((0, 0), main(1), &tc(main(2), 1, ansn.0.wrapping_sub(5), &[]));
    assert_eq!(net.count(0, Counter::TcOld), 1);
    assert_eq!(net.faults(), [""; 0]);

    net.inject((0, 0), main(1), &tc(main(2), 2, ansn.0.wrapping_add(9_000), &[made_up(3)]));
    assert_eq!(net.walk(0, main(3)), None, "who forges is believed");
    net.run_until(net.now + Duration::from_secs(21));
    assert_eq!(net.faults(), [""; 0]);
    assert!(net.count(0, Counter::TcOld) > 2);
}

#[test]
fn what_a_message_says_ends_with_its_validity() {
    let mut net = settled(Bounds::default());
    let mid = packet(header(Kind::MID, made_up(1), 2), |out| Addresses::emit(&[made_up(3)], out));
    let hna = packet(header(Kind::HNA, made_up(1), 3), |out| Hna::emit(&[(made_up(4), 32)], out));
    for octets in [tc(made_up(1), 1, 1, &[made_up(2)]), mid, hna] {
        net.inject((0, 0), main(1), &octets);
    }
    let until = net.now + header(Kind::TC, made_up(1), 1).validity();
    let known = |net: &Net| {
        let topology = &net.olsr(0).topology;
        let links = topology.told_by(made_up(1)).count();
        [links, topology.aliases().count(), topology.networks().count()]
    };

    net.run_until(until - Duration::from_nanos(1));
    let before = known(&net);
    net.run_until(until);

    assert_eq!((before, known(&net)), ([1; 3], [0; 3]));
}

#[test]
fn the_route_over_a_link_ends_with_the_validity_of_the_link() {
    let mut net = settled(Bounds::default());
    let far = Prefix::host(made_up(1).into());

    // Valid for 15 s from 20 s on.
    net.inject((0, 0), main(1), &tc(main(2), 1, 1, &[made_up(1)]));
    let reached = [34.9, 35.0].map(|seconds| {
        net.run_until(secs(seconds));
        net.nodes[0].as_ref().unwrap().table.contains_key(&far)
    });

    assert_eq!(reached, [true, false]);
}

#[test]
fn the_address_of_a_known_node_is_no_other_ones() {
    let mut net = settled(Bounds::default());
    let mid = |seq, addresses: &[Ipv4Addr]| {
        packet(header(Kind::MID, made_up(1), seq), |out| Addresses::emit(addresses, out))
    };

    net.inject((0, 0), main(1), &mid(1, &[main(0), main(1), made_up(1), made_up(2)]));
    let theirs = packet(header(Kind::MID, made_up(3), 1), |out| {
        Addresses::emit(&[made_up(2)], out);
    });
    net.inject((0, 0), main(1), &theirs);

    assert_eq!(net.count(0, Counter::AliasesTaken), 3);
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn networks_that_are_none_and_the_nodes_own_are_no_routes() {
    let mut net = settled(Bounds::default());
    let networks = [(127, 8), (224, 4), (240, 4), (255, 32)]
        .map(|(first, bits)| (Ipv4Addr::new(first, 0, 0, 0), bits));
    let own = [(main(0), 32), (main(1), 32)];
    let before = net.nodes[0].as_ref().unwrap().table.clone();

    for (seq, networks) in (1..).zip([&networks[..], &own]) {
        let hna = packet(header(Kind::HNA, main(2), seq), |out| Hna::emit(networks, out));
        net.inject((0, 0), main(1), &hna);
    }

    assert_eq!(net.nodes[0].as_ref().unwrap().table, before);
}

#[test]
fn what_follows_a_message_that_cannot_be_read_is_ignored_and_what_came_before_is_not() {
    let mut net = settled(Bounds::default());
    let mut octets = tc(main(2), 1, 0, &[]);
    let good = octets.len();
    octets.extend_from_slice(&tc(main(2), 2, 0, &[])[PACKET_HEADER..]);
    octets[good + 3] = 200;
    Packet::finish(Seq(0), &mut octets);
    let received = |net: &Net| net.count(0, Counter::PacketsMalformed);

    net.inject((0, 0), main(1), &octets);
    net.inject((0, 0), main(1), &octets[..9]);
    let odd = packet(header(Kind::TC, main(2), 3), |out| out.extend_from_slice(&[0; 3]));
    net.inject((0, 0), main(1), &odd);

    assert_eq!(received(&net), 3);
    assert!(net.olsr(0).topology.is_duplicate(main(2), Seq(1)));
    assert!(!net.olsr(0).topology.is_duplicate(main(2), Seq(2)));
}
