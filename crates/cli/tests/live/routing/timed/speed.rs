//! One TCP connection is as fast with gateways as without.

use std::thread;

use super::expect_one_of_three;
use crate::routing::network::{Flow, Network};

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
    compare(&[CLEAN], &[0, 1], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_clean_hop_is_no_slower_for_bbr() {
    compare(&[CLEAN], &[0, 1], "bbr", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn two_clean_hops_are_no_slower_for_cubic() {
    compare(&[CLEAN, CLEAN], &[0, 1, 2], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_narrower_second_hop_is_no_slower_for_cubic() {
    compare(&[CLEAN, SLOW], &[0, 1, 2], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn two_slow_clean_hops_are_no_slower_for_cubic() {
    compare(&[SLOW, SLOW], &[0, 1, 2], "cubic", CLEAN_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_before_the_first_gateway_are_not_hidden_from_cubic() {
    compare(&[LOSSY, CLEAN], &[1, 2], "cubic", LOSSY_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_before_the_first_gateway_are_not_hidden_from_bbr() {
    compare(&[LOSSY, CLEAN], &[1, 2], "bbr", LOSSY_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_behind_the_last_gateway_are_not_hidden_from_cubic() {
    compare(&[CLEAN, LOSSY], &[0, 1], "cubic", LOSSY_SHARE);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn losses_behind_the_last_gateway_are_not_hidden_from_bbr() {
    compare(&[CLEAN, LOSSY], &[0, 1], "bbr", LOSSY_SHARE);
}

/// Expects this share of the rate without gateways from the first node to the last.
///
/// Both are measured at the same time, so that they have the same machine.
fn compare(links: &[&str], gateways: &[usize], control: &str, share: f64) {
    let flow = Flow { from: 0, to: links.len(), control, seconds: 5 };
    expect_one_of_three(|| {
        let (mut plain, mut hbh) = (Network::chain(links), Network::chain(links));
        hbh.start_gateways(gateways, "");
        let (plain, rate) = thread::scope(|scope| {
            let plain = scope.spawn(|| plain.rate(flow));
            let rate = hbh.rate(flow);
            (plain.join().unwrap(), rate)
        });
        let figures = format!("{plain:.2} Mbit/s plain, {rate:.2} Mbit/s by HBH, by {control}");

        (rate >= share * plain, format!("{figures}\n{}", hbh.statuses()))
    });
}
