//! Round trips and gaps as they are measured, and the timeouts that follow.

use std::time::Duration;

/// The asymmetric filter of S/R Enhanced: fast up (ISRITUF, RTDUF), slow down (ISRITDF, RTDDF).
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    value: Duration,
}

/// How much of a rise is taken.
const UP: f64 = 0.8;
/// How much of a fall is taken.
const DOWN: f64 = 0.4;
/// What an estimate is multiplied by for a timeout (RTDJF, ISRITJF).
const JITTER: f64 = 1.5;

impl Filter {
    pub(super) const fn new(value: Duration) -> Self {
        Self { value }
    }

    pub(super) fn add(&mut self, sample: Duration) {
        self.value = if sample > self.value {
            self.value + (sample - self.value).mul_f64(UP)
        } else {
            self.value - (self.value - sample).mul_f64(DOWN)
        };
    }

    /// With what jitter adds.
    pub(super) fn relaxed(&self) -> Duration {
        self.value.mul_f64(JITTER)
    }
}

/// The mean and the deviation of RFC 6298, 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Smoothed {
    mean: Duration,
    deviation: Duration,
}

impl Smoothed {
    pub(super) fn new(sample: Duration) -> Self {
        Self { mean: sample, deviation: sample / 2 }
    }

    pub(super) fn add(&mut self, sample: Duration) {
        let error = self.mean.abs_diff(sample);
        self.deviation = self.deviation.mul_f64(0.75) + error.mul_f64(0.25);
        self.mean = self.mean.mul_f64(0.875) + sample.mul_f64(0.125);
    }

    /// The timeout before bounds and backoff.
    pub(super) fn timeout(&self) -> Duration {
        self.mean + self.deviation * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_filter_rises_fast_and_falls_slowly() {
        let mut filter = Filter::new(seconds(10));

        filter.add(seconds(20));
        assert_eq!(filter.value, seconds(18));
        filter.add(seconds(8));
        assert_eq!(filter.value, seconds(14));
        assert_eq!(filter.relaxed(), seconds(21));
    }

    #[test]
    fn the_timeout_follows_mean_and_deviation() {
        let mut smoothed = Smoothed::new(seconds(8));
        assert_eq!(smoothed.timeout(), seconds(24));

        smoothed.add(seconds(8));
        assert_eq!(smoothed.timeout(), seconds(20));
    }
}
