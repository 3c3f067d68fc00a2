//! The IP stack: receives, routes, forwards and sends packets.

use std::net::{IpAddr, Ipv4Addr};

use base::ip::icmp::Error;
use base::ip::{FlowKey, Header, decrement_ttl, fragment, mark_congestion, protocol, selective};

use super::queue::{Queued, Waiting};
use super::service::{Hook, Origin, Passage};
use super::{NextHop, Node};
use crate::capture::Direction;
use crate::engine::{Engine, PacketId, is_for_all};
use crate::ids::PortId;
use crate::medium::LinkAddress;

impl Node {
    /// The first hook: HBH takes its packets, the others are for this node or pass through.
    pub fn prerouting(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        from: PortId,
        packet: PacketId,
    ) {
        engine.capture(self.interfaces[interface].port, packet, Direction::In);
        let Some(header) = self.parse(engine, packet) else { return };
        engine.packets.get_mut(packet).truncate(header.total_len);

        if self.offer(engine, &Hook::Prerouting { interface, from, header: &header }, packet) {
            return;
        }
        if is_for_all(header.destination) {
            let is_own = |address: Ipv4Addr| self.is_local(address.into());
            if !selective::is_for(&header, engine.packets.get(packet), is_own) {
                self.counters.not_listed += 1;
                engine.packets.remove(packet);
                return;
            }
            self.input(engine, &header, packet);
        } else {
            self.input_or_forward(engine, &header, packet, Origin::Link(Some(from)));
        }
    }

    /// Parses the header of a packet; an unreadable packet is dropped.
    pub fn parse(&mut self, engine: &mut Engine, packet: PacketId) -> Option<Header> {
        let header = Header::parse(engine.packets.get(packet));
        if header.is_err() {
            self.counters.malformed += 1;
            engine.packets.remove(packet);
        }
        header.ok()
    }

    /// Gives a packet to this node's own protocols, or passes it on.
    pub fn input_or_forward(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        packet: PacketId,
        origin: Origin,
    ) {
        if self.is_local(header.destination) {
            self.input(engine, header, packet);
        } else {
            self.forward(engine, header, packet, origin);
        }
    }

    /// Gives a packet to this node's own protocols.
    pub fn input(&mut self, engine: &mut Engine, header: &Header, packet: PacketId) {
        self.counters.delivered += 1;
        let (key, offset) = FlowKey::of(header, engine.packets.get(packet));
        if self.offer(engine, &Hook::Input { flow: &key, header, offset }, packet) {
            return;
        }
        if header.fragment.is_some() {
            self.counters.fragments += 1;
        } else {
            match key.protocol {
                protocol::ICMP | protocol::ICMPV6 => {
                    self.handle_icmp(engine, header, offset, packet);
                }
                protocol::UDP => self.handle_udp(engine, header, offset, packet),
                protocol::TCP => self.handle_tcp(engine, header, offset, packet),
                coded if self.sockets.speaks(coded) => {
                    self.handle_coded(engine, header, offset, packet);
                }
                _ => self.counters.unwanted += 1,
            }
        }
        engine.packets.remove(packet);
    }

    /// Passes a packet on that is for someone else.
    fn forward(&mut self, engine: &mut Engine, header: &Header, packet: PacketId, origin: Origin) {
        if let Some(service) = self.service_to(header.destination) {
            if self.take_hop(engine, packet) {
                self.counters.forwarded += 1;
                self.hand(engine, service, &Hook::Diverted, packet);
            }
            return;
        }
        let Some(next) = self.route_packet(engine, header, packet, origin) else { return };
        if self.take_hop(engine, packet) {
            self.counters.forwarded += 1;
            if !self.offer_forwarded(engine, next, packet) {
                self.postrouting(engine, next, packet, origin);
            }
        }
    }

    /// Sends a packet that originates at this node.
    pub fn output(&mut self, engine: &mut Engine, packet: PacketId) {
        self.counters.originated += 1;
        let Some(header) = self.parse(engine, packet) else { return };
        if self.is_local(header.destination) {
            self.loopback.push_back(packet);
        } else if let Some(service) = self.service_to(header.destination) {
            self.hand(engine, service, &Hook::Diverted, packet);
        } else if let Some(next) = self.route_packet(engine, &header, packet, Origin::Local) {
            self.postrouting(engine, next, packet, Origin::Local);
        }
    }

    /// The next hop of a packet; one without is a service's, or dropped and its sender told.
    pub fn route_packet(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        packet: PacketId,
        origin: Origin,
    ) -> Option<NextHop> {
        let next = self.route(engine, header.destination);
        if next.is_none() && !self.offer(engine, &Hook::Unrouted { header, origin }, packet) {
            self.refuse_unrouted(engine, packet);
        }
        next
    }

    /// Drops a packet without a route and tells its sender.
    pub fn refuse_unrouted(&mut self, engine: &mut Engine, packet: PacketId) {
        self.counters.no_route += 1;
        self.refuse(engine, Error::HostUnreachable, packet);
    }

    /// Takes one from the packet's hops; with none left it is dropped and its sender told.
    #[must_use]
    pub fn take_hop(&mut self, engine: &mut Engine, packet: PacketId) -> bool {
        let may_travel = decrement_ttl(engine.packets.get_mut(packet));
        if !may_travel {
            self.counters.hops_exceeded += 1;
            self.refuse(engine, Error::TtlExceeded, packet);
        }
        may_travel
    }

    /// The last hook: to a service that claims the packet, or else to the interface's queue.
    pub fn postrouting(
        &mut self,
        engine: &mut Engine,
        next: NextHop,
        packet: PacketId,
        origin: Origin,
    ) {
        if self.has_finder()
            && let Ok(header) = &Header::parse(engine.packets.get(packet))
        {
            self.tell_passage(engine.now, &Passage { header, origin, next });
        }
        if self.offer(engine, &Hook::Postrouting { next }, packet) {
            return;
        }
        self.tell_next_hop(engine.now, next);
        let mtu = self.interfaces[next.interface].config.mtu;
        if engine.packets.get(packet).len() <= mtu {
            self.enqueue(engine, next, packet, origin);
        } else {
            self.fragment(engine, next, packet, origin, mtu);
        }
    }

    fn fragment(
        &mut self,
        engine: &mut Engine,
        next: NextHop,
        packet: PacketId,
        origin: Origin,
        mtu: usize,
    ) {
        let octets = std::mem::take(engine.packets.get_mut(packet));
        let fits = Header::parse(&octets).is_ok_and(|header| {
            fragment(&header, &octets, mtu, |piece| {
                let piece = engine.packets.add_copy(piece);
                self.enqueue(engine, next, piece, origin);
            })
        });
        *engine.packets.get_mut(packet) = octets;
        if fits {
            engine.packets.remove(packet);
        } else {
            self.counters.too_big += 1;
            self.refuse(engine, too_big(mtu), packet);
        }
    }

    /// Puts a packet into an interface's queue, or drops it if there is no room.
    fn enqueue(&mut self, engine: &mut Engine, next: NextHop, packet: PacketId, origin: Origin) {
        let octets = engine.packets.get(packet).len();
        let is_local = origin == Origin::Local;
        let waiting = Waiting { packet, to: next.neighbour, octets, is_local, is_routing: false };
        self.enqueue_waiting(engine, next.interface, waiting);
    }

    /// Puts a packet into an interface's queue, or drops it or another one if there is no room.
    pub fn enqueue_waiting(&mut self, engine: &mut Engine, interface: usize, waiting: Waiting) {
        if !self.interfaces[interface].is_up {
            self.drop_down(engine, interface, waiting.packet);
            return;
        }
        let is_idle = engine.is_idle(self.interfaces[interface].port);
        if self.try_enqueue(engine, interface, waiting, is_idle) {
            self.pump(engine, interface);
        } else {
            self.drop_queued(engine, interface, waiting);
        }
        let interface = &self.interfaces[interface];
        let counters = &mut engine.ports[interface.port.index()].counters;
        counters.longest_queue = counters.longest_queue.max(interface.queue_len());
    }

    /// Sends a packet where the medium is idle and nothing waits, or puts it into an interface's queue; false if
    /// there is no room.
    pub fn try_enqueue(
        &mut self,
        engine: &mut Engine,
        index: usize,
        waiting: Waiting,
        is_idle: bool,
    ) -> bool {
        let is_marking = self.interfaces[index].is_marking();
        let octets = engine.packets.get(waiting.packet);
        match self.interfaces[index].enqueue(waiting, octets, is_idle) {
            Queued::Sent => {
                self.send(engine, index, waiting.packet, waiting.to);
                return true;
            }
            Queued::Taken => {}
            Queued::Full => return false,
            Queued::Instead(gone) => self.drop_queued(engine, index, gone),
            Queued::Thinned(older) => {
                let port = self.interfaces[index].port;
                engine.ports[port.index()].counters.thinned_acks.add(older.octets);
                engine.packets.remove(older.packet);
            }
        }
        if is_marking && mark_congestion(engine.packets.get_mut(waiting.packet)) {
            let port = self.interfaces[index].port;
            engine.ports[port.index()].counters.marked.add(waiting.octets);
        }
        true
    }

    /// Puts a packet on the medium of an interface, which is idle.
    pub fn send(&mut self, engine: &mut Engine, index: usize, packet: PacketId, to: LinkAddress) {
        let class = self.class_of(engine.packets.get(packet));
        engine.transmit(&mut self.sequence, self.interfaces[index].port, to, packet, class);
    }

    /// Drops a packet for which a queue has no room.
    pub fn drop_queued(&self, engine: &mut Engine, interface: usize, waiting: Waiting) {
        let port = self.interfaces[interface].port;
        let counters = &mut engine.ports[port.index()].counters;
        if waiting.is_local {
            counters.dropped_at_edge.add(waiting.octets);
        } else {
            counters.dropped_inside.add(waiting.octets);
        }
        engine.packets.remove(waiting.packet);
    }

    /// Drops a packet because its interface is down.
    pub fn drop_down(&mut self, engine: &mut Engine, interface: usize, packet: PacketId) {
        let port = self.interfaces[interface].port;
        let len = engine.packets.get(packet).len();
        engine.ports[port.index()].counters.dropped_down.add(len);
        engine.packets.remove(packet);
    }

    /// Drops a packet and tells its sender why.
    pub fn refuse(&mut self, engine: &mut Engine, error: Error, packet: PacketId) {
        let source = Header::parse(engine.packets.get(packet)).ok().map(|header| header.source);
        let local = source.and_then(|source| self.source_for(engine, source));
        let (report, is_owed) = engine.packets.derive(packet, |offender, out| {
            local.is_some_and(|local| error.emit(local, offender, out))
        });
        engine.packets.remove(packet);
        if is_owed {
            self.counters.errors_sent += 1;
            self.output(engine, report);
        } else {
            engine.packets.remove(report);
        }
    }

    pub fn route(&mut self, engine: &Engine, destination: IpAddr) -> Option<NextHop> {
        let Self { table, interfaces, .. } = self;
        table.lookup(destination, |index, via| interfaces[index].resolve(engine, via))
    }
}

/// The error that says how long a packet may be.
pub fn too_big(mtu: usize) -> Error {
    Error::TooBig { mtu: u16::try_from(mtu).unwrap_or(u16::MAX) }
}
