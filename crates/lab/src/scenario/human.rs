//! Quantities as people write them, as values of a TOML file.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Anything that is read from text; a bare number counts as its text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Human<T>(pub(super) T);

impl<'de, T> Deserialize<'de> for Human<T>
where
    T: FromStr<Err: fmt::Display>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Reader<T> {
            type Value = Human<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text with number and unit")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Human<T>, E> {
                text.parse().map(Human).map_err(E::custom)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Human<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Human<T>, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// `true`, `false`, or `true` with details.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Switch<T> {
    #[default]
    Off,
    On(T),
}

impl<'de, T> Deserialize<'de> for Switch<T>
where
    T: Default + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Switch<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table of parameters")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Switch<T>, E> {
                Ok(if on { Switch::On(T::default()) } else { Switch::Off })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Switch::On)
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// One number, or two: the least and the most.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(untagged, expecting = "expected a number from 1 to 127, or [least, most]")]
pub(super) enum OneOrTwo {
    One(u8),
    Two([u8; 2]),
}

impl OneOrTwo {
    pub(super) fn pair(self) -> (u8, u8) {
        match self {
            Self::One(both) => (both, both),
            Self::Two([least, most]) => (least, most),
        }
    }
}
