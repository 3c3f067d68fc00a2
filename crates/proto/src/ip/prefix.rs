//! A block of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and how many of its leading bits count, such as 10.2.0.0/16.
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

    /// Whether the two have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.address.is_ipv4() != other.address.is_ipv4() {
            return false;
        }
        let ((first, last), (others_first, others_last)) = (self.range(), other.range());
        first <= others_last && others_first <= last
    }

    /// The first and the last address of it, as numbers.
    pub(crate) fn range(&self) -> (u128, u128) {
        let bits = match self.address {
            IpAddr::V4(_) => 96 + u32::from(self.bits),
            IpAddr::V6(_) => u32::from(self.bits),
        };
        let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
        let address = Self::number(self.address);
        (address & !rest, address | rest)
    }

    /// An address as a number; those of IPv4 stand where IPv6 maps them to.
    pub(crate) fn number(address: IpAddr) -> u128 {
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
        let most = if address.is_ipv4() { 32 } else { 128 };
        if bits > most {
            return Err(NoPrefix);
        }
        // IPv4 lives inside IPv6 here, where IPv6 itself cannot reach.
        match address {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(NoPrefix),
            IpAddr::V4(_) | IpAddr::V6(_) => Ok(Self { address, bits }),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
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
        assert_eq!(prefix.to_string(), "10.2.3.4/16");
    }
}
