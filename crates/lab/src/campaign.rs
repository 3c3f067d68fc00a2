//! A choice of claims, all their runs, and what those say.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::claim::{Claim, Finding};
use crate::grid::{Cell, Experiment, Samples};
use crate::progress::Progress;
use crate::runner;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Runs of every cell, but of those that ask for fewer.
    pub runs: u32,
    /// Which family of seeds: 0 is that of all figures in the documentation.
    pub family: u32,
    /// Runs at work at once.
    pub jobs: NonZeroUsize,
    /// Only cells whose names have all these texts in them; the others are not run.
    pub only: &'a [String],
}

/// A claim with what the runs say about it.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The claim.
    pub claim: Claim,
    /// What became of it.
    pub finding: Finding,
}

/// Which claims `name` means: one by its id, a group, or `all`. `None` when it means nothing.
#[must_use]
pub fn select(claims: &[Claim], name: &str) -> Option<Vec<Claim>> {
    let chosen: Vec<Claim> = match claims.iter().find(|claim| claim.id == name) {
        Some(claim) => vec![*claim],
        None => claims.iter().filter(|c| name == "all" || c.group == name).copied().collect(),
    };
    (!chosen.is_empty()).then_some(chosen)
}

/// Runs what `claims` need, each cell once however many of them share it.
pub fn run(
    claims: &[Claim],
    plan: Plan<'_>,
    progress: impl FnOnce(usize) -> Progress,
) -> Vec<Tested> {
    let experiments: Vec<Experiment> = claims.iter().map(|claim| (claim.experiment)()).collect();
    let (cells, places) = distinct(&experiments);
    // All cells once, then all again: the rest of the work is then known early.
    let is_chosen = |cell: &usize| cells[*cell].is_called(plan.only);
    let chosen: Vec<usize> = (0..cells.len()).filter(is_chosen).collect();
    let work: Vec<(usize, u32)> = (0..plan.runs)
        .flat_map(|run| chosen.iter().map(move |cell| (*cell, run)))
        .filter(|(cell, run)| *run < cells[*cell].runs(plan.runs))
        .collect();
    let progress = progress(work.len());
    let outcomes = runner::run_all(work.len(), plan.jobs, &progress, |index| {
        let (cell, run) = work[index];
        cells[cell].run(plan.family, run)
    });
    progress.finish();

    let mut samples = vec![Samples::new(); cells.len()];
    for ((cell, _), outcome) in work.into_iter().zip(outcomes) {
        for (metric, observation) in outcome {
            samples[cell].entry(metric).or_default().push(observation);
        }
    }
    let judge = |((claim, experiment), places): ((&Claim, &Experiment), Vec<usize>)| {
        let samples = places.into_iter().map(|cell| samples[cell].clone()).collect();
        Tested { claim: *claim, finding: experiment.judge(samples, plan.family) }
    };
    claims.iter().zip(&experiments).zip(places).map(judge).collect()
}

/// The cells of all experiments without those that are the same as one before, and which of them each
/// experiment has at each of its places.
fn distinct(experiments: &[Experiment]) -> (Vec<&Cell>, Vec<Vec<usize>>) {
    let mut cells: Vec<&Cell> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut index = |cell| {
        *known.entry(Cell::name(cell)).or_insert_with(|| {
            cells.push(cell);
            cells.len() - 1
        })
    };
    let places = experiments.iter().map(|it| it.cells.iter().map(&mut index).collect()).collect();
    (cells, places)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::answer::Check;
    use crate::claim::{Finding, Line, Point, Verdict};
    use crate::figure::Ink;
    use crate::grid::{Drawn, Place, Runs};
    use crate::stats::Observation;

    /// A random number times a factor, in so many runs at most.
    #[derive(Clone, Debug, PartialEq)]
    struct Uniform(f64, u32);

    impl Place for Uniform {
        fn cell(&self) -> Cell {
            let Self(factor, most) = *self;
            let cell = Cell::new(format!("uniform times {factor}"), move |seed| {
                let value = factor * proto::rng::Rng::stream(seed, "value").uniform();
                vec![("value", Observation::Exact(value))]
            });
            cell.at_most(most)
        }
    }

    impl Drawn for Uniform {
        fn line(&self) -> Line {
            Line::new("uniform", "a uniform number", Ink::Default)
        }

        fn x(&self) -> (f64, &'static str) {
            (self.0, "times")
        }
    }

    /// A claim about random numbers.
    pub(crate) fn example(id: &'static str) -> Claim {
        Claim {
            id,
            group: "examples",
            text: "a random number is below one",
            source: "arithmetic",
            experiment: || Experiment::new([1.0, 2.0].map(|it| Uniform(it, u32::MAX)), judge),
        }
    }

    fn judge(runs: &Runs<Uniform>) -> Finding {
        let one = |place: &Uniform| place.0 == 1.0;
        let points = runs.points("value", "1", one);
        let check = Check::new("the mean is below one", points[0].y.at_most(1.0));
        let assumptions = vec!["a seed <leaves> nothing open".into()];
        let measured = format!("{:.3} in {} runs", points[0].y.mean, runs.count());
        Finding { points, assumptions, ..Finding::of(&[check], measured) }
    }

    fn plan(runs: u32, jobs: usize) -> Plan<'static> {
        let jobs = NonZeroUsize::new(jobs).expect("some");
        Plan { runs, family: 0, jobs, only: &[] }
    }

    fn points(claims: &[Claim], plan: Plan<'_>) -> Vec<Point> {
        let tested = run(claims, plan, |_| Progress::silent());
        tested.into_iter().flat_map(|tested| tested.finding.points).collect()
    }

    /// How many runs are announced, and what they say.
    fn announced(claims: &[Claim], runs: u32) -> (usize, Vec<Tested>) {
        let mut announced = 0;
        let tested = run(claims, plan(runs, 1), |count| {
            announced = count;
            Progress::silent()
        });
        (announced, tested)
    }

    #[test]
    fn results_depend_neither_on_the_number_of_jobs_nor_on_what_else_runs() {
        let (a, b) = (example("a"), example("b"));

        let alone = points(&[a], plan(20, 1));
        let together = points(&[b, a], plan(20, 3));

        assert_eq!(alone[..], together[1..]);
    }

    #[test]
    fn another_family_of_seeds_is_other_chance() {
        let [first, second] =
            [0, 1].map(|family| points(&[example("a")], Plan { family, ..plan(20, 1) }));

        assert_ne!(first[0].y, second[0].y);
    }

    #[test]
    fn only_the_cells_that_are_chosen_run() {
        let chosen = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|text| (*text).to_owned()).collect();
            let mut announced = 0;
            run(&[example("a")], Plan { only: &only, ..plan(5, 1) }, |count| {
                announced = count;
                Progress::silent()
            });
            announced
        };

        assert_eq!(chosen(&["uniform"]), 2 * 5);
        assert_eq!(chosen(&["uniform", "times 2"]), 5);
        assert_eq!(chosen(&["times 1", "times 2"]), 0);
    }

    #[test]
    fn shared_cells_run_once() {
        assert_eq!(announced(&[example("a"), example("b")], 5).0, 2 * 5);
    }

    #[test]
    fn a_cell_that_asks_for_fewer_runs_gets_no_more() {
        let experiment = || Experiment::new([Uniform(1.0, 4), Uniform(2.0, u32::MAX)], judge);
        let claim = Claim { experiment, ..example("a") };

        let (announced, tested) = announced(&[claim], 5);

        assert_eq!(announced, 4 + 5);
        assert_eq!(tested[0].finding.points[0].y.runs, 4);
    }

    #[test]
    fn one_run_decides_nothing() {
        let verdict = |runs| announced(&[example("a")], runs).1[0].finding.verdict;

        assert_eq!([1, 30].map(verdict), [Verdict::Undecided, Verdict::Reproduced]);
    }

    #[test]
    fn a_name_is_a_claim_a_group_or_all() {
        let claims = [example("a"), example("b")];
        let ids = |name| {
            let chosen = select(&claims, name)?;
            Some(chosen.iter().map(|claim| claim.id).collect::<Vec<_>>())
        };

        assert_eq!(ids("b"), Some(vec!["b"]));
        assert_eq!(ids("examples"), Some(vec!["a", "b"]));
        assert_eq!(ids("all"), Some(vec!["a", "b"]));
        assert_eq!(ids("c"), None);
    }
}
