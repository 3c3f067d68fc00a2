//! Tests that messages between neighbours reach the routing daemon listening for them.

use std::time::{Duration, Instant};

use super::daemons::{Frr, has_babel, has_frr, start_babel};
use super::network::{Network, SOON, address};
use crate::namespaces::wait_until;

/// Four seconds until a designated router is chosen, and some more.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
#[ignore = "needs root: run by ./test"]
fn ospf_becomes_adjacent_on_a_broadcast_network() {
    if has_frr() {
        expect_alike("show ip ospf neighbor", "Full/");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn bfd_over_a_single_hop_comes_up() {
    if has_frr() {
        expect_alike("show bfd peers brief", " up ");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn babel_announces_no_address_of_ours() {
    if !has_babel() {
        return;
    }
    let mut network = Network::chain(&[""]);
    // Babel's routes to loopbacks, not ours.
    for node in [0, 1] {
        network.run(node, &format!("ip route delete {}", address(1 - node)));
    }
    network.start_gateways(&[1], "");
    start_babel(&mut network, 0, &[96]);
    start_babel(&mut network, 1, &[96]);

    let mut learnt = String::new();
    let is_told = wait_until(PATIENCE, || {
        learnt = network.run(0, "ip route show proto babel");
        learnt.contains(&address(1))
    });

    assert!(is_told, "{learnt}");
    // All addresses of a node are announced together.
    assert!(!learnt.contains("192.0.0."), "{learnt}");
}

/// Expects both of two neighbours to answer `question` with `answer`, with gateways as without.
fn expect_alike(question: &str, answer: &str) {
    let mut network = Network::chain(&[""]);
    let plain = time_until(&mut network, question, answer);
    network.start_gateways(&[0, 1], "");
    let hbh = time_until(&mut network, question, answer);

    let story = format!("{question}: {plain:?} plain, {hbh:?} by HBH\n{}", network.statuses());
    assert!(plain.is_ok(), "{story}");
    assert!(hbh.is_ok(), "{story}");
}

/// How long both take to say so; otherwise what they say at last.
fn time_until(network: &mut Network, question: &str, answer: &str) -> Result<Duration, String> {
    let started = Instant::now();
    let daemons = [
        Frr::start(network, 0, &[10], &[("10.9.0.2", "eth0")]),
        Frr::start(network, 1, &[10], &[("10.9.0.1", "eth0")]),
    ];
    let said = |network: &Network| [0, 1].map(|node| daemons[node].ask(network, node, question));
    let is_so = wait_until(PATIENCE, || said(network).iter().all(|said| said.contains(answer)));
    let outcome = if is_so { Ok(started.elapsed()) } else { Err(said(network).concat()) };
    for daemon in daemons {
        daemon.stop(network);
    }
    // What was learnt goes too.
    wait_until(SOON, || network.run(0, "ip route show proto ospf").is_empty());
    outcome
}
