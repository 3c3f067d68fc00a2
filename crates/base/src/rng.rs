//! Random numbers: one named stream for each use, the same on every machine.

use std::time::Duration;

use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers (xoshiro256++).
///
/// The samplers are our own, so that library updates cannot change the output for a seed.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream called `name` of the run with this `seed`.
    ///
    /// Streams with different names are independent, so a new one shifts no other's draws.
    #[must_use]
    pub fn stream(seed: u64, name: &str) -> Self {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in name.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            state ^= state >> 29;
        }
        Self(Xoshiro256PlusPlus::seed_from_u64(state))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.bits() >> 11) as f64 * UNIT
    }

    /// True with probability `p`; always draws exactly once.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Uniform in `0..bound`; `bound` is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "an empty range has no element");
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the high half of a product of two u64")
    }

    /// Uniform in `[0, span)`.
    pub fn within(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.uniform())
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-libm::log1p(-self.uniform()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_seed_and_name() {
        let draw = |seed, name| Rng::stream(seed, name).bits();

        assert_eq!(draw(1, "loss"), draw(1, "loss"));
        assert_ne!(draw(1, "loss"), draw(2, "loss"));
        assert_ne!(draw(0, "loss"), draw(1, "loss"));
        assert_ne!(draw(1, "loss"), draw(1, "jitter"));
    }

    #[test]
    fn samplers_have_their_means() {
        let mut rng = Rng::stream(7, "means");
        let n = 100_000;

        let uniform = (0..n).map(|_| rng.uniform()).sum::<f64>() / f64::from(n);
        let mean = Duration::from_secs(3);
        let exponential = (0..n).map(|_| rng.exponential(mean).as_secs_f64()).sum::<f64>();
        let within = (0..n).map(|_| rng.within(mean).as_secs_f64()).sum::<f64>();
        let chance = (0..n).filter(|_| rng.chance(0.3)).count() as f64;
        let below = (0..n).map(|_| rng.below(10)).sum::<u64>() as f64 / f64::from(n);

        // Five standard errors each.
        assert!((uniform - 0.5).abs() < 0.005, "{uniform}");
        assert!((within / f64::from(n) - 1.5).abs() < 0.015, "{within}");
        assert!((chance / f64::from(n) - 0.3).abs() < 0.008, "{chance}");
        assert!((exponential / f64::from(n) - 3.0).abs() < 0.05, "{exponential}");
        assert!((below - 4.5).abs() < 0.05, "{below}");
    }

    #[test]
    fn the_draws_of_a_seed_never_change() {
        let mut rng = Rng::stream(42, "golden");

        let drawn: Vec<u64> = (0..3).map(|_| rng.below(1_000_000)).collect();

        assert_eq!(drawn, GOLDEN);
    }

    const GOLDEN: [u64; 3] = [680_642, 433_484, 47_054];
}
