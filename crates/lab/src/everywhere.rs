//! The kit of an experiment over many places: each place is tried in several ways with the same chance, and ours is
//! to be nowhere worse.
//!
//! ```text
//!   matrix: distinct scenarios ─▶ tries: each way ─▶ runs ─▶ rows ─▶ the worst first ─▶ verdict, tables
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

/// Each of them once, in the order in which they come.
pub fn distinct<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut places: Vec<T> = Vec::new();
    for scenario in all {
        if !places.contains(&scenario) {
            places.push(scenario);
        }
    }
    places
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
