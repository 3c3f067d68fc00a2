//! Measures how far a channel lags behind the clock.

use std::time::Duration;

use base::time::Time;

/// How late things on the channel were, by the clock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lateness {
    /// The latest that something happened.
    pub longest: Duration,
    /// How late all that happened was together.
    pub sum: Duration,
    /// How many things happened.
    pub steps: u64,
}

impl Lateness {
    /// How late things were in the mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let steps = u32::try_from(self.steps.max(1)).unwrap_or(u32::MAX);
        self.sum / steps
    }

    /// Adds what came later.
    pub fn add(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        self.sum += other.sum;
        self.steps += other.steps;
    }

    /// Counts what was due at `at` and happens now.
    pub(crate) fn count(&mut self, now: Time, at: Time) {
        let late = now.since(at);
        self.longest = self.longest.max(late);
        self.sum += late;
        self.steps += 1;
    }
}
