//! What each service sends and receives, from the keys by which the services open their sockets.

use std::net::{IpAddr, SocketAddr};

use base::ip::{Prefix, protocol};

use super::Config;
use super::hfpep::Transport;
use crate::linux::{firewall, led};

/// A socket to which others send.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Listening {
    /// The section of the service.
    pub(crate) service: &'static str,
    /// The key that names the address.
    pub(crate) key: &'static str,
    /// TCP or UDP.
    pub(crate) protocol: u8,
    pub(crate) at: SocketAddr,
}

/// A destination of a service's own packets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Call {
    /// Who it is, in words.
    pub(crate) whom: String,
    /// The name of a tunnel's peer.
    pub(crate) peer: Option<String>,
    pub(crate) protocol: u8,
    /// The destination address; none if there are many possible ones.
    pub(crate) to: Option<IpAddr>,
    /// The port; none where the protocol has none, or any port is possible.
    pub(crate) port: Option<u16>,
    /// The firewall mark of the packets.
    pub(crate) mark: u32,
}

/// Packets between other hosts which a service leads to this host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Taking {
    pub(crate) service: &'static str,
    pub(crate) protocol: u8,
    /// To these networks,
    pub(crate) networks: Vec<Prefix>,
    /// to these ports; none for all,
    pub(crate) ports: Vec<u16>,
    /// arriving by these interfaces, `lo` for this host's own; none for all.
    pub(crate) interfaces: Vec<String>,
    /// The firewall mark that leads packets here.
    pub(crate) mark: u32,
}

impl Taking {
    /// Whether this host's own packets are taken.
    pub(crate) fn takes_own(&self) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == "lo")
    }
}

/// Datagrams between neighbours on a link, from a port to the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Neighbourly {
    pub(crate) service: &'static str,
    pub(crate) interface: String,
    pub(crate) port: u16,
}

impl Config {
    /// Where services listen.
    pub(crate) fn listening(&self) -> Vec<Listening> {
        let mut all = Vec::new();
        let mut add = |service, key, protocol, at| {
            all.push(Listening { service, key, protocol, at });
        };
        for at in self.tunnel.iter().flat_map(|it| &it.listen) {
            add("tunnel", "tunnel.listen", protocol::UDP, *at);
        }
        if let Some(pep) = &self.hf_pep {
            if let Some(at) = pep.bearer.listen {
                add("hfpep", "hfpep.bearer.listen", protocol::TCP, at);
            }
            for it in &pep.listeners {
                add("hfpep", "hfpep.listen.at", it.transport.protocol(), it.at);
            }
        }
        if let Some(it) = &self.s5066 {
            add("s5066", "s5066.listen", protocol::TCP, it.listen);
        }
        if let Some(sar) = &self.sar {
            sar.listen.iter().for_each(|at| add("sar", "sar.listen", protocol::UDP, *at));
            sar.udp.iter().for_each(|at| add("sar", "sar.udp", protocol::UDP, *at));
        }
        all
    }

    /// The addresses of this host without which services do not work: where they listen, and GRE's own.
    pub(crate) fn used_addresses(&self) -> Vec<Listening> {
        let gre = self.gre.iter().map(|it| {
            let at = SocketAddr::new(it.local, 0);
            Listening { service: "gre", key: "gre.local", protocol: protocol::GRE, at }
        });
        self.listening().into_iter().chain(gre).collect()
    }

    /// The destinations of services' own packets that the file names.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut all = Vec::new();
        // With the first mark go packets that routes to networks behind devices must not lead.
        let (past, own) = (host::MARK.value(), firewall::MARK.value());
        let target = firewall::TARGET.value();
        let mut add = |whom: &str, protocol, to: Option<IpAddr>, port, mark| {
            let to = to.map(|it| it.to_canonical());
            all.push(Call { whom: whom.to_owned(), peer: None, protocol, to, port, mark });
        };
        let client = self.ip_client.iter().map(|it| ("the node of [ipclient]", it.server, past));
        let modem = self.s5066.iter().map(|it| ("the modem of [s5066]", it.modem, own));
        let of_pep = self.hf_pep.iter().flat_map(|pep| {
            let node = pep.server.map(|at| ("the node of [hfpep]", at, own));
            let gateways = pep.gateways().into_iter();
            node.into_iter().chain(gateways.map(|at| ("the gateway of [hfpep]", at, own)))
        });
        for (whom, at, mark) in client.chain(modem).chain(of_pep) {
            add(whom, protocol::TCP, Some(at.ip()), Some(at.port()), mark);
        }
        for pep in self.hf_pep.iter().filter(|pep| pep.has_targets()) {
            let hosts = pep.allowed.iter().flatten().flat_map(|it| &it.to);
            let host = |to: &Prefix| Prefix::host(to.address()) == *to;
            for to in hosts.clone().filter(|to| host(to)) {
                add("a target of [hfpep]", protocol::TCP, Some(to.address()), None, target);
            }
            if pep.allowed.is_none() || hosts.clone().any(|to| !host(to)) {
                add("targets of [hfpep]", protocol::TCP, None, None, target);
            }
        }
        if let Some(sar) = &self.sar {
            let gateways = sar.carry.iter().flat_map(|it| &it.peers);
            for (_, gateway) in gateways {
                let at = Some(*gateway);
                add("the gateway of [sar.carry]", protocol::UDP, at, Some(sar.port()), 0);
            }
        }
        for it in &self.gre {
            add("the router of [[gre]]", protocol::GRE, Some(it.remote), None, 0);
        }
        for peer in self.tunnel.iter().flat_map(|it| &it.peers) {
            let Some(at) = peer.endpoint.as_ref().and_then(|it| it.address()) else { continue };
            all.push(Call {
                whom: format!("the peer {}", peer.name),
                peer: Some(peer.name.clone()),
                protocol: protocol::UDP,
                to: Some(at.ip().to_canonical()),
                port: Some(at.port()),
                mark: past,
            });
        }
        let mut known = Vec::new();
        all.retain(|call| {
            let is_new = !known.contains(call);
            known.push(call.clone());
            is_new
        });
        all
    }

    /// The traffic that services lead to this host.
    pub(crate) fn takings(&self) -> Vec<Taking> {
        let pep = self.hf_pep.iter().filter(|pep| !pep.peers.is_empty()).map(|pep| Taking {
            service: "hfpep",
            protocol: protocol::TCP,
            networks: pep.peers.iter().map(|peer| peer.to).collect(),
            ports: Vec::new(),
            interfaces: pep.interfaces.clone(),
            mark: led::DIVERTED.mark.value(),
        });
        let carry = self.sar.iter().filter_map(|sar| sar.carry.as_ref()).map(|carry| Taking {
            service: "sar",
            protocol: protocol::UDP,
            networks: carry.peers.iter().map(|(to, _)| *to).collect(),
            ports: carry.ports.clone(),
            interfaces: carry.interfaces.clone(),
            mark: led::CAPTURED.mark.value(),
        });
        pep.chain(carry).collect()
    }

    /// What services say to neighbours.
    pub(crate) fn neighbourly(&self) -> Vec<Neighbourly> {
        let of_routing = self.routing.iter().filter_map(|it| Some((it, it.protocol.port()?)));
        let each = of_routing.flat_map(|(routing, port)| {
            let interfaces = routing.interfaces.iter();
            interfaces.map(move |name| Neighbourly {
                service: "routing",
                interface: name.clone(),
                port,
            })
        });
        each.collect()
    }
}

impl Transport {
    /// The number of the protocol.
    pub(crate) fn protocol(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp { .. } => protocol::UDP,
        }
    }
}
