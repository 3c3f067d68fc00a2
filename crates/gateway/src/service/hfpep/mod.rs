//! TCP over a STANAG 5066 server: connections of this network on one side, the server's socket on the
//! other.
//!
//! ```text
//!   clients ══▶ listener ─▶ rules ─▶ HfPep ⇄ Dial ─TCP 5066─ server
//!   targets ◀══════════════════════
//! ```
//!
//! One thread, as for IP. While there is no server, connections wait.

mod connection;
mod connections;
mod entry;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use caps::Capability;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::EpollFlags;
use proto::hfpep::{Event, HfPep, Opening, SessionId, Target};
use proto::rng::Rng;
use proto::rules::{self, Verdict};
use proto::slep::{Options, Reason};
use proto::time::{Time, earliest};
use serde::Serialize;
use tracing::{debug, info, warn};

use super::rules::Rules;
use super::{Kind, Reload, Report, Service, Setup, entries};
use crate::bearer::Dial;
use crate::bearer::dial::Change;
use crate::config::hfpep::Mode;
use crate::config::{self, Config};
use crate::linux::tcp::{start_connecting, start_connecting_from};
use crate::reactor::{Driver, has_input};

use connection::{Connection, Heard, reason_of, reset};
use connections::Connections;
use entry::{Arrived, Entry};

pub(super) const KIND: Kind = Kind {
    name: "hfpep",
    is_wanted: |config| config.hf_pep.is_some(),
    rights: &[Capability::CAP_NET_ADMIN],
    set_up: |setup| Ok(Box::new(Pep::set_up(setup)?)),
};

/// Octets taken from the server, or from a connection, in one go.
const READ: usize = 64 << 10;
/// Pieces taken from the server before connections have their turn.
const READS: usize = 32;

/// HF-PEP at work.
struct Pep {
    config: config::HfPep,
    entry: Entry,
    rules: Rules,
    dial: Dial,
    pep: HfPep,
    connections: Connections,
    buffer: Vec<u8>,
    received: Box<[u8]>,
    counters: Counters,
}

#[derive(Default, Serialize)]
struct Counters {
    connections_accepted: u64,
    /// Connections reset at once: a rule, no peer, or no room.
    connections_refused: u64,
    connections_made: u64,
    /// Targets that could not be connected to.
    targets_failed: u64,
    /// Connections that others ask for, and that are none for this gateway.
    targets_unknown: u64,
}

/// What an operator is told.
#[derive(Serialize)]
struct Status {
    state: &'static str,
    server: SocketAddr,
    connections: usize,
}

impl Pep {
    /// Takes connections from now on; the server is looked for afterwards.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let config = setup.config.hf_pep.clone().context("no section [hfpep]")?;
        let rng = Rng::stream(setup.seed, "hfpep");
        Ok(Self {
            entry: Entry::open(&config)?,
            rules: Rules::new(&setup.config.rules.table)?,
            dial: Dial::new(Time::ZERO, config.server),
            pep: HfPep::new(Time::ZERO, config.parameters.clone(), rng),
            connections: Connections::new()?,
            buffer: Vec::new(),
            received: vec![0; READ].into_boxed_slice(),
            counters: Counters::default(),
            config,
        })
    }

    /// Takes a connection that a client has made.
    fn take_client(&mut self, now: Time, arrived: Arrived) {
        let Arrived { stream, client, node, target } = arrived;
        let options = self.options(now, client, target);
        let opened = options.zip(node).and_then(|(options, node)| {
            let target = Target::Address { source: client, destination: target };
            let opening = Opening { target, tls: None };
            self.pep.open(now, node, opening, options).ok()
        });
        let Some(session) = opened else {
            debug!(%client, %target, "connection refused: a rule, no peer, or too many");
            self.counters.connections_refused += 1;
            reset(&stream);
            return;
        };
        self.counters.connections_accepted += 1;
        if let Err(connection) = self.connections.add(session, Connection::accepted(stream)) {
            connection.abort();
            self.pep.reset(session, Reason::NO_ROOM);
        }
    }

    /// How the rules want a connection to be carried; `None` if not.
    fn options(&mut self, now: Time, client: SocketAddr, target: SocketAddr) -> Option<Options> {
        match self.rules.decide(now, client, target).verdict {
            Verdict::Pass { service: rules::Service::HfPep, options } => {
                let ttl = options.ttl.filter(|ttl| !ttl.is_zero());
                Some(Options {
                    priority: options.priority.unwrap_or(Options::default().priority),
                    ttl,
                    is_compressed: options.compression.unwrap_or(true),
                })
            }
            Verdict::Pass { service: rules::Service::IpClient, .. } | Verdict::Block { .. } => None,
        }
    }

    /// Makes the connection that another end asks for.
    fn connect(&mut self, now: Time, session: SessionId, opening: &Opening) {
        match self.start(opening) {
            Ok(stream) => {
                let connection = Connection::connecting(now, stream);
                if let Err(connection) = self.connections.add(session, connection) {
                    connection.abort();
                    self.pep.reset(session, Reason::NO_ROOM);
                }
            }
            Err(reason) => {
                debug!(%reason, ?opening, "no connection to the target");
                self.pep.reset(session, reason);
            }
        }
    }

    fn start(&mut self, opening: &Opening) -> Result<std::net::TcpStream, Reason> {
        let (Target::Address { source, destination }, None) = (&opening.target, &opening.tls)
        else {
            self.counters.targets_unknown += 1;
            return Err(Reason::NO_SERVICE);
        };
        let stream = match self.config.mode {
            Mode::Transparent => start_connecting_from(*source, *destination),
            Mode::Shore => start_connecting(*destination),
        };
        stream.map_err(|error: io::Error| {
            self.counters.targets_failed += 1;
            reason_of(&error)
        })
    }

    /// Acts on what epoll says of a connection.
    fn handle_connection(&mut self, now: Time, session: SessionId, ready: EpollFlags) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        if connection.answer_until().is_some() {
            match connection.take_answer() {
                Ok(()) => {
                    self.counters.connections_made += 1;
                    self.pep.accept(session);
                }
                Err(reason) => {
                    self.counters.targets_failed += 1;
                    self.give_up(session, reason);
                }
            }
        } else if ready.contains(EpollFlags::EPOLLERR) {
            self.give_up(session, Reason::CONNECTION_RESET);
        } else if ready.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP) {
            self.read(now, session);
        }
        self.write(now, session);
    }

    /// Takes what a program here has written.
    fn read(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        if !connection.untaken.is_empty() || connection.has_heard_end() {
            return;
        }
        match connection.read(&mut self.received) {
            Heard::Octets(len) => {
                let taken = self.pep.write(now, session, &self.received[..len]);
                connection.untaken.extend_from_slice(&self.received[taken..len]);
            }
            Heard::End => self.pep.finish(now, session),
            Heard::Nothing => {}
            Heard::Reset => self.give_up(session, Reason::CONNECTION_RESET),
        }
    }

    /// There is room again for what a stream had not taken.
    fn write_untaken(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        let taken = self.pep.write(now, session, &connection.untaken);
        connection.untaken.drain(..taken);
        if connection.untaken.is_empty() {
            connection.untaken = Vec::new();
        }
        self.connections.watch(session);
    }

    /// Gives a program here what has come for it, as far as the kernel takes it.
    fn write(&mut self, now: Time, session: SessionId) {
        while let Some(connection) = self.connections.get_mut(session) {
            let room = connection.room();
            let read = self.pep.read(now, session, connection.unsent_mut(), room);
            if read.is_end {
                connection.finish();
            }
            if let Err(reason) = connection.flush() {
                return self.give_up(session, reason);
            }
            if connection.is_over() {
                // What the stream still carries needs nobody here.
                self.connections.remove(session);
                return;
            }
            if read.octets == 0 || connection.room() == 0 {
                break;
            }
        }
        self.connections.watch(session);
    }

    /// Ends a connection at both ends.
    fn give_up(&mut self, session: SessionId, reason: Reason) {
        self.pep.reset(session, reason);
        if let Some(connection) = self.connections.remove(session) {
            connection.abort();
        }
    }

    fn handle_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Bound => info!("bound"),
            Event::Close => self.dial.hang_up(now),
            Event::Refused(reason) => warn!(?reason, "the server refuses the access point"),
            Event::Unbound(reason) => warn!(?reason, "the server has unbound us"),
            Event::Connect { session, opening, .. } => self.connect(now, session, &opening),
            Event::Readable(session) => self.write(now, session),
            Event::Writable(session) => self.write_untaken(now, session),
            // The end went to the program here with the last octets.
            Event::Finished(_) => {}
            Event::Reset(session, reason) => {
                debug!(%reason, "connection broken off");
                if let Some(connection) = self.connections.remove(session) {
                    connection.abort();
                }
            }
        }
    }

    /// Gives up targets that do not answer.
    fn handle_silence(&mut self, now: Time) {
        let is_silent =
            |connection: &Connection| connection.answer_until().is_some_and(|at| at <= now);
        let all = self.connections.iter();
        let silent: Vec<SessionId> =
            all.filter(|(_, it)| is_silent(it)).map(|(session, _)| session).collect();
        for session in silent {
            self.counters.targets_failed += 1;
            self.give_up(session, Reason::TARGET_TIMED_OUT);
        }
    }
}

impl Driver for Pep {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        self.dial.handle_timeout(now);
        match self.dial.poll_change() {
            Some(Change::Up) => {
                info!(server = %self.config.server, "connected");
                self.pep.handle_connected(now);
            }
            Some(Change::Down) => {
                warn!(server = %self.config.server, "connection lost");
                self.pep.handle_disconnected(now);
            }
            None => {}
        }
        self.handle_silence(now);
        self.pep.handle_timeout(now);
        self.buffer.clear();
        loop {
            while let Some(event) = self.pep.poll_event() {
                self.handle_event(now, event);
            }
            if !self.dial.has_room() || !self.pep.poll_octets(now, &mut self.buffer) {
                break;
            }
            self.dial.send(now, &self.buffer);
            self.buffer.clear();
        }
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let silence = self.connections.iter().filter_map(|(_, it)| it.answer_until()).min();
        earliest(earliest(self.dial.next_timeout(), self.pep.next_timeout()), silence)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.connections.as_fd(), PollFlags::POLLIN));
        self.entry.watch(fds);
        self.dial.watch(fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let (connections, rest) = ready.split_at(1);
        let (entry, dialled) = rest.split_at(self.entry.watched());
        if has_input(connections[0]) {
            for (session, ready) in self.connections.ready() {
                self.handle_connection(now, session, ready);
            }
        }
        for arrived in self.entry.handle_ready(entry)? {
            self.take_client(now, arrived);
        }
        self.dial.handle_ready(now, dialled);
        if dialled.iter().any(|ready| !ready.is_empty()) {
            for _ in 0..READS {
                let len = self.dial.receive(now, &mut self.received);
                if len == 0 {
                    break;
                }
                self.pep.handle_octets(now, &self.received[..len]);
            }
        }
        Ok(())
    }
}

impl Service for Pep {
    fn report(&self, _now: Time) -> Report {
        let state = match (self.dial.is_up(), self.pep.is_bound()) {
            (false, _) => "no connection",
            (true, false) => "not bound",
            (true, true) => "bound",
        };
        let server = self.config.server;
        let status = Status { state, server, connections: self.connections.len() };
        let dialled = self.dial.stats();
        let mut counters = entries("hfpep_", &self.counters);
        counters.extend(entries("hfpep_", &self.pep.stats()));
        counters.extend(entries("slep_", &self.pep.slep().stats()));
        counters.extend([
            ("hfpep_connects_tried".to_owned(), dialled.tried),
            ("hfpep_connects".to_owned(), dialled.connected),
            ("hfpep_connections_lost".to_owned(), dialled.lost),
        ]);
        Report { rules: self.rules.counters(), ..Report::new(counters, "hfpep", &status) }
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        if config.hf_pep.as_ref() != Some(&self.config) {
            return Ok(Reload::Restart);
        }
        Ok(Reload::Taken(self.rules.replace(&config.rules.table)?))
    }

    fn end(&mut self, now: Time) {
        let all: Vec<SessionId> = self.connections.iter().map(|(session, _)| session).collect();
        for session in all {
            self.give_up(session, Reason::STOPPED);
        }
        self.buffer.clear();
        while self.dial.has_room() && self.pep.poll_octets(now, &mut self.buffer) {
            self.dial.send(now, &self.buffer);
            self.buffer.clear();
        }
    }
}
