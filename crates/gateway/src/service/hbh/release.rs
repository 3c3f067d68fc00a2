//! Releases packets from HBH into the kernel, as if received by their MANET interface.
//!
//! Consecutive segments enter the kernel as one train, as a network card would join them. Packets that were taken back
//! from a neighbour enter as well, where a neighbour brought them, or as this node's own by a raw socket: all rules are
//! asked again, and the packet comes back by the egress hook if its new next hop speaks HBH.

use base::ip::{self, Header};
use base::time::Time;
use hbh::host::NextHop;
use hbh::neighbours::Place;

use super::Hbh;
use super::counters::Counters;
use super::ports::Ports;
use crate::linux::offload::Joiner;
use crate::linux::routes;

/// Packets on their way into the kernel.
#[derive(Default)]
pub struct Release {
    joiner: Joiner,
    /// The neighbour that sent the segments waiting to be joined.
    from: Option<Place>,
}

impl Release {
    pub fn new(joins_datagrams: bool) -> Self {
        Self { joiner: Joiner::new(joins_datagrams), from: None }
    }

    /// Takes a packet that the neighbour at `from` sent.
    fn push(&mut self, ports: &Ports, from: Place, packet: &[u8], counters: &mut Counters) {
        if self.from != Some(from) {
            self.flush(ports, counters);
            self.from = Some(from);
        }
        counters.released.packets_released += 1;
        self.joiner.push(packet, |train| deliver(ports, from, train, counters));
    }

    /// Hands all to the kernel.
    pub fn flush(&mut self, ports: &Ports, counters: &mut Counters) {
        if let Some(from) = self.from.take() {
            self.joiner.flush(|train| deliver(ports, from, train, counters));
        }
    }
}

impl Hbh {
    /// Hands restored packets of neighbours to the kernel, and takes the packets that the kernel forwards at once.
    pub fn release_restored(&mut self, now: Time) {
        let mut packet = std::mem::take(&mut self.buffers.packet);
        let mut is_any = false;
        while let Some(origin) = self.host.poll_restored(&mut packet) {
            is_any = true;
            match origin.neighbour {
                Some(from) => self.release.push(&self.ports, from, &packet, &mut self.counters),
                None => self.counters.released.packets_release_failed += 1,
            }
        }
        self.release.flush(&self.ports, &mut self.counters);
        self.buffers.packet = packet;
        if is_any {
            self.take_sent_on(now);
        }
    }

    /// Acts on neighbours and routes that have changed, and hands packets that were taken back to the kernel.
    pub fn settle(&mut self, now: Time) {
        self.take_events(now);
        if self.host.needs_routes() {
            let Self { host, routes, ports, .. } = self;
            host.handle_routes(now, |flow, from| {
                let came_by = from.and_then(|place| ports.get(place.0)).map(|port| port.index());
                match routes.next_hop(flow.destination, &routes::Packets::of(flow, came_by)) {
                    routes::NextHop::Here => NextHop::Here,
                    routes::NextHop::Nowhere => NextHop::Nowhere,
                    routes::NextHop::Neighbour { interface, address } => {
                        let position = ports.with_index(interface);
                        position.map_or(NextHop::Elsewhere, |at| NextHop::Address(at, address))
                    }
                }
            });
        }
        self.give_back();
    }

    fn give_back(&mut self) {
        let mut packet = std::mem::take(&mut self.buffers.packet);
        while let Some(origin) = self.host.poll_returned(&mut packet) {
            let released = &mut self.counters.released;
            if let Some(from) = origin.neighbour {
                // The kernel has counted this hop, and will again.
                ip::increment_ttl(&mut packet);
                self.release.push(&self.ports, from, &packet, &mut self.counters);
            } else if Header::parse(&packet).is_ok_and(|it| self.raw.send(&it, &packet).is_ok()) {
                released.packets_returned += 1;
            } else {
                released.packets_release_failed += 1;
            }
        }
        self.release.flush(&self.ports, &mut self.counters);
        self.buffers.packet = packet;
    }
}

fn deliver(ports: &Ports, (position, mac): Place, train: &[u8], counters: &mut Counters) {
    let port = ports.get(position);
    if port.is_none_or(|port| port.deliver(mac, train).is_err()) {
        counters.released.packets_release_failed += 1;
    }
}
