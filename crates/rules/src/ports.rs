//! Sets of ports.

use std::fmt;
use std::str::FromStr;

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// A set of ports; an empty one stands for any port, and for no port at all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ports {
    /// Ascending, with a gap before each next one.
    ranges: Vec<PortRange>,
}

/// Why a text is no range of ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a port, 0 to 65535, or a range such as \"8000-8099\"")]
pub struct NoPorts;

impl PortRange {
    /// The one port.
    #[must_use]
    pub const fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }
}

impl FromStr for PortRange {
    type Err = NoPorts;

    fn from_str(text: &str) -> Result<Self, NoPorts> {
        let port = |text: &str| {
            let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
            text.parse().ok().filter(|_| is_number).ok_or(NoPorts)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: port(first)?, last: port(last)? };
        if range.first > range.last { Err(NoPorts) } else { Ok(range) }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            self.first.fmt(f)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl Ports {
    /// The union of the ranges.
    #[must_use]
    pub fn new(mut ranges: Vec<PortRange>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<PortRange> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(before) if range.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }

    /// Whether the set is empty, and so stands for any port.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in ascending order, with a gap between neighbours.
    #[must_use]
    pub fn ranges(&self) -> &[PortRange] {
        &self.ranges
    }

    /// Whether a packet with this port fits; `None` is a packet without ports.
    #[must_use]
    pub fn fit(&self, port: Option<u16>) -> bool {
        let holds =
            |port: u16| self.ranges.iter().any(|range| range.first <= port && port <= range.last);
        self.is_any() || port.is_some_and(holds)
    }

    /// Whether every packet that fits `other` fits this set too.
    pub(crate) fn cover(&self, other: &Self) -> bool {
        // Adjacent ranges are merged, so a range of `other` is covered only if a single range holds
        // all of its ports.
        let holds = |theirs: &PortRange| {
            self.ranges.iter().any(|own| own.first <= theirs.first && theirs.last <= own.last)
        };
        self.is_any() || (!other.is_any() && other.ranges.iter().all(holds))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(PortRange::to_string).collect();
        f.write_str(&ranges.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(ranges: &[&str]) -> Ports {
        Ports::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
    }

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(ports(&["443", "80-89", "90", "85-95"]).to_string(), "80-95, 443");
        assert_eq!(ports(&["0-65535", "65535"]).to_string(), "0-65535");
        assert!(ports(&["80-95"]).cover(&ports(&["80-85", "86-95"])));
        assert!(ports(&["80-85", "86-95"]).cover(&ports(&["80-95"])));
        assert!(!ports(&["80-95"]).cover(&ports(&[])));
        assert!(!ports(&["80-85"]).cover(&ports(&["83-90"])));
        assert!(!ports(&["80-85"]).cover(&ports(&["75-83"])));
        assert!(ports(&[]).fit(None) && !ports(&["0-65535"]).fit(None));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "-", "1-", "-1", "2-1", "65536", "+1", "1 - 2", "http", "1-2-3"] {
            assert_eq!(text.parse::<PortRange>(), Err(NoPorts), "{text}");
        }
    }
}
