//! Quantities as people write them, the same on the command line and in files.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// Units of time, and how many seconds each has. A text ends with the first that fits.
pub const TIME_UNITS: &[(&str, f64)] = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    // The micro sign (U+00B5), and the Greek letter mu (U+03BC), which keyboards and other programs write.
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("min", 60.0),
    ("h", 3_600.0),
    ("days", 86_400.0),
    ("day", 86_400.0),
    ("d", 86_400.0),
    ("s", 1.0),
];

/// Units of rates, and how many bits a second each has.
pub const RATE_UNITS: &[(&str, f64)] = &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];

/// How many bits a second a link sends: `300kbit`, `1mbit`, `unlimited`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BitRate {
    /// Sending takes no time.
    #[default]
    Unlimited,
    /// Bits a second.
    PerSecond(NonZeroU64),
}

impl BitRate {
    /// This many bits a second, `None` for 0.
    #[must_use]
    pub const fn from_bits_per_s(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self::PerSecond(bits)),
            None => None,
        }
    }

    /// How long sending these octets takes, rounded up to the nanosecond.
    #[must_use]
    pub fn time_for(self, octets: usize) -> Duration {
        let Self::PerSecond(rate) = self else { return Duration::ZERO };
        let nanos = bit_nanos(octets).div_ceil(u128::from(rate.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The bits of these octets times the nanoseconds in a second.
#[must_use]
pub fn bit_nanos(octets: usize) -> u128 {
    octets as u128 * 8 * 1_000_000_000
}

impl FromStr for BitRate {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::new(text, "a bit rate such as 300kbit, 1.5mbit or unlimited");

        if text.trim().eq_ignore_ascii_case("unlimited") {
            return Ok(Self::Unlimited);
        }
        let bits = quantity(text, RATE_UNITS).ok_or_else(bad)?.round();
        if !(1.0..=1e15).contains(&bits) {
            return Err(bad());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and 10^15"
        )]
        Self::from_bits_per_s(bits as u64).ok_or_else(bad)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::PerSecond(rate) = self else { return f.write_str("unlimited") };
        match rate.get() {
            bits if bits % 1_000_000_000 == 0 => write!(f, "{}gbit", bits / 1_000_000_000),
            bits if bits % 1_000_000 == 0 => write!(f, "{}mbit", bits / 1_000_000),
            bits if bits % 1_000 == 0 => write!(f, "{}kbit", bits / 1_000),
            bits => write!(f, "{bits}bit"),
        }
    }
}

/// A length of time: `50ms`, `1.5s`, `200us`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::new(text, "a time with its unit such as 50ms, 1.5s or 200us");

        let seconds = match quantity(text, TIME_UNITS) {
            Some(seconds) => seconds,
            None if text.trim() == "0" => 0.0,
            None => return Err(bad()),
        };
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| bad())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The error for a loss written as `1`.
pub const UNCLEAR: &str = "1 is not clear: 100% or 1%? Write \"100%\" or \"1%\"";

/// A number between 0 and 1: `10%`, `0.1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0.0);
    /// Always.
    pub const ONE: Self = Self(1.0);

    /// `None` unless `p` lies in 0 to 1.
    #[must_use]
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Self(p))
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let number = quantity(text, &[("%", 0.01)]).or_else(|| decimal(text));
        number
            .and_then(Self::new)
            .ok_or_else(|| BadQuantity::new(text, "a probability such as 10% or 0.1, at most 100%"))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ten digits hide what the conversion from percent leaves behind.
        let percent = format!("{:.10}", self.0 * 100.0);
        let percent = format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'));
        if percent.parse() == Ok(*self) { f.write_str(&percent) } else { self.0.fmt(f) }
    }
}

/// Why a text is not the quantity it should be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("\"{text}\" is not {allowed}")]
pub struct BadQuantity {
    text: String,
    allowed: &'static str,
}

impl BadQuantity {
    /// An error about this text, with the allowed values.
    #[must_use]
    pub fn new(text: &str, allowed: &'static str) -> Self {
        Self { text: text.to_owned(), allowed }
    }
}

/// Reads a number and a unit: the first of `units` that ends the text; case does not matter.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim().to_lowercase();
    let (number, scale) = units
        .iter()
        .find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)))?;
    Some(decimal(number)? * scale)
}

/// A decimal number of at least zero, also with an exponent (`1e-5`); refuses other floats that Rust reads (`inf`,
/// `-3`), and numbers too great for a float.
#[must_use]
pub fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, _) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { text.parse().ok().filter(|it: &f64| it.is_finite()) } else { None }
}

/// Splits a text into the number at its beginning, with exponent, and the rest.
#[must_use]
pub fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let power = text[end..].strip_prefix(['e', 'E']);
    let power = power.map(|it| it.strip_prefix(['+', '-']).unwrap_or(it));
    let behind = power.map(|it| it.trim_start_matches(|c: char| c.is_ascii_digit()));
    match (power, behind) {
        (Some(power), Some(behind)) if behind.len() < power.len() => {
            text.split_at(text.len() - behind.len())
        }
        _ => text.split_at(end),
    }
}

/// The whole number equal to a float, as in `1e9`.
#[must_use]
pub fn whole(number: f64) -> Option<u64> {
    // Every whole number up to here has a float of its own.
    const MOST: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (0.0..=MOST).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and between 0 and 2^53"
    )]
    is_whole.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_people_write_them() {
        let bits = |text: &str| match text.parse() {
            Ok(BitRate::PerSecond(bits)) => Some(bits.get()),
            _ => None,
        };

        assert_eq!(bits("300kbit"), Some(300_000));
        assert_eq!(bits("1.5 Mbit"), Some(1_500_000));
        assert_eq!(bits("75bit"), Some(75));
        assert_eq!(bits("1e3kbit"), Some(1_000_000));
        assert_eq!(bits("1e6bit"), Some(1_000_000));
        assert_eq!(bits("1gbit"), Some(1_000_000_000));
        assert_eq!("unlimited".parse(), Ok(BitRate::Unlimited));
        for bad in ["", "300", "kbit", "0kbit", "-1kbit", "1ekbit", "1e400bit", "infkbit", "3kbyte"]
        {
            assert!(bad.parse::<BitRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sending_takes_as_long_as_the_bits_do() {
        let time = |rate: &str, octets| rate.parse::<BitRate>().unwrap().time_for(octets);

        assert_eq!(time("300kbit", 1_500), Duration::from_millis(40));
        assert_eq!(time("3bit", 1), Duration::from_nanos(2_666_666_667), "rounded up");
        assert_eq!(time("unlimited", 1_500), Duration::ZERO);
    }

    #[test]
    fn spans_read_to_the_nanosecond() {
        let span = |text: &str| text.parse::<Span>().map(|span| span.0).ok();

        assert_eq!(span("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(span("1.5s"), Some(Duration::from_millis(1_500)));
        assert_eq!(span("200us"), Some(Duration::from_micros(200)));
        assert_eq!(span("7 ns"), Some(Duration::from_nanos(7)));
        assert_eq!(span("2min"), Some(Duration::from_mins(2)));
        assert_eq!(span("0"), Some(Duration::ZERO));
        for days in ["2d", "2 days", "48h"] {
            assert_eq!(span(days), Some(Duration::from_hours(48)), "{days}");
        }
        assert_eq!(span("1 day"), Some(Duration::from_hours(24)));
        for micro in ["7us", "7\u{b5}s", "7\u{3bc}s", "7\u{39c}s", "7e-6s", "7E0us", "7e+3ns"] {
            assert_eq!(span(micro), Some(Duration::from_micros(7)), "{micro}");
        }
        for bad in [
            "",
            "50",
            "1es",
            "e3s",
            "1e-s",
            "1e3.5s",
            "1e999s",
            "5m",
            "ms",
            "-5ms",
            "5 parsecs",
            "99999999999999999999h",
        ] {
            assert_eq!(span(bad), None, "{bad}");
        }
    }

    #[test]
    fn probabilities_stay_between_zero_and_one() {
        let p = |text: &str| text.parse::<Probability>().map(Probability::get).ok();

        assert_eq!(p("10%"), Some(0.1));
        assert_eq!(p("0.25"), Some(0.25));
        assert_eq!(p("1e-5"), Some(1e-5));
        assert_eq!(p("1e-3%"), Some(1e-5));
        assert_eq!(p("100%"), Some(1.0));
        for bad in ["", "%", "101%", "1.1", "-1%", "nan", "ten%"] {
            assert_eq!(p(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in ["300kbit", "9600bit", "2gbit", "unlimited"] {
            assert_eq!(text.parse::<BitRate>().map(|rate| rate.to_string()).as_deref(), Ok(text));
        }
        for text in ["7%", "0.1%", "12.5%", "0%", "0.025996253574703254"] {
            assert_eq!(text.parse::<Probability>().map(|p| p.to_string()).as_deref(), Ok(text));
        }
        for text in ["50ms", "1.5s", "20µs"] {
            assert_eq!(text.parse::<Span>().map(|span| span.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_number_and_its_exponent_are_told_from_the_unit() {
        for (text, number, unit) in [
            ("50ms", "50", "ms"),
            ("1e-5", "1e-5", ""),
            ("1.5E3 kbit", "1.5E3", " kbit"),
            ("2e+6bit", "2e+6", "bit"),
            ("3e", "3", "e"),
            ("3e-s", "3", "e-s"),
            ("", "", ""),
        ] {
            assert_eq!(split(text), (number, unit), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_is_allowed() {
        let error = "fast".parse::<BitRate>().unwrap_err();

        let allowed = "a bit rate such as 300kbit, 1.5mbit or unlimited";
        assert_eq!(error.to_string(), format!("\"fast\" is not {allowed}"));
    }
}
