//! What nodes share: time, events, packets on their way, and the media that carry them.
//!
//! ```text
//!            transmit                         Arrive, Idle
//!  Node  ───────────────▶  Engine  ─▶ Medium ──────────────▶  Queue  ─▶  Node
//! ```
//!
//! A node never touches another: all it can do to the world is to transmit.

mod packets;
mod queue;
mod trace;

use std::collections::VecDeque;

use proto::time::Time;

use crate::capture::{Capture, Direction};
use crate::channel::Channel;
use crate::counters::{Class, PortCounters};
use crate::flows::Flows;
use crate::ids::{NodeId, PortId};
use crate::transits::Transits;

pub(crate) use packets::{PacketId, Packets};
pub(crate) use queue::{Event, Kind, Queue, Sequence};
pub(crate) use trace::Trace;

/// What nodes share.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) now: Time,
    pub(crate) events: u64,
    pub(crate) queue: Queue,
    pub(crate) packets: Packets,
    pub(crate) media: Vec<Medium>,
    /// Packets handed to HF stations, which have not taken them yet.
    pub(crate) aloft: VecDeque<Aloft>,
    pub(crate) ports: Vec<Port>,
    pub(crate) trace: Trace,
    pub(crate) captures: Vec<Capture>,
    /// Counters for each flow, when asked for.
    pub(crate) flows: Option<Flows>,
    /// How long packets are inside a tunnel, when asked for.
    pub(crate) transits: Option<Transits>,
}

/// What carries packets between the ports that are attached to it.
///
/// A port transmits one packet at a time and hears from the medium when it may transmit the next.
/// A broadcast medium is another variant: it makes an `Arrive` for each port in range and may keep
/// events of its own for carrier sense.
#[derive(Debug)]
pub(crate) enum Medium {
    /// A station on an HF frequency: its IP client has the queue, so this one never waits.
    Hf { net: usize, station: usize },
    /// Two ports, a channel for each direction; boxed because a channel is large.
    Wire(Box<[Channel; 2]>),
}

/// A packet for the IP client of an HF station.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aloft {
    pub(crate) net: usize,
    pub(crate) station: usize,
    pub(crate) packet: PacketId,
}

/// Where an interface is attached.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) node: NodeId,
    /// The index of the interface in its node.
    pub(crate) interface: usize,
    pub(crate) medium: usize,
    /// Which of a wire's two ends.
    pub(crate) side: usize,
    pub(crate) counters: PortCounters,
    /// The captures that see its packets, and its number in each.
    pub(crate) captures: Vec<(usize, u32)>,
}

impl Engine {
    /// Schedules something.
    pub(crate) fn schedule(&mut self, at: Time, sequence: &mut Sequence, kind: Kind) {
        self.queue.push(Event::new(at.max(self.now), sequence.next(), kind));
    }

    /// Puts a packet on the port's medium; returns when the port is idle again.
    pub(crate) fn transmit(
        &mut self,
        sequence: &mut Sequence,
        port: PortId,
        to: PortId,
        packet: PacketId,
        class: Class,
    ) -> Time {
        let octets = self.packets.get(packet);
        let len = octets.len();
        self.trace.add_packet(self.now, port, octets);
        self.capture(port, packet, Direction::Out);

        let Port { medium, side, counters, .. } = &mut self.ports[port.index()];
        counters.sent[class].add(len);
        let sent = match &mut self.media[*medium] {
            Medium::Wire(channels) => channels[*side].transmit(self.now, len),
            Medium::Hf { net, station } => {
                self.aloft.push_back(Aloft { net: *net, station: *station, packet });
                if let Some(flows) = &mut self.flows {
                    flows.add(self.packets.get(packet), false);
                }
                return self.now;
            }
        };
        if let Some(flows) = &mut self.flows {
            flows.add(self.packets.get(packet), sent.arrives_at.is_none());
        }
        match sent.arrives_at {
            Some(at) => {
                let arrival = Kind::Arrive { port: to, from: port, packet };
                self.schedule(at, sequence, arrival);
            }
            None => {
                self.ports[port.index()].counters.lost.add(len);
                self.packets.remove(packet);
            }
        }
        sent.idle_at
    }

    /// Writes a packet to the captures of a port.
    pub(crate) fn capture(&mut self, port: PortId, packet: PacketId, direction: Direction) {
        let octets = self.packets.get(packet);
        for (capture, interface) in &self.ports[port.index()].captures {
            self.captures[*capture].write(self.now, *interface, direction, octets);
        }
    }
}
