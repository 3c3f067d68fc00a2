//! What can be set of routing in a node, and what is counted.

use base::rng::Rng;
use manet::{Router, aodv, dsdv, olsr, ospf, waiting};
use serde::Serialize;

/// Which routing protocol a node runs, and how the node serves it.
#[derive(Clone, Debug)]
pub struct RoutingConfig {
    /// The protocol.
    pub protocol: RoutingProtocol,
    /// What the node does for it.
    pub options: RoutingOptions,
}

/// What a node does for its routing protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RoutingOptions {
    /// What may wait in the node for a route; without room for packets none waits.
    pub waiting: waiting::Config,
    /// What becomes of the node's own packets that the link layer could not bring to a neighbour.
    pub own_unsent: Unsent,
    /// Whether what else waits for a neighbour that the link layer could not reach is taken from the
    /// queue, as if that had failed too. AODV-UU does so in ns-2.
    pub recalls_queue: bool,
}

/// A routing protocol and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutingProtocol {
    /// AODV.
    Aodv(aodv::Config),
    /// DSDV.
    Dsdv(dsdv::Config),
    /// OLSR.
    Olsr(olsr::Config),
    /// OSPF.
    Ospf(ospf::Config),
}

/// What becomes of a packet that did not reach the neighbour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unsent {
    /// It is dropped.
    Drop,
    /// It takes the new route, and waits for it if there is none.
    Reroute,
}

impl Default for RoutingOptions {
    fn default() -> Self {
        Self {
            waiting: waiting::Config::default(),
            own_unsent: Unsent::Reroute,
            recalls_queue: true,
        }
    }
}

impl RoutingConfig {
    /// This protocol, and a node that serves it as ns-2 does.
    #[must_use]
    pub fn new(protocol: RoutingProtocol) -> Self {
        let mut options = RoutingOptions::default();
        match protocol {
            RoutingProtocol::Aodv(_) | RoutingProtocol::Olsr(_) => {}
            RoutingProtocol::Dsdv(_) => options.waiting.packets_per_destination = 5,
            // What there is no route to is told at once, as routers of fixed networks do.
            RoutingProtocol::Ospf(_) => options.waiting.packets = 0,
        }
        Self { protocol, options }
    }
}

impl RoutingProtocol {
    pub(crate) fn start(&self, rng: Rng) -> Box<dyn Router> {
        match self {
            Self::Aodv(config) => Box::new(aodv::Aodv::new(config.clone(), rng)),
            Self::Dsdv(config) => Box::new(dsdv::Dsdv::new(*config, rng)),
            Self::Olsr(config) => Box::new(olsr::Olsr::new(config.clone(), rng)),
            Self::Ospf(config) => Box::new(ospf::Ospf::new(config.clone(), rng)),
        }
    }
}

/// What happened outside of the protocol.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct RoutingCounters {
    /// Routes given and taken.
    pub route_changes: u64,
    /// Packets that the link layer could not bring to a neighbour.
    pub unsent: u64,
    /// Of those, own packets that were routed again.
    pub rerouted: u64,
    /// Packets sent into a half tunnel.
    pub encapsulated: u64,
    /// Packets taken out of a half tunnel.
    pub decapsulated: u64,
    /// Dropped: packets that no half tunnel takes, such as fragments, or that came damaged out of one.
    pub tunnel_malformed: u64,
    /// Packets refused as too long for a half tunnel.
    pub too_big: u64,
    /// Packets refused because the protocol found no route.
    pub unreachable: u64,
    /// Packets refused because they had waited too long.
    pub expired: u64,
    /// Packets dropped to make room for others that wait.
    pub evicted: u64,
    /// Messages that could not be read as UDP.
    pub malformed: u64,
}
