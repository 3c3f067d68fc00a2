//! Controls the sending rate of a tunnel: fills the path with a short queue despite loss.
//!
//! ```text
//!   Startup ──queue grows──▶ Cruise ──queue is not ours──▶ Compete
//!                              ▲  ◀─────queue is ours─────────┘
//!                              ╰─▶ Step: the window is cut, what follows is measured
//! ```
//!
//! A congestion window determines the rate, and pacing spreads the datagrams. The path's usual loss
//! is no sign of congestion; `docs/protocols/nc.md` has the reasons.
//!
//! [`Rate`] decides and asks its parts. No part calls back; arrows show the calls between parts:
//!
//! ```text
//!   Rate ─▶ flight      datagrams without a report, octets in flight
//!        ─▶ path        round trip, delay, queue
//!             └▶ bias     delay that only looks like a queue
//!        ─▶ delivery    what arrives in a second
//!        ─▶ cause       whether losses come with a queue ─┐
//!        ─▶ trial       whether losses are ours ──────────┴▶ round   losses of a round trip, usual losses
//!        ─▶ step        a cut of the window, and its effect on the queue
//!        ─▶ compete     CUBIC, beside flows that fill the buffer
//! ```

mod bias;
mod cause;
mod compete;
mod delivery;
mod flight;
mod path;
mod round;
mod step;
#[cfg(test)]
mod tests;
mod trial;

use std::time::Duration;

use base::time::Time;
use bias::RAISE;
use cause::Cause;
use compete::Compete;
use delivery::{Arrival, Delivered, Delivery};
use flight::Flight;
use path::Path;
use round::{Ambient, Ended, Full, Ramp, Round};
use step::{Progress, Purpose, Step};
use trial::{Blame, SMALL};

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
/// What was sent so many round trips and seconds ago is not in flight. Nobody reports probes and reports while no data go.
const OLD_ROUNDS: f64 = 3.0;
const OLD: f64 = 3.0;
/// The flows that wait are averaged over so many reports, and more than this many get no greater share.
const FLOWS_MEMORY: f64 = 32.0;
const MOST_FLOWS: f64 = 4.0;
/// The number of successive timeouts that cut the window; fewer may mean that only reports were lost.
const SILENCES: u8 = 3;

/// The rate of one direction.
#[derive(Clone, Debug)]
pub struct Rate {
    /// The highest allowed rate, in octets per second.
    max_rate: f64,
    flight: Flight,
    path: Path,
    delivery: Delivery,
    delivered: Delivered,
    /// The newest report.
    newest: Option<Feedback>,
    /// The newest long datagram with data.
    long_data: Option<u64>,
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
    /// How many of the user's flows had packets waiting, in the mean of the last reports.
    flows: f64,
    /// Timeouts since the last report.
    silences: u8,
    /// The number of reports that contradict the datagrams sent.
    strange_reports: u64,
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
pub struct Feedback {
    /// The greatest datagram number received.
    pub newest: u64,
    /// When that datagram came, by the clock of the peer.
    pub newest_at: Duration,
    /// How long the report waited after that.
    pub delay: Duration,
    /// The total number of datagrams received.
    pub received: u64,
    /// The total number of datagrams received with congestion experienced.
    pub marked: u64,
}

/// The news in a report, for the current phase of the control.
#[derive(Clone, Copy, Debug)]
struct News {
    newest: u64,
    /// Octets that are no longer in flight.
    acked: f64,
    /// Whether the user, not the window, limits the rate.
    is_limited: bool,
    /// Whether at least half of the window was in flight.
    is_using: bool,
    /// Whether a round trip ends.
    is_round: bool,
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
    pub fn new(now: Time, config: &Config) -> Self {
        let datagram = (config.base_mtu as f64).clamp(64.0, 65_535.0);
        let max_rate = config.max_rate.unwrap_or(f64::MAX).max(1_000.0) / 8.0;
        Self {
            max_rate,
            flight: Flight::default(),
            path: Path::default(),
            delivery: Delivery::default(),
            delivered: Delivered::default(),
            newest: None,
            long_data: None,
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
            flows: 1.0,
            silences: 0,
            strange_reports: 0,
        }
    }

    /// A datagram of `octets` on the wire was sent; successive numbers differ by 1.
    pub fn handle_sent(&mut self, now: Time, number: u64, octets: usize) {
        self.earn(now);
        // Probes and answers go out without credit. After an outage the round trip seems long and the pace is low, so
        // no debt takes longer to pay than what may be in flight.
        self.credit.octets = (self.credit.octets - octets as f64).max(-self.window);
        let full = if matches!(self.phase, Phase::Startup) { 0.5 } else { 0.7 };
        let old = Duration::from_secs_f64((OLD_ROUNDS * self.path.rtt()).max(OLD));
        self.flight.give_up_before(now - old);
        let is_full = self.in_flight() >= full * self.window;
        self.flight.handle_sent(now, number, octets, is_full);
        let octets = octets as f64;
        self.datagram = if octets >= self.datagram {
            octets.min(65_535.0)
        } else {
            self.datagram + (octets.max(64.0) - self.datagram) / 256.0
        };
    }

    /// Datagram `number`, of `octets`, carries data: a report about it is awaited.
    pub fn handle_data(&mut self, number: u64, octets: usize) {
        if 2.0 * octets as f64 >= self.datagram {
            self.long_data = Some(number);
        }
    }

    /// The sender had nothing more to send.
    pub fn handle_idle(&mut self, now: Time) {
        self.earn(now);
        self.limited_until = self.flight.next();
    }

    /// So many of the user's flows have packets waiting.
    pub fn note_flows(&mut self, waiting: usize) {
        self.flows += ((waiting as f64).clamp(1.0, MOST_FLOWS) - self.flows) / FLOWS_MEMORY;
    }

    /// Takes a report of the peer. Outdated and impossible reports are ignored.
    pub fn handle_report(&mut self, now: Time, report: &Feedback) {
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
        self.delivered.handle_report(Arrival {
            sent_at: sent.at,
            came_at: report.newest_at,
            octets: sent.total,
            number: report.newest,
            received: report.received,
        });
        if before.is_some_and(|before| report.newest_at < before.newest_at) {
            self.path.handle_clock_change();
            self.delivery.clear();
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length")]
        let long = self.datagram as u64;
        let (queue, late) = self.path.handle_report(now, rtt, (&sent, long), at);
        // While the report waited on its way, the datagrams that followed arrived.
        let rate = self.measured();
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
            self.delivery.clear();
        } else {
            let span = self.path.span();
            self.delivery.handle_sample(report.newest_at, sent.total, span);
        }
        self.path.note_delay(report.newest, queue);
        self.round.note_queue(queue - self.path.bias().delay());
        let short = self.datagram / rate.max(1.0);
        self.losses.cause.handle_report(report.newest, report.received, queue, short);

        let is_round = report.newest >= self.round_end;
        if is_round {
            self.round_end = self.flight.next();
            if is_paused {
                self.round.clear();
            }
            self.path.bias_mut().end_round(report.newest);
            if let Some(ended) = self.round.end(report.newest, report.received) {
                self.end_round(now, &ended);
            }
        }
        let news = News { newest: report.newest, acked, is_limited, is_using, is_round };
        match self.phase {
            _ if self.losses.blame.is_testing() => self.test(now, report),
            Phase::Compete(compete) => self.compete(now, compete, news),
            Phase::Cruise => self.cruise(now, news),
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
            self.path.bias_mut().abandon();
        }
        let most = 1.5 * self.max_rate * self.path.rtt() + INITIAL * self.datagram;
        self.window = self.window.clamp(LEAST * self.datagram, most.clamp(1e5, 1e12));
    }

    /// No report came in time: all octets in flight count as lost.
    pub fn handle_timeout_loss(&mut self, now: Time) {
        self.earn(now);
        self.flight.give_up();
        self.delivery.clear();
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
    pub fn reset(&mut self, now: Time) {
        self.earn(now);
        self.path = Path::default();
        self.long_data = None;
        self.delivery.clear();
        self.delivered = Delivered::default();
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
    pub fn next_send(&self, now: Time) -> Option<Time> {
        let hard = match self.phase {
            Phase::Startup => self.window,
            // A test of losses shows nothing unless what is in flight fits the window.
            _ if self.losses.blame.is_testing() => self.window + 2.0 * self.datagram,
            Phase::Compete(_) | Phase::Cruise => 1.5 * self.window + 2.0 * self.datagram,
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
        let is_by_loss = matches!(self.phase, Phase::Compete(compete) if compete.is_by_loss());
        if !is_by_loss || next % 2 == 1 {
            return 0.0;
        }
        // The fractional parts of multiples of the golden ratio.
        let random = next.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (1.0 + random as f64 / (1_u64 << 24) as f64) * self.datagram
    }

    /// The smoothed round-trip time; zero before the first report.
    pub fn rtt(&self) -> Duration {
        Duration::from_secs_f64(self.path.rtt())
    }

    /// The round-trip time that datagrams in flight may show; `None` while no report has shown how long one of their
    /// length takes.
    pub fn expected_rtt(&self) -> Option<Duration> {
        let reported = self.newest.map(|report| report.newest);
        let long = if self.long_data > reported { self.path.long_rtt()? } else { 0.0 };
        Some(Duration::from_secs_f64(long.max(self.path.rtt())))
    }

    pub fn rtt_variation(&self) -> Duration {
        Duration::from_secs_f64(self.path.rtt_variation())
    }

    /// The minimum round-trip time of the last seconds.
    pub fn min_rtt(&self) -> Duration {
        self.path.min_rtt()
    }

    /// What the path has delivered lately, in bit/s.
    pub fn delivered(&self) -> f64 {
        8.0 * self.delivered.rate()
    }

    /// The estimated capacity of the path, in bit/s.
    pub fn rate(&self) -> f64 {
        8.0 * self.nominal()
    }

    /// Whether the window is temporarily small, to test whether this avoids losses.
    pub fn is_testing(&self) -> bool {
        self.losses.blame.is_testing()
    }

    /// Octets sent that no report has covered.
    fn in_flight(&self) -> f64 {
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
        let turn = if self.path.turn() == 0.0 { UNKNOWN } else { self.path.turn() };
        (self.window / turn.max(1e-5)).min(self.max_rate)
    }

    /// The rate of delivery that was measured, in octets per second; the nominal one before that.
    fn measured(&self) -> f64 {
        self.delivery.rate().unwrap_or(self.nominal())
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

// Changes of the window: in each phase, at the end of a round trip, and at a sign of congestion.

/// The part of the queue's deviation from its target that each round trip corrects.
const GAIN: f64 = 0.25;
/// The queue is ours if a cut of our window has at least this part of the expected effect.
const OWN: f64 = 0.8;
/// The queue is another flow's if the cut has less than this part of the expected effect.
const OTHER: f64 = 0.35;
/// After this many such results in succession we compete.
const FOREIGN: u32 = 2;
/// If the queue is still longer than this multiple of its target after the window was lowered to the
/// part below, we check whether it is ours.
const LONG: f64 = 1.15;
const MADE_ROOM: f64 = 0.85;
/// A buffer has room for the target if its losses come with a queue longer than this multiple of it.
const ROOM: f64 = 3.0;
/// With fewer datagrams in the window we never compete: their effect on a queue is too small to
/// measure.
const FEW: f64 = 8.0;
/// The number of successive round trips with a short queue after which we stop competing.
const QUIET: u32 = 8;
/// The same number where congestion never shows as a queue.
const LONG_QUIET: u32 = 64;
/// The largest relative growth of the window in a round trip after startup.
const GROWTH: f64 = 0.4;

/// In startup at most this part of the least round trip may look like a queue and not be taken for one.
const DOUBTFUL: f64 = 0.5;

/// A sign of congestion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sign {
    /// More loss than the path's own.
    Loss,
    /// An ECN mark: congestion experienced.
    Mark,
}

/// Evidence that the queue is another flow's.
#[derive(Clone, Copy, Debug)]
struct Foreign {
    /// When our last cut failed to shorten the queue, and the number of successive failures.
    at: Time,
    times: u32,
    /// Our largest window meanwhile.
    most: f64,
}

/// The standing queue before the bottleneck, and the evidence of whose it is.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The change of the minimum delay from one round trip to the next, in seconds.
    noise: f64,
    /// The queue at the end of the last round trip.
    last_queue: f64,
    /// When the queue was last nearly empty.
    empty_at: Time,
    /// The length of a queue that was marked, in seconds; we stay below it for a while.
    marked: f64,
    /// The window when the queue became longer than its target.
    yielded_from: Option<f64>,
    foreign: Option<Foreign>,
}

impl Standing {
    fn new(now: Time) -> Self {
        Self {
            noise: 0.0,
            last_queue: 0.0,
            empty_at: now,
            marked: f64::MAX,
            yielded_from: None,
            foreign: None,
        }
    }

    /// Forgets everything, because the path changed.
    fn forget(&mut self, now: Time) {
        *self = Self { last_queue: self.last_queue, ..Self::new(now) };
    }
}

impl Rate {
    /// Acts on the results of a round trip.
    fn end_round(&mut self, now: Time, ended: &Ended) {
        let target = self.target(self.measured());
        self.peak = (self.peak * (1.0 - (self.path.rtt() / 20.0).min(0.5))).max(self.window);
        self.standing.marked *= 1.02;
        if matches!(self.phase, Phase::Startup)
            && let Some(full) = self.losses.ramp.handle_round(ended)
        {
            self.fill(full);
            return;
        }
        let is_by_loss = matches!(self.phase, Phase::Compete(compete) if compete.is_by_loss());
        let high = match self.phase {
            Phase::Compete(_) => 1.2,
            Phase::Cruise => 2.0,
            Phase::Startup => f64::MAX,
        };
        if is_by_loss && let Some(loss) = self.acquit(ended) {
            self.losses.ambient.set_mean(loss);
            self.phase = Phase::Cruise;
            return;
        }
        let is_more = if is_by_loss {
            if let Some(path) = self.losses.cause.path() {
                self.losses.ambient.limit_mean(path);
            }
            self.losses.ambient.is_rising(ended) || self.losses.ambient.is_exceeded(ended)
        } else {
            self.losses.ambient.is_exceeded(ended)
        };
        let is_congestion = is_more && !self.losses.blame.is_testing();
        if let Phase::Compete(compete) = &mut self.phase {
            compete.note(ended.sent, is_congestion, self.window / self.datagram, self.path.rtt());
        }
        let is_short = ended.queue <= high * target;
        if is_congestion && (is_by_loss || !is_short) {
            self.yield_way(now, Sign::Loss);
        } else if !is_by_loss && (is_short || !self.losses.ambient.is_known()) {
            self.losses.ambient.learn(ended);
        }
        self.losses.ambient.note(ended);
        let loss = [
            self.losses.ambient.mean(),
            self.losses.ambient.recent(),
            self.losses.ambient.spread(),
        ];
        // What is in flight without a queue.
        let part = self.min_rtt().as_secs_f64() / self.path.rtt().max(1e-5);
        let path = [self.window, ended.sent * self.datagram * part.min(1.0), self.datagram];
        let is_starting = matches!(self.phase, Phase::Startup);
        if let Some(window) =
            self.losses.blame.handle_round(now, loss, self.rtt(), path, is_starting)
        {
            self.step = None;
            self.growth = 0.0;
            self.window = window.max(LEAST * self.datagram);
        }
        if self.losses.blame.is_testing() {
            return;
        }
        if matches!(self.phase, Phase::Cruise) && self.losses.cause.is_buffer() {
            let path = self.losses.cause.path().unwrap_or(f64::MAX).min(self.losses.blame.path());
            self.losses.ambient.limit_mean(path);
            // A buffer with room for the target drops only what is beyond: the length of the queue tells enough.
            let has_room = self.losses.cause.queue_at_losses() > ROOM * target;
            self.losses.cause.clear();
            if !has_room {
                self.yield_to_losses(now, self.window);
                return;
            }
        }
        if let (Some(queue), Phase::Cruise, None) = (self.path.queue(), self.phase, self.step) {
            self.standing.noise +=
                ((queue - self.standing.last_queue).abs() - self.standing.noise) / 8.0;
            self.standing.last_queue = queue;
        }

        if let Phase::Compete(compete) = &mut self.phase {
            // Where congestion shows by loss alone, the queue is always short.
            let is_quiet = if is_by_loss { !is_congestion } else { ended.queue <= target };
            if compete.note_quiet(is_quiet) >= if is_by_loss { LONG_QUIET } else { QUIET } {
                self.phase = Phase::Cruise;
            }
        }
    }

    /// Acts on a sign of congestion. Data sent before it gives no second sign.
    fn yield_way(&mut self, now: Time, sign: Sign) {
        if now < self.mark_at {
            return;
        }
        let part = match sign {
            Sign::Loss => match self.phase {
                Phase::Compete(compete) => compete.beta(self.window),
                Phase::Cruise | Phase::Startup => 0.7,
            },
            Sign::Mark => 0.85,
        };
        self.end_test(now);
        let queue = self.round.queue().max(self.path.queue().unwrap_or(0.0));
        let target = self.target(self.measured());
        self.mark_at = now + self.rtt();
        self.round_end = self.flight.next();
        self.round.clear();
        self.step = None;
        self.growth = 0.0;
        self.phase = match self.phase {
            Phase::Compete(mut compete) => {
                self.window = compete.cut(now, self.window, part);
                Phase::Compete(compete)
            }
            Phase::Cruise | Phase::Startup
                if queue > 2.0 * target && self.window > FEW * self.datagram =>
            {
                let mut compete = Compete::new(now, self.window, self.window);
                self.window = compete.cut(now, self.window, part);
                Phase::Compete(compete)
            }
            Phase::Cruise | Phase::Startup => {
                if sign == Sign::Mark {
                    // The bottleneck marks a queue that is shorter than our target.
                    self.standing.marked = 0.7 * queue;
                }
                self.window *= part;
                Phase::Cruise
            }
        };
    }

    /// The rate of losses, once those for which the window was cut turn out to be the path's.
    fn acquit(&mut self, ended: &Ended) -> Option<f64> {
        if let Some(loss) = self.losses.blame.refuted(ended, self.window) {
            return Some(loss);
        }
        let loss = self.losses.cause.is_path()?;
        self.losses.blame.acquit(loss);
        Some(loss)
    }

    /// Waits for the effect of the small window on the losses.
    fn test(&mut self, now: Time, report: &Feedback) {
        let fits = self.in_flight() <= self.window;
        let numbers = [report.newest, report.received, self.flight.next()];
        let Some(verdict) = self.losses.blame.advance(now, numbers, fits, self.rtt()) else {
            return;
        };
        self.losses.ambient.set_mean(verdict.loss);
        self.round.clear();
        if verdict.is_ours {
            self.losses.ambient.set(verdict.loss);
            let target = self.target(self.measured());
            if self.path.queue().is_some_and(|queue| queue >= target) {
                // The buffer holds the target without losses of our own: the queue tells enough.
                self.phase = Phase::Cruise;
            } else {
                self.yield_to_losses(now, self.window / SMALL);
            }
        } else {
            self.window = verdict.window;
        }
    }

    /// Follows CUBIC with loss as the sign, from a window of `most` octets that caused losses.
    fn yield_to_losses(&mut self, now: Time, most: f64) {
        self.step = None;
        self.growth = 0.0;
        self.window = 0.7 * most;
        self.phase = Phase::Compete(Compete::new(now, most, self.window).by_loss());
    }

    /// Ends a test without a verdict.
    fn end_test(&mut self, now: Time) {
        if let Some(verdict) = self.losses.blame.abandon(now, self.rtt()) {
            self.window = verdict.window;
        }
    }

    /// Competes for a share with flows that fill the buffer.
    fn compete(&mut self, now: Time, mut compete: Compete, news: News) {
        let News { newest, acked, is_limited, is_round, .. } = news;
        let Some(queue) = self.path.queue() else { return };
        let rate = self.measured();
        let target = self.target(rate);
        if self.step.is_some() {
            if let Some(step) = self.advance_step(newest, queue) {
                compete.note_check(step.share().is_some_and(|share| share > OWN));
            }
        } else if !is_limited {
            let rtt = self.rtt();
            self.window = compete.grow(now, self.window, acked, rtt, self.datagram);
        }
        if is_round {
            compete.end_round(self.flows);
        }
        let is_free = queue < target / 2.0 && compete.is_beyond(self.window);
        if compete.is_alone() || is_free && !compete.is_by_loss() {
            self.phase = Phase::Cruise;
            self.standing.foreign = None;
            return;
        }
        if compete.is_check_due() && self.step.is_none() && queue > 1.5 * target && !is_limited {
            let window = self.window;
            self.begin(Purpose::Look, 0.75 * window, window, rate, queue);
        }
        self.phase = Phase::Compete(compete);
    }

    /// Doubles the window in each round trip until the queue grows.
    fn start(&mut self, acked: f64, is_limited: bool) {
        if !is_limited {
            self.window += acked;
        }
        let (Some(queue), Some(rate)) = (self.path.queue(), self.delivery.rate()) else {
            return;
        };
        let target = self.target(rate);
        // Where nothing is lost, a delay that jitters may be no queue.
        let doubtful = if self.losses.cause.has_losses() {
            0.0
        } else {
            self.path.bias().doubtful(self.datagram / rate.max(1.0))
        };
        if queue > target + doubtful.min(DOUBTFUL * self.min_rtt().as_secs_f64()) {
            self.phase = Phase::Cruise;
            // The queue has stood for less than the time over which the rate was measured.
            let rate = rate.max(self.delivery.newest_rate().unwrap_or(rate));
            let window = self.window.min(rate * (self.min_rtt().as_secs_f64() + target));
            if doubtful > 0.0 {
                // What is dropped beyond is no sign of others.
                self.round.clear();
                self.round_end = self.flight.next();
            }
            self.begin(Purpose::Settle, window, window, rate, queue);
        }
    }

    /// Ends startup on a path that drops datagrams in excess of its capacity.
    fn fill(&mut self, full: Full) {
        self.phase = Phase::Cruise;
        // Datagrams may have grown since the window was bounded, so that it is below the least now.
        let window = (full.datagrams * self.datagram).min(self.window);
        self.window = window.max(LEAST * self.datagram);
        self.losses.ambient.set(full.loss);
        self.round.clear();
        self.round_end = self.flight.next();
        let rate = self.measured();
        let queue = self.path.queue().unwrap_or(0.0);
        self.begin(Purpose::Settle, self.window, self.window, rate, queue);
    }

    /// Holds the queue at its target.
    fn cruise(&mut self, now: Time, news: News) {
        let News { newest, acked, is_limited, is_using, is_round } = news;
        let Some(queue) = self.path.queue() else { return };
        let rate = self.measured();
        let target = self.target(rate);
        if queue < target / 4.0 {
            self.standing.empty_at = now;
        }
        if self.step.is_some() {
            let Some(step) = self.advance_step(newest, queue) else { return };
            match step.purpose() {
                Purpose::Drain => {}
                Purpose::Excess | Purpose::Look => {
                    if let Some(share) = step.share() {
                        self.note_share(now, share, step.before());
                    }
                }
                Purpose::Settle => self.losses.cause.clear(),
            }
            return;
        }
        if self.path.bias().is_trying() {
            self.window = self.path.bias_mut().end().unwrap_or(self.window);
            return;
        }
        let turn = self.path.turn();
        if is_round
            && !is_limited
            && is_using
            && queue >= target / 2.0
            && self.path.bias_mut().begin(self.window, target, turn, self.flight.next())
        {
            self.growth = 0.0;
            self.window *= RAISE;
            return;
        }
        // The part of a round trip that has passed.
        let part = (acked / self.window).min(1.0);
        // An unused window causes no queue, so it is not reduced.
        if queue > 2.0 * target && is_using {
            let window = (self.window - rate * (queue - target)).max(self.window / 2.0);
            self.begin(Purpose::Excess, window, window, rate, queue);
        } else if queue > target && is_using || !is_limited {
            let error = (target - queue) * rate.min(2.0 * self.nominal());
            self.window += (GAIN * error * part).max(-self.window / 2.0);
            if queue >= target / 2.0 || is_limited {
                self.growth = 0.0;
            } else {
                if is_round {
                    let least = (target / self.path.rtt()).clamp(0.01, 0.1);
                    self.growth = (2.0 * self.growth).clamp(least, GROWTH);
                }
                self.window += self.growth * acked;
            }
            if queue <= LONG * target || is_limited {
                self.standing.yielded_from = None;
            }
            if self.window < MADE_ROOM * *self.standing.yielded_from.get_or_insert(self.window) {
                // We have yielded, and the queue is as long as before.
                self.standing.yielded_from = None;
                self.begin(Purpose::Look, 0.75 * self.window, self.window, rate, queue);
            } else if now.since(self.standing.empty_at) > self.path.memory() / 2 && !is_limited {
                // A short drain shows the path without our queue.
                self.standing.empty_at = now;
                let low = (self.window - rate * 1.25 * queue).max(self.window / 2.0);
                self.begin(Purpose::Drain, low, self.window, rate, queue);
            }
        }
    }

    /// Takes the `share` of the expected effect that a cut had on the queue. Several successive small
    /// shares mean that another flow fills the queue.
    fn note_share(&mut self, now: Time, share: f64, window: f64) {
        if share >= OTHER || window < FEW * self.datagram {
            self.standing.foreign = None;
            return;
        }
        let soon = Duration::from_secs_f64((40.0 * self.path.rtt()).clamp(5.0, 60.0));
        let (times, most) = match self.standing.foreign {
            Some(Foreign { at, times, most }) if now.since(at) < soon => {
                (times + 1, most.max(window))
            }
            Some(_) | None => (1, window),
        };
        self.standing.foreign = Some(Foreign { at: now, times, most });
        if times >= FOREIGN {
            let most = most.max(self.peak);
            self.window = self.window.max(0.85 * most);
            self.phase = Phase::Compete(Compete::new(now, most, self.window));
            self.standing.foreign = None;
        }
    }

    /// Takes a report in the present step; returns the step when it is over.
    fn advance_step(&mut self, newest: u64, queue: f64) -> Option<Step> {
        let (in_flight, next) = (self.in_flight(), self.flight.next());
        match self.step.as_mut()?.advance(in_flight, newest, next, queue) {
            Progress::Done => return self.step.take(),
            Progress::Restore(window) => self.window = window,
            Progress::Wait => {}
        }
        None
    }

    /// Cuts the window to `low` until the effect is measured, then sets it to `after`.
    fn begin(&mut self, purpose: Purpose, low: f64, after: f64, rate: f64, queue: f64) {
        self.growth = 0.0;
        let low = low.max(LEAST * self.datagram);
        let start = self.flight.next();
        self.step = Some(Step::new(purpose, [self.window, low, after], rate, queue, start));
        self.window = low;
    }
}
