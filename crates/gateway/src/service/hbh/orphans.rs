//! Returns packets that their neighbour will not get to the kernel's routing, once there is a way.
//!
//! ```text
//!   taken back ─▶ wait for a route ─▶ by a neighbour's packet:  received again where it came from
//!                                  └▶ by this node's own:       sent again by a raw socket
//! ```
//! Either way all rules are asked again, and the packet comes back by the egress hook if its new
//! next hop speaks HBH.

use base::ip::{self, FlowKey, Header};
use base::time::Time;
use hbh::Peer;
use hbh::orphans::Orphan;

use super::Hbh;
use crate::linux::routes::NextHop;

/// Why packets are taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Their route changed, or the neighbour says that it stops.
    Known,
    /// The neighbour is not heard any more.
    Silence(Peer),
}

impl Hbh {
    /// Takes back from neighbours what the kernel would send to others now.
    ///
    /// What would go nowhere stays: a route may come, and the neighbour may still be there.
    pub fn reroute(&mut self, now: Time) {
        let peers: Vec<_> = self.neighbours.peers().map(|(peer, _)| peer).collect();
        for peer in peers {
            let mut orphans = Vec::new();
            let Self { relay, routes, ports, neighbours, known, .. } = self;
            let is_moved = |flow: &FlowKey, from: Option<Peer>| {
                let came_by = from.and_then(|from| known.get(from));
                let came_by = came_by.and_then(|known| ports.get(known.place.0));
                let came_by = came_by.map(|port| port.index);
                match routes.next_hop(flow, came_by) {
                    NextHop::Here => true,
                    NextHop::Neighbour { interface, address } => {
                        let position = ports.with_index(interface);
                        position.and_then(|at| neighbours.peer_with(at, address)) != Some(peer)
                    }
                    NextHop::Nowhere => false,
                }
            };
            relay.reroute(peer, is_moved, |packet, from| orphans.push((packet.to_vec(), from)));
            self.adopt(now, orphans, Reason::Known);
        }
    }

    /// Adopts packets taken back from a neighbour, each with the peer that brought the packet.
    pub fn adopt(&mut self, now: Time, orphans: Vec<(Vec<u8>, Option<Peer>)>, reason: Reason) {
        if orphans.is_empty() {
            return;
        }
        let silent = match reason {
            Reason::Known => None,
            Reason::Silence(peer) => self.known.get(peer).map(|known| (peer, known.place)),
        };
        for (packet, from) in orphans {
            self.counters.released.packets_rerouted += 1;
            if self.orphans.push(now, &packet, from, silent).is_err() {
                self.counters.intercepted.packets_malformed += 1;
            }
        }
        self.settle_orphans(now);
    }

    /// Gives back what has a way now, or has waited for too long.
    pub fn settle_orphans(&mut self, now: Time) {
        let mut orphans = std::mem::take(&mut self.orphans);
        let unrouted = orphans.settle(now, |orphan| self.has_way(orphan));
        self.counters.released.packets_unrouted += unrouted;
        self.orphans = orphans;
        self.give_back();
    }

    /// Whether the kernel has a way for a packet, and another than by whom has fallen silent.
    fn has_way(&mut self, orphan: &Orphan) -> bool {
        let came_by = orphan.from.and_then(|from| self.known.get(from));
        let came_by = came_by.and_then(|known| self.ports.get(known.place.0));
        let came_by = came_by.map(|port| port.index);
        match self.routes.next_hop(&orphan.flow, came_by) {
            NextHop::Here => true,
            NextHop::Nowhere => false,
            NextHop::Neighbour { interface, address } => {
                let position = self.ports.with_index(interface);
                let Some(position) = position else { return true };
                let silent = orphan.silent.and_then(|(silent, _)| self.known.get(silent));
                let is_silent = silent.is_some_and(|silent| {
                    silent.place.0 == position && silent.addresses.contains(&address)
                });
                // It may have started again.
                !is_silent || self.neighbours.peer_with(position, address).is_some()
            }
        }
    }

    /// Hands all that is ready to the kernel.
    pub fn give_back(&mut self) {
        while let Some(orphan) = self.orphans.poll() {
            self.give_back_one(orphan);
        }
        self.release.flush(&self.ports, &mut self.counters);
    }

    fn give_back_one(&mut self, Orphan { mut packet, from, .. }: Orphan) {
        let Ok(header) = Header::parse(&packet) else { return };
        if let Some(known) = from.and_then(|from| self.known.get(from)) {
            // The kernel has counted this hop, and will again.
            ip::increment_ttl(&mut packet);
            self.release.push(&self.ports, known.place, &packet, &mut self.counters);
        } else if self.raw.send(&header, &packet).is_ok() {
            self.counters.released.packets_returned += 1;
        } else {
            self.counters.released.packets_release_failed += 1;
        }
    }
}
