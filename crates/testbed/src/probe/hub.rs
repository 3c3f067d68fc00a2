//! Two nodes' subnetwork interfaces without radios: data from a client of one node arrives at the other node at once.
//!
//! ```text
//!   client of node 1 ⇄ Server ⇄ sis::Server ──requests──▶ sis::Server ⇄ Server ⇄ client of node 2
//!                                           ◀──requests──
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use base::ip::Prefix;
use base::time::Time;
use gateway::bearer::server::{Client, Core};
use gateway::bearer::{Allow, Server};
use hf::s5066::Address;
use hf::s5066::service::{Indication, Outcome};
use hf::s5066::sis::{self, ClientId, Event};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The addresses of the nodes.
pub const NODES: [Address; 2] = [Address::node(1), Address::node(2)];
/// Octets that may wait for a node's clients before the other node's requests are taken.
const UNREAD: usize = 256 << 10;
/// How long the hub waits for something to happen, in milliseconds.
const PAUSE: u16 = 100;

/// Two nodes whose clients reach each other.
pub struct Hub {
    nodes: [Interface; 2],
    servers: [Server; 2],
}

/// The clients' side of a node.
struct Interface(sis::Server);

impl Hub {
    /// Listens for the clients of both nodes, on whatever host they are.
    ///
    /// # Errors
    /// When an address is taken.
    pub fn bind(at: [SocketAddr; 2]) -> io::Result<Self> {
        let [a, b] = at;
        let node = |address| Interface(sis::Server::new(sis::Config::default(), address));
        let everywhere = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        let everywhere: Vec<_> =
            everywhere.into_iter().filter_map(|it| Prefix::new(it, 0).ok()).collect();
        let bind = |at| {
            Ok::<_, io::Error>(Server::bind(at)?.allowing(Allow::networks(everywhere.clone())))
        };
        Ok(Self { nodes: NODES.map(node), servers: [bind(a)?, bind(b)?] })
    }

    /// Carries until `stop` is set.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let began = Instant::now();
        let clock = || Time::ZERO + began.elapsed();
        while !stop.load(Ordering::Relaxed) {
            let mut fds = Vec::new();
            let mut ends = [0; 2];
            for (end, (server, node)) in self.servers.iter().zip(&self.nodes).enumerate() {
                server.watch(node, &mut fds);
                ends[end] = fds.len();
            }
            match poll(&mut fds, PollTimeout::from(PAUSE)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let said = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
            let ready: Vec<PollFlags> = fds.iter().map(said).collect();
            drop(fds);
            let now = clock();
            let (first, second) = ready.split_at(ends[0]);
            for (end, ready) in [first, second].into_iter().enumerate() {
                self.servers[end].handle_ready(now, ready, &mut self.nodes[end]);
            }
            self.carry(now);
        }
        Ok(())
    }

    fn carry(&mut self, now: Time) {
        for (from, to) in [(0, 1), (1, 0)] {
            while self.nodes[to].0.buffered() < UNREAD
                && let Some(request) = self.nodes[from].0.poll_request(now, 0)
            {
                let (id, mode) = (request.id, request.mode);
                let indication = Indication {
                    from: NODES[from],
                    to: request.to,
                    mode,
                    is_expedited: request.is_expedited,
                    s_pdu: request.s_pdu,
                    errored: Vec::new(),
                    missing: Vec::new(),
                };
                self.nodes[to].0.handle_indication(now, &indication);
                self.nodes[from].0.handle_outcome(now, id, Outcome::Done);
            }
        }
        for (node, server) in self.nodes.iter_mut().zip(&mut self.servers) {
            while let Some(event) = node.0.poll_event() {
                match event {
                    Event::Readable(client) => server.push(now, Client(client.0), node),
                    Event::Close(client) => server.close(now, Client(client.0), node),
                    Event::Management { .. } => {}
                }
            }
            node.0.handle_timeout(now);
            server.handle_timeout(now, node);
        }
    }
}

impl Core for Interface {
    fn handle_connected(&mut self, now: Time) -> Option<Client> {
        self.0.handle_connected(now).map(|client| Client(client.0))
    }

    fn handle_octets(&mut self, now: Time, client: Client, octets: &[u8]) {
        self.0.handle_octets(now, ClientId(client.0), octets);
    }

    fn handle_disconnected(&mut self, now: Time, client: Client) {
        self.0.handle_disconnected(now, ClientId(client.0));
    }

    fn poll_octets(&mut self, now: Time, client: Client, out: &mut Vec<u8>) -> bool {
        self.0.poll_octets(now, ClientId(client.0), out)
    }

    fn wants_octets(&self, client: Client) -> bool {
        self.0.wants_octets(ClientId(client.0))
    }
}
