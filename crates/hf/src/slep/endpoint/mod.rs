//! One SLEP endpoint: owns every stream of this process.

mod datagram;
mod incoming;
mod outcome;
mod outgoing;
mod timing;
mod user;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use base::backoff::Backoff;
use base::rng::Rng;
use base::time::{Time, earliest};

use super::coding::Spares;
use super::config::{Config, Source};
use super::datagrams::Datagrams;
use super::peer::{Closed, Owed, Peer};
use super::reason::Reason;
use super::schedule::Ready;
use super::shares::Shares;
use super::stats::Stats;
use super::stream::{Break, Parting, Stream};
use super::timers::{DatagramId, StreamId, Timer, Timers};
use super::wire::{Addresses, Name};
use crate::s5066::Address;
use crate::s5066::seal::{Sealing, Trouble};
use crate::s5066::service::MAX_PRIORITY;
use crate::s5066::sis::client::{self, Client, Fault, SendId, Share, Window};
use crate::s5066::sis::stream::Unreadable;
use crate::s5066::sis::{BindReason, Service, UnbindReason};

/// Most octets waiting for the socket: their order can no longer be changed.
const MAX_UNSENT: usize = 16 << 10;
/// The shortest U_PDUs streams can use, as the lower bound of `mtu`.
const LEAST_MTU: u16 = 128;

/// Streams to other nodes over one client of a STANAG 5066 node: a core as [`base::contract`]
/// describes it.
///
/// Its driver holds the TCP connection to the node and reports when the connection is made and lost. Streams survive
/// a lost connection, and the loss of anything the node holds.
///
/// - Facts in: [`handle_connected`](Self::handle_connected),
///   [`handle_disconnected`](Self::handle_disconnected), [`handle_octets`](Self::handle_octets) from the
///   node; [`handle_clock`](Self::handle_clock).
/// - Commands of the user: [`open`](Self::open), [`write`](Self::write), [`finish`](Self::finish),
///   [`reset`](Self::reset), [`read`](Self::read); [`send_datagram`](Self::send_datagram).
/// - Decisions out: [`poll_event`](Self::poll_event), [`poll_datagram`](Self::poll_datagram), then [`poll_octets`](Self::poll_octets) while the
///   connection has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: [`mtu`](Self::mtu), [`is_bound`](Self::is_bound), [`is_readable`](Self::is_readable),
///   [`room`](Self::room), [`is_waiting`](Self::is_waiting), [`status`](Self::status), [`stats`](Self::stats).
#[derive(Debug)]
pub struct Slep {
    config: Config,
    client: Client,
    /// Distinguishes this process from earlier ones on this node.
    epoch: u16,
    started: Time,
    rng: Rng,
    peers: BTreeMap<Address, Peer>,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams so far.
    counted: u64,
    ready: Ready,
    /// Nodes that something is to be said to.
    talks: VecDeque<Address>,
    /// What the node has.
    handed: BTreeMap<SendId, Handed>,
    window: Window,
    kept: Kept,
    datagrams: Datagrams,
    timers: Timers,
    /// The stream that last sent or received a long part: others may have to wait for it.
    bulk: Option<StreamId>,
    rebind_at: Option<Time>,
    patience: Backoff,
    events: VecDeque<Event>,
    stats: Stats,
}

/// Sources whose streams may go on when there is room again, looked at in one go.
const UNBLOCKED: usize = 16;
/// Octets of a long part.
const BULK: usize = 1_024;

/// Buffers and limits shared by all streams.
#[derive(Debug, Default)]
struct Kept {
    /// Octets that wait to be sent or acknowledged.
    sent: usize,
    /// Octets that were received and not read.
    received: usize,
    /// Streams whose users could not write because the send buffer, or the share of their source, was full.
    blocked: BTreeSet<(Source, StreamId)>,
    /// The source of blocked streams looked at last.
    unblocked: Source,
    /// Streams that lost received parts because the receive buffer was full.
    starved: BTreeSet<StreamId>,
    /// Streams with compression state, longest holders first; some may have released it.
    coding: VecDeque<StreamId>,
    spares: Spares,
    shares: Shares,
    /// Sources of ended streams whose first part the node has not confirmed.
    opening: BTreeMap<StreamId, Source>,
}

/// A U_PDU that the node has.
#[derive(Debug)]
struct Handed {
    to: Address,
    content: Content,
    share: Share,
}

/// The PDU of SLEP in a U_PDU.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    Datagram(DatagramId),
    Hello {
        is_question: bool,
    },
    Owed(Name, Owed),
    Part(StreamId, u64),
    /// That datagrams arrived: the other end repeats them if this gets lost.
    Receipt,
}

/// A U_PDU that is about to be handed to the node, without its octets.
#[derive(Clone, Copy)]
pub struct Submission {
    to: Address,
    priority: u8,
    ttl: Option<Duration>,
    /// If not the one that the client is bound with.
    service: Option<Service>,
    content: Content,
}

/// Whether a U_PDU no longer with the node may have arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// It did not arrive.
    NotArrived,
    /// It may have arrived.
    MayHaveArrived,
    /// It may have arrived, and may still do so.
    MayCome,
}

/// What the driver and the user should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The other end of a stream that was opened here has it.
    Accepted(StreamId),
    /// The node takes U_PDUs.
    Bound,
    /// The connection is to be closed, and made again.
    Close(Fault),
    /// A reliable datagram was acknowledged.
    Delivered(DatagramId),
    /// Both ends have finished a stream, and each has all of the other: it is no more.
    Finished(StreamId),
    /// Another node has opened a stream.
    Opened {
        /// The stream.
        stream: StreamId,
        /// The other node.
        from: Address,
        /// Which users it is between.
        addresses: Addresses,
    },
    /// A node has sent a PDU of another version of SLEP, which is dropped.
    OtherVersion {
        /// Which node.
        node: Address,
        /// Its version, 0 to 3.
        version: u8,
    },
    /// There is something to read, or the end.
    Readable(StreamId),
    /// The node does not bind the client, which will ask again.
    Refused(BindReason),
    /// A stream is broken: it is no more. All data received in order before the break was read, unless the
    /// user read nothing for a minute, or for a second if no user had broken the stream off.
    Reset(StreamId, Break),
    /// A reliable datagram was not acknowledged in time.
    Undelivered(DatagramId),
    /// Traffic with a node is dropped because of its seal, by us or by that node.
    Sealing {
        /// Which node.
        node: Address,
        /// What is wrong.
        trouble: Trouble,
    },
    /// The node has unbound the client, which will ask again.
    Unbound(UnbindReason),
    /// There is room again after a stream had taken less than it was given.
    Writable(StreamId),
}

/// The client of a node that streams go by.
fn client(config: &Config) -> client::Config {
    client::Config {
        rank: config.rank,
        service: config.service(),
        least_mtu: LEAST_MTU,
        max_unsent: MAX_UNSENT,
        drops_if_lost: true,
        sealing: config.group.clone().map_or(Sealing::Keyless, Sealing::Member),
        ..client::Config::new(config.sap)
    }
}

impl Slep {
    /// Creates an endpoint without a connection to its node.
    #[must_use]
    pub fn new(now: Time, config: Config, mut rng: Rng) -> Self {
        Self {
            client: Client::new(client(&config)),
            epoch: base::serial::low16(rng.bits()),
            started: now,
            rng,
            peers: BTreeMap::new(),
            streams: BTreeMap::new(),
            counted: 0,
            ready: Ready::default(),
            talks: VecDeque::new(),
            handed: BTreeMap::new(),
            window: Window::new(config.node_window, config.horizon),
            kept: Kept::default(),
            datagrams: Datagrams::default(),
            timers: Timers::default(),
            bulk: None,
            rebind_at: None,
            patience: Backoff::new(config.times.rebind),
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// Goes on with other parameters: limits and times hold from now on, the window of a stream for new streams.
    /// Returns whether the connection to the node is to be made anew, because the client is to be bound with other
    /// parameters; the connection counts as lost already. Streams survive the change. The group is unchanged.
    pub fn set_config(&mut self, now: Time, config: Config) -> bool {
        let rebinds = (self.config.sap, self.config.rank) != (config.sap, config.rank);
        self.config = config;
        if rebinds {
            self.handle_disconnected(now);
            self.client.set_config(client(&self.config));
        }
        rebinds
    }

    /// The connection to the node is there.
    pub fn handle_connected(&mut self, now: Time) {
        self.rebind_at = None;
        self.client.handle_connected(now);
    }

    /// The wall clock says this much since 1970: told with each call where there is a group.
    pub fn handle_clock(&mut self, now: Time, clock: Duration) {
        self.client.handle_clock(now, clock);
    }

    /// The connection to the node is gone. Streams wait for another one.
    pub fn handle_disconnected(&mut self, now: Time) {
        self.client.handle_disconnected();
        self.rebind_at = None;
        self.forsake(now);
    }

    /// Leaves the node in peace, after everything was said: the node sends what it was given. A process that only goes
    /// is taken for a crash, and the node drops what it has not begun to send.
    pub fn unbind(&mut self, now: Time) {
        self.client.unbind();
        self.rebind_at = None;
        self.forsake(now);
    }

    /// Takes octets from the node.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.client.handle_octets(now, octets);
        self.handle_events(now);
    }

    fn handle_events(&mut self, now: Time) {
        while let Some(event) = self.client.poll_event() {
            match event {
                client::Event::Bound { .. } => {
                    self.stats.handed.binds += 1;
                    self.patience.succeed();
                    self.events.push_back(Event::Bound);
                    self.ask_all(now);
                }
                client::Event::Close(fault) => {
                    self.forsake(now);
                    self.events.push_back(Event::Close(fault));
                }
                client::Event::Confirmed(id) => self.handle_confirmed(now, id),
                client::Event::FlowOff => self.window.handle_flow_off(),
                client::Event::Received(received) => self.receive(now, &received),
                client::Event::Refused(reason) => {
                    self.events.push_back(Event::Refused(reason));
                    self.rebind_at = Some(now + self.patience.fail());
                }
                client::Event::Rejected { id, to, start, reason } => {
                    self.handle_rejected(now, id, to, &start, reason);
                }
                client::Event::Sealing { node, trouble } => {
                    self.events.push_back(Event::Sealing { node, trouble });
                }
                client::Event::Unbound(reason) => {
                    self.forsake(now);
                    self.events.push_back(Event::Unbound(reason));
                    self.rebind_at = Some(now + self.patience.fail());
                }
                client::Event::Availability { .. }
                | client::Event::FlowOn
                | client::Event::HardLink(_)
                | client::Event::Management { .. }
                | client::Event::Peer(_) => {}
            }
        }
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.client.handle_timeout(now);
        self.handle_events(now);
        if self.rebind_at.take_if(|at| *at <= now).is_some() {
            self.client.rebind(now);
        }
        while let Some(timer) = self.timers.take(now) {
            match timer {
                Timer::Datagram(id) => self.check_datagram(now, id),
                Timer::Peer(address) => self.check_peer(now, address),
                Timer::Stream(id) => self.check_stream(now, id),
            }
        }
    }

    /// Appends octets for the node; whether there were any.
    ///
    /// The choice of octets is made now, so ask only while the connection has room, and after the
    /// user has written everything for this time.
    pub fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.pump(now);
        self.client.poll_octets(now, out)
    }

    /// What the driver and the user should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let own = earliest(self.rebind_at, self.timers.next());
        earliest(own, self.client.next_timeout())
    }

    /// Octets of a U_PDU at most.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        let most = self.config.mtu - self.client.overhead();
        self.client.mtu().map_or(most, |mtu| mtu.min(most))
    }

    /// Whether the node takes U_PDUs.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.client.mtu().is_some()
    }

    /// Why the node was left, until it has bound the client again.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.client.fault()
    }

    /// The last message from the node skipped as unreadable since
    /// the previous call.
    pub fn poll_unreadable(&mut self) -> Option<Unreadable> {
        self.client.poll_unreadable()
    }

    /// Counters of the client of the node.
    #[must_use]
    pub fn client_stats(&self) -> &client::Stats {
        self.client.stats()
    }

    /// Counters and levels.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            live: self.streams.len() as u64,
            unacknowledged: self.kept.sent as u64,
            unread: self.kept.received as u64,
            unconfirmed: self.window.octets() as u64,
            window: self.window.size() as u64,
            ..self.stats
        }
    }

    /// Takes the place of a process that ended without a word, before anything is said: its streams are known to be
    /// gone wherever the epoch of this process is heard.
    pub fn succeed(&mut self, predecessor: u16) {
        self.epoch = predecessor.wrapping_add(1);
    }

    /// The epoch, which distinguishes this process from others.
    #[must_use]
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Remembers the process last seen at a node: new streams are opened for this process alone, or for its
    /// successor once the successor has reported its predecessor gone.
    pub fn recall(&mut self, now: Time, node: Address, process: u16) {
        if let Some(peer) = self.peer(now, node)
            && peer.process().is_none()
        {
            peer.handle_process(now, process, None);
        }
    }

    /// The state of a node, created if missing; `None` if the table is full.
    fn peer(&mut self, now: Time, address: Address) -> Option<&mut Peer> {
        if !self.peers.contains_key(&address) {
            if self.peers.len() >= self.config.limits.peers {
                let idle = self.peers.iter().filter(|(_, peer)| peer.is_idle());
                let oldest = *idle.min_by_key(|(_, peer)| peer.last_word())?.0;
                if let Some(mut peer) = self.peers.remove(&oldest) {
                    peer.unwatch(&mut self.timers, oldest);
                }
            }
            let peer = Peer::new(now, &self.config, &mut self.rng);
            self.peers.insert(address, peer);
        }
        self.peers.get_mut(&address)
    }

    /// Notes what is to be said to a node about a stream.
    fn owe(&mut self, address: Address, name: Name, owed: Owed) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        if !peer.owe(name, owed) {
            self.stats.handed.unanswered += 1;
        }
        self.talk(address);
    }

    fn owe_hello(&mut self, address: Address, is_question: bool) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.owe_hello(is_question);
        self.talk(address);
    }

    /// Lists a node that something is to be said to.
    fn talk(&mut self, address: Address) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        if peer.list() {
            self.talks.push_back(address);
        }
    }

    /// Lists a stream that has something to send.
    fn list(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.list()
        {
            self.ready.push(stream.priority(), stream.options().source, id);
        }
    }

    /// Notes when a stream is to be looked at.
    fn watch(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.watch(&mut self.timers, id, &self.config);
        }
    }

    /// A stream is over: for what reason, if not because both ends had finished. `is_known`: the other end has told of
    /// the end, or is gone itself.
    fn end(&mut self, id: StreamId, reason: Option<Reason>, is_known: bool) {
        self.retire(id, reason, is_known);
        let Some(mut stream) = self.streams.remove(&id) else { return };
        stream.unwatch(&mut self.timers, id);
        let source = stream.options().source;
        self.kept.shares.remove(source, stream.sending().octets());
        if stream.is_opening_with_node() {
            self.kept.opening.insert(id, source);
        }
        if stream.is_listed() && self.ready.give_up() {
            self.ready.retain(|id| self.streams.contains_key(&id));
        }
        self.kept.received -= stream.receiving().octets();
        self.make_room(source);
    }

    /// Ends a stream for the other end: nothing more is sent or accepted, but its user can still read received data.
    /// The name may be used again from now on. `is_known`: the other end has told of the end, or is gone itself.
    fn retire(&mut self, id: StreamId, reason: Option<Reason>, is_known: bool) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_over()) else {
            return;
        };
        let octets = stream.sending().octets();
        self.kept.sent -= octets;
        self.kept.shares.free(stream.options().source, octets);
        let source = stream.options().source;
        let priority =
            if stream.sending().is_with_node() { stream.options().priority } else { MAX_PRIORITY };
        stream.retire(&mut self.kept.spares);
        self.kept.shares.give_up(source, id);
        self.kept.blocked.remove(&(source, id));
        self.kept.starved.remove(&id);
        self.bulk = self.bulk.filter(|bulk| *bulk != id);
        let (address, name, epoch) = (stream.peer(), stream.name(), stream.epoch());
        let end = reason.map_or_else(|| Ok(stream.receiving_mut().credit()), Err);
        let most = self.config.limits.closed;
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.close(name, Closed { epoch, priority, is_known, end }, most);
        }
    }

    /// A stream is broken: the user is told when it has read all, and the other end if it does not know.
    fn break_off(&mut self, now: Time, id: StreamId, reason: Reason, is_told: bool) {
        let Some(stream) = self.streams.get(&id) else { return };
        let (address, name, is_over) = (stream.peer(), stream.name(), stream.is_over());
        let source = stream.options().source;
        let broken = Break { reason, in_doubt: stream.sending().octets() };
        let has_user = !stream.has_left();
        let may_read = stream.receiving().has_unread() && !stream.receiving().is_broken();
        if !is_told || reason == Reason::RESTARTED {
            // Nobody is left who could use it.
            self.withdraw(id);
        }
        if has_user && !is_over && may_read {
            self.retire(id, Some(reason), !is_told);
            if let Some(stream) = self.streams.get_mut(&id) {
                let read = stream.traffic().read;
                let until = now + timing::patience(reason);
                stream.set_parting(Parting::Over { broken, read, until });
            }
            self.watch(id);
            self.make_room(source);
        } else {
            self.end(id, Some(reason), !is_told);
            if has_user {
                self.events.push_back(Event::Reset(id, broken));
            }
        }
        if is_told && !is_over {
            self.owe(address, name, Owed::Reset(reason));
        }
    }

    /// Tells users and other ends that had to wait for room when there is some; a source has freed some.
    fn make_room(&mut self, source: Source) {
        let limits = self.config.limits;
        let free = limits.sent.saturating_sub(self.kept.sent);
        if self.kept.sent <= limits.sent / 4 * 3 {
            self.unblock(source, free);
            for _ in 0..UNBLOCKED {
                // Others may have been held up by what all have.
                let after = (self.kept.unblocked, StreamId(u64::MAX));
                let next =
                    self.kept.blocked.range((Bound::Excluded(after), Bound::Unbounded)).next();
                let Some(&(next, _)) = next.or_else(|| self.kept.blocked.first()) else { break };
                self.kept.unblocked = next;
                self.unblock(next, free);
            }
        }
        if self.kept.received <= limits.received / 4 * 3 {
            for id in std::mem::take(&mut self.kept.starved) {
                self.ask(id);
            }
        }
    }

    /// The node is done with the first part of a stream: its source may open another stream.
    fn close_opening(&mut self, id: StreamId) {
        let source = match self.streams.get_mut(&id) {
            Some(stream) => stream.end_opening().then_some(stream.options().source),
            None => self.kept.opening.remove(&id),
        };
        let next = source.and_then(|source| self.kept.shares.close(source));
        if let Some(next) = next
            && let Some(stream) = self.streams.get(&next)
        {
            self.ready.push(stream.priority(), stream.options().source, next);
        }
    }

    /// Tells users of a source that had to wait for room, where so many octets are free for all.
    fn unblock(&mut self, source: Source, free: usize) {
        if !self.kept.shares.has_room(source, free) {
            return;
        }
        let all = (source, StreamId(0))..=(source, StreamId(u64::MAX));
        let blocked: Vec<_> = self.kept.blocked.range(all).copied().collect();
        for (source, id) in blocked {
            self.kept.blocked.remove(&(source, id));
            self.events.push_back(Event::Writable(id));
        }
    }

    /// Tells the other end of a stream what has come, and lets it say the same.
    fn ask(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(&id) {
            let (address, name) = (stream.peer(), stream.name());
            self.owe(address, name, Owed::question(false));
        }
    }

    /// The same before data that the node has: another process may be at the other end.
    fn ask_first(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(&id) {
            let (address, name, is_there) = (stream.peer(), stream.name(), stream.is_there());
            self.owe(address, name, Owed::question(is_there));
        }
    }

    /// Seconds since this process started.
    fn uptime(&self, now: Time) -> Duration {
        now.since(self.started)
    }
}
