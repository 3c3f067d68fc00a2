//! Sending by services: an interface with room asks its services for packets.

use super::Running;
use crate::engine::{Engine, PacketId};
use crate::medium::LinkAddress;
use crate::node::queue::Waiting;
use crate::node::service::{Hook, Origin};
use crate::node::{NextHop, Node};

impl Node {
    /// Has a service's next datagram wait for a route where there is none: a protocol that looks for
    /// routes on demand hears of the far end by it. What else the service has stays with the service.
    pub fn ask_for_route(&mut self, engine: &mut Engine, index: usize) {
        let Some((place, far_end)) = self.services.running[index].far_ends().next() else { return };
        if !self.has_finder() || self.route(engine, far_end).is_some() {
            return;
        }
        let Some(mtu) = self.interfaces.iter().map(|it| it.config.mtu).min() else { return };
        let datagrams = self.services.running[index].service.as_datagrams();
        let Some(packet) = datagrams.and_then(|it| it.poll_datagram(engine, place, mtu)) else {
            return;
        };
        self.counters.originated += 1;
        let Some(header) = self.parse(engine, packet) else { return };
        _ = self.route_packet(engine, &header, packet, Origin::Local);
    }

    /// Whether services send over this interface.
    pub fn has_service_over(&mut self, engine: &Engine, interface: usize) -> bool {
        (0..self.services.running.len()).any(|index| self.sends_over(engine, index, interface))
    }

    /// The next packet of a service for an idle interface, and whom it is for.
    pub fn poll_services(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, LinkAddress)> {
        self.poll_frame(engine, interface).or_else(|| self.poll_datagram(engine, interface))
    }

    /// Takes frames from services, a few ahead of time, and datagrams, as many as there are. A datagram waits in the
    /// interface's queue beside other packets, or is dropped, as one of a UDP socket.
    pub fn fill_queue(&mut self, engine: &mut Engine, index: usize) {
        let config = &self.interfaces[index].config;
        let (ahead, is_seen) = (config.hop_backlog, config.hop_backlog <= config.queue_packets);
        while self.interfaces[index].queue_len() < ahead {
            if is_seen && !self.interfaces[index].has_room() {
                break;
            }
            let Some(frame) = self.poll_frame(engine, index) else { break };
            let waiting = local(engine, frame);
            if !self.try_enqueue(engine, index, waiting, false) {
                self.drop_queued(engine, index, waiting);
            }
        }
        // Another service that takes packets at the last hook queues them itself, and is polled when the
        // interface is idle.
        if self.has_frames_over(index) {
            return;
        }
        while let Some(datagram) = self.poll_datagram(engine, index) {
            let waiting = local(engine, datagram);
            if !self.try_enqueue(engine, index, waiting, false) {
                self.drop_queued(engine, index, waiting);
            }
        }
    }

    fn has_frames_over(&mut self, interface: usize) -> bool {
        self.services.running.iter_mut().any(|running| running.uses(interface))
    }

    fn poll_frame(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, LinkAddress)> {
        for index in 0..self.services.running.len() {
            let Running { service, deadline, .. } = &mut self.services.running[index];
            let Some(frames) = service.as_frames().filter(|frames| frames.uses(interface)) else {
                continue;
            };
            let frame = frames.poll_frame(engine, interface);
            // Sending may change the deadline of the service, and so may a packet that has to wait for its pace.
            let (deadline, next) = (*deadline, service.next_timeout());
            self.set_deadline(engine, deadline, next);
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    /// A datagram that no other service has taken at the last hook.
    fn poll_datagram(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, LinkAddress)> {
        loop {
            let (packet, next) = self.next_datagram(engine, interface)?;
            if !self.offer(engine, &Hook::Postrouting { next }, packet) {
                return Some((packet, next.neighbour));
            }
            if let Some(frame) = self.poll_frame(engine, interface) {
                return Some(frame);
            }
        }
    }

    fn next_datagram(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, NextHop)> {
        let all = self.services.running.len();
        for step in 0..all {
            let index = (self.services.turn + step) % all;
            for (place, far_end) in self.services.running[index].far_ends() {
                let next = self.route(engine, far_end);
                let Some(next) = next.filter(|next| next.interface == interface) else { continue };
                let mtu = self.interfaces[interface].config.mtu;
                let running = &mut self.services.running[index];
                let datagrams = running.service.as_datagrams();
                if let Some(packet) = datagrams.and_then(|it| it.poll_datagram(engine, place, mtu))
                {
                    running.is_touched = true;
                    self.services.turn = index + 1;
                    return Some((packet, next));
                }
            }
        }
        None
    }

    /// Whether a service sends over an interface.
    pub fn sends_over(&mut self, engine: &Engine, index: usize, interface: usize) -> bool {
        self.services.running[index].uses(interface)
            || self.has_far_end_over(engine, index, interface)
    }

    /// Whether the route to a far end of a service leads over an interface.
    pub fn has_far_end_over(&mut self, engine: &Engine, index: usize, interface: usize) -> bool {
        let mut far_ends = self.services.running[index].far_ends();
        let mut nexts = far_ends.by_ref().filter_map(|(_, far_end)| self.route(engine, far_end));
        nexts.any(|next| next.interface == interface)
    }
}

fn local(engine: &Engine, (packet, to): (PacketId, LinkAddress)) -> Waiting {
    let octets = engine.packets.get(packet).len();
    Waiting { packet, to, octets, is_local: true, is_routing: false }
}
