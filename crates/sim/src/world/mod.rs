//! A network: built, run, and asked what happened.

mod hellos;
mod hf;
mod plan;
mod report;
mod routes;
mod tcpnc;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use proto::hbh;
use proto::nc;
use proto::rng::Rng;
use proto::time::Time;

use crate::app::{App, echo, ping, stream, transfer};
use crate::capture::{Capture, LinkType};
use crate::channel::{self, Channel};
use crate::counters::PortCounters;
use crate::engine::{Engine, Kind, Medium, Port, Sequence};
use crate::flows::Flows;
use crate::ids::{AppId, LinkId, NodeId, PortId, TunnelId};
use crate::node::{Interface, InterfaceConfig, NextHop, Node, Prefix, Route, TunnelEnd, link_of};
use crate::transits::Transits;

pub use hf::{HfRecord, HfStation};
pub use plan::Change;
pub use report::{LinkReport, NodeReport, Report, TunnelReport};
pub use tcpnc::{CarrierReport, TcpncTunnel, TcpncTunnelConfig};

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

/// A link as it was built.
#[derive(Debug)]
struct Link {
    ends: [PortId; 2],
    cost: u32,
    is_up: bool,
}

/// A network in virtual time.
#[derive(Debug)]
pub struct World {
    seed: u64,
    engine: Engine,
    nodes: Vec<Node>,
    links: Vec<Link>,
    hf: Vec<hf::Frequency>,
    /// The two ends of each.
    tunnels: Vec<[NodeId; 2]>,
    /// Where each application runs: its node, and its index there.
    apps: Vec<(NodeId, usize)>,
    sequence: Sequence,
    changes: Vec<Change>,
}

impl World {
    /// An empty network; `seed` decides all that is random.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            engine: Engine::default(),
            nodes: Vec::new(),
            links: Vec::new(),
            hf: Vec::new(),
            tunnels: Vec::new(),
            apps: Vec::new(),
            sequence: Sequence::WORLD,
            changes: Vec::new(),
        }
    }

    /// Adds a node. Its name should be its own: random streams are named by it.
    pub fn add_node(&mut self, name: &str) -> NodeId {
        let id = NodeId(small(self.nodes.len()));
        let rng = Rng::stream(self.seed, &format!("tcp {name}"));
        let coding = Rng::stream(self.seed, &format!("tcpnc {name}"));
        self.nodes.push(Node::new(id, name.to_owned(), rng, coding));
        id
    }

    /// Joins two nodes by a link.
    ///
    /// Its ends get addresses: of link `n`, `10.n.1` and `.2` in a /24 and `fd00:n::1` and `::2`
    /// in a /64, and routes to each other.
    pub fn connect(&mut self, a: NodeId, b: NodeId, config: &LinkConfig) -> LinkId {
        let link = self.links.len();
        let medium = self.engine.media.len();
        let ends = [self.next_port(0), self.next_port(1)];
        let sides = [(a, b, config.near, &config.there), (b, a, config.far, &config.back)];
        let channels = sides.map(|(from, to, _, channel)| {
            let name = format!("link {link} {} {}", self.name(from), self.name(to));
            Channel::new(channel.clone(), Rng::stream(self.seed, &name))
        });
        self.engine.media.push(Medium::Wire(Box::new(channels)));

        for (side, (node, _, interface, _)) in sides.into_iter().enumerate() {
            let addresses = link_addresses(link, side);
            let interfaces = &mut self.nodes[node.index()].interfaces;
            let index = interfaces.len();
            let name = format!("eth{index}");
            interfaces.push(Interface::new(name, interface, ends[side], addresses.to_vec()));
            self.engine.ports.push(Port {
                node,
                interface: index,
                medium,
                side,
                counters: PortCounters::default(),
                captures: Vec::new(),
            });
            let next = NextHop { interface: index, neighbour: ends[1 - side] };
            for address in addresses {
                let len = if address.is_ipv4() { 24 } else { 64 };
                let route = Route { prefix: Prefix::new(address, len), metric: 0, next };
                self.nodes[node.index()].table.add(route);
            }
        }
        self.links.push(Link { ends, cost: config.cost, is_up: true });
        LinkId(small(link))
    }

    /// Adds an address to an interface; what leads there is for routes to say.
    pub fn add_address(&mut self, port: PortId, address: IpAddr) {
        self.interface_mut(port).addresses.push(address);
    }

    /// Adds a route of `node` to `prefix` through its neighbour `via`; false if they are no
    /// neighbours.
    pub fn route(&mut self, node: NodeId, prefix: Prefix, via: NodeId, metric: u32) -> bool {
        let Some(next) = self.towards(node, via) else { return false };
        self.nodes[node.index()].table.add(Route { prefix, metric, next });
        self.nodes[node.index()].handle_routes_changed(&mut self.engine);
        true
    }

    /// Starts HBH on a node. Neighbours that run it too, now or later, become its peers; they have
    /// said hello to each other for a minute then.
    pub fn enable_hbh(&mut self, node: NodeId, config: hbh::Config) {
        let name = format!("hbh {}", self.name(node));
        self.nodes[node.index()].enable_hop(config, Rng::stream(self.seed, &name));
        for link in 0..self.links.len() {
            let [a, b] = self.links[link].ends;
            let nodes = [a, b].map(|end| self.node_of(end));
            let have_hop = nodes.iter().all(|node| self.nodes[node.index()].hop.is_some());
            if nodes.contains(&node) && have_hop {
                self.add_hop_peer(a, b);
                self.add_hop_peer(b, a);
                self.greet(a, b);
            }
        }
    }

    /// Builds a coded tunnel between two nodes: datagrams between the addresses with which they
    /// reach each other, so the routes between them should be there. What goes into it is for
    /// [`World::route_into_tunnel`] to say. `None` if one of them has no address.
    pub fn add_tunnel(&mut self, a: NodeId, b: NodeId, config: nc::Config) -> Option<TunnelId> {
        let id = TunnelId(small(self.tunnels.len()));
        let port = TUNNEL_PORT.checked_add(u16::try_from(self.tunnels.len()).ok()?)?;
        let towards = self.address(b)?;
        let near = self.nodes[a.index()].source_for(towards)?;
        let far = self.nodes[b.index()].source_for(near)?;
        let [near, far] = [near, far].map(|address| SocketAddr::new(address, port));
        for (node, peer, local, remote) in [(a, b, near, far), (b, a, far, near)] {
            let name = format!("nc {} {}", id.0, self.name(node));
            let rng = Rng::stream(self.seed, &name);
            let end = TunnelEnd { id, config, local, remote, peer: self.name(peer).to_owned() };
            self.nodes[node.index()].add_tunnel(&mut self.engine, end, rng);
        }
        self.tunnels.push([a, b]);
        Some(id)
    }

    /// Routes a prefix of a node into a tunnel that ends there, whatever other routes say; false if
    /// none does.
    ///
    /// The tunnel's own datagrams are not routed into tunnels.
    pub fn route_into_tunnel(&mut self, node: NodeId, prefix: Prefix, tunnel: TunnelId) -> bool {
        self.nodes[node.index()].route_into_tunnel(prefix, tunnel)
    }

    /// Records from now on how long packets are inside this tunnel, for up to `limit` packets.
    pub fn record_transits(&mut self, tunnel: TunnelId, limit: usize) {
        self.engine.transits = Some(Transits::new(tunnel, limit));
    }

    /// Installs an application that sends a stream of datagrams.
    pub fn add_stream_sender(&mut self, node: NodeId, config: stream::SenderConfig) -> AppId {
        self.add_app(node, App::StreamSender(stream::Sender::new(config)))
    }

    /// Installs an application that receives a stream of datagrams.
    pub fn add_stream_sink(&mut self, node: NodeId, port: u16) -> AppId {
        self.add_app(node, App::StreamSink(stream::Sink::new(port)))
    }

    /// Installs an application that sends requests.
    pub fn add_ping(&mut self, node: NodeId, config: stream::SenderConfig) -> AppId {
        self.add_app(node, App::Ping(ping::Ping::new(config)))
    }

    /// Installs an application that answers requests.
    pub fn add_echo(&mut self, node: NodeId, port: u16) -> AppId {
        self.add_app(node, App::Echo(echo::Echo::new(port)))
    }

    /// Installs an application that sends octets over TCP.
    pub fn add_transfer_sender(&mut self, node: NodeId, config: transfer::SenderConfig) -> AppId {
        self.add_app(node, App::TransferSender(Box::new(transfer::Sender::new(config))))
    }

    /// Installs an application that receives octets over TCP.
    pub fn add_transfer_sink(&mut self, node: NodeId, config: transfer::SinkConfig) -> AppId {
        self.add_app(node, App::TransferSink(Box::new(transfer::Sink::new(config))))
    }

    /// Sends an IP packet from a node, as if a program there had made it.
    pub fn inject(&mut self, node: NodeId, packet: &[u8]) {
        let packet = self.engine.packets.add_copy(packet);
        self.nodes[node.index()].handle_local(&mut self.engine, packet);
        self.settle_hf();
    }

    /// Plans a change of the network.
    pub fn at(&mut self, time: Time, change: Change) {
        let index = small(self.changes.len());
        self.changes.push(change);
        self.engine.schedule(time, &mut self.sequence, Kind::Change { index });
    }

    /// Captures what passes the interfaces of a node into `folder`/`name`.pcapng.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn capture_node(&mut self, node: NodeId, folder: &Path) -> io::Result<()> {
        let file = format!("{}.pcapng", self.name(node));
        let ports: Vec<_> =
            self.nodes[node.index()].interfaces.iter().map(|interface| interface.port).collect();
        self.capture(folder, &file, &ports)
    }

    /// Captures what both ends of a link send and receive into `folder`/`a-b.pcapng`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn capture_link(&mut self, link: LinkId, folder: &Path) -> io::Result<()> {
        let ends = self.links[link.index()].ends;
        let [a, b] = ends.map(|end| self.name(self.node_of(end)));
        let file = format!("{a}-{b}-{}.pcapng", link.index());
        self.capture(folder, &file, &ends)
    }

    /// Counts from now on what each flow puts on the links, for up to `limit` flows.
    ///
    /// Under HBH the ports are not in sight, and all flows between two hosts are one.
    pub fn count_flows(&mut self, limit: usize) {
        self.engine.flows = Some(Flows::new(limit));
    }

    /// Writes out what captures have buffered.
    ///
    /// # Errors
    /// When a capture could not be written, now or earlier.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        let frequencies = self.hf.iter_mut().filter_map(|frequency| frequency.capture_mut());
        self.engine.captures.iter_mut().chain(frequencies).try_for_each(Capture::finish)
    }

    /// Runs until all that happens before or at `end` has happened.
    pub fn run_until(&mut self, end: Time) {
        while self.step(end) {}
        self.engine.now = self.engine.now.max(end);
    }

    /// Runs until nothing is left to happen, or `is_done` says so, or `limit` is reached.
    pub fn run(&mut self, limit: Time, mut is_done: impl FnMut(&Self) -> bool) {
        while !is_done(self) && self.step(limit) {}
    }

    /// Lets the next thing happen, unless that is after `limit`; false if there was none.
    pub fn step(&mut self, limit: Time) -> bool {
        let Some(event) = self.engine.queue.pop_until(limit) else { return false };
        let Self { engine, nodes, .. } = self;
        engine.now = event.time;
        engine.events += 1;
        match event.kind {
            Kind::Arrive { port, from, packet } => {
                let Port { node, interface, .. } = engine.ports[port.index()];
                nodes[node.index()].handle_arrival(engine, interface, from, packet);
            }
            Kind::Change { index } => self.apply(index as usize),
            Kind::Idle { port } => {
                let Port { node, interface, .. } = engine.ports[port.index()];
                nodes[node.index()].handle_idle(engine, interface);
            }
            Kind::Hf { net } => self.wake_hf(net as usize),
            Kind::Wake { node } => nodes[node.index()].handle_wake(engine),
        }
        self.settle_hf();
        true
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.engine.queue.next_time()
    }

    /// The ports at the two ends of a link, in the order of [`World::connect`].
    #[must_use]
    pub fn ends(&self, link: LinkId) -> [PortId; 2] {
        self.links[link.index()].ends
    }

    /// The first IPv4 address of a node; with no interface it has none.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<IpAddr> {
        self.addresses(node).find(IpAddr::is_ipv4)
    }

    /// All addresses of a node.
    pub fn addresses(&self, node: NodeId) -> impl Iterator<Item = IpAddr> {
        let interfaces = &self.nodes[node.index()].interfaces;
        interfaces.iter().flat_map(|interface| interface.addresses.iter().copied())
    }

    fn add_app(&mut self, node: NodeId, app: App) -> AppId {
        let index = self.nodes[node.index()].add_app(&mut self.engine, app);
        self.apps.push((node, index));
        AppId(small(self.apps.len() - 1))
    }

    fn add_hop_peer(&mut self, near: PortId, far: PortId) {
        let local = self.interface(near).addresses.first().copied();
        let remote = local.and_then(|local| self.interface(far).address_like(local));
        let (Some(local), Some(remote)) = (local, remote) else { return };
        let Port { node, interface, .. } = self.engine.ports[near.index()];
        let mtu = self.interface(near).config.mtu;
        let peer = hbh::PeerConfig { link: link_of(interface), local, remote, mtu };
        let next = NextHop { interface, neighbour: far };
        self.nodes[node.index()].add_hop_peer(next, peer);
    }

    fn capture(&mut self, folder: &Path, file: &str, ports: &[PortId]) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut capture = Capture::create(&folder.join(file))?;
        for port in ports {
            let name = format!("{}:{}", self.name(self.node_of(*port)), self.interface(*port).name);
            let number = capture.add_interface(&name, LinkType::Ip);
            let index = self.engine.captures.len();
            self.engine.ports[port.index()].captures.push((index, number));
        }
        self.engine.captures.push(capture);
        Ok(())
    }

    /// How `node` reaches its neighbour `via`.
    fn towards(&self, node: NodeId, via: NodeId) -> Option<NextHop> {
        self.links.iter().find_map(|link| {
            let [a, b] = link.ends;
            [(a, b), (b, a)].into_iter().find_map(|(near, far)| {
                let is_it = self.node_of(near) == node && self.node_of(far) == via;
                let interface = self.engine.ports[near.index()].interface;
                is_it.then_some(NextHop { interface, neighbour: far })
            })
        })
    }

    fn next_port(&self, ahead: usize) -> PortId {
        PortId(small(self.engine.ports.len() + ahead))
    }

    fn node_of(&self, port: PortId) -> NodeId {
        self.engine.ports[port.index()].node
    }

    fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    fn interface(&self, port: PortId) -> &Interface {
        let Port { node, interface, .. } = self.engine.ports[port.index()];
        &self.nodes[node.index()].interfaces[interface]
    }

    fn interface_mut(&mut self, port: PortId) -> &mut Interface {
        let Port { node, interface, .. } = self.engine.ports[port.index()];
        &mut self.nodes[node.index()].interfaces[interface]
    }
}

/// The UDP port of the first tunnel.
const TUNNEL_PORT: u16 = 51_820;

/// The addresses of one end of a link.
fn link_addresses(link: usize, side: usize) -> [IpAddr; 2] {
    let number = u16::try_from(link).expect("a world has fewer than 2^16 links");
    let host = if side == 0 { 1 } else { 2 };
    let [high, low] = number.to_be_bytes();
    [
        Ipv4Addr::new(10, high, low, host).into(),
        Ipv6Addr::new(0xfd00, number, 0, 0, 0, 0, 0, u16::from(host)).into(),
    ]
}

fn small(index: usize) -> u32 {
    u32::try_from(index).expect("a world has fewer than 2^32 of anything")
}
