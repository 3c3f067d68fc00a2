//! The protocol's routes, for lookups by packets' destinations.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use crate::Route;
use base::ip::Prefix;

/// Bits of an IPv4 address.
const BITS: u8 = 32;

/// Routes by their prefixes.
#[derive(Debug, Default)]
pub struct Table {
    routes: BTreeMap<(u8, Ipv4Addr), Route>,
    /// Number of routes that lead to a gateway.
    through_gateways: usize,
}

impl Table {
    /// Replaces the route to a prefix, or removes it; returns the previous route.
    pub fn set(&mut self, prefix: Prefix, route: Option<Route>) -> Option<Route> {
        let IpAddr::V4(address) = prefix.network().address() else { return None };
        let key = (prefix.bits(), address);
        let before = match route {
            Some(route) => self.routes.insert(key, route),
            None => self.routes.remove(&key),
        };
        let number =
            |route: Option<Route>| usize::from(route.is_some_and(|it| it.gateway.is_some()));
        self.through_gateways = self.through_gateways + number(route) - number(before);
        before
    }

    /// Whether any route leads to a gateway.
    pub fn has_gateways(&self) -> bool {
        self.through_gateways > 0
    }

    /// The route with the longest prefix that holds an address.
    pub fn find(&self, destination: Ipv4Addr) -> Option<Route> {
        (0..=BITS).rev().find_map(|bits| {
            let mask = u32::MAX.checked_shl(u32::from(BITS - bits)).unwrap_or(0);
            let network = Ipv4Addr::from_bits(destination.to_bits() & mask);
            self.routes.get(&(bits, network)).copied()
        })
    }

    /// All routes, in the order of their addresses.
    pub fn routes(&self) -> Vec<(Prefix, Route)> {
        let mut all: Vec<_> =
            self.routes.iter().map(|((bits, address), it)| (*address, *bits, *it)).collect();
        all.sort_by_key(|(address, bits, _)| (*address, *bits));
        let prefix = |address: Ipv4Addr, bits| Prefix::new(address.into(), bits).ok();
        all.into_iter()
            .filter_map(|(address, bits, it)| Some((prefix(address, bits)?, it)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Neighbour;

    use super::*;

    fn route(last: u8) -> Route {
        let next = Neighbour { interface: 0, address: Ipv4Addr::new(10, 0, 0, last) };
        Route { next, hops: 1, gateway: None }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let mut table = Table::default();
        for (prefix, via) in [("0.0.0.0/0", 1), ("10.0.0.0/8", 2), ("10.0.0.9/32", 3)] {
            table.set(prefix.parse().unwrap(), Some(route(via)));
        }

        let via = |table: &Table, to: [u8; 4]| {
            table.find(to.into()).map(|it| it.next.address.octets()[3])
        };

        assert_eq!(via(&table, [10, 0, 0, 9]), Some(3));
        assert_eq!(via(&table, [10, 0, 0, 8]), Some(2));
        assert_eq!(via(&table, [192, 0, 2, 1]), Some(1));
        table.set("0.0.0.0/0".parse().unwrap(), None);
        assert_eq!(via(&table, [192, 0, 2, 1]), None);
        table.set("9.0.0.1/32".parse().unwrap(), Some(route(4)));
        let prefixes: Vec<_> =
            table.routes().iter().map(|(prefix, _)| prefix.to_string()).collect();
        assert_eq!(prefixes, ["9.0.0.1/32", "10.0.0.0/8", "10.0.0.9/32"]);
    }
}
