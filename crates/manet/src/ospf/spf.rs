//! Calculates the shortest routes to all networks (RFC 2328, 16.1), by Dijkstra's algorithm.
//!
//! Among routes of equal cost, fewer routers win, then the first interface, then the lowest address: every run gives
//! the same result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use base::ip::Prefix;
use base::time::Time;

use super::greeting::mask;
use super::neighbour::State;
use super::router::Ospf;
use super::stats::Counter;
use super::wire::{RouterLsa, kind, link};
use crate::{Event, Neighbour, Route};

/// A way to a router; the less, the better.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Way {
    pub(super) cost: u32,
    pub(super) hops: u8,
    pub(super) next: Neighbour,
}

impl Ospf {
    /// Finds the routes anew where the database has changed.
    pub(super) fn calculate(&mut self, now: Time) {
        if !std::mem::take(&mut self.is_outdated) {
            return;
        }
        self.stats.count(Counter::Calculations);
        let after = routes(self, now);
        let before = std::mem::replace(&mut self.routes, after);
        for prefix in before.keys().filter(|it| !self.routes.contains_key(it)) {
            self.events.push_back(Event::Route(*prefix, None));
        }
        for (prefix, route) in &self.routes {
            if before.get(prefix) != Some(route) {
                self.events.push_back(Event::Route(*prefix, Some(*route)));
            }
        }
    }
}

/// The routes that the database of a router says are best.
fn routes(ospf: &Ospf, now: Time) -> BTreeMap<Prefix, Route> {
    let Some(own) = ospf.id else { return BTreeMap::new() };
    let lsas = ospf.database.iter().filter(|(key, entry)| {
        key.kind == kind::ROUTER && key.id == key.router && !entry.header(now).is_over()
    });
    let routers: BTreeMap<Ipv4Addr, RouterLsa> = lsas
        .filter_map(|(key, entry)| Some((key.router, RouterLsa::parse(entry.body()).ok()?)))
        .collect();
    let full = ospf.links.iter().filter_map(|(interface, link)| {
        let peer = link.neighbour.as_ref().filter(|peer| peer.state == State::Full)?;
        let next = Neighbour { interface: *interface, address: peer.address };
        Some((peer.id, Way { cost: ospf.config.cost.into(), hops: 1, next }))
    });
    let tree = tree(own, full.collect(), &routers);

    let network = |address: Ipv4Addr, bits| {
        Prefix::new(IpAddr::V4(address), bits).ok().map(|prefix| prefix.network())
    };
    let links = ospf.links.values().flat_map(|link| {
        let address = link.interface.address;
        [network(address, ospf.config.link_bits), network(address, 32)]
    });
    let here: BTreeSet<Prefix> =
        links.flatten().chain(ospf.config.attached.iter().map(Prefix::network)).collect();

    let mut best: BTreeMap<Prefix, Way> = BTreeMap::new();
    for (router, way) in &tree {
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

/// The best routes to all routers, from a router with these first hops. A link counts only if both ends announce it.
pub(super) fn tree(
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
