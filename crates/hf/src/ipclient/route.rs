//! Routes: the node or group to which an IP address belongs.

use std::net::IpAddr;

use base::ip::Prefix;

use crate::s5066::Address;

/// Whom a block of addresses is reached through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// Which addresses; those of multicast groups too.
    pub prefix: Prefix,
    /// The node, or the group of nodes.
    pub to: Address,
}

impl Route {
    /// The route of the longest prefix that holds the address.
    #[must_use]
    pub fn find(routes: &[Self], address: IpAddr) -> Option<&Self> {
        let fitting = routes.iter().filter(|route| route.prefix.contains(address));
        fitting.max_by_key(|route| route.prefix.bits())
    }
}

/// Whether an address is that of several hosts.
pub fn is_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}
