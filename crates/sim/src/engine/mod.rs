//! The engine shared by all nodes: time, events, packets in transit, and media.
//!
//! ```text
//!            transmit                           Arrive, Idle
//!  Node  ───────────────▶  Engine  ─▶ Medium ──────────────▶  Queue  ─▶  Node
//! ```
//!
//! A node never touches another: all it can do to the world is to transmit.

pub mod packets;
pub mod port;
pub mod queue;
mod trace;

use std::any::Any;
use std::collections::VecDeque;
use std::net::IpAddr;

use base::time::Time;

use crate::capture::{Capture, Direction};
use crate::counters::{Class, PortCounters};
use crate::flows::Flows;
use crate::ids::{MediumId, NodeId, PortId};
use crate::medium::{Delivery, LinkAddress, Medium};
use crate::route_log::RouteLog;
use crate::transits::Transits;
use crate::transmissions::Transmissions;

pub use packets::PacketId;
pub use packets::Packets;
pub use port::Port;
pub(crate) use queue::{Event, Kind, Queue, Sequence};
pub use trace::Trace;

/// What nodes share.
///
/// A node with a packet asks `is_idle`, then calls `transmit`, or `await_idle` to be told when it can.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) now: Time,
    pub(crate) events: u64,
    pub(crate) queue: Queue,
    pub(crate) packets: Packets,
    pub(crate) ports: Vec<Port>,
    /// Ports that may transmit again; their nodes are notified next.
    pub(crate) ready: VecDeque<PortId>,
    /// Packets that media could not bring to their receivers.
    pub(crate) failed: VecDeque<Failure>,
    pub(crate) trace: Trace,
    pub(crate) captures: Vec<Capture>,
    /// Counters for each flow, when asked for.
    pub(crate) flows: Option<Flows>,
    /// How long packets are inside a tunnel, when asked for.
    pub(crate) transits: Option<Transits>,
    /// Changes of routes, when asked for.
    pub(crate) route_log: Option<RouteLog>,
    /// Recorded transmissions, if recording is on.
    pub(crate) transmissions: Option<Transmissions>,
    media: Vec<Attached>,
    /// What the next packet is written to: most who are asked for one have none.
    spare: Vec<u8>,
}

/// A packet not delivered by its medium.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub(crate) from: PortId,
    pub(crate) to: LinkAddress,
    pub(crate) packet: PacketId,
}

/// A medium and the order of its events.
#[derive(Debug)]
struct Attached {
    medium: Box<dyn Medium>,
    sequence: Sequence,
}

impl Engine {
    /// Adds a medium without ports.
    pub(crate) fn add_medium(&mut self, medium: Box<dyn Medium>) -> MediumId {
        let index = u32::try_from(self.media.len()).expect("a world has fewer media");
        let id = MediumId(index);
        self.media.push(Attached { medium, sequence: Sequence::of_medium(id) });
        id
    }

    /// Attaches an interface of a node to a medium.
    pub(crate) fn add_port(&mut self, node: NodeId, interface: usize, medium: MediumId) -> PortId {
        let port = PortId(u32::try_from(self.ports.len()).expect("a world has fewer ports"));
        self.ports.push(Port {
            node,
            interface,
            medium,
            idle_at: Time::ZERO,
            awaits_idle: false,
            counters: PortCounters::default(),
            captures: Vec::new(),
        });
        self.medium_mut(medium).attach(port);
        port
    }

    /// The next port that may transmit again; the caller notifies its node.
    pub(crate) fn pop_ready(&mut self) -> Option<PortId> {
        let port = self.ready.pop_front()?;
        self.ports[port.index()].awaits_idle &= !self.is_idle(port);
        Some(port)
    }

    /// Removes a packet received by nobody and counts a loss at the sending port.
    pub(crate) fn lose(&mut self, from: PortId, packet: PacketId) {
        let octets = self.packets.get(packet);
        self.ports[from.index()].counters.lost.add(octets.len());
        if let Some(flows) = &mut self.flows {
            flows.add_lost(octets);
        }
        self.packets.remove(packet);
    }

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

    /// A new packet with what `write` writes.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> PacketId {
        let packet = self.packets.add();
        write(self.packets.get_mut(packet));
        packet
    }

    /// A new packet, unless `write` has none.
    pub fn make(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<PacketId> {
        let mut octets = std::mem::take(&mut self.spare);
        let packet = write(&mut octets).then(|| {
            let packet = self.packets.add();
            std::mem::swap(self.packets.get_mut(packet), &mut octets);
            packet
        });
        octets.clear();
        self.spare = octets;
        packet
    }

    /// Ends a packet.
    pub fn remove(&mut self, packet: PacketId) {
        self.packets.remove(packet);
    }

    /// Schedules something.
    pub(crate) fn schedule(&mut self, at: Time, sequence: &mut Sequence, kind: Kind) {
        self.queue.push(Event::new(at.max(self.now), sequence.next(), kind));
    }

    /// Puts a packet on the medium of an idle port.
    pub(crate) fn transmit(
        &mut self,
        sequence: &mut Sequence,
        port: PortId,
        to: LinkAddress,
        packet: PacketId,
        class: Class,
    ) {
        let octets = self.packets.get(packet);
        self.trace.add_packet(self.now, port, octets);
        if let Some(flows) = &mut self.flows {
            flows.add_sent(octets);
        }
        let len = octets.len();
        if let Some(transmissions) = &mut self.transmissions {
            let to = match to {
                LinkAddress::Broadcast => None,
                LinkAddress::Port(to) => Some(self.ports[to.index()].node),
            };
            transmissions.begin(self.now, self.ports[port.index()].node, to, class, octets);
        }
        self.capture(port, packet, Direction::Out);
        let Port { medium, counters, .. } = &mut self.ports[port.index()];
        counters.sent[class].add(len);
        let medium = *medium;
        self.with_medium(medium, Some(sequence), |medium, delivery| {
            medium.transmit(delivery, port, to, packet);
        });
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.finish(packet, self.ports[port.index()].idle_at);
        }
    }

    /// Lets a medium act on an event that it asked for.
    pub(crate) fn handle_medium(&mut self, medium: MediumId, token: u32) {
        self.with_medium(medium, None, |medium, delivery| medium.handle_event(delivery, token));
    }

    /// The link address for sending from a port to the neighbour with this IP address.
    pub(crate) fn resolve(&self, port: PortId, address: IpAddr) -> Option<LinkAddress> {
        if is_for_all(address) {
            return Some(LinkAddress::Broadcast);
        }
        self.medium_of(port).resolve(port, address)
    }

    /// Whether a port may transmit.
    pub(crate) fn is_idle(&self, port: PortId) -> bool {
        self.ports[port.index()].idle_at <= self.now
    }

    /// Has the node of a busy port told when it is idle.
    pub(crate) fn await_idle(&mut self, sequence: &mut Sequence, port: PortId) {
        let state = &mut self.ports[port.index()];
        if !std::mem::replace(&mut state.awaits_idle, true) && state.idle_at != Time::MAX {
            let at = state.idle_at;
            self.schedule(at, sequence, Kind::Idle { port });
        }
    }

    /// A medium.
    pub(crate) fn medium(&self, medium: MediumId) -> &dyn Medium {
        &*self.media[medium.0 as usize].medium
    }

    /// A medium, to be changed.
    pub(crate) fn medium_mut(&mut self, medium: MediumId) -> &mut dyn Medium {
        &mut *self.media[medium.0 as usize].medium
    }

    /// All media.
    pub(crate) fn media(&self) -> impl Iterator<Item = &dyn Medium> {
        self.media.iter().map(|attached| &*attached.medium)
    }

    /// The medium of a port.
    pub(crate) fn medium_of(&self, port: PortId) -> &dyn Medium {
        self.medium(self.ports[port.index()].medium)
    }

    /// Writes a packet to the captures of a port.
    pub(crate) fn capture(&mut self, port: PortId, packet: PacketId, direction: Direction) {
        let octets = self.packets.get(packet);
        for (capture, interface) in &self.ports[port.index()].captures {
            self.captures[*capture].write(self.now, *interface, direction, octets);
        }
    }

    /// Lets a service act on the medium of its port; `None` if the medium has another type.
    pub fn at_port<M: Medium, T>(
        &mut self,
        port: PortId,
        act: impl FnOnce(&mut M, &mut Delivery<'_>) -> T,
    ) -> Option<T> {
        self.on_medium(self.ports[port.index()].medium, act)
    }

    /// Acts on a medium; `None` if the medium has another type.
    pub(crate) fn on_medium<M: Medium, T>(
        &mut self,
        medium: MediumId,
        act: impl FnOnce(&mut M, &mut Delivery<'_>) -> T,
    ) -> Option<T> {
        self.with_medium(medium, None, |medium, delivery| {
            let medium: &mut dyn Any = medium;
            medium.downcast_mut::<M>().map(|medium| act(medium, delivery))
        })
    }

    fn with_medium<T>(
        &mut self,
        medium: MediumId,
        node: Option<&mut Sequence>,
        act: impl FnOnce(&mut dyn Medium, &mut Delivery<'_>) -> T,
    ) -> T {
        let Self {
            now,
            queue,
            packets,
            ports,
            flows,
            transmissions,
            ready,
            failed,
            captures,
            media,
            ..
        } = self;
        let Attached { medium: it, sequence: own } = &mut media[medium.0 as usize];
        let now = *now;
        let mut delivery = Delivery {
            now,
            medium,
            queue,
            packets,
            ports,
            flows,
            transmissions,
            ready,
            failed,
            captures,
            node,
            own,
        };
        act(&mut **it, &mut delivery)
    }
}

/// Whether all nodes that hear a packet to this address take it: broadcast and multicast.
pub fn is_for_all(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_broadcast() || address.is_multicast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}
