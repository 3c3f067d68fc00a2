//! A choice of claims, all their runs, and what those say.

use std::num::NonZeroUsize;

use crate::claim::{Cell, Claim, Finding, Results};
use crate::progress::Progress;
use crate::runner;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Runs of every cell, but of those that ask for fewer.
    pub runs: u32,
    /// Runs at work at once.
    pub jobs: NonZeroUsize,
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
pub fn run(claims: &[Claim], plan: Plan, progress: impl FnOnce(usize) -> Progress) -> Vec<Tested> {
    let cells = distinct(claims.iter().flat_map(|claim| (claim.cells)()));
    // All cells once, then all again: the rest of the work is then known early.
    let work: Vec<(&Cell, u32)> = (0..plan.runs)
        .flat_map(|run| cells.iter().map(move |cell| (cell, run)))
        .filter(|(cell, run)| *run < cell.runs(plan.runs))
        .collect();
    let progress = progress(work.len());
    let outcomes = runner::run_all(work.len(), plan.jobs, &progress, |index| {
        let (cell, run) = work[index];
        cell.run(run)
    });
    progress.finish();

    let mut results = Results::default();
    for ((cell, _), outcome) in work.iter().zip(outcomes) {
        results.push(cell.name(), outcome);
    }
    let judge = |claim: &Claim| Tested { claim: *claim, finding: (claim.judge)(&results) };
    claims.iter().map(judge).collect()
}

/// The cells without those that are the same as one before.
fn distinct(cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    let mut known: Vec<Cell> = Vec::new();
    for cell in cells {
        if known.iter().all(|other| other.name() != cell.name()) {
            known.push(cell);
        }
    }
    known
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claim::{Point, Verdict};
    use crate::stats::Observation;

    /// A claim about random numbers.
    pub(crate) fn example(id: &'static str) -> Claim {
        Claim {
            id,
            group: "examples",
            text: "a random number is below one",
            source: "arithmetic",
            cells: || vec![uniform(1.0), uniform(2.0)],
            judge: |results| {
                let y = results.estimate(uniform(1.0).name(), "value");
                Finding {
                    verdict: if y.high() < 1.0 { Verdict::Reproduced } else { Verdict::Differs },
                    measured: format!("{:.3} in {} runs", y.mean, y.runs),
                    reason: "the mean is below one".into(),
                    points: vec![Point {
                        series: "uniform".into(),
                        x: 1.0,
                        x_unit: "times",
                        y,
                        y_unit: "1",
                        limit: None,
                        sessions: None,
                        limit2: None,
                        cell: None,
                    }],
                    figures: Vec::new(),
                    tables: Vec::new(),
                    exchanges: Vec::new(),
                    assumptions: vec!["a seed <leaves> nothing open".into()],
                }
            },
        }
    }

    fn uniform(factor: f64) -> Cell {
        Cell::new(format!("uniform times {factor}"), move |seed| {
            let value = factor * proto::rng::Rng::stream(seed, "value").uniform();
            vec![("value", Observation::Exact(value))]
        })
    }

    fn points(claims: &[Claim], jobs: usize) -> Vec<Point> {
        let plan = Plan { runs: 20, jobs: NonZeroUsize::new(jobs).expect("some") };
        let tested = run(claims, plan, |_| Progress::silent());
        tested.into_iter().flat_map(|tested| tested.finding.points).collect()
    }

    #[test]
    fn results_depend_neither_on_the_number_of_jobs_nor_on_what_else_runs() {
        let (a, b) = (example("a"), example("b"));

        let alone = points(&[a], 1);
        let together = points(&[b, a], 3);

        assert_eq!(alone[..], together[1..]);
    }

    #[test]
    fn shared_cells_run_once() {
        let mut announced = 0;
        let plan = Plan { runs: 5, jobs: NonZeroUsize::MIN };

        let _ = run(&[example("a"), example("b")], plan, |count| {
            announced = count;
            Progress::silent()
        });

        assert_eq!(announced, 2 * 5);
    }

    #[test]
    fn a_cell_may_ask_for_fewer_runs_and_for_the_seeds_of_another() {
        let seeded = |name: &str| {
            Cell::new(name.to_owned(), |seed| vec![("seed", Observation::Exact(seed as f64))])
        };
        let borrowed = seeded("b").with_draws_of("a").at_most(2);

        assert_eq!((borrowed.runs(1), borrowed.runs(30), seeded("a").runs(30)), (1, 2, 30));
        assert_eq!(borrowed.run(1), seeded("a").run(1));
        assert_ne!(seeded("b").run(1), seeded("a").run(1));
    }

    #[test]
    fn a_cell_that_asks_for_fewer_runs_gets_no_more() {
        let claim = Claim { cells: || vec![uniform(1.0).at_most(4), uniform(2.0)], ..example("a") };
        let plan = Plan { runs: 5, jobs: NonZeroUsize::MIN };
        let mut announced = 0;

        let tested = run(&[claim], plan, |count| {
            announced = count;
            Progress::silent()
        });

        assert_eq!(announced, 4 + 5);
        assert_eq!(tested[0].finding.points[0].y.runs, 4);
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
