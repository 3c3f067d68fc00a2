//! What the tunnel costs where nothing is lost.

use std::time::Duration;

use proto::nc;
use sim::channel::Loss;

use super::measure::{self, SEED_SPAN, Span};
use super::network::{Carrier, Kind, Network, Traffic};
use super::{GROUP, Scheme, assumptions, grid};
use crate::claim::{Cell, Claim, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::stats::Estimate;

/// Octets sent, in those that framing alone needs, that are allowed.
const GOAL: f64 = 1.01;
const LONG_SPAN: Span = Span { warm_up: Duration::from_secs(15), window: Duration::from_secs(20) };

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-clean",
        group: GROUP,
        text: "on a link without loss the tunnel sends at most 1 % more octets than its framing needs",
        source: "ours",
        cells,
        judge,
    }
}

/// The networks without loss, what each is called, and when it is measured.
fn networks() -> Vec<(String, Network, Span)> {
    let seed = grid::SESSIONS.map(|n| {
        let network = grid::scenario(Scheme::Ours, n, 0.0);
        let plural = if n == 1 { "" } else { "s" };
        (format!("seed's topology, {n} session{plural}"), network, SEED_SPAN)
    });
    let config = nc::Config { base_mtu: 1_500, ..nc::Config::default() };
    let long = |traffic| Network { traffic, ..Network::long(Loss::None, Carrier::Coded(config)) };
    let mut networks = seed.to_vec();
    networks.extend([
        ("long path, CUBIC".to_owned(), long(Traffic::Tcp(Kind::Cubic)), LONG_SPAN),
        ("long path, datagrams".to_owned(), long(Traffic::Udp { load: 0.96 }), LONG_SPAN),
        ("long path, a tenth of its rate".to_owned(), long(Traffic::Udp { load: 0.1 }), LONG_SPAN),
    ]);
    networks
}

fn cells() -> Vec<Cell> {
    networks().into_iter().map(|(_, network, span)| network.cell(span)).collect()
}

fn judge(results: &Results) -> Finding {
    let mut points = Vec::new();
    let mut rows = Vec::new();
    let mut dear = Vec::new();
    for (index, (name, network, span)) in networks().into_iter().enumerate() {
        let framing = network.outer() as f64 / network.packet as f64;
        let cost = results.estimate(&network.name(span), measure::COST);
        let ratio: Estimate = cost.times(1.0 / framing);
        if ratio.low() > GOAL {
            dear.push(format!("{name} ({:.3})", ratio.mean));
        }
        rows.push(vec![
            name.clone(),
            grid::share(&cost),
            format!("{framing:.3}"),
            grid::share(&ratio),
        ]);
        points.push(Point {
            series: name,
            x: index as f64 + 1.0,
            x_unit: "case",
            y: ratio,
            y_unit: "of the framing",
            limit: Some(1.0),
            sessions: None,
            limit2: None,
            cell: None,
        });
    }
    let most = points.iter().map(|point| point.y.mean).fold(0.0, f64::max);
    let runs = points.first().map_or(0, |point| point.y.runs);
    let line = |y: f64| points.iter().map(|point| Mark::exact(point.x, y)).collect();
    let figure = Figure {
        name: "nc-clean".to_owned(),
        title: "What the tunnel sends without loss, in what its framing needs".to_owned(),
        subtitle: format!("Octets on the middle in the direction of the data, mean of {runs} runs"),
        x: Axis::linear("Case", "").with_ticks(points.iter().map(|point| point.x)),
        y: Axis { from_zero: false, ..Axis::linear("Octets sent, in octets of framing alone", "") },
        series: vec![
            Series { name: "framing alone".to_owned(), ink: Ink::Limit, marks: line(1.0) },
            Series { name: "the goal: 1 % more".to_owned(), ink: Ink::Goal, marks: line(GOAL) },
            super::curve(&points, "our tunnel", Ink::Default, |_| true),
        ],
        note: points
            .iter()
            .map(|point| format!("{:.0}: {}", point.x, point.series))
            .collect::<Vec<_>>()
            .join("; ")
            + ".",
    };
    Finding {
        verdict: if dear.is_empty() { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!("at most {most:.3} times the octets that framing needs. {runs} runs."),
        reason: if dear.is_empty() {
            format!("no case exceeds {GOAL} beyond doubt")
        } else {
            format!("more than {GOAL} times: {}", dear.join(", "))
        },
        figures: vec![figure],
        tables: vec![Table {
            title:
                "Octets on the middle, in the direction of the data, for an octet of inner packets"
                    .to_owned(),
            head: ["Case", "sent", "framing", "ratio"].map(str::to_owned).to_vec(),
            rows,
        }],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}
