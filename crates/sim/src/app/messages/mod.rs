//! A messenger: sends messages to random nodes at random times, and counts received messages.
//!
//! ```text
//!  random times ─▶ message ─▶ carrier: UDP, S/R or TCP ─▶ the network ─▶ carrier of another node ─▶ received
//!                                └─▶ what its sender is told of it
//! ```
//!
//! The times and destinations of messages depend on the random number generator alone, so carriers
//! can be compared with the very same messages.

mod exchange;
mod streams;
mod tally;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::ip::udp::Datagram;
use base::rng::Rng;
use base::time::{Time, earliest};
use exchange::Exchange;
use sar::{Precedence, Sar};
use streams::Streams;
use tcp::Connection;

use super::App;
use super::stamp::{self, Stamp};
pub use tally::Stats;
use tally::Tally;

/// Configuration of a messenger.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its address.
    pub local: Ipv4Addr,
    /// Possible destinations, all equally likely.
    pub others: Vec<Ipv4Addr>,
    /// How many destinations each message has.
    pub destinations: usize,
    /// An address that reaches all others at once, for messages to several over UDP or S/R.
    pub group: Option<Ipv4Addr>,
    /// The port that all messengers use.
    pub port: u16,
    /// Octets of each message, headers excluded; at least 16.
    pub payload: usize,
    /// The precedence in the IP headers of all packets.
    pub precedence: Precedence,
    /// After how long S/R gives a message up; for ever when `None`.
    pub lifetime: Option<Duration>,
    /// The mean time from one of its messages to the next, exponentially distributed.
    pub interval: Duration,
    /// When it begins.
    pub start: Time,
    /// From when on it sends no more.
    pub stop: Option<Time>,
    /// What brings them.
    pub carrier: Carrier,
}

/// What brings messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Carrier {
    /// S/R over UDP.
    Sar(Box<sar::Config>),
    /// A TCP connection to each destination.
    Tcp {
        /// Its TCP.
        tcp: Box<tcp::Config>,
        /// For how long a connection is kept that has nothing to send; with zero each message has its own.
        keep: Duration,
    },
    /// UDP alone: nobody is told anything.
    #[default]
    Udp,
}

/// Application that sends messages and receives messages of other nodes.
#[derive(Debug)]
pub struct Messenger {
    config: Config,
    rng: Rng,
    next_at: Option<Time>,
    tally: Tally,
    way: Way,
}

/// The carrier at work.
#[derive(Debug)]
enum Way {
    Exchange(Box<Exchange>),
    Streams(Box<Streams>),
    /// UDP: destinations and datagrams to send.
    Datagrams(Vec<(Ipv4Addr, Vec<u8>)>),
}

/// A message on its way to its carrier.
#[derive(Clone, Copy, Debug)]
struct Submitted<'a> {
    at: Time,
    to: &'a [Ipv4Addr],
    octets: &'a [u8],
}

impl Messenger {
    /// Creates a messenger waiting for its start; `rng` is used by nobody else.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        let way = match &config.carrier {
            Carrier::Sar(of_sar) => {
                // Separate random stream: all carriers must carry the same messages.
                let own = Rng::stream(rng.clone().bits(), "sar");
                Way::Exchange(Box::new(Exchange::new(&config, **of_sar, own)))
            }
            Carrier::Tcp { tcp, keep } => {
                Way::Streams(Box::new(Streams::new(&config, **tcp, *keep)))
            }
            Carrier::Udp => Way::Datagrams(Vec::new()),
        };
        let (next_at, tally, start) = (None, Tally::default(), config.start);
        let mut messenger = Self { config, rng, next_at, tally, way };
        messenger.plan(start);
        messenger
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.tally.stats()
    }

    /// Delay of each received message, in order of arrival.
    #[must_use]
    pub fn delays(&self) -> &[Duration] {
        self.tally.delays()
    }

    /// The S/R node, if S/R carries the messages.
    #[must_use]
    pub fn sar(&self) -> Option<&Sar> {
        match &self.way {
            Way::Exchange(exchange) => Some(exchange.sar()),
            Way::Datagrams(_) | Way::Streams(_) => None,
        }
    }

    fn plan(&mut self, from: Time) {
        let wait = self.rng.exponential(self.config.interval).max(Duration::from_nanos(1));
        let next = from + wait;
        let is_before_stop = self.config.stop.is_none_or(|stop| next < stop);
        self.next_at = Some(next).filter(|_| is_before_stop && !self.config.others.is_empty());
    }

    /// Makes a message and hands it to the carrier.
    fn submit(&mut self, now: Time) {
        let to = self.choose();
        let mut octets = stamp::payload(self.config.payload);
        Stamp { number: self.tally.stats().sent, sent: now }.write(&mut octets);
        self.tally.submit(to.len());
        let message = Submitted { at: now, to: &to, octets: &octets };
        match &mut self.way {
            Way::Datagrams(waiting) => {
                let group = self.config.group.filter(|_| to.len() > 1);
                let to = group.map_or(to, |group| vec![group]);
                waiting.extend(to.into_iter().rev().map(|to| (to, octets.clone())));
            }
            Way::Exchange(exchange) => exchange.submit(&self.config, message, &mut self.tally),
            Way::Streams(streams) => streams.submit(message),
        }
    }

    /// Chooses the destinations of a message at random.
    fn choose(&mut self) -> Vec<Ipv4Addr> {
        let mut left = self.config.others.clone();
        let count = self.config.destinations.min(left.len());
        let mut chosen = Vec::with_capacity(count);
        for _ in 0..count {
            let place = self.rng.below(left.len() as u64);
            chosen.push(left.swap_remove(usize::try_from(place).unwrap_or_default()));
        }
        chosen
    }

    fn class(&self) -> u8 {
        class(self.config.precedence)
    }
}

/// The traffic class that says a precedence: its class selector.
fn class(precedence: Precedence) -> u8 {
    precedence.level() << 5
}

impl App for Messenger {
    fn handle_datagram(&mut self, now: Time, datagram: &Datagram<'_>) {
        match &mut self.way {
            Way::Datagrams(_) => {
                self.tally.receive(now, datagram.source.ip(), datagram.payload);
            }
            Way::Exchange(exchange) => {
                exchange.handle_datagram(now, &self.config, datagram, &mut self.tally);
            }
            Way::Streams(_) => {}
        }
    }

    fn handle_error(&mut self) {
        self.tally.count_error();
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(due) = self.next_at.filter(|due| *due <= now) {
            self.plan(due);
            self.submit(now);
        }
        match &mut self.way {
            Way::Datagrams(_) => {}
            Way::Exchange(exchange) => exchange.handle_timeout(now, &mut self.tally),
            Way::Streams(streams) => streams.handle_timeout(now),
        }
    }

    fn drive(&mut self, now: Time, connection: &mut Connection) {
        if let Way::Streams(streams) = &mut self.way {
            streams.drive(now, connection, &mut self.tally);
        }
    }

    fn accept(&mut self) -> Option<tcp::Config> {
        match &self.way {
            Way::Streams(streams) => Some(streams.tcp()),
            Way::Datagrams(_) | Way::Exchange(_) => None,
        }
    }

    fn poll_connect(&mut self, now: Time) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        match &mut self.way {
            Way::Streams(streams) => streams.poll_connect(now),
            Way::Datagrams(_) | Way::Exchange(_) => None,
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let class = self.class();
        match &mut self.way {
            Way::Datagrams(waiting) => {
                let Some((to, octets)) = waiting.pop() else { return false };
                let source = SocketAddr::new(IpAddr::V4(self.config.local), self.config.port);
                let destination = SocketAddr::new(IpAddr::V4(to), self.config.port);
                let datagram = Datagram { source, destination, payload: &octets };
                datagram.emit_in_class(class, out);
                true
            }
            Way::Exchange(exchange) => {
                let is_sent = exchange.poll_transmit(now, self.config.local, out);
                exchange.settle(now, &mut self.tally);
                is_sent
            }
            Way::Streams(_) => false,
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let own = match &self.way {
            Way::Datagrams(_) => None,
            Way::Exchange(exchange) => exchange.sar().next_timeout(),
            Way::Streams(streams) => streams.next_timeout(),
        };
        earliest(self.next_at, own)
    }

    fn udp_port(&self) -> Option<u16> {
        match &self.way {
            Way::Datagrams(_) => Some(self.config.port),
            Way::Exchange(_) => Some(sar::PORT),
            Way::Streams(_) => None,
        }
    }

    fn tcp_port(&self) -> Option<u16> {
        matches!(self.way, Way::Streams(_)).then_some(self.config.port)
    }
}
