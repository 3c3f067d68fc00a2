//! Tests live combat nets: their traffic, their captures, and their end.

mod timed;

use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;

use super::bed::{Air, address, count};
use crate::namespaces::{SOON, is_installed, undisturbed, wait_until};

/// No noise and no topology updates, and a radio that is quick for its kind.
const QUICK: &str = "loss = 0\ntopology-spacing = \"0s\"\nkey-up = \"10ms\"\nphasing = \"5ms\"\n\
                     scheduling.persistence = 1\nscheduling.factor = 0\nconcatenate = 0";

#[test]
#[ignore = "needs root: run by ./test"]
fn stations_reach_each_other_and_ask_for_addresses_off_the_air() {
    let mut air = Air::net(3, QUICK, "");

    // One at a time, long enough for both ways.
    let ping = format!("ping -c 2 -i 3 -W 5 {}", address(2));
    assert!(air.nets.try_run(&air.nodes[0], &ping).status.success());

    let report = air.end();
    assert_eq!(on_net(&report, "frames"), [2, 0, 2], "nothing but the echoes: {report}");
    assert!(count(&report, 0, "resolving") > 0, "{report}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_broadcast_is_heard_by_those_who_hear_its_sender_and_relays_carry_the_rest() {
    let hears = format!("{QUICK}\nhears = [[\"n0\", \"n1\"], [\"n1\", \"n2\"]]");
    let mut air = Air::net(3, &hears, "");
    let socket = |node: usize| {
        air.nets.within(&air.nodes[node], || UdpSocket::bind("0.0.0.0:4000").unwrap())
    };
    let sockets = [socket(0), socket(1), socket(2)];
    sockets[0].set_broadcast(true).unwrap();
    for socket in &sockets {
        socket.set_read_timeout(Some(SOON)).unwrap();
    }

    sockets[0].send_to(&[1; 100], "10.128.0.255:4000").unwrap();
    let heard = undisturbed(|| sockets[1].recv(&mut [0; 200])).unwrap();
    // If node 2 had heard the first datagram, that datagram would arrive before this one.
    sockets[0].send_to(&[2; 50], (address(2), 4_000)).unwrap();
    let relayed = undisturbed(|| sockets[2].recv(&mut [0; 200])).unwrap();

    assert_eq!((heard, relayed), (100, 50));
    assert_eq!(on_net(&air.end(), "relayed"), [0, 1, 0]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn curl_loads_a_page_over_tcp() {
    if !is_installed("curl", "curl") {
        return;
    }
    let mut air = Air::net(2, QUICK, "");
    let page = air.file("page");
    fs::write(&page, [7; 2_000]).unwrap();
    let folder = page.parent().unwrap().display().to_string();
    let server = format!("python3 -u -m http.server --directory {folder} 8000");
    air.nets.start(&air.nodes[1].clone(), &server, "Serving");

    let fetch = format!("curl -sS --max-time 60 http://{}:8000/page", address(1));
    let output = air.nets.try_run(&air.nodes[0], &fetch);

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, [7; 2_000]);
    assert!(on_net(&air.end(), "frames").iter().all(|frames| *frames > 3));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_urgent_overtakes_what_waits() {
    let air = Air::net(2, QUICK, "");
    let receiver = air.nets.within(&air.nodes[1], || UdpSocket::bind("0.0.0.0:4000").unwrap());
    receiver.set_read_timeout(Some(SOON)).unwrap();
    let sender = air.nets.within(&air.nodes[0], || UdpSocket::bind("0.0.0.0:0").unwrap());
    for number in 0..12 {
        sender.send_to(&[number; 300], (address(1), 4_000)).unwrap();
    }
    // Class selector 3 of DSCP.
    setsockopt(&sender, sockopt::Ipv4Tos, &(24 << 2)).unwrap();
    sender.send_to(&[99; 300], (address(1), 4_000)).unwrap();

    let order: Vec<u8> = (0..13)
        .map(|_| {
            let mut datagram = [0; 400];
            // A signal may end the wait.
            while let Err(error) = receiver.recv(&mut datagram) {
                assert_eq!(error.kind(), ErrorKind::Interrupted);
            }
            datagram[0]
        })
        .collect();

    // One may be on the air already, and another have its turn.
    let place = order.iter().position(|it| *it == 99).unwrap();
    assert!(place <= 2, "{order:?}");
    let routine: Vec<u8> = order.into_iter().filter(|it| *it != 99).collect();
    assert_eq!(routine, (0..12).collect::<Vec<u8>>());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_longer_than_the_net_allows_are_counted_and_not_sent() {
    let mut air = Air::net(2, QUICK, "");
    air.nets.run(&air.nodes[0], "ip link set dev wlan0 mtu 1500");
    air.nets.run(&air.middle, "ip link set dev n0 mtu 1500");
    let receiver = air.nets.within(&air.nodes[1], || UdpSocket::bind("0.0.0.0:4000").unwrap());
    receiver.set_read_timeout(Some(SOON)).unwrap();
    let sender = air.nets.within(&air.nodes[0], || UdpSocket::bind("0.0.0.0:0").unwrap());
    sender.send_to(&[0; 1_000], (address(1), 4_000)).unwrap();
    sender.send_to(&[0; 100], (address(1), 4_000)).unwrap();
    let received = undisturbed(|| receiver.recv(&mut [0; 2_000])).unwrap();

    let report = air.end();
    assert_eq!(received, 100);
    assert_eq!(count(&report, 0, "too_long"), 1, "{report}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_was_on_the_air_is_kept_when_it_is_interrupted() {
    let coupled = format!("{QUICK}\nacknowledgement = \"coupled\"");
    let files = "--pcap {} --record {}/net.jsonl --timeline {}/net.svg --animate {}/run.html";
    let mut air = Air::net(2, &coupled, files);
    let ping = format!("ping -c 1 -W 5 {}", address(1));
    assert!(air.nets.try_run(&air.nodes[0], &ping).status.success());
    // The last acknowledgement comes behind what the ping has waited for.
    let lines = |record: &str| record.lines().count();
    let is_over = || lines(&fs::read_to_string(air.file("net.jsonl")).unwrap()) == 4;
    assert!(wait_until(SOON, is_over));

    air.nets.program(air.program).signal(Signal::SIGINT);
    let (code, printed) = air.nets.program(air.program).finish(SOON);

    assert_eq!(code, Some(0), "{printed}");
    let record = fs::read_to_string(air.file("net.jsonl")).unwrap();
    let lines: Vec<Value> =
        record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let story: Vec<[&str; 3]> = lines
        .iter()
        .map(|it| ["kind", "from", "to"].map(|key| it[key].as_str().unwrap_or("*")))
        .collect();
    let expected =
        [["data", "n0", "n1"], ["ack", "n1", "n0"], ["data", "n1", "n0"], ["ack", "n0", "n1"]];
    assert_eq!(story, expected, "{record}");
    assert!(lines[0]["end_s"].as_f64() < lines[1]["start_s"].as_f64(), "{record}");
    let timeline = fs::read_to_string(air.file("net.svg")).unwrap();
    // The legend and both packets, the legend and both acknowledgements.
    for colour in ["#0072b2", "#009e73"] {
        assert_eq!(timeline.matches(colour).count(), 3, "{timeline}");
    }
    let capture = fs::read(air.file("net-0.pcapng")).unwrap();
    // The request and the answer, as IP packets from one to the other.
    for ends in [[10, 128, 0, 1, 10, 128, 0, 2], [10, 128, 0, 2, 10, 128, 0, 1]] {
        assert_eq!(capture.windows(8).filter(|it| *it == ends).count(), 1);
    }
    assert!(fs::read_to_string(air.file("run.html")).unwrap().contains("n1"));
}

/// What stations counted on the net.
fn on_net(report: &Value, what: &str) -> Vec<u64> {
    let stations = report["stations"].as_array().unwrap();
    stations.iter().map(|it| it["net"][what].as_u64().unwrap()).collect()
}
