//! Values of parameters, in the notation of users and in the types of the code.

use std::fmt;
use std::time::Duration;

use crate::quantity::{BitRate, Probability};

/// A value in a file or on a command line, before its parameter is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Written<'a> {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// A list.
    List(Vec<Written<'a>>),
    /// A value unsuitable for any parameter, for example a table or a date.
    Other,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not set, which the parameter's meaning explains.
    Absent,
    /// Whether.
    Flag(bool),
    /// How many.
    Count(u64),
    /// Several numbers.
    Counts(Vec<u64>),
    /// The least and the most.
    Span(u64, u64),
    /// A number.
    Number(f64),
    /// A number between 0 and 1.
    Share(f64),
    /// A time.
    Period(Duration),
    /// Bits a second.
    Rate(BitRate),
    /// A word, or what the parameter's own type reads.
    Text(String),
}

impl<'a> Written<'a> {
    /// The value of a command line argument.
    #[must_use]
    pub fn argument(text: &'a str) -> Self {
        match (text.parse(), text.parse(), text.parse()) {
            (Ok(flag), _, _) => Self::Flag(flag),
            (_, Ok(number), _) => Self::Integer(number),
            (_, _, Ok(number)) => Self::Float(number),
            _ => Self::Text(text),
        }
    }

    /// The value as text; numbers have a text too.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Integer(number) => Some(number.to_string()),
            Self::Float(number) => Some(number.to_string()),
            Self::Text(text) => Some((*text).to_owned()),
            Self::Flag(_) | Self::List(_) | Self::Other => None,
        }
    }
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(list) => {
                let list: Vec<String> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Self::Other => f.write_str("this"),
        }
    }
}

/// What a value is called; nothing if it has no name.
#[must_use]
pub fn word<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> Value {
    let found = names.iter().find(|(_, named)| named == value);
    found.map_or(Value::Absent, |(name, _)| Value::Text((*name).to_owned()))
}

/// The value with this name.
#[must_use]
pub fn named<T: Copy>(names: &[(&'static str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Each row extracts the type that it needs. A value of another kind, which no row is given, counts as nothing.
impl Value {
    /// Whether.
    #[must_use]
    pub fn flag(&self) -> bool {
        matches!(self, Self::Flag(true))
    }

    /// How many.
    #[must_use]
    pub fn count<T: Default + TryFrom<u64>>(&self) -> T {
        match self {
            Self::Count(count) => T::try_from(*count).unwrap_or_default(),
            _ => T::default(),
        }
    }

    /// The least and the most.
    #[must_use]
    pub fn span<T: Default + TryFrom<u64>>(&self) -> (T, T) {
        let fit = |bound: u64| T::try_from(bound).unwrap_or_default();
        match self {
            Self::Span(least, most) => (fit(*least), fit(*most)),
            _ => Default::default(),
        }
    }

    /// A number, or a share.
    #[must_use]
    pub fn number(&self) -> f64 {
        match self {
            Self::Number(number) | Self::Share(number) => *number,
            _ => 0.0,
        }
    }

    /// A time.
    #[must_use]
    pub fn period(&self) -> Duration {
        match self {
            Self::Period(period) => *period,
            _ => Duration::ZERO,
        }
    }

    /// A rate.
    #[must_use]
    pub fn rate(&self) -> BitRate {
        match self {
            Self::Rate(rate) => *rate,
            _ => BitRate::Unlimited,
        }
    }

    /// A word, or what the parameter's own type reads.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u8> for Value {
    fn from(count: u8) -> Self {
        Self::Count(count.into())
    }
}

impl From<u16> for Value {
    fn from(count: u16) -> Self {
        Self::Count(count.into())
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Duration> for Value {
    fn from(period: Duration) -> Self {
        Self::Period(period)
    }
}

impl From<BitRate> for Value {
    fn from(rate: BitRate) -> Self {
        Self::Rate(rate)
    }
}

impl<T> From<Option<T>> for Value
where
    Value: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::from)
    }
}

/// Writes the value as in a file.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("none"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Counts(counts) => write!(f, "{counts:?}"),
            Self::Span(least, most) if least == most => least.fmt(f),
            Self::Span(least, most) => write!(f, "[{least}, {most}]"),
            Self::Number(number) => number.fmt(f),
            Self::Share(share) => {
                write!(f, "\"{}\"", Probability::new(*share).unwrap_or_default())
            }
            Self::Period(period) => write!(f, "\"{}\"", Readable(*period)),
            Self::Rate(rate) => write!(f, "\"{rate}\""),
            // Text that reads as a number may be written as a number.
            Self::Text(text) if text.parse::<u64>().is_ok() => f.write_str(text),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// A time in the greatest unit that leaves a whole number, from minutes down.
pub struct Readable(pub Duration);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = self.0;
        let (seconds, is_whole) = (period.as_secs(), period.subsec_nanos() == 0);
        match seconds {
            0 if is_whole => f.write_str("0s"),
            _ if is_whole && seconds % 3_600 == 0 => write!(f, "{}h", seconds / 3_600),
            _ if is_whole && seconds % 60 == 0 && seconds > 60 => write!(f, "{}min", seconds / 60),
            _ => write!(f, "{period:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_are_written() {
        for (value, expected) in [
            (Value::Absent, "none"),
            (Value::Span(8, 8), "8"),
            (Value::Span(16, 127), "[16, 127]"),
            (Value::Share(0.125), "\"12.5%\""),
            (Value::Share(1.0 / 3.0), "\"0.3333333333333333\""),
            (Value::Period(Duration::from_millis(1_500)), "\"1.5s\""),
            (Value::Period(Duration::from_secs(60)), "\"60s\""),
            (Value::Period(Duration::from_secs(600)), "\"10min\""),
            (Value::Period(Duration::from_secs(7_200)), "\"2h\""),
            (Value::Rate("10kbit".parse().unwrap()), "\"10kbit\""),
            (Value::Text("auto".to_owned()), "\"auto\""),
        ] {
            assert_eq!(value.to_string(), expected);
        }
    }

    #[test]
    fn a_value_of_another_kind_counts_as_nothing() {
        let (share, time) = (Value::Share(0.5), Value::Period(Duration::from_secs(2)));

        assert_eq!(
            [Value::Flag(true), Value::Flag(false), share.clone()].map(|it| it.flag()),
            [true, false, false]
        );
        assert_eq!(
            [share.clone(), Value::Number(7.0), time.clone()].map(|it| it.number()),
            [0.5, 7.0, 0.0]
        );
        assert_eq!([time, share].map(|it| it.period()), [Duration::from_secs(2), Duration::ZERO]);
    }

    #[test]
    fn an_argument_is_what_it_looks_like() {
        assert_eq!(Written::argument("true"), Written::Flag(true));
        assert_eq!(Written::argument("-3"), Written::Integer(-3));
        assert_eq!(Written::argument("0.5"), Written::Float(0.5));
        assert_eq!(Written::argument("5s"), Written::Text("5s"));
    }
}
