//! A cut of the window whose effect on the queue is awaited.

/// What is cut, and what was seen since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) purpose: Purpose,
    /// The window before, during and after it.
    pub(super) before: f64,
    low: f64,
    after: f64,
    /// By how much the queue shrinks if all of it is ours, in seconds.
    expected: f64,
    /// What the last datagrams before the cut met, which end with the number `start`.
    queue_before: f64,
    queue_least: f64,
    start: u64,
    /// The first number sent when no more was in flight than the smaller window.
    low_from: Option<u64>,
    /// The effect is seen when this is reported.
    until: Option<u64>,
}

/// Why a window is cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// To see the path without our queue.
    Drain,
    /// The queue is too long.
    Excess,
    /// To see whose the queue is.
    Look,
    /// The start went too far.
    Settle,
}

/// What a step does to the window.
pub(super) enum Progress {
    Done,
    /// Set the window to this.
    Restore(f64),
    Wait,
}

impl Step {
    pub(super) fn new(
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

    /// The peer has `newest`, `next` is the number to be sent next.
    pub(super) fn advance(
        &mut self,
        in_flight: f64,
        newest: u64,
        next: u64,
        queue: f64,
    ) -> Progress {
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

    /// Whether what is in flight has yet to fall.
    pub(super) fn is_falling(&self) -> bool {
        self.low_from.is_none()
    }

    /// The part of the expected effect that came: our share of the bottleneck. `None` if the queue
    /// was too short to tell.
    pub(super) fn share(&self) -> Option<f64> {
        let possible = self.expected.min(self.queue_before);
        (possible > 0.001).then(|| (self.queue_before - self.queue_least) / possible)
    }
}
