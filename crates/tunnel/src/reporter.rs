//! Reports to the peer about its datagrams: their content, and when they are due.

use std::time::Duration;

use base::serial::{low16, low24, low32};
use base::time::{Time, earliest};

use super::loss::Loss;
use super::overtaken::Overtaken;
use super::receiver::Holes;
use super::wire::Report;

/// The octets received after which a report is due at once.
const BATCH: usize = 48_000;
/// The octets received after which a report comes sooner, because it costs little in comparison.
const WORTH: usize = 8_000;
/// The least and the longest delay of a report.
const MIN_DELAY: Duration = Duration::from_millis(1);
const MAX_DELAY: Duration = Duration::from_millis(25);
/// Reports that go by themselves, about less than [`WORTH`], take this part of the rate of the path.
const OF_RATE: f64 = 0.05;
/// How long such a report is held at most, and for no more than a quarter of a round trip.
const LONGEST_HELD: Duration = Duration::from_secs(1);
/// The delay of a report while the round trip is unknown.
const UNKNOWN_DELAY: Duration = Duration::from_millis(5);

/// Counts received datagrams and schedules reports.
#[derive(Debug, Default)]
pub struct Reporter {
    /// One past the greatest number received.
    end: u64,
    newest_at: Time,
    marked: u64,
    overtaken: Overtaken,
    /// Octets received since the last report, in datagrams that ask for a report.
    unreported: usize,
    due: Option<Time>,
    /// When a source that may only be late counts as missing.
    ripe_at: Option<Time>,
    reported_at: Time,
    /// The earliest time of the next datagram with nothing but a report.
    alone_at: Time,
    /// The losses among the peer's datagrams: their rate, and their number.
    loss: Loss,
    missed: u64,
}

impl Reporter {
    /// Counts a datagram.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        number: u64,
        is_marked: bool,
        rtt: Option<Duration>,
    ) {
        self.marked += u64::from(is_marked);
        if number < self.end {
            self.overtaken.handle_late(now, number);
            return;
        }
        if number > self.end {
            self.overtaken.handle_gap(now, self.end, number);
            let wait = delay(rtt, 16).max(self.lateness(now));
            self.due = earliest(self.due, Some(now + wait));
        }
        self.end = number + 1;
        self.newest_at = now;
    }

    /// How late a datagram may come before it counts as lost.
    pub fn lateness(&self, now: Time) -> Duration {
        self.overtaken.lateness(now)
    }

    /// The datagram counted last has this many octets and asks for a report.
    pub fn handle_eliciting(
        &mut self,
        now: Time,
        octets: usize,
        rtt: Option<Duration>,
        at_once: bool,
    ) {
        self.unreported += octets;
        if at_once {
            self.alone_at = now;
        }
        let due = if at_once || self.unreported >= BATCH {
            now
        } else if self.unreported >= WORTH {
            now.max(self.reported_at + delay(rtt, 8))
        } else {
            now + delay(rtt, 4)
        };
        self.due = earliest(self.due, Some(due));
    }

    /// Whether a report is due and may go by itself.
    pub fn is_due_alone(&self, now: Time) -> bool {
        self.next_alone().is_some_and(|due| due <= now)
    }

    /// When [`Self::is_due_alone`] will hold.
    pub fn next_alone(&self) -> Option<Time> {
        let from = if self.unreported >= WORTH { Time::ZERO } else { self.alone_at };
        self.next_timeout().map(|due| due.max(from))
    }

    /// A report went by itself, in a datagram of so many octets, on a path of `rate` bit/s with this round trip. The next
    /// one is held for a while, as it would take the room of packets on a slow path.
    pub fn handle_alone(&mut self, now: Time, octets: usize, rate: f64, rtt: Duration) {
        let wait = 8.0 * octets as f64 / (OF_RATE * rate.max(1.0));
        self.alone_at = now + Duration::from_secs_f64(wait.min(1e6)).min(longest_held(rtt));
    }

    pub fn is_due(&self, now: Time) -> bool {
        self.next_timeout().is_some_and(|due| due <= now)
    }

    /// The low 32 bits of the greatest number received; `None` before the first.
    pub fn newest(&self) -> Option<u32> {
        self.end.checked_sub(1).map(low32)
    }

    /// Whether there is something new to report, even if no report is due yet.
    pub fn has_news(&self, now: Time) -> bool {
        self.due.is_some() && now.since(self.reported_at) >= MIN_DELAY
    }

    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.due, self.ripe_at)
    }

    /// Datagrams still missing when later datagrams were reported.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The probability that a datagram of the peer is lost.
    pub fn loss(&self) -> f64 {
        self.loss.rate()
    }

    /// Makes the report and resets the deadlines.
    pub fn report(&mut self, now: Time, holes: Holes, ripe_at: Option<Time>) -> Report {
        self.unreported = 0;
        self.due = None;
        self.ripe_at = ripe_at;
        self.reported_at = now;
        self.overtaken.handle_time(now);
        // A missing datagram counts as received for as long as it may only be late.
        let (received, runs) = (self.end - self.overtaken.lost(), self.overtaken.bursts());
        self.loss.handle_counts(now, self.end, received, runs);
        // Late datagrams stay counted as lost, so that the count never goes back.
        self.missed = self.missed.max(self.overtaken.lost());
        let delay = now.since(self.newest_at).as_micros() / Report::DELAY_UNIT.as_micros();
        let small = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
        Report {
            newest: low32(self.end.wrapping_sub(1)),
            received_at: low32(self.newest_at.as_nanos() / 1_000),
            delay: u16::try_from(delay).unwrap_or(u16::MAX),
            received: low32(received),
            marked: low16(self.marked),
            runs: low16(runs),
            first_missing: low24(holes.first_missing),
            extent: u16::try_from(holes.end - holes.first_missing).unwrap_or(u16::MAX),
            missing: small(holes.missing),
            rank: small(holes.rank),
            holes: holes.runs,
        }
    }
}

/// The longest delay of a report, unless it is held.
pub fn usual_wait(rtt: Duration) -> Duration {
    delay(Some(rtt), 4)
}

/// The longest delay of a report.
pub fn longest_wait(rtt: Duration) -> Duration {
    usual_wait(rtt).max(longest_held(rtt))
}

/// How long a report that would go by itself is held at most.
fn longest_held(rtt: Duration) -> Duration {
    (rtt / 4).min(LONGEST_HELD)
}

/// A share of the round trip, within the bounds.
fn delay(rtt: Option<Duration>, share: u32) -> Duration {
    rtt.map_or(UNKNOWN_DELAY, |rtt| (rtt / share).clamp(MIN_DELAY, MAX_DELAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_by_itself_waits_on_a_slow_path_unless_it_is_about_much_or_asked_for() {
        const MS: Duration = Duration::from_millis(1);
        let sent_at = Time::ZERO + MS * 10_000;
        // 100 octets each 800 ms are a twentieth of 20 kbit/s.
        for (rate, rtt, wait) in [(20e3, 4_000, 800), (20e3, 400, 100), (10e6, 400, 2)] {
            let held = || {
                let mut reporter = Reporter::default();
                reporter.handle_datagram(sent_at, 0, false, Some(MS * rtt));
                reporter.handle_eliciting(sent_at - MS * 100, 100, Some(MS * rtt), false);
                reporter.handle_alone(sent_at, 100, rate, MS * rtt);
                reporter
            };
            assert!(held().is_due(sent_at), "beside packets it goes at once");
            assert!(!held().is_due_alone(sent_at + MS * wait - MS));
            assert!(held().is_due_alone(sent_at + MS * wait));

            for (octets, at_once) in [(WORTH, false), (100, true)] {
                let mut reporter = held();
                reporter.handle_eliciting(sent_at, octets, Some(MS * rtt), at_once);
                assert!(reporter.is_due_alone(sent_at), "about much, or asked for");
            }
        }
    }

    #[test]
    fn a_gap_is_reported_after_a_moment_and_what_may_be_late_when_it_is_ripe() {
        const MS: Duration = Duration::from_millis(1);
        let mut reporter = Reporter::default();
        reporter.handle_datagram(Time::ZERO, 0, false, Some(160 * MS));
        reporter.handle_datagram(Time::ZERO + 100 * MS, 2, false, Some(160 * MS));

        assert_eq!(reporter.next_timeout(), Some(Time::ZERO + 110 * MS), "a sixteenth of 160 ms");

        let ripe_at = Time::ZERO + 150 * MS;
        reporter.report(Time::ZERO + 110 * MS, Holes::default(), Some(ripe_at));
        assert_eq!(reporter.next_timeout(), Some(ripe_at));
    }

    #[test]
    fn datagrams_that_overtake_each_other_are_not_reported_as_lost() {
        const MS: Duration = Duration::from_millis(1);
        let mut reporter = Reporter::default();
        // One in a hundred never comes; all others are late by up to 20 ms.
        let mut arrivals: Vec<(u32, u64)> = (0..10_000_u32)
            .filter(|number| number % 100 != 7)
            .map(|number| (number + number * 7_919 % 21, u64::from(number)))
            .collect();
        arrivals.sort_unstable();
        let mut lost = 0;

        for (at, number) in arrivals {
            let now = Time::ZERO + MS * at;
            reporter.handle_datagram(now, number, false, Some(40 * MS));
            let report = reporter.report(now, Holes::default(), None);
            lost = u64::from(report.newest) + 1 - u64::from(report.received);
            // Until it is known how late datagrams come, some count too early.
            if at > 1_000 {
                assert!(lost <= number / 100 + 3, "{lost} of {number}");
            }
        }

        assert!((97..=100).contains(&lost), "{lost}");
        assert!((0.008..0.013).contains(&reporter.loss()), "{}", reporter.loss());
        assert!(reporter.loss.burst() < 1.3, "{}", reporter.loss.burst());
    }
}
