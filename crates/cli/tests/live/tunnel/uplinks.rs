//! Tests peers with several paths: two uplinks that carry one flow, fail and come back, a backup, and a peer with one
//! address.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::probe::{Iperf, goodput};
use testbed::traffic::{ENDLESS, Transfer};

use super::SOON;
use crate::namespaces::{Namespaces, TRACKWAY, wait_until};

/// The rate of each cable, each way.
const TBF: &str = "tbf rate 10mbit burst 16kb latency 60ms";
/// The longest gap in a flow when a path dies.
const GAP: Duration = Duration::from_millis(500);
/// How soon a path serves again.
const BACK: Duration = Duration::from_secs(5);

/// Two gateways with two cables between them; only the first one calls.
///
/// ```text
///   gateway 0   eth1 10.9.1.1 ─── 10.9.1.2 eth1   gateway 1
///   10.77.0.1   eth2 10.9.2.1 ─── 10.9.2.2 eth2   10.77.0.2
/// ```
struct Uplinks {
    nets: Namespaces,
    nodes: [String; 2],
    keys: [String; 2],
}

impl Uplinks {
    fn new() -> Self {
        let mut nets = Namespaces::new();
        let nodes = ["near", "far"].map(|name| nets.add(name));
        for cable in [1, 2] {
            let name = format!("eth{cable}");
            nets.cable((&nodes[0], &name), (&nodes[1], &name));
            for (node, own) in nodes.iter().zip([1, 2]) {
                nets.address(node, &name, &format!("10.9.{cable}.{own}/24"));
                nets.run(node, &format!("tc qdisc add dev {name} root {TBF}"));
            }
        }
        let keys = [0, 1].map(|node| nets.make_key(&format!("{node}.key")).unwrap().1);
        Self { nets, nodes, keys }
    }

    /// Writes the configuration of a node, with further keys of its peer.
    fn write(&self, node: usize, peer: &str) {
        let key = self.nets.folder().join(format!("{node}.key"));
        let (own, other) = (node + 1, 2 - node);
        let config = format!(
            "[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.{own}/24\"]\n\
             [[tunnel.peer]]\nname = \"other\"\npublic-key = \"{}\"\n\
             routes = [\"10.77.0.{other}/32\"]\n{peer}",
            self.keys[1 - node]
        );
        fs::write(self.nets.folder().join(format!("{node}.toml")), config).unwrap();
    }

    /// Starts both gateways, the first with these keys of its peer.
    fn start(&mut self, peer: &str) {
        self.write(0, peer);
        self.write(1, "");
        for node in 0..2 {
            let file = self.nets.folder().join(format!("{node}.toml"));
            self.nets.run_gateway(&self.nodes[node], &file);
        }
        let is_up = wait_until(SOON, || self.tunnel(0)["state"] == "up");
        assert!(is_up, "{}", self.tunnel(0));
    }

    fn tunnel(&self, node: usize) -> Value {
        self.nets.status(&self.nodes[node])["tunnels"][0].clone()
    }

    /// Waits until a path of a node is in a state.
    fn expect(&self, node: usize, path: usize, state: &str, at_most: Duration) {
        let is_so = wait_until(at_most, || self.tunnel(node)["paths"][path]["state"] == state);
        assert!(is_so, "path {path} is not {state}: {}", self.tunnel(node)["paths"]);
    }

    /// What `iperf3` gets through the tunnel by one connection.
    fn goodput(&mut self) -> f64 {
        let between = (&self.nodes[0][..], &self.nodes[1][..]);
        let iperf = Iperf { between, address: "10.77.0.2", seconds: 8, left_out: 3, args: &[] };
        goodput(&iperf.report(&mut self.nets).unwrap()).unwrap()
    }

    /// Starts a connection through the tunnel that goes on.
    fn transfer(&self) -> Transfer {
        let transfer = Transfer::start(&self.nodes[0], (&self.nodes[1], "10.77.0.2"), ENDLESS);
        transfer.wait_for(2_000_000, SOON);
        transfer
    }

    fn set(&self, interface: &str, state: &str) {
        self.nets.run(&self.nodes[0], &format!("ip link set dev {interface} {state}"));
    }
}

/// The longest time without anything new of a transfer during a span.
fn longest_gap(transfer: &Transfer, span: Duration) -> Duration {
    let began = Instant::now();
    let (mut last, mut received, mut longest) = (began, transfer.received(), Duration::ZERO);
    while began.elapsed() < span {
        std::thread::sleep(Duration::from_millis(5));
        let now = transfer.received();
        longest = longest.max(last.elapsed());
        if now > received {
            (received, last) = (now, Instant::now());
        }
    }
    longest
}

const FIRST: &str = "endpoint = \"10.9.1.2:51900\"\n";
const SECOND: &str = "[[tunnel.peer.path]]\ninterface = \"eth2\"\nendpoint = \"10.9.2.2:51900\"\n";

#[test]
#[ignore = "needs root: run by ./test"]
fn one_flow_fills_two_uplinks_and_goes_on_when_either_is_cut() {
    let mut net = Uplinks::new();
    net.start(FIRST);
    let alone = net.goodput();
    net.write(0, &format!("{FIRST}{SECOND}"));
    net.nets.run(&net.nodes[0], &format!("{TRACKWAY} reload"));
    net.expect(0, 1, "serves", SOON);

    let both = net.goodput();
    eprintln!("one uplink carries {alone:.3e} bit/s, both {both:.3e}");
    let paths = net.tunnel(0)["paths"].clone();
    assert!(both >= 0.9 * 2.0 * alone, "{both} of 2 * {alone}: {paths}");

    let transfer = net.transfer();
    for (path, interface) in [(0, "eth1"), (1, "eth2")] {
        net.set(interface, "down");
        let gap = longest_gap(&transfer, Duration::from_secs(4));
        eprintln!("{interface} down: the longest gap is {gap:?}");
        assert!(gap < GAP, "{gap:?}: {}", net.tunnel(0)["paths"]);
        let state = if path == 0 { "silent" } else { "waiting" };
        net.expect(0, path, state, Duration::ZERO);
        net.set(interface, "up");
        net.expect(0, path, "serves", BACK);
    }
    transfer.end();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_backup_carries_nothing_until_the_first_path_is_cut() {
    let mut net = Uplinks::new();
    net.start(&format!("{FIRST}{SECOND}backup = true\n"));
    net.expect(0, 1, "backup", SOON);
    // The search for the MTU is over.
    let octets = |net: &Uplinks| net.tunnel(0)["paths"][1]["octets_sent"].as_u64().unwrap();
    let before = octets(&net);

    let transfer = net.transfer();
    let meanwhile = octets(&net) - before;
    net.set("eth1", "down");
    let gap = longest_gap(&transfer, Duration::from_secs(4));
    net.expect(0, 1, "serves", Duration::ZERO);
    let after = octets(&net) - before;
    net.set("eth1", "up");
    net.expect(0, 1, "backup", BACK);
    let count = transfer.received();
    let again = octets(&net);
    transfer.wait_for(count + 2_000_000, SOON);
    let last = octets(&net) - again;
    transfer.end();

    eprintln!("a backup carried {meanwhile}, {after} and {last} octets; the gap was {gap:?}");
    assert!(gap < GAP, "{gap:?}");
    assert!(
        meanwhile < 100_000 && after > 1_000_000 && last < 200_000,
        "{}",
        net.tunnel(0)["paths"]
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_tunnel_comes_up_by_the_second_uplink_and_takes_the_first_when_it_is_there() {
    let mut net = Uplinks::new();
    net.set("eth1", "down");
    net.start(&format!("{FIRST}{SECOND}"));
    net.expect(0, 1, "serves", SOON);
    let transfer = net.transfer();
    net.expect(0, 0, "silent", SOON);

    net.set("eth1", "up");
    net.expect(0, 0, "serves", BACK);
    // The far end sends there once it has asked whether the near end is there.
    let has_moved = |net: &Uplinks| net.tunnel(1)["endpoint"] == "10.9.1.1:51900";
    assert!(wait_until(BACK, || has_moved(&net)), "{}", net.tunnel(1));
    net.set("eth2", "down");
    // The far end may have answered the first path's datagrams by the second one until now.
    let gap = longest_gap(&transfer, Duration::from_secs(6));
    transfer.end();

    assert!(gap < BACK, "{gap:?}");
    assert_eq!(net.tunnel(0)["sessions"], 1, "{}", net.tunnel(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_path_waits_for_an_interface_that_comes_and_goes() {
    let mut net = Uplinks::new();
    let path = "[[tunnel.peer.path]]\ninterface = \"eth3\"\nendpoint = \"10.9.3.2:51900\"\n";
    net.start(&format!("{FIRST}{path}"));
    net.expect(0, 1, "waiting", SOON);
    // A fault is an error for who asks for the status.
    let output = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} status"));
    let status = String::from_utf8_lossy(&output.stdout);
    assert!(
        status.contains("path 1 to the peer other waits: there is no interface eth3"),
        "{status}"
    );
    assert!(status.contains("[path-waiting]"), "{status}");

    for _ in 0..2 {
        net.nets.cable((&net.nodes[0], "eth3"), (&net.nodes[1], "eth3"));
        for (node, own) in net.nodes.iter().zip([1, 2]) {
            net.nets.address(node, "eth3", &format!("10.9.3.{own}/24"));
        }
        net.expect(0, 1, "serves", BACK);
        net.nets.run(&net.nodes[0], "ip link delete dev eth3");
        net.expect(0, 1, "waiting", BACK);
    }
    assert_eq!(net.tunnel(0)["state"], "up", "{}", net.tunnel(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn two_uplinks_lead_to_one_address_of_the_peer() {
    let mut net = Uplinks::new();
    let [near, far] = net.nodes.clone();
    // Routes to the address of the far gateway lead by both uplinks, preferably by the first.
    net.nets.run(&far, "ip address add 198.51.100.2/32 dev lo");
    for (cable, metric) in [(1, 100), (2, 200)] {
        let route = format!("198.51.100.2 via 10.9.{cable}.2 metric {metric}");
        net.nets.run(&near, &format!("ip route add {route}"));
    }
    let path = "[[tunnel.peer.path]]\ninterface = \"eth2\"\n";
    net.start(&format!("endpoint = \"198.51.100.2:51900\"\n{path}"));
    net.expect(0, 1, "serves", SOON);
    let transfer = net.transfer();

    let carried = |net: &Uplinks| net.tunnel(0)["paths"][1]["octets_sent"].as_u64().unwrap();
    assert!(wait_until(SOON, || carried(&net) > 1_000_000), "{}", net.tunnel(0)["paths"]);
    assert_eq!(net.tunnel(1)["paths"][1]["endpoint"], "10.9.2.1:51900", "{}", net.tunnel(1));
    // Beyond the first cable nothing passes, and no interface tells.
    net.nets.run(&far, "tc qdisc replace dev eth1 root tbf rate 8bit burst 1 limit 1");
    net.nets.run(&near, "tc qdisc replace dev eth1 root tbf rate 8bit burst 1 limit 1");
    let gap = longest_gap(&transfer, Duration::from_secs(4));
    net.expect(0, 0, "silent", Duration::ZERO);
    for node in [&near, &far] {
        net.nets.run(node, &format!("tc qdisc replace dev eth1 root {TBF}"));
    }
    net.expect(0, 0, "serves", 2 * BACK);
    transfer.end();
    assert!(gap < GAP, "{gap:?}");
}
