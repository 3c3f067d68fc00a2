//! Which node or group an IP address belongs to.

use std::net::IpAddr;

use crate::ip::Prefix;
use crate::s5066::Address;

/// Whom a block of addresses is reached through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// Which addresses; those of multicast groups too.
    pub prefix: Prefix,
    /// The node, or the group of nodes.
    pub to: Address,
}

/// The node or group of the longest prefix that holds the address.
pub(super) fn find(routes: &[Route], address: IpAddr) -> Option<Address> {
    let fitting = routes.iter().filter(|route| route.prefix.contains(address));
    fitting.max_by_key(|route| route.prefix.bits()).map(|route| route.to)
}
