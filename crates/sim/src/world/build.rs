//! Building a network from nodes, links and services.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ip::Prefix;
use base::rng::Rng;

use super::{World, small};
use crate::channel::{self, Channel};
use crate::engine::Port;
use crate::ids::{LinkId, MediumId, NodeId, PortId};
use crate::medium::Medium;
use crate::medium::wire::Wire;
use crate::node::{Interface, InterfaceConfig, Node, PassiveOpens, Route, Service};

/// What a point-to-point link is like.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// From the first node to the second.
    pub there: channel::Config,
    /// From the second node to the first.
    pub back: channel::Config,
    /// The interface of the first node.
    pub near: InterfaceConfig,
    /// The interface of the second node.
    pub far: InterfaceConfig,
    /// The cost that shortest paths count.
    pub cost: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::symmetric(channel::Config::default(), InterfaceConfig::default())
    }
}

impl LinkConfig {
    /// A link that is the same in both directions.
    #[must_use]
    pub fn symmetric(channel: channel::Config, interface: InterfaceConfig) -> Self {
        Self { there: channel.clone(), back: channel, near: interface, far: interface, cost: 1 }
    }
}

impl World {
    /// Adds a node. Names should be unique, as they name random streams.
    pub fn add_node(&mut self, name: &str) -> NodeId {
        let id = NodeId(small(self.nodes.len()));
        let rng = self.stream(&format!("tcp {name}"));
        let coding = self.stream(&format!("tcpnc {name}"));
        self.nodes.push(Node::new(id, name.to_owned(), rng, coding));
        id
    }

    /// Joins two nodes by a link.
    ///
    /// Its ends get addresses: of link `n`, `10.n.1` and `.2` in a /24 and `fd00:n::1` and `::2`
    /// in a /64, and routes to each other.
    pub fn connect(&mut self, a: NodeId, b: NodeId, config: &LinkConfig) -> LinkId {
        let link = self.links.len();
        let joins = |ends: &&[PortId; 2]| {
            let ends = ends.map(|port| self.node_of(port));
            ends == [a, b] || ends == [b, a]
        };
        let which = self.links.iter().filter(joins).count();
        let channels = [(a, b, &config.there), (b, a, &config.back)].map(|(from, to, channel)| {
            let name = format!("link {}", self.ends_name([from, to], which));
            Channel::new(channel.clone(), self.stream(&name))
        });
        let medium = self.add_medium(Wire::new(channels, config.cost));
        let ends = [(a, config.near, 1), (b, config.far, 2)].map(|(node, interface, host)| {
            let port = self.attach(node, medium, "eth", interface);
            for address in link_addresses(link, host) {
                self.add_address(port, address);
                let bits = if address.is_ipv4() { 24 } else { 64 };
                let prefix = Prefix::new(address, bits).expect("an address has more bits");
                self.add_route(port, prefix, None, 0);
            }
            port
        });
        self.links.push(ends);
        LinkId(small(link))
    }

    /// Adds a medium that nodes can be [attached](Self::attach) to.
    pub fn add_medium(&mut self, medium: impl Medium) -> MediumId {
        self.engine.add_medium(Box::new(medium))
    }

    /// Gives a node an interface on a medium, called `kind` and a number; it has no address yet.
    pub fn attach(
        &mut self,
        node: NodeId,
        medium: MediumId,
        kind: &str,
        config: InterfaceConfig,
    ) -> PortId {
        let interfaces = &mut self.nodes[node.index()].interfaces;
        let port = self.engine.add_port(node, interfaces.len(), medium);
        let name = format!("{kind}{}", interfaces.len());
        interfaces.push(Interface::new(name, config, port));
        port
    }

    /// Adds an address to an interface; what leads there is for routes to say.
    pub fn add_address(&mut self, port: PortId, address: IpAddr) {
        let Port { node, interface, medium, .. } = self.engine.ports[port.index()];
        self.engine.medium_mut(medium).handle_address(port, address);
        for other in &mut self.nodes {
            other.table.forget_recent();
        }
        self.nodes[node.index()].handle_address(&mut self.engine, interface, address);
    }

    /// Adds a route to `prefix` by an interface: through the neighbour with the address `via`, or
    /// to destinations that are neighbours themselves.
    pub fn add_route(&mut self, port: PortId, prefix: Prefix, via: Option<IpAddr>, metric: u32) {
        let interface = self.engine.ports[port.index()].interface;
        let node = self.node_of(port);
        self.nodes[node.index()].table.add(Route { prefix, metric, interface, via });
    }

    /// Adds a route of `node` to `prefix` through its neighbour `via`; false if they are no
    /// neighbours.
    pub fn route(&mut self, node: NodeId, prefix: Prefix, via: NodeId, metric: u32) -> bool {
        let Some((port, via)) = self.towards(node, via) else { return false };
        self.add_route(port, prefix, Some(via), metric);
        self.nodes[node.index()].handle_routes_changed(&mut self.engine);
        self.call_ready();
        true
    }

    /// Says how many passive opens each application of a node that listens for TCP has from now on.
    pub fn set_passive_opens(&mut self, node: NodeId, passive_opens: PassiveOpens) {
        self.nodes[node.index()].sockets.set_passive_opens(passive_opens);
    }

    /// Starts a service on a node.
    pub fn add_service(&mut self, node: NodeId, service: impl Service) {
        let _ = self.start(node, service);
    }

    /// The services of one kind on a node.
    pub fn services<S: Service>(&self, node: NodeId) -> impl Iterator<Item = &S> {
        self.nodes[node.index()].services().map(|(_, service)| service)
    }

    /// The medium with this number; `None` if the medium has another type.
    #[must_use]
    pub fn medium<M: Medium>(&self, medium: MediumId) -> Option<&M> {
        let medium: &dyn Any = self.engine.medium(medium);
        medium.downcast_ref()
    }

    /// What random streams between two nodes are named by: the nodes, and how many like it were there before
    /// between the same two. Nothing else that stands in a description changes it.
    pub(crate) fn ends_name(&self, [a, b]: [NodeId; 2], which: usize) -> String {
        numbered(&format!("{}/{}", self.name(a), self.name(b)), which)
    }

    /// The name for random streams of a node's next interface of a kind: node, and number of existing interfaces
    /// of the kind.
    pub(crate) fn station_name(&self, node: NodeId, kind: &str) -> String {
        let Node { name, interfaces, .. } = &self.nodes[node.index()];
        let is_such = |interface: &&Interface| {
            let number = interface.name.strip_prefix(kind);
            number.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        numbered(name, interfaces.iter().filter(is_such).count())
    }

    /// The random stream called `name`; each use has a separate stream.
    #[must_use]
    pub fn stream(&self, name: &str) -> Rng {
        Rng::stream(self.seed, name)
    }

    /// Starts a service on a node and returns its index there.
    pub(crate) fn start(&mut self, node: NodeId, service: impl Service) -> usize {
        let index = self.nodes[node.index()].add_service(&mut self.engine, Box::new(service));
        self.call_ready();
        index
    }

    /// The port of `node` towards its neighbour `via`, and the neighbour's address.
    fn towards(&self, node: NodeId, via: NodeId) -> Option<(PortId, IpAddr)> {
        let ports = self.nodes[node.index()].interfaces.iter().map(|interface| interface.port);
        ports.into_iter().find_map(|near| {
            let neighbours = self.engine.medium_of(near).neighbours(self.engine.now, near);
            let far = neighbours.into_iter().find(|far| self.node_of(far.port) == via)?;
            Some((near, self.interface(far.port).addresses.first().copied()?))
        })
    }
}

/// A name, and for all but the first that has it a number. Names of nodes have no `/`.
fn numbered(name: &str, which: usize) -> String {
    if which == 0 { name.to_owned() } else { format!("{name}/{which}") }
}

/// The addresses of a link's end.
fn link_addresses(link: usize, host: u16) -> [IpAddr; 2] {
    let number = u16::try_from(link).expect("a world has fewer than 2^16 links");
    let [high, low] = number.to_be_bytes();
    let [_, last] = host.to_be_bytes();
    [
        Ipv4Addr::new(10, high, low, last).into(),
        Ipv6Addr::new(0xfd00, number, 0, 0, 0, 0, 0, host).into(),
    ]
}
