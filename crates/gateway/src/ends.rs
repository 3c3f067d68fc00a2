//! Other ends of connections, and sets of them: nodes of the HF network, and gateways that connect over IP.

use std::net::IpAddr;

use base::ip::Prefix;
use hf::s5066::Address;

/// Who asks for a connection. HF does not prove which node it is; a gateway's address is proven by TCP's handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// A gateway, by the address that it connects from.
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
    /// The gateway that connects from an address, which is one of IPv4 if it is mapped to IPv6.
    #[must_use]
    pub fn gateway(from: IpAddr) -> Self {
        Self::Gateway(from.to_canonical())
    }
}

impl Ends {
    /// These nodes, and the gateways that connect from these networks.
    #[must_use]
    pub fn new(nodes: Vec<Address>, gateways: Vec<Prefix>) -> Self {
        Self { nodes, gateways }
    }

    /// Whether nobody is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.gateways.is_empty()
    }

    /// Whether an end is one of them.
    #[must_use]
    pub fn has(&self, end: End) -> bool {
        match end {
            End::Gateway(from) => self.gateways.iter().any(|network| network.contains(from)),
            End::Node(node) => self.nodes.contains(&node),
        }
    }

    /// Whether a node is among them.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The networks that the gateways among them connect from.
    #[must_use]
    pub fn gateways(&self) -> &[Prefix] {
        &self.gateways
    }
}
