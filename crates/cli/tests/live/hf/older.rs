//! Tests HF-PEP between this version and an earlier one.

use std::net::TcpStream;

use super::pep::{FAST, PATIENCE, pep};
use super::{Net, SOON};
use crate::namespaces::older;
use testbed::traffic::Transfer;

#[test]
#[ignore = "needs root: run by ./test"]
fn an_older_version_takes_tcp_both_ways_or_says_why_not() {
    let Some(older) = older() else { return };
    let mut net = Net::with_radio(FAST);
    net.addresses();
    net.start_gateway(0, &pep(0));
    net.nets.set_trackway(older);
    net.start_gateway(1, &pep(1));
    for host in [0, 1] {
        net.expect_state(host, "hfpep", "bound");
    }

    for (from, to, address) in [(0, 1, "10.2.0.1"), (1, 0, "10.1.0.1")] {
        let listener = net.listen(to, &format!("{address}:7"));
        let server = listener.local_addr().unwrap();
        let [near, far] = [from, to].map(|host| &net.hosts[host][..]);
        let client = net.nets.within(near, || TcpStream::connect_timeout(&server, PATIENCE));

        if client.is_ok() && listener.accept().is_ok() {
            Transfer::start(near, (far, address), 20_000).finish(2 * SOON);
        } else {
            let other = net.nets.count(far, "slep_received_other_version");
            assert!(other > 0, "{client:?}: {}\n{}", net.status(0), net.status(1));
        }
    }
}
