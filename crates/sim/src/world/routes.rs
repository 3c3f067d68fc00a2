//! Shortest paths.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use base::ip::Prefix;

use super::World;
use crate::ids::{NodeId, PortId};
use crate::medium::LinkAddress;
use crate::medium::wire::Wire;
use crate::node::Route;

/// Leaves room below for routes that are set by hand.
const METRIC: u32 = 1_000;

/// A way out of a node.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    cost: u64,
    near: PortId,
    far: PortId,
}

impl World {
    /// Gives every node a route to every address, along the cheapest path of links that are up.
    ///
    /// Among paths of equal cost the path with the oldest first link is chosen. Earlier automatic
    /// routes are replaced; routes set by hand stay and take precedence.
    pub fn auto_routes(&mut self) {
        self.route_along(|_, _| true);
    }

    /// The same along links between two nodes alone, where a routing protocol finds what is on radios.
    pub fn auto_routes_of_links(&mut self) {
        self.route_along(|world, port| {
            let medium: &dyn Any = world.engine.medium_of(port);
            medium.is::<Wire>()
        });
    }

    /// Sets shortest-path routes that leave nodes only by ports accepted by `takes`.
    fn route_along(&mut self, takes: impl Fn(&Self, PortId) -> bool) {
        let edges = |node| {
            let mut edges = self.edges(node);
            edges.retain(|edge: &Edge| takes(self, edge.near));
            edges
        };
        let edges: Vec<_> = (0..self.nodes.len()).map(edges).collect();
        for origin in 0..self.nodes.len() {
            let firsts = first_hops(&edges, origin);
            let mut routes = Vec::new();
            for (target, first) in firsts.into_iter().enumerate() {
                let Some(Edge { near, far, .. }) = first else { continue };
                let interface = self.engine.ports[near.index()].interface;
                let via = self.interface(far).addresses.first().copied();
                let prefixes = self.addresses(NodeId(super::small(target))).map(Prefix::host);
                let metric = METRIC;
                routes.extend(prefixes.map(|prefix| Route { prefix, metric, interface, via }));
            }
            let node = &mut self.nodes[origin];
            node.table.remove_metric(METRIC);
            for route in routes {
                node.table.add(route);
            }
            node.handle_routes_changed(&mut self.engine);
        }
        self.call_ready();
    }

    /// The nodes that a packet from `from` to `to` passes now, both ends included; `None` where its way
    /// ends before, or in a circle.
    #[must_use]
    pub fn path(&self, from: NodeId, to: IpAddr) -> Option<Vec<NodeId>> {
        let mut path = vec![from];
        loop {
            let node = &self.nodes[path.last()?.index()];
            if node.is_local(to) {
                return Some(path);
            }
            let resolve = |index: usize, via| node.interfaces[index].resolve(&self.engine, via);
            let LinkAddress::Port(port) = node.table.search(to, resolve)?.neighbour else {
                return None;
            };
            let next = self.node_of(port);
            if path.contains(&next) {
                return None;
            }
            path.push(next);
        }
    }

    fn edges(&self, node: usize) -> Vec<Edge> {
        let up = self.nodes[node].interfaces.iter().filter(|interface| interface.is_up);
        let edges = up.flat_map(|interface| {
            let near = interface.port;
            let neighbours = self.engine.medium_of(near).neighbours(self.engine.now, near);
            neighbours.into_iter().filter(|far| self.interface(far.port).is_up).map(move |far| {
                let (far, cost) = (far.port, u64::from(far.cost));
                Edge { to: self.node_of(far).index(), cost, near, far }
            })
        });
        edges.collect()
    }
}

/// The first hop from `origin` to every node that can be reached (Dijkstra).
fn first_hops(edges: &[Vec<Edge>], origin: usize) -> Vec<Option<Edge>> {
    let mut firsts: Vec<Option<Edge>> = vec![None; edges.len()];
    let mut costs = vec![u64::MAX; edges.len()];
    costs[origin] = 0;
    let mut open = BinaryHeap::from([Reverse((0, origin))]);
    while let Some(Reverse((cost, node))) = open.pop() {
        if cost > costs[node] {
            continue;
        }
        for edge in &edges[node] {
            let through = cost + edge.cost;
            if through < costs[edge.to] {
                costs[edge.to] = through;
                firsts[edge.to] = firsts[node].or(Some(*edge));
                open.push(Reverse((through, edge.to)));
            }
        }
    }
    firsts
}
