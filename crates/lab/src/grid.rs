//! An experiment: runs each place of a grid with many seeds, and judges the runs together.
//!
//! ```text
//!   axes of values ─▶ places ─▶ cells ─▶ runs, with many seeds ─▶ judge ─▶ finding
//!                       │                  │                                points, figures, tables
//!                       └── indexes ───────┘
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::answer::Check;
use crate::finding::{Finding, Line, Metric, Outcome, Point};
use crate::name::Name;
use crate::runner;
use crate::scenario::{Built, Plan};
use crate::stats::{Estimate, Observation, Sample};

/// One scenario with all its parameters, to be run with many seeds.
#[derive(Clone)]
pub struct Cell {
    name: Name,
    /// The label that the seeds of its runs follow from.
    draws: String,
    most: u32,
    /// This cell has one run for this many runs of other cells.
    share: u32,
    work: Arc<dyn Fn(u64) -> Outcome + Send + Sync>,
    plan: Option<Arc<dyn Fn(u64) -> Plan + Send + Sync>>,
}

impl Cell {
    /// A scenario that `work` runs with a seed. Cells of the same name are the same scenario: they
    /// are run once, for whoever asks.
    ///
    /// The seeds follow from the label `draws`, and so do all results: a name may change, a label may not. Cells with
    /// one label meet the same chance.
    pub fn new(
        name: Name,
        draws: impl Into<String>,
        work: impl Fn(u64) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let (draws, work) = (draws.into(), Arc::new(work));
        Self { name, draws, most: u32::MAX, share: 1, work, plan: None }
    }

    /// The same of a scenario that can be written to a file: `plan` makes it with a seed, and
    /// `measure` runs it.
    pub fn of(
        name: Name,
        draws: impl Into<String>,
        plan: impl Fn(u64) -> Plan + Send + Sync + 'static,
        measure: impl Fn(Built<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let plan = Arc::new(plan);
        let built = Arc::clone(&plan);
        let work = move |seed| {
            let plan = built(seed);
            measure(plan.build(seed).expect("every node of an experiment has a link"))
        };
        Self { plan: Some(plan), ..Self::new(name, draws, work) }
    }

    /// The same with at most so many runs, where chance has little to say or a run takes long.
    #[must_use]
    pub fn at_most(self, runs: u32) -> Self {
        Self { most: runs, ..self }
    }

    /// The same with a third of the runs that others have, and so with none where those have two: it stands
    /// beside a claim and decides none.
    #[must_use]
    pub fn aside(self) -> Self {
        Self { share: 3, ..self }
    }

    /// The cell's name, unique in the grid.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The label that its seeds follow from.
    #[must_use]
    pub fn draws(&self) -> &str {
        &self.draws
    }

    /// Whether the cell's name has all words of these texts.
    #[must_use]
    pub fn is_called(&self, texts: &[String]) -> bool {
        texts.iter().all(|text| self.name.has(text))
    }

    /// How often it is run where every cell is to be run `runs` times.
    #[must_use]
    pub fn runs(&self, runs: u32) -> u32 {
        (runs / self.share).min(self.most)
    }

    /// The seed of run number `run` in a family of seeds.
    #[must_use]
    pub fn seed(&self, family: u32, run: u32) -> u64 {
        runner::seed(&self.draws, family, run)
    }

    /// Does run number `run` with the seeds of a family.
    #[must_use]
    pub fn run(&self, family: u32, run: u32) -> Outcome {
        self.with_seed(self.seed(family, run))
    }

    /// Does the run with this seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Outcome {
        (self.work)(seed)
    }

    /// The scenario of the run with this seed; `None` where no file can describe it.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Option<Plan> {
        self.plan.as_ref().map(|plan| plan(seed))
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cell").field(&self.name.as_str()).finish()
    }
}

/// The measurements of all runs of a cell.
pub type Samples = BTreeMap<Metric, Sample>;

/// A place in a grid: one value on each axis.
pub trait Place: Clone + PartialEq + 'static {
    /// What is run there.
    fn cell(&self) -> Cell;
}

/// A place that has a point on a curve.
pub trait Drawn: Place {
    /// Which curve.
    fn line(&self) -> Line;

    /// The position on the axis, and its unit.
    fn x(&self) -> (f64, &'static str);

    /// The physical limit of a metric at this place.
    fn limit(&self, _: Metric) -> Option<f64> {
        None
    }

    /// How many sessions there are at once, where that is an axis.
    fn sessions(&self) -> Option<u32> {
        None
    }
}

/// The runs of a claim, and their meaning.
pub struct Experiment {
    /// A cell for every place of the grid, in its order.
    pub cells: Vec<Cell>,
    judge: Box<dyn Fn(Vec<Samples>, u32) -> Finding>,
}

impl Experiment {
    /// The grid with these places, judged by `judge`.
    pub fn new<P: Place>(
        places: impl IntoIterator<Item = P>,
        judge: impl Fn(&Runs<P>) -> Finding + 'static,
    ) -> Self {
        let places: Vec<P> = places.into_iter().collect();
        let cells = places.iter().map(Place::cell).collect();
        let judge = move |samples, family| judge(&Runs { places: places.clone(), samples, family });
        Self { cells, judge: Box::new(judge) }
    }

    /// What the samples mean, those of each cell in the order of the cells, drawn with a family of
    /// seeds.
    #[must_use]
    pub fn judge(&self, samples: Vec<Samples>, family: u32) -> Finding {
        (self.judge)(samples, family)
    }
}

/// What was measured at every place of a grid.
#[derive(Clone, Debug)]
pub struct Runs<P> {
    places: Vec<P>,
    /// As many, in the same order.
    samples: Vec<Samples>,
    family: u32,
}

impl<P: Place> Runs<P> {
    /// Results that were not measured: what `value` says, the same in each of so many runs.
    #[must_use]
    pub fn made_up(
        places: impl IntoIterator<Item = P>,
        runs: u32,
        value: impl Fn(&P) -> Vec<(Metric, f64)>,
    ) -> Self {
        Self::observed(places, runs, |place, _| {
            let all = value(place).into_iter();
            all.map(|(metric, value)| (metric, Observation::Exact(value))).collect()
        })
    }

    /// The same, run by run.
    #[must_use]
    pub fn observed(
        places: impl IntoIterator<Item = P>,
        runs: u32,
        outcome: impl Fn(&P, u32) -> Outcome,
    ) -> Self {
        let places: Vec<P> = places.into_iter().collect();
        let of = |place: &P| {
            let mut samples = Samples::new();
            for (metric, observation) in (0..runs).flat_map(|run| outcome(place, run)) {
                samples.entry(metric).or_default().push(observation);
            }
            samples
        };
        Self { samples: places.iter().map(of).collect(), places, family: 0 }
    }

    /// The mean of a metric at a place; unknown where no run measured it.
    pub fn at(&self, place: &P, metric: Metric) -> Estimate {
        self.sample(place, metric).and_then(Sample::estimate).unwrap_or(Estimate::UNKNOWN)
    }

    fn sample(&self, place: &P, metric: Metric) -> Option<&Sample> {
        let index = self.places.iter().position(|it| it == place)?;
        self.samples[index].get(metric)
    }

    /// All places, in their order.
    #[must_use]
    pub fn places(&self) -> &[P] {
        &self.places
    }

    /// How many runs the places have that were run most.
    #[must_use]
    pub fn count(&self) -> u32 {
        let samples = self.samples.iter().flat_map(BTreeMap::values);
        samples.filter_map(Sample::estimate).map(|it| it.runs).max().unwrap_or_default()
    }

    /// The finding on a claim that holds where all these checks do; what was `measured` ends with the number of runs.
    #[must_use]
    pub fn finding(&self, checks: &[Check], measured: impl Into<String>) -> Finding {
        Finding::of(checks, self.told(&measured.into()))
    }

    /// The same where something better than what is claimed may hold: see [`Finding::or_beaten`].
    #[must_use]
    pub fn or_beaten(
        &self,
        claimed: &[Check],
        better: &[Check],
        measured: impl Into<String>,
    ) -> Finding {
        Finding::or_beaten(claimed, better, self.told(&measured.into()))
    }

    fn told(&self, measured: &str) -> String {
        let space = if measured.is_empty() { "" } else { " " };
        format!("{measured}{space}{} runs.", self.count())
    }

    /// The seed of the first run at a place.
    pub fn first_seed(&self, place: &P) -> u64 {
        place.cell().seed(self.family, 0)
    }
}

impl<P: Drawn> Runs<P> {
    /// The means of a metric, of the places that `is_drawn` chooses.
    pub fn points(
        &self,
        metric: Metric,
        unit: &'static str,
        is_drawn: impl Fn(&P) -> bool,
    ) -> Vec<Point> {
        let drawn = self.places.iter().filter(|place| is_drawn(place));
        drawn.map(|place| self.point(place, metric, (self.at(place, metric), unit))).collect()
    }

    /// A point at a place with a value that is computed, and the limit of a metric.
    pub fn point(&self, place: &P, metric: Metric, y: (Estimate, &'static str)) -> Point {
        let limit = place.limit(metric);
        let sessions = place.sessions();
        Point { limit, sessions, ..Point::new(place.line(), place.x(), y) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Named(&'static str);

    impl Place for Named {
        fn cell(&self) -> Cell {
            Cell::new(Name::of(self.0), self.0, |seed| {
                vec![("seed", Observation::Exact(seed as f64))]
            })
        }
    }

    #[test]
    fn places_and_metrics_are_kept_apart() {
        let runs = Runs::made_up(["a", "b"].map(Named), 2, |place| match place.0 {
            "a" => vec![("delay", 2.0), ("packets", 7.0)],
            _ => vec![("delay", 20.0)],
        });

        assert_eq!(runs.at(&Named("a"), "delay").mean, 2.0);
        assert_eq!(runs.at(&Named("b"), "delay").mean, 20.0);
        assert_eq!(runs.at(&Named("b"), "packets").runs, 0);
        assert_eq!(runs.at(&Named("c"), "delay").runs, 0);
        assert_eq!(runs.count(), 2);
    }

    #[test]
    fn a_cell_may_ask_for_fewer_runs_and_for_the_seeds_of_another() {
        let borrowed = Cell { draws: "a".to_owned(), ..Named("b").cell() }.at_most(2);
        let [a, b] = ["a", "b"].map(|name| Named(name).cell());

        assert_eq!((borrowed.runs(1), borrowed.runs(30), a.runs(30)), (1, 2, 30));
        assert_eq!([1, 2, 10, 30].map(|runs| a.clone().aside().runs(runs)), [0, 0, 3, 10]);
        assert_eq!(borrowed.run(0, 1), a.run(0, 1));
        assert_ne!(b.run(0, 1), a.run(0, 1));
        assert_ne!(a.run(1, 1), a.run(0, 1));
    }
}
