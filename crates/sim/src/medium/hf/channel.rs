//! What happens to a signal between two stations, as people write it: `clear`, `ber:1e-5`,
//! `awgn:21`, `poor:30`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One direction between two stations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Channel {
    /// Steady noise at a ratio of signal to noise, in the waveform's bandwidth.
    Awgn {
        /// Signal to noise in dB.
        snr_db: f64,
    },
    /// Bits are wrong with this probability, 0 to 0.5, each on its own, after the decoder.
    Ber(f64),
    /// No errors.
    #[default]
    Clear,
    /// Two paths of equal mean power that fade independently (Watterson).
    Fading {
        /// Mean signal to noise in dB.
        snr_db: f64,
        /// The Doppler spread: twice the standard deviation of the Doppler spectrum.
        doppler_hz: f64,
        /// What changes over tens of seconds.
        variation: Option<Variation>,
    },
    /// Nothing is heard.
    Silent,
}

/// Swings of the mean ratio of signal to noise: a Gaussian process in dB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Its standard deviation.
    pub deviation_db: f64,
    /// After this time the correlation is down to 1/e.
    pub correlation: Duration,
}

/// Why a text is no channel.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is no HF channel: write clear, silent, ber:1e-5 (0 to 0.5), or a signal to noise ratio \
     in dB, -40 to 80, as in awgn:21, good:25, moderate:25 or poor:30"
)]
pub struct NotAChannel(String);

/// ITU-R F.520 and the CCIR's three channels: names and Doppler spreads. Their delays, 0.5, 1 and
/// 2 ms, do not matter here: all are longer than a symbol and within what equalisers span.
const SKIES: [(&str, f64); 3] = [("good", 0.1), ("moderate", 0.5), ("poor", 1.0)];

impl Channel {
    /// CCIR good: 0.5 ms, 0.1 Hz.
    #[must_use]
    pub const fn good(snr_db: f64) -> Self {
        Self::Fading { snr_db, doppler_hz: SKIES[0].1, variation: None }
    }

    /// CCIR moderate: 1 ms, 0.5 Hz.
    #[must_use]
    pub const fn moderate(snr_db: f64) -> Self {
        Self::Fading { snr_db, doppler_hz: SKIES[1].1, variation: None }
    }

    /// CCIR poor, ITU-R F.1487 mid-latitude disturbed: 2 ms, 1 Hz.
    #[must_use]
    pub const fn poor(snr_db: f64) -> Self {
        Self::Fading { snr_db, doppler_hz: SKIES[2].1, variation: None }
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
        let sky = SKIES.iter().find(|(known, _)| *known == name).ok_or_else(refused)?;
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
                match SKIES.iter().find(|(_, known)| *known == doppler_hz) {
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
    fn a_channel_is_read_as_it_is_written() {
        for text in ["clear", "silent", "ber:1e-5", "awgn:21", "good:25.5", "poor:-3"] {
            assert_eq!(text.parse::<Channel>().unwrap().to_string(), text);
        }
        assert_eq!("moderate:20".parse(), Ok(Channel::moderate(20.0)));
    }

    #[test]
    fn what_is_no_channel_is_refused() {
        for text in ["", "ber", "ber:0.6", "ber:-1", "ber:nan", "awgn:inf", "poor:99", "sky:3"] {
            assert!(text.parse::<Channel>().is_err(), "{text}");
        }
    }
}
