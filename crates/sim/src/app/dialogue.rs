//! A conversation of two hosts over TCP: client and server send fixed messages in turns.
//!
//! ```text
//!  Client ── turn 0: a request ──▶ Server
//!         ◀── turn 1: an answer ──        each begins when the turn before has come as a whole
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base::time::Time;
use tcp::{Connection, Event, State};

use super::App;

/// Who speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The host that connects.
    Client,
    /// The host that listens.
    Server,
}

/// A turn: octets that one side sends without waiting for the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Who says it.
    pub speaker: Side,
    /// The octets sent in this turn, at least one.
    pub octets: Arc<[u8]>,
}

/// Configuration of a conversation, the same on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the server listens.
    pub server: SocketAddr,
    /// The port that the client connects from.
    pub port: u16,
    /// When the client connects.
    pub start: Time,
    /// What is said. The client closes after the last turn, and then the server.
    pub turns: Arc<[Turn]>,
    /// The TCP of both.
    pub tcp: tcp::Config,
}

/// One side of a conversation.
#[derive(Debug)]
pub struct Speaker {
    side: Side,
    config: Config,
    local: Option<IpAddr>,
    /// The current turn, and its octets sent or received so far.
    turn: usize,
    octets: usize,
    is_started: bool,
    stats: Stats,
}

/// Statistics of a conversation at one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Connections: of a server, how many it was asked for.
    pub connections: u64,
    /// When its connection was established.
    pub established: Option<Time>,
    /// When octets arrived, and how many there were then.
    pub heard: Vec<(Time, u64)>,
    /// Received octets that differ from the configured turn, or follow after the last turn.
    pub corrupt: u64,
    /// When the last turn was over.
    pub finished: Option<Time>,
    /// When the connection ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub end: Option<Event>,
    /// TCP statistics up to the end.
    pub tcp: tcp::Stats,
}

impl Speaker {
    /// Creates the given side of a conversation, not started yet.
    #[must_use]
    pub fn new(side: Side, config: Config) -> Self {
        Self {
            side,
            config,
            local: None,
            turn: 0,
            octets: 0,
            is_started: false,
            stats: Stats::default(),
        }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Sends or receives octets of the current turn. Returns whether more may be possible now.
    fn go_on(&mut self, now: Time, connection: &mut Connection) -> bool {
        let mut buffer = [0; 4_096];
        let Some(turn) = self.config.turns.get(self.turn) else {
            let unwanted = connection.read(&mut buffer);
            self.stats.corrupt += unwanted as u64;
            return unwanted > 0;
        };
        let rest = &turn.octets[self.octets..];
        let done = if turn.speaker == self.side {
            connection.write(rest)
        } else {
            let most = rest.len().min(buffer.len());
            let len = connection.read(&mut buffer[..most]);
            let differ = buffer[..len].iter().zip(rest).filter(|(got, said)| got != said);
            self.stats.corrupt += differ.count() as u64;
            if len > 0 {
                let before = self.stats.heard.last().map_or(0, |(_, octets)| *octets);
                self.stats.heard.push((now, before + len as u64));
            }
            len
        };
        self.octets += done;
        if self.octets == turn.octets.len() {
            (self.turn, self.octets) = (self.turn + 1, 0);
            if self.turn == self.config.turns.len() {
                self.stats.finished = Some(now);
                if self.side == Side::Client {
                    connection.close();
                }
            }
        }
        done > 0
    }
}

impl App for Speaker {
    fn drive(&mut self, now: Time, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => self.stats.established = Some(now),
                Event::Closed | Event::Reset | Event::TimedOut(_) => self.stats.end = Some(event),
                Event::PeerClosed
                | Event::Readable
                | Event::SoftError(_)
                | Event::Unresponsive
                | Event::Writable => {}
            }
        }
        if self.stats.established.is_some() {
            while self.go_on(now, connection) {}
        }
        if connection.state() == State::CloseWait && connection.readable() == 0 {
            connection.close();
        }
        if connection.state() == State::Closed && self.stats.ended.is_none() {
            self.stats.ended = Some(now);
            self.stats.tcp = *connection.stats();
        }
    }

    fn bind(&mut self, local: IpAddr) {
        self.local = Some(local);
    }

    fn accept(&mut self) -> Option<tcp::Config> {
        self.stats.connections += 1;
        Some(self.config.tcp)
    }

    fn poll_connect(&mut self, now: Time) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        if self.side == Side::Server || self.is_started || self.config.start > now {
            return None;
        }
        let local = SocketAddr::new(self.local?, self.config.port);
        self.is_started = true;
        self.stats.connections = 1;
        Some((local, self.config.server, self.config.tcp))
    }

    fn next_timeout(&self) -> Option<Time> {
        let waits = self.side == Side::Client && !self.is_started;
        waits.then_some(self.config.start)
    }

    fn unbound_to(&self) -> Option<IpAddr> {
        let is_unbound = self.side == Side::Client && self.local.is_none();
        is_unbound.then_some(self.config.server.ip())
    }

    fn tcp_port(&self) -> Option<u16> {
        (self.side == Side::Server).then_some(self.config.server.port())
    }
}
