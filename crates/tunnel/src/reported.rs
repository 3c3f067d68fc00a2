//! Keeps the totals reported by the peer, as numbers that do not wrap.

use std::time::Duration;

use base::serial::expand;
use base::time::Time;

use super::probes::{Excused, Probes};
use super::rate;
use super::reporter;
use super::wire::Report;

/// Without progress for this long, or four round trips, the path MTU is in doubt.
const STUCK: Duration = Duration::from_secs(1);

/// The totals of the peer, and its progress with sources.
#[derive(Debug)]
pub struct Reported {
    /// The peer's clock when the newest datagram came, in microseconds.
    clock: u64,
    /// The number of datagrams that the peer received.
    received: u64,
    /// The number of datagrams that came with congestion experienced.
    marked: u64,
    /// The number of loss bursts.
    runs: u64,
    /// The same two without probes that were too long for the path: these count as received.
    counted: (u64, u64),
    probes: Probes,
    /// The first source that the peer misses.
    first_missing: u64,
    /// The time since which the first missing source has not changed although sources were sent.
    stuck_since: Time,
}

impl Reported {
    pub fn new(now: Time) -> Self {
        Self {
            clock: 0,
            received: 0,
            marked: 0,
            runs: 0,
            counted: (0, 0),
            probes: Probes::default(),
            first_missing: 0,
            stuck_since: now,
        }
    }

    /// A probe of so many octets was sent; more than `passing` are not known to pass.
    pub fn handle_probe_sent(&mut self, number: u64, size: usize, passing: usize) {
        self.probes.handle_sent(number, size, passing);
    }

    /// A probe of this size was answered.
    pub fn handle_probe_reply(&mut self, size: usize) {
        self.probes.handle_reply(size);
    }

    /// Takes a report about the datagrams up to `newest` on a path that takes packets of `passing` octets;
    /// returns its part for the rate control.
    pub fn handle_report(
        &mut self,
        now: Time,
        (newest, passing): (u64, usize),
        first_missing: u64,
        report: &Report,
    ) -> rate::Feedback {
        let grow = |low: u32, bits: u32, before: u64| expand(low, bits, before).max(before);
        self.clock = grow(report.received_at, 32, self.clock);
        self.received = grow(report.received, 32, self.received);
        self.marked = grow(u32::from(report.marked), 16, self.marked);
        self.runs = grow(u32::from(report.runs), 16, self.runs);
        let Excused { datagrams, runs, .. } = self.probes.excused(newest + 1, passing);
        let (received, counted_runs) = self.counted;
        self.counted = (
            (self.received + datagrams).min(newest + 1).max(received),
            self.runs.saturating_sub(runs).max(counted_runs),
        );
        if first_missing > self.first_missing {
            self.first_missing = first_missing;
            self.stuck_since = now;
        }
        rate::Feedback {
            newest,
            newest_at: Duration::from_micros(self.clock),
            delay: reporter::delay_of(report),
            received: self.counted.0,
            marked: self.marked,
        }
    }

    /// Restarts the time after which the peer counts as stuck.
    pub fn restart(&mut self, now: Time) {
        self.stuck_since = now;
    }

    /// When the peer counts as stuck, unless it makes progress.
    pub fn stuck_at(&self, rtt: Duration) -> Time {
        self.stuck_since + STUCK.max(4 * rtt)
    }

    /// The number of datagrams that the peer received, and the number of loss bursts; in both, probes that were
    /// too long count as received.
    pub fn counts(&self) -> (u64, u64) {
        self.counted
    }

    /// The first source that the peer misses.
    pub fn first_missing(&self) -> u64 {
        self.first_missing
    }
}
