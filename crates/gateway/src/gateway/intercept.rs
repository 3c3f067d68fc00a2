//! What leaves for a neighbour: from the kernel into HBH.

use std::cell::RefCell;
use std::time::Duration;

use proto::hbh::{Carried, Hop, Peer, Refused};
use proto::ip::{self, Header, icmp};
use proto::time::Time;

use super::Gateway;
use crate::counters::Counters;
use crate::frame::{self, Mac};
use crate::mss;
use crate::neighbours::Place;
use crate::offload::{self, Offload};

/// Frames taken from the kernel before the links are looked after.
const TRAINS: usize = 4;
/// ICMP errors in a second at most.
const ERRORS: u32 = 200;

impl Gateway {
    pub(super) fn take_intercepted(&mut self, now: Time) -> anyhow::Result<()> {
        let mut train = std::mem::take(&mut self.buffers.train);
        let mut outcome = Ok(());
        for _ in 0..TRAINS {
            match self.release.device().read(&mut train) {
                Ok(Some(len)) => self.take_train(now, &mut train[..len]),
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(anyhow::anyhow!("the device is gone: {error}"));
                    break;
                }
            }
        }
        self.buffers.train = train;
        outcome
    }

    fn take_train(&mut self, now: Time, train: &mut [u8]) {
        let (Ok(offload), Some((to, from, _))) = (
            Offload::parse(train, frame::HEADER),
            train.get(offload::HEADER..).and_then(frame::parse),
        ) else {
            self.counters.frames_malformed += 1;
            return;
        };
        let Some((place, peer)) = self.whom(to, from) else {
            self.counters.frames_stray += 1;
            return;
        };
        self.counters.frames_intercepted += 1;

        let packet = &mut train[offload::HEADER + frame::HEADER..];
        let mut segment = std::mem::take(&mut self.buffers.segment);
        let mut too_big = None;
        let outcome = offload.segment(packet, &mut segment, |packet| {
            self.counters.packets_intercepted += 1;
            let Some(peer) = peer else {
                self.counters.packets_plain += 1;
                self.ports[place.0].push(place.1, packet);
                return;
            };
            let Some(mtu) = self.submit(now, peer, place.0, packet, Carried::default()) else {
                return;
            };
            // One complaint for a train is enough.
            too_big.get_or_insert_with(|| (mtu, packet.to_vec()));
        });
        self.buffers.segment = segment;
        if outcome.is_err() {
            self.counters.frames_malformed += 1;
        }
        if let Some((mtu, offender)) = too_big {
            self.complain(now, place.0, mtu, &offender);
        }
    }

    /// Gives HBH a packet for `peer`; the MTU when it is too long and may not be cut.
    pub(super) fn submit(
        &mut self,
        now: Time,
        peer: Peer,
        position: usize,
        packet: &mut [u8],
        carried: Carried,
    ) -> Option<usize> {
        if self.config.clamp_mss
            && let Ok(header) = Header::parse(packet)
        {
            let overhead = OVERHEAD + self.guard.overhead();
            let room = self.ports[position].state.mtu.saturating_sub(overhead);
            self.counters.syns_clamped += u64::from(mss::clamp(&header, packet, room));
        }
        match self.hop.handle_packet(now, peer, packet, carried) {
            Ok(()) => None,
            Err(Refused::Full) => {
                self.counters.packets_full += 1;
                None
            }
            Err(Refused::Malformed(_) | Refused::UnknownPeer) => {
                self.counters.packets_malformed += 1;
                None
            }
            Err(Refused::TooBig { mtu }) => {
                let is_cut =
                    cut(&mut self.hop, &mut self.counters, now, peer, packet, mtu, carried);
                if is_cut {
                    return None;
                }
                self.counters.packets_too_big += 1;
                Some(mtu)
            }
        }
    }

    /// Tells the sender of a packet that it is too long.
    pub(super) fn complain(&mut self, now: Time, position: usize, mtu: usize, offender: &[u8]) {
        let Ok(header) = Header::parse(offender) else { return };
        let Some(own) = self.ports[position].address_like(header.source) else { return };
        if !self.errors.take(now) {
            self.counters.icmp_suppressed += 1;
            return;
        }
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let mut message = Vec::new();
        if (icmp::Error::TooBig { mtu }).emit(own, offender, &mut message) {
            self.counters.icmp_sent += 1;
            self.release.push(&message, &mut self.counters);
        }
    }

    /// Moves packets whose route has changed to their new next hop.
    pub(super) fn reroute(&mut self, now: Time) {
        let peers: Vec<_> = self.neighbours.peers().collect();
        for (peer, _) in peers {
            let mut orphans = Vec::new();
            let routes = RefCell::new(&mut self.routes);
            let (ports, neighbours) = (&self.ports, &self.neighbours);
            let is_moved = |destination| {
                let mut routes = routes.borrow_mut();
                Self::next_peer(&mut routes, ports, neighbours, destination) != Some(peer)
            };
            self.hop.reroute(peer, is_moved, |packet, carried| {
                orphans.push((packet.to_vec(), carried));
            });
            self.adopt(now, orphans, None);
        }
    }

    /// Finds another way for packets that were taken back; `left` is the neighbour that went down.
    pub(super) fn adopt(
        &mut self,
        now: Time,
        orphans: Vec<(Vec<u8>, Carried)>,
        left: Option<Place>,
    ) {
        for (mut packet, carried) in orphans {
            self.counters.packets_rerouted += 1;
            let Ok(header) = Header::parse(&packet) else { continue };
            let peer = Self::next_peer(
                &mut self.routes,
                &self.ports,
                &self.neighbours,
                header.destination,
            );
            match (peer, left) {
                (Some(peer), _) => {
                    let position = self.neighbours.place_of(peer).map_or(0, |place| place.0);
                    if let Some(mtu) = self.submit(now, peer, position, &mut packet, carried) {
                        self.complain(now, position, mtu, &packet);
                    }
                }
                // It is still the next hop: it may understand plain IP.
                (None, Some((position, mac))) => {
                    self.counters.packets_plain += 1;
                    self.ports[position].push(mac, &packet);
                }
                (None, None) => self.release.push(&packet, &mut self.counters),
            }
        }
    }

    /// Whom a frame is for: where it goes, and the peer there if it is up.
    fn whom(&self, to: Mac, from: Mac) -> Option<(Place, Option<Peer>)> {
        if !to.is_station() {
            return None;
        }
        let by_source = self.ports.iter().position(|port| port.mac == from);
        if let Some(position) = by_source {
            return Some(((position, to), self.neighbours.peer_at((position, to))));
        }
        // A bridge or a virtual machine may send with a hardware address of its own.
        (0..self.ports.len())
            .find_map(|position| {
                self.neighbours.peer_at((position, to)).map(|peer| (position, peer))
            })
            .map(|(position, peer)| ((position, to), Some(peer)))
    }
}

/// Octets that HBH adds to a packet.
const OVERHEAD: usize = 8;

/// Cuts a packet into fragments that fit; false when it may not be cut.
fn cut(
    hop: &mut Hop,
    counters: &mut Counters,
    now: Time,
    peer: Peer,
    packet: &[u8],
    mtu: usize,
    carried: Carried,
) -> bool {
    let Ok(header) = Header::parse(packet) else { return false };
    let is_cut = ip::fragment(&header, packet, mtu, |fragment| {
        if hop.handle_packet(now, peer, fragment, carried).is_err() {
            counters.packets_full += 1;
        }
    });
    counters.packets_fragmented += u64::from(is_cut);
    is_cut
}

/// How many ICMP errors may still be sent in this second.
#[derive(Debug, Default)]
pub(super) struct ErrorBudget {
    since: Time,
    sent: u32,
}

impl ErrorBudget {
    fn take(&mut self, now: Time) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, sent: 0 };
        }
        self.sent += 1;
        self.sent <= ERRORS
    }
}
