//! Services across several nodes: HBH among neighbours, and tunnels between two nodes.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::entropy::Seeded;
use base::ip::Prefix;
use base::time::Time;
use tunnel as nc;
use tunnel::secure::{self, PrivateKey};

use super::World;
use crate::ids::{LinkId, NodeId, TunnelId};
use crate::node::service::hbh::Hbh;
use crate::node::service::tunnel::{End, Keys, Tunnel, TunnelReport};
use crate::transits::Transits;

/// How long networks run before there is traffic: neighbours say hello some 32 times.
pub const MEETING: Duration = Duration::from_secs(64);

impl World {
    /// Starts HBH on a node: it says hello on all its interfaces, and neighbours that run HBH too
    /// become its peers. Until then, and to all others, it sends plain IP.
    pub fn enable_hbh(&mut self, node: NodeId, config: hbh::Config) {
        let rng = self.stream(&format!("hbh {}", self.name(node)));
        self.start(node, Hbh::new(config, rng));
    }

    /// Lets the network run for [`MEETING`], so that its services know each other before there is
    /// traffic: neighbours have said hello and measured their links, tunnels have agreed on keys.
    /// Returns the time after the meeting.
    pub fn meet(&mut self) -> Time {
        self.run_until(self.now() + MEETING);
        self.now()
    }

    /// Builds a coded tunnel between two nodes. Its datagrams use the addresses with which the nodes reach
    /// each other, so add the routes between the nodes before. [`World::route_into_tunnel`] selects the traffic for
    /// the tunnel. `None` if a node has no address.
    pub fn add_tunnel(&mut self, a: NodeId, b: NodeId, config: nc::Config) -> Option<TunnelId> {
        let towards = self.address(b)?;
        let near = self.nodes[a.index()].source_for(&self.engine, towards)?;
        let far = self.nodes[b.index()].source_for(&self.engine, near)?;
        self.start_tunnel([a, b], &[[near, far]], config)
    }

    /// Builds a coded tunnel between the two nodes that all these links connect; each link is a path of the tunnel.
    /// `None` without a link, or if they connect others.
    pub fn add_tunnel_over(&mut self, links: &[LinkId], config: nc::Config) -> Option<TunnelId> {
        let [a, b] = self.ends(*links.first()?).map(|port| self.node_of(port));
        let mut paths = Vec::new();
        for link in links {
            let mut ends = self.ends(*link);
            if self.node_of(ends[0]) == b {
                ends.reverse();
            }
            if ends.map(|port| self.node_of(port)) != [a, b] {
                return None;
            }
            let [near, far] = ends.map(|port| self.interface(port).addresses.first().copied());
            let (near, far) = (near?, far?);
            // The shortest way to an address of the other node may lead over another link.
            for (port, towards) in [(ends[0], far), (ends[1], near)] {
                self.add_route(port, Prefix::host(towards), None, 0);
            }
            paths.push([near, far]);
        }
        self.start_tunnel([a, b], &paths, config)
    }

    /// Starts the ends of a tunnel, which are at these addresses on each path.
    fn start_tunnel(
        &mut self,
        [a, b]: [NodeId; 2],
        paths: &[[IpAddr; 2]],
        config: nc::Config,
    ) -> Option<TunnelId> {
        let id = TunnelId(self.tunnels.into());
        let port = secure::PORT.checked_add(self.tunnels)?;
        let with_port = |ends: &[IpAddr; 2]| ends.map(|address| SocketAddr::new(address, port));
        let far_end = self.name(b);
        let which = self.services::<Tunnel>(a).filter(|end| end.far_name() == far_end).count();
        let name = self.ends_name([a, b], which);
        let stream = |what: &str, node| self.stream(&format!("{what} {name} {}", self.name(node)));
        let [mut at_a, mut at_b] = [a, b].map(|node| Seeded(stream("key", node)));
        let rngs = [a, b].map(|node| stream("nc", node));
        let key_a = PrivateKey::generate(&mut at_a).ok()?;
        let key_b = PrivateKey::generate(&mut at_b).ok()?;
        let (public_a, public_b) = (key_a.public_key(), key_b.public_key());
        let of_a = Keys { ours: key_a, theirs: public_b, entropy: at_a, is_caller: true };
        let of_b = Keys { ours: key_b, theirs: public_a, entropy: at_b, is_caller: false };
        for ((node, peer, keys), rng) in [(a, b, of_a), (b, a, of_b)].into_iter().zip(rngs) {
            let turned = |ends: [SocketAddr; 2]| match ends {
                [near, far] if node == a => [near, far],
                [near, far] => [far, near],
            };
            let paths = paths.iter().map(with_port).map(turned).collect();
            let end = End { id, node, paths, peer: self.name(peer).to_owned() };
            let tunnel = Tunnel::new(self.engine.now, end, keys, config, rng).ok()?;
            self.start(node, tunnel);
        }
        self.tunnels += 1;
        Some(id)
    }

    /// Routes a prefix of a node into a tunnel that ends there, whatever other routes say; false if
    /// none does.
    ///
    /// The tunnel's own datagrams are not routed into tunnels.
    pub fn route_into_tunnel(&mut self, node: NodeId, prefix: Prefix, tunnel: TunnelId) -> bool {
        let node = &mut self.nodes[node.index()];
        let found = node.services::<Tunnel>().find(|(_, end)| end.id() == tunnel);
        let Some(index) = found.map(|(index, _)| index) else { return false };
        node.route_into(prefix, index);
        true
    }

    /// Report of a tunnel's end at `node`; `None` if the tunnel has no end there.
    #[must_use]
    pub fn tunnel(&self, node: NodeId, tunnel: TunnelId) -> Option<TunnelReport> {
        let mut ends = self.services::<Tunnel>(node);
        ends.find(|end| end.id() == tunnel).map(Tunnel::report)
    }

    /// Records from now on how long packets are inside this tunnel, for up to `limit` packets.
    pub fn record_transits(&mut self, tunnel: TunnelId, limit: usize) {
        self.engine.transits = Some(Transits::new(tunnel, limit));
    }
}
