//! A node that sends a datagram to one or another of many now and then, and counts what comes to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use proto::ip::udp::Datagram;
use proto::rng::Rng;
use proto::time::Time;

use super::App;
use super::stamp::{self, Stamp};
use crate::summary::Summary;

/// What a messenger does.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its address.
    pub local: Ipv4Addr,
    /// Those that it sends to, each as likely as any other.
    pub others: Vec<Ipv4Addr>,
    /// The port of all of them.
    pub port: u16,
    /// Octets of each message, UDP header excluded; at least 16.
    pub payload: usize,
    /// The mean time from one of its messages to the next, exponentially distributed.
    pub interval: Duration,
    /// When it begins.
    pub start: Time,
    /// From when on it sends no more.
    pub stop: Option<Time>,
}

/// Sends messages and takes those of others.
#[derive(Debug)]
pub struct Messenger {
    config: Config,
    rng: Rng,
    payload: Vec<u8>,
    next_at: Option<Time>,
    stats: Stats,
}

/// What a messenger did and got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Messages sent.
    pub sent: u64,
    /// ICMP errors about them: there was no way.
    pub errors: u64,
    /// Messages received of others.
    pub received: u64,
    /// How long these were under way.
    pub delay: Summary,
    /// Received and too short to tell when they were sent.
    pub malformed: u64,
}

impl Messenger {
    /// A messenger that waits for its start; `rng` is for it alone.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        let payload = stamp::payload(config.payload);
        let start = config.start;
        let mut messenger = Self { config, rng, payload, next_at: None, stats: Stats::default() };
        messenger.plan(start);
        messenger
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn plan(&mut self, from: Time) {
        let wait = self.rng.exponential(self.config.interval).max(Duration::from_nanos(1));
        let next = from + wait;
        let is_before_stop = self.config.stop.is_none_or(|stop| next < stop);
        self.next_at = Some(next).filter(|_| is_before_stop && !self.config.others.is_empty());
    }
}

impl App for Messenger {
    fn handle_datagram(&mut self, now: Time, datagram: &Datagram<'_>) {
        match Stamp::parse(datagram.payload) {
            Some(stamp) => {
                self.stats.received += 1;
                self.stats.delay.add(now.since(stamp.sent));
            }
            None => self.stats.malformed += 1,
        }
    }

    fn handle_error(&mut self) {
        self.stats.errors += 1;
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(due) = self.next_at.filter(|due| *due <= now) else { return false };
        self.plan(due);
        let place = self.rng.below(self.config.others.len().max(1) as u64);
        let to = usize::try_from(place).ok().and_then(|place| self.config.others.get(place));
        let Some(to) = to.copied() else { return false };
        Stamp { number: self.stats.sent, sent: now }.write(&mut self.payload);
        self.stats.sent += 1;
        let source = SocketAddr::new(IpAddr::V4(self.config.local), self.config.port);
        let destination = SocketAddr::new(IpAddr::V4(to), self.config.port);
        Datagram { source, destination, payload: &self.payload }.emit(out);
        true
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next_at
    }

    fn udp_port(&self) -> Option<u16> {
        Some(self.config.port)
    }
}
