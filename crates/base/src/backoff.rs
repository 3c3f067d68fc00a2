//! Delays between retries after a failure: each twice as long as the last.

use std::time::Duration;

/// How long to wait, between a least and a most.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits between these two.
    #[must_use]
    pub const fn new((least, most): (Duration, Duration)) -> Self {
        Self { least, most, next: least }
    }

    /// It failed: how long to wait.
    pub fn fail(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.most);
        wait
    }

    /// It went well.
    pub fn succeed(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_until_it_went_well() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new((seconds(5), seconds(12)));

        assert_eq!([(); 3].map(|()| backoff.fail()), [5, 10, 12].map(seconds));
        backoff.succeed();
        assert_eq!(backoff.fail(), seconds(5));
    }
}
