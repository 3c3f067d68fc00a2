//! Namespaces with a radio each, on the air of a scenario.
//!
//! Node `n` of the scenario is the namespace `nN`; its interface is `wlan0`, with the address 10.128.0.(N + 1), as in
//! the simulator. The other end of the interface, called `nN`, is in the namespace of the emulator.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::namespaces::{Namespaces, TRACKWAY};

/// The nodes and their air; all ends with it.
pub struct Air {
    pub nets: Namespaces,
    /// Their namespaces.
    pub nodes: Vec<String>,
    /// That of the emulator.
    pub middle: String,
    pub program: usize,
}

impl Air {
    /// Nodes at these places on a line, in metres, with these parameters of the radio.
    pub fn row(places: &[f64], radio: &str) -> Self {
        Self::new(places.len(), &row(places, radio))
    }

    /// Nodes on a combat net with these parameters, with packets as long as the net allows.
    pub fn net(nodes: usize, net: &str, options: &str) -> Self {
        let mut air = Self::apart(nodes, &net_of(nodes, net));
        for (node, name) in air.nodes.iter().enumerate() {
            air.nets.run(name, "ip link set dev wlan0 mtu 576");
            air.nets.run(&air.middle, &format!("ip link set dev n{node} mtu 576"));
        }
        air.join(options);
        air
    }

    /// Nodes of a scenario, on the air from now on.
    pub fn new(nodes: usize, scenario: &str) -> Self {
        let mut air = Self::apart(nodes, scenario);
        air.join("");
        air
    }

    /// Begins to carry, with these options, in which `{}` is the folder of this test.
    pub fn join(&mut self, options: &str) {
        let options = options.replace("{}", &self.nets.folder().display().to_string());
        let command = command(&self.file("scenario.toml"), &options);
        self.program = self.nets.start(&self.middle.clone(), &command, "joined");
    }

    /// Nodes of a scenario, which nothing joins yet.
    fn apart(nodes: usize, scenario: &str) -> Self {
        let mut nets = Namespaces::new();
        let middle = nets.add("air");
        let nodes: Vec<String> = (0..nodes).map(|node| nets.add(&format!("n{node}"))).collect();
        for (node, name) in nodes.iter().enumerate() {
            // Nobody is told of a better way, and whoever is told one goes it.
            nets.run(
                name,
                "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 \
                 net.ipv4.conf.default.send_redirects=0 net.ipv4.conf.default.accept_redirects=0",
            );
            nets.cable((name, "wlan0"), (&middle, &format!("n{node}")));
            nets.address(name, "wlan0", &format!("{}/24", address(node)));
        }
        let folder = nets.folder().to_owned();
        let file = folder.join("scenario.toml");
        fs::write(&file, scenario).unwrap();
        Self { nets, nodes, middle, program: 0 }
    }

    /// Routes to all nodes along the row, in both directions.
    pub fn route_along(&self) {
        for (node, name) in self.nodes.iter().enumerate() {
            for other in 0..self.nodes.len() {
                let next = if other > node { node + 1 } else { node.saturating_sub(1) };
                if node.abs_diff(other) > 1 {
                    let (to, via) = (address(other), address(next));
                    self.nets.run(name, &format!("ip route add {to}/32 via {via} dev wlan0"));
                }
            }
        }
    }

    /// Whether a node is answered by another.
    pub fn is_answered(&self, from: usize, to: usize) -> bool {
        let command = format!("ping -c 3 -i 0.2 -W 1 {}", address(to));
        self.nets.try_run(&self.nodes[from], &command).status.success()
    }

    /// Tells all nodes each other's hardware addresses, so that nodes send only the requested packets.
    pub fn introduce_all(&self) {
        let hardware: Vec<String> = self
            .nodes
            .iter()
            .map(|node| self.nets.run(node, "cat /sys/class/net/wlan0/address").trim().to_owned())
            .collect();
        for (node, name) in self.nodes.iter().enumerate() {
            for (other, hardware) in hardware.iter().enumerate().filter(|(other, _)| *other != node)
            {
                let to = address(other);
                let add = format!("ip neigh add {to} lladdr {hardware} dev wlan0 nud permanent");
                self.nets.run(name, &add);
            }
        }
    }

    /// Ends the air and returns its report.
    pub fn end(&mut self) -> Value {
        let (code, printed) = self.nets.program(self.program).stop();
        assert_eq!(code, Some(0), "{printed}");
        serde_json::from_str(printed.lines().last().unwrap()).unwrap()
    }

    /// A file of this test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.nets.folder().join(name)
    }
}

/// A scenario of nodes at these places on a line.
pub fn row(places: &[f64], radio: &str) -> String {
    let names: Vec<String> = (0..places.len()).map(|node| format!("\"n{node}\"")).collect();
    let mut scenario = format!("nodes = [{}]\n[[radio]]\n{radio}\n", names.join(", "));
    for (node, place) in places.iter().enumerate() {
        scenario += &format!("[node.n{node}]\nposition = [{place}, 0]\n");
    }
    scenario
}

/// A scenario of nodes on a combat net.
pub fn net_of(nodes: usize, net: &str) -> String {
    let names: Vec<String> = (0..nodes).map(|node| format!("\"n{node}\"")).collect();
    format!("nodes = [{}]\n[[net]]\n{net}\n", names.join(", "))
}

/// All nodes of a scenario on the air.
pub fn command(scenario: &Path, options: &str) -> String {
    format!("{TRACKWAY} air {} --join *=* --seed 1 --json {options}", scenario.display())
}

/// A node's address.
pub fn address(node: usize) -> String {
    format!("10.128.0.{}", node + 1)
}

/// What a station counted.
pub fn count(report: &Value, station: usize, what: &str) -> u64 {
    report["stations"][station][what].as_u64().unwrap()
}
