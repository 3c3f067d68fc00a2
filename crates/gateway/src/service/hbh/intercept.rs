//! What leaves for a neighbour: from the kernel into HBH.

use base::contract::Refused;
use base::ethernet;
use base::ip::{self, Header, icmp, mss};
use base::time::Time;
use hbh::Peer;

use super::Hbh;
use super::counters::Counters;
use crate::linux::offload::{self, Offload};

/// Frames taken from the kernel before the links are looked after.
const TRAINS: usize = 4;
/// Frames taken from the kernel after a batch of packets was given to it: enough for every packet of the batch that
/// the kernel forwards, and more for local programs sending at that moment.
const ANSWERS: usize = 256;
/// Hop limits of packets for a neighbour itself, not to be forwarded by anyone: one, or the maximum (RFC 5082), by
/// which the receiver sees that nobody forwarded the packet.
const ONE_HOP: [u8; 2] = [1, 255];

impl Hbh {
    pub fn take_intercepted(&mut self, now: Time, position: usize) {
        self.take_trains(now, position, TRAINS);
    }

    /// Takes the packets that the kernel forwards as soon as we have given them to it.
    pub fn take_sent_on(&mut self, now: Time) {
        for position in self.ports.positions() {
            self.take_trains(now, position, ANSWERS);
        }
    }

    fn take_trains(&mut self, now: Time, position: usize, count: usize) {
        let mut train = std::mem::take(&mut self.buffers.train);
        for _ in 0..count {
            let Some(port) = self.ports.get(position) else { break };
            match port.tap.read(&mut train) {
                Ok(Some(len)) => self.take_train(now, position, &mut train[..len]),
                Ok(None) => break,
                Err(error) => {
                    self.ports.note_fault(position, format!("our device is gone: {error}"));
                    break;
                }
            }
        }
        self.buffers.train = train;
    }

    fn take_train(&mut self, now: Time, position: usize, train: &mut [u8]) {
        let (Ok(offload), Some((to, _, _))) = (
            Offload::parse(train, ethernet::HEADER),
            train.get(offload::HEADER..).and_then(ethernet::parse),
        ) else {
            self.counters.intercepted.frames_malformed += 1;
            return;
        };
        if !to.is_station() {
            self.counters.intercepted.frames_stray += 1;
            return;
        }
        let peer = self.neighbours.peer_at((position, to));
        self.counters.intercepted.frames_intercepted += 1;

        let packet = &mut train[offload::HEADER + ethernet::HEADER..];
        let mut segment = std::mem::take(&mut self.buffers.segment);
        let mut too_big = None;
        let outcome = offload.segment(packet, &mut segment, |packet| {
            self.counters.intercepted.packets_intercepted += 1;
            let Some(peer) = peer.filter(|&peer| !self.is_for_itself(peer, packet)) else {
                match self.ports.get_mut(position) {
                    Some(port) if !port.is_crowded() => {
                        self.counters.intercepted.packets_plain += 1;
                        port.push(to, packet);
                    }
                    _ => self.counters.intercepted.packets_plain_full += 1,
                }
                return;
            };
            let Some(mtu) = self.submit(now, peer, position, packet) else {
                return;
            };
            // One complaint for a train is enough.
            too_big.get_or_insert_with(|| (mtu, packet.to_vec()));
        });
        self.buffers.segment = segment;
        if outcome.is_err() {
            self.counters.intercepted.frames_malformed += 1;
        }
        if let Some((mtu, offender)) = too_big {
            self.complain(now, position, mtu, &offender);
        }
    }

    /// Whether a packet is what neighbours say to each other, such as a routing daemon's or BFD's.
    fn is_for_itself(&self, peer: Peer, packet: &[u8]) -> bool {
        let Ok(header) = Header::parse(packet) else { return false };
        ONE_HOP.contains(&header.ttl)
            && self
                .known
                .up(peer)
                .is_some_and(|known| known.addresses.contains(&header.destination))
    }

    /// Lowers the segment size in a SYN to the largest that HBH carries at this port, if configured.
    pub fn clamp(&mut self, peer: Peer, position: usize, packet: &mut [u8]) {
        if self.config.intercept.clamp_mss
            && let Some(port) = self.ports.get(position)
        {
            let overhead = self.relay.overhead(peer) + self.guard.overhead();
            let room = port.state.mtu.saturating_sub(overhead);
            self.counters.intercepted.syns_clamped += u64::from(mss::clamp(packet, room));
        }
    }

    /// Gives HBH a packet for `peer`; the MTU when it is too long and may not be cut.
    pub fn submit(
        &mut self,
        now: Time,
        peer: Peer,
        position: usize,
        packet: &mut [u8],
    ) -> Option<usize> {
        self.clamp(peer, position, packet);
        match self.relay.handle_packet(now, peer, packet) {
            Ok(()) => None,
            Err(Refused::Full) => {
                self.counters.intercepted.packets_full += 1;
                None
            }
            Err(Refused::Down | Refused::Malformed) => {
                self.counters.intercepted.packets_malformed += 1;
                None
            }
            Err(Refused::TooBig { mtu }) => {
                if cut(&mut self.relay, &mut self.counters, now, peer, packet, mtu) {
                    return None;
                }
                self.counters.intercepted.packets_too_big += 1;
                Some(mtu)
            }
        }
    }

    /// Tells the sender of a packet that the packet is too long.
    pub fn complain(&mut self, now: Time, position: usize, mtu: usize, offender: &[u8]) {
        let Ok(header) = Header::parse(offender) else { return };
        let port = self.ports.get(position);
        let own = port.and_then(|port| port.address_like(header.source));
        let Some(own) = own else { return };
        if !self.errors.spend(now) {
            self.counters.intercepted.icmp_suppressed += 1;
            return;
        }
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let mut message = Vec::new();
        if (icmp::Error::TooBig { mtu }).emit(own, offender, &mut message)
            && let Ok(header) = Header::parse(&message)
        {
            // Sent like the kernel's own errors: by the routes, through OUTPUT, with an address of this node.
            match self.raw.send(&header, &message) {
                Ok(()) => self.counters.intercepted.icmp_sent += 1,
                Err(_) => self.counters.intercepted.icmp_failed += 1,
            }
        }
    }
}

/// Cuts a packet into fragments that fit; false when it may not be cut.
fn cut(
    relay: &mut hbh::Relay,
    counters: &mut Counters,
    now: Time,
    peer: Peer,
    packet: &[u8],
    mtu: usize,
) -> bool {
    let Ok(header) = Header::parse(packet) else { return false };
    let is_cut = ip::fragment(&header, packet, mtu, |fragment| {
        if relay.handle_packet(now, peer, fragment).is_err() {
            counters.intercepted.packets_full += 1;
        }
    });
    counters.intercepted.packets_fragmented += u64::from(is_cut);
    is_cut
}
