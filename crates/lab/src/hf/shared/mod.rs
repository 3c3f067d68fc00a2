//! Sharing of a frequency by several stations: waiting times, shares, and costs.

mod scene;
#[cfg(test)]
mod tests;

use std::time::Duration;

use hf::s5066::cas::Access;
use hf::s5066::node::Config;
use scene::{Kind, Load, Scene, Served};
use sim::hf::Channel;

use super::radio;
use super::{BIT_S, GROUP, UTILISATION, air_assumptions, station};
use crate::prelude::*;

const SPEEDS: [u32; 4] = [300, 1_200, 9_600, 240_000];
/// The speed at which different numbers of stations are tried.
const SPEED: u32 = 9_600;
const STATIONS: [usize; 4] = [2, 4, 6, 8];
/// The priorities of messages beside bulk data.
const PRIORITIES: [u8; 5] = [0, 4, 8, 12, 15];
const MINUTE: Duration = Duration::from_secs(60);
/// The length of a run, and of its beginning that does not count for shares.
const TIME: Duration = Duration::from_secs(3_600);
const SKIPPED: Duration = Duration::from_secs(900);
/// The same for wideband, which carries as much in this time as the others in days.
const WIDEBAND: u32 = 240_000;
const WIDEBAND_TIME: Duration = Duration::from_secs(1_200);
const WIDEBAND_SKIPPED: Duration = Duration::from_secs(300);
/// Runs at most.
const RUNS: u32 = 10;
/// The time over which shares are compared.
const SHARED: Duration = Duration::from_secs(600);

const SHARE: Metric = "share";
const JAIN: Metric = "jain";
const MEDIAN: Metric = "median";
const MOST: Metric = "most";
const LONGEST: Metric = "longest";
const FIRST: Metric = "first";

/// The goals by speed: seconds of waiting in the same direction and in the other.
const WAIT_GOALS: [(u32, f64, f64); 2] = [(9_600, 5.0, 25.0), (300, 30.0, 60.0)];
pub const JAIN_GOAL: f64 = 0.95;
/// The least share of its goodput that a lone pair keeps when other stations may transmit.
const PAIR_GOAL: f64 = 0.97;
/// The goal for the utilisation of bulk data alone at [`SPEED`].
const BULK_GOAL: f64 = 0.95;

pub const CLAIM: Claim = Claim {
    id: "hf-shared",
    group: GROUP,
    text: "on a frequency that several stations share everybody has a turn within a bound, equal \
           flows have equal shares, what is urgent waits for seconds beside saturated bulk, and \
           a lone pair hardly pays for it",
    source: "goals of this project; the white paper has one pair of stations",
    experiment: || Experiment::new(places(), judge),
};

/// The traffic of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    /// One flow of bulk; the others are silent.
    Pair,
    /// A flow from each station with an even place to the next.
    Flows,
    /// A flow from each station to the next.
    Ring,
    /// Messages of the highest priority beside bulk that goes the same way.
    UrgentSame,
    /// Messages of the highest priority beside bulk that goes the other way.
    UrgentOther,
    /// Messages of a priority beside bulk that goes the same way.
    Priority(u8),
    /// Occasional messages from a third station while two never pause.
    Turn,
    /// Messages beside messages for a station that does not exist.
    Dead,
}

impl Case {
    fn loads(self, stations: usize) -> Vec<Load> {
        let next = |at: usize| (at + 1) % stations;
        match self {
            Self::Pair => vec![Load::bulk(0, 1)],
            Self::Flows => (0..stations).step_by(2).map(|at| Load::bulk(at, next(at))).collect(),
            Self::Ring => (0..stations).map(|at| Load::bulk(at, next(at))).collect(),
            Self::UrgentSame => vec![Load::urgent(0, 1, MINUTE), Load::bulk(0, 1)],
            Self::UrgentOther => vec![Load::urgent(1, 0, MINUTE), Load::bulk(0, 1)],
            Self::Priority(priority) => {
                vec![Load { priority, ..Load::urgent(0, 1, MINUTE * 2) }, Load::bulk(0, 1)]
            }
            Self::Turn => {
                let message = Load { priority: 0, ..Load::urgent(2, 3, MINUTE * 5) };
                vec![message, Load::bulk(0, 1), Load::bulk(1, 0)]
            }
            Self::Dead => {
                let dead = Load { priority: 0, ..Load::urgent(0, stations, MINUTE) };
                vec![Load::urgent(0, 1, MINUTE), dead]
            }
        }
    }
}

/// A case at a speed among some stations.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shared(Case, u32, usize);

impl Place for Shared {
    fn cell(&self) -> Cell {
        let Self(case, speed, stations) = *self;
        let most = if speed == WIDEBAND { 2 } else { RUNS };
        let work = move |seed| outcome(case, speed, stations, seed);
        let (words, label) = match case {
            Case::Pair => ("pair", "Pair"),
            Case::Flows => ("flows", "Flows"),
            Case::Ring => ("ring", "Ring"),
            Case::UrgentSame => ("urgent-same-way", "UrgentSame"),
            Case::UrgentOther => ("urgent-other-way", "UrgentOther"),
            Case::Priority(_) => ("priority", "Priority"),
            Case::Turn => ("turn", "Turn"),
            Case::Dead => ("dead", "Dead"),
        };
        let name = Name::of("shared").with("rate", speed).with("stations", stations);
        let (name, label) = match case {
            Case::Priority(priority) => {
                (name.with(words, priority), format!("{label}({priority})"))
            }
            _ => (name.word(words), label.to_owned()),
        };
        Cell::new(name, format!("shared {label} {speed} {stations}"), work).at_most(most)
    }
}

fn outcome(case: Case, speed: u32, stations: usize, seed: u64) -> Outcome {
    let loads = case.loads(stations);
    let scene = Scene {
        waveform: radio::waveform(speed),
        channel: Channel::Clear,
        stations,
        loads: loads.clone(),
    };
    let (time, skipped) = match speed {
        WIDEBAND => (WIDEBAND_TIME, WIDEBAND_SKIPPED),
        _ => (TIME, SKIPPED),
    };
    let served = scene.run(time, seed);
    let of_speed =
        |octets: usize, time: Duration| octets as f64 * 8.0 / f64::from(speed) / time.as_secs_f64();
    let share = |from, until| {
        let bulk = loads.iter().zip(&served).filter(|(load, _)| load.kind == Kind::Bulk);
        let shares = bulk.map(move |(_, load)| of_speed(load.octets(from, until), until - from));
        shares.collect::<Vec<f64>>()
    };
    let mut outcome = vec![
        exact(SHARE, share(skipped, time).iter().sum()),
        exact(JAIN, jain(&share(skipped, skipped + SHARED))),
    ];
    if matches!(loads[0].kind, Kind::Messages { .. }) {
        let skipped = if case == Case::UrgentOther { served[0].unannounced() } else { 0 };
        outcome.extend(waits(&served[0], skipped));
    }
    outcome
}

/// The waiting times of messages: the median, the 95th percentile, the longest, and the first.
fn waits(served: &Served, skipped: usize) -> Outcome {
    // A missing message took longer than the whole run, and longer than all messages that arrived.
    let seconds = |wait: &Option<Duration>| Observation::seconds(*wait, TIME);
    let first = served.waits.first().map(seconds);
    let mut waits: Vec<&Option<Duration>> = served.waits.iter().skip(skipped).collect();
    waits.sort_by_key(|wait| wait.unwrap_or(Duration::MAX));
    let waits: Vec<Observation> = waits.into_iter().map(seconds).collect();
    let at = |part: usize| waits.get((waits.len() * part / 100).min(waits.len().saturating_sub(1)));
    let all = [(MEDIAN, at(50)), (MOST, at(95)), (LONGEST, waits.last()), (FIRST, first.as_ref())];
    all.into_iter().filter_map(|(metric, wait)| Some((metric, *wait?))).collect()
}

/// The fairness of shares: 1 if all are equal, 1/n if one has all (Jain, Chiu, Hawe, 1984).
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// The cases that are tried at every speed, and among how many stations.
const BY_SPEED: [(Case, usize); 6] = [
    (Case::UrgentSame, 2),
    (Case::UrgentOther, 2),
    (Case::Turn, 4),
    (Case::Flows, 4),
    (Case::Pair, 2),
    (Case::Pair, 4),
];

fn places() -> Vec<Shared> {
    let mut all = Vec::new();
    for (case, stations) in BY_SPEED {
        all.extend(SPEEDS.map(|speed| Shared(case, speed, stations)));
    }
    for stations in STATIONS {
        all.push(Shared(Case::Ring, SPEED, stations));
        all.extend([Case::Flows, Case::Pair].map(|case| Shared(case, SPEED, stations)));
        if stations > 2 {
            all.push(Shared(Case::Turn, SPEED, stations));
        }
    }
    all.extend(PRIORITIES.map(|priority| Shared(Case::Priority(priority), SPEED, 2)));
    all.extend([300, SPEED].map(|speed| Shared(Case::Dead, speed, 4)));
    all
}

/// The access to the frequency: two stations alternate, more have slots.
pub fn access(position: u8, stations: u8) -> Access {
    if stations == 2 { Access::PointToPoint } else { Access::Slotted { position, stations } }
}

/// The configuration of a station, which computes bounds.
fn config(speed: u32, stations: usize) -> Config {
    let stations = u8::try_from(stations).expect("few stations");
    Config { access: access(0, stations), ..station(1, radio::waveform(speed)) }
}

fn judge(runs: &Runs<Shared>) -> Finding {
    let at = |case, speed, stations, metric| runs.at(&Shared(case, speed, stations), metric);
    let mut points = Vec::new();
    for speed in SPEEDS {
        let mut push = |series: &str, y: Estimate, y_unit, limit: Option<f64>| {
            let line = Line::new(series, series, Ink::Default);
            let x = (f64::from(speed), BIT_S);
            points.push(Point { limit, ..Point::new(line, x, (y, y_unit)) });
        };
        let bound = |stations, of: fn(&Config) -> Duration| {
            Some(of(&config(speed, stations)).as_secs_f64())
        };
        let longest = |case, stations| at(case, speed, stations, LONGEST);
        push("urgent-same", longest(Case::UrgentSame, 2), "s", bound(2, Config::urgent_bound));
        let other = bound(2, Config::urgent_bound_against);
        push("urgent-other", longest(Case::UrgentOther, 2), "s", other);
        push("turn", longest(Case::Turn, 4), "s", bound(4, Config::turn_bound));
        push("jain", at(Case::Flows, speed, 4, JAIN), "Jain's index", Some(1.0));
        let alone = at(Case::Pair, speed, 2, SHARE).mean;
        push("pair", at(Case::Pair, speed, 4, SHARE), UTILISATION, Some(alone));
    }
    let value = |series: &str, speed: u32| {
        let point = points.iter().find(|it| it.line.series == series && it.x == f64::from(speed));
        number(point.map_or(f64::NAN, |point| point.y.mean))
    };
    let measured = format!(
        "the slowest of sixty urgent messages beside bulk took {} s in the same direction and {} \
             s in the other at 9600 bit/s, {} and {} s at 300; a third station waited {} and {} s at \
             most for a pair that never paused; Jain's index of two flows {} and {}; a lone pair \
             among four has {} and {} of the rate.",
        value("urgent-same", SPEED),
        value("urgent-other", SPEED),
        value("urgent-same", 300),
        value("urgent-other", 300),
        value("turn", SPEED),
        value("turn", 300),
        value("jain", SPEED),
        value("jain", 300),
        value("pair", SPEED),
        value("pair", 300)
    );
    let checks = checks(runs, &points);
    Finding {
        figures: vec![waiting(&points), by_priority(runs), shares(runs)],
        tables: vec![waits_table(runs), shares_table(runs)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

/// The goals, with what was measured.
fn checks(runs: &Runs<Shared>, points: &[Point]) -> Vec<Check> {
    let mut checks = Vec::new();
    for Point { line, x, y, limit, .. } in points {
        let (at, mean) = (format!("{} at {x} bit/s", line.series), number(y.mean));
        let goal = WAIT_GOALS.iter().find(|(speed, ..)| f64::from(*speed) == *x);
        match (line.series.as_str(), goal, *limit) {
            ("urgent-same", Some((_, goal, _)), _) | ("urgent-other", Some((_, _, goal)), _) => {
                let what = format!("{at}: {mean} s, {goal} s were asked");
                checks.push(Check::new(what, y.at_most(*goal)));
            }
            ("turn", _, Some(bound)) => {
                let what = format!("{at}: {mean} s, the bound is {}", number(bound));
                checks.push(Check::new(what, y.at_most(bound)));
            }
            ("jain", ..) => {
                checks.push(Check::new(format!("{at}: {mean}"), y.at_least(JAIN_GOAL)));
            }
            ("pair", _, Some(alone)) => {
                let part = y.times(1.0 / alone);
                let what = format!("{at}: {} of what it has alone", number(part.mean));
                checks.push(Check::new(what, part.at_least(PAIR_GOAL)));
            }
            _ => {}
        }
    }
    let alone = runs.at(&Shared(Case::Pair, SPEED, 2), SHARE);
    let what = format!("bulk alone has {} of {SPEED} bit/s", number(alone.mean));
    checks.push(Check::new(what, alone.at_least(BULK_GOAL)));
    checks
}

fn waiting(points: &[Point]) -> Figure {
    let series = |name: &str, of: &'static str, ink| {
        let marks = points.iter().filter(|it| it.line.series == of);
        Series::new(name, ink, marks.map(|it| Mark::measured(it.x, &it.y)))
    };
    let bound = |name: &str, of: &'static str, ink| {
        let marks = points.iter().filter(|it| it.line.series == of);
        Series::new(name, ink, marks.filter_map(|it| Some(Mark::exact(it.x, it.limit?))))
    };
    Figure::new("hf-shared-waits", "The longest wait on a frequency that never rests")
        .under("100 octets: of priority 15 beside bulk, and from a third station beside a pair")
        .over(Axis::log("Rate", "bit/s").with_ticks(SPEEDS.map(f64::from)))
        .up(Axis::log("Longest wait of an hour", "s"))
        .with(vec![
            bound("bound of a turn", "turn", Ink::Limit),
            bound("bound against bulk", "urgent-other", Ink::Goal),
            series("a third station's turn", "turn", Ink::Tcp),
            series("urgent, against bulk", "urgent-other", Ink::Paper),
            series("urgent, with bulk", "urgent-same", Ink::Default),
        ])
        .noting(
            "Bounds are what the configuration tells (Config::turn_bound, urgent_bound_against).",
        )
}

fn by_priority(runs: &Runs<Shared>) -> Figure {
    let series = |label: &str, metric, ink| {
        let mark = |priority| {
            let place = Shared(Case::Priority(priority), SPEED, 2);
            Mark::measured(f64::from(priority), &runs.at(&place, metric))
        };
        Series::new(label, ink, PRIORITIES.map(mark))
    };
    Figure::new("hf-shared-priorities", "Messages beside bulk of priority 0, by their priority")
        .under(format!("100 octets beside saturated bulk in the same direction, {SPEED} bit/s"))
        .over(Axis::linear("Priority", "").with_ticks(PRIORITIES.map(f64::from)))
        .up(Axis::log("Wait", "s"))
        .with(vec![
            series("longest", LONGEST, Ink::Tcp),
            series("95 of 100 at most", MOST, Ink::Paper),
            series("half at most", MEDIAN, Ink::Default),
        ])
}

fn shares(runs: &Runs<Shared>) -> Figure {
    let series = |label: &str, case, ink| {
        let share = |stations| runs.at(&Shared(case, SPEED, stations), SHARE);
        let mark = |stations| Mark::measured(stations as f64, &share(stations));
        Series::new(label, ink, STATIONS.map(mark))
    };
    Figure::new("hf-shared-use", "What sharing costs")
        .under(format!("U_PDUs of all stations together, {SPEED} bit/s"))
        .over(Axis::linear("Stations", "").with_ticks(STATIONS.map(|stations| stations as f64)))
        .up(Axis::linear("Utilisation", ""))
        .with(vec![
            series("a flow from each to the next", Case::Ring, Ink::Tcp),
            series("a flow for each two", Case::Flows, Ink::Paper),
            series("one flow, the others silent", Case::Pair, Ink::Default),
        ])
}

fn waits_table(runs: &Runs<Shared>) -> Table {
    let mut rows = Vec::new();
    let mut push = |what: String, case, speed, stations| {
        let place = Shared(case, speed, stations);
        let metrics = [MEDIAN, MOST, LONGEST, FIRST];
        let mut row = vec![what];
        row.extend(metrics.map(|metric| number(runs.at(&place, metric).mean)));
        row.push(number(runs.at(&place, SHARE).mean));
        rows.push(row);
    };
    for speed in SPEEDS {
        push(format!("urgent with bulk, {speed} bit/s"), Case::UrgentSame, speed, 2);
        push(format!("urgent against bulk, {speed} bit/s"), Case::UrgentOther, speed, 2);
        push(format!("third station, {speed} bit/s"), Case::Turn, speed, 4);
    }
    for priority in PRIORITIES {
        let what = format!("priority {priority} with bulk, {SPEED} bit/s");
        push(what, Case::Priority(priority), SPEED, 2);
    }
    for speed in [300, SPEED] {
        push(format!("urgent beside a dead station, {speed} bit/s"), Case::Dead, speed, 4);
    }
    let head = ["what waits", "half, s", "95 of 100, s", "longest, s", "first, s", "bulk's use"];
    Table::list("Waits of messages of 100 octets", head, rows)
}

fn shares_table(runs: &Runs<Shared>) -> Table {
    let rows = STATIONS.map(|stations| {
        let at = |case, metric| number(runs.at(&Shared(case, SPEED, stations), metric).mean);
        vec![
            stations.to_string(),
            at(Case::Pair, SHARE),
            at(Case::Flows, SHARE),
            at(Case::Flows, JAIN),
            at(Case::Ring, SHARE),
            at(Case::Ring, JAIN),
            number(config(SPEED, stations).turn_bound().as_secs_f64()),
        ]
    });
    let head = ["stations", "one flow", "flows", "Jain", "ring", "Jain", "bound of a turn, s"];
    Table::list(
        format!("Use of {SPEED} bit/s by all together, and how equal shares are in ten minutes"),
        head,
        rows,
    )
}

fn assumptions() -> Vec<String> {
    let mut all = air_assumptions();
    all.push(
        "All stations hear each other, on a clear channel; two alternate, more have slots of their \
         own. An hour (at 240000 bit/s twenty minutes), of which the first quarter is not counted for \
         shares. Bulk is U_PDUs of 2048 octets of priority 0, as many as the node takes. Messages of 100 octets come at random, one a minute in the mean, after \
         five minutes. Against bulk those are not counted that were sent before the first had arrived: \
         nobody can know of them. The first is in the table."
            .to_owned(),
    );
    all
}
