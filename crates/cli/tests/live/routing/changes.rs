//! Tests route changes while packets are in flight.
//!
//! ```text
//!             ┌─ 2 ─┐
//!   0 ─── 1 ──┤     ├── 4        node 1 chooses the way: eth1 leads to 2, eth2 to 3
//!             └─ 3 ─┘
//! ```

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::datagrams::{Datagrams, LEN};
use super::network::{Network, SOON, address};
use crate::namespaces::wait_until;

const BY_2: &str = "via 10.9.1.2";
const BY_3: &str = "via 10.9.2.2";
/// The link from 1 to 2.
const FIRST_WAY: usize = 1;
/// Gateways notice within a second that a neighbour is gone.
const QUICK: &str = "[hbh.hello]\ninterval = \"100ms\"\nhold = \"1s\"";
const WAITING: u32 = 20;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_moment_without_a_route_loses_nothing_that_waits() {
    let mut network = two_ways();
    network.start_gateways(&[0, 1, 2, 3, 4], "");
    let mut datagrams = Datagrams::new(&network, 0, 4, 1);
    let_wait(&mut network, &mut datagrams);

    network.run(1, &format!("ip route replace unreachable {}", address(4)));
    thread::sleep(Duration::from_secs(1));
    network.run(1, &format!("ip route delete unreachable {}", address(4)));
    network.route(1, &format!("{} {BY_3}", address(4)));

    expect_all(&network, &mut datagrams);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn another_hardware_address_is_taken_up_within_seconds_and_for_good() {
    let mut network = Network::chain(&["", ""]);
    network.start_gateways(&[0, 1, 2], "");
    let arrives = |network: &Network| {
        let taken = network.count(0, "packets_intercepted");
        let said =
            network.try_run(0, &format!("ping -n -c 1 -W 1 -I {} {}", address(0), address(2)));
        said.contains(" 0% packet loss") && network.count(0, "packets_intercepted") > taken
    };
    assert!(arrives(&network), "{}", network.status(0));

    network.run(1, "ip link set eth0 address 02:00:00:00:00:77");

    // The kernel alone would believe in the former address for half a minute, and HBH's hellos for 20 s.
    let comes = wait_until(Duration::from_secs(8), || arrives(&network));
    assert!(comes, "{} {}", network.status(0), network.run(0, "ip neigh"));
    let ends = |network: &Network| [0, 1].map(|node| network.count(node, "neighbours_down"));
    let before = ends(&network);
    let ends_again = wait_until(Duration::from_secs(2), || ends(&network) != before);
    assert!(!ends_again, "{}", network.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_for_a_neighbour_that_fell_silent_wait_for_the_next_route() {
    let mut network = two_ways();
    network.start_gateways(&[0, 1, 2, 3, 4], QUICK);
    let mut datagrams = Datagrams::new(&network, 0, 4, 1);
    let_wait(&mut network, &mut datagrams);

    let is_gone = wait_until(SOON, || network.count(1, "neighbours") == 2);
    assert!(is_gone, "{}", network.status(1));
    thread::sleep(Duration::from_millis(500));
    network.route(1, &format!("{} {BY_3}", address(4)));

    expect_all(&network, &mut datagrams);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_of_a_host_without_a_gateway_follow_their_route() {
    let mut network = two_ways();
    // Their source is none of node 1's addresses, and no neighbour's that speaks HBH.
    network.start_gateways(&[1, 2, 3, 4], "");
    let mut datagrams = Datagrams::new(&network, 0, 4, 1);
    let_wait(&mut network, &mut datagrams);

    network.route(1, &format!("{} {BY_3}", address(4)));

    expect_all(&network, &mut datagrams);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_go_plain_only_to_the_next_hop_when_a_neighbour_goes() {
    let mut network = two_ways();
    // The other way has no gateway.
    network.start_gateways(&[0, 1, 2, 4], "");
    let mut datagrams = Datagrams::new(&network, 0, 4, 1);
    let_wait(&mut network, &mut datagrams);

    // The gateway learns at once that the neighbour is gone and that the route is another.
    network.signal(1, Signal::SIGSTOP);
    network.cut_carrier(FIRST_WAY);
    network.route(1, &format!("{} {BY_3}", address(4)));
    network.signal(1, Signal::SIGCONT);

    expect_all(&network, &mut datagrams);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_change_of_the_policy_rules_is_followed() {
    let mut network = two_ways();
    network.start_gateways(&[0, 1, 2, 3, 4], "");
    network.route(1, &format!("{} {BY_3} table 100", address(4)));

    expect_change(&network, |network| {
        network.run(1, "ip rule add pref 100 lookup 100");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_change_of_a_next_hop_object_is_followed() {
    let mut network = two_ways();
    // Modern routing daemons prefer this setting: the kernel does not announce routes again.
    network.run(1, "sysctl -qw net.ipv4.nexthop_compat_mode=0");
    network.run(1, &format!("ip nexthop add id 1 {BY_2} dev eth1"));
    network.route(1, &format!("{} nhid 1", address(4)));
    network.start_gateways(&[0, 1, 2, 3, 4], "");

    expect_change(&network, |network| {
        network.run(1, &format!("ip nexthop replace id 1 {BY_3} dev eth2"));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn flows_in_transit_share_the_ways_of_a_multipath_route() {
    let mut network = two_ways();
    network.run(1, "sysctl -qw net.ipv4.fib_multipath_hash_policy=1");
    network.route(1, &format!("{} nexthop {BY_2} nexthop {BY_3}", address(4)));

    let plain = shares(&network);
    network.start_gateways(&[0, 1, 2, 3, 4], "");
    let hbh = shares(&network);

    // Of 60 flows, fewer than 9 go one way or the other once in 2e8: a binomial of halves, twice.
    let least = 9 * 10 * LEN as u64;
    let story = format!("octets each way: {plain:?} plain, {hbh:?} by HBH");
    assert!(plain.iter().all(|&octets| octets > least), "{story}");
    assert!(hbh.iter().all(|&octets| octets > least), "{story}\n{}", network.statuses());
}

/// Five nodes; 1 sends by 2.
fn two_ways() -> Network {
    let mut network = Network::new(5);
    for (a, b) in [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)] {
        network.join(a, b, "");
    }
    network.route(0, &format!("{} via 10.9.0.2", address(4)));
    network.route(1, &format!("{} {BY_2}", address(4)));
    network.route(2, &format!("{} via 10.9.3.2", address(4)));
    network.route(3, &format!("{} via 10.9.4.2", address(4)));
    // Who filters by source wants to know the way back.
    for (node, back) in [(1, "10.9.0.1"), (2, "10.9.1.1"), (3, "10.9.2.1"), (4, "10.9.3.1")] {
        network.route(node, &format!("{} via {back}", address(0)));
    }
    // Nobody has to be asked for a hardware address when it counts.
    let mut datagrams = Datagrams::new(&network, 0, 4, 1);
    for way in [BY_3, BY_2] {
        network.route(1, &format!("{} {way}", address(4)));
        datagrams.send(1);
        assert_eq!(datagrams.arrived(SOON), datagrams.sent());
    }
    network
}

/// Cuts the way by 2 silently, and lets datagrams wait at 1 for it.
fn let_wait(network: &mut Network, datagrams: &mut Datagrams) {
    network.cut_silently(FIRST_WAY);
    datagrams.send(WAITING);
    let is_waiting = || network.count(1, "hbh_packets_held") >= u64::from(WAITING);
    assert!(wait_until(SOON, is_waiting), "{}", network.statuses());
}

fn expect_all(network: &Network, datagrams: &mut Datagrams) {
    let (arrived, sent) = (datagrams.arrived(SOON), datagrams.sent());
    assert_eq!(arrived, sent, "of those sent arrived; plain, all do\n{}", network.statuses());
}

/// Expects that datagrams sent after the change take the other way.
fn expect_change(network: &Network, change: impl Fn(&Network)) {
    let mut datagrams = Datagrams::new(network, 0, 4, 1);
    datagrams.send(WAITING);
    expect_all(network, &mut datagrams);
    let before = network.octets_sent(1, "eth2");

    change(network);
    // Changes that come together are acted on together.
    thread::sleep(Duration::from_millis(100));
    datagrams.send(WAITING);
    expect_all(network, &mut datagrams);

    let octets = network.octets_sent(1, "eth2") - before;
    let expected = u64::from(WAITING) * LEN as u64;
    let story = format!("{octets} octets took the new way, expected {expected}, as without HBH");
    assert!(octets >= expected, "{story}: {}", network.statuses());
}

/// Octets that 60 flows send each way.
fn shares(network: &Network) -> [u64; 2] {
    let sent = || ["eth1", "eth2"].map(|interface| network.octets_sent(1, interface));
    let before = sent();
    let mut datagrams = Datagrams::new(network, 0, 4, 60);
    for _ in 0..10 {
        datagrams.send(1);
        expect_all(network, &mut datagrams);
    }
    let after = sent();
    [after[0] - before[0], after[1] - before[1]]
}
