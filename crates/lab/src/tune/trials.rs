//! Runs of settings with common random numbers: every setting is run with the same seeds, and no run is done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use super::journal;
use super::measure::{FAILED, Measured};
use super::metric::Metric;
use super::space::{Setting, Space};
use crate::journal::{Journal, Unusable};
use crate::progress::Progress;
use crate::runner;
use crate::stats::{Estimate, Observation, Sample};

/// The purpose of seeds. Settings found by tuning are measured again with fresh seeds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// To find the best setting.
    Tune,
    /// To tell how good it is.
    Confirm,
}

/// What is sought.
#[derive(Clone, Debug)]
pub struct Goal {
    /// Of each run.
    pub metric: Metric,
    /// Whether less is better.
    pub is_least: bool,
}

/// What settings are tried on: a scenario, or a function in a test.
pub trait Bench: Sync {
    /// Refuses a setting that is not allowed.
    ///
    /// # Errors
    /// When it is not: why.
    fn check(&self, setting: &Setting) -> Result<(), String>;

    /// Runs a setting with a seed.
    ///
    /// # Errors
    /// When that cannot be done.
    fn run(&self, setting: &Setting, seed: u64) -> Result<Measured, String>;
}

/// Runs settings, and keeps what came out.
pub struct Trials<'a> {
    space: &'a Space,
    goal: &'a Goal,
    bench: &'a dyn Bench,
    known: BTreeMap<(String, u64), Measured>,
    /// Those that progress has counted.
    shown: BTreeSet<(String, u64)>,
    /// The best score that was told.
    best: Option<Score>,
    journal: Option<Journal>,
    /// Which family of seeds.
    family: u32,
    jobs: NonZeroUsize,
    progress: &'a Progress,
    stop: &'a AtomicBool,
}

impl fmt::Debug for Trials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trials").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// Why trials ended early.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Ended {
    /// A run could not be done.
    #[error("{0}")]
    Failed(String),
    /// Somebody asked for it.
    #[error("stopped")]
    Stopped,
}

/// How good a setting is.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The metric of each run, in the order of the seeds; none where it has no value.
    pub values: Vec<Option<f64>>,
    /// The mean over the runs with a value.
    pub mean: Estimate,
    /// What failed beside that.
    pub failures: Failures,
}

/// Flows that failed in runs of a setting.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Failures {
    /// Flows, over all runs.
    pub flows: u64,
    /// Runs in which one did.
    pub runs: usize,
    /// How many more flows than with the file as it is, in the runs with the same seeds.
    pub more: u64,
}

impl<'a> Trials<'a> {
    /// No trials yet.
    #[must_use]
    pub fn new(
        (space, goal): (&'a Space, &'a Goal),
        bench: &'a dyn Bench,
        (family, jobs): (u32, NonZeroUsize),
        (progress, stop): (&'a Progress, &'a AtomicBool),
    ) -> Self {
        let (known, shown, journal) = (BTreeMap::new(), BTreeSet::new(), None);
        let best = None;
        Self { space, goal, bench, known, shown, best, journal, family, jobs, progress, stop }
    }

    /// The same trials with a journal: they use its known runs and write their own to it.
    #[must_use]
    pub fn with_journal(self, journal: Journal, known: BTreeMap<(String, u64), Measured>) -> Self {
        Self { known, journal: Some(journal), ..self }
    }

    /// Where settings are from.
    #[must_use]
    pub fn space(&self) -> &'a Space {
        self.space
    }

    /// Whether all runs are in the journal.
    ///
    /// # Errors
    /// When they are not: why.
    pub fn are_kept(&self) -> Result<(), Unusable> {
        self.journal.as_ref().map_or(Ok(()), Journal::ensure_whole)
    }

    /// How many runs are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Refuses a setting that is not allowed.
    ///
    /// # Errors
    /// When it is not: why.
    pub fn check(&self, setting: &Setting) -> Result<(), String> {
        self.bench.check(setting)
    }

    /// Whether a score is better than another: no more failed flows than with the unchanged file count first, then a
    /// value in each run.
    #[must_use]
    pub fn is_better(&self, score: &Score, than: &Score) -> bool {
        let lacks = |score: &Score| (score.failures.more, score.missing());
        match (lacks(score), lacks(than)) {
            (mine, others) if mine != others => mine < others,
            ((_, 1..), _) => false,
            _ if self.goal.is_least => score.mean.mean < than.mean.mean,
            _ => score.mean.mean > than.mean.mean,
        }
    }

    /// Makes sure that each setting has this many runs.
    ///
    /// # Errors
    /// When somebody asks to stop, or a run cannot be done.
    pub fn run(&mut self, purpose: Purpose, wanted: &[(Setting, u32)]) -> Result<(), Ended> {
        let mut work: Vec<(String, &Setting, u64)> = Vec::new();
        let mut planned = BTreeSet::new();
        // All settings once, then all again: the first runs are known for every setting.
        let most = wanted.iter().map(|(_, runs)| *runs).max().unwrap_or_default();
        for run in 0..most {
            for (setting, _) in wanted.iter().filter(|(_, runs)| run < *runs) {
                let (name, seed) = (self.space.name(setting), self.seed(purpose, run));
                let key = (name.clone(), seed);
                if !planned.insert(key.clone()) {
                    continue;
                }
                let is_known = self.known.contains_key(&key);
                if self.shown.insert(key) && is_known {
                    self.progress.step();
                }
                if !is_known {
                    work.push((name, setting, seed));
                }
            }
        }
        let kept = self.journal.as_ref();
        let outcomes =
            runner::run_until(work.len(), self.jobs, self.progress, self.stop, |index| {
                let (name, setting, seed) = &work[index];
                // One impossible run is enough: the others would be done in vain.
                let measured = self.bench.run(setting, *seed).inspect_err(|_| {
                    self.stop.store(true, Ordering::Relaxed);
                })?;
                if kept.is_some_and(|kept| !kept.add(&journal::line(name, *seed, &measured))) {
                    self.progress.say("runs cannot be kept any more");
                }
                Ok::<Measured, String>(measured)
            });
        let mut failed = None;
        let mut is_whole = true;
        for ((name, setting, seed), outcome) in work.into_iter().zip(outcomes) {
            match outcome {
                Some(Ok(measured)) => {
                    self.known.insert((name, seed), measured);
                }
                Some(Err(why)) => {
                    failed.get_or_insert(format!("{}: {why}", self.space.label(setting)));
                }
                None => is_whole = false,
            }
        }
        match failed {
            Some(why) => Err(Ended::Failed(why)),
            None if is_whole && !self.stop.load(Ordering::Relaxed) => Ok(()),
            None => Err(Ended::Stopped),
        }
    }

    /// How good a setting is in the first `runs` runs, which it has had.
    #[must_use]
    pub fn score(&self, purpose: Purpose, setting: &Setting, runs: u32) -> Score {
        let all = self.all(purpose, setting, runs).into_iter();
        let values = all.map(|measured| self.goal.value(measured?)).collect();
        Score { failures: self.failures(purpose, setting, runs), ..Score::of(values) }
    }

    /// The same of a measure: it has no value in a run where it is infinite.
    #[must_use]
    pub fn measure(&self, purpose: Purpose, setting: &Setting, name: &str, runs: u32) -> Score {
        let all = self.all(purpose, setting, runs).into_iter();
        let value = |measured: &Measured| Some(measured.get(name)).filter(|it| it.is_finite());
        let values = all.map(|measured| value(measured?)).collect();
        Score { failures: self.failures(purpose, setting, runs), ..Score::of(values) }
    }

    fn failures(&self, purpose: Purpose, setting: &Setting, runs: u32) -> Failures {
        let failed = |setting: &Setting| -> Option<Vec<u64>> {
            let all = self.all(purpose, setting, runs).into_iter();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count of flows"
            )]
            let count = |measured: &Measured| measured.get(FAILED) as u64;
            all.map(|measured| measured.map(count)).collect()
        };
        let own = failed(setting).unwrap_or_default();
        let flows = own.iter().sum();
        let before = failed(&self.space.as_written()).map_or(u64::MAX, |it| it.iter().sum());
        let runs = own.iter().filter(|failed| **failed > 0).count();
        Failures { flows, runs, more: u64::saturating_sub(flows, before) }
    }

    /// The first runs of a setting, where known.
    fn all(&self, purpose: Purpose, setting: &Setting, runs: u32) -> Vec<Option<&Measured>> {
        let name = self.space.name(setting);
        let of = |run| self.known.get(&(name.clone(), self.seed(purpose, run)));
        (0..runs).map(of).collect()
    }

    /// Reports a setting if it is the best so far.
    pub fn tell(&mut self, setting: &Setting, score: &Score) {
        if self.best.as_ref().is_some_and(|best| !self.is_better(score, best)) {
            return;
        }
        self.best = Some(score.clone());
        let value = crate::words::any(score.mean.mean);
        let label = self.space.label(setting);
        self.progress.say(&format!("best so far {value} with {label}"));
    }

    fn seed(&self, purpose: Purpose, run: u32) -> u64 {
        let cell = match purpose {
            Purpose::Tune => "tune",
            Purpose::Confirm => "confirm",
        };
        runner::seed(cell, self.family, run)
    }
}

impl Goal {
    /// The value of a run. A run in which nothing was delivered is the worst there is where more is better: 0, if the
    /// metric itself gives no number.
    #[must_use]
    pub fn value(&self, measured: &Measured) -> Option<f64> {
        let value = self.metric.value(measured);
        if value.is_finite() {
            return Some(value);
        }
        (!self.is_least && measured.get("c") == 0.0).then_some(0.0)
    }
}

impl Score {
    /// Of these runs.
    #[must_use]
    pub fn of(values: Vec<Option<f64>>) -> Self {
        let sample: Sample = values.iter().flatten().copied().map(Observation::Exact).collect();
        let mean = sample.estimate().unwrap_or(Estimate::UNKNOWN);
        Self { mean, values, failures: Failures::default() }
    }

    /// In how many runs the metric has no value.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.values.iter().filter(|value| value.is_none()).count()
    }

    /// The difference from `other`, run by run, with the interval of paired differences.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Estimate {
        let pairs = self.values.iter().zip(&other.values);
        Self::of(pairs.map(|(a, b)| Some((*a)? - (*b)?)).collect()).mean
    }

    /// The quotient by `other`, run by run, with the interval of the quotient of paired means.
    #[must_use]
    pub fn over(&self, other: &Self) -> Estimate {
        let ratio = self.mean.mean / other.mean.mean;
        if !ratio.is_finite() {
            return Estimate::UNKNOWN;
        }
        let pairs = self.values.iter().zip(&other.values);
        let off = pairs.map(|(a, b)| Some(((*a)? - ratio * (*b)?) / other.mean.mean));
        let spread = Self::of(off.collect()).mean;
        Estimate { mean: ratio, ..spread }
    }
}
