//! Node addresses: 28 bits, and a flag for groups (Annex A, section 2.2.28.1; Annex C, section 3.2.5).

use std::fmt;
use std::str::FromStr;

/// The address of a node or of a group of nodes.
///
/// Written `w.x.y.z` with w from 0 to 15 for a node and 16 to 31 for a group.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Address(u32);

/// The bit that tells a group in the written form.
const GROUP: u32 = 1 << 28;

impl Address {
    /// Bits of an address.
    pub const BITS: u32 = 28;
    /// All stations.
    pub const BROADCAST: Self = Self(GROUP | 0x0fff_ffff);

    /// The node with this number; only the low 28 bits count.
    #[must_use]
    pub const fn node(value: u32) -> Self {
        Self(value & (GROUP - 1))
    }

    /// The group with this number; only the low 28 bits count.
    #[must_use]
    pub const fn group(value: u32) -> Self {
        Self(GROUP | (value & (GROUP - 1)))
    }

    /// The 28 bits.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0 & (GROUP - 1)
    }

    /// Whether it names a group.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0 & GROUP != 0
    }

    /// Half octets without leading zeros, 1 to 7.
    #[must_use]
    pub const fn half_octets(self) -> usize {
        let bits = Self::BITS - (self.value().leading_zeros() - (u32::BITS - Self::BITS));
        if bits == 0 { 1 } else { bits.div_ceil(4) as usize }
    }
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a node address is four numbers like 0.10.20.30, the first 0 to 15 (16 to 31 for a group), the others 0 to 255"
)]
pub struct NotAnAddress;

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let mut parts = text.split('.');
        let mut value = 0;
        for limit in [31, 255, 255, 255] {
            let part = parts.next().ok_or(NotAnAddress)?;
            let is_number = !part.is_empty() && part.bytes().all(|octet| octet.is_ascii_digit());
            let number: u32 = part.parse().map_err(|_| NotAnAddress)?;
            if !is_number || number > limit {
                return Err(NotAnAddress);
            }
            value = value << 8 | number;
        }
        if parts.next().is_some() { Err(NotAnAddress) } else { Ok(Self(value)) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [w, x, y, z] = self.0.to_be_bytes();
        write!(f, "{w}.{x}.{y}.{z}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_form_is_read_back() {
        for text in ["0.0.0.0", "0.10.20.30", "15.255.255.255", "16.0.0.0", "31.255.255.255"] {
            let address: Address = text.parse().unwrap();

            assert_eq!(address.to_string(), text);
        }
        assert_eq!("31.255.255.255".parse(), Ok(Address::BROADCAST));
        assert_eq!("0.10.20.30".parse(), Ok(Address::node(0x000a_141e)));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "1.2.3", "1.2.3.4.5", "32.0.0.0", "1.2.3.256", "1.2.+3.4", "a.b.c.d"] {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress), "{text}");
        }
    }

    #[test]
    fn the_shortest_form_keeps_every_digit_but_leading_zeros() {
        let lengths = [0, 1, 0xf, 0x10, 0x000a_141e, 0x0fff_ffff]
            .map(|value| Address::node(value).half_octets());

        assert_eq!(lengths, [1, 1, 1, 2, 5, 7]);
    }
}
