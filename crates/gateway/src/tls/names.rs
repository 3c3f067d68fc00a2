//! Reads the names in a certificate, and maps clients to Auth IDs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// A subject alternative name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum San {
    /// An address.
    Address(IpAddr),
    /// A domain, in small letters.
    Domain(String),
    /// A mailbox, its domain in small letters.
    Email(String),
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Domain(name) | Self::Email(name) => f.write_str(name),
        }
    }
}

/// The names in a certificate (DER) that can be compared; none if it is malformed.
#[must_use]
pub fn of(certificate: &[u8]) -> Vec<San> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    extension.value.general_names.iter().filter_map(san).collect()
}

/// The public key (DER, `SubjectPublicKeyInfo`) in a certificate (DER); `None` if it is malformed.
#[must_use]
pub fn public_key(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.public_key().raw.to_vec())
}

fn san(name: &GeneralName<'_>) -> Option<San> {
    match name {
        GeneralName::DNSName(name) => Some(San::Domain(name.to_ascii_lowercase())),
        GeneralName::RFC822Name(name) => Some(San::Email(with_small_domain(name))),
        GeneralName::IPAddress(octets) => match octets.len() {
            4 => {
                <[u8; 4]>::try_from(*octets).ok().map(|it| San::Address(Ipv4Addr::from(it).into()))
            }
            _ => {
                <[u8; 16]>::try_from(*octets).ok().map(|it| San::Address(Ipv6Addr::from(it).into()))
            }
        },
        _ => None,
    }
}

/// Which names a rule is about: `a.example`, `*.example` (one label), `bob@a.example`, `*@a.example`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(String);

/// Why a text is no [`Pattern`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a domain such as \"tak.example\" or \"*.example\", or an email such as \"bob@a.example\" or \"*@a.example\""
)]
pub struct NoPattern;

impl Pattern {
    /// Whether a name matches the pattern.
    #[must_use]
    pub fn matches(&self, name: &San) -> bool {
        match name {
            San::Address(_) => false,
            San::Domain(name) if name.contains('@') => false,
            San::Domain(name) => match self.0.strip_prefix("*.") {
                Some(parent) => name.split_once('.').is_some_and(|(label, rest)| {
                    rest == parent && !label.is_empty() && label != "*"
                }),
                None => self.0 == *name,
            },
            San::Email(name) => match self.0.strip_prefix("*@") {
                Some(domain) => name.rsplit_once('@').is_some_and(|(_, rest)| rest == domain),
                None => name.contains('@') && self.0 == *name,
            },
        }
    }
}

impl FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let pattern = with_small_domain(text);
        let is_good = match pattern.rsplit_once('@') {
            Some((mailbox, domain)) => {
                let is_letter = |it: char| it.is_ascii_graphic() && it != '@' && it != '*';
                let is_mailbox = !mailbox.is_empty() && mailbox.chars().all(is_letter);
                (is_mailbox || mailbox == "*") && is_domain(domain)
            }
            None => is_domain(pattern.strip_prefix("*.").unwrap_or(&pattern)),
        };
        if is_good { Ok(Self(pattern)) } else { Err(NoPattern) }
    }
}

/// What a client is known as between the gateways: 1 to 64 letters, digits, `- _ . @`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct AuthId(String);

/// Why a text is no [`AuthId`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("1 to 64 letters, digits, - _ . @")]
pub struct NoAuthId;

impl AuthId {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AuthId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AuthId {
    type Err = NoAuthId;

    fn from_str(text: &str) -> Result<Self, NoAuthId> {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.@".contains(letter);
        let is_good = (1..=64).contains(&text.len()) && text.chars().all(is_letter);
        if is_good { Ok(Self(text.to_owned())) } else { Err(NoAuthId) }
    }
}

/// Clients with such a name have this Auth ID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthRule {
    /// The names.
    pub san: Pattern,
    /// The Auth ID.
    pub id: AuthId,
}

/// The Auth ID of the first rule that a certificate (DER) matches.
#[must_use]
pub fn auth_id<'r>(rules: &'r [AuthRule], certificate: &[u8]) -> Option<&'r AuthId> {
    let names = of(certificate);
    let rule = rules.iter().find(|rule| names.iter().any(|name| rule.san.matches(name)));
    rule.map(|rule| &rule.id)
}

/// Whether a text is a domain of small letters.
pub(crate) fn is_domain(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "-_".contains(it);
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(is_letter);
    text.len() <= 253 && text.split('.').all(is_label) && text.parse::<Ipv4Addr>().is_err()
}

/// Domains do not tell small from capital letters; mailboxes do.
fn with_small_domain(name: &str) -> String {
    match name.rsplit_once('@') {
        Some((mailbox, domain)) => format!("{mailbox}@{}", domain.to_ascii_lowercase()),
        None => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_domains_and_mailboxes_and_nothing_near_them() {
        let domain = |name: &str| San::Domain(name.to_owned());
        let email = |name: &str| San::Email(name.to_owned());
        for (pattern, name, expected) in [
            ("TAK.example", domain("tak.example"), true),
            ("tak.example", domain("a.tak.example"), false),
            ("tak.example", email("tak.example"), false),
            ("*.example", domain("tak.example"), true),
            ("*.example", domain("a.tak.example"), false),
            ("*.example", domain("*.example"), false),
            ("*.example", domain(".example"), false),
            ("*.example", domain("example"), false),
            ("bob@A.example", email("bob@a.example"), true),
            ("bob@a.example", email("Bob@a.example"), false),
            ("*@a.example", email("bob@a.example"), true),
            ("*@a.example", email("bob@b.a.example"), false),
            ("*@a.example", domain("a.example"), false),
            ("a.example", San::Address(Ipv4Addr::LOCALHOST.into()), false),
        ] {
            let matches = pattern.parse::<Pattern>().unwrap().matches(&name);

            assert_eq!(matches, expected, "{pattern} and {name:?}");
        }
    }

    #[test]
    fn what_names_nobody_is_no_pattern_and_no_auth_id() {
        for text in
            ["", "*", "a..b", "*.*.example", "b*@a.example", "@a.example", "a b", "10.0.0.1"]
        {
            assert_eq!(text.parse::<Pattern>(), Err(NoPattern), "{text}");
        }
        for text in ["", "a b", "a\n", "é", &"x".repeat(65)] {
            assert_eq!(text.parse::<AuthId>(), Err(NoAuthId), "{text}");
        }
        assert_eq!("bob@a.example".parse::<AuthId>().unwrap().as_str(), "bob@a.example");
    }
}
