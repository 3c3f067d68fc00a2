//! The minimum delay over a long time and over a short one.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

/// The most samples that [`Recent`] keeps.
const SAMPLES: usize = 64;

/// The minimum delay of the last one to two `half` periods, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Least {
    halves: Option<Halves>,
}

#[derive(Clone, Copy, Debug)]
struct Halves {
    previous: i64,
    current: i64,
    /// When `current` becomes `previous`.
    turn: Time,
}

impl Least {
    pub fn handle_sample(&mut self, now: Time, delay: i64, half: Duration) {
        let turn = now + half;
        let halves = self.halves.get_or_insert(Halves { previous: delay, current: delay, turn });
        if now >= halves.turn {
            *halves = Halves { previous: halves.current, current: delay, turn };
        }
        halves.current = halves.current.min(delay);
    }

    pub fn get(&self) -> Option<i64> {
        self.halves.map(|halves| halves.previous.min(halves.current))
    }
}

/// The minimum delay of a short recent time, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// The samples without a later smaller one, in ascending order.
    samples: VecDeque<(Time, i64)>,
}

impl Recent {
    pub fn handle_sample(&mut self, now: Time, delay: i64, span: Duration) {
        while self.samples.back().is_some_and(|&(_, later)| later >= delay) {
            self.samples.pop_back();
        }
        if self.samples.len() < SAMPLES {
            self.samples.push_back((now, delay));
        }
        while self.samples.front().is_some_and(|&(at, _)| now.since(at) > span) {
            self.samples.pop_front();
        }
    }

    pub fn get(&self) -> Option<i64> {
        self.samples.front().map(|&(_, delay)| delay)
    }
}
