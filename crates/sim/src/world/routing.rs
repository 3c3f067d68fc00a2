//! Starts routing protocols on nodes, and reports their routes.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};

use base::ip::Prefix;
use manet::{Route, Router};

use super::World;
use crate::ids::{NodeId, PortId};
use crate::medium::wire::Wire;
use crate::node::service::routing::{Routing, RoutingConfig, RoutingCounters, RoutingOptions};
use crate::route_log::{RouteLog, RouteRecord};

impl World {
    /// Starts a routing protocol on the given ports of a node, or, if `ports` is empty, on all ports except
    /// ends of links. Add addresses and links before: packets from links wait for a route like the node's own.
    ///
    /// Routes of the protocol rank before shortest paths, and after routes set by hand.
    pub fn enable_routing(&mut self, node: NodeId, config: &RoutingConfig, ports: &[PortId]) {
        let rng = self.stream(&format!("routing {}", self.name(node)));
        self.enable_router(node, config.protocol.start(rng), config.options, ports);
    }

    /// The same with a protocol of any kind.
    pub fn enable_router(
        &mut self,
        node: NodeId,
        router: Box<dyn Router>,
        options: RoutingOptions,
        ports: &[PortId],
    ) {
        let ports = if ports.is_empty() { self.ports_of(node, false) } else { ports.to_vec() };
        let beyond = self.ports_of(node, true).into_iter().filter(|port| !ports.contains(port));
        let outside = beyond.flat_map(|port| {
            let neighbours = self.engine.medium_of(port).neighbours(self.engine.now, port);
            neighbours.into_iter().map(|far| far.port)
        });
        let outside = outside.collect();
        self.start(node, Routing::new(router, options, ports, outside));
    }

    /// The routes that the node's routing protocol has given, in the order of their prefixes.
    #[must_use]
    pub fn routes(&self, node: NodeId) -> Vec<(Prefix, Route)> {
        self.routing(node).map_or_else(Vec::new, |routing| routing.router().routes())
    }

    /// The gateway of the node's half tunnel for packets to `destination`, if any.
    #[must_use]
    pub fn gateway(&self, node: NodeId, destination: IpAddr) -> Option<Ipv4Addr> {
        self.routing(node)?.gateway(destination)
    }

    /// The counters of the node's routing protocol, by name.
    #[must_use]
    pub fn routing_protocol_counters(&self, node: NodeId) -> Vec<(&'static str, u64)> {
        let counted = self.routing(node).map(|routing| routing.router().counters());
        counted.unwrap_or_default().into_iter().map(|(it, count)| (it.name, count)).collect()
    }

    /// Counters of the node's support for its routing protocol.
    #[must_use]
    pub fn routing_counters(&self, node: NodeId) -> RoutingCounters {
        self.routing(node).map_or_else(RoutingCounters::default, Routing::counters)
    }

    /// Records from now on which routes come and go, up to `limit` changes.
    pub fn record_routes(&mut self, limit: usize) {
        self.engine.route_log = Some(RouteLog::new(limit));
    }

    /// The changes of routes that were recorded, in their order.
    #[must_use]
    pub fn route_changes(&self) -> &[RouteRecord] {
        self.engine.route_log.as_ref().map_or(&[], RouteLog::records)
    }

    /// Route changes not recorded for lack of room.
    #[must_use]
    pub fn route_changes_missed(&self) -> u64 {
        self.engine.route_log.as_ref().map_or(0, RouteLog::missed)
    }

    fn routing(&self, node: NodeId) -> Option<&Routing> {
        self.services(node).next()
    }

    /// The ports of a node on links between two, or on other media.
    fn ports_of(&self, node: NodeId, on_links: bool) -> Vec<PortId> {
        let ports = self.nodes[node.index()].interfaces.iter().map(|interface| interface.port);
        let is_such = |port: &PortId| {
            let medium: &dyn Any = self.engine.medium_of(*port);
            medium.is::<Wire>() == on_links
        };
        ports.filter(is_such).collect()
    }
}
