//! Measures round trips and gaps, and derives the timeouts.

use std::time::Duration;

use base::time::Time;

/// The asymmetric filter of S/R Enhanced: fast up (ISRITUF, RTDUF), slow down (ISRITDF, RTDDF).
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    value: Duration,
}

/// How much of a rise is taken.
const UP: f64 = 0.8;
/// How much of a fall is taken.
const DOWN: f64 = 0.4;
/// What an estimate is multiplied by for a timeout (RTDJF, ISRITJF).
const JITTER: f64 = 1.5;

impl Filter {
    pub const fn new(value: Duration) -> Self {
        Self { value }
    }

    pub fn add(&mut self, sample: Duration) {
        self.value = if sample > self.value {
            self.value + (sample - self.value).mul_f64(UP)
        } else {
            self.value - (self.value - sample).mul_f64(DOWN)
        };
    }

    /// With what jitter adds.
    pub fn relaxed(&self) -> Duration {
        self.value.mul_f64(JITTER)
    }
}

/// The mean and the deviation of RFC 6298, 2.
#[derive(Clone, Copy, Debug)]
pub struct Smoothed {
    mean: Duration,
    deviation: Duration,
}

impl Smoothed {
    pub fn new(sample: Duration) -> Self {
        Self { mean: sample, deviation: sample / 2 }
    }

    pub fn add(&mut self, sample: Duration) {
        let error = self.mean.abs_diff(sample);
        self.deviation = self.deviation.mul_f64(0.75) + error.mul_f64(0.25);
        self.mean = self.mean.mul_f64(0.875) + sample.mul_f64(0.125);
    }

    /// The timeout before backoff: by `least` longer than the mean at least, because a deviation that was
    /// never seen is still possible.
    pub fn timeout(&self, least: Duration) -> Duration {
        self.mean + (self.deviation * 4).max(least)
    }
}

/// A round trip that was measured.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    pub took: Duration,
    /// The shortest to the same destination.
    pub shortest: Duration,
}

/// The shortest round trip of the last five to ten minutes: routes change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortest {
    /// Of the current five minutes, and of the five minutes before.
    spans: [Option<Duration>; 2],
    since: Option<Time>,
}

/// What is kept together.
const SPAN: Duration = Duration::from_secs(300);

impl Shortest {
    /// Adds a round trip and returns the shortest one.
    pub fn add(&mut self, now: Time, trip: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        if now.since(since) > SPAN {
            // After a long silence neither tells anything.
            let before = self.spans[0].filter(|_| now.since(since) <= SPAN * 2);
            (self.spans, self.since) = ([None, before], Some(now));
        }
        let current = self.spans[0].map_or(trip, |shortest| shortest.min(trip));
        self.spans[0] = Some(current);
        self.spans[1].map_or(current, |before| before.min(current))
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
        assert_eq!(smoothed.timeout(seconds(1)), seconds(24));

        smoothed.add(seconds(8));
        assert_eq!(smoothed.timeout(seconds(1)), seconds(20));
        assert_eq!(smoothed.timeout(seconds(13)), seconds(21));
    }
}
