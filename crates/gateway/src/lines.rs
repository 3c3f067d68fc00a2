//! Bounds the lines of a log: a number in each minute, then a count of the omitted lines.
//!
//! ```text
//!   service::complaints   an allowance for each subject, and each peer      foreseen lines that others provoke
//!   the program's log     an allowance for each place in the source         all other lines
//! ```

use std::time::Duration;

use base::time::Time;

/// After the first line of a full allowance, the allowance is full again.
pub const PERIOD: Duration = Duration::from_secs(60);

/// Lines that may be written in a minute.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    most: u32,
    since: Time,
    written: u32,
    left_out: u64,
}

/// A line that may be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Admitted {
    /// How many were left out before it.
    pub left_out: u64,
    /// Whether the allowance is spent now.
    pub is_last: bool,
}

impl Allowance {
    /// A full allowance of `most` lines in a [`PERIOD`].
    #[must_use]
    pub const fn new(now: Time, most: u32) -> Self {
        Self { most, since: now, written: 0, left_out: 0 }
    }

    /// Admits a line now, or counts the line as left out.
    pub fn admit(&mut self, now: Time) -> Option<Admitted> {
        if now.since(self.since) >= PERIOD {
            (self.since, self.written) = (now, 0);
        }
        if self.written >= self.most {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        let left_out = std::mem::take(&mut self.left_out);
        Some(Admitted { left_out, is_last: self.written == self.most })
    }

    /// Lines left out and not yet mentioned in a later line.
    #[must_use]
    pub const fn untold(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_minute_there_is_room_again_and_the_count_is_told() {
        let mut allowance = Allowance::new(Time::ZERO, 600);

        let admitted = (0..15_000).filter_map(|_| allowance.admit(Time::ZERO));
        let last: Vec<_> = admitted.map(|it| it.is_last).collect();
        let untold = allowance.untold();
        let later = [Duration::ZERO, PERIOD, PERIOD]
            .map(|after| allowance.admit(Time::ZERO + after).map(|it| it.left_out));

        assert_eq!((last.len(), last.iter().position(|it| *it)), (600, Some(599)));
        assert_eq!(untold, 14_400);
        assert_eq!(later, [None, Some(14_401), Some(0)]);
    }
}
