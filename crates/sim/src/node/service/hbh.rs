//! HBH in a node: hellos discover the neighbours that speak HBH, as between gateways.
//!
//! ```text
//!  Prerouting ─ protocol 253 ─┬─ hello ─▶ neighbours ─▶ peers come and go
//!                             └─▶ handle_message        poll_restored ─▶ input or forward
//!  Postrouting ─ next hop is a peer ─▶ handle_packet    interface idle ─▶ hello, poll_transmit
//! ```

use std::collections::VecDeque;
use std::net::IpAddr;

use ::hbh::hello::Hello;
use ::hbh::neighbours::{self, Neighbours, Place};
use ::hbh::orphans::{Orphan, Orphans};
use ::hbh::wire::{Layout, Message};
use ::hbh::{Link, Peer, PeerConfig};
use base::contract::Refused;
use base::ethernet::Mac;
use base::ip::{FlowKey, Header, mss};
use base::rng::Rng;
use base::time::{Time, earliest};
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
    core: hbh::Relay,
    neighbours: Neighbours,
    /// By their places; those that HBH does not use are empty.
    interfaces: Vec<Option<Interface>>,
    /// Neighbours that are up, in order of arrival.
    peers: Vec<Known>,
    /// Hellos waiting for their interface; too few to need a bound.
    hellos: VecDeque<(PacketId, Way)>,
    /// Packets taken back from neighbours that are no longer their next hop.
    orphans: Orphans,
    /// Whether packets that were taken back may have a way.
    needs_routes: bool,
    counters: Counters,
}

base::counters! {
    /// Counters of events outside of the HBH core.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Counters {
        /// Packets not taken, for another reason than that the queue was full.
        pub refused: counter(packets);
        /// Packets given up after their last retry.
        pub gave_up: counter(packets);
        /// Hellos that could not be read.
        pub hellos_malformed: counter(messages);
        /// HBH packets of stations that are no neighbours.
        pub unknown_peer: counter(packets);
        /// Packets taken back from a neighbour, to go another way.
        pub rerouted: counter(packets);
        /// Packets taken back that found no other way.
        pub unrouted: counter(packets);
        /// HBH packets that the link layer could not bring to a neighbour.
        pub unsent: counter(packets);
    }
}

/// An interface that HBH uses.
#[derive(Clone, Debug)]
struct Interface {
    addresses: Vec<IpAddr>,
    mtu: usize,
    /// Losses of broadcast hellos there say nothing about other packets.
    is_acknowledged: bool,
}

/// A neighbour that is up.
#[derive(Clone, Copy, Debug)]
struct Known {
    peer: Peer,
    place: Place,
    next: NextHop,
    /// Of the interface.
    mtu: usize,
}

impl Hbh {
    pub(crate) fn new(config: hbh::Config, mut rng: Rng) -> Self {
        let hellos = Rng::stream(rng.bits(), "neighbours");
        Self {
            core: hbh::Relay::new(config, rng),
            neighbours: Neighbours::new(neighbours::Config::new(config.profile), hellos),
            interfaces: Vec::new(),
            peers: Vec::new(),
            hellos: VecDeque::new(),
            orphans: Orphans::default(),
            needs_routes: false,
            counters: Counters::default(),
        }
    }

    /// Statistics of the HBH core.
    #[must_use]
    pub fn stats(&self) -> hbh::Stats {
        self.core.stats()
    }

    /// Statistics of hellos.
    #[must_use]
    pub fn hellos(&self) -> neighbours::Stats {
        self.neighbours.stats()
    }

    /// How many neighbours speak HBH with it.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    fn is_frame(&self, packet: &[u8]) -> bool {
        let protocol = self.core.config().protocol;
        Header::parse(packet).is_ok_and(|header| header.protocol == protocol)
    }

    fn known(&self, next: NextHop) -> Option<Known> {
        self.peers.iter().find(|known| known.next == next).copied()
    }

    fn place_of(&self, peer: Peer) -> Option<Place> {
        self.peers.iter().find(|known| known.peer == peer).map(|known| known.place)
    }

    fn port_of(&self, peer: Peer) -> Option<PortId> {
        match address_of(self.place_of(peer)?.1) {
            LinkAddress::Broadcast => None,
            LinkAddress::Port(port) => Some(port),
        }
    }

    fn send(&mut self, engine: &mut Engine, next: NextHop, packet: PacketId) -> Verdict {
        let Some(Known { peer, mtu, .. }) = self.known(next) else {
            return Verdict::Malformed;
        };
        let octets = engine.packets.get_mut(packet);
        // As the gateway does: TCP leaves room for what HBH adds.
        mss::clamp(octets, mtu.saturating_sub(self.core.overhead(peer)));
        match self.core.handle_packet(engine.now, peer, octets) {
            Err(Refused::TooBig { mtu }) => return Verdict::Refused(too_big(mtu)),
            Err(Refused::Down | Refused::Malformed) => self.counters.refused += 1,
            // Counted by HBH itself.
            Err(Refused::Full) | Ok(()) => {}
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }

    /// Takes what the neighbour at `place` sent.
    fn receive(&mut self, now: Time, place: Place, header: &Header, packet: &[u8]) {
        let payload = &packet[header.len..header.total_len];
        if Hello::is_one(payload) {
            match Hello::parse(payload, None) {
                Ok(hello) => {
                    self.neighbours.handle_hello(now, place, hello);
                    if let Some(peer) = self.neighbours.peer_at(place) {
                        self.core.handle_alive(now, peer);
                    }
                }
                Err(_) => self.counters.hellos_malformed += 1,
            }
        } else if let Some(peer) = self.neighbours.peer_at(place) {
            self.neighbours.handle_alive(now, place);
            self.core.handle_message(now, peer, packet);
        } else {
            self.counters.unknown_peer += 1;
        }
    }

    /// Takes who came and went.
    fn take_neighbours(&mut self, now: Time) {
        while let Some(event) = self.neighbours.poll_event() {
            match event {
                neighbours::Event::Up(place, peer) => {
                    let Some(config) = self.peer_config(place) else { continue };
                    self.core.add_peer(peer, config);
                    let next = next_hop(place);
                    self.peers.push(Known { peer, place, next, mtu: config.mtu });
                    self.orphans.handle_up(now, place);
                    self.needs_routes = true;
                }
                neighbours::Event::Down(place, peer) => {
                    let Self { core, orphans, counters, .. } = self;
                    core.remove_peer(peer, |packet, from| {
                        counters.rerouted += 1;
                        // What it restored or took is an IP packet.
                        let _ = orphans.push(now, packet, from, Some((peer, place)));
                    });
                    self.peers.retain(|known| known.peer != peer);
                    self.needs_routes = true;
                }
                neighbours::Event::Measured(peer, report) => {
                    let place = self.place_of(peer);
                    let at = place.and_then(|(index, _)| self.interfaces.get(index)?.as_ref());
                    if at.is_some_and(|interface| !interface.is_acknowledged) {
                        self.core.handle_link_report(peer, report);
                    }
                }
                neighbours::Event::Disputed(_)
                | neighbours::Event::Incompatible(_)
                | neighbours::Event::Misplaced(_) => {}
            }
        }
    }

    fn peer_config(&self, place @ (index, _): Place) -> Option<PeerConfig> {
        let Interface { addresses, mtu, .. } = self.interfaces.get(index)?.as_ref()?;
        let theirs = self.neighbours.addresses(place);
        let (local, remote) = addresses.iter().find_map(|&local| {
            let remote = theirs.iter().find(|remote| remote.is_ipv4() == local.is_ipv4());
            remote.map(|&remote| (local, remote))
        })?;
        Some(PeerConfig { link: link_of(index), local, remote, mtu: *mtu })
    }

    /// Says hello where it is time to.
    fn say_hello(&mut self, engine: &mut Engine) {
        let Self { core, neighbours, hellos, .. } = self;
        for interface in 0..self.interfaces.len() {
            while let Some((to, hello)) = neighbours.poll_transmit(engine.now, interface) {
                let theirs = neighbours.addresses((interface, to));
                let number = core.config().protocol;
                let packet = engine.make(|out| hello.emit_packet(number, theirs, None, out));
                let way = Way::Sent { interface, to: address_of(to) };
                hellos.extend(packet.map(|packet| (packet, way)));
            }
        }
    }
}

impl Service for Hbh {
    /// HBH keeps the destination of the carried packet, so every HBH packet is meant for the node
    /// where it arrives.
    fn claims(&self, hook: &Hook<'_>, _octets: &[u8]) -> bool {
        match hook {
            Hook::Prerouting { header, .. } => header.protocol == self.core.config().protocol,
            Hook::Postrouting { next } => self.known(*next).is_some(),
            Hook::Diverted | Hook::Forward { .. } | Hook::Input { .. } | Hook::Unrouted { .. } => {
                false
            }
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        match hook {
            Hook::Prerouting { interface, from, header } => {
                let place = (*interface, station(*from));
                self.receive(engine.now, place, header, engine.packets.get(packet));
                engine.packets.remove(packet);
                Verdict::Taken
            }
            Hook::Postrouting { next } => self.send(engine, *next, packet),
            Hook::Diverted | Hook::Forward { .. } | Hook::Input { .. } | Hook::Unrouted { .. } => {
                Verdict::Malformed
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.core.handle_timeout(now);
        self.neighbours.handle_timeout(now);
        self.needs_routes |= self.orphans.next_timeout().is_some_and(|at| at <= now);
    }

    fn settle(&mut self, engine: &mut Engine) {
        while let Some(event) = self.core.poll_event() {
            match event {
                hbh::Event::GaveUp { packets, .. } => self.counters.gave_up += u64::from(packets),
            }
        }
        self.take_neighbours(engine.now);
        self.say_hello(engine);
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        if let Some(Orphan { packet, from, .. }) = self.orphans.poll() {
            let origin = Origin::Link(from.and_then(|from| self.port_of(from)));
            return Some((engine.packets.add_copy(&packet), Way::Rerouted(origin)));
        }
        // Packets that go plain may fill the queue for as long as nobody is known to speak HBH.
        self.hellos.pop_front().or_else(|| {
            let mut from = None;
            let restored = engine.make(|octets| {
                from = self.core.poll_restored(octets);
                from.is_some()
            })?;
            let known = |peer| self.peers.iter().find(|known| known.peer == peer);
            if let Some(Known { peer, mtu, .. }) = from.and_then(known) {
                let octets = engine.packets.get_mut(restored);
                mss::clamp(octets, mtu.saturating_sub(self.core.overhead(*peer)));
            }
            Some((restored, Way::Released(from.and_then(|from| self.port_of(from)))))
        })
    }

    fn next_timeout(&self) -> Option<Time> {
        let rest = earliest(self.neighbours.next_timeout(), self.orphans.next_timeout());
        earliest(self.core.next_timeout(), rest)
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
        let Self { counters, .. } = *self;
        let state = State { stats: self.stats(), hellos: self.hellos(), counters };
        Some(ServiceReport::new("hbh", state))
    }

    fn under_way(&self) -> usize {
        let held = usize::try_from(self.stats().packets_held).unwrap_or(usize::MAX);
        held.saturating_add(self.orphans.waiting())
    }

    fn class_of(&self, protocol: u8, messages: &[u8]) -> Option<Class> {
        let config = self.core.config();
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
    /// On a busy channel 802.11 gives up packets to neighbours still in range. A routing protocol would look for
    /// another route after each reported loss.
    fn vouches(&self, interface: usize, to: LinkAddress, packet: &[u8]) -> bool {
        let LinkAddress::Port(port) = to else { return false };
        let peer = self.neighbours.peer_at((interface, station(port)));
        self.is_frame(packet) && peer.is_some_and(|peer| !self.core.is_doubtful(peer))
    }

    /// Takes back HBH's own frames: the core still has their packets and repeats them.
    fn handle_unsent(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        to: LinkAddress,
        packet: PacketId,
    ) -> bool {
        let octets = engine.packets.get(packet);
        if !self.is_frame(octets) {
            return false;
        }
        self.counters.unsent += 1;
        if let LinkAddress::Port(port) = to
            && let Some(peer) = self.neighbours.peer_at((interface, station(port)))
        {
            self.core.handle_unsent(engine.now, peer, octets);
        }
        engine.packets.remove(packet);
        true
    }

    fn handle_interface(&mut self, now: Time, index: usize, attachment: &Attachment<'_>) {
        let Attachment { port, addresses, mtu, is_up, has_neighbours, is_acknowledged } =
            *attachment;
        if self.interfaces.len() <= index {
            self.interfaces.resize(index + 1, None);
        }
        let used = Interface { addresses: addresses.to_vec(), mtu, is_acknowledged };
        self.interfaces[index] = has_neighbours.then_some(used);
        let is_running = is_up && has_neighbours;
        self.neighbours.handle_interface(now, index, station(port), addresses, is_running);
    }
}

impl Frames for Hbh {
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
        let Some(place) = to.and_then(|peer| self.place_of(peer)) else {
            engine.remove(frame);
            return None;
        };
        self.neighbours.handle_sent(now, place);
        Some((frame, address_of(place.1)))
    }

    fn uses(&self, interface: usize) -> bool {
        self.interfaces.get(interface).is_some_and(Option::is_some)
    }
}

impl RouteWatcher for Hbh {
    fn needs_routes(&self) -> bool {
        self.needs_routes
    }

    /// Own packets without a route are left to a service that looks for routes, if there is one; packets of other
    /// nodes wait here.
    fn handle_routes(
        &mut self,
        now: Time,
        route: &dyn Fn(IpAddr) -> Option<NextHop>,
        has_finder: bool,
    ) {
        self.needs_routes = false;
        let Self { core, peers, orphans, counters, .. } = self;
        for &Known { peer, next, .. } in &*peers {
            let is_moved = |flow: &FlowKey, from: Option<Peer>| match route(flow.destination) {
                Some(now) => now != next,
                None => has_finder && from.is_none(),
            };
            core.reroute(peer, is_moved, |packet, from| {
                counters.rerouted += 1;
                let _ = orphans.push(now, packet, from, None);
            });
        }
        let has_way = |orphan: &Orphan| {
            route(orphan.flow.destination).map_or(has_finder && orphan.from.is_none(), |next| {
                let is_silent = orphan.silent.is_some_and(|(_, place)| next_hop(place) == next);
                // It may have come back.
                !is_silent || peers.iter().any(|known| known.next == next)
            })
        };
        counters.unrouted += orphans.settle(now, has_way);
    }
}

/// HBH's name for an interface.
fn link_of(interface: usize) -> Link {
    Link(u32::try_from(interface).expect("a node has fewer interfaces"))
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

fn next_hop((interface, mac): Place) -> NextHop {
    NextHop { interface, neighbour: address_of(mac) }
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

    /// The first packet of `connect()` on Linux 6.18, over an Ethernet: it asks for segments of 1,460 octets.
    const SYN: [u8; 60] = [
        0x45, 0x00, 0x00, 0x3c, 0x2e, 0x1a, 0x40, 0x00, 0x40, 0x06, 0xf8, 0x9c, 0x0a, 0x01, 0x00,
        0x02, 0x0a, 0x02, 0x00, 0x01, 0xd0, 0x3a, 0x00, 0x50, 0xdc, 0xce, 0xfe, 0x1d, 0x00, 0x00,
        0x00, 0x00, 0xa0, 0x02, 0xfa, 0xf0, 0x5b, 0x6e, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04,
        0x02, 0x08, 0x0a, 0xc9, 0x88, 0x68, 0x98, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
    ];

    /// The place of the segment size in it.
    const ASKED: std::ops::Range<usize> = 42..44;

    /// The HBH of a node that has one neighbour, over an interface with this MTU.
    fn with_neighbour(mtu: usize, [local, remote]: [IpAddr; 2]) -> (Hbh, NextHop) {
        let mut hbh = Hbh::new(::hbh::Config::new(::hbh::Profile::Default), Rng::stream(1, "hbh"));
        let (peer, place) = (Peer(0), (0, station(PortId(7))));
        hbh.core.add_peer(peer, PeerConfig { link: link_of(0), local, remote, mtu });
        let next = next_hop(place);
        hbh.peers.push(Known { peer, place, next, mtu });
        (hbh, next)
    }

    #[test]
    fn a_syn_asks_for_no_more_than_the_narrower_end_carries_whichever_it_is() {
        let ends = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])];
        for (near, far) in [(1_500, 1_500), (1_300, 1_500), (1_500, 1_300)] {
            let (mut a, next) = with_neighbour(near, ends);
            let (mut b, _) = with_neighbour(far, [ends[1], ends[0]]);
            let mut engine = Engine::default();
            let packet = engine.packets.add_copy(&SYN);

            assert!(matches!(a.send(&mut engine, next, packet), Verdict::Taken));
            let mut frame = Vec::new();
            while a.core.poll_transmit(engine.now, link_of(0), &mut frame).is_some() {
                b.core.handle_message(engine.now, Peer(0), &frame);
            }
            let (packet, _) = b.poll_packet(&mut engine).unwrap();

            let octets = engine.packets.get(packet);
            let narrower = near.min(far) - a.core.overhead(Peer(0));
            let expected = u16::try_from(narrower - 40).unwrap();
            assert_eq!(octets[ASKED], expected.to_be_bytes(), "{near} {far}");
        }
    }
}
