//! Gaussian processes with a Gaussian spectrum, as sums of sinusoids.
//!
//! The spectrum is divided into equally likely bands, and one frequency is drawn from each, so every
//! run has the right spectrum. The value at any time can be computed without earlier values.

use base::rng::Rng;
use base::time::Time;

/// The number of sinusoids: enough for fades of 20 dB to be as frequent as in Rayleigh fading.
const SINUSOIDS: usize = 24;

/// A complex Gaussian process with mean power 1, as its sinusoids.
#[derive(Clone, Debug)]
pub struct Process {
    /// For each sinusoid, radians per second and the phase at time 0.
    sinusoids: [(f64, f64); SINUSOIDS],
}

/// Values of a process at equal steps of time.
#[derive(Clone, Debug)]
pub struct Walk {
    phasors: [Complex; SINUSOIDS],
    steps: [Complex; SINUSOIDS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Process {
    /// A process whose spectrum has this standard deviation.
    pub fn new(sigma_hz: f64, rng: &mut Rng) -> Self {
        let mut band = 0.0;
        let sinusoids = [(); SINUSOIDS].map(|()| {
            let quantile = (band + rng.uniform()) / SINUSOIDS as f64;
            band += 1.0;
            let turn = std::f64::consts::TAU;
            (turn * sigma_hz * normal_quantile(quantile), turn * rng.uniform())
        });
        Self { sinusoids }
    }

    /// The values from `start` on, every `step` seconds.
    pub fn walk(&self, start: Time, step: f64) -> Walk {
        let start = start.as_secs_f64();
        let phasors = self.sinusoids.map(|(rate, phase)| Complex::unit(rate * start + phase));
        let steps = self.sinusoids.map(|(rate, _)| Complex::unit(rate * step));
        Walk { phasors, steps }
    }
}

impl Walk {
    /// The next value.
    pub fn next(&mut self) -> Complex {
        let mut sum = Complex::default();
        for (phasor, step) in self.phasors.iter_mut().zip(&self.steps) {
            sum.re += phasor.re;
            sum.im += phasor.im;
            *phasor = phasor.times(*step);
        }
        let scale = 1.0 / libm::sqrt(SINUSOIDS as f64);
        Complex { re: sum.re * scale, im: sum.im * scale }
    }
}

impl Complex {
    fn unit(angle: f64) -> Self {
        let (im, re) = libm::sincos(angle);
        Self { re, im }
    }

    fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    pub fn power(self) -> f64 {
        self.re * self.re + self.im * self.im
    }
}

/// The `p`-quantile of the standard normal distribution, found by bisection between -8 and 8.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_mean_power_is_one_and_fades_are_rayleigh() {
        let mut rng = Rng::stream(1, "fading");
        let step = 0.05;
        let samples = 20_000;
        let (mut power, mut deep, mut faded) = (0.0, 0, 0);
        for _ in 0..10 {
            let mut walk = Process::new(0.5, &mut rng).walk(Time::ZERO, step);
            for _ in 0..samples {
                let now = walk.next().power();
                power += now;
                deep += i32::from(now < 0.01);
                faded += i32::from(now < 0.1);
            }
        }
        let n = f64::from(10 * samples);

        // P(power < x) = 1 - exp(-x).
        assert!((power / n - 1.0).abs() < 0.03, "{}", power / n);
        assert!((f64::from(faded) / n - 0.0952).abs() < 0.01, "{}", f64::from(faded) / n);
        assert!((f64::from(deep) / n - 0.00995).abs() < 0.002, "{}", f64::from(deep) / n);
    }

    #[test]
    fn the_correlation_is_that_of_a_gaussian_spectrum() {
        let mut rng = Rng::stream(2, "fading");
        let sigma = 0.5;
        for lag_ms in [100, 200, 400, 800_u32] {
            let mut sum = 0.0;
            let n = 20_000;
            for _ in 0..10 {
                let process = Process::new(sigma, &mut rng);
                let later = Time::ZERO + Duration::from_millis(lag_ms.into());
                let [mut now, mut later] = [Time::ZERO, later].map(|at| process.walk(at, 0.1));
                for _ in 0..n {
                    let (a, b) = (now.next(), later.next());
                    sum += a.re * b.re + a.im * b.im;
                }
            }
            let measured = sum / f64::from(10 * n);
            let phase = std::f64::consts::TAU * sigma * f64::from(lag_ms) / 1e3;
            let expected = libm::exp(-0.5 * phase * phase);

            assert!((measured - expected).abs() < 0.05, "{lag_ms}: {measured} {expected}");
        }
    }

    #[test]
    fn the_value_at_a_time_does_not_depend_on_the_steps() {
        let process = Process::new(1.0, &mut Rng::stream(3, "fading"));
        let mut walk = process.walk(Time::ZERO, 0.5);
        for _ in 0..200 {
            walk.next();
        }

        let (stepped, direct) =
            (walk.next(), process.walk(Time::from_nanos(100_000_000_000), 1.0).next());

        assert!((stepped.re - direct.re).abs() < 1e-9 && (stepped.im - direct.im).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (p, x) in [(0.5, 0.0), (0.841_344_746, 1.0), (0.022_750_132, -2.0)] {
            assert!((normal_quantile(p) - x).abs() < 1e-6, "{p}");
        }
    }
}
