//! Nodes of `trackway run` on modems behind TCP.

use std::net::TcpListener;

use nix::sys::signal::Signal;

use super::sis::{SUBNET_AVAILABILITY, UNIDATA_CONFIRM};
use super::{A, B, Net, SOON};
use crate::namespaces::wait_until;

/// The reason code by which our nodes identify themselves to clients.
const OURS: u8 = 0x54;

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
    let mut witness = net.bind(0, 7);
    assert_eq!(witness.expect(SUBNET_AVAILABILITY).body, [1, OURS]);
    net.radio().signal(Signal::SIGKILL);
    net.radio().finish(SOON);
    net.expect_state(0, "s5066", "no modem");
    assert_eq!(witness.expect(SUBNET_AVAILABILITY).body, [0, 0]);

    net.start_radio(options);
    for host in [0, 1] {
        net.expect_state(host, "s5066", "ready");
    }
    assert_eq!(witness.expect(SUBNET_AVAILABILITY).body, [1, 0]);
    let (mut a, mut b) = (net.bind(0, 3), net.bind(1, 3));
    a.send(B, 3, b"again");

    assert_eq!(b.receive(), b"again");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_modem_that_is_not_there_or_says_nothing_is_a_fault_until_it_works() {
    let mut net = Net::new();
    let config = "[s5066]\naddress = \"0.10.20.30\"\nmodem = \"127.0.0.1:3000\"\nwaveform = \"240000/short\"\n";
    net.start_gateway(0, config);

    let silent = "s5066: the modem at 127.0.0.1:3000 refuses or is silent";
    net.expect_silent(0, &[silent]);
    let mute = net.nets.within(&net.hosts[0], || TcpListener::bind("127.0.0.1:3000").unwrap());
    let _connected = mute.accept().unwrap();
    // The same fault goes on.
    net.expect_silent(0, &[silent]);
    let printed = net.nets.printed(net.gateways[0].unwrap());
    assert_eq!(printed.matches("fault code=no-answer").count(), 1, "{printed}");
    drop(mute);
    net.start_radio("--modem-only --speed 240000 --seed 15");

    net.expect_state(0, "s5066", "ready");
    net.expect_silent(0, &[]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ip_and_the_node_run_from_one_file_and_end_without_complaints() {
    let mut net = Net::with_radio("--modem-only --speed 240000 --seed 13");
    for host in [0, 1] {
        let more = super::ip_client(host);
        start_node(&mut net, host, &more);
    }
    for host in [0, 1] {
        net.expect_state(host, "ipclient", "bound");
    }

    net.expect_ping(0, "10.88.0.2");
    let (_, printed) = net.gateway(0).stop();
    assert!(!printed.contains("is lost, and is made again"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nodes_follow_the_rate_of_their_modems_and_tell_of_data_that_nobody_takes() {
    let mut net = Net::with_radio("--modem-only --speed 4800 --seed 14");
    for host in [0, 1] {
        start_node(&mut net, host, "");
        assert_eq!(net.status(host)["s5066"]["waveform"], "4800/short");
    }
    let (mut a, mut b) = (net.bind(0, 3), net.bind(1, 3));

    a.send(B, 5, b"for nobody");
    a.send(B, 3, &[7; 2_000]);
    assert_eq!(b.receive(), [7; 2_000]);
    a.expect(UNIDATA_CONFIRM);

    let counter = |host: usize, name: &str| net.status(host)[name].as_u64();
    assert!(wait_until(SOON, || counter(1, "s5066_not_bound") == Some(1)), "{}", net.status(1));
    assert_eq!(counter(0, "s5066_silences"), Some(0));
    let (_, printed) = net.gateway(1).stop();
    let line = printed.lines().find(|line| line.contains("no client is bound to"));
    let line = line.unwrap_or_else(|| panic!("{printed}"));
    assert!(line.contains("0.10.20.30") && line.contains("sap=5"), "{line}");
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
