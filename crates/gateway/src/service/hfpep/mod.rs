//! Splits TCP connections between this network on one side and a STANAG 5066 server or other gateways on the other
//! side. UDP datagrams are carried beside them in direct mode.
//!
//! ```text
//!   clients ══▶ listener ─▶ rules ─▶ handshakes ─▶ HfPep ⇄ Dial ─TCP 5066─ server
//!   targets ◀═══════════════════════════════╲ Fast ════════════════ other gateways
//! ```
//!
//! One thread, as for IP. While there is no server, connections wait. Where TLS ends here, a client is in
//! the handshakes until TLS has told whom it wants; a target is connected to before its handshake.
//! A client whose handshake is end to end has no socket here until the far end has accepted: its SYN is held.

mod admission;
mod clients;
mod companions;
mod connection;
mod connections;
mod entry;
mod fast;
mod gate;
mod handshake;
mod handshakes;
mod held;
mod partings;
mod reload;
mod server;
mod slack;
mod status;
mod targets;
mod termination;
mod udp;
mod wire;

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;

use admission::Admission;
use anyhow::Context as _;
use base::counter::Counter;
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use companions::Companions;
use connection::{Connection, Stage};
use connections::Connections;
use entry::Entry;
use fast::Fast;
use handshakes::Handshakes;
use held::{Asked, Held};
use hf::hfpep::{Event, HfPep, Opening, SessionId};
use hf::s5066::{Address, seal};
use hf::slep::{Break, Reason};
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::EpollFlags;
use partings::{LOOK, Partings};
use slack::Slack;
use status::Status;
use targets::Targets;
use termination::Termination;
use tracing::{debug, info, warn};
use udp::Udp;
use wire::Heard;

use super::complaints::{Complaints, Subject};
use super::rules::Rules;
use super::{Kind, Reload, Report, Service, Setup, entries, of_counters, seals, wall_clock};
use crate::bearer::Dial;
use crate::config::{self, Config};
use crate::ends::End;
use crate::reactor::{Driver, has_input};
use crate::tls::Failure;

pub const KIND: Kind = Kind {
    name: "hfpep",
    is_wanted: |config| config.hf_pep.is_some(),
    // For sockets that see packets, in case later rules make clients wait for the far end, and for ports below 1024.
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Pep::set_up(setup)?)),
    clean_up: || host::give_up(host::Owner::HfPep),
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
    /// The key of its group.
    key: Option<seal::Key>,
    /// What goes to other gateways.
    fast: Fast,
    targets: Targets,
    handshakes: Handshakes,
    /// Clients that the far end is asked about before they are answered.
    held: Held,
    connections: Connections,
    /// Where datagrams come from and go to.
    udp: Udp,
    /// Connections to targets that we have told the end of their client's data, and whose host has not acknowledged the
    /// end: only the acknowledgement is reported to the other end.
    ending: BTreeSet<SessionId>,
    /// When these are looked at next.
    look_at: Option<Time>,
    /// Connections whose stream is no more.
    partings: Partings,
    /// The nodes with streams to this process.
    companions: Option<Companions>,
    slack: Slack,
    buffer: Vec<u8>,
    received: Box<[u8]>,
    counters: Counters,
    complaints: Complaints,
}

base::counters! {
    /// Counters of connections of clients.
    #[derive(Default)]
    struct Counters {
        /// Connections of clients accepted.
        connections_accepted: counter(connections);
        /// Connections reset at once: a rule, no peer, or no room.
        connections_refused: counter(connections);
    }
}

impl Pep {
    /// Takes connections from now on; the server is looked for afterwards.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let config = setup.config.hf_pep.clone().context("no section [hfpep]")?;
        let core = config.core(wall_clock())?;
        let rng = Rng::stream(setup.seed, "hfpep");
        let key = core.slep.group.as_ref().map(|group| group.key.clone());
        let mut pep = HfPep::new(Time::ZERO, core, rng);
        let companions = Companions::open(&config).map(|(mut companions, predecessor)| {
            if let Some(predecessor) = predecessor {
                pep.succeed(predecessor);
            }
            for (node, process) in companions.processes() {
                pep.recall(Time::ZERO, node, process);
            }
            companions.begin(pep.slep().epoch());
            companions
        });
        Ok(Self {
            entry: Entry::open(setup.observer, &config, &setup.config.rules.table)?,
            rules: Rules::new(&setup.config.rules.table)?,
            dial: config.server.map(|server| Dial::new(Time::ZERO, server)),
            key,
            pep,
            fast: Fast::open(&config)?,
            targets: Targets::new(
                Admission::new(&config, &setup.config.tls),
                Termination::new(&setup.config.tls, config.tls.as_deref())?,
            ),
            handshakes: Handshakes::default(),
            held: Held::default(),
            connections: Connections::new()?,
            udp: Udp::open(&config)?,
            ending: BTreeSet::new(),
            look_at: None,
            partings: Partings::default(),
            companions,
            slack: Slack::default(),
            buffer: Vec::new(),
            received: vec![0; READ].into_boxed_slice(),
            counters: Counters::default(),
            complaints: Complaints::default(),
            config,
        })
    }

    /// Makes the connection that another end asks for.
    fn connect(&mut self, now: Time, from: Address, session: SessionId, opening: &Opening) {
        self.accompany(now, from);
        match self.targets.start(now, End::Node(from), opening) {
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

    /// Acts on epoll events of a connection.
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
                return self.hear_break(now, session);
            }
            Stage::Open => {
                if ready.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP) {
                    self.read(now, session);
                }
            }
        }
        self.write(now, session);
    }

    /// Continues with a connected target: its handshake, if there is one, and the steps after the handshake.
    fn greet(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        if matches!(connection.stage(), Stage::Greeting(_)) {
            if let Err(failure) = connection.greet() {
                let parties = connection.parties();
                let reason = self.targets.termination.fail(now, failure, parties);
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
            // No more than the stream takes, or each connection kept as much again beside it. One octet without room
            // makes the stream tell when it has some.
            let room = self.pep.room(session).clamp(1, READ);
            match connection.read(&mut self.received[..room]) {
                Heard::Octets(len) => {
                    let taken = self.pep.write(now, session, &self.received[..len]);
                    connection.untaken.extend_from_slice(&self.received[taken..len]);
                    if !connection.may_hold_octets() {
                        return;
                    }
                }
                // The kernel tells of a reset once, and whoever wrote has heard it.
                Heard::End if connection.has_failed() && connection.is_plain() => {
                    return self.leave(now, session, Reason::CONNECTION_RESET);
                }
                Heard::End => {
                    let is_broken = connection.is_broken();
                    self.pep.finish(now, session);
                    if is_broken {
                        self.leave(now, session, Reason::CONNECTION_RESET);
                    }
                    return;
                }
                Heard::Nothing if connection.is_broken() => {
                    return self.leave(now, session, Reason::CONNECTION_RESET);
                }
                Heard::Nothing => return,
                Heard::Failed(failure) => {
                    let parties = connection.parties();
                    let reason = self.targets.termination.fail(now, failure, parties);
                    return self.leave(now, session, reason);
                }
                Heard::Reset => return self.leave(now, session, Reason::CONNECTION_RESET),
            }
        }
    }

    /// A connection is broken: what its program said before is read, and nothing is written any more.
    fn hear_break(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        connection.hear_break();
        let has_all = connection.has_heard_end();
        self.connections.unwatch(session);
        if has_all {
            return self.leave(now, session, Reason::CONNECTION_RESET);
        }
        self.read(now, session);
    }

    /// Ends a connection whose program is gone: the other end hears of the end behind the data sent so far.
    fn leave(&mut self, now: Time, session: SessionId, reason: Reason) {
        self.pep.reset_behind(now, session, reason);
        self.ending.remove(&session);
        if let Some(connection) = self.connections.remove(session) {
            connection.abort();
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

    /// Writes received data to a local program, as far as the kernel takes it.
    fn write(&mut self, now: Time, session: SessionId) {
        while let Some(connection) = self.connections.get_mut(session) {
            if connection.is_broken() {
                return;
            }
            let room = connection.room();
            let read = self.pep.read(now, session, connection.unsent_mut(), room);
            // An end that follows the program's own says more: see `finish`.
            if read.is_end && !(connection.confirms_close && connection.has_ended()) {
                connection.finish();
            }
            if connection.flush().is_err() {
                return self.hear_break(now, session);
            }
            if connection.has_told_end() && self.pep.holds_end(session) {
                self.ending.insert(session);
                if !self.confirm_end(now, session) {
                    return;
                }
            }
            let Some(connection) = self.connections.get_mut(session) else { return };
            if connection.is_over() {
                // What the stream still carries needs nobody here.
                return self.close(session);
            }
            if read.octets == 0 || connection.room() == 0 {
                break;
            }
        }
        self.connections.watch(session);
    }

    /// Tells the other end that a target's host has all, to the end, if it has; whether the connection
    /// goes on as others do.
    fn confirm_end(&mut self, now: Time, session: SessionId) -> bool {
        let Some(connection) = self.connections.get_mut(session) else {
            self.ending.remove(&session);
            return false;
        };
        if connection.is_acknowledged() {
            self.ending.remove(&session);
            self.pep.confirm_end(now, session);
            return true;
        }
        let is_over = connection.is_over();
        if is_over && connection.takes_error() {
            self.leave(now, session, Reason::CONNECTION_RESET);
            return false;
        }
        self.look_at.get_or_insert(now + LOOK);
        if is_over {
            // The kernel would tell of both ends again and again.
            self.connections.unwatch(session);
        }
        !is_over
    }

    /// Looks which targets' hosts have all by now.
    fn handle_ending(&mut self, now: Time) {
        if self.look_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        for session in self.ending.iter().copied().collect::<Vec<_>>() {
            if self.confirm_end(now, session)
                && self.connections.get_mut(session).is_some_and(|it| it.is_over())
            {
                self.close(session);
            }
        }
        if !self.ending.is_empty() {
            self.look_at = Some(now + LOOK);
        }
    }

    /// Both ends have finished, and each has all data of the other. A client whose end is confirmed is told of the far
    /// end's end only now.
    fn finish(&mut self, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        if !connection.confirms_close {
            return;
        }
        connection.finish();
        if connection.flush().is_err() {
            self.connections.remove(session);
        } else if connection.is_over() {
            self.close(session);
        } else {
            self.connections.watch(session);
        }
    }

    /// Closes a connection that both ends have finished.
    fn close(&mut self, session: SessionId) {
        self.ending.remove(&session);
        if let Some(connection) = self.connections.remove(session) {
            connection.close();
        }
    }

    /// There is a stream with a node, or soon will be.
    fn accompany(&mut self, now: Time, node: Address) {
        if let Some(companions) = &mut self.companions {
            companions.add(now, node);
        }
    }

    /// Notes the nodes with streams now.
    fn follow_companions(&mut self, now: Time) {
        if let Some(companions) = &mut self.companions
            && companions.next_timeout().is_some_and(|at| at <= now)
        {
            companions.follow(now, self.pep.slep().companions());
        }
    }

    /// Logs each connection that was not ended by its programs.
    fn log_broken(&mut self, now: Time, session: SessionId, broken: Break, unread: usize) {
        let Break { reason, in_doubt } = broken;
        let session = session.0;
        if !is_killed(reason) {
            debug!(session, %reason, in_doubt, unread, "connection broken off");
        } else if let Some(left_out) = self.complaints.admit(now, Subject::ConnectionKilled) {
            warn!(
                session,
                in_doubt,
                unread,
                left_out,
                "connection broken off ({reason}): of what the program here said, the far end may lack \
                 in_doubt octets as they go over the air, and unread that did not go"
            );
        }
    }

    /// Ends a connection at both ends.
    fn give_up(&mut self, session: SessionId, reason: Reason) {
        self.ending.remove(&session);
        self.pep.reset(session, reason);
        if let Some(connection) = self.connections.remove(session) {
            connection.abort();
        }
    }

    fn handle_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Accepted(session) => self.confirm(now, Asked::Session(session)),
            Event::Bound => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    info!(left_out, "the STANAG 5066 node takes our streams");
                }
                let before = self.companions.as_mut().map(Companions::take_before);
                for node in before.into_iter().flatten() {
                    self.pep.announce(now, node);
                }
            }
            Event::Close(fault) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::NodeLeft) {
                    warn!(%fault, left_out, "the server is left");
                }
                if let Some(dial) = &mut self.dial {
                    dial.hang_up(now);
                }
            }
            Event::Refused(reason) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    warn!(%reason, left_out, "the server refuses the access point");
                }
            }
            Event::OtherVersion { node, version } => {
                if let Some(left_out) = self.complaints.admit(now, Subject::VersionDiffers) {
                    warn!(
                        %node,
                        version,
                        left_out,
                        "this node speaks another version of SLEP than this gateway, which speaks version 0: what it \
                         sends is dropped, and no connection with it comes about"
                    );
                }
            }
            Event::Sealing { node, trouble } => {
                seals::tell(&mut self.complaints, now, node, trouble);
            }
            Event::Unbound(reason) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    warn!(%reason, left_out, "the server has unbound us");
                }
            }
            Event::Connect { session, from, opening } => self.connect(now, from, session, &opening),
            Event::Readable(session) => self.write(now, session),
            Event::Writable(session) => self.write_untaken(now, session),
            Event::FlowEnded(flow) => self.udp.end(flow),
            // Otherwise the end went to the program here with the last octets.
            Event::Finished(session) => self.finish(session),
            Event::Reset(session, broken) => {
                self.ending.remove(&session);
                let connection = self.connections.remove(session);
                let unread = connection.as_ref().map_or(0, |it| it.untaken.len());
                self.log_broken(now, session, broken, unread);
                match connection {
                    Some(connection) => {
                        self.partings.add(now, connection, is_killed(broken.reason));
                    }
                    None => self.deny(now, Asked::Session(session), broken.reason),
                }
            }
        }
    }

    /// Gives up silent targets and slow handshakes.
    fn handle_silence(&mut self, now: Time) {
        for parties in self.handshakes.handle_timeout(now) {
            self.targets.termination.fail(now, Failure::TimedOut, parties);
        }
        for asked in self.held.handle_timeout(now) {
            self.withdraw(now, asked, Reason::CANCELLED);
        }
        let is_silent =
            |connection: &Connection| connection.waits_until().is_some_and(|at| at <= now);
        let all = self.connections.iter().filter(|(_, it)| is_silent(it));
        let silent = all.map(|(at, it)| (at, (it.stage(), it.parties())));
        for (session, its) in silent.collect::<Vec<_>>() {
            let reason = self.targets.handle_silence(now, its);
            self.give_up(session, reason);
        }
    }
}

/// Whether a connection ends for a reason outside its programs.
fn is_killed(reason: Reason) -> bool {
    matches!(reason, Reason::RESTARTED | Reason::STOPPED | Reason::UNREACHABLE)
}

impl Driver for Pep {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        self.pep.handle_clock(now, wall_clock());
        self.fast.act(now, &mut self.targets);
        self.follow_links(now);
        self.follow_server(now);
        self.handle_silence(now);
        self.pep.handle_timeout(now);
        self.handle_ending(now);
        self.partings.handle_timeout(now);
        self.follow_companions(now);
        let kept = self.pep.slep().stats();
        self.slack.follow(now, kept.live, kept.unacknowledged + kept.unread);
        if let Some(what) = self.pep.poll_unreadable()
            && let Some(left_out) = self.complaints.admit(now, Subject::NodeUnreadable)
        {
            warn!(%what, left_out, "what the server said is passed over: it cannot be read");
        }
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
        let silence = earliest(silence, self.handshakes.next_timeout());
        let silence = earliest(silence, self.held.next_timeout());
        let dial = self.dial.as_ref().and_then(Dial::next_timeout);
        let silence = earliest(silence, self.fast.next_timeout());
        let silence = earliest(silence, earliest(self.look_at, self.partings.next_timeout()));
        let companions = self.companions.as_ref().and_then(Companions::next_timeout);
        let companions = earliest(companions, self.slack.next_timeout());
        let silence = earliest(silence, earliest(companions, self.entry.next_timeout()));
        earliest(earliest(dial, self.pep.next_timeout()), silence)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.connections.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.fast.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.udp.as_fd(), PollFlags::POLLIN));
        self.handshakes.watch(fds);
        self.entry.watch(fds);
        if let Some(dial) = &self.dial {
            dial.watch(fds);
        }
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.pep.handle_clock(now, wall_clock());
        let (epolls, rest) = ready.split_at(3);
        let (handshakes, rest) = rest.split_at(self.handshakes.len());
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
        for outcome in self.handshakes.handle_ready(handshakes) {
            match outcome {
                Ok(greeted) => self.take_greeted(now, greeted),
                Err((failure, parties)) => {
                    self.targets.termination.fail(now, failure, parties);
                }
            }
        }
        let come = self.entry.handle_ready(now, entry)?;
        self.take(now, come);
        self.hear_server(now, dialled);
        Ok(())
    }
}

/// The counters of connections, all zero.
#[cfg(test)]
pub fn connection_counters() -> Vec<super::Entry> {
    let mut all = entries("hfpep_", &Counters::default());
    all.extend(entries("hfpep_", &targets::Counters::default()));
    all
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
        counters.extend(entries("slep_sis_", self.pep.slep().client_stats()));
        if let Some(dialled) = self.dial.as_ref().map(Dial::stats) {
            counters.extend(entries("hfpep_", &dialled));
        }
        let turned_away = self.entry.turned_away() + self.fast.turned_away();
        let without_descriptor = const {
            &Counter::counter(
                "connections_without_descriptor",
                "connections",
                "Connections turned away: no descriptor was left.",
            )
        };
        counters.extend(of_counters("hfpep_", [(without_descriptor, turned_away)]));
        let mut rules = self.rules.counters();
        rules.extend(self.entry.blocked());
        let faults = self.entry.faults();
        Report { rules, faults, ..Report::new(counters, "hfpep", &status) }
    }

    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        self.follow(now, config)
    }

    fn end(&mut self, now: Time) {
        if let Some(companions) = &mut self.companions {
            companions.end(now, self.pep.slep().companions());
        }
        let all: Vec<SessionId> = self.connections.iter().map(|(session, _)| session).collect();
        for session in all {
            let stream = self.pep.stream(session);
            let in_doubt = stream.map_or(0, |stream| self.pep.slep().unacknowledged(stream));
            let unread = self.connections.get_mut(session).map_or(0, |it| it.untaken.len());
            let broken = Break { reason: Reason::STOPPED, in_doubt };
            self.log_broken(now, session, broken, unread);
            self.give_up(session, Reason::STOPPED);
        }
        for asked in self.held.end() {
            self.withdraw(now, asked, Reason::STOPPED);
        }
        self.fast.end(now);
        self.leave_server(now);
    }
}
