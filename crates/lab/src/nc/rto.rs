//! The minimum RTO of the paper's tunnel against that of the sources.

use std::time::Duration;

use super::grid;
use super::measure::{self, SEED_SPAN};
use super::network::{Carrier, Network};
use super::{GROUP, MBIT, Scheme, assumptions, curve};
use crate::claim::{Cell, Claim, Finding, Metric, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;
use crate::words::{mean, percent};

/// Minimum RTOs, in ms; that of the sources is 1,000.
const VALUES: [u32; 5] = [200, 400, 700, 1_000, 1_500];
/// The paper's.
const CHOSEN: u32 = 400;
/// That of the sources.
const SOURCES: u32 = 1_000;
const LOSSES: [f64; 2] = [0.20, 0.30];

fn scenario(loss: f64, millis: u32) -> Network {
    let min_rto = Duration::from_millis(u64::from(millis));
    let carrier = Carrier::TcpNcTunnel { min_rto };
    Network { carrier, ..grid::scenario(Scheme::TcpNcTunnel, 1, loss) }
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-rto",
        group: GROUP,
        text: "the minimum RTO of the tunnel has to be below that of the sources, 400 against 1,000 ms, \
               or the sources retransmit before the tunnel does",
        source: "section III-B",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    let of = |loss| VALUES.map(|millis| scenario(loss, millis).cell(SEED_SPAN));
    LOSSES.into_iter().flat_map(of).collect()
}

fn judge(results: &Results) -> Finding {
    let of = |loss, millis, metric: Metric| -> Estimate {
        results.estimate(&scenario(loss, millis).name(SEED_SPAN), metric)
    };
    let series = |loss: f64| format!("tcpnc-tunnel, {} loss", percent(loss));
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for loss in LOSSES {
        for millis in VALUES {
            let goodput = of(loss, millis, measure::GOODPUT);
            rows.push(vec![
                percent(loss),
                format!("{millis} ms"),
                mean(&goodput),
                mean(&of(loss, millis, measure::REPEATED)),
            ]);
            points.push(Point {
                series: series(loss),
                x: f64::from(millis),
                x_unit: "ms",
                y: goodput,
                y_unit: MBIT,
                limit: Some(scenario(loss, millis).limit() / 1e6),
                sessions: Some(1),
                limit2: None,
                cell: None,
            });
        }
    }
    let goodput = |loss, millis| of(loss, millis, measure::GOODPUT);
    let repeats = |loss, millis| of(loss, millis, measure::REPEATED);
    let earlier = LOSSES.map(|loss| repeats(loss, CHOSEN).is_surely_below(&repeats(loss, SOURCES)));
    let better = LOSSES.map(|loss| goodput(loss, SOURCES).is_surely_below(&goodput(loss, CHOSEN)));
    let does = |all: [bool; 2]| match all {
        [true, true] => "at both losses",
        [false, false] => "at neither loss",
        [true, false] => "at 20 % loss only",
        [false, true] => "at 30 % loss only",
    };
    let runs = points.first().map_or(0, |point| point.y.runs);
    let holds = earlier == [true, true] && better == [true, true];
    Finding {
        verdict: if holds { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!(
            "goodput in Mbit/s with 400 and with 1,000 ms: {} and {} at 20 % loss, {} and {} at 30 %; \
             segments that the source sent again: {} and {}, {} and {}. {runs} runs.",
            mean(&goodput(0.20, CHOSEN)),
            mean(&goodput(0.20, SOURCES)),
            mean(&goodput(0.30, CHOSEN)),
            mean(&goodput(0.30, SOURCES)),
            mean(&repeats(0.20, CHOSEN)),
            mean(&repeats(0.20, SOURCES)),
            mean(&repeats(0.30, CHOSEN)),
            mean(&repeats(0.30, SOURCES)),
        ),
        reason: format!(
            "with 400 ms instead of 1,000 the source sends fewer segments again beyond doubt {}, and \
             goodput is higher beyond doubt {}",
            does(earlier),
            does(better),
        ),
        figures: vec![Figure {
            name: "nc-rto".to_owned(),
            title: "When the tunnel's TCP sends again".to_owned(),
            subtitle: format!("One session through the paper's tunnel, mean of {runs} runs"),
            x: Axis::log("Minimum RTO of the tunnel; the source's is 1,000 ms", "ms")
                .with_ticks(VALUES.map(f64::from)),
            y: Axis::linear("Goodput", MBIT),
            series: LOSSES
                .iter()
                .zip([Ink::Seed, Ink::Other(0)])
                .map(|(loss, ink)| {
                    let name = series(*loss);
                    let title = format!("the paper's tunnel, {} loss", percent(*loss));
                    curve(&points, &title, ink, |point| point.series == name)
                })
                .collect(),
            note: String::new(),
        }],
        tables: vec![Table {
            title: "Goodput and repeats of the source over the tunnel's minimum RTO".to_owned(),
            head: ["Loss", "minimum RTO", "goodput, Mbit/s", "segments sent again"]
                .map(str::to_owned)
                .to_vec(),
            rows,
        }],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}
