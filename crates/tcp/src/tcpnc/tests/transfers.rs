//! Two TCPs with a layer each, over a network that loses, doubles and reorders.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base::ip::{Header, protocol};
use base::rng::Rng;
use base::tcp::Segment;
use base::time::Time;
use proptest::prelude::*;

use super::super::wire::Message;
use super::super::{Config, Layer, PROTOCOL};
use crate::{self as tcp, Connection, State};

#[test]
fn a_transfer_over_a_clean_network_sends_nothing_twice() {
    let mut network = Network::new(Config::default(), 1, [0.0; 2], 50_000, 0);

    network.run();

    let [client, server] = &network.ends;
    assert_eq!(server.received, 50_000);
    let stats = client.layer.stats();
    assert_eq!((stats.segments_again, stats.resent, stats.bad_acks), (0, 0, 0));
    assert_eq!(client.tcp.stats().sent.retransmissions, 0);
    assert_eq!(client.layer.loss(), 0.0);
}

#[test]
fn losses_within_the_redundancy_are_hidden_from_tcp() {
    let (mut plain, mut masked) = (0, 0);
    for seed in 0..8 {
        let mut network = Network::new(Config::default(), seed, [0.1, 0.0], 200_000, 0);
        network.run();

        assert_eq!(network.ends[1].received, 200_000);
        let stats = network.ends[0].tcp.stats();
        plain += stats.sent.segments;
        masked += stats.sent.retransmissions;
    }

    // Of a tenth that is lost, a few come to TCP's notice.
    assert!(masked * 25 < plain, "{masked} of {plain}");
}

#[test]
fn transfers_send_what_they_always_sent() {
    let usual = Config::default();
    let small = Config { max_packets: 24, max_window: 10, ..usual };
    let told = Config { acknowledges_redundancy: true, enhanced_retransmission: false, ..usual };
    let fixed = Config { window: Some(7), extra: 1, max_burst: 2, ..usual };
    let found: Vec<String> = [
        ("clean", usual, [0.0; 2], false),
        ("lossy", usual, [0.15, 0.05], false),
        ("wild", usual, [0.2, 0.2], true),
        ("small", small, [0.1, 0.1], true),
        ("told", told, [0.2, 0.0], true),
        ("fixed", fixed, [0.3, 0.0], false),
    ]
    .into_iter()
    .map(|(name, config, loss, is_wild)| {
        let mut network = Network::new(config, 5, loss, 80_000, 9_000);
        network.is_wild = is_wild;
        network.run();
        let [client, server] = network.ends.each_ref().map(|end| end.layer.stats());
        let all = format!("{client:?} {server:?}").bytes().fold(network.hash, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
        });
        let seconds = network.now.as_secs_f64();
        format!("{name}: {seconds:.1} s, {} combinations, {all:016x}", client.combinations_sent)
    })
    .collect();

    assert_eq!(found, KNOWN, "what was sent before is on the right");
}

const KNOWN: [&str; 6] = [
    "clean: 0.3 s, 172 combinations, 99bd1d54b4068715",
    "lossy: 0.3 s, 188 combinations, 59bbdbc3c5f2301f",
    "wild: 3.3 s, 211 combinations, d0ce91e730dc4149",
    "small: 4.9 s, 192 combinations, 6456e400ccf2aeaa",
    "told: 1.3 s, 189 combinations, e178ab3234f3f535",
    "fixed: 8.6 s, 209 combinations, 273d602059eae9ab",
];

proptest! {
    #![proptest_config(harness::cases(48))]

    #[test]
    fn all_octets_arrive_and_both_ends_close_whatever_the_network_does(
        seed: u64,
        loss in 0.0..0.35,
        there in 0_usize..60_000,
        back in prop_oneof![Just(0_usize), 0_usize..30_000],
    ) {
        let mut network = Network::new(Config::default(), seed, [loss; 2], there, back);
        network.is_wild = true;

        network.run();

        let [client, server] = &network.ends;
        prop_assert_eq!(server.received, there);
        prop_assert_eq!(client.received, back);
        prop_assert!(client.is_done() && server.is_done());
        for end in [client, server] {
            prop_assert!(end.layer.next_timeout().is_none_or(|at| at > network.now));
            prop_assert_eq!(end.layer.stats().undecodable, 0);
        }
    }
}

/// Two ends and what is on its way between them.
struct Network {
    now: Time,
    rng: Rng,
    /// Of what each end sends.
    loss: [f64; 2],
    /// Whether it doubles and reorders.
    is_wild: bool,
    ends: [End; 2],
    /// By when it arrives, and in which order it was sent.
    flying: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    sent: u64,
    /// Of the times and octets of all packets, and of what the layers held.
    hash: u64,
}

struct End {
    tcp: Connection,
    layer: Layer,
    to_write: usize,
    written: usize,
    received: usize,
}

impl End {
    fn is_done(&self) -> bool {
        matches!(self.tcp.state(), State::Closed | State::TimeWait)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.tcp.next_timeout().into_iter().chain(self.layer.next_timeout()).min()
    }
}

impl Network {
    fn new(layer: Config, seed: u64, loss: [f64; 2], there: usize, back: usize) -> Self {
        let mut rng = Rng::stream(seed, "network");
        let config = tcp::Config {
            mtu: 600,
            r2: tcp::Limit::Never,
            r2_syn: tcp::Limit::Never,
            time_wait: Duration::from_secs(10_000),
            ..tcp::Config::default()
        };
        let [a, b]: [SocketAddr; 2] =
            ["10.0.0.1:1000", "10.0.0.2:80"].map(|it| it.parse().unwrap());
        let mut client = Connection::connect(Time::ZERO, config, a, b, &mut rng);
        let mut layers = [(a, b), (b, a)].map(|(local, remote)| {
            Layer::new(layer, local, remote, Rng::stream(rng.bits(), "coefficients"))
        });
        // The server begins with the SYN, which is not lost.
        let mut packet = Vec::new();
        assert!(client.poll_transmit(Time::ZERO, &mut packet));
        layers[0].handle_outgoing(Time::ZERO, &packet);
        assert!(layers[0].poll_transmit(Time::ZERO, &mut packet));
        let header = Header::parse(&packet).unwrap();
        let syn = Segment::parse(&header, &packet, header.len).unwrap();
        let server = Connection::accept(Time::ZERO, config, b, a, &syn, &mut rng);
        let [near, far] = layers;
        let end = |tcp, layer, to_write| End { tcp, layer, to_write, written: 0, received: 0 };
        let mut network = Self {
            now: Time::ZERO,
            rng,
            loss,
            is_wild: false,
            ends: [end(client, near, there), end(server, far, back)],
            flying: BTreeMap::new(),
            sent: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        };
        network.drive(1);
        network
    }

    fn run(&mut self) {
        for _ in 0..200_000 {
            if self.ends.iter().all(End::is_done) {
                return;
            }
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let timeouts = self.ends.iter().filter_map(End::next_timeout);
            let Some(next) = timeouts.chain(arrival).min() else { panic!("nothing to wait for") };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (side, packet)) = self.flying.pop_first().unwrap();
                self.deliver(side, &packet);
            }
            for side in 0..2 {
                let end = &mut self.ends[side];
                if end.next_timeout().is_some_and(|at| at <= self.now) {
                    end.tcp.handle_timeout(self.now);
                    end.layer.handle_timeout(self.now);
                }
                self.drive(side);
            }
        }
        panic!("it does not end");
    }

    fn deliver(&mut self, side: usize, packet: &[u8]) {
        let header = Header::parse(packet).unwrap();
        let end = &mut self.ends[side];
        if header.protocol == PROTOCOL {
            let message = Message::parse(&header, packet, header.len).unwrap();
            end.layer.handle_message(self.now, &message);
        } else {
            assert_eq!(header.protocol, protocol::TCP);
            let segment = Segment::parse(&header, packet, header.len).unwrap();
            assert!(segment.payload.is_empty(), "data goes coded");
            end.tcp.handle_segment(self.now, &segment);
        }
    }

    /// Lets an end do all that it can.
    fn drive(&mut self, side: usize) {
        let mut packet = Vec::new();
        loop {
            let end = &mut self.ends[side];
            while end.tcp.poll_event().is_some() {}
            let mut buffer = [0; 700];
            while let len @ 1.. = end.tcp.read(&mut buffer) {
                let expected = (end.received..).take(len).map(octet);
                assert!(buffer[..len].iter().copied().eq(expected));
                end.received += len;
            }
            let left: Vec<_> = (end.written..end.to_write).take(5_000).map(octet).collect();
            end.written += end.tcp.write(&left);
            if end.written == end.to_write && end.tcp.state() != State::SynSent {
                end.tcp.close();
            }
            while end.tcp.poll_transmit(self.now, &mut packet) {
                end.layer.handle_outgoing(self.now, &packet);
            }
            self.send(side);
            let end = &mut self.ends[side];
            let Some(segment) = end.layer.poll_segment(self.now) else { return };
            end.tcp.handle_segment(self.now, &segment);
        }
    }

    fn send(&mut self, side: usize) {
        let mut packet = Vec::new();
        while self.ends[side].layer.poll_transmit(self.now, &mut packet) {
            assert!(packet.len() <= 600, "{} octets", packet.len());
            let layer = &self.ends[side].layer;
            let state = format!(
                "{} {} {:?} {:?} {:?} ",
                layer.window_size(),
                layer.held(),
                layer.loss(),
                layer.next_timeout(),
                self.now
            );
            self.hash =
                state.bytes().chain(packet.iter().copied()).fold(self.hash, |hash, octet| {
                    (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
                });
            let loss = self.loss[side];
            let copies = if self.is_wild && self.rng.chance(0.02) { 2 } else { 1 };
            for _ in 0..copies {
                if self.rng.chance(loss) {
                    continue;
                }
                let is_late = self.is_wild && self.rng.chance(0.05);
                let delay = if is_late { 23 } else { 20 };
                let at = self.now + Duration::from_millis(delay) + Duration::from_nanos(self.sent);
                self.flying.insert((at, self.sent), (1 - side, packet.clone()));
                self.sent += 1;
            }
            packet.clear();
        }
    }
}

fn octet(place: usize) -> u8 {
    u32::try_from(place).unwrap().wrapping_mul(2_654_435_761).to_be_bytes()[0]
}
