//! Two ends over a scripted path.

mod code;
mod contract;
mod dscp;
mod floor;
mod headers;
mod lives;
mod lone;
mod moves;
mod paths;
mod record;
mod search;
mod sender;
mod short;
mod silence;
mod slow;
mod wire;
mod work;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::contract::Refused;
use base::ip::{Spec, protocol};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::{Config, Event, PATHS, PathId, Stats, Tunnel};
use crate::record::LONGEST_OUTER;

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn packets_come_out_as_they_went_in() {
    let mut path = Path::new(1, Config::default());

    path.feed(0, 100, 200, MILLISECOND);
    path.run(Time::ZERO + 30 * MILLISECOND);
    assert!(!path.ends[0].is_idle(), "the other end lacks some");
    path.run(secs(5));

    assert_eq!(path.taken_out(1), path.put_in);
    assert!(path.ends[0].is_idle());
    assert_eq!(path.stats(0).sent.repairs_sent, 0);
    assert_eq!(path.stats(0).sent.sources_resent, 0);
}

#[test]
fn losses_both_ways_are_made_good() {
    for loss in [0.01, 0.1, 0.3, 0.5] {
        let mut path = Path::new(
            2,
            Config { deadline: Some(secs(30).since(Time::ZERO)), ..Config::default() },
        );
        path.loss = loss;

        path.feed(0, 3_000, 1_000, MILLISECOND);
        path.run(secs(60));

        // While the rate is still being found the queue sheds some.
        let out = path.taken_out(1);
        let shed = path.stats(0).inner.queue_dropped;
        assert_eq!(out.len() as u64 + shed, 3_000, "loss {loss}: {:?}", path.stats(1));
        assert!(shed < 100, "loss {loss}: {shed}");
        let mut put_in = path.put_in.iter();
        assert!(out.iter().all(|packet| put_in.any(|other| other == packet)), "loss {loss}");
    }
}

#[test]
fn reports_do_not_keep_packets_back() {
    let mut path = Path::new(3, Config::default());

    // One direction only, for so long that the reports alone are more than a window.
    path.feed(0, 20_000, 1_000, MILLISECOND);
    path.run(secs(10));
    path.feed(1, 10, 100, 100 * MILLISECOND);
    path.run(secs(12));

    let (answers, sent_at) = (&path.out[0], secs(10));
    assert!(path.stats(1).sent.reports_sent > 400, "{:?}", path.stats(1));
    assert_eq!(answers.len(), 10, "{:?}", path.ends[1].estimates());
    for (index, (at, _)) in (0..).zip(answers) {
        let took = at.since(sent_at + 100 * MILLISECOND * index);
        assert!(took < 100 * MILLISECOND, "{index}: {took:?}");
    }
}

#[test]
fn a_full_window_waits_for_reports() {
    let config = Config { window: 64, ..Config::default() };
    let mut path = Path::new(3, config);
    path.delay = 100 * MILLISECOND;

    path.feed(0, 2_000, 1_000, MILLISECOND);
    path.run(secs(10));

    let shed = path.stats(0).inner.queue_dropped;
    assert_eq!(path.out[1].len() as u64 + shed, 2_000, "{:?}", path.stats(0));
}

#[test]
fn packets_are_sent_after_all_before_them_were_given_up() {
    let mut path = Path::new(5, Config::default());
    path.feed(0, 1, 500, MILLISECOND);
    path.run(secs(1));

    path.loss = 1.0;
    path.feed(0, 1, 500, MILLISECOND);
    path.run(secs(5));
    path.loss = 0.0;
    let sent_at = path.now;
    path.feed(0, 1, 500, MILLISECOND);
    path.run(secs(8));

    assert_eq!(path.stats(0).sent.sources_expired, 1);
    assert_eq!(path.out[1].len(), 2, "{:?}", path.stats(0));
    assert!(path.out[1][1].0.since(sent_at) < 100 * MILLISECOND);
}

#[test]
fn a_dead_path_is_not_flooded() {
    let mut path = Path::new(6, Config::default());
    path.feed(0, 100, 1_000, MILLISECOND);
    path.run(secs(1));

    path.loss = 1.0;
    path.feed(0, 1, 1_000, MILLISECOND);
    path.run(secs(1) + 500 * MILLISECOND);
    let before = path.stats(0).sent.datagrams_sent;
    path.feed(0, 20_000, 1_000, 50 * Duration::from_micros(1));
    path.run(secs(3));

    let sent = path.stats(0).sent.datagrams_sent - before;
    assert!(sent < 100, "{sent} of 20,000");
}

#[test]
fn a_shorter_mtu_loses_packets_but_not_the_tunnel() {
    let mut path = Path::new(4, Config::default());

    path.feed(0, 400, 1_300, MILLISECOND);
    path.run(secs(0) + 200 * MILLISECOND);
    path.mtu = 1_320;
    path.feed(0, 400, 1_000, 5 * MILLISECOND);
    path.run(secs(5));

    let short = path.out[1].iter().filter(|(_, packet)| packet.len() < 1_300).count();
    assert_eq!(short, 400, "{:?} {:?}", path.ends[0].estimates(), path.stats(0));
}

#[test]
fn a_first_link_that_takes_longer_packets_than_there_are_is_not_believed() {
    let mut path = Path::new(1, Config::default());
    (path.mtu, path.swallowed_beyond, path.records) = (70_000, 70_000, true);
    path.feed(0, 100, 200, MILLISECOND);
    path.run(secs(1));

    path.ends[0].handle_first_link(path.now, PathId::FIRST, 65_535);
    path.feed(0, 600, 200, 100 * MILLISECOND);
    path.run(secs(70));

    let longest = path.sent.iter().map(|(_, octets)| octets.len()).max();
    assert!(longest.is_some_and(|it| (9_000..=LONGEST_OUTER).contains(&it)), "{longest:?}");
}

#[test]
fn lone_packets_seldom_wait_for_a_report() {
    let mut path = Path::new(4, Config::default());
    path.delay = 50 * MILLISECOND;
    path.loss = 0.2;

    path.feed(0, 2_000, 64, 100 * MILLISECOND);
    path.run(secs(210));

    // A report comes after a round trip, and what it asks for another half later.
    let times: Vec<Time> = path.out[1].iter().map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 2_000);
    let late = late(&times, Time::ZERO);
    assert!(late <= 20, "{late}: {:?}", path.stats(0));
}

#[test]
fn sparse_packets_seldom_wait_for_a_report_beside_a_flow_that_fills_the_path() {
    let config = Config { max_rate: Some(9.9e6), ..Config::default() };
    let mut path = Path::new(5, config);
    path.delay = 50 * MILLISECOND;
    path.loss = 0.02;

    // Nine tenths of the rate, in trains.
    for _ in 0..20 {
        path.feed(0, 1_040, 1_300, 25 * MILLISECOND);
    }
    path.run(secs(5));
    let before = path.out[1].len();
    let began = path.now;
    path.feed_flow(0, (200, 64, 100 * MILLISECOND), 8);
    path.run(secs(26));

    let sparse = path.out[1][before..].iter().filter(|(_, packet)| packet.len() < 200);
    let times: Vec<Time> = sparse.map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 200);
    let late = late(&times, began);
    assert!(late <= 1, "{late}: {:?}", path.stats(0));
}

/// How many of the packets that went in every 100 ms from `began` on took more than 130 ms.
fn late(times: &[Time], began: Time) -> usize {
    let went_in = (0..).map(|index| began + 100 * MILLISECOND * index);
    times.iter().zip(went_in).filter(|(at, went_in)| at.since(*went_in) > 130 * MILLISECOND).count()
}

/// What happens between two ends, in virtual time.
struct Path {
    now: Time,
    ends: [Tunnel; 2],
    delay: Duration,
    /// How long the link of each direction takes for an octet, and when it is free.
    each_octet: Duration,
    free_at: [Time; 2],
    /// Of each direction.
    loss: f64,
    /// How many datagrams are lost next, before chance decides: the rest of a burst.
    burst: u32,
    /// Octets of the longest outer packet that the near end's system takes.
    mtu: usize,
    /// Octets of the longest outer packet that is not swallowed on the way.
    swallowed_beyond: usize,
    /// What the ends last said of the longest packet that they do not cut.
    announced: [usize; 2],
    rng: Rng,
    /// When what comes: the end, number and payload.
    under_way: BTreeMap<(Time, u64), (usize, u64, Vec<u8>)>,
    sequence: u64,
    planned: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    put_in: Vec<Vec<u8>>,
    out: [Vec<(Time, Vec<u8>)>; 2],
    events: Vec<(usize, Event)>,
    /// Whether `sent` is filled: the DSCP and the octets of what the near end sends.
    records: bool,
    sent: Vec<(u8, Vec<u8>)>,
}

impl Path {
    fn new(seed: u64, config: Config) -> Self {
        let end = |name| Tunnel::new(Time::ZERO, config, Rng::stream(seed, name));
        let ends = [end("near"), end("far")];
        Self {
            now: Time::ZERO,
            announced: [ends[0].whole(), ends[1].whole()],
            ends,
            delay: 20 * MILLISECOND,
            each_octet: Duration::ZERO,
            free_at: [Time::ZERO; 2],
            loss: 0.0,
            burst: 0,
            mtu: 1_500,
            swallowed_beyond: 1_500,
            rng: Rng::stream(seed, "path"),
            under_way: BTreeMap::new(),
            sequence: 0,
            planned: BTreeMap::new(),
            put_in: Vec::new(),
            out: [Vec::new(), Vec::new()],
            events: Vec::new(),
            records: false,
            sent: Vec::new(),
        }
    }

    /// Plans that `count` packets with `payload` octets go in at an end.
    fn feed(&mut self, end: usize, count: u32, payload: usize, interval: Duration) {
        self.feed_flow(end, (count, payload, interval), 9);
    }

    /// The same to another port.
    fn feed_flow(&mut self, end: usize, feed: (u32, usize, Duration), port: u8) {
        let (count, payload, interval) = feed;
        for index in 0..count {
            let packet = datagram(payload, index, port);
            self.put_in.push(packet.clone());
            let at = self.now + interval * index;
            self.sequence += 1;
            self.planned.insert((at, self.sequence), (end, packet));
        }
    }

    /// Plans that a TCP segment with nothing but an acknowledgement goes in at the near end after `wait`.
    fn feed_acknowledgement(&mut self, wait: Duration) {
        let [from, to] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        let mut packet = Vec::new();
        Spec::new(from, to, protocol::TCP).emit(20, &mut packet);
        // Ports, numbers, an offset of five words, and ACK.
        packet
            .extend_from_slice(&[0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 9, 9, 0, 0, 0, 0]);
        self.sequence += 1;
        self.planned.insert((self.now + wait, self.sequence), (0, packet));
    }

    fn run(&mut self, until: Time) {
        loop {
            self.settle();
            let mut next = [self.under_way.keys().next(), self.planned.keys().next()]
                .into_iter()
                .flatten()
                .map(|&(at, _)| at)
                .min();
            for end in &self.ends {
                let timeout = end.next_timeout();
                assert!(timeout.is_none_or(|at| at > self.now), "a driver would spin");
                next = earliest(next, timeout);
            }
            let Some(next) = next.filter(|&next| next <= until) else { break };
            assert!(next >= self.now, "time goes on");
            self.now = next;
            while let Some(entry) = self.planned.first_entry().filter(|it| it.key().0 <= next) {
                let (end, packet) = entry.remove();
                let _: Result<(), Refused> = self.ends[end].handle_packet(next, &packet);
            }
            while let Some(entry) = self.under_way.first_entry().filter(|it| it.key().0 <= next) {
                let (end, number, payload) = entry.remove();
                self.ends[end].handle_datagram(next, number, false, &payload);
            }
            for end in &mut self.ends {
                end.handle_timeout(next);
            }
        }
    }

    fn settle(&mut self) {
        for end in 0..2 {
            let mut buffer = Vec::new();
            while self.ends[end].poll_packet(self.now, &mut buffer) {
                self.out[end].push((self.now, buffer.clone()));
            }
            let whole = self.ends[end].whole();
            while let Some(event) = self.ends[end].poll_event() {
                if matches!(event, Event::Mtu(_)) {
                    self.announced[end] = whole;
                }
                self.events.push((end, event));
            }
            assert_eq!(self.announced[end], whole, "a change of the MTU is not announced");
            while let Some(transmit) =
                self.ends[end].poll_transmit(self.now, PathId::FIRST, &mut buffer)
            {
                self.sequence += 1;
                if self.records && end == 0 {
                    self.sent.push((transmit.dscp, buffer.clone()));
                }
                let payload = buffer.len();
                let free_at = self.free_at[end].max(self.now)
                    + self.each_octet * u32::try_from(payload).unwrap();
                if payload + Config::default().overhead > self.mtu {
                    self.ends[end].handle_too_big(self.now, PathId::FIRST, payload);
                    continue;
                }
                self.free_at[end] = free_at;
                let is_swallowed = payload + Config::default().overhead > self.swallowed_beyond;
                let is_in_burst = self.burst > 0;
                self.burst = self.burst.saturating_sub(1);
                if !is_in_burst && !self.rng.chance(self.loss) && !is_swallowed {
                    let key = (free_at + self.delay, self.sequence);
                    self.under_way.insert(key, (1 - end, transmit.number, buffer.clone()));
                }
            }
        }
    }

    /// An end is told that its peer is heard from another address.
    fn change(&mut self, end: usize) {
        let Config { max_mtu, overhead, .. } = Config::default();
        self.ends[end].handle_path_changed(self.now, PathId::FIRST, max_mtu, overhead);
        self.ends[end].handle_timeout(self.now);
    }

    fn taken_out(&self, end: usize) -> Vec<Vec<u8>> {
        self.out[end].iter().map(|(_, packet)| packet.clone()).collect()
    }

    fn stats(&self, end: usize) -> Stats {
        self.ends[end].stats()
    }
}

fn datagram(payload: usize, index: u32, port: u8) -> Vec<u8> {
    let [source, destination] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
    let mut packet = Vec::new();
    Spec::new(source, destination, protocol::UDP).emit(8 + payload, &mut packet);
    packet.extend_from_slice(&[0, 7, 0, port]);
    packet.extend_from_slice(&u16::try_from(8 + payload).unwrap().to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend(index.to_be_bytes().into_iter().chain([0xa5; 1500]).take(payload));
    packet
}

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}
