//! The channel between two stations, and its notation: `clear`, `ber:1e-5`, `awgn:21`, `poor:30`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The channel from one station to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Channel {
    /// Additive white Gaussian noise.
    Awgn {
        /// The signal-to-noise ratio in the waveform's bandwidth, in dB.
        snr_db: f64,
    },
    /// Independent bit errors after the decoder, with this probability from 0 to 0.5.
    Ber(f64),
    /// No errors.
    #[default]
    Clear,
    /// Two paths of equal mean power that fade independently (Watterson).
    Fading {
        /// The mean signal-to-noise ratio in dB.
        snr_db: f64,
        /// The Doppler spread: twice the standard deviation of the Doppler spectrum.
        doppler_hz: f64,
        /// A slow variation of the mean signal-to-noise ratio, over tens of seconds.
        variation: Option<Variation>,
    },
    /// The receiver hears nothing.
    Silent,
}

/// A slow variation of the mean signal-to-noise ratio: a Gaussian process in dB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Its standard deviation.
    pub deviation_db: f64,
    /// The time after which the correlation has fallen to 1/e.
    pub correlation: Duration,
}

/// A text does not describe a channel.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is no HF channel: write clear, silent, ber:1e-5 (0 to 0.5), or a signal to noise ratio \
     in dB, -40 to 80, as in awgn:21, good:25, moderate:25 or poor:30"
)]
pub struct NotAChannel(String);

/// Names and Doppler spreads of the three CCIR channels (ITU-R F.520). Their delay spreads of 0.5, 1
/// and 2 ms make no difference here: all are longer than a symbol and within an equaliser's span.
const CCIR_CHANNELS: [(&str, f64); 3] = [("good", 0.1), ("moderate", 0.5), ("poor", 1.0)];

impl Channel {
    /// CCIR good: 0.5 ms, 0.1 Hz.
    #[must_use]
    pub const fn good(snr_db: f64) -> Self {
        Self::Fading { snr_db, doppler_hz: CCIR_CHANNELS[0].1, variation: None }
    }

    /// CCIR moderate: 1 ms, 0.5 Hz.
    #[must_use]
    pub const fn moderate(snr_db: f64) -> Self {
        Self::Fading { snr_db, doppler_hz: CCIR_CHANNELS[1].1, variation: None }
    }

    /// CCIR poor, ITU-R F.1487 mid-latitude disturbed: 2 ms, 1 Hz.
    #[must_use]
    pub const fn poor(snr_db: f64) -> Self {
        Self::Fading { snr_db, doppler_hz: CCIR_CHANNELS[2].1, variation: None }
    }
}

impl FromStr for Channel {
    type Err = NotAChannel;

    fn from_str(text: &str) -> Result<Self, NotAChannel> {
        let refused = || NotAChannel(text.to_owned());
        let Some((name, value)) = text.split_once(':') else {
            return match text {
                "clear" => Ok(Self::Clear),
                "silent" => Ok(Self::Silent),
                _ => Err(refused()),
            };
        };
        let value: f64 = value.parse().map_err(|_| refused())?;
        if name == "ber" {
            return if (0.0..=0.5).contains(&value) {
                Ok(Self::Ber(value))
            } else {
                Err(refused())
            };
        }
        if !(-40.0..=80.0).contains(&value) {
            return Err(refused());
        }
        if name == "awgn" {
            return Ok(Self::Awgn { snr_db: value });
        }
        let sky = CCIR_CHANNELS.iter().find(|(known, _)| *known == name).ok_or_else(refused)?;
        Ok(Self::Fading { snr_db: value, doppler_hz: sky.1, variation: None })
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Awgn { snr_db } => write!(f, "awgn:{snr_db}"),
            Self::Ber(ber) => write!(f, "ber:{ber:e}"),
            Self::Clear => f.write_str("clear"),
            Self::Fading { snr_db, doppler_hz, variation } => {
                match CCIR_CHANNELS.iter().find(|(_, known)| *known == doppler_hz) {
                    Some((name, _)) => write!(f, "{name}:{snr_db}")?,
                    None => write!(f, "fading {doppler_hz} Hz:{snr_db}")?,
                }
                match variation {
                    Some(Variation { deviation_db, .. }) => write!(f, " ± {deviation_db} dB"),
                    None => Ok(()),
                }
            }
            Self::Silent => f.write_str("silent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_channel_is_read_back() {
        for text in ["clear", "silent", "ber:1e-5", "awgn:21", "good:25.5", "poor:-3"] {
            assert_eq!(text.parse::<Channel>().unwrap().to_string(), text);
        }
        assert_eq!("moderate:20".parse(), Ok(Channel::moderate(20.0)));
    }

    #[test]
    fn a_text_that_describes_no_channel_is_refused() {
        for text in ["", "ber", "ber:0.6", "ber:-1", "ber:nan", "awgn:inf", "poor:99", "sky:3"] {
            assert!(text.parse::<Channel>().is_err(), "{text}");
        }
    }
}
