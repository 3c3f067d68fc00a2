//! Changes of the window: in each phase, at the end of a round trip, and at a sign of congestion.

use std::time::Duration;

use base::time::Time;

use super::bias::RAISE;
use super::compete::Compete;
use super::ramp::Full;
use super::round::Ended;
use super::step::{Progress, Purpose, Step};
use super::trial::SMALL;
use super::{Feedback, LEAST, Phase, Rate};

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
/// With fewer datagrams in the window we never compete: their effect on a queue is too small to
/// measure.
const FEW: f64 = 8.0;
/// Round trips between checks whether the queue is ours.
const LOOK: u32 = 48;
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
pub(super) enum Sign {
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
pub(super) struct Standing {
    /// The change of the minimum delay from one round trip to the next, in seconds.
    pub(super) noise: f64,
    /// The queue at the end of the last round trip.
    last_queue: f64,
    /// When the queue was last nearly empty.
    empty_at: Time,
    /// The length of a queue that was marked, in seconds; we stay below it for a while.
    pub(super) marked: f64,
    /// The window when the queue became longer than its target.
    yielded_from: Option<f64>,
    foreign: Option<Foreign>,
}

impl Standing {
    pub(super) fn new(now: Time) -> Self {
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
    pub(super) fn forget(&mut self, now: Time) {
        *self = Self { last_queue: self.last_queue, ..Self::new(now) };
    }
}

impl Rate {
    /// Acts on the results of a round trip.
    pub(super) fn end_round(&mut self, now: Time, ended: &Ended) {
        let nominal = self.nominal();
        let rate = self.path.delivery.rate().unwrap_or(nominal);
        let target = self.target(rate);
        self.peak = (self.peak * (1.0 - (self.path.rtt.smoothed / 20.0).min(0.5))).max(self.window);
        self.standing.marked *= 1.02;
        if matches!(self.phase, Phase::Startup)
            && let Some(full) = self.losses.ramp.handle_round(ended)
        {
            self.fill(full);
            return;
        }
        let is_by_loss = matches!(self.phase, Phase::Compete(compete) if compete.is_by_loss);
        let high = match self.phase {
            Phase::Compete(_) => 1.2,
            Phase::Cruise => 2.0,
            Phase::Startup => f64::MAX,
        };
        if is_by_loss && let Some(loss) = self.acquit(ended) {
            self.losses.ambient.mean = loss;
            self.phase = Phase::Cruise;
            return;
        }
        let is_more = if is_by_loss {
            if let Some(path) = self.losses.cause.path() {
                self.losses.ambient.mean = self.losses.ambient.mean.min(path);
            }
            self.losses.ambient.is_rising(ended) || self.losses.ambient.is_exceeded(ended)
        } else {
            self.losses.ambient.is_exceeded(ended)
        };
        let is_congestion = is_more && !self.losses.blame.is_testing();
        if let Phase::Compete(compete) = &mut self.phase {
            compete.note(ended.sent, is_congestion);
        }
        let is_short = ended.queue <= high * target;
        if is_congestion && (is_by_loss || !is_short) {
            self.yield_way(now, Sign::Loss);
        } else if !is_by_loss && (is_short || !self.losses.ambient.is_known()) {
            self.losses.ambient.learn(ended);
        }
        self.losses.ambient.note(ended);
        let loss =
            [self.losses.ambient.mean, self.losses.ambient.recent, self.losses.ambient.spread()];
        // What is in flight without a queue.
        let part = self.min_rtt().as_secs_f64() / self.path.rtt.smoothed.max(1e-5);
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
            self.losses.ambient.mean = self.losses.ambient.mean.min(path);
            self.losses.cause.clear();
            self.yield_to_losses(now, self.window);
            return;
        }
        if let (Some(queue), Phase::Cruise, None) = (self.path.queue(), self.phase, self.step) {
            self.standing.noise +=
                ((queue - self.standing.last_queue).abs() - self.standing.noise) / 8.0;
            self.standing.last_queue = queue;
        }

        if let Phase::Compete(compete) = &mut self.phase {
            // Where congestion shows by loss alone, the queue is always short.
            let is_quiet = if is_by_loss { !is_congestion } else { ended.queue <= target };
            compete.quiet = if is_quiet { compete.quiet + 1 } else { 0 };
            if compete.quiet >= if is_by_loss { LONG_QUIET } else { QUIET } {
                self.phase = Phase::Cruise;
            }
        }
    }

    /// Acts on a sign of congestion. Data sent before it gives no second sign.
    pub(super) fn yield_way(&mut self, now: Time, sign: Sign) {
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
        let queue = self.round.queue.max(self.path.queue().unwrap_or(0.0));
        let target = self.target(self.path.delivery.rate().unwrap_or(self.nominal()));
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
        if let Some(loss) = self.losses.blame.refuted(ended) {
            return Some(loss);
        }
        let loss = self.losses.cause.is_path()?;
        self.losses.blame.acquit(loss);
        Some(loss)
    }

    /// Waits for the effect of the small window on the losses.
    pub(super) fn test(&mut self, now: Time, report: &Feedback) {
        let fits = self.in_flight() <= self.window;
        let numbers = [report.newest, report.received, self.flight.next()];
        let Some(verdict) = self.losses.blame.advance(now, numbers, fits, self.rtt()) else {
            return;
        };
        self.losses.ambient.mean = verdict.loss;
        self.round.clear();
        if verdict.is_ours {
            self.losses.ambient.recent = verdict.loss;
            self.yield_to_losses(now, self.window / SMALL);
        } else {
            self.window = verdict.window;
        }
    }

    /// Follows CUBIC with loss as the sign, from a window of `most` octets that caused losses.
    fn yield_to_losses(&mut self, now: Time, most: f64) {
        self.step = None;
        self.growth = 0.0;
        self.window = 0.7 * most;
        let mut compete = Compete::new(now, most, self.window);
        compete.is_by_loss = true;
        self.phase = Phase::Compete(compete);
    }

    /// Ends a test without a verdict.
    pub(super) fn end_test(&mut self, now: Time) {
        if let Some(verdict) = self.losses.blame.abandon(now, self.rtt()) {
            self.window = verdict.window;
        }
    }

    /// Competes for a share with flows that fill the buffer.
    pub(super) fn compete(
        &mut self,
        now: Time,
        mut compete: Compete,
        acked: f64,
        is_limited: bool,
        is_round: bool,
        newest: u64,
    ) {
        let Some(queue) = self.path.queue() else { return };
        let rate = self.path.delivery.rate().unwrap_or(self.nominal());
        let target = self.target(rate);
        if let Some(mut step) = self.step {
            match step.advance(self.in_flight(), newest, self.flight.next(), queue) {
                Progress::Wait => self.step = Some(step),
                Progress::Restore(window) => {
                    self.window = window;
                    self.step = Some(step);
                }
                Progress::Done => {
                    self.step = None;
                    let is_own = step.share().is_some_and(|share| share > OWN);
                    compete.own = if is_own { compete.own + 1 } else { 0 };
                    compete.look_in = if is_own { 4 } else { LOOK };
                }
            }
        } else if !is_limited {
            let rtt = self.rtt();
            self.window = compete.grow(now, self.window, acked, rtt, self.datagram);
        }
        if is_round {
            compete.look_in = compete.look_in.saturating_sub(1);
        }
        let is_free = queue < target / 2.0 && compete.is_beyond(self.window);
        let enough = if compete.is_by_loss { 8 } else { 4 };
        if compete.own >= enough || is_free && !compete.is_by_loss {
            self.phase = Phase::Cruise;
            self.standing.foreign = None;
            return;
        }
        if compete.look_in == 0 && self.step.is_none() && queue > 1.5 * target && !is_limited {
            let window = self.window;
            self.begin(Purpose::Look, 0.75 * window, window, rate, queue);
        }
        self.phase = Phase::Compete(compete);
    }

    /// Doubles the window in each round trip until the queue grows.
    pub(super) fn start(&mut self, acked: f64, is_limited: bool) {
        if !is_limited {
            self.window += acked;
        }
        let (Some(queue), Some(rate)) = (self.path.queue(), self.path.delivery.rate()) else {
            return;
        };
        let target = self.target(rate);
        // Where nothing is lost, a delay that jitters may be no queue.
        let doubtful = if self.losses.cause.has_losses() {
            0.0
        } else {
            self.path.bias.doubtful(self.datagram / rate.max(1.0))
        };
        if queue > target + doubtful.min(DOUBTFUL * self.min_rtt().as_secs_f64()) {
            self.phase = Phase::Cruise;
            // The queue has stood for less than the time over which the rate was measured.
            let rate = rate.max(self.path.delivery.newest_rate().unwrap_or(rate));
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
        self.window = (full.datagrams * self.datagram).clamp(LEAST * self.datagram, self.window);
        self.losses.ambient.set(full.loss);
        self.round.clear();
        self.round_end = self.flight.next();
        let rate = self.path.delivery.rate().unwrap_or(self.nominal());
        let queue = self.path.queue().unwrap_or(0.0);
        self.begin(Purpose::Settle, self.window, self.window, rate, queue);
    }

    /// Holds the queue at its target.
    pub(super) fn cruise(
        &mut self,
        now: Time,
        acked: f64,
        is_limited: bool,
        is_using: bool,
        is_round: bool,
        newest: u64,
    ) {
        let Some(queue) = self.path.queue() else { return };
        let nominal = self.nominal();
        let rate = self.path.delivery.rate().unwrap_or(nominal);
        let target = self.target(rate);
        if queue < target / 4.0 {
            self.standing.empty_at = now;
        }
        if let Some(mut step) = self.step {
            match step.advance(self.in_flight(), newest, self.flight.next(), queue) {
                Progress::Done => {
                    self.step = None;
                    if step.purpose == Purpose::Settle {
                        self.losses.cause.clear();
                    }
                    if matches!(step.purpose, Purpose::Excess | Purpose::Look)
                        && let Some(share) = step.share()
                    {
                        self.note_share(now, share, step.before);
                    }
                }
                Progress::Restore(window) => {
                    self.window = window;
                    self.step = Some(step);
                }
                Progress::Wait => self.step = Some(step),
            }
            return;
        }
        if self.path.bias.is_trying() {
            self.window = self.path.bias.end().unwrap_or(self.window);
            return;
        }
        let turn = self.path.turn.smoothed;
        if is_round
            && !is_limited
            && is_using
            && queue >= target / 2.0
            && self.path.bias.begin(self.window, target, turn, self.flight.next())
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
            let error = (target - queue) * rate.min(2.0 * nominal);
            self.window += (GAIN * error * part).max(-self.window / 2.0);
            if queue >= target / 2.0 || is_limited {
                self.growth = 0.0;
            } else {
                if is_round {
                    let least = (target / self.path.rtt.smoothed).clamp(0.01, 0.1);
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
        let soon = Duration::from_secs_f64((40.0 * self.path.rtt.smoothed).clamp(5.0, 60.0));
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

    /// Cuts the window to `low` until the effect is measured, then sets it to `after`.
    fn begin(&mut self, purpose: Purpose, low: f64, after: f64, rate: f64, queue: f64) {
        self.growth = 0.0;
        let low = low.max(LEAST * self.datagram);
        let start = self.flight.next();
        self.step = Some(Step::new(purpose, [self.window, low, after], rate, queue, start));
        self.window = low;
    }
}
