//! Shows the progress of runs on standard error: a bar on a terminal, a line now and then elsewhere.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base::readable::span;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How far the runs are.
#[derive(Debug)]
pub struct Progress {
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines(Lines),
    Nothing,
}

/// A line for every tenth of the work.
#[derive(Debug)]
struct Lines {
    total: u64,
    done: AtomicU64,
    begun: Instant,
    /// What was said last.
    said: Mutex<String>,
}

impl Progress {
    /// Shows how much of `total` is done.
    #[must_use]
    pub fn new(total: usize) -> Self {
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        let shown = if io::stderr().is_terminal() {
            Shown::Bar(bar(total))
        } else {
            Shown::Lines(Lines::new(total))
        };
        Self { shown }
    }

    /// Shows nothing.
    #[must_use]
    pub fn silent() -> Self {
        Self { shown: Shown::Nothing }
    }

    /// One more is done.
    pub fn step(&self) {
        match &self.shown {
            Shown::Bar(bar) => bar.inc(1),
            Shown::Lines(lines) => lines.step(),
            Shown::Nothing => {}
        }
    }

    /// Says something beside the bar, or at the end of the next line.
    pub fn say(&self, what: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.set_message(format!(", {what}")),
            Shown::Lines(lines) => what.clone_into(&mut lines.said()),
            Shown::Nothing => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: u64) -> ProgressBar {
    let template = "{bar:30} {pos}/{len} runs, {had} so far, {left} to go{msg}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style
        .with_key("had", |bar: &ProgressState, out: &mut dyn fmt::Write| told(bar.elapsed(), out))
        .with_key("left", |bar: &ProgressState, out: &mut dyn fmt::Write| told(bar.eta(), out));
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.with_style(style)
}

fn told(time: Duration, out: &mut dyn fmt::Write) {
    // Progress that cannot be shown is no reason to stop.
    let _ = out.write_str(&span(time.as_secs_f64()));
}

impl Lines {
    fn new(total: u64) -> Self {
        let (done, begun, said) = (AtomicU64::new(0), Instant::now(), Mutex::default());
        Self { total, done, begun, said }
    }

    fn said(&self) -> MutexGuard<'_, String> {
        self.said.lock().expect("no thread panics while it copies a text")
    }

    fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let tenths = |done: u64| done.saturating_mul(10) / self.total.max(1);
        if tenths(done) > tenths(done - 1) {
            // Progress that cannot be shown is no reason to stop.
            let left = self.begun.elapsed().as_secs_f64() / done as f64
                * self.total.saturating_sub(done) as f64;
            let said = self.said();
            let said = if said.is_empty() { String::new() } else { format!(", {said}") };
            let _ =
                writeln!(io::stderr(), "{done}/{} runs, {} to go{said}", self.total, span(left));
        }
    }
}
