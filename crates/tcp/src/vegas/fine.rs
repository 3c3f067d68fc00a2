//! The fine-grained timer of the oldest segment, checked at each acknowledgement.

use std::time::Duration;

use super::Variant;

/// How long a segment may go unacknowledged.
#[derive(Clone, Debug)]
pub struct FineTimer {
    variant: Variant,
    estimate: Option<Estimate>,
    timeout: Option<f64>,
}

/// In seconds, as integrators with gains of 1/8 and 1/4: eight times the mean, four times its
/// deviation.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    deviation: f64,
}

impl FineTimer {
    pub fn new(variant: Variant) -> Self {
        Self { variant, estimate: None, timeout: None }
    }

    /// Takes the round-trip time of a segment sent once.
    pub fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        let Estimate { mean, deviation } = match (self.estimate, self.variant) {
            (None, Variant::Ns2) => Estimate { mean: 8.0 * rtt, deviation: rtt },
            (None, Variant::Published) => Estimate { mean: 8.0 * rtt, deviation: 2.0 * rtt },
            (Some(Estimate { mean, deviation }), _) => {
                let error = rtt - mean / 8.0;
                Estimate {
                    mean: mean + error,
                    deviation: deviation + error.abs() - deviation / 4.0,
                }
            }
        };
        self.estimate = Some(Estimate { mean, deviation });
        self.timeout = Some(match self.variant {
            // The mean and twice its deviation, and a sixteenth.
            Variant::Ns2 => (mean / 4.0 + deviation) / 2.0 * (17.0 / 16.0),
            // The formula of the coarse timer, on a fine clock.
            Variant::Published => mean / 8.0 + deviation,
        });
    }

    /// A segment was sent again, which `is_again` if not for the first time; ns-2 is then more
    /// patient until the next sample.
    pub fn back_off(&mut self, is_again: bool) {
        if self.variant == Variant::Ns2
            && let Some(timeout) = &mut self.timeout
        {
            *timeout *= if is_again { 2.0 } else { 9.0 / 8.0 };
        }
    }

    /// Whether a segment of this age should have been acknowledged.
    pub fn is_expired(&self, age: Duration) -> bool {
        self.timeout.is_some_and(|timeout| age.as_secs_f64() >= timeout)
    }
}
