//! Chooses the lengths of frames and transmissions.
//!
//! A frame of n octets costs its header and is lost as a whole with any of its bits. With independent bit errors, the
//! useful share of the air is greatest near `n = sqrt(header / (8 ber))`. The rate of bit errors is estimated from
//! losses reported in acknowledgements.

use std::time::Duration;

use crate::modem::Waveform;

/// The longest segment (Annex C, section 3.2.10: ten bits of length).
pub const MAX_SEGMENT: usize = 1023;
/// The shortest segment worth its header.
pub const MIN_SEGMENT: usize = 64;
/// The unit of an EOT, which is rounded up (Annex C, section 3.2.3).
pub const EOT_UNIT: Duration = Duration::from_millis(500);
/// The longest transmission that an EOT of 8 bits can announce, in half seconds (Annex C, section
/// 3.2.3).
pub const MAX_TRANSMISSION: Duration = Duration::from_millis(127_500);

/// The estimate of losses forgets: a frame counts for half after this many others.
const MEMORY: f64 = 300.0;
/// Bit error rate assumed before any report, which makes segments of some 800 octets.
const UNKNOWN: f64 = 4e-6;
/// Prior loss count, in as many bits as have it at the assumed rate: zero observed losses must not mean a
/// perfect link, nor a few short frames a bad one.
const CREDIT: f64 = 0.05;
/// A frame takes at most this share of the longest transmission, so that slow links lose little
/// with each.
const FRAMES_PER_TRANSMISSION: u32 = 8;

/// The quality of a link, estimated from its losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    frames: f64,
    lost: f64,
    octets: f64,
}

impl Default for Quality {
    fn default() -> Self {
        Self::new()
    }
}

impl Quality {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self { frames: 0.0, lost: 0.0, octets: 0.0 }
    }

    /// Takes an acknowledgement's report on frames: their number, their octets on the air together, and how many were
    /// lost.
    pub fn handle_report(&mut self, frames: u32, octets: usize, lost: u32) {
        let keep = 0.5_f64.powf(f64::from(frames) / MEMORY);
        self.frames = self.frames * keep + f64::from(frames);
        self.lost = self.lost * keep + f64::from(lost);
        #[expect(clippy::cast_precision_loss, reason = "a window of octets, far below 2^53")]
        let octets = octets as f64;
        self.octets = self.octets * keep + octets;
    }

    /// The share of frames that were lost lately, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        if self.frames > 0.0 { (self.lost / self.frames).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Bit errors per bit, if they were independent.
    #[must_use]
    pub fn bit_error_rate(&self) -> f64 {
        if self.frames < 1.0 {
            return UNKNOWN;
        }
        // P(frame lost) = 1 - (1 - ber)^bits, solved for ber at the mean length.
        let bits = 8.0 * self.octets / self.frames;
        let assumed = CREDIT / (UNKNOWN * bits);
        let share = (self.lost + CREDIT) / (self.frames + assumed);
        -libm::log1p(-share.min(0.99)) / bits
    }

    /// Octets of a segment that use the air best, with headers of `header` octets.
    #[must_use]
    pub fn segment(&self, header: usize, waveform: Waveform, longest: Duration) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "some 20 octets")]
        let best = libm::sqrt(header as f64 / (8.0 * self.bit_error_rate()));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast of floats saturates, and this one is positive"
        )]
        let best = best as usize;
        let in_time = octets_in(waveform, longest / FRAMES_PER_TRANSMISSION).max(MIN_SEGMENT);
        best.clamp(MIN_SEGMENT, MAX_SEGMENT.min(in_time))
    }
}

/// Octets that go over the air in this time while blocks are sent.
#[must_use]
pub fn octets_in(waveform: Waveform, time: Duration) -> usize {
    let bits = time.as_millis() * u128::from(waveform.bits_per_s()) / 1_000;
    usize::try_from(bits / 8).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What acknowledgements say over a while when bits are wrong at this rate.
    fn seen(bit_error_rate: f64, len: usize) -> Quality {
        let mut quality = Quality::new();
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let loss = 1.0 - (1.0 - bit_error_rate).powf(8.0 * len as f64);
        for _ in 0..20 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to 1000"
            )]
            quality.handle_report(1000, 1000 * len, (loss * 1000.0).round() as u32);
        }
        quality
    }

    #[test]
    fn the_bit_error_rate_is_found_from_frames_that_were_lost() {
        for (rate, len) in [(1e-4, 150), (1e-4, 600), (1e-5, 500), (1e-5, 1000)] {
            let found = seen(rate, len).bit_error_rate();

            assert!((found / rate - 1.0).abs() < 0.1, "{found} for {rate} with {len}");
        }
    }

    #[test]
    fn segments_are_near_what_uses_the_air_best() {
        let header = 20.0;
        let useful = |n: f64, rate: f64| n / (n + header) * (1.0 - rate).powf(8.0 * (n + header));
        let waveform = "9600".parse::<Waveform>().expect("it exists");
        for rate in [1e-6, 1e-5, 3e-5, 1e-4, 3e-4] {
            let chosen = seen(rate, 300).segment(20, waveform, MAX_TRANSMISSION);
            let best = (MIN_SEGMENT..=MAX_SEGMENT)
                .map(|n| useful(f64::from(u32::try_from(n).unwrap()), rate))
                .fold(0.0, f64::max);

            let got = useful(f64::from(u32::try_from(chosen).unwrap()), rate);
            assert!(got > 0.99 * best, "{chosen} octets at {rate}: {got} of {best}");
        }
    }

    #[test]
    fn a_few_short_frames_that_arrived_say_nothing_against_a_link() {
        let waveform = "9600".parse::<Waveform>().expect("it exists");
        let mut greeted = Quality::new();

        greeted.handle_report(2, 80, 0);

        assert!(greeted.bit_error_rate() <= UNKNOWN, "{}", greeted.bit_error_rate());
        let [new, known] = [Quality::new(), greeted]
            .map(|quality| quality.segment(20, waveform, MAX_TRANSMISSION));
        assert!(known >= new, "{known} octets, {new} when nothing is known");
    }

    #[test]
    fn a_link_without_losses_gets_the_longest_segments() {
        let waveform = "9600".parse::<Waveform>().expect("it exists");
        assert_eq!(seen(0.0, 500).segment(20, waveform, MAX_TRANSMISSION), MAX_SEGMENT);
    }
}
