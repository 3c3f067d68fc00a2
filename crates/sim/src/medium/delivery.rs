//! The interface through which a medium acts on the world.

use std::collections::VecDeque;

use base::time::Time;

use crate::capture::{Capture, Direction};
use crate::engine::Failure;
use crate::engine::packets::{PacketId, Packets};
use crate::engine::port::Port;
use crate::engine::queue::{Event, Kind, Queue, Sequence};
use crate::flows::Flows;
use crate::ids::{MediumId, PortId};
use crate::medium::LinkAddress;
use crate::transmissions::Transmissions;

/// What a medium can do to the world while it handles a packet or an event.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub(crate) now: Time,
    pub(crate) medium: MediumId,
    pub(crate) queue: &'a mut Queue,
    pub(crate) packets: &'a mut Packets,
    pub(crate) ports: &'a mut [Port],
    pub(crate) flows: &'a mut Option<Flows>,
    pub(crate) transmissions: &'a mut Option<Transmissions>,
    /// Ports that may transmit again; their nodes are notified next.
    pub(crate) ready: &'a mut VecDeque<PortId>,
    /// Packets that could not be brought to their receivers.
    pub(crate) failed: &'a mut VecDeque<Failure>,
    pub(crate) captures: &'a mut [Capture],
    /// Sequence of the transmitting node; `None` while the medium handles an event.
    pub(crate) node: Option<&'a mut Sequence>,
    /// The medium's own.
    pub(crate) own: &'a mut Sequence,
}

impl Delivery<'_> {
    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The octets of a packet.
    #[must_use]
    pub fn octets(&self, packet: PacketId) -> &[u8] {
        self.packets.get(packet)
    }

    /// Lets one more receiver have a packet; each is delivered or lost on its own.
    pub fn share(&mut self, packet: PacketId) {
        self.packets.share(packet);
    }

    /// Brings a packet to a port, where its last bit arrives at `at`.
    pub fn deliver(&mut self, at: Time, from: PortId, to: PortId, packet: PacketId) {
        if let Some(transmissions) = self.transmissions {
            transmissions.arrive(at);
        }
        let sequence = self.node.as_deref_mut().unwrap_or(self.own);
        let kind = Kind::Arrive { port: to, from, packet };
        self.queue.push(Event::new(at.max(self.now), sequence.next(), kind));
    }

    /// Removes a packet received by nobody and counts a loss at the sending port.
    pub fn lose(&mut self, from: PortId, packet: PacketId) {
        let octets = self.packets.get(packet);
        self.ports[from.index()].counters.lost.add(octets.len());
        if let Some(flows) = self.flows {
            flows.add_lost(octets);
        }
        if let Some(transmissions) = self.transmissions {
            transmissions.lose();
        }
        self.packets.remove(packet);
    }

    /// Gives a packet back to the node that sent it, because it is known not to have reached `to`.
    pub fn fail(&mut self, from: PortId, to: LinkAddress, packet: PacketId) {
        self.failed.push_back(Failure { from, to, packet });
    }

    /// Releases a packet for a holder without further use for it.
    pub fn release(&mut self, packet: PacketId) {
        self.packets.remove(packet);
    }

    /// Writes a frame of the medium's own to a capture file.
    pub(crate) fn capture(&mut self, capture: usize, interface: u32, frame: &[u8]) {
        self.captures[capture].write(self.now, interface, Direction::Out, frame);
    }

    /// Writes a packet to a capture file.
    pub(crate) fn capture_packet(&mut self, capture: usize, interface: u32, packet: PacketId) {
        let octets = self.packets.get(packet);
        self.captures[capture].write(self.now, interface, Direction::Out, octets);
    }

    /// Lets a port transmit again from `at` on; [`Time::MAX`] while that is not known.
    pub fn set_idle(&mut self, port: PortId, at: Time) {
        let state = &mut self.ports[port.index()];
        let was_unknown = std::mem::replace(&mut state.idle_at, at) == Time::MAX;
        if !was_unknown || !state.awaits_idle || at == Time::MAX {
            return;
        }
        if at <= self.now {
            self.ready.push_back(port);
        } else {
            self.queue.push(Event::new(at, self.own.next(), Kind::Idle { port }));
        }
    }

    /// Has the node of a port look at it at this instant: there is something for a service.
    pub fn call(&mut self, port: PortId) {
        self.ready.push_back(port);
    }

    /// Has [`super::Medium::handle_event`] called at `at`.
    pub fn wake(&mut self, at: Time, token: u32) {
        let kind = Kind::Medium { medium: self.medium, token };
        self.queue.push(Event::new(at.max(self.now), self.own.next(), kind));
    }
}
