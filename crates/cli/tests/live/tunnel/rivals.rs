//! Tests a running tunnel while other programs change its routes.

use std::time::Instant;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;

const INSIDE: [&str; 2] = ["10.77.0.2", "fd77::2"];

impl Net {
    /// What a gateway says is not as it should be.
    fn faults(&self, node: usize) -> String {
        self.status(node)["faults"].to_string()
    }

    fn expect_fault(&self, node: usize, fault: &str) {
        let is_told = wait_until(SOON, || self.faults(node).contains(fault));
        assert!(is_told, "no {fault}: {}", self.status(node));
    }

    fn expect_no_fault(&self, node: usize) {
        let is_told = wait_until(SOON, || self.faults(node) == "[]");
        assert!(is_told, "{}", self.status(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_that_takes_the_place_of_ours_leads_nothing_away() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    net.expect_no_fault(0);

    net.run(0, "ip route replace 10.77.0.2/32 via 10.9.1.2");
    net.run(0, "ip route replace fd77::2/128 via fd09::2");

    net.expect_count(0, "tunnel_routes_displaced", 2);
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
    INSIDE.iter().for_each(|address| net.expect_ping(0, address));
    let theirs = net.run(0, "ip route show 10.77.0.2");
    assert!(theirs.contains("via 10.9.1.2"), "{theirs}");
    net.expect_fault(0, "10.77.0.2/32: `10.77.0.2/32 via 10.9.1.2 dev eth1` came");
    let said = net.run(0, &format!("{TRACKWAY} status"));
    assert!(said.contains("fault: fd77::2/128: `fd77::2/128 via fd09::2 dev eth1"), "{said}");

    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_with_a_greater_metric_that_comes_later_is_no_way_out_after_a_crash() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();

    net.run(0, "ip route add 10.77.0.2/32 via 10.9.1.2 metric 100");
    net.run(0, "ip route add fd77::2/128 via fd09::2 metric 2000");

    net.expect_count(0, "tunnel_routes_displaced", 2);
    INSIDE.iter().for_each(|address| net.expect_ping(0, address));
    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routes_that_are_removed_all_the_time_are_put_back_now_and_then() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    let (before, began) = (net.claimed(0), Instant::now());

    let is_put_off = wait_until(SOON, || {
        net.try_run(0, "ip route del 10.77.0.2 dev trackway-nc0");
        net.faults(0).contains("all the time")
    });
    assert!(is_put_off, "{}", net.status(0));
    let most = 11 + began.elapsed().as_secs() / 6;
    let restored = net.count(0, "tunnel_routes_restored");
    assert!((5..=most).contains(&restored), "{restored} of {most}");
    assert_eq!(net.clear((1, "eth0"), &INSIDE[..1]), 0, "{}", net.claimed(0));

    let is_back = wait_until(SOON, || net.claimed(0) == before);
    assert!(is_back, "{}", net.claimed(0));
    net.expect_no_fault(0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_that_is_not_there_is_told_and_comes_as_soon_as_it_can() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();

    net.run(0, "ip link set trackway-nc0 down");
    net.expect_fault(0, "route to 10.77.0.2/32 in table main is not there: Network is down");
    net.run(0, "ip link set trackway-nc0 up");
    net.expect_no_fault(0);

    // No message of the kernel's tells when it takes such routes again.
    net.run(0, "sysctl -qw net.ipv6.conf.trackway-nc0.disable_ipv6=1");
    net.expect_fault(0, "route to fd77::2/128 in table main is not there");
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
    net.run(0, "sysctl -qw net.ipv6.conf.trackway-nc0.disable_ipv6=0");
    net.expect_ping(0, "fd77::2");
    net.expect_no_fault(0);
}
