//! HBH in a node: hellos discover the neighbours that speak HBH, as between gateways.
//!
//! ```text
//!  Prerouting ─ protocol 253 ─▶ handle_frame ─┐      ┌─▶ poll_restored ─▶ input or forward
//!                                             ├ Host ├─▶ poll_returned ─▶ routed again
//!  Postrouting ─ to a peer ─▶ handle_packet ──┘      └─▶ interface idle: poll_hello, poll_transmit
//! ```
//! [`Host`] decides, as in the gateway; this file knows the engine.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use ::hbh::hello::Hello;
use ::hbh::host::{self, Event, Host, Interface};
use ::hbh::neighbours::{self, Place};
use ::hbh::wire::{Layout, Message};
use base::contract::Refused;
use base::ethernet::Mac;
use base::rng::Rng;
use base::time::Time;
use serde::Serialize;

use super::{
    Attachment, Frames, Hook, LinkFeedback, Origin, RouteWatcher, Service, ServiceReport, Verdict,
    Way,
};
use crate::counters::Class;
use crate::engine::{Engine, PacketId};
use crate::ids::PortId;
use crate::medium::LinkAddress;
use crate::node::NextHop;
use crate::node::stack::too_big;

/// A node's HBH, and which neighbours speak it too.
#[derive(Debug)]
pub struct Hbh {
    host: Host,
    /// The node's addresses, by interface.
    addresses: BTreeMap<usize, Vec<IpAddr>>,
    /// Hellos waiting for their interface; too few to need a bound.
    hellos: VecDeque<(PacketId, Way)>,
    gave_up: u64,
    unsent: u64,
}

base::counters! {
    /// Counters of events outside of the HBH core.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Counters {
        /// Packets not taken, for another reason than that the queue was full.
        pub refused: counter(packets);
        /// Packets too long for the next hop, cut into fragments.
        pub fragmented: counter(packets);
        /// Packets given up after their last retry.
        pub gave_up: counter(packets);
        /// Hellos that could not be read.
        pub hellos_malformed: counter(messages);
        /// HBH packets of stations that are no neighbours.
        pub unknown_peer: counter(packets);
        /// Packets of neighbours dropped: their source is this node, or not one host.
        pub bad_source: counter(packets);
        /// Packets taken back from a neighbour, to go another way.
        pub rerouted: counter(packets);
        /// Packets taken back that found no other way.
        pub unrouted: counter(packets);
        /// HBH packets that the link layer could not bring to a neighbour.
        pub unsent: counter(packets);
    }
}

impl Hbh {
    pub(crate) fn new(config: hbh::Config, mut rng: Rng) -> Self {
        let hellos = Rng::stream(rng.bits(), "neighbours");
        Self {
            host: Host::new(host::Config::new(config), rng, hellos),
            addresses: BTreeMap::new(),
            hellos: VecDeque::new(),
            gave_up: 0,
            unsent: 0,
        }
    }

    /// Statistics of the HBH core.
    #[must_use]
    pub fn stats(&self) -> hbh::Stats {
        self.host.relay().stats()
    }

    /// Statistics of hellos.
    #[must_use]
    pub fn hellos(&self) -> neighbours::Stats {
        self.host.neighbours().stats()
    }

    /// How many neighbours speak HBH with it.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.host.peers().count()
    }

    /// The peer that a packet with these octets is for, if HBH takes the packet.
    fn peer_for(&self, next: NextHop, octets: &[u8]) -> Option<hbh::Peer> {
        let peer = self.host.peer_at(place(next)?)?;
        (!self.host.goes_plain(peer, octets)).then_some(peer)
    }

    fn counters(&self) -> Counters {
        let host::Stats { leaving, released, received, hellos } = self.host.stats();
        Counters {
            refused: leaving.packets_malformed,
            fragmented: leaving.packets_fragmented,
            gave_up: self.gave_up,
            hellos_malformed: hellos.hellos_malformed,
            unknown_peer: received.frames_unknown_peer,
            bad_source: released.packets_from_self + released.packets_not_unicast,
            rerouted: released.packets_rerouted,
            unrouted: released.packets_unrouted,
            unsent: self.unsent,
        }
    }
}

impl Service for Hbh {
    /// HBH keeps the destination of the carried packet, so every HBH packet is meant for the node
    /// where it arrives.
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        match hook {
            Hook::Prerouting { header, .. } => {
                header.protocol == self.host.relay().config().protocol
            }
            Hook::Postrouting { next } => self.peer_for(*next, octets).is_some(),
            Hook::Diverted | Hook::Forward { .. } | Hook::Input { .. } | Hook::Unrouted { .. } => {
                false
            }
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let octets = engine.packets.get_mut(packet);
        match *hook {
            Hook::Prerouting { interface, from, .. } => {
                // What does not count is counted.
                let _ = self.host.handle_frame(engine.now, (interface, station(from)), octets);
            }
            Hook::Postrouting { next } => {
                let Some(peer) = self.peer_for(next, octets) else { return Verdict::Malformed };
                if let Err(Refused::TooBig { mtu }) =
                    self.host.handle_packet(engine.now, peer, octets)
                {
                    return Verdict::Refused(too_big(mtu));
                }
            }
            Hook::Diverted | Hook::Forward { .. } | Hook::Input { .. } | Hook::Unrouted { .. } => {
                return Verdict::Malformed;
            }
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }

    fn handle_timeout(&mut self, now: Time) {
        self.host.handle_timeout(now);
    }

    fn settle(&mut self, engine: &mut Engine) {
        while let Some(event) = self.host.poll_event() {
            match event {
                Event::GaveUp { packets, .. } => self.gave_up += u64::from(packets),
                Event::Up { .. } | Event::Down { .. } | Event::Plain(..) => {}
            }
        }
        let now = engine.now;
        for interface in 0..self.addresses.len() {
            let mut to = None;
            while let Some(packet) = engine.make(|out| {
                to = self.host.poll_hello(now, interface, out);
                to.is_some()
            }) {
                let to = to.map_or(LinkAddress::Broadcast, address_of);
                self.hellos.push_back((packet, Way::Sent { interface, to }));
            }
        }
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        let mut origin = None;
        let returned = engine.make(|out| {
            origin = self.host.poll_returned(out);
            origin.is_some()
        });
        if let Some(packet) = returned {
            return Some((packet, Way::Rerouted(Origin::Link(origin.and_then(port_of)))));
        }
        // Packets that go plain may fill the queue for as long as nobody is known to speak HBH.
        self.hellos.pop_front().or_else(|| {
            let restored = engine.make(|out| {
                origin = self.host.poll_restored(out);
                origin.is_some()
            })?;
            Some((restored, Way::Released(origin.and_then(port_of))))
        })
    }

    fn next_timeout(&self) -> Option<Time> {
        self.host.next_timeout()
    }

    fn report(&self) -> Option<ServiceReport> {
        #[derive(Serialize)]
        struct State {
            #[serde(flatten)]
            stats: hbh::Stats,
            #[serde(flatten)]
            hellos: neighbours::Stats,
            #[serde(flatten)]
            counters: Counters,
        }
        let (stats, hellos, counters) = (self.stats(), self.hellos(), self.counters());
        Some(ServiceReport::new("hbh", State { stats, hellos, counters }))
    }

    fn under_way(&self) -> usize {
        let held = usize::try_from(self.stats().packets_held).unwrap_or(usize::MAX);
        held.saturating_add(self.host.waiting())
    }

    fn class_of(&self, protocol: u8, messages: &[u8]) -> Option<Class> {
        let config = self.host.relay().config();
        (protocol == config.protocol).then(|| class_of(config.profile.layout(), messages))
    }

    fn as_link_feedback(&mut self) -> Option<&mut dyn LinkFeedback> {
        Some(self)
    }

    fn as_frames(&mut self) -> Option<&mut dyn Frames> {
        Some(self)
    }

    fn as_route_watcher(&mut self) -> Option<&mut dyn RouteWatcher> {
        Some(self)
    }
}

impl LinkFeedback for Hbh {
    fn vouches(&self, interface: usize, to: LinkAddress, packet: &[u8]) -> bool {
        let at = place(NextHop { interface, neighbour: to });
        at.is_some_and(|at| self.host.vouches(at, packet))
    }

    fn handle_unsent(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        to: LinkAddress,
        packet: PacketId,
    ) -> bool {
        let at = place(NextHop { interface, neighbour: to }).unwrap_or((interface, Mac::EVERYONE));
        let is_ours = self.host.handle_unsent(engine.now, at, engine.packets.get(packet));
        self.unsent += u64::from(is_ours);
        if is_ours {
            engine.packets.remove(packet);
        }
        is_ours
    }

    fn handle_interface(&mut self, now: Time, index: usize, attachment: &Attachment<'_>) {
        let Attachment { port, addresses, mtu, is_up, has_neighbours, is_acknowledged } =
            *attachment;
        self.addresses.insert(index, addresses.to_vec());
        self.host.handle_addresses(self.addresses.values().flatten().copied().collect());
        let interface = has_neighbours.then(|| Interface {
            station: station(port),
            addresses: addresses.to_vec(),
            mtu,
            is_running: is_up,
            is_acknowledged,
        });
        self.host.handle_interface(now, index, interface);
    }
}

impl Frames for Hbh {
    fn poll_frame(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, LinkAddress)> {
        let (now, mut to) = (engine.now, None);
        let frame = engine.make(|out| {
            to = self.host.poll_transmit(now, interface, out);
            to.is_some()
        })?;
        Some((frame, address_of(to?)))
    }

    fn uses(&self, interface: usize) -> bool {
        self.host.uses(interface)
    }
}

impl RouteWatcher for Hbh {
    fn needs_routes(&self) -> bool {
        self.host.needs_routes()
    }

    fn handle_next_hop(&mut self, now: Time, next: NextHop) -> bool {
        place(next).is_some_and(|at| self.host.handle_next_hop(now, at))
    }

    /// Own packets without a route are left to a service that looks for routes, if there is one; packets of other
    /// nodes wait here.
    fn handle_routes(
        &mut self,
        now: Time,
        route: &dyn Fn(IpAddr) -> Option<NextHop>,
        has_finder: bool,
    ) {
        self.host.handle_route_change(now);
        self.host.handle_routes(now, |flow, _| match route(flow.destination) {
            Some(next) => place(next).map_or(host::NextHop::Elsewhere, host::NextHop::Station),
            None if has_finder => host::NextHop::Searched,
            None => host::NextHop::Nowhere,
        });
    }
}

/// The hardware address of a port: one administered locally, with the port's number.
fn station(PortId(port): PortId) -> Mac {
    let [a, b, c, d] = port.to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

/// The link address for a hardware address.
fn address_of(to: Mac) -> LinkAddress {
    let Mac([_, _, a, b, c, d]) = to;
    if to == Mac::EVERYONE {
        LinkAddress::Broadcast
    } else {
        LinkAddress::Port(PortId(u32::from_be_bytes([a, b, c, d])))
    }
}

/// HBH's name for a neighbour; a broadcast goes to none.
fn place(NextHop { interface, neighbour }: NextHop) -> Option<Place> {
    match neighbour {
        LinkAddress::Broadcast => None,
        LinkAddress::Port(port) => Some((interface, station(port))),
    }
}

/// The port of the neighbour that a packet came from.
fn port_of(origin: host::Origin) -> Option<PortId> {
    match address_of(origin.neighbour?.1) {
        LinkAddress::Broadcast => None,
        LinkAddress::Port(port) => Some(port),
    }
}

/// The class of HBH messages: the class of the last message's payload, if there is a payload.
fn class_of(layout: Layout, messages: &[u8]) -> Class {
    if Hello::is_one(messages) {
        return Class::Hello;
    }
    match Message::carried(layout, messages) {
        Some((Some(protocol), payload)) => Class::of_transport(protocol, payload),
        Some((None, _)) => Class::Data,
        None => Class::HopAck,
    }
}

#[cfg(test)]
mod tests {
    use ::hbh::wire::{Ack, Data, FlowId, Seq};
    use base::ip::protocol;

    use super::*;

    #[test]
    fn a_message_counts_as_what_it_carries() {
        let mut segment = [0; 33];
        segment[12] = 8 << 4;
        for layout in [Layout::Wide, Layout::Paper] {
            let [data, alone, ack] = [&segment[..], &segment[..32], &[]].map(|payload| {
                let mut out = Vec::new();
                let (flow, seq) = (FlowId(1), Seq(1));
                if payload.is_empty() {
                    Ack { is_followed: true, ..Ack::new(flow, seq) }.emit(layout, &mut out);
                } else {
                    Data::new(flow, seq, protocol::TCP, payload).emit(layout, &mut out);
                }
                out
            });

            assert_eq!(class_of(layout, &data), Class::Data);
            assert_eq!(class_of(layout, &alone), Class::Ack);
            assert_eq!(class_of(layout, &ack), Class::HopAck);
            assert_eq!(class_of(layout, &[ack, data].concat()), Class::Data);
        }
    }
}
