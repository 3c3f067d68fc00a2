//! A link that is away for longer than its neighbours wait for each other.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::network::{Network, address};
use crate::namespaces::wait_until;
use crate::transfer::Transfer;
use crate::turns::alone;

const LINK: &str = "--rate 4mbit --delay 5ms";
const OCTETS: usize = 4_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a neighbour may be silent to which packets go (7 s), and than its packets then wait for
/// another way (5 s).
const OUTAGE: Duration = Duration::from_secs(25);
/// TCP goes on within this time of the link's return; its own timer ends up to 26 s later.
const GOES_ON: Duration = Duration::from_secs(1);

#[test]
#[ignore = "needs root: run by ./test"]
fn tcp_goes_on_within_a_second_of_a_links_return() {
    let _alone = alone();
    let mut network = Network::chain(&[LINK, LINK]);
    network.start_gateways(&[0, 1, 2], "");
    let names = [0, 2].map(|node| network.nodes[node].name.clone());
    let (source, target) = (address(0), address(2));
    let transfer =
        Transfer::start_from(&network.nets, (&names[0], &source), (&names[1], &target), OCTETS);
    transfer.wait_for(OCTETS / 10, PATIENCE);

    network.signal_link(1, Signal::SIGSTOP);
    let is_kept = wait_until(PATIENCE, || network.count(1, "segments_kept") > 0);
    assert!(is_kept, "{}", network.statuses());
    let cut = Instant::now();
    wait_until(OUTAGE, || cut.elapsed() >= OUTAGE);
    let before = transfer.received();
    network.signal_link(1, Signal::SIGCONT);
    let back = Instant::now();
    let goes_on = wait_until(PATIENCE, || transfer.received() > before);

    let silent = back.elapsed();
    assert!(goes_on && silent <= GOES_ON, "silent for {silent:?}\n{}", network.statuses());
    transfer.finish(PATIENCE);
}
