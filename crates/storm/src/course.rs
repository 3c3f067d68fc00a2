//! A course: all decisions of a seed about a run, in the form of a list, to be shortened event by
//! event.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use base::readable::delay;
use base::rng::Rng;
use base::time::Time;

use crate::Service;

/// Seconds of a course before the calm.
const SPANS: Range<f64> = 60.0..3_600.0;
/// The rate of a medium whose senders keep their own pace.
const AIR: f64 = 1e9;
/// Events of a course.
const EVENTS: Range<f64> = 5.0..250.0;
/// Seconds of a stall.
const STALLS: Range<f64> = 0.01..300.0;
/// Seconds of a partition.
const PARTITIONS: Range<f64> = 1.0..600.0;
/// Share of the limits that a seed draws.
const LIMITED: f64 = 0.4;
/// Part of a course lies in bursts: each event follows the previous event within this many seconds.
const BURST: Duration = Duration::from_millis(500);

/// The faults of a medium throughout a course. Each fault is on in some courses and off in others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Medium {
    /// Bits a second of each sender.
    pub rate: f64,
    /// Seconds from sender to receiver.
    pub delay: f64,
    /// Share of datagrams lost.
    pub loss: f64,
    /// Mean length of a loss burst; 1 means independent losses.
    pub burst: f64,
    /// Jitter as a share of the delay.
    pub jitter: f64,
    /// Whether datagrams overtake each other.
    pub reorder: bool,
    /// Share of duplicated datagrams.
    pub duplicates: f64,
    /// Largest deviation of the nodes' clocks from true time, in parts per million.
    pub skew: f64,
}

impl Medium {
    /// The medium without faults.
    #[must_use]
    pub fn calm(self) -> Self {
        Self { loss: 0.0, burst: 1.0, jitter: 0.0, reorder: false, duplicates: 0.0, ..self }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, delay, loss, burst, jitter, reorder, duplicates, skew } = self;
        write!(f, "{rate:.0} bit/s, {:.3} ms", delay * 1_000.0)?;
        if *loss > 0.0 {
            write!(f, ", loss {:.3} %", loss * 100.0)?;
        }
        if *burst > 1.0 {
            write!(f, " in bursts of {burst:.1}")?;
        }
        if *jitter > 0.0 {
            write!(f, ", jitter {:.1} % of the delay", jitter * 100.0)?;
        }
        if *reorder {
            write!(f, ", datagrams overtake")?;
        }
        if *duplicates > 0.0 {
            write!(f, ", duplicates {:.3} %", duplicates * 100.0)?;
        }
        write!(f, ", clocks within {skew:.1} ppm")
    }
}

/// What happens at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A user of a node acts; the number is the seed of the action.
    Act(usize, u64),
    /// A stranger sends a datagram to a node; the number is the seed of the content.
    Forge(usize, u64),
    /// One node's datagrams to another node are lost for a while.
    Partition(usize, usize, Duration),
    /// A datagram recorded earlier reaches a node once more; the number chooses it.
    Replay(usize, u64),
    /// A node is killed and restarted with its stored state.
    Restart(usize),
    /// A node does nothing for a while.
    Stall(usize, Duration),
}

impl Event {
    /// The node where the event happens.
    pub(crate) fn node(self) -> usize {
        let (Self::Act(node, _)
        | Self::Forge(node, _)
        | Self::Partition(node, ..)
        | Self::Replay(node, _)
        | Self::Restart(node)
        | Self::Stall(node, _)) = self;
        node
    }

    /// The greatest number of a node that the event concerns.
    pub(crate) fn greatest_node(self) -> usize {
        let other = if let Self::Partition(_, to, _) = self { to } else { 0 };
        self.node().max(other)
    }
}

/// All decisions of a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Which cores run.
    pub service: Service,
    /// The seed of every decision outside the list of events.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// Whether some cores' limits are drawn from the seed; otherwise all are the usual ones.
    pub has_limits: bool,
    /// The medium between any two nodes.
    pub medium: Medium,
    /// When faults end.
    pub span: Duration,
    /// What happens, with its place in the drawn course, in the order of time.
    pub events: Vec<(usize, Time, Event)>,
}

impl Course {
    /// The course of a seed.
    #[must_use]
    pub fn draw(service: Service, seed: u64) -> Self {
        let rng = &mut Rng::stream(seed, "storm course");
        let nodes = service.nodes(rng);
        let span = Duration::from_secs_f64(log(rng, SPANS));
        let mut on = |share: f64, value: f64| {
            let is_on = rng.chance(share);
            if is_on { value } else { 0.0 }
        };
        let [loses, bursts, jitters, reorders, doubles, skews] =
            [0.6, 0.3, 0.5, 0.5, 0.3, 0.3].map(|share| on(share, 1.0) > 0.0);
        let (restarts, stalls, parts, replays, forges) =
            (on(0.5, 0.1), on(0.4, 0.06), on(0.4, 0.08), on(0.3, 0.1), on(0.3, 0.1));
        let mut medium = Medium {
            rate: log(rng, 2e3..1e7),
            delay: log(rng, 0.001..3.0),
            loss: if loses { log(rng, 0.005..0.5) } else { 0.0 },
            burst: if bursts { log(rng, 2.0..20.0) } else { 1.0 },
            jitter: if jitters { rng.uniform() * 0.9 } else { 0.0 },
            reorder: reorders,
            duplicates: if doubles { log(rng, 0.005..0.3) } else { 0.0 },
            skew: if skews { 200.0 } else { 0.0 },
        };

        // Radio waves neither queue nor overtake.
        if service == Service::S5066 {
            let delay = medium.delay * 0.02;
            medium = Medium { rate: AIR, delay, reorder: false, duplicates: 0.0, ..medium };
        }

        let count = floor(log(rng, EVENTS));
        let mut at = Time::ZERO;
        let mut events = Vec::new();
        for place in 0..count {
            let mean = span / u32::try_from(count).expect("hundreds");
            at += if rng.chance(0.4) { rng.within(BURST) } else { rng.exponential(mean * 2) };
            if at >= Time::ZERO + span {
                break;
            }
            let node = choice(rng, nodes);
            let kind = rng.uniform();
            let seed = rng.bits();
            let mut edge = 0.0;
            let mut is = |share: f64| {
                let begin = edge;
                edge += share;
                (begin..edge).contains(&kind)
            };
            let event = if is(restarts) {
                Event::Restart(node)
            } else if is(stalls) {
                Event::Stall(node, Duration::from_secs_f64(log(rng, STALLS)))
            } else if is(parts) {
                let other = (node + 1 + choice(rng, nodes - 1)) % nodes;
                Event::Partition(node, other, Duration::from_secs_f64(log(rng, PARTITIONS)))
            } else if is(replays) {
                Event::Replay(node, seed)
            } else if is(forges) {
                Event::Forge(node, seed)
            } else {
                Event::Act(node, seed)
            };
            events.push((place, at, event));
        }
        Self { service, seed, nodes, has_limits: true, medium, span, events }
    }

    /// A limit of the cores: in some courses drawn from `least..usual`, otherwise the usual one.
    pub fn limit(&self, rng: &mut Rng, least: usize, usual: usize) -> usize {
        let drawn = rng.chance(LIMITED).then(|| log_count(rng, least..usual.max(least + 1)));
        drawn.filter(|_| self.has_limits).unwrap_or(usual)
    }

    /// Whether all of this course is also in `other`, which may have more events.
    #[must_use]
    pub fn is_part_of(&self, other: &Self) -> bool {
        let Self { events, .. } = other;
        Self { events: events.clone(), ..self.clone() } == *other
            && self.events.iter().all(|event| events.contains(event))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(node, seed) => write!(f, "user of node {node} acts ({seed:#x})"),
            Self::Forge(node, seed) => write!(f, "outsider sends to node {node} ({seed:#x})"),
            Self::Partition(from, to, span) => {
                write!(f, "nothing gets from {from} to {to} for {}", delay(*span))
            }
            Self::Replay(node, seed) => write!(f, "old datagram reaches node {node} ({seed:#x})"),
            Self::Restart(node) => write!(f, "node {node} is killed and started"),
            Self::Stall(node, span) => write!(f, "node {node} stalls for {}", delay(*span)),
        }
    }
}

/// A number from a range, uniform in its logarithm.
pub fn log(rng: &mut Rng, range: Range<f64>) -> f64 {
    range.start * libm::exp(rng.uniform() * libm::log(range.end / range.start))
}

/// A whole number from a range, uniform in its logarithm.
pub fn log_count(rng: &mut Rng, range: Range<usize>) -> usize {
    floor(log(rng, range.start as f64..range.end as f64))
}

/// A number below `bound`.
pub fn choice(rng: &mut Rng, bound: usize) -> usize {
    let drawn = rng.below(u64::try_from(bound.max(1)).expect("bounds are small"));
    usize::try_from(drawn).expect("bounds are small")
}

fn floor(value: f64) -> usize {
    let whole = base::quantity::whole(value.floor()).expect("ranges are positive and below 2^53");
    usize::try_from(whole).expect("ranges are small")
}
