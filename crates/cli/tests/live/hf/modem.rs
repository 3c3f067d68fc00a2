//! Nodes of `trackway run` on modems behind TCP.

use nix::sys::signal::Signal;

use super::sis::UNIDATA_CONFIRM;
use super::{A, B, Net, SOON};

#[test]
#[ignore = "needs root: run by ./test"]
fn nodes_reach_each_other_by_modems_behind_tcp() {
    let mut net = Net::with_radio("--modem-only --speed 240000 --seed 11");
    for host in [0, 1] {
        start_node(&mut net, host, "");
    }
    let (mut a, mut b) = (net.bind(0, 3), net.bind(1, 3));

    a.send(B, 3, b"there");
    assert_eq!(b.receive(), b"there");
    a.expect(UNIDATA_CONFIRM);
    b.send(A, 3, b"and back");

    assert_eq!(a.receive(), b"and back");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_modem_that_starts_again_is_used_again() {
    let options = "--modem-only --speed 240000 --seed 12";
    let mut net = Net::with_radio(options);
    for host in [0, 1] {
        start_node(&mut net, host, "");
    }
    net.radio().signal(Signal::SIGKILL);
    net.radio().finish(SOON);
    net.expect_state(0, "s5066", "no modem");

    net.start_radio(options);
    for host in [0, 1] {
        net.expect_state(host, "s5066", "ready");
    }
    let (mut a, mut b) = (net.bind(0, 3), net.bind(1, 3));
    a.send(B, 3, b"again");

    assert_eq!(b.receive(), b"again");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ip_and_the_node_run_from_one_file() {
    let mut net = Net::with_radio("--modem-only --speed 240000 --seed 13");
    for host in [0, 1] {
        let more = super::ip_client(host);
        start_node(&mut net, host, &more);
    }
    for host in [0, 1] {
        net.expect_state(host, "ipclient", "bound");
    }

    net.expect_ping(0, "10.88.0.2");
}

/// Starts the node of a host and waits until it has its modem.
fn start_node(net: &mut Net, host: usize, more: &str) {
    let address = ["0.10.20.30", "0.10.20.31"][host];
    let config = format!(
        "[s5066]\naddress = \"{address}\"\nmodem = \"127.0.0.1:3000\"\nwaveform = \"240000/short\"\n{more}"
    );
    net.start_gateway(host, &config);
    net.expect_state(host, "s5066", "ready");
}
