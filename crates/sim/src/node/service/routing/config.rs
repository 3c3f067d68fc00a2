//! Configuration and counters of routing in a node.

use base::rng::Rng;
use manet::{Router, aodv, dsdv, host, olsr, ospf, waiting};

/// Which routing protocol a node runs, and how the node serves it.
#[derive(Clone, Debug)]
pub struct RoutingConfig {
    /// The protocol.
    pub protocol: RoutingProtocol,
    /// How the node supports the protocol.
    pub options: RoutingOptions,
}

/// Options for the node's support of its routing protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RoutingOptions {
    /// What may wait in the node for a route; without room for packets none waits.
    pub waiting: waiting::Config,
    /// Treatment of the node's own packets if the link layer could not deliver them to a neighbour.
    pub own_unsent: Unsent,
    /// Whether all queued packets for an unreachable neighbour are taken back too, as if their transmission
    /// had failed. AODV-UU does so in ns-2.
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

/// Treatment of a packet that did not reach the neighbour.
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
    /// Runs the given protocol, with node options as in ns-2.
    #[must_use]
    pub fn new(protocol: RoutingProtocol) -> Self {
        let mut options = RoutingOptions::default();
        match protocol {
            RoutingProtocol::Aodv(_) | RoutingProtocol::Olsr(_) => {}
            RoutingProtocol::Dsdv(_) => options.waiting.packets_per_destination = 5,
            // Senders learn of a missing route at once, as from routers of fixed networks.
            RoutingProtocol::Ospf(_) => options.waiting.packets = 0,
        }
        Self { protocol, options }
    }
}

impl RoutingOptions {
    /// The options of the part that nodes share with the gateway.
    pub(crate) fn host(self) -> host::Config {
        host::Config {
            waiting: self.waiting,
            drops_unsent: self.own_unsent == Unsent::Drop,
            ..host::Config::default()
        }
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

base::counters! {
    /// Counters of routing events outside the protocol.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct RoutingCounters {
        /// Routes given and taken.
        pub route_changes: counter(routes);
        /// Packets that the link layer could not bring to a neighbour.
        pub unsent: counter(packets);
        /// Of the undelivered packets, the node's own packets routed again.
        pub rerouted: counter(packets);
        /// Packets sent into a half tunnel.
        pub encapsulated: counter(packets);
        /// Packets taken out of a half tunnel.
        pub decapsulated: counter(packets);
        /// Packets dropped at a half tunnel: not allowed inside, such as fragments, or damaged on leaving.
        pub tunnel_malformed: counter(packets);
        /// Packets refused as too long for a half tunnel.
        pub too_big: counter(packets);
        /// Packets refused because the protocol found no route.
        pub unreachable: counter(packets);
        /// Packets refused because they had waited too long.
        pub expired: counter(packets);
        /// Packets dropped to make room for others that wait.
        pub evicted: counter(packets);
        /// Messages that could not be read as UDP.
        pub malformed: counter(messages);
    }
}
