//! Points in time, in nanoseconds since an epoch that the driver chooses.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(u64);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);
    /// The end of time, 584 years after the epoch.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the epoch.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Duration::from_nanos(self.0).as_secs_f64()
    }

    /// How long ago `earlier` was; zero when it is still to come.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Stops at the end of time.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    /// Stops at the epoch.
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from_nanos(self.0).fmt(f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The duration in nanoseconds, at most 584 years.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

/// The earlier of two deadlines, where `None` is never.
#[must_use]
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends_of_time() {
        let late = Time::MAX - Duration::from_nanos(1);

        assert_eq!(late + Duration::from_secs(5), Time::MAX);
        assert_eq!(Time::from_nanos(3) - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::ZERO.since(late), Duration::ZERO);
    }

    #[test]
    fn a_time_is_shown_to_the_nanosecond() {
        let time = Time::from_nanos(2_000_000_500);

        assert_eq!(time.to_string(), "2.000000500");
        assert_eq!(format!("{time:?}"), "2.0000005s");
        assert_eq!(Time::from_nanos(1_500_000_000).as_secs_f64(), 1.5);
    }

    #[test]
    fn no_deadline_is_later_than_any() {
        let soon = Some(Time::from_nanos(1));

        assert_eq!(earliest(None, soon), soon);
        assert_eq!(earliest(soon, Some(Time::from_nanos(2))), soon);
        assert_eq!(earliest(None, None), None);
    }
}
