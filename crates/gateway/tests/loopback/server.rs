//! Tests a server on the loopback interface with bad clients beside good clients.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use base::rng::Rng;
use base::time::Time;
use gateway::bearer::Server;
use gateway::bearer::server::{Client, Core};
use hf::s5066::{Address, Node, node};
use nix::poll::{PollFlags, PollTimeout, poll};

#[test]
fn fifty_clients_each_get_their_own_octets() {
    let mut net = Net::new(60);
    let mut clients: Vec<_> = (0..50).map(|_| net.connect()).collect();

    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(&[u8::try_from(number).unwrap(); 300]).unwrap();
    }

    for (number, client) in clients.iter_mut().enumerate() {
        let echo = net.receive(client, 300);
        assert!(echo.iter().all(|&octet| usize::from(octet) == number), "{number}");
    }
    assert_eq!(net.server.connections(), 50);
}

#[test]
fn who_is_one_too_many_is_closed_at_once() {
    let mut net = Net::new(2);
    let mut clients = [net.connect(), net.connect()];

    let mut third = net.connect();

    assert_eq!(net.read_to_end(&mut third), [0_u8; 0]);
    assert_eq!((net.server.stats().accepted, net.server.stats().refused), (2, 1));
    for client in &mut clients {
        client.write_all(b"still here").unwrap();
        assert_eq!(net.receive(client, 10), b"still here");
    }
}

#[test]
fn connections_that_never_bind_keep_no_client_out() {
    let mut config = node::Config::new(Address::node(1), "9600".parse().unwrap());
    config.sis.limits.max_clients = 4;
    let node = Node::new(Time::ZERO, config, Rng::stream(1, "node"));
    let mut station = Station { server: server(), node };
    let mut client = station.connect();
    // S_BIND_REQUEST for access point 9, and S_BIND_ACCEPTED.
    client.write_all(&[0x90, 0xeb, 0, 0, 4, 1, 0x90, 0x16, 0]).unwrap();
    assert_eq!(station.receive(&mut client), [0x90, 0xeb, 0, 0, 4, 3, 0x90, 8, 0]);

    let idle: Vec<_> = (0..100).map(|_| station.connect()).collect();
    let mut other = station.connect();
    other.write_all(&[0x90, 0xeb, 0, 0, 4, 1, 0x80, 0x16, 0]).unwrap();

    assert_eq!(station.receive(&mut other), [0x90, 0xeb, 0, 0, 4, 3, 0x80, 8, 0]);
    assert_eq!(station.node.sis().bound().count(), 2);
    assert_eq!(station.server.connections(), 4);
    let mut fds = Vec::new();
    station.server.watch(&station.node, &mut fds);
    assert!(fds.len() <= 1 + 4 + 64, "{} descriptors", fds.len());
    drop(idle);
}

#[test]
fn who_does_not_read_costs_little_and_is_closed_after_a_while() {
    let mut net = Net::new(4);
    let (mut lazy, mut other) = (net.connect(), net.connect());
    // The server returns octets without end.
    lazy.write_all(&[FOREVER]).unwrap();
    // Until the kernel accepts no more octets for this client: the server then has a deadline.
    net.turn_until(|net| net.server.next_timeout().is_some());
    net.turns(500);

    other.write_all(b"quick").unwrap();
    assert_eq!(net.receive(&mut other, 5), b"quick");
    let given = net.core.given;
    net.turns(50);
    assert!(net.core.given - given < 1 << 20, "{}", net.core.given - given);

    net.now += Duration::from_secs(59);
    net.server.handle_timeout(net.now, &mut net.core);
    assert_eq!(net.server.stats().stalled, 0);
    net.now = net.server.next_timeout().unwrap();
    net.server.handle_timeout(net.now, &mut net.core);

    assert_eq!((net.server.stats().stalled, net.server.connections()), (1, 1));
    assert_eq!(net.core.gone, 1);
}

#[test]
fn a_flood_does_not_delay_others_by_more_than_a_few_turns() {
    let mut net = Net::new(4);
    let (mut flood, mut other) = (net.connect(), net.connect());
    flood.set_nonblocking(true).unwrap();
    let mut pour = |net: &mut Net| {
        while flood.write(&[0; 1 << 16]).is_ok() {}
        net.turn();
    };
    for _ in 0..100 {
        pour(&mut net);
    }

    other.set_nonblocking(true).unwrap();
    // A busy machine may keep the octets to itself for some turns, but not in each of ten tries.
    let turns = (0..10).map(|_| {
        other.write_all(b"quick").unwrap();
        let mut echo = [0; 5];
        let turns = (0..100_000).take_while(|_| {
            pour(&mut net);
            other.read(&mut echo).is_err()
        });
        let turns = turns.count();
        assert_eq!(&echo, b"quick");
        turns
    });

    assert!(turns.min() < Some(20));
}

#[test]
fn last_words_arrive_although_nobody_listens_any_more() {
    let mut net = Net::new(4);
    let mut client = net.connect();

    client.write_all(&[&[CLOSE][..], &[0; 100_000]].concat()).unwrap();

    let said = net.read_to_end(&mut client);
    assert_eq!(said, b"bye");
    drop(client);
    net.turn_until(|net| net.server.next_timeout().is_none());
    assert_eq!((net.server.stats().closed, net.server.stats().lost), (1, 0));
    assert_eq!(net.server.next_timeout(), None);
}

#[test]
fn who_goes_is_forgotten() {
    let mut net = Net::new(1);
    for round in 1..=20 {
        let mut client = net.connect();
        client.write_all(b"hello").unwrap();
        assert_eq!(net.receive(&mut client, 5), b"hello");
        drop(client);
        net.turn_until(|net| net.server.connections() == 0);

        assert_eq!((net.server.connections(), net.core.gone), (0, round));
    }
}

/// A first octet that asks for octets without end, or for the end.
const FOREVER: u8 = 0xf0;
const CLOSE: u8 = 0xf1;

/// Gives back what it gets.
#[derive(Default)]
struct Echo {
    limit: usize,
    clients: BTreeMap<u32, Vec<u8>>,
    forever: Vec<u32>,
    touched: Vec<Client>,
    closing: Vec<Client>,
    next: u32,
    gone: usize,
    given: usize,
}

impl Core for Echo {
    fn handle_connected(&mut self, _now: Time) -> Option<Client> {
        if self.clients.len() == self.limit {
            return None;
        }
        self.next += 1;
        self.clients.insert(self.next, Vec::new());
        Some(Client(self.next))
    }

    fn handle_octets(&mut self, _now: Time, client: Client, octets: &[u8]) {
        match octets[0] {
            FOREVER => self.forever.push(client.0),
            CLOSE => {
                self.clients.insert(client.0, b"bye".to_vec());
                self.closing.push(client);
            }
            // A core bounds what it keeps for a client that does not read.
            _ => {
                let waiting = self.clients.get_mut(&client.0).unwrap();
                let room = (1_usize << 20).saturating_sub(waiting.len());
                waiting.extend(octets.iter().take(room));
            }
        }
        self.touched.push(client);
    }

    fn handle_disconnected(&mut self, _now: Time, client: Client) {
        self.clients.remove(&client.0).unwrap();
        self.gone += 1;
    }

    fn poll_octets(&mut self, _now: Time, client: Client, out: &mut Vec<u8>) -> bool {
        if self.forever.contains(&client.0) {
            out.extend([7; 1_000]);
            self.given += 1_000;
            return true;
        }
        let octets = std::mem::take(self.clients.get_mut(&client.0).unwrap());
        out.extend_from_slice(&octets);
        !octets.is_empty()
    }
}

/// A node with a server.
struct Station {
    server: Server,
    node: Node,
}

impl Station {
    fn connect(&mut self) -> TcpStream {
        let client = TcpStream::connect(self.server.local_address().unwrap()).unwrap();
        let before = self.server.stats().accepted + self.server.stats().refused;
        while self.server.stats().accepted + self.server.stats().refused == before {
            self.turn();
        }
        client
    }

    fn receive(&mut self, client: &mut TcpStream) -> [u8; 9] {
        client.set_nonblocking(true).unwrap();
        let mut octets = [0; 9];
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = client.read_exact(&mut octets) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(Instant::now() < deadline, "{:?}", self.server.stats());
            self.turn();
        }
        octets
    }

    fn turn(&mut self) {
        let mut fds = Vec::new();
        self.server.watch(&self.node, &mut fds);
        poll(&mut fds, PollTimeout::from(1_u8)).unwrap();
        let ready: Vec<_> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        self.server.handle_ready(Time::ZERO, &ready, &mut self.node);
        while let Some(event) = self.node.poll_event() {
            match event {
                node::Event::Readable(client) => {
                    self.server.push(Time::ZERO, Client(client.0), &mut self.node);
                }
                node::Event::Close(client) => {
                    self.server.close(Time::ZERO, Client(client.0), &mut self.node);
                }
                node::Event::Management { .. } => {}
            }
        }
    }
}

fn server() -> Server {
    Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

struct Net {
    server: Server,
    core: Echo,
    now: Time,
}

impl Net {
    fn new(limit: usize) -> Self {
        Self { server: server(), core: Echo { limit, ..Echo::default() }, now: Time::ZERO }
    }

    fn connect(&mut self) -> TcpStream {
        let client = TcpStream::connect(self.server.local_address().unwrap()).unwrap();
        let before = self.server.stats().accepted + self.server.stats().refused;
        while self.server.stats().accepted + self.server.stats().refused == before {
            self.turn();
        }
        client
    }

    /// What a driver does once: waits a moment, and moves octets.
    fn turn(&mut self) {
        let mut fds = Vec::new();
        self.server.watch(&self.core, &mut fds);
        poll(&mut fds, PollTimeout::from(1_u8)).unwrap();
        let ready: Vec<_> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        self.server.handle_ready(self.now, &ready, &mut self.core);
        for client in std::mem::take(&mut self.core.touched) {
            self.server.push(self.now, client, &mut self.core);
        }
        for client in std::mem::take(&mut self.core.closing) {
            self.server.close(self.now, client, &mut self.core);
        }
    }

    fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.turn();
        }
    }

    /// Takes turns until something has come to pass: the kernel takes its time on a busy machine.
    fn turn_until(&mut self, mut has_happened: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !has_happened(self) {
            assert!(Instant::now() < deadline, "not in time: {:?}", self.server.stats());
            self.turn();
        }
    }

    fn receive(&mut self, client: &mut TcpStream, len: usize) -> Vec<u8> {
        let mut octets = Vec::new();
        while octets.len() < len {
            let got = self.read(client);
            assert!(!got.is_empty(), "closed after {octets:?}");
            octets.extend_from_slice(&got);
        }
        octets
    }

    fn read_to_end(&mut self, client: &mut TcpStream) -> Vec<u8> {
        let mut octets = Vec::new();
        loop {
            let got = self.read(client);
            if got.is_empty() {
                return octets;
            }
            octets.extend_from_slice(&got);
        }
    }

    /// Takes turns until there is something to read, or the end.
    fn read(&mut self, client: &mut TcpStream) -> Vec<u8> {
        client.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4_096];
        loop {
            match client.read(&mut buffer) {
                Ok(len) => {
                    client.set_nonblocking(false).unwrap();
                    return buffer[..len].to_vec();
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            self.turn();
        }
    }
}
