//! The totals that the peer has reported, as numbers that do not wrap.

use std::time::Duration;

use super::rate;
use super::reporter;
use super::wire::Report;
use crate::serial::expand;
use crate::time::Time;

/// Without progress for this long, or four round trips, the path MTU is in doubt.
const STUCK: Duration = Duration::from_secs(1);

/// The totals of the peer, and its progress with sources.
#[derive(Debug)]
pub(super) struct Reported {
    /// The peer's clock when the newest datagram came, in microseconds.
    clock: u64,
    /// The number of datagrams that it received.
    received: u64,
    /// The number of these that came with congestion experienced.
    marked: u64,
    /// The number of loss bursts.
    runs: u64,
    /// The first source that it misses.
    first_missing: u64,
    /// The time since which that has not changed although sources were sent.
    stuck_since: Time,
}

impl Reported {
    pub(super) fn new(now: Time) -> Self {
        Self { clock: 0, received: 0, marked: 0, runs: 0, first_missing: 0, stuck_since: now }
    }

    /// Takes a report about the datagrams up to `newest`; returns its part for the rate control.
    pub(super) fn handle_report(
        &mut self,
        now: Time,
        newest: u64,
        first_missing: u64,
        report: &Report,
    ) -> rate::Feedback {
        let grow = |low: u32, bits: u32, before: u64| expand(low, bits, before).max(before);
        self.clock = grow(report.received_at, 32, self.clock);
        self.received = grow(report.received, 32, self.received);
        self.marked = grow(u32::from(report.marked), 16, self.marked);
        self.runs = grow(u32::from(report.runs), 16, self.runs);
        if first_missing > self.first_missing {
            self.first_missing = first_missing;
            self.stuck_since = now;
        }
        rate::Feedback {
            newest,
            newest_at: Duration::from_micros(self.clock),
            delay: reporter::delay_of(report),
            received: self.received,
            marked: self.marked,
        }
    }

    /// Restarts the time after which the peer counts as stuck.
    pub(super) fn restart(&mut self, now: Time) {
        self.stuck_since = now;
    }

    /// When the peer counts as stuck, unless it makes progress.
    pub(super) fn stuck_at(&self, rtt: Duration) -> Time {
        self.stuck_since + STUCK.max(4 * rtt)
    }

    /// The number of datagrams that the peer received, and of loss bursts.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.received, self.runs)
    }

    /// The first source that it misses.
    pub(super) fn first_missing(&self) -> u64 {
        self.first_missing
    }
}
