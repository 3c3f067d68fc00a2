//! Means over runs with their 95 % confidence intervals, honest about runs that did not end.

use statrs::distribution::{ContinuousCDF, StudentsT};

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
}

/// A running mean and variance (Welford's method): constant memory, one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
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
        self.runs += 1;
        self.censored += u32::from(matches!(observation, Observation::AtLeast(_)));
        let off = value - self.mean;
        self.mean += off / f64::from(self.runs);
        self.squares += off * (value - self.mean);
    }

    /// What the runs so far say; `None` before the first.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        (self.runs > 0).then(|| Estimate {
            mean: self.mean,
            ci95: self.half_width(),
            runs: self.runs,
            censored: self.censored,
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
}

impl Estimate {
    /// Whether the true mean may be larger by an unknown amount.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.censored > 0
    }

    /// The lower end of the confidence interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - self.ci95.unwrap_or(0.0)
    }

    /// The upper end of the confidence interval; infinite for a lower bound.
    #[must_use]
    pub fn high(&self) -> f64 {
        if self.is_lower_bound() { f64::INFINITY } else { self.mean + self.ci95.unwrap_or(0.0) }
    }

    /// How often `other` fits into this, with the interval of the quotient of two independent means
    /// (relative errors added in squares). `None` when `other` is a lower bound: the quotient
    /// would be bounded by nothing.
    #[must_use]
    pub fn over(&self, other: &Self) -> Option<Self> {
        if other.is_lower_bound() || other.mean == 0.0 {
            return None;
        }
        let mean = self.mean / other.mean;
        let relative = |estimate: &Self| estimate.ci95.map(|half| half / estimate.mean);
        let ci95 = relative(self).zip(relative(other)).map(|(a, b)| mean * a.hypot(b));
        Some(Self { mean, ci95, runs: self.runs.min(other.runs), censored: self.censored })
    }

    /// Whether this is less beyond doubt: the 95 % interval of the difference of two independent
    /// means lies below zero.
    #[must_use]
    pub fn is_surely_below(&self, other: &Self) -> bool {
        let half = self.ci95.unwrap_or(0.0).hypot(other.ci95.unwrap_or(0.0));
        !self.is_lower_bound() && self.mean + half < other.mean
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
        let bound = Estimate { mean: 8.0, ci95: None, runs: 3, censored: 1 };
        let known = Estimate { mean: 2.0, ci95: Some(0.2), runs: 3, censored: 0 };

        assert_eq!(known.over(&bound), None);
        let quotient = bound.over(&known).expect("divided by a known mean");
        assert!(quotient.is_lower_bound());
        assert_close(quotient.mean, 4.0);
    }

    #[test]
    fn a_mean_is_surely_below_another_only_beyond_both_intervals() {
        let estimate = |mean, half| Estimate { mean, ci95: Some(half), runs: 30, censored: 0 };
        let bound = Estimate { ci95: None, censored: 2, ..estimate(1.0, 0.0) };

        assert!(estimate(1.0, 0.3).is_surely_below(&estimate(1.6, 0.4)));
        assert!(!estimate(1.0, 0.4).is_surely_below(&estimate(1.5, 0.4)));
        assert!(!bound.is_surely_below(&estimate(9.0, 0.1)));
        assert!(estimate(0.5, 0.1).is_surely_below(&bound));
    }

    proptest! {
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
