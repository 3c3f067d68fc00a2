//! The savings of compressed headers below small messages, requests and TCP.

mod scene;

use super::{BIT_S, GROUP, air_assumptions};

use crate::prelude::*;
use scene::{Load, Scene};

const SPEEDS: [u32; 3] = [75, 300, 1_200];
const LOADS: [Load; 6] = [
    Load::Burst(20),
    Load::Burst(100),
    Load::Lone(20),
    Load::Lone(100),
    Load::Asked(64),
    Load::Transfer(3_000),
];

/// Octets on the air for each message or transfer.
const OCTETS: Metric = "octets";
/// How long each took.
const TIME: Metric = "time";
/// The share of the time in which the receiver's station sends TCP's acknowledgements.
const ANSWERS: Metric = "answers";

pub const CLAIM: Claim = Claim {
    id: "hf-headers",
    group: GROUP,
    text: "compressed headers of IP, UDP, ICMP and TCP make messages, answers and transfers over IP Client take \
           fewer octets on the air and no more time at 75 to 1200 bit/s, announcements included",
    source: "goals of this project",
    experiment: || Experiment::new(places(), judge),
};

/// The loads and speeds; at 75 bit/s a connection of TCP breaks before its first segment is through.
fn cases() -> Vec<(Load, u32)> {
    let all = LOADS.into_iter().flat_map(|load| SPEEDS.map(|speed| (load, speed)));
    all.filter(|(load, speed)| !matches!(load, Load::Transfer(_)) || *speed > 75).collect()
}

fn places() -> Vec<Scene> {
    cases().into_iter().flat_map(|(load, speed)| both(speed, load)).collect()
}

/// Without and with compressed headers.
fn both(speed: u32, load: Load) -> [Scene; 2] {
    [false, true].map(|is_compressed| Scene { speed, load, is_compressed })
}

impl Place for Scene {
    fn cell(&self) -> Cell {
        let scene = *self;
        let work = move |seed| outcome(scene, seed);
        let Scene { speed, load, is_compressed } = scene;
        let with = if is_compressed { "with" } else { "without" };
        let compressed = if is_compressed { "compressed" } else { "whole" };
        let words = match load {
            Load::Asked(octets) => format!("{octets}-answered"),
            Load::Burst(octets) => format!("{octets}-at-once"),
            Load::Lone(octets) => format!("{octets}-one-a-minute"),
            Load::Transfer(octets) => format!("{octets}-by-tcp"),
        };
        let name = Name::of("headers").with("rate", speed).with("octets", words);
        let name = name.with("headers", compressed);
        let load = match load {
            Load::Asked(octets) => format!("Asked({octets})"),
            Load::Burst(octets) => format!("Burst({octets})"),
            Load::Lone(octets) => format!("Lone({octets})"),
            Load::Transfer(octets) => format!("Transfer({octets})"),
        };
        Cell::new(name, format!("headers {load} {speed} {with}"), work).at_most(super::ALIKE)
    }
}

fn outcome(scene: Scene, seed: u64) -> Outcome {
    let taken = scene.run(seed);
    // A message that never arrived counts as if it took a day.
    let seconds = Observation::or_later(taken.seconds, 86_400.0);
    let octets = match taken.seconds {
        Some(_) => Observation::Exact(taken.octets),
        None => Observation::AtLeast(taken.octets),
    };
    vec![(OCTETS, octets), (TIME, seconds), exact(ANSWERS, taken.answers)]
}

/// The name of a load in tables.
fn name(load: Load) -> String {
    match load {
        Load::Asked(octets) => format!("{octets} octets, answered"),
        Load::Burst(octets) => format!("{octets} octets, {} at once", load.count()),
        Load::Lone(octets) => format!("{octets} octets, one a minute"),
        Load::Transfer(octets) => format!("{octets} octets by TCP"),
    }
}

fn judge(runs: &Runs<Scene>) -> Finding {
    let mut checks = Vec::new();
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for (load, speed) in cases() {
        let both = both(speed, load);
        let [octets, time, answers] =
            [OCTETS, TIME, ANSWERS].map(|metric| both.map(|it| runs.at(&it, metric)));
        for (metric, [without, with]) in [(OCTETS, octets), (TIME, time)] {
            let what = format!(
                "{} at {speed} bit/s: {metric} {} instead of {}",
                name(load),
                number(with.mean),
                number(without.mean),
            );
            // A block of the interleaver may hold a message either way.
            let answer = match metric {
                TIME => with.at_most(without.mean),
                _ => with.below(&without),
            };
            checks.push(Check::new(what, answer));
            let lines = [("without", Ink::Paper, without), ("with", Ink::Default, with)];
            for (series, ink, y) in lines {
                let line = Line::new(series.to_owned(), series, ink);
                let point = Point::new(line, (f64::from(speed), BIT_S), (y, metric));
                points.push(Point { cell: Some(name(load)), ..point });
            }
        }
        rows.push(row(speed, load, [octets, time, answers]));
    }
    let head = [
        "load", "bit/s", "octets", "with", "time, s", "with", "a minute", "with", "answers", "with",
    ];
    let table = Table::list("Without compressed headers and with", head, rows);
    Finding { tables: vec![table], points, assumptions: assumptions(), ..runs.finding(&checks, "") }
}

fn row(speed: u32, load: Load, [octets, time, answers]: [[Estimate; 2]; 3]) -> Vec<String> {
    let mut row = vec![name(load), speed.to_string()];
    row.extend(octets.iter().map(|it| number(it.mean)));
    row.extend(time.iter().map(|it| number(it.mean)));
    row.extend(time.iter().map(|it| match load {
        Load::Burst(_) => number(load.count() as f64 * 60.0 / it.mean),
        Load::Asked(_) | Load::Lone(_) | Load::Transfer(_) => String::new(),
    }));
    row.extend(answers.iter().map(|it| match load {
        Load::Transfer(_) => percent(it.mean),
        Load::Asked(_) | Load::Burst(_) | Load::Lone(_) => String::new(),
    }));
    row
}

fn assumptions() -> Vec<String> {
    let mut all = air_assumptions();
    all.push(
        "Two stations with IP clients and ARQ in order on a clear link, a host behind each, networks of 24 bits. UDP \
         from and to port 4000, IPv4 without don't-fragment options. The hosts sent one message 20 minutes before, so \
         that the clients know each other; what they tell each other again while it is measured counts. Octets are \
         those of all frames but padding, from both stations, for each message."
            .to_owned(),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};

    /// The verdict if compression makes everything so many times as long.
    fn verdict(runs: u32, factor: f64) -> Verdict {
        judge(&Runs::made_up(places(), runs, |scene| {
            let times = if scene.is_compressed { factor } else { 1.0 };
            vec![(OCTETS, 100.0 * times), (TIME, 10.0 * times), (ANSWERS, 0.1)]
        }))
        .verdict
    }

    #[test]
    fn octets_and_time_have_to_be_saved() {
        assert_eq!([verdict(3, 0.9), verdict(3, 1.1)], [Reproduced, Differs]);
        assert_eq!(verdict(1, 0.9), Undecided);
    }
}
