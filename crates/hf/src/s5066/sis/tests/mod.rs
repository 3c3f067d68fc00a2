//! Vectors of the wire, and behaviour as traces.

mod binding;
mod bounds;
mod captures;
mod confirm;
mod links;
mod order;
mod questions;
mod wire;

use std::time::Duration;

use base::time::Time;
use harness::keeps_time;

use super::super::Address;
use super::super::service::{Indication, Outcome, Request};
use super::client::{self, Client, Send, SendId};
use super::{ClientId, Config, Event, Sap, Server, Service};

const A: Address = Address::node(0x000a_141e);
const B: Address = Address::node(0x000a_141f);

/// A server with clients.
struct Bench {
    now: Time,
    server: Server,
    clients: Vec<(ClientId, Client)>,
    /// `number of the client: what it sees`.
    trace: Vec<String>,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self::at(config, A)
    }

    fn at(config: Config, address: Address) -> Self {
        Self {
            now: Time::ZERO,
            server: Server::new(config, address),
            clients: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// A node with clients of rank 0 at these access points.
    fn with_clients(saps: &[u8]) -> Self {
        let mut bench = Self::new(Config::default());
        for sap in saps {
            bench.connect(client::Config::new(Sap::new(*sap)));
        }
        bench.trace.clear();
        bench
    }

    fn connect(&mut self, config: client::Config) -> usize {
        let id = self.server.handle_connected(self.now).expect("there is room");
        let mut client = Client::new(config);
        client.handle_connected(self.now);
        self.clients.push((id, client));
        self.run();
        self.clients.len() - 1
    }

    /// Carries octets between clients and server until there are none.
    fn run(&mut self) {
        let mut octets = Vec::new();
        loop {
            let mut is_idle = true;
            for (number, (id, client)) in self.clients.iter_mut().enumerate() {
                octets.clear();
                while self.server.wants_octets(*id) && client.poll_octets(self.now, &mut octets) {}
                is_idle &= octets.is_empty();
                self.server.handle_octets(self.now, *id, &octets);
                octets.clear();
                while self.server.poll_octets(self.now, *id, &mut octets) {}
                is_idle &= octets.is_empty();
                client.handle_octets(self.now, &octets);
                while let Some(event) = client.poll_event() {
                    self.trace.push(format!("{number}: {}", tell(&event)));
                }
            }
            while let Some(event) = self.server.poll_event() {
                is_idle = false;
                let Event::Close(id) = event else { continue };
                let number = self.clients.iter().position(|(one, _)| *one == id).unwrap();
                self.trace.push(format!("{number}: closed"));
                self.server.handle_disconnected(self.now, id);
                self.clients[number].1.handle_disconnected();
            }
            if is_idle {
                return;
            }
        }
    }

    /// Passes time, acting on all that is due.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            self.run();
            let timers = self.clients.iter().filter_map(|(_, client)| client.next_timeout());
            let next = timers.chain(self.server.next_timeout()).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            let now = self.now;
            keeps_time(&mut self.server, now, Server::handle_timeout, Server::next_timeout);
            for (_, client) in &mut self.clients {
                keeps_time(client, now, Client::handle_timeout, Client::next_timeout);
            }
        }
        self.now = end;
    }

    fn send(&mut self, client: usize, send: Send<'_>) -> SendId {
        let id = self.clients[client].1.send(self.now, send).expect("it is ready");
        self.run();
        id
    }

    /// What the server hands down next, as `sender's access point>receiver's: U_PDU`.
    fn requests(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Some(request) = self.server.poll_request(self.now, 0) {
            requests.push(request);
        }
        self.run();
        requests
    }

    fn outcome(&mut self, request: &Request, outcome: Outcome) {
        self.server.handle_outcome(self.now, request.id, outcome);
        self.run();
    }

    /// Gives the server an S_PDU that another node was asked to carry.
    fn indicate(&mut self, from: Address, request: &Request) {
        let indication = Indication {
            from,
            to: request.to,
            mode: request.mode,
            is_expedited: request.is_expedited,
            s_pdu: request.s_pdu.clone(),
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.server.handle_indication(self.now, &indication);
        self.run();
    }

    fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }
}

/// A U_PDU to access point 9 of node B, with what the client is bound for.
fn to_b(u_pdu: &[u8]) -> Send<'_> {
    Send {
        to: B,
        to_sap: Sap::IP_CLIENT,
        priority: 0,
        is_expedited: false,
        service: None,
        ttl: Duration::ZERO,
        u_pdu,
    }
}

fn non_arq(sap: u8) -> client::Config {
    client::Config { service: Service::NON_ARQ, ..client::Config::new(Sap::new(sap)) }
}

fn tell(event: &client::Event) -> String {
    match event {
        client::Event::Bound { mtu } => format!("bound {mtu}"),
        client::Event::Close(fault) => format!("close: {fault}"),
        client::Event::Confirmed(SendId(id)) => format!("confirmed {id}"),
        client::Event::FlowOff => "flow off".into(),
        client::Event::FlowOn => "flow on".into(),
        client::Event::HardLink(event) => match event {
            client::HardLinkEvent::Established(_) => "link established".into(),
            client::HardLinkEvent::Indicated(_) => "link indicated".into(),
            client::HardLinkEvent::Rejected(reason, _) => format!("link rejected: {reason}"),
            client::HardLinkEvent::Terminated(reason, _) => format!("link terminated: {reason}"),
        },
        client::Event::Management { kind, body } => format!("message {kind} {body:?}"),
        client::Event::Availability { status, reason } => format!("node {status}, {reason}"),
        client::Event::Received(received) => {
            let text = String::from_utf8_lossy(&received.u_pdu);
            let expedited = if received.is_expedited { " expedited" } else { "" };
            format!("received {text}{expedited} from {} {:?}", received.from, received.arrival)
        }
        client::Event::Refused(reason) => format!("refused: {reason}"),
        client::Event::Peer(status) => format!("peer {status:?}"),
        client::Event::Rejected { id, reason, .. } => match id {
            Some(SendId(id)) => format!("rejected {id}: {reason}"),
            None => format!("rejected: {reason}"),
        },
        client::Event::Sealing { node, trouble } => format!("seal of {node}: {trouble:?}"),
        client::Event::Unbound(reason) => format!("unbound: {reason}"),
    }
}
