//! Whether datagrams are lost where the queue is long: then a full buffer drops them, and not a radio.
//!
//! Losses of a path come at any length of the queue. Those of a buffer come when it is full. So the
//! queue around losses is compared with the queue at all times. That costs nothing and shows small
//! losses too, but it takes many of them, and a queue that varies.

/// How many reports count, about.
const MEMORY: f64 = 1_024.0;
/// The fewest reports with losses that tell.
const FEWEST: f64 = 10.0;
/// The queue around losses must exceed the usual one by this many standard errors of its mean.
const ERRORS: f64 = 4.0;
/// The same in seconds: less may come from the resolution of clocks.
const LEAST: f64 = 0.000_3;

/// Sums over reports, of which older ones count less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cause {
    /// The newest number, the count of received datagrams and the queue of the last report.
    last: Option<(u64, u64, f64)>,
    /// Datagrams, and the first two moments of the queue that they met.
    datagrams: f64,
    first: f64,
    second: f64,
    /// Reports with losses, and the sum of the queue around them.
    events: f64,
    around: f64,
}

impl Cause {
    /// Takes a report: its newest number, the count of received datagrams, and the queue in seconds.
    pub(super) fn handle_report(&mut self, newest: u64, received: u64, queue: f64) {
        let Some((number, count, before)) = self.last.replace((newest, received, queue)) else {
            return;
        };
        let sent = newest.saturating_sub(number) as f64;
        let lost = sent - received.saturating_sub(count) as f64;
        // The lost ones were between the two.
        let queue = queue.max(before);
        let fade = 1.0 - 1.0 / MEMORY;
        for sum in [
            &mut self.datagrams,
            &mut self.first,
            &mut self.second,
            &mut self.events,
            &mut self.around,
        ] {
            *sum *= fade;
        }
        self.datagrams += sent;
        self.first += sent * queue;
        self.second += sent * queue * queue;
        if lost > 0.5 {
            self.events += 1.0;
            self.around += queue;
        }
    }

    /// Whether a full buffer causes losses.
    pub(super) fn is_buffer(&self) -> bool {
        if self.events < FEWEST {
            return false;
        }
        let mean = self.first / self.datagrams;
        let deviation = (self.second / self.datagrams - mean * mean).max(0.0).sqrt();
        let excess = self.around / self.events - mean;
        excess > LEAST && excess > ERRORS * deviation / self.events.sqrt()
    }

    /// Forgets what was before.
    pub(super) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}
