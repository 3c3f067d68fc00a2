//! A bottleneck with a queue, delay, jitter and loss, and the flows that share it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use super::super::{Feedback, Rate};
use super::MS;
use super::cubic::Cubic;
use crate::Config;
use crate::overtaken::Overtaken;

/// What the path is like.
#[derive(Clone)]
pub struct Path {
    /// Bit/s from each time on.
    pub rates: Vec<(f64, f64)>,
    /// Octets that wait, at most.
    pub buffer: f64,
    /// One way, each way.
    pub delay: Duration,
    /// Hops behind the bottleneck, of its first rate: each waits for the whole datagram.
    pub hops: u32,
    /// Uniform on top of it, forward.
    pub jitter: Duration,
    /// Whether datagrams overtake each other by it; otherwise each waits for those before it.
    pub overtakes: bool,
    /// Behind the bottleneck.
    pub loss: f64,
    /// Mean run of losses, in datagrams; 1 for independent ones.
    pub burst: f64,
    /// Of reports.
    pub report_loss: f64,
    /// How long reports wait at most before a bottleneck of their own, whose queue comes and goes every
    /// three seconds.
    pub report_queue: Duration,
    /// How much faster the clock of the peer runs.
    pub drift: f64,
    /// Queue, in seconds, from which datagrams are marked.
    pub mark: f64,
}

impl Path {
    /// No loss, no jitter, a buffer of `buffer` bandwidth-delay products.
    pub fn clean(rate: f64, delay: Duration, buffer: f64) -> Self {
        Self {
            rates: vec![(0.0, rate)],
            buffer: (buffer * rate / 8.0 * 2.0 * delay.as_secs_f64()).max(3_000.0),
            delay,
            hops: 0,
            jitter: Duration::ZERO,
            overtakes: false,
            loss: 0.0,
            burst: 1.0,
            report_loss: 0.0,
            report_queue: Duration::ZERO,
            drift: 0.0,
            mark: f64::MAX,
        }
    }
}

/// Who sends, from when until when.
struct Flow {
    sender: Sender,
    from: f64,
    until: f64,
    /// Octets that left the bottleneck, by tenths of a second.
    carried: Vec<f64>,
    /// Octets received, by tenths of a second.
    received: Vec<f64>,
}

pub enum Sender {
    /// Sends all it may.
    Bulk(Box<Peer>),
    Cubic(Box<Cubic>),
    /// One datagram at each interval; the times that they waited to be sent and in the queue.
    Constant(Duration, u64),
}

/// Both ends of a tunnel's direction.
pub struct Peer {
    rate: Rate,
    octets: usize,
    next: u64,
    wake: Time,
    heard: Time,
    /// Octets of the first datagrams, and how many these are.
    pub short: (u64, usize),
    /// On and off, in seconds, if it is not always on.
    pub duty: Option<(f64, f64)>,
    /// Octets in flight that the flow inside has at most, if it is not always ahead; it begins with
    /// 8 datagrams, and has twice as many each tenth of a second.
    pub inner_window: Option<f64>,
    /// How many flows inside always have packets waiting.
    pub flows: usize,
    newest: Option<(u64, Time)>,
    overtaken: Overtaken,
    marked: u64,
    unreported: u64,
    reported_at: Time,
    report_at: Option<Time>,
}

impl Peer {
    pub fn new(config: &Config) -> Self {
        Self {
            rate: Rate::new(Time::ZERO, config),
            octets: 1_500,
            next: 0,
            wake: Time::MAX,
            heard: Time::ZERO,
            short: (0, 0),
            duty: None,
            inner_window: None,
            flows: 1,
            newest: None,
            overtaken: Overtaken::default(),
            marked: 0,
            unreported: 0,
            reported_at: Time::ZERO,
            report_at: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// At the receiver.
    Arrive {
        flow: usize,
        number: u64,
        is_marked: bool,
    },
    /// Back at a CUBIC sender.
    Ack {
        flow: usize,
        number: u64,
    },
    Report {
        flow: usize,
        newest: u64,
        newest_at: Time,
        waited: Duration,
        count: u64,
        marked: u64,
    },
    ReportDue {
        flow: usize,
    },
    Wake {
        flow: usize,
    },
}

/// The run.
pub struct World {
    path: Path,
    flows: Vec<Flow>,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
    rng: Rng,
    is_bad: bool,
    free_at: Time,
    waiting: VecDeque<(Time, f64)>,
    backlog: f64,
    last_arrival: Time,
    /// Seconds of queue that each datagram met, and when.
    queues: Vec<(f64, f64)>,
    pub drops: u64,
}

impl World {
    pub fn new(seed: u64, path: Path, senders: Vec<(f64, f64, Sender)>) -> Self {
        let flows = senders
            .into_iter()
            .map(|(from, until, sender)| Flow {
                sender,
                from,
                until,
                carried: Vec::new(),
                received: Vec::new(),
            })
            .collect::<Vec<_>>();
        let mut world = Self {
            path,
            flows,
            now: Time::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            rng: Rng::stream(seed, "path"),
            is_bad: false,
            free_at: Time::ZERO,
            waiting: VecDeque::new(),
            backlog: 0.0,
            last_arrival: Time::ZERO,
            queues: Vec::new(),
            drops: 0,
        };
        for flow in 0..world.flows.len() {
            let at = Time::ZERO + Duration::from_secs_f64(world.flows[flow].from);
            world.at(at, Event::Wake { flow });
        }
        world
    }

    /// Runs until `end` seconds.
    pub fn run(&mut self, end: f64) {
        let end = Time::ZERO + Duration::from_secs_f64(end);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end {
                self.at(at, event);
                break;
            }
            self.now = at;
            self.handle(event);
        }
        self.now = end;
    }

    /// Mean bit/s of `flow` through the bottleneck between two times.
    pub fn throughput(&self, flow: usize, from: f64, to: f64) -> f64 {
        mean(&self.flows[flow].carried, from, to)
    }

    pub fn goodput(&self, flow: usize, from: f64, to: f64) -> f64 {
        mean(&self.flows[flow].received, from, to)
    }

    /// Part of the bottleneck that was used, by all.
    pub fn utilisation(&self, from: f64, to: f64) -> f64 {
        let used: f64 = (0..self.flows.len()).map(|flow| self.throughput(flow, from, to)).sum();
        let steps = 1_000;
        let rate: f64 = (0..steps)
            .map(|i| self.path.rate(from + (to - from) * f64::from(i) / f64::from(steps)))
            .sum();
        used * f64::from(steps) / rate
    }

    /// The queue that this part of the datagrams met at most, in seconds.
    pub fn queue(&self, part: f64, from: f64, to: f64) -> f64 {
        let mut met: Vec<f64> = self
            .queues
            .iter()
            .filter(|(at, _)| (from..to).contains(at))
            .map(|&(_, queue)| queue)
            .collect();
        met.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let index = ((met.len() as f64 * part) as usize).min(met.len().saturating_sub(1));
        met.get(index).copied().unwrap_or(0.0)
    }

    /// The part of what came to the bottleneck that did not fit.
    pub fn drop_rate(&self) -> f64 {
        let drops = self.drops as f64;
        drops / (drops + self.queues.len() as f64)
    }

    pub fn rate(&self, flow: usize) -> &Rate {
        match &self.flows[flow].sender {
            Sender::Bulk(peer) => &peer.rate,
            Sender::Constant(..) | Sender::Cubic(_) => panic!("not a tunnel"),
        }
    }

    fn at(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Wake { flow } => self.pump(flow),
            Event::Arrive { flow, number, is_marked } => self.arrive(flow, number, is_marked),
            Event::Ack { flow, number } => {
                if let Sender::Cubic(cubic) = &mut self.flows[flow].sender {
                    cubic.handle_ack(now, number);
                }
                self.pump(flow);
            }
            Event::Report { flow, newest, newest_at, waited, count, marked } => {
                let drift = 1.0 + self.path.drift;
                let Sender::Bulk(peer) = &mut self.flows[flow].sender else { return };
                let micros = newest_at.since(Time::ZERO).mul_f64(drift).as_micros();
                let newest_at =
                    Duration::from_micros(77_000_000 + u64::try_from(micros).expect("short"));
                peer.heard = now;
                peer.rate.note_flows(peer.flows);
                peer.rate.handle_report(
                    now,
                    &Feedback { newest, newest_at, delay: waited, received: count, marked },
                );
                self.pump(flow);
            }
            Event::ReportDue { flow } => {
                let Sender::Bulk(peer) = &mut self.flows[flow].sender else { return };
                if peer.report_at.is_some_and(|at| at <= now) {
                    self.report(flow);
                }
            }
        }
    }

    fn pump(&mut self, flow: usize) {
        let now = self.now;
        let seconds = now.as_secs_f64();
        let is_over = seconds >= self.flows[flow].until || seconds < self.flows[flow].from;
        let mut sends = Vec::new();
        let mut wakes = None;
        match &mut self.flows[flow].sender {
            Sender::Bulk(peer) => {
                let has_data =
                    !is_over && peer.duty.is_none_or(|(on, off)| seconds % (on + off) < on);
                if peer.rate.in_flight() > 0.0 {
                    let patience = peer.rate.rtt() * 3
                        + peer.rate.rtt_variation() * 4
                        + Duration::from_millis(200);
                    if now.since(peer.heard) > patience.max(Duration::from_secs(1)) {
                        peer.rate.handle_timeout_loss(now);
                        peer.heard = now;
                    }
                }
                if !has_data {
                    peer.rate.handle_idle(now);
                    if !is_over {
                        wakes = Some(now + Duration::from_millis(10));
                    }
                }
                if has_data {
                    loop {
                        let start = 8.0 * 1_500.0 * (10.0 * seconds).exp2();
                        if peer
                            .inner_window
                            .is_some_and(|most| peer.rate.in_flight() >= most.min(start))
                        {
                            peer.rate.handle_idle(now);
                            break;
                        }
                        let next = peer.rate.next_send(now);
                        wakes = Some(next.unwrap_or(now + Duration::from_millis(100)));
                        if next.is_none_or(|at| at > now) {
                            break;
                        }
                        let (count, short) = peer.short;
                        let octets = if peer.next < count { short } else { peer.octets };
                        peer.rate.handle_sent(now, peer.next, octets);
                        sends.push((peer.next, octets as f64));
                        peer.next += 1;
                    }
                }
                if let Some(at) = wakes
                    && (peer.wake <= now || at < peer.wake)
                {
                    peer.wake = at;
                } else {
                    wakes = None;
                }
            }
            Sender::Cubic(cubic) => {
                while !is_over && let Some(number) = cubic.send(now) {
                    sends.push((number, 1_500.0));
                }
                if !is_over && !sends.is_empty() {
                    wakes = Some(now + Duration::from_millis(2_100));
                }
            }
            Sender::Constant(interval, next) => {
                if !is_over {
                    sends.push((*next, 1_500.0));
                    *next += 1;
                    wakes = Some(now + *interval);
                }
            }
        }
        for (number, octets) in sends {
            self.forward(flow, number, octets);
        }
        if let Some(at) = wakes {
            self.at(at, Event::Wake { flow });
        }
    }

    /// Through the bottleneck.
    fn forward(&mut self, flow: usize, number: u64, octets: f64) {
        while self.waiting.front().is_some_and(|&(at, _)| at <= self.now) {
            self.backlog -= self.waiting.pop_front().expect("just seen").1;
        }
        if self.backlog + octets > self.path.buffer + 1_500.0 {
            self.drops += 1;
            return;
        }
        let start = self.free_at.max(self.now);
        let waited = start.since(self.now).as_secs_f64();
        self.queues.push((self.now.as_secs_f64(), waited));
        let rate = self.path.rate(start.as_secs_f64());
        self.free_at = start + Duration::from_secs_f64(octets * 8.0 / rate);
        self.backlog += octets;
        self.waiting.push_back((self.free_at, octets));
        add(&mut self.flows[flow].carried, self.free_at, octets);

        let turn = 1.0 / self.path.burst;
        self.is_bad = if self.is_bad {
            !self.rng.chance(turn)
        } else {
            let enter = if self.path.burst > 1.0 {
                turn * self.path.loss / (1.0 - self.path.loss)
            } else {
                self.path.loss
            };
            self.rng.chance(enter)
        };
        let is_lost = if self.path.burst > 1.0 {
            self.is_bad
        } else {
            std::mem::replace(&mut self.is_bad, false)
        };
        let hop = Duration::from_secs_f64(octets * 8.0 / self.path.rates[0].1);
        let beyond = self.path.delay + self.path.hops * hop;
        let arrival = self.free_at + beyond + self.rng.within(self.path.jitter);
        let arrival = if self.path.overtakes { arrival } else { arrival.max(self.last_arrival) };
        self.last_arrival = arrival;
        if !is_lost {
            let is_marked = waited > self.path.mark;
            self.at(self.last_arrival, Event::Arrive { flow, number, is_marked });
        }
    }

    fn arrive(&mut self, flow: usize, number: u64, is_marked: bool) {
        let now = self.now;
        let delay = self.path.delay;
        match &mut self.flows[flow].sender {
            Sender::Cubic(cubic) => {
                // As RFC 5681, 4.2, has it: one acknowledgement for two segments, or after a while.
                let both = cubic.unacknowledged.take();
                if both.is_none() {
                    cubic.unacknowledged = Some(number);
                }
                let wait = if both.is_none() { 40 * MS } else { Duration::ZERO };
                for number in both.into_iter().chain([number]) {
                    self.at(now + delay + wait, Event::Ack { flow, number });
                }
            }
            Sender::Constant(..) => {}
            Sender::Bulk(peer) => {
                peer.marked += u64::from(is_marked);
                peer.unreported += 1;
                let end = peer.newest.map_or(0, |(newest, _)| newest + 1);
                if number < end {
                    peer.overtaken.handle_late(now, number);
                } else {
                    if number > end {
                        peer.overtaken.handle_gap(now, end, number);
                    }
                    peer.newest = Some((number, now));
                }
                let gap = (peer.rate.rtt() / 8).max(Duration::from_millis(1));
                if peer.unreported >= 32 || now.since(peer.reported_at) >= gap {
                    self.report(flow);
                } else if peer.report_at.is_none() {
                    let at = peer.reported_at + gap;
                    peer.report_at = Some(at);
                    self.at(at, Event::ReportDue { flow });
                }
            }
        }
        add(&mut self.flows[flow].received, now, 1_500.0);
    }

    fn report(&mut self, flow: usize) {
        let now = self.now;
        let Sender::Bulk(peer) = &mut self.flows[flow].sender else { return };
        peer.report_at = None;
        peer.reported_at = now;
        peer.unreported = 0;
        let Some((newest, newest_at)) = peer.newest else { return };
        peer.overtaken.handle_time(now);
        let (count, marked) = (newest + 1 - peer.overtaken.lost(), peer.marked);
        if !self.rng.chance(self.path.report_loss) {
            let waited = now.since(newest_at);
            let event = Event::Report { flow, newest, newest_at, waited, count, marked };
            let turn = std::f64::consts::TAU * now.as_secs_f64() / 3.0;
            let queue = self.path.report_queue.mul_f64((1.0 - turn.cos()) / 2.0);
            self.at(now + self.path.delay + queue, event);
        }
    }
}

impl Path {
    fn rate(&self, at: f64) -> f64 {
        let passed = self.rates.iter().take_while(|&&(from, _)| from <= at);
        passed.last().expect("from zero on").1
    }
}

const STEP: f64 = 0.1;

fn add(series: &mut Vec<f64>, at: Time, octets: f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = (at.as_secs_f64() / STEP) as usize;
    if series.len() <= index {
        series.resize(index + 1, 0.0);
    }
    series[index] += octets;
}

fn mean(series: &[f64], from: f64, to: f64) -> f64 {
    let octets: f64 = series
        .iter()
        .enumerate()
        .filter(|&(i, _)| (from..to - STEP / 2.0).contains(&(i as f64 * STEP + 1e-9)))
        .map(|(_, octets)| octets)
        .sum();
    octets * 8.0 / (to - from)
}
