//! Asks name servers for the addresses of peers, on its own thread: files may be slow, and servers are.
//!
//! Questions carry the tunnel's mark, so that no question for a far end enters the tunnel to this far end. The second
//! round is not marked, and reaches servers behind another tunnel.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base::dns::{Failure, Lookup, Name, files};
use base::rng::Rng;
use base::time::{Time, earliest};
use host::MARK;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing::debug;
use tunnel::secure::PeerId;

use super::Shared;
use super::naming::Questions;
use crate::linux::udp;
use crate::reactor::{Clock, Driver};
use crate::sys::Udp;

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The file in which systemd-resolved lists its servers.
const BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";
/// How long the start waits for names.
const AT_START: Duration = Duration::from_secs(3);
/// Added to a wait in whole milliseconds, so that the wait does not end too early.
const ROUNDED_UP: Duration = Duration::from_millis(1);
/// Most octets read from either file.
const MAX_OCTETS: u64 = 4 << 20;
/// Octets of the longest answer.
const ANSWER: usize = 4_096;
/// Datagrams of a server that are read before others have their turn.
const READS: usize = 8;

/// The thread's own part.
pub(super) struct Names {
    shared: Arc<Shared>,
    asker: Asker,
}

/// The names that are asked for.
struct Asker {
    rng: Rng,
    /// Which versions of IP the peers may have.
    wanted: [bool; 2],
    pending: Vec<Pending>,
}

/// What a question has brought.
pub(super) type Found = (PeerId, Name, Result<Vec<IpAddr>, Failure>);

/// A name that is asked for.
struct Pending {
    peer: PeerId,
    name: Name,
    lookup: Lookup,
    /// The socket to the server being asked, and the number of the attempt.
    socket: Option<(usize, UdpSocket)>,
}

impl Names {
    pub(super) fn new(shared: Arc<Shared>, seed: u64) -> Self {
        let wanted = shared.sockets.versions();
        let rng = Rng::stream(seed, "names");
        Self { shared, asker: Asker { rng, wanted, pending: Vec::new() } }
    }
}

/// Asks for names before there are routes, so that a server that asks other servers can answer too: once all traffic
/// leads into the tunnel, the questions of such a server do too. Takes [`AT_START`] at most.
///
/// # Errors
/// When the kernel cannot be waited for.
pub(super) fn ask_first(
    clock: Clock,
    seed: u64,
    wanted: [bool; 2],
    questions: Questions,
) -> anyhow::Result<Vec<Found>> {
    let rng = Rng::stream(seed, "first names");
    let mut asker = Asker { rng, wanted, pending: Vec::new() };
    let mut now = clock.now();
    let end = now + AT_START;
    let mut found = asker.ask(now, questions);
    loop {
        found.extend(asker.act(now));
        if asker.pending.is_empty() || now >= end {
            break;
        }
        let next = asker.next_timeout().map_or(end, |at| at.min(end));
        let mut fds = Vec::new();
        asker.watch(&mut fds);
        let wait = PollTimeout::try_from(next.since(now) + ROUNDED_UP).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, wait) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(why) => return Err(why).context("waiting for name servers"),
        }
        let ready: Vec<_> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        drop(fds);
        now = clock.now();
        asker.handle_ready(now, &ready);
    }
    let unanswered = asker.pending.into_iter();
    found.extend(unanswered.map(|it| (it.peer, it.name, Err(Failure::NoAnswer))));
    Ok(found)
}

impl Asker {
    /// Asks for names; returns what needs no server.
    fn ask(&mut self, now: Time, questions: Questions) -> Vec<Found> {
        let mut found = Vec::new();
        for (peer, name) in questions {
            // A reload may ask for a peer again, by another name.
            self.pending.retain(|pending| pending.peer != peer);
            let mut known = files::addresses(&read(HOSTS), &name);
            known.retain(|address| self.wanted[usize::from(address.is_ipv6())]);
            if !known.is_empty() {
                found.push((peer, name, Ok(known)));
                continue;
            }
            let bits = self.rng.bits().to_be_bytes();
            let ids = [[bits[0], bits[1]], [bits[2], bits[3]]].map(u16::from_be_bytes);
            let lookup = Lookup::new(now, name.clone(), self.wanted, ids, servers());
            self.pending.push(Pending { peer, name, lookup, socket: None });
        }
        found
    }

    /// Sends due questions, and returns the outcomes of questions.
    fn act(&mut self, now: Time) -> Vec<Found> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(pending) = self.pending.get_mut(at) {
            pending.lookup.handle_timeout(now);
            pending.send(now);
            match pending.lookup.outcome() {
                Some(outcome) => {
                    let outcome = outcome.clone().map(reachable);
                    let Pending { peer, name, .. } = self.pending.swap_remove(at);
                    found.push((peer, name, outcome));
                }
                None => at += 1,
            }
        }
        found
    }

    fn next_timeout(&self) -> Option<Time> {
        self.pending.iter().map(|pending| pending.lookup.next_timeout()).fold(None, earliest)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let sockets = self.pending.iter().filter_map(|pending| pending.socket.as_ref());
        fds.extend(sockets.map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) {
        let watched = self.pending.iter_mut().filter(|pending| pending.socket.is_some());
        for (pending, ready) in watched.zip(ready) {
            if !ready.is_empty() {
                pending.receive(now);
            }
        }
    }
}

impl Driver for Names {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        let questions = std::mem::take(&mut self.shared.state().questions);
        let mut found = self.asker.ask(now, questions);
        found.extend(self.asker.act(now));
        for (peer, name, outcome) in found {
            self.shared.resolve(peer, &name, outcome);
        }
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.asker.next_timeout()
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.asker.watch(fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.asker.handle_ready(now, ready);
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

/// The addresses with a route; all addresses if none has a route.
fn reachable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let has_route = |ip: &&IpAddr| Udp::route_source(SocketAddr::new(**ip, 9), MARK).is_ok();
    let reached: Vec<_> = addresses.iter().filter(has_route).copied().collect();
    if reached.is_empty() { addresses } else { reached }
}

/// The servers to ask. With a stub on this host, the stub's servers come first, because the stub's own questions lack
/// the tunnel's mark.
fn servers() -> Vec<SocketAddr> {
    let scope = |interface: &str| if_nametoindex(interface).ok();
    let servers = files::servers(&read(RESOLV_CONF), scope);
    if !files::has_stub(&servers) {
        return servers;
    }
    files::behind_stub(&servers, &read(BEHIND_STUB), scope)
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
