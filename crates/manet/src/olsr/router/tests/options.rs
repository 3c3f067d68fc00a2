//! What can be set: networks, redundancy, willingness, hysteresis; and numbers that wrap.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::ip::Prefix;

use super::{Net, address, main, secs};
use crate::olsr::advert::Advert;
use crate::olsr::numbers::Numbers;
use crate::olsr::wire::{
    ADDRESS, Hna, Kind, LinkType, MESSAGE_HEADER, PACKET_HEADER, Packet, Seq, Tc,
};
use crate::olsr::{Config, Counter, Hysteresis, TcRedundancy};
use crate::{Interface, Router as _};

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// The next hop and the hops of a node's route to a network.
fn way(net: &Net, node: usize, network: &str) -> Option<(usize, u8)> {
    let route = net.nodes[node].as_ref()?.table.get(&prefix(network))?;
    let next = (0..net.nodes.len()).find(|it| main(*it) == route.next.address)?;
    Some((next, route.hops))
}

#[test]
fn a_network_is_reached_by_the_nearest_gateway_and_then_by_the_other_one() {
    let mut net = Net::new(6, &super::line(6), &Config::default());
    for (gateway, attached) in [(0, &["0.0.0.0/0", "10.9.0.0/16"][..]), (5, &["0.0.0.0/0"])] {
        let attached = attached.iter().map(|it| prefix(it)).collect();
        net.start(gateway, Config { attached, ..Config::default() }, &[0], 1);
    }
    net.run_until(secs(40.0));

    let nearest: Vec<_> = (0..6).map(|node| way(&net, node, "0.0.0.0/0")).collect();
    assert_eq!(
        nearest,
        [None, Some((0, 1)), Some((1, 2)), Some((4, 2)), Some((5, 1)), None],
        "gateways have ways of their own"
    );
    assert_eq!(way(&net, 5, "10.9.0.0/16"), Some((4, 5)));
    assert_eq!(way(&net, 0, "10.9.0.0/16"), None);

    net.stop(5);
    net.run_until(secs(70.0));

    assert_eq!(way(&net, 4, "0.0.0.0/0"), Some((3, 4)));
}

#[test]
fn networks_are_told_in_messages_that_fit_every_interface() {
    let attached = (0..5).map(|it| prefix(&format!("10.9.{it}.0/24"))).collect();
    let mut net = Net::new(1, &[], &Config::default());
    net.start(0, Config { attached, ..Config::default() }, &[0], 1);
    let room = PACKET_HEADER + MESSAGE_HEADER + 2 * 2 * ADDRESS;
    net.interface(0, 1, Some(&Interface { address: address((0, 1)), room }));
    net.sent = Some(Vec::new());

    net.run_until(secs(6.0));

    for interface in [0, 1] {
        let mut told = BTreeSet::new();
        for (_, at, octets) in net.sent.as_ref().unwrap() {
            let messages = Packet::parse(octets).unwrap().messages().map(Result::unwrap);
            for message in messages.filter(|it| (it.header.kind, at.1) == (Kind::HNA, interface)) {
                told.extend(Hna::parse(message.body).iter().flatten());
            }
        }
        assert_eq!(told.len(), 5, "{interface}");
    }
}

#[test]
fn a_gateway_without_its_network_uses_another_until_it_has_it_again() {
    let mut net = Net::new(6, &super::line(6), &Config::default());
    let everything = [prefix("0.0.0.0/0")];
    for gateway in [0, 5] {
        net.start(gateway, Config { attached: everything.to_vec(), ..Config::default() }, &[0], 1);
    }
    let reach = |net: &mut Net, reached: &[Prefix]| {
        let now = net.now;
        net.nodes[5].as_mut().unwrap().olsr.handle_attached(now, reached);
    };
    let ways = |net: &Net| [4, 5].map(|node| way(net, node, "0.0.0.0/0"));
    net.run_until(secs(40.0));
    assert_eq!(ways(&net), [Some((5, 1)), None]);

    reach(&mut net, &[]);
    net.run_until(secs(70.0));
    assert_eq!(ways(&net), [Some((3, 4)), Some((4, 5))]);

    reach(&mut net, &everything);
    net.run_until(secs(72.0));
    assert_eq!(ways(&net), [Some((5, 1)), None]);
}

#[test]
fn a_further_network_is_announced_within_the_jitter() {
    let networks = ["10.8.0.0/16", "10.9.0.0/16"].map(prefix);
    let config = Config { attached: networks[..1].to_vec(), ..Config::default() };
    let mut net = Net::new(2, &super::line(2), &Config::default());
    net.start(0, config, &[0], 1);
    net.run_until(secs(20.0));
    // The next regular announcement is an interval away.
    let announced = net.olsr(0).hna_at.unwrap();
    net.run_until(announced);

    net.nodes[0].as_mut().unwrap().olsr.handle_attached(announced, &networks);
    net.run_until(announced + Config::default().max_jitter + super::LATENCY);

    assert_eq!(way(&net, 1, "10.9.0.0/16"), Some((0, 1)));
}

/// The nodes that a daemon at `node` reaches that uses a link of others only when both ends tell of it.
fn reached_by_both_ends(net: &Net, node: usize) -> usize {
    let olsr = net.olsr(node);
    let tells = |a: usize, b: usize| olsr.topology.told_by(main(a)).any(|it| it == main(b));
    let neighbours: BTreeSet<_> = olsr.neighbours().collect();
    let mut found = BTreeSet::from([node]);
    let mut edge = VecDeque::from([node]);
    while let Some(at) = edge.pop_front() {
        for next in 0..net.nodes.len() {
            let is_link = if at == node {
                neighbours.contains(&main(next))
            } else {
                tells(at, next) && tells(next, at)
            };
            if is_link && found.insert(next) {
                edge.push_back(next);
            }
        }
    }
    found.len()
}

#[test]
fn daemons_that_need_both_ends_of_a_link_find_all_nodes_with_redundancy_2_only() {
    let reached = |config: Config| {
        let mut net = Net::new(9, &super::grid(3), &config);
        net.run_until(secs(40.0));
        assert_eq!(net.faults(), [""; 0]);
        (0..9).map(|node| reached_by_both_ends(&net, node)).min()
    };

    assert_eq!(reached(Config::live()), Some(9));
    assert!(reached(Config::default()) < Some(9));
}

#[test]
fn tc_messages_tell_of_whom_the_redundancy_says() {
    // 1 carries for 0 and 2; 0 and 2 carry for nobody.
    let told = |tc_redundancy| {
        let config = Config { tc_redundancy, ..Config::default() };
        let mut net = Net::new(4, &super::line(4), &config);
        net.run_until(secs(40.0));
        let told = |node| net.olsr(3).topology.told_by(main(node)).count();
        [told(0), told(1), told(2)]
    };

    assert_eq!(told(TcRedundancy::Selectors), [0, 2, 2]);
    assert_eq!(told(TcRedundancy::Relays), [1, 2, 2]);
    assert_eq!(told(TcRedundancy::All), [1, 2, 2]);
}

#[test]
fn a_node_that_carries_for_nobody_any_more_says_so_for_as_long_as_others_remember() {
    let mut net = Net::new(4, &[(0, 1), (1, 2), (0, 3), (1, 3), (2, 3)], &Config::default());
    net.cut((0, 0), (3, 0));
    net.run_until(secs(30.0));
    net.sent = Some(Vec::new());

    // From now on 3 is not needed, nor is 1: all hear each other.
    net.link((0, 0), (3, 0));
    net.link((0, 0), (2, 0));
    net.run_until(secs(90.0));

    let mut empty = BTreeMap::new();
    for (now, at, octets) in net.sent.take().unwrap() {
        for message in Packet::parse(&octets).unwrap().messages().map(Result::unwrap) {
            let is_own = message.header.originator == main(at.0);
            if message.header.kind == Kind::TC && is_own {
                let tc = Tc::parse(message.body).unwrap();
                let last = empty.entry(at.0).or_insert((0, now));
                *last = (last.0 + usize::from(tc.neighbours.iter().count() == 0), now);
            }
        }
    }
    let (times, last) = empty[&1];
    assert!((3..=5).contains(&times), "{times} times over 15 s");
    assert!(last < secs(60.0), "and nothing after {last:?}");
}

#[test]
fn that_nobody_is_told_of_any_more_is_said_until_the_hold_time_is_over() {
    let config = Config::default();
    let told = [Duration::from_nanos(1), Duration::ZERO].map(|early| {
        let (start, hold) = (secs(1.0), config.topology_hold);
        let mut advert = Advert::new(Seq(1));
        for neighbours in [BTreeSet::from([main(1)]), BTreeSet::new()] {
            advert.set(start, neighbours, start, &config);
        }
        advert.take(start + hold - early, secs(100.0)).map(|(_, neighbours)| neighbours)
    });

    assert_eq!(told, [Some(Vec::new()), None]);
}

#[test]
fn who_was_overtaken_tells_the_truth_a_quarter_of_the_interval_after_its_last_word() {
    let config = Config::default();
    let (start, soon) = (secs(1.0), secs(1.1));
    let mut advert = Advert::new(Seq(1));
    advert.set(start, BTreeSet::from([main(1)]), start, &config);
    let (ansn, _) = advert.take(start, secs(100.0)).unwrap();

    advert.overtake(soon, ansn, soon, &config);

    assert_eq!(advert.next_timeout(), Some(start + config.tc_interval / 4));
}

#[test]
fn who_never_carries_is_no_way_and_who_always_does_is_chosen() {
    // Two ways from 0 to 3; then only that by 1.
    let links = [(0, 1), (0, 2), (1, 3), (2, 3)];
    let never = Config { willingness: 0, ..Config::default() };
    let always = Config { willingness: 7, ..Config::default() };
    let mut net = Net::new(4, &links, &Config::default());
    net.start(1, never, &[0], 1);
    net.start(2, always, &[0], 1);
    net.run_until(secs(20.0));

    assert_eq!(net.olsr(0).relays().collect::<Vec<_>>(), [main(2)]);
    assert_eq!(net.walk(0, main(3)), Some(2));
    assert_eq!(
        net.nodes[0].as_ref().unwrap().table[&Prefix::host(main(3).into())].next.address,
        main(2)
    );

    net.stop(2);
    net.run_until(secs(50.0));
    assert_eq!(net.walk(0, main(3)), None, "1 never carries");
    assert_eq!(net.count(1, Counter::MessagesForwarded), 0);
}

#[test]
fn a_coverage_of_two_chooses_a_second_relay() {
    let links = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)];
    let relays = |mpr_coverage| {
        let config = Config { mpr_coverage, ..Config::default() };
        let mut net = Net::new(5, &links, &config);
        net.run_until(secs(20.0));
        net.olsr(0).relays().count()
    };

    assert_eq!([relays(1), relays(2), relays(9)], [1, 2, 3]);
}

#[test]
fn numbers_wrap_unnoticed() {
    let mut net = Net::new(5, &super::line(5), &Config::default());
    for node in net.nodes.iter_mut().flatten() {
        node.olsr.numbers = Numbers::new(Seq(65_500), Config::default().duplicate_hold);
        node.olsr.advert = Advert::new(Seq(65_533));
    }
    net.converge(15.0);

    // Each round changes what 1, 2 and 3 tell: six numbers.
    for _ in 0..4 {
        net.cut((1, 0), (2, 0));
        net.converge(25.0);
        net.link((1, 0), (2, 0));
        net.converge(25.0);
    }

    assert!(net.olsr(2).numbers.next().0 < 1_000);
    let old: u64 = (0..5).map(|node| net.count(node, Counter::TcOld)).sum();
    assert_eq!(old, 0);
}

#[test]
fn a_link_that_loses_half_is_used_without_hysteresis_only() {
    let used = |is_on: bool| {
        let hysteresis = Hysteresis { is_on, ..Hysteresis::default() };
        let config = Config { hysteresis, ..Config::default() };
        let mut net = Net::new(2, &super::line(2), &config).with_loss(0.6);
        let mut used = 0;
        for second in 20..320 {
            net.run_until(secs(f64::from(second)));
            used += u32::from(net.walk(0, main(1)).is_some());
        }
        used
    };

    let (with, without) = (used(true), used(false));
    assert!(without > 100 && with < 30, "{with} s with, {without} s without of 300 s");
}

#[test]
fn hysteresis_waits_for_three_packets_and_gives_up_after_two_lost() {
    let hysteresis = Hysteresis { is_on: true, ..Hysteresis::default() };
    let config = Config { hysteresis, ..Config::default() };
    let mut net = Net::new(3, &super::line(3), &config);
    let took = net.converge(25.0);
    assert!(took > 4.0, "{took} s: 0.5, 0.75, 0.875");
    net.run_until(secs(30.0));

    // Nothing is heard: 0.5, then 0.25 after one and a half and two and a half intervals.
    net.cut((0, 0), (1, 0));
    net.run_until(net.now + Duration::from_millis(5_500));

    assert_eq!(net.walk(0, main(1)), None, "before its 6 s are over");
    net.link((0, 0), (1, 0));
    net.converge(25.0);
}

#[test]
fn with_hysteresis_too_a_broken_link_is_told_as_lost_for_its_hold_time() {
    let hysteresis = Hysteresis { is_on: true, ..Hysteresis::default() };
    let config = Config { hysteresis, ..Config::default() };
    let mut net = Net::new(2, &super::line(2), &config);
    net.run_until(secs(30.0));
    let told = |net: &Net| net.olsr(0).hood.told(0).into_iter().map(|it| it.0.link).next();

    net.stop(1);
    net.broken((0, 0), main(1));
    let lost = told(&net);
    net.run_until(secs(35.9));

    assert_eq!((lost, told(&net)), (Some(LinkType::Lost), Some(LinkType::Lost)));
    net.run_until(secs(36.1));
    assert_eq!(told(&net), None);
}
