//! Address prefixes.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and its number of significant leading bits, for example 10.2.0.0/16.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// Why a text is no prefix.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no address with its prefix length, such as 10.2.0.0/16 or fd00:2::/64")]
pub struct NoPrefix;

impl Prefix {
    /// The prefix of all addresses equal to this one in the first `bits` bits.
    ///
    /// # Errors
    /// When the address has fewer bits.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, NoPrefix> {
        if bits > width(address) { Err(NoPrefix) } else { Ok(Self { address, bits }) }
    }

    /// The prefix with exactly one address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self { address, bits: width(address) }
    }

    /// The address, with all its bits.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits count.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The prefix with the bits that do not count cleared.
    #[must_use]
    pub fn network(&self) -> Self {
        let (first, _) = self.range();
        let address = match self.address {
            IpAddr::V4(_) => {
                let low = u32::try_from(first & u128::from(u32::MAX)).expect("32 bits");
                Ipv4Addr::from_bits(low).into()
            }
            IpAddr::V6(_) => Ipv6Addr::from_bits(first).into(),
        };
        Self { address, bits: self.bits }
    }

    /// Whether it holds the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.overlaps(&Self::host(address))
    }

    /// Whether the two have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.address.is_ipv4() != other.address.is_ipv4() {
            return false;
        }
        let ((first, last), (others_first, others_last)) = (self.range(), other.range());
        first <= others_last && others_first <= last
    }

    /// The first and the last address in the prefix, as numbers.
    #[must_use]
    pub fn range(&self) -> (u128, u128) {
        let bits = match self.address {
            IpAddr::V4(_) => 96 + u32::from(self.bits),
            IpAddr::V6(_) => u32::from(self.bits),
        };
        let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
        let address = Self::number(self.address);
        (address & !rest, address | rest)
    }

    /// An address as a number; IPv4 addresses use their IPv6-mapped value.
    #[must_use]
    pub fn number(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }
}

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Self, NoPrefix> {
        let (address, bits) = text.split_once('/').ok_or(NoPrefix)?;
        let address: IpAddr = address.parse().map_err(|_| NoPrefix)?;
        let bits: u8 = bits.parse().map_err(|_| NoPrefix)?;
        // IPv4 lives inside IPv6 here, where IPv6 itself cannot reach.
        match address {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(NoPrefix),
            IpAddr::V4(_) | IpAddr::V6(_) => Self::new(address, bits),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// IPv4 before IPv6, shorter before longer ones.
impl Ord for Prefix {
    fn cmp(&self, other: &Self) -> Ordering {
        let key =
            |prefix: &Self| (prefix.address.is_ipv6(), prefix.bits, Self::number(prefix.address));
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Prefix {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The bits of an address.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in
            ["", "10.0.0.0", "10.0.0.0/33", "::/129", "a/8", "10.0.0.0/-1", "::ffff:1.2.3.4/96"]
        {
            assert_eq!(text.parse::<Prefix>(), Err(NoPrefix), "{text}");
        }
        let prefix: Prefix = "10.2.3.4/16".parse().unwrap();
        assert_eq!(prefix.network().to_string(), "10.2.0.0/16");
        assert_eq!((prefix.to_string().as_str(), prefix.bits()), ("10.2.3.4/16", 16));
        assert_eq!(Prefix::new("10.2.3.4".parse().unwrap(), 33), Err(NoPrefix));
    }

    #[test]
    fn prefixes_are_in_order() {
        let order = ["0.0.0.0/0", "10.0.0.0/8", "11.0.0.0/8", "10.0.0.0/16", "::/0", "fd00::/8"];

        let prefixes = order.map(|text| text.parse::<Prefix>().unwrap());

        assert!(prefixes.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_prefix_holds_what_agrees_in_its_bits() {
        let holds = |prefix: &str, address: &str| {
            prefix.parse::<Prefix>().unwrap().contains(address.parse().unwrap())
        };

        assert!(holds("10.2.0.0/16", "10.2.255.1") && !holds("10.2.0.0/16", "10.3.0.1"));
        assert!(holds("0.0.0.0/0", "192.0.2.1") && !holds("0.0.0.0/0", "fd00::1"));
        assert!(holds("::/0", "fd00::1") && !holds("::/0", "192.0.2.1"));
        assert!(holds("fd00::7/128", "fd00::7") && !holds("fd00::7/128", "fd00::8"));
    }
}
