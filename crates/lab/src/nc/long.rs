//! A path so long that losses must be repaired before feedback about them can arrive.

use std::time::Duration;

use base::quantity::Probability;
use sim::channel::{GilbertElliott, Loss};
use tunnel as nc;

use super::grid::{random, share};
use super::measure::{self, Span};
use super::network::{Carrier, Kind, Network, Traffic};
use super::{GROUP, PERCENT};
use crate::prelude::*;

const LOSSES: [f64; 6] = [0.0, 0.01, 0.05, 0.10, 0.15, 0.20];
/// The mean length of a burst of losses, in packets.
const BURST: f64 = 4.0;
/// The round-trip time in seconds, in which 10 Mbit/s carry 500 packets of 1,500 octets.
const ROUND_TRIP: f64 = 0.6;
const SPAN: Span = Span { warm_up: Duration::from_secs(10), window: Duration::from_secs(20) };
/// The loss rates at which a CUBIC flow through the tunnel is measured too.
const CUBIC_LOSSES: [f64; 3] = [0.0, 0.10, 0.20];

/// The offered load as a multiple of the limit.
const LOAD: f64 = 1.05;
/// The capacity of the queue before the tunnel, in octets: 52 ms of the link.
const SHORT_QUEUE: usize = 65_536;

pub const CLAIM: Claim = Claim {
    id: "nc-long",
    group: GROUP,
    text: "over 10 Mbit/s with a round trip of 500 packets the tunnel delivers 0.95 of the limit, \
           its packets at most one round trip late in 99 of 100 cases, at 0 to 20 % loss; 0.90 \
           when losses come in bursts of 4",
    source: "ours; the nearest published figure is above 0.90 (AC-RLNC)",
    experiment: || Experiment::new(paths(), judge),
};

/// The traffic over the path, and the losses of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    in_bursts: bool,
    /// Whether the traffic is one CUBIC flow instead of more datagrams than can arrive.
    is_cubic: bool,
    loss: f64,
}

fn paths() -> Vec<Path> {
    let mut paths = Vec::new();
    for in_bursts in [false, true] {
        // Without loss there are no bursts.
        let losses = || LOSSES.into_iter().filter(move |loss| !in_bursts || *loss > 0.0);
        paths.extend(losses().map(|loss| Path { in_bursts, is_cubic: false, loss }));
        let cubic = losses().filter(|loss| CUBIC_LOSSES.contains(loss));
        paths.extend(cubic.map(|loss| Path { in_bursts, is_cubic: true, loss }));
    }
    paths
}

impl Path {
    fn network(&self) -> Network {
        let bursts = || GilbertElliott::from_bursts(Probability::new(self.loss)?, BURST).ok();
        let loss = match self.in_bursts {
            true => bursts().map_or(Loss::None, Loss::GilbertElliott),
            false => random(self.loss),
        };
        // The tunnel knows the path MTU from the start.
        let config = nc::Config { base_mtu: 1_500, ..nc::Config::default() };
        if self.is_cubic {
            let traffic = Traffic::Tcp(Kind::Cubic);
            return Network { traffic, ..Network::long(loss, Carrier::Coded(config)) };
        }
        // The queue is never empty and adds its length to the delay, so it is short.
        let config = nc::Config { queue: SHORT_QUEUE, ..config };
        let traffic = Traffic::Udp { load: LOAD };
        Network { traffic, ..Network::long(loss, Carrier::Coded(config)) }
    }

    /// The share of the limit that must be reached.
    fn goal(&self) -> f64 {
        if self.in_bursts { 0.90 } else { 0.95 }
    }

    fn pattern(&self) -> &'static str {
        if self.in_bursts { "losses in bursts of 4" } else { "independent losses" }
    }
}

impl Place for Path {
    fn cell(&self) -> Cell {
        self.network().cell(SPAN)
    }
}

impl Drawn for Path {
    fn line(&self) -> Line {
        let title = format!("our tunnel, {}", self.pattern());
        if self.in_bursts {
            Line::new("ours, bursts", title, Ink::Other(0))
        } else {
            Line::new("ours", title, Ink::Default)
        }
    }

    fn x(&self) -> (f64, &'static str) {
        (self.loss * 100.0, PERCENT)
    }
}

fn ratio(runs: &Runs<Path>, path: &Path) -> Estimate {
    runs.at(path, measure::GOODPUT).times(1e6 / path.network().limit())
}

/// A delay as a multiple of the round-trip time.
fn delay(runs: &Runs<Path>, path: &Path, metric: Metric) -> Estimate {
    runs.at(path, metric).times(1.0 / ROUND_TRIP)
}

fn judge(runs: &Runs<Path>) -> Finding {
    let saturated: Vec<&Path> = runs.places().iter().filter(|path| !path.is_cubic).collect();
    let judged = || saturated.iter().filter(|path| !path.in_bursts);
    let mut checks = Vec::new();
    for path in &saturated {
        let place = format!("at {} with {}", percent(path.loss), path.pattern());
        let (reached, p99) = (ratio(runs, path), delay(runs, path, measure::P99));
        let what = format!("{} of the limit, {} asked, {place}", share(&reached), path.goal());
        checks.push(Check::new(what, reached.at_least(path.goal())));
        if !path.in_bursts {
            let what = format!("a delay of {} round trips at most {place}", share(&p99));
            checks.push(Check::new(what, p99.at_most(1.0)));
        }
    }
    let measured = format!(
        "with independent losses at least {:.3} of the limit that our headers leave, the 99th \
         percentile of the extra delay at most {:.2} round trips.",
        judged().map(|path| ratio(runs, path).mean).fold(1.0, f64::min),
        judged().map(|path| delay(runs, path, measure::P99).mean).fold(0.0, f64::max)
    );
    let shares = saturated.iter().map(|path| {
        let y = (ratio(runs, path), "of the limit");
        Point { limit: Some(1.0), ..runs.point(path, measure::GOODPUT, y) }
    });
    let shares: Vec<Point> = shares.collect();
    let delays = saturated.iter().map(|path| {
        runs.point(path, measure::P99, (delay(runs, path, measure::P99), "round trips"))
    });
    let delays: Vec<Point> = delays.collect();
    Finding {
        figures: figures(&shares, &delays),
        tables: vec![table(runs, &saturated)],
        points: shares.into_iter().chain(delays).collect(),
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
        ..runs.finding(&checks, measured)
    }
}

type Column = fn(&Runs<Path>, &Path) -> String;
const COLUMNS: [(&str, Column); 6] = [
    ("goodput", |runs, path| share(&ratio(runs, path))),
    ("goal", |_, path| path.goal().to_string()),
    ("delay p50", |runs, path| share(&delay(runs, path, measure::P50))),
    ("delay p99", |runs, path| share(&delay(runs, path, measure::P99))),
    ("octets out for one in", |runs, path| share(&runs.at(path, measure::COST))),
    ("goodput, CUBIC inside", |runs, path| {
        let cubic = Path { is_cubic: true, ..*path };
        if runs.places().contains(&cubic) { share(&ratio(runs, &cubic)) } else { String::new() }
    }),
];

fn table(runs: &Runs<Path>, saturated: &[&Path]) -> Table {
    let name = |path: &Path| format!("{}, {}", percent(path.loss), path.pattern());
    let rows = named(saturated.iter().copied(), name);
    let title = "The long path: goodput as a share of the limit, extra delay in round trips";
    Table::new(title, ("Loss", COLUMNS), rows, |value, path| value(runs, path))
}

fn figures(shares: &[Point], delays: &[Point]) -> Vec<Figure> {
    let ticks = LOSSES.map(|loss| loss * 100.0);
    let figure = |points: &[Point], goals, name, title, y| {
        let x = Axis::linear("Loss of the middle link, in the mean", PERCENT).with_ticks(ticks);
        let subtitle = "10 Mbit/s, a round trip of 0.6 s or 500 packets";
        Figure::of(points, name, title).under(subtitle).over(x).up(y).above(goals)
    };
    let level = |name: &str, ink, y| Series::new(name, ink, ticks.map(|x| Mark::exact(x, y)));
    vec![
        figure(
            shares,
            vec![
                level("the limit", Ink::Limit, 1.0),
                level("the goal with independent losses", Ink::Goal, 0.95),
            ],
            "nc-long",
            "A saturated long path: goodput",
            Axis { from_zero: false, ..Axis::linear("Goodput as a share of the limit", "") },
        ),
        figure(
            delays,
            vec![level("the goal: one round trip", Ink::Goal, 1.0)],
            "nc-long-delay",
            "A saturated long path: extra delay of packets",
            Axis::linear("99th percentile of the extra delay", "round trips"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_and_delay_have_goals_and_bursts_have_a_lower_one() {
        let verdict = |runs, single: f64, bursts: f64, late: f64| {
            judge(&Runs::made_up(paths(), runs, |path| {
                let share = if path.in_bursts { bursts } else { single };
                let goodput = share * path.network().limit() / 1e6;
                vec![(measure::GOODPUT, goodput), (measure::P99, late * ROUND_TRIP)]
            }))
            .verdict
        };

        assert_eq!(verdict(3, 0.96, 0.91, 0.9), Verdict::Reproduced);
        assert_eq!(verdict(1, 0.96, 0.91, 0.9), Verdict::Undecided);
        for (single, bursts, late) in [(0.94, 0.91, 0.9), (0.96, 0.89, 0.9), (0.96, 0.91, 1.1)] {
            assert_eq!(verdict(3, single, bursts, late), Verdict::Differs);
        }
    }
}
