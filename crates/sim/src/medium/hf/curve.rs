//! The bit error rate as a function of the signal-to-noise ratio.
//!
//! ```text
//!  lg BER   0.5 ──╮
//!                  ╲   SLOPE decades a dB
//!            1e-5 - -╲- - -
//!                     │╲
//!                     SNR of the standard's requirement
//! ```
//!
//! The anchors are the performance requirements of MIL-STD-188-110: SNR in dB, in the waveform's
//! bandwidth, for a BER of 1e-5 with the longest interleaver. AWGN fixes the curve; the "poor"
//! channel (2 ms, 1 Hz) fixes what a real modem loses against an ideal one when paths fade.

use hf::modem::{Family, Waveform};

/// Decades of BER per dB near 1e-5: convolutional code of constraint length 7, soft decisions.
const SLOPE: f64 = 1.4;
/// A bit error rate below this counts as no errors.
const NEGLIGIBLE: f64 = 1e-10;

/// The SNR that a waveform needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// SNR in dB for a BER of 1e-5 without fading.
    awgn_db: f64,
    /// The extra SNR in dB that a real receiver needs on a fading channel, beyond an ideal one.
    loss_db: f64,
}

/// Rate, `awgn_db`, and the `loss_db` with which the requirement for the poor channel is just met.
///
/// 3,200 to 9,600: MIL-STD-188-110D, table C-XVII: AWGN 9, 13, 16, 19, 21, poor 14, 19, 23, 27,
/// 31 dB. 600 to 2,400 poor: 110C, table XX: 7, 11, 18 dB. Their AWGN values, and all slower rates:
/// 110D, table D-LXIV, the same rates at 3 kHz.
const NARROW: [(u32, f64, f64); 11] = [
    (75, -6.0, 3.1),
    (150, -3.0, 3.8),
    (300, 0.0, 2.5),
    (600, 3.0, 1.1),
    (1_200, 5.0, 2.9),
    (2_400, 10.0, 4.3),
    (3_200, 9.0, 2.4),
    (4_800, 13.0, 3.1),
    (6_400, 16.0, 4.0),
    (8_000, 19.0, 4.9),
    (9_600, 21.0, 6.8),
];

/// MIL-STD-188-110D, table D-LXIV, waveforms 0 to 12: AWGN -6, -3, 0, 3, 5, 6, 9, 13, 16, 19, 21,
/// 24, 30, poor -1, 3, 5, 7, 10, 11, 14, 19, 23, 27, 31 dB. The last two have no requirement for
/// the poor channel; their `loss_db` repeats the value of the waveform before them.
const WIDE: [(u32, f64, f64); 13] = [
    (1_200, -6.0, 3.9),
    (2_400, -3.0, 4.7),
    (4_800, 0.0, 3.3),
    (9_600, 3.0, 2.0),
    (16_000, 5.0, 2.7),
    (24_000, 6.0, 2.6),
    (48_000, 9.0, 2.3),
    (72_000, 13.0, 3.0),
    (96_000, 16.0, 3.8),
    (120_000, 19.0, 4.7),
    (144_000, 21.0, 6.7),
    (192_000, 24.0, 6.7),
    (240_000, 30.0, 6.7),
];

impl Curve {
    /// The extra SNR in dB that a real receiver needs on a fading channel, beyond an ideal one.
    pub fn loss_db(&self) -> f64 {
        self.loss_db
    }

    pub fn of(waveform: Waveform) -> Self {
        let table = match waveform.family() {
            Family::Stanag4539 => &NARROW[..],
            Family::Wideband48 => &WIDE[..],
        };
        let row = table.iter().find(|(rate, ..)| *rate == waveform.bits_per_s());
        let &(_, awgn_db, loss_db) = row.expect("every rate has a row");
        Self { awgn_db, loss_db }
    }

    /// The bit error rate, 0 to 0.5.
    pub fn ber(self, snr_db: f64) -> f64 {
        let ber = libm::exp10(-5.0 - SLOPE * (snr_db - self.awgn_db));
        if ber < NEGLIGIBLE { 0.0 } else { ber.min(0.5) }
    }

    /// The SNR in dB from which a preamble is recognised: a known pattern, more robust than data.
    pub fn acquisition_db(self) -> f64 {
        (self.awgn_db - 3.0).min(0.0)
    }
}
