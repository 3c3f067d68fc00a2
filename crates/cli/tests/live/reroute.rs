//! Tests where waiting packets go when the kernel's routing changes.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::gateway::Net;
use crate::namespaces::wait_until;

const SOON: Duration = Duration::from_secs(15);
/// A silent neighbour is forgotten by then.
const SILENCE: Duration = Duration::from_secs(30);

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_that_wait_for_a_lost_neighbour_take_the_new_route() {
    let mut net = two_ways();

    held(&mut net, |net| net.ip(0, "route replace 10.9.2.0/24 via 10.9.1.2"));
    assert!(net.count(0, "packets_rerouted") >= 5, "{}", net.status(0));
    assert_eq!(net.count(0, "packets_returned"), net.count(0, "packets_rerouted"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_moment_without_a_route_loses_nothing() {
    let mut net = two_ways();

    held(&mut net, |net| {
        let asked = net.count(0, "routes_asked");
        net.ip(0, "route replace unreachable 10.9.2.0/24");
        let is_asked = wait_until(SOON, || net.count(0, "routes_asked") > asked);
        assert!(is_asked, "{}", net.status(0));
        net.ip(0, "route replace 10.9.2.0/24 via 10.9.1.2");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_waits_for_a_neighbour_that_fell_silent_waits_for_another_way() {
    let mut net = two_ways();

    held(&mut net, |net| {
        // It does not even forward what is plain.
        net.nets.run(&net.nodes[1].name, "sysctl -qw net.ipv4.ip_forward=0");
        let is_gone = wait_until(SILENCE, || net.count(0, "packets_waiting") >= 5);
        assert!(is_gone, "{}", net.status(0));
        net.ip(0, "route replace 10.9.2.0/24 via 10.9.1.2");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_new_policy_rule_is_followed() {
    let mut net = two_ways();
    net.ip(0, "route add 10.9.2.0/24 via 10.9.1.2 table 100");

    held(&mut net, |net| net.ip(0, "rule add from 10.9.0.1 to 10.9.2.0/24 lookup 100"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_next_hop_object_that_changes_is_followed() {
    let mut net = two_ways();
    // As daemons like it: of the routes that use the object nothing is said.
    net.nets.run(&net.nodes[0].name, "sysctl -qw net.ipv4.nexthop_compat_mode=0");
    net.ip(0, "nexthop add id 1 via 10.9.0.2 dev eth0");
    net.ip(0, "route replace 10.9.2.0/24 nhid 1");

    held(&mut net, |net| net.ip(0, "nexthop replace id 1 via 10.9.1.2 dev eth1"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_waits_in_transit_takes_the_new_route_and_counts_each_hop_once() {
    let mut net = diamond();
    net.ip(1, "route add 10.9.9.0/24 via 10.9.1.2");
    net.start_all();
    net.expect_pings(0, "10.9.9.1", 1);
    net.expect_none_held(1);

    net.signal(2, Signal::SIGSTOP);
    // Three routers: one too many would end it.
    let node = net.nodes[0].name.clone();
    let ping = net.nets.start(&node, "ping -c 5 -i 0.2 -W 10 -t 3 10.9.9.1", "");
    let is_held = wait_until(SOON, || net.count(1, "hbh_packets_held") >= 5);
    net.ip(1, "route replace 10.9.9.0/24 via 10.9.2.2");
    let (_, answers) = net.nets.program(ping).finish(SOON);
    net.signal(2, Signal::SIGCONT);

    assert!(is_held, "{}", net.status(1));
    assert!(answers.contains(" 0% packet loss"), "{answers}\n{}", net.status(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn flows_in_transit_share_all_ways() {
    let mut net = diamond();
    net.nets.run(&net.nodes[1].name, "sysctl -qw net.ipv4.fib_multipath_hash_policy=1");
    net.ip(1, "route add 10.9.9.0/24 nexthop via 10.9.1.2 nexthop via 10.9.2.2");
    net.start_all();
    let before = [2, 3].map(|node| net.count(node, "packets_released"));

    let address = "10.9.9.1:2000";
    let listener = net.nets.within(&net.nodes[4].name, || TcpListener::bind(address).unwrap());
    // By chance all go one way once in 2^31.
    for _ in 0..32 {
        net.nets.within(&net.nodes[0].name, || TcpStream::connect(address).unwrap());
        listener.accept().unwrap();
    }

    for (node, before) in [2, 3].into_iter().zip(before) {
        assert!(net.count(node, "packets_released") > before, "{node}: {}", net.status(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_for_a_neighbour_itself_stays_plain() {
    let mut net = Net::chain(3);
    net.start_all();

    for (count, ttl, destination) in [(3, 255, "10.9.0.2"), (6, 1, "10.9.0.2"), (6, 64, "10.9.0.2")]
    {
        net.ping(0, &format!("-c 3 -i 0.05 -t {ttl} {destination}"));
        assert_eq!(net.count(0, "packets_plain"), count, "{ttl}: {}", net.status(0));
    }
    net.ping(0, "-c 3 -i 0.05 -t 255 10.9.1.2");
    assert_eq!(net.count(0, "packets_plain"), 6, "{}", net.status(0));
}

/// Stops the neighbour that carries pings, lets something happen while five wait for it, and
/// expects that all are answered by the other way.
fn held(net: &mut Net, happens: impl Fn(&Net)) {
    net.start_all();
    net.expect_pings(0, "10.9.2.2", 1);
    net.expect_none_held(0);

    net.signal(1, Signal::SIGSTOP);
    let node = net.nodes[0].name.clone();
    let ping = net.nets.start(&node, "ping -I 10.9.0.1 -c 5 -i 0.2 -W 40 10.9.2.2", "");
    let is_held = wait_until(SOON, || net.count(0, "hbh_packets_held") >= 5);
    assert!(is_held, "{}", net.status(0));
    happens(net);
    let (_, answers) = net.nets.program(ping).finish(SILENCE);
    let status = net.status(0);
    net.signal(1, Signal::SIGCONT);

    assert!(answers.contains(" 0% packet loss"), "{answers}\n{status}");
}

/// Node 0 reaches 3 by 1; 2 could carry it as well.
fn two_ways() -> Net {
    let mut net = Net::new(4);
    for (link, (a, b)) in [(0, 1), (0, 2), (1, 3), (2, 3)].into_iter().enumerate() {
        net.join(link, a, b);
    }
    net.route(0, "10.9.2.0/24 via 10.9.0.2");
    net.route(0, "10.9.3.0/24 via 10.9.1.2");
    net.route(3, "10.9.0.0/24 via 10.9.3.1");
    net.route(2, "10.9.0.0/24 via 10.9.1.1");
    net.route(2, "10.9.2.0/24 via 10.9.3.2");
    net.loose();
    net
}

/// Node 0 behind node 1. Node 1 reaches 10.9.9.1 at node 4 by node 2 or 3 as soon as it has a route.
fn diamond() -> Net {
    let mut net = Net::new(5);
    for (link, (a, b)) in [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)].into_iter().enumerate() {
        net.join(link, a, b);
    }
    net.nets.address(&net.nodes[4].name, "lo", "10.9.9.1/24");
    net.route(0, "10.9.9.0/24 via 10.9.0.2");
    for (node, route) in [
        (2, "10.9.9.0/24 via 10.9.3.2"),
        (3, "10.9.9.0/24 via 10.9.4.2"),
        (2, "10.9.0.0/24 via 10.9.1.1"),
        (3, "10.9.0.0/24 via 10.9.2.1"),
        (4, "10.9.0.0/24 nexthop via 10.9.4.1"),
    ] {
        net.route(node, route);
    }
    net.loose();
    net
}

impl Net {
    /// The way back is another than the way there: strict filters would drop it.
    fn loose(&self) {
        for node in &self.nodes {
            for interface in ["all", "eth0", "eth1", "eth2"] {
                let key = format!("net.ipv4.conf.{interface}.rp_filter=2");
                self.nets.try_run(&node.name, &format!("sysctl -qw {key}"));
            }
        }
    }

    /// Waits until nothing waits any more for an acknowledgement, as the last ping may.
    fn expect_none_held(&self, node: usize) {
        let is_none = wait_until(SOON, || self.count(node, "hbh_packets_held") == 0);
        assert!(is_none, "{}", self.status(node));
    }

    fn ip(&self, node: usize, order: &str) {
        self.nets.run(&self.nodes[node].name, &format!("ip {order}"));
    }
}
