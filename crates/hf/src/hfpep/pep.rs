//! The performance enhancing proxy itself.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};

use super::answer::{ANSWER, Answer};
use super::config::Config;
use super::flows::wire::ADDRESSES;
use super::flows::{self, Arrived, Client, FlowId, Flows, NotCarried, Outgoing};
use super::stats::Stats;
use super::wire::{MAX_NAME, Opening};
use crate::s5066::Address;
use crate::s5066::seal::Trouble;
use crate::s5066::sis::client::Fault;
use crate::s5066::sis::stream::Unreadable;
use crate::s5066::sis::{BindReason, UnbindReason};
use crate::slep::wire::DATAGRAM;
use crate::slep::{
    self, Addresses, Break, Datagram, Delivery, NotOpened, Options, Read, Reason, Slep, Source,
    StreamId,
};

/// Octets of an opening at most: head, IPv6 addresses, ports, name and protocol.
pub const MAX_OPENING: usize = 2 + 4 + 32 + 2 + MAX_NAME + 1 + 255;

/// Whether a client with `its` places may take another of the `free` ones: `its` must be less than three times `free`.
/// A single client gets three quarters of all places, a client beside others less.
#[must_use]
pub fn has_share(its: usize, free: usize) -> bool {
    its < free.saturating_mul(3)
}

/// An HF-PEP: a core in the sense of [`base::contract`].
///
/// Its driver holds the TCP connection to the STANAG 5066 node, like the driver of
/// [`IpClient`](crate::ipclient::IpClient), and the TCP connections that are carried. Either end may open a
/// connection: it is then the initiator, and the other end the responder, which connects to the target.
///
/// - Facts in: [`handle_connected`](Self::handle_connected),
///   [`handle_disconnected`](Self::handle_disconnected), [`handle_octets`](Self::handle_octets) from the
///   node; [`open`](Self::open), [`open_confirmed`](Self::open_confirmed), [`accept`](Self::accept),
///   [`write`](Self::write), [`read`](Self::read), [`finish`](Self::finish), [`reset`](Self::reset),
///   [`reset_behind`](Self::reset_behind), [`confirm_end`](Self::confirm_end) from
///   the connections; [`send_datagram`](Self::send_datagram), [`answer`](Self::answer),
///   [`refuse`](Self::refuse) from [`flows`] of UDP.
/// - Decisions out: [`poll_event`](Self::poll_event) and [`poll_datagram`](Self::poll_datagram) after each of these, then
///   [`poll_octets`](Self::poll_octets) while the connection to the node has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: all others.
#[derive(Debug)]
pub struct HfPep {
    config: Config,
    slep: Slep,
    flows: Flows,
    sessions: BTreeMap<SessionId, Session>,
    of_stream: BTreeMap<StreamId, SessionId>,
    /// The number of connections from each source.
    of_source: BTreeMap<Source, usize>,
    /// Connections that wait for their first data, or for all of their opening, by when they wait no
    /// longer.
    waiting: BTreeSet<(Time, SessionId)>,
    next: u64,
    events: VecDeque<Event>,
    stats: Stats,
}

/// Events for the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The far end has the connection that [`HfPep::open_confirmed`] asked for: octets may follow.
    Accepted(SessionId),
    /// The node takes what is to be sent.
    Bound,
    /// The connection to the node is to be closed, and made again.
    Close(Fault),
    /// Another end asks for a connection: [`HfPep::accept`] says that it is there, [`HfPep::reset`] why not.
    Connect {
        /// The connection.
        session: SessionId,
        /// The other end.
        from: Address,
        /// To whom.
        opening: Opening,
    },
    /// Both ends have finished, and each has all of the other: it is no more.
    Finished(SessionId),
    /// A flow of UDP that another end had opened is no more.
    FlowEnded(FlowId),
    /// There is something to read, or the end.
    Readable(SessionId),
    /// The node does not bind the client, which will ask again.
    Refused(BindReason),
    /// A connection is broken and no longer exists. As on a stream, everything that came before was read.
    Reset(SessionId, Break),
    /// A node has sent a PDU of another version of SLEP, which is dropped.
    OtherVersion {
        /// Which node.
        node: Address,
        /// Its version, 0 to 3.
        version: u8,
    },
    /// The U_PDUs of a node are dropped because of their seal, or the node drops ours.
    Sealing {
        /// Which node.
        node: Address,
        /// The fault.
        trouble: Trouble,
    },
    /// The node has unbound the client, which will ask again.
    Unbound(UnbindReason),
    /// There is room again after less was taken than was given.
    Writable(SessionId),
}

impl HfPep {
    /// An HF-PEP that is not connected to its node yet.
    #[must_use]
    pub fn new(now: Time, config: Config, rng: Rng) -> Self {
        Self {
            // Numbers of flows and of the process begin alike, which nobody can make use of.
            flows: Flows::new(config.flows, &mut rng.clone()),
            slep: Slep::new(now, config.slep.clone(), rng),
            config,
            sessions: BTreeMap::new(),
            of_stream: BTreeMap::new(),
            of_source: BTreeMap::new(),
            waiting: BTreeSet::new(),
            next: 0,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Goes on with other parameters, which hold from now on; the magic number for connections that begin. Returns
    /// whether the connection to the node is to be made anew: it counts as lost already, and connections wait for
    /// the next.
    pub fn set_config(&mut self, now: Time, config: Config) -> bool {
        self.flows.set_config(config.flows);
        let rebinds = self.slep.set_config(now, config.slep.clone());
        self.config = config;
        self.settle(now);
        rebinds
    }

    /// The connection to the node is there.
    pub fn handle_connected(&mut self, now: Time) {
        self.slep.handle_connected(now);
    }

    /// The wall clock says this much since 1970: told with each call where there is a group.
    pub fn handle_clock(&mut self, now: Time, clock: Duration) {
        self.slep.handle_clock(now, clock);
    }

    /// The connection to the node is gone. Connections wait for another one.
    pub fn handle_disconnected(&mut self, now: Time) {
        self.slep.handle_disconnected(now);
        self.settle(now);
    }

    /// Takes octets from the node.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.slep.handle_octets(now, octets);
        self.settle(now);
    }

    /// Opens a connection. Its stream is opened with the first data, or when that does not come.
    ///
    /// # Errors
    /// When there are too many, in all or of its source.
    pub fn open(
        &mut self,
        now: Time,
        peer: Address,
        opening: Opening,
        options: Options,
    ) -> Result<SessionId, NotOpened> {
        if peer.is_group() {
            return Err(NotOpened::Group);
        }
        self.check_room(options.source)?;
        let until = now + self.config.first_data;
        let stage = Stage::Gathering { options, until };
        let session = Session {
            peer,
            is_initiator: true,
            is_confirmed: false,
            opening: Some(opening),
            stage,
            has_heard_end: false,
            has_said: false,
            broken: None,
            since: now,
            source: options.source,
        };
        let session = self.add(session);
        self.waiting.insert((until, session));
        self.stats.sessions_opened += 1;
        Ok(session)
    }

    /// Whether a source may have another connection.
    fn check_room(&mut self, source: Source) -> Result<(), NotOpened> {
        let free = self.config.slep.limits.streams.saturating_sub(self.sessions.len());
        if free == 0 {
            return Err(NotOpened::Full);
        }
        let its = self.of_source.get(&source).copied().unwrap_or_default();
        if source != Source::NOBODY && !has_share(its, free) {
            self.stats.sessions_over_share += 1;
            return Err(NotOpened::Share);
        }
        Ok(())
    }

    fn add(&mut self, session: Session) -> SessionId {
        self.next += 1;
        let id = SessionId(self.next);
        *self.of_source.entry(session.source).or_default() += 1;
        self.sessions.insert(id, session);
        id
    }

    /// Opens the stream of a connection that waited for its first data.
    fn launch(&mut self, now: Time, id: SessionId) -> Option<StreamId> {
        let session = self.sessions.get_mut(&id)?;
        let Stage::Gathering { options, until } = &session.stage else { return None };
        let mut head = Vec::new();
        if let Some(opening) = &session.opening {
            opening.emit(self.config.magic, &mut head);
        }
        self.waiting.remove(&(*until, id));
        match self.slep.open(now, session.peer, Addresses::default(), *options) {
            Ok(stream) => {
                // A stream that was just opened takes so little.
                let _ = self.slep.write(stream, &head);
                session.stage = Stage::Open { stream, data: Vec::new() };
                self.of_stream.insert(stream, id);
                Some(stream)
            }
            Err(_) => {
                let broken = Break { reason: Reason::NO_ROOM, in_doubt: 0 };
                self.end(id, Event::Reset(id, broken));
                None
            }
        }
    }

    /// The connection that an [`Event::Connect`] asked for is there. The other end is told if it wants
    /// to know before anything else.
    pub fn accept(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Stage::Connecting { stream, data, is_all } = &mut session.stage {
            let (stream, data, is_all) = (*stream, std::mem::take(data), *is_all);
            let is_readable = is_all || !data.is_empty() || self.slep.is_readable(stream);
            let source = session.opening.as_ref().map(Opening::source).unwrap_or_default();
            self.slep.set_options(stream, Options { source, ..self.config.answers });
            session.stage = Stage::Open { stream, data };
            let is_there = session.broken.is_none();
            if session.is_confirmed && is_there && !self.confirm(stream) {
                return self.break_off(id, stream, Reason::NO_ROOM);
            }
            if is_readable {
                self.events.push_back(Event::Readable(id));
            }
        }
    }

    /// Takes octets of a connection, and returns how many. After an incomplete write, [`Event::Writable`] reports new
    /// room.
    pub fn write(&mut self, now: Time, id: SessionId, octets: &[u8]) -> usize {
        let Some(session) = self.sessions.get(&id) else { return 0 };
        let stream = match session.stage {
            Stage::Gathering { .. } if octets.is_empty() => return 0,
            Stage::Gathering { .. } => {
                let Some(stream) = self.launch(now, id) else { return 0 };
                self.stats.opened_with_data += 1;
                stream
            }
            Stage::Open { stream, .. } => stream,
            Stage::Arriving { .. }
            | Stage::Confirming { .. }
            | Stage::Connecting { .. }
            | Stage::Over { .. } => return 0,
        };
        let taken = self.slep.write(stream, octets);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.has_said |= taken > 0;
        }
        taken
    }

    /// Octets that [`Self::write`] takes.
    #[must_use]
    pub fn room(&self, id: SessionId) -> usize {
        match self.sessions.get(&id).map(|session| &session.stage) {
            Some(Stage::Gathering { .. }) => self.config.slep.limits.unsent,
            Some(Stage::Open { stream, .. }) => self.slep.room(*stream),
            Some(
                Stage::Arriving { .. }
                | Stage::Confirming { .. }
                | Stage::Connecting { .. }
                | Stage::Over { .. },
            )
            | None => 0,
        }
    }

    /// Says that nothing more will be written to a connection.
    pub fn finish(&mut self, now: Time, id: SessionId) {
        let stream = match self.sessions.get(&id).map(|session| &session.stage) {
            Some(Stage::Gathering { .. }) => self.launch(now, id),
            Some(Stage::Open { stream, .. }) => Some(*stream),
            Some(
                Stage::Arriving { .. }
                | Stage::Confirming { .. }
                | Stage::Connecting { .. }
                | Stage::Over { .. },
            )
            | None => None,
        };
        if let Some(stream) = stream {
            self.slep.finish(stream);
            if let Some(session) = self.sessions.get_mut(&id) {
                session.has_said = true;
            }
        }
        self.settle(now);
    }

    /// Breaks a connection off.
    pub fn reset(&mut self, id: SessionId, reason: Reason) {
        let Some(session) = self.remove(id) else { return };
        // The other end has never heard of one that has no stream.
        if let Some(stream) = session.stream() {
            self.of_stream.remove(&stream);
            self.slep.reset(stream, reason);
        }
        self.stats.sessions_reset += 1;
    }

    /// Breaks a connection off behind what was written to it, as
    /// [`Slep::reset_behind`](crate::slep::Slep::reset_behind) does with a stream.
    pub fn reset_behind(&mut self, now: Time, id: SessionId, reason: Reason) {
        let Some(session) = self.remove(id) else { return };
        if let Some(stream) = session.stream() {
            self.of_stream.remove(&stream);
            match session.stage {
                Stage::Open { .. } if session.has_said => {
                    self.slep.reset_behind(now, stream, reason);
                }
                // Nothing was said that could be overtaken.
                Stage::Open { .. }
                | Stage::Arriving { .. }
                | Stage::Confirming { .. }
                | Stage::Connecting { .. }
                | Stage::Gathering { .. }
                | Stage::Over { .. } => self.slep.reset(stream, reason),
            }
        }
        self.stats.sessions_reset += 1;
    }

    /// Whether the other end of a connection waits for [`Self::confirm_end`].
    #[must_use]
    pub fn holds_end(&self, id: SessionId) -> bool {
        self.stream(id).is_some_and(|stream| self.slep.holds_end(stream))
    }

    /// What the other end of a connection has said, to the end, is where it was to go. Where
    /// [`Config::confirms_ends`](super::Config::confirms_ends) is set, that end is told only now that the
    /// connection has finished.
    pub fn confirm_end(&mut self, now: Time, id: SessionId) {
        if let Some(stream) = self.stream(id) {
            self.slep.confirm_end(stream);
            self.settle(now);
        }
    }

    /// Takes the place of a process that ended without a word, as [`Slep::succeed`](crate::slep::Slep::succeed) does.
    pub fn succeed(&mut self, predecessor: u16) {
        self.slep.succeed(predecessor);
    }

    /// Remembers which process was at a node, as [`Slep::recall`](crate::slep::Slep::recall) does.
    pub fn recall(&mut self, now: Time, node: Address, process: u16) {
        self.slep.recall(now, node, process);
    }

    /// Tells another node that this process has begun, as [`Slep::announce`](crate::slep::Slep::announce)
    /// does.
    pub fn announce(&mut self, now: Time, to: Address) {
        self.slep.announce(now, to);
    }

    /// Leaves the node in peace, as [`Slep::unbind`](crate::slep::Slep::unbind) does.
    pub fn unbind(&mut self, now: Time) {
        self.slep.unbind(now);
    }

    /// Appends at most `most` octets that arrived for a connection to `out`.
    pub fn read(&mut self, now: Time, id: SessionId, out: &mut Vec<u8>, most: usize) -> Read {
        let Some(session) = self.sessions.get_mut(&id) else { return Read::default() };
        let (stream, data) = match &mut session.stage {
            Stage::Open { stream, data } => (Some(*stream), data),
            Stage::Over { data } => (None, data),
            Stage::Arriving { .. }
            | Stage::Confirming { .. }
            | Stage::Connecting { .. }
            | Stage::Gathering { .. } => return Read::default(),
        };
        let octets = data.len().min(most);
        out.extend(data.drain(..octets));
        let mut read = Read { octets, is_end: false };
        if data.is_empty() {
            *data = Vec::new();
            let rest = match stream {
                Some(stream) => self.slep.read(stream, out, most - octets),
                None => Read { octets: 0, is_end: true },
            };
            read = Read { octets: octets + rest.octets, is_end: rest.is_end };
            session.has_heard_end |= read.is_end;
            if let Some(broken) = session.broken {
                self.end(id, Event::Reset(id, broken));
            } else if stream.is_none() {
                self.end_finished(id);
            }
        }
        self.settle(now);
        read
    }

    /// Takes what happened to streams.
    fn settle(&mut self, now: Time) {
        while let Some(event) = self.slep.poll_event() {
            match event {
                // SLEP counts the outcomes of datagrams.
                slep::Event::Accepted(_)
                | slep::Event::Delivered(_)
                | slep::Event::Undelivered(_) => {}
                slep::Event::Bound => self.events.push_back(Event::Bound),
                slep::Event::Close(fault) => self.events.push_back(Event::Close(fault)),
                slep::Event::Refused(reason) => self.events.push_back(Event::Refused(reason)),
                slep::Event::OtherVersion { node, version } => {
                    self.events.push_back(Event::OtherVersion { node, version });
                }
                slep::Event::Sealing { node, trouble } => {
                    self.events.push_back(Event::Sealing { node, trouble });
                }
                slep::Event::Unbound(reason) => self.events.push_back(Event::Unbound(reason)),
                slep::Event::Opened { stream, from, addresses } => {
                    let is_confirmed = addresses == CONFIRMED;
                    if is_confirmed || addresses == Addresses::default() {
                        if self.config.confirms_ends {
                            self.slep.hold_end(stream);
                        }
                        let until = now + self.config.slep.times.give_up;
                        let stage = Stage::Arriving { stream, head: Vec::new(), until };
                        let session = Session {
                            peer: from,
                            is_initiator: false,
                            is_confirmed,
                            opening: None,
                            stage,
                            has_heard_end: false,
                            has_said: false,
                            broken: None,
                            since: now,
                            source: Source::NOBODY,
                        };
                        let session = self.add(session);
                        self.of_stream.insert(stream, session);
                        self.waiting.insert((until, session));
                        self.stats.sessions_received += 1;
                    } else {
                        self.slep.reset(stream, Reason::NO_SERVICE);
                    }
                }
                slep::Event::Readable(stream) => {
                    if let Some(&id) = self.of_stream.get(&stream) {
                        self.handle_readable(id);
                    }
                }
                slep::Event::Writable(stream) => {
                    let writable = self.of_stream.get(&stream).map(|&id| Event::Writable(id));
                    self.events.extend(writable);
                }
                slep::Event::Finished(stream) => {
                    if let Some(id) = self.of_stream.remove(&stream) {
                        self.end_stream(id);
                    }
                }
                slep::Event::Reset(stream, broken) => {
                    if let Some(id) = self.of_stream.remove(&stream) {
                        self.stats.sessions_reset += 1;
                        self.end_broken(id, broken);
                    }
                }
            }
        }
    }

    /// The stream of a connection is over. Its user may have to read what came behind the opening.
    fn end_stream(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match &mut session.stage {
            Stage::Open { data, .. } if !session.has_heard_end => {
                session.stage = Stage::Over { data: std::mem::take(data) };
            }
            _ => self.end_finished(id),
        }
    }

    /// The stream of a connection is broken. Its user may have to read what came behind the opening.
    fn end_broken(&mut self, id: SessionId, broken: Break) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match &session.stage {
            Stage::Connecting { data, .. } | Stage::Open { data, .. } if !data.is_empty() => {
                session.broken = Some(broken);
            }
            _ => self.end(id, Event::Reset(id, broken)),
        }
    }

    fn end_finished(&mut self, id: SessionId) {
        self.stats.sessions_finished += 1;
        self.end(id, Event::Finished(id));
    }

    fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        if let Entry::Occupied(mut its) = self.of_source.entry(session.source) {
            *its.get_mut() -= 1;
            if *its.get() == 0 {
                its.remove();
            }
        }
        if let Some(until) = session.waits_until() {
            self.waiting.remove(&(until, id));
        }
        Some(session)
    }

    /// A connection has ended; a user that knows about the connection is told.
    fn end(&mut self, id: SessionId, event: Event) {
        let ended = self.remove(id);
        let is_known = |it: &Session| !matches!(it.stage, Stage::Arriving { .. });
        if ended.as_ref().is_some_and(is_known) {
            self.events.push_back(event);
        }
    }

    fn handle_readable(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match &mut session.stage {
            Stage::Arriving { stream, head, until } => {
                let (stream, until, from) = (*stream, *until, session.peer);
                let read = self.slep.read(stream, head, MAX_OPENING - head.len());
                match Opening::split_first(self.config.magic, head) {
                    Ok(None) if !read.is_end => {}
                    Ok(Some((opening, data))) => {
                        let data = data.to_vec();
                        let is_all = read.is_end;
                        session.stage = Stage::Connecting { stream, data, is_all };
                        session.opening = Some(opening.clone());
                        self.waiting.remove(&(until, id));
                        self.events.push_back(Event::Connect { session: id, from, opening });
                    }
                    Ok(None) | Err(_) => {
                        self.stats.openings_malformed += 1;
                        self.reset(id, Reason::PROTOCOL_ERROR);
                    }
                }
            }
            Stage::Confirming { .. } => self.hear_answer(id),
            // The user is told when the connection is there.
            Stage::Connecting { .. } | Stage::Gathering { .. } | Stage::Over { .. } => {}
            Stage::Open { .. } => self.events.push_back(Event::Readable(id)),
        }
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(until, id)) = self.waiting.first()
            && until <= now
        {
            self.waiting.pop_first();
            match self.sessions.get(&id).map(Session::phase) {
                Some(Phase::Arriving) => {
                    self.stats.openings_missing += 1;
                    self.reset(id, Reason::IDLE);
                }
                _ => drop(self.launch(now, id)),
            }
        }
        self.expire_flows(now);
        self.slep.handle_timeout(now);
        self.settle(now);
    }

    /// Appends octets for the node; whether there were any.
    pub fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let has_some = self.slep.poll_octets(now, out);
        self.settle(now);
        has_some
    }

    /// The next event for the driver.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let waiting = self.waiting.first().map(|(until, _)| *until);
        earliest(earliest(waiting, self.slep.next_timeout()), self.flows.next_timeout())
    }

    /// Whether the node takes U_PDUs.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.slep.is_bound()
    }

    /// How each connection is, the oldest first.
    pub fn status(&self, now: Time) -> impl Iterator<Item = Status> {
        self.sessions.iter().map(move |(id, session)| Status {
            session: *id,
            peer: session.peer,
            is_initiator: session.is_initiator,
            opening: session.opening.clone(),
            phase: session.phase(),
            age: now.since(session.since),
            stream: session.stream().and_then(|stream| self.slep.status_of(now, stream)),
        })
    }

    /// The stream of a connection, if the connection has one.
    #[must_use]
    pub fn stream(&self, id: SessionId) -> Option<StreamId> {
        self.sessions.get(&id)?.stream()
    }

    /// Unreadable octets from the node, which were passed over; the last since the previous call.
    pub fn poll_unreadable(&mut self) -> Option<Unreadable> {
        self.slep.poll_unreadable()
    }

    /// The streams below.
    #[must_use]
    pub fn slep(&self) -> &Slep {
        &self.slep
    }

    /// The streams below, for tests of behaviour that other ends may show and this end never does.
    #[cfg(test)]
    pub(crate) fn slep_mut(&mut self) -> &mut Slep {
        &mut self.slep
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let sessions = self.sessions.len() as u64;
        Stats { sessions, flows: self.flows.stats(), ..self.stats }
    }
}

// Connections whose initiator first waits for the far end to confirm the target.
//
// ```text
//  initiator                                      responder
//     opening, at once, to an address of its own ─▶  connects to the target
//     octets, both ways            ◀─ answer: it is there, or a reset: why it is not
// ```

/// The addresses to which such streams are opened: an end without this service answers "no service".
const CONFIRMED: Addresses = Addresses { to: 1, from: 0 };

impl HfPep {
    /// Opens a connection that carries octets only when the far end has said that the target is
    /// there: [`Event::Accepted`], or [`Event::Reset`] with the reason why not. Its stream is opened at
    /// once.
    ///
    /// # Errors
    /// When there are too many, in all or of its source.
    pub fn open_confirmed(
        &mut self,
        now: Time,
        peer: Address,
        opening: Opening,
        options: Options,
    ) -> Result<SessionId, NotOpened> {
        self.check_room(options.source)?;
        let mut head = Vec::new();
        opening.emit(self.config.magic, &mut head);
        let stream = self.slep.open(now, peer, CONFIRMED, options)?;
        if self.slep.write(stream, &head) < head.len() {
            self.slep.reset(stream, Reason::NO_ROOM);
            return Err(NotOpened::Full);
        }
        let session = self.add(Session {
            peer,
            is_initiator: true,
            is_confirmed: true,
            opening: Some(opening),
            stage: Stage::Confirming { stream, answer: Vec::new() },
            has_heard_end: false,
            has_said: false,
            broken: None,
            since: now,
            source: options.source,
        });
        self.of_stream.insert(stream, session);
        self.stats.sessions_opened += 1;
        Ok(session)
    }

    /// Tells the other end that the connection is there; false if there is no room to say so.
    fn confirm(&mut self, stream: StreamId) -> bool {
        let answer = Answer::Accepted.octets(self.config.magic);
        self.slep.write(stream, &answer) == ANSWER
    }

    /// Reads what the other end says before all octets.
    fn hear_answer(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Stage::Confirming { stream, answer } = &mut session.stage else { return };
        let stream = *stream;
        let read = self.slep.read(stream, answer, ANSWER - answer.len());
        let said = match answer.first_chunk() {
            Some(octets) => Answer::parse(self.config.magic, *octets).ok(),
            None if !read.is_end => return,
            None => None,
        };
        match said {
            Some(Answer::Accepted) => {
                session.stage = Stage::Open { stream, data: Vec::new() };
                self.stats.sessions_confirmed += 1;
                self.events.push_back(Event::Accepted(id));
                if read.is_end || self.slep.is_readable(stream) {
                    self.events.push_back(Event::Readable(id));
                }
            }
            Some(Answer::Refused(reason)) => self.break_off(id, stream, reason),
            None => {
                self.stats.answers_malformed += 1;
                self.break_off(id, stream, Reason::PROTOCOL_ERROR);
            }
        }
    }

    /// Breaks a connection off that the user knows of.
    fn break_off(&mut self, id: SessionId, stream: StreamId, reason: Reason) {
        self.of_stream.remove(&stream);
        self.slep.reset(stream, reason);
        self.stats.sessions_reset += 1;
        self.end(id, Event::Reset(id, Break { reason, in_doubt: 0 }));
    }
}

// A connection that is carried.

/// Names a connection within this process; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SessionId(pub u64);

#[derive(Debug)]
struct Session {
    peer: Address,
    /// Whether it was opened here.
    is_initiator: bool,
    /// Whether the responder says first that the target is there.
    is_confirmed: bool,
    /// Whom the connection is for, once this is known.
    opening: Option<Opening>,
    stage: Stage,
    /// Whether the user here was told the end of what the other end says.
    has_heard_end: bool,
    /// Whether the user here has said anything, be it that it says no more.
    has_said: bool,
    /// How its stream broke, if what came behind the opening is still to be read.
    broken: Option<Break>,
    since: Time,
    /// Whose it is.
    source: Source,
}

/// How a connection is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// Which.
    pub session: SessionId,
    /// The node at its other end.
    pub peer: Address,
    /// Whether it was opened here.
    pub is_initiator: bool,
    /// Whom it is for; `None` until the opening has arrived.
    pub opening: Option<Opening>,
    /// How far it is.
    pub phase: Phase,
    /// How old it is.
    pub age: Duration,
    /// Its stream; `None` until there is one.
    pub stream: Option<slep::Status>,
}

/// How far a connection is.
#[derive(Debug)]
enum Stage {
    /// Opened here; its stream waits for the first data.
    Gathering { options: Options, until: Time },
    /// Opened by the other end, whose opening is not whole yet.
    Arriving { stream: StreamId, head: Vec<u8>, until: Time },
    /// Opened here; the other end has not said yet whether the target is there. Its answer is kept as far as received.
    Confirming { stream: StreamId, answer: Vec<u8> },
    /// Opened by the other end; the user is connecting to the target. What came behind the opening
    /// is kept; it may be all, and the stream has said so.
    Connecting { stream: StreamId, data: Vec<u8>, is_all: bool },
    /// It carries octets. What came behind the opening and was not read yet goes first.
    Open { stream: StreamId, data: Vec<u8> },
    /// Its stream is over, and the user has not read to the end.
    Over { data: Vec<u8> },
}

/// How far a connection is, for who looks at it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// It waits for the first data, which goes with the opening.
    Gathering,
    /// The opening has not arrived as a whole.
    Arriving,
    /// The other end makes the connection to the target, and will say so.
    Confirming,
    /// The connection to the target is being made.
    Connecting,
    /// It carries octets.
    Open,
}

impl Session {
    fn stream(&self) -> Option<StreamId> {
        match self.stage {
            Stage::Gathering { .. } | Stage::Over { .. } => None,
            Stage::Arriving { stream, .. }
            | Stage::Confirming { stream, .. }
            | Stage::Connecting { stream, .. }
            | Stage::Open { stream, .. } => Some(stream),
        }
    }

    /// The deadline for the first data, or for the rest of the opening.
    fn waits_until(&self) -> Option<Time> {
        match self.stage {
            Stage::Gathering { until, .. } | Stage::Arriving { until, .. } => Some(until),
            Stage::Confirming { .. }
            | Stage::Connecting { .. }
            | Stage::Open { .. }
            | Stage::Over { .. } => None,
        }
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Gathering { .. } => Phase::Gathering,
            Stage::Arriving { .. } => Phase::Arriving,
            Stage::Confirming { .. } => Phase::Confirming,
            Stage::Connecting { .. } => Phase::Connecting,
            Stage::Open { .. } | Stage::Over { .. } => Phase::Open,
        }
    }
}

// Flows of UDP over the datagrams of SLEP.

impl HfPep {
    /// Sends a client's datagram to its target behind another node.
    ///
    /// # Errors
    /// When it is not carried.
    pub fn send_datagram(
        &mut self,
        now: Time,
        client: Client,
        delivery: Delivery,
        data: &[u8],
    ) -> Result<(), NotCarried> {
        let most = self.datagram_room();
        self.flows.send(now, client, delivery, most, data)?;
        self.post(now)
    }

    /// Sends a target's answer to the client of a flow that another node has opened.
    ///
    /// # Errors
    /// When it is not carried.
    pub fn answer(&mut self, now: Time, flow: FlowId, data: &[u8]) -> Result<(), NotCarried> {
        let most = self.datagram_room();
        self.flows.answer(now, flow, most, data)?;
        self.post(now)
    }

    /// A flow that another node has opened is not carried, and is no more.
    pub fn refuse(&mut self, now: Time, flow: FlowId, reason: Reason) {
        self.flows.refuse(flow, reason);
        // Without room for it the other end asks again.
        let _ = self.post(now);
    }

    /// The next datagram for a client or target here.
    pub fn poll_datagram(&mut self, now: Time) -> Option<Arrived> {
        while let Some(Datagram { from, addresses, data }) = self.slep.poll_datagram() {
            if addresses != ADDRESSES {
                self.stats.datagrams_unwanted += 1;
                continue;
            }
            let arrived = self.flows.handle_message(now, from, &data);
            let _ = self.post(now);
            self.tell_ended();
            if arrived.is_some() {
                return arrived;
            }
        }
        None
    }

    /// How each flow of UDP is.
    pub fn flows(&self, now: Time) -> impl Iterator<Item = flows::Status> {
        self.flows.status(now)
    }

    /// Octets of a message about a flow at most.
    fn datagram_room(&self) -> usize {
        usize::from(self.slep.mtu()).saturating_sub(DATAGRAM)
    }

    /// Hands to SLEP what flows have to say.
    fn post(&mut self, now: Time) -> Result<(), NotCarried> {
        let mut outcome = Ok(());
        while let Some(Outgoing { flow, delivery, octets }) = self.flows.poll() {
            let (len, most) = (octets.len(), self.config.flows.queue);
            let slep = &mut self.slep;
            let queue = self.flows.queue_mut(flow);
            let has_room = queue.is_none_or(|it| it.has_room(len, most, |id| slep.is_waiting(id)));
            let sent = if has_room {
                slep.send_datagram(now, flow.peer, ADDRESSES, delivery, &octets).ok()
            } else {
                None
            };
            if let Some(id) = sent {
                if let Some(queue) = self.flows.queue_mut(flow) {
                    queue.note(id, len);
                }
            } else {
                self.flows.handle_dropped();
                outcome = Err(NotCarried::Full);
            }
        }
        outcome
    }

    fn expire_flows(&mut self, now: Time) {
        self.flows.handle_timeout(now);
        self.tell_ended();
    }

    fn tell_ended(&mut self) {
        let ended = std::iter::from_fn(|| self.flows.poll_ended());
        self.events.extend(ended.map(Event::FlowEnded));
    }
}
