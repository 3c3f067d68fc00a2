//! The options of the modems' waveform and of the channel between them.

use hf::modem::{Interleaver, Waveform};
use sim::hf::Channel;

const SPEED: u32 = 9_600;

/// How fast the modems are, and how bad the channel is.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Radio {
    /// Bits a second: 75 to 9600 (STANAG 4539), above that up to 240000 (48 kHz wideband) [default: 9600].
    #[arg(long, value_name = "BIT/S", help_heading = "Radio")]
    pub speed: Option<u32>,
    /// ultra-short, very-short, short, medium, long or very-long [default: short].
    #[arg(long, help_heading = "Radio")]
    pub interleaver: Option<Interleaver>,
    /// Share of wrong bits behind the modem's decoder, such as 1e-5 [default: 0].
    #[arg(long, value_name = "RATE", value_parser = bit_error_rate, help_heading = "Radio")]
    pub ber: Option<f64>,
    /// Signal to noise ratio in 3 kHz (48 kHz for wideband), from which errors follow.
    #[arg(long, value_name = "DB", allow_negative_numbers = true, value_parser = decibel, help_heading = "Radio")]
    pub snr: Option<f64>,
    /// How the signal fades: good, moderate or poor, as CCIR has them; needs --snr.
    #[arg(long, value_parser = fading, help_heading = "Radio")]
    pub fading: Option<Fading>,
}

/// Two paths that fade, by delay and Doppler spread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fading {
    Good,
    Moderate,
    Poor,
}

impl Radio {
    /// Fills options that are not given from `other`.
    pub fn or(self, other: Self) -> Self {
        // Either of `ber` and `snr` replaces both values of `other`.
        let is_said = self.ber.is_some() || self.snr.is_some();
        let (ber, snr) = if is_said { (self.ber, self.snr) } else { (other.ber, other.snr) };
        Self {
            speed: self.speed.or(other.speed),
            interleaver: self.interleaver.or(other.interleaver),
            ber,
            snr,
            fading: self.fading.or(if self.ber.is_some() { None } else { other.fading }),
        }
    }

    pub fn waveform(self) -> Result<Waveform, String> {
        let (speed, interleaver) =
            (self.speed.unwrap_or(SPEED), self.interleaver.unwrap_or_default());
        format!("{speed}/{interleaver}").parse().map_err(|why| format!("--speed: {why}"))
    }

    pub fn channel(self) -> Result<Channel, &'static str> {
        match (self.ber, self.snr, self.fading) {
            (Some(_), Some(_), _) => {
                Err("--ber and --snr: one of them says how bad the channel is")
            }
            (_, None, Some(_)) => {
                Err("--fading needs --snr: the ratio that the signal fades around")
            }
            (None, None, None) => Ok(Channel::Clear),
            (Some(rate), None, None) => Ok(Channel::Ber(rate)),
            (None, Some(snr_db), None) => Ok(Channel::Awgn { snr_db }),
            (None, Some(snr_db), Some(Fading::Good)) => Ok(Channel::good(snr_db)),
            (None, Some(snr_db), Some(Fading::Moderate)) => Ok(Channel::moderate(snr_db)),
            (None, Some(snr_db), Some(Fading::Poor)) => Ok(Channel::poor(snr_db)),
        }
    }
}

fn bit_error_rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    rate.filter(|rate| (0.0..=0.5).contains(rate))
        .ok_or_else(|| format!("{text:?} is no bit error rate: 0 to 0.5, such as 1e-5"))
}

fn decibel(text: &str) -> Result<f64, String> {
    let ratio: Option<f64> = text.parse().ok();
    ratio
        .filter(|ratio| (-40.0..=80.0).contains(ratio))
        .ok_or_else(|| format!("{text:?} is no ratio in dB: -40 to 80, such as 20"))
}

fn fading(text: &str) -> Result<Fading, String> {
    match text {
        "good" => Ok(Fading::Good),
        "moderate" => Ok(Fading::Moderate),
        "poor" => Ok(Fading::Poor),
        _ => Err(format!("{text:?} is no fading: good, moderate or poor")),
    }
}
