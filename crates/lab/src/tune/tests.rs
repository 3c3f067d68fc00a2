//! Searches on functions whose optimum is known.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base::rng::Rng;

use super::measure::{FAILED, Measured};
use super::metric::Metric;
use super::outcome::{Effort, Judgement, Outcome, search};
use super::race::race;
use super::range::Asked;
use super::space::{Axis, Setting, Space};
use super::sweep::sweep;
use super::trials::{Bench, Ended, Goal, Purpose, Score, Trials};
use crate::progress::Progress;

/// A function of the places of all parameters and a random number, which all settings share.
struct Function {
    of: fn(&[f64], f64) -> f64,
    /// How many flows fail.
    failed: fn(&[f64], f64) -> f64,
    runs: AtomicU32,
    stop_after: u32,
    stop: AtomicBool,
}

impl Function {
    fn new(of: fn(&[f64], f64) -> f64) -> Self {
        let stop = AtomicBool::new(false);
        Self { of, failed: |_, _| 0.0, runs: AtomicU32::new(0), stop_after: u32::MAX, stop }
    }
}

impl Bench for Function {
    fn check(&self, setting: &Setting) -> Result<(), String> {
        // A corner that is not allowed.
        let xs = places(setting);
        let is_refused = xs.len() > 1 && xs.iter().all(|x| *x > 99.0);
        if is_refused { Err("too much of everything".into()) } else { Ok(()) }
    }

    fn run(&self, setting: &Setting, seed: u64) -> Result<Measured, String> {
        self.check(setting)?;
        if self.runs.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop_after {
            self.stop.store(true, Ordering::Relaxed);
        }
        let mut measured = Measured::default();
        let noise = Rng::stream(seed, "noise").uniform();
        measured.0[0] = (self.of)(&places(setting), noise);
        measured.set(FAILED, (self.failed)(&places(setting), noise));
        Ok(measured)
    }
}

fn places(setting: &Setting) -> Vec<f64> {
    setting.0.iter().map(|choice| choice.as_ref().map_or(50.0, |choice| choice.x)).collect()
}

fn space(text: &str) -> Space {
    let asked = Asked::read_all(text, 11).expect("parameters");
    let axis = |it: Asked| Axis {
        keys: it.keys.iter().map(|key| key.parse().expect("a key")).collect(),
        name: it.name,
        values: it.values,
    };
    Space { axes: asked.into_iter().map(axis).collect() }
}

fn goal(text: &str, is_least: bool) -> Goal {
    Goal { metric: Metric::parse(text).expect("a metric"), is_least }
}

fn with_trials<T>(
    (space, goal): (&Space, &Goal),
    function: &Function,
    jobs: usize,
    work: impl FnOnce(&mut Trials<'_>) -> T,
) -> T {
    let (silent, jobs) = (Progress::silent(), NonZeroUsize::new(jobs).expect("some"));
    let with = (&silent, &function.stop);
    work(&mut Trials::new((space, goal), function, (0, jobs), with))
}

/// A ridge: x and y have to go up together, and 70, 80 is the top. The noise is large and common to all.
fn ridge(xs: &[f64], noise: f64) -> f64 {
    let (x, y) = (xs[0] / 100.0, xs[1] / 100.0);
    10.0 - 40.0 * (y - x - 0.1).powi(2) - (x - 0.7).powi(2) + 100.0 * noise
}

#[test]
fn a_search_over_all_parameters_finds_what_one_after_the_other_misses() {
    let (space, goal) = (space("x=0..100.5,y=0..100.5"), goal("c", false));
    let function = Function::new(ridge);

    let (swept, raced) = with_trials((&space, &goal), &function, 2, |trials| {
        let swept = sweep(trials, 10).unwrap();
        let raced = race(trials, 10, swept.runs, 1).unwrap();
        (swept, raced)
    });

    let height = |setting: &Setting| ridge(&places(setting), 0.0);
    assert_eq!(swept.runs, 220);
    assert!(raced.runs <= swept.runs, "{} runs", raced.runs);
    assert!(height(&swept.best) < 9.92, "{:?}", places(&swept.best));
    assert!(height(&raced.best) > 9.95, "{:?}", places(&raced.best));
}

#[test]
fn one_after_the_other_finds_the_optimum_of_parameters_that_do_not_interact() {
    let hill =
        |xs: &[f64], noise: f64| -(xs[0] - 30.0).abs() - 2.0 * (xs[1] - 80.0).abs() + 300.0 * noise;
    let (space, goal) = (space("x=0..100,y=0..100"), goal("c", false));
    let function = Function::new(hill);

    let swept = with_trials((&space, &goal), &function, 1, |trials| sweep(trials, 5).unwrap());

    assert_eq!(places(&swept.best), [30.0, 80.0]);
    let labels: Vec<usize> = swept.sweeps.iter().map(|it| it.best).collect();
    assert_eq!(labels, [3, 8]);
    // The first parameter is tried beside the file's own value of the second.
    let at_30 = &swept.sweeps[0].points[3].score.mean;
    let at_80 = &swept.sweeps[1].points[8].score.mean;
    assert!((at_80.mean - at_30.mean - 60.0).abs() < 1e-9);
}

#[test]
fn less_can_be_better_and_what_is_not_allowed_is_left_out() {
    let (space, goal) = (space("x=0..100,y=100|99.5|20"), goal("0-c", true));
    let function = Function::new(|xs, _| xs[0]);

    let (swept, raced) = with_trials((&space, &goal), &function, 1, |trials| {
        (sweep(trials, 3).unwrap(), race(trials, 3, 200, 1).unwrap())
    });

    // 100 is the best of x, and then y may only be 20.
    assert_eq!(places(&swept.best), [100.0, 20.0]);
    let refused: Vec<f64> = swept.sweeps[1].refused.iter().map(|it| it.0.x).collect();
    assert_eq!(refused, [100.0, 99.5]);
    let best = places(&raced.best);
    assert!(best[0] > 95.0 && (best[0] <= 99.0 || best[1] < 99.0), "{best:?}");
}

#[test]
fn a_search_gives_the_same_whatever_the_number_of_jobs() {
    let (space, goal) = (space("x=0..100,y=0..100"), goal("c", false));
    let search = |jobs| {
        let function = Function::new(|xs, noise| ridge(xs, noise * xs[0]));
        with_trials((&space, &goal), &function, jobs, |trials| {
            let raced = race(trials, 9, 300, 4).unwrap();
            (places(&raced.best), raced.runs, raced.settings)
        })
    };

    assert_eq!(search(1), search(7));
}

#[test]
fn a_setting_is_run_once_with_each_seed() {
    let (space, goal) = (space("x=0..100"), goal("c", false));
    let function = Function::new(|xs, _| xs[0]);

    let (swept, raced) = with_trials((&space, &goal), &function, 2, |trials| {
        let swept = sweep(trials, 4).unwrap();
        trials.run(Purpose::Tune, &[(swept.best.clone(), 4)]).unwrap();
        (swept.runs, race(trials, 4, swept.runs, 1).unwrap().runs)
    });

    assert_eq!(swept, 44);
    assert!(function.runs.load(Ordering::Relaxed) <= swept + raced);
}

#[test]
fn a_race_keeps_to_its_budget() {
    let (space, goal) = (space("x=0..100"), goal("c", false));
    let function = Function::new(|xs, _| xs[0]);

    let raced =
        with_trials((&space, &goal), &function, 2, |trials| race(trials, 5, 12, 1).unwrap());

    // Two settings with five runs each; a third has no room.
    assert_eq!((raced.settings, raced.runs), (2, 10));
    assert_eq!(function.runs.load(Ordering::Relaxed), 10);
}

#[test]
fn what_is_stopped_says_so_and_begins_nothing_more() {
    let (space, goal) = (space("x=0..100"), goal("c", false));
    let function = Function { stop_after: 7, ..Function::new(|xs, _| xs[0]) };

    let ended = with_trials((&space, &goal), &function, 1, |trials| sweep(trials, 4).unwrap_err());

    assert_eq!((ended, function.runs.load(Ordering::Relaxed)), (Ended::Stopped, 7));
}

#[test]
fn a_metric_without_a_value_is_worst_and_one_without_any_ends_the_search() {
    let (some, never) = (space("x=10..100"), goal("1/(0*c)", false));
    let function = Function::new(|xs, _| xs[0]);
    let ended = with_trials((&some, &never), &function, 1, |trials| sweep(trials, 2).unwrap_err());
    assert!(
        matches!(ended, Ended::Failed(why) if why.contains("no value in any run over the range of x"))
    );

    // 1/0 at x = 0 alone, and else falling.
    let (space, most) = (space("x=0..100"), goal("1/c", false));
    let swept = with_trials((&space, &most), &function, 1, |trials| sweep(trials, 2).unwrap());
    assert_eq!(swept.sweeps[0].points[0].score.missing(), 0, "nothing was delivered: 0");
    assert_eq!(places(&swept.best), [10.0]);
    let least = goal("1/c", true);
    let swept = with_trials((&space, &least), &function, 1, |trials| sweep(trials, 2).unwrap());
    assert_eq!(swept.sweeps[0].points[0].score.missing(), 2, "no delay is no short delay");
    assert_eq!(places(&swept.best), [100.0]);
}

#[test]
fn differences_and_quotients_are_those_of_pairs() {
    let of = |values: [f64; 4]| Score::of(values.map(Some).to_vec());
    let (a, b) = (of([11.0, 21.0, 31.0, 41.0]), of([10.0, 20.0, 30.0, 40.0]));

    let difference = a.minus(&b);
    assert!((difference.mean - 1.0).abs() < 1e-12);
    assert!(difference.ci95.expect("four runs") < 1e-9, "what both have in common is gone");
    let ratio = of([20.0, 40.0, 60.0, 80.0]).over(&b);
    assert!((ratio.mean - 2.0).abs() < 1e-12 && ratio.ci95.expect("four runs") < 1e-9);
    assert_eq!(a.over(&of([0.0; 4])).runs, 0);
}

const EFFORT: Effort = Effort { runs: 6, confirmations: 6, family: 0 };

/// What is found, and the report.
fn found(space: &Space, goal: &Goal, function: &Function) -> (Outcome, String, String) {
    let outcome = with_trials((space, goal), function, 2, |trials| search(trials, goal, EFFORT));
    let outcome = outcome.unwrap();
    let report = super::report(&outcome, space, goal).unwrap();
    let json = super::to_json(&outcome, space, goal).unwrap();
    (outcome, report, json)
}

/// The larger x the better, but beyond 60 flows fail in some runs. The file has 50.
#[test]
fn a_setting_that_fails_more_than_the_file_is_worse_than_any_that_does_not() {
    let (space, goal) = (space("x=0..100"), goal("c", false));
    let failed = |xs: &[f64], noise: f64| if xs[0] > 60.0 && noise > 0.5 { 2.0 } else { 0.0 };
    let function = Function { failed, ..Function::new(|xs, noise| xs[0] + 100.0 * noise) };

    let (outcome, report, json) = found(&space, &goal, &function);

    assert_eq!(places(&outcome.swept.best), [60.0]);
    let raced = places(&outcome.raced.best)[0];
    assert!((50.0..=60.0).contains(&raced), "{raced}");
    let best = outcome.best().expect("60 is better than 50");
    assert!(places(&best.setting)[0] <= 60.0 && best.confirmed.failures.more == 0);
    for part in [" flows failed in ", "fails more than the file as it is", "Recommended: x = "] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert!(json.contains("\"judgement\":\"better\""), "{json}");
    assert!(json.contains("\"runs_that_failed\":"), "{json}");
}

/// The file fails as much: that is no reason against a setting.
#[test]
fn what_fails_with_the_file_too_may_fail() {
    let (space, goal) = (space("x=0..100"), goal("c", false));
    let failed = |_: &[f64], noise: f64| f64::from(u8::from(noise > 0.5));
    let function = Function { failed, ..Function::new(|xs, noise| xs[0] + 100.0 * noise) };

    let (outcome, ..) = found(&space, &goal, &function);

    assert_eq!(places(&outcome.swept.best), [100.0]);
    let best = outcome.best().expect("100 is better than 50");
    assert!(best.confirmed.failures.flows > 0 && best.confirmed.failures.more == 0);
}

#[test]
fn nothing_is_recommended_that_is_not_shown_to_be_better() {
    let goal = goal("t", false);
    let with = |values: &str, of, failed| {
        let function = Function { failed, ..Function::new(|_, _| 1.0) };
        let function = Second(function, of);
        let space = space(values);
        let (silent, jobs) = (Progress::silent(), NonZeroUsize::MIN);
        let stop = AtomicBool::new(false);
        let mut trials = Trials::new((&space, &goal), &function, (0, jobs), (&silent, &stop));
        let outcome = search(&mut trials, &goal, EFFORT).unwrap();
        let report = super::report(&outcome, &space, &goal).unwrap();
        let json = super::to_json(&outcome, &space, &goal).unwrap();
        assert!(outcome.best().is_none(), "{report}");
        assert!(report.contains("Recommended: nothing; keep the file as it is"), "{report}");
        for part in ["In Linux", "In the scenario file", "ip route"] {
            assert!(!report.contains(part), "{part} is in\n{report}");
        }
        assert!(
            json.contains("\"recommended\":null") && json.contains("\"settings\":[]"),
            "{json}"
        );
        outcome.judgement(&goal, outcome.promising())
    };
    // The measure, and the share that is delivered.
    type Both = fn(&[f64], f64) -> [f64; 2];
    let none: fn(&[f64], f64) -> f64 = |_, _| 0.0;

    // All values fail, and the file does not.
    let fails: fn(&[f64], f64) -> f64 = |xs, _| f64::from(u8::from(xs[0] > 60.0));
    let larger: Both = |xs, _| [xs[0], 1.0];
    assert_eq!(with("x=70..100", larger, fails), Judgement::FailsMore);
    // What is delivered falls, which this metric does not count.
    let drops: Both = |xs, _| [xs[0], 1.0 - xs[0] / 200.0];
    assert_eq!(with("x=70..100", drops, none), Judgement::DeliversLess);
    let smaller: Both = |xs, _| [-xs[0], 1.0];
    assert_eq!(with("x=70..100", smaller, none), Judgement::NoBetter);
    // Chance alone: another draw for each value.
    let chance: Both = |xs, noise| [(noise * (xs[0] + 17.0) * 1e4).fract(), 1.0];
    assert_eq!(with("x=70|80", chance, none), Judgement::Undecided);
}

/// A function of which a measure that is not the share of what was delivered is sought.
struct Second(Function, fn(&[f64], f64) -> [f64; 2]);

impl Bench for Second {
    fn check(&self, _: &Setting) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, setting: &Setting, seed: u64) -> Result<Measured, String> {
        let mut measured = self.0.run(setting, seed)?;
        let noise = Rng::stream(seed, "noise").uniform();
        let [value, share] = (self.1)(&places(setting), noise);
        measured.set("t", value);
        measured.set("c", share);
        Ok(measured)
    }
}
