//! Asks name servers for the addresses of peers, on a thread of its own: files may be slow, and servers are.
//!
//! The questions carry the tunnel's mark. So they do not enter the tunnel whose far end they look for; where the server
//! is in reach only by another tunnel, the second round finds it, which is not marked.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags};
use proto::dns::{Failure, Lookup, Name, files};
use proto::rng::Rng;
use proto::secure::PeerId;
use proto::time::{Time, earliest};
use tracing::debug;

use super::Shared;
use crate::linux::claims::MARK;
use crate::linux::udp;
use crate::reactor::Driver;
use crate::sys::Udp;

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Octets of either file that are read.
const MAX_OCTETS: u64 = 4 << 20;
/// Octets of the longest answer.
const ANSWER: usize = 4_096;
/// Datagrams of a server that are read before others have their turn.
const READS: usize = 8;

/// The thread's own part.
pub(super) struct Names {
    shared: Arc<Shared>,
    rng: Rng,
    pending: Vec<Pending>,
}

/// A name that is asked for.
struct Pending {
    peer: PeerId,
    name: Name,
    lookup: Lookup,
    /// To the server that is being asked, and with which attempt.
    socket: Option<(usize, UdpSocket)>,
}

impl Names {
    pub(super) fn new(shared: Arc<Shared>, seed: u64) -> Self {
        Self { shared, rng: Rng::stream(seed, "names"), pending: Vec::new() }
    }

    fn ask(&mut self, now: Time, peer: PeerId, name: Name) {
        let wanted = self.shared.sockets.versions();
        let mut known = files::addresses(&read(HOSTS), &name);
        known.retain(|address| wanted[usize::from(address.is_ipv6())]);
        if !known.is_empty() {
            self.shared.resolve(peer, &name, Ok(known));
            return;
        }
        let scope = |interface: &str| if_nametoindex(interface).ok();
        let servers = files::servers(&read(RESOLV_CONF), scope);
        let bits = self.rng.bits().to_be_bytes();
        let ids = [[bits[0], bits[1]], [bits[2], bits[3]]].map(u16::from_be_bytes);
        let lookup = Lookup::new(now, name.clone(), wanted, ids, servers);
        self.pending.push(Pending { peer, name, lookup, socket: None });
    }
}

impl Driver for Names {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        let questions = std::mem::take(&mut self.shared.state().questions);
        for (peer, name) in questions {
            // A reload may ask for a peer again, by another name.
            self.pending.retain(|pending| pending.peer != peer);
            self.ask(now, peer, name);
        }
        let mut at = 0;
        while let Some(pending) = self.pending.get_mut(at) {
            pending.lookup.handle_timeout(now);
            pending.send(now);
            match pending.lookup.outcome() {
                Some(outcome) => {
                    let outcome = outcome.clone().map(reachable);
                    let Pending { peer, name, .. } = self.pending.swap_remove(at);
                    self.shared.resolve(peer, &name, outcome);
                }
                None => at += 1,
            }
        }
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.pending.iter().map(|pending| pending.lookup.next_timeout()).fold(None, earliest)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let sockets = self.pending.iter().filter_map(|pending| pending.socket.as_ref());
        fds.extend(sockets.map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let watched = self.pending.iter_mut().filter(|pending| pending.socket.is_some());
        for (pending, ready) in watched.zip(ready) {
            if !ready.is_empty() {
                pending.receive(now);
            }
        }
        Ok(())
    }
}

impl Pending {
    /// Sends what is to be asked.
    fn send(&mut self, now: Time) {
        let mut octets = Vec::new();
        while let Some(question) = self.lookup.poll_transmit(&mut octets) {
            let socket = match self.socket.take().filter(|(at, _)| *at == question.attempt) {
                Some((_, socket)) => Ok(socket),
                None => {
                    let mark = (!question.is_second_round).then_some(MARK);
                    udp::open_towards_with(question.server, mark)
                }
            };
            let sent = socket.and_then(|socket| socket.send(&octets).map(|_| socket));
            octets.clear();
            match sent {
                Ok(socket) => self.socket = Some((question.attempt, socket)),
                Err(error) => {
                    debug!(server = %question.server, %error, "name server not asked");
                    self.lookup.handle_refusal(now);
                }
            }
        }
    }

    fn receive(&mut self, now: Time) {
        let mut buffer = [0; ANSWER];
        for _ in 0..READS {
            let Some((_, socket)) = &self.socket else { return };
            match socket.recv(&mut buffer) {
                Ok(len) => self.lookup.handle_datagram(now, &buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.socket = None;
                    self.lookup.handle_refusal(now);
                }
            }
        }
    }
}

impl Shared {
    /// Takes what a name has brought.
    fn resolve(&self, peer: PeerId, name: &Name, outcome: Result<Vec<IpAddr>, Failure>) {
        let mut state = self.state();
        let now = self.now();
        state.handle_resolved(now, (peer, name), outcome);
        self.settle(state, now);
    }
}

/// Those that there is a route to, if there is one to any.
fn reachable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let has_route = |ip: &&IpAddr| Udp::route_mtu(SocketAddr::new(**ip, 9), MARK).is_ok();
    let reached: Vec<_> = addresses.iter().filter(has_route).copied().collect();
    if reached.is_empty() { addresses } else { reached }
}

/// A file's text, or none: it need not be there.
fn read(path: &str) -> String {
    let mut octets = Vec::new();
    let outcome = File::open(path).and_then(|file| file.take(MAX_OCTETS).read_to_end(&mut octets));
    if let Err(error) = outcome {
        debug!(path, %error, "not read");
    }
    String::from_utf8_lossy(&octets).into_owned()
}
