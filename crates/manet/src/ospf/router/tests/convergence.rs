//! Every router finds its ways, and others when wires and routers go.

use std::time::Duration;

use proptest::prelude::*;

use super::{Net, config, grid, host, id, line, ring, secs};
use crate::ospf::{Config, Counter, State};
use crate::{Neighbour, Router as _};

#[test]
fn a_grid_of_twenty_converges_and_then_says_only_hellos() {
    let mut net = Net::new(20, &grid(5, 4));

    let took = net.converge(30);
    net.run(secs(120));
    let [updates, sent] = [Counter::UpdatesSent, Counter::LsasInstalled].map(|it| net.total(it));
    net.run(secs(1_700));

    assert!(took < 20.0, "{took} s");
    assert_eq!(net.total(Counter::UpdatesSent), updates);
    assert_eq!(net.total(Counter::LsasInstalled), sent);
    assert_eq!(net.total(Counter::NeighboursLost), 0);
    assert_eq!(net.faults(), [""; 0]);
    assert_eq!(net.walk(0, 19), Some(7));
}

#[test]
fn around_a_ring_the_other_way_is_found() {
    let mut net = Net::new(8, &ring(8));
    net.converge(30);
    net.run(secs(60));

    net.set(0, 7, false);
    let took = net.converge(60);

    assert!((29.0..52.0).contains(&took), "{took} s: the dead interval, and the word of it");
    net.set(0, 7, true);
    net.converge(60);
}

#[test]
fn a_partition_heals() {
    let mut net = Net::new(12, &grid(4, 3));
    net.converge(30);
    for (a, b) in [(1, 2), (5, 6), (9, 10)] {
        net.set(a, b, false);
    }
    net.converge(60);
    assert_eq!(net.walk(0, 3), None);
    // Each part goes on, and changes, while the other does not hear of it.
    net.set(0, 4, false);
    net.set(3, 7, false);
    net.run(net.now + Duration::from_secs(4_000));
    assert_eq!(net.faults(), [""; 0]);

    for (a, b) in [(1, 2), (5, 6), (9, 10)] {
        net.set(a, b, true);
    }
    net.converge(60);
    let lsas: Vec<usize> = net.nodes.iter().map(|node| node.ospf.lsas()).collect();
    assert_eq!(lsas, [12; 12]);
}

#[test]
fn a_router_that_starts_anew_goes_on_from_the_number_that_others_know() {
    let mut net = Net::new(5, &line(5));
    net.run(secs(100));
    net.set(0, 1, false);
    net.run(secs(200));
    net.set(0, 1, true);
    net.run(secs(300));

    net.restart(2, config(2));
    net.converge(70);

    assert!(net.count(2, Counter::OriginationsRaised) >= 1);
    net.run(secs(500));
    assert_eq!(net.faults(), [""; 0]);
    assert_eq!(net.state(1, 2), Some(State::Full));
}

#[test]
fn a_router_that_comes_back_with_another_number_is_a_new_neighbour() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(100));
    let other = Config { router_id: Some(id(40)), attached: vec![host(2)], ..config(2) };

    net.restart(2, other);
    net.converge(60);

    assert_eq!(net.count(1, Counter::NeighboursLost), 1);
}

#[test]
fn a_break_that_the_link_layer_reports_counts_at_once() {
    let mut net = Net::new(3, &ring(3));
    net.run(secs(60));
    net.set(0, 1, false);
    let next = net.nodes[0].table[&host(1)].next;

    net.nodes[0].ospf.handle_break(net.now, Neighbour { interface: next.interface, ..next });
    net.nodes[1]
        .ospf
        .handle_break(net.now, Neighbour { interface: 0, address: [10, 0, 0, 1].into() });
    net.converge(2);

    assert_eq!(net.walk(0, 1), Some(2));
}

#[test]
fn of_ways_that_cost_the_same_each_run_takes_the_same() {
    let nexts = || {
        let mut net = Net::new(9, &grid(3, 3));
        net.converge(30);
        (0..9).map(|to| net.nodes[0].table.get(&host(to)).map(|it| it.next)).collect::<Vec<_>>()
    };

    let first = nexts();

    assert_eq!(first, nexts());
    assert_eq!(first[8].map(|next| next.interface), Some(0), "the lower of two");
}

#[test]
fn costs_count_and_not_hops() {
    let mut net = Net::with(5, &ring(5), |node| Config {
        cost: if node == 1 { 9 } else { 1 },
        ..config(node)
    });
    net.run(secs(30));

    assert_eq!(net.walk(0, 2), Some(3), "around, not through 1");
    assert_eq!(net.walk(2, 0), Some(3));
}

proptest! {
    #![proptest_config(harness::cases(24))]

    #[test]
    fn whatever_wires_there_are_and_lose_all_comes_right(
        count in 2_usize..10,
        more in prop::collection::vec((0_usize..10, 0_usize..10), 0..8),
        cuts in prop::collection::vec((0_usize..20, any::<bool>()), 0..6),
        loss in 0.0..0.4,
        latency in 1_u64..3_000,
    ) {
        let mut wires = line(count);
        for (a, b) in more {
            let (a, b) = (a % count, b % count);
            if a != b && !wires.contains(&(a, b)) && !wires.contains(&(b, a)) {
                wires.push((a, b));
            }
        }
        let mut net = Net::new(count, &wires);
        net.loss = loss;
        net.latency = Duration::from_millis(latency);
        for (wire, works) in cuts {
            let (a, b) = wires[wire % wires.len()];
            net.set(a, b, works);
            net.run(net.now + Duration::from_secs(97));
        }
        net.loss = 0.0;
        net.run(net.now + Duration::from_secs(200));

        prop_assert_eq!(net.faults(), Vec::<String>::new());
    }
}

#[test]
fn a_neighbour_that_is_back_before_the_next_lsa_leaves_no_detour() {
    let quick = |node| Config {
        hello_interval: Duration::from_secs(2),
        dead_interval: Duration::from_secs(8),
        ..config(node)
    };
    let mut net = Net::with(4, &ring(4), quick);
    net.run(secs(100));
    let wire = net.wire(0, 1);

    // LSAs follow at 100 s and at 105 s; from the second break to 110 s the routers may not make any.
    for second in [100, 106] {
        net.run(secs(second));
        let [one, other] = net.wires[wire].0;
        for ((node, interface), end) in [(one, 1), (other, 0)] {
            let gone = Neighbour { interface, address: super::address(wire, end) };
            net.nodes[node].ospf.handle_break(net.now, gone);
            net.drive(node);
        }
        assert_eq!(net.walk(0, 1), Some(3));
    }
    net.run(secs(109));

    assert_eq!(net.state(0, 1), Some(State::Full));
    assert_eq!(net.walk(0, 1), Some(1));
}
