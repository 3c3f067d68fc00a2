//! The path from one station to another: its noise, fading and bit errors over time.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::Waveform;

use super::channel::{Channel, Variation};
use super::curve::Curve;
use super::fading::Process;

/// Samples of the fading per cycle of the fastest relevant Doppler shift.
const SAMPLES_A_CYCLE: f64 = 8.0;
/// The fewest and the most samples of the fading in a block.
const SAMPLES: (f64, f64) = (4.0, 64.0);

/// The counters of a path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PathStats {
    /// Blocks that the listener received.
    pub blocks: u64,
    /// User bits in them.
    pub bits: u64,
    /// Wrong user bits, except bits damaged by collisions.
    pub wrong_bits: u64,
    /// Blocks that collided with another transmission.
    pub collided_blocks: u64,
    /// Preambles too weak to be recognised.
    pub missed_preambles: u64,
}

/// A path between two stations: its channel, fading and bit errors.
#[derive(Clone, Debug)]
pub struct Path {
    channel: Channel,
    fading: Option<Fading>,
    errors: Rng,
    stats: PathStats,
}

#[derive(Clone, Debug)]
struct Fading {
    paths: [Process; 2],
    swing: Option<(Process, f64)>,
}

impl Path {
    /// A path that draws its fading and errors from `rng`.
    pub fn new(channel: Channel, mut rng: Rng) -> Self {
        let mut fading = Rng::stream(rng.bits(), "fading");
        let errors = Rng::stream(rng.bits(), "errors");
        let fading = match channel {
            Channel::Fading { doppler_hz, variation, .. } => Some(Fading {
                paths: [(); 2].map(|()| Process::new(doppler_hz / 2.0, &mut fading)),
                swing: variation.map(|Variation { deviation_db, correlation }| {
                    // exp(-(2 pi sigma tau)^2 / 2) = 1 / e.
                    let sigma_hz = std::f64::consts::SQRT_2
                        / (std::f64::consts::TAU * correlation.as_secs_f64().max(1e-3));
                    (Process::new(sigma_hz, &mut fading), deviation_db)
                }),
            }),
            Channel::Awgn { .. } | Channel::Ber(_) | Channel::Clear | Channel::Silent => None,
        };
        Self { channel, fading, errors, stats: PathStats::default() }
    }

    /// Takes the place of the path; its counters go on.
    pub fn replace(&mut self, new: Self) {
        *self = Self { stats: self.stats, ..new };
    }

    pub fn stats(&self) -> PathStats {
        self.stats
    }

    /// Counts a preamble that was not recognised.
    pub fn miss_preamble(&mut self) {
        self.stats.missed_preambles += 1;
    }

    /// Counts a block that another transmission destroyed.
    pub fn collide(&mut self, octets: &[u8]) {
        self.count_block(octets);
        self.stats.collided_blocks += 1;
    }

    /// Changes bits of a block at this rate of errors.
    pub fn carry(&mut self, ber: f64, octets: &mut [u8]) {
        self.count_block(octets);
        self.stats.wrong_bits += self.corrupt(ber, octets);
    }

    fn count_block(&mut self, octets: &[u8]) {
        self.stats.blocks += 1;
        self.stats.bits += octets.len() as u64 * 8;
    }

    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Whether a preamble that began at `start` is recognised.
    pub fn is_acquired(&self, waveform: Waveform, start: Time) -> bool {
        let curve = Curve::of(waveform);
        match self.channel {
            Channel::Silent => false,
            Channel::Ber(_) | Channel::Clear => true,
            Channel::Awgn { .. } | Channel::Fading { .. } => {
                let snr = self.snr_db(start, waveform.preamble(), 0.0);
                snr.is_some_and(|snr| snr >= curve.acquisition_db())
            }
        }
    }

    /// The bit error rate of a block that began at `start`.
    pub fn ber(&self, waveform: Waveform, start: Time) -> f64 {
        match self.channel {
            Channel::Ber(ber) => ber,
            Channel::Clear => 0.0,
            Channel::Silent => 0.5,
            Channel::Awgn { .. } | Channel::Fading { .. } => {
                let curve = Curve::of(waveform);
                let snr = self.snr_db(start, waveform.block_time(), curve.loss_db());
                snr.map_or(0.0, |snr| curve.ber(snr))
            }
        }
    }

    /// Inverts random bits, each with probability `ber`; returns how many.
    pub fn corrupt(&mut self, ber: f64, octets: &mut [u8]) -> u64 {
        if ber <= 0.0 {
            return 0;
        }
        let bits = octets.len() as f64 * 8.0;
        let log_good = libm::log1p(-ber);
        let (mut at, mut wrong) = (0.0, 0);
        loop {
            // The number of good bits before the next wrong one is geometric.
            at += libm::floor(libm::log1p(-self.errors.uniform()) / log_good);
            if at >= bits {
                return wrong;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and the number of bits"
            )]
            let bit = at as usize;
            octets[bit / 8] ^= 1 << (bit % 8);
            wrong += 1;
            at += 1.0;
        }
    }

    /// Whether the pattern that ends a message is recognised.
    pub fn is_end_found(&mut self, ber: f64) -> bool {
        !self.errors.chance(1.0 - libm::exp(32.0 * libm::log1p(-ber)))
    }

    /// The SNR in dB of a channel without fading over which an ideal receiver would perform as well
    /// as over this one for `time` from `start` on; `None` without noise.
    ///
    /// It is the SNR with the same capacity. The capacity is averaged over the band, because the
    /// equaliser combines both paths without loss, and over time, because the code is interleaved.
    fn snr_db(&self, start: Time, time: Duration, loss_db: f64) -> Option<f64> {
        let (snr_db, doppler_hz) = match self.channel {
            Channel::Awgn { snr_db } => return Some(snr_db),
            Channel::Fading { snr_db, doppler_hz, .. } => (snr_db, doppler_hz),
            Channel::Ber(_) | Channel::Clear | Channel::Silent => return None,
        };
        let Fading { paths, swing } = self.fading.as_ref()?;
        let swing_db = swing.as_ref().map_or(0.0, |(process, deviation_db)| {
            // One of the two parts has half the power.
            deviation_db * std::f64::consts::SQRT_2 * process.walk(start, 0.0).next().re
        });
        let mean = libm::exp10((snr_db + swing_db - loss_db) / 10.0);

        let seconds = time.as_secs_f64();
        let samples = libm::ceil(SAMPLES_A_CYCLE * doppler_hz * seconds);
        let samples = samples.clamp(SAMPLES.0, SAMPLES.1);
        let step = seconds / samples;
        let middle = start + Duration::from_secs_f64(step / 2.0);
        let [mut first, mut second] =
            [&paths[0], &paths[1]].map(|process| process.walk(middle, step));
        let (mut capacity, mut taken) = (0.0, 0.0);
        while taken < samples {
            // The mean of ln(1 + snr |a + b e^jx|^2) over all x.
            let (a, b) = (0.5 * first.next().power(), 0.5 * second.next().power());
            let sum = 1.0 + mean * (a + b);
            let square = sum * sum - 4.0 * mean * mean * a * b;
            capacity += libm::log(0.5 * (sum + libm::sqrt(square.max(0.0))));
            taken += 1.0;
        }
        Some(10.0 * libm::log10(libm::expm1(capacity / samples).max(1e-9)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standards' requirements for the poor channel; their tables are named in `curve`.
    const POOR: [(&str, f64); 22] = [
        ("75/long", -1.0),
        ("150/long", 3.0),
        ("300/long", 5.0),
        ("600/long", 7.0),
        ("1200/long", 11.0),
        ("2400/long", 18.0),
        ("3200/very-long", 14.0),
        ("4800/very-long", 19.0),
        ("6400/very-long", 23.0),
        ("8000/very-long", 27.0),
        ("9600/very-long", 31.0),
        ("wideband/1200/long", -1.0),
        ("wideband/2400/long", 3.0),
        ("wideband/4800/long", 5.0),
        ("wideband/9600/long", 7.0),
        ("16000/long", 10.0),
        ("24000/long", 11.0),
        ("48000/long", 14.0),
        ("72000/long", 19.0),
        ("96000/long", 23.0),
        ("120000/long", 27.0),
        ("144000/long", 31.0),
    ];

    #[test]
    fn every_rate_just_meets_its_requirement_for_the_poor_channel() {
        let blocks = 500;
        for (name, snr_db) in POOR {
            let waveform: Waveform = name.parse().unwrap();
            let mean = |snr_db: f64| {
                let runs = (0..16).map(|seed| {
                    let path = Path::new(Channel::poor(snr_db), Rng::stream(seed, "poor"));
                    let starts = (0..blocks).map(|n| Time::ZERO + waveform.block_time() * n);
                    starts.map(|start| path.ber(waveform, start)).sum::<f64>()
                });
                runs.sum::<f64>() / f64::from(16 * blocks)
            };

            // Rare deep fades make the errors, so a decibel is a factor of about ten.
            let (met, missed) = (mean(snr_db + 0.5), mean(snr_db - 1.0));
            assert!(met < 3e-5 && missed > 1e-5, "{name}: {met:e} {missed:e}");
        }
    }
}
