//! A rate limit: some events in a row, then one per interval.

use std::time::Duration;

use crate::time::Time;

/// A token bucket (RFC 4443, 2.4 f has one for ICMP errors).
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    most: u32,
    interval: Duration,
    left: u32,
    since: Time,
}

impl Budget {
    /// A full budget: `most` in a row, and one more after each `interval`.
    #[must_use]
    pub const fn new(now: Time, most: u32, interval: Duration) -> Self {
        Self { most, interval, left: most, since: now }
    }

    /// So many a second; what a second leaves may be spent in the next.
    #[must_use]
    pub const fn per_second(now: Time, rate: u32) -> Self {
        Self::new(now, rate, Duration::from_nanos(1_000_000_000 / rate as u64))
    }

    /// Spends one; false when there is none left.
    #[must_use]
    pub fn spend(&mut self, now: Time) -> bool {
        let earned = self.earned(now);
        self.left = self.left.saturating_add(earned).min(self.most);
        self.since += self.interval.saturating_mul(earned);
        let has_one = self.left > 0;
        self.left -= u32::from(has_one);
        has_one
    }

    /// How many may be spent now.
    #[must_use]
    pub fn left(&self, now: Time) -> u32 {
        self.left.saturating_add(self.earned(now)).min(self.most)
    }

    fn earned(&self, now: Time) -> u32 {
        let intervals = now.since(self.since).as_nanos() / self.interval.as_nanos();
        u32::try_from(intervals).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_may_come_in_a_row_and_then_one_in_each_interval() {
        let mut budget = Budget::new(Time::ZERO, 3, Duration::from_millis(100));
        let mut spent_at = |millis: u64| {
            let now = Time::ZERO + Duration::from_millis(millis);
            std::iter::from_fn(|| budget.spend(now).then_some(())).take(9).count()
        };

        let spent = [5_000, 5_099, 5_100, 5_250, 4_000, 9_000].map(&mut spent_at);

        assert_eq!(spent, [3, 0, 1, 1, 0, 3]);
    }

    #[test]
    fn a_rate_is_kept_over_a_long_time() {
        let mut budget = Budget::per_second(Time::ZERO, 400);
        let step = Duration::from_micros(100);

        let spent =
            (0..100_000).filter(|&step_no| budget.spend(Time::ZERO + step * step_no)).count();

        assert_eq!(spent, 400 + 3_999);
        assert_eq!(budget.left(Time::ZERO + step * 100_000), 1);
        assert_eq!(budget.left(Time::ZERO + step * 105_000), 201);
        assert_eq!(budget.left(Time::ZERO + step * 200_000), 400);
    }
}
