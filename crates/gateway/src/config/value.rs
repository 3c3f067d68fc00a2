//! Values that are right by their type.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Where something stands in the file.
pub(super) type Span = std::ops::Range<usize>;

/// A whole number with bounds, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Between<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Between<MIN, MAX> {
    pub(super) fn as_u8(self) -> u8 {
        u8::try_from(self.0).expect("the bounds fit")
    }

    pub(super) fn as_u16(self) -> u16 {
        u16::try_from(self.0).expect("the bounds fit")
    }

    pub(super) fn as_usize(self) -> usize {
        usize::try_from(self.0).expect("the bounds fit")
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Between<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(from)?;
        if (MIN..=MAX).contains(&value) {
            Ok(Self(value))
        } else {
            Err(D::Error::custom(format!("{value} is not allowed: {MIN} to {MAX}")))
        }
    }
}

/// A duration written as a number and its unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Period(pub(super) Duration);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is no duration: a number and ms, s or min, such as \"250ms\""
            ))
        })
    }
}

fn parse(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

/// A real number that is more than 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Positive(pub(super) f64);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(from)?;
        if value.is_finite() && value > 0.0 {
            Ok(Self(value))
        } else {
            Err(D::Error::custom(format!("{value} is not allowed: more than 0")))
        }
    }
}

/// A real number between 0 and 1, neither included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fraction(pub(super) f64);

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(from)?;
        if value > 0.0 && value < 1.0 {
            Ok(Self(value))
        } else {
            Err(D::Error::custom(format!("{value} is not allowed: more than 0 and less than 1")))
        }
    }
}

/// A bit rate written as a number and its unit, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(pub(super) f64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse_rate(&text).map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is no rate: a number and kbit, Mbit or Gbit, such as \"10Mbit\""
            ))
        })
    }
}

fn parse_rate(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return None,
    };
    Some(number * unit).filter(|rate| (1.0..=1e15).contains(rate))
}

/// What is written as text, as its type reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parsed<T>(pub(super) T);

impl<'de, T> Deserialize<'de> for Parsed<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse()
            .map(Self)
            .map_err(|why| D::Error::custom(format!("{text:?} is not allowed: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit() {
        assert_eq!(parse_rate("10Mbit"), Some(1e7));
        assert_eq!(parse_rate("1.5 kbit"), Some(1_500.0));
        for wrong in ["", "5", "mbit", "-1kbit", "0bit", "1e9", "9999999999gbit", "5 Mbyte"] {
            assert_eq!(parse_rate(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse("2min"), Some(Duration::from_secs(120)));
        for wrong in ["", "5", "ms", "-1s", "1e999s", "1.2.3s", "5 years", "99999999999999999999h"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
