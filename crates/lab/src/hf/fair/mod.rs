//! Shares of stations with HF-PEP on one frequency, whichever way their transfers go.

mod scene;
#[cfg(test)]
mod tests;

use std::time::Duration;

use scene::Scene;
use sim::hf::Channel;

use super::radio;
use super::shared::{JAIN_GOAL, jain};
use super::{BIT_S, GROUP, air_assumptions, scientific};
use crate::prelude::*;

const SPEEDS: [u32; 2] = [1_200, 9_600];
/// Bit errors; without, runs differ by nothing but who speaks first.
const ERRORS: [f64; 2] = [0.0, 1e-5];
/// The length of a run, and of its beginning, which does not count.
const TIME: Duration = Duration::from_secs(3 * 3_600);
const SKIPPED: Duration = Duration::from_secs(1_800);
const RUNS: u32 = 10;

const JAIN: Metric = "jain";
const LEAST: Metric = "least";
const SHARE: Metric = "share";

pub const CLAIM: Claim = Claim {
    id: "hf-fair",
    group: GROUP,
    text: "stations with HF-PEP that share a frequency and always have something to send have equal \
           shares of it, whichever way their transfers go",
    source: "goals of this project; the white paper has one pair of stations",
    experiment: || Experiment::new(places(), judge),
};

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    /// Three stations, each to the next.
    Ring3,
    /// Four stations, each to the next.
    Ring4,
    /// Two pairs, both ways each.
    Pairs,
    /// Three stations to a fourth, which sends nothing.
    Inward,
    /// One station to the three others, and one of the three to another.
    Uneven,
}

const CASES: [Case; 5] = [Case::Ring3, Case::Ring4, Case::Pairs, Case::Inward, Case::Uneven];

impl Case {
    fn stations(self) -> usize {
        match self {
            Self::Ring3 => 3,
            Self::Ring4 | Self::Pairs | Self::Inward | Self::Uneven => 4,
        }
    }

    fn transfers(self) -> Vec<(usize, usize)> {
        let ring = |stations| (0..stations).map(|at| (at, (at + 1) % stations)).collect();
        match self {
            Self::Ring3 => ring(3),
            Self::Ring4 => ring(4),
            Self::Pairs => vec![(0, 1), (1, 0), (2, 3), (3, 2)],
            Self::Inward => vec![(1, 0), (2, 0), (3, 0)],
            Self::Uneven => vec![(0, 1), (0, 2), (0, 3), (2, 3)],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ring3 => "ring-of-3",
            Self::Ring4 => "ring-of-4",
            Self::Pairs => "pairs",
            Self::Inward => "inward",
            Self::Uneven => "uneven",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Ring3 => "three stations, each to the next",
            Self::Ring4 => "four stations, each to the next",
            Self::Pairs => "two pairs, both ways",
            Self::Inward => "three stations to a fourth",
            Self::Uneven => "one to three others, and one of these to another",
        }
    }
}

/// A case at a speed with bit errors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fair(Case, u32, f64);

impl Place for Fair {
    fn cell(&self) -> Cell {
        let place = *self;
        let Self(case, speed, ber) = place;
        let name = Name::of("fair").with("who", case.name()).with("rate", speed);
        let name = name.with("ber", scientific(ber));
        let case = match case {
            Case::Ring3 => "Ring3",
            Case::Ring4 => "Ring4",
            Case::Pairs => "Pairs",
            Case::Inward => "Inward",
            Case::Uneven => "Uneven",
        };
        let draws = format!("fair {case} {speed} {}", scientific(ber));
        Cell::new(name, draws, move |seed| place.outcome(seed)).at_most(RUNS)
    }
}

impl Fair {
    fn outcome(self, seed: u64) -> Outcome {
        let Self(case, speed, ber) = self;
        let scene = Scene {
            waveform: radio::waveform(speed),
            channel: if ber > 0.0 { Channel::Ber(ber) } else { Channel::Clear },
            stations: case.stations(),
            transfers: case.transfers(),
        };
        let octets = scene.run(SKIPPED, TIME, seed);
        let of_speed = 8.0 / f64::from(speed) / (TIME - SKIPPED).as_secs_f64();
        let shares = by_station(&scene, &octets).into_iter().map(|it| it as f64 * of_speed);
        let shares: Vec<f64> = shares.collect();
        let sum: f64 = shares.iter().sum();
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        vec![
            exact(JAIN, jain(&shares)),
            // Of what would be equal.
            exact(LEAST, least * shares.len() as f64 / sum),
            exact(SHARE, sum),
        ]
    }
}

/// Octets delivered from each sending station.
fn by_station(scene: &Scene, octets: &[u64]) -> Vec<u64> {
    let of = |station| {
        let own = scene.transfers.iter().zip(octets).filter(|((from, _), _)| *from == station);
        own.map(|(_, octets)| *octets).collect::<Vec<u64>>()
    };
    let all = (0..scene.stations).map(of);
    all.filter(|own| !own.is_empty()).map(|own| own.iter().sum()).collect()
}

fn places() -> Vec<Fair> {
    let of =
        |case| SPEEDS.into_iter().flat_map(move |speed| ERRORS.map(|ber| Fair(case, speed, ber)));
    CASES.into_iter().flat_map(of).collect()
}

fn judge(runs: &Runs<Fair>) -> Finding {
    let (mut points, mut checks, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for place in places() {
        let Fair(case, speed, ber) = place;
        let index = runs.at(&place, JAIN);
        let what = format!("{}, {speed} bit/s, bit errors {}", case.words(), scientific(ber));
        let mean = number(index.mean);
        checks.push(Check::new(format!("{what}: {mean}"), index.at_least(JAIN_GOAL)));
        let [least, share] = [LEAST, SHARE].map(|metric| number(runs.at(&place, metric).mean));
        let interval = index.ci95.map_or("-".to_owned(), number);
        rows.push(vec![what, mean, interval, least, share]);
        let series = format!("{} {}", case.name(), scientific(ber));
        let line = Line::new(&series, &series, Ink::Default);
        let x = (f64::from(speed), BIT_S);
        points.push(Point { limit: Some(1.0), ..Point::new(line, x, (index, "Jain's index")) });
    }
    let least = points.iter().map(|point| point.y.mean).fold(f64::INFINITY, f64::min);
    let measured = format!(
        "Jain's index of the stations' shares was {} at least in the mean, of {} cases.",
        number(least),
        points.len()
    );
    let head = ["who sends", "Jain's index", "±", "the least share", "use of the rate"];
    let table = Table::list("Shares of stations with HF-PEP on one frequency", head, rows);
    Finding {
        tables: vec![table],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn assumptions() -> Vec<String> {
    let mut all = air_assumptions();
    all.push(
        "All stations hear each other and have slots of their own. Each has an HF-PEP as it is unless told, and \
         programs that write all that it takes and read all that comes, for three hours, of which the first half \
         hour is not counted; the octets do not shrink. Shares are octets that programs were given, by the station \
         that sent them. The least share is given as a part of what would be equal."
            .to_owned(),
    );
    all
}
