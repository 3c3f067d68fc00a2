//! The tunnel beside a plain TCP flow.

use std::time::Duration;

use base::quantity::BitRate;
use sim::channel::Loss;
use tunnel as nc;

use super::measure::{self, Span};
use super::network::{Carrier, Kind, Network, Traffic, Wire};
use super::{GROUP, MBIT};
use crate::prelude::*;

/// One-way delays in ms.
const DELAYS: [u32; 4] = [5, 10, 25, 50];
const RATE: u64 = 10_000_000;
/// Two goodputs with a ratio in this range count as "about as much".
const ABOUT: [f64; 2] = [0.8, 1.25];
/// The most repair packets for each source packet where all loss is congestion.
const REPAIRS: f64 = 0.05;
const SPAN: Span = Span { warm_up: Duration::from_secs(20), window: Duration::from_secs(40) };

pub const CLAIM: Claim = Claim {
    id: "nc-fair",
    group: GROUP,
    text: "at a clean bottleneck that it shares with one plain CUBIC flow, the tunnel with one \
           CUBIC flow inside takes about as much as that one and leaves it as much",
    source: "ours; RFC 9265 asks that coding hides no congestion",
    experiment: || Experiment::new(DELAYS.map(Bottleneck), judge),
};

/// A bottleneck a hop beyond the gateways, by its one-way delay in ms; its queue holds a round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bottleneck(u32);

impl Bottleneck {
    fn network(self) -> Network {
        let rate = BitRate::from_bits_per_s(RATE).unwrap_or_default();
        let delay = Duration::from_millis(u64::from(self.0));
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

    /// The round-trip time in ms.
    fn round_trip(self) -> u32 {
        2 * self.0
    }
}

impl Place for Bottleneck {
    fn cell(&self) -> Cell {
        self.network().cell(SPAN)
    }
}

/// The value that a row of the table shows.
type Value<'a> = &'a dyn Fn(&Bottleneck) -> Estimate;

fn judge(runs: &Runs<Bottleneck>) -> Finding {
    let ratio = |it: &Bottleneck| -> Estimate {
        runs.at(it, measure::GOODPUT).over(&runs.at(it, measure::RIVAL))
    };
    let checks = DELAYS.map(Bottleneck).map(|it| {
        let (ratio, repairs, place) = (ratio(&it), runs.at(&it, measure::REPAIRS), it.round_trip());
        let what = format!("the tunnel gets {ratio} times what the plain flow gets at {place} ms");
        let flood = format!("{repairs} repairs for a source at {place} ms");
        [Check::new(what, ratio.within(ABOUT)), Check::new(flood, repairs.at_most(REPAIRS))]
    });
    let ratios = DELAYS.map(|it| ratio(&Bottleneck(it)).mean);
    let [least, most] = extremes(ratios.into_iter());
    let measured =
        format!("the tunnel gets {least:.2} to {most:.2} times what the plain flow gets.");
    let flows = [
        (Line::new("ours", "the tunnel", Ink::Default), measure::GOODPUT),
        (Line::new("rival", "the plain flow", Ink::Tcp), measure::RIVAL),
    ];
    let point = |it: Bottleneck, (line, metric): &(Line, Metric)| {
        let x = (f64::from(it.round_trip()), "ms");
        let limit = Some(it.network().limit() / 2e6);
        Point { limit, ..Point::new(line.clone(), x, (runs.at(&it, metric), MBIT)) }
    };
    let points: Vec<Point> = DELAYS
        .into_iter()
        .flat_map(|it| flows.each_ref().map(|flow| point(Bottleneck(it), flow)))
        .collect();
    let columns = named(DELAYS.map(Bottleneck), |it| format!("{} ms", it.round_trip()));
    let of = |metric| move |it: &Bottleneck| runs.at(it, metric);
    let rows: [(&str, Value<'_>); 4] = [
        ("the tunnel", &of(measure::GOODPUT)),
        ("the plain flow", &of(measure::RIVAL)),
        ("ratio", &ratio),
        ("repairs for a source", &of(measure::REPAIRS)),
    ];
    let title = "Goodput in Mbit/s";
    let table = Table::new(title, ("Round trip", columns), rows, |it, value| value(&it));
    let below = vec![Series::limit(&points, "half of the limit", Ink::Limit, 1.0)];
    let title = "The tunnel and one plain CUBIC flow at one bottleneck";
    let figure = Figure::of(&points, "nc-fair", title)
        .under("10 Mbit/s without loss, a queue of one round trip, CUBIC in the tunnel too")
        .over(Axis::log("Round trip", "ms").with_ticks(DELAYS.map(|it| f64::from(2 * it))))
        .up(Axis::linear("Goodput", MBIT))
        .above(below);
    Finding {
        figures: vec![figure],
        tables: vec![table],
        points,
        assumptions: vec![
            "Both flows have 8 MB of buffers, SACK, no ECN; the plain flow starts first, the tunnel \
             within 100 ms."
                .to_owned(),
            format!("About as much is {} to {} times as much.", ABOUT[0], ABOUT[1]),
        ],
        ..runs.finding(checks.as_flattened(), measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_the_other_gets_is_not_about_as_much() {
        let verdict = |runs, tunnel: f64, repairs: f64| {
            judge(&Runs::made_up(DELAYS.map(Bottleneck), runs, |_| {
                vec![(measure::GOODPUT, tunnel), (measure::RIVAL, 4.0), (measure::REPAIRS, repairs)]
            }))
            .verdict
        };

        assert_eq!(
            [verdict(3, 3.5, 0.01), verdict(1, 3.5, 0.01)],
            [Verdict::Reproduced, Verdict::Undecided]
        );
        for (tunnel, repairs) in [(2.2, 0.01), (5.5, 0.01), (3.5, 0.1)] {
            assert_eq!(verdict(3, tunnel, repairs), Verdict::Differs);
        }
    }
}
