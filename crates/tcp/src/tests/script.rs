//! One connection whose peer is the test: segments in by hand, segments out as text.

use std::time::Duration;

use base::ip::{self, ecn};
use base::rng::Rng;
use base::tcp::{Flags, Options, Segment, Timestamps};
use base::time::Time;

use super::pair::{CLIENT, SERVER, address};
use crate::{Config, Connection, Event, Offer};

/// The peer's initial sequence number: near the wrap, which every test so crosses.
const IRS: u32 = u32::MAX - 500;

pub const ACK: Flags = Flags::ACK;
pub const FIN: Flags = Flags(0x11);
pub const RST: Flags = Flags::RST;
pub const SYN: Flags = Flags::SYN;
pub const SYN_ACK: Flags = Flags(0x12);

/// A connection and its scripted peer; numbers are relative to the initial ones.
pub struct Script {
    pub now: Time,
    pub tcp: Connection,
    start: Time,
    iss: u32,
    /// What the peer's segments carry unless told otherwise.
    pub options: Options,
    pub window: u16,
    pub traffic_class: u8,
    /// Show the window field, and ECN.
    pub is_verbose: bool,
}

/// Plain TCP with segments of 1,000 octets.
pub fn plain() -> Config {
    Config {
        mss: Some(1_000),
        offer: Offer { timestamps: false, sack: false, window_scaling: false, ..Offer::default() },
        nagle: false,
        ..Config::default()
    }
}

/// The same with SACK.
pub fn with_sack() -> Config {
    Config { offer: Offer { sack: true, ..plain().offer }, ..plain() }
}

/// What a peer of `plain` says in its SYN.
pub fn mss_option() -> Options {
    Options { mss: Some(1_000), ..Options::default() }
}

impl Script {
    /// An active open; the SYN is yet to be fetched.
    pub fn connect(config: Config) -> Self {
        let now = Time::from_nanos(10_000_000_000);
        let mut rng = Rng::stream(3, "isn");
        let tcp = Connection::connect(now, config, address(CLIENT), address(SERVER), &mut rng);
        Self::with(now, tcp)
    }

    /// A passive open on a SYN with these options; the SYN-ACK is yet to be fetched.
    pub fn accept(config: Config, options: Options) -> Self {
        let now = Time::from_nanos(10_000_000_000);
        let mut rng = Rng::stream(3, "isn");
        let syn = Segment { options, ..segment(IRS, 0, SYN) };
        let tcp = Connection::accept(now, config, address(CLIENT), address(SERVER), &syn, &mut rng);
        Self::with(now, tcp)
    }

    fn with(now: Time, tcp: Connection) -> Self {
        Self {
            now,
            tcp,
            start: now,
            iss: 0,
            options: Options::default(),
            window: 60_000,
            traffic_class: 0,
            is_verbose: false,
        }
    }

    /// A connection that is open, by an active open to a peer like us, 100 ms away.
    pub fn open(config: Config) -> Self {
        let mut script = Self::connect(config);
        let _ = script.sent();
        script.skip(100);
        let echo = script.tcp.timestamp(script.start);
        script.options = Options {
            mss: Some(config.mss.unwrap_or(1_460)),
            window_scale: config.offer.window_scaling.then_some(0),
            sack_permitted: config.offer.sack,
            timestamps: config.offer.timestamps.then_some(Timestamps { value: 1, echo }),
            ..Options::default()
        };
        let _ = script.peer(0, 1, SYN_ACK, 0);
        script.options = Options { timestamps: script.options.timestamps, ..Options::default() };
        assert_eq!(script.tcp.poll_event(), Some(Event::Connected));
        script
    }

    /// The peer sends `len` octets from `seq`; returns what we answer.
    pub fn peer(&mut self, seq: u32, ack: u32, flags: Flags, len: usize) -> Vec<String> {
        let payload = vec![7; len];
        let segment = Segment {
            options: self.options,
            payload: &payload,
            window: self.window,
            traffic_class: self.traffic_class,
            ..segment(IRS.wrapping_add(seq), self.iss.wrapping_add(ack), flags)
        };
        self.tcp.handle_segment(self.now, &segment);
        self.sent()
    }

    /// As `peer`, with SACK blocks.
    pub fn peer_sacks(&mut self, ack: u32, blocks: &[(u32, u32)]) -> Vec<String> {
        for (from, to) in blocks {
            let iss = self.iss;
            self.options.sack.push(iss.wrapping_add(*from), iss.wrapping_add(*to));
        }
        let sent = self.peer(1, ack, ACK, 0);
        self.options.sack = Default::default();
        sent
    }

    /// Queues `len` octets; returns what is sent.
    pub fn write(&mut self, len: usize) -> Vec<String> {
        assert_eq!(self.tcp.write(&vec![1; len]), len);
        self.sent()
    }

    /// Closes; returns what is sent.
    pub fn close(&mut self) -> Vec<String> {
        self.tcp.close();
        self.sent()
    }

    /// All that is to be sent now.
    pub fn sent(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut out = Vec::new();
        while self.tcp.poll_transmit(self.now, &mut out) {
            assert!(lines.len() < 1_000, "it never stops sending");
            let header = ip::Header::parse(&out).unwrap();
            let segment = Segment::parse(&header, &out, header.len).unwrap();
            if segment.flags.has(SYN) {
                self.iss = segment.seq;
            }
            lines.push(self.line(&segment));
        }
        lines
    }

    /// Lets time pass, timers run; returns what is sent, each with its milliseconds from now.
    pub fn wait(&mut self, ms: u64) -> Vec<String> {
        let (start, end) = (self.now, self.now + Duration::from_millis(ms));
        let mut lines = Vec::new();
        while let Some(at) = self.tcp.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.tcp.handle_timeout(self.now);
            assert!(self.tcp.next_timeout().is_none_or(|at| at > self.now), "it would spin");
            let passed = self.now.since(start).as_millis();
            lines.extend(self.sent().iter().map(|line| format!("{passed}: {line}")));
        }
        self.now = end;
        lines
    }

    /// Lets time pass and expects nothing to be due in it.
    pub fn skip(&mut self, ms: u64) {
        assert_eq!(self.wait(ms), NOTHING);
    }

    /// All events that wait.
    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.tcp.poll_event()).collect()
    }

    /// Reads up to `len` octets; returns what is sent.
    pub fn read(&mut self, len: usize) -> Vec<String> {
        assert_eq!(self.tcp.read(&mut vec![0; len]), len);
        self.sent()
    }

    fn line(&self, segment: &Segment<'_>) -> String {
        let flags: String = [
            (Flags::SYN, 'S'),
            (Flags::FIN, 'F'),
            (Flags::RST, 'R'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
            (Flags::ACK, '.'),
        ]
        .iter()
        .filter(|(flag, _)| segment.flags.has(*flag))
        .map(|(_, letter)| *letter)
        .collect();
        let seq = segment.seq.wrapping_sub(self.iss).cast_signed();
        let mut line = format!("{flags} {seq}+{}", segment.payload.len());
        if segment.flags.has(ACK) {
            line += &format!(" ack {}", segment.ack.wrapping_sub(IRS));
        }
        for (from, to) in segment.options.sack.as_slice() {
            line += &format!(" sack {}-{}", from.wrapping_sub(IRS), to.wrapping_sub(IRS));
        }
        if self.is_verbose {
            line += &format!(" win {}", segment.window);
            if segment.traffic_class & ecn::CE == ecn::ECT_0 {
                line += " ect";
            }
        }
        line
    }
}

/// Nothing was sent.
pub const NOTHING: [&str; 0] = [];

fn segment(seq: u32, ack: u32, flags: Flags) -> Segment<'static> {
    Segment {
        source: address(SERVER),
        destination: address(CLIENT),
        seq,
        ack,
        flags,
        window: 60_000,
        urgent: 0,
        options: Options::default(),
        payload: &[],
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    }
}
