//! Tests that tshark reads every OLSR message with the meaning we intend.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use base::ip::udp::Datagram;
use base::rng::Rng;
use base::time::Time;
use manet::olsr::{Config, Counter, Olsr, PORT};
use manet::{Arrival, Interface, Neighbour, Router};
use sim::capture::{Capture, Direction, LinkType};

const COMPLAINTS: &str = "_ws.malformed || _ws.expert.severity >= warning || !olsr || \
    ip.checksum.status == 0 || udp.checksum.status == 0";

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_what_nodes_say_to_each_other() {
    let file = format!("trackway-olsr-{}.pcapng", std::process::id());
    let file = std::env::temp_dir().join(file);
    let mut capture = Capture::create(&file).expect("a temporary file");
    let interface = capture.add_interface("olsr", LinkType::Ip);

    let nodes = talk(|now, packet| capture.write(now, interface, Direction::Out, packet));
    capture.finish().expect("a written file");

    assert_eq!(tshark(&file, COMPLAINTS, "frame.number"), "");
    for (kind, counter) in [
        ("1", Counter::HellosSent),
        ("2", Counter::TcSent),
        ("3", Counter::MidSent),
        ("4", Counter::HnaSent),
    ] {
        let sent: u64 = nodes.iter().map(|node| node.stats().of(counter)).sum();
        let read = tshark(&file, &format!("olsr.message_type == {kind}"), "frame.number");
        assert!(sent > 5 && read.lines().count() > 5, "{counter:?}: {sent}, {read}");
    }
    let lines = |filter: &str, field: &str| {
        let read = tshark(&file, filter, field);
        read.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let first = lines("olsr.message_type == 1 && ip.src == 10.0.0.1", "olsr.vtime");
    assert!(first.iter().all(|it| it.starts_with('6')), "{first:?} in s");
    let networks = lines("olsr.message_type == 4", "olsr.netmask");
    assert!(networks.iter().all(|it| it.starts_with("0.0.0.0,255.255.0.0")), "{networks:?}");
    std::fs::remove_file(file).expect("the file");
}

/// The address of a node's interface. Four nodes stand in a line; the second has two interfaces.
fn address(node: usize, index: usize) -> Ipv4Addr {
    let number = |it: usize| u8::try_from(it).expect("few nodes");
    Ipv4Addr::new(10, number(index), 0, number(node + 1))
}

/// Four nodes in a line talk for a minute; each packet is shown.
fn talk(mut show: impl FnMut(Time, &[u8])) -> Vec<Olsr> {
    let node = |number: usize| {
        let attached = ["0.0.0.0/0", "192.168.0.0/16"].map(|it| it.parse().expect("a network"));
        let attached = if number == 3 { attached.to_vec() } else { Vec::new() };
        let config = Config { attached, ..Config::live() };
        let mut olsr = Olsr::new(config, Rng::stream(1, &format!("node {number}")));
        for index in 0..if number == 1 { 2 } else { 1 } {
            let interface = Interface { address: address(number, index), room: 1_472 };
            olsr.handle_interface(Time::ZERO, index, Some(&interface));
        }
        olsr
    };
    let mut nodes: Vec<Olsr> = (0..4).map(node).collect();
    let mut under_way = VecDeque::new();
    for millis in 0..60_000 {
        let now = Time::from_nanos(millis * 1_000_000);
        while let Some((to, from, payload)) = under_way.pop_front() {
            let from = Neighbour { interface: 0, address: from };
            let arrival = Arrival { from, is_unicast: false, ttl: 1 };
            let nodes: &mut Vec<Olsr> = &mut nodes;
            let payload: Vec<u8> = payload;
            let olsr: &mut Olsr = &mut nodes[to];
            olsr.handle_message(now, &arrival, &payload);
        }
        for (number, olsr) in nodes.iter_mut().enumerate() {
            olsr.handle_timeout(now);
            while olsr.poll_event().is_some() {}
            for index in 0..2 {
                let mut payload = Vec::new();
                while let Some(sending) = olsr.poll_transmit(now, index, &mut payload) {
                    let from = address(number, index);
                    let source = SocketAddr::from((from, PORT));
                    let destination = SocketAddr::from((sending.to, PORT));
                    let mut packet = Vec::new();
                    Datagram { source, destination, payload: &payload }.emit(&mut packet);
                    show(now, &packet);
                    for to in [number.wrapping_sub(1), number + 1] {
                        if to < 4 && index == 0 {
                            under_way.push_back((to, from, payload.clone()));
                        }
                    }
                }
            }
        }
    }
    assert!(nodes.iter().all(|olsr| olsr.routes().len() >= 3), "they find each other");
    nodes
}

/// Reads a field of all packets that pass the filter.
fn tshark(file: &Path, filter: &str, field: &str) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields", "-e", field])
        .args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"])
        .output()
        .expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("fields are text")
}
