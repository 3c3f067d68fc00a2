//! CUBIC: the window grows with the time since the last loss (RFC 9438).
//!
//! ```text
//!  cwnd                                        .     convex: beyond what was lost at,
//!  W_max ─ ─ ─ ─ ─ ─ ─ ─ ─ . . . ─ ─ ─ ─ . . '       slowly, then ever faster
//!                   . '              K
//!               . '
//!  β W_max  . '          concave: soon back to where the loss was, then careful
//! ```

use std::time::Duration;

use base::time::Time;

use super::congestion::{Ack, CongestionControl, Verdict, Window};
use super::hystart::{HyStart, Phase};

/// RFC 9438, 4.6: the part of the window left after a loss.
const BETA: f64 = 0.7;
/// RFC 9438, 5: how fast the curve is, in segments per cubic second.
const C: f64 = 0.4;
/// RFC 9438, 4.3: a Reno with this increase and a reduction by beta only has the mean window of a Reno that halves.
const RENO_ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// RFC 3465, 2.2: segments by which one acknowledgement opens the window in slow start.
const SLOW_START_LIMIT: u64 = 2;

/// The congestion control of most hosts.
#[derive(Clone, Debug)]
pub struct Cubic {
    fast_convergence: bool,
    hystart: Option<HyStart>,
    /// The window at the last loss, in segments; `None` before one and after a timeout.
    w_max: Option<f64>,
    /// The window just before the last reduction, in segments.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    last_ack_at: Option<Time>,
    /// Growth of the window still below one octet.
    below_octet: f64,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// The flat point of the curve: its time, in seconds, and its height, in segments.
    k: f64,
    plateau: f64,
    /// The window of a Reno beside us, in segments.
    w_est: f64,
}

impl Cubic {
    /// Starts in slow start; with `hystart` that ends when the round-trip time grows (RFC 9406).
    #[must_use]
    pub fn new(fast_convergence: bool, hystart: bool) -> Self {
        Self {
            fast_convergence,
            hystart: hystart.then(HyStart::default),
            w_max: None,
            cwnd_prior: 0.0,
            epoch: None,
            last_ack_at: None,
            below_octet: 0.0,
        }
    }

    fn slow_start(&mut self, window: &mut Window, ack: &Ack) {
        // Only the first slow start knows nothing of the path (RFC 9406, 4.3).
        let hystart = self.hystart.as_mut().filter(|_| window.ssthresh == u64::MAX);
        let Some(hystart) = hystart else {
            window.cwnd += ack.octets.min(SLOW_START_LIMIT * window.mss);
            return;
        };
        let octets = ack.octets.min(HyStart::LIMIT * window.mss);
        match hystart.handle_ack(ack) {
            Phase::SlowStart => window.cwnd += octets,
            Phase::Conservative => window.cwnd += octets / HyStart::GROWTH_DIVISOR,
            Phase::Done => window.ssthresh = window.cwnd,
        }
    }

    fn avoid_congestion(&mut self, now: Time, window: &mut Window, ack: &Ack) {
        let mss = window.mss as f64;
        let cwnd = window.cwnd as f64 / mss;
        let acked = ack.octets as f64 / mss;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(now, cwnd, self.w_max));

        let alpha = if epoch.w_est < self.cwnd_prior { RENO_ALPHA } else { 1.0 };
        epoch.w_est += alpha * acked / cwnd;
        let age = now.since(epoch.start);
        let growth = if epoch.w_cubic(age) < epoch.w_est {
            (epoch.w_est - cwnd).max(0.0)
        } else {
            let rtt = ack.srtt.or(ack.rtt).unwrap_or_default();
            let target = epoch.w_cubic(age + rtt).clamp(cwnd, 1.5 * cwnd);
            acked * (target - cwnd) / cwnd
        };
        self.below_octet += growth * mss;
        let whole = octets(self.below_octet);
        self.below_octet -= whole as f64;
        window.cwnd += whole;
    }

    /// RFC 9438, 4.6 and 4.7; returns the reduced window, in octets.
    fn reduce(&mut self, window: &Window, flight: u64) -> u64 {
        let cwnd = window.cwnd as f64 / window.mss as f64;
        let has_lost_ground = self.w_max.is_some_and(|w_max| cwnd < w_max);
        let give_way =
            if self.fast_convergence && has_lost_ground { 0.5 + 0.5 * BETA } else { 1.0 };
        self.w_max = Some(cwnd * give_way);
        self.cwnd_prior = cwnd;
        self.epoch = None;
        self.below_octet = 0.0;
        // After one recovery by SACK, what is in flight can be far more than the window.
        octets(flight.min(window.cwnd) as f64 * BETA)
    }
}

impl Epoch {
    /// RFC 9438, 4.2; without an earlier loss, or beyond its window, the curve starts at its flat point.
    fn new(start: Time, cwnd: f64, w_max: Option<f64>) -> Self {
        let plateau = w_max.unwrap_or(cwnd).max(cwnd);
        Self { start, k: libm::cbrt((plateau - cwnd) / C), plateau, w_est: cwnd }
    }

    /// RFC 9438, 4.2, Figure 1: the window at this age, in segments.
    fn w_cubic(&self, age: Duration) -> f64 {
        let from_k = age.as_secs_f64() - self.k;
        C * from_k * from_k * from_k + self.plateau
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, now: Time, window: &mut Window, ack: &Ack) -> Verdict {
        let last_ack_at = self.last_ack_at.replace(now).unwrap_or(now);
        if ack.in_recovery || !ack.is_window_limited {
            // RFC 9438, 5.8: the curve stands still meanwhile.
            if let Some(epoch) = &mut self.epoch {
                epoch.start += now.since(last_ack_at);
            }
            return Verdict::Continue;
        }
        if window.cwnd < window.ssthresh {
            self.slow_start(window, ack);
        } else {
            self.avoid_congestion(now, window, ack);
        }
        Verdict::Continue
    }

    fn on_loss(&mut self, _now: Time, window: &mut Window, flight: u64) {
        window.ssthresh = self.reduce(window, flight).max(2 * window.mss);
        window.cwnd = window.ssthresh;
    }

    /// RFC 9438, 4.8: previous knowledge of the path no longer counts.
    fn on_timeout(&mut self, _now: Time, window: &mut Window, flight: u64, is_first: bool) {
        if is_first {
            window.ssthresh = self.reduce(window, flight).max(2 * window.mss);
        }
        self.epoch = None;
        self.w_max = None;
        window.cwnd = window.mss;
    }

    fn on_mark(&mut self, _now: Time, window: &mut Window, flight: u64) {
        let left = self.reduce(window, flight);
        window.ssthresh = left.max(2 * window.mss);
        window.cwnd = left.max(window.mss);
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
