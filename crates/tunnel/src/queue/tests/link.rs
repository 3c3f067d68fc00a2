//! TCP senders behind a queue and a link of a fixed rate: is the link busy, and who waits?

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::ip::{self, FlowKey};
use base::rng::Rng;
use base::tcp::Segment;
use base::time::{Time, earliest};
use tcp::{Config, Connection, Event};

use super::packets::{NO_LIMIT, udp};
use crate::queue::Queue;

/// Octets per second: 10 Mbit/s.
const RATE: f64 = 1.25e6;

/// A link and the conversations over it.
pub struct Bottleneck {
    now: Time,
    queue: Queue,
    /// One way.
    delay: Duration,
    /// For how much longer packets are held back now and then.
    stall: Duration,
    stall_rng: Rng,
    in_order: Time,
    talks: Vec<Talk>,
    events: BTreeMap<(Time, u64), Arrival>,
    arrivals: u64,
    free_at: Time,
    busy: Duration,
    /// How long each packet of the sparse flow waited.
    pings: Option<Vec<Duration>>,
    next_ping: Time,
    waits: Vec<Duration>,
}

struct Talk {
    client: Connection,
    server: Option<Connection>,
    config: Config,
    received: usize,
}

enum Arrival {
    AtClient(usize, Vec<u8>),
    AtServer(usize, Vec<u8>),
}

/// What was seen after the start.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The share of time in which the link sent.
    pub busy: f64,
    pub mean_wait: Duration,
    pub max_wait: Duration,
    pub max_ping: Duration,
    /// Octets of the flow with least and with most.
    pub received: (usize, usize),
    /// Packets marked or dropped, the start included.
    pub signals: u64,
}

impl Bottleneck {
    /// Conversations over a link with `delay` each way.
    pub fn new(delay: Duration, configs: &[Config]) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let mut rng = Rng::stream(1, "isn");
        let talk = |(index, config): (usize, &Config)| {
            let config = Config { send_buffer: 4 << 20, ..*config };
            let client = Connection::connect(now, config, end(1, index), end(2, index), &mut rng);
            Talk { client, server: None, config, received: 0 }
        };
        Self {
            now,
            queue: Queue::new(NO_LIMIT, &mut Rng::stream(1, "queue")),
            delay,
            stall: Duration::ZERO,
            stall_rng: Rng::stream(1, "stall"),
            in_order: now,
            talks: configs.iter().enumerate().map(talk).collect(),
            events: BTreeMap::new(),
            arrivals: 0,
            free_at: now,
            busy: Duration::ZERO,
            pings: None,
            next_ping: Time::MAX,
            waits: Vec::new(),
        }
    }

    /// With a small packet every 100 ms besides.
    pub fn with_pings(mut self) -> Self {
        (self.pings, self.next_ping) = (Some(Vec::new()), self.now);
        self
    }

    /// With one packet in fifty that comes up to `stall` late, and holds up those behind it.
    pub fn with_stalls(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Runs for `start`, and then for `span`, of which it tells.
    pub fn run(&mut self, start: Duration, span: Duration) -> Seen {
        self.run_until(self.now + start);
        self.busy = Duration::ZERO;
        self.waits.clear();
        self.pings.iter_mut().for_each(Vec::clear);
        self.talks.iter_mut().for_each(|talk| talk.received = 0);
        self.run_until(self.now + span);

        let longest = |waits: &[Duration]| waits.iter().max().copied().unwrap_or_default();
        let packets = u32::try_from(self.waits.len().max(1)).unwrap();
        let received = self.talks.iter().map(|talk| talk.received);
        let stats = self.queue.stats();
        Seen {
            signals: stats.marked + stats.dropped_by_codel,
            busy: self.busy.as_secs_f64() / span.as_secs_f64(),
            mean_wait: self.waits.iter().sum::<Duration>() / packets,
            max_wait: longest(&self.waits),
            max_ping: self.pings.as_deref().map(longest).unwrap_or_default(),
            received: (received.clone().min().unwrap_or(0), received.max().unwrap_or(0)),
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            for index in 0..self.talks.len() {
                self.settle(index);
            }
            let sends_at = (!self.queue.is_empty()).then_some(self.free_at.max(self.now));
            let timers = self.talks.iter().fold(None, |first, talk| {
                let server = talk.server.as_ref().and_then(Connection::next_timeout);
                earliest(first, earliest(talk.client.next_timeout(), server))
            });
            let arrival = self.events.first_key_value().map(|(key, _)| key.0);
            let next = [sends_at, timers, arrival].into_iter().fold(Some(self.next_ping), earliest);
            let next = next.unwrap_or(Time::MAX);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        if self.next_ping <= now {
            self.queue.push(now, &udp(9, 0, 92, 0)).unwrap();
            self.next_ping = now + Duration::from_millis(100);
        }
        if self.free_at <= now {
            self.send();
        }
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Arrival::AtClient(index, packet) => {
                    let client = &mut self.talks[index].client;
                    with_segment(&packet, |segment| client.handle_segment(now, segment));
                }
                Arrival::AtServer(index, packet) => {
                    let Talk { server, config, .. } = &mut self.talks[index];
                    with_segment(&packet, |segment| match server {
                        Some(server) => server.handle_segment(now, segment),
                        None => {
                            let (local, remote) = (segment.destination, segment.source);
                            let rng = &mut Rng::stream(2, "isn");
                            *server =
                                Some(Connection::accept(now, *config, local, remote, segment, rng));
                        }
                    });
                }
            }
        }
        for talk in &mut self.talks {
            talk.client.handle_timeout(now);
            talk.server.iter_mut().for_each(|server| server.handle_timeout(now));
        }
    }

    fn send(&mut self) {
        let (now, mut packet) = (self.now, Vec::new());
        let Some(popped) = self.queue.pop(now, usize::MAX, None, 2 * self.delay, &mut packet)
        else {
            return;
        };
        let span = Duration::from_secs_f64(packet.len() as f64 / RATE);
        self.free_at = now + span;
        self.busy += span;
        let header = ip::Header::parse(&packet).unwrap();
        let (key, _) = FlowKey::of(&header, &packet);
        let wait = now.since(popped.arrived);
        if key.protocol == ip::protocol::UDP {
            self.pings.iter_mut().for_each(|pings| pings.push(wait));
            return;
        }
        self.waits.push(wait);
        let is_late = !self.stall.is_zero() && self.stall_rng.chance(0.02);
        let late = if is_late { self.stall_rng.within(self.stall) } else { Duration::ZERO };
        self.in_order = self.in_order.max(self.free_at + self.delay + late);
        let index = usize::from(key.source_port - 1_000);
        self.arrive(self.in_order, Arrival::AtServer(index, packet));
    }

    fn settle(&mut self, index: usize) {
        let now = self.now;
        let mut answers = Vec::new();
        let talk = &mut self.talks[index];
        let _ = talk.client.write(&[0; 65_536]);
        while talk.client.poll_event().is_some() {}
        let mut packet = Vec::new();
        while talk.client.poll_transmit(now, &mut packet) {
            self.queue.push(now, &packet).unwrap();
        }
        let Some(server) = &mut talk.server else { return };
        while let Some(event) = server.poll_event() {
            assert_ne!(event, Event::Reset);
        }
        let mut buffer = [0; 65_536];
        talk.received += server.read(&mut buffer);
        while server.poll_transmit(now, &mut packet) {
            answers.push(std::mem::take(&mut packet));
        }
        for packet in answers {
            self.arrive(now + self.delay, Arrival::AtClient(index, packet));
        }
    }

    fn arrive(&mut self, at: Time, arrival: Arrival) {
        self.arrivals += 1;
        self.events.insert((at, self.arrivals), arrival);
    }
}

fn end(host: u8, index: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), 1_000 + u16::try_from(index).unwrap())
}

fn with_segment(packet: &[u8], take: impl FnOnce(&Segment<'_>)) {
    let header = ip::Header::parse(packet).unwrap();
    take(&Segment::parse(&header, packet, header.len).unwrap());
}
