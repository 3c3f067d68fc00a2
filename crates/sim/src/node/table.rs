//! The forwarding table: longest prefix first, then lowest metric.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::ip::Prefix;

use crate::medium::LinkAddress;

/// The next hop of a packet: an interface, and a neighbour there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextHop {
    /// The index of the interface in its node.
    pub interface: usize,
    /// The neighbour's link address, resolved by the interface's medium.
    pub neighbour: LinkAddress,
}

/// A way to a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// Which destinations.
    pub(crate) prefix: Prefix,
    /// How good; lower is better.
    pub(crate) metric: u32,
    /// The index of the interface in its node.
    pub(crate) interface: usize,
    /// The neighbour's address; `None` where the destination itself is a neighbour.
    pub(crate) via: Option<IpAddr>,
}

/// The forwarding table of a node.
#[derive(Debug, Default)]
pub struct Table {
    routes: BTreeMap<Prefix, Vec<Route>>,
    /// The versions and lengths in use, the longest first.
    shapes: Vec<(bool, u8)>,
    /// Cache of the last lookups, by destination; emptied by every change.
    recent: [Option<(IpAddr, NextHop)>; RECENT],
}

const RECENT: usize = 8;

impl Table {
    /// Adds a route, or replaces the one with the same prefix and metric.
    pub fn add(&mut self, route: Route) {
        self.recent = [None; RECENT];
        let prefix = route.prefix.network();
        let routes = self.routes.entry(prefix).or_default();
        routes.retain(|other| other.metric != route.metric);
        let place = routes.partition_point(|other| other.metric < route.metric);
        routes.insert(place, route);
        let shape = (prefix.address().is_ipv6(), prefix.bits());
        if let Err(place) = self.shapes.binary_search_by(|other| shape.cmp(other)) {
            self.shapes.insert(place, shape);
        }
    }

    /// Removes the routes to exactly `prefix`, with any metric where that is `None`.
    pub fn remove(&mut self, prefix: Prefix, metric: Option<u32>) {
        self.recent = [None; RECENT];
        if let Some(routes) = self.routes.get_mut(&prefix.network()) {
            routes.retain(|route| metric.is_some_and(|metric| metric != route.metric));
        }
    }

    /// Clears the cache of recent routes, after a change of interfaces or addresses.
    pub fn forget_recent(&mut self) {
        self.recent = [None; RECENT];
    }

    /// Removes all routes with this metric.
    pub fn remove_metric(&mut self, metric: u32) {
        self.recent = [None; RECENT];
        for routes in self.routes.values_mut() {
            routes.retain(|route| route.metric != metric);
        }
        self.routes.retain(|_, routes| !routes.is_empty());
    }

    /// The best way to `destination` through an interface for which `resolve` finds the neighbour
    /// with an address; it finds none while the interface is down.
    pub fn lookup(
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
    pub fn search(
        &self,
        destination: IpAddr,
        resolve: impl Fn(usize, IpAddr) -> Option<LinkAddress>,
    ) -> Option<NextHop> {
        self.shapes
            .iter()
            .filter(|(is_v6, _)| *is_v6 == destination.is_ipv6())
            .filter_map(|(_, bits)| Prefix::new(destination, *bits).ok())
            .filter_map(|prefix| self.routes.get(&prefix.network()))
            .flatten()
            .find_map(|&Route { interface, via, .. }| {
                let neighbour = resolve(interface, via.unwrap_or(destination))?;
                Some(NextHop { interface, neighbour })
            })
    }
}

fn recent_slot(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let folded = bits ^ (bits >> 8) ^ (bits >> 16);
    usize::try_from(folded % RECENT as u128).expect("below 8")
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
        table.add(route("10.0.0.1/32", 1, 0));
        assert!(table.lookup(destination, everyone).is_some());

        table.remove("10.0.0.1/32".parse().unwrap(), None);

        assert_eq!(table.lookup(destination, everyone), None);
    }

    fn route(prefix: &str, metric: u32, interface: usize) -> Route {
        Route { prefix: prefix.parse().unwrap(), metric, interface, via: None }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands for one that may not find anybody")]
    fn everyone(_: usize, _: IpAddr) -> Option<LinkAddress> {
        Some(LinkAddress::Broadcast)
    }
}
