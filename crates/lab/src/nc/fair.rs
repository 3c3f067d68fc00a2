//! The tunnel beside a plain TCP flow.

use std::time::Duration;

use proto::nc;
use sim::channel::Loss;
use sim::units::BitRate;

use super::measure::{self, Span};
use super::network::{Carrier, Kind, Network, Traffic, Wire};
use super::{GROUP, MBIT, curve};
use crate::claim::{Cell, Claim, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::words::mean;

/// One way, in ms.
const DELAYS: [u32; 4] = [5, 10, 25, 50];
const RATE: u64 = 10_000_000;
/// The least share of an equal share that either is to get.
const GOAL: f64 = 0.5;
/// Repairs for a source that pass where all loss is congestion. The mean counts, not its interval: a
/// single run that floods the link is one too many.
const REPAIRS: f64 = 0.05;
const SPAN: Span = Span { warm_up: Duration::from_secs(20), window: Duration::from_secs(40) };

/// A clean bottleneck with a queue of one round trip, a hop beyond the gateways.
fn network(millis: u32) -> Network {
    let rate = BitRate::from_bits_per_s(RATE).unwrap_or_default();
    let delay = Duration::from_millis(u64::from(millis));
    let round_trip = (delay * 2).as_secs_f64() * RATE as f64 / (1_500.0 * 8.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some packets")]
    let queue = round_trip.ceil().max(20.0) as usize;
    let config = nc::Config { base_mtu: 1_500, ..nc::Config::default() };
    Network {
        middle: Wire { rate, delay },
        queue,
        is_hidden: true,
        traffic: Traffic::Tcp(Kind::Cubic),
        rival: Some(Kind::Cubic),
        ..Network::long(Loss::None, Carrier::Coded(config))
    }
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-fair",
        group: GROUP,
        text: "at a clean bottleneck that it shares with one plain CUBIC flow, the tunnel with one \
               CUBIC flow inside takes about as much as that one and leaves it as much",
        source: "ours; RFC 9265 asks that coding hides no congestion",
        cells: || DELAYS.map(network).map(|it| it.cell(SPAN)).to_vec(),
        judge,
    }
}

fn judge(results: &Results) -> Finding {
    let mut points = Vec::new();
    let mut rows = Vec::new();
    let mut unfair = Vec::new();
    let mut floods = Vec::new();
    for millis in DELAYS {
        let cell: Cell = network(millis).cell(SPAN);
        let of = |metric| results.estimate(cell.name(), metric);
        let (tunnel, rival) = (of(measure::GOODPUT), of(measure::RIVAL));
        let equal = f64::midpoint(tunnel.mean, rival.mean);
        for (who, goodput) in [("the tunnel", tunnel), ("the plain flow", rival)] {
            if goodput.high() < GOAL * equal {
                unfair.push(format!("{who} at {} ms gets {:.2}", 2 * millis, goodput.mean / equal));
            }
        }
        let repairs = of(measure::REPAIRS);
        if repairs.mean > REPAIRS {
            floods.push(format!("{:.2} at {} ms", repairs.mean, 2 * millis));
        }
        let ratio = tunnel.mean / rival.mean;
        rows.push(vec![
            format!("{} ms", 2 * millis),
            mean(&tunnel),
            mean(&rival),
            format!("{ratio:.2}"),
            mean(&repairs),
        ]);
        for (series, y) in [("ours", tunnel), ("rival", rival)] {
            points.push(Point {
                series: series.to_owned(),
                x: f64::from(2 * millis),
                x_unit: "ms",
                y,
                y_unit: MBIT,
                limit: Some(network(millis).limit() / 2e6),
                sessions: None,
                limit2: None,
                cell: None,
            });
        }
    }
    let ratios: Vec<f64> = points.chunks(2).map(|two| two[0].y.mean / two[1].y.mean).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let runs = points.first().map_or(0, |point| point.y.runs);
    let is_of = |series: &'static str| move |point: &Point| point.series == series;
    let half = points.iter().filter(|point| point.series == "ours");
    let half = half.filter_map(|point| Some(Mark::exact(point.x, point.limit?))).collect();
    Finding {
        verdict: if unfair.is_empty() && floods.is_empty() {
            Verdict::Reproduced
        } else {
            Verdict::Differs
        },
        measured: format!(
            "the tunnel gets {least:.2} to {most:.2} times what the plain flow gets. {runs} runs."
        ),
        reason: [
            if unfair.is_empty() {
                format!("neither gets less than {GOAL} of an equal share beyond doubt")
            } else {
                format!("of an equal share, less than {GOAL}: {}", unfair.join(", "))
            },
            if floods.is_empty() {
                format!("at most {REPAIRS} repairs for a source")
            } else {
                format!(
                    "congestion is taken for loss to be masked, more than {REPAIRS} repairs for a \
                     source: {}",
                    floods.join(", ")
                )
            },
        ]
        .join("; "),
        figures: vec![Figure {
            name: "nc-fair".to_owned(),
            title: "The tunnel and one plain CUBIC flow at one bottleneck".to_owned(),
            subtitle: format!(
                "10 Mbit/s without loss, a queue of one round trip, CUBIC in the tunnel too, mean of \
                 {runs} runs"
            ),
            x: Axis::log("Round trip", "ms").with_ticks(DELAYS.map(|it| f64::from(2 * it))),
            y: Axis::linear("Goodput", MBIT),
            series: vec![
                Series { name: "half of the limit".to_owned(), ink: Ink::Limit, marks: half },
                curve(&points, "the tunnel", Ink::Default, is_of("ours")),
                curve(&points, "the plain flow", Ink::Tcp, is_of("rival")),
            ],
            note: String::new(),
        }],
        tables: vec![Table {
            title: "Goodput in Mbit/s".to_owned(),
            head: ["Round trip", "the tunnel", "the plain flow", "ratio", "repairs for a source"]
                .map(str::to_owned)
                .to_vec(),
            rows,
        }],
        points,
        exchanges: Vec::new(),
        assumptions: vec![
            "Both flows have 8 MB of buffers, SACK, no ECN; the plain flow starts first, the tunnel \
             within 100 ms."
                .to_owned(),
        ],
    }
}
