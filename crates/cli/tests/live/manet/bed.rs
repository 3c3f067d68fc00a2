//! Nodes on cables, each a gateway with a section `[routing]`.
//!
//! Node `n` has the address 10.66.0.(n + 1) on all its interfaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::namespaces::{Namespaces, Program, SOON, wait_until};

/// A protocol, and values of it that are quick enough for a test.
#[derive(Clone, Copy, Debug)]
pub struct Spoken {
    pub name: &'static str,
    pub values: &'static str,
    /// Whether routes are there before packets want them.
    pub is_proactive: bool,
}

pub const DSDV: Spoken = Spoken {
    name: "dsdv",
    values: "update-interval = \"500ms\"\nstart-jitter = \"100ms\"\ntrigger-spacing = \"50ms\"\n\
             settling = \"0s\"\n",
    is_proactive: true,
};

pub const OLSR: Spoken = Spoken {
    name: "olsr",
    values: "hello-interval = \"200ms\"\nneighbour-hold = \"700ms\"\ntc-interval = \"500ms\"\n\
             topology-hold = \"2s\"\nhna-interval = \"500ms\"\nmax-jitter = \"50ms\"\n",
    is_proactive: true,
};

pub const AODV: Spoken = Spoken {
    name: "aodv",
    values: "manet = \"10.66.0.0/24\"\nwait-after-reboot = false\nhello.interval = \"300ms\"\n",
    is_proactive: false,
};

pub const ALL: [Spoken; 3] = [DSDV, OLSR, AODV];

/// The nodes; all ends with it.
pub struct Manet {
    pub nets: Namespaces,
    pub nodes: Vec<Node>,
    pub spoken: Spoken,
}

pub struct Node {
    /// Its namespace.
    pub name: String,
    pub interfaces: Vec<String>,
    pub program: Option<usize>,
}

impl Manet {
    /// Nodes in a row, with nothing running.
    pub fn chain(spoken: Spoken, nodes: usize) -> Self {
        let mut nets = Namespaces::new();
        let nodes: Vec<_> = (0..nodes)
            .map(|node| Node {
                name: nets.add(&format!("n{node}")),
                interfaces: Vec::new(),
                program: None,
            })
            .collect();
        for node in &nodes {
            // As distributions set it: what comes from where no route leads is not let in.
            nets.run(&node.name, "sysctl -qw net.ipv4.conf.default.rp_filter=2");
        }
        let count = nodes.len();
        let mut manet = Self { nets, nodes, spoken };
        for node in 1..count {
            manet.join(node - 1, node);
        }
        manet
    }

    /// The same network with all nodes running.
    pub fn running(spoken: Spoken, nodes: usize) -> Self {
        let mut manet = Self::chain(spoken, nodes);
        manet.start_all();
        manet
    }

    /// Lays a cable between two nodes.
    pub fn join(&mut self, a: usize, b: usize) {
        let ends = [a, b].map(|node| {
            let interface = format!("radio{}", self.nodes[node].interfaces.len());
            self.nodes[node].interfaces.push(interface.clone());
            (self.nodes[node].name.clone(), interface, node)
        });
        self.nets.cable((&ends[0].0, &ends[0].1), (&ends[1].0, &ends[1].1));
        for (name, interface, node) in &ends {
            self.nets.address(name, interface, &format!("{}/32", address(*node)));
        }
    }

    /// Writes a node's configuration, with more of the section `[routing]`, and then other sections.
    pub fn configure(&self, node: usize, more: &str, sections: &str) {
        let (interfaces, Spoken { name, values, .. }) = (&self.nodes[node].interfaces, self.spoken);
        let text = format!(
            "log = \"debug\"\n[routing]\nprotocol = \"{name}\"\ninterfaces = {interfaces:?}\n{values}{more}\n\
             {sections}\n"
        );
        fs::write(self.file(node), text).unwrap();
    }

    /// Starts a node with its configuration.
    pub fn start(&mut self, node: usize) {
        let program = self.nets.run_gateway(&self.nodes[node].name, &self.file(node));
        self.nodes[node].program = Some(program);
    }

    pub fn start_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.configure(node, "", "");
            self.start(node);
        }
    }

    pub fn program(&mut self, node: usize) -> &mut Program {
        let program = self.nodes[node].program.unwrap();
        self.nets.program(program)
    }

    /// Where packets go from a node by routes of ours: the destinations in the kernel.
    pub fn routes(&self, node: usize) -> BTreeSet<String> {
        let said = self.run(node, "ip route show proto 116");
        let hosts = said.lines().filter(|line| !line.contains("trackway-"));
        hosts.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    /// Waits until a node has routes to these nodes, and no others.
    pub fn expect_routes(&self, node: usize, to: &[usize]) {
        let expected: BTreeSet<_> = to.iter().map(|other| address(*other)).collect();
        let has_come = wait_until(SOON, || self.routes(node) == expected);
        assert!(has_come, "node {node}, not {expected:?}: {}", self.told(node));
    }

    /// Waits until a node reaches another.
    pub fn expect_reachable(&self, node: usize, to: &str) {
        let command = format!("ping -c 1 -W 1 {to}");
        let comes = wait_until(SOON, || {
            self.nets.try_run(&self.nodes[node].name, &command).status.success()
        });
        assert!(comes, "node {node} does not reach {to}: {}", self.told(node));
    }

    /// Waits until the whole network has found its routes, if it does so by itself.
    pub fn settle(&self) {
        if !self.spoken.is_proactive {
            return;
        }
        for node in 0..self.nodes.len() {
            let others: Vec<_> = (0..self.nodes.len()).filter(|other| *other != node).collect();
            self.expect_routes(node, &others);
        }
    }

    pub fn run(&self, node: usize, command: &str) -> String {
        self.nets.run(&self.nodes[node].name, command)
    }

    pub fn status(&self, node: usize) -> Value {
        self.nets.status(&self.nodes[node].name)
    }

    pub fn count(&self, node: usize, counter: &str) -> u64 {
        self.nets.count(&self.nodes[node].name, counter)
    }

    /// All that a person would look at.
    pub fn told(&self, node: usize) -> String {
        let printed = self.nodes[node].program.map(|program| self.nets.printed(program));
        format!(
            "{}\n{}\n{}",
            self.run(node, "ip route"),
            self.status(node),
            printed.unwrap_or_default()
        )
    }

    pub fn file(&self, node: usize) -> PathBuf {
        self.nets.folder().join(format!("{node}.toml"))
    }
}

/// A node's address.
pub fn address(node: usize) -> String {
    format!("10.66.0.{}", node + 1)
}
