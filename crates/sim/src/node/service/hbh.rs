//! HBH in a node.
//!
//! ```text
//!  Prerouting ─ protocol 253 ─▶ handle_message          poll_restored ─▶ input or forward
//!  Postrouting ─ next hop speaks HBH ─▶ handle_packet   interface idle ─▶ poll_transmit
//! ```

use std::collections::VecDeque;
use std::net::IpAddr;

use proto::contract::Refused;
use proto::hbh::{self, Link, LinkReport, Peer, PeerConfig};
use proto::ip::{FlowKey, Header, mss};
use proto::rng::Rng;
use proto::time::Time;
use serde::Serialize;

use super::{Hook, Service, ServiceReport, Verdict, Way};
use crate::counters::Class;
use crate::engine::{Engine, PacketId};
use crate::ids::PortId;
use crate::medium::LinkAddress;
use crate::node::NextHop;
use crate::node::stack::too_big;

/// A node's HBH, and which neighbours speak it too.
#[derive(Debug)]
pub struct Hbh {
    core: hbh::Node,
    /// In order.
    neighbours: Vec<Neighbour>,
    /// Packets taken back from neighbours that are no longer their next hop.
    orphans: VecDeque<Vec<u8>>,
    counters: Counters,
}

/// What happened outside of the core.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counters {
    /// Packets not taken, for another reason than that the queue was full.
    pub refused: u64,
    /// Packets given up after their last retry.
    pub gave_up: u64,
}

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    next: NextHop,
    port: PortId,
    /// Of the interface.
    mtu: usize,
}

impl Hbh {
    pub(crate) fn new(config: hbh::Config, rng: Rng) -> Self {
        Self {
            core: hbh::Node::new(config, rng),
            neighbours: Vec::new(),
            orphans: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Adds a neighbour that speaks HBH.
    pub(crate) fn add_peer(&mut self, interface: usize, port: PortId, config: PeerConfig) {
        self.core.add_peer(Peer(port.0), config);
        let next = NextHop { interface, neighbour: LinkAddress::Port(port) };
        if !self.neighbours.iter().any(|known| known.next == next) {
            self.neighbours.push(Neighbour { next, port, mtu: config.mtu });
        }
    }

    /// Takes what is known of the link to a neighbour before the first packet.
    pub(crate) fn handle_link_report(&mut self, port: PortId, report: LinkReport) {
        self.core.handle_link_report(Peer(port.0), report);
    }

    /// What its core counted.
    #[must_use]
    pub fn stats(&self) -> hbh::Stats {
        self.core.stats()
    }

    fn neighbour(&self, next: NextHop) -> Option<Neighbour> {
        self.neighbours.iter().find(|known| known.next == next).copied()
    }

    fn send(&mut self, engine: &mut Engine, next: NextHop, packet: PacketId) -> Verdict {
        let Some(Neighbour { port, mtu, .. }) = self.neighbour(next) else {
            return Verdict::Malformed;
        };
        let octets = engine.packets.get_mut(packet);
        // As the gateway does: TCP leaves room for what HBH adds.
        if let Ok(header) = Header::parse(octets) {
            mss::clamp(&header, octets, mtu.saturating_sub(hbh::OVERHEAD));
        }
        match self.core.handle_packet(engine.now, Peer(port.0), octets) {
            Err(Refused::TooBig { mtu }) => return Verdict::Refused(too_big(mtu)),
            Err(Refused::Down | Refused::Malformed) => self.counters.refused += 1,
            // Counted by HBH itself.
            Err(Refused::Full) | Ok(()) => {}
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }
}

impl Service for Hbh {
    /// HBH keeps the destination of the packet that it carries, so any of its packets is meant for
    /// the node that it reaches.
    fn claims(&self, hook: &Hook<'_>, _octets: &[u8]) -> bool {
        match hook {
            Hook::Prerouting { header, .. } => header.protocol == self.core.config().protocol,
            Hook::Postrouting { next } => self.neighbour(*next).is_some(),
            Hook::Diverted | Hook::Forward { .. } | Hook::Input { .. } => false,
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        match hook {
            Hook::Prerouting { from, .. } => {
                let octets = engine.packets.get(packet);
                self.core.handle_message(engine.now, Peer(from.0), octets);
                engine.packets.remove(packet);
                Verdict::Taken
            }
            Hook::Postrouting { next } => self.send(engine, *next, packet),
            Hook::Diverted | Hook::Forward { .. } | Hook::Input { .. } => Verdict::Malformed,
        }
    }

    fn handle_routes(&mut self, route: &dyn Fn(IpAddr) -> Option<NextHop>) {
        let Self { core, neighbours, orphans, .. } = self;
        for &Neighbour { next, port, .. } in &*neighbours {
            let is_moved =
                |flow: &FlowKey, _| route(flow.destination).is_some_and(|now| now != next);
            core.reroute(Peer(port.0), is_moved, |packet, _| {
                orphans.push_back(packet.to_vec());
            });
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.core.handle_timeout(now);
    }

    fn settle(&mut self, _engine: &mut Engine) {
        while let Some(event) = self.core.poll_event() {
            match event {
                hbh::Event::GaveUp { packets, .. } => self.counters.gave_up += u64::from(packets),
            }
        }
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        if let Some(orphan) = self.orphans.pop_front() {
            return Some((engine.packets.add_copy(&orphan), Way::Rerouted));
        }
        let restored = engine.make(|octets| self.core.poll_restored(octets).is_some())?;
        Some((restored, Way::Released))
    }

    fn poll_frame(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, LinkAddress)> {
        let (now, mut to) = (engine.now, None);
        let frame = engine.make(|octets| {
            to = self.core.poll_transmit(now, link_of(interface), octets);
            to.is_some()
        })?;
        Some((frame, LinkAddress::Port(PortId(to?.0))))
    }

    fn next_timeout(&self) -> Option<Time> {
        self.core.next_timeout()
    }

    fn uses(&self, interface: usize) -> bool {
        self.neighbours.iter().any(|known| known.next.interface == interface)
    }

    fn report(&self) -> Option<ServiceReport> {
        #[derive(Serialize)]
        struct State {
            #[serde(flatten)]
            stats: hbh::Stats,
            #[serde(flatten)]
            counters: Counters,
        }
        let Self { counters, .. } = *self;
        Some(ServiceReport::new("hbh", State { stats: self.stats(), counters }))
    }

    fn class_of(&self, protocol: u8, messages: &[u8]) -> Option<Class> {
        (protocol == self.core.config().protocol).then(|| class_of(messages))
    }
}

/// HBH's name for an interface.
pub(crate) fn link_of(interface: usize) -> Link {
    Link(u32::try_from(interface).expect("a node has fewer interfaces"))
}

/// The class of HBH messages: that of what the last one carries, if it carries something.
fn class_of(mut messages: &[u8]) -> Class {
    while let Some(&[flags, _, _, _, _, _, protocol, reserved]) =
        messages.first_chunk::<{ hbh::wire::HEADER }>()
    {
        if flags & IS_ACK == 0 {
            let rest = &messages[hbh::wire::HEADER..];
            return match (reserved & IS_REPAIR, reserved & HAS_OLDER) {
                (0, 0) => Class::of_transport(protocol, rest),
                (0, _) => Class::of_transport(protocol, &rest[hbh::wire::older(rest).len()..]),
                _ => Class::Data,
            };
        }
        let intervals = usize::from(flags & INTERVALS) * 2;
        let echo = if reserved & HAS_ECHO == 0 { 0 } else { 4 };
        messages = messages.get(hbh::wire::HEADER + echo + intervals..).unwrap_or_default();
    }
    Class::HopAck
}

// HBH's header, as far as counting needs it.
const IS_ACK: u8 = 0x80;
const INTERVALS: u8 = 0x3f;
const HAS_ECHO: u8 = 0x80;
const IS_REPAIR: u8 = 0x80;
const HAS_OLDER: u8 = 0x40;

#[cfg(test)]
mod tests {
    use proto::ip::protocol;

    use super::*;

    #[test]
    fn a_message_counts_as_what_it_carries() {
        let mut segment = [0; 33];
        segment[12] = 8 << 4;
        let mut carried = vec![0; 8];
        carried[6] = protocol::TCP;
        carried.extend_from_slice(&segment);

        assert_eq!(class_of(&carried), Class::Data);
        assert_eq!(class_of(&carried[..40]), Class::Ack);
        let ack = [0x81, 0, 0, 0, 0, 0, protocol::NONE, 0x80, 1, 2, 3, 4, 5, 6];
        let both = [&ack[..], &carried].concat();
        assert_eq!(class_of(&ack), Class::HopAck);
        assert_eq!(class_of(&both), Class::Data);
    }
}
