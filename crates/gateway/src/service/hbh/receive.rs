//! What neighbours send: hellos, and HBH packets.

use base::ethernet::{self, Mac};
use base::ip::Header;
use base::time::Time;
use hbh::auth;
use hbh::hello::Hello;

use super::Hbh;
use super::orphans::Reason;

/// Batches taken from a link before the others are looked after.
const BATCHES: usize = 4;

impl Hbh {
    pub fn take_received(&mut self, now: Time, position: usize) -> anyhow::Result<()> {
        let Some(mut received) = self.buffers.received.take() else { return Ok(()) };
        for _ in 0..BATCHES {
            let Some(port) = self.ports.get(position) else { break };
            if let Err(error) = port.receive(&mut received) {
                self.ports.note_fault(position, format!("cannot receive: {error}"));
                break;
            }
            for frame in received.frames() {
                self.take_frame(now, position, frame)?;
            }
            self.release_restored(now);
            if !received.is_full() {
                break;
            }
        }
        self.buffers.received = Some(received);
        Ok(())
    }

    fn take_frame(&mut self, now: Time, position: usize, frame: &[u8]) -> anyhow::Result<()> {
        self.counters.received.frames_received += 1;
        let Some((to, from, packet)) = ethernet::parse(frame) else {
            self.counters.received.frames_not_hbh += 1;
            return Ok(());
        };
        let is_ours = self.ports.get(position).is_some_and(|port| port.mac == to);
        if !is_ours && to != Mac::EVERYONE {
            self.counters.received.frames_foreign += 1;
            return Ok(());
        }
        let Ok(header) = Header::parse(packet) else {
            self.counters.received.frames_not_hbh += 1;
            return Ok(());
        };
        let payload = &packet[header.len..header.total_len];
        if Hello::is_one(payload) {
            match Hello::parse(payload, self.guard.key()) {
                Ok(hello) => {
                    let reason = hello.is_goodbye.then_some(Reason::Known);
                    self.neighbours.handle_hello(now, (position, from), hello);
                    self.take_neighbours(now, reason)?;
                }
                Err(why) => self.take_bad_hello(now, (position, from), why),
            }
            return Ok(());
        }
        let Some(peer) = self.neighbours.peer_at((position, from)) else {
            self.counters.received.frames_unknown_peer += 1;
            return Ok(());
        };

        let packet = match self.guard.open(peer, packet) {
            Ok(packet) => packet,
            Err(auth::Untrusted::Replayed(_)) => {
                self.counters.received.frames_replayed += 1;
                return Ok(());
            }
            Err(auth::Untrusted::Forged | auth::Untrusted::Malformed) => {
                self.counters.received.frames_forged += 1;
                return Ok(());
            }
        };
        self.neighbours.handle_alive(now, (position, from));
        self.relay.handle_message(now, peer, packet);
        Ok(())
    }
}
