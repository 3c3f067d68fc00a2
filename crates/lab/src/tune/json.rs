//! Reports the results of a search to programs: one JSON object.

use serde::Serialize;

use super::advice::{Advice, advice};
use super::outcome::{AS_WRITTEN, Found, Judgement, Outcome, RACED, SWEPT};
use super::space::{Setting, Space};
use super::sweep::Sweep;
use super::trials::{Goal, Score};
use crate::stats::Estimate;

#[derive(Serialize)]
struct Object<'a> {
    metric: String,
    minimise: bool,
    parameters: Vec<Parameter<'a>>,
    as_written: Searched,
    one_after_the_other: Searched,
    all_at_once: Searched,
    /// Which of the two searches is recommended; null where neither is shown to be better than the unchanged file.
    recommended: Option<&'static str>,
    /// The judgement on the best-looking setting, by seeds not used in the search.
    judgement: &'static str,
    /// What all at once has more than one after the other, with other seeds.
    all_at_once_less_one_after_the_other: Number,
    better_than_as_written: &'static str,
    settings: Vec<Advice>,
}

#[derive(Serialize)]
struct Parameter<'a> {
    name: &'a str,
    keys: Vec<String>,
    unit: &'static str,
    points: Vec<Point<'a>>,
    best: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Ratio<'a>>,
}

#[derive(Serialize)]
struct Point<'a> {
    value: &'a str,
    x: f64,
    metric: Number,
}

#[derive(Serialize)]
struct Ratio<'a> {
    most: &'a str,
    least: &'a str,
    ratio: Number,
    difference: Number,
}

#[derive(Serialize)]
struct Searched {
    setting: Vec<Value>,
    runs: u32,
    /// With the seeds that it was found by.
    tuned: Number,
    confirmed: Number,
    /// Less the file as it is, with other seeds.
    gain: Number,
    measures: Vec<Measure>,
}

#[derive(Serialize)]
struct Value {
    parameter: String,
    value: Option<String>,
}

#[derive(Serialize)]
struct Measure {
    name: &'static str,
    value: Number,
}

/// A mean; null where there is none.
#[derive(Serialize)]
struct Number {
    mean: Option<f64>,
    ci95: Option<f64>,
    runs: u32,
    #[serde(flatten)]
    lacks: Option<Lacks>,
}

/// What a mean is not the mean of.
#[derive(Serialize)]
struct Lacks {
    /// Runs without a value.
    without_value: usize,
    /// Flows that failed, over all runs.
    failed: u64,
    /// Runs in which one did.
    runs_that_failed: usize,
}

impl Number {
    fn new(estimate: &Estimate) -> Self {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let mean = finite(estimate.mean);
        let ci95 = estimate.ci95.and_then(finite);
        Self { mean, ci95, runs: estimate.runs, lacks: None }
    }

    fn of(score: &Score) -> Self {
        let mean = if score.missing() == 0 { score.mean } else { Estimate::UNKNOWN };
        let runs = u32::try_from(score.values.len()).unwrap_or(u32::MAX);
        let lacks = Lacks {
            without_value: score.missing(),
            failed: score.failures.flows,
            runs_that_failed: score.failures.runs,
        };
        Self { runs, lacks: Some(lacks), ..Self::new(&mean) }
    }
}

/// The outcome as one line.
///
/// # Errors
/// Never with numbers that JSON knows.
pub fn to_json(outcome: &Outcome, space: &Space, goal: &Goal) -> serde_json::Result<String> {
    let searched = |place: usize, runs: u32| {
        let Found { setting, tuned, confirmed, measures, .. } = &outcome.found[place];
        let measures = measures.iter();
        Searched {
            setting: values(space, setting),
            runs,
            tuned: Number::of(tuned),
            confirmed: Number::of(confirmed),
            gain: Number::new(&confirmed.minus(&outcome.found[AS_WRITTEN].confirmed)),
            measures: measures
                .map(|(name, value)| Measure { name, value: Number::of(value) })
                .collect(),
        }
    };
    let between = outcome.found[RACED].confirmed.minus(&outcome.found[SWEPT].confirmed);
    let promising = outcome.promising();
    let better = outcome.is_better(goal, outcome.recommended.unwrap_or(promising), AS_WRITTEN);
    let runs = u32::try_from(outcome.found[AS_WRITTEN].tuned.values.len()).unwrap_or(u32::MAX);
    serde_json::to_string(&Object {
        metric: goal.metric.to_string(),
        minimise: goal.is_least,
        parameters: outcome.swept.sweeps.iter().map(|sweep| parameter(sweep, space)).collect(),
        as_written: searched(AS_WRITTEN, runs),
        one_after_the_other: searched(SWEPT, outcome.swept.runs),
        all_at_once: searched(RACED, outcome.raced.runs),
        recommended: outcome
            .recommended
            .map(|place| if place == RACED { "all_at_once" } else { "one_after_the_other" }),
        judgement: match outcome.judgement(goal, promising) {
            Judgement::Better => "better",
            Judgement::FailsMore => "fails_more",
            Judgement::DeliversLess => "delivers_less",
            Judgement::NoBetter => "no_better",
            Judgement::Undecided => "undecided",
        },
        all_at_once_less_one_after_the_other: Number::new(&between),
        better_than_as_written: match better {
            crate::answer::Answer::No => "no",
            crate::answer::Answer::Undecided => "undecided",
            crate::answer::Answer::Yes => "yes",
        },
        settings: outcome.best().map_or(Vec::new(), |best| advice(space, &best.setting)),
    })
}

fn values(space: &Space, setting: &Setting) -> Vec<Value> {
    let axes = space.axes.iter().zip(&setting.0);
    let one = |(axis, choice): (&super::space::Axis, &Option<super::range::Choice>)| Value {
        parameter: axis.name.clone(),
        value: choice.as_ref().map(|choice| choice.label.clone()),
    };
    axes.map(one).collect()
}

fn parameter<'a>(sweep: &'a Sweep, space: &'a Space) -> Parameter<'a> {
    let axis = &space.axes[sweep.axis];
    let points = sweep.points.iter();
    Parameter {
        name: &axis.name,
        keys: axis.keys.iter().map(ToString::to_string).collect(),
        unit: axis.values.unit(),
        points: points
            .map(|point| Point {
                value: &point.choice.label,
                x: point.choice.x,
                metric: Number::of(&point.score),
            })
            .collect(),
        best: &sweep.points[sweep.best].choice.label,
        sensitivity: sweep.sensitivity().map(|it| Ratio {
            most: &it.most.label,
            least: &it.least.label,
            ratio: Number::new(&it.ratio),
            difference: Number::new(&it.difference),
        }),
    }
}
