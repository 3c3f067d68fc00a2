//! What goes to neighbours: asked for only while their link has room.

use base::ethernet::Mac;
use base::time::Time;
use hbh::Link;
use hbh::hello::Hello;

use super::Hbh;

impl Hbh {
    pub fn transmit(&mut self, now: Time) {
        for position in self.ports.positions() {
            while let Some((to, hello)) = self.neighbours.poll_transmit(now, position) {
                self.push_hello(position, to, &hello);
            }
            self.transmit_on(now, position);
        }
    }

    fn transmit_on(&mut self, now: Time, position: usize) {
        let (Ok(link), Some(port)) = (u32::try_from(position), self.ports.get_mut(position)) else {
            return;
        };
        let link = Link(link);
        let mut packet = std::mem::take(&mut self.buffers.packet);
        while port.flush(&mut self.counters) {
            while port.has_room()
                && let Some(peer) = self.relay.poll_transmit(now, link, &mut packet)
            {
                if let Some(place) = self.neighbours.place_of(peer)
                    && self.guard.seal(peer, &mut packet)
                {
                    self.neighbours.handle_sent(now, place);
                    port.push(place.1, &packet);
                } else {
                    self.counters.sent.packets_unsealed += 1;
                }
            }
            if !port.is_busy() {
                break;
            }
        }
        self.buffers.packet = packet;
    }

    /// Queues a hello, even without room: hellos are few.
    pub fn push_hello(&mut self, position: usize, to: Mac, hello: &Hello) {
        let Some(port) = self.ports.get_mut(position) else { return };
        let theirs = self.neighbours.addresses((position, to));
        let mut packet = Vec::new();
        if hello.emit_packet(self.config.core.protocol, theirs, self.guard.key(), &mut packet) {
            port.push(to, &packet);
        }
    }
}
