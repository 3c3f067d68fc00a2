//! Means over runs with their 95 % confidence intervals, honest about runs that did not end.

use std::time::Duration;

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::answer::Answer;

/// What one run measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// The run was stopped at its time limit: the true value is this or more.
    AtLeast(f64),
    /// The value.
    Exact(f64),
}

impl Observation {
    /// The number, whichever it is.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::Exact(value) => value,
        }
    }

    /// A duration in seconds; without `took`, only known to exceed `limit`.
    #[must_use]
    pub fn seconds(took: Option<Duration>, limit: Duration) -> Self {
        match took {
            Some(took) => Self::Exact(took.as_secs_f64()),
            None => Self::AtLeast(limit.as_secs_f64()),
        }
    }

    /// A time that was waited for until `limit`.
    #[must_use]
    pub fn or_later(took: Option<f64>, limit: f64) -> Self {
        took.map_or(Self::AtLeast(limit), Self::Exact)
    }

    /// A count, of a run that was over or was stopped.
    #[must_use]
    pub fn counted(count: u64, is_over: bool) -> Self {
        if is_over { Self::Exact(count as f64) } else { Self::AtLeast(count as f64) }
    }
}

/// A run's value of a metric.
pub(crate) fn exact(metric: &'static str, value: f64) -> (&'static str, Observation) {
    (metric, Observation::Exact(value))
}

/// What runs measured, with a running mean and variance (Welford's method).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// In the order of the runs.
    all: Vec<Observation>,
    runs: u32,
    censored: u32,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Sample {
    /// Adds a run.
    pub fn push(&mut self, observation: Observation) {
        let value = observation.value();
        self.all.push(observation);
        self.runs += 1;
        self.censored += u32::from(matches!(observation, Observation::AtLeast(_)));
        let off = value - self.mean;
        self.mean += off / f64::from(self.runs);
        self.squares += off * (value - self.mean);
    }

    /// The estimate from the runs so far; `None` before the first.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        (self.runs > 0).then(|| Estimate {
            mean: self.mean,
            ci95: self.half_width(),
            runs: self.runs,
            censored: self.censored,
            is_log: false,
        })
    }

    fn half_width(&self) -> Option<f64> {
        if self.runs < 2 || self.censored > 0 {
            return None;
        }
        let freedom = f64::from(self.runs - 1);
        let standard_error = (self.squares / freedom / f64::from(self.runs)).sqrt();
        Some(student_t(freedom) * standard_error)
    }
}

impl FromIterator<Observation> for Sample {
    fn from_iter<I: IntoIterator<Item = Observation>>(observations: I) -> Self {
        let mut sample = Self::default();
        for observation in observations {
            sample.push(observation);
        }
        sample
    }
}

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// The 97.5 % quantile of Student's t distribution with this many degrees of freedom.
fn student_t(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

/// A mean and how sure we are of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean. When runs are censored it counts them with their limit, and so is a lower bound.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval (Student's t). There is none for a single run
    /// nor for a lower bound.
    pub ci95: Option<f64>,
    /// How many runs.
    pub runs: u32,
    /// How many of them were stopped at their time limit.
    pub censored: u32,
    /// Whether the interval is even in the logarithm, as that of a ratio is: the lower end is as many times below the
    /// mean as the upper end is above it, and `ci95` is the distance to the upper end.
    pub is_log: bool,
}

impl Estimate {
    /// Whether the true mean may be larger by an unknown amount.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.censored > 0
    }

    /// What nobody measured. No question about it is answered.
    pub const UNKNOWN: Self =
        Self { mean: f64::NAN, ci95: None, runs: 0, censored: 0, is_log: false };

    /// A value that is known.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self { mean: value, ci95: Some(0.0), ..Self::UNKNOWN }
    }

    /// The mean of independent means.
    #[must_use]
    pub fn mean_of(all: impl IntoIterator<Item = Self>) -> Self {
        let all: Vec<Self> = all.into_iter().collect();
        let count = all.len() as f64;
        let squares: Option<f64> = all.iter().map(|it| Some(it.ci95?.powi(2))).sum();
        Self {
            mean: all.iter().map(|it| it.mean).sum::<f64>() / count,
            ci95: squares.map(|squares| squares.sqrt() / count),
            runs: all.iter().map(|it| it.runs).min().unwrap_or_default(),
            censored: all.iter().map(|it| it.censored).sum(),
            is_log: false,
        }
    }

    /// The lower end of the confidence interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - self.down()
    }

    /// From the mean to the lower end of the interval.
    fn down(&self) -> f64 {
        match self.ci95 {
            Some(up) if self.is_log => up * self.mean / (self.mean + up),
            _ => self.half(),
        }
    }

    /// The upper end of the confidence interval; infinite for a lower bound.
    #[must_use]
    pub fn high(&self) -> f64 {
        if self.is_lower_bound() { f64::INFINITY } else { self.mean + self.half() }
    }

    /// Half of the interval. A single run says nothing about another; of runs that did not end the
    /// mean itself is the bound.
    fn half(&self) -> f64 {
        let unknown = if self.is_lower_bound() && self.runs > 1 { 0.0 } else { f64::INFINITY };
        self.ci95.unwrap_or(unknown)
    }

    /// How often `other` fits into this, with the interval of the quotient of two independent means
    /// (relative errors added in squares). Unknown when `other` is a lower bound: the quotient
    /// would be bounded by nothing.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        if other.is_lower_bound() || other.mean == 0.0 {
            return Self::UNKNOWN;
        }
        let mean = self.mean / other.mean;
        let relative = |estimate: &Self| estimate.ci95.map(|half| half / estimate.mean);
        let ci95 = relative(self).zip(relative(other)).map(|(a, b)| (mean * a.hypot(b)).abs());
        let runs = self.runs.min(other.runs);
        Self { mean, ci95, runs, censored: self.censored, is_log: false }
    }

    /// What this has more than `other`, with the interval of the difference of two independent means. Unknown
    /// when `other` is a lower bound.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        if other.is_lower_bound() {
            return Self::UNKNOWN;
        }
        let ci95 = self.ci95.zip(other.ci95).map(|(a, b)| a.hypot(b));
        let runs = self.runs.min(other.runs);
        let mean = self.mean - other.mean;
        Self { mean, ci95, runs, censored: self.censored, is_log: false }
    }

    /// Whether this is less: the 95 % interval of the difference of two independent means lies
    /// below zero, or above.
    #[must_use]
    pub fn below(&self, other: &Self) -> Answer {
        let more = self.half().hypot(other.down());
        let less = self.down().hypot(other.half());
        if !self.is_lower_bound() && self.mean + more < other.mean {
            Answer::Yes
        } else if !other.is_lower_bound() && self.mean - less >= other.mean {
            Answer::No
        } else {
            Answer::Undecided
        }
    }

    /// Whether this is no more than `most`.
    #[must_use]
    pub fn at_most(&self, most: f64) -> Answer {
        if self.high() <= most {
            Answer::Yes
        } else if self.low() > most {
            Answer::No
        } else {
            Answer::Undecided
        }
    }

    /// Whether this is no less than `least`.
    #[must_use]
    pub fn at_least(&self, least: f64) -> Answer {
        if self.low() >= least {
            Answer::Yes
        } else if self.high() < least {
            Answer::No
        } else {
            Answer::Undecided
        }
    }

    /// Whether this is neither less than `least` nor more than `most`.
    #[must_use]
    pub fn within(&self, [least, most]: [f64; 2]) -> Answer {
        self.at_least(least).and(self.at_most(most))
    }

    /// For the logarithm of a value, the value itself. Its interval is even in the logarithm, so no end of it is below
    /// zero.
    #[must_use]
    pub fn exp(&self) -> Self {
        let mean = libm::exp(self.mean);
        let ci95 = self.ci95.map(|half| mean * libm::expm1(half));
        Self { mean, ci95, is_log: true, ..*self }
    }

    /// A share by counts: `count` of `all` independent events. The interval is Wilson's score interval, with the mean
    /// at its middle; `runs` are the counted runs.
    #[must_use]
    pub fn share(count: f64, all: f64, runs: u32) -> Self {
        if all <= 0.0 {
            return Self::UNKNOWN;
        }
        let (p, squared) = (count / all, NORMAL * NORMAL);
        let spread = (p * (1.0 - p) / all + squared / (4.0 * all * all)).sqrt();
        let scale = 1.0 + squared / all;
        let mean = (p + squared / (2.0 * all)) / scale;
        let ci95 = (runs > 1).then_some(NORMAL * spread / scale);
        Self { mean, ci95, runs, ..Self::UNKNOWN }
    }

    /// This, times a known factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Self { mean: self.mean * factor, ci95: self.ci95.map(|half| half * factor), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(values: &[f64]) -> Estimate {
        let sample: Sample = values.iter().copied().map(Observation::Exact).collect();
        sample.estimate().expect("values")
    }

    #[track_caller]
    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-3 * b.abs(), "{a} is not {b}");
    }

    /// Five runs, as in many papers: t = 2.776.
    #[test]
    fn the_interval_of_five_runs_uses_four_degrees_of_freedom() {
        let estimate = exact(&[1.0, 2.0, 3.0, 4.0, 5.0]);

        assert_close(estimate.mean, 3.0);
        // Standard deviation sqrt(2.5), divided by sqrt(5), times 2.776.
        assert_close(estimate.ci95.expect("five runs"), 2.776 * (2.5_f64 / 5.0).sqrt());
    }

    #[test]
    fn student_t_quantiles_are_those_of_the_tables() {
        for (freedom, t) in [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (29.0, 2.045)]
        {
            assert_close(student_t(freedom), t);
        }
    }

    #[test]
    fn one_run_has_no_interval_and_none_has_no_mean() {
        assert_eq!(Sample::default().estimate(), None);
        assert_eq!(exact(&[4.0]).ci95, None);
    }

    #[test]
    fn a_censored_run_makes_the_mean_a_lower_bound() {
        let sample: Sample =
            [Observation::Exact(10.0), Observation::AtLeast(20.0)].into_iter().collect();
        let estimate = sample.estimate().expect("two runs");

        assert!(estimate.is_lower_bound());
        assert_close(estimate.mean, 15.0);
        assert_eq!(estimate.ci95, None);
        assert_eq!(estimate.high(), f64::INFINITY);
    }

    #[test]
    fn a_quotient_by_a_lower_bound_is_not_given() {
        let bound = Estimate { mean: 8.0, runs: 3, censored: 1, ..Estimate::UNKNOWN };
        let known = known(2.0, 0.2);

        assert_eq!(known.over(&bound).runs, 0);
        let quotient = bound.over(&known);
        assert!(quotient.is_lower_bound());
        assert_close(quotient.mean, 4.0);
    }

    fn known(mean: f64, half: f64) -> Estimate {
        Estimate { mean, ci95: Some(half), runs: 30, ..Estimate::UNKNOWN }
    }

    const NO: Answer = Answer::No;
    const UNDECIDED: Answer = Answer::Undecided;
    const YES: Answer = Answer::Yes;

    #[test]
    fn a_mean_is_below_another_only_beyond_both_intervals() {
        let bound = Estimate { ci95: None, censored: 2, ..known(1.0, 0.0) };

        assert_eq!(known(1.0, 0.3).below(&known(1.6, 0.4)), YES);
        assert_eq!(known(1.0, 0.4).below(&known(1.5, 0.4)), UNDECIDED);
        assert_eq!(known(1.6, 0.3).below(&known(1.0, 0.4)), NO);
        assert_eq!(known(1.0, 0.0).below(&known(1.0, 0.0)), NO);
        assert_eq!(bound.below(&known(9.0, 0.1)), UNDECIDED);
        assert_eq!(bound.below(&known(0.5, 0.1)), NO);
        assert_eq!(known(0.5, 0.1).below(&bound), YES);
        assert_eq!(known(1.5, 0.1).below(&bound), UNDECIDED);
    }

    #[test]
    fn a_difference_has_the_errors_of_both() {
        let bound = Estimate { ci95: None, censored: 2, ..known(1.0, 0.0) };

        let difference = known(5.0, 0.3).minus(&known(2.0, 0.4));

        assert_close(difference.mean, 3.0);
        assert_close(difference.ci95.expect("both are known"), 0.5);
        assert_eq!(known(5.0, 0.3).minus(&bound).runs, 0);
        assert!(bound.minus(&known(0.5, 0.1)).is_lower_bound());
    }

    #[test]
    fn a_limit_is_kept_or_broken_only_by_the_whole_interval() {
        let of = |mean: f64| known(mean, 0.1);

        assert_eq!([0.8, 0.95, 1.2].map(|it| of(it).at_most(1.0)), [YES, UNDECIDED, NO]);
        assert_eq!([0.8, 0.95, 1.2].map(|it| of(it).at_least(1.0)), [NO, UNDECIDED, YES]);
        assert_eq!([0.8, 1.05, 1.5].map(|it| of(it).within([1.0, 2.0])), [NO, UNDECIDED, YES]);
        let bound = Estimate { ci95: None, censored: 1, ..known(1.2, 0.0) };
        assert_eq!([bound.at_most(1.0), bound.at_most(2.0)], [NO, UNDECIDED]);
    }

    #[test]
    fn one_run_and_none_decide_nothing() {
        let unended = Estimate { censored: 1, ..exact(&[4.0]) };

        for unsure in [exact(&[4.0]), unended, Estimate::UNKNOWN] {
            assert_eq!([unsure.at_most(1.0), unsure.at_least(1.0)], [UNDECIDED; 2]);
            assert_eq!(unsure.below(&known(9.0, 0.1)), UNDECIDED);
            assert_eq!(known(9.0, 0.1).below(&unsure), UNDECIDED);
        }
    }

    #[test]
    fn the_interval_of_a_ratio_is_that_of_its_logarithm() {
        let half = 12.706 * 2.0_f64.ln();
        let ratio = known(2.0_f64.ln(), half).exp();

        assert_close(ratio.high(), 2.0 * half.exp());
        assert_close(ratio.low(), 2.0 / half.exp());
        assert!(ratio.low() > 0.0, "a ratio is never below zero");
    }

    #[test]
    fn a_ratio_is_below_another_as_its_logarithm_is() {
        let ratio = |log: f64, half| known(log, half).exp();

        assert_eq!(ratio(0.0, 1.0).below(&ratio(3.0, 1.0)), YES);
        assert_eq!(ratio(3.0, 1.0).below(&ratio(0.0, 1.0)), NO);
        assert_eq!(ratio(0.0, 2.0).at_most(7.0), UNDECIDED);
        assert_eq!(ratio(0.0, 2.0).at_least(0.13), YES);
    }

    /// Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263, 0 of 20, 1 of 29.
    #[test]
    fn shares_have_the_intervals_of_the_tables() {
        for (count, all, low, high) in
            [(81.0, 263.0, 0.2553, 0.3662), (0.0, 20.0, 0.0, 0.1611), (1.0, 29.0, 0.0061, 0.1718)]
        {
            let share = Estimate::share(count, all, 2);
            assert!((share.low() - low).abs() < 6e-5, "{share:?}");
            assert!((share.high() - high).abs() < 6e-5, "{share:?}");
        }
        assert_eq!(Estimate::share(9.0, 9.0, 1).at_least(0.1), UNDECIDED, "one run");
        assert_eq!(Estimate::share(0.0, 0.0, 2).runs, 0);
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn one_pass_gives_what_two_passes_give(values in prop::collection::vec(-1e6..1e6_f64, 2..50)) {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);

            let estimate = exact(&values);

            let half = student_t(n - 1.0) * (variance / n).sqrt();
            prop_assert!((estimate.mean - mean).abs() < 1e-6 * 1e6);
            prop_assert!((estimate.ci95.unwrap_or(f64::NAN) - half).abs() < 1e-6 * half.max(1.0));
        }
    }
}
