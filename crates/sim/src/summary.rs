//! Statistics of a stream of numbers, in constant memory.

use std::time::Duration;

/// Count, mean, spread and extremes of a stream of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    count: u64,
    mean: f64,
    squares: f64,
    min: Duration,
    max: Duration,
}

impl Summary {
    /// Adds one (Welford's recurrence).
    pub fn add(&mut self, value: Duration) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        let seconds = value.as_secs_f64();
        let before = seconds - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (seconds - self.mean);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in seconds; 0 of nothing.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation in seconds; 0 of fewer than two.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }

    /// The smallest; 0 of nothing.
    #[must_use]
    pub fn min(&self) -> Duration {
        self.min
    }

    /// The largest; 0 of nothing.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_that_of_the_textbook() {
        let mut summary = Summary::default();
        for seconds in [2, 4, 4, 4, 5, 5, 7, 9] {
            summary.add(Duration::from_secs(seconds));
        }

        assert_eq!(summary.count(), 8);
        assert!((summary.mean() - 5.0).abs() < 1e-12);
        assert!((summary.deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            (summary.min(), summary.max()),
            (Duration::from_secs(2), Duration::from_secs(9))
        );
    }
}
