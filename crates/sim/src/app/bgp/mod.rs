//! A BGP-4 speaker: keeps sessions with its peers over TCP and sends messages (RFC 4271).
//!
//! ```text
//!  lower address ── connects ──▶ higher address
//!                OPEN ──▶   ◀── OPEN
//!           KEEPALIVE ──▶   ◀── KEEPALIVE        each answers the other's OPEN
//!    KEEPALIVE, UPDATE ──▶   ◀── now and then
//! ```
//!
//! The speaker only generates traffic and does not route: announced networks are made up, and received
//! networks are ignored.

mod session;
pub mod wire;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use session::Session;
use tcp::{Connection, Event, State};

use super::App;
pub use session::{Ends, Record};
use wire::{Kind, PORT, Sizes};

/// Configuration of a speaker.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The local address of the speaker's sessions.
    pub local: Ipv4Addr,
    /// The addresses of the peers. In each pair the speaker with the lower address connects.
    pub peers: Vec<Ipv4Addr>,
    /// When it begins to connect.
    pub start: Time,
    /// From when on it says nothing new.
    pub stop: Option<Time>,
    /// From one KEEPALIVE of a session to the next.
    pub keepalive_interval: Duration,
    /// From one UPDATE to the next, which goes to all peers; the first one comes at a random time within it.
    pub update_interval: Duration,
    /// After how long it connects again to a peer that it lost.
    pub retry: Duration,
    /// How long its messages are.
    pub sizes: Sizes,
    /// Its TCP.
    pub tcp: tcp::Config,
}

/// A speaker.
#[derive(Debug)]
pub struct Speaker {
    config: Config,
    peers: BTreeMap<Ipv4Addr, Peer>,
    sessions: BTreeMap<Ends, Session>,
    next_port: u16,
    update_at: Option<Time>,
    stats: Stats,
    sent: Vec<Record>,
    received: Vec<Record>,
}

/// A peer.
#[derive(Debug)]
struct Peer {
    /// When to connect to it, if that is for us to do.
    connect_at: Option<Time>,
    /// The session with it.
    session: Option<Ends>,
}

/// Statistics of a speaker. The speaker also keeps [records](Speaker::sent) of each message.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Connections opened by the speaker.
    pub connects: u64,
    /// Sessions on which both had said OPEN.
    pub established: u64,
    /// Connections that ended because the peer did not answer (R2).
    pub timed_out: u64,
    /// Connections that the peer refused or reset.
    pub reset: u64,
    /// TCP warnings about a silent peer (R1).
    pub warnings: u64,
    /// Messages never sent: UPDATEs for peers without a session, messages while too much waits for TCP, and all
    /// messages after the limit of records.
    pub unsent: u64,
    /// Sessions ended because what came is not BGP.
    pub malformed: u64,
}

/// The first port that it connects from, and how many it uses in turns.
const PORTS: (u16, u16) = (20_000, 20_000);
/// Most messages sent by a speaker in total; each is recorded.
const MOST_MESSAGES: usize = 1 << 20;

impl Speaker {
    /// Creates a speaker waiting for its start; `rng` is used by nobody else.
    #[must_use]
    pub fn new(config: Config, mut rng: Rng) -> Self {
        let mut next_at = config.start;
        let peer = |address: &Ipv4Addr| {
            let connects = config.local < *address;
            let peer = Peer { connect_at: connects.then_some(next_at), session: None };
            // One connection at a time is asked for.
            next_at += Duration::from_millis(1);
            (*address, peer)
        };
        let peers = config.peers.iter().map(peer).collect();
        let update_at = config.start + rng.within(config.update_interval);
        let mut speaker = Self {
            config,
            peers,
            sessions: BTreeMap::new(),
            next_port: PORTS.0,
            update_at: None,
            stats: Stats::default(),
            sent: Vec::new(),
            received: Vec::new(),
        };
        speaker.plan_update(update_at);
        speaker
    }

    /// What it did.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Messages handed to TCP, in the order of each session.
    #[must_use]
    pub fn sent(&self) -> &[Record] {
        &self.sent
    }

    /// What came.
    #[must_use]
    pub fn received(&self) -> &[Record] {
        &self.received
    }

    fn plan_update(&mut self, at: Time) {
        self.update_at = Some(at).filter(|at| self.config.stop.is_none_or(|stop| *at < stop));
    }

    fn speaker(&self) -> wire::Speaker {
        // Three times the interval, as RFC 4271, 10, has it.
        let hold = self.config.keepalive_interval.as_secs().saturating_mul(3);
        let hold = u16::try_from(hold).unwrap_or(u16::MAX);
        wire::Speaker { id: self.config.local, system: 64_512, hold }
    }

    fn say(&mut self, now: Time, ends: Ends, kind: Kind) {
        let (speaker, sizes) = (self.speaker(), self.config.sizes);
        let Some(session) = self.sessions.get_mut(&ends) else { return };
        if self.sent.len() == MOST_MESSAGES || !session.has_room() {
            self.stats.unsent += 1;
            return;
        }
        kind.emit(speaker, sizes, session.outbox());
        self.sent.push(Record { ends, kind, at: now });
    }

    /// Takes what came on a session; false when it is not BGP.
    fn hear(&mut self, now: Time, ends: Ends) -> bool {
        loop {
            let Some(session) = self.sessions.get_mut(&ends) else { return true };
            let kind = match session.poll() {
                Ok(Some(kind)) => kind,
                Ok(None) => return true,
                Err(_) => return false,
            };
            self.received.push(Record { ends, kind, at: now });
            if kind == Kind::Open && !session.is_established() {
                session.establish(now + self.config.keepalive_interval);
                self.stats.established += 1;
                self.say(now, ends, Kind::Keepalive);
            }
        }
    }

    /// A session is over; who connects tries again.
    fn end(&mut self, now: Time, ends: Ends) {
        self.sessions.remove(&ends);
        let Some((address, peer)) = self.peer_mut(ends) else { return };
        if peer.session == Some(ends) {
            peer.session = None;
            let connects = self.config.local < address;
            let retry_at = now + self.config.retry;
            if let Some(peer) = self.peers.get_mut(&address).filter(|_| connects) {
                peer.connect_at = Some(retry_at);
            }
        }
    }

    fn peer_mut(&mut self, (_, remote): Ends) -> Option<(Ipv4Addr, &mut Peer)> {
        let IpAddr::V4(address) = remote.ip() else { return None };
        Some((address, self.peers.get_mut(&address)?))
    }

    /// Begins a session on a connection that is new; false when its peer is none.
    fn begin(&mut self, now: Time, ends: Ends) -> bool {
        let Some((_, peer)) = self.peer_mut(ends) else { return false };
        peer.session = Some(ends);
        self.sessions.insert(ends, Session::default());
        self.say(now, ends, Kind::Open);
        true
    }

    fn is_over(&self, now: Time) -> bool {
        self.config.stop.is_some_and(|stop| now >= stop)
    }
}

impl App for Speaker {
    fn handle_timeout(&mut self, now: Time) {
        let is_over = self.is_over(now);
        let next = (!is_over).then(|| now + self.config.keepalive_interval);
        let mut due = Vec::new();
        for (ends, session) in &mut self.sessions {
            if session.take_keepalive(now, next) {
                due.push(*ends);
            }
        }
        for ends in due {
            self.say(now, ends, Kind::Keepalive);
        }
        if let Some(at) = self.update_at.filter(|at| *at <= now) {
            let sessions: Vec<Option<Ends>> = self.peers.values().map(|it| it.session).collect();
            for ends in sessions {
                let is_up =
                    |ends: &Ends| self.sessions.get(ends).is_some_and(Session::is_established);
                match ends.filter(is_up) {
                    Some(ends) => self.say(now, ends, Kind::Update),
                    None => self.stats.unsent += 1,
                }
            }
            self.plan_update(at + self.config.update_interval.max(Duration::from_nanos(1)));
        }
    }

    fn drive(&mut self, now: Time, connection: &mut Connection) {
        let ends = (connection.local(), connection.remote());
        if !self.sessions.contains_key(&ends)
            && connection.state() != State::Closed
            && !self.begin(now, ends)
        {
            connection.abort();
        }
        let is_current = self.peer_mut(ends).is_some_and(|(_, peer)| peer.session == Some(ends));
        if !is_current && connection.state() != State::Closed {
            // The peer has started a new connection, so this connection is useless.
            connection.abort();
        }
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Unresponsive => self.stats.warnings += 1,
                Event::Reset => self.stats.reset += 1,
                Event::TimedOut(_) => self.stats.timed_out += 1,
                Event::PeerClosed => connection.close(),
                Event::Closed
                | Event::Connected
                | Event::Readable
                | Event::SoftError(_)
                | Event::Writable => {}
            }
        }
        let mut buffer = [0; 2_048];
        while let len @ 1.. = connection.read(&mut buffer) {
            if let Some(session) = self.sessions.get_mut(&ends) {
                session.push(&buffer[..len]);
            }
            if !self.hear(now, ends) {
                self.stats.malformed += 1;
                connection.abort();
                break;
            }
        }
        if let Some(session) = self.sessions.get_mut(&ends) {
            session.write(connection);
        }
        if connection.state() == State::Closed {
            self.end(now, ends);
        }
    }

    fn accept(&mut self) -> Option<tcp::Config> {
        Some(self.config.tcp)
    }

    fn poll_connect(&mut self, now: Time) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        let is_due = |peer: &mut Peer| peer.connect_at.take_if(|at| *at <= now).is_some();
        let mut peers = self.peers.iter_mut();
        let due = peers.find_map(|(address, peer)| is_due(peer).then_some(*address));
        let address = due.filter(|_| !self.is_over(now))?;
        let remote = SocketAddr::from((address, PORT));
        let local = SocketAddr::from((self.config.local, self.next_port));
        self.next_port = PORTS.0 + (self.next_port - PORTS.0 + 1) % PORTS.1;
        self.stats.connects += 1;
        Some((local, remote, self.config.tcp))
    }

    fn next_timeout(&self) -> Option<Time> {
        let connects = self.peers.values().filter_map(|peer| peer.connect_at);
        let keepalives = self.sessions.values().filter_map(Session::keepalive_at);
        let planned = connects.chain(keepalives).chain(self.update_at);
        // Nothing is said from the stop on.
        planned.filter(|at| !self.is_over(*at)).min()
    }

    fn tcp_port(&self) -> Option<u16> {
        Some(PORT)
    }
}
