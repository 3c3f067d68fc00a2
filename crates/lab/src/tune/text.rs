//! Reports the results of a search to people.

use std::fmt::{self, Write as _};

use super::advice;
use super::outcome::{AS_WRITTEN, Found, Judgement, Outcome, RACED, SWEPT, unit};
use super::space::Space;
use super::sweep::Sweep;
use super::trials::{Goal, Score};
use crate::answer::Answer;
use crate::stats::Estimate;
use crate::words::any as number;

/// A mean with its interval.
fn mean(estimate: &Estimate) -> String {
    match estimate.ci95 {
        _ if estimate.runs == 0 => "none".to_owned(),
        Some(half) => format!("{} ± {}", number(estimate.mean), number(half)),
        None => number(estimate.mean),
    }
}

/// A mean, and beside it the values missing from the mean.
fn score(score: &Score) -> String {
    with_unit(score, "")
}

fn with_unit(score: &Score, unit: &str) -> String {
    let runs = score.values.len();
    let space = if unit.is_empty() { "" } else { " " };
    let value = match score.missing() {
        0 => format!("{}{space}{unit}", mean(&score.mean)),
        missing => format!("no value in {missing} of {runs} runs"),
    };
    match score.failures.flows {
        0 => value,
        1 => format!("{value}, 1 flow failed in {runs} runs"),
        flows => format!("{value}, {flows} flows failed in {} of {runs} runs", score.failures.runs),
    }
}

/// The whole report.
///
/// # Errors
/// Never: a text takes everything.
pub fn report(outcome: &Outcome, space: &Space, goal: &Goal) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let verb = if goal.is_least { "least" } else { "most" };
    writeln!(out, "metric {}, the {verb} is sought; means ± 95 % intervals", goal.metric)?;
    for sweep in &outcome.swept.sweeps {
        one_sweep(&mut out, sweep, space)?;
    }
    sensitivities(&mut out, outcome, space)?;
    found(&mut out, outcome, space)?;
    verdict(&mut out, outcome, space, goal)?;
    if let Some(best) = outcome.best() {
        out.push('\n');
        out.push_str(&advice::text(space, &best.setting));
    }
    Ok(out)
}

/// Each value of a parameter.
fn one_sweep(out: &mut String, sweep: &Sweep, space: &Space) -> fmt::Result {
    let axis = &space.axes[sweep.axis];
    let keys: Vec<String> = axis.keys.iter().map(ToString::to_string).collect();
    writeln!(out, "\n{} ({})", axis.name, keys.join(", "))?;
    let width = sweep.points.iter().map(|it| it.choice.label.chars().count()).max().unwrap_or(0);
    let best = &sweep.points[sweep.best].score;
    for (place, point) in sweep.points.iter().enumerate() {
        let mark = match best.minus(&point.score).within([0.0, 0.0]) {
            _ if place == sweep.best => "  best",
            // What differs by less than the runs can tell.
            _ if point.score.failures.more > 0 => "  fails more than the file as it is",
            Answer::Undecided if point.score.missing() == 0 => {
                "  as good, as far as these runs tell"
            }
            Answer::Yes => "  the same",
            _ => "",
        };
        let label = &point.choice.label;
        writeln!(out, "  {label:width$}  {}{mark}", score(&point.score))?;
    }
    for (choice, why) in &sweep.refused {
        writeln!(out, "  {}  left out: {why}", choice.label)?;
    }
    Ok(())
}

fn sensitivities(out: &mut String, outcome: &Outcome, space: &Space) -> fmt::Result {
    writeln!(out, "\nSensitivity: the largest metric of a range over the smallest")?;
    for sweep in &outcome.swept.sweeps {
        let name = &space.axes[sweep.axis].name;
        let Some(found) = sweep.sensitivity() else {
            writeln!(out, "  {name}  unknown: too few values have a metric in all runs")?;
            continue;
        };
        let (most, least) = (&found.most.label, &found.least.label);
        if found.ratio.runs > 0 {
            writeln!(out, "  {name}  {}  ({most} over {least})", mean(&found.ratio))?;
        } else {
            let difference = mean(&found.difference);
            writeln!(out, "  {name}  no ratio; {difference} more at {most} than at {least}")?;
        }
    }
    Ok(())
}

fn found(out: &mut String, outcome: &Outcome, space: &Space) -> fmt::Result {
    let [as_written, swept, raced] = &outcome.found;
    let (runs, again) = (as_written.tuned.values.len(), as_written.confirmed.values.len());
    writeln!(out, "\nFound with {runs} seeds, and measured again with {again} others")?;
    for Found { name, setting, tuned, confirmed, measures, .. } in [as_written, swept, raced] {
        writeln!(out, "  {name}: {}", space.label(setting))?;
        writeln!(out, "    metric    {} when found, {} again", score(tuned), score(confirmed))?;
        for (name, value) in measures {
            writeln!(out, "    {name:8}  {}", with_unit(value, unit(name)))?;
        }
    }
    writeln!(
        out,
        "  one after the other took {} runs, all at once {} runs of {} settings",
        outcome.swept.runs, outcome.raced.runs, outcome.raced.settings
    )?;
    let pairs = [(SWEPT, AS_WRITTEN), (RACED, AS_WRITTEN), (RACED, SWEPT)];
    for (one, other) in pairs {
        let [one, other] = [one, other].map(|it| &outcome.found[it]);
        let difference = mean(&one.confirmed.minus(&other.confirmed));
        writeln!(out, "  {} less {}, seed by seed: {difference}", one.name, other.name)?;
    }
    Ok(())
}

/// The recommendation, with its certainty.
fn verdict(out: &mut String, outcome: &Outcome, space: &Space, goal: &Goal) -> fmt::Result {
    let Some(place) = outcome.recommended else { return nothing(out, outcome, space, goal) };
    let best = &outcome.found[place];
    writeln!(out, "\nRecommended: {}", space.label(&best.setting))?;
    writeln!(
        out,
        "It is better than the file as it is, also with seeds that it was not found by, and fails no more."
    )?;
    for (axis, choice) in space.axes.iter().zip(&best.setting.0) {
        if let Some(choice) = choice.as_ref().filter(|choice| axis.is_end(choice)) {
            let (name, label) = (&axis.name, &choice.label);
            writeln!(
                out,
                "{name} = {label} is an end of its range: beyond it there may be better."
            )?;
        }
    }
    let promising = outcome.promising();
    if promising != place {
        let (name, why) = (outcome.found[promising].name, why(outcome.judgement(goal, promising)));
        writeln!(out, "What was found {name} was better then; with other seeds {why}.")?;
    }
    let other = if place == SWEPT { RACED } else { SWEPT };
    let is_better = outcome.is_better(goal, other, place) == Answer::Yes;
    if is_better && outcome.judgement(goal, other) == Judgement::Better {
        let name = outcome.found[other].name;
        writeln!(
            out,
            "With other seeds, what was found {name} is better than it: more --runs decide."
        )?;
    }
    Ok(())
}

/// That nothing is recommended, and why.
fn nothing(out: &mut String, outcome: &Outcome, space: &Space, goal: &Goal) -> fmt::Result {
    let promising = outcome.promising();
    let judgement = outcome.judgement(goal, promising);
    let label = space.label(&outcome.found[promising].setting);
    writeln!(out, "\nRecommended: nothing; keep the file as it is")?;
    writeln!(out, "Of {label}, seeds that it was not found by say: {}.", why(judgement))?;
    match judgement {
        Judgement::Undecided => writeln!(out, "More --confirm may tell."),
        Judgement::NoBetter => writeln!(out, "More --runs may find what is better."),
        Judgement::DeliversLess => {
            writeln!(out, "A metric with c or goodput in it says what that is worth.")
        }
        Judgement::Better | Judgement::FailsMore => Ok(()),
    }
}

/// What is to be said of a setting.
fn why(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Better => "it is better than the file as it is",
        Judgement::FailsMore => "it fails more flows than the file as it is",
        Judgement::DeliversLess => {
            "it delivers less than the file as it is, which the metric does not count"
        }
        Judgement::NoBetter => "it is no better than the file as it is",
        Judgement::Undecided => {
            "these runs cannot tell whether it is better than the file as it is"
        }
    }
}
