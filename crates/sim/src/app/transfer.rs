//! Octets over TCP, from a sender to a sink.

use std::net::{IpAddr, SocketAddr};

use base::time::Time;
use tcp::{Connection, Event, State};

use super::App;
use crate::series::Series;

/// Configuration of a transfer's sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// The port it sends from.
    pub port: u16,
    /// Where the octets go.
    pub destination: SocketAddr,
    /// How many; `None` is without end.
    pub octets: Option<u64>,
    /// When it closes.
    pub close: Close,
    /// When it connects.
    pub start: Time,
    /// When it stops, with what is left unsent, and closes.
    pub stop: Option<Time>,
    /// Its TCP.
    pub tcp: tcp::Config,
    /// Points of the congestion window to keep; 0 keeps none.
    pub window_points: usize,
}

/// When a sender closes its side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Close {
    /// With the last octet.
    AfterLast,
    /// When the peer has answered that.
    Answered,
    /// Only when it is stopped.
    Never,
}

impl SenderConfig {
    /// So many octets to `destination`, from the beginning of time, and then a close.
    #[must_use]
    pub fn new(destination: SocketAddr, octets: u64) -> Self {
        Self {
            port: 40_000,
            destination,
            octets: Some(octets),
            close: Close::AfterLast,
            start: Time::ZERO,
            stop: None,
            tcp: tcp::Config::default(),
            window_points: 0,
        }
    }
}

/// Connects, sends, closes.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    local: Option<IpAddr>,
    /// When it will act without being asked.
    next_at: Option<Time>,
    written: u64,
    is_stopped: bool,
    stats: SenderStats,
    windows: Series,
}

/// Statistics of a transfer's sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderStats {
    /// When it connected, whether or not that was answered.
    pub started: Option<Time>,
    /// When the connection was established.
    pub established: Option<Time>,
    /// When its TCP had taken the last octet.
    pub written: Option<Time>,
    /// When the peer had acknowledged the last octet.
    pub acked: Option<Time>,
    /// When the peer's answer began to arrive.
    pub answered: Option<Time>,
    /// When the peer had closed its side.
    pub peer_closed: Option<Time>,
    /// When the connection ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub end: Option<Event>,
    /// How often its TCP warned that the peer does not answer (R1).
    pub warnings: u64,
    /// Octets sent back by the peer.
    pub received: u64,
    /// TCP statistics, up to now or to the end of the connection.
    pub tcp: tcp::Stats,
}

impl Sender {
    /// Creates a sender waiting for its start time.
    #[must_use]
    pub fn new(config: SenderConfig) -> Self {
        Self {
            config,
            local: None,
            next_at: Some(config.start),
            written: 0,
            is_stopped: false,
            stats: SenderStats::default(),
            windows: Series::new(config.window_points),
        }
    }

    /// Statistics so far; TCP statistics only once the connection has ended.
    #[must_use]
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// The congestion window over time, in octets.
    #[must_use]
    pub fn windows(&self) -> &[(Time, u64)] {
        self.windows.points()
    }

    fn write(&mut self, now: Time, connection: &mut Connection) {
        let end =
            if self.is_stopped { self.written } else { self.config.octets.unwrap_or(u64::MAX) };
        while self.written < end {
            let octets = pattern(self.written);
            let left = usize::try_from(end - self.written).unwrap_or(usize::MAX);
            let len = connection.write(&octets[..octets.len().min(left)]);
            self.written += len as u64;
            if len == 0 {
                return;
            }
        }
        if self.stats.written.is_none() {
            self.stats.written = Some(now);
            if self.config.close == Close::AfterLast || self.is_stopped {
                connection.close();
            }
        }
    }
}

impl App for Sender {
    fn poll_connect(&mut self, now: Time) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        let is_due = self.stats.started.is_none() && self.next_at.is_some_and(|at| at <= now);
        if !is_due {
            return None;
        }
        self.next_at = None;
        let local = SocketAddr::new(self.local?, self.config.port);
        self.stats.started = Some(now);
        self.next_at = self.config.stop;
        Some((local, self.config.destination, self.config.tcp))
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.stats.started.is_some() && self.next_at.is_some_and(|at| at <= now) {
            self.is_stopped = true;
            self.next_at = None;
        }
    }

    fn drive(&mut self, now: Time, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => self.stats.established = Some(now),
                Event::Closed | Event::Reset | Event::TimedOut(_) => self.stats.end = Some(event),
                Event::PeerClosed => self.stats.peer_closed = Some(now),
                Event::Unresponsive => self.stats.warnings += 1,
                Event::Readable | Event::SoftError(_) | Event::Writable => {}
            }
        }
        self.windows.add(now, connection.cwnd());

        let mut buffer = [0; 2_048];
        while let len @ 1.. = connection.read(&mut buffer) {
            self.stats.received += len as u64;
            self.stats.answered = self.stats.answered.or(Some(now));
            if self.config.close == Close::Answered {
                connection.close();
            }
        }
        if self.stats.established.is_some() {
            self.write(now, connection);
        }
        let is_acked = connection.stats().feedback.octets_acked >= self.written;
        if self.stats.written.is_some() && is_acked && self.stats.acked.is_none() {
            self.stats.acked = Some(now);
        }
        if connection.state() == State::Closed && self.stats.ended.is_none() {
            self.stats.ended = Some(now);
            self.stats.tcp = *connection.stats();
            self.next_at = None;
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next_at
    }

    fn bind(&mut self, local: IpAddr) {
        self.local = Some(local);
    }

    fn unbound_to(&self) -> Option<IpAddr> {
        self.local.is_none().then_some(self.config.destination.ip())
    }
}

/// Configuration of a sink: ports, TCP, and treatment of received data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SinkConfig {
    /// The port it listens on.
    pub port: u16,
    /// The only port whose connections it takes, where several sinks of a node share theirs.
    pub from_port: Option<u16>,
    /// Its TCP.
    pub tcp: tcp::Config,
    /// Whether it sends everything back.
    pub echo: bool,
    /// Number of received octets after which the sink answers with a short confirmation.
    pub confirm: Option<u64>,
}

/// The answer of a sink after receiving everything.
const CONFIRMATION: &[u8] = b"complete";

impl SinkConfig {
    /// A sink that sends nothing back.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { port, from_port: None, tcp: tcp::Config::default(), echo: false, confirm: None }
    }
}

/// Listens, and receives all there is.
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    stats: SinkStats,
}

/// Statistics of a sink over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SinkStats {
    /// Connections that began to open.
    pub accepted: u64,
    /// Octets received, in order, once each.
    pub octets: u64,
    /// Received octets that differ from the pattern of our senders.
    pub corrupt: u64,
    /// When the first connection was established.
    pub established: Option<Time>,
    /// When the first octet was received.
    pub first: Option<Time>,
    /// When the last octet so far was received.
    pub last: Option<Time>,
    /// When a sender closed.
    pub closed: Option<Time>,
    /// TCP statistics of the connection that ended last.
    pub tcp: tcp::Stats,
}

impl Sink {
    /// A sink without connections.
    #[must_use]
    pub fn new(config: SinkConfig) -> Self {
        Self { config, stats: SinkStats::default() }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> &SinkStats {
        &self.stats
    }

    fn take(&mut self, now: Time, mut place: u64, mut octets: &[u8]) {
        self.stats.octets += octets.len() as u64;
        self.stats.first = self.stats.first.or(Some(now));
        self.stats.last = Some(now);
        while !octets.is_empty() {
            let expected = pattern(place);
            let (head, tail) = octets.split_at(octets.len().min(expected.len()));
            if head != &expected[..head.len()] {
                let differ = head.iter().zip(expected).filter(|(got, sent)| got != sent);
                self.stats.corrupt += differ.count() as u64;
            }
            place += head.len() as u64;
            octets = tail;
        }
    }
}

impl App for Sink {
    fn tcp_port(&self) -> Option<u16> {
        Some(self.config.port)
    }

    fn source_port(&self) -> Option<u16> {
        self.config.from_port
    }

    fn accept(&mut self) -> Option<tcp::Config> {
        self.stats.accepted += 1;
        Some(self.config.tcp)
    }

    fn drive(&mut self, now: Time, connection: &mut Connection) {
        let mut has_peer_closed = false;
        while let Some(event) = connection.poll_event() {
            has_peer_closed |= event == Event::PeerClosed;
            if event == Event::Connected {
                self.stats.established = self.stats.established.or(Some(now));
            }
        }

        let mut buffer = [0; 4_096];
        loop {
            let room = if self.config.echo {
                buffer.len().min(connection.writable())
            } else {
                buffer.len()
            };
            let place = connection.stats().received.octets - connection.readable() as u64;
            let len = connection.read(&mut buffer[..room]);
            if len == 0 {
                break;
            }
            if self.config.echo {
                connection.write(&buffer[..len]);
            }
            self.take(now, place, &buffer[..len]);
            let until = place + len as u64;
            if self.config.confirm.is_some_and(|all| place < all && all <= until) {
                connection.write(CONFIRMATION);
            }
        }
        if has_peer_closed {
            self.stats.closed = Some(now);
        }
        if connection.state() == State::CloseWait && connection.readable() == 0 {
            connection.close();
        }
        if connection.state() == State::Closed {
            self.stats.tcp = *connection.stats();
        }
    }
}

/// What a sender sends from `place` on, for a while.
fn pattern(place: u64) -> &'static [u8] {
    &PATTERN[usize::try_from(place % PATTERN.len() as u64).expect("below the pattern's length")..]
}

static PATTERN: [u8; 65_521] = {
    let mut pattern = [0; 65_521];
    let mut state = 1_u32;
    let mut index = 0;
    while index < pattern.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        pattern[index] = state.to_be_bytes()[0];
        index += 1;
    }
    pattern
};
