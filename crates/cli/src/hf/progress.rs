//! Shows the progress of a run as one line on a terminal.

use std::time::Duration;

use base::readable::{octets, span};
use base::time::Time;
use emulator::hf::{Exchange, Tally};

use crate::terminal;

/// The line, shown only on a terminal.
pub struct Progress {
    next: Option<Time>,
}

/// How often the line changes.
const EVERY: Duration = Duration::from_secs(1);

impl Progress {
    /// Shows nothing unless standard error is a terminal.
    pub fn new() -> Self {
        Self { next: terminal::is_watched().then_some(Time::ZERO) }
    }

    /// Shows a new line, if the time has come.
    pub fn show(&mut self, now: Time, exchange: &Exchange) {
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        self.next = Some(now + EVERY);
        let mut line = span(now.as_secs_f64());
        for (name, end) in ["A", "B"].into_iter().zip(exchange.outcomes()) {
            let Tally { transmissions, data, repeats, .. } = end.tally;
            line += &format!(
                " | {name}: {transmissions} transmissions, {data} frames, {repeats} again, {} \
                 delivered",
                octets(end.octets_delivered as f64)
            );
        }
        // The reader may be gone.
        terminal::replace_line(format_args!("{line}"));
    }

    /// When to show a new line.
    pub fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Leaves a clean line.
    pub fn end(&self) {
        if self.next.is_some() {
            terminal::replace_line(format_args!(""));
        }
    }
}
