//! Estimates the round-trip time and the retransmission timeout (RFC 6298).

use std::time::Duration;

use super::config::Rto;

/// A timer of zero would make a driver spin.
const FLOOR: Duration = Duration::from_micros(1);

/// An estimate of the round-trip time.
#[derive(Clone, Debug)]
pub struct Estimator {
    config: Rto,
    estimate: Option<Estimate>,
    /// The timeout without backing off, within its bounds.
    base: Duration,
    /// The present timeout, after backing off.
    current: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    srtt: Duration,
    rttvar: Duration,
}

impl Estimator {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(config: Rto) -> Self {
        let mut estimator =
            Self { config, estimate: None, base: config.initial, current: config.initial };
        estimator.set(config.initial);
        estimator
    }

    /// Takes a round-trip time; it ends any backing off.
    pub fn sample(&mut self, rtt: Duration) {
        let Rto { alpha, beta, k, granularity, min, max, .. } = self.config;
        let Estimate { srtt, rttvar } = match self.estimate {
            None => Estimate { srtt: rtt, rttvar: rtt / 2 },
            Some(Estimate { srtt, rttvar }) => Estimate {
                // The deviation is from the mean before this sample.
                rttvar: mix(rttvar, srtt.abs_diff(rtt), beta),
                srtt: mix(srtt, rtt, alpha),
            },
        };
        self.estimate = Some(Estimate { srtt, rttvar });
        let rto = srtt.saturating_add(scale(rttvar, k).max(granularity));
        self.set(rto.max(min).min(max));
    }

    /// The timer expired: the next timeout is longer.
    pub fn back_off(&mut self) {
        let longer = scale(self.current, self.config.backoff.max(1.0));
        self.current = longer.min(self.config.max.max(self.base));
    }

    /// Data starts after a handshake that timed out (RFC 6298, 5.7).
    pub fn start_after_syn_timeout(&mut self) {
        if self.estimate.is_none() {
            self.set(self.config.initial.max(self.config.after_syn_timeout));
        }
    }

    /// What was backed off no longer counts.
    pub fn start(&mut self) {
        self.current = self.base;
    }

    /// The handshake starts.
    pub fn start_handshake(&mut self) {
        self.current = self.config.syn.max(FLOOR);
    }

    /// The present retransmission timeout, including back-off.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.current
    }

    /// The smoothed round-trip time, once known.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.srtt)
    }

    /// The smoothed deviation, once known.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.rttvar)
    }

    fn set(&mut self, rto: Duration) {
        self.base = rto.max(FLOOR);
        self.current = self.base;
    }
}

/// `old` moved towards `new` by the share `gain`.
fn mix(old: Duration, new: Duration, gain: f64) -> Duration {
    scale(old, 1.0 - gain).saturating_add(scale(new, gain))
}

/// `duration` times a factor that may be anything, to the nearest nanosecond.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion stops at the ends of the range, as it should"
)]
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::from_nanos((duration.as_secs_f64() * 1e9 * factor + 0.5) as u64)
}
