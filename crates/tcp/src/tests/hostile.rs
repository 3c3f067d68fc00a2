//! Whatever a peer, a router or an application does, nothing breaks and everything stays bounded.

use base::ip::{self, icmp};
use base::rng::Rng;
use base::tcp::{Flags, Options, SackBlocks, Segment, Timestamps};
use base::time::Time;
use harness::Core;
use proptest::prelude::*;

use super::pair::{CLIENT, SERVER, address};
use super::transfer::algorithms;
use crate::{Config, Congestion, Connection, LossRecovery, Offer, State};

const BUFFER: usize = 4_000;

/// Something that happens to a connection.
#[derive(Clone, Debug)]
enum Act {
    Abort,
    Close,
    Icmp(u8, i16),
    Mtu(usize),
    Read(usize),
    /// A segment near what is expected: offsets of its numbers, and the rest.
    Segment(Box<Forged>),
    Write(usize),
}

#[derive(Clone, Debug)]
struct Forged {
    seq: i32,
    ack: i32,
    flags: u8,
    window: u16,
    len: usize,
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(i32, i32)>,
    blocks: Vec<(i32, i32)>,
    traffic_class: u8,
}

proptest! {
    #![proptest_config(harness::cases(400))]

    #[test]
    fn no_sequence_of_events_breaks_a_connection(
        is_passive: bool,
        options: [bool; 7],
        algorithm in algorithms(),
        steps in harness::steps(acts()),
    ) {
        let config = Config { offer: Offer { timestamps: options[0], sack: options[1], window_scaling: options[2], ecn: options[3], ..Offer::default() }, nagle: options[4], recovery: LossRecovery { limited_transmit: options[5], lost_repairs: options[6], ..LossRecovery::default() }, send_buffer: BUFFER, receive_buffer: BUFFER, max_holes: 4, congestion: Congestion { algorithm, ..Congestion::default() }, ..Config::default() };
        let mut victim = Victim::new(config, is_passive);
        let now = victim.now;
        harness::keeps(&mut victim, now, steps)?;
    }
}

#[derive(Debug)]
struct Victim {
    now: Time,
    tcp: Connection,
    /// The last segment that it sent.
    last: (u32, u32),
}

impl Victim {
    fn new(config: Config, is_passive: bool) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let mut rng = Rng::stream(1, "isn");
        let (local, remote) = (address(CLIENT), address(SERVER));
        let tcp = if is_passive {
            let options = Options {
                mss: Some(500),
                window_scale: Some(3),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 0, echo: 0 }),
                ..Options::default()
            };
            let syn = Segment { options, ..forged(0, 0, Flags::SYN) };
            Connection::accept(now, config, local, remote, &syn, &mut rng)
        } else {
            Connection::connect(now, config, local, remote, &mut rng)
        };
        Self { now, tcp, last: (0, 0) }
    }

    fn receive(&mut self, from: &Forged) {
        let (seq, ack) = self.last;
        let mut sack = SackBlocks::default();
        for (low, high) in &from.blocks {
            sack.push(seq.wrapping_add_signed(*low), seq.wrapping_add_signed(*high));
        }
        let timestamps = from.timestamps.map(|(value, echo)| Timestamps {
            // The peer's clock counts milliseconds, as ours does.
            value: milliseconds(self.now).wrapping_add_signed(value),
            echo: self.tcp.timestamp(self.now).wrapping_add_signed(echo),
        });
        let payload = vec![9; from.len];
        let segment = Segment {
            window: from.window,
            urgent: 7,
            options: Options {
                mss: from.mss,
                window_scale: from.window_scale,
                sack_permitted: from.sack_permitted,
                timestamps,
                sack,
            },
            payload: &payload,
            traffic_class: from.traffic_class,
            ..forged(
                ack.wrapping_add_signed(from.seq),
                seq.wrapping_add_signed(from.ack),
                Flags(from.flags),
            )
        };
        self.tcp.handle_segment(self.now, &segment);
    }
}

impl Core for Victim {
    type Input = Act;

    fn handle(&mut self, now: Time, act: Act) {
        self.now = now;
        match act {
            Act::Abort => self.tcp.abort(),
            Act::Close => self.tcp.close(),
            Act::Icmp(kind, offset) => {
                let error = match kind % 4 {
                    0 => icmp::Error::HostUnreachable,
                    1 => icmp::Error::PortUnreachable,
                    2 => icmp::Error::TooBig { mtu: u16::from(kind) * 5 },
                    _ => icmp::Error::TtlExceeded,
                };
                let seq = self.last.0.wrapping_add_signed(i32::from(offset));
                self.tcp.handle_icmp(now, error, seq);
            }
            Act::Mtu(mtu) => self.tcp.handle_path_mtu(now, mtu),
            Act::Read(len) => {
                let _ = self.tcp.read(&mut vec![0; len]);
            }
            Act::Segment(segment) => self.receive(&segment),
            Act::Write(len) => {
                let _ = self.tcp.write(&vec![0; len]);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.tcp.handle_timeout(now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.tcp.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let is_one = self.tcp.poll_transmit(now, out);
        if is_one {
            let header = ip::Header::parse(out).unwrap();
            let segment = Segment::parse(&header, out, header.len).unwrap();
            self.last = (segment.seq.wrapping_add(segment.len()), segment.ack);
        }
        is_one
    }

    fn next_timeout(&self) -> Option<Time> {
        self.tcp.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.tcp.readable() <= BUFFER);
        prop_assert!(self.tcp.flight_size() <= BUFFER as u64 + 2);
        prop_assert!(self.tcp.state() != State::Closed || self.tcp.next_timeout().is_none());
        Ok(())
    }
}

fn milliseconds(now: Time) -> u32 {
    u32::try_from(now.since(Time::ZERO).as_millis() & u128::from(u32::MAX)).unwrap()
}

fn forged(seq: u32, ack: u32, flags: Flags) -> Segment<'static> {
    Segment {
        source: address(SERVER),
        destination: address(CLIENT),
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
        options: Options::default(),
        payload: &[],
        ttl: 1,
        traffic_class: 0,
        dont_fragment: true,
    }
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => Just(Act::Abort),
        2 => Just(Act::Close),
        2 => (any::<u8>(), any::<i16>()).prop_map(|(kind, offset)| Act::Icmp(kind, offset)),
        2 => (0_usize..2_000).prop_map(Act::Mtu),
        20 => (0_usize..BUFFER).prop_map(Act::Read),
        80 => segments().prop_map(|segment| Act::Segment(Box::new(segment))),
        30 => (0_usize..BUFFER).prop_map(Act::Write),
    ]
}

/// Numbers mostly just right, some a little off, a few anywhere.
fn offset() -> impl Strategy<Value = i32> {
    prop_oneof![6 => Just(0), 3 => -1_500..1_500_i32, 1 => any::<i32>()]
}

fn segments() -> impl Strategy<Value = Forged> {
    let flags = prop_oneof![
        12 => Just(0x10_u8),
        2 => Just(0x11),
        2 => Just(0x12),
        1 => Just(0x02),
        1 => Just(0x14),
        2 => any::<u8>(),
    ];
    let window = prop_oneof![1 => Just(0), 3 => 0_u16..3_000, 1 => any::<u16>()];
    let len = prop_oneof![2 => Just(0_usize), 3 => 0_usize..1_500];
    let handshake = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>());
    let timestamps = prop::option::weighted(0.8, (offset(), offset()));
    let blocks = prop::collection::vec((-4_000..10_i32, -4_000..10_i32), 0..5);
    (offset(), offset(), flags, window, len, handshake, timestamps, blocks, any::<u8>()).prop_map(
        |(seq, ack, flags, window, len, handshake, timestamps, blocks, traffic_class)| {
            let (mss, window_scale, sack_permitted) = handshake;
            Forged {
                seq,
                ack,
                flags,
                window,
                len,
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                blocks,
                traffic_class,
            }
        },
    )
}
