//! Calculates the shortest routes to all networks (RFC 2328, 16.1), by Dijkstra's algorithm.
//!
//! Among routes of equal cost, fewer routers win, then the first interface, then the lowest address: every run gives
//! the same result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use base::ip::Prefix;

use super::wire::{RouterLsa, link, mask};
use crate::{Neighbour, Route};

/// A way to a router; the less, the better.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Way {
    pub cost: u32,
    pub hops: u8,
    pub next: Neighbour,
}

/// The best routes to the networks that routers announce, for the router `own` with these first hops. `here` are the
/// networks of the router itself.
pub fn routes(
    own: Ipv4Addr,
    first: Vec<(Ipv4Addr, Way)>,
    routers: &BTreeMap<Ipv4Addr, RouterLsa>,
    here: &BTreeSet<Prefix>,
) -> BTreeMap<Prefix, Route> {
    let mut best: BTreeMap<Prefix, Way> = BTreeMap::new();
    for (router, way) in &tree(own, first, routers) {
        let Some(lsa) = routers.get(router) else { continue };
        for stub in lsa.links.iter().filter(|it| it.kind == link::STUB) {
            let bits = u8::try_from(stub.data.leading_ones()).unwrap_or(32);
            let Some(prefix) = network(stub.id, bits).filter(|_| mask(bits) == stub.data) else {
                continue;
            };
            if here.contains(&prefix) {
                continue;
            }
            let way = Way { cost: way.cost.saturating_add(stub.metric.into()), ..*way };
            let known = best.entry(prefix).or_insert(way);
            *known = way.min(*known);
        }
    }
    let route = |way: Way| Route { next: way.next, hops: way.hops, gateway: None };
    best.into_iter().map(|(prefix, way)| (prefix, route(way))).collect()
}

/// The network of an address; `None` if `bits` is too great for a prefix.
pub fn network(address: Ipv4Addr, bits: u8) -> Option<Prefix> {
    Prefix::new(IpAddr::V4(address), bits).ok().map(|prefix| prefix.network())
}

/// The best routes to all routers, from a router with these first hops. A link counts only if both ends announce it.
pub fn tree(
    own: Ipv4Addr,
    first: Vec<(Ipv4Addr, Way)>,
    routers: &BTreeMap<Ipv4Addr, RouterLsa>,
) -> BTreeMap<Ipv4Addr, Way> {
    let links = routers.iter().flat_map(|(from, lsa)| lsa.links.iter().map(move |it| (*from, it)));
    let links = links.filter(|(_, it)| it.kind == link::POINT_TO_POINT);
    let told: BTreeSet<(Ipv4Addr, Ipv4Addr)> = links.map(|(from, it)| (from, it.id)).collect();
    let first = first.into_iter().filter(|(router, _)| told.contains(&(*router, own)));
    let mut edge: BTreeSet<(Way, Ipv4Addr)> = first.map(|(router, way)| (way, router)).collect();
    let mut found = BTreeMap::new();
    while let Some((way, router)) = edge.pop_first() {
        if router == own || found.contains_key(&router) {
            continue;
        }
        found.insert(router, way);
        let Some(lsa) = routers.get(&router) else { continue };
        for link in lsa.links.iter().filter(|it| it.kind == link::POINT_TO_POINT) {
            if !found.contains_key(&link.id) && told.contains(&(link.id, router)) {
                let cost = way.cost.saturating_add(link.metric.into());
                let hops = way.hops.saturating_add(1);
                edge.insert((Way { cost, hops, ..way }, link.id));
            }
        }
    }
    found
}
