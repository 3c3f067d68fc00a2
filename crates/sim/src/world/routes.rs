//! Shortest paths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::World;
use crate::ids::NodeId;
use crate::node::{NextHop, Prefix, Route};

/// Leaves room below for routes that are set by hand.
const METRIC: u32 = 1_000;

/// A way out of a node.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    cost: u64,
    next: NextHop,
}

impl World {
    /// Gives every node a route to every address, along the cheapest path of links that are up.
    ///
    /// Of paths that cost the same it takes the one whose first link was made first. Earlier
    /// routes of this kind are replaced, those set by hand stay and win.
    pub fn auto_routes(&mut self) {
        let edges = self.edges();
        for origin in 0..self.nodes.len() {
            let firsts = first_hops(&edges, origin);
            let mut routes = Vec::new();
            for (target, next) in firsts.into_iter().enumerate() {
                let Some(next) = next else { continue };
                let target = NodeId(super::small(target));
                let prefixes = self.addresses(target).map(Prefix::host);
                routes.extend(prefixes.map(|prefix| Route { prefix, metric: METRIC, next }));
            }
            let node = &mut self.nodes[origin];
            node.table.remove_metric(METRIC);
            for route in routes {
                node.table.add(route);
            }
            node.handle_routes_changed(&mut self.engine);
        }
    }

    fn edges(&self) -> Vec<Vec<Edge>> {
        let mut edges = vec![Vec::new(); self.nodes.len()];
        for link in self.links.iter().filter(|link| link.is_up) {
            let [a, b] = link.ends;
            for (near, far) in [(a, b), (b, a)] {
                let port = &self.engine.ports[near.index()];
                let next = NextHop { interface: port.interface, neighbour: far };
                let to = self.node_of(far).index();
                edges[port.node.index()].push(Edge { to, cost: u64::from(link.cost), next });
            }
        }
        edges
    }
}

/// The first hop from `origin` to every node that can be reached (Dijkstra).
fn first_hops(edges: &[Vec<Edge>], origin: usize) -> Vec<Option<NextHop>> {
    let mut firsts: Vec<Option<NextHop>> = vec![None; edges.len()];
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
                firsts[edge.to] = firsts[node].or(Some(edge.next));
                open.push(Reverse((through, edge.to)));
            }
        }
    }
    firsts
}
