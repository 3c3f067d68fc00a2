//! The results of a search, with their certainty.

use std::cmp::Ordering;

use super::file::File;
use super::journal::Known;
use super::measure::{MEASURES, Measured, OF_DELIVERY};
use super::race::{Raced, race};
use super::range::Choice;
use super::space::{Setting, Space};
use super::subject::{self, Subject};
use super::sweep::{Sweep, Swept, most_runs, sweep};
use super::trials::{Bench, Ended, Goal, Purpose, Score, Trials};
use crate::answer::Answer;
use crate::stats::Estimate;

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each setting.
    pub runs: u32,
    /// Runs, with other seeds, of the settings that were found.
    pub confirmations: u32,
    /// Which family of seeds.
    pub family: u32,
}

/// A scenario file on which settings are tried.
#[derive(Debug)]
pub struct Laboratory<'a> {
    /// The file.
    pub file: &'a File,
    /// What is tuned.
    pub space: &'a Space,
    /// Whose traffic is measured.
    pub subject: &'a Subject,
}

impl Bench for Laboratory<'_> {
    fn check(&self, setting: &Setting) -> Result<(), String> {
        self.file.with(&self.space.changes(setting)).map(drop)
    }

    fn run(&self, setting: &Setting, seed: u64) -> Result<Measured, String> {
        let plan = self.file.with(&self.space.changes(setting))?;
        subject::run(&plan, seed, self.subject)
    }
}

/// A setting that was found, or the file as it is.
#[derive(Clone, Debug)]
pub struct Found {
    /// What found it.
    pub name: &'static str,
    /// The setting.
    pub setting: Setting,
    /// With the seeds that it was found by.
    pub tuned: Score,
    /// With other seeds.
    pub confirmed: Score,
    /// The measures of the metric, with other seeds.
    pub measures: Vec<(&'static str, Score)>,
    /// The share delivered of all data to deliver, with other seeds.
    pub completion: Score,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One parameter after the other.
    pub swept: Swept,
    /// All parameters at once.
    pub raced: Raced,
    /// The unchanged file, then the result of each search.
    pub found: [Found; 3],
    /// The places of the two that were found, the one with the better metric then first.
    promising: [usize; 2],
    /// The place of the recommended setting, if one is shown to be better than the unchanged file.
    pub recommended: Option<usize>,
}

/// The judgement on a setting, by seeds not used in the search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judgement {
    /// It is better than the file as it is, and fails no more.
    Better,
    /// More flows fail, with these seeds or with the seeds of the search.
    FailsMore,
    /// It delivers less, which the metric does not count.
    DeliversLess,
    /// It is no better.
    NoBetter,
    /// These runs cannot tell.
    Undecided,
}

/// The places in [`Outcome::found`].
pub const AS_WRITTEN: usize = 0;
/// Found one parameter after the other.
pub const SWEPT: usize = 1;
/// Found by races.
pub const RACED: usize = 2;

/// How many runs there are at most.
#[must_use]
pub fn most(space: &Space, effort: Effort) -> usize {
    let swept = most_runs(space, effort.runs);
    let others = 3 * u64::from(effort.confirmations) + u64::from(effort.runs);
    2 * swept + usize::try_from(others).unwrap_or(usize::MAX)
}

/// Searches both ways with the same number of runs, and measures again what they find.
///
/// # Errors
/// When it is stopped, or a run cannot be done.
pub fn search(trials: &mut Trials<'_>, goal: &Goal, effort: Effort) -> Result<Outcome, Ended> {
    let Effort { runs, confirmations, family } = effort;
    let as_written = trials.space().as_written();
    trials.run(Purpose::Tune, &[(as_written.clone(), runs)])?;
    let swept = sweep(trials, runs)?;
    let raced = race(trials, runs, swept.runs, u64::from(family))?;
    let settings = [as_written, swept.best.clone(), raced.best.clone()];
    let wanted = settings.clone().map(|setting| (setting, confirmations));
    trials.run(Purpose::Confirm, &wanted)?;

    let names = ["the file as it is", "one after the other", "all at once"];
    let mut found = names.into_iter().zip(settings).map(|(name, setting)| Found {
        name,
        tuned: trials.score(Purpose::Tune, &setting, runs),
        confirmed: trials.score(Purpose::Confirm, &setting, confirmations),
        measures: measures(trials, goal, &setting, confirmations),
        completion: trials.measure(Purpose::Confirm, &setting, "c", confirmations),
        setting,
    });
    let found = std::array::from_fn(|_| found.next().expect("there are three"));
    let [_, swept_found, raced_found]: &[Found; 3] = &found;
    let is_raced = trials.is_better(&raced_found.tuned, &swept_found.tuned);
    let promising = if is_raced { [RACED, SWEPT] } else { [SWEPT, RACED] };
    let mut outcome = Outcome { swept, raced, found, promising, recommended: None };
    let is_good = |place: &usize| outcome.judgement(goal, *place) == Judgement::Better;
    outcome.recommended = promising.into_iter().find(is_good);
    Ok(outcome)
}

fn measures(
    trials: &Trials<'_>,
    goal: &Goal,
    setting: &Setting,
    runs: u32,
) -> Vec<(&'static str, Score)> {
    let names = goal.metric.names().into_iter();
    names.map(|name| (name, trials.measure(Purpose::Confirm, setting, name, runs))).collect()
}

/// The unit of a measure.
#[must_use]
pub fn unit(name: &str) -> &'static str {
    MEASURES.iter().find(|measure| measure.name == name).map_or("", |measure| measure.unit)
}

impl Outcome {
    /// The setting to use, if there is one.
    #[must_use]
    pub fn best(&self) -> Option<&Found> {
        self.recommended.map(|place| &self.found[place])
    }

    /// The place of the setting that had the better metric when it was found.
    #[must_use]
    pub(crate) fn promising(&self) -> usize {
        self.promising[0]
    }

    /// Judges a found setting.
    #[must_use]
    pub fn judgement(&self, goal: &Goal, place: usize) -> Judgement {
        let (found, before) = (&self.found[place], &self.found[AS_WRITTEN]);
        if found.tuned.failures.more > 0 || found.confirmed.failures.more > 0 {
            return Judgement::FailsMore;
        }
        let counts_delivery = goal.metric.names().iter().any(|name| OF_DELIVERY.contains(name));
        let less = found.completion.minus(&before.completion).below(&Estimate::exact(0.0));
        if less == Answer::Yes && !counts_delivery {
            return Judgement::DeliversLess;
        }
        match self.is_better(goal, place, AS_WRITTEN) {
            Answer::Yes => Judgement::Better,
            Answer::No => Judgement::NoBetter,
            Answer::Undecided => Judgement::Undecided,
        }
    }

    /// Whether one of those found is better than another, by the seeds that neither was found by. If one has no
    /// metric in some run of these, that is not told from the others.
    #[must_use]
    pub fn is_better(&self, goal: &Goal, one: usize, other: usize) -> Answer {
        let [one, other] = [one, other].map(|place| &self.found[place].confirmed);
        let [mine, others] = [one, other].map(Score::missing);
        if others == other.values.len() && mine == 0 {
            return Answer::Yes;
        }
        if mine == one.values.len() {
            return Answer::No;
        }
        let difference = one.minus(other);
        let zero = Estimate::exact(0.0);
        let answer = if goal.is_least { difference.below(&zero) } else { zero.below(&difference) };
        // Only of runs in which both have a value: what the others say must not be against it.
        match (answer, mine.cmp(&others)) {
            (Answer::Yes, Ordering::Greater) | (Answer::No, Ordering::Less) => Answer::Undecided,
            (answer, _) => answer,
        }
    }
}

/// How much a parameter matters over its range.
#[derive(Clone, Debug)]
pub struct Sensitivity<'a> {
    /// Where the metric is largest.
    pub most: &'a Choice,
    /// Where it is smallest.
    pub least: &'a Choice,
    /// The largest over the smallest, of runs with the same seeds.
    pub ratio: Estimate,
    /// The largest less the smallest.
    pub difference: Estimate,
}

impl Sweep {
    /// How much the parameter matters; none if the metric has no value in some runs of all values but one.
    #[must_use]
    pub fn sensitivity(&self) -> Option<Sensitivity<'_>> {
        let whole = || self.points.iter().filter(|point| point.score.missing() == 0);
        let by_mean = |a: &&super::sweep::Point, b: &&super::sweep::Point| {
            a.score.mean.mean.total_cmp(&b.score.mean.mean)
        };
        let (least, most) = (whole().min_by(by_mean)?, whole().max_by(by_mean)?);
        Some(Sensitivity {
            most: &most.choice,
            least: &least.choice,
            ratio: if least.score.mean.mean > 0.0 || most.score.mean.mean < 0.0 {
                most.score.over(&least.score)
            } else {
                Estimate::UNKNOWN
            },
            difference: most.score.minus(&least.score),
        })
    }
}

/// Whether the runs in a journal match what runs give now: repeats one run of the unchanged file, whose runs come
/// first.
#[must_use]
pub fn agrees(bench: &Laboratory<'_>, known: &Known) -> bool {
    let as_written = bench.space.as_written();
    let Some(((name, seed), measured)) = known.first_key_value() else { return true };
    let bits = |it: &Measured| it.0.map(f64::to_bits);
    let again = || bench.run(&as_written, *seed).is_ok_and(|it| bits(&it) == bits(measured));
    *name == bench.space.name(&as_written) && again()
}
