//! What leaves for a neighbour: from the kernel into HBH.

use base::contract::Refused;
use base::ethernet;
use base::ip::{Header, icmp};
use base::time::Time;

use super::Hbh;
use crate::linux::offload::{self, Offload};

/// Frames taken from the kernel before the links are looked after.
const TRAINS: usize = 4;
/// Frames taken from the kernel after a batch of packets was given to it: enough for every packet of the batch that
/// the kernel forwards, and more for local programs sending at that moment.
const ANSWERS: usize = 256;

impl Hbh {
    pub fn take_intercepted(&mut self, now: Time, position: usize) {
        self.take_trains(now, position, TRAINS);
    }

    /// Takes the packets that the kernel forwards right after receiving them from us.
    pub fn take_sent_on(&mut self, now: Time) {
        for position in self.ports.positions() {
            self.take_trains(now, position, ANSWERS);
        }
    }

    fn take_trains(&mut self, now: Time, position: usize, count: usize) {
        let mut train = std::mem::take(&mut self.buffers.train);
        for _ in 0..count {
            let Some(port) = self.ports.get(position) else { break };
            match port.tap().read(&mut train) {
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
        let peer = self.host.peer_at((position, to));
        self.counters.intercepted.frames_intercepted += 1;

        let packet = &mut train[offload::HEADER + ethernet::HEADER..];
        let mut segment = std::mem::take(&mut self.buffers.segment);
        let mut too_big = None;
        let outcome = offload.segment(packet, &mut segment, |packet| {
            self.counters.intercepted.packets_intercepted += 1;
            let Some(peer) = peer.filter(|&peer| !self.host.goes_plain(peer, packet)) else {
                match self.ports.get_mut(position) {
                    Some(port) if !port.is_crowded() => {
                        self.counters.intercepted.packets_plain += 1;
                        port.push(to, packet);
                    }
                    _ => self.counters.intercepted.packets_plain_full += 1,
                }
                return;
            };
            if let Err(Refused::TooBig { mtu }) = self.host.handle_packet(now, peer, packet) {
                // One complaint for a train is enough.
                too_big.get_or_insert_with(|| (mtu, packet.to_vec()));
            }
        });
        self.buffers.segment = segment;
        if outcome.is_err() {
            self.counters.intercepted.frames_malformed += 1;
        }
        if let Some((mtu, offender)) = too_big {
            self.complain(now, position, mtu, &offender);
        }
    }

    /// Tells the sender of a packet that the packet is too long.
    fn complain(&mut self, now: Time, position: usize, mtu: usize, offender: &[u8]) {
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
