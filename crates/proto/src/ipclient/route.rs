//! Which node or group an IP address belongs to.

use std::net::IpAddr;

use crate::s5066::Address;

/// A block of IP addresses.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Why there is no such prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("prefix length {len} is not allowed here: 0 to {max}")]
pub struct NoSuchPrefix {
    /// What was asked for.
    pub len: u8,
    /// The bits of the address.
    pub max: u8,
}

/// Whom a block of addresses is reached through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// Which addresses; those of multicast groups too.
    pub prefix: Prefix,
    /// The node, or the group of nodes.
    pub to: Address,
}

impl Prefix {
    /// The addresses that agree with this one in the first `len` bits.
    ///
    /// # Errors
    /// When the address has fewer bits.
    pub fn new(address: IpAddr, len: u8) -> Result<Self, NoSuchPrefix> {
        let max = if address.is_ipv4() { 32 } else { 128 };
        if len > max { Err(NoSuchPrefix { len, max }) } else { Ok(Self { address, len }) }
    }

    /// Whether it holds the address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let (bits, own, unused) = match (address, self.address) {
            (IpAddr::V4(address), IpAddr::V4(own)) => {
                (u128::from(address.to_bits()), u128::from(own.to_bits()), 32 - self.len)
            }
            (IpAddr::V6(address), IpAddr::V6(own)) => {
                (address.to_bits(), own.to_bits(), 128 - self.len)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        (bits ^ own).checked_shr(u32::from(unused)).unwrap_or(0) == 0
    }
}

/// The node or group of the longest prefix that holds the address.
pub(super) fn find(routes: &[Route], address: IpAddr) -> Option<Address> {
    let fitting = routes.iter().filter(|route| route.prefix.contains(address));
    fitting.max_by_key(|route| route.prefix.len).map(|route| route.to)
}
