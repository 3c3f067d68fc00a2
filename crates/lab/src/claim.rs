//! Claims of a published paper, and what our runs say about each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use proto::s5066::node::Record;

use crate::figure::Figure;
use crate::figure::timeline::Timeline;
use crate::hf;
use crate::runner;
use crate::stats::{Estimate, Observation, Sample};

/// A claim and how to test it.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its name, which is also that of the experiment that tests it.
    pub id: &'static str,
    /// The group it belongs to.
    pub group: &'static str,
    /// What the paper claims, in our words.
    pub text: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// What to run.
    pub cells: fn() -> Vec<Cell>,
    /// What the results mean.
    pub judge: fn(&Results) -> Finding,
}

/// One scenario with all its parameters, to be run with many seeds.
#[derive(Clone)]
pub struct Cell {
    name: String,
    draws: String,
    most: u32,
    work: Arc<dyn Fn(u64) -> Outcome + Send + Sync>,
}

impl Cell {
    /// A scenario that `work` runs with a seed. Cells of the same name are the same scenario: they
    /// are run once, for whoever asks.
    pub fn new(name: String, work: impl Fn(u64) -> Outcome + Send + Sync + 'static) -> Self {
        Self { draws: name.clone(), most: u32::MAX, name, work: Arc::new(work) }
    }

    /// The same with the seeds of the cell called `draws`: the two then meet the same chance.
    #[must_use]
    pub fn with_draws_of(self, draws: &str) -> Self {
        Self { draws: draws.to_owned(), ..self }
    }

    /// The same with at most so many runs, where chance has little to say or a run takes long.
    #[must_use]
    pub fn at_most(self, runs: u32) -> Self {
        Self { most: runs, ..self }
    }

    /// Its name, which tells it from every other.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How often it is run where every cell is to be run `runs` times.
    #[must_use]
    pub fn runs(&self, runs: u32) -> u32 {
        runs.min(self.most)
    }

    /// Does run number `run`.
    #[must_use]
    pub fn run(&self, run: u32) -> Outcome {
        (self.work)(runner::seed(&self.draws, run))
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cell").field(&self.name).finish()
    }
}

/// What a run measures: a name, the same wherever it is used.
pub type Metric = &'static str;

/// What one run measured.
pub type Outcome = Vec<(Metric, Observation)>;

/// What all runs measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results(BTreeMap<String, BTreeMap<Metric, Sample>>);

impl Results {
    /// Adds a run of the cell called `cell`.
    pub fn push(&mut self, cell: &str, outcome: Outcome) {
        let metrics = self.0.entry(cell.to_owned()).or_default();
        for (metric, observation) in outcome {
            metrics.entry(metric).or_default().push(observation);
        }
    }

    /// The mean of `metric` over the runs of the cell called `cell`.
    ///
    /// # Panics
    /// When there is none: the claim did not list the cell.
    #[must_use]
    pub fn estimate(&self, cell: &str, metric: Metric) -> Estimate {
        let sample = self.0.get(cell).and_then(|metrics| metrics.get(metric));
        sample
            .and_then(Sample::estimate)
            .unwrap_or_else(|| panic!("no run measured {metric} of {cell}"))
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// What we measure is better than what is claimed.
    Beaten,
    /// We measure something else.
    Differs,
    /// We measure what is claimed.
    Reproduced,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beaten => "beaten",
            Self::Differs => "differs",
            Self::Reproduced => "reproduced",
        })
    }
}

/// What the runs say about a claim. Everything here is computed from them.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Whether it holds.
    pub verdict: Verdict,
    /// What we measured, with intervals.
    pub measured: String,
    /// Why the verdict is what it is.
    pub reason: String,
    /// Every mean.
    pub points: Vec<Point>,
    /// Pictures of them.
    pub figures: Vec<Figure>,
    /// What depends on what the paper leaves open, and other numbers.
    pub tables: Vec<Table>,
    /// What stations did on the air, run by run that is shown.
    pub exchanges: Vec<Exchange>,
    /// What was taken where the paper says nothing.
    pub assumptions: Vec<String>,
}

/// What stations did on the air in one run: it becomes a picture, and a capture of all frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The name of its files.
    pub name: String,
    /// What it shows, in a few words.
    pub title: String,
    /// More, in one line.
    pub subtitle: String,
    /// The stations and what each recorded.
    pub stations: Vec<(String, Vec<Record>)>,
}

impl Exchange {
    /// Its picture.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        let timeline = hf::timeline(&self.title, &self.stations);
        Timeline { name: self.name.clone(), subtitle: self.subtitle.clone(), ..timeline }
    }
}

/// A mean at one place of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which series.
    pub series: String,
    /// Where.
    pub x: f64,
    /// The unit of `x`.
    pub x_unit: &'static str,
    /// The mean.
    pub y: Estimate,
    /// The unit of `y`.
    pub y_unit: &'static str,
    /// What physics allows here.
    pub limit: Option<f64>,
    /// What a tighter bound allows here, which is measured itself.
    pub limit2: Option<Estimate>,
    /// How many sessions there are at once, where that is varied.
    pub sessions: Option<u32>,
    /// The name of the place, where `x` only numbers it.
    pub cell: Option<String>,
}

/// A table of the report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The heads of its columns.
    pub head: Vec<String>,
    /// Its rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_metrics_of_cells_apart() {
        let mut results = Results::default();
        for value in [1.0, 3.0] {
            results.push("a", vec![("delay", Observation::Exact(value))]);
            results.push("b", vec![("delay", Observation::Exact(10.0 * value))]);
        }

        assert!((results.estimate("a", "delay").mean - 2.0).abs() < 1e-12);
        assert!((results.estimate("b", "delay").mean - 20.0).abs() < 1e-12);
    }

    #[test]
    #[should_panic(expected = "no run measured delay of c")]
    fn a_cell_nobody_listed_is_a_mistake_in_the_claim() {
        let _ = Results::default().estimate("c", "delay");
    }
}
