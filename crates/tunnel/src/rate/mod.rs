//! Controls the rate of one direction of a tunnel: fills the path with a short queue despite loss.
//!
//! ```text
//!   Startup ──queue grows──▶ Cruise ──queue is not ours──▶ Compete
//!                              ▲  ◀─────queue is ours─────────┘
//!                              ╰─▶ Step: the window is cut, what follows is measured
//! ```
//!
//! A congestion window determines the rate, and pacing spreads the datagrams. The path's usual loss
//! is no sign of congestion; `docs/protocols/nc.md` has the reasons.

mod bias;
mod cause;
mod compete;
mod control;
mod delay;
mod delivery;
mod flight;
mod path;
mod ramp;
mod round;
mod step;
#[cfg(test)]
mod tests;
mod trial;

use std::time::Duration;

use base::time::Time;

use self::cause::Cause;
use self::compete::Compete;
use self::control::{Sign, Standing};
use self::flight::Flight;
use self::path::Path;
use self::ramp::Ramp;
use self::round::{Ambient, Round};
use self::step::Step;
use self::trial::Blame;
use super::Config;

/// The window at the start, in datagrams. RFC 6928.
const INITIAL: f64 = 10.0;
/// The most datagrams that follow each other after a pause, unless they last less than a millisecond.
const BURST: f64 = 4.0;
/// The window never falls below this, in datagrams.
const LEAST: f64 = 4.0;
/// The assumed round trip before the first report, in seconds.
const UNKNOWN: f64 = 0.5;
/// A transport inside that is in its own slow start determines the rate. In startup the window and the
/// pace grow by this factor faster then, so that it does not take our pace for a full path.
const LEAD: f64 = 2.0;
/// When less than the window is in flight, the pace may exceed the window's rate by this factor.
const FASTEST: f64 = 1.25;
/// The target of the standing queue, in seconds.
const QUEUE: f64 = 0.005;
/// The least target of the standing queue in datagrams.
const QUEUE_DATAGRAMS: f64 = 4.0;
/// Above this rate, in octets per second, the target gets shorter.
const QUEUE_RATE: f64 = 10e6 / 8.0;
/// The least target of the standing queue, in seconds.
const QUEUE_LEAST: f64 = 0.001;
/// The number of successive timeouts that cut the window; fewer may mean that only reports were lost.
const SILENCES: u8 = 3;

/// The rate of one direction.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// The highest allowed rate, in octets per second.
    max_rate: f64,
    flight: Flight,
    path: Path,
    /// The newest report.
    newest: Option<Feedback>,
    /// The decaying maximum of a datagram's octets.
    datagram: f64,
    /// The congestion window: the target of octets in flight.
    window: f64,
    phase: Phase,
    step: Option<Step>,
    /// The growth of the window in this round trip while the queue has been empty.
    growth: f64,
    /// The current round trip ends with the report of this datagram.
    round_end: u64,
    round: Round,
    losses: Losses,
    /// The decaying maximum of the window.
    peak: f64,
    standing: Standing,
    /// Datagrams below this number were sent while the user, not the window, limited the rate.
    limited_until: u64,
    /// The earliest time at which loss or an ECN mark may lower the window again.
    mark_at: Time,
    credit: Credit,
    /// Timeouts since the last report.
    silences: u8,
    /// The number of reports that contradict the datagrams sent.
    pub(super) strange_reports: u64,
}

/// What is known of losses: how many are usual, and whose they are.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    ambient: Ambient,
    blame: Blame,
    cause: Cause,
    ramp: Ramp,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Compete(Compete),
    Cruise,
    Startup,
}

/// The peer's report of received datagrams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Feedback {
    /// The greatest datagram number received.
    pub(super) newest: u64,
    /// When that datagram came, by the clock of the peer.
    pub(super) newest_at: Duration,
    /// How long the report waited after that.
    pub(super) delay: Duration,
    /// The total number of datagrams received.
    pub(super) received: u64,
    /// The total number of datagrams received with congestion experienced.
    pub(super) marked: u64,
}

/// The credit of pacing.
#[derive(Clone, Copy, Debug)]
struct Credit {
    /// Octets that may be sent at once; a debt when negative.
    octets: f64,
    /// The time of that credit.
    at: Time,
}

impl Rate {
    pub(super) fn new(now: Time, config: &Config) -> Self {
        let datagram = (config.base_mtu as f64).clamp(64.0, 65_535.0);
        let max_rate = config.max_rate.unwrap_or(f64::MAX).max(1_000.0) / 8.0;
        Self {
            max_rate,
            flight: Flight::default(),
            path: Path::default(),
            newest: None,
            datagram,
            window: INITIAL * datagram,
            phase: Phase::Startup,
            step: None,
            growth: 0.0,
            round_end: 0,
            round: Round::default(),
            losses: Losses::default(),
            peak: 0.0,
            standing: Standing::new(now),
            limited_until: 0,
            mark_at: now,
            credit: Credit { octets: INITIAL * datagram, at: now },
            silences: 0,
            strange_reports: 0,
        }
    }

    /// A datagram of `octets` on the wire was sent; successive numbers differ by 1.
    pub(super) fn handle_sent(&mut self, now: Time, number: u64, octets: usize) {
        self.earn(now);
        self.credit.octets -= octets as f64;
        let full = if matches!(self.phase, Phase::Startup) { 0.5 } else { 0.7 };
        let is_full = self.in_flight() >= full * self.window;
        self.flight.handle_sent(now, number, octets, is_full);
        let octets = octets as f64;
        self.datagram = if octets >= self.datagram {
            octets.min(65_535.0)
        } else {
            self.datagram + (octets.max(64.0) - self.datagram) / 256.0
        };
    }

    /// The sender had nothing more to send.
    pub(super) fn handle_idle(&mut self, now: Time) {
        self.earn(now);
        self.limited_until = self.flight.next();
    }

    /// Takes a report of the peer. Outdated and impossible reports are ignored.
    pub(super) fn handle_report(&mut self, now: Time, report: &Feedback) {
        self.earn(now);
        let before = self.newest;
        if before.is_some_and(|before| report.newest <= before.newest) {
            return;
        }
        let in_flight = self.in_flight();
        let left = self.flight.left();
        let at = i64::try_from(report.newest_at.as_nanos()).ok();
        let (Some(sent), Some(at)) = (self.flight.take(report.newest), at) else {
            self.strange_reports += 1;
            return;
        };
        let elapsed = now.since(sent.at);
        if report.delay > elapsed {
            self.strange_reports += 1;
            return;
        }
        self.newest = Some(*report);
        self.silences = 0;
        let rtt = (elapsed - report.delay).max(Duration::from_micros(1));
        if before.is_some_and(|before| report.newest_at < before.newest_at) {
            self.path.handle_clock_change();
        }
        let (queue, late) = self.path.handle_report(now, rtt, sent.at, at);
        // While the report waited on its way, the datagrams that followed arrived.
        let rate = self.path.delivery.rate().unwrap_or(self.nominal());
        self.flight.pass(sent.at + late, rate * late.as_secs_f64());
        let acked = self.flight.left().saturating_sub(left) as f64;
        // Samples around a pause of the user show no capacity, unless the path has a queue anyway or
        // the datagram was sent with a full window.
        let is_backlogged =
            self.path.queue().is_some_and(|queue| queue > self.target(self.nominal()) / 2.0);
        let is_paused = report.newest < self.limited_until && !is_backlogged;
        let is_using = in_flight >= self.window / 2.0;
        let is_limited = is_paused && !sent.is_full || !is_using;
        if is_paused {
            self.path.delivery.clear();
        } else {
            let span = self.path.span();
            self.path.delivery.handle_sample(report.newest_at, sent.total, span);
        }
        self.path.note_delay(report.newest, queue);
        self.round.queue = self.round.queue.max(queue - self.path.bias.delay());
        let short = self.datagram / rate.max(1.0);
        self.losses.cause.handle_report(report.newest, report.received, queue, short);

        let is_round = report.newest >= self.round_end;
        if is_round {
            self.round_end = self.flight.next();
            if is_paused {
                self.round.clear();
            }
            self.path.bias.end_round(report.newest);
            if let Some(ended) = self.round.end(report) {
                self.end_round(now, &ended);
            }
        }
        match self.phase {
            _ if self.losses.blame.is_testing() => self.test(now, report),
            Phase::Compete(compete) => {
                self.compete(now, compete, acked, is_limited, is_round, report.newest);
            }
            Phase::Cruise => {
                self.cruise(now, acked, is_limited, is_using, is_round, report.newest);
            }
            Phase::Startup => {
                let lead = if is_paused { LEAD } else { 1.0 };
                self.start(lead * acked, is_limited);
            }
        }
        if before.is_some_and(|before| report.marked > before.marked) {
            self.yield_way(now, Sign::Mark);
        }
        let is_cruising = matches!(self.phase, Phase::Cruise) && self.step.is_none();
        if !is_cruising || self.losses.blame.is_testing() {
            self.path.bias.abandon();
        }
        let most = 1.5 * self.max_rate * self.path.rtt.smoothed + INITIAL * self.datagram;
        self.window = self.window.clamp(LEAST * self.datagram, most.clamp(1e5, 1e12));
    }

    /// No report came in time: all octets in flight count as lost.
    pub(super) fn handle_timeout_loss(&mut self, now: Time) {
        self.earn(now);
        self.flight.give_up();
        self.path.delivery.clear();
        self.growth = 0.0;
        self.step = None;
        self.end_test(now);
        self.silences = self.silences.saturating_add(1);
        if self.silences >= SILENCES {
            self.phase = Phase::Cruise;
            self.window = (self.window / 2.0).max(LEAST * self.datagram);
        }
    }

    /// The path changed: everything learnt about it is forgotten.
    pub(super) fn reset(&mut self, now: Time) {
        self.earn(now);
        self.path = Path::default();
        self.window = INITIAL * self.datagram;
        self.phase = Phase::Startup;
        self.step = None;
        self.growth = 0.0;
        self.round.clear();
        self.losses = Losses::default();
        self.peak = 0.0;
        self.standing.forget(now);
        self.flight.give_up();
        self.limited_until = self.flight.next();
    }

    /// When the next datagram may be sent, which may be in the past; `None` while too much is in
    /// flight.
    pub(super) fn next_send(&self, now: Time) -> Option<Time> {
        let hard = match self.phase {
            Phase::Compete(_) | Phase::Cruise => 1.5 * self.window + 2.0 * self.datagram,
            Phase::Startup => self.window,
        };
        if self.in_flight() >= hard || self.flight.is_full() {
            return None;
        }
        let credit = self.credit_by(now) - self.threshold();
        if credit > 0.0 {
            return Some(now);
        }
        // One nanosecond is added, so that rounding cannot leave too little credit.
        let wait = (-credit / self.pace()).min(1e6);
        Some(now + Duration::from_secs_f64(wait) + Duration::from_nanos(1))
    }

    /// The credit, in octets, from which the next datagram is sent. Where congestion shows by loss alone,
    /// datagrams go in pairs at irregular times, as those of a TCP with delayed acknowledgements do: evenly
    /// paced ones find room in a short buffer, and only the packets of others are dropped (phase effects:
    /// Floyd and Jacobson 1992).
    fn threshold(&self) -> f64 {
        let next = self.flight.next();
        let is_by_loss = matches!(self.phase, Phase::Compete(compete) if compete.is_by_loss);
        if !is_by_loss || next % 2 == 1 {
            return 0.0;
        }
        // The fractional parts of multiples of the golden ratio.
        let random = next.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (1.0 + random as f64 / (1_u64 << 24) as f64) * self.datagram
    }

    /// The smoothed round-trip time; zero before the first report.
    pub(super) fn rtt(&self) -> Duration {
        Duration::from_secs_f64(self.path.rtt.smoothed)
    }

    pub(super) fn rtt_variation(&self) -> Duration {
        Duration::from_secs_f64(self.path.rtt.variation)
    }

    /// The minimum round-trip time of the last seconds.
    pub(super) fn min_rtt(&self) -> Duration {
        self.path.min_rtt()
    }

    /// The estimated capacity of the path, in bit/s.
    pub(super) fn rate(&self) -> f64 {
        8.0 * self.nominal()
    }

    /// Whether the window is temporarily small, to test whether this avoids losses.
    pub(super) fn is_testing(&self) -> bool {
        self.losses.blame.is_testing()
    }

    /// Octets sent that no report has covered.
    pub(super) fn in_flight(&self) -> f64 {
        self.flight.octets() as f64
    }

    /// The target of the queue at `rate`, in seconds.
    fn target(&self, rate: f64) -> f64 {
        let rate = rate.max(1.0);
        let fixed = (QUEUE * (QUEUE_RATE / rate).sqrt()).clamp(QUEUE_LEAST, QUEUE);
        let target = fixed.max(QUEUE_DATAGRAMS * self.datagram / rate).min(60.0);
        let noise = (2.0 * self.standing.noise - 0.4 * target).clamp(0.0, 0.1);
        // A queue shorter than two datagrams cannot be distinguished from a datagram in transmission.
        let least = QUEUE_LEAST.max(2.0 * self.datagram / rate);
        (target + noise).min(self.standing.marked.max(least))
    }

    /// The rate of one window per round trip, in octets per second.
    fn nominal(&self) -> f64 {
        let turn = if self.path.turn.smoothed == 0.0 { UNKNOWN } else { self.path.turn.smoothed };
        (self.window / turn.max(1e-5)).min(self.max_rate)
    }

    /// The present pacing rate, in octets per second.
    fn pace(&self) -> f64 {
        let full = self.in_flight() / self.window;
        let factor = match (self.phase, self.step) {
            _ if self.losses.blame.is_testing() => 1.0,
            (Phase::Startup, _) if self.is_led() => LEAD * 2.0,
            (Phase::Startup, _) => 2.0,
            (_, Some(step)) if step.is_falling() && full > 1.0 => 0.5,
            (Phase::Compete(_) | Phase::Cruise, _) => (3.0 - 2.0 * full).clamp(0.25, FASTEST),
        };
        (self.nominal() * factor).min(self.max_rate).max(1.0)
    }

    /// Whether the user lately had nothing more to send.
    fn is_led(&self) -> bool {
        self.newest.is_some_and(|newest| newest.newest < self.limited_until)
    }

    /// The most credit of pacing, in octets.
    fn burst(&self) -> f64 {
        let pace = self.pace();
        let least = (pace * 0.02).clamp(2.0 * self.datagram, BURST * self.datagram);
        (pace * 0.001).clamp(least, 1e6)
    }

    fn earn(&mut self, now: Time) {
        self.credit = Credit { octets: self.credit_by(now), at: now.max(self.credit.at) };
    }

    fn credit_by(&self, now: Time) -> f64 {
        let Credit { octets, at } = self.credit;
        let earned = self.pace() * now.since(at).as_secs_f64();
        (octets + earned).min(self.burst().max(octets))
    }
}
