//! Cuts the window and measures the effect on the queue.

/// A cut, and the measurements since.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    purpose: Purpose,
    /// The window before, during and after the cut.
    before: f64,
    low: f64,
    after: f64,
    /// The expected reduction of the queue if all of it is ours, in seconds.
    expected: f64,
    /// The queue that the last datagrams before the cut met; the last of them has the number `start`.
    queue_before: f64,
    queue_least: f64,
    start: u64,
    /// The first number sent once the data in flight fitted the smaller window.
    low_from: Option<u64>,
    /// The number whose report ends the measurement.
    until: Option<u64>,
}

/// The purpose of a cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// It measures the path without our queue.
    Drain,
    /// The queue is too long.
    Excess,
    /// It checks whether the queue is ours.
    Look,
    /// The window grew too far in startup.
    Settle,
}

/// The progress of a step.
pub enum Progress {
    Done,
    /// Set the window to this.
    Restore(f64),
    Wait,
}

impl Step {
    pub fn new(
        purpose: Purpose,
        [before, low, after]: [f64; 3],
        rate: f64,
        queue: f64,
        start: u64,
    ) -> Self {
        Self {
            purpose,
            before,
            low,
            after: after.max(low),
            expected: (before - low) / rate.max(1.0),
            queue_before: queue,
            queue_least: queue,
            start,
            low_from: None,
            until: None,
        }
    }

    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The window before the cut.
    pub fn before(&self) -> f64 {
        self.before
    }

    /// Takes the newest number that the peer has, and the next number to be sent.
    pub fn advance(&mut self, in_flight: f64, newest: u64, next: u64, queue: f64) -> Progress {
        if newest <= self.start {
            self.queue_before = queue;
        }
        match (self.low_from, self.until) {
            (None, _) => {
                if in_flight <= self.low {
                    self.low_from = Some(next);
                }
                Progress::Wait
            }
            (Some(low), None) => {
                if newest < low {
                    return Progress::Wait;
                }
                self.queue_least = queue;
                self.until = Some(next);
                Progress::Restore(self.after)
            }
            (_, Some(until)) => {
                self.queue_least = self.queue_least.min(queue);
                if newest >= until { Progress::Done } else { Progress::Wait }
            }
        }
    }

    /// Whether the data in flight still exceeds the smaller window.
    pub fn is_falling(&self) -> bool {
        self.low_from.is_none()
    }

    /// The measured part of the expected effect, which is our share of the bottleneck; `None` if the
    /// queue was too short to measure it.
    pub fn share(&self) -> Option<f64> {
        let possible = self.expected.min(self.queue_before);
        (possible > 0.001).then(|| (self.queue_before - self.queue_least) / possible)
    }
}
