//! What neighbours send: hellos, and HBH packets that go on or out.

use proto::hbh::{Carried, auth};
use proto::ip::{self, Header};
use proto::time::Time;

use super::Gateway;
use crate::frame::{self, Mac};
use crate::hello::Hello;

/// Batches taken from a link before the others are looked after.
const BATCHES: usize = 4;

impl Gateway {
    pub(super) fn take_received(&mut self, now: Time, position: usize) -> anyhow::Result<()> {
        let Some(mut received) = self.buffers.received.take() else { return Ok(()) };
        for _ in 0..BATCHES {
            let outcome = self.ports[position].receive(&mut received);
            let Ok(count) = outcome else {
                self.buffers.received = Some(received);
                return outcome.map(|_| ()).map_err(Into::into);
            };
            for frame in received.frames() {
                self.take_frame(now, position, frame);
            }
            if count == 0 {
                break;
            }
        }
        self.buffers.received = Some(received);
        Ok(())
    }

    fn take_frame(&mut self, now: Time, position: usize, frame: &[u8]) {
        self.counters.frames_received += 1;
        let Some((to, from, packet)) = frame::parse(frame) else {
            self.counters.frames_not_hbh += 1;
            return;
        };
        if to != self.ports[position].mac && to != Mac::EVERYONE {
            self.counters.frames_foreign += 1;
            return;
        }
        let Ok(header) = Header::parse(packet) else {
            self.counters.frames_not_hbh += 1;
            return;
        };
        let payload = &packet[header.len..header.total_len];
        if Hello::is_one(payload) {
            match Hello::parse(payload, self.guard.key()) {
                Ok(hello) => self.neighbours.handle_hello(now, (position, from), hello),
                Err(why) => self.take_bad_hello(now, (position, from), why),
            }
            return;
        }
        let Some(peer) = self.neighbours.peer_at((position, from)) else {
            self.counters.frames_unknown_peer += 1;
            return;
        };

        let packet = match self.guard.open(peer, packet) {
            Ok(packet) => packet,
            Err(auth::Refused::Replayed(_)) => {
                self.counters.frames_replayed += 1;
                return;
            }
            Err(auth::Refused::Forged | auth::Refused::Malformed) => {
                self.counters.frames_forged += 1;
                return;
            }
        };
        self.neighbours.handle_alive(now, (position, from));
        let mut restored = std::mem::take(&mut self.buffers.packet);
        if let Some(carried) = self.hop.handle_message(now, peer, packet, &mut restored) {
            self.route(now, &mut restored, carried);
        }
        while let Some(carried) = self.hop.poll_recovered(&mut restored) {
            self.route(now, &mut restored, carried);
        }
        self.buffers.packet = restored;
    }

    /// Passes a restored packet on, or lets it leave HBH.
    fn route(&mut self, now: Time, packet: &mut [u8], carried: Carried) {
        let Ok(header) = Header::parse(packet) else {
            self.counters.packets_malformed += 1;
            return;
        };
        let forwards = self.forwards[usize::from(!header.is_v4())];
        let peer = if forwards {
            let (ports, neighbours) = (&self.ports, &self.neighbours);
            Self::next_peer(&mut self.routes, ports, neighbours, header.destination)
        } else {
            None
        };
        let Some(peer) = peer else {
            self.hop.handle_egress(now, packet);
            return;
        };
        if !ip::decrement_ttl(packet) {
            // The kernel answers with an error, by its own rules.
            self.counters.packets_ttl_exceeded += 1;
            self.release.push(packet, &mut self.counters);
            return;
        }
        self.counters.packets_forwarded += 1;
        let position = self.neighbours.place_of(peer).map_or(0, |place| place.0);
        if let Some(mtu) = self.submit(now, peer, position, packet, carried) {
            self.complain(now, position, mtu, packet);
        }
    }
}
