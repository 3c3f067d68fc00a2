//! Packets that their neighbour will not get: back into the kernel's routing, once there is a way.
//!
//! ```text
//!   taken back ─▶ wait for a route ─▶ by a neighbour's packet:  received again where it came from
//!                                  └▶ by this node's own:       sent again by a raw socket
//! ```
//! Either way all rules are asked again, and the packet comes back by the egress hook if its new
//! next hop speaks HBH.
//!
//! TCP segments of a neighbour that fell silent go back in vain if it is the link that is down, and
//! their sender has nothing to send for ever longer times. So they are kept as well, and go out when the
//! neighbour is back: the first acknowledgement ends the sender's waiting.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proto::hbh::neighbours::Place;
use proto::hbh::{Peer, TCP_LIFETIME};
use proto::ip::{self, FlowKey, Header, protocol};
use proto::time::Time;

use super::Hbh;
use crate::linux::routes::NextHop;

/// How long a packet waits for a route; routing daemons need a second or a few.
const PATIENCE: Duration = Duration::from_secs(5);
/// Packets that wait at most; beyond, the oldest goes to the kernel as it is.
const LIMIT: usize = 4_096;

/// Segments kept at most, for as long as TCP would send them, for neighbours that are missed; beyond, the oldest is forgotten.
const MISSED_LIMIT: usize = 4_096;

/// A packet that was taken back.
#[derive(Clone)]
pub(super) struct Orphan {
    packet: Vec<u8>,
    flow: FlowKey,
    /// The peer that brought it, if one did.
    from: Option<Peer>,
    /// The peer that fell silent: the way by it is none.
    silent: Option<Peer>,
    pub(super) until: Time,
}

/// Those that wait, oldest first.
pub(super) type Orphans = VecDeque<Orphan>;

/// Segments of neighbours that are missed, oldest first, each with the neighbour's place.
pub(super) type Missed = VecDeque<(Place, Orphan)>;

/// Why packets are taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reason {
    /// Their route changed, or the neighbour says that it stops.
    Known,
    /// The neighbour is not heard any more.
    Silence(Peer),
}

impl Hbh {
    /// Takes back from neighbours what the kernel would send to others now.
    ///
    /// What would go nowhere stays: a route may come, and the neighbour may still be there.
    pub(super) fn reroute(&mut self, now: Time) {
        let peers: Vec<_> = self.neighbours.peers().map(|(peer, _)| peer).collect();
        for peer in peers {
            let mut orphans = Vec::new();
            let Self { hop, routes, ports, neighbours, known, .. } = self;
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
            hop.reroute(peer, is_moved, |packet, from| orphans.push((packet.to_vec(), from)));
            self.adopt(now, orphans, Reason::Known);
        }
    }

    /// Takes packets that were taken back, each with the peer that brought it.
    pub(super) fn adopt(
        &mut self,
        now: Time,
        orphans: Vec<(Vec<u8>, Option<Peer>)>,
        reason: Reason,
    ) {
        if orphans.is_empty() {
            return;
        }
        let silent = match reason {
            Reason::Known => None,
            Reason::Silence(peer) => Some(peer),
        };
        for (packet, from) in orphans {
            self.counters.packets_rerouted += 1;
            let Ok(header) = Header::parse(&packet) else {
                self.counters.packets_malformed += 1;
                continue;
            };
            let (flow, _) = FlowKey::of(&header, &packet);
            self.orphans.push_back(Orphan { packet, flow, from, silent, until: now + PATIENCE });
        }
        self.settle_orphans(now);
    }

    /// Gives back what has a way now, or has waited for too long.
    pub(super) fn settle_orphans(&mut self, now: Time) {
        let mut answers = BTreeMap::new();
        let mut surplus = self.orphans.len().saturating_sub(LIMIT);
        for orphan in std::mem::take(&mut self.orphans) {
            let asked = (orphan.flow, orphan.from, orphan.silent);
            let has_way = *answers.entry(asked).or_insert_with(|| self.has_way(&orphan));
            if has_way || surplus > 0 || orphan.until <= now {
                surplus = surplus.saturating_sub(1);
                self.counters.packets_unrouted += u64::from(!has_way);
                if !has_way {
                    self.keep(now, &orphan);
                }
                self.give_back(orphan);
            } else {
                self.orphans.push_back(orphan);
            }
        }
        self.release.flush(&self.ports, &mut self.counters);
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
                let is_silent =
                    orphan.silent.and_then(|silent| self.known.get(silent)).is_some_and(|silent| {
                        silent.place.0 == position && silent.addresses.contains(&address)
                    });
                // It may have started again.
                !is_silent || self.neighbours.peer_with(position, address).is_some()
            }
        }
    }

    /// Keeps a segment whose neighbour fell silent, until it is back.
    fn keep(&mut self, now: Time, orphan: &Orphan) {
        let silent = orphan.silent.and_then(|silent| self.known.get(silent));
        let Some(place) = silent.map(|silent| silent.place) else { return };
        if orphan.flow.protocol != protocol::TCP {
            return;
        }
        if self.missed.len() == MISSED_LIMIT {
            self.missed.pop_front();
        }
        self.missed.push_back((place, Orphan { until: now + TCP_LIFETIME, ..orphan.clone() }));
    }

    /// A neighbour is up: gives back what was kept for it.
    pub(super) fn give_back_missed(&mut self, now: Time, place: Place) {
        for (at, orphan) in std::mem::take(&mut self.missed) {
            if orphan.until <= now {
                continue;
            }
            if at == place {
                self.give_back(orphan);
            } else {
                self.missed.push_back((at, orphan));
            }
        }
        self.release.flush(&self.ports, &mut self.counters);
    }

    fn give_back(&mut self, orphan: Orphan) {
        let Orphan { mut packet, from, .. } = orphan;
        let Ok(header) = Header::parse(&packet) else { return };
        if let Some(known) = from.and_then(|from| self.known.get(from)) {
            // The kernel has counted this hop, and will again.
            ip::increment_ttl(&mut packet);
            self.release.push(&self.ports, known.place, &packet, &mut self.counters);
        } else if self.raw.send(&header, &packet).is_ok() {
            self.counters.packets_returned += 1;
        } else {
            self.counters.packets_release_failed += 1;
        }
    }
}
