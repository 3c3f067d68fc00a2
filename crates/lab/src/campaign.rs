//! Runs chosen claims and judges them by their results.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::claim::{Claim, Finding, Metric, Outcome};
use crate::grid::{Cell, Experiment, Samples};
use crate::journal::{Head, Journal, Unusable};
use crate::progress::Progress;
use crate::runner;
use crate::stats::Observation;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Runs of every cell, except where a cell asks for fewer.
    pub runs: u32,
    /// Which family of seeds: 0 is that of all figures in the documentation.
    pub family: u32,
    /// Runs at work at once.
    pub jobs: NonZeroUsize,
    /// Only cells with all words of these texts in their names; the others are not run.
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

/// Keeps runs in a journal, and knows the runs of earlier commands.
#[derive(Debug)]
pub struct Keeper {
    journal: Journal,
    /// By cell and seed.
    known: BTreeMap<(String, u64), Outcome>,
}

impl Keeper {
    /// Opens the folder of results; also says whether it had runs of another build of the program than `build`, which
    /// are gone.
    ///
    /// # Errors
    /// As for [`Journal::open`].
    pub fn open(folder: &Path, build: &str) -> Result<(Self, bool), Unusable> {
        let head = Head { command: "run", subject: "claims", form: build };
        let (journal, kept) = Journal::open(folder, head)?;
        let mut names = BTreeSet::new();
        let known = kept.lines.iter().filter_map(|line| read(line, &mut names)).collect();
        Ok((Self { journal, known }, kept.was_of_another_build))
    }

    /// Sees to it that all runs are kept.
    ///
    /// # Errors
    /// When they are not: why.
    pub fn ensure_whole(&self) -> Result<(), Unusable> {
        self.journal.ensure_whole()
    }

    /// How many runs it had.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.len()
    }
}

/// A run as a line; none if a name has in it what separates names.
fn line(cell: &str, seed: u64, outcome: &Outcome) -> Option<String> {
    let mut line = format!("{seed}\t{cell}");
    for (metric, observation) in outcome {
        let sign = if matches!(observation, Observation::AtLeast(_)) { ">" } else { "" };
        line.push_str(&format!("\t{metric}\t{sign}{}", observation.value()));
    }
    let names = || outcome.iter().map(|(metric, _)| *metric).chain([cell]);
    names().all(|name| !name.contains(['\t', '\n', '\r'])).then_some(line)
}

/// The run in a line. Names of metrics live as long as the program, each once.
fn read(line: &str, names: &mut BTreeSet<Metric>) -> Option<((String, u64), Outcome)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [seed, cell, outcome @ ..] = &fields[..] else { return None };
    let (pairs, rest) = outcome.as_chunks::<2>();
    let mut measured = Outcome::new();
    for [metric, value] in pairs {
        let observation = match value.strip_prefix('>') {
            Some(least) => Observation::AtLeast(least.parse().ok()?),
            None => Observation::Exact(value.parse().ok()?),
        };
        let name = names.get::<str>(metric).copied().unwrap_or_else(|| {
            let name: Metric = Box::leak((*metric).to_owned().into_boxed_str());
            names.insert(name);
            name
        });
        measured.push((name, observation));
    }
    rest.is_empty().then_some((((*cell).to_owned(), seed.parse().ok()?), measured))
}

/// A campaign that somebody has stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("stopped")]
pub struct Stopped {
    /// How many runs there are by now.
    pub runs: usize,
}

/// Runs the cells of `claims`, each once however many claims share it.
///
/// # Panics
/// If a run panics; no run is meant to.
pub fn run(
    claims: &[Claim],
    plan: Plan<'_>,
    progress: impl FnOnce(usize) -> Progress,
) -> Vec<Tested> {
    let tested = run_until(claims, plan, progress, None, &AtomicBool::new(false));
    tested.expect("nobody stops it, and nothing is kept")
}

/// Runs like [`run`], but with a keeper: skips known runs, keeps new ones, and begins nothing more once `stop` is
/// set.
///
/// # Errors
/// When it is stopped.
pub fn run_until(
    claims: &[Claim],
    plan: Plan<'_>,
    progress: impl FnOnce(usize) -> Progress,
    keeper: Option<&Keeper>,
    stop: &AtomicBool,
) -> Result<Vec<Tested>, Stopped> {
    let experiments: Vec<Experiment> = claims.iter().map(|claim| (claim.experiment)()).collect();
    let (cells, places) = distinct(&experiments);
    // All cells once, then all again: the rest of the work is then known early.
    let is_chosen = |cell: &usize| cells[*cell].is_called(plan.only);
    let chosen: Vec<usize> = (0..cells.len()).filter(is_chosen).collect();
    let work: Vec<(usize, u32)> = (0..plan.runs)
        .flat_map(|run| chosen.iter().map(move |cell| (*cell, run)))
        .filter(|(cell, run)| *run < cells[*cell].runs(plan.runs))
        .collect();
    let kept = |&(cell, run): &(usize, u32)| {
        let cell = cells[cell];
        keeper?.known.get(&(cell.name().as_str().to_owned(), cell.seed(plan.family, run)))
    };
    let fresh: Vec<(usize, u32)> = work.iter().copied().filter(|it| kept(it).is_none()).collect();
    let progress = progress(fresh.len());
    let outcomes = runner::run_until(fresh.len(), plan.jobs, &progress, stop, |index| {
        let (cell, run) = fresh[index];
        let (cell, seed) = (cells[cell], cells[cell].seed(plan.family, run));
        let outcome = cell.with_seed(seed);
        let line = keeper.zip(line(cell.name().as_str(), seed, &outcome));
        if line.is_some_and(|(keeper, line)| !keeper.journal.add(&line)) {
            progress.say("runs cannot be kept any more");
        }
        outcome
    });
    progress.finish();
    let done = outcomes.iter().flatten().count();
    let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    let runs = done + keeper.map_or(0, Keeper::count);
    let mut fresh = outcomes.ok_or(Stopped { runs })?.into_iter();

    let mut samples = vec![Samples::new(); cells.len()];
    for place in work {
        let known = kept(&place).cloned();
        let outcome = known.or_else(|| fresh.next()).expect("what is not kept was run");
        let (cell, _) = place;
        for (metric, observation) in outcome {
            samples[cell].entry(metric).or_default().push(observation);
        }
    }
    let judge = |((claim, experiment), places): ((&Claim, &Experiment), Vec<usize>)| {
        let samples = places.into_iter().map(|cell| samples[cell].clone()).collect();
        Tested { claim: *claim, finding: experiment.judge(samples, plan.family) }
    };
    Ok(claims.iter().zip(&experiments).zip(places).map(judge).collect())
}

/// The distinct cells of all experiments, and for each place of each experiment the index of its cell.
fn distinct(experiments: &[Experiment]) -> (Vec<&Cell>, Vec<Vec<usize>>) {
    let mut cells: Vec<&Cell> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut index = |cell| {
        *known.entry(Cell::name(cell).as_str()).or_insert_with(|| {
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
    use crate::journal::tests::Folder;
    use crate::name::Name;
    use crate::stats::Observation;

    /// A random number times a factor, in so many runs at most.
    #[derive(Clone, Debug, PartialEq)]
    struct Uniform(f64, u32);

    impl Place for Uniform {
        fn cell(&self) -> Cell {
            let Self(factor, most) = *self;
            let name = Name::of("uniform").with("times", factor);
            let cell = Cell::new(name, format!("uniform times {factor}"), move |seed| {
                let value = factor * base::rng::Rng::stream(seed, "value").uniform();
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
    fn what_was_stopped_goes_on_and_finds_the_same() {
        let folder = Folder::new("campaign");
        let claims = [example("a")];
        let (stop, count) = (AtomicBool::new(false), plan(20, 1));
        let whole = points(&claims, count);
        let keeping = |build: &str, stop: &AtomicBool| {
            let (keeper, is_new) = Keeper::open(&folder.0, build).unwrap();
            let mut announced = 0;
            let tested = run_until(
                &claims,
                count,
                |it| {
                    announced = it;
                    Progress::silent()
                },
                Some(&keeper),
                stop,
            );
            (
                announced,
                is_new,
                tested
                    .map(|it| it.into_iter().flat_map(|it| it.finding.points).collect::<Vec<_>>()),
            )
        };

        let all = keeping("build", &stop).2.unwrap();
        assert_eq!(all, whole);
        // Killed in the middle of a line, after a third of the runs.
        let path = folder.0.join(crate::journal::NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 3]).unwrap();
        let had = text[..text.len() / 3].lines().count() - 2;

        let (announced, is_new, again) = keeping("build", &stop);
        assert_eq!((announced, is_new), (40 - had, false));
        assert_eq!(again.unwrap(), whole);
        let (announced, is_new, again) = keeping("another", &stop);
        assert_eq!((announced, is_new), (40, true));
        assert_eq!(again.unwrap(), whole);
        let stopped = keeping("a third", &AtomicBool::new(true)).2;
        assert_eq!(stopped.unwrap_err(), Stopped { runs: 0 });
    }

    #[test]
    fn a_run_is_kept_to_the_last_bit() {
        let outcome: Outcome = vec![
            ("voice p99", Observation::Exact(0.1 + 0.2)),
            ("delay", Observation::AtLeast(1e300)),
            ("none", Observation::Exact(f64::INFINITY)),
        ];
        let text = line("loss 5 %, \"x\"", 7, &outcome).unwrap();
        let mut names = BTreeSet::new();

        assert_eq!(
            read(&text, &mut names),
            Some((("loss 5 %, \"x\"".to_owned(), 7), outcome.clone()))
        );
        assert_eq!(read(&text[..text.len() - 4], &mut names), None);
        assert_eq!(line("a\tb", 7, &outcome), None);
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
        assert_eq!(chosen(&["uniform", "times=2"]), 5);
        assert_eq!(chosen(&["times=1", "times=2"]), 0);
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
