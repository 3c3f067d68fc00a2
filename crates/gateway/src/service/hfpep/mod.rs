//! TCP connections that are split: those of this network on one side; on the other a STANAG 5066 server, or
//! other gateways. Datagrams of UDP go with them in direct mode.
//!
//! ```text
//!   clients ══▶ listener ─▶ rules ─▶ lobby ─▶ HfPep ⇄ Dial ─TCP 5066─ server
//!   targets ◀═══════════════════════════════╲ Fast ════════════════ other gateways
//! ```
//!
//! One thread, as for IP. While there is no server, connections wait. Where TLS ends here, a client is in
//! the lobby until its handshake has told whom it wants; a target is connected to before its handshake.
//! A client whose handshake is end to end has no socket here until the far end has accepted: its SYN is held.

mod admission;
mod clients;
mod connection;
mod connections;
mod entry;
mod fast;
mod gate;
mod handshake;
mod held;
mod lobby;
mod server;
mod status;
mod targets;
mod termination;
mod udp;
mod wire;

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use caps::Capability;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::EpollFlags;
use proto::hfpep::{Event, HfPep, Opening, SessionId};
use proto::rng::Rng;
use proto::s5066::Address;
use proto::slep::Reason;
use proto::time::{Time, earliest};
use serde::Serialize;
use tracing::{debug, info, warn};

use super::complaints::Complaints;
use super::rules::Rules;
use super::{Kind, Reload, Report, Service, Setup, entries};
use crate::bearer::Dial;
use crate::config::{self, Config};
use crate::reactor::{Driver, has_input};
use crate::tls::Failure;

use admission::Admission;
use connection::{Connection, Stage};
use connections::Connections;
use entry::Entry;
use fast::Fast;
use held::{Asked, Held};
use lobby::Lobby;
use status::Status;
use targets::Targets;
use termination::Termination;
use udp::Udp;
use wire::Heard;

pub(super) const KIND: Kind = Kind {
    name: "hfpep",
    is_wanted: |config| config.hf_pep.is_some(),
    // Sockets that see packets, in case that rules come by which clients wait for the far end, and ports
    // below 1024.
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Pep::set_up(setup)?)),
    clean_up: || {},
};

/// Octets taken from the server, or from a connection, in one go.
const READ: usize = 64 << 10;

/// HF-PEP at work.
struct Pep {
    config: config::HfPep,
    entry: Entry,
    rules: Rules,
    /// The connection to the server; none where nothing goes over HF.
    dial: Option<Dial>,
    pep: HfPep,
    /// What goes to other gateways.
    fast: Fast,
    targets: Targets,
    lobby: Lobby,
    /// Clients that the far end is asked about before they are answered.
    held: Held,
    connections: Connections,
    /// Where datagrams come from and go to.
    udp: Udp,
    /// Connections whose TLS was cut off: reset when the other end has what came before.
    cut: BTreeSet<SessionId>,
    buffer: Vec<u8>,
    received: Box<[u8]>,
    counters: Counters,
    complaints: Complaints,
}

#[derive(Default, Serialize)]
struct Counters {
    connections_accepted: u64,
    /// Connections reset at once: a rule, no peer, or no room.
    connections_refused: u64,
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
            entry: Entry::open(&config, &setup.config.rules.table)?,
            rules: Rules::new(&setup.config.rules.table)?,
            dial: config.server.map(|server| Dial::new(Time::ZERO, server)),
            pep: HfPep::new(Time::ZERO, config.parameters.clone(), rng),
            fast: Fast::open(&config)?,
            targets: Targets::new(
                Admission::new(&config),
                Termination::new(&setup.config.tls, config.tls.as_deref())?,
            ),
            lobby: Lobby::default(),
            held: Held::default(),
            connections: Connections::new()?,
            udp: Udp::open(&config)?,
            cut: BTreeSet::new(),
            buffer: Vec::new(),
            received: vec![0; READ].into_boxed_slice(),
            counters: Counters::default(),
            complaints: Complaints::default(),
            config,
        })
    }

    /// Makes the connection that another end asks for.
    fn connect(&mut self, now: Time, from: Address, session: SessionId, opening: &Opening) {
        match self.targets.start(now, Some(from), opening) {
            Ok(wire) => {
                let connection = Connection::connecting(now, wire);
                if let Err(connection) = self.connections.add(session, connection) {
                    connection.abort();
                    self.pep.reset(session, Reason::NO_ROOM);
                }
            }
            Err(reason) => self.pep.reset(session, reason),
        }
    }

    /// Acts on what epoll says of a connection.
    fn handle_connection(&mut self, now: Time, session: SessionId, ready: EpollFlags) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        match connection.stage() {
            Stage::Connecting(_) => match connection.take_answer(now) {
                Ok(()) => {
                    self.targets.establish();
                    self.greet(now, session);
                }
                Err(reason) => {
                    self.targets.fail();
                    self.give_up(session, reason);
                }
            },
            Stage::Greeting(_) => self.greet(now, session),
            Stage::Open if ready.contains(EpollFlags::EPOLLERR) => {
                self.give_up(session, Reason::CONNECTION_RESET);
            }
            Stage::Open => {
                if ready.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP) {
                    self.read(now, session);
                }
            }
        }
        self.write(now, session);
    }

    /// Goes on with a target that is connected: its handshake, if it has one, and what follows.
    fn greet(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        if matches!(connection.stage(), Stage::Greeting(_)) {
            if let Err(failure) = connection.greet() {
                let reason = self.targets.termination.fail(now, failure);
                return self.give_up(session, reason);
            }
            if connection.stage() != Stage::Open {
                return;
            }
            self.targets.termination.establish();
        }
        self.pep.accept(session);
        self.read(now, session);
    }

    /// Takes what a program here has written.
    fn read(&mut self, now: Time, session: SessionId) {
        while let Some(connection) = self.connections.get_mut(session) {
            if !connection.untaken.is_empty() || connection.has_heard_end() {
                return;
            }
            match connection.read(&mut self.received) {
                Heard::Octets(len) => {
                    let taken = self.pep.write(now, session, &self.received[..len]);
                    connection.untaken.extend_from_slice(&self.received[taken..len]);
                    if !connection.may_hold_octets() {
                        return;
                    }
                }
                Heard::End => return self.pep.finish(now, session),
                Heard::Nothing => return,
                Heard::Failed(failure) => {
                    let reason = self.targets.termination.fail(now, failure);
                    if failure != Failure::Cut {
                        return self.give_up(session, reason);
                    }
                    self.cut.insert(session);
                    return;
                }
                Heard::Reset => return self.give_up(session, Reason::CONNECTION_RESET),
            }
        }
    }

    /// There is room again for what a stream had not taken.
    fn write_untaken(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        let taken = self.pep.write(now, session, &connection.untaken);
        connection.untaken.drain(..taken);
        if connection.untaken.is_empty() {
            connection.untaken = Vec::new();
            if connection.may_hold_octets() {
                self.read(now, session);
            }
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
            Event::Accepted(session) => self.confirm(now, Asked::Session(session)),
            Event::Bound => info!("bound"),
            Event::Close => {
                if let Some(dial) = &mut self.dial {
                    dial.hang_up(now);
                }
            }
            Event::Refused(reason) => warn!(?reason, "the server refuses the access point"),
            Event::Unbound(reason) => warn!(?reason, "the server has unbound us"),
            Event::Connect { session, from, opening } => self.connect(now, from, session, &opening),
            Event::Readable(session) => self.write(now, session),
            Event::Writable(session) => self.write_untaken(now, session),
            Event::FlowEnded(flow) => self.udp.end(flow),
            // The end went to the program here with the last octets.
            Event::Finished(_) => {}
            Event::Reset(session, reason) => {
                debug!(%reason, "connection broken off");
                match self.connections.remove(session) {
                    Some(connection) => connection.abort(),
                    None => self.deny(now, Asked::Session(session), reason),
                }
            }
        }
    }

    /// Resets connections that were cut off, where the other end has what came before.
    fn handle_cut(&mut self) {
        let has_all = |session: &SessionId| {
            let stream = self.pep.stream(*session);
            stream.is_none_or(|stream| self.pep.slep().unacknowledged(stream) == 0)
        };
        let ready: Vec<SessionId> = self.cut.extract_if(.., has_all).collect();
        for session in ready {
            self.give_up(session, Reason::CONNECTION_RESET);
        }
    }

    /// Gives up targets that do not answer, and handshakes that take too long.
    fn handle_silence(&mut self, now: Time) {
        for _ in 0..self.lobby.handle_timeout(now) {
            self.targets.termination.fail(now, Failure::TimedOut);
        }
        for asked in self.held.handle_timeout(now) {
            self.withdraw(now, asked, Reason::CANCELLED);
        }
        let is_silent =
            |connection: &Connection| connection.waits_until().is_some_and(|at| at <= now);
        let all = self.connections.iter().filter(|(_, it)| is_silent(it));
        let silent: Vec<(SessionId, Stage)> = all.map(|(at, it)| (at, it.stage())).collect();
        for (session, stage) in silent {
            let reason = self.targets.handle_silence(now, stage);
            self.give_up(session, reason);
        }
    }
}

impl Driver for Pep {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        self.fast.act(now, &mut self.targets);
        self.follow_links(now);
        self.follow_server(now);
        self.handle_silence(now);
        self.pep.handle_timeout(now);
        self.handle_cut();
        loop {
            self.give_datagrams(now);
            while let Some(event) = self.pep.poll_event() {
                self.handle_event(now, event);
            }
            if !self.send_to_server(now) {
                break;
            }
        }
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let silence = self.connections.iter().filter_map(|(_, it)| it.waits_until()).min();
        let silence = earliest(silence, self.lobby.next_timeout());
        let silence = earliest(silence, self.held.next_timeout());
        let dial = self.dial.as_ref().and_then(Dial::next_timeout);
        let silence = earliest(silence, self.fast.next_timeout());
        earliest(earliest(dial, self.pep.next_timeout()), silence)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.connections.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.fast.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.udp.as_fd(), PollFlags::POLLIN));
        self.lobby.watch(fds);
        self.entry.watch(fds);
        if let Some(dial) = &self.dial {
            dial.watch(fds);
        }
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let (epolls, rest) = ready.split_at(3);
        let (lobby, rest) = rest.split_at(self.lobby.len());
        let (entry, dialled) = rest.split_at(self.entry.watched());
        if has_input(epolls[0]) {
            for (session, ready) in self.connections.ready() {
                self.handle_connection(now, session, ready);
            }
        }
        if has_input(epolls[1]) {
            self.fast.handle_ready(now, &mut self.targets);
        }
        if has_input(epolls[2]) {
            self.take_datagrams(now);
        }
        for outcome in self.lobby.handle_ready(lobby) {
            match outcome {
                Ok(greeted) => self.take_greeted(now, greeted),
                Err(failure) => drop(self.targets.termination.fail(now, failure)),
            }
        }
        let come = self.entry.handle_ready(entry)?;
        self.take(now, come);
        self.hear_server(now, dialled);
        Ok(())
    }
}

impl Service for Pep {
    fn report(&self, now: Time) -> Report {
        let status = Status::new(now, self);
        let mut counters = entries("hfpep_", &self.counters);
        counters.extend(entries("hfpep_", self.targets.counters()));
        counters.extend(entries("hfpep_", self.held.counters()));
        counters.extend(entries("hfpep_", self.udp.counters()));
        counters.extend(entries("hfpep_", &self.pep.stats()));
        counters.extend(entries("hfpep_bearer_", &self.fast.stats()));
        counters.extend(entries("hfpep_tls_", self.targets.termination.stats()));
        counters.extend(entries("slep_", &self.pep.slep().stats()));
        if let Some(dialled) = self.dial.as_ref().map(Dial::stats) {
            counters.extend([
                ("hfpep_connects_tried".to_owned(), dialled.tried),
                ("hfpep_connects".to_owned(), dialled.connected),
                ("hfpep_connections_lost".to_owned(), dialled.lost),
            ]);
        }
        let turned_away = self.entry.turned_away() + self.fast.turned_away();
        counters.push(("hfpep_connections_without_descriptor".to_owned(), turned_away));
        let mut rules = self.rules.counters();
        rules.extend(self.entry.blocked());
        Report { rules, ..Report::new(counters, "hfpep", &status) }
    }

    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        if config.hf_pep.as_ref() != Some(&self.config) {
            return Ok(Reload::Restart);
        }
        self.targets.termination.reload(&config.tls)?;
        let rules = &config.rules.table;
        if self.rules.config() == rules {
            return Ok(Reload::Taken(Vec::new()));
        }
        for arrived in self.entry.follow(rules)? {
            self.take_client(now, arrived);
        }
        self.follow_rules(now, rules);
        match self.rules.replace(rules) {
            Ok(changes) => Ok(Reload::Taken(changes)),
            Err(why) => {
                self.entry.follow(self.rules.config())?;
                Err(why)
            }
        }
    }

    fn end(&mut self, now: Time) {
        let all: Vec<SessionId> = self.connections.iter().map(|(session, _)| session).collect();
        for session in all {
            self.give_up(session, Reason::STOPPED);
        }
        for asked in self.held.end() {
            self.withdraw(now, asked, Reason::STOPPED);
        }
        self.fast.end();
        while self.send_to_server(now) {}
    }
}
