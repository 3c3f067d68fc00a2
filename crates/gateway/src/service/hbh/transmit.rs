//! What goes to neighbours: asked for only while their link has room.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proto::ethernet::Mac;
use proto::hbh::Link;
use proto::hbh::hello::Hello;
use proto::ip::Spec;
use proto::time::Time;

use super::Hbh;

const ALL_HOSTS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)),
];

impl Hbh {
    pub(super) fn transmit(&mut self, now: Time) {
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
                && let Some(peer) = self.hop.poll_transmit(now, link, &mut packet)
            {
                if let Some(place) = self.neighbours.place_of(peer)
                    && self.guard.seal(peer, &mut packet)
                {
                    self.neighbours.handle_sent(now, place);
                    port.push(place.1, &packet);
                } else {
                    self.counters.packets_unsealed += 1;
                }
            }
            if !port.is_busy() {
                break;
            }
        }
        self.buffers.packet = packet;
    }

    /// Queues a hello; it needs no room, there are few.
    pub(super) fn push_hello(&mut self, position: usize, to: Mac, hello: &Hello) {
        let Some(port) = self.ports.get_mut(position) else { return };
        let Some(&own) = port.state.addresses.first() else { return };
        let theirs = self.neighbours.addresses((position, to));
        let everyone = ALL_HOSTS[usize::from(own.is_ipv6())];
        let like_ours = |address: &&IpAddr| address.is_ipv4() == own.is_ipv4();
        let destination = theirs.iter().find(like_ours).copied().unwrap_or(everyone);

        let mut payload = Vec::new();
        hello.emit(self.guard.key(), &mut payload);
        let mut packet = Vec::new();
        let spec = Spec { ttl: 1, ..Spec::new(own, destination, self.config.hbh.protocol) };
        spec.emit(payload.len(), &mut packet);
        packet.extend_from_slice(&payload);
        port.push(to, &packet);
    }
}
