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
mod companions;
mod connection;
mod connections;
mod entry;
mod fast;
mod gate;
mod handshakes;
mod held;
mod partings;
mod server;
mod slack;
mod status;
mod targets;
mod termination;
mod udp;
mod wire;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use ::rules::{Handshake, Verdict};
use admission::Admission;
use anyhow::Context as _;
use base::counter::Counter;
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use companions::Companions;
use connection::{Connection, Stage};
use connections::Connections;
use entry::{Arrived, Come, Entry, Origin};
use fast::Fast;
use handshakes::{Call, Greeted, Handshakes};
use held::{Asked, Held, Next};
use hf::hfpep::{Event, HfPep, Opening, SessionId, Target, Tls};
use hf::s5066::{Address, seal};
use hf::slep::{Break, Options, Reason};
use host::IN_CLEAR;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::EpollFlags;
use partings::{LOOK, Partings};
use slack::Slack;
use status::Status;
use targets::Targets;
use termination::Termination;
use tracing::{debug, info, warn};
use udp::Udp;
use wire::{Heard, Parties, Wire};

use super::complaints::{Complaints, Subject};
use super::rules::Rules;
use super::{Kind, Reload, Report, Service, Setup, entries, of_counters, seals, wall_clock};
use crate::bearer::Dial;
use crate::config::hfpep::{Far, Listener, Peer, Transport};
use crate::config::{self, Config};
use crate::ends::End;
use crate::linux::divert::Syn;
use crate::reactor::{Driver, has_input};
use crate::tls::Failure;

pub const KIND: Kind = Kind {
    name: "hfpep",
    is_wanted: |config| config.hf_pep.is_some(),
    // For sockets that see packets, in case later rules make clients wait for the far end, and for ports below 1024.
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Pep::set_up(setup)?)),
    clean_up: || {
        host::give_up(host::Owner::HfPep);
        host::timewait::forget();
    },
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
        let now = setup.clock.now();
        let mut pep = HfPep::new(now, core, rng);
        let companions = Companions::open(&config).map(|(mut companions, predecessor)| {
            if let Some(predecessor) = predecessor {
                pep.succeed(predecessor);
            }
            for (node, process) in companions.processes() {
                pep.recall(now, node, process);
            }
            companions.begin(pep.slep().epoch());
            companions
        });
        Ok(Self {
            entry: Entry::open(setup.observer, &config, &setup.config.rules.table)?,
            rules: Rules::new(&setup.config.rules.table)?,
            dial: config.server.map(|server| Dial::new(now, server)),
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
                let reason = self.targets.termination().fail(now, failure, parties);
                return self.give_up(session, reason);
            }
            if connection.stage() != Stage::Open {
                return;
            }
            self.targets.termination().establish();
        }
        self.pep.accept(session);
        self.read(now, session);
    }

    /// Takes what a program here has written.
    fn read(&mut self, now: Time, session: SessionId) {
        while let Some(connection) = self.connections.get_mut(session) {
            if !connection.untaken().is_empty() || connection.has_heard_end() {
                return;
            }
            // No more than the stream takes, or each connection kept as much again beside it. One octet without room
            // makes the stream tell when it has some.
            let room = self.pep.room(session).clamp(1, READ);
            match connection.read(&mut self.received[..room]) {
                Heard::Octets(len) => {
                    let taken = self.pep.write(now, session, &self.received[..len]);
                    connection.keep_untaken(&self.received[taken..len]);
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
                    let reason = self.targets.termination().fail(now, failure, parties);
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
        let taken = self.pep.write(now, session, connection.untaken());
        connection.take_untaken(taken);
        if connection.untaken().is_empty() && connection.may_hold_octets() {
            self.read(now, session);
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
            if read.is_end && !(connection.confirms_close() && connection.has_ended()) {
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
                return self.close(now, session);
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
                self.close(now, session);
            }
        }
        if !self.ending.is_empty() {
            self.look_at = Some(now + LOOK);
        }
    }

    /// Both ends have finished, and each has all data of the other. A client whose end is confirmed is told of the far
    /// end's end only now.
    fn finish(&mut self, now: Time, session: SessionId) {
        let Some(connection) = self.connections.get_mut(session) else { return };
        if !connection.confirms_close() {
            return;
        }
        connection.finish();
        if connection.flush().is_err() {
            self.connections.remove(session);
        } else if connection.is_over() {
            self.close(now, session);
        } else {
            self.connections.watch(session);
        }
    }

    /// Closes a connection that both ends have finished.
    fn close(&mut self, now: Time, session: SessionId) {
        self.ending.remove(&session);
        if let Some(connection) = self.connections.remove(session) {
            self.partings.close(now, connection);
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
                %reason,
                in_doubt,
                unread,
                left_out,
                "connection broken off: the far end may lack the octets in doubt, which were sent to it and are counted \
                 as they go over the air, and lacks the unread ones, which the program here wrote later"
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
            Event::Finished(session) => self.finish(now, session),
            Event::Reset(session, broken) => {
                self.ending.remove(&session);
                let connection = self.connections.remove(session);
                let unread = connection.as_ref().map_or(0, |it| it.untaken().len());
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
            self.targets.termination().fail(now, Failure::TimedOut, parties);
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

// New clients: whether and how their connections are carried.

/// How the rules want a connection to be carried.
struct Carriage {
    options: Options,
    /// The profile by which TLS ends here.
    tls: Option<String>,
    /// Whether the client is told the end only when the target has all that it said.
    confirms_close: bool,
}

impl Pep {
    /// Takes a connection that a client has made.
    fn take_client(&mut self, now: Time, arrived: Arrived) {
        let Arrived { stream, client, far, target, origin } = arrived;
        // Its SYN was held, and came again when another rule was in force.
        if let Some(asked) = self.held.withdraw(client, target) {
            self.withdraw(now, asked, Reason::CANCELLED);
        }
        let decided = self.decide(now, &origin, client, target).zip(far);
        let Some((Carriage { options, tls, confirms_close }, far)) = decided else {
            return self.refuse(Wire::new(stream, None));
        };
        let call = Call { far, client, target, options, confirms_close };
        let Some(profile) = tls else {
            let target = Target::Address { source: client, destination: target };
            return self.open(
                now,
                Wire::to_program(stream, None),
                &call,
                Opening { target, tls: None },
            );
        };
        let parties = Parties { client: Some(client), target: Some(target) };
        let session = self.targets.termination().accept(&profile).map(|it| (it, parties));
        let has_session = session.is_some();
        let wire = Wire::to_program(stream, session);
        if !has_session {
            return self.refuse(wire);
        }
        if let Err(wire) = self.handshakes.add(now, wire, call) {
            self.refuse(wire);
        }
    }

    /// Goes on with a client whose handshake is complete.
    fn take_greeted(&mut self, now: Time, greeted: Greeted) {
        let Greeted { wire, call, terms } = greeted;
        self.targets.termination().establish();
        let (target, sni) = match terms.auth_id {
            Some(id) => (Target::AuthId(id.as_str().to_owned()), None),
            None => {
                let target = Target::Address { source: call.client, destination: call.target };
                (target, terms.sni)
            }
        };
        let tls = Some(Tls { sni, alpn: terms.alpn });
        self.open(now, wire, &call, Opening { target, tls });
    }

    fn open(&mut self, now: Time, wire: Wire, call: &Call, opening: Opening) {
        let node = match call.far {
            Far::Node(node) => node,
            Far::Gateway(gateway) => {
                let confirms = call.confirms_close;
                return match self.fast.carry(
                    now,
                    gateway,
                    (wire, call.client.ip()),
                    opening,
                    confirms,
                    &mut self.targets,
                ) {
                    Ok(()) => self.counters.connections_accepted += 1,
                    Err(wire) => self.refuse(wire),
                };
            }
        };
        let Ok(session) = self.pep.open(now, node, opening, call.options) else {
            return self.refuse(wire);
        };
        self.accompany(now, node);
        self.counters.connections_accepted += 1;
        let mut connection = Connection::accepted(wire);
        if call.confirms_close {
            connection.confirm_close();
        }
        if let Err(connection) = self.connections.add(session, connection) {
            connection.abort();
            return self.pep.reset(session, Reason::NO_ROOM);
        }
        // What came with the end of a handshake goes with the opening.
        self.read(now, session);
        self.connections.watch(session);
    }

    fn refuse(&mut self, wire: Wire) {
        debug!("connection refused: a rule, no peer, or too many");
        self.counters.connections_refused += 1;
        wire.abort();
    }

    /// How the rules want a connection to be carried; `None` if it is not carried.
    fn decide(
        &mut self,
        now: Time,
        origin: &Origin,
        client: SocketAddr,
        target: SocketAddr,
    ) -> Option<Carriage> {
        let decision = match origin {
            Origin::Diverted(rule) => self.rules.decide_by(now, rule.as_deref(), client, target),
            Origin::LetIn | Origin::Made(..) => self.rules.decide(now, client, target),
        };
        match decision.verdict {
            Verdict::Pass { service: ::rules::Service::HfPep, options } => {
                let ttl = options.ttl.filter(|ttl| !ttl.is_zero());
                let own = Options {
                    priority: options.priority.unwrap_or(Options::default().priority),
                    ttl,
                    is_compressed: options.compression.unwrap_or(true),
                    source: client.ip().to_canonical().into(),
                };
                Some(Carriage {
                    options: own,
                    tls: options.tls.clone(),
                    confirms_close: options.confirm_close.unwrap_or(self.config.confirm_close),
                })
            }
            Verdict::Pass { service: ::rules::Service::IpClient, .. } | Verdict::Block { .. } => {
                None
            }
        }
    }
}

// Clients that are answered when the far end has accepted for the target.

impl Pep {
    /// Takes what has come in: connections, and SYNs that are held.
    fn take(&mut self, now: Time, come: Come) {
        self.held.drop_syns(come.syns_dropped);
        // SYNs before connections: the client of a repeated SYN is still held.
        for (rule, syn) in come.syns {
            match self.held.hear(now, &syn) {
                Next::Ask(before) => {
                    before.into_iter().for_each(|it| self.withdraw(now, it, Reason::CANCELLED));
                    self.ask(now, rule, syn);
                }
                Next::Deny(denial) => self.entry.deny(&syn, denial),
                Next::LetIn => _ = self.entry.let_in(&syn),
                Next::Nothing => {}
            }
        }
        for arrived in come.arrived {
            match arrived.origin {
                Origin::LetIn => self.take_let_in(now, arrived),
                Origin::Diverted(_) | Origin::Made(..) => self.take_client(now, arrived),
            }
        }
    }

    /// Asks the far end whether a target accepts.
    fn ask(&mut self, now: Time, rule: Option<String>, syn: Syn) {
        let origin = Origin::Diverted(rule.clone());
        let decided = self.decide(now, &origin, syn.client, syn.target);
        let Some((Carriage { options, confirms_close, .. }, far)) =
            decided.zip(self.entry.far_of(syn.target))
        else {
            // The rules have changed meanwhile: what is repeated meets the others.
            return self.held.drop_syns(1);
        };
        let target = Target::Address { source: syn.client, destination: syn.target };
        let opening = Opening { target, tls: None };
        let asked = match far {
            Far::Node(node) => {
                self.accompany(now, node);
                self.pep.open_confirmed(now, node, opening, options).map(Asked::Session).ok()
            }
            Far::Gateway(gateway) => {
                let client = syn.client.ip();
                let targets = &mut self.targets;
                let asked = self.fast.ask(now, gateway, client, opening, confirms_close, targets);
                asked.map(Asked::Link)
            }
        };
        match asked {
            Some(asked) => self.held.add(now, rule, syn, asked),
            None => {
                debug!("SYN dropped: too many connections");
                self.held.drop_syns(1);
            }
        }
    }

    /// Follows what other gateways have answered.
    fn follow_links(&mut self, now: Time) {
        for (link, outcome) in self.fast.take_outcomes() {
            match outcome {
                Ok(()) => self.confirm(now, Asked::Link(link)),
                Err(reason) => self.deny(now, Asked::Link(link), reason),
            }
        }
    }

    /// The far end has a target for a client, which is let in.
    fn confirm(&mut self, now: Time, asked: Asked) {
        let Some(syn) = self.held.accept(now, asked) else { return };
        if !self.entry.let_in(&syn) {
            self.held.withdraw(syn.client, syn.target);
            self.withdraw(now, asked, Reason::CANCELLED);
        }
    }

    /// Tells a client that there is no target.
    fn deny(&mut self, now: Time, asked: Asked, reason: Reason) {
        let Some((syn, denial)) = self.held.refuse(now, asked, reason) else { return };
        debug!(%reason, "SYN refused");
        if reason == Reason::NO_SERVICE
            && let Some(left_out) = self.complaints.admit(now, Subject::HandshakeUnknown)
        {
            warn!(
                left_out,
                "the far gateway knows of no handshake = \"end-to-end\", and its targets cannot be \
                 reached so: update it, or set handshake = \"local\" here"
            );
        }
        self.entry.deny(&syn, denial);
    }

    /// Goes on with a client that was let in.
    fn take_let_in(&mut self, now: Time, arrived: Arrived) {
        let wire = Wire::to_program(arrived.stream, None);
        let session = match self.held.take(arrived.client, arrived.target) {
            Some(Asked::Session(session)) => session,
            Some(Asked::Link(link)) => {
                return match self.fast.join(now, link, wire, &mut self.targets) {
                    Ok(()) => self.counters.connections_accepted += 1,
                    Err(wire) => self.refuse(wire),
                };
            }
            // The far end has broken it off meanwhile.
            None => return self.refuse(wire),
        };
        self.counters.connections_accepted += 1;
        let mut connection = Connection::accepted(wire);
        connection.confirm_close();
        if let Err(connection) = self.connections.add(session, connection) {
            connection.abort();
            return self.pep.reset(session, Reason::NO_ROOM);
        }
        self.read(now, session);
        // The target may have spoken first.
        self.write(now, session);
    }

    /// Gives up a request to the far end.
    fn withdraw(&mut self, now: Time, asked: Asked, reason: Reason) {
        match asked {
            Asked::Link(link) => self.fast.withdraw(now, link),
            Asked::Session(session) => self.pep.reset(session, reason),
        }
    }

    /// Gives up waiting clients whose rule holds no clients any more.
    fn follow_rules(&mut self, now: Time, rules: &::rules::Config) {
        let otherwise = self.config.handshake;
        let gone = self.held.follow(|rule| {
            let position = rule.and_then(|name| rules.rules.iter().position(|it| it.name == name));
            let is_there = position.is_some() == rule.is_some();
            is_there
                && match rules.decision(position, true).verdict {
                    Verdict::Block { .. } => false,
                    Verdict::Pass { options, .. } => {
                        options.handshake(otherwise) == Handshake::EndToEnd
                    }
                }
        });
        for asked in gone {
            self.withdraw(now, asked, Reason::CANCELLED);
        }
    }
}

// Another configuration: steps that the kernel may refuse come first, and existing connections go on.
//
// ```text
//   ports, bearer, certificates ─▶ rules in the kernel ─▶ all the rest, which cannot fail
//        │ refused                      │ refused
//        ▼                              ▼
//     nothing has changed
// ```

impl Pep {
    /// # Errors
    /// When a part of the configuration cannot be had: nothing has changed.
    fn follow(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        let new = config.hf_pep.clone().context("no section [hfpep]")?;
        let key = new.core(wall_clock())?.slep.group.map(|group| group.key);
        if new.group != self.config.group || key != self.key {
            // The data of open streams was cut for the old seals, and strangers may have opened these streams.
            return Ok(Reload::Restart);
        }
        let rules = &config.rules.table;
        let loaded = self.targets.termination().load(&config.tls)?;
        if new == self.config && self.rules.config() == rules {
            self.targets.termination().follow(&config.tls, loaded, new.tls.as_deref());
            // Who may use a target stands in the profile.
            self.targets.admit_by(Admission::new(&new, &config.tls));
            return Ok(Reload::Taken(Vec::new()));
        }
        let ports = self.udp.open_ports(&new)?;
        let bearer = self.fast.prepare(&new)?;
        // The last connections of removed rules and ports are judged by the rules in force when they came.
        for arrived in self.entry.follow(&new, rules)? {
            self.take_client(now, arrived);
        }
        let ruled = match self.rules.replace(rules) {
            Ok(changes) => changes,
            Err(why) => {
                self.entry.follow(&self.config, self.rules.config())?;
                return Err(why);
            }
        };
        let mut changes = changes(&self.config, &new);
        changes.extend(ruled);
        self.udp.follow(&new, ports);
        self.fast.follow(now, &new, bearer);
        self.targets.termination().follow(&config.tls, loaded, new.tls.as_deref());
        self.targets.admit_by(Admission::new(&new, &config.tls));
        let before = std::mem::replace(&mut self.config, new);
        self.follow_parameters(now, &before);
        self.follow_rules(now, rules);
        Ok(Reload::Taken(changes))
    }

    /// Follows other parameters of streams, and another server: streams survive both.
    fn follow_parameters(&mut self, now: Time, before: &config::HfPep) {
        let rebinds = self.config.parameters != before.parameters
            && self.pep.set_config(now, self.config.parameters.clone());
        if !rebinds && self.config.server == before.server {
            return;
        }
        self.pep.handle_disconnected(now);
        self.dial = self.config.server.map(|server| Dial::new(now, server));
        // The file that survives a crash names the nodes of the existing streams; each server has a file of its own.
        self.companions = Companions::open(&self.config).map(|(mut companions, _)| {
            companions.begin(self.pep.slep().epoch());
            companions
        });
        let nodes: Vec<Address> = self.pep.slep().companions().map(|(node, _)| node).collect();
        if let Some(companions) = &mut self.companions {
            nodes.into_iter().for_each(|node| companions.add(now, node));
        }
        if self.dial.is_none() {
            // Nothing goes over HF any more, and nobody there could be told.
            let all = self.connections.iter().map(|(session, _)| session);
            for session in all.collect::<Vec<SessionId>>() {
                self.give_up(session, Reason::STOPPED);
            }
        }
    }
}

/// What has changed, a line each.
fn changes(before: &config::HfPep, after: &config::HfPep) -> Vec<String> {
    let mut changes = Vec::new();
    let name = |peer: &Peer| (format!("peer {}", peer.to), peer.far.to_string());
    let peers = |config: &config::HfPep| config.peers.iter().map(name).collect::<Vec<_>>();
    tell(&mut changes, &peers(before), &peers(after));
    let name = |it: &Listener| {
        let (is_udp, behind) = (it.transport != Transport::Tcp, format!("{it:?}"));
        (format!("port {}{}", it.at, if is_udp { " (UDP)" } else { "" }), behind)
    };
    let ports = |config: &config::HfPep| config.listeners.iter().map(name).collect::<Vec<_>>();
    tell(&mut changes, &ports(before), &ports(after));
    for (is_same, what) in [
        (before.server == after.server, "another server"),
        (before.mode == after.mode, "another mode"),
        (before.interfaces == after.interfaces, "other interfaces"),
        (before.handshake == after.handshake, "another handshake"),
        (before.confirm_close == after.confirm_close, "another confirm-close"),
        (before.allowed == after.allowed, "allow: changed"),
        (before.tls == after.tls, "another TLS profile for targets"),
        (before.bearer == after.bearer, "bearer: changed"),
        (before.parameters == after.parameters, "other parameters"),
    ] {
        if !is_same {
            changes.push(what.to_owned());
        }
    }
    changes
}

/// Appends to `changes` the entries that were added, removed or changed.
fn tell(changes: &mut Vec<String>, before: &[(String, String)], after: &[(String, String)]) {
    let find = |all: &[(String, String)], name: &String| {
        all.iter().find(|(its, _)| its == name).map(|(_, what)| what.clone())
    };
    for (name, what) in after {
        match find(before, name) {
            None => changes.push(format!("{name} added")),
            Some(old) if old != *what => changes.push(format!("{name}: changed")),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|(name, _)| find(after, name).is_none());
    changes.extend(gone.map(|(name, _)| format!("{name} left")));
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
        let is_idle = self.connections.len() + self.fast.len() + self.held.len() == 0
            && self.handshakes.len() == 0
            && self.partings.next_timeout().is_none()
            && !self.udp.borrows();
        self.entry.settle(&self.config, is_idle)
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
                    self.targets.termination().fail(now, failure, parties);
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
        counters.extend(entries("hfpep_tls_", self.targets.tls_stats()));
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
        let dropped = self.entry.dropped();
        counters.extend(of_counters(
            "hfpep_",
            [(without_descriptor, turned_away), (&IN_CLEAR, dropped)],
        ));
        let mut rules = self.rules.counters();
        rules.extend(self.entry.blocked());
        let mut faults = self.entry.faults(now);
        faults.extend(self.fault_of_server());
        faults.extend(self.fast.faults(now));
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
            let unread = self.connections.get_mut(session).map_or(0, |it| it.untaken().len());
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
