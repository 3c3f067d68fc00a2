//! Tests tunnels between gateways over cables with losses, cuts, silent drops and datagrams of strangers.

mod dscp;
mod ends;
mod exit;
mod faults;
mod forged;
mod hostile;
mod listen;
mod names;
mod nat;
mod noisy;
mod older;
mod paths;
mod peers;
mod reload;
mod restart;
mod rivals;
mod rotation;
mod routes;
mod status;
mod storm;
mod timed;
mod uplinks;

use std::fs;
use std::ops::Range;
use std::time::SystemTime;

use ::gateway::keys::System;
use base::rng::Rng;
use base::time::Time;
use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::probe::Iperf;
use testbed::traffic::Transfer;
use tunnel::secure::{Peer, Peers, PrivateKey, PublicKey};

use crate::namespaces::{Emulated, Namespaces, Program, SOON, TRACKWAY, wait_until};

/// Gateways around gateway 0, each with an emulated cable to it.
///
/// ```text
///            eth1 10.9.1.1 ─── 10.9.1.2 eth0  gateway 1, inside 10.77.0.2
///  gateway 0 eth2 10.9.2.1 ─── 10.9.2.2 eth0  gateway 2, inside 10.77.0.3
///  inside 10.77.0.1  ...
/// ```
struct Net {
    nets: Namespaces,
    nodes: Vec<String>,
    cables: Vec<Emulated>,
    programs: Vec<Option<usize>>,
    keys: Vec<String>,
}

impl Net {
    /// Gateways 0 and 1; the cable is as `trackway link` takes it.
    fn pair(link: &str) -> Self {
        Self::star(1, link)
    }

    fn star(peers: usize, link: &str) -> Self {
        let mut nets = Namespaces::new();
        let nodes: Vec<String> = (0..=peers).map(|node| nets.add(&format!("n{node}"))).collect();
        let mut cables = Vec::new();
        for (peer, name) in nodes.iter().enumerate().skip(1) {
            let hubs = (format!("eth{peer}"), format!("10.9.{peer}.1"));
            let ends = [(&nodes[0][..], &hubs.0[..], &hubs.1[..])];
            let peers = (&name[..], "eth0", &format!("10.9.{peer}.2")[..]);
            cables.push(nets.emulate([ends[0], peers], link));
        }
        let keys = (0..=peers).map(|node| nets.make_key(&format!("{node}.key")).unwrap().1);
        let keys = keys.collect();
        let programs = vec![None; peers + 1];
        let net = Self { nets, nodes, cables, programs, keys };
        for node in 0..=peers {
            net.write_config(node, &net.keys, "");
        }
        net
    }

    /// Writes the configuration of a node with these as the keys of all nodes.
    fn write_config(&self, node: usize, keys: &[String], more: &str) {
        let peers = if node == 0 { 1..self.nodes.len() } else { 0..1 };
        self.write_config_with(node, keys, more, peers);
    }

    /// The same, with these peers.
    fn write_config_with(&self, node: usize, keys: &[String], more: &str, peers: Range<usize>) {
        let key = self.nets.folder().join(format!("{node}.key"));
        let own = node + 1;
        let mut config = format!(
            "{more}\n[tunnel]\nprivate-key = {key:?}\n\
             addresses = [\"10.77.0.{own}/24\", \"fd77::{own}/64\"]\n"
        );
        for peer in peers {
            let endpoint =
                if node == 0 { format!("10.9.{peer}.2") } else { format!("10.9.{node}.1") };
            let (inside, key) = (peer + 1, &keys[peer]);
            config += &format!(
                "[[tunnel.peer]]\nname = \"peer{peer}\"\npublic-key = \"{key}\"\n\
                 endpoint = \"{endpoint}:51900\"\n\
                 routes = [\"10.77.0.{inside}/32\", \"fd77::{inside}/128\"]\n"
            );
        }
        fs::write(self.nets.folder().join(format!("{node}.toml")), config).unwrap();
    }

    fn start(&mut self, node: usize) {
        let file = self.nets.folder().join(format!("{node}.toml"));
        self.programs[node] = Some(self.nets.run_gateway(&self.nodes[node], &file));
    }

    /// Starts all gateways and waits until all tunnels are up.
    fn start_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
        for node in 0..self.nodes.len() {
            let is_up = wait_until(SOON, || {
                let tunnels = self.status(node)["tunnels"].clone();
                tunnels.as_array().is_some_and(|all| all.iter().all(|it| it["state"] == "up"))
            });
            assert!(is_up, "{node}: {}", self.status(node));
        }
    }

    /// The gateway of a node, which was started.
    fn gateway(&mut self, node: usize) -> &mut Program {
        self.nets.program(self.programs[node].unwrap())
    }

    /// The process of a gateway.
    fn pid(&mut self, node: usize) -> i32 {
        self.gateway(node).pid().as_raw()
    }

    /// Ends a gateway as if it had crashed.
    fn crash(&mut self, node: usize) {
        self.gateway(node).signal(Signal::SIGKILL);
        self.gateway(node).finish(SOON);
        let is_gone = wait_until(SOON, || !self.has_device(node));
        assert!(is_gone, "the device is left");
    }

    /// The same, and starts it anew.
    fn crash_and_start(&mut self, node: usize) {
        self.crash(node);
        self.start(node);
    }

    /// Starts a transfer through the tunnels.
    fn transfer(&self, from: usize, to: usize, octets: usize) -> Transfer {
        let inside = format!("10.77.0.{}", to + 1);
        Transfer::start(&self.nodes[from], (&self.nodes[to], &inside), octets)
    }

    /// The report of `iperf3` from node 0 to node 1 through the tunnel, with further arguments.
    fn iperf(&mut self, seconds: u32, args: &[&str]) -> Value {
        let between = (&self.nodes[0][..], &self.nodes[1][..]);
        let iperf = Iperf { between, address: "10.77.0.2", seconds, left_out: 0, args };
        iperf.report(&mut self.nets).unwrap()
    }

    fn run(&self, node: usize, command: &str) -> String {
        self.nets.run(&self.nodes[node], command)
    }

    fn try_run(&self, node: usize, command: &str) -> String {
        let output = self.nets.try_run(&self.nodes[node], command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Expects the answers to so many pings.
    fn expect_pings(&self, node: usize, address: &str, pings: u16) {
        let unanswered = self.nets.unanswered(&self.nodes[node], address, pings, 56);
        assert!(unanswered.is_empty(), "{unanswered:?} to {address}: {}", self.status(node));
    }

    /// Expects that a ping is answered before long; those before it may be lost.
    fn expect_ping(&self, node: usize, address: &str) {
        let command = format!("ping -c 1 -W 1 {address}");
        let comes = wait_until(SOON, || self.try_run(node, &command).contains(" 0% packet loss"));
        assert!(comes, "no ping to {address}: {}", self.status(node));
    }

    fn has_device(&self, node: usize) -> bool {
        self.nets.try_run(&self.nodes[node], "ip link show dev trackway-nc0").status.success()
    }

    fn status(&self, node: usize) -> Value {
        self.nets.status(&self.nodes[node])
    }

    fn expect_count(&self, node: usize, counter: &str, expected: u64) {
        let comes = wait_until(SOON, || self.count(node, counter) == expected);
        assert!(comes, "{counter} of {node}: {}", self.status(node));
    }

    /// A counter of a gateway.
    fn count(&self, node: usize, counter: &str) -> u64 {
        self.nets.count(&self.nodes[node], counter)
    }
}

/// What calls a gateway in its own right, or as a stranger.
fn caller(key: &PrivateKey, of: PublicKey, at: &str, seed: u32) -> Peers {
    let endpoint = Some(at.parse().unwrap());
    let peer =
        Peer { public_key: of, preshared_key: None, previous_key: None, endpoint, keepalive: None };
    let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let rng = Rng::stream(seed.into(), "caller");
    Peers::new(Time::ZERO, unix, key, &[peer], rng, Box::new(System)).unwrap()
}
