//! An HF-PEP at a station: terminates the TCP connections of hosts, under the other end's addresses.
//!
//! ```text
//!  host ══ TCP ══ Connection ⇄ HfPep ⇄ node ~~ HF ~~ node ⇄ HfPep ⇄ Connection ══ TCP ══ host
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use base::ip::{Header, protocol};
use base::rng::Rng;
use base::tcp::{Flags, Segment};
use base::time::{Time, earliest};
use hf::hfpep::{self, HfPep, Opening, SessionId, Target};
use hf::ipclient::Route;
use hf::slep::{Options, Reason};
use tcp::{Connection, Event, State, TimedOut};

use super::client::Client;

/// Connections of a station at most; what is asked for beyond is reset and counted.
const LIMIT: usize = 4_096;
/// Octets that are carried between a connection and its stream in one go.
const CHUNK: usize = 64 << 10;

/// Our end and the host's.
type Ends = (SocketAddr, SocketAddr);

/// An HF-PEP and its TCP connections.
#[derive(Debug)]
pub(crate) struct Pep {
    pep: HfPep,
    routes: Vec<Route>,
    options: Options,
    tcp: tcp::Config,
    rng: Rng,
    connections: BTreeMap<Ends, Carried>,
    of_session: BTreeMap<SessionId, Ends>,
    /// Connections that may have packets to send.
    touched: BTreeSet<Ends>,
    /// Answers to segments of no connection.
    resets: VecDeque<Segment<'static>>,
    is_close_due: bool,
    /// On their way from a stream to its connection.
    buffer: Vec<u8>,
    stats: Stats,
}

/// A connection that is carried.
#[derive(Debug)]
struct Carried {
    tcp: Connection,
    session: SessionId,
    is_established: bool,
    has_heard_end: bool,
    /// Octets from the host that the stream has not taken.
    untaken: Vec<u8>,
}

base::counters! {
    /// What a station's HF-PEP did with TCP.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Connections of hosts taken.
        pub accepted: counter(connections);
        /// Connections of hosts reset at once: no route, or no room.
        pub refused: counter(connections);
        /// Connections to targets that were begun.
        pub begun: counter(connections);
        /// Failed connections to targets, and connections not completed by hosts.
        pub failed: counter(connections);
        /// Segments of no connection, answered by a reset.
        pub unwanted: counter(segments);
        /// Segments that cannot be read.
        pub malformed: counter(segments);
    }
}

impl Pep {
    pub(crate) fn new(
        pep: HfPep,
        routes: Vec<Route>,
        options: Options,
        tcp: tcp::Config,
        rng: Rng,
    ) -> Self {
        Self {
            pep,
            routes,
            options,
            tcp,
            rng,
            connections: BTreeMap::new(),
            of_session: BTreeMap::new(),
            touched: BTreeSet::new(),
            resets: VecDeque::new(),
            is_close_due: false,
            buffer: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// The core.
    pub(crate) fn core(&self) -> &HfPep {
        &self.pep
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    /// Takes a TCP packet; returns false for any other packet.
    pub(crate) fn handle_packet(&mut self, now: Time, packet: &[u8]) -> bool {
        let Ok(header) = Header::parse(packet) else { return false };
        let transport = header.transport;
        if transport.protocol != protocol::TCP || header.fragment.is_some() {
            return false;
        }
        match Segment::parse(&header, packet, transport.offset) {
            Ok(segment) => self.handle_segment(now, &segment),
            Err(_) => self.stats.malformed += 1,
        }
        self.settle(now);
        true
    }

    fn handle_segment(&mut self, now: Time, segment: &Segment<'_>) {
        let ends = (segment.destination, segment.source);
        if let Some(carried) = self.connections.get_mut(&ends) {
            carried.tcp.handle_segment(now, segment);
            self.carry(now, ends);
            return;
        }
        let is_first = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK | Flags::RST);
        if is_first && self.accept(now, segment).is_some() {
            return;
        }
        if is_first {
            self.stats.refused += 1;
        } else {
            self.stats.unwanted += 1;
        }
        self.resets.extend(segment.reset_for());
    }

    /// Takes a host's connection, and opens a session for it.
    fn accept(&mut self, now: Time, syn: &Segment<'_>) -> Option<()> {
        let peer = Route::find(&self.routes, syn.destination.ip())?.to;
        if self.connections.len() >= LIMIT {
            return None;
        }
        let target = Target::Address { source: syn.source, destination: syn.destination };
        let opening = Opening { target, tls: None };
        let session = self.pep.open(now, peer, opening, self.options).ok()?;
        let (local, remote) = (syn.destination, syn.source);
        let tcp = Connection::accept(now, self.tcp, local, remote, syn, &mut self.rng);
        self.stats.accepted += 1;
        self.add(session, tcp);
        Some(())
    }

    /// Makes the connection that the other end asks for.
    fn connect(&mut self, now: Time, session: SessionId, opening: &Opening) {
        let (Target::Address { source, destination }, None) = (&opening.target, &opening.tls)
        else {
            self.stats.failed += 1;
            self.pep.reset(session, Reason::NO_SERVICE);
            return;
        };
        let ends = (*source, *destination);
        if self.connections.len() >= LIMIT || self.connections.contains_key(&ends) {
            self.stats.failed += 1;
            self.pep.reset(session, Reason::NO_ROOM);
            return;
        }
        self.stats.begun += 1;
        let tcp = Connection::connect(now, self.tcp, ends.0, ends.1, &mut self.rng);
        self.add(session, tcp);
    }

    fn add(&mut self, session: SessionId, tcp: Connection) {
        let ends = (tcp.local(), tcp.remote());
        let carried = Carried {
            tcp,
            session,
            is_established: false,
            has_heard_end: false,
            untaken: Vec::new(),
        };
        self.connections.insert(ends, carried);
        self.of_session.insert(session, ends);
        self.touched.insert(ends);
    }

    /// Carries octets, ends and resets between a connection and its stream.
    fn carry(&mut self, now: Time, ends: Ends) {
        let Some(carried) = self.connections.get_mut(&ends) else { return };
        self.touched.insert(ends);
        let Carried { tcp, session, is_established, has_heard_end, untaken } = carried;
        while let Some(event) = tcp.poll_event() {
            let reason = match event {
                Event::Connected => {
                    *is_established = true;
                    self.pep.accept(*session);
                    continue;
                }
                Event::PeerClosed => {
                    *has_heard_end = true;
                    continue;
                }
                Event::Closed
                | Event::Readable
                | Event::SoftError(_)
                | Event::Unresponsive
                | Event::Writable => continue,
                Event::Reset if !*is_established => Reason::TARGET_REFUSED,
                Event::TimedOut(TimedOut::Connecting) => Reason::TARGET_TIMED_OUT,
                Event::Reset | Event::TimedOut(TimedOut::Data | TimedOut::KeepAlive) => {
                    Reason::CONNECTION_RESET
                }
            };
            self.stats.failed += u64::from(!*is_established);
            self.pep.reset(*session, reason);
            return;
        }
        loop {
            // Offered whole, so that the stream tells when it takes more.
            if untaken.is_empty() {
                untaken.resize(tcp.readable().min(CHUNK), 0);
                tcp.read(untaken);
            }
            let taken = self.pep.write(now, *session, untaken);
            untaken.drain(..taken);
            if *has_heard_end && untaken.is_empty() && tcp.readable() == 0 {
                self.pep.finish(now, *session);
            }

            self.buffer.clear();
            let most = tcp.writable().min(CHUNK);
            let read = self.pep.read(now, *session, &mut self.buffer, most);
            tcp.write(&self.buffer);
            if read.is_end {
                tcp.close();
            }
            if taken == 0 && read.octets == 0 {
                return;
            }
        }
    }

    /// Takes what the core has to tell.
    fn settle(&mut self, now: Time) {
        while let Some(event) = self.pep.poll_event() {
            match event {
                // Nothing here opens a connection that is confirmed first, nor a flow of UDP, and none is admitted.
                hfpep::Event::Accepted(_)
                | hfpep::Event::Bound
                | hfpep::Event::Finished(_)
                | hfpep::Event::FlowEnded(_)
                | hfpep::Event::OtherVersion { .. }
                | hfpep::Event::Refused(_)
                | hfpep::Event::Sealing { .. }
                | hfpep::Event::Unbound(_) => {}
                hfpep::Event::Close(_) => self.is_close_due = true,
                hfpep::Event::Connect { session, opening, .. } => {
                    self.connect(now, session, &opening);
                }
                hfpep::Event::Readable(session) | hfpep::Event::Writable(session) => {
                    if let Some(&ends) = self.of_session.get(&session) {
                        self.carry(now, ends);
                    }
                }
                hfpep::Event::Reset(session, _) => {
                    let ends = self.of_session.get(&session).copied();
                    let carried = ends.and_then(|ends| self.connections.get_mut(&ends));
                    if let Some(carried) = carried {
                        carried.tcp.abort();
                    }
                    self.touched.extend(ends);
                }
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let is_due = |carried: &Carried| carried.tcp.next_timeout().is_some_and(|at| at <= now);
        let all = self.connections.iter();
        let due: Vec<Ends> = all.filter(|(_, it)| is_due(it)).map(|(ends, _)| *ends).collect();
        for ends in due {
            if let Some(carried) = self.connections.get_mut(&ends) {
                carried.tcp.handle_timeout(now);
            }
            self.carry(now, ends);
        }
        self.pep.handle_timeout(now);
        self.settle(now);
    }

    /// Appends the next packet for a host to `out`. Returns whether there was a packet.
    pub(crate) fn poll_packet(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        if let Some(reset) = self.resets.pop_front() {
            reset.emit(out);
            return true;
        }
        while let Some(&ends) = self.touched.first() {
            if let Some(carried) = self.connections.get_mut(&ends) {
                if carried.tcp.poll_transmit(now, out) {
                    return true;
                }
                if carried.tcp.state() == State::Closed {
                    self.of_session.remove(&carried.session);
                    self.connections.remove(&ends);
                }
            }
            self.touched.pop_first();
        }
        false
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let tcp = self.connections.values().filter_map(|it| it.tcp.next_timeout()).min();
        earliest(tcp, self.pep.next_timeout())
    }
}

impl Client for Pep {
    fn handle_connected(&mut self, now: Time) {
        self.pep.handle_connected(now);
        self.settle(now);
    }

    fn handle_disconnected(&mut self, now: Time) {
        self.pep.handle_disconnected(now);
        self.settle(now);
    }

    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.pep.handle_octets(now, octets);
        self.settle(now);
    }

    fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let has_some = self.pep.poll_octets(now, out);
        self.settle(now);
        has_some
    }

    fn take_close(&mut self) -> bool {
        std::mem::take(&mut self.is_close_due)
    }
}
