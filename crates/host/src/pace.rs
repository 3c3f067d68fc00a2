//! Decides when to look at the host again: soon after a change, and seldom beside somebody who changes what is ours again
//! and again.

use std::time::{Duration, Instant};

use base::budget::Budget;
use base::time::{Time, earliest};

/// The pause after a trial, as a multiple of the trial's own time: so trials take 2 % of a processor at most, however often
/// the host changes.
const PAUSE: u32 = 50;
/// The most repairs at once, and the interval of further repairs: a program that removes our entries again and again is
/// not worth more of the thread. Looks that find nothing to repair have as many of their own, and come by [`Trials`] then.
pub(crate) const LOOKS: u32 = 10;
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// When to try where packets go again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trials {
    due_at: Time,
}

impl Trials {
    /// The earliest time of the next trial.
    #[must_use]
    pub fn due_at(&self) -> Time {
        self.due_at
    }

    /// Tries, and puts the next trial off.
    pub fn run<T>(&mut self, now: Time, trial: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let found = trial();
        self.due_at = now + began.elapsed() * PAUSE;
        found
    }
}

/// When to compare what is ours with the kernel's, and repair it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    repairs: Budget,
    looks_in_vain: Budget,
    trials: Trials,
    due_at: Option<Time>,
    is_contested: bool,
}

impl Default for Pace {
    fn default() -> Self {
        let budget = Budget::new(Time::ZERO, LOOKS, INTERVAL);
        let (trials, due_at) = (Trials::default(), None);
        Self { repairs: budget, looks_in_vain: budget, trials, due_at, is_contested: false }
    }
}

impl Pace {
    /// Asks for a look at this time.
    pub fn ask(&mut self, at: Time) {
        self.due_at = earliest(self.due_at, Some(at));
    }

    /// When to look, if anybody has asked.
    #[must_use]
    pub fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    /// Whether repairs are put off, because others change our entries all the time.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        self.is_contested
    }

    /// Looks if a look is due and not put off. `look` also says whether it has found something to repair.
    pub fn look<T>(&mut self, now: Time, look: impl FnOnce() -> (T, bool)) -> Option<T> {
        self.due_at.filter(|at| *at <= now)?;
        self.is_contested = self.repairs.left(now) == 0;
        if self.is_contested {
            self.due_at = Some(now + INTERVAL);
            return None;
        }
        let next = self.trials.due_at();
        if self.looks_in_vain.left(now) == 0 && now < next {
            self.due_at = Some(next.min(now + INTERVAL));
            return None;
        }
        self.due_at = None;
        let (looked, has_repaired) = self.trials.run(now, look);
        let budget = if has_repaired { &mut self.repairs } else { &mut self.looks_in_vain };
        let _ = budget.spend(now);
        Some(looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_come_at_once_until_they_are_contested_and_then_every_second() {
        let mut pace = Pace::default();
        let mut repaired = Vec::new();
        for millis in (0..15_000).step_by(100) {
            let now = Time::ZERO + Duration::from_millis(millis);
            if millis < 4_000 {
                pace.ask(now);
            }
            if pace.look(now, || ((), true)).is_some() {
                repaired.push(millis);
            }
            let has_looked = repaired.last() == Some(&millis);
            assert_eq!(pace.is_contested(), (1_000..4_900).contains(&millis) && !has_looked);
        }

        assert_eq!(repaired[..10], [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(repaired[10..], [1_000, 2_000, 3_000, 4_900]);
    }
}
