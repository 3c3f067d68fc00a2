//! Two nodes and the link between them, through the public interface.

mod rules;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ip::{Header, Spec, protocol, udp};
use crate::rng::Rng;
use crate::time::{Time, earliest};

const DELAY: Duration = Duration::from_millis(50);
/// Time that a packet occupies the link.
const SLOT: Duration = Duration::from_millis(10);
const A: usize = 0;
const B: usize = 1;

#[test]
fn a_packet_comes_out_as_it_went_in() {
    for (source, destination) in [("10.0.0.1:1", "10.9.0.2:2"), ("[fd00::1]:1", "[fd09::2]:2")] {
        for profile in [Profile::Default, Profile::Seed] {
            let mut pair = Pair::new(Config::new(profile));
            let packet = datagram(source, destination, 0);

            pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
            pair.run(|_| Fate::ARRIVES);

            assert_eq!(pair.delivered, [packet]);
            assert_eq!(pair.hops[A].stats().packets_held, 0);
        }
    }
}

#[test]
fn on_the_wire_it_is_protocol_253_with_eight_octets_more() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    let mut out = Vec::new();

    let to = pair.hops[A].poll_transmit(pair.now, Link(0), &mut out);

    let header = Header::parse(&out).unwrap();
    assert_eq!(to, Some(Peer(1)));
    assert_eq!(header.protocol, protocol::EXPERIMENT);
    assert_eq!(header.total_len, packet.len() + wire::HEADER);
    assert_eq!(out[20 + wire::HEADER..], packet[20..]);
}

#[test]
fn ours_repeats_a_packet_as_soon_as_a_later_one_is_acknowledged() {
    let mut pair = Pair::new(quiet(Profile::Default));
    pair.send(0..4);

    pair.run(|sent| if sent.is_data && sent.number == 0 { Fate::LOST } else { Fate::ARRIVES });

    assert_eq!(pair.order(), [1, 2, 3, 0]);
    assert_eq!(pair.hops[A].stats().data_repeated, 1);
    // Overtaken at 70 ms; the acknowledgement waits 20 ms and takes 50; then 50 more.
    assert!(pair.delivered_at[3] < Duration::from_millis(250), "{:?}", pair.delivered_at);
}

#[test]
fn the_seed_waits_for_its_timer() {
    let mut pair = Pair::new(quiet(Profile::Seed));
    pair.send(0..4);

    pair.run(|sent| if sent.is_data && sent.number == 0 { Fate::LOST } else { Fate::ARRIVES });

    assert_eq!(pair.order(), [1, 2, 3, 0]);
    assert!(pair.delivered_at[3] > Duration::from_millis(280), "{:?}", pair.delivered_at);
}

#[test]
fn the_last_packet_of_a_burst_is_probed_for() {
    let mut pair = Pair::new(quiet(Profile::Default));
    pair.send(0..10);
    pair.run(|_| Fate::ARRIVES);
    let start = pair.now;
    pair.send(10..12);

    let first = pair.sent;
    pair.run(
        |sent| if sent.is_data && sent.number == first + 1 { Fate::LOST } else { Fate::ARRIVES },
    );

    assert_eq!(pair.order(), (0..12).collect::<Vec<_>>());
    let took = pair.delivered_at[11] - start.since(Time::ZERO);
    assert!(took < 3 * 2 * DELAY + SLOT * 3, "{took:?}");
}

#[test]
fn a_packet_given_up_does_not_freeze_the_acknowledgements() {
    for profile in [Profile::Default, Profile::Seed] {
        let mut pair = Pair::new(Config { retries: 2, ..quiet(profile) });
        pair.send(0..1);

        pair.run(|sent| if sent.is_data { Fate::LOST } else { Fate::ARRIVES });
        assert_eq!(pair.hops[A].stats().packets_abandoned, 1);
        assert_eq!(pair.hops[A].poll_event(), Some(Event::GaveUp { peer: Peer(1), packets: 1 }));
        // More than the numbers of a flow go round.
        pair.send(1..31);
        for _ in 0..20 {
            pair.run(|_| Fate::ARRIVES);
            pair.send(100..130);
        }
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), 30 + 20 * 30, "{profile:?}");
        assert_eq!(pair.hops[A].stats().packets_abandoned, 1);
        assert_eq!(pair.hops[B].stats().data_duplicate, 0, "{profile:?}");
    }
}

#[test]
fn acknowledgements_ride_on_packets_that_go_their_way() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for number in 0..20 {
        let there = datagram("10.0.0.1:1", "10.9.0.2:2", number);
        let back = datagram("10.9.0.2:2", "10.0.0.1:1", number);
        pair.hops[A].handle_packet(pair.now, Peer(1), &there).unwrap();
        pair.hops[B].handle_packet(pair.now, Peer(0), &back).unwrap();
    }

    pair.run(|_| Fate::ARRIVES);

    let stats = pair.hops[A].stats();
    assert!(stats.acks_ridden >= 10, "{stats:?}");
    assert!(stats.acks_sent <= 2, "{stats:?}");
}

#[test]
fn an_idle_lossy_link_sends_segments_twice_and_a_clean_one_does_not() {
    let config = Config::new(Profile::Default);
    let mut pair = Pair::new(config);
    let send = |pair: &mut Pair, number: u32| {
        let packet = segment(number * 100, 100, 0);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
        pair.run(|_| Fate::ARRIVES);
    };
    send(&mut pair, 0);
    assert_eq!(pair.hops[A].stats().data_spare, 1, "nothing is known of the link yet");

    for number in 1..41 {
        send(&mut pair, number);
    }

    assert!(pair.hops[A].stats().data_spare < 20, "{:?}", pair.hops[A].stats());
    assert_eq!(pair.delivered.len(), 41);
}

#[test]
fn a_repair_makes_a_loss_good_without_a_round_trip() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    for number in 0..8 {
        let packet = segment(number * 100, 100, 0);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    }

    pair.run(|sent| if sent.number == 2 { Fate::LOST } else { Fate::ARRIVES });

    let (a, b) = (pair.hops[A].stats(), pair.hops[B].stats());
    assert_eq!((b.packets_recovered, a.data_repeated), (1, 0), "{a:?} {b:?}");
    assert_eq!(pair.delivered.len(), 8);
    let last = pair.delivered_at.last().unwrap();
    assert!(
        *last < 10 * SLOT + DELAY + SLOT,
        "the repair goes out right behind the burst: {last:?}"
    );
}

#[test]
fn datagrams_wait_for_nothing_and_are_sent_once() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    pair.send(0..5);

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.hops[A].stats().data_sent, 5);
}

#[test]
fn a_full_next_hop_is_told_to_the_sender_and_nothing_is_lost() {
    // B passes on what it gets to C, which never answers.
    let config =
        Config { congestion: 4, clear: 2, queue: 8, window: (4, 4), ..quiet(Profile::Default) };
    let mut pair = Pair::new(config);
    pair.hops[B].add_peer(Peer(2), peer_config(1));
    pair.forwards_to = Some(Peer(2));
    pair.send(0..8);
    pair.until = Some(Time::from_nanos(20_000_000_000));

    pair.run(|_| Fate::ARRIVES);

    let (a, b) = (pair.hops[A].stats(), pair.hops[B].stats());
    assert!(a.congestion_received > 0);
    assert_eq!(b.packets_full, 0, "{b:?}");
    assert_eq!(a.packets_held + b.packets_held, 8);
}

#[test]
fn the_end_of_congestion_is_told() {
    let config = Config { congestion: 4, clear: 2, window: (4, 127), ..quiet(Profile::Default) };
    let mut pair = Pair::new(config);
    pair.hops[B].add_peer(Peer(2), peer_config(1));
    pair.forwards_to = Some(Peer(2));
    pair.send(0..30);
    pair.until = Some(Time::from_nanos(1_000_000_000));
    pair.run(|_| Fate::ARRIVES);
    assert!(pair.hops[A].stats().congestion_received > 0);

    // C takes everything from now on.
    pair.hops[B].remove_peer(Peer(2), |_, _| {});
    pair.forwards_to = None;
    pair.until = None;
    pair.send(30..60);
    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.hops[A].stats().packets_held, 0);
}

#[test]
fn a_packet_that_does_not_fit_is_refused_with_what_does() {
    let mut hop = Pair::new(Config::new(Profile::Default)).hops.swap_remove(A);
    let mut packet = Vec::new();
    let payload = [0; 1500 - 28];
    let (source, destination) = ("10.0.0.1:1".parse().unwrap(), "10.9.0.2:2".parse().unwrap());
    udp::Datagram { source, destination, payload: &payload }.emit(&mut packet);

    let refused = hop.handle_packet(Time::ZERO, Peer(1), &packet);

    assert_eq!(refused, Err(Refused::TooBig { mtu: 1492 }));
    assert_eq!(hop.stats().packets_too_big, 1);
}

#[test]
fn what_is_not_acknowledged_can_take_another_way() {
    let mut pair = Pair::new(quiet(Profile::Default));
    pair.send(0..3);
    let mut out = Vec::new();
    assert!(pair.hops[A].poll_transmit(pair.now, Link(0), &mut out).is_some());

    let mut orphans = Vec::new();
    pair.hops[A].remove_peer(Peer(1), |packet, _| orphans.push(number_of(packet)));

    assert_eq!(orphans, [0, 1, 2]);
    assert_eq!(pair.hops[A].stats().packets_held, 0);
    assert_eq!(pair.hops[A].poll_transmit(pair.now, Link(0), &mut out), None);
}

#[test]
fn only_flows_that_have_moved_are_taken_back() {
    let mut pair = Pair::new(quiet(Profile::Default));
    pair.send(0..3);

    let mut asked = 0;
    let mut orphans = Vec::new();
    for is_moved in [false, true, true] {
        let ask = |flow: &crate::ip::FlowKey, from| {
            assert_eq!((flow.protocol, from), (protocol::UDP, None));
            asked += 1;
            is_moved
        };
        pair.hops[A].reroute(Peer(1), ask, |packet, _| orphans.push(number_of(packet)));
    }

    // Of a flow without packets nobody asks.
    assert_eq!((asked, &orphans[..]), (2, &[0, 1, 2][..]));
}

#[test]
fn a_segment_that_is_on_its_way_is_not_sent_again() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for seq in [1000, 1100, 1000, 1100, 1200] {
        let packet = segment(seq, 100, 0);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    }

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 3);
    assert_eq!(pair.hops[A].stats().packets_absorbed, 2);
}

#[test]
fn a_reset_discards_what_waits_for_the_connection() {
    const RST: u8 = 0x04;
    let mut pair = Pair::new(quiet(Profile::Default));
    for (seq, flags) in [(1000, 0), (1100, 0), (1200, RST)] {
        let packet = segment(seq, if flags == RST { 0 } else { 100 }, flags);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    }

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 1);
    assert_eq!(pair.hops[A].stats().packets_reset, 2);
}

#[test]
fn the_last_hop_puts_segments_in_order_and_gives_up_in_time() {
    let start = u32::MAX - 149;
    let mut arrivals = Arrivals::new();

    arrivals.bring(&segment(start, 100, 0));
    arrivals.bring(&segment(start.wrapping_add(200), 100, 0));
    assert_eq!(arrivals.restored(), [start]);

    arrivals.bring(&segment(start.wrapping_add(100), 100, 0));
    assert_eq!(arrivals.restored(), [start.wrapping_add(100), start.wrapping_add(200)]);

    arrivals.bring(&segment(start.wrapping_add(500), 100, 0));
    assert_eq!(arrivals.restored(), []);
    arrivals.wait(Duration::from_secs(4));
    assert_eq!(arrivals.restored(), [start.wrapping_add(500)]);
    assert_eq!(arrivals.hop.stats().gaps_given_up, 1);
}

#[test]
fn what_comes_back_to_be_sent_on_is_not_put_in_order() {
    let mut arrivals = Arrivals::new();
    arrivals.hop.add_peer(Peer(2), peer_config(1));
    arrivals.bring(&segment(1_000, 100, 0));
    arrivals.bring(&segment(1_200, 100, 0));
    assert_eq!(arrivals.restored(), [1_000]);

    // What is kept back goes at once when the flow turns out to go on.
    arrivals.hop.handle_packet(Time::ZERO, Peer(2), &segment(1_000, 100, 0)).unwrap();
    assert_eq!(arrivals.restored(), [1_200]);
    arrivals.bring(&segment(1_400, 100, 0));
    assert_eq!(arrivals.restored(), [1_400]);

    // Once nothing comes back any more, the flow leaves HBH here.
    for number in 0..80 {
        arrivals.bring(&segment(2_000 + number * 100, 100, 0));
    }
    arrivals.restored();
    arrivals.bring(&segment(20_000, 100, 0));
    assert_eq!(arrivals.restored(), []);
}

/// A node to which a peer brings packets, and what it restores.
struct Arrivals {
    now: Time,
    hop: Hop,
    seq: wire::Seq,
}

impl Arrivals {
    fn new() -> Self {
        let mut hop = Hop::new(Config::new(Profile::Default), Rng::stream(1, "hbh"));
        hop.add_peer(Peer(0), peer_config(0));
        Self { now: Time::ZERO, hop, seq: wire::Seq(0) }
    }

    fn bring(&mut self, packet: &[u8]) {
        let mut message = packet[..20].to_vec();
        let payload = &packet[20..];
        let data = wire::Data {
            flow: wire::FlowId(7),
            seq: self.seq,
            wants_ack: false,
            outstanding: 0,
            has_hole: false,
            is_patient: false,
            copy: 0,
            protocol: packet[9],
            older: wire::Older::default(),
            payload,
        };
        data.emit(&mut message);
        super::transmit::seal(&mut message, 20, protocol::EXPERIMENT);
        self.seq = self.seq.plus(1);
        self.hop.handle_message(self.now, Peer(0), &message);
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
        self.hop.handle_timeout(self.now);
    }

    /// The sequence numbers of what was restored.
    fn restored(&mut self) -> Vec<u32> {
        let mut out = Vec::new();
        std::iter::from_fn(|| {
            self.hop.poll_restored(&mut out)?;
            Some(u32::from_be_bytes(out[24..28].try_into().unwrap()))
        })
        .collect()
    }
}

#[test]
fn damaged_and_foreign_packets_are_counted_and_dropped() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    let mut message = Vec::new();
    pair.send(0..1);
    assert!(pair.hops[A].poll_transmit(Time::ZERO, Link(0), &mut message).is_some());
    let mut out = Vec::new();
    let mut take = |octets: &[u8], from| {
        pair.hops[B].handle_message(Time::ZERO, from, octets);
        assert_eq!(pair.hops[B].poll_restored(&mut out), None);
    };

    let mut flipped = message.clone();
    *flipped.last_mut().unwrap() ^= 1;
    take(&flipped, Peer(0));
    take(&message[..27], Peer(0));
    take(&datagram("10.0.0.1:1", "10.9.0.2:2", 0), Peer(0));
    take(&message, Peer(77));

    let stats = pair.hops[B].stats();
    assert_eq!(
        (stats.messages_damaged, stats.messages_malformed, stats.messages_unknown_peer),
        (1, 2, 1)
    );
}

#[test]
fn flows_and_packets_stay_within_their_bounds() {
    let config = Config { flows: 16, packets: 40, queue: 10, ..Config::new(Profile::Default) };
    let mut hop = Hop::new(config, Rng::stream(1, "hbh"));
    hop.add_peer(Peer(1), peer_config(0));

    for port in 1..1000 {
        let packet = datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", 0);
        let _ = hop.handle_packet(Time::ZERO, Peer(1), &packet);
    }

    let stats = hop.stats();
    assert_eq!((stats.flows, stats.packets_held), (16, 16));
    assert_eq!(stats.packets_taken + stats.packets_full, 999);
}

#[test]
fn idle_flows_are_forgotten_and_the_timers_end() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    pair.send(0..3);

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.hops[A].stats().flows, 0);
    assert_eq!(pair.hops[B].stats().flows, 0);
    assert_eq!(pair.hops[A].next_timeout(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_arrives_once_or_is_given_up(
        fates in prop::collection::vec((0_u8..10, 0_u64..80), 1..200),
        count in 1_u32..60,
        is_seed in any::<bool>(),
    ) {
        let profile = if is_seed { Profile::Seed } else { Profile::Default };
        let mut pair = Pair::new(Config { queue: 1_000, ..Config::new(profile) });
        pair.send(0..count);

        pair.run(|sent| {
            let (kind, late) = fates[sent.number % fates.len()];
            match kind {
                0..3 => Fate::LOST,
                3 => Fate { copies: 2, late: Duration::from_millis(late) },
                4 => Fate { copies: 1, late: Duration::from_millis(late) },
                _ => Fate::ARRIVES,
            }
        });

        let mut order = pair.order();
        order.sort_unstable();
        let stats = pair.hops[A].stats();
        let given_up = stats.packets_abandoned + stats.packets_expired;
        let before = order.len();
        order.dedup();
        prop_assert_eq!(order.len(), before, "no packet twice");
        prop_assert!(order.len() as u64 + given_up >= u64::from(count));
        prop_assert_eq!(pair.hops[A].stats().packets_held, 0);
        prop_assert_eq!(pair.hops[A].next_timeout(), None);
        prop_assert_eq!(pair.hops[B].next_timeout(), None);
    }

    #[test]
    fn no_octets_upset_a_node(octets in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut pair = Pair::new(Config::new(Profile::Default));
        pair.send(0..2);
        let mut message = Vec::new();
        Spec::new("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), 253)
            .emit(octets.len(), &mut message);
        message.extend_from_slice(&octets);

        pair.hops[B].handle_message(Time::ZERO, Peer(0), &message);
        pair.hops[B].handle_message(Time::ZERO, Peer(0), &octets);
        let _ = pair.hops[A].handle_packet(Time::ZERO, Peer(1), &octets);
        pair.run(|_| Fate::ARRIVES);
    }
}

/// What becomes of a transmission.
#[derive(Clone, Copy)]
struct Fate {
    copies: u8,
    late: Duration,
}

impl Fate {
    const ARRIVES: Self = Self { copies: 1, late: Duration::ZERO };
    const LOST: Self = Self { copies: 0, late: Duration::ZERO };
}

/// A transmission.
struct Sent {
    /// Which one, counted over both directions.
    number: usize,
    /// Whether A sent it, with a packet in it.
    is_data: bool,
}

/// Two nodes and a link that carries one packet a slot each way.
struct Pair {
    now: Time,
    hops: Vec<Hop>,
    busy_until: [Time; 2],
    flying: BTreeMap<(Time, usize), (usize, Vec<u8>)>,
    sent: usize,
    forwards_to: Option<Peer>,
    until: Option<Time>,
    delivered: Vec<Vec<u8>>,
    delivered_at: Vec<Duration>,
}

impl Pair {
    fn new(config: Config) -> Self {
        let mut hops: Vec<Hop> = (0..2).map(|n| Hop::new(config, Rng::stream(n, "hbh"))).collect();
        hops[A].add_peer(Peer(1), peer_config(0));
        hops[B].add_peer(Peer(0), peer_config(0));
        Self {
            now: Time::ZERO,
            hops,
            busy_until: [Time::ZERO; 2],
            flying: BTreeMap::new(),
            sent: 0,
            forwards_to: None,
            until: None,
            delivered: Vec::new(),
            delivered_at: Vec::new(),
        }
    }

    fn send(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let packet = datagram("10.0.0.1:1", "10.9.0.2:2", number);
            self.hops[A].handle_packet(self.now, Peer(1), &packet).unwrap();
        }
    }

    /// Runs until nothing is left to happen.
    fn run(&mut self, mut fate: impl FnMut(&Sent) -> Fate) {
        loop {
            for from in [A, B] {
                self.transmit(from, &mut fate);
            }
            let arrival = self.flying.first_key_value().map(|(&(at, _), _)| at);
            let timer = earliest(self.hops[A].next_timeout(), self.hops[B].next_timeout());
            let free = self.busy_until.iter().copied().filter(|&at| at > self.now).min();
            let Some(next) = earliest(earliest(arrival, timer), free) else { return };
            assert!(next > self.now || arrival == Some(next), "time must pass");
            if self.until.is_some_and(|until| next > until) {
                return;
            }
            self.now = next;
            while let Some((&(at, number), _)) = self.flying.first_key_value()
                && at <= self.now
            {
                let (to, packet) = self.flying.remove(&(at, number)).unwrap();
                self.arrive(to, &packet);
            }
            for at in [A, B] {
                self.hops[at].handle_timeout(self.now);
                let next = self.hops[at].next_timeout();
                assert!(next.is_none_or(|at| at > self.now), "a driver would spin");
                self.route(at);
            }
        }
    }

    fn transmit(&mut self, from: usize, fate: &mut impl FnMut(&Sent) -> Fate) {
        if self.busy_until[from] > self.now {
            return;
        }
        let mut out = Vec::new();
        if self.hops[from].poll_transmit(self.now, Link(0), &mut out).is_none() {
            return;
        }
        self.busy_until[from] = self.now + SLOT;
        let is_data = from == A && out.len() > 80;
        let fate = fate(&Sent { number: self.sent, is_data });
        self.sent += 1;
        for copy in 0..fate.copies {
            let at = self.now + SLOT + DELAY + fate.late * u32::from(copy + 1);
            self.flying.insert((at, self.sent * 2 + usize::from(copy)), (1 - from, out.clone()));
        }
    }

    fn arrive(&mut self, to: usize, packet: &[u8]) {
        let from = Peer(u32::try_from(1 - to).unwrap());
        self.hops[to].handle_message(self.now, from, packet);
        self.route(to);
    }

    fn route(&mut self, at: usize) {
        let mut out = Vec::new();
        while self.hops[at].poll_restored(&mut out).is_some() {
            if let (B, Some(peer)) = (at, self.forwards_to) {
                self.hops[B].handle_packet(self.now, peer, &out).unwrap();
            } else if at == B {
                self.delivered.push(out.clone());
                self.delivered_at.push(self.now.since(Time::ZERO));
            }
        }
    }

    fn order(&self) -> Vec<u32> {
        self.delivered.iter().map(|packet| number_of(packet)).collect()
    }
}

/// A configuration in which nothing is sent without need.
fn quiet(profile: Profile) -> Config {
    Config { redundancy: Redundancy::Off, ..Config::new(profile) }
}

fn peer_config(link: u32) -> PeerConfig {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    PeerConfig {
        link: Link(link),
        local: address("10.1.0.1"),
        remote: address("10.1.0.2"),
        mtu: 1500,
    }
}

/// A datagram of 100 octets that carries a number.
fn datagram(source: &str, destination: &str, number: u32) -> Vec<u8> {
    let mut payload = [0; 72];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut packet = Vec::new();
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    udp::Datagram { source, destination, payload: &payload }.emit(&mut packet);
    packet
}

fn number_of(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[28..32].try_into().unwrap())
}

fn segment(seq: u32, len: usize, flags: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    let spec = Spec::new("10.0.0.1".parse().unwrap(), "10.9.0.2".parse().unwrap(), protocol::TCP);
    spec.emit(20 + len, &mut packet);
    packet.extend([0, 1, 0, 2]);
    packet.extend(seq.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet.resize(packet.len() + len, 0);
    packet
}
