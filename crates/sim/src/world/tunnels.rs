//! Services that need more than a node: HBH among neighbours, tunnels between two.

use std::net::SocketAddr;

use proto::ip::Prefix;
use proto::{hbh, nc};

use super::World;
use crate::engine::Port;
use crate::ids::{NodeId, PortId, TunnelId};
use crate::node::service::hbh::{Hbh, link_of};
use crate::node::service::tunnel::{End, Tunnel, TunnelReport};
use crate::transits::Transits;

/// The UDP port of the first tunnel.
const TUNNEL_PORT: u16 = 51_820;

impl World {
    /// Starts HBH on a node. Neighbours that run it too, now or later, become its peers; they have
    /// said hello to each other for a minute then.
    pub fn enable_hbh(&mut self, node: NodeId, config: hbh::Config) {
        let rng = self.stream(&format!("hbh {}", self.name(node)));
        self.start(node, Hbh::new(config, rng));
        for (near, far) in self.neighbours(node) {
            if self.services::<Hbh>(self.node_of(far)).next().is_some() {
                self.add_hbh_peer(near, far);
                self.add_hbh_peer(far, near);
                self.greet(near, far);
            }
        }
    }

    /// Builds a coded tunnel between two nodes: datagrams between the addresses with which they
    /// reach each other, so the routes between them should be there. What goes into it is for
    /// [`World::route_into_tunnel`] to say. `None` if one of them has no address.
    pub fn add_tunnel(&mut self, a: NodeId, b: NodeId, config: nc::Config) -> Option<TunnelId> {
        let id = TunnelId(self.tunnels.into());
        let port = TUNNEL_PORT.checked_add(self.tunnels)?;
        let towards = self.address(b)?;
        let near = self.nodes[a.index()].source_for(&self.engine, towards)?;
        let far = self.nodes[b.index()].source_for(&self.engine, near)?;
        let [near, far] = [near, far].map(|address| SocketAddr::new(address, port));
        for (node, peer, local, remote) in [(a, b, near, far), (b, a, far, near)] {
            let rng = self.stream(&format!("nc {} {}", id.0, self.name(node)));
            let end = End { id, node, local, remote, peer: self.name(peer).to_owned() };
            self.start(node, Tunnel::new(self.engine.now, end, config, rng));
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

    /// An end of a tunnel; `None` if it does not end there.
    #[must_use]
    pub fn tunnel(&self, node: NodeId, tunnel: TunnelId) -> Option<TunnelReport> {
        let mut ends = self.services::<Tunnel>(node);
        ends.find(|end| end.id() == tunnel).map(Tunnel::report)
    }

    /// Records from now on how long packets are inside this tunnel, for up to `limit` packets.
    pub fn record_transits(&mut self, tunnel: TunnelId, limit: usize) {
        self.engine.transits = Some(Transits::new(tunnel, limit));
    }

    fn add_hbh_peer(&mut self, near: PortId, far: PortId) {
        let local = self.interface(near).addresses.first().copied();
        let remote = local.and_then(|local| self.interface(far).address_like(local));
        let (Some(local), Some(remote)) = (local, remote) else { return };
        let Port { node, interface, .. } = self.engine.ports[near.index()];
        let mtu = self.interface(near).config.mtu;
        let peer = hbh::PeerConfig { link: link_of(interface), local, remote, mtu };
        let node = &mut self.nodes[node.index()];
        node.with_service(
            &mut self.engine,
            |_: &Hbh| true,
            |hbh| {
                hbh.add_peer(interface, far, peer);
            },
        );
    }
}
