//! Lets parameters read and set fields of various types.

use std::time::Duration;

use super::{Kind, Value};
use crate::quantity::BitRate;

/// The type of a field that holds a parameter.
pub trait Settable: Sized {
    /// The field's content as a value of kind `kind`.
    fn to_value(&self, kind: &Kind) -> Value;

    /// The new content of the field; `None` for a value of another kind, which rows never pass.
    fn from_value(value: &Value) -> Option<Self>;
}

/// Makes enums parameters: each value has a word in a list of names.
///
/// ```
/// use base::parameter::{Kind, names};
///
/// #[derive(Clone, Copy, PartialEq)]
/// enum Colour { Blue, Red }
///
/// const COLOURS: [(&str, Colour); 2] = [("blue", Colour::Blue), ("red", Colour::Red)];
/// base::words!(Colour: COLOURS);
///
/// const ANY: Kind = Kind::Word(&names(&COLOURS));
/// ```
#[macro_export]
macro_rules! words {
    ($($type:ty: $names:expr),+ $(,)?) => {$(
        impl $crate::parameter::Settable for $type {
            fn to_value(&self, _: &$crate::parameter::Kind) -> $crate::parameter::Value {
                $crate::parameter::word(&$names, self)
            }

            fn from_value(value: &$crate::parameter::Value) -> Option<Self> {
                $crate::parameter::named(&$names, value.text())
            }
        }
    )+};
}

/// Lets fields of these types be parameters: written by `Display`, read by `FromStr`.
#[macro_export]
macro_rules! texts {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::parameter::Settable for $type {
            fn to_value(&self, _: &$crate::parameter::Kind) -> $crate::parameter::Value {
                $crate::parameter::Value::Text(self.to_string())
            }

            fn from_value(value: &$crate::parameter::Value) -> Option<Self> {
                value.text().parse().ok()
            }
        }
    )+};
}

macro_rules! whole {
    ($($type:ty),+) => {$(
        impl Settable for $type {
            fn to_value(&self, _: &Kind) -> Value {
                (*self).into()
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Count(count) => Self::try_from(*count).ok(),
                    _ => None,
                }
            }
        }

        /// The least and the most.
        impl Settable for ($type, $type) {
            fn to_value(&self, _: &Kind) -> Value {
                let wide = |bound: $type| u64::try_from(bound).unwrap_or(u64::MAX);
                Value::Span(wide(self.0), wide(self.1))
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Span(least, most) => {
                        Some((<$type>::try_from(*least).ok()?, <$type>::try_from(*most).ok()?))
                    }
                    _ => None,
                }
            }
        }

        impl Settable for Vec<$type> {
            fn to_value(&self, _: &Kind) -> Value {
                let wide = |number: &$type| u64::try_from(*number).unwrap_or(u64::MAX);
                Value::Counts(self.iter().map(wide).collect())
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Counts(all) => all.iter().map(|it| <$type>::try_from(*it).ok()).collect(),
                    _ => None,
                }
            }
        }
    )+};
}

whole!(u8, u16, u32, u64, usize);

impl Settable for bool {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Flag(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
}

/// A number, a share, or bits a second.
impl Settable for f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and a rate beyond the greatest counts as the greatest"
    )]
    fn to_value(&self, kind: &Kind) -> Value {
        match kind {
            Kind::Share { .. } => Value::Share(*self),
            Kind::Rate { .. } => BitRate::from_bits_per_s(*self as u64).into(),
            _ => Value::Number(*self),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) | Value::Share(number) => Some(*number),
            Value::Rate(BitRate::PerSecond(bits)) => Some(bits.get() as f64),
            Value::Rate(BitRate::Unlimited) => Some(f64::INFINITY),
            _ => None,
        }
    }
}

impl Settable for Duration {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Period(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Period(period) => Some(*period),
            _ => None,
        }
    }
}

impl Settable for BitRate {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Rate(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Rate(rate) => Some(*rate),
            _ => None,
        }
    }
}

impl Settable for String {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Text(self.clone())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

/// Absent unless set.
impl<T: Settable> Settable for Option<T> {
    fn to_value(&self, kind: &Kind) -> Value {
        self.as_ref().map_or(Value::Absent, |value| value.to_value(kind))
    }

    fn from_value(value: &Value) -> Option<Self> {
        T::from_value(value).map(Some)
    }
}
