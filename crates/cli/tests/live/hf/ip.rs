//! IP over the radio.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Net, SOON, ip_client};
use crate::namespaces::{TRACKWAY, undisturbed, wait_until};
use testbed::traffic::Transfer;

#[test]
#[ignore = "needs root: run by ./test"]
fn ping_and_tcp_cross_in_both_versions() {
    let mut net = Net::with_radio("--speed 240000 --ber 1e-6 --seed 6");
    net.start_ip_clients();

    for address in ["10.88.0.2", "fd88::2"] {
        net.expect_ping(0, address);
        let (from, to) = (&net.hosts[0], &net.hosts[1]);
        let transfer = Transfer::start(from, (to, address), 100_000);
        transfer.finish(2 * SOON);
    }

    let status = net.status(0);
    assert!(status["ipclient_packets_in"].as_u64() > Some(50), "{status}");
    assert_eq!(status["ipclient"]["state"], "bound", "{status}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn it_works_at_9600_bits_a_second_with_errors() {
    let mut net = Net::with_radio("--speed 9600 --ber 1e-5 --seed 7");
    net.start_ip_clients();

    net.expect_ping(0, "10.88.0.2");
    let (from, to) = (&net.hosts[0], &net.hosts[1]);
    let transfer = Transfer::start(from, (to, "10.88.0.2"), 5_000);

    transfer.finish(2 * SOON);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn long_packets_are_cut_by_the_kernel_and_refused_where_they_may_not_be() {
    let mut net = Net::with_radio("--speed 240000 --seed 8");
    net.start_ip_clients();

    let command = "ping -n -c 1 -W 60 -s 4000 10.88.0.2";
    let cut = net.nets.run(&net.hosts[0], command);
    let command = "ping -n -c 1 -W 5 -M do -s 2040 10.88.0.2";
    let refused = net.nets.try_run(&net.hosts[0], command);

    assert!(cut.contains(" 0% packet loss"), "{cut}");
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(complaint.contains("mtu=2048"), "{complaint}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_starts_again_is_reached_again() {
    let mut net = Net::with_radio("--speed 240000 --seed 9");
    net.start_ip_clients();
    net.expect_ping(0, "10.88.0.2");

    // A client that crashes.
    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);
    let is_gone = wait_until(SOON, || {
        !net.nets.try_run(&net.hosts[1], "ip link show dev trackway-hf0").status.success()
    });
    assert!(is_gone, "the device is left");
    net.start_ip_client(1);
    net.expect_state(1, "ipclient", "bound");
    net.expect_ping(0, "10.88.0.2");

    // The nodes, while the clients go on.
    net.radio().signal(Signal::SIGKILL);
    net.radio().finish(SOON);
    net.expect_state(0, "ipclient", "no connection");
    let refused = net.nets.try_run(&net.hosts[0], "ping -n -c 1 -W 2 10.88.0.2").stdout;
    net.start_radio("--speed 240000 --seed 10");
    for host in [0, 1] {
        net.expect_state(host, "ipclient", "bound");
    }
    net.expect_ping(1, "10.88.0.1");

    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert!(refused.contains("100% packet loss"), "{refused}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_sends_to_a_node_without_an_ip_client_is_told() {
    let mut net = Net::with_radio("--speed 240000 --seed 11");
    net.start_ip_clients();
    net.expect_ping(0, "10.88.0.2");

    net.gateway(1).signal(Signal::SIGTERM);
    net.gateway(1).finish(SOON);
    let said = net.nets.try_run(&net.hosts[0], "ping -n -c 3 -i 2 -W 20 10.88.0.2").stdout;

    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("Destination Host Unreachable"), "{said}");
    let comes = wait_until(SOON, || net.status(0)["ipclient_unreceived"].as_u64() == Some(3));
    assert!(comes, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn no_device_stays_behind_however_it_ends() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let mut net = Net::new();
        net.start_ip_client(0);
        let before = net.nets.run(&net.hosts[0], "ip route show table all");

        net.gateway(0).signal(signal);
        let began = Instant::now();
        net.gateway(0).finish(SOON);

        assert!(before.contains("trackway-hf0"), "{before}");
        assert!(began.elapsed() < Duration::from_secs(5));
        let is_clean = wait_until(SOON, || {
            !net.nets.run(&net.hosts[0], "ip route show table all").contains("trackway-hf0")
        });
        assert!(is_clean, "{signal}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_for_the_radio_goes_nowhere_else() {
    let mut net = Net::with_radio("--speed 240000 --seed 14");
    let [host, other] = net.hosts.clone();
    net.nets.cable((&host, "eth0"), (&other, "eth0"));
    for (name, own) in [(&host, 1), (&other, 2)] {
        net.nets.run(name, "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0");
        net.nets.address(name, "eth0", &format!("10.9.0.{own}/24"));
        net.nets.run(name, &format!("ip address add fd09::{own}/64 dev eth0 nodad"));
    }
    for router in ["10.9.0.2", "fd09::2"] {
        net.nets.run(&host, &format!("ip route add default via {router}"));
    }
    let inside = ["10.88.0.2", "fd88::2"];
    let clear = |net: &Net| net.nets.clear(&host, (&other, "eth0"), &inside);
    let claimed = |net: &Net| net.nets.claimed(&host, 118);
    net.start_ip_clients();
    let before = claimed(&net);
    assert_eq!(before.lines().count(), 4, "{before}");

    net.nets.run(&host, "ip link set trackway-hf0 down");
    assert_eq!(clear(&net), 0);
    net.nets.run(&host, "ip link set trackway-hf0 up");
    let is_back = wait_until(SOON, || claimed(&net) == before);
    assert!(is_back, "{}", claimed(&net));
    inside.iter().for_each(|address| net.expect_ping(0, address));
    let status = net.status(0);
    assert!(status["ipclient_routes_restored"].as_u64() >= Some(2), "{status}");

    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);
    assert_eq!(clear(&net), 0, "{}", claimed(&net));
    let said = net.nets.run(&host, &format!("{TRACKWAY} down"));
    assert!(said.contains("removed: unreachable 10.88.0.2/32 in table main\n"), "{said}");
    assert!(said.contains("removed: nftables table inet trackway_ipclient\n"), "{said}");
    assert_eq!((said.lines().count(), &claimed(&net)[..]), (3, ""), "{said}");
    // It is the default route that would have led them there, all the while.
    assert_eq!(clear(&net), 4);

    net.start_ip_client(0);
    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);
    net.start_ip_client(0);
    assert_eq!(claimed(&net), before);
    let (code, said) = net.gateway(0).stop();
    assert_eq!((code, &claimed(&net)[..]), (Some(0), ""), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_came_by_radio_for_private_addresses_follows_no_default_route() {
    let mut net = Net::with_radio("--speed 240000 --seed 15");
    let [_, host] = net.hosts.clone();
    let outer = net.nets.add("outer");
    net.nets.cable((&host, "eth0"), (&outer, "eth0"));
    net.nets.address(&host, "eth0", "10.9.0.1/24");
    net.nets.address(&outer, "eth0", "10.9.0.2/24");
    net.nets.run(&host, "ip route add default via 10.9.0.2");
    net.nets.run(&host, "sysctl -qw net.ipv4.ip_forward=1");
    let watch = "add table inet watch { counter clear { }; chain in { type filter hook prerouting priority 0; \
                 ip daddr 10.60.0.2 counter name clear; }; }";
    fs::write(net.nets.folder().join("watch"), watch).unwrap();
    let script = net.nets.folder().join("watch").display().to_string();
    net.nets.run(&outer, &format!("nft -f {script}"));
    let wide = ip_client(0).replace("\"10.88.0.2/32\"", "\"10.88.0.2/32\", \"10.60.0.0/24\"");
    net.start_gateway(0, &wide);
    net.start_ip_client(1);
    for host in [0, 1] {
        net.expect_state(host, "ipclient", "bound");
    }
    net.expect_ping(0, "10.88.0.2");
    let comes = |net: &Net| {
        net.nets.try_run(&net.hosts[0], "ping -n -c 1 -W 1 10.60.0.2");
        !net.nets.run(&outer, "nft list counter inet watch clear").contains("packets 0 ")
    };

    let is_told = wait_until(SOON, || {
        assert!(!comes(&net));
        net.status(1)["faults"].to_string().contains("dropped-in-clear")
    });

    assert!(is_told, "{}", net.status(1));
    assert!(net.status(1)["ipclient_packets_in_clear"].as_u64() > Some(0));
    net.nets.run(&host, "ip route add 10.60.0.0/24 via 10.9.0.2");
    assert!(wait_until(SOON, || comes(&net)));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_radio_for_everything_leaves_its_server_in_reach() {
    let mut net = Net::new();
    let [host, other] = net.hosts.clone();
    net.nets.cable((&host, "eth0"), (&other, "eth0"));
    net.nets.address(&host, "eth0", "10.9.0.1/24");
    net.nets.address(&other, "eth0", "10.9.0.2/24");
    net.nets.run(&host, "ip route add default via 10.9.0.2");
    net.nets.run(&other, "ip address add 203.0.113.1 dev lo");
    let everything = ip_client(0)
        .replacen('\n', "\nserver = \"203.0.113.1:5066\"\n", 1)
        .replace("\"10.88.0.2/32\"", "\"0.0.0.0/0\"");
    let server = net.nets.within(&other, || TcpListener::bind("203.0.113.1:5066").unwrap());
    server.set_nonblocking(true).unwrap();

    net.start_gateway(0, &everything);

    let route = |mark: &str| net.nets.run(&host, &format!("ip route get 203.0.113.1 {mark}"));
    assert!(route("").contains("trackway-hf0"), "{}", route(""));
    assert!(route("mark 0x7472776c").contains("eth0"), "{}", route("mark 0x7472776c"));
    assert!(wait_until(SOON, || server.accept().is_ok()), "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn headers_are_compressed_once_both_ends_know_it() {
    let mut net = Net::with_radio("--speed 9600 --seed 12");
    net.start_ip_clients();

    for (address, len) in [("10.88.0.2", 57), ("fd88::2", 33)] {
        for _ in 0..3 {
            let unanswered = net.nets.unanswered(&net.hosts[0], address, 1, len);
            assert!(unanswered.is_empty(), "{address}: {}", net.status(0));
        }
    }
    expect_message(&net, 0, "10.88.0.2");
    expect_message(&net, 1, "10.88.0.1");

    for host in [0, 1] {
        let status = net.status(host);
        let count = |name: &str| status[format!("ipclient_{name}")].as_u64().unwrap();
        assert!(count("headers_compressed") >= 5 && count("headers_restored") >= 5, "{status}");
        assert!(count("headers_octets_after") < count("headers_octets_before"), "{status}");
        assert_eq!((count("headers_unknown"), count("headers_mismatched")), (0, 0), "{status}");
        assert!(count("announcements_sent") <= 2, "{status}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_end_that_compresses_reaches_one_that_does_not() {
    let mut net = Net::with_radio("--speed 9600 --seed 13");
    net.start_ip_client(0);
    let plain = ip_client(1).replacen('\n', "\ncompress-headers = false\n", 1);
    net.start_gateway(1, &plain);
    for host in [0, 1] {
        net.expect_state(host, "ipclient", "bound");
    }

    for _ in 0..3 {
        net.expect_ping(0, "10.88.0.2");
        net.expect_ping(1, "10.88.0.1");
    }
    expect_message(&net, 0, "10.88.0.2");

    let [sends, receives] = [0, 1].map(|host| net.status(host));
    assert_eq!(sends["ipclient_announcements_sent"], 1, "{sends}");
    assert_eq!(sends["ipclient_headers_compressed"], 0, "{sends}");
    assert_eq!(receives["ipclient_announcements_refused"], 1, "{receives}");
    assert_eq!(receives["ipclient_announcements_sent"], 0, "{receives}");
}

/// Expects a UDP datagram of an odd size from one host at the other.
fn expect_message(net: &Net, from: usize, to: &str) {
    let bind = |host: usize| {
        net.nets.within(&net.hosts[host], || {
            let mut bound = None;
            // A program that another test starts holds the socket of before for a moment.
            wait_until(SOON, || {
                bound = UdpSocket::bind("0.0.0.0:4000").ok();
                bound.is_some()
            });
            bound.expect("port 4000 is free")
        })
    };
    let [sender, receiver] = [bind(from), bind(1 - from)];
    receiver.set_read_timeout(Some(SOON)).unwrap();

    sender.send_to(&[0x5a; 37], (to, 4_000)).unwrap();

    let mut heard = [0; 100];
    assert_eq!(undisturbed(|| receiver.recv(&mut heard)).unwrap(), 37);
    assert_eq!(heard[..37], [0x5a; 37]);
}
