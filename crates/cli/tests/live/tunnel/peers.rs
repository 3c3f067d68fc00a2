//! Tests several peers, peers that move or restart, and peers that share an interface with HBH.

use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Net, SOON};
use crate::namespaces::wait_until;

#[test]
#[ignore = "needs root: run by ./test"]
fn either_end_may_start_anew() {
    let mut net = Net::pair("--delay 5ms");
    net.start_all();
    net.expect_ping(0, "10.77.0.2");

    for end in [0, 1] {
        let (code, said) = net.gateway(end).stop();
        assert_eq!(code, Some(0), "{said}");
        assert!(!net.has_device(end), "the device is left");
        net.start(end);
        net.expect_ping(1 - end, &format!("10.77.0.{}", end + 1));
        net.expect_ping(end, &format!("10.77.0.{}", 2 - end));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_transfer_survives_that_either_end_crashes_and_starts_anew() {
    let mut net = Net::pair("--rate 10mbit --delay 5ms");
    net.start_all();
    let transfer = net.transfer(0, 1, 4_000_000);

    transfer.wait_for(500_000, SOON);
    net.crash_and_start(1);
    transfer.wait_for(transfer.received() + 500_000, SOON);
    net.crash_and_start(0);

    transfer.finish(2 * SOON);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_transfer_goes_on_when_either_end_has_another_address() {
    let mut net = Net::pair("--rate 10mbit --delay 5ms --loss 1% --seed 1");
    net.start_all();
    let transfer = net.transfer(0, 1, 4_000_000);

    transfer.wait_for(500_000, SOON);
    net.run(1, "ip address del 10.9.1.2/24 dev eth0");
    net.run(1, "ip address add 10.9.1.12/24 dev eth0");
    transfer.wait_for(transfer.received() + 500_000, SOON);
    net.run(0, "ip address del 10.9.1.1/24 dev eth1");
    net.run(0, "ip address add 10.9.1.11/24 dev eth1");
    transfer.finish(2 * SOON);

    for (node, endpoint) in [(0, "10.9.1.12:51900"), (1, "10.9.1.11:51900")] {
        let is_known = || net.status(node)["tunnels"][0]["endpoint"] == endpoint;
        assert!(wait_until(SOON, is_known), "{endpoint}: {}", net.status(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_host_with_two_addresses_answers_from_the_one_that_was_called() {
    let mut net = Net::pair("--rate 20mbit --delay 2ms");
    net.run(0, "ip address add 10.9.1.11/24 dev eth1");
    net.only_called(0);
    let file = net.nets.folder().join("1.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("10.9.1.1:51900", "10.9.1.11:51900")).unwrap();
    net.start_all();

    net.transfer(0, 1, 500_000).finish(SOON);
    net.transfer(1, 0, 500_000).finish(SOON);
    assert_eq!(net.status(1)["tunnels"][0]["endpoint"], "10.9.1.11:51900");
    assert_eq!(net.status(1)["tunnels"][0]["handshakes"]["moves"], 0, "{}", net.status(1));

    // Without that address the other one is as good.
    let transfer = net.transfer(0, 1, 2_000_000);
    transfer.wait_for(200_000, SOON);
    net.run(0, "ip address del 10.9.1.11/24 dev eth1");
    transfer.finish(2 * SOON);
    assert_eq!(net.status(1)["tunnels"][0]["endpoint"], "10.9.1.1:51900");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn each_peer_gets_what_is_its_own_and_a_dead_one_holds_nobody_up() {
    let mut net = Net::star(3, "--rate 20mbit --delay 2ms");
    net.start_all();
    let at_dead = net.nets.within(&net.nodes[0], || UdpSocket::bind("10.77.0.1:0").unwrap());
    let is_over = AtomicBool::new(false);
    // A failed transfer cannot report its end.
    let at_last = Instant::now() + 5 * SOON;

    net.gateway(3).signal(Signal::SIGSTOP);
    thread::scope(|scope| {
        // From before the transfers until after, more than comes out.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && Instant::now() < at_last {
                let _ = at_dead.send_to(&[0; 1_000], "10.77.0.4:9");
                thread::sleep(Duration::from_micros(100));
            }
        });
        let transfers = [(0, 1), (0, 2), (1, 0), (2, 0)];
        let transfers = transfers.map(|(from, to)| net.transfer(from, to, 2_000_000));
        // Alone they take a second or two.
        for transfer in transfers {
            transfer.finish(Duration::from_secs(20));
        }
        is_over.store(true, Ordering::Relaxed);
    });

    let status = net.status(0);
    let of = |peer: usize, what: &str| status["tunnels"][peer - 1][what].as_u64().unwrap();
    for peer in [1, 2] {
        assert!((2_000_000..4_000_000).contains(&of(peer, "octets_in")), "{status}");
        assert!((2_000_000..4_000_000).contains(&of(peer, "octets_out")), "{status}");
    }
    assert!(of(3, "packets_in") > 100, "{status}");
    assert_eq!(net.count(0, "tunnel_packets_disallowed"), 0, "{status}");
    net.gateway(3).signal(Signal::SIGCONT);
    net.expect_ping(0, "10.77.0.4");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_that_only_received_for_long_is_heard_at_once() {
    let mut net = Net::pair("");
    net.start_all();

    flood(&mut net, "100M");

    // What is not heard for 2 s the tunnel gives up.
    net.expect_pings(1, "10.77.0.1", 5);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn hbh_and_a_tunnel_share_an_interface() {
    let mut net = Net::pair("");
    for (node, interface) in ["eth1", "eth0"].into_iter().enumerate() {
        net.write_config(node, &net.keys, &format!("hbh.interfaces = [\"{interface}\"]"));
    }
    net.start_all();
    net.expect_count(0, "neighbours", 1);
    net.expect_count(1, "neighbours", 1);

    flood(&mut net, "500M");

    net.transfer(0, 1, 2_000_000).finish(SOON);
    net.transfer(1, 0, 2_000_000).finish(SOON);
    for node in [0, 1] {
        assert!(net.count(node, "hbh_data_sent") > 1_000, "{}", net.status(node));
    }
}

/// Sends datagrams for three seconds. The datagrams fit even before path MTU discovery ends, because iperf3 stops at an
/// error about too long datagrams.
fn flood(net: &mut Net, rate: &str) {
    net.iperf(3, &["-u", "-b", rate, "-l", "1100"]);
}
