//! The experiment over many places, with a service as its parameter: each place is tried in several ways with the same
//! chance, and ours is to be nowhere worse.
//!
//! ```text
//!   matrix: distinct scenarios ─▶ tries: each way ─▶ runs ─▶ results ─▶ Ranking: the worst first ─▶ verdict, tables
//!                                                              └──▶ curves over the share of places
//! ```
//!
//! A [`Service`] brings its places, what it measures and compares there, and the words for it.

use std::fmt;

use crate::prelude::*;
use crate::scenario::{Built, Plan};

/// A service that is to be nowhere worse than doing without it.
pub trait Service: Sized + 'static {
    /// A place of its matrix.
    type Scenario: Scenario;
    /// What is compared at a place.
    type Compared: Judged;

    /// The name of the claim, and of its group: a claim that takes minutes is a group by itself.
    const ID: &'static str;
    /// What is claimed.
    const TEXT: &'static str;
    /// The titles of three tables: the results that miss a goal, those that are undecided, and all.
    const TITLES: [&'static str; 3];

    /// All places of the matrix, each once; the index of a place is its number.
    fn scenarios() -> Vec<Self::Scenario>;

    /// What is compared at the place of this number.
    fn compared(
        runs: &RunsOf<Self>,
        number: usize,
        scenario: Self::Scenario,
    ) -> Vec<Self::Compared>;

    /// What was measured, the worst first, in a sentence.
    fn measured(all: &[&Self::Compared]) -> String;

    /// The goals, and how many results reach them.
    fn reason(ranking: &Ranking<Self::Compared>) -> String;

    /// The points of all results, in the order of the places.
    fn points(all: &[Self::Compared]) -> Vec<Point>;

    /// The figures of all results.
    fn figures(all: &[Self::Compared]) -> Vec<Figure>;

    /// The heads of the columns of every table of results.
    fn head() -> Vec<&'static str>;

    /// A table of another kind, where a service has one.
    fn aside(_: &[&Self::Compared]) -> Option<Table> {
        None
    }
}

/// The runs of a service's experiment.
pub type RunsOf<S> =
    Runs<Try<<S as Service>::Scenario, <<S as Service>::Scenario as Scenario>::Way>>;

/// The claim that a service is nowhere worse, which is ours.
pub fn claim<S: Service>() -> Claim {
    Claim {
        id: S::ID,
        group: S::ID,
        text: S::TEXT,
        source: "ours; docs/results/limits.md",
        experiment: || Experiment::new(tries(&S::scenarios()), judge::<S>),
    }
}

/// The claim holds where every goal is reached everywhere.
pub fn judge<S: Service>(runs: &RunsOf<S>) -> Finding {
    let places = S::scenarios().into_iter().enumerate();
    let results: Vec<_> =
        places.flat_map(|(number, scenario)| S::compared(runs, number, scenario)).collect();
    let (points, figures) = (S::points(&results), S::figures(&results));
    let ranking = Ranking::new(results);
    let [short, open, all] = [ranking.short(), ranking.open(), ranking.all()];
    let table = |title, results: &[&S::Compared]| {
        Table::list(title, S::head(), results.iter().map(|it| it.cells()))
    };
    let [of_short, of_open, of_all] = S::TITLES;
    let mut tables = vec![table(of_short, &short), table(of_open, &open)];
    tables.extend(S::aside(&all));
    tables.push(table(of_all, &all));
    Finding {
        verdict: ranking.verdict(),
        reason: S::reason(&ranking),
        points,
        figures,
        tables,
        ..Finding::of(&[], S::measured(&all))
    }
}

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

    /// The result as a row of a table.
    fn cells(&self) -> Vec<String>;
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
