//! Tests that only a tunnel ended for good lets packets leave in clear.

use std::fs;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;
use crate::storm::HOST;

/// A service that cannot start where there is a device of this name.
const GRE: &str = "[[gre]]\nlocal = \"10.9.1.1\"\nremote = \"10.9.1.9\"\nto = [\"10.99.0.0/16\"]\n";

/// What refuses packets for the peer's networks.
const REFUSALS: usize = 2;

impl Net {
    fn refusals(&self) -> usize {
        self.claimed(0).matches("unreachable").count()
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn after_a_clean_end_and_after_a_crash_and_down_the_host_is_as_before() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\", \"10.77.0.2/32\"");
    // To be loosened for the peer's datagrams, and given back.
    net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
    let host = |net: &Net| HOST.map(|command| net.run(0, command));
    assert!(wait_until(SOON, || !host(&net)[0].contains("tentative")));
    let before = host(&net);
    let expect_before = |net: &Net, when: &str| {
        let is_as_before = wait_until(SOON, || host(net) == before);
        assert!(is_as_before, "{when}: {before:#?}, {:#?}", host(net));
    };

    net.start_all();
    for (command, (before, now)) in HOST.iter().zip(before.iter().zip(host(&net))) {
        assert!(*before != now || *command == "ip -6 rule", "{command} shows nothing of ours");
    }
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
    expect_before(&net, "after a clean end");

    net.start(0);
    net.crash(0);
    net.run(0, &format!("{TRACKWAY} down"));
    expect_before(&net, "after a crash and down");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_start_that_fails_after_a_crash_opens_nothing() {
    let mut net = Net::pair("");
    net.start_all();
    net.crash(0);
    net.run(0, "ip link add trackway-gre0 type veth peer name other0");
    net.edit(0, "[tunnel]", &format!("{GRE}[tunnel]"));

    let file = net.nets.folder().join("0.toml");
    let failed =
        net.nets.try_run(&net.nodes[0], &format!("timeout 20 {TRACKWAY} run {}", file.display()));

    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("trackway-gre0"), "{said}");
    assert_eq!((net.claimed(0).lines().count(), net.refusals()), (REFUSALS, REFUSALS), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_clean_stop_leaves_nothing_of_a_tunnel_that_waits_to_be_started_again() {
    let mut net = Net::pair("");
    net.start_all();
    net.run(0, "ip link delete trackway-nc0");
    net.run(0, "ip link add trackway-nc0 type veth peer name other0");
    let has_failed =
        wait_until(SOON, || net.status(0)["services"].to_string().contains("\"failed\""));
    assert!(has_failed, "{}", net.status(0));
    net.expect_asked(0, (3, "[service-down]"));
    assert_eq!(net.refusals(), REFUSALS, "{}", net.claimed(0));

    let (code, said) = net.gateway(0).stop();

    assert_eq!((code, net.claimed(0)), (Some(0), String::new()), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reload_without_the_tunnel_that_is_refused_leaves_no_gap() {
    let mut net = Net::pair("");
    net.start_all();
    net.run(0, "ip link add trackway-gre0 type veth peer name other0");
    let node = net.nodes[0].clone();
    let monitor = net.nets.start(&node, "ip -o monitor route", "");
    let is_awake = wait_until(SOON, || {
        net.run(0, "ip route add 10.99.9.9 dev lo");
        net.run(0, "ip route del 10.99.9.9 dev lo");
        net.nets.printed(monitor).contains("10.99.9.9")
    });
    assert!(is_awake, "nothing is heard");
    let file = net.nets.folder().join("0.toml");
    let text = fs::read_to_string(&file).unwrap();

    fs::write(&file, GRE).unwrap();
    let refused = net.nets.try_run(&node, &format!("{TRACKWAY} reload"));
    fs::write(&file, text).unwrap();

    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    net.expect_ping(0, "10.77.0.2");
    net.run(0, "ip route add 10.99.9.8 dev lo");
    assert!(wait_until(SOON, || net.nets.printed(monitor).contains("10.99.9.8")));
    let said = net.nets.printed(monitor);
    assert!(!said.contains("Deleted unreachable"), "{said}");

    fs::write(&file, format!("{GRE}device = \"trackway-gre1\"\n")).unwrap();
    let said = net.run(0, &format!("{TRACKWAY} reload"));
    assert!(said.contains("tunnel: ended"), "{said}");
    assert_eq!(net.claimed(0), "");
}
