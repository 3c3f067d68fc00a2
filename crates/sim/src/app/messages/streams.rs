//! Messages over TCP: one connection per message, or one shared by all messages to a destination.
//!
//! ```text
//!  message ─▶ connect ─▶ established ─▶ written ─▶ acknowledged: its sender knows that it arrived
//!                                          └─ closed with it, or kept until nothing came for a while
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::time::Time;
use tcp::{Connection, Event, State};

use super::tally::Tally;
use super::{Config, Submitted};

/// Our end of a connection, and the peer's.
type Ends = (SocketAddr, SocketAddr);

/// The connections of a messenger.
#[derive(Debug)]
pub struct Streams {
    tcp: tcp::Config,
    keep: Duration,
    /// Where it listens, and connects to.
    port: u16,
    local: Ipv4Addr,
    /// Octets of each message.
    length: usize,
    next_port: u16,
    /// Connections that are to be opened.
    wanted: VecDeque<(Ends, Time)>,
    outgoing: BTreeMap<Ends, Outgoing>,
    /// The one to each destination that takes more messages.
    kept: BTreeMap<Ipv4Addr, Ends>,
    /// Parts of unfinished messages, received on connections from other nodes.
    incoming: BTreeMap<Ends, Vec<u8>>,
}

/// A connection that messages are sent on.
#[derive(Debug, Default)]
struct Outgoing {
    asked: Time,
    is_established: bool,
    /// Octets not yet accepted by TCP.
    outbox: VecDeque<u8>,
    /// Unacknowledged messages: end in the stream, and time of creation.
    messages: VecDeque<(u64, Time)>,
    /// End of the last message in the stream.
    end: u64,
    /// When it is closed because there is nothing to send.
    idle_until: Option<Time>,
    /// Whether it takes no more messages.
    is_last: bool,
}

/// The first port that it connects from, and how many it uses in turns.
const PORTS: (u16, u16) = (20_000, 40_000);

impl Streams {
    pub fn new(config: &Config, tcp: tcp::Config, keep: Duration) -> Self {
        let ip = tcp::IpFields { dscp: config.precedence.level() << 3, ..tcp.ip };
        Self {
            tcp: tcp::Config { ip, ..tcp },
            keep,
            port: config.port,
            local: config.local,
            length: config.payload,
            next_port: PORTS.0,
            wanted: VecDeque::new(),
            outgoing: BTreeMap::new(),
            kept: BTreeMap::new(),
            incoming: BTreeMap::new(),
        }
    }

    pub fn tcp(&self) -> tcp::Config {
        self.tcp
    }

    pub fn submit(&mut self, message: Submitted<'_>) {
        for to in message.to {
            let ends = self.connection_to(*to, message.at);
            let Some(outgoing) = self.outgoing.get_mut(&ends) else { continue };
            outgoing.outbox.extend(message.octets);
            outgoing.end += message.octets.len() as u64;
            outgoing.messages.push_back((outgoing.end, message.at));
            outgoing.idle_until = None;
        }
    }

    /// The connection that a message goes on.
    fn connection_to(&mut self, to: Ipv4Addr, now: Time) -> Ends {
        if let Some(ends) = self.kept.get(&to) {
            return *ends;
        }
        let ends = ((self.local, self.next_port).into(), (to, self.port).into());
        self.next_port = PORTS.0 + (self.next_port - PORTS.0 + 1) % PORTS.1;
        let is_last = self.keep.is_zero();
        self.outgoing.insert(ends, Outgoing { asked: now, is_last, ..Outgoing::default() });
        if !is_last {
            self.kept.insert(to, ends);
        }
        self.wanted.push_back((ends, now));
        ends
    }

    pub fn poll_connect(&mut self, now: Time) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        let ((local, remote), at) = self.wanted.pop_front()?;
        debug_assert!(at <= now, "it is asked for at once");
        Some((local, remote, self.tcp))
    }

    /// Closes what was idle for long enough; the node drives all connections behind this.
    pub fn handle_timeout(&mut self, now: Time) {
        for (ends, outgoing) in &mut self.outgoing {
            if outgoing.idle_until.take_if(|until| *until <= now).is_some() {
                outgoing.is_last = true;
                self.kept.retain(|_, kept| kept != ends);
            }
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.outgoing.values().filter_map(|outgoing| outgoing.idle_until).min()
    }

    pub fn drive(&mut self, now: Time, connection: &mut Connection, tally: &mut Tally) {
        let ends = (connection.local(), connection.remote());
        if self.outgoing.contains_key(&ends) {
            self.drive_outgoing(now, ends, connection, tally);
        } else {
            self.drive_incoming(now, ends, connection, tally);
        }
    }

    fn drive_outgoing(
        &mut self,
        now: Time,
        ends: Ends,
        connection: &mut Connection,
        tally: &mut Tally,
    ) {
        let Some(outgoing) = self.outgoing.get_mut(&ends) else { return };
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => {
                    outgoing.is_established = true;
                    tally.set_up(now, outgoing.asked);
                }
                Event::PeerClosed => connection.close(),
                Event::Closed
                | Event::Readable
                | Event::Reset
                | Event::SoftError(_)
                | Event::TimedOut(_)
                | Event::Unresponsive
                | Event::Writable => {}
            }
        }
        let acked = connection.stats().feedback.octets_acked;
        while let Some((_, made)) = outgoing.messages.pop_front_if(|(end, _)| *end <= acked) {
            tally.tell(now, made);
        }
        if connection.state() == State::Closed {
            tally.fail(outgoing.messages.len());
            self.outgoing.remove(&ends);
            self.kept.retain(|_, kept| *kept != ends);
            return;
        }
        if !outgoing.is_established {
            return;
        }
        let taken = connection.write(outgoing.outbox.make_contiguous());
        outgoing.outbox.drain(..taken);
        if !outgoing.outbox.is_empty() {
            return;
        }
        if outgoing.is_last {
            connection.close();
        } else if outgoing.messages.is_empty() && outgoing.idle_until.is_none() {
            outgoing.idle_until = Some(now + self.keep);
        }
    }

    fn drive_incoming(
        &mut self,
        now: Time,
        ends: Ends,
        connection: &mut Connection,
        tally: &mut Tally,
    ) {
        while connection.poll_event().is_some() {}
        let length = self.length;
        let part = self.incoming.entry(ends).or_default();
        let mut buffer = [0; 2_048];
        while let read @ 1.. = connection.read(&mut buffer) {
            part.extend_from_slice(&buffer[..read]);
            while part.len() >= length {
                tally.receive(now, ends.1.ip(), &part[..length]);
                part.drain(..length);
            }
        }
        if connection.state() == State::CloseWait {
            connection.close();
        }
        if connection.state() == State::Closed {
            self.incoming.remove(&ends);
        }
    }
}
