//! Tests a tunnel between this version and an earlier one.

use super::Net;
use crate::namespaces::{SOON, older, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn an_older_version_takes_tcp_both_ways_or_both_say_why_not() {
    let Some(older) = older() else { return };
    let mut net = Net::pair("--delay 5ms --loss 2%");
    net.start(0);
    net.nets.set_trackway(older);
    net.start(1);

    let says =
        |node: usize, what: &str| net.nets.printed(net.programs[node].unwrap()).contains(what);
    let both_say = |what: &str| says(0, what) && says(1, what);
    let is_decided =
        wait_until(SOON, || both_say("peer is up") || both_say("call that cannot be read"));

    assert!(is_decided, "{}\n{}", net.status(0), net.status(1));
    if both_say("peer is up") {
        net.transfer(0, 1, 500_000).finish(SOON);
        net.transfer(1, 0, 500_000).finish(SOON);
    }
}
