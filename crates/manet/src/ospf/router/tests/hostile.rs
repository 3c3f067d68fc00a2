//! What cannot be right is refused and counted, and nothing else happens.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::adjacency::say;
use super::{Net, id, line, secs};
use crate::ospf::wire::{Body, Hello, Key, Lsa, Packet, Point, RouterLsa, link};
use crate::ospf::{Counter, State};
use crate::{Interface, Neighbour, Notice, Router as _};

const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn hello(router: Ipv4Addr) -> Vec<u8> {
    hello_with(router, 2)
}

/// The same with these options.
fn hello_with(router: Ipv4Addr, options: u8) -> Vec<u8> {
    let body = Body::Hello(Hello {
        mask: 0,
        interval: 10,
        options,
        priority: 1,
        dead: 40,
        elected: [Ipv4Addr::UNSPECIFIED; 2],
        neighbours: Vec::new(),
    });
    let mut octets = Vec::new();
    Packet { router, area: 0, body }.emit(&mut octets);
    octets
}

#[test]
fn damaged_and_authenticated_packets_are_told_apart() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(20));
    let whole = hello(id(1));
    let changed = |at: usize, to: u8| {
        let mut octets = whole.clone();
        octets[at] = to;
        octets
    };

    net.inject((0, 0), OTHER, &changed(30, 9));
    net.inject((0, 0), OTHER, &changed(15, 1));
    net.inject((0, 0), OTHER, &changed(0, 3));
    net.inject((0, 0), OTHER, &whole[..30]);

    assert_eq!(net.count(0, Counter::PacketsDamaged), 1);
    assert_eq!(net.count(0, Counter::PacketsAuthenticated), 1);
    assert_eq!(net.count(0, Counter::PacketsMalformed), 2);
    assert_eq!(net.state(0, 1), Some(State::Full));
}

#[test]
fn a_packet_with_the_own_number_or_from_the_own_address_is_none() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(20));

    net.inject((0, 0), OTHER, &hello(id(0)));
    net.inject((0, 0), [10, 0, 0, 1].into(), &hello(id(1)));
    net.inject((0, 5), OTHER, &hello(id(1)));

    assert_eq!(net.count(0, Counter::PacketsStray), 3);
    assert_eq!(net.state(0, 1), Some(State::Full));
}

#[test]
fn a_stray_packet_does_not_keep_the_routes_of_a_neighbour_that_is_dead() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(20));
    assert_eq!(net.walk(0, 1), Some(1));

    // The driver is late: the first thing that it hands in is stray.
    net.now += Duration::from_secs(50);
    net.inject((0, 0), [10, 0, 0, 1].into(), &hello(id(1)));

    assert_eq!((net.count(0, Counter::PacketsStray), net.state(0, 1)), (1, None));
    assert_eq!(net.walk(0, 1), None);
}

#[test]
fn a_hello_of_another_kind_of_area_is_refused_and_counted() {
    let mut net = Net::new(2, &line(2));
    net.set(0, 1, false);

    net.inject((0, 0), OTHER, &hello_with(id(1), 0));

    assert_eq!((net.count(0, Counter::OptionMismatches), net.state(0, 1)), (1, None));
}

#[test]
fn who_is_no_neighbour_is_not_listened_to() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(20));
    let lsa = Lsa::new(Key::of_router(id(9)), 2, 7, &[0; 4]);
    let mut octets = Vec::new();
    Packet { router: id(9), area: 0, body: Body::Update(vec![lsa]) }.emit(&mut octets);

    net.inject((0, 0), OTHER, &octets);

    assert_eq!((net.count(0, Counter::PacketsEarly), net.nodes[0].ospf.lsas()), (1, 2));
}

#[test]
fn a_router_that_claims_a_link_which_the_other_end_does_not_know_is_not_believed() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(20));
    let point = |to: usize| Point { id: id(to), data: 0, kind: link::POINT_TO_POINT, metric: 1 };
    let stub =
        Point { id: [192, 168, 1, 0].into(), data: 0xffff_ff00, kind: link::STUB, metric: 0 };
    let mut body = Vec::new();
    RouterLsa { flags: 0, links: vec![point(2), stub] }.emit(&mut body);

    say(&mut net, Body::Update(vec![Lsa::new(Key::of_router(id(9)), 2, 7, &body)]));

    assert_eq!(net.nodes[0].ospf.lsas(), 4);
    assert!(!net.nodes[0].table.contains_key(&"192.168.1.0/24".parse().unwrap()));
}

#[test]
fn a_link_with_hardly_any_room_is_none() {
    let mut net = Net::new(1, &[]);
    for room in [0, 60, 127] {
        let interface = Interface { address: [10, 9, 9, 1].into(), room };
        net.nodes[0].ospf.handle_interface(secs(1), 0, Some(&interface));
        assert_eq!(net.nodes[0].ospf.ports.len(), 0, "{room}");
    }
}

/// What router 0 said of others: all of it came from router 1.
fn unreadable(originators: &[usize]) -> Vec<Notice> {
    let from = Neighbour { interface: 0, address: OTHER };
    originators.iter().map(|it| Notice::Unreadable { from, originator: id(*it) }).collect()
}

#[test]
fn an_lsa_of_an_impossible_length_costs_none_before_it() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(20));
    let lsa = |router: usize| Lsa::new(Key::of_router(id(router)), 2, 7, &[0; 4]);
    let mut long = lsa(8);
    long.header.length = 1_000;
    for _ in 0..3 {
        say(&mut net, Body::Update(vec![lsa(7), long.clone(), lsa(9)]));
    }

    assert_eq!(net.nodes[0].ospf.lsas(), 3);
    assert!(net.nodes[0].ospf.database.get(&Key::of_router(id(7))).is_some());
    assert_eq!(net.count(0, Counter::PartsUnreadable), 3);
    assert_eq!(net.count(0, Counter::PacketsMalformed), 0);
    assert_eq!(net.state(0, 1), Some(State::Full));
    // Its driver asks after each packet, and says it once to the operator.
    assert_eq!(net.nodes[0].notices, unreadable(&[1; 3]));
}

#[test]
fn a_router_lsa_that_cannot_be_read_is_passed_on_and_counted() {
    let mut net = Net::new(3, &[(0, 1), (0, 2)]);
    net.run(secs(20));
    // It says to have five links, and has none.
    let lsa = Lsa::new(Key::of_router(id(9)), 2, 7, &[0, 0, 0, 5]);

    say(&mut net, Body::Update(vec![lsa]));
    net.run(secs(30));

    for node in [0, 2] {
        assert!(net.nodes[node].ospf.database.get(&Key::of_router(id(9))).is_some(), "{node}");
        assert_eq!(net.count(node, Counter::LsasUnreadable), 1, "{node}");
    }
    assert_eq!(net.nodes[0].notices, unreadable(&[9]));
}
