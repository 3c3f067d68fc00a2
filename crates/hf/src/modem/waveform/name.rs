//! Written names of waveforms: `9600`, `9600/long`, `240000/short`, `wideband/9600/medium`.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use super::{Family, Interleaver, NoSuchWaveform, Waveform};

/// Why a text names no waveform.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotAWaveform {
    /// The text names a waveform that does not exist.
    #[error(transparent)]
    None(#[from] NoSuchWaveform),
    /// The text is not written like the name of a waveform.
    #[error(
        "{0:?} is no waveform: write a rate in bit/s and an interleaver, as in 9600/short, \
         240000/long or wideband/9600/medium"
    )]
    Unreadable(String),
}

/// Why a text names no interleaver.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an interleaver is one of {}", list(&Interleaver::ALL))]
pub struct NotAnInterleaver;

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stanag4539 => "4539",
            Self::Wideband48 => "wideband",
        })
    }
}

impl fmt::Display for Interleaver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UltraShort => "ultra-short",
            Self::VeryShort => "very-short",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
            Self::VeryLong => "very-long",
        })
    }
}

impl FromStr for Interleaver {
    type Err = NotAnInterleaver;

    fn from_str(text: &str) -> Result<Self, NotAnInterleaver> {
        let found = Self::ALL.into_iter().find(|interleaver| interleaver.to_string() == text);
        found.ok_or(NotAnInterleaver)
    }
}

impl fmt::Display for Waveform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, bits_per_s, interleaver } = self;
        if *family != family_of(*bits_per_s) {
            write!(f, "{family}/")?;
        }
        write!(f, "{bits_per_s}/{interleaver}")
    }
}

base::texts!(Waveform);

impl FromStr for Waveform {
    type Err = NotAWaveform;

    /// Where the family is left out, it is 4539 if that has the rate; where the interleaver is left
    /// out, it is the short one.
    fn from_str(text: &str) -> Result<Self, NotAWaveform> {
        let unreadable = || NotAWaveform::Unreadable(text.to_owned());
        let named = Family::ALL.into_iter().find_map(|family| {
            let rest = text.strip_prefix(family.to_string().as_str())?;
            Some((family, rest.strip_prefix('/')?))
        });
        // `4539` is no rate, so a rate and an interleaver are never taken for a family.
        let (family, rest) = named.map_or((None, text), |(family, rest)| (Some(family), rest));
        let (rate, interleaver) = match rest.split_once('/') {
            Some((rate, interleaver)) => (rate, interleaver.parse().map_err(|_| unreadable())?),
            None => (rest, Interleaver::default()),
        };
        if !rate.bytes().all(|octet| octet.is_ascii_digit()) {
            return Err(unreadable());
        }
        let bits_per_s = rate.parse().map_err(|_| unreadable())?;
        let family = family.unwrap_or_else(|| family_of(bits_per_s));
        Ok(Self::new(family, bits_per_s, interleaver)?)
    }
}

/// The family that a rate alone stands for.
fn family_of(bits_per_s: u32) -> Family {
    let is_wideband = !Family::Stanag4539.rates().contains(&bits_per_s)
        && Family::Wideband48.rates().contains(&bits_per_s);
    if is_wideband { Family::Wideband48 } else { Family::Stanag4539 }
}

/// `a, b or c`.
pub fn list<T: fmt::Display>(items: &[T]) -> String {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        let separator = match index {
            0 => "",
            _ if index + 1 == items.len() => " or ",
            _ => ", ",
        };
        let _ = write!(text, "{separator}{item}");
    }
    text
}
