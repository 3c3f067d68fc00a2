//! One TCP connection is as fast with gateways as without.

use std::fmt::Write as _;

use super::network::{Flow, Network};

const CLEAN: &str = "--rate 10mbit --delay 5ms";
const SLOW: &str = "--rate 4mbit --delay 5ms";
const LOSSY: &str = "--rate 10mbit --delay 5ms --loss 3% --seed 5";
/// Of HBH's rate over that without it, on links without loss: its headers cost 1 %.
const CLEAN_SHARE: f64 = 0.95;
/// On a link with loss, where the rate of one run differs from that of the next.
const LOSSY_SHARE: f64 = 0.8;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_clean_hop_is_no_slower_for_cubic() {
    let mut network = Network::chain(&[CLEAN]);
    compare(&mut network, &[0, 1], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_clean_hop_is_no_slower_for_bbr() {
    let mut network = Network::chain(&[CLEAN]);
    compare(&mut network, &[0, 1], "bbr", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn two_clean_hops_are_no_slower_for_cubic() {
    let mut network = Network::chain(&[CLEAN, CLEAN]);
    compare(&mut network, &[0, 1, 2], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_narrower_second_hop_is_no_slower_for_cubic() {
    let mut network = Network::chain(&[CLEAN, SLOW]);
    compare(&mut network, &[0, 1, 2], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn two_slow_clean_hops_are_no_slower_for_cubic() {
    let mut network = Network::chain(&[SLOW, SLOW]);
    compare(&mut network, &[0, 1, 2], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_before_the_first_gateway_are_not_hidden_from_cubic() {
    let mut network = Network::chain(&[LOSSY, CLEAN]);
    compare(&mut network, &[1, 2], "cubic", LOSSY_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_before_the_first_gateway_are_not_hidden_from_bbr() {
    let mut network = Network::chain(&[LOSSY, CLEAN]);
    compare(&mut network, &[1, 2], "bbr", LOSSY_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_behind_the_last_gateway_are_not_hidden_from_cubic() {
    let mut network = Network::chain(&[CLEAN, LOSSY]);
    compare(&mut network, &[0, 1], "cubic", LOSSY_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_behind_the_last_gateway_are_not_hidden_from_bbr() {
    let mut network = Network::chain(&[CLEAN, LOSSY]);
    compare(&mut network, &[0, 1], "bbr", LOSSY_SHARE);
}

/// Expects this share of the rate without gateways from the first node to the last.
///
/// A machine that is busy during one of both measurements spoils the comparison, but not three.
fn compare(network: &mut Network, gateways: &[usize], control: &str, share: f64) {
    let to = network.nodes.len() - 1;
    let flow = Flow { from: 0, to, control, seconds: 10 };
    let mut story = String::new();
    for _ in 0..3 {
        let plain = network.rate(flow);
        network.start_gateways(gateways, "");
        let hbh = network.rate(flow);
        let statuses = network.statuses();
        network.stop_gateways();
        if hbh >= share * plain {
            return;
        }
        writeln!(story, "{plain:.2} Mbit/s plain, {hbh:.2} Mbit/s by HBH\n{statuses}").unwrap();
    }
    panic!("{control}: less than {share} of plain TCP\n{story}");
}
