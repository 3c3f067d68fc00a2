//! Estimates the loss rate of the network, from the transmissions that acknowledgements return.

use base::serial::is_after;

/// The loss rate: the share of transmissions not echoed in each period, smoothed.
#[derive(Clone, Debug)]
pub struct Estimator {
    period: u32,
    gain: f64,
    rate: f64,
    /// The last transmission of the period before, and whether a period is complete.
    start: Option<u32>,
    has_sample: bool,
    highest: u32,
    returned: u32,
}

impl Estimator {
    /// Expects `initial` until a period of `period` transmissions, at least 1, is over; from then
    /// on each period counts with `gain`, 0 to 1.
    #[must_use]
    pub fn new(initial: f64, period: u32, gain: f64) -> Self {
        Self {
            period: period.max(1),
            gain,
            rate: initial,
            start: None,
            has_sample: false,
            highest: 0,
            returned: 0,
        }
    }

    /// Takes the number of a received transmission; returns whether the estimate is new.
    pub fn handle_echo(&mut self, id: u32) -> bool {
        let Some(start) = self.start else {
            self.start = Some(id);
            self.highest = id;
            return false;
        };
        if is_after(id, self.highest) {
            self.highest = id;
        } else if !is_after(id, start) {
            return false;
        }
        self.returned += 1;
        let sent = self.highest.wrapping_sub(start);
        if sent < self.period {
            return false;
        }

        let lost = sent.saturating_sub(self.returned);
        let sample = f64::from(lost) / f64::from(sent);
        let gain = if self.has_sample { self.gain } else { 1.0 };
        self.rate += gain * (sample - self.rate);
        self.has_sample = true;
        self.start = Some(self.highest);
        self.returned = 0;
        true
    }

    /// The estimate, 0 to 1.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    #[test]
    fn the_estimate_converges_to_the_loss_rate_and_follows_it() {
        let mut rng = Rng::stream(1, "loss");
        let mut estimator = Estimator::new(0.1, 100, 0.25);
        let mut id = u32::MAX - 700;

        for loss in [0.0, 0.05, 0.1, 0.3, 0.02] {
            let mut mean = 0.0;
            for n in 0..4_000 {
                id = id.wrapping_add(1);
                if !rng.chance(loss) {
                    estimator.handle_echo(id);
                }
                if n >= 2_000 {
                    mean += estimator.rate() / 2_000.0;
                }
            }
            assert!((mean - loss).abs() < 0.03, "{mean} for {loss}");
        }
    }

    #[test]
    fn what_comes_late_or_twice_never_makes_the_rate_negative() {
        let mut estimator = Estimator::new(0.0, 10, 1.0);
        for id in [1, 3, 2, 2, 2, 4, 5, 7, 6, 6, 9, 8, 11, 10, 1, 0, 12] {
            estimator.handle_echo(id);
        }

        assert!(estimator.rate() >= 0.0 && estimator.rate() < 0.2);
    }
}
