//! Gateways around gateway 0, each with an emulated cable to it, and programs that use them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::namespaces::{Namespaces, Program, SOON, TRACKWAY, wait_until};

/// The port that programs of tests receive by.
pub const PORT: u16 = 5_000;
/// Times that suit a cable; whoever is dead is given up soon.
pub const QUICK: &str =
    "round-trip = \"300ms\"\nmost-timeout = \"1s\"\nrequests = 4\nspread = \"50ms\"\n";

/// Gateways.
///
/// ```text
///            eth1 10.9.1.1 ─── 10.9.1.2 eth0  gateway 1
///  gateway 0 eth2 10.9.2.1 ─── 10.9.2.2 eth0  gateway 2  ...
/// ```
pub struct Net {
    pub nets: Namespaces,
    pub nodes: Vec<String>,
    programs: Vec<Option<usize>>,
}

impl Net {
    /// Gateway 0 and as many others; the cables are as `trackway link` takes them.
    pub fn star(others: usize, link: &str) -> Self {
        let mut nets = Namespaces::new();
        let nodes: Vec<String> = (0..=others).map(|node| nets.add(&format!("m{node}"))).collect();
        for (other, name) in nodes.iter().enumerate().skip(1) {
            let (interface, address) = (format!("eth{other}"), format!("10.9.{other}.1"));
            let hub = (&nodes[0][..], &interface[..], &address[..]);
            nets.emulate([hub, (&name[..], "eth0", &address_of(other))], link);
        }
        let programs = vec![None; others + 1];
        let net = Self { nets, nodes, programs };
        for node in 0..=others {
            net.configure(node, "");
        }
        net
    }

    /// Two gateways that run.
    pub fn pair(link: &str) -> Self {
        let mut net = Self::star(1, link);
        net.start_all();
        net
    }

    /// Writes a configuration, with more in the section.
    pub fn configure(&self, node: usize, more: &str) {
        let (socket, store) = (self.socket(node), self.store(node));
        let is_given = |line: &&str| {
            let key = line.split(' ').next().unwrap();
            more.lines().any(|line| line.starts_with(&format!("{key} =")))
        };
        let quick: Vec<&str> = QUICK.lines().filter(|line| !is_given(line)).collect();
        let quick = quick.join("\n");
        let config = format!("[sar]\nsocket = {socket:?}\nstore = {store:?}\n{quick}\n{more}");
        fs::write(self.file(node), config).unwrap();
    }

    pub fn file(&self, node: usize) -> PathBuf {
        self.nets.folder().join(format!("{node}.toml"))
    }

    pub fn socket(&self, node: usize) -> PathBuf {
        self.nets.folder().join(format!("{node}.run/sar.sock"))
    }

    pub fn store(&self, node: usize) -> PathBuf {
        self.nets.folder().join(format!("{node}.store"))
    }

    pub fn start(&mut self, node: usize) {
        let file = self.file(node);
        self.programs[node] = Some(self.nets.run_gateway(&self.nodes[node], &file));
    }

    pub fn start_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.start(node));
    }

    pub fn gateway(&mut self, node: usize) -> &mut Program {
        self.nets.program(self.programs[node].unwrap())
    }

    /// What a gateway has printed.
    pub fn printed(&self, node: usize) -> String {
        self.nets.printed(self.programs[node].unwrap())
    }

    /// Ends a gateway as a crash would.
    pub fn kill(&mut self, node: usize) {
        self.gateway(node).signal(Signal::SIGKILL);
        self.gateway(node).finish(SOON);
    }

    pub fn status(&self, node: usize) -> Value {
        self.nets.status(&self.nodes[node])
    }

    pub fn count(&self, node: usize, counter: &str) -> u64 {
        self.nets.count(&self.nodes[node], &format!("sar_{counter}"))
    }

    pub fn expect_count(&self, node: usize, counter: &str, expected: u64) {
        let comes = wait_until(SOON, || self.count(node, counter) == expected);
        assert!(comes, "{counter} of {node} is not {expected}: {}", self.status(node));
    }

    /// A program of a gateway's host.
    pub fn program(&self, node: usize) -> Client {
        Client::connect(&self.socket(node)).unwrap()
    }

    /// Runs `trackway` with arguments, for a gateway's socket, to its end.
    pub fn trackway(&self, node: usize, args: &[&str]) -> Output {
        let socket = self.socket(node);
        let end = ["--socket", socket.to_str().unwrap()];
        self.nets.try_words(&self.nodes[node], &[&[TRACKWAY], args, &end[..]].concat())
    }
}

/// The address of a gateway other than the first.
pub fn address_of(node: usize) -> String {
    format!("10.9.{node}.2")
}

/// A program.
pub struct Client(pub BufReader<UnixStream>);

impl Client {
    pub fn connect(socket: &std::path::Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SOON))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub fn into_stream(self) -> UnixStream {
        self.0.into_inner()
    }

    /// Waits so long for an answer.
    pub fn give_up_after(&self, patience: Duration) {
        self.0.get_ref().set_read_timeout(Some(patience)).unwrap();
    }

    pub fn ask(&mut self, line: &Value, octets: &[u8]) -> std::io::Result<()> {
        let stream = self.0.get_mut();
        stream.write_all(format!("{line}\n").as_bytes())?;
        stream.write_all(octets)
    }

    /// The next answer, and the octets behind it.
    pub fn answer(&mut self) -> std::io::Result<(Value, Vec<u8>)> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        let mut octets = vec![0; usize::try_from(answer["octets"].as_u64().unwrap_or(0)).unwrap()];
        self.0.read_exact(&mut octets)?;
        Ok((answer, octets))
    }

    /// Asks for a message to be sent.
    pub fn send(&mut self, to: &[String], name: &str, octets: &[u8]) {
        let line =
            json!({"do": "send", "to": to, "port": PORT, "name": name, "octets": octets.len()});
        self.ask(&line, octets).unwrap();
    }

    /// The next answer, which is of a kind.
    pub fn expect(&mut self, is: &str) -> Value {
        let (answer, _) = self.answer().unwrap();
        assert_eq!(answer["is"], is, "{answer}");
        answer
    }

    /// The outcomes of `count` destinations, each with its message and destination.
    pub fn outcomes(&mut self, count: usize) -> Vec<(u64, String, String)> {
        let outcome = |_| {
            let answer = self.expect("outcome");
            let text = |key: &str| answer[key].as_str().unwrap().to_owned();
            (answer["id"].as_u64().unwrap(), text("to"), text("outcome"))
        };
        (0..count).map(outcome).collect()
    }

    pub fn want(&mut self, port: u16) {
        self.ask(&json!({"do": "receive", "port": port}), &[]).unwrap();
    }

    /// The next message, which is taken.
    pub fn take(&mut self) -> (u64, Vec<u8>) {
        let (answer, octets) = self.answer().unwrap();
        assert_eq!(answer["is"], "received", "{answer}");
        let number = answer["number"].as_u64().unwrap();
        self.ask(&json!({"do": "taken", "number": number}), &[]).unwrap();
        (number, octets)
    }
}
