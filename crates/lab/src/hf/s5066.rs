//! The utilisation of a saturated link by STANAG 5066 alone, by speed and by bit error rate.

mod key_up;

use std::time::Duration;

use base::quantity::Span;
use sim::hf::Channel;

use super::bulk::Bulk;
use super::compare::{self, Compared};
use super::transfer::share;
use super::{
    BIT_S, GROUP, UTILISATION, draws_of_channel, draws_of_waveform, published, scientific,
};
use super::{key_ups, radio};
use crate::prelude::*;

/// Speeds on a clear link; the last is wideband.
const SPEEDS: [u32; 12] =
    [75, 150, 300, 600, 1_200, 2_400, 3_200, 4_800, 6_400, 8_000, 9_600, 240_000];
/// The speed of runs with bit errors.
const ERROR_SPEED: u32 = 9_600;
/// Bit error rates there, and the utilisation that the white paper measured.
const ERRORS: [(f64, f64); 4] = [(0.0, 0.921), (1e-6, 0.921), (1e-5, 0.886), (1e-4, 0.559)];
/// The shares of turnaround that the white paper measured at these bit error rates.
const PUBLISHED_TURNAROUND: [f64; 4] =
    [key_ups::TURNAROUND, key_ups::TURNAROUND, key_ups::TURNAROUND, 0.058];
/// The goals for our utilisation, by speed and by bit error rate.
const SPEED_GOALS: [(u32, f64); 3] = [(300, 0.85), (9_600, 0.92), (240_000, 0.90)];
const ERROR_GOALS: [(f64, f64); 2] = [(1e-5, 0.89), (1e-4, 0.60)];
/// The place of a link without errors on a logarithmic axis.
const NO_ERRORS: f64 = 1e-7;
/// Transmissions before a run is measured, and those that are.
const SKIPPED: u64 = 5;
const MEASURED: u64 = 40;
/// The most runs with errors and a slow radio.
const KEYED_RUNS: u32 = 5;
/// The number of transmissions in the timeline.
const SHOWN: u64 = 5;

const DATA: Metric = "data";
/// The uses of the rest of the time, and their names in tables.
const REST: [(Metric, &str); 4] = [
    ("protocol", "protocol"),
    (TURNAROUND, "turnaround"),
    ("padding", "gaps and padding"),
    ("loss", "data loss"),
];
const TURNAROUND: Metric = "turnaround";
const CYCLE: Metric = "cycle";

pub const CLAIM: Claim = Claim {
    id: "hf-s5066",
    group: GROUP,
    text: "raw STANAG 5066 makes use of 92.1 % of a clear link of 9600 bit/s, of 92.1, 88.6 \
           and 55.9 % with bit error rates of 1e-6, 1e-5 and 1e-4",
    source: "TCP over HF radio, tests with link errors",
    experiment: || Experiment::new(bulks(), judge),
};

fn bulk(speed: u32, ber: f64) -> Bulk {
    let channel = if ber > 0.0 { Channel::Ber(ber) } else { Channel::Clear };
    Bulk { channel, skipped: SKIPPED, measured: MEASURED, ..Bulk::clear(speed) }
}

fn keyed(ber: f64, key_up: Duration) -> Bulk {
    Bulk { key_up, ..bulk(ERROR_SPEED, ber) }
}

impl Place for Bulk {
    fn cell(&self) -> Cell {
        let bulk = *self;
        let most = match bulk.channel {
            Channel::Clear => super::ALIKE,
            _ if bulk.key_up == radio::FASTEST => u32::MAX,
            _ => KEYED_RUNS,
        };
        let Self { waveform, channel, key_up, skipped, measured } = bulk;
        let name = Name::of("bulk").with("rate", waveform).with("channel", channel);
        let name = name.with("key-up", Span(key_up));
        let draws = format!(
            "bulk Bulk {{ waveform: {}, channel: {}, key_up: {key_up:?}, skipped: {skipped}, measured: {measured} }}",
            draws_of_waveform(waveform),
            draws_of_channel(channel),
        );
        Cell::new(name, draws, move |seed| outcome(&bulk, seed)).at_most(most)
    }
}

fn outcome(bulk: &Bulk, seed: u64) -> Outcome {
    let Some(used) = bulk.run(seed) else {
        // The link was lost: of the rest nothing is known.
        let rest = REST.iter().map(|(metric, _)| *metric).chain([CYCLE]);
        let unknown = rest.map(|metric| (metric, Observation::AtLeast(0.0)));
        return unknown.chain([exact(DATA, 0.0)]).collect();
    };
    let values = [used.protocol, used.turnaround, used.padding, used.loss];
    let mut outcome = vec![exact(DATA, used.data), exact(CYCLE, used.cycle_s)];
    let rest = REST.iter().zip(values);
    outcome.extend(rest.map(|((metric, _), value)| (*metric, Observation::Exact(value))));
    outcome
}

fn bulks() -> Vec<Bulk> {
    let clear = SPEEDS.map(|speed| bulk(speed, 0.0));
    let errors =
        ERRORS.iter().flat_map(|&(ber, _)| key_ups::key_ups().map(|key_up| keyed(ber, key_up)));
    clear.into_iter().chain(errors).collect()
}

fn judge(runs: &Runs<Bulk>) -> Finding {
    let data = |speed, ber| runs.at(&bulk(speed, ber), DATA);
    let by_speed: Vec<Point> = SPEEDS
        .iter()
        .map(|&speed| point("s5066", (f64::from(speed), BIT_S), &bulk(speed, 0.0), runs))
        .collect();
    let by_error: Vec<Point> = ERRORS
        .iter()
        .map(|&(ber, _)| point("s5066", (ber, BER), &bulk(ERROR_SPEED, ber), runs))
        .collect();
    let by_key_up = ERRORS.iter().flat_map(|&(ber, _)| {
        key_ups::key_ups().map(|key_up| {
            let x = (key_up.as_secs_f64(), KEY_UP);
            point(&format!("s5066, key-up, {}", scientific(ber)), x, &keyed(ber, key_up), runs)
        })
    });
    let by_key_up: Vec<Point> = by_key_up.collect();
    let theirs = ERRORS.iter().map(|&(ber, utilisation)| Point {
        y: published(utilisation),
        limit: None,
        ..point("published", (ber, BER), &bulk(ERROR_SPEED, ber), runs)
    });
    let goals: Vec<Goal> = goals(data);
    let missed: Vec<String> =
        goals.iter().filter(|goal| goal.is_reached() == Answer::No).map(Goal::describe).collect();
    let radios = compare::radios(|key_up| compared(runs, key_up));

    let said: Vec<String> = by_error.iter().map(|point| percent(point.y.mean)).collect();
    let measured = format!(
        "With a key-up of {}, {} at 9600 bit/s with bit error rates of 0, 1e-6, 1e-5 and 1e-4; \
             {} to {} on clear links of 75 to 240000 bit/s.",
        compare::seconds(radio::FASTEST),
        said.join(", "),
        percent(by_speed.iter().map(|point| point.y.mean).fold(1.0, f64::min)),
        percent(by_speed.iter().map(|point| point.y.mean).fold(0.0, f64::max))
    );
    Finding {
        verdict: compare::verdict(&radios),
        reason: format!(
            "{}; {}; {}",
            compare::reason(&radios),
            key_ups::implied(),
            if missed.is_empty() {
                "with the fastest radio no goal is surely missed".to_owned()
            } else {
                format!("with the fastest radio a goal is missed: {}", missed.join("; "))
            },
        ),
        figures: vec![speed_figure(&by_speed), error_figure(&by_error), key_up::figure(&by_key_up)],
        tables: vec![
            goal_table(&goals),
            key_up::table(runs, "Utilisation at 9600 bit/s", DATA, ERRORS.map(|it| it.1)),
            key_up::table(runs, "Share of turnaround", TURNAROUND, PUBLISHED_TURNAROUND),
            table(runs),
        ],
        exchanges: vec![
            exchange(runs, 0.0, "hf-s5066-clear"),
            exchange(runs, 1e-4, "hf-s5066-errors"),
        ],
        points: by_speed.iter().chain(&by_error).chain(&by_key_up).cloned().chain(theirs).collect(),
        assumptions: super::assumptions(),
        ..runs.finding(&[], measured)
    }
}

/// The comparisons of our figures with this key-up with the published ones.
fn compared(runs: &Runs<Bulk>, key_up: Duration) -> Vec<Compared> {
    let compare = |&(ber, theirs): &(f64, f64)| {
        let place = if ber > 0.0 { format!("at {ber:e}") } else { "clear".to_owned() };
        Compared::share(&place, &runs.at(&keyed(ber, key_up), DATA), theirs)
    };
    ERRORS.iter().map(compare).collect()
}

fn point(series: &str, x: (f64, &'static str), bulk: &Bulk, runs: &Runs<Bulk>) -> Point {
    let line = match series {
        "published" => Line::new(series, "published", Ink::Paper),
        _ => Line::new(series, "ours", Ink::Default),
    };
    Point { limit: Some(bulk.limit()), ..Point::new(line, x, (runs.at(bulk, DATA), UTILISATION)) }
}

const BER: &str = "bit error rate";
const KEY_UP: &str = "s of key-up";

/// A goal at some place, and our measurement.
struct Goal {
    place: String,
    asked: f64,
    measured: Estimate,
}

impl Goal {
    fn is_reached(&self) -> Answer {
        self.measured.at_least(self.asked)
    }

    fn describe(&self) -> String {
        format!("{:.3} of {} {}", self.measured.mean, self.asked, self.place)
    }
}

fn goals(data: impl Fn(u32, f64) -> Estimate) -> Vec<Goal> {
    let speeds = SPEED_GOALS.iter().map(|&(speed, asked)| Goal {
        place: format!("at {speed} bit/s"),
        asked,
        measured: data(speed, 0.0),
    });
    let errors = ERROR_GOALS.iter().map(|&(ber, asked)| Goal {
        place: format!("at {ERROR_SPEED} bit/s with a bit error rate of {ber:e}"),
        asked,
        measured: data(ERROR_SPEED, ber),
    });
    speeds.chain(errors).collect()
}

fn goal_table(goals: &[Goal]) -> Table {
    let rows = goals.iter().map(|goal| {
        vec![
            goal.place.clone(),
            format!("{:.3}", goal.asked),
            share(&goal.measured),
            match goal.is_reached() {
                Answer::No => "missed",
                Answer::Undecided => "undecided",
                Answer::Yes => "reached",
            }
            .to_owned(),
        ]
    });
    Table::list("Goals", ["where", "asked", "measured", ""], rows)
}

/// The use of the time, divided as in the white paper.
fn table(runs: &Runs<Bulk>) -> Table {
    let mut head = vec!["speed".to_owned(), BER.to_owned(), "utilisation".to_owned()];
    head.extend(REST.map(|(_, title)| title.to_owned()));
    head.extend(["cycle, s".to_owned(), "limit".to_owned(), "published".to_owned()]);
    let clear = SPEEDS.iter().map(|&speed| (speed, 0.0));
    let errors = ERRORS.iter().skip(1).map(|&(ber, _)| (ERROR_SPEED, ber));
    let rows = clear.chain(errors).map(|(speed, ber)| {
        let at = |metric| runs.at(&bulk(speed, ber), metric);
        let mut row = vec![speed.to_string(), scientific(ber), share(&at(DATA))];
        row.extend(REST.map(|(metric, _)| format!("{:.3}", at(metric).mean.max(0.0))));
        let known = ERRORS.iter().find(|it| speed == ERROR_SPEED && it.0.total_cmp(&ber).is_eq());
        row.extend([
            number(at(CYCLE).mean),
            format!("{:.3}", bulk(speed, ber).limit()),
            known.map_or(String::new(), |(_, published)| format!("{published:.3}")),
        ]);
        row
    });
    Table::list("Use of the time", head, rows)
}

fn speed_figure(points: &[Point]) -> Figure {
    let goals = SPEED_GOALS.map(|(speed, asked)| Mark::exact(f64::from(speed), asked));
    Figure::new("hf-s5066-speed", "Utilisation of a clear link by STANAG 5066")
        .under(format!(
            "Bulk from one node to another, acknowledged, short interleaver, mean of {} runs",
            points[0].y.runs
        ))
        .over(Axis::log("Speed", BIT_S))
        .up(Axis { from_zero: false, ..Axis::linear("Utilisation", "") })
        .with(vec![
            limit(points, |x| x),
            Series::new("the goal", Ink::Goal, goals),
            curve(points, |x| x),
        ])
        .noting(
            "The limit: transmissions of 127.5 s, one block in answer, the longest segments, the \
               modem's delays.",
        )
}

fn error_figure(points: &[Point]) -> Figure {
    let place = |ber: f64| ber.max(NO_ERRORS);
    let marks = |pairs: &[(f64, f64)]| {
        pairs.iter().map(|&(ber, y)| Mark::exact(place(ber), y)).collect::<Vec<_>>()
    };
    Figure::new("hf-s5066-errors", "Utilisation of a link with bit errors by STANAG 5066")
        .under(format!(
            "Bulk at {ERROR_SPEED} bit/s, acknowledged, short interleaver, mean of {} runs",
            most_runs(points)
        ))
        .over(Axis::log("Bit error rate after decoding", ""))
        .up(Axis::linear("Utilisation", ""))
        .with(vec![
            limit(points, place),
            Series::new("the goal", Ink::Goal, marks(&ERROR_GOALS)),
            Series::new("published", Ink::Paper, marks(&ERRORS)),
            curve(points, place),
        ])
        .noting(
            "A link without errors is drawn at 1e-7. The limit: as for clear links, with segments \
               of the best length, each lost one sent again.",
        )
}

/// The largest number of runs of a point.
fn most_runs(points: &[Point]) -> u32 {
    points.iter().map(|point| point.y.runs).max().unwrap_or_default()
}

fn curve(points: &[Point], place: impl Fn(f64) -> f64) -> Series {
    let marks = points.iter().map(|point| Mark::measured(place(point.x), &point.y));
    Series::new("ours", Ink::Default, marks)
}

fn limit(points: &[Point], place: impl Fn(f64) -> f64) -> Series {
    let marks = points.iter().filter_map(|it| Some(Mark::exact(place(it.x), it.limit?)));
    Series::new("the limit", Ink::Limit, marks)
}

/// The first transmissions of the run with the first seed.
fn exchange(runs: &Runs<Bulk>, ber: f64, file: &str) -> Exchange {
    let bulk = bulk(ERROR_SPEED, ber);
    Exchange {
        name: format!("{file}-timeline"),
        title: format!("Bulk at {ERROR_SPEED} bit/s over STANAG 5066"),
        subtitle: match ber > 0.0 {
            true => format!("Bit error rate {ber:e}: the call, and the transmissions after it"),
            false => "A clear link: the call, and the transmissions after it".to_owned(),
        },
        stations: bulk.exchange(runs.first_seed(&bulk), SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Beaten, Differs, Reproduced, Undecided};

    /// The verdict if our utilisation is the published one times the factor `of` a key-up.
    fn verdict(runs: u32, of: fn(Duration) -> f64) -> Verdict {
        judge(&Runs::made_up(bulks(), runs, |it| {
            let known =
                ERRORS.iter().find(|(ber, _)| bulk(ERROR_SPEED, *ber).channel == it.channel);
            vec![(DATA, known.map_or(0.0, |(_, published)| published * of(it.key_up)))]
        }))
        .verdict
    }

    #[test]
    fn radios_as_fast_as_the_published_one_decide() {
        assert_eq!([verdict(3, |_| 1.02), verdict(3, |_| 1.0)], [Beaten, Reproduced]);
        assert_eq!([verdict(3, |_| 0.98), verdict(1, |_| 1.02)], [Differs, Undecided]);
        assert_eq!(verdict(3, |it| if it > key_ups::as_published() { 0.5 } else { 1.02 }), Beaten);
    }
}
