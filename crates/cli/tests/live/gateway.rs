//! Tests HBH on real interfaces, as seen by applications, neighbours and administrators.

use std::fs;
use std::thread;
use std::time::Duration;

use ::gateway::sys::port::{OFFLOAD, Port};
use base::rng::Rng;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::namespaces::{Namespaces, SOON, TRACKWAY, older, wait_until};
use testbed::traffic::{ENDLESS, Transfer};

/// Less than `hello.hold`, after which any neighbour is forgotten that is not heard.
const BEFORE_HOLD: Duration = Duration::from_secs(15);

#[test]
#[ignore = "needs root: run by ./test"]
fn ping_and_tcp_go_hop_by_hop_in_both_versions() {
    let mut net = Net::chain(2);
    net.start_all();

    for address in ["10.9.0.2", "fd09::2"] {
        net.expect_pings(0, address, 5);
        net.transfer(0, 1, address);
    }

    // Node 0 has the segments and 10 pings, node 1 the answers, one for a whole train of segments.
    for (node, intercepted, released) in [(0, 100, 20), (1, 20, 100)] {
        assert!(net.count(node, "packets_intercepted") > intercepted, "{}", net.status(node));
        assert!(net.count(node, "packets_released") > released, "{}", net.status(node));
        assert_eq!(net.count(node, "frames_malformed"), 0, "{}", net.status(node));
        assert_eq!(net.count(node, "packets_release_failed"), 0, "{}", net.status(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_neighbour_without_hbh_is_reached_by_plain_ip() {
    let mut net = Net::chain(2);
    net.start(0);

    net.expect_pings(0, "10.9.0.2", 5);
    net.transfer(0, 1, "10.9.0.2");

    assert_eq!(net.count(0, "frames_intercepted"), 0, "{}", net.status(0));
    assert_eq!(net.count(0, "neighbours"), 0, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_older_version_is_a_neighbour_or_both_say_why_not() {
    let Some(older) = older() else { return };
    let mut net = Net::chain(2);
    net.start(0);
    net.nets.set_trackway(older);
    net.start(1);

    let both_count = |counter: &str| [0, 1].iter().all(|&node| net.count(node, counter) > 0);
    let is_decided =
        wait_until(SOON, || both_count("neighbours") || both_count("hellos_other_version"));
    assert!(is_decided, "{}\n{}", net.status(0), net.status(1));
    // Hop by hop, or by plain IP.
    net.expect_pings(0, "10.9.0.2", 5);
    net.transfer(0, 1, "10.9.0.2");
    net.transfer(1, 0, "10.9.0.1");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_in_the_middle_passes_packets_on_as_a_router_does() {
    let mut net = Net::chain(3);
    net.start_all();

    net.expect_pings(0, "10.9.1.2", 5);
    net.transfer(0, 2, "10.9.1.2");
    let expired = net.try_ping(0, "-c 1 -W 60 -t 1 10.9.1.2");

    assert!(expired.contains("Time to live exceeded"), "{expired}");
    // By the kernel, which gives them back to HBH.
    for counter in ["packets_released", "packets_intercepted"] {
        assert!(net.count(1, counter) > 100, "{counter}: {}", net.status(1));
    }
    let trace = net.try_ping(0, "-c 1 -W 60 -t 2 10.9.1.2");
    assert!(trace.contains(" 0% packet loss"), "{trace}");
    assert!(trace.contains("ttl=63"), "{trace}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_that_leave_no_room_for_the_header_are_answered_or_cut() {
    let mut net = Net::chain(2);
    net.start_all();

    let too_long = net.try_ping(0, "-c 1 -W 60 -M do -s 1472 10.9.0.2");
    let fits = net.try_ping(0, "-c 1 -W 60 -M do -s 1460 10.9.0.2");
    let cut = net.try_ping(0, "-c 1 -W 60 -M dont -s 4000 10.9.0.2");
    let too_long_v6 = net.try_ping(0, "-c 1 -W 60 -s 1452 fd09::2");

    assert!(too_long.contains("mtu = 1488"), "{too_long}");
    assert!(fits.contains(" 0% packet loss"), "{fits}");
    assert!(cut.contains(" 0% packet loss"), "{cut}");
    assert!(too_long_v6.contains("mtu=1488"), "{too_long_v6}");
    // The other end learns it in the same way: its first answer is lost, the next is cut.
    let learns = wait_until(SOON, || {
        net.try_ping(0, "-c 1 -W 1 -s 1452 fd09::2").contains(" 0% packet loss")
    });
    assert!(learns, "{}", net.status(1));
    net.expect_long_pings(0, "fd09::2", 3, 1_452);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn hostile_frames_are_counted_and_disturb_nothing() {
    let mut net = Net::chain(2);
    net.start_all();
    let (target, source) = (net.mac(0, "eth0"), net.mac(1, "eth0"));
    let attacker = net.nodes[1].name.clone();
    let port = net.nets.within(&attacker, || Port::open("eth0").unwrap());
    let mut rng = Rng::stream(1, "hostile");

    for round in 0..2_000_u32 {
        let len = usize::try_from(rng.below(120)).unwrap();
        let mut frame = vec![0; OFFLOAD];
        frame.extend_from_slice(&target);
        frame.extend_from_slice(if round % 3 == 0 { &[2, 0, 0, 0, 0, 9] } else { &source });
        let version = rng.below(2);
        frame.extend_from_slice(if version == 0 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
        let mut packet: Vec<u8> = (0..len).map(|_| rng.bits().to_le_bytes()[0]).collect();
        // Most get past the filter, some past the IP header, some look like hellos.
        if version == 0 && len >= 28 {
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
            packet[9] = 253;
            base::ip::rewrite_v4_checksum(&mut packet[..20]);
            if round % 4 == 0 {
                packet[20..27].copy_from_slice(&[0x80, 2, 0, 0, 0, 0, 0xff]);
            }
        } else if len >= 48 {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&u16::try_from(len - 40).unwrap().to_be_bytes());
            packet[6] = 253;
        }
        frame.extend_from_slice(&packet);
        let _ = port.send(&frame);
    }
    net.expect_pings(0, "10.9.0.2", 10);
    net.transfer(0, 1, "10.9.0.2");

    for counter in ["frames_unknown_peer", "hellos_malformed", "hbh_messages_damaged"] {
        assert!(net.count(0, counter) > 10, "{counter}: {}", net.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_that_starts_again_is_a_neighbour_again() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut net = Net::chain(2);
        net.start_all();
        net.expect_pings(0, "10.9.0.2", 3);

        net.signal(1, signal);
        let program = net.nodes[1].program.unwrap();
        net.nets.program(program).finish(SOON);
        net.start(1);
        let is_back = wait_until(BEFORE_HOLD, || {
            net.count(0, "neighbours_up") == 2 && net.count(1, "neighbours") == 1
        });

        assert!(is_back, "{signal}: {}", net.status(0));
        net.expect_pings(0, "10.9.0.2", 3);
        assert_eq!(net.count(0, "neighbours_down"), 1, "{signal}: {}", net.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reload_of_most_keys_loses_no_packet_and_no_neighbour() {
    let mut net = Net::chain(3);
    net.start_all();
    let names = [0, 1, 2].map(|node| net.nodes[node].name.clone());
    let transfer = Transfer::start(&names[0], (&names[2], "10.9.1.2"), ENDLESS);
    transfer.wait_for(100_000, SOON);

    let nets = &net.nets;
    for (keys, node, changed) in [
        ("queue = 300", 1, "queue changed"),
        ("queue = 100\nhello.hold = \"9s\"", 1, "queue, hello.hold changed"),
        ("hold = \"1s\"", 2, "hold changed"),
    ] {
        let file = nets.folder().join(format!("{}.toml", names[node]));
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}{keys}\n")).unwrap();
        let (said, unanswered) = thread::scope(|scope| {
            let pings = scope.spawn(|| nets.unanswered(&names[0], "10.9.1.2", 60, 56));
            let said = nets.run(&names[node], &format!("{TRACKWAY} reload"));
            assert!(!pings.is_finished(), "the reload came after the pings");
            (said, pings.join().unwrap())
        });
        fs::write(&file, before).unwrap();

        assert!(said.contains(&format!("hbh: {changed}")), "{said}");
        assert!(unanswered.is_empty(), "{keys}: {unanswered:?}{}", net.status(node));
        transfer.wait_for(transfer.received() + 500_000, SOON);
    }
    for node in 0..3 {
        assert_eq!(net.count(node, "neighbours_down"), 0, "{}", net.status(node));
        assert_eq!(net.count(node, "packets_plain"), 0, "{}", net.status(node));
    }
    transfer.end();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn traffic_is_plain_again_and_nothing_stays_behind_however_it_ends() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let mut net = Net::chain(2);
        net.start_all();
        let node = net.nodes[1].name.clone();
        let before = net.nets.run(&node, "nft list ruleset");

        net.signal(1, signal);
        let (code, printed) = {
            let program = net.nodes[1].program.unwrap();
            net.nets.program(program).finish(SOON)
        };

        assert!(before.contains("trackway0"), "{before}");
        assert_eq!(code, (signal != Signal::SIGKILL).then_some(0), "{printed}");
        let is_clean = wait_until(SOON, || {
            net.nets.run(&node, "nft list ruleset").is_empty()
                && !net.nets.run(&node, "ip link").contains("trackway0")
        });
        assert!(is_clean, "{}", net.nets.run(&node, "nft list ruleset"));
        // A goodbye is believed at once, silence after a while.
        net.try_ping(0, "-c 3 -i 0.2 -W 1 10.9.0.2");
        let is_plain = wait_until(BEFORE_HOLD, || {
            net.try_ping(0, "-c 1 -W 1 10.9.0.2").contains(" 0% packet loss")
        });
        assert!(is_plain, "{signal}: {}", net.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_that_goes_is_waited_for_while_a_transfer_by_another_goes_on() {
    let mut net = Net::chain(3);
    net.start_all();
    let (from, to) = (net.nodes[1].name.clone(), net.nodes[0].name.clone());
    let transfer = Transfer::start(&from, (&to, "10.9.0.1"), ENDLESS);
    transfer.wait_for(100_000, SOON);

    net.nets.run(&from, "ip link delete eth1");
    let is_told = wait_until(SOON, || {
        let hbh = net.json(1)["hbh"].clone();
        hbh["state"] == "waits for eth1" && hbh["interfaces"][1]["why"] != Value::Null
    });
    assert!(is_told, "{}", net.status(1));
    assert_eq!(net.count(1, "neighbours"), 1, "{}", net.status(1));
    // Its other end, too.
    assert!(wait_until(SOON, || net.json(2)["hbh"]["state"] == "waits for eth0"));

    transfer.wait_for(transfer.received() + 1_000_000, SOON);
    let other = net.nodes[2].name.clone();
    net.nets.cable((&from, "eth1"), (&other, "eth0"));
    net.nets.address(&from, "eth1", "10.9.1.1/24");
    net.nets.address(&other, "eth0", "10.9.1.2/24");
    // Node 2 has no other interface. What is sent before the new rules are in force goes plain.
    let is_back = wait_until(SOON, || {
        net.expect_pings(2, "10.9.1.1", 1);
        net.count(2, "packets_intercepted") > 0 && net.count(2, "packets_released") > 0
    });
    assert!(is_back, "{}{}", net.status(1), net.status(2));
    Transfer::start(&other, (&from, "10.9.1.1"), 2_000_000).finish(SOON);

    assert!(net.count(2, "packets_intercepted") > 100, "{}", net.status(2));
    assert_eq!(net.count(1, "neighbours"), 2, "{}", net.status(1));
    transfer.wait_for(transfer.received() + 1_000_000, SOON);
    transfer.end();
    for node in [1, 2] {
        let services = net.json(node)["services"].clone();
        assert_eq!(services[0]["restarts"], 0, "{services}");
    }
    assert_eq!(net.count(1, "neighbours_down"), 1, "{}", net.status(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_cannot_be_run_is_said_in_one_line() {
    let mut net = Net::chain(2);
    net.start(0);
    let node = net.nodes[0].name.clone();
    let other = net.nodes[1].name.clone();
    let file = net.nets.folder().join("refused.toml");

    let refusal = |node: &str, text: &str| {
        fs::write(&file, text).unwrap();
        let output = net.nets.try_run(node, &format!("{TRACKWAY} run {}", file.display()));
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(complaint.trim_end().lines().count(), 1, "{complaint}");
        (output.status.code(), complaint)
    };
    for (node, text, code, expected) in [
        (
            &node,
            "hbh.interfaces = [\"eth0\"]",
            1,
            "a gateway runs in this network namespace already",
        ),
        (&other, "hbh.interfaces = [\"lo\"]", 1, "lo is not an Ethernet-like interface"),
        (&other, "interfaces = [\"eth0\"]", 2, ":1: interfaces: is called hbh.interfaces"),
    ] {
        let (status, complaint) = refusal(node, text);
        assert!(complaint.contains(expected), "{complaint}");
        assert_eq!(status, Some(code), "{complaint}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_that_is_not_there_at_the_start_is_waited_for() {
    let mut net = Net::chain(2);
    let run = |net: &Net, command: &str| net.nets.run(&net.nodes[0].name, command);
    net.start(1);
    run(&net, "ip link set eth0 name later0");
    net.start(0);
    let faults = |net: &Net| net.json(0)["faults"].to_string();
    assert!(
        faults(&net).contains("HBH waits for eth0: there is no interface eth0"),
        "{}",
        faults(&net)
    );

    run(&net, "ip link set later0 down");
    run(&net, "ip link set later0 name eth0");
    run(&net, "ip link set eth0 up");

    let is_met = wait_until(SOON, || net.count(0, "neighbours") == 1);
    assert!(is_met, "{}", net.status(0));
    assert_eq!(faults(&net), "[]");
}

/// Nodes joined by cables; link `l` is 10.9.l.0/24 and fd09:0:0:l::/64, its ends .1 and .2.
pub struct Net {
    pub nets: Namespaces,
    pub nodes: Vec<Node>,
}

pub struct Node {
    pub name: String,
    interfaces: Vec<String>,
    program: Option<usize>,
}

impl Net {
    pub fn new(nodes: usize) -> Self {
        let mut net = Self { nets: Namespaces::new(), nodes: Vec::new() };
        for _ in 0..nodes {
            net.add_node();
        }
        net
    }

    pub fn add_node(&mut self) {
        let name = self.nets.add(&format!("n{}", self.nodes.len()));
        for sysctl in [
            "net.ipv4.ip_forward=1",
            "net.ipv4.conf.all.rp_filter=1",
            "net.ipv4.conf.default.rp_filter=1",
            "net.ipv6.conf.all.disable_ipv6=0",
            "net.ipv6.conf.default.disable_ipv6=0",
            "net.ipv6.conf.all.forwarding=1",
        ] {
            self.nets.run(&name, &format!("sysctl -qw {sysctl}"));
        }
        self.nodes.push(Node { name, interfaces: Vec::new(), program: None });
    }

    /// Nodes in a row, each with routes to all links.
    pub fn chain(nodes: usize) -> Self {
        let mut net = Self::new(nodes);
        for link in 0..nodes - 1 {
            net.join(link, link, link + 1);
        }
        net.route_chain();
        net
    }

    fn route_chain(&self) {
        let nodes = self.nodes.len();
        for node in 0..nodes {
            for link in 0..nodes - 1 {
                if link > node {
                    self.route(node, &format!("10.9.{link}.0/24 via 10.9.{node}.2"));
                } else if link + 1 < node {
                    self.route(node, &format!("10.9.{link}.0/24 via 10.9.{}.1", node - 1));
                }
            }
        }
    }

    pub fn join(&mut self, link: usize, a: usize, b: usize) {
        let ends = [a, b].map(|node| self.add_interface(node));
        self.nets.cable((&ends[0].0, &ends[0].1), (&ends[1].0, &ends[1].1));
        for (number, (node, interface)) in (1..).zip(&ends) {
            self.nets.address(node, interface, &format!("10.9.{link}.{number}/24"));
            self.nets.run(
                node,
                &format!("ip address add fd09:0:0:{link}::{number}/64 dev {interface} nodad"),
            );
        }
    }

    /// The node's name, and the name of its next interface.
    fn add_interface(&mut self, node: usize) -> (String, String) {
        let Node { name, interfaces, .. } = &mut self.nodes[node];
        let interface = format!("eth{}", interfaces.len());
        interfaces.push(interface.clone());
        (name.clone(), interface)
    }

    pub fn route(&self, node: usize, route: &str) {
        self.nets.run(&self.nodes[node].name, &format!("ip route add {route}"));
    }

    pub fn start(&mut self, node: usize) {
        let Node { name, interfaces, .. } = &self.nodes[node];
        let config = format!("log = \"debug\"\n[hbh]\ninterfaces = {interfaces:?}\n");
        let program = self.nets.start_gateway(name, name, &config);
        self.nodes[node].program = Some(program);
    }

    /// Starts all gateways and waits until all know their neighbours.
    pub fn start_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
        for node in 0..self.nodes.len() {
            let expected = self.nodes[node].interfaces.len() as u64;
            let is_up = wait_until(SOON, || self.count(node, "neighbours") == expected);
            assert!(is_up, "node {node}: {}", self.status(node));
        }
    }

    pub fn signal(&mut self, node: usize, signal: Signal) {
        let program = self.nodes[node].program.unwrap();
        self.nets.program(program).signal(signal);
    }

    /// Expects the answers to so many pings.
    pub fn expect_pings(&self, node: usize, address: &str, pings: u16) {
        self.expect_long_pings(node, address, pings, 56);
    }

    fn expect_long_pings(&self, node: usize, address: &str, pings: u16, len: usize) {
        let unanswered = self.nets.unanswered(&self.nodes[node].name, address, pings, len);
        let statuses = || -> Vec<_> { (0..self.nodes.len()).map(|n| self.status(n)).collect() };
        assert!(unanswered.is_empty(), "{unanswered:?}\n{}", statuses().concat());
    }

    /// Pings and expects every answer.
    pub fn ping(&self, node: usize, args: &str) {
        let said = self.try_ping(node, args);
        assert!(said.contains(" 0% packet loss"), "{said}\n{}", self.status(node));
    }

    pub fn try_ping(&self, node: usize, args: &str) -> String {
        let output = self.nets.try_run(&self.nodes[node].name, &format!("ping {args}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends 2 MB over TCP.
    fn transfer(&self, from: usize, to: usize, address: &str) {
        let (from, to) = (&self.nodes[from].name, &self.nodes[to].name);
        Transfer::start(from, (to, address), 2_000_000).finish(SOON);
    }

    pub fn status(&self, node: usize) -> String {
        self.json(node).to_string()
    }

    fn json(&self, node: usize) -> Value {
        self.nets.status(&self.nodes[node].name)
    }

    pub fn count(&self, node: usize, counter: &str) -> u64 {
        self.nets.count(&self.nodes[node].name, counter)
    }

    pub fn mac(&self, node: usize, interface: &str) -> [u8; 6] {
        let command = format!("ip -json link show dev {interface}");
        let said = self.nets.run(&self.nodes[node].name, &command);
        let links: Value = serde_json::from_str(&said).unwrap();
        let text = links[0]["address"].as_str().unwrap();
        let octets: Vec<u8> =
            text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
        octets.try_into().unwrap()
    }
}

mod timed {
    use testbed::traffic::Flow;

    use super::*;

    /// What it takes beside round trips: 300 ms, and 200 more on a busy machine.
    const MOST: Duration = Duration::from_millis(500);

    /// The longest silence of a connection over three nodes, whose middle one is killed, and perhaps started again at
    /// once; each hop has this delay.
    fn silence(delay: Duration, starts_again: bool) -> (Duration, String) {
        let mut net = Net::new(3);
        for link in 0..2 {
            let ends = [link, link + 1].map(|node| net.add_interface(node));
            let addresses = [1, 2].map(|number| format!("10.9.{link}.{number}"));
            let ends = [0, 1].map(|at| (&*ends[at].0, &*ends[at].1, &*addresses[at]));
            net.nets.emulate(ends, &format!("--delay {}us", delay.as_micros()));
        }
        net.route_chain();
        net.start_all();
        let (from, to) = (net.nodes[0].name.clone(), net.nodes[2].name.clone());
        let flow = Flow::start(&from, (&to, "10.9.1.2"), Duration::from_millis(10));
        flow.wait_for(100_000);

        flow.forget();
        net.signal(1, Signal::SIGKILL);
        if starts_again {
            net.nets.program(net.nodes[1].program.unwrap()).finish(SOON);
            net.start(1);
            let is_back = wait_until(SOON, || net.count(1, "neighbours") == 2);
            assert!(is_back, "{}", net.status(1));
        }
        flow.wait_for(100_000);

        let silence = flow.silence();
        flow.end();
        let figures = format!("{delay:?}, starts again: {starts_again}: silent for {silence:?}");
        (silence, format!("{figures}\n{}\n{}", net.status(0), net.status(2)))
    }

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn the_death_of_a_nodes_process_costs_three_round_trips_and_half_a_second_at_most() {
        for delay in [1, 10, 50].map(Duration::from_millis) {
            for starts_again in [false, true] {
                let (silence, story) = silence(delay, starts_again);

                let round_trip = delay * 4;
                assert!(silence < round_trip * 3 + MOST, "{story}");
            }
        }
    }
}
