//! Two nodes on emulated HF radio, their clients, good and bad, and IP over them.

mod attack;
mod certificates;
mod clients;
mod divert;
mod errors;
mod group;
mod handshake;
mod hostile;
mod ip;
mod modem;
mod names;
mod older;
mod pep;
mod programs;
mod reload;
mod rules;
mod sis;
mod strangers;
mod timed;
mod tls;
mod tls_programs;
mod udp;

use serde_json::Value;

use crate::namespaces::{Namespaces, Program, SOON, TRACKWAY, wait_until};
use sis::Client;

/// Addresses of the nodes.
const A: [u8; 4] = [0xe0, 0x0a, 0x14, 0x1e];
const B: [u8; 4] = [0xe0, 0x0a, 0x14, 0x1f];

/// Two hosts with loopback interfaces, and a radio that serves each.
struct Net {
    nets: Namespaces,
    hosts: [String; 2],
    radio: Option<usize>,
    gateways: [Option<usize>; 2],
}

impl Net {
    fn new() -> Self {
        let mut nets = Namespaces::new();
        let hosts = ["a", "b"].map(|host| nets.add(host));
        Self { nets, hosts, radio: None, gateways: [None; 2] }
    }

    /// Two hosts and a running radio.
    fn with_radio(options: &str) -> Self {
        let mut net = Self::new();
        net.start_radio(options);
        net
    }

    fn start_radio(&mut self, options: &str) {
        let [a, b] = self.hosts.clone();
        let command = format!("{TRACKWAY} hf --netns-a {a} --netns-b {b} --json {options}");
        self.radio = Some(self.nets.start(&a, &command, "ready"));
    }

    fn radio(&mut self) -> &mut Program {
        self.nets.program(self.radio.unwrap())
    }

    /// Ends the radio and returns its summary.
    fn summary(&mut self) -> Value {
        let (code, printed) = self.radio().stop();
        assert_eq!(code, Some(0), "{printed}");
        let json = printed.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(json.unwrap_or_default()).unwrap_or_else(|_| panic!("{printed}"))
    }

    /// Connects to the node of a host.
    fn connect(&self, host: usize) -> Client {
        Client::new(self.nets.within(&self.hosts[host], || sis::connect(5_066)))
    }

    /// Connects to the node of a host, and binds.
    fn bind(&self, host: usize, sap: u8) -> Client {
        let mut client = self.connect(host);
        client.bind(sap, 0);
        client.expect_bound(sap);
        client
    }

    /// Starts the gateway of a host.
    fn start_gateway(&mut self, host: usize, config: &str) {
        let gateway = self.nets.start_gateway(&self.hosts[host], &host.to_string(), config);
        self.gateways[host] = Some(gateway);
    }

    fn gateway(&mut self, host: usize) -> &mut Program {
        self.nets.program(self.gateways[host].unwrap())
    }

    /// Starts IP over the radio on both hosts, and waits until both are bound.
    fn start_ip_clients(&mut self) {
        for host in [0, 1] {
            self.start_ip_client(host);
        }
        for host in [0, 1] {
            self.expect_state(host, "ipclient", "bound");
        }
    }

    fn start_ip_client(&mut self, host: usize) {
        self.start_gateway(host, &ip_client(host));
    }

    fn expect_state(&self, host: usize, service: &str, state: &str) {
        let comes = wait_until(SOON, || self.status(host)[service]["state"] == state);
        let printed = self.gateways[host].map(|gateway| self.nets.printed(gateway));
        let status = self.status(host);
        assert!(comes, "{service} of {host} is not {state}: {status}\n{}", printed.unwrap());
    }

    /// Expects these faults about nodes and modems that do not answer, and no others.
    fn expect_silent(&self, host: usize, expected: &[&str]) {
        let told = || -> Vec<String> {
            let status = self.status(host);
            let faults = status["faults"].as_array().into_iter().flatten();
            let its = faults.filter(|fault| fault["code"] == "no-answer");
            its.map(|fault| fault["said"].as_str().unwrap().to_owned()).collect()
        };
        let is_so = || {
            let told = told();
            let all = expected.iter().all(|it| told.iter().any(|told| told.starts_with(it)));
            all && told.len() == expected.len()
        };
        assert!(wait_until(SOON, is_so), "{expected:?}: {:?}", told());
    }

    /// Expects the answer to one ping: ARQ repeats what the radio breaks.
    fn expect_ping(&self, host: usize, address: &str) {
        let unanswered = self.nets.unanswered(&self.hosts[host], address, 1, 56);
        assert!(unanswered.is_empty(), "{address}: {}", self.status(host));
    }

    fn status(&self, host: usize) -> Value {
        self.nets.status(&self.hosts[host])
    }
}

/// IP between 10.88.0.1 on host A and 10.88.0.2 on B, and in IPv6.
fn ip_client(host: usize) -> String {
    let (own, other) = (host + 1, 2 - host);
    let node = ["0.10.20.31", "0.10.20.30"][host];
    format!(
        "[ipclient]\naddresses = [\"10.88.0.{own}/24\", \"fd88::{own}/64\"]\n\
         [[ipclient.route]]\nnode = \"{node}\"\n\
         to = [\"10.88.0.{other}/32\", \"fd88::{other}/128\"]\n"
    )
}
