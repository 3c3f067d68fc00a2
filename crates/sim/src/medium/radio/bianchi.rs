//! Bianchi's model of saturated stations in range of each other (IEEE JSAC 18(3), 2000), with a retry limit.
//!
//! A refinement models back-off counters that stand still while the channel is busy. Both variants solve one
//! equation: the probability of sending in a slot determines the probability of a collision, and vice versa.

use std::time::Duration;

use super::{AirTime, Config, FrameKind};

/// What happens to a back-off counter when others send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counting {
    /// The counter goes down by one, as in Bianchi's chain.
    Down,
    /// It stands still, as in IEEE 802.11 and in [`super::Medium`]. Then only those who have just sent can
    /// send again right after the gap.
    Frozen,
}

/// Results of the model for a saturated channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// The probability with which a station sends in a slot.
    pub attempt: f64,
    /// The probability that an attempt collides.
    pub collision: f64,
    /// Octets of packets that all stations together bring to their receivers in a second.
    pub octets_per_s: f64,
}

/// Computes the saturation behaviour of `stations` with packets of equal length on a channel.
///
/// Packets above the RTS threshold go behind an RTS.
#[must_use]
pub fn saturation(config: &Config, stations: u32, octets: u32, counting: Counting) -> Saturation {
    let stations = f64::from(stations.max(1));
    let others = stations - 1.0;
    let collision = |attempt: f64| 1.0 - libm::pow(1.0 - attempt, others);
    let has_rts = octets.saturating_add(config.header) > config.rts_threshold;
    let windows = Windows::new(config);

    // The more often stations send, the more collide, and the less often they send: one crossing.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if windows.attempt(collision(middle), counting) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    let attempt = low;

    let air = AirTime::new(config);
    let seconds = |time: Duration| time.as_secs_f64();
    let (slot, eifs) = (seconds(config.slot), seconds(config.eifs));
    let (exchange, first) = if has_rts {
        (air.exchange(octets), air.frame(FrameKind::Rts, 0))
    } else {
        (air.short_exchange(octets), air.frame(FrameKind::Data, octets))
    };
    let (success, failure) = (seconds(exchange), seconds(first) + eifs);
    let is_idle = libm::pow(1.0 - attempt, stations);
    let one = stations * attempt * libm::pow(1.0 - attempt, others);
    let several = 1.0 - is_idle - one;
    let (successes, time) = match counting {
        Counting::Down => (one, is_idle * slot + one * success + several * failure),
        Counting::Frozen => {
            // Who has just sent draws 0 once in a window, and then is alone.
            let again = 1.0 / windows.slots(0);
            let successes = (one + several * 2.0 / windows.slots(1)) / (1.0 - again);
            (successes, slot + successes * success + several * failure)
        }
    };
    Saturation {
        attempt,
        collision: collision(attempt),
        octets_per_s: successes * f64::from(octets) / time,
    }
}

/// The windows of one attempt after the other.
struct Windows {
    least: u32,
    most: u32,
    attempts: u8,
}

impl Windows {
    fn new(config: &Config) -> Self {
        Self { least: config.cw_min, most: config.cw_max, attempts: config.short_retries }
    }

    /// Among how many numbers of slots an attempt chooses.
    fn slots(&self, attempt: u8) -> f64 {
        let doubled = (f64::from(self.least) + 1.0) * libm::pow(2.0, f64::from(attempt));
        doubled.min(f64::from(self.most) + 1.0)
    }

    /// How often a station sends in a slot when so many attempts collide.
    fn attempt(&self, collision: f64, counting: Counting) -> f64 {
        let (mut sent, mut slots, mut share) = (0.0, 0.0, 1.0);
        for attempt in 0..self.attempts {
            let window = self.slots(attempt);
            match counting {
                Counting::Down => {
                    sent += share;
                    slots += share * (window + 1.0) / 2.0;
                }
                Counting::Frozen => {
                    sent += share * (window - 1.0) / window;
                    slots += share * (window - 1.0) / 2.0;
                }
            }
            share *= collision;
        }
        // A window of one slot is sent in at once.
        if slots > 0.0 { (sent / slots).min(1.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_station_alone_gets_what_its_exchange_takes() {
        let config = Config::default();

        let it = saturation(&config, 1, 1_500, Counting::Frozen);

        assert_eq!(it.collision, 0.0);
        assert!((it.octets_per_s * 7_678e-6 - 1_500.0).abs() < 1e-6, "{it:?}");
    }

    #[test]
    fn bianchi_s_own_numbers_come_out() {
        // Without a limit of retries, two stations with a window of 32 slots and five doublings:
        // his equation (7), tau = 2(1-2p) / ((1-2p)(W+1) + pW(1-(2p)^m)), has tau = p here.
        let config = Config { short_retries: 255, ..Config::default() };

        let it = saturation(&config, 2, 1_500, Counting::Down);

        let p = it.attempt;
        let doubled: f64 = 2.0 * p;
        let own =
            2.0 * (1.0 - doubled) / ((1.0 - doubled) * 33.0 + p * 32.0 * (1.0 - doubled.powi(5)));
        assert!((own - p).abs() < 1e-9, "{own} {p}");
        assert!((it.collision - p).abs() < 1e-12);
    }
}
