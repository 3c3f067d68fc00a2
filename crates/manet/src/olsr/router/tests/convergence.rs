//! Every node finds its way to every other one, and finds another when links and nodes go.

use base::ip::Prefix;
use proptest::prelude::*;

use super::{Net, ROOM, address, main, secs};
use crate::Interface;
use crate::olsr::wire::{Kind, LinkType, Packet};
use crate::olsr::{Config, Counter};

#[test]
fn a_line_of_five_converges_within_15_s() {
    let mut net = Net::new(5, &super::line(5), &Config::default());

    let took = net.converge(15.0);

    assert!(took > 2.0, "{took} s: nothing is known before the second HELLO");
    let calculations: u64 = (0..5).map(|node| net.count(node, Counter::Calculations)).sum();
    net.run_until(secs(120.0));
    assert_eq!(net.faults(), [""; 0]);
    let after: u64 = (0..5).map(|node| net.count(node, Counter::Calculations)).sum();
    assert!(
        after - calculations <= 5,
        "{} calculations of what did not change",
        after - calculations
    );
}

#[test]
fn stars_and_grids_converge_within_20_s() {
    for (count, links) in [(12, super::star(12)), (25, super::grid(5))] {
        let mut net = Net::new(count, &links, &Config::default());

        net.converge(20.0);
    }
}

#[test]
fn a_ring_heals_within_12_s_of_a_silent_cut() {
    let mut net = Net::new(8, &super::ring(8), &Config::default());
    net.converge(20.0);
    net.run_until(secs(60.0));

    net.cut((0, 0), (1, 0));
    let took = net.converge(12.0);

    assert!(took > 3.0, "{took} s: the link holds for 6 s after the last HELLO");
}

#[test]
fn a_break_that_the_link_layer_reports_is_healed_at_once_by_the_node() {
    let mut net = Net::new(3, &super::ring(3), &Config::default());
    net.run_until(secs(20.0));

    net.cut((0, 0), (1, 0));
    net.broken((0, 0), main(1));

    assert_eq!(net.walk(0, main(1)), Some(2));
    assert_eq!(net.count(0, Counter::LinksBroken), 1);
    net.run_until(net.now + std::time::Duration::from_secs(12));
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn a_link_that_its_end_tells_of_no_more_is_in_no_route_long_before_its_validity_ends() {
    let mut net = Net::new(4, &super::line(4), &Config::default());
    net.run_until(secs(60.0));

    net.cut((2, 0), (3, 0));
    net.broken((2, 0), main(3));
    net.broken((3, 0), main(2));

    // A TC message each 5 s, and each is valid for 15 s.
    net.converge(8.0);
}

#[test]
fn a_node_that_goes_is_forgotten_and_found_when_it_is_back() {
    let mut net = Net::new(4, &super::line(4), &Config::default());
    net.converge(20.0);

    net.stop(2);
    net.converge(25.0);
    net.start(2, Config::default(), &[0], 2);

    // What it says of itself may count as old until what it said before has ended.
    net.converge(25.0);
}

#[test]
fn a_link_that_ended_is_told_as_lost_for_its_hold_time() {
    let mut net = Net::new(2, &super::line(2), &Config::default());
    net.run_until(secs(20.0));
    let told = |net: &Net| net.olsr(0).hood.told(0).into_iter().map(|it| it.0.link).next();

    net.stop(1);
    let before = told(&net);
    net.run_until(secs(27.0));
    let lost = told(&net);
    net.run_until(secs(33.0));

    assert_eq!((before, lost, told(&net)), (Some(LinkType::Symmetric), Some(LinkType::Lost), None));
}

#[test]
fn a_link_that_is_heard_in_one_direction_is_not_used() {
    let mut net = Net::new(4, &super::line(4), &Config::default());
    net.hears.insert(((0, 0), (3, 0)));

    net.run_until(secs(40.0));

    assert_eq!(net.faults(), [""; 0]);
    assert_eq!(net.walk(3, main(0)), Some(3));
    assert_eq!(net.olsr(3).neighbours().collect::<Vec<_>>(), [main(2)]);
}

#[test]
fn a_grid_converges_though_a_tenth_of_all_packets_is_lost() {
    let mut net = Net::new(16, &super::grid(4), &Config::default()).with_loss(0.1);

    let took = net.converge(40.0);

    assert!(took > 0.0);
}

#[test]
fn nodes_with_several_interfaces_are_reached_by_all_their_addresses() {
    // 0 and 2 hear only one interface each of 1, and 3 is behind both interfaces of 2.
    let mut net = Net::new(4, &[], &Config::default());
    for node in 1..3 {
        net.start(node, Config::default(), &[0, 1], 1);
    }
    net.link((0, 0), (1, 1));
    net.link((1, 0), (2, 1));
    net.link((2, 0), (3, 0));

    net.converge(30.0);
    net.run_until(secs(30.0));

    for (from, to, hops) in [(0, 1, 1), (0, 2, 2), (3, 1, 2), (3, 2, 1)] {
        for interface in [0, 1] {
            assert_eq!(net.walk(from, address((to, interface))), Some(hops), "{from} to {to}");
        }
    }
    assert!(net.count(1, Counter::MidSent) > 0 && net.count(0, Counter::MidSent) == 0);
}

#[test]
fn two_links_to_a_neighbour_are_one_and_the_second_takes_over() {
    let mut net = Net::new(3, &[], &Config::default());
    for node in 0..2 {
        net.start(node, Config::default(), &[0, 1], 1);
        net.link((node, 0), (1 - node, 0));
        net.link((node, 1), (1 - node, 1));
    }
    net.link((1, 0), (2, 0));
    net.converge(20.0);

    net.interface(0, 0, None);

    let route = net.nodes[0].as_ref().unwrap().table[&Prefix::host(main(1).into())];
    assert_eq!((route.next.interface, route.next.address), (1, address((1, 1))));
    net.run_until(net.now + std::time::Duration::from_secs(20));
    assert_eq!(net.walk(2, address((0, 1))), Some(2));
}

#[test]
fn an_address_on_a_lost_second_link_is_reached_by_the_first() {
    let mut net = Net::new(2, &[], &Config::default());
    for node in 0..2 {
        net.start(node, Config::default(), &[0, 1], 1);
        net.link((node, 0), (1 - node, 0));
        net.link((node, 1), (1 - node, 1));
    }
    let route = |net: &Net| {
        let routes = &net.nodes[0].as_ref().unwrap().table;
        routes[&Prefix::host(address((1, 1)).into())].next.interface
    };
    net.run_until(secs(20.0));
    assert_eq!(route(&net), 1);

    net.cut((0, 1), (1, 1));
    net.run_until(secs(32.0));

    assert_eq!(route(&net), 0);
}

#[test]
fn an_interface_that_is_gone_takes_its_routes_with_it() {
    let mut net = Net::new(3, &super::line(3), &Config::default());
    net.converge(20.0);

    net.interface(0, 0, None);

    assert!(net.nodes[0].as_ref().unwrap().table.is_empty());
    net.sent = Some(Vec::new());
    net.run_until(net.now + std::time::Duration::from_secs(5));
    assert!(net.sent.take().unwrap().iter().all(|(_, at, _)| *at != (0, 0)), "nothing is sent");
    let interface = Interface { address: main(0), room: ROOM };
    net.interface(0, 0, Some(&interface));
    net.converge(25.0);
}

#[test]
fn all_that_is_due_rides_in_one_packet_and_nothing_longer_than_an_interface_has_room() {
    // Room for HELLOs and TC messages with three addresses.
    let room = 4 + 12 + 4 + 4 + 3 * 4;
    let mut net = Net::new(12, &super::star(12), &Config::default());
    for node in 0..12 {
        net.interface(node, 0, Some(&Interface { address: main(node), room }));
    }
    net.sent = Some(Vec::new());

    net.converge(25.0);
    net.run_until(secs(30.0));

    let sent = net.sent.take().unwrap();
    assert!(sent.iter().all(|(_, _, octets)| octets.len() <= room));
    let kinds = |octets: &[u8]| -> Vec<Kind> {
        let packet = Packet::parse(octets).unwrap();
        packet.messages().map(|message| message.unwrap().header.kind).collect()
    };
    let split = sent.iter().filter(|(_, at, octets)| at.0 == 0 && kinds(octets) == [Kind::TC]);
    assert!(split.count() > 4, "the TC messages of the centre fill packets");
    let own = sent.iter().filter(|(_, at, _)| at.0 == 0).flat_map(|(_, _, octets)| kinds(octets));
    let hellos = own.filter(|kind| *kind == Kind::HELLO).count();
    assert_eq!(net.count(0, Counter::HellosSent), hellos as u64);
    let mut net = Net::new(9, &super::grid(3), &Config::default());
    net.sent = Some(Vec::new());
    net.run_until(secs(60.0));
    let sent = net.sent.take().unwrap();
    assert!(sent.iter().any(|(_, _, octets)| kinds(octets).len() > 2), "messages ride together");
}

proptest! {
    #![proptest_config(harness::cases(24))]

    #[test]
    fn routes_are_shortest_on_any_connected_network(
        count in 2_usize..26,
        further in 0_usize..40,
        seed: u64,
    ) {
        let mut net = Net::new(count, &super::random(count, further, seed), &Config::default());

        net.run_until(secs(45.0));

        prop_assert_eq!(net.faults(), [""; 0]);
    }
}
