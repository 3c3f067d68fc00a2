//! The kit of an experiment over many places: each place is tried in several ways with the same chance, and ours is
//! to be nowhere worse.
//!
//! ```text
//!   matrix: distinct scenarios ─▶ tries: each way ─▶ runs ─▶ results ─▶ Ranking: the worst first ─▶ verdict, tables
//!                                                              └──▶ curves over the share of places
//! ```

use std::fmt;

use crate::prelude::*;
use crate::scenario::{Built, Plan};

/// A place of the matrix.
pub trait Scenario: Copy + fmt::Display + PartialEq + Send + Sync + 'static {
    /// How it is tried.
    type Way: Copy + PartialEq + Send + Sync + 'static;

    /// All ways, in the order of the results.
    const WAYS: &'static [Self::Way];

    /// The name of a way in the names of cells.
    fn called(way: Self::Way) -> &'static str;

    /// How often to run it at most.
    fn most_runs(&self) -> u32;

    /// What is run with a seed.
    fn plan(&self, way: Self::Way, seed: u64) -> Plan;

    /// Runs what was planned and measures.
    fn measure(&self, built: Built<'_>) -> Outcome;
}

/// A scenario in one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try<S, W> {
    pub(crate) scenario: S,
    pub(crate) way: W,
}

/// Each scenario in each way.
pub fn tries<S: Scenario>(scenarios: &[S]) -> Vec<Try<S, S::Way>> {
    let ways = |scenario: S| S::WAYS.iter().map(move |way| Try { scenario, way: *way });
    scenarios.iter().copied().flat_map(ways).collect()
}

impl<S: Scenario<Way = W>, W: Copy + PartialEq + Send + Sync + 'static> Place for Try<S, W> {
    /// All ways of a scenario have the same seeds.
    fn cell(&self) -> Cell {
        let Self { scenario, way } = *self;
        Cell::of(
            format!("{scenario}, {}", S::called(way)),
            move |seed| scenario.plan(way, seed),
            move |built| scenario.measure(built),
        )
        .with_draws_of(&scenario.to_string())
        .at_most(scenario.most_runs())
    }
}

/// Each element once, in the order of the list.
pub fn distinct<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut places: Vec<T> = Vec::new();
    for scenario in all {
        if !places.contains(&scenario) {
            places.push(scenario);
        }
    }
    places
}

/// A result of one place: how our transport does there.
pub trait Judged {
    /// The greater the worse; for an order alone.
    fn badness(&self) -> f64;

    /// Whether ours reaches the goals.
    fn holds(&self) -> Answer;

    /// The result in a sentence.
    fn text(&self) -> String;
}

/// All results, the worst first.
pub struct Ranking<R> {
    all: Vec<R>,
}

impl<R: Judged> Ranking<R> {
    /// Sentences name so many; tables have all.
    const NAMED: usize = 8;

    pub fn new(results: Vec<R>) -> Self {
        Self { all: worst_first(results, R::badness) }
    }

    pub fn all(&self) -> Vec<&R> {
        self.all.iter().collect()
    }

    /// The results that surely miss a goal.
    pub fn short(&self) -> Vec<&R> {
        self.that_say(Answer::No)
    }

    /// The results that are undecided after these runs.
    pub fn open(&self) -> Vec<&R> {
        self.that_say(Answer::Undecided)
    }

    fn that_say(&self, answer: Answer) -> Vec<&R> {
        self.all.iter().filter(|it| it.holds() == answer).collect()
    }

    /// The claim holds where every goal is reached everywhere.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(Answer::all(self.all.iter().map(R::holds)))
    }

    /// The worst that miss a goal, in words.
    pub fn named(&self) -> String {
        let short = self.short();
        short.iter().take(Self::NAMED).map(|it| it.text()).collect::<Vec<_>>().join("; ")
    }

    /// The finding, with the sentences, points, figures and tables of the experiment.
    pub fn finding(
        &self,
        [measured, reason]: [String; 2],
        (points, figures, tables): (Vec<Point>, Vec<Figure>, Vec<Table>),
    ) -> Finding {
        let verdict = self.verdict();
        Finding { verdict, reason, points, figures, tables, ..Finding::of(&[], measured) }
    }
}

/// What is computed from the runs at each scenario and its number, in their order.
pub fn results<S: Scenario, R>(scenarios: Vec<S>, of: impl Fn(usize, S) -> Vec<R>) -> Vec<R> {
    scenarios.into_iter().enumerate().flat_map(|(number, scenario)| of(number, scenario)).collect()
}

/// A point over the number of a place.
pub fn point(
    scenario: &impl Scenario,
    number: usize,
    line: Line,
    y: (Estimate, &'static str),
) -> Point {
    let cell = Some(scenario.to_string());
    Point { cell, ..Point::new(line, (number as f64, "cell"), y) }
}

/// The rows, the worst first.
pub fn worst_first<R>(mut rows: Vec<R>, badness: impl Fn(&R) -> f64) -> Vec<R> {
    rows.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
    rows
}

/// Values from the least to the greatest over the share of places below, drawn within a range.
pub fn curve(
    name: &str,
    ink: Ink,
    values: impl Iterator<Item = f64>,
    [least, most]: [f64; 2],
) -> Series {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let share = |index: usize| (index as f64 + 0.5) / values.len() as f64 * 100.0;
    let drawn = |(index, y): (usize, &f64)| Mark::exact(share(index), y.clamp(least, most));
    Series::new(name, ink, values.iter().enumerate().map(drawn))
}

/// A level over all places.
pub fn level(name: impl Into<String>, ink: Ink, y: f64) -> Series {
    Series::new(name, ink, [0.0, 100.0].map(|x| Mark::exact(x, y)))
}

/// The axis of the share of places.
pub fn places() -> Axis {
    Axis::linear("Share of places that do better", "%")
}
