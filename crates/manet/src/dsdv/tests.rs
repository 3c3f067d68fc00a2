//! Nodes on a bench, where what is sent arrives at once.

mod contract;
mod hostile;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::wire::{ENTRY, Entry, INFINITE};
use super::*;
use crate::{Arrival, Event, Interface, Neighbour, Notice, Router, Sending};

#[test]
fn a_chain_learns_its_ends_within_two_updates_of_each_node() {
    let mut net = Net::new(5, Config::default(), &chain(5));

    net.run(60);

    for (from, to) in [(0, 4), (4, 0), (1, 3)] {
        assert_eq!(net.path(from, to), Some(ways(from, to)));
        assert_eq!(net.hops(from, to), Some(u8::try_from(from.abs_diff(to)).unwrap()));
    }
}

#[test]
fn around_a_ring_the_shorter_way_is_taken() {
    let mut net = Net::new(6, Config::default(), &ring(6));

    net.run(120);

    assert_eq!(net.hops(0, 2), Some(2));
    assert_eq!(net.path(0, 2), Some(vec![0, 1, 2]));
    assert_eq!(net.hops(0, 4), Some(2));
}

#[test]
fn a_break_is_told_with_an_odd_number_and_the_other_way_is_found() {
    let mut net = Net::new(6, Config::default(), &ring(6));
    net.run(120);

    net.cut(0, 1);
    net.run(120 + 46);
    assert!(net.nodes[0].stats().silent > 0, "three updates were missed");
    net.run(300);

    assert_eq!(net.path(0, 1), Some(vec![0, 5, 4, 3, 2, 1]));
    net.join(0, 1);
    net.run(450);
    assert_eq!(net.path(0, 1), Some(vec![0, 1]));
}

#[test]
fn the_link_layer_speaks_only_where_it_is_asked() {
    for (link_breaks, routes) in [(false, 3), (true, 0)] {
        let config = Config { link_breaks, ..Config::default() };
        let mut net = Net::new(4, config, &chain(4));
        net.run(100);
        assert_eq!(net.nodes[0].routes().len(), 3);

        net.nodes[0].handle_break(net.now, Neighbour { interface: 0, address: address(1) });

        assert_eq!(net.nodes[0].routes().len(), routes);
    }
}

#[test]
fn a_node_that_is_gone_is_not_counted_to_infinity() {
    let mut net = Net::new(4, Config::default(), &chain(4));
    net.run(100);

    net.cut(2, 3);
    let mut most = 0;
    for second in 100..400 {
        net.run(second);
        for node in 0..3 {
            most = most.max(net.hops(node, 3).unwrap_or(0));
        }
    }

    assert_eq!(most, 3, "no route to it ever got longer than it was");
    assert!((0..3).all(|node| net.hops(node, 3).is_none()));
}

#[test]
fn who_starts_again_is_believed_again_soon() {
    let mut net = Net::new(4, Config::default(), &chain(4));
    net.run(400);
    let forgetful = Dsdv::new(Config::default(), Rng::stream(9, "again"));

    net.nodes[3] = forgetful;
    net.nodes[3].handle_interface(net.now, 0, Some(&interface(3)));
    net.run(440);

    let raised = net.nodes[3].stats().raised;
    assert!((1..=3).contains(&raised), "{raised}: it goes on from the number that others knew");
    assert!((0..3).all(|node| net.path(node, 3).is_some()));
    assert!((0..3).all(|node| net.path(3, node).is_some()));
    assert_eq!(net.nodes[3].stats().disputed, 0, "nobody else has its address");
}

#[test]
fn who_rests_on_a_neighbour_that_forgot_gives_the_route_up() {
    let mut net = Net::new(3, Config::default(), &chain(3));
    net.run(100);
    net.cut(1, 2);

    // Node 1 has forgotten that it had a route to 2, and hears of one from 0, which rests on 1.
    net.nodes[1] = Dsdv::new(Config::default(), Rng::stream(9, "again"));
    net.nodes[1].handle_interface(net.now, 0, Some(&interface(1)));
    net.routes[1].clear();
    net.run(140);

    assert_eq!((net.hops(0, 2), net.hops(1, 2)), (None, None));
    assert!(net.nodes[0].stats().undercut > 0);
}

#[test]
fn a_gateway_is_a_default_route_and_another_one_takes_its_place() {
    let mut net = Net::new(5, Config::default(), &chain(5));
    for gateway in [0, 4] {
        let config = Config { is_gateway: true, ..Config::default() };
        net.nodes[gateway] = Dsdv::new(config, Rng::stream(3, &format!("gateway {gateway}")));
        net.nodes[gateway].handle_interface(net.now, 0, Some(&interface(gateway)));
    }
    net.run(200);
    let default: Prefix = "0.0.0.0/0".parse().unwrap();
    let towards = |net: &Net| net.routes[2].get(&default.address()).map(|next| next.0);
    let first = towards(&net).expect("one of both");
    let raised = [0, 4].map(|gateway| net.nodes[gateway].stats().raised);
    assert_eq!(raised, [0; 2], "they do not bid each other up");

    net.cut(first.min(2), first.max(2));
    net.run(400);

    assert_eq!(towards(&net), Some(4 - first), "the other side's");
    assert!(net.nodes[0].routes().iter().all(|(prefix, _)| *prefix != default), "its own is none");
}

#[test]
fn a_gateway_whose_uplink_is_dead_is_no_default_route_and_its_return_is_told() {
    let gateway = Config { is_gateway: true, ..Config::default() };
    let default: Prefix = "0.0.0.0/0".parse().unwrap();
    let towards =
        |net: &Net, node: usize| net.routes[node].get(&default.address()).map(|next| next.0);
    for others in [0, 1] {
        let mut net = Net::new(4, Config::default(), &chain(4));
        for node in [3, 0].into_iter().take(1 + others) {
            net.nodes[node] = Dsdv::new(gateway, Rng::stream(3, &format!("gateway {node}")));
            net.nodes[node].handle_interface(net.now, 0, Some(&interface(node)));
        }
        net.run(100);
        assert_eq!(towards(&net, 2), Some(3));

        for round in 0..3 {
            let began = 100 + 100 * round;
            net.nodes[3].handle_attached(net.now, &[]);
            net.run(began + 20);
            // The other gateway hears that there is no way, and tells of its own.
            let expected = [None, Some(1)][others];
            assert_eq!(towards(&net, 2), expected, "round {round}, {others} others");
            assert_eq!(towards(&net, 3), [None, Some(2)][others], "its packets, too");
            assert_eq!(net.path(0, 3), Some(vec![0, 1, 2, 3]), "it is there itself");

            net.nodes[3].handle_attached(net.now, &[default]);
            net.run(began + 100);
            let expected: &[usize] = if others == 0 { &[3] } else { &[1, 3] };
            assert!(expected.contains(&towards(&net, 2).unwrap()), "round {round}");
            assert_eq!(towards(&net, 3), None, "its own uplink");
        }
    }
}

#[test]
fn the_end_of_a_default_route_is_told_though_the_table_is_full() {
    let mut net = Net::new(2, Config::default(), &chain(2));
    let full = Config { is_gateway: true, destinations: 2, ..Config::default() };
    net.nodes[1] = Dsdv::new(full, Rng::stream(3, "full"));
    net.nodes[1].handle_interface(Time::ZERO, 0, Some(&interface(1)));
    net.run(20);
    net.nodes[1].handle_message(net.now, &arrival(9), &message(&[(50, 1, 2), (51, 1, 2)]));
    assert_eq!(net.nodes[1].known(), 2);

    net.nodes[1].handle_attached(net.now, &[]);
    for host in 60..200 {
        net.nodes[1].handle_message(net.now, &arrival(9), &message(&[(host, 1, 2)]));
    }
    net.run(23);

    let unspecified: std::net::IpAddr = Ipv4Addr::UNSPECIFIED.into();
    assert!(!net.routes[0].contains_key(&unspecified), "{:?}", net.routes[0]);
}

#[test]
fn an_address_that_is_given_up_is_renounced() {
    let mut net = Net::new(3, Config::default(), &chain(3));
    let second = Interface { address: [10, 0, 1, 0].into(), room: 1_000 };
    net.nodes[0].handle_interface(Time::ZERO, 1, Some(&second));
    net.run(100);
    assert!(net.routes[2].contains_key(&second.address.into()));

    net.nodes[0].handle_interface(net.now, 1, None);
    net.run(103);

    assert!(!net.routes[2].contains_key(&second.address.into()));
    assert!(net.hops(2, 0).is_some());
}

#[test]
fn an_interface_that_goes_takes_its_routes_with_it() {
    let mut node = node(Config::default());
    let second = Interface { address: [10, 0, 1, 0].into(), room: 1_000 };
    node.handle_interface(Time::ZERO, 1, Some(&second));
    let from = Neighbour { interface: 1, address: address(2) };
    node.handle_message(Time::ZERO, &arrival(1), &message(&[(1, 0, 2)]));
    node.handle_message(
        Time::ZERO,
        &Arrival { from, ..arrival(2) },
        &message(&[(2, 0, 2), (3, 1, 2)]),
    );
    assert_eq!(node.routes().len(), 3);

    node.handle_interface(Time::ZERO + Duration::from_secs(1), 1, None);

    let left: Vec<_> = node.routes().into_iter().map(|(prefix, _)| prefix.address()).collect();
    assert_eq!((left, node.stats().broken), (vec![address(1).into()], 2));
}

#[test]
fn triggered_updates_keep_their_distance_and_hold_only_what_changed() {
    let mut node = node(Config { jitter: Duration::ZERO, ..Config::default() });
    let mut out = Vec::new();
    let mut told = Vec::new();
    let mut hear = |node: &mut Dsdv, millis: u64, entries: &[(u8, u32, u32)]| {
        let now = Time::ZERO + Duration::from_millis(millis);
        node.handle_timeout(now);
        if !entries.is_empty() {
            node.handle_message(now, &arrival(1), &message(entries));
        }
        node.handle_timeout(now);
        while node.poll_transmit(now, 0, &mut out).is_some() {
            let (entries, _) = Entry::parse_all(&out).unwrap();
            let entries = entries.map(|entry| (entry.destination.octets()[3], entry.hops));
            told.push((millis, entries.collect::<Vec<_>>()));
        }
    };

    hear(&mut node, 3_000, &[]);
    hear(&mut node, 5_000, &[(1, 0, 2), (7, 1, 2)]);
    hear(&mut node, 5_100, &[(8, 1, 2), (8, 1, 4)]);
    hear(&mut node, 5_999, &[]);
    hear(&mut node, 6_000, &[]);

    let expected = [
        (3_000, vec![(100, 0)]),
        (5_000, vec![(100, 0), (1, 1), (7, 2)]),
        (6_000, vec![(100, 0), (8, 2)]),
    ];
    assert_eq!(told, expected);
}

#[test]
fn full_updates_are_an_interval_apart_less_a_random_quarter_at_most() {
    let mut node = node(Config { jitter: Duration::ZERO, ..Config::default() });

    let mut updates = Vec::new();
    for _ in 0..100 {
        let now = node.next_timeout().unwrap();
        node.handle_timeout(now);
        updates.push(now);
    }

    let gaps: Vec<_> = updates.windows(2).map(|it| it[1].since(it[0]).as_secs_f64()).collect();
    assert!(gaps.iter().all(|gap| (11.25..=15.0).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < 12.0) && gaps.iter().any(|gap| *gap > 14.0), "{gaps:?}");
}

#[test]
fn the_first_update_comes_within_the_start_jitter() {
    let start = Time::ZERO + Duration::from_secs(10);
    let firsts: Vec<_> = (0..20)
        .map(|seed| {
            let mut node = Dsdv::new(Config::default(), Rng::stream(seed, "start"));
            node.handle_interface(start, 0, Some(&interface(100)));
            node.next_timeout().unwrap().as_secs_f64()
        })
        .collect();

    assert!(firsts.iter().all(|first| (10.0..=12.0).contains(first)), "{firsts:?}");
    assert!(firsts.iter().any(|first| *first > 11.0), "{firsts:?}");
}

#[test]
fn a_number_is_raised_as_early_as_the_distance_between_updates_allows() {
    let mut node = node(Config { jitter: Duration::ZERO, ..Config::default() });
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    node.handle_timeout(at(3_000));

    // Number 2 is ours, and 4 from before a restart.
    node.handle_message(at(3_100), &arrival(1), &message(&[(100, 1, 4)]));
    assert_eq!(node.next_timeout(), Some(at(4_000)), "a second after the last update");
    node.handle_timeout(at(4_000));
    node.handle_message(at(7_000), &arrival(1), &message(&[(100, 1, 10)]));

    assert_eq!(node.next_timeout(), Some(at(7_000)));
}

#[test]
fn a_gateway_tells_of_its_uplink_as_soon_as_it_is_back() {
    let mut node = node(Config { is_gateway: true, jitter: Duration::ZERO, ..Config::default() });
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let mut out = Vec::new();
    node.handle_timeout(at(3_000));
    node.handle_attached(at(4_000), &[]);
    node.handle_timeout(at(4_000));
    while node.poll_transmit(at(4_000), 0, &mut out).is_some() {}

    node.handle_attached(at(7_000), &["0.0.0.0/0".parse().unwrap()]);

    assert_eq!(node.next_timeout(), Some(at(7_000)));
    node.handle_timeout(at(7_000));
    assert!(node.poll_transmit(at(7_000), 0, &mut out).is_some());
    assert_eq!(out[ENTRY..][..8], [0; 8], "0.0.0.0 in no hops");
}

#[test]
fn a_shorter_way_is_used_at_once_and_told_when_it_has_settled() {
    let settling = Duration::from_secs(2);
    let mut node = node(Config { settling, jitter: Duration::ZERO, ..Config::default() });
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let mut out = Vec::new();
    node.handle_timeout(at(3_000));
    node.handle_message(at(3_000), &arrival(1), &message(&[(7, 3, 2)]));
    node.handle_timeout(at(4_000));
    while node.poll_transmit(at(4_000), 0, &mut out).is_some() {}

    node.handle_message(at(5_000), &arrival(2), &message(&[(7, 1, 2)]));
    node.handle_timeout(at(5_000));

    assert_eq!(node.routes()[0].1.hops, 2);
    assert_eq!(node.poll_transmit(at(5_000), 0, &mut out), None);
    assert_eq!(node.next_timeout(), Some(at(7_000)), "twice 2 s after the first news at 3 s");
    node.handle_timeout(at(7_000));
    assert!(node.poll_transmit(at(7_000), 0, &mut out).is_some());
    assert_eq!(&out[ENTRY..][..8], [10, 0, 0, 7, 0, 0, 0, 2]);

    // A new number without another length is for the next full update to tell.
    node.handle_message(at(8_000), &arrival(2), &message(&[(7, 1, 4)]));
    assert!(node.next_timeout() > Some(at(13_000)), "{:?}", node.next_timeout());
}

#[test]
fn who_has_not_heard_of_a_break_is_told_at_once() {
    let mut node = node(Config { jitter: Duration::ZERO, ..Config::default() });
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let mut out = Vec::new();
    node.handle_timeout(at(3_000));
    for (hops, number) in [(1, 2), (INFINITE.into(), 3)] {
        node.handle_message(at(3_000), &arrival(1), &message(&[(7, hops, number)]));
    }
    node.handle_timeout(at(4_000));
    while node.poll_transmit(at(4_000), 0, &mut out).is_some() {}

    node.handle_message(at(10_000), &arrival(2), &message(&[(7, 2, 2)]));

    assert_eq!(node.next_timeout(), Some(at(10_000)));
    node.handle_timeout(at(10_000));
    assert!(node.poll_transmit(at(10_000), 0, &mut out).is_some());
    assert_eq!(out[ENTRY..], message(&[(7, INFINITE.into(), 3)]));
    assert_eq!(node.stats().stale, 1);
}

#[test]
fn a_full_update_tells_of_a_number_that_has_leapt() {
    let mut node = node(Config { jitter: Duration::ZERO, ..Config::default() });
    let mut out = Vec::new();
    let start = Time::ZERO + Duration::from_secs(3);
    node.handle_timeout(start);
    node.handle_message(start, &arrival(1), &message(&[(7, 3, 2)]));
    node.handle_timeout(start + Duration::from_secs(1));
    while node.poll_transmit(start, 0, &mut out).is_some() {}

    let full_at = node.next_timeout().unwrap();
    node.handle_message(full_at, &arrival(1), &message(&[(7, 2, 20)]));
    node.handle_timeout(full_at);

    assert!(node.poll_transmit(full_at, 0, &mut out).is_some());
    assert_eq!(node.stats().full_updates, 2);
    assert_eq!(out[ENTRY..], message(&[(7, 3, 20)]));
}

#[test]
fn the_route_that_broke_first_makes_room() {
    let mut node = node(Config { destinations: 2, jitter: Duration::ZERO, ..Config::default() });
    let mut hear = |seconds, entries: &[(u8, u32, u32)]| {
        let now = Time::ZERO + Duration::from_secs(seconds);
        node.handle_message(now, &arrival(1), &message(entries));
        node.handle_timeout(now + Duration::from_millis(999));
        node.stats()
    };
    for (seconds, entry) in [(3, (7, 1, 2)), (4, (8, 1, 2)), (5, (8, 0, 3)), (7, (7, 0, 3))] {
        hear(seconds, &[entry]);
    }

    assert_eq!(hear(9, &[(9, 1, 2)]).forgotten, 1);

    assert_eq!(hear(10, &[(7, 1, 2)]).stale, 1, "its end is remembered");
}

#[test]
fn a_new_destination_is_told_at_once_though_its_number_rises() {
    let mut node = node(Config { jitter: Duration::from_millis(10), ..Config::default() });
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    node.handle_timeout(at(3_000));
    let mut out = Vec::new();
    while node.poll_transmit(at(3_000), 0, &mut out).is_some() {}

    for number in [0, 2] {
        node.handle_message(at(5_000), &arrival(1), &message(&[(1, 0, number)]));
    }
    node.handle_timeout(at(5_010));

    assert!(node.poll_transmit(at(5_010), 0, &mut out).is_some());
    assert_eq!(out[ENTRY..], message(&[(1, 1, 2)]));
}

#[test]
fn what_is_hostile_is_counted_and_changes_nothing() {
    let mut node = node(Config { destinations: 3, neighbours: 2, ..Config::default() });
    let now = Time::ZERO;

    node.handle_message(now, &arrival(100), &message(&[(7, 1, 2)]));
    node.handle_message(now, &Arrival { from: neighbour(Ipv4Addr::BROADCAST), ..arrival(1) }, &[]);
    node.handle_message(now, &arrival(1), &message(&[(7, 1, 2)])[..11]);
    let mut multicast = message(&[(1, 1, 2)]);
    multicast[0] = 224;
    node.handle_message(now, &arrival(1), &multicast);
    node.handle_message(now, &arrival(1), &message(&[(7, 249, 2), (7, 250, 2), (7, u32::MAX, 2)]));
    for it in 2..5 {
        node.handle_message(now, &arrival(it), &message(&[(it, 0, 2), (it + 10, 1, 2)]));
    }
    assert_eq!(node.known(), 2, "of one neighbour: another one is not remembered");
    node.handle_message(now, &arrival(2), &message(&[(50, 1, 2), (51, 1, 2), (2, 0, 3)]));
    // The end of the way to 2 has to be told before it is forgotten.
    node.handle_message(now, &arrival(2), &message(&[(52, 1, 2)]));
    node.handle_timeout(now + Duration::from_secs(3));
    node.handle_message(now, &arrival(2), &message(&[(52, 1, 2)]));

    let stats = node.stats();
    assert_eq!((stats.foreign, stats.malformed, stats.bad_entries, stats.too_far), (2, 1, 3, 1));
    assert_eq!((stats.neighbours_full, stats.destinations_full, stats.forgotten), (2, 2, 1));
    assert_eq!(node.known(), 3);
}

#[test]
fn a_cut_entry_costs_no_other() {
    let mut node = node(Config::default());

    node.handle_message(Time::ZERO, &arrival(1), &message(&[(7, 1, 2), (8, 1, 2)])[..23]);

    assert_eq!((node.known(), node.stats().bad_entries, node.stats().malformed), (1, 1, 0));
    let notices: Vec<_> = std::iter::from_fn(|| node.poll_event()).collect();
    let from = neighbour(address(1));
    let notice = Notice::Unreadable { from, originator: address(1) };
    assert!(notices.contains(&Event::Notice(notice)), "{notices:?}");
}

#[test]
fn eight_notices_wait_at_most() {
    let mut node = node(Config::default());

    for host in 1..=9 {
        node.handle_message(Time::ZERO, &arrival(host), &message(&[(7, 1, 2), (8, 1, 2)])[..23]);
    }

    let events = std::iter::from_fn(|| node.poll_event());
    assert_eq!(events.filter(|event| matches!(event, Event::Notice(_))).count(), 8);
}

#[test]
fn a_node_says_that_another_one_has_its_address() {
    let mut net = Net::new(5, Config::default(), &chain(5));
    net.nodes[4].handle_interface(net.now, 0, Some(&interface(0)));

    net.run(600);

    for (node, by) in [(0, 1), (4, 3)] {
        let from = neighbour(address(by));
        let notice = Notice::AddressDisputed { address: address(0), from };
        assert!(net.notices[node].contains(&notice), "node {node}");
        assert!(net.nodes[node].stats().disputed > 0, "node {node}");
    }
    assert!((1..4).all(|node| net.notices[node].is_empty()), "{:?}", net.notices);
}

#[test]
fn a_long_table_is_told_in_messages_that_fit() {
    let mut node = node(Config::default());
    node.handle_interface(Time::ZERO, 0, Some(&Interface { room: 100, ..interface(100) }));
    let all: Vec<_> = (1..=30).map(|it| (it, 1, 2)).collect();
    node.handle_message(Time::ZERO, &arrival(1), &message(&all));

    let now = Time::ZERO + Duration::from_secs(3);
    node.handle_timeout(now);
    let (mut out, mut told) = (Vec::new(), Vec::new());
    while node.poll_transmit(now, 0, &mut out) == Some(Sending { to: Ipv4Addr::BROADCAST, ttl: 1 })
    {
        assert!(out.len() <= 100);
        told.extend(Entry::parse_all(&out).unwrap().0.map(|entry| entry.destination));
    }

    assert_eq!(told.len(), 31);
    assert_eq!(told[0], address(100));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn no_packet_ever_runs_in_a_circle(
        seed in any::<u64>(),
        changes in prop::collection::vec((0_usize..6, 0_usize..6, any::<bool>(), 1_u64..40), 1..25),
    ) {
        let mut net = Net::new(6, Config::default(), &ring(6));
        net.loss = Rng::stream(seed, "loss");
        net.lost = 0.2;
        let mut second = 0;
        for (a, b, joins, pause) in changes {
            match (a == b, joins) {
                (true, _) => {}
                (_, true) => net.join(a, b),
                (_, false) => net.cut(a, b),
            }
            for _ in 0..pause {
                second += 1;
                net.run(second);
                for (from, to) in (0..6).flat_map(|from| (0..6).map(move |to| (from, to))) {
                    prop_assert!(!net.is_circle(from, to), "from {} to {} at {}", from, to, second);
                }
            }
        }
    }
}

/// Nodes with an interface each, and who hears whom.
struct Net {
    now: Time,
    nodes: Vec<Dsdv>,
    links: BTreeSet<(usize, usize)>,
    /// What the events of each node left: to whom, and in how many hops.
    routes: Vec<BTreeMap<std::net::IpAddr, (usize, u8)>>,
    /// What each node said of others.
    notices: Vec<Vec<Notice>>,
    loss: Rng,
    lost: f64,
}

impl Net {
    fn new(count: usize, config: Config, links: &[(usize, usize)]) -> Self {
        let nodes = (0..count).map(|index| {
            let mut node = Dsdv::new(config, Rng::stream(1, &format!("dsdv {index}")));
            node.handle_interface(Time::ZERO, 0, Some(&interface(index)));
            node
        });
        Self {
            now: Time::ZERO,
            nodes: nodes.collect(),
            links: links.iter().copied().collect(),
            routes: vec![BTreeMap::new(); count],
            notices: vec![Vec::new(); count],
            loss: Rng::stream(1, "loss"),
            lost: 0.0,
        }
    }

    fn run(&mut self, seconds: u64) {
        self.run_to(Time::ZERO + Duration::from_secs(seconds));
    }

    fn run_to(&mut self, end: Time) {
        self.settle();
        while let Some(due) = self.nodes.iter().filter_map(Dsdv::next_timeout).min()
            && due <= end
        {
            self.now = due;
            self.settle();
        }
        self.now = end;
    }

    fn settle(&mut self) {
        let mut out = Vec::new();
        loop {
            let mut is_quiet = true;
            for from in 0..self.nodes.len() {
                self.nodes[from].handle_timeout(self.now);
                while let Some(event) = self.nodes[from].poll_event() {
                    self.take(from, event);
                }
                while self.nodes[from].poll_transmit(self.now, 0, &mut out).is_some() {
                    is_quiet = false;
                    for to in 0..self.nodes.len() {
                        if self.are_joined(from, to) && !self.loss.chance(self.lost) {
                            let from = u8::try_from(from).unwrap();
                            self.nodes[to].handle_message(self.now, &arrival(from), &out);
                        }
                    }
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn take(&mut self, node: usize, event: Event) {
        let (prefix, route) = match event {
            Event::Route(prefix, route) => (prefix, route),
            Event::Notice(notice) => return self.notices[node].push(notice),
            Event::Unreachable(_) => panic!("{event:?}"),
        };
        match route {
            None => _ = self.routes[node].remove(&prefix.address()),
            Some(route) => {
                let next = usize::from(route.next.address.octets()[3]);
                self.routes[node].insert(prefix.address(), (next, route.hops));
            }
        }
    }

    fn are_joined(&self, a: usize, b: usize) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    fn cut(&mut self, a: usize, b: usize) {
        self.links.remove(&(a.min(b), a.max(b)));
    }

    fn join(&mut self, a: usize, b: usize) {
        self.links.insert((a.min(b), a.max(b)));
    }

    fn hops(&self, from: usize, to: usize) -> Option<u8> {
        Some(self.routes[from].get(&address(to).into())?.1)
    }

    /// The nodes that a packet passes; `None` if it does not arrive.
    fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut path = vec![from];
        while path.last() != Some(&to) {
            let here = path[path.len() - 1];
            let (next, _) = *self.routes[here].get(&address(to).into())?;
            if path.contains(&next) || !self.are_joined(here, next) {
                return None;
            }
            path.push(next);
        }
        Some(path)
    }

    fn is_circle(&self, from: usize, to: usize) -> bool {
        let mut here = from;
        for _ in 0..=self.nodes.len() {
            match self.routes[here].get(&address(to).into()) {
                Some((next, _)) if here != to => here = *next,
                _ => return false,
            }
        }
        true
    }
}

fn node(config: Config) -> Dsdv {
    let mut node = Dsdv::new(config, Rng::stream(1, "dsdv"));
    node.handle_interface(Time::ZERO, 0, Some(&interface(100)));
    node
}

fn interface(host: usize) -> Interface {
    Interface { address: address(host), room: 1_472 }
}

fn address(host: usize) -> Ipv4Addr {
    [10, 0, 0, u8::try_from(host).unwrap()].into()
}

fn neighbour(address: Ipv4Addr) -> Neighbour {
    Neighbour { interface: 0, address }
}

fn arrival(host: u8) -> Arrival {
    Arrival { from: neighbour(address(host.into())), is_unicast: false, ttl: 1 }
}

/// A message about these hosts: hops and number of each.
fn message(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut octets = Vec::new();
    for &(host, hops, number) in entries {
        Entry { destination: address(host.into()), hops, number }.emit(&mut octets);
    }
    octets
}

fn chain(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|node| (node - 1, node)).collect()
}

fn ring(count: usize) -> Vec<(usize, usize)> {
    let mut links = chain(count);
    links.push((0, count - 1));
    links
}

/// The nodes from one of a chain to another.
fn ways(from: usize, to: usize) -> Vec<usize> {
    if from <= to { (from..=to).collect() } else { (to..=from).rev().collect() }
}
