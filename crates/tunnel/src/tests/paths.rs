//! Two ends with several paths between them.

use std::collections::BTreeMap;
use std::time::Duration;

use base::ip::{Spec, protocol};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::{MILLISECOND, datagram, secs};
use crate::secure::OUTER_V4;
use crate::silence::Silence;
use crate::{Config, Event, PathId, Tunnel};

/// A path in both directions: a queue before a link of some rate, then a delay; some datagrams get lost.
#[derive(Clone, Copy)]
struct Line {
    delay: Duration,
    /// In bit/s.
    rate: f64,
    /// Octets that wait before the link at most.
    room: f64,
    loss: f64,
    /// Octets of the longest outer packet that passes.
    mtu: usize,
    /// When each direction is free again.
    free: [Time; 2],
    octets: [u64; 2],
}

impl Line {
    fn new(delay: u32, rate: f64) -> Self {
        let room = rate / 8.0 * 0.1;
        let free = [Time::ZERO; 2];
        Self { delay: MILLISECOND * delay, rate, room, loss: 0.0, mtu: 1_500, free, octets: [0; 2] }
    }
}

/// Two ends and the lines between them, in virtual time.
struct Net {
    now: Time,
    ends: [Tunnel; 2],
    lines: Vec<Line>,
    rng: Rng,
    /// When what comes: the end, number and payload.
    under_way: BTreeMap<(Time, u64), (usize, u64, Vec<u8>)>,
    sequence: u64,
    /// Packets that go in at the near end, each interval, while there is room.
    source: Option<(Duration, Time, usize)>,
    sent: u32,
    /// Whether the far end sends what the near end does.
    is_both_ways: bool,
    out: Vec<(Time, Vec<u8>)>,
    events: Vec<(usize, Event)>,
}

impl Net {
    fn new(lines: &[Line]) -> Self {
        let end = |name| Tunnel::new(Time::ZERO, Config::default(), Rng::stream(7, name));
        Self {
            now: Time::ZERO,
            ends: [end("near"), end("far")],
            lines: lines.to_vec(),
            rng: Rng::stream(7, "net"),
            under_way: BTreeMap::new(),
            sequence: 0,
            source: None,
            sent: 0,
            is_both_ways: false,
            out: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The near end opens all lines but the first.
    fn open(&mut self) {
        for place in 1..self.lines.len() {
            self.ends[0].open_path(self.now, path(place), [1_500, OUTER_V4], false);
        }
        // Both have to show what they understand.
        self.put(1_000);
        self.run(self.now + Duration::from_secs(12));
        assert!(self.ends[0].paths().iter().all(|path| path.serves), "{:?}", self.ends[0].paths());
    }

    fn put(&mut self, payload: usize) {
        let packet = datagram(payload, self.sent, 9);
        self.sent += 1;
        let _ = self.ends[0].handle_packet(self.now, &packet);
        if self.is_both_ways {
            let _ = self.ends[1].handle_packet(self.now, &packet);
        }
    }

    /// A source that fills all paths, with packets of 1,200 octets, until some time.
    fn fill(&mut self, rate: f64, until: Time) {
        let interval = Duration::from_secs_f64(1_228.0 * 8.0 / rate);
        self.source = Some((interval, self.now, 1_200));
        self.run(until);
        self.source = None;
    }

    fn run(&mut self, until: Time) {
        loop {
            self.settle();
            let mut next = self.under_way.keys().next().map(|&(at, _)| at);
            for end in &self.ends {
                let timeout = end.next_timeout();
                assert!(timeout.is_none_or(|at| at > self.now), "a driver would spin");
                next = earliest(next, timeout);
            }
            next = earliest(next, self.source.map(|(_, at, _)| at));
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.now = next;
            if let Some((interval, at, payload)) = self.source
                && at <= next
            {
                self.source = Some((interval, at + interval, payload));
                self.put(payload);
            }
            while let Some(entry) = self.under_way.first_entry().filter(|it| it.key().0 <= next) {
                let (end, number, payload) = entry.remove();
                self.ends[end].handle_datagram(next, number, false, &payload);
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(next));
        }
        self.now = until;
    }

    fn settle(&mut self) {
        let mut buffer = Vec::new();
        for end in 0..2 {
            while self.ends[end].poll_packet(self.now, &mut buffer) {
                if end == 1 {
                    self.out.push((self.now, buffer.clone()));
                }
            }
            while let Some(event) = self.ends[end].poll_event() {
                self.events.push((end, event));
            }
            loop {
                let in_turn: Vec<_> = self.ends[end].in_turn().collect();
                let now = self.now;
                let mut poll = |id| Some((id, self.ends[end].poll_transmit(now, id, &mut buffer)?));
                let Some((id, transmit)) = in_turn.into_iter().find_map(&mut poll) else { break };
                self.send(end, id, transmit.number, &buffer);
            }
        }
    }

    fn send(&mut self, end: usize, id: PathId, number: u64, payload: &[u8]) {
        let octets = payload.len() + OUTER_V4;
        let Some(line) = self.lines.get_mut(id.index()) else { return };
        let starts = line.free[end].max(self.now);
        let waiting = starts.since(self.now).as_secs_f64() * line.rate / 8.0;
        if octets > line.mtu || waiting > line.room || self.rng.chance(line.loss) {
            return;
        }
        line.free[end] = starts + Duration::from_secs_f64(8.0 * octets as f64 / line.rate);
        line.octets[end] += octets as u64;
        self.sequence += 1;
        let key = (line.free[end] + line.delay, self.sequence);
        self.under_way.insert(key, (1 - end, number, payload.to_vec()));
    }

    /// Inner octets in a second that came out between two times, in bit/s.
    fn goodput(&self, from: Time, to: Time) -> f64 {
        let within = self.out.iter().filter(|(at, _)| (from..to).contains(at));
        let octets: usize = within.map(|(_, packet)| packet.len()).sum();
        8.0 * octets as f64 / to.since(from).as_secs_f64()
    }
}

fn path(place: usize) -> PathId {
    PathId::new(place).unwrap()
}

#[test]
fn one_flow_fills_two_like_paths() {
    let mut net = Net::new(&[Line::new(20, 10e6), Line::new(20, 10e6)]);
    net.open();
    let began = net.now;

    net.fill(25e6, began + Duration::from_secs(15));

    let goodput = net.goodput(began + Duration::from_secs(5), began + Duration::from_secs(15));
    assert!(goodput > 0.93 * 20e6, "{goodput:e}: {:?}", net.ends[0].paths());
    // Hardly anything is sent twice.
    let sent: u64 = net.lines.iter().map(|line| line.octets[0]).sum();
    let came: usize = net.out.iter().map(|(_, packet)| packet.len()).sum();
    assert!((sent as f64) < 1.1 * came as f64, "{sent} for {came}: {:?}", net.ends[0].stats());
}

#[test]
fn unlike_paths_with_losses_are_filled_too() {
    let lines =
        [Line { loss: 0.01, ..Line::new(20, 10e6) }, Line { loss: 0.05, ..Line::new(45, 3e6) }];
    let mut net = Net::new(&lines);
    net.open();
    let began = net.now;

    net.fill(16e6, began + Duration::from_secs(20));

    let goodput = net.goodput(began + Duration::from_secs(8), began + Duration::from_secs(20));
    let most = 10e6 * 0.99 + 3e6 * 0.95;
    assert!(goodput > 0.85 * most, "{goodput:e} of {most:e}: {:?}", net.ends[0].paths());
}

#[test]
fn a_sparse_flow_keeps_to_the_short_path() {
    let mut net = Net::new(&[Line::new(100, 10e6), Line::new(10, 10e6)]);
    net.open();
    let before = net.lines[0].octets[0];
    let began = net.now;

    net.fill(100e3, began + Duration::from_secs(5));
    net.run(net.now + Duration::from_secs(1));

    assert!(net.lines[0].octets[0] - before < 5_000, "{}", net.lines[0].octets[0] - before);
    assert!(net.goodput(began, net.now) > 80e3);
}

#[test]
fn a_path_that_dies_costs_two_round_trips_of_the_other_and_no_packet() {
    let mut net = Net::new(&[Line::new(20, 10e6), Line::new(30, 10e6)]);
    net.open();
    net.fill(4e6, net.now + Duration::from_secs(5));
    let died = net.now;

    net.lines[0].loss = 1.0;
    net.fill(4e6, died + Duration::from_secs(5));
    net.run(net.now + Duration::from_secs(3));

    let times: Vec<_> = net.out.iter().map(|(at, _)| *at).filter(|at| *at >= died).collect();
    let gap = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    assert!(gap < 2 * 2 * 30 * MILLISECOND + 100 * MILLISECOND, "{gap:?}");
    // The queue may shed some while only one path is left.
    let stats = net.ends[0].stats();
    let shed = stats.inner.queue_dropped;
    assert_eq!(net.out.len() as u64 + shed, u64::from(net.sent), "{stats:?}");
    assert!(shed < 10, "{shed}");
    let events: Vec<_> = net.events.iter().filter(|(_, event)| *event == Event::PathDown).collect();
    assert!(events.is_empty(), "the tunnel is not down");
}

#[test]
fn losses_are_made_good_by_the_path_that_is_left() {
    let mut net = Net::new(&[Line::new(20, 10e6), Line::new(30, 10e6)]);
    net.open();
    net.fill(4e6, net.now + Duration::from_secs(3));
    net.lines[0].loss = 1.0;
    net.lines[1].loss = 0.1;
    net.fill(4e6, net.now + Duration::from_secs(20));
    net.run(net.now + Duration::from_secs(3));

    let stats = net.ends[0].stats();
    let shed = stats.inner.queue_dropped;
    assert_eq!(net.out.len() as u64 + shed, u64::from(net.sent), "{stats:?}");
    assert_eq!(stats.sent.sources_expired, 0);
    assert!(shed < 20, "{shed}");
}

#[test]
fn a_path_that_comes_back_is_used_again() {
    let mut net = Net::new(&[Line::new(20, 10e6), Line::new(20, 10e6)]);
    net.open();
    net.lines[1].loss = 1.0;
    net.fill(16e6, net.now + Duration::from_secs(20));
    let before = net.lines[1].octets[0];
    net.lines[1].loss = 0.0;
    let back = net.now;

    net.fill(25e6, back + Duration::from_secs(15));

    assert!(net.lines[1].octets[0] - before > 5_000_000, "{:?}", net.ends[0].paths());
    let goodput = net.goodput(back + Duration::from_secs(8), net.now);
    assert!(goodput > 0.9 * 20e6, "{goodput:e}");
}

#[test]
fn a_path_that_comes_back_is_asked_though_the_peer_asks_too() {
    let mut net = Net::new(&[Line::new(2, 10e6), Line::new(3, 10e6)]);
    net.open();
    net.is_both_ways = true;
    net.fill(4e6, net.now + Duration::from_secs(3));
    net.lines[0].loss = 1.0;
    net.fill(4e6, net.now + Duration::from_secs(4));
    assert!(
        net.ends.iter().all(|end| !end.paths()[0].serves),
        "{:?}",
        net.ends.each_ref().map(Tunnel::paths)
    );

    net.lines[0].loss = 0.0;
    net.fill(4e6, net.now + Duration::from_secs(3));

    assert!(net.ends.iter().all(|end| end.paths()[0].serves), "{:?}", net.ends[0].paths());
}

#[test]
fn a_backup_carries_nothing_while_the_other_path_serves() {
    let mut net = Net::new(&[Line::new(40, 5e6), Line::new(5, 50e6)]);
    net.ends[0].open_path(net.now, path(1), [1_500, OUTER_V4], true);
    net.put(1_000);
    net.run(secs(2));

    net.fill(8e6, secs(10));
    let meanwhile = net.lines[1].octets;
    net.lines[0].loss = 1.0;
    net.fill(2e6, secs(15));

    assert!(meanwhile.iter().all(|octets| *octets < 20_000), "{meanwhile:?}");
    let goodput = net.goodput(secs(12), secs(15));
    assert!(goodput > 1.9e6, "{goodput:e}");
}

#[test]
fn an_address_that_proves_nothing_gets_no_more_than_it_sends() {
    let mut net = Net::new(&[Line::new(20, 10e6)]);
    net.put(1_000);
    net.run(secs(2));
    // Somebody who has the keys writes datagrams of the second path, and receives nothing there.
    let mut spoofer = Tunnel::new(net.now, Config::default(), Rng::stream(8, "liar"));
    spoofer.open_path(net.now, path(1), [1_500, OUTER_V4], false);
    let mut octets = [0; 2];
    let (mut number, mut out) = (0, Vec::new());

    for round in 0..200 {
        let now = secs(2) + 10 * MILLISECOND * round;
        let forged = datagram_of_a_proof(round);
        octets[0] += forged.len();
        net.ends[1].handle_datagram(now, path(1).number(number), false, &forged);
        number += 1;
        net.ends[1].handle_timeout(now);
        let mut packet = Vec::new();
        Spec::new([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), protocol::UDP)
            .emit(1_200, &mut packet);
        packet.resize(1_220, 0);
        let _ = net.ends[1].handle_packet(now, &packet);
        while net.ends[1].poll_transmit(now, path(1), &mut out).is_some() {
            octets[1] += out.len();
        }
        while net.ends[1].poll_transmit(now, PathId::FIRST, &mut out).is_some() {}
    }

    assert!(octets[1] > 0 && octets[1] <= octets[0], "{octets:?}");
    assert!(!net.ends[1].paths()[1].serves);
}

/// A proof with a question of its own and a guessed answer.
fn datagram_of_a_proof(seed: u32) -> Vec<u8> {
    let [a, b, c, d] = seed.to_be_bytes();
    [&[5, 0][..], &[9, 9, 9, 9, a, b, c, d], &[1, 2, 3, 4, a, b, c, d]].concat()
}

#[test]
fn a_short_mtu_of_one_path_shortens_what_goes_by_all() {
    let mut net = Net::new(&[Line::new(20, 10e6), Line { mtu: 1_300, ..Line::new(20, 10e6) }]);
    net.open();
    assert!(net.ends[0].whole() < 1_300 && net.ends[0].paths()[1].serves);

    let before = net.out.len();
    net.fill(15e6, net.now + Duration::from_secs(5));
    net.run(net.now + Duration::from_secs(2));

    assert!(net.out.len() - before > 6_000, "{}", net.out.len() - before);
}

#[test]
fn a_timer_that_another_path_has_made_needless_begins_anew() {
    let mut silence = Silence::new(Time::ZERO);
    let wait = 100 * MILLISECOND;
    silence.handle_sent(Time::ZERO);
    silence.handle_timeout(Time::ZERO + wait);

    silence.handle_nothing_awaited();
    silence.handle_sent(secs(60));

    assert!(silence.ends_at(wait).is_some_and(|at| at > secs(60)), "{silence:?}");
}

#[test]
fn a_path_opens_though_nothing_is_carried() {
    let mut net = Net::new(&[Line::new(0, 1e9), Line::new(0, 1e9)]);
    net.ends[0].handle_quiet(net.now);
    net.ends[0].handle_path_changed(net.now, path(1), 1_500, OUTER_V4);
    net.ends[0].open_path(net.now, path(1), [1_500, OUTER_V4], false);

    net.run(secs(12));

    assert!(net.ends.iter().all(|end| end.paths()[1].serves), "{:?}", net.ends[0].paths());
}

#[test]
fn while_the_mtu_of_a_path_is_looked_for_packets_are_as_long_as_the_others_take() {
    let mut net = Net::new(&[Line::new(20, 10e6), Line { mtu: 1_400, ..Line::new(20, 10e6) }]);
    // What an end takes whole at least, in twelve seconds.
    let shortest = |net: &mut Net, end: usize| {
        let (mut shortest, until) = (usize::MAX, net.now + Duration::from_secs(12));
        net.put(1_000);
        while net.now < until {
            let next = net.now + MILLISECOND * 5;
            net.run(next);
            net.now = next;
            shortest = shortest.min(net.ends[end].whole());
        }
        shortest
    };
    shortest(&mut net, 0);

    net.ends[0].open_path(net.now, path(1), [1_500, OUTER_V4], false);
    let opened = shortest(&mut net, 0);
    net.ends[1].handle_path_changed(net.now, path(1), 1_500, OUTER_V4);
    let moved = shortest(&mut net, 1);

    assert!(net.ends.iter().all(|end| end.paths()[1].serves), "{:?}", net.ends[1].paths());
    let whole = 1_400 - OUTER_V4 - 10;
    assert_eq!((opened, moved), (whole, whole));
}
