//! Fuzzes TCP: segments survive a round trip, and a connection survives any peer and any network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use base::ip::{Checksum, Header, Spec, icmp, protocol, pseudo_header};
use base::rng::Rng;
use base::tcp::{Flags, Options, SackBlocks, Segment, Timestamps};
use base::time::Time;
use tcp::{Config, Connection, KeepAlive, Offer, State};

/// Offset of the checksum in a segment.
const SUM: usize = 16;
/// Largest packet TCP may send when the path's MTU is below the smallest segment.
const SHORTEST_MTU: usize = 200;

/// Reads the input as a segment, writes it again and compares.
pub(crate) fn segment(input: &[u8]) {
    let Some((&first, octets)) = input.split_first() else { return };
    let ends: (IpAddr, IpAddr) = match first & 1 {
        0 => (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()),
        _ => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()),
    };
    let mut octets = octets[..octets.len().min(60_000)].to_vec();
    if octets.len() >= SUM + 2 {
        octets[SUM..SUM + 2].fill(0);
        let sum = pseudo_header(ends.0, ends.1, protocol::TCP, octets.len());
        let sum: Checksum = sum.with(&octets);
        octets[SUM..SUM + 2].copy_from_slice(&sum.finish().to_be_bytes());
    }
    let mut packet = Vec::new();
    let spec = Spec { traffic_class: first, ..Spec::new(ends.0, ends.1, protocol::TCP) };
    spec.emit(octets.len(), &mut packet);
    packet.extend_from_slice(&octets);

    let Some(read) = parse(&packet) else { return };
    let mut written = Vec::new();
    read.emit(&mut written);
    let again = parse(&written).expect("what is written can be read");

    // We pad other options, so some SACK blocks may find no room.
    let kept = again.options.sack.as_slice();
    assert_eq!(kept, &read.options.sack.as_slice()[..kept.len()]);
    let options = Options { sack: again.options.sack, ..read.options };
    assert_eq!(again, Segment { options, ..read });

    if let Some(reset) = read.reset_for() {
        written.clear();
        reset.emit(&mut written);
        assert_eq!(parse(&written), Some(reset));
        assert_eq!(reset.reset_for(), None);
    }
}

/// The input chooses the actions of the application, the segments of the peer and the reports of the network.
pub(crate) fn connection(input: &[u8]) {
    let Some((&[kind, size], mut rest)) = input.split_first_chunk::<2>() else { return };
    let config = Config {
        send_buffer: 256 + usize::from(size) * 16,
        receive_buffer: 256 + usize::from(size) * 64,
        max_holes: 4,
        offer: Offer {
            timestamps: kind & 1 == 0,
            sack: kind & 2 == 0,
            ecn: kind & 4 != 0,
            window_scaling: kind & 32 == 0,
            ..Offer::default()
        },
        nagle: kind & 8 == 0,
        keep_alive: (kind & 16 != 0).then_some(KeepAlive {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(3),
            probes: 3,
        }),
        ..Config::default()
    };
    let mut network = Network::new(config, kind & 64 != 0);
    while let Some((&[action, len], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        let amount = usize::from(len);
        match action % 8 {
            0..=2 => rest = network.send(action, amount, rest),
            3 => {
                let written = network.own.write(&vec![len; amount * 16]);
                assert!(written <= amount * 16);
            }
            4 => {
                let mut buffer = vec![0; amount * 16];
                assert!(network.own.read(&mut buffer) <= buffer.len());
            }
            5 => network.now += Duration::from_millis(1 << (len % 16)),
            6 => network.trouble(len),
            _ if len == 0 => network.own.abort(),
            _ if len < 16 => network.own.close(),
            _ => {}
        }
        network.settle();
    }
    // Left alone, the connection makes progress: each timeout is later than the previous timeout, or no timeout is set.
    for _ in 0..100 {
        let Some(at) = network.own.next_timeout() else { break };
        network.now = at;
        network.settle();
    }
}

/// A connection, and its peer's view of the connection.
struct Network {
    own: Connection,
    now: Time,
    /// The largest packet size that the path may have allowed.
    mtu: usize,
    /// Sequence number of the peer's next octet.
    seq: u32,
    /// Sequence number of the next octet the peer expects.
    ack: u32,
    /// Acknowledged by the peer up to this sequence number.
    acked: u32,
    clock: u32,
    packet: Vec<u8>,
}

impl Network {
    fn new(config: Config, is_passive: bool) -> Self {
        let (now, mut rng) = (Time::ZERO, Rng::stream(1, "fuzz"));
        let mut network = Self {
            own: Connection::connect(now, config, own(), peer(), &mut rng),
            now,
            mtu: config.mtu,
            seq: 0xffff_ff00,
            ack: 0,
            acked: 0,
            clock: 0,
            packet: Vec::new(),
        };
        if is_passive {
            let options = Options { mss: Some(600), window_scale: Some(2), ..Options::default() };
            let syn = Segment { options, ..network.plain(Flags::SYN) };
            network.own = Connection::accept(now, config, own(), peer(), &syn, &mut rng);
            network.seq = network.seq.wrapping_add(1);
        }
        network.settle();
        network
    }

    /// A segment valid for the connection.
    fn plain(&self, flags: Flags) -> Segment<'static> {
        Segment {
            source: peer(),
            destination: own(),
            seq: self.seq,
            ack: self.acked,
            flags,
            window: 8_000,
            urgent: 0,
            options: Options::default(),
            payload: &[],
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
        }
    }

    /// Sends a segment from the peer; the input chooses the differences from a segment in order.
    fn send<'a>(&mut self, action: u8, amount: usize, input: &'a [u8]) -> &'a [u8] {
        let Some((&[flags, bend, seq, ack, window, extra], rest)) = input.split_first_chunk::<6>()
        else {
            return &[];
        };
        // The segment acknowledges all data, a part, or nothing new.
        let part = u32::from(ack) * 4;
        self.acked = match action % 8 {
            0 => self.ack,
            1 => self.acked.wrapping_add(part.min(self.ack.wrapping_sub(self.acked))),
            _ => self.acked,
        };
        let bent = |value: u32, by: u8, is_bent: bool| match (is_bent, action & 0x80) {
            (false, _) => value,
            (true, 0) => value.wrapping_add_signed(i32::from(by.cast_signed())),
            (true, _) => value.wrapping_add_signed(i32::from(by.cast_signed()) << 20),
        };
        let payload = vec![seq; amount * if bend & 8 == 0 { 1 } else { 8 }];
        let mut sack = SackBlocks::default();
        for block in 0..u32::from(extra & 7) {
            let from = self.acked.wrapping_add(block * 600).wrapping_add(u32::from(window));
            sack.push(from, from.wrapping_add(part));
        }
        let timestamps = (bend & 16 == 0).then_some(Timestamps {
            value: bent(self.clock, extra, bend & 32 != 0),
            echo: bent(self.clock, window, bend & 64 != 0),
        });
        let syn = flags & Flags::SYN.0 != 0;
        let segment = Segment {
            seq: bent(self.seq, seq, bend & 1 != 0),
            ack: bent(self.acked, ack, bend & 2 != 0),
            window: if bend & 4 == 0 { u16::from(window) << 8 } else { u16::from(window) },
            urgent: u16::from(extra),
            options: Options {
                mss: syn.then_some(u16::from(extra) * 8),
                window_scale: (syn && extra & 1 != 0).then_some(extra >> 3),
                sack_permitted: syn && extra & 2 != 0,
                timestamps,
                sack,
            },
            payload: &payload,
            traffic_class: action >> 3,
            ..self.plain(Flags(flags))
        };
        self.clock = self.clock.wrapping_add(1);
        if bend & 1 == 0 && bend & 128 == 0 {
            self.seq = self.seq.wrapping_add(segment.len());
        }
        self.own.handle_segment(self.now, &segment);
        rest
    }

    /// Reports an error as a router would.
    fn trouble(&mut self, kind: u8) {
        let mtu = usize::from(kind) * 8;
        let error = match kind % 5 {
            0 => icmp::Error::HostUnreachable,
            1 => icmp::Error::PortUnreachable,
            2 => icmp::Error::TtlExceeded,
            3 => icmp::Error::TooBig { mtu: u16::from(kind) * 8 },
            _ => {
                self.mtu = self.mtu.max(mtu);
                self.own.handle_path_mtu(self.now, mtu);
                return;
            }
        };
        let seq = self.ack.wrapping_sub(u32::from(kind & 1));
        self.own.handle_icmp(self.now, error, seq);
    }

    /// Does a driver's work after each call, and checks the invariants.
    fn settle(&mut self) {
        self.own.handle_timeout(self.now);
        while self.own.poll_event().is_some() {}
        // At most a send buffer of segments with one octet each, and some segments without data.
        let most = self.own.config().send_buffer + 100;
        for sent in 0.. {
            assert!(sent < most, "{sent} segments at once: {:?}", self.own.stats());
            if !self.own.poll_transmit(self.now, &mut self.packet) {
                break;
            }
            assert!(self.packet.len() <= self.mtu.max(SHORTEST_MTU), "{}", self.packet.len());
            let segment = parse(&self.packet).expect("a segment");
            let end = segment.seq.wrapping_add(segment.len());
            if end.wrapping_sub(self.ack).cast_signed() > 0 || segment.flags.has(Flags::SYN) {
                self.ack = end;
            }
        }
        let next = self.own.next_timeout();
        assert!(next.is_none_or(|at| at > self.now), "{next:?} at {:?}", self.now);
        if self.own.state() == State::Closed {
            assert_eq!(next, None);
        }
        let config = self.own.config();
        assert!(self.own.readable() <= config.receive_buffer);
        assert!(self.own.writable() <= config.send_buffer);
        assert!(self.own.mss() > 0 && self.own.cwnd() > 0);
    }
}

fn parse(packet: &[u8]) -> Option<Segment<'_>> {
    let header = Header::parse(packet).expect("an IP packet");
    Segment::parse(&header, packet, header.len).ok()
}

fn own() -> SocketAddr {
    ([10, 0, 0, 1], 1).into()
}

fn peer() -> SocketAddr {
    ([10, 0, 0, 2], 2).into()
}
