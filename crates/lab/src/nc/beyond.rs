//! What the seed leaves to others: both directions at once, and sessions of more than one kind.

use super::grid::{self, GOAL, random};
use super::measure::{self, SEED_SPAN};
use super::network::Network;
use super::{GROUP, MBIT, PERCENT, Scheme, assumptions, curve, limit_curve};
use crate::claim::{Cell, Claim, Finding, Metric, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;
use crate::words::{mean, percent};

const SESSIONS: [u32; 2] = [1, 5];
const LOSSES: [f64; 4] = [0.0, 0.10, 0.20, 0.30];

/// Sessions both ways, losses both ways.
fn both_ways(scheme: Scheme, sessions: u32, loss: f64) -> Network {
    Network {
        is_both_ways: true,
        loss_back: random(loss),
        ..grid::scenario(scheme, sessions, loss)
    }
}

/// Requests and answers beside transfers that leave nothing of the middle.
fn beside(scheme: Scheme, loss: f64) -> Network {
    Network { has_requests: true, loss_back: random(loss), ..grid::scenario(scheme, 5, loss) }
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-beyond",
        group: GROUP,
        text: "the tunnel masks losses of both directions from sessions in both directions at once, \
               and which service suits a session depends on its kind",
        source: "sections III and V, left to future work",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    let mut networks = Vec::new();
    for scheme in Scheme::BEYOND {
        for loss in LOSSES {
            networks.extend(SESSIONS.map(|sessions| both_ways(scheme, sessions, loss)));
            networks.push(beside(scheme, loss));
        }
    }
    networks.into_iter().map(|network| network.cell(SEED_SPAN)).collect()
}

fn of(results: &Results, network: &Network, metric: Metric) -> Estimate {
    results.estimate(&network.name(SEED_SPAN), metric)
}

fn judge(results: &Results) -> Finding {
    let mut points = Vec::new();
    let mut ratios = Vec::new();
    let mut short = Vec::new();
    for sessions in SESSIONS {
        for scheme in Scheme::BEYOND {
            let mut row = vec![sessions.to_string(), scheme.series().to_owned()];
            for loss in LOSSES {
                let network = both_ways(scheme, sessions, loss);
                let limit = network.limit() / 1e6;
                let y = of(results, &network, measure::GOODPUT);
                let reached = y.times(1.0 / limit);
                if scheme == Scheme::Ours && reached.high() < GOAL {
                    let loss = percent(loss);
                    short.push(format!("{:.3} with {sessions} each way at {loss}", reached.mean));
                }
                row.push(grid::share(&reached));
                points.push(Point {
                    series: scheme.series().to_owned(),
                    x: loss * 100.0,
                    x_unit: PERCENT,
                    y,
                    y_unit: MBIT,
                    limit: Some(limit),
                    sessions: Some(sessions),
                    limit2: None,
                    cell: None,
                });
            }
            ratios.push(row);
        }
    }
    let mut head = vec!["Sessions each way".to_owned(), "series".to_owned()];
    head.extend(LOSSES.map(percent));
    let ours = points.iter().filter(|point| point.series == Scheme::Ours.series());
    let least = ours.filter_map(|point| Some(point.y.mean / point.limit?)).fold(1.0, f64::min);
    let runs = points.first().map_or(0, |point| point.y.runs);
    let figures = SESSIONS.map(|sessions| figure(&points, sessions, runs)).to_vec();
    let (table, quick) = requests(results);
    Finding {
        verdict: if short.is_empty() { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!(
            "with sessions and losses both ways our tunnel reaches at least {least:.3} of the limit. \
             {quick} {runs} runs."
        ),
        reason: if short.is_empty() {
            format!("no case is below {GOAL} of the limit beyond doubt")
        } else {
            format!("below {GOAL} of the limit: {}", short.join(", "))
        },
        figures,
        tables: vec![
            Table {
                title: "Both directions at once: goodput as a share of the limit".to_owned(),
                head,
                rows: ratios,
            },
            table,
        ],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

/// Requests of 64 octets, ten a second, beside transfers.
fn requests(results: &Results) -> (Table, String) {
    let mut rows = Vec::new();
    for loss in LOSSES {
        let mut row = vec![percent(loss)];
        for scheme in Scheme::BEYOND {
            let network = beside(scheme, loss);
            let of = |metric, factor| mean(&of(results, &network, metric).times(factor));
            row.push(of(measure::ANSWERED, 100.0));
            row.push(of(measure::ANSWER_MEAN, 1e3));
            row.push(of(measure::ANSWER_MOST, 1e3));
        }
        rows.push(row);
    }
    let mut head = vec!["Loss each way".to_owned()];
    for scheme in Scheme::BEYOND {
        for what in ["answered, %", "mean, ms", "slowest, ms"] {
            head.push(format!("{}: {what}", scheme.series()));
        }
    }
    let at = |scheme, metric| of(results, &beside(scheme, 0.20), metric);
    let quick = format!(
        "Of requests beside five transfers, at 20 % loss each way, plain IP answers {:.0} % after {:.0} ms \
         in the mean, our tunnel {:.1} % after {:.0} ms: who can do without the lost ones may pass \
         beside the tunnel, all others gain by it.",
        at(Scheme::Tcp, measure::ANSWERED).mean * 100.0,
        at(Scheme::Tcp, measure::ANSWER_MEAN).mean * 1e3,
        at(Scheme::Ours, measure::ANSWERED).mean * 100.0,
        at(Scheme::Ours, measure::ANSWER_MEAN).mean * 1e3,
    );
    let title = "Requests of 64 octets and their answers, ten a second, beside five transfers";
    (Table { title: title.to_owned(), head, rows }, quick)
}

fn figure(points: &[Point], sessions: u32, runs: u32) -> Figure {
    let is_of = |scheme: Scheme| {
        move |it: &Point| it.sessions == Some(sessions) && it.series == scheme.series()
    };
    let mut series = vec![
        limit_curve(points, "limit with our headers", Ink::Limit, 1.0, is_of(Scheme::Ours)),
        limit_curve(points, "the goal: 0.95 of it", Ink::Goal, GOAL, is_of(Scheme::Ours)),
    ];
    series.extend(Scheme::BEYOND.map(|it| curve(points, it.title(), it.ink(), is_of(it))));
    let plural = if sessions == 1 { "" } else { "s" };
    Figure {
        name: format!("nc-beyond-{sessions}"),
        title: format!("{sessions} session{plural} each way, losses each way"),
        subtitle: format!(
            "Edges of 1 Mbit/s and 1 ms, a lossy middle of 4 Mbit/s and 7 ms, mean of {runs} runs"
        ),
        x: Axis::linear("Loss of the middle link, each way", PERCENT),
        y: Axis::linear("Goodput of a session", MBIT),
        series,
        note: String::new(),
    }
}
