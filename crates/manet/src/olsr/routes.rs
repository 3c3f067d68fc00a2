//! Calculates routes to every node and network (RFC 3626, 10 and 12.6).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use base::ip::Prefix;

use super::neighbourhood::Neighbourhood;
use super::topology::Topology;
use crate::{Neighbour, Route};

/// What is a node's own.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// Its addresses.
    pub addresses: &'a BTreeSet<Ipv4Addr>,
    /// The networks behind it.
    pub attached: &'a [Prefix],
}

/// The next hop on the way to a node, and how many hops there are.
type Way = (Neighbour, u8);

/// The shortest routes to all nodes and networks that are known.
pub fn calculate(
    own: Own<'_>,
    hood: &Neighbourhood,
    topology: &Topology,
) -> BTreeMap<Prefix, Route> {
    let ways = ways(own, hood, topology);
    let route = |(next, hops): Way| Route { next, hops, gateway: None };
    let host = |address: Ipv4Addr| Prefix::host(address.into());

    let mut routes: BTreeMap<Prefix, Route> =
        ways.iter().map(|(main, way)| (host(*main), route(*way))).collect();
    for at in hood.symmetric_links() {
        routes.insert(host(at.address), route((at, 1)));
    }
    for (address, main) in topology.aliases() {
        if let Some(way) = ways.get(&main)
            && !own.addresses.contains(&address)
        {
            routes.entry(host(address)).or_insert(route(*way));
        }
    }

    let mut nearest: BTreeMap<Prefix, Way> = BTreeMap::new();
    for (gateway, network) in topology.networks() {
        let Some(&way) = ways.get(&topology.main_of(gateway)) else { continue };
        if own.attached.iter().any(|attached| attached.network() == network)
            || own.addresses.iter().any(|address| host(*address) == network)
        {
            continue;
        }
        let known = nearest.entry(network).or_insert(way);
        if way.1 < known.1 {
            *known = way;
        }
    }
    for (network, way) in nearest {
        routes.entry(network).or_insert(route(way));
    }
    routes
}

/// The ways to the main addresses of all nodes.
fn ways(own: Own<'_>, hood: &Neighbourhood, topology: &Topology) -> BTreeMap<Ipv4Addr, Way> {
    let symmetric = hood.symmetric();
    let mut ways: BTreeMap<Ipv4Addr, Way> =
        symmetric.iter().map(|(main, known)| (*main, (known.via, 1))).collect();

    // Through the most willing neighbour; among equals, the one with the lowest address.
    let mut carriers: BTreeMap<Ipv4Addr, (u8, Neighbour)> = BTreeMap::new();
    for (neighbour, address) in hood.two_hop() {
        let node = topology.main_of(address);
        let Some(known) = symmetric.get(&neighbour).filter(|known| known.willingness > 0) else {
            continue;
        };
        if symmetric.contains_key(&node) || own.addresses.contains(&node) {
            continue;
        }
        let carrier = carriers.entry(node).or_insert((known.willingness, known.via));
        if known.willingness > carrier.0 {
            *carrier = (known.willingness, known.via);
        }
    }
    let mut edge: Vec<Ipv4Addr> = carriers.keys().copied().collect();
    ways.extend(carriers.into_iter().map(|(node, (_, via))| (node, (via, 2))));

    // A hop farther each time.
    for hops in 3..=u8::MAX {
        let mut next = Vec::new();
        for last in edge {
            let (via, _) = ways[&last];
            for node in topology.told_by(last) {
                if !own.addresses.contains(&node) && !ways.contains_key(&node) {
                    ways.insert(node, (via, hops));
                    next.push(node);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        next.sort_unstable();
        edge = next;
    }
    ways
}
