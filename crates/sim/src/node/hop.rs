//! HBH in a node: what the hooks of the IP stack do with it.
//!
//! ```text
//!  prerouting ─ protocol 253 ─▶ handle_message        poll_restored ─▶ input or forward
//!  postrouting ─ next hop speaks HBH ─▶ handle_packet  interface idle ─▶ poll_transmit
//! ```

use proto::contract::Refused;
use proto::hbh::{self, Link, LinkReport, Peer, PeerConfig};
use proto::ip::{FlowKey, Header, mss};
use proto::rng::Rng;
use proto::time::Time;

use super::deadlines::{DeadlineId, Owner};
use super::stack::too_big;
use super::{NextHop, Node};
use crate::engine::{Engine, PacketId};
use crate::ids::PortId;

/// A node's HBH, and which neighbours speak it too.
#[derive(Debug)]
pub(crate) struct Hop {
    core: hbh::Hop,
    /// In order.
    peers: Vec<NextHop>,
    deadline: DeadlineId,
    /// Whether something was handed in since it was last asked what there is to do.
    is_touched: bool,
}

impl Hop {
    /// Whether it sends over this interface.
    pub(crate) fn uses(&self, interface: usize) -> bool {
        self.peers.iter().any(|peer| peer.interface == interface)
    }

    pub(crate) fn core(&self) -> &hbh::Hop {
        &self.core
    }
}

impl Node {
    /// Starts HBH.
    pub(crate) fn enable_hop(&mut self, config: hbh::Config, rng: Rng) {
        let deadline = self.deadlines.add(Owner::Hop);
        let core = hbh::Hop::new(config, rng);
        self.hop = Some(Hop { core, peers: Vec::new(), deadline, is_touched: false });
    }

    /// Adds a neighbour that speaks HBH.
    pub(crate) fn add_hop_peer(&mut self, next: NextHop, config: PeerConfig) {
        let Some(hop) = &mut self.hop else { return };
        hop.core.add_peer(peer_of(next), config);
        if !hop.peers.contains(&next) {
            hop.peers.push(next);
        }
        hop.is_touched = true;
    }

    /// Takes what is known of the link to a neighbour before the first packet.
    pub(crate) fn handle_link_report(&mut self, next: NextHop, report: LinkReport) {
        if let Some(hop) = &mut self.hop {
            hop.core.handle_link_report(peer_of(next), report);
        }
    }

    pub(super) fn hop_protocol(&self) -> Option<u8> {
        self.hop.as_ref().map(|hop| hop.core.config().protocol)
    }

    pub(super) fn speaks_hop(&self, next: NextHop) -> bool {
        self.hop.as_ref().is_some_and(|hop| hop.peers.contains(&next))
    }

    /// Takes an HBH packet that a neighbour sent to this node.
    pub(super) fn handle_hop_message(
        &mut self,
        engine: &mut Engine,
        from: PortId,
        packet: PacketId,
    ) {
        let Some(hop) = &mut self.hop else { return };
        hop.core.handle_message(engine.now, Peer(from.0), engine.packets.get(packet));
        hop.is_touched = true;
        engine.packets.remove(packet);
    }

    /// Hands a packet to HBH.
    pub(super) fn send_by_hop(&mut self, engine: &mut Engine, next: NextHop, packet: PacketId) {
        let Some(hop) = &mut self.hop else { return };
        let octets = engine.packets.get_mut(packet);
        // As the gateway does: TCP leaves room for what HBH adds.
        let room = self.interfaces[next.interface].config.mtu.saturating_sub(hbh::OVERHEAD);
        if let Ok(header) = Header::parse(octets) {
            mss::clamp(&header, octets, room);
        }
        let taken = hop.core.handle_packet(engine.now, peer_of(next), octets);
        hop.is_touched = true;
        match taken {
            Err(Refused::TooBig { mtu }) => {
                self.counters.too_big += 1;
                self.refuse(engine, too_big(mtu), packet);
                return;
            }
            Err(Refused::Down | Refused::Malformed) => self.counters.hop_refused += 1,
            // Counted by HBH itself.
            Err(Refused::Full) | Ok(()) => {}
        }
        engine.packets.remove(packet);
    }

    /// The next packet that HBH has for an idle interface, and whom it is for.
    pub(super) fn poll_hop(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, PortId)> {
        let hop = self.hop.as_mut()?;
        if !hop.uses(interface) {
            return None;
        }
        let packet = engine.packets.add();
        let link = link_of(interface);
        match hop.core.poll_transmit(engine.now, link, engine.packets.get_mut(packet)) {
            Some(peer) => Some((packet, PortId(peer.0))),
            None => {
                engine.packets.remove(packet);
                None
            }
        }
    }

    /// Moves what the interface wants ahead of time from HBH to its queue.
    pub(super) fn fill_hop_backlog(&mut self, engine: &mut Engine, interface: usize) {
        while self.interfaces[interface].queue_len() < self.interfaces[interface].config.hop_backlog
        {
            let Some((packet, to)) = self.poll_hop(engine, interface) else { return };
            let len = engine.packets.get(packet).len();
            if !self.interfaces[interface].enqueue(packet, to, len) {
                engine.packets.remove(packet);
                return;
            }
        }
    }

    pub(super) fn handle_hop_timeout(&mut self, now: Time) {
        if let Some(hop) = &mut self.hop {
            hop.core.handle_timeout(now);
            hop.is_touched = true;
        }
    }

    /// Takes what HBH has after it was touched; false if nothing was left to do.
    pub(super) fn settle_hop(&mut self, engine: &mut Engine) -> bool {
        let Some(hop) = self.hop.as_mut().filter(|hop| hop.is_touched) else { return false };
        hop.is_touched = false;
        while let Some(event) = hop.core.poll_event() {
            match event {
                hbh::Event::GaveUp { packets, .. } => {
                    self.counters.hop_gave_up += u64::from(packets);
                }
            }
        }
        self.release(engine);
        for interface in 0..self.interfaces.len() {
            if self.hop.as_ref().is_some_and(|hop| hop.uses(interface)) {
                self.pump(engine, interface);
            }
        }
        if let Some(hop) = &self.hop {
            let (id, next) = (hop.deadline, hop.core.next_timeout());
            self.set_deadline(engine, id, next);
        }
        true
    }

    /// Routes the packets that HBH brought.
    fn release(&mut self, engine: &mut Engine) {
        while let Some(hop) = &mut self.hop {
            let packet = engine.packets.add();
            if hop.core.poll_restored(engine.packets.get_mut(packet)).is_none() {
                engine.packets.remove(packet);
                return;
            }
            let destination = Header::parse(engine.packets.get(packet)).map(|it| it.destination);
            if destination.is_ok_and(|destination| self.is_local(destination)) {
                self.input(engine, packet);
            } else {
                self.forward(engine, packet);
            }
        }
    }

    /// Takes packets back from neighbours that are no longer their next hop, if there is another.
    pub(super) fn reroute_hop(&mut self, engine: &mut Engine) {
        let Some(hop) = &self.hop else { return };
        let mut orphans = Vec::new();
        for next in hop.peers.clone() {
            let Self { table, interfaces, hop, .. } = self;
            let Some(hop) = hop else { return };
            let is_moved = |flow: &FlowKey, _| {
                let now = table.search(flow.destination, |index| interfaces[index].is_up);
                now.is_some_and(|now| now != next)
            };
            hop.core.reroute(peer_of(next), is_moved, |packet, _| {
                orphans.push(engine.packets.add_copy(packet));
            });
            hop.is_touched = true;
        }
        // Their hops are counted already.
        for packet in orphans {
            if let Some(next) = self.route_packet(engine, packet) {
                self.postrouting(engine, next, packet, super::stack::Origin::Link);
            }
        }
    }
}

fn peer_of(next: NextHop) -> Peer {
    Peer(next.neighbour.0)
}

/// HBH's name for an interface.
pub(crate) fn link_of(interface: usize) -> Link {
    Link(u32::try_from(interface).expect("a node has fewer interfaces"))
}
