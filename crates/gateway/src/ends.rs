//! Identifies remote ends, and sets of remote ends: nodes of the HF network, and gateways that connect over IP.

use std::net::IpAddr;

use base::ip::Prefix;
use hf::s5066::Address;

/// Who asks for a connection. HF does not prove a node's address; TCP's handshake proves a gateway's address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// A gateway, by its source address.
    Gateway(IpAddr),
    /// A node of the HF network.
    Node(Address),
}

/// Some nodes and gateways.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ends {
    nodes: Vec<Address>,
    gateways: Vec<Prefix>,
}

impl End {
    /// The gateway that connects from an address; an IPv4-mapped IPv6 address counts as the IPv4 address.
    #[must_use]
    pub fn gateway(from: IpAddr) -> Self {
        Self::Gateway(from.to_canonical())
    }
}

impl Ends {
    /// The set of all `nodes`, and of all gateways with an address in one of the networks `gateways`.
    #[must_use]
    pub fn new(nodes: Vec<Address>, gateways: Vec<Prefix>) -> Self {
        Self { nodes, gateways }
    }

    /// Whether nobody is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.gateways.is_empty()
    }

    /// Whether the set contains this end.
    #[must_use]
    pub fn has(&self, end: End) -> bool {
        match end {
            End::Gateway(from) => self.gateways.iter().any(|network| network.contains(from)),
            End::Node(node) => self.nodes.contains(&node),
        }
    }

    /// Whether the set contains nodes.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The networks of the gateways in the set.
    #[must_use]
    pub fn gateways(&self) -> &[Prefix] {
        &self.gateways
    }
}
