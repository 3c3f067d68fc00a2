//! A path so long that losses must be masked before anyone can tell of them.

use std::time::Duration;

use proto::nc;
use sim::channel::{GilbertElliott, Loss};
use sim::units::Probability;

use super::grid::{random, share};
use super::measure::{self, Span};
use super::network::{Carrier, Kind, Network, Traffic};
use super::{GROUP, PERCENT, curve, limit_curve};
use crate::claim::{Cell, Claim, Finding, Metric, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;
use crate::words::percent;

const LOSSES: [f64; 6] = [0.0, 0.01, 0.05, 0.10, 0.15, 0.20];
/// Packets of a burst of losses, in the mean.
const BURST: f64 = 4.0;
/// The round trip, in seconds: 500 packets of 1,500 octets at 10 Mbit/s.
const ROUND_TRIP: f64 = 0.6;
const SPAN: Span = Span { warm_up: Duration::from_secs(10), window: Duration::from_secs(20) };
/// Where a CUBIC flow inside is looked at too.
const CUBIC_LOSSES: [f64; 3] = [0.0, 0.10, 0.20];

/// What is offered, in limits.
const LOAD: f64 = 1.05;
/// Octets that wait to enter the tunnel at most: 52 ms of the link.
const SHORT_QUEUE: usize = 65_536;

/// How losses come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pattern {
    Bursts,
    Independent,
}

impl Pattern {
    const ALL: [Self; 2] = [Self::Independent, Self::Bursts];

    fn series(self) -> &'static str {
        match self {
            Self::Bursts => "ours, bursts",
            Self::Independent => "ours",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Bursts => "our tunnel, losses in bursts of 4",
            Self::Independent => "our tunnel, independent losses",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::Bursts => Ink::Other(0),
            Self::Independent => Ink::Default,
        }
    }

    /// The share of the limit to reach.
    fn goal(self) -> f64 {
        match self {
            Self::Bursts => 0.90,
            Self::Independent => 0.95,
        }
    }

    fn losses(self) -> impl Iterator<Item = f64> {
        // Without loss there are no bursts.
        LOSSES.into_iter().filter(move |loss| self == Self::Independent || *loss > 0.0)
    }

    fn loss(self, mean: f64) -> Loss {
        let bursts = || GilbertElliott::from_bursts(Probability::new(mean)?, BURST).ok();
        match self {
            Self::Bursts => bursts().map_or(Loss::None, Loss::GilbertElliott),
            Self::Independent => random(mean),
        }
    }

    /// More datagrams than can arrive, and a queue that is short, for it is never empty.
    fn saturated(self, loss: f64) -> Network {
        let config = nc::Config { queue: SHORT_QUEUE, ..config() };
        let carrier = Carrier::Coded(config);
        Network { carrier, traffic: Traffic::Udp { load: LOAD }, ..self.network(loss) }
    }

    /// One CUBIC flow inside.
    fn cubic(self, loss: f64) -> Network {
        Network { traffic: Traffic::Tcp(Kind::Cubic), ..self.network(loss) }
    }

    fn network(self, loss: f64) -> Network {
        Network::long(self.loss(loss), Carrier::Coded(config()))
    }
}

/// The path MTU is known from the start.
fn config() -> nc::Config {
    nc::Config { base_mtu: 1_500, ..nc::Config::default() }
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-long",
        group: GROUP,
        text: "over 10 Mbit/s with a round trip of 500 packets the tunnel delivers 0.95 of the limit, \
               its packets at most one round trip late in 99 of 100 cases, at 0 to 20 % loss; 0.90 \
               when losses come in bursts of 4",
        source: "ours; the nearest published figure is above 0.90 (AC-RLNC)",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    let both = |pattern: Pattern| {
        let cubic = pattern.losses().filter(|loss| CUBIC_LOSSES.contains(loss));
        let cubic = cubic.map(move |loss| pattern.cubic(loss));
        pattern.losses().map(move |loss| pattern.saturated(loss)).chain(cubic)
    };
    Pattern::ALL.into_iter().flat_map(both).map(|network| network.cell(SPAN)).collect()
}

/// The mean of a metric on a network.
fn of(results: &Results, network: &Network, metric: Metric) -> Estimate {
    results.estimate(&network.name(SPAN), metric)
}

fn ratio(results: &Results, network: &Network) -> Estimate {
    of(results, network, measure::GOODPUT).times(1e6 / network.limit())
}

fn judge(results: &Results) -> Finding {
    let mut shares = Vec::new();
    let mut delays = Vec::new();
    let mut rows = Vec::new();
    let mut short = Vec::new();
    let mut late = Vec::new();
    let mut least = (1.0_f64, 0.0_f64);
    for pattern in Pattern::ALL {
        for loss in pattern.losses() {
            let saturated = pattern.saturated(loss);
            let cubic = CUBIC_LOSSES.contains(&loss).then(|| pattern.cubic(loss));
            let reached = ratio(results, &saturated);
            let delay = |metric| of(results, &saturated, metric).times(1.0 / ROUND_TRIP);
            let p99 = delay(measure::P99);
            let name = format!("{} at {}", pattern.series(), percent(loss));
            if reached.high() < pattern.goal() {
                short.push(format!("{name} ({:.3})", reached.mean));
            }
            if pattern == Pattern::Independent {
                least = (least.0.min(reached.mean), least.1.max(p99.mean));
                if p99.low() > 1.0 {
                    late.push(format!("{name} ({:.2})", p99.mean));
                }
            }
            let point = |y, y_unit, limit| Point {
                series: pattern.series().to_owned(),
                x: loss * 100.0,
                x_unit: PERCENT,
                y,
                y_unit,
                limit,
                sessions: None,
                limit2: None,
                cell: None,
            };
            shares.push(point(reached, "of the limit", Some(1.0)));
            delays.push(point(p99, "round trips", None));
            rows.push(vec![
                percent(loss),
                if pattern == Pattern::Bursts { "bursts of 4" } else { "independent" }.to_owned(),
                share(&reached),
                pattern.goal().to_string(),
                share(&delay(measure::P50)),
                share(&p99),
                share(&of(results, &saturated, measure::COST)),
                cubic.map_or(String::new(), |cubic| share(&ratio(results, &cubic))),
            ]);
        }
    }
    let verdict = match (short.is_empty(), late.is_empty()) {
        (true, true) => Verdict::Reproduced,
        _ => Verdict::Differs,
    };
    let missed = |what: &str, list: &[String]| {
        if list.is_empty() {
            format!("{what} is met everywhere")
        } else {
            format!("{what} is missed by {}", list.join(", "))
        }
    };
    let runs = shares.first().map_or(0, |point| point.y.runs);
    let figures = figures(&shares, &delays, runs);
    Finding {
        verdict,
        measured: format!(
            "with independent losses at least {:.3} of the limit, the 99th percentile of the extra \
             delay at most {:.2} round trips. {runs} runs.",
            least.0, least.1,
        ),
        reason: format!(
            "{}; {}",
            missed("the goal of goodput", &short),
            missed("that of delay", &late),
        ),
        figures,
        tables: vec![Table {
            title: "The long path: goodput in limits, extra delay in round trips".to_owned(),
            head: [
                "Loss",
                "pattern",
                "goodput",
                "goal",
                "delay p50",
                "delay p99",
                "octets out for one in",
                "goodput, CUBIC inside",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows,
        }],
        points: shares.into_iter().chain(delays).collect(),
        exchanges: Vec::new(),
        assumptions: vec![
            format!(
                "Saturated means datagrams of the longest length that fits, {LOAD} times the limit; of \
                 those, {SHORT_QUEUE} octets wait at the gateway at most, the others are dropped."
            ),
            "Extra delay runs from entering one gateway to leaving the other, less the propagation \
             and the sending of one datagram; the wait to be sent counts."
                .to_owned(),
            "A CUBIC flow inside has buffers of 8 MB and SACK; it is shown, not judged.".to_owned(),
        ],
    }
}

fn figures(shares: &[Point], delays: &[Point], runs: u32) -> Vec<Figure> {
    let x = || {
        let ticks = LOSSES.map(|loss| loss * 100.0);
        Axis::linear("Loss of the middle link, in the mean", PERCENT).with_ticks(ticks)
    };
    let subtitle = format!("10 Mbit/s, a round trip of 0.6 s or 500 packets, mean of {runs} runs");
    let lines = |points: &[Point]| {
        let of =
            |it: Pattern| curve(points, it.title(), it.ink(), |point| point.series == it.series());
        Pattern::ALL.map(of).to_vec()
    };
    let is_ours = |point: &Point| point.series == Pattern::Independent.series();
    let mut goodput = vec![
        limit_curve(shares, "the limit", Ink::Limit, 1.0, is_ours),
        limit_curve(shares, "the goal with independent losses", Ink::Goal, 0.95, is_ours),
    ];
    goodput.extend(lines(shares));
    let one = |point: &Point| Point { limit: Some(1.0), ..point.clone() };
    let goal: Vec<Point> = delays.iter().map(one).collect();
    let mut delay = vec![limit_curve(&goal, "the goal: one round trip", Ink::Goal, 1.0, is_ours)];
    delay.extend(lines(delays));
    vec![
        Figure {
            name: "nc-long".to_owned(),
            title: "A long path, saturated: how much of it is used".to_owned(),
            subtitle: subtitle.clone(),
            x: x(),
            y: Axis { from_zero: false, ..Axis::linear("Goodput as a share of the limit", "") },
            series: goodput,
            note: String::new(),
        },
        Figure {
            name: "nc-long-delay".to_owned(),
            title: "A long path, saturated: how late packets are".to_owned(),
            subtitle,
            x: x(),
            y: Axis::linear("99th percentile of the extra delay", "round trips"),
            series: delay,
            note: String::new(),
        },
    ]
}
