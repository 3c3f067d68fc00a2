//! Tests link outages longer than the neighbours' timeout.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::expect_one_of_three;
use crate::namespaces::wait_until;
use crate::routing::network::{Network, address};
use testbed::traffic::{ENDLESS, Transfer};

const LINK: &str = "--rate 4mbit --delay 5ms";
const PATIENCE: Duration = Duration::from_secs(60);
/// TCP goes on within this time of the link's return.
const GOES_ON: Duration = Duration::from_secs(1);
/// So long its own timer would let it wait, in milliseconds.
const TIMER: f64 = 5_000.0;

#[test]
#[ignore = "needs root: run by ./test"]
fn tcp_goes_on_within_a_second_of_a_links_return() {
    expect_one_of_three(|| {
        let (silent, story) = silence();
        (silent <= GOES_ON, format!("silent for {silent:?}\n{story}"))
    });
}

/// How long a connection is silent after the link's return, and a report.
fn silence() -> (Duration, String) {
    let mut network = Network::chain(&[LINK, LINK]);
    network.start_gateways(&[0, 1, 2], "");
    let names = [0, 2].map(|node| network.nodes[node].name.clone());
    let (source, target) = (address(0), address(2));
    let transfer = Transfer::start_from((&names[0], &source), (&names[1], &target), ENDLESS);
    transfer.wait_for(400_000, PATIENCE);

    // Until packets have waited for another way in vain, and TCP has just tried again.
    network.signal_link(1, Signal::SIGSTOP);
    let is_away = wait_until(PATIENCE, || {
        network.count(1, "segments_kept") > 0 && timer_left(&network) > TIMER
    });
    assert!(is_away, "{}", network.statuses());
    let before = transfer.received();
    network.signal_link(1, Signal::SIGCONT);
    let back = Instant::now();
    let goes_on = wait_until(PATIENCE, || transfer.received() > before);

    let silent = back.elapsed();
    assert!(goes_on, "{}", network.statuses());
    transfer.end();
    (silent, network.statuses())
}

/// Until the sender's TCP tries again by itself, in milliseconds.
fn timer_left(network: &Network) -> f64 {
    let said = network.run(0, &format!("ss -tinH dst {}", address(2)));
    let field = |key| -> f64 {
        let mut words = said.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.parse().ok()).unwrap_or_default()
    };
    field("rto:") - field("lastsnd:")
}
