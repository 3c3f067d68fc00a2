//! Keeps the totals reported by the peer about a path as numbers that do not wrap, and excludes losses not caused by the
//! path; and the peer's progress with sources.

use std::collections::VecDeque;
use std::time::Duration;

use base::serial::expand;
use base::time::Time;

use super::rate;
use super::wire::Report;

/// Without progress for this long, or four round trips, the path MTU is in doubt.
const STUCK: Duration = Duration::from_secs(1);

/// The most probes remembered individually; a search sends some fifty probes without an answer.
const REMEMBERED: usize = 64;

/// The totals of the peer about a path.
#[derive(Debug, Default)]
pub struct Reported {
    /// The peer's clock when the newest datagram came, in microseconds.
    clock: u64,
    /// The number of datagrams received by the peer.
    received: u64,
    /// The number of datagrams that came with congestion experienced.
    marked: u64,
    /// The number of loss bursts.
    runs: u64,
    /// The same two without probes that were too long for the path: these count as received.
    counted: (u64, u64),
    probes: Probes,
}

/// The progress of the peer with sources.
#[derive(Debug)]
pub struct Progress {
    /// The first source that the peer misses.
    first_missing: u64,
    /// The time since which the first missing source has not changed although sources were sent.
    stuck_since: Time,
}

impl Reported {
    /// A probe of so many octets was sent; more than `passing` are not known to pass.
    pub fn handle_probe_sent(&mut self, number: u64, size: usize, passing: usize) {
        self.probes.handle_sent(number, size, passing);
    }

    /// A probe of size `size` was answered.
    pub fn handle_probe_reply(&mut self, size: usize) {
        self.probes.handle_reply(size);
    }

    /// Takes a report about the datagrams up to `newest` on a path that takes packets of `passing` octets;
    /// returns its part for the rate control.
    pub fn handle_report(
        &mut self,
        (newest, passing): (u64, usize),
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
        rate::Feedback {
            newest,
            newest_at: Duration::from_micros(self.clock),
            delay: report.delay(),
            received: self.counted.0,
            marked: self.marked,
        }
    }

    /// The number of datagrams that the peer received, and the number of loss bursts; in both, probes that were
    /// too long count as received.
    pub fn counts(&self) -> (u64, u64) {
        self.counted
    }
}

impl Progress {
    pub fn new(now: Time) -> Self {
        Self { first_missing: 0, stuck_since: now }
    }

    /// The peer reports the first missing source.
    pub fn handle_report(&mut self, now: Time, first_missing: u64) {
        if first_missing > self.first_missing {
            self.first_missing = first_missing;
            self.stuck_since = now;
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

    /// The first source that the peer misses.
    pub fn first_missing(&self) -> u64 {
        self.first_missing
    }
}

/// Probes for the path MTU that were lost because they are too long: no losses of the path (RFC 8899, 3).
///
/// A probe has a number like any datagram, so the peer's totals count a missing probe as lost. Such a probe is left out
/// as long as it is longer than the longest datagram known to pass: when probes of its length pass after all, the loss
/// was like any other.
#[derive(Debug, Default)]
struct Probes {
    /// Number and octets of each, the oldest first.
    open: VecDeque<(u64, usize)>,
    /// Probes that are not remembered any more.
    forgotten: Excused,
}

/// Losses not caused by the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Excused {
    /// Datagrams.
    datagrams: u64,
    /// Runs of datagrams.
    runs: u64,
    /// The last one.
    last: Option<u64>,
}

impl Probes {
    /// A probe of so many octets was sent; more than `passing` are not known to pass.
    fn handle_sent(&mut self, number: u64, size: usize, passing: usize) {
        self.open.push_back((number, size));
        if self.open.len() > REMEMBERED
            && let Some((number, size)) = self.open.pop_front()
            && size > passing
        {
            self.forgotten.add(number);
        }
    }

    /// A probe of size `size` was answered. Other probes of at most this size would have passed too.
    fn handle_reply(&mut self, size: usize) {
        self.open.retain(|&(_, its)| its > size);
    }

    /// The losses among the datagrams before `end` not caused by the path, if the path takes
    /// packets of `passing` octets.
    fn excused(&self, end: u64, passing: usize) -> Excused {
        let mut excused = self.forgotten;
        let open = self.open.iter().take_while(|(number, _)| *number < end);
        for &(number, _) in open.filter(|(_, size)| *size > passing) {
            excused.add(number);
        }
        excused
    }
}

impl Excused {
    fn add(&mut self, number: u64) {
        self.datagrams += 1;
        self.runs += u64::from(self.last.is_none_or(|last| last + 1 != number));
        self.last = Some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_few_bits_go_on_when_they_wrap() {
        let report = |low: u16| Report {
            newest: 0,
            received_at: 0,
            delay: 0,
            received: low.into(),
            marked: low,
            runs: low,
            first_missing: 0,
            extent: 0,
            missing: 0,
            rank: 0,
            holes: Vec::new(),
        };
        let mut reported = Reported::default();

        let marked = [30_000, 60_000, 5_000]
            .map(|low| reported.handle_report((100_000, 1_500), &report(low)).marked);

        assert_eq!(marked, [30_000, 60_000, 65_536 + 5_000]);
    }

    #[test]
    fn only_what_is_too_long_is_excused() {
        let mut probes = Probes::default();
        for (number, size) in [(10, 296), (11, 1_280), (12, 1_500), (20, 1_500), (30, 1_400)] {
            probes.handle_sent(number, size, 1_280);
        }
        let excused = |probes: &Probes, end, passing| {
            let Excused { datagrams, runs, .. } = probes.excused(end, passing);
            (datagrams, runs)
        };

        // 1,280 octets pass; 1,500 were lost.
        assert_eq!(excused(&probes, 12, 1_280), (0, 0));
        assert_eq!(excused(&probes, 13, 1_280), (1, 1));
        assert_eq!(excused(&probes, 31, 1_280), (3, 3));
        assert_eq!(excused(&probes, 31, 600), (4, 3), "two in a row are one run");
        // A probe of 1,400 came, so the probe before was lost like any datagram.
        probes.handle_reply(1_400);
        assert_eq!(excused(&probes, 31, 1_400), (2, 2));
        probes.handle_reply(1_500);
        assert_eq!(excused(&probes, 31, 1_500), (0, 0));
    }

    #[test]
    fn probes_without_end_are_counted_in_bounded_memory() {
        let mut probes = Probes::default();

        for number in 0..10_000 {
            probes.handle_sent(2 * number, 1_500, 1_280);
            assert!(probes.open.len() <= REMEMBERED);
        }

        assert_eq!(probes.excused(30_000, 1_280).datagrams, 10_000);
    }
}
