//! Tests tunnels of gateways that listen at several addresses.

use super::{Net, SOON};
use crate::namespaces::wait_until;

#[test]
#[ignore = "needs root: run by ./test"]
fn each_peer_is_answered_from_the_address_and_port_that_it_calls() {
    let mut net = Net::star(2, "--rate 20mbit --delay 2ms");
    net.enable_v6(0, "eth2", "fd09::1/64");
    net.enable_v6(2, "eth0", "fd09::3/64");
    net.listen(0, "[\"10.9.1.1:7001\", \"0.0.0.0:7002\", \"[::]:7002\"]");
    net.only_called(0);
    net.edit(1, "10.9.1.1:51900", "10.9.1.1:7001");
    net.edit(2, "10.9.2.1:51900", "[fd09::1]:7002");
    net.listen(2, "\"[::]:51900\"");

    net.start_all();

    for (peer, called) in [(1, "10.9.1.1:7001"), (2, "[fd09::1]:7002")] {
        net.expect_ping(0, &format!("10.77.0.{}", peer + 1));
        net.transfer(peer, 0, 300_000).finish(SOON);
        net.transfer(0, peer, 300_000).finish(SOON);
        let tunnel = net.status(peer)["tunnels"][0].clone();
        assert_eq!(tunnel["endpoint"], called, "{tunnel}");
        assert_eq!(tunnel["handshakes"]["moves"], 0, "{tunnel}");
        let tunnel = net.status(0)["tunnels"][peer - 1].clone();
        assert_eq!(tunnel["local"], called, "{tunnel}");
    }

    // The same over IPv4, at the port that both versions have.
    net.edit(2, "[fd09::1]:7002", "10.9.2.1:7002");
    net.gateway(2).stop();
    net.start(2);
    net.expect_ping(2, "10.77.0.1");
    assert_eq!(net.status(2)["tunnels"][0]["endpoint"], "10.9.2.1:7002");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_is_called_from_an_address_that_leads_to_it() {
    let mut net = Net::star(2, "");
    net.listen(0, "[\"10.9.1.1:7001\", \"10.9.2.1:7001\"]");
    net.only_called(1);
    net.only_called(2);

    net.start_all();

    for peer in [1, 2] {
        net.expect_ping(0, &format!("10.77.0.{}", peer + 1));
        let is_known =
            || net.status(peer)["tunnels"][0]["endpoint"] == format!("10.9.{peer}.1:7001");
        assert!(wait_until(SOON, is_known), "{}", net.status(peer));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn hosts_without_ipv4_or_without_ipv6_have_a_tunnel() {
    let mut net = Net::pair("");
    net.enable_v6(0, "eth1", "fd09::1/64");
    net.enable_v6(1, "eth0", "fd09::2/64");
    for (node, interface) in [(0, "eth1"), (1, "eth0")] {
        net.run(node, &format!("ip -4 address flush dev {interface}"));
        net.listen(node, "\"[::]:51900\"");
    }
    net.edit(0, "10.9.1.2:51900", "[fd09::2]:51900");
    net.edit(1, "10.9.1.1:51900", "[fd09::1]:51900");

    net.start_all();
    net.expect_pings(0, "10.77.0.2", 3);

    // The others have IPv6 switched off, as all namespaces of these tests have at first.
    let mut net = Net::pair("");
    for node in [0, 1] {
        net.edit(node, &format!(", \"fd77::{}/64\"", node + 1), "");
        net.edit(node, &format!(", \"fd77::{}/128\"", 2 - node), "");
        net.listen(node, "[\"0.0.0.0:51900\", \"0.0.0.0:51901\"]");
    }
    net.start_all();
    net.expect_pings(0, "10.77.0.2", 3);
}

impl Net {
    fn listen(&self, node: usize, listen: &str) {
        self.edit(node, "[tunnel]\n", &format!("[tunnel]\nlisten = {listen}\n"));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_address_that_is_not_there_at_the_start_is_waited_for() {
    let mut net = Net::pair("");
    net.edit(0, "[tunnel]", "[tunnel]\nlisten = [\"10.9.1.77:51900\"]");
    net.start(1);
    net.start(0);
    let state = |net: &Net| net.status(0)["services"][0]["state"].clone();
    assert_eq!(state(&net), "failed", "{}", net.status(0));

    net.run(0, "ip address add 10.9.1.77/24 dev eth1");

    net.expect_ping(0, "10.77.0.2");
    assert_eq!(state(&net), "running", "{}", net.status(0));
}
