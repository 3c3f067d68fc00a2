//! The name of a host.

use std::fmt;
use std::str::FromStr;

/// Octets of the longest name as text, without a dot at its end (RFC 1035, 2.3.4).
const LONGEST: usize = 253;
/// Octets of the longest label.
const LONGEST_LABEL: usize = 63;

/// The name of a host, in small letters and without a dot at the end. The name is complete: no search domain is
/// appended.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name(String);

/// Why a text is no name of a host.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadName {
    /// Something between two dots is none.
    #[error(
        "{0:?} is no part of a host's name: 1 to 63 letters, digits, - and _; others as in DNS, xn--..."
    )]
    Label(String),
    /// It ends as addresses do.
    #[error("it ends in a number, and is no IPv4 address")]
    Number,
    /// It is too long.
    #[error("a host's name has at most {LONGEST} octets")]
    TooLong,
}

impl Name {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands between the dots.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.len() > LONGEST {
            return Err(BadName::TooLong);
        }
        for label in text.split('.') {
            let is_letter = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
            let is_label =
                (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_letter);
            if !is_label || label.starts_with('-') || label.ends_with('-') {
                return Err(BadName::Label(label.to_owned()));
            }
        }
        // No top level domain is a number, and "192.0.2.256" is a mistake.
        let last = text.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|octet| octet.is_ascii_digit()) {
            return Err(BadName::Number);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}
