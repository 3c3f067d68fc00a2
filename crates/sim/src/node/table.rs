//! The forwarding table: longest prefix first, then lowest metric.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::medium::LinkAddress;

/// A block of addresses.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Prefix {
    is_v6: bool,
    len: u8,
    bits: u128,
}

/// Where a packet goes next: an interface, and whom to reach through it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextHop {
    /// The index of the interface in its node.
    pub interface: usize,
    /// The neighbour, as the interface's medium found it.
    pub neighbour: LinkAddress,
}

/// A way to a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Route {
    /// Which destinations.
    pub(crate) prefix: Prefix,
    /// How good; lower is better.
    pub(crate) metric: u32,
    /// The index of the interface in its node.
    pub(crate) interface: usize,
    /// The neighbour's address; `None` where the destination itself is a neighbour.
    pub(crate) via: Option<IpAddr>,
}

impl Prefix {
    /// The block of the addresses that agree with `address` in the first `len` bits.
    ///
    /// # Panics
    /// When `len` exceeds the bits of the address.
    #[must_use]
    pub fn new(address: IpAddr, len: u8) -> Self {
        assert!(len <= width(address), "a prefix is no longer than an address");
        let bits = bits(address) & mask(width(address), len);
        Self { is_v6: address.is_ipv6(), len, bits }
    }

    /// The block that holds one address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self::new(address, width(address))
    }

    /// The first address of the block.
    pub(crate) fn address(self) -> IpAddr {
        if self.is_v6 {
            std::net::Ipv6Addr::from_bits(self.bits).into()
        } else {
            let bits = u32::try_from(self.bits).expect("an IPv4 prefix has 32 bits");
            std::net::Ipv4Addr::from_bits(bits).into()
        }
    }

    /// How many bits the addresses in the block agree in.
    pub(crate) fn len(self) -> u8 {
        self.len
    }

    /// Whether `address` is in the block.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_v6 && Self::new(address, self.len) == self
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.len)
    }
}

/// Why text is not a prefix.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not a prefix such as 10.0.0.0/8 or fd00::/64")]
pub struct NotAPrefix(String);

impl FromStr for Prefix {
    type Err = NotAPrefix;

    /// Reads `address/length`, or an address alone, which is the block of that one.
    fn from_str(text: &str) -> Result<Self, NotAPrefix> {
        let refused = || NotAPrefix(text.to_owned());
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse().map_err(|_| refused())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let len = len.unwrap_or(width(address));
        if len > width(address) {
            return Err(refused());
        }
        Ok(Self::new(address, len))
    }
}

/// The forwarding table of a node.
#[derive(Debug, Default)]
pub(crate) struct Table {
    routes: BTreeMap<Prefix, Vec<Route>>,
    /// The versions and lengths in use, the longest first.
    shapes: Vec<(bool, u8)>,
    /// What the last destinations gave; emptied by every change.
    recent: [Option<(IpAddr, NextHop)>; RECENT],
}

const RECENT: usize = 8;

impl Table {
    /// Adds a route, or replaces the one with the same prefix and metric.
    pub(crate) fn add(&mut self, route: Route) {
        self.recent = [None; RECENT];
        let routes = self.routes.entry(route.prefix).or_default();
        routes.retain(|other| other.metric != route.metric);
        let place = routes.partition_point(|other| other.metric < route.metric);
        routes.insert(place, route);
        let shape = (route.prefix.is_v6, route.prefix.len);
        if let Err(place) = self.shapes.binary_search_by(|other| shape.cmp(other)) {
            self.shapes.insert(place, shape);
        }
    }

    /// Removes the routes to exactly `prefix`, with any metric where that is `None`.
    pub(crate) fn remove(&mut self, prefix: Prefix, metric: Option<u32>) {
        self.recent = [None; RECENT];
        if let Some(routes) = self.routes.get_mut(&prefix) {
            routes.retain(|route| metric.is_some_and(|metric| metric != route.metric));
        }
    }

    /// Forgets what depends on which interfaces are up and who has which address.
    pub(crate) fn forget_recent(&mut self) {
        self.recent = [None; RECENT];
    }

    /// Removes all routes with this metric.
    pub(crate) fn remove_metric(&mut self, metric: u32) {
        self.recent = [None; RECENT];
        for routes in self.routes.values_mut() {
            routes.retain(|route| route.metric != metric);
        }
        self.routes.retain(|_, routes| !routes.is_empty());
    }

    /// The best way to `destination` through an interface for which `resolve` finds the neighbour
    /// with an address; it finds none while the interface is down.
    pub(crate) fn lookup(
        &mut self,
        destination: IpAddr,
        resolve: impl Fn(usize, IpAddr) -> Option<LinkAddress>,
    ) -> Option<NextHop> {
        let slot = recent_slot(destination);
        match self.recent[slot] {
            Some((recent, next)) if recent == destination => return Some(next),
            _ => {}
        }

        let next = self.search(destination, resolve)?;
        self.recent[slot] = Some((destination, next));
        Some(next)
    }

    /// As `lookup`, but remembers nothing.
    pub(crate) fn search(
        &self,
        destination: IpAddr,
        resolve: impl Fn(usize, IpAddr) -> Option<LinkAddress>,
    ) -> Option<NextHop> {
        self.shapes
            .iter()
            .filter(|(is_v6, _)| *is_v6 == destination.is_ipv6())
            .filter_map(|(_, len)| self.routes.get(&Prefix::new(destination, *len)))
            .flatten()
            .find_map(|&Route { interface, via, .. }| {
                let neighbour = resolve(interface, via.unwrap_or(destination))?;
                Some(NextHop { interface, neighbour })
            })
    }
}

fn recent_slot(address: IpAddr) -> usize {
    let bits = bits(address);
    let folded = bits ^ (bits >> 8) ^ (bits >> 16);
    usize::try_from(folded % RECENT as u128).expect("below 8")
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(width: u8, len: u8) -> u128 {
    let all = u128::MAX >> (128 - width);
    all & !all.checked_shr(u32::from(len)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_then_the_lowest_metric() {
        let mut table = Table::default();
        table.add(route("0.0.0.0/0", 1, 0));
        table.add(route("10.0.0.0/8", 9, 1));
        table.add(route("10.0.1.0/24", 7, 2));
        table.add(route("10.0.1.0/24", 5, 3));

        let mut through = |address: &str| {
            table.lookup(address.parse().unwrap(), everyone).map(|next| next.interface)
        };

        assert_eq!(through("10.0.1.200"), Some(3));
        assert_eq!(through("10.0.2.1"), Some(1));
        assert_eq!(through("192.0.2.1"), Some(0));
        assert_eq!(through("fd00::1"), None);
    }

    #[test]
    fn a_route_through_an_interface_that_is_down_is_passed_over() {
        let mut table = Table::default();
        table.add(route("fd00::/16", 1, 0));
        table.add(route("fd00::/16", 2, 1));
        let destination = "fd00::1".parse().unwrap();

        let without_first = |up, via| if up == 0 { None } else { everyone(up, via) };
        assert_eq!(table.lookup(destination, everyone).map(|next| next.interface), Some(0));
        table.forget_recent();
        assert_eq!(table.lookup(destination, without_first).map(|next| next.interface), Some(1));
    }

    #[test]
    fn a_removed_route_is_gone_at_once() {
        let mut table = Table::default();
        let destination = "10.0.0.1".parse().unwrap();
        table.add(route("10.0.0.1", 1, 0));
        assert!(table.lookup(destination, everyone).is_some());

        table.remove("10.0.0.1/32".parse().unwrap(), None);

        assert_eq!(table.lookup(destination, everyone), None);
    }

    #[test]
    fn a_prefix_is_read_as_it_is_written() {
        for text in ["0.0.0.0/0", "10.1.0.0/16", "fd00:1::/32", "::/0", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.1/33", "x/8", "10.0.0.0/", "fd00::/129"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    fn route(prefix: &str, metric: u32, interface: usize) -> Route {
        Route { prefix: prefix.parse().unwrap(), metric, interface, via: None }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands for one that may not find anybody")]
    fn everyone(_: usize, _: IpAddr) -> Option<LinkAddress> {
        Some(LinkAddress::Broadcast)
    }
}
