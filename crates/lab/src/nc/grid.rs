//! Goodput on the seed's topology over the loss, the sessions and the scheme: the runs that most
//! claims look at.

use super::measure::{self, SEED_SPAN};
use super::network::Network;
use super::{MBIT, PERCENT, Scheme, curve, limit_curve};
use crate::claim::{Cell, Metric, Point, Results, Table};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;
use crate::words::{mean, percent};
use sim::channel::Loss;
use sim::units::Probability;

/// Sessions at once.
pub(super) const SESSIONS: [u32; 4] = [1, 2, 3, 5];
/// Loss of the middle link, there.
pub(super) const LOSSES: [f64; 7] = [0.0, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30];
/// The share of the limit that our tunnel is to reach.
pub(super) const GOAL: f64 = 0.95;

/// Each packet is lost with this probability.
pub(super) fn random(loss: f64) -> Loss {
    Loss::random(Probability::new(loss).unwrap_or(Probability::ONE))
}

pub(super) fn scenario(scheme: Scheme, sessions: u32, loss: f64) -> Network {
    Network::seed(sessions as usize, random(loss), scheme.carrier())
}

pub(super) fn cells(sessions: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for sessions in sessions {
        for scheme in Scheme::ALL {
            cells.extend(LOSSES.map(|loss| scenario(scheme, *sessions, loss).cell(SEED_SPAN)));
        }
    }
    cells
}

/// The mean of a metric.
pub(super) fn at(
    results: &Results,
    scheme: Scheme,
    sessions: u32,
    loss: f64,
    metric: Metric,
) -> Estimate {
    results.estimate(&scenario(scheme, sessions, loss).name(SEED_SPAN), metric)
}

/// The mean goodput as a share of its limit.
pub(super) fn ratio(results: &Results, scheme: Scheme, sessions: u32, loss: f64) -> Estimate {
    let limit = scenario(scheme, sessions, loss).limit() / 1e6;
    at(results, scheme, sessions, loss, measure::GOODPUT).times(1.0 / limit)
}

pub(super) fn points(results: &Results, sessions: &[u32]) -> Vec<Point> {
    let mut points = Vec::new();
    for sessions in sessions {
        for scheme in Scheme::ALL {
            for loss in LOSSES {
                points.push(Point {
                    series: scheme.series().to_owned(),
                    x: loss * 100.0,
                    x_unit: PERCENT,
                    y: at(results, scheme, *sessions, loss, measure::GOODPUT),
                    y_unit: MBIT,
                    limit: Some(scenario(scheme, *sessions, loss).limit() / 1e6),
                    sessions: Some(*sessions),
                    limit2: None,
                    cell: None,
                });
            }
        }
    }
    points
}

/// Goodput over loss for so many sessions: a quarter of the paper's Figure 7.
pub(super) fn figure(points: &[Point], name: &str, sessions: u32) -> Figure {
    let is_of = |scheme: Scheme| {
        move |it: &Point| it.sessions == Some(sessions) && it.series == scheme.series()
    };
    let mut series = vec![
        limit_curve(points, "limit of the links", Ink::Limit, 1.0, is_of(Scheme::Tcp)),
        limit_curve(
            points,
            "the goal: 0.95 of the limit with our headers",
            Ink::Goal,
            GOAL,
            is_of(Scheme::Ours),
        ),
    ];
    series.extend(Scheme::ALL.map(|it| curve(points, it.title(), it.ink(), is_of(it))));
    let runs = points.first().map_or(0, |point| point.y.runs);
    Figure {
        name: name.to_owned(),
        title: match sessions {
            1 => "Goodput of one session over a lossy link".to_owned(),
            _ => format!("Goodput of each of {sessions} sessions over a lossy link"),
        },
        subtitle: format!(
            "Edges of 1 Mbit/s and 1 ms, a lossy middle of 4 Mbit/s and 7 ms, mean of {runs} runs"
        ),
        x: Axis::linear("Loss of the middle link", PERCENT),
        y: Axis::linear("Goodput of a session", MBIT),
        series,
        note: String::new(),
    }
}

/// A row for each scheme and number of sessions, a column for each loss.
pub(super) fn table(
    title: &str,
    sessions: &[u32],
    schemes: &[Scheme],
    value: impl Fn(Scheme, u32, f64) -> Estimate,
) -> Table {
    let mut head = vec!["Sessions".to_owned(), "series".to_owned()];
    head.extend(LOSSES.map(percent));
    let mut rows = Vec::new();
    for sessions in sessions {
        for scheme in schemes {
            let mut row = vec![sessions.to_string(), scheme.series().to_owned()];
            row.extend(LOSSES.map(|loss| share(&value(*scheme, *sessions, loss))));
            rows.push(row);
        }
    }
    Table { title: title.to_owned(), head, rows }
}

/// A share near 1, with digits enough to tell it from 1.
pub(super) fn share(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(half) => format!("{:.3} ± {half:.3}", estimate.mean),
        None => mean(estimate),
    }
}
