//! TCP Vegas: a window that follows queueing delay instead of losses.
//!
//! ```text
//!  BaseRTT   the least round-trip time: that of an empty path
//!  Diff      (Expected - Actual) * BaseRTT: segments of ours that wait in queues
//!
//!       grow          hold          shrink       the window, each round trip
//!  ---------------+----------+------------------> Diff
//!               alpha       beta                 (in slow start: end it beyond gamma)
//! ```
//!
//! L. S. Brakmo and L. L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8),
//! 1995; and the implementation in the simulator ns-2.35, which differs in many points.

mod base_rtt;
pub(crate) mod config;

use std::time::Duration;

use base::time::Time;

use self::base_rtt::Base;
pub use self::config::{Config, Rebase, Variant};
use super::congestion::{Ack, CongestionControl, Duplicate, Head, Verdict, Window};

/// What Vegas has measured.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Finding {
    /// The least round-trip time, zero before there is one.
    pub base_rtt: Duration,
    /// Diff of the last round trip, in thousandths of a segment.
    pub diff_milli: i64,
    /// How often the least round-trip time was forgotten.
    pub rebased: u64,
    /// Segments sent again because their fine timer had expired, before three duplicates.
    pub early: u64,
}

/// TCP Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    config: Config,
    base: Base,
    rounds: Rounds,
    fine: FineTimer,
    growth: Growth,
    /// Slow start grows only in every other round trip.
    is_growing_round: bool,
    /// When the window was last cut because of a loss.
    cut_at: Option<Time>,
    /// A loss is being repaired: the window that the next acknowledgement of new data leaves.
    deflate_to: Option<u64>,
    /// Acknowledgements of new data on which the oldest segment is looked at again.
    worries: u32,
    /// The window before its drop to the floor for a measurement of the path.
    held_back: Option<u64>,
    finding: Finding,
}

/// What an acknowledgement adds to the window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Growth {
    /// Nothing.
    Held,
    /// So many octets.
    Octets(u64),
    /// What it acknowledges.
    SlowStart,
}

/// Segments that the window has at least.
const FLOOR: u64 = 2;

impl Vegas {
    /// Starts in slow start.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            base: Base::new(config.rebase),
            rounds: Rounds::default(),
            fine: FineTimer::new(config.variant),
            growth: match config.variant {
                Variant::Ns2 => Growth::Held,
                Variant::Published => Growth::SlowStart,
            },
            is_growing_round: true,
            cut_at: None,
            deflate_to: None,
            worries: 0,
            held_back: None,
            finding: Finding::default(),
        }
    }

    /// What was measured so far.
    #[must_use]
    pub fn finding(&self) -> Finding {
        self.finding
    }

    /// Ends a round trip: evaluates its measurements, and decides how the window grows in the next.
    fn end_round(&mut self, window: &mut Window, round: Round, expected: f64) {
        if round.rtt.is_zero() {
            return;
        }
        // With one segment per round trip, no queue of ours affects the measurement.
        let is_alone = self.config.variant == Variant::Ns2 && round.sent <= window.mss;
        let base = self.base.end_round(round.rtt, is_alone);
        if self.holds_back(window) {
            self.growth = Growth::Held;
            return;
        }
        let mss = window.mss as f64;
        let actual = round.sent as f64 / mss / round.rtt.as_secs_f64();
        let diff = (expected / mss / base.as_secs_f64() - actual) * base.as_secs_f64();
        let diff = match self.config.variant {
            Variant::Ns2 => (diff + 0.5).trunc(),
            Variant::Published => diff,
        };
        self.finding.diff_milli = milli(diff);
        if window.cwnd < window.ssthresh {
            self.steer_slow_start(window, diff);
        } else {
            self.steer(window, diff);
        }
    }

    /// Takes the window to its floor and back where the path is measured; whether it did.
    fn holds_back(&mut self, window: &mut Window) -> bool {
        match (self.base.is_draining(), self.held_back) {
            (false, None) => return false,
            (false, Some(cwnd)) => {
                window.cwnd = window.cwnd.max(cwnd);
                self.held_back = None;
            }
            (true, None) => {
                self.held_back = Some(window.cwnd);
                window.cwnd = window.cwnd.min(FLOOR * window.mss);
            }
            (true, Some(_)) => {}
        }
        true
    }

    /// A loss ends that.
    fn let_go(&mut self, window: &mut Window) {
        if let Some(cwnd) = self.held_back.take() {
            window.cwnd = window.cwnd.max(cwnd);
            self.base.stop_draining();
        }
    }

    fn steer_slow_start(&mut self, window: &mut Window, diff: f64) {
        self.is_growing_round = !self.is_growing_round;
        self.growth = Growth::Held;
        // Only a round trip without growth shows how much is queued, and the present one is now over.
        if !self.is_growing_round {
            return;
        }
        if diff > self.config.gamma {
            window.cwnd = (window.cwnd - window.cwnd / 8).max(FLOOR * window.mss);
            window.ssthresh = FLOOR * window.mss;
        } else {
            self.growth = Growth::SlowStart;
        }
    }

    fn steer(&mut self, window: &mut Window, diff: f64) {
        let mss = window.mss;
        self.growth = Growth::Held;
        if diff > self.config.beta {
            window.cwnd = window.cwnd.saturating_sub(mss).max(FLOOR * mss);
        } else if diff < self.config.alpha {
            match self.config.variant {
                Variant::Ns2 => self.growth = Growth::Octets((mss * mss / window.cwnd).max(1)),
                Variant::Published => window.cwnd += mss,
            }
        }
    }

    fn grow(&self, window: &mut Window, ack: &Ack, in_flight: u64) {
        let mss = window.mss;
        let is_used = match self.config.variant {
            // The segment acknowledged still counts there: its number is the last, not the next.
            Variant::Ns2 => window.cwnd.saturating_sub(in_flight + mss) <= 2 * mss,
            Variant::Published => ack.is_window_limited,
        };
        if is_used {
            window.cwnd += match (self.growth, self.config.variant) {
                (Growth::Held, _) => 0,
                (Growth::Octets(octets), _) => octets,
                (Growth::SlowStart, Variant::Ns2) => mss,
                (Growth::SlowStart, Variant::Published) => ack.octets.min(2 * mss),
            };
        }
    }

    /// Whether the oldest segment has been out for longer than the fine timer allows.
    fn is_expired(&self, now: Time, head: Option<Head>) -> bool {
        head.is_some_and(|head| self.fine.is_expired(now.since(head.sent_at)))
    }

    /// The oldest segment goes again: the window is cut, unless that was done after it was sent.
    fn repair(&mut self, now: Time, window: &mut Window, duplicate: &Duplicate) -> Verdict {
        self.let_go(window);
        let is_again = duplicate.head.is_some_and(|head| head.is_retransmission);
        let sent_at = duplicate.head.map(|head| head.sent_at);
        self.finding.early += u64::from(!duplicate.is_enough);
        if self.cut_at.is_none_or(|cut| sent_at.is_some_and(|sent| cut < sent)) {
            window.cwnd = after_loss(window, is_again);
            self.cut_at = Some(now);
        }
        self.deflate_to = Some(window.cwnd);
        if !duplicate.has_sack {
            window.cwnd += u64::from(duplicate.count) * window.mss;
        }
        self.worries = 2;
        self.fine.back_off(is_again);
        Verdict::Retransmit
    }
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, now: Time, window: &mut Window, ack: &Ack) -> Verdict {
        if let Some(cwnd) = self.deflate_to.take() {
            window.cwnd = window.cwnd.min(cwnd);
            window.ssthresh = FLOOR * window.mss;
        }
        let in_flight = ack.flight.saturating_sub(ack.octets);
        let (rtt, expected) = match self.config.variant {
            // As above, the segment acknowledged counts.
            Variant::Ns2 => (ack.newest_rtt, in_flight + window.mss),
            Variant::Published if ack.is_window_limited => (ack.rtt, window.cwnd),
            Variant::Published => (ack.rtt, ack.flight),
        };
        self.base.take_ttl(ack.ttl);
        let round = self.rounds.advance(now, ack.octets, in_flight);
        if let Some(round) = round.filter(|_| !ack.in_recovery) {
            self.end_round(window, round, expected as f64);
        }
        // The measurement of this acknowledgement belongs to the new round trip.
        if let Some(rtt) = rtt.filter(|rtt| !rtt.is_zero()) {
            self.rounds.sample(rtt);
            self.base.sample(rtt);
            self.fine.sample(rtt);
        }
        if !ack.in_recovery {
            self.grow(window, ack, in_flight);
        }
        (self.finding.base_rtt, self.finding.rebased) = self.base.finding();
        if self.worries > 0 {
            self.worries -= 1;
            if self.is_expired(now, ack.head) {
                self.deflate_to = Some(window.cwnd);
                self.finding.early += 1;
                return Verdict::Retransmit;
            }
            self.worries = 0;
        }
        Verdict::Continue
    }

    fn on_duplicate(&mut self, now: Time, window: &mut Window, duplicate: &Duplicate) -> Verdict {
        if duplicate.in_recovery {
            return Verdict::Continue;
        }
        let is_expired = self.is_expired(now, duplicate.head);
        let is_repairing = self.deflate_to.is_some();
        let is_lost = duplicate.is_enough && !duplicate.has_sack && !is_repairing;
        if is_expired || is_lost {
            if let Some(cwnd) = self.deflate_to {
                window.cwnd = window.cwnd.min(cwnd);
            }
            return self.repair(now, window, duplicate);
        }
        if is_repairing && !duplicate.has_sack {
            window.cwnd += window.mss;
        }
        Verdict::Continue
    }

    fn repairs_alone(&self) -> bool {
        true
    }

    fn on_loss(&mut self, now: Time, window: &mut Window, _flight: u64) {
        self.let_go(window);
        // By SACK or a mark; what duplicates have inflated counts for nothing.
        if let Some(cwnd) = self.deflate_to.take() {
            window.cwnd = window.cwnd.min(cwnd);
        } else {
            window.cwnd = after_loss(window, false);
        }
        window.ssthresh = window.cwnd;
        self.cut_at = Some(now);
        self.worries = 0;
    }

    fn on_timeout(&mut self, now: Time, window: &mut Window, flight: u64, is_first: bool) {
        self.let_go(window);
        let mss = window.mss;
        match self.config.variant {
            Variant::Ns2 => {
                let cwnd = self.deflate_to.map_or(window.cwnd, |cwnd| window.cwnd.min(cwnd));
                window.ssthresh = (cwnd / mss / 2 * mss).max(FLOOR * mss);
                window.cwnd = FLOOR * mss;
            }
            Variant::Published => {
                if is_first {
                    window.ssthresh = (flight / 2).max(FLOOR * mss);
                }
                window.cwnd = mss;
                self.growth = Growth::SlowStart;
                self.is_growing_round = true;
            }
        }
        self.cut_at = Some(now);
        self.deflate_to = None;
        self.worries = 0;
    }

    fn on_sent(&mut self, now: Time, _window: &mut Window, _octets: u64) {
        self.rounds.begin(now);
    }
}

/// The window after a loss, in whole segments: three quarters, and half where even the segment sent
/// again was lost.
fn after_loss(window: &Window, is_again: bool) -> u64 {
    let segments = window.cwnd / window.mss;
    let left = match segments {
        0..=3 => FLOOR,
        _ if is_again => segments / 2,
        _ => segments - segments / 4,
    };
    left * window.mss
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the conversion stops at the ends of the range"
)]
fn milli(segments: f64) -> i64 {
    (segments * 1_000.0).round() as i64
}

/// The round trip in progress. Places are octets since the connection began.
#[derive(Clone, Debug, Default)]
struct Rounds {
    /// Octets acknowledged so far.
    acked: u64,
    /// The place of the segment whose acknowledgement ends the round trip.
    start: u64,
    started_at: Option<Time>,
    sum: Duration,
    count: u32,
}

/// A round trip that is over.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The mean over the segments of the round, or the duration of the round.
    rtt: Duration,
    /// Octets sent during the round.
    sent: u64,
}

impl Rounds {
    /// Something was sent: the first round trip begins with the first.
    fn begin(&mut self, now: Time) {
        self.started_at.get_or_insert(now);
    }

    /// Adds the round-trip time of one segment.
    fn sample(&mut self, rtt: Duration) {
        self.sum += rtt;
        self.count += 1;
    }

    /// Counts acknowledged octets, given the octets in flight; returns the round trip if this acknowledgement ends one.
    fn advance(&mut self, now: Time, octets: u64, in_flight: u64) -> Option<Round> {
        self.acked += octets;
        if self.acked <= self.start {
            return None;
        }
        let next = self.acked + in_flight;
        let elapsed = self.started_at.map_or(Duration::ZERO, |at| now.since(at));
        let rtt = if self.count > 0 { self.sum / self.count } else { elapsed };
        let round = Round { rtt, sent: next - self.start };
        *self = Self { start: next, started_at: Some(now), acked: self.acked, ..Self::default() };
        Some(round)
    }
}

/// How long a segment may go unacknowledged.
#[derive(Clone, Debug)]
struct FineTimer {
    variant: Variant,
    estimate: Option<Estimate>,
    timeout: Option<f64>,
}

/// In seconds, as integrators with gains of 1/8 and 1/4: eight times the mean, four times its
/// deviation.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    deviation: f64,
}

impl FineTimer {
    fn new(variant: Variant) -> Self {
        Self { variant, estimate: None, timeout: None }
    }

    /// Takes the round-trip time of a segment sent once.
    fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        let Estimate { mean, deviation } = match (self.estimate, self.variant) {
            (None, Variant::Ns2) => Estimate { mean: 8.0 * rtt, deviation: rtt },
            (None, Variant::Published) => Estimate { mean: 8.0 * rtt, deviation: 2.0 * rtt },
            (Some(Estimate { mean, deviation }), _) => {
                let error = rtt - mean / 8.0;
                Estimate {
                    mean: mean + error,
                    deviation: deviation + error.abs() - deviation / 4.0,
                }
            }
        };
        self.estimate = Some(Estimate { mean, deviation });
        self.timeout = Some(match self.variant {
            // The mean and twice its deviation, and a sixteenth.
            Variant::Ns2 => (mean / 4.0 + deviation) / 2.0 * (17.0 / 16.0),
            // The formula of the coarse timer, on a fine clock.
            Variant::Published => mean / 8.0 + deviation,
        });
    }

    /// A segment was sent again, which `is_again` if not for the first time; ns-2 is then more
    /// patient until the next sample.
    fn back_off(&mut self, is_again: bool) {
        if self.variant == Variant::Ns2
            && let Some(timeout) = &mut self.timeout
        {
            *timeout *= if is_again { 2.0 } else { 9.0 / 8.0 };
        }
    }

    /// Whether a segment of this age should have been acknowledged.
    fn is_expired(&self, age: Duration) -> bool {
        self.timeout.is_some_and(|timeout| age.as_secs_f64() >= timeout)
    }
}
