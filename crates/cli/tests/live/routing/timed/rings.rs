//! Tests rings with a routing daemon after one link falls silent.
//!
//! ```text
//!     ┌── 1 ──┐      links 0 and 1: the shorter way
//!   0 ┤       ├ 3
//!     └── 2 ──┘      links 2 and 3
//! ```

use std::thread;
use std::time::{Duration, Instant};

use super::expect_one_of_three;
use crate::namespaces::wait_until;
use crate::routing::daemons::{Frr, has_babel, has_frr, start_babel};
use crate::routing::network::{Network, address};
use testbed::traffic::{ENDLESS, Transfer};

const LINK: &str = "--rate 4mbit --delay 2ms";
const PATIENCE: Duration = Duration::from_secs(60);
/// TCP goes on within this time of the new route.
const GOES_ON: Duration = Duration::from_secs(1);

#[test]
#[ignore = "needs root: run by ./test"]
fn tcp_goes_on_within_a_second_of_babels_new_route() {
    if has_babel() {
        // The other way is feasible: taken as soon as the first is dead.
        expect_quick(&|network| {
            for (node, costs) in ways(96, 128) {
                start_babel(network, node, &costs);
            }
        });
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn tcp_goes_on_within_a_second_of_ospfs_new_route() {
    if has_frr() {
        expect_quick(&|network| {
            for (node, costs) in ways(10, 20) {
                Frr::start(network, node, &costs, &[]);
            }
        });
    }
}

/// Costs of each node's interfaces, on the shorter path and on the other path.
fn ways(short: u32, other: u32) -> [(usize, [u32; 2]); 4] {
    [(0, [short, other]), (1, [short; 2]), (2, [other; 2]), (3, [short, other])]
}

fn expect_quick(start_daemons: &(dyn Fn(&mut Network) + Sync)) {
    expect_one_of_three(|| {
        let ((plain, _), (hbh, story)) = thread::scope(|scope| {
            let plain = scope.spawn(|| silence(start_daemons, false));
            let hbh = silence(start_daemons, true);
            (plain.join().unwrap(), hbh)
        });
        let figures = format!("{plain:?} plain, {hbh:?} by HBH");
        (hbh <= GOES_ON, format!("silent after the new route: {figures}\n{story}"))
    });
}

/// How long a connection from 0 to 3 is silent after both have a new route, and a report.
fn silence(start_daemons: &dyn Fn(&mut Network), has_gateways: bool) -> (Duration, String) {
    let mut network = Network::new(4);
    for (a, b) in [(0, 1), (1, 3), (0, 2), (2, 3)] {
        network.join(a, b, LINK);
    }
    if has_gateways {
        network.start_gateways(&[0, 1, 2, 3], "");
    }
    start_daemons(&mut network);
    // Both ends of the connection are loopbacks, so that its way is the daemons' affair alone.
    let by = |network: &Network, interface: &str| {
        [(0, 3), (3, 0)].iter().all(|&(node, other)| {
            let route = network.try_run(node, &format!("ip route get {}", address(other)));
            route.contains(&format!("dev {interface} "))
        })
    };
    // Daemons that hear too little of each other on a busy machine do not find it.
    if !wait_until(PATIENCE, || by(&network, "eth0")) {
        return (Duration::MAX, format!("no route by the shorter way\n{}", network.statuses()));
    }
    let names = [0, 3].map(|node| network.nodes[node].name.clone());
    let (target, source) = (address(3), address(0));
    let transfer = Transfer::start_from((&names[0], &source), (&names[1], &target), ENDLESS);
    transfer.wait_for(600_000, PATIENCE);

    network.cut_silently(0);
    let cut = Instant::now();
    let has_route = wait_until(PATIENCE, || by(&network, "eth1"));
    assert!(has_route, "no route by the other way\n{}", network.statuses());
    let (without_route, routed) = (cut.elapsed(), Instant::now());
    let before = transfer.received();
    let goes_on = wait_until(PATIENCE, || transfer.received() > before);
    let silent = routed.elapsed();
    let story = format!("a new route after {without_route:?}\n{}", network.statuses());
    assert!(goes_on, "{story}");
    transfer.end();
    (silent, story)
}
