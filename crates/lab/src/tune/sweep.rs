//! The search of Liu's paper: one parameter after the other over its range, each optimum kept before the next.
//!
//! The search sees the effect of each parameter beside the values chosen before, which a plot shows well. It misses
//! joint effects of two parameters.

use super::range::Choice;
use super::space::{Setting, Space};
use super::trials::{Ended, Purpose, Score, Trials};

/// What the search found.
#[derive(Clone, Debug)]
pub struct Swept {
    /// One for each parameter, in the order of the search.
    pub sweeps: Vec<Sweep>,
    /// The optimum of each.
    pub best: Setting,
    /// How many different runs it took.
    pub runs: u32,
}

/// One parameter over its range.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Which.
    pub axis: usize,
    /// What each value gave, in order.
    pub points: Vec<Point>,
    /// Values that are not allowed beside those chosen before, and why.
    pub refused: Vec<(Choice, String)>,
    /// The place of the optimum among the points.
    pub best: usize,
}

/// One value of a parameter.
#[derive(Clone, Debug)]
pub struct Point {
    /// The value.
    pub choice: Choice,
    /// What it gave.
    pub score: Score,
}

/// Searches with so many runs of each setting.
///
/// # Errors
/// When the trials end early, or no value of a parameter is allowed, or none has a metric.
pub fn sweep(trials: &mut Trials<'_>, runs: u32) -> Result<Swept, Ended> {
    let space = trials.space();
    let mut best = space.as_written();
    let mut settings = std::collections::BTreeSet::new();
    let mut sweeps = Vec::new();
    for (axis, parameter) in space.axes.iter().enumerate() {
        let (mut allowed, mut refused) = (Vec::new(), Vec::new());
        for choice in parameter.values.grid() {
            let setting = best.with(axis, choice.clone());
            match trials.check(&setting) {
                Ok(()) => allowed.push((choice, setting)),
                Err(why) => refused.push((choice, why)),
            }
        }
        if let ([], Some((choice, why))) = (&allowed[..], refused.first()) {
            let what = format!("{} = {}: {why}", parameter.name, choice.label);
            return Err(Ended::Failed(what));
        }
        let wanted: Vec<(Setting, u32)> =
            allowed.iter().map(|(_, setting)| (setting.clone(), runs)).collect();
        trials.run(Purpose::Tune, &wanted)?;
        settings.extend(allowed.iter().map(|(_, setting)| space.name(setting)));
        let scored = allowed.into_iter().map(|(choice, setting)| {
            let score = trials.score(Purpose::Tune, &setting, runs);
            (Point { choice, score }, setting)
        });
        let (points, at): (Vec<Point>, Vec<Setting>) = scored.unzip();
        if points.iter().all(|point| point.score.mean.runs == 0) {
            return Err(Ended::Failed(format!(
                "the metric has no value in any run over the range of {}: it divides by 0, or nothing was delivered; \
                 `trackway sim run` shows what happens in one",
                parameter.name
            )));
        }
        let mut top = 0;
        for place in 1..points.len() {
            if trials.is_better(&points[place].score, &points[top].score) {
                top = place;
            }
        }
        best = at[top].clone();
        trials.tell(&best, &points[top].score);
        sweeps.push(Sweep { axis, points, refused, best: top });
    }
    let runs = runs * u32::try_from(settings.len()).unwrap_or(u32::MAX);
    Ok(Swept { sweeps, best, runs })
}

/// How many runs the search takes at most.
#[must_use]
pub fn most_runs(space: &Space, runs: u32) -> usize {
    let values = space.axes.iter().map(|axis| axis.values.grid().len());
    values.sum::<usize>() * usize::try_from(runs).unwrap_or(usize::MAX)
}
