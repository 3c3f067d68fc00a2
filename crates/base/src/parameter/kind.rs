//! The allowed values of a parameter, and how to read them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::value::{Readable, Value, Written};
use crate::quantity::{BitRate, Probability, Span, whole};

/// The most octets that a bound of memory may have: a tebibyte, or what a machine of 32 bits can address.
pub const MOST_MEMORY: u64 = if usize::BITS > 40 { 1 << 40 } else { u32::MAX as u64 };

/// The allowed values of a parameter; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count {
        /// At least.
        least: u64,
        /// At most.
        most: u64,
        /// Of what, such as `octets`; nothing if that is plain.
        unit: &'static str,
    },
    /// A list of whole numbers.
    Counts {
        /// Each at least.
        least: u64,
        /// Each at most.
        most: u64,
    },
    /// Two whole numbers, the least and the most, or one that is both.
    Span {
        /// Each at least.
        least: u64,
        /// Each at most.
        most: u64,
        /// Of what.
        unit: &'static str,
    },
    /// A number.
    Number {
        /// At least.
        least: f64,
        /// At most.
        most: f64,
    },
    /// A number between 0 and 1, also in percent.
    Share {
        /// At least.
        least: f64,
        /// At most.
        most: f64,
    },
    /// A time with its unit.
    Period {
        /// At least.
        least: Duration,
        /// At most.
        most: Duration,
    },
    /// A bit rate with its unit.
    Rate {
        /// Whether it may be unlimited.
        may_be_unlimited: bool,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A value parsed by a type of the parameter's own.
    Text {
        /// What that is, in words.
        allowed: &'static str,
        /// Why a text is not.
        check: fn(&str) -> Result<(), String>,
        /// Examples of allowed values, as shown to users.
        examples: &'static [&'static str],
    },
}

/// The names alone, without their values.
#[must_use]
pub const fn names<T, const N: usize>(named: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = named[at].0;
        at += 1;
    }
    names
}

impl Kind {
    /// A whole number without a unit.
    #[must_use]
    pub const fn count(allowed: RangeInclusive<u64>) -> Self {
        Self::Count { least: *allowed.start(), most: *allowed.end(), unit: "" }
    }

    /// A list of whole numbers.
    #[must_use]
    pub const fn counts(each: RangeInclusive<u64>) -> Self {
        Self::Counts { least: *each.start(), most: *each.end() }
    }

    /// Two whole numbers, the least and the most, or one that is both.
    #[must_use]
    pub const fn span(each: RangeInclusive<u64>) -> Self {
        Self::Span { least: *each.start(), most: *each.end(), unit: "" }
    }

    /// The same numbers with a unit, such as `octets`; other kinds have none.
    #[must_use]
    pub const fn of(self, unit: &'static str) -> Self {
        match self {
            Self::Count { least, most, .. } => Self::Count { least, most, unit },
            Self::Span { least, most, .. } => Self::Span { least, most, unit },
            other => other,
        }
    }

    /// A number.
    #[must_use]
    pub const fn number(allowed: RangeInclusive<f64>) -> Self {
        Self::Number { least: *allowed.start(), most: *allowed.end() }
    }

    /// A number between 0 and 1, also in percent.
    #[must_use]
    pub const fn share(allowed: RangeInclusive<f64>) -> Self {
        Self::Share { least: *allowed.start(), most: *allowed.end() }
    }

    /// A time with its unit.
    #[must_use]
    pub const fn period(allowed: RangeInclusive<Duration>) -> Self {
        Self::Period { least: *allowed.start(), most: *allowed.end() }
    }

    /// The given value, if allowed.
    ///
    /// # Errors
    /// When the value is not allowed: says so, with the allowed values.
    pub fn read(&self, written: &Written<'_>) -> Result<Value, String> {
        let refused = || format!("{written} is not allowed: {self}");
        let value = match (self, written) {
            (Self::Flag, Written::Flag(flag)) => Some(Value::Flag(*flag)),
            (Self::Count { .. }, Written::Integer(_) | Written::Float(_)) => {
                count(written).map(Value::Count)
            }
            (Self::Counts { .. }, Written::List(list)) => {
                list.iter().map(count).collect::<Option<_>>().map(Value::Counts)
            }
            (Self::Span { .. }, Written::Integer(_) | Written::Float(_)) => {
                count(written).map(|both| Value::Span(both, both))
            }
            (Self::Span { .. }, Written::List(list)) => match &list[..] {
                [least, most] => count(least).zip(count(most)).map(|it| Value::Span(it.0, it.1)),
                _ => None,
            },
            (Self::Number { .. }, Written::Float(number)) => Some(Value::Number(*number)),
            (Self::Number { .. }, Written::Integer(number)) => Some(Value::Number(*number as f64)),
            (Self::Word(_), Written::Text(text)) => Some(Value::Text((*text).to_owned())),
            (Self::Text { check, .. }, _) => {
                let text = written.text().ok_or_else(refused)?;
                check(&text)?;
                Some(Value::Text(text))
            }
            (Self::Share { .. } | Self::Period { .. } | Self::Rate { .. }, _) => {
                self.quantity(&written.text().ok_or_else(refused)?)?
            }
            _ => None,
        };
        value.filter(|value| self.allows(value)).ok_or_else(refused)
    }

    /// What has a unit.
    fn quantity(&self, text: &str) -> Result<Option<Value>, String> {
        let value = match self {
            Self::Share { .. } => text.parse().map(|share: Probability| Value::Share(share.get())),
            Self::Period { .. } => text.parse().map(|Span(period)| Value::Period(period)),
            Self::Rate { .. } => text.parse().map(Value::Rate),
            _ => return Ok(None),
        };
        value.map(Some).map_err(|why| why.to_string())
    }

    /// Whether a value is allowed.
    #[must_use]
    pub fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Flag, Value::Flag(_)) => true,
            (Self::Count { least, most, .. }, Value::Count(count)) => {
                (least..=most).contains(&count)
            }
            (Self::Counts { least, most }, Value::Counts(counts)) => {
                counts.iter().all(|count| (least..=most).contains(&count))
            }
            (Self::Span { least, most, .. }, Value::Span(low, high)) => {
                least <= low && low <= high && high <= most
            }
            (Self::Number { least, most }, Value::Number(number))
            | (Self::Share { least, most }, Value::Share(number)) => {
                (least..=most).contains(&number)
            }
            (Self::Period { least, most }, Value::Period(period)) => {
                (least..=most).contains(&period)
            }
            (Self::Rate { may_be_unlimited }, Value::Rate(rate)) => {
                *may_be_unlimited || *rate != BitRate::Unlimited
            }
            (Self::Word(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Self::Text { check, .. }, Value::Text(text)) => check(text).is_ok(),
            _ => false,
        }
    }

    /// Values that are allowed: the bounds, all the words.
    #[must_use]
    pub fn examples(&self) -> Vec<Value> {
        match *self {
            Self::Flag => vec![Value::Flag(false), Value::Flag(true)],
            Self::Count { least, most, .. } => vec![Value::Count(least), Value::Count(most)],
            Self::Counts { least, most } => vec![Value::Counts(vec![least, most])],
            Self::Span { least, most, .. } => vec![Value::Span(least, most)],
            Self::Number { least, most } => vec![Value::Number(least), Value::Number(most)],
            Self::Share { least, most } => vec![Value::Share(least), Value::Share(most)],
            Self::Period { least, most } => vec![Value::Period(least), Value::Period(most)],
            Self::Rate { .. } => vec![Value::Rate(BitRate::from_bits_per_s(75).expect("75 bit/s"))],
            Self::Word(words) => words.iter().map(|it| Value::Text((*it).to_owned())).collect(),
            Self::Text { examples, .. } => {
                examples.iter().map(|it| Value::Text((*it).to_owned())).collect()
            }
        }
    }
}

fn count(written: &Written<'_>) -> Option<u64> {
    match written {
        Written::Integer(number) => u64::try_from(*number).ok(),
        Written::Float(number) => whole(*number),
        _ => None,
    }
}

/// What is allowed, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |unit: &str| if unit.is_empty() { String::new() } else { format!(" {unit}") };
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Count { least, most, unit } => write!(f, "{least} to {most}{}", of(unit)),
            Self::Counts { least, most } => write!(f, "a list of numbers, {least} to {most}"),
            Self::Span { least, most, unit } => {
                write!(f, "{least} to {most}{}, or [least, most]", of(unit))
            }
            Self::Number { least, most } => write!(f, "{least} to {most}"),
            Self::Share { least, most } => {
                let shown = |bound: f64| Probability::new(bound).unwrap_or(Probability::ONE);
                write!(f, "{} to {}", shown(*least), shown(*most))
            }
            Self::Period { least, most } => {
                write!(f, "{} to {}", Readable(*least), Readable(*most))
            }
            Self::Rate { may_be_unlimited: false } => f.write_str("a rate such as 300kbit"),
            Self::Rate { may_be_unlimited: true } => {
                f.write_str("a rate such as 300kbit, or unlimited")
            }
            Self::Word(words) => match words {
                [others @ .., last] if !others.is_empty() => {
                    let others: Vec<String> = others.iter().map(|it| format!("{it:?}")).collect();
                    write!(f, "{} or {last:?}", others.join(", "))
                }
                _ => write!(f, "{:?}", words.first().unwrap_or(&"")),
            },
            Self::Text { allowed, .. } => f.write_str(allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_read() {
        let count = Kind::Count { least: 1, most: 9, unit: "packets" };
        let share = Kind::Share { least: 0.01, most: 0.99 };
        let span = Kind::Span { least: 1, most: 127, unit: "" };
        let period = Kind::Period { least: Duration::ZERO, most: Duration::from_secs(60) };

        assert_eq!(count.read(&Written::Integer(9)), Ok(Value::Count(9)));
        let octets = Kind::Count { least: 0, most: 1 << 40, unit: "octets" };
        assert_eq!(octets.read(&Written::Float(1e9)), Ok(Value::Count(1_000_000_000)));
        for bad in [0.5, -1.0, 1e300, f64::NAN, f64::INFINITY] {
            assert!(octets.read(&Written::Float(bad)).is_err(), "{bad}");
        }
        assert_eq!(share.read(&Written::Text("50%")), Ok(Value::Share(0.5)));
        assert_eq!(share.read(&Written::Float(0.5)), Ok(Value::Share(0.5)));
        assert_eq!(span.read(&Written::Integer(8)), Ok(Value::Span(8, 8)));
        let pair = Written::List(vec![Written::Integer(2), Written::Integer(9)]);
        assert_eq!(span.read(&pair), Ok(Value::Span(2, 9)));
        let second = Ok(Value::Period(Duration::from_secs(1)));
        assert_eq!(period.read(&Written::Text("1s")), second);
    }

    #[test]
    fn what_is_not_is_refused_with_what_is() {
        let pair = Written::List(vec![Written::Integer(9), Written::Integer(2)]);
        let rate = Kind::Rate { may_be_unlimited: false };
        for (kind, written, expected) in [
            (
                Kind::Count { least: 1, most: 9, unit: "packets" },
                Written::Integer(-1),
                "-1 is not allowed: 1 to 9 packets",
            ),
            (
                Kind::Span { least: 1, most: 127, unit: "" },
                pair,
                "[9, 2] is not allowed: 1 to 127, or [least, most]",
            ),
            (
                Kind::Share { least: 0.01, most: 1.0 },
                Written::Integer(0),
                "0 is not allowed: 1% to 100%",
            ),
            (
                Kind::Number { least: 0.0, most: 9.5 },
                Written::Float(f64::NAN),
                "NaN is not allowed: 0 to 9.5",
            ),
            (
                Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(600) },
                Written::Text("11min"),
                "\"11min\" is not allowed: 1s to 10min",
            ),
            (
                rate,
                Written::Integer(10_000),
                "\"10000\" is not a bit rate such as 300kbit, 1.5mbit or unlimited",
            ),
            (
                rate,
                Written::Text("unlimited"),
                "\"unlimited\" is not allowed: a rate such as 300kbit",
            ),
            (
                Kind::Word(&["auto", "off", "spare"]),
                Written::Text("on"),
                "\"on\" is not allowed: \"auto\", \"off\" or \"spare\"",
            ),
            (Kind::Flag, Written::Integer(1), "1 is not allowed: true or false"),
        ] {
            assert_eq!(kind.read(&written), Err(expected.to_owned()));
        }
    }
}
