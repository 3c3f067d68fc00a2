//! BBR, version 1: a window and a pace that follow the capacity of the path, regardless of losses.
//!
//! ```text
//!  Startup    the pace grows by 2.885 each round, until the rate no longer does for three rounds
//!     ▼
//!  Drain      the queue that this made is emptied
//!     ▼
//!  ProbeBw    for a round trip each: 1.25 of the rate, 0.75, and six times the rate itself
//!     ▼ ▲
//!  ProbeRtt   when the least round-trip time is 10 s old: four segments for 200 ms
//! ```
//!
//! N. Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14 (2016), and
//! draft-cardwell-iccrg-bbr-congestion-control-00, as Linux has it under the name `bbr`. Losses do not slow BBR down,
//! so BBR represents present-day senders; the tunnel must not do worse. A part of Linux missing here is the detection of
//! token-bucket policers.

mod clumps;
mod rate;

use std::time::Duration;

use base::time::Time;

use self::clumps::Clumps;
use self::rate::{MaxFilter, Sampler};
use super::congestion::{Ack, CongestionControl, Delivery, Duplicate, Verdict, Window};

/// 2 / ln 2: the least gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2.885;
/// The window as a multiple of the path's content in a round trip, so that late and joint acknowledgements do not stop
/// the sender.
const WINDOW_GAIN: f64 = 2.0;
/// The gains of the pace, one for a round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The pace stays this much below the rate.
const MARGIN: f64 = 0.99;
/// Startup ends when the rate has grown by less than a quarter for so many rounds.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// How long a least round-trip time counts, and how long it is looked for.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Segments in flight at least.
const MIN_SEGMENTS: u64 = 4;
/// Linux hands the device bursts of a millisecond at its pace, of at least two segments and at most 64 kB
/// (`bbr_tso_segs_goal`). The window has room for three bursts more: on a short path one burst is more than a round trip
/// holds.
const BURST: Duration = Duration::from_millis(1);
const LEAST_BURST: u64 = 2;
const MOST_BURST: u64 = 64 << 10;
const BURSTS: u64 = 3;
/// Below this pace, in octets a second, a burst is a segment.
const SLOW: f64 = 150_000.0;

/// The congestion control.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    sampler: Sampler,
    rates: MaxFilter,
    clumps: Clumps,
    srtt: Duration,
    min_rtt: Option<MinRtt>,
    round: Round,
    full: Full,
    /// The window before a recovery, a timeout or a look at the round-trip time.
    prior_cwnd: u64,
    /// The round in which a recovery began: what leaves the network is replaced, and no more.
    conserves: bool,
}

/// What BBR has found out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Finding {
    /// Octets of payload per second that the path carries.
    pub rate: u64,
    /// The least round-trip time.
    pub min_rtt: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Drain,
    ProbeBw {
        phase: usize,
        since: Time,
    },
    /// Until when, once the flight is small.
    ProbeRtt {
        until: Option<Time>,
    },
    Startup,
}

#[derive(Clone, Copy, Debug)]
struct MinRtt {
    value: Duration,
    at: Time,
}

/// Rounds: each ends when all data in flight at its beginning has left the network.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    count: u64,
    ends_at: u64,
}

/// Whether the rate still grows.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    rate: f64,
    rounds: u32,
    is_reached: bool,
}

impl Default for Bbr {
    fn default() -> Self {
        Self {
            mode: Mode::Startup,
            sampler: Sampler::default(),
            rates: MaxFilter::default(),
            clumps: Clumps::default(),
            srtt: Duration::ZERO,
            min_rtt: None,
            round: Round::default(),
            full: Full::default(),
            prior_cwnd: 0,
            conserves: false,
        }
    }
}

impl Bbr {
    /// The present estimates.
    #[must_use]
    pub fn finding(&self) -> Finding {
        Finding { rate: octets(self.rates.max()), min_rtt: self.min_rtt() }
    }

    fn handle(
        &mut self,
        now: Time,
        window: &mut Window,
        delivery: Delivery,
        rtt: [Option<Duration>; 2],
    ) {
        let [fresh, smoothed] = rtt;
        self.srtt = smoothed.or(fresh).unwrap_or(self.srtt);
        let acked = delivery.total.saturating_sub(self.sampler.delivered());
        let rate = self.sampler.take(now, delivery, self.min_rtt());
        let is_new_round = delivery.total >= self.round.ends_at;
        if is_new_round {
            self.round.count += 1;
            self.round.ends_at = delivery.total + delivery.in_flight.max(1);
            self.conserves = false;
        }
        if let Some(rate) = rate
            && (!delivery.is_app_limited || rate > self.rates.max())
        {
            self.rates.add(self.round.count, rate);
        }
        self.clumps.take(now, acked, self.rates.max(), window.cwnd, is_new_round);
        if is_new_round && !delivery.is_app_limited {
            self.full.look(self.rates.max());
        }
        self.turn(now, delivery.in_flight, window.mss);
        self.take_rtt(now, window, fresh, delivery.in_flight);
        self.set_window(window, acked, delivery);
    }

    /// From one mode to the next.
    fn turn(&mut self, now: Time, in_flight: u64, mss: u64) {
        if self.mode == Mode::Startup && self.full.is_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && in_flight <= self.content(1.0, mss) {
            self.mode = Self::cruise(now);
        }
        let Mode::ProbeBw { phase, since } = self.mode else { return };
        let min_rtt = self.min_rtt();
        let has_lasted = now.since(since) > min_rtt;
        let is_over = match CYCLE[phase] {
            // Until the queue shows that more is not carried.
            gain if gain > 1.0 => {
                has_lasted && (self.conserves || in_flight >= self.content(gain, mss))
                    || now.since(since) > 2 * min_rtt
            }
            gain if gain < 1.0 => has_lasted || in_flight <= self.content(1.0, mss),
            _ => has_lasted,
        };
        if is_over {
            self.mode = Mode::ProbeBw { phase: (phase + 1) % CYCLE.len(), since: now };
        }
    }

    /// Begins the cycle at any phase except the slow one, so that flows do not probe together.
    fn cruise(now: Time) -> Mode {
        let place = usize::try_from(now.as_nanos() % 7).unwrap_or(0);
        Mode::ProbeBw { phase: if place == 0 { 0 } else { place + 1 }, since: now }
    }

    /// Takes a round-trip time, and looks for a shorter one when the least is old.
    fn take_rtt(
        &mut self,
        now: Time,
        window: &mut Window,
        fresh: Option<Duration>,
        in_flight: u64,
    ) {
        let is_old = self.min_rtt.is_some_and(|least| now.since(least.at) > MIN_RTT_WINDOW);
        if let Some(rtt) = fresh
            && (is_old || self.min_rtt.is_none_or(|least| rtt <= least.value))
        {
            self.min_rtt = Some(MinRtt { value: rtt, at: now });
        }
        match self.mode {
            Mode::ProbeRtt { until: None } => {
                if in_flight <= MIN_SEGMENTS * window.mss {
                    self.mode = Mode::ProbeRtt { until: Some(now + PROBE_RTT) };
                }
            }
            Mode::ProbeRtt { until: Some(until) } => {
                if now >= until {
                    if let Some(least) = &mut self.min_rtt {
                        least.at = now;
                    }
                    window.cwnd = window.cwnd.max(self.prior_cwnd);
                    self.mode =
                        if self.full.is_reached { Self::cruise(now) } else { Mode::Startup };
                }
            }
            Mode::Drain | Mode::ProbeBw { .. } | Mode::Startup => {
                if is_old {
                    self.prior_cwnd = window.cwnd;
                    self.mode = Mode::ProbeRtt { until: None };
                }
            }
        }
    }

    fn set_window(&self, window: &mut Window, acked: u64, delivery: Delivery) {
        let least = MIN_SEGMENTS * window.mss;
        if self.conserves {
            window.cwnd = window.cwnd.max(delivery.in_flight + acked);
        } else {
            let content = self.content(self.window_gain(), window.mss);
            let clumps = if self.full.is_reached { self.clumps.most(self.rates.max()) } else { 0 };
            let target = content + clumps;
            let grown = window.cwnd.saturating_add(acked);
            if self.full.is_reached {
                window.cwnd = grown.min(target);
            } else if window.cwnd < target || self.rates.max() == 0.0 {
                window.cwnd = grown;
            }
        }
        window.cwnd = window.cwnd.max(least);
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            window.cwnd = window.cwnd.min(least);
        }
    }

    /// What the path holds without a queue, times a gain, and three bursts, in octets.
    fn content(&self, gain: f64, mss: u64) -> u64 {
        let least = self.min_rtt().as_secs_f64();
        octets(gain * self.rates.max() * least) + BURSTS * self.burst(mss)
    }

    /// Octets that Linux sends at once.
    fn burst(&self, mss: u64) -> u64 {
        let pace = self.rates.max() * MARGIN * self.pace_gain();
        let least = if pace < SLOW { 1 } else { LEAST_BURST };
        octets(pace * BURST.as_secs_f64()).min(MOST_BURST).max(least * mss)
    }

    fn min_rtt(&self) -> Duration {
        self.min_rtt.map(|it| it.value).unwrap_or_default()
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            Mode::Drain | Mode::Startup => HIGH_GAIN,
            Mode::ProbeBw { .. } => WINDOW_GAIN,
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    fn pace_gain(&self) -> f64 {
        match self.mode {
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw { phase, .. } => CYCLE[phase],
            Mode::ProbeRtt { .. } => 1.0,
            Mode::Startup => HIGH_GAIN,
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, now: Time, window: &mut Window, ack: &Ack) -> Verdict {
        self.handle(now, window, ack.delivery, [ack.rtt, ack.srtt]);
        Verdict::Continue
    }

    fn on_duplicate(&mut self, now: Time, window: &mut Window, duplicate: &Duplicate) -> Verdict {
        self.handle(now, window, duplicate.delivery, [None, None]);
        Verdict::Continue
    }

    /// For a round only what has left the network is replaced; the rate stays.
    fn on_loss(&mut self, _now: Time, window: &mut Window, flight: u64) {
        self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
        window.ssthresh = self.prior_cwnd;
        window.cwnd = window.cwnd.min(flight.max(MIN_SEGMENTS * window.mss));
        self.conserves = true;
    }

    fn on_recovered(&mut self, _now: Time, window: &mut Window, _flight: u64) {
        window.cwnd = window.cwnd.max(std::mem::take(&mut self.prior_cwnd));
        self.conserves = false;
    }

    fn on_timeout(&mut self, _now: Time, window: &mut Window, _flight: u64, is_first: bool) {
        if is_first {
            self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
        }
        // All data in flight counts as lost, so the flight is empty; the window grows as in Startup.
        window.cwnd = window.mss;
        self.full.rate = 0.0;
        self.conserves = false;
    }

    /// Version 1 does not know marks.
    fn on_mark(&mut self, _now: Time, _window: &mut Window, _flight: u64) {}

    fn on_sent(&mut self, now: Time, window: &mut Window, sent: u64) {
        self.sampler.note_sent(now);
        let rate = match self.rates.max() {
            // Only the window is known: treat it as the flight of a short round trip.
            0.0 => window.cwnd as f64 / self.srtt.as_secs_f64().max(1e-3),
            rate => rate * MARGIN,
        };
        let takes = sent as f64 / (rate * self.pace_gain()).max(1.0);
        let takes = Duration::try_from_secs_f64(takes).unwrap_or(Duration::MAX);
        let due = window.next_send.filter(|due| *due > now).unwrap_or(now);
        window.next_send = Some(due + takes);
    }
}

impl Full {
    /// A round is over in which this was the greatest rate.
    fn look(&mut self, rate: f64) {
        if self.is_reached || rate == 0.0 {
            return;
        }
        if rate >= self.rate * FULL_GROWTH {
            (self.rate, self.rounds) = (rate, 0);
            return;
        }
        self.rounds += 1;
        self.is_reached = self.rounds >= FULL_ROUNDS;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion stops at the ends of the range, as it should"
)]
fn octets(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_round_trip_is_old_after_ten_seconds() {
        let mut window = Window { cwnd: 10_000, ssthresh: u64::MAX, mss: 1_000, next_send: None };
        let mut bbr = Bbr::default();
        let mut least = |at, ms| {
            bbr.take_rtt(Time::from_nanos(at), &mut window, Some(Duration::from_millis(ms)), 0);
            bbr.min_rtt.expect("one was taken").value.as_millis()
        };

        assert_eq!(least(0, 100), 100);
        assert_eq!(least(10_000_000_000, 200), 100);
        assert_eq!(least(10_000_000_001, 200), 200);
    }

    #[test]
    fn a_burst_is_a_millisecond_of_the_pace() {
        let burst = |rate| {
            let mut bbr = Bbr { mode: Mode::ProbeRtt { until: None }, ..Bbr::default() };
            bbr.rates.add(0, rate);
            bbr.burst(1_000)
        };

        assert_eq!(burst(100_000.0), 1_000);
        assert_eq!(burst(1_000_000.0), 2_000);
        assert_eq!(burst(10_000_000.0), 9_900);
        assert_eq!(burst(1e9), 65_536);
    }
}
