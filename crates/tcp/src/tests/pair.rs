//! Two connections joined by a wire that does to packets what a test asks for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base::ip::{self, FlowKey};
use base::rng::Rng;
use base::tcp::{Flags, Segment};
use base::time::{Time, earliest};

use crate::{Config, Connection, Event, State};

/// What becomes of a packet: the delays after which copies of it arrive, none for a loss.
type Fate = Vec<Duration>;

/// Decides about a packet: its side, how many that side sent before, the segment.
type Decide = dyn FnMut(Side, u64, &Segment<'_>) -> Fate;

/// The client end, the server end, and what is on the way.
pub struct Pair {
    pub now: Time,
    pub client: End,
    pub server: End,
    listens: Option<Config>,
    rng: Rng,
    on_the_way: BTreeMap<(Time, u64), (Side, Vec<u8>)>,
    packets: u64,
    fate: Box<Decide>,
    /// A router marks one packet in so many of each side; 0 marks none.
    pub marks: u64,
    /// One line for each packet sent: time, side, what, fate.
    pub trace: Vec<String>,
}

/// Which end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    Client,
    Server,
}

/// One end with its application.
#[derive(Default)]
pub struct End {
    tcp: Option<Connection>,
    pub to_write: Vec<u8>,
    written: usize,
    pub received: Vec<u8>,
    pub events: Vec<Event>,
    /// Close when all is written.
    pub closes: bool,
    /// Do not read.
    pub is_lazy: bool,
    sent: u64,
}

pub const CLIENT: &str = "10.0.0.1:1000";
pub const SERVER: &str = "10.0.0.2:2000";
pub const DELAY: Duration = Duration::from_millis(50);

impl Pair {
    /// A client that connects to a server that listens; nothing is sent yet.
    pub fn new(client: Config, server: Config) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let mut rng = Rng::stream(1, "isn");
        let connection =
            Connection::connect(now, client, address(CLIENT), address(SERVER), &mut rng);
        Self {
            now,
            client: End { tcp: Some(connection), ..End::default() },
            server: End::default(),
            listens: Some(server),
            rng,
            on_the_way: BTreeMap::new(),
            packets: 0,
            fate: Box::new(|_, _, _| vec![DELAY]),
            marks: 0,
            trace: Vec::new(),
        }
    }

    /// Two clients that connect to each other.
    pub fn simultaneous(client: Config, server: Config) -> Self {
        let mut pair = Self::new(client, server);
        pair.listens = None;
        pair.server.tcp = Some(Connection::connect(
            pair.now,
            server,
            address(SERVER),
            address(CLIENT),
            &mut pair.rng,
        ));
        pair
    }

    /// `fate` decides about each packet: its side, how many that side sent before, the segment.
    pub fn with_fate(
        mut self,
        fate: impl FnMut(Side, u64, &Segment<'_>) -> Fate + 'static,
    ) -> Self {
        self.fate = Box::new(fate);
        self
    }

    pub fn client(&mut self) -> &mut Connection {
        self.client.tcp.as_mut().unwrap()
    }

    pub fn server(&mut self) -> &mut Connection {
        self.server.tcp.as_mut().unwrap()
    }

    /// Runs until nothing is left to happen, or until `limit`; returns whether it went quiet.
    pub fn run_for(&mut self, limit: Duration) -> bool {
        let end = self.now + limit;
        loop {
            self.settle(Side::Client);
            self.settle(Side::Server);
            let arrival = self.on_the_way.keys().next().map(|key| key.0);
            let timer = [&self.client, &self.server]
                .iter()
                .filter_map(|end| end.tcp.as_ref()?.next_timeout())
                .min();
            let Some(next) = earliest(arrival, timer) else { return true };
            if next > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(next);
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some(entry) = self.on_the_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, packet) = entry.remove();
            self.deliver(to, &packet);
            return;
        }
        for end in [&mut self.client, &mut self.server] {
            let Some(tcp) = &mut end.tcp else { continue };
            if tcp.next_timeout().is_some_and(|at| at <= now) {
                tcp.handle_timeout(now);
                assert!(tcp.next_timeout().is_none_or(|at| at > now), "a driver would spin");
            }
        }
    }

    fn deliver(&mut self, to: Side, packet: &[u8]) {
        let header = ip::Header::parse(packet).unwrap();
        let (_, offset) = FlowKey::of(&header, packet);
        let segment = Segment::parse(&header, packet, offset).unwrap();
        let (now, listens) = (self.now, self.listens);
        let end = self.end(to);
        if let Some(tcp) = &mut end.tcp {
            tcp.handle_segment(now, &segment);
        } else if let Some(config) = listens.filter(|_| {
            segment.flags == Flags::SYN || segment.flags == Flags::SYN | Flags::ECE | Flags::CWR
        }) {
            let (local, remote) = (segment.destination, segment.source);
            let tcp = Connection::accept(now, config, local, remote, &segment, &mut self.rng);
            self.server.tcp = Some(tcp);
        }
        self.settle(to);
    }

    /// What a driver does after each call.
    fn settle(&mut self, side: Side) {
        let now = self.now;
        let end = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let Some(tcp) = &mut end.tcp else { return };
        while let Some(event) = tcp.poll_event() {
            end.events.push(event);
        }
        let mut buffer = [0; 1_000];
        while !end.is_lazy {
            let len = tcp.read(&mut buffer);
            if len == 0 {
                break;
            }
            end.received.extend_from_slice(&buffer[..len]);
        }
        end.written += tcp.write(&end.to_write[end.written..]);
        let is_opening = tcp.state() == State::SynSent;
        if end.closes && !is_opening && end.written == end.to_write.len() {
            tcp.close();
        }

        let mut out = Vec::new();
        let mut packets = 0;
        while end.tcp.as_mut().unwrap().poll_transmit(now, &mut out) {
            packets += 1;
            assert!(packets < 10_000, "it never stops sending");
            let header = ip::Header::parse(&out).unwrap();
            let segment = Segment::parse(&header, &out, header.len).unwrap();
            let fate = (self.fate)(side, end.sent, &segment);
            end.sent += 1;
            self.trace.push(line(now, side, &segment, &fate));
            if self.marks > 0 && end.sent.is_multiple_of(self.marks) {
                let _ = ip::mark_congestion(&mut out);
            }
            for delay in fate {
                self.packets += 1;
                self.on_the_way.insert((now + delay, self.packets), (side.other(), out.clone()));
            }
            out.clear();
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

pub fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Octets that tell where in the stream they belong.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

fn line(now: Time, side: Side, segment: &Segment<'_>, fate: &Fate) -> String {
    let ms = now.as_nanos() / 1_000_000;
    let flags: String = [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::ACK, '.'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
    ]
    .iter()
    .filter(|(flag, _)| segment.flags.has(*flag))
    .map(|(_, letter)| *letter)
    .collect();
    let (seq, ack, len) = (segment.seq, segment.ack, segment.payload.len());
    let sack = segment.options.sack.as_slice();
    let lost = if fate.is_empty() { " LOST" } else { "" };
    format!("{ms} {side:?} {flags} {seq} ack {ack} len {len} win {} {sack:?}{lost}", segment.window)
}
