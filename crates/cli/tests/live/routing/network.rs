//! Nodes joined by emulated links, with gateways or without.
//!
//! Link `l` is 10.9.l.0/24, its ends .1 and .2; node `n` has 10.0.0.(n + 1) on its loopback.

use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::probe::Iperf;

use crate::namespaces::{Namespaces, TRACKWAY, wait_until};

pub const SOON: Duration = Duration::from_secs(15);

/// Nodes and links; all ends with it.
pub struct Network {
    pub nets: Namespaces,
    pub nodes: Vec<Node>,
    links: Vec<Link>,
}

pub struct Node {
    /// Its namespace.
    pub name: String,
    pub interfaces: Vec<String>,
    gateway: Option<usize>,
}

struct Link {
    ends: [usize; 2],
    /// The namespace that emulates it, between interfaces `a` and `b`.
    air: String,
    emulator: usize,
}

/// One TCP connection for some time.
#[derive(Clone, Copy)]
pub struct Flow<'a> {
    pub from: usize,
    pub to: usize,
    /// Its congestion control.
    pub control: &'a str,
    pub seconds: u32,
}

impl Network {
    /// Routers that are not joined yet.
    pub fn new(nodes: usize) -> Self {
        let mut nets = Namespaces::new();
        let nodes: Vec<_> = (0..nodes)
            .map(|node| {
                let name = nets.add(&format!("n{node}"));
                for sysctl in [
                    "net.ipv4.ip_forward=1",
                    "net.ipv4.conf.all.rp_filter=0",
                    "net.ipv4.conf.default.rp_filter=0",
                    "net.ipv6.conf.all.disable_ipv6=0",
                    "net.ipv6.conf.default.disable_ipv6=0",
                    "net.ipv6.conf.all.forwarding=1",
                    // babeld wants a link-local address at once.
                    "net.ipv6.conf.default.accept_dad=0",
                ] {
                    nets.run(&name, &format!("sysctl -qw {sysctl}"));
                }
                nets.address(&name, "lo", &format!("{}/32", address(node)));
                Node { name, interfaces: Vec::new(), gateway: None }
            })
            .collect();
        Self { nets, nodes, links: Vec::new() }
    }

    /// Nodes in a row, with routes to each other's loopback; `options` are those of each link.
    pub fn chain(options: &[&str]) -> Self {
        let mut network = Self::new(options.len() + 1);
        for (link, options) in options.iter().enumerate() {
            network.join(link, link + 1, options);
        }
        for node in 0..=options.len() {
            for other in 0..=options.len() {
                if other > node {
                    network.route(node, &format!("{} via 10.9.{node}.2", address(other)));
                } else if other < node {
                    network.route(node, &format!("{} via 10.9.{}.1", address(other), node - 1));
                }
            }
        }
        network
    }

    /// Joins two nodes; the link's number is the next one.
    pub fn join(&mut self, a: usize, b: usize, options: &str) {
        let link = self.links.len();
        let air = self.nets.add(&format!("air{link}"));
        for (number, (node, inside)) in (1..).zip([(a, "a"), (b, "b")]) {
            let interface = format!("eth{}", self.nodes[node].interfaces.len());
            let name = self.nodes[node].name.clone();
            self.nets.cable((&name, &interface), (&air, inside));
            self.nets.address(&name, &interface, &format!("10.9.{link}.{number}/24"));
            self.nodes[node].interfaces.push(interface);
        }
        let command = format!("{TRACKWAY} link a b {options}");
        let emulator = self.nets.start(&air, &command, "joined");
        self.links.push(Link { ends: [a, b], air, emulator });
    }

    /// Nothing comes through a link any more, and its interfaces do not show it.
    pub fn cut_silently(&mut self, link: usize) {
        self.nets.program(self.links[link].emulator).stop();
    }

    /// Sends what emulates a link a signal: stopped, it carries nothing.
    pub fn signal_link(&mut self, link: usize, signal: Signal) {
        self.nets.program(self.links[link].emulator).signal(signal);
    }

    /// The first end of a link loses its carrier.
    pub fn cut_carrier(&mut self, link: usize) {
        self.nets.run(&self.links[link].air, "ip link set dev a down");
    }

    /// Adds or replaces a route of a node.
    pub fn route(&self, node: usize, route: &str) {
        self.run(node, &format!("ip route replace {route}"));
    }

    pub fn run(&self, node: usize, command: &str) -> String {
        self.nets.run(&self.nodes[node].name, command)
    }

    /// The output of a command that may fail.
    pub fn try_run(&self, node: usize, command: &str) -> String {
        let output = self.nets.try_run(&self.nodes[node].name, command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts gateways and waits until they know each other; `options` are further lines of their
    /// configuration.
    pub fn start_gateways(&mut self, nodes: &[usize], options: &str) {
        for &node in nodes {
            let Node { name, interfaces, .. } = &self.nodes[node];
            let config = format!("[hbh]\ninterfaces = {interfaces:?}\n{options}\n");
            let gateway = self.nets.start_gateway(name, &node.to_string(), &config);
            self.nodes[node].gateway = Some(gateway);
        }
        for &node in nodes {
            let is_one = |link: &&Link| match link.ends {
                [a, b] if a == node => nodes.contains(&b),
                [a, b] => b == node && nodes.contains(&a),
            };
            let expected = self.links.iter().filter(is_one).count() as u64;
            let is_up = wait_until(SOON, || self.count(node, "neighbours") == expected);
            assert!(is_up, "node {node}, {expected} neighbours: {}", self.status(node));
        }
    }

    /// Sends a node's gateway a signal.
    pub fn signal(&mut self, node: usize, signal: Signal) {
        let gateway = self.nodes[node].gateway.unwrap();
        self.nets.program(gateway).signal(signal);
    }

    /// The rate of a TCP connection between two nodes' loopbacks, in Mbit/s.
    pub fn rate(&mut self, flow: Flow<'_>) -> f64 {
        let Flow { from, to, control, seconds } = flow;
        let between = (&self.nodes[from].name[..], &self.nodes[to].name[..]);
        let args = ["-B", &address(from), "-C", control];
        let iperf = Iperf { between, address: &address(to), seconds, left_out: 0, args: &args };
        iperf.goodput(&mut self.nets).unwrap() / 1e6
    }

    /// The counters of a node's gateway that are not zero.
    pub fn status(&self, node: usize) -> String {
        let status = self.try_run(node, &format!("{TRACKWAY} status"));
        let entries: Vec<_> = status.split_whitespace().collect();
        format!("node {node}: {}\n", entries.join(" "))
    }

    /// The counters of all gateways.
    pub fn statuses(&self) -> String {
        (0..self.nodes.len()).map(|node| self.status(node)).collect()
    }

    pub fn count(&self, node: usize, counter: &str) -> u64 {
        self.nets.count(&self.nodes[node].name, counter)
    }

    /// Octets that an interface of a node has sent.
    pub fn octets_sent(&self, node: usize, interface: &str) -> u64 {
        let file = format!("/sys/class/net/{interface}/statistics/tx_bytes");
        self.run(node, &format!("cat {file}")).trim().parse().unwrap()
    }
}

/// The address on a node's loopback.
pub fn address(node: usize) -> String {
    format!("10.0.0.{}", node + 1)
}
