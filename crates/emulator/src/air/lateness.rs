//! Measures how far a channel lags behind the clock.

use std::time::Duration;

use base::time::Time;

/// Lateness of the channel's events, by the clock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lateness {
    /// The longest lateness of an event.
    pub longest: Duration,
    /// The sum of all events' lateness.
    pub sum: Duration,
    /// The number of events.
    pub steps: u64,
}

impl Lateness {
    /// The mean lateness of events.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let steps = u32::try_from(self.steps.max(1)).unwrap_or(u32::MAX);
        self.sum / steps
    }

    /// Adds the lateness of later events.
    pub fn add(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        self.sum += other.sum;
        self.steps += other.steps;
    }

    /// Counts an event that was due at `at` and happens now.
    pub(crate) fn count(&mut self, now: Time, at: Time) {
        let late = now.since(at);
        self.longest = self.longest.max(late);
        self.sum += late;
        self.steps += 1;
    }
}
