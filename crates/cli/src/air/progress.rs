//! Shows the progress of a run: a line on a terminal, and a warning wherever this machine is too slow.

use std::io::Write as _;
use std::time::Duration;

use base::readable::delay;
use base::time::Time;
use emulator::air::Lateness;

use crate::terminal;

/// Lateness up to which nobody is warned.
const LATE: Duration = Duration::from_millis(5);
/// The shortest time between two warnings.
const WARNED: Duration = Duration::from_secs(5);
/// How often the line changes.
pub const EVERY: Duration = Duration::from_secs(1);

/// The state of the line and of the warnings, and the lateness.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    /// Lateness of the whole run, and since the last warning.
    total: Lateness,
    recent: Lateness,
    next_warning: Time,
    next_line: Time,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            is_shown: terminal::is_watched(),
            total: Lateness::default(),
            recent: Lateness::default(),
            next_warning: Time::ZERO,
            next_line: Time::ZERO,
        }
    }

    /// Adds new lateness, and shows the news about once a second.
    pub fn show(&mut self, now: Time, latest: Lateness, line: impl FnOnce() -> String) {
        self.total.add(&latest);
        self.recent.add(&latest);
        let mut out = terminal::err();
        // The reader may be gone, here and below.
        if self.recent.longest > LATE && now >= self.next_warning {
            self.end();
            let _ = writeln!(out, "{}", warning(&self.recent));
            self.recent = Lateness::default();
            self.next_warning = now + WARNED;
        }
        if self.is_shown && now >= self.next_line {
            self.next_line = now + EVERY;
            let (seconds, late) = (now.as_secs_f64(), delay(latest.mean()));
            let line = line();
            terminal::replace_line(format_args!("{seconds:.0} s | {line} | late by {late}"));
        }
    }

    /// Leaves a clean line.
    pub fn end(&self) {
        if self.is_shown {
            terminal::replace_line(format_args!(""));
        }
    }

    /// The lateness of the whole run, including the `latest`.
    pub fn lateness(self, latest: &Lateness) -> Lateness {
        let mut total = self.total;
        total.add(latest);
        total
    }
}

fn warning(late: &Lateness) -> String {
    let [longest, mean] = [late.longest, late.mean()].map(delay);
    format!("behind by up to {longest}, {mean} in the mean: this machine is busy, frames come late")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_by_how_much() {
        let late = Lateness {
            longest: Duration::from_nanos(31_000_900),
            sum: Duration::from_millis(8),
            steps: 4,
        };

        let warning = warning(&late);

        assert!(warning.starts_with("behind by up to 31.0 ms, 2.0 ms in the mean"), "{warning}");
    }
}
