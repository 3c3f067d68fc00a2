//! One flow of each TCP over time on Chain 5+1, as in the paper's figures 5, 6 and 8.

use std::time::Duration;

use super::KBIT_S;
use super::scene::{self, Traced};
use super::trial::{Network, PAPER_TCPS, Traffic, Trial, Uplink};
use crate::prelude::*;

const LENGTH: Duration = Duration::from_secs(100);

/// Windows, goodput and hops in the first 100 s of the runs with the first seeds.
pub fn figures(runs: &Runs<Trial>) -> Vec<Figure> {
    let moving = Network::Chain51(Uplink::Fast);
    let trace = |network| {
        PAPER_TCPS.map(|tcp| {
            let trial = Trial::new(network, Traffic::One, tcp);
            scene::trace(trial, runs.first_seed(&trial), LENGTH)
        })
    };
    let (rest, motion) = (trace(Network::Chain5), trace(moving));
    let lines = |traces: &[Traced], of: &dyn Fn(&Traced) -> Vec<Mark>| -> Vec<Series> {
        let named = PAPER_TCPS.into_iter().zip(traces).enumerate();
        named
            .map(|(index, (tcp, traced))| Series::new(tcp.title(), Ink::Trace(index), of(traced)))
            .collect()
    };
    let window = |traced: &Traced| steps(&traced.window);
    let hops = |traces: &[Traced], name: &str, height: f64| {
        let hops = steps(&traces[1].hops).into_iter();
        let last = Mark::exact(LENGTH.as_secs_f64(), traces[1].hops.last().map_or(0.0, |it| it.1));
        let marks = hops.chain([last]).map(|mark| Mark { y: mark.y * height, ..mark });
        Series::new(name, Ink::Trace(PAPER_TCPS.len()), marks)
    };
    let figure = |name: &str, title: &str, (label, unit), series| {
        Figure::new(name.to_owned(), title.to_owned())
            .under("One flow to the fixed host from 20 s on, AODV, one run")
            .over(Axis::linear("Time", "s"))
            .up(Axis::linear(label, unit))
            .with(series)
    };
    let goodput =
        |traced: &Traced| traced.goodput.iter().map(|(x, y)| Mark::exact(*x, *y)).collect();
    let mut over_time = lines(&motion, &goodput);
    over_time.push(hops(&motion, "hops under Vegas, times 100", 100.0));
    let mut windows = lines(&motion, &window);
    windows.push(hops(&motion, "hops under Vegas, times 10", 10.0));
    let segments = ("Congestion window", "segments");
    vec![
        figure(
            "manet-chain5-window",
            "Congestion windows on a chain at rest",
            segments,
            lines(&rest, &window),
        ),
        figure("manet-51-window", "Congestion windows on Chain 5+1", segments, windows),
        figure(
            "manet-51-goodput",
            "Goodput on Chain 5+1, second by second",
            ("Goodput", KBIT_S),
            over_time,
        ),
    ]
}

/// A value holds until the next one comes.
fn steps(points: &[(f64, f64)]) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for (x, y) in points {
        marks.extend(marks.last().map(|last| Mark::exact(*x, last.y)));
        marks.push(Mark::exact(*x, *y));
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_until_the_next() {
        let marks: Vec<(f64, f64)> =
            steps(&[(1.0, 5.0), (3.0, 7.0)]).iter().map(|it| (it.x, it.y)).collect();

        assert_eq!(marks, [(1.0, 5.0), (3.0, 5.0), (3.0, 7.0)]);
    }
}
