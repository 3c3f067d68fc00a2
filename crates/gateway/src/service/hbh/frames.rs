//! Frames from and to neighbours on the MANET interfaces.

use base::ethernet::{self, Mac};
use base::time::Time;

use super::Hbh;

/// Batches taken from a link before the others are looked after.
const BATCHES: usize = 4;

impl Hbh {
    pub fn take_received(&mut self, now: Time, position: usize) {
        let Some(mut received) = self.buffers.received.take() else { return };
        for _ in 0..BATCHES {
            let Some(port) = self.ports.get(position) else { break };
            if let Err(error) = port.receive(&mut received) {
                self.ports.note_fault(position, format!("cannot receive: {error}"));
                break;
            }
            for frame in received.frames() {
                self.take_frame(now, position, frame);
            }
            self.take_events(now);
            self.release_restored(now);
            if !received.is_full() {
                break;
            }
        }
        self.buffers.received = Some(received);
    }

    fn take_frame(&mut self, now: Time, position: usize, frame: &[u8]) {
        self.counters.received.frames_received += 1;
        let Some((to, from, packet)) = ethernet::parse(frame) else {
            self.frames_not_ip += 1;
            return;
        };
        let is_ours = self.ports.get(position).is_some_and(|port| port.mac() == to);
        if !is_ours && to != Mac::EVERYONE {
            self.counters.received.frames_foreign += 1;
            return;
        }
        let place = (position, from);
        if let Err(why) = self.host.handle_frame(now, place, packet) {
            self.take_bad_hello(now, place, why);
        }
    }

    /// Sends on each interface while it has room.
    pub fn transmit(&mut self, now: Time) {
        let mut packet = std::mem::take(&mut self.buffers.packet);
        for position in self.ports.positions() {
            let Some(port) = self.ports.get_mut(position) else { continue };
            // Even without room: hellos are few.
            while let Some(to) = self.host.poll_hello(now, position, &mut packet) {
                port.push(to, &packet);
            }
            while port.flush(&mut self.counters) {
                while port.has_room()
                    && let Some(to) = self.host.poll_transmit(now, position, &mut packet)
                {
                    port.push(to, &packet);
                }
                if !port.is_busy() {
                    break;
                }
            }
        }
        self.buffers.packet = packet;
    }
}
