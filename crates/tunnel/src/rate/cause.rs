//! Decides whether datagrams are lost where the queue is long: then a full buffer drops them, and not
//! a radio.
//!
//! Losses of a path come at any length of the queue. Losses of a buffer come when it is full. So
//! the queue around losses is compared with the queue at all times. The comparison costs nothing
//! and shows small losses too, but takes many losses, and a queue that varies.

use super::round::LossCount;

/// The sums fade over so many reports.
const MEMORY: f64 = 1_024.0;
/// Nothing fades before so many reports had losses.
const EVENTS: f64 = 13.0;
/// The fewest reports with losses that tell.
const FEWEST: f64 = 10.0;
/// The queue around losses must exceed the usual one by this many standard errors of its mean.
const ERRORS: f64 = 3.0;
/// The same in seconds: less may come from the resolution of clocks.
const LEAST: f64 = 0.000_3;
/// A queue is short if it is below the mean by this many deviations and by this part of the mean.
const SHORT: f64 = 0.5;
const SHORT_PART: f64 = 0.125;
/// The fewest datagrams that met a short queue and tell how many are lost there.
const KNOWN: f64 = 30.0;
/// No buffer causes the losses if this part of their rate remains where there is no queue at all.
const SAME: f64 = 0.8;

/// Sums over reports, of which older ones count less.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cause {
    /// The newest number, the count of received datagrams and the queue of the last report.
    last: Option<(u64, u64, f64)>,
    all: LossCount,
    /// The tallies of datagrams that met a short queue, and no queue.
    short: LossCount,
    empty: LossCount,
    /// The first two moments of the queue that datagrams met.
    first: f64,
    second: f64,
    /// Reports with losses, and the sum of the queue around them.
    events: f64,
    around: f64,
}

impl Cause {
    /// Takes a report: its newest number, the count of received datagrams, and the queue in seconds. One
    /// below `none` seconds is no queue.
    pub fn handle_report(&mut self, newest: u64, received: u64, queue: f64, none: f64) {
        let Some((number, count, before)) = self.last.replace((newest, received, queue)) else {
            return;
        };
        let sent = newest.saturating_sub(number) as f64;
        let lost = sent - received.saturating_sub(count) as f64;
        // The lost ones were between the two.
        let queue = queue.max(before);
        let (mean, deviation) = self.usual();
        // Rare losses have to add up before they can tell.
        let fade = if self.events < EVENTS { 1.0 } else { 1.0 - 1.0 / MEMORY };
        for tally in [&mut self.all, &mut self.short, &mut self.empty] {
            tally.fade(fade);
        }
        for sum in [&mut self.first, &mut self.second, &mut self.events, &mut self.around] {
            *sum *= fade;
        }
        self.all.add(sent, lost);
        self.first += sent * queue;
        self.second += sent * queue * queue;
        if queue < none {
            self.empty.add(sent, lost);
        }
        if queue < mean - (SHORT * deviation).max(SHORT_PART * mean) {
            self.short.add(sent, lost);
        }
        if lost > 0.5 {
            self.events += 1.0;
            self.around += queue;
        }
    }

    /// Whether a full buffer causes losses.
    pub fn is_buffer(&self) -> bool {
        if self.events < FEWEST {
            return false;
        }
        let (mean, deviation) = self.usual();
        let excess = self.around / self.events - mean;
        excess > LEAST && excess > ERRORS * deviation / self.events.sqrt()
    }

    /// The mean queue around losses, in seconds.
    pub fn queue_at_losses(&self) -> f64 {
        self.around / self.events.max(1.0)
    }

    /// Whether any datagram was lost of late.
    pub fn has_losses(&self) -> bool {
        self.all.lost > 0.5
    }

    /// The loss rate where the queue is short, if enough datagrams met a short one: no buffer dropped these.
    pub fn path(&self) -> Option<f64> {
        (self.short.sent >= KNOWN).then(|| self.short.rate())
    }

    /// The loss rate if as much is lost where there is no queue: then no buffer causes it.
    pub fn is_path(&self) -> Option<f64> {
        let loss = self.all.rate();
        let events = self.events * self.empty.sent / self.all.sent.max(1.0);
        (events >= FEWEST && self.empty.rate() >= SAME * loss).then_some(loss)
    }

    /// Forgets what was before.
    pub fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    /// The mean and the deviation of the queue.
    fn usual(&self) -> (f64, f64) {
        let sent = self.all.sent.max(1.0);
        let mean = self.first / sent;
        (mean, (self.second / sent - mean * mean).max(0.0).sqrt())
    }
}
