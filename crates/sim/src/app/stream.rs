//! A stream of datagrams at a constant rate: its source, and a sink for measurements.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::ip::udp::Datagram;
use base::time::Time;

use super::App;
use super::stamp::{self, Stamp};
use crate::quantiles::Quantiles;
use crate::summary::Summary;

/// Configuration of a stream's sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SenderConfig {
    /// The port it sends from.
    pub port: u16,
    /// Where the datagrams go.
    pub destination: SocketAddr,
    /// Octets of each, UDP header excluded; at least 16.
    pub payload: usize,
    /// The time from one to the next.
    pub interval: Duration,
    /// When the first is sent.
    pub start: Time,
    /// From when on no more are sent.
    pub stop: Option<Time>,
    /// How many there are at most.
    pub count: Option<u64>,
    /// The differentiated services code point, 0 to 63.
    pub dscp: u8,
}

impl SenderConfig {
    /// Ten datagrams a second from port 5,000, at once and without an end.
    #[must_use]
    pub fn new(destination: SocketAddr, payload: usize) -> Self {
        Self {
            port: 5_000,
            destination,
            payload,
            interval: Duration::from_millis(100),
            start: Time::ZERO,
            stop: None,
            count: None,
            dscp: 0,
        }
    }
}

/// Sends datagrams at a constant rate.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    local: Option<IpAddr>,
    payload: Vec<u8>,
    next_at: Option<Time>,
    stats: SenderStats,
}

/// Statistics of a stream's sender.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SenderStats {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams not sent because no address led to their destination.
    pub unsent: u64,
    /// ICMP errors about them.
    pub errors: u64,
}

impl Sender {
    /// A sender that has sent nothing yet.
    #[must_use]
    pub fn new(config: SenderConfig) -> Self {
        let payload = stamp::payload(config.payload);
        let mut sender =
            Self { config, local: None, payload, next_at: None, stats: SenderStats::default() };
        sender.plan(config.start);
        sender
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    fn plan(&mut self, next: Time) {
        let is_before_stop = self.config.stop.is_none_or(|stop| next < stop);
        let is_owed = self.config.count.is_none_or(|count| self.stats.sent < count);
        self.next_at = (is_before_stop && is_owed).then_some(next);
    }
}

impl App for Sender {
    fn handle_error(&mut self) {
        self.stats.errors += 1;
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(due) = self.next_at.filter(|due| *due <= now) else { return false };
        let next = due + self.config.interval.max(Duration::from_nanos(1));
        let Some(local) = self.local else {
            self.stats.unsent += 1;
            self.plan(next);
            return false;
        };

        Stamp { number: self.stats.sent, sent: now }.write(&mut self.payload);
        self.stats.sent += 1;
        self.plan(next);
        let source = SocketAddr::new(local, self.config.port);
        let destination = self.config.destination;
        let datagram = Datagram { source, destination, payload: &self.payload };
        datagram.emit_in_class(self.config.dscp << 2, out);
        true
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

    fn udp_port(&self) -> Option<u16> {
        Some(self.config.port)
    }
}

/// Receives a stream and measures loss, order and delay.
#[derive(Debug)]
pub struct Sink {
    port: u16,
    from_port: Option<u16>,
    stats: SinkStats,
    highest: Option<u64>,
    seen: Seen,
    last_transit: Option<Duration>,
    delays: Quantiles,
}

/// Statistics of a sink, for a single sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SinkStats {
    /// Different datagrams received.
    pub received: u64,
    /// Octets of their payload.
    pub octets: u64,
    /// Received again, or too late to tell.
    pub duplicates: u64,
    /// Datagrams received after a datagram sent later.
    pub reordered: u64,
    /// Sent before the latest that arrived, and not received.
    pub missing: u64,
    /// Without a stamp, so from elsewhere.
    pub foreign: u64,
    /// From sending to receiving.
    pub delay: Summary,
    /// RFC 3550's estimate of the variation of the delay, in seconds.
    pub jitter: f64,
    /// When the first arrived.
    pub first: Option<Time>,
    /// When the last arrived.
    pub last: Option<Time>,
}

impl Sink {
    /// A sink on this port.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self {
            port,
            from_port: None,
            stats: SinkStats::default(),
            highest: None,
            seen: Seen::default(),
            last_transit: None,
            delays: Quantiles::default(),
        }
    }

    /// The same for what comes from one port alone, where several sinks of a node share theirs.
    #[must_use]
    pub fn only_from(self, port: u16) -> Self {
        Self { from_port: Some(port), ..self }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> SinkStats {
        self.stats
    }

    /// How long datagrams took from sending to receiving.
    #[must_use]
    pub fn delays(&self) -> &Quantiles {
        &self.delays
    }
}

impl App for Sink {
    fn handle_datagram(&mut self, now: Time, datagram: &Datagram<'_>) {
        let Some(stamp) = Stamp::parse(datagram.payload) else {
            self.stats.foreign += 1;
            return;
        };
        if !self.seen.insert(stamp.number) {
            self.stats.duplicates += 1;
            return;
        }

        let stats = &mut self.stats;
        if self.highest.is_some_and(|highest| stamp.number < highest) {
            stats.reordered += 1;
        }
        let highest = self.highest.map_or(stamp.number, |highest| highest.max(stamp.number));
        self.highest = Some(highest);
        stats.received += 1;
        stats.octets += datagram.payload.len() as u64;
        stats.missing = highest.saturating_add(1).saturating_sub(stats.received);
        stats.first = stats.first.or(Some(now));
        stats.last = Some(now);

        let transit = now.since(stamp.sent);
        stats.delay.add(transit);
        self.delays.add(transit);
        if let Some(last) = self.last_transit.replace(transit) {
            // RFC 3550, 6.4.1.
            stats.jitter += (transit.abs_diff(last).as_secs_f64() - stats.jitter) / 16.0;
        }
    }

    fn udp_port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn source_port(&self) -> Option<u16> {
        self.from_port
    }
}

/// Remembers which recent numbers were seen; older numbers count as seen.
#[derive(Debug)]
struct Seen {
    /// Bit `n % WINDOW` is for number `n`.
    bits: Box<[u64; WORDS]>,
    /// One beyond the highest number seen.
    end: u64,
}

const WORDS: usize = 64;
const WINDOW: u64 = WORDS as u64 * 64;

impl Default for Seen {
    fn default() -> Self {
        Self { bits: Box::new([0; WORDS]), end: 0 }
    }
}

impl Seen {
    /// Whether the number is new.
    fn insert(&mut self, number: u64) -> bool {
        if number >= self.end {
            let first = self.end.max(number.saturating_sub(WINDOW - 1));
            for skipped in first..=number {
                *self.word(skipped) &= !bit(skipped);
            }
            self.end = number.saturating_add(1);
        } else if self.end - number > WINDOW {
            return false;
        }
        let is_new = *self.word(number) & bit(number) == 0;
        *self.word(number) |= bit(number);
        is_new
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.bits[usize::try_from(number % WINDOW / 64).expect("below 64")]
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_tells_loss_from_duplicates_and_reordering() {
        let mut sink = Sink::new(9);

        for (number, at) in [(0, 10), (1, 12), (4, 16), (3, 17), (4, 18)] {
            receive(&mut sink, number, at);
        }

        let stats = sink.stats();
        assert_eq!((stats.received, stats.missing), (4, 1));
        assert_eq!((stats.duplicates, stats.reordered), (1, 1));
        assert_eq!(stats.delay.max(), Duration::from_millis(14));
    }

    #[test]
    fn any_number_may_come_from_a_stranger() {
        let mut sink = Sink::new(9);

        for number in [u64::MAX, 0, u64::MAX - 1, u64::MAX - 5_000] {
            receive(&mut sink, number, 20);
        }

        assert_eq!(sink.stats().received, 2);
    }

    #[test]
    fn a_sender_keeps_its_interval_its_count_and_its_code_point() {
        let mut sender = Sender::new(SenderConfig {
            port: 1,
            interval: Duration::from_millis(20),
            start: Time::from_nanos(5),
            count: Some(3),
            dscp: 46,
            ..SenderConfig::new("10.0.0.2:9".parse().unwrap(), 100)
        });
        sender.bind("10.0.0.1".parse().unwrap());
        let mut at = Vec::new();

        while let Some(due) = sender.next_timeout() {
            let mut out = Vec::new();
            assert!(sender.poll_transmit(due, &mut out));
            assert_eq!((out.len(), out[1] >> 2), (20 + 8 + 100, 46));
            at.push(due.as_nanos());
        }

        assert_eq!(at, [5, 20_000_005, 40_000_005]);
    }

    fn receive(sink: &mut Sink, number: u64, at: u64) {
        let mut payload = stamp::payload(0);
        let sent = Time::from_nanos(number.saturating_mul(1_000_000));
        Stamp { number, sent }.write(&mut payload);
        let any: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let datagram = Datagram { source: any, destination: any, payload: &payload };
        sink.handle_datagram(Time::from_nanos(at * 1_000_000), &datagram);
    }
}
