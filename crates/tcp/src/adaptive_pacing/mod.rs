//! TCP-AP: NewReno decides whether a segment may be sent, and a pacer decides when.
//!
//! Along a chain of radios a segment disturbs later segments until it is some four hops away, so the next segment
//! waits:
//!
//! ```text
//!  queueing of a hop     t_q = (RTT / h - (s_d + s_a) / b) / 2
//!  delay of a hop        t_1 = t_q + s_d / b
//!  four-hop delay        FHD = 4 t_1, smoothed
//!  between segments      D = FHD (1 + 2 cov)     cov: deviation of FHD by its mean
//! ```
//!
//! where h is the number of hops, s_d and s_a the octets of a data frame and of an acknowledgement, b the rate of a
//! link. S. M. ElRakabawy, A. Klemm and C. Lindemann, "TCP with Adaptive Pacing for Multihop Wireless Networks",
//! MobiHoc 2005; and the authors' agent for ns-2.

pub(crate) mod config;

use std::collections::VecDeque;
use std::time::Duration;

pub use self::config::{
    Config, HopCountMode, HopSource, Hops, MOST_HISTORY, ShortPath, Variant, Variation,
};
use base::time::Time;

use super::congestion::{Ack, CongestionControl, Duplicate, Verdict, Window};
use super::newreno::NewReno;

/// What TCP-AP has measured.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Finding {
    /// Between segments now.
    pub interval: Duration,
    /// Hops of the last measured acknowledgement.
    pub hops: u8,
    /// The smoothed delay over the hops that count.
    pub delay: Duration,
    /// Delays taken.
    pub samples: u64,
    /// Round-trip times for which the hops were too few to be a path: not used.
    pub no_hops: u64,
    /// Queueing delays below nothing, taken for nothing: the rate or the octets of frames are less
    /// than configured.
    pub negative: u64,
    /// Delays beyond the bound, replaced or not used.
    pub beyond_bound: u64,
}

/// TCP with adaptive pacing.
#[derive(Clone, Debug)]
pub struct AdaptivePacing {
    config: Config,
    newreno: NewReno,
    /// Delays of the last segments, in seconds, oldest first.
    history: VecDeque<f64>,
    /// The smoothed delay over the hops that count.
    delay: Option<f64>,
    /// The mean queueing delay per hop.
    queueing: Option<f64>,
    interval: Duration,
    /// After a loss segments go as the window allows, until the next acknowledgement.
    is_paced: bool,
    finding: Finding,
}

/// The weight of the old value in the mean queueing delay, in the agent for ns-2.
const QUEUEING_GAIN: f64 = 0.5;

impl AdaptivePacing {
    /// Has measured nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            newreno: NewReno::new(config.growth),
            history: VecDeque::new(),
            delay: None,
            queueing: None,
            interval: config.initial_interval,
            is_paced: true,
            finding: Finding { interval: config.initial_interval, ..Finding::default() },
        }
    }

    /// What was measured so far.
    #[must_use]
    pub fn finding(&self) -> Finding {
        self.finding
    }

    /// Takes a round-trip time over so many hops, of segments with `mss` octets.
    fn measure(&mut self, rtt: Duration, hops: u8, mss: u64) {
        let Config { variant, reach, short_path, delay_bound, .. } = self.config;
        if hops == 0 {
            self.finding.no_hops += 1;
            return;
        }
        self.finding.hops = hops;
        let bound = delay_bound.as_secs_f64();
        let data = self.on_air(mss + u64::from(self.config.overhead));
        let answer = self.on_air(u64::from(self.config.overhead));
        let measured = (rtt.as_secs_f64() / f64::from(hops) - data - answer) / 2.0;
        self.finding.negative += u64::from(measured < 0.0);
        let mut queueing = measured.max(0.0);
        let is_replaced = variant == Variant::Ns2 && queueing > bound;
        self.finding.beyond_bound += u64::from(is_replaced);
        if variant == Variant::Ns2 {
            if queueing > bound {
                queueing = self.queueing.unwrap_or(queueing);
            } else {
                self.queueing = Some(match self.queueing {
                    Some(old) => QUEUEING_GAIN * old + (1.0 - QUEUEING_GAIN) * queueing,
                    None => queueing,
                });
            }
        }
        let counted = match short_path {
            _ if hops >= reach => reach.max(1),
            ShortPath::All => hops,
            ShortPath::OneHop => 1,
        };
        let delay = f64::from(counted) * (queueing + data);
        if delay <= 0.0 || delay >= bound {
            self.finding.beyond_bound += u64::from(!is_replaced);
            return;
        }
        self.take(delay);
    }

    fn take(&mut self, delay: f64) {
        let alpha = self.config.alpha.clamp(0.0, 1.0);
        let smoothed = self.delay.map_or(delay, |old| alpha * old + (1.0 - alpha) * delay);
        self.delay = Some(smoothed);
        let most = usize::from(self.config.history.clamp(1, MOST_HISTORY));
        while self.history.len() >= most {
            self.history.pop_front();
        }
        self.history.push_back(delay);
        self.interval = seconds(smoothed * (1.0 + 2.0 * self.variation()));
        self.finding.samples += 1;
        self.finding.interval = self.interval;
        self.finding.delay = seconds(smoothed);
    }

    /// The deviation of the delays from their mean, by that mean.
    fn variation(&self) -> f64 {
        let count = self.history.len().max(1) as f64;
        let mean = self.history.iter().sum::<f64>() / count;
        let errors = self.history.iter().map(|delay| (delay - mean).abs());
        let deviation = match self.config.variation {
            Variation::Mad => errors.sum::<f64>() / count,
            Variation::Stddev => (errors.map(|it| it * it).sum::<f64>() / count).sqrt(),
        };
        deviation / mean.max(f64::MIN_POSITIVE)
    }

    /// Seconds that octets take on a link.
    fn on_air(&self, octets: u64) -> f64 {
        octets as f64 * 8.0 / self.config.link_bits_per_s.max(1) as f64
    }

    /// An acknowledgement came: segments are paced again, and in the agent for ns-2 not between the
    /// ticks of its clock.
    fn resume(&mut self, now: Time, window: &mut Window) {
        self.is_paced = true;
        if self.config.variant == Variant::Published || self.interval.is_zero() {
            return;
        }
        let Some(tick) = window.next_send.filter(|tick| *tick < now) else { return };
        let missed = now.since(tick).as_nanos() / self.interval.as_nanos();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        let last = tick + self.interval.saturating_mul(missed);
        window.next_send = Some(if last == now { now } else { last + self.interval });
    }

    /// Segments go as the window allows.
    fn suspend(&mut self, window: &mut Window) {
        self.is_paced = false;
        window.next_send = None;
    }
}

impl CongestionControl for AdaptivePacing {
    fn on_ack(&mut self, now: Time, window: &mut Window, ack: &Ack) -> Verdict {
        if let Some(rtt) = ack.rtt {
            self.measure(rtt, self.config.hops.count(ack.ttl), window.mss);
        }
        self.resume(now, window);
        self.newreno.on_ack(now, window, ack)
    }

    fn on_duplicate(&mut self, now: Time, window: &mut Window, _duplicate: &Duplicate) -> Verdict {
        self.resume(now, window);
        Verdict::Continue
    }

    fn on_loss(&mut self, now: Time, window: &mut Window, flight: u64) {
        self.suspend(window);
        self.newreno.on_loss(now, window, flight);
    }

    fn on_timeout(&mut self, now: Time, window: &mut Window, flight: u64, is_first: bool) {
        self.suspend(window);
        self.newreno.on_timeout(now, window, flight, is_first);
    }

    fn on_mark(&mut self, now: Time, window: &mut Window, flight: u64) {
        // Nothing is lost: the pacer goes on.
        self.newreno.on_mark(now, window, flight);
    }

    fn on_sent(&mut self, now: Time, window: &mut Window, _octets: u64) {
        if self.is_paced {
            window.next_send = Some(now + self.interval);
        }
    }
}

/// A duration that is no less than nothing, and no more than can be said.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}
