//! Radio propagation: received power over distance, by two rays over flat ground.

use super::Config;

/// Received power as a function of distance, and the thresholds for reception and carrier sense.
///
/// Only ratios of powers matter here, so power is 1 at a metre if it fell with the fourth power of the
/// distance from there on.
#[derive(Clone, Copy, Debug)]
pub struct Propagation {
    receive: f64,
    sense: f64,
    crossover: f64,
    /// How many times stronger a frame must be than what disturbs it.
    capture: f64,
}

impl Propagation {
    pub fn new(config: &Config) -> Self {
        let square = |range: f64| range * range;
        Self {
            receive: square(config.receive_range),
            sense: square(config.sense_range.max(config.receive_range)),
            crossover: square(config.crossover),
            capture: libm::pow(10.0, config.capture / 10.0),
        }
    }

    /// The power at this square of a distance.
    pub fn power(&self, squared: f64) -> f64 {
        let squared = squared.max(NEAREST);
        if squared < self.crossover {
            1.0 / (squared * self.crossover)
        } else {
            1.0 / (squared * squared)
        }
    }

    /// Whether a frame of this power can be read although others of that power in all disturb it.
    pub fn survives(&self, power: f64, others: f64) -> bool {
        power >= self.capture * others
    }

    /// Whether a frame can be read at this square of a distance.
    pub fn is_readable(&self, squared: f64) -> bool {
        squared <= self.receive
    }

    /// Whether a frame is sensed at this square of a distance.
    pub fn is_sensed(&self, squared: f64) -> bool {
        squared <= self.sense
    }
}

/// The square of the distance below which power no longer grows: antennas do not touch.
const NEAREST: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_wavelan_card_and_power_is_continuous() {
        let it = Propagation::new(&Config::default());
        let at = |distance: f64| it.power(distance * distance);

        assert!(it.is_readable(250.0 * 250.0) && !it.is_readable(250.1 * 250.1));
        assert!(it.is_sensed(550.0 * 550.0) && !it.is_sensed(550.1 * 550.1));
        // The thresholds of ns-2, 3.652e-10 W and 1.559e-11 W, have this ratio.
        let ratio = at(250.0) / at(550.0);
        assert!((ratio - 3.652e-10 / 1.559e-11).abs() < 0.01, "{ratio}");
        assert!((at(86.099_999) / at(86.1) - 1.0).abs() < 1e-6);
        assert!((at(20.0) / at(40.0) - 4.0).abs() < 1e-9, "two rays do not part before 86 m");
        // 10 dB are a factor of 1.778 in distance.
        assert!(it.survives(at(200.0), at(355.7)) && !it.survives(at(200.0), at(355.6)));
    }
}
