//! A combat net radio channel as a medium of a network: each station is a port.
//!
//! ```text
//!  IP ─ transmit ─▶ Outbox of the station ─▶ Medium ─▶ stations that hear it ─ deliver ─▶ IP
//!  IP ◀─ fail ────── Failed (types 3 and 4)
//! ```
//!
//! A port is always idle: packets wait in the station, where those of higher precedence overtake others.
//! A neighbour's address leads to its station without any frame on the air: there is no ARP.

use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;

use super::config::{LinkType, StationId};
use super::frame::{Event, Frame, Precedence, Targets, Transmission, TransmissionKind};
use super::medium::Medium as Channel;
use crate::engine::packets::PacketId;
use crate::ids::PortId;
use crate::medium::stations::{Stations, WakeUp};
use crate::medium::{Delivery, LinkAddress, Medium, Neighbour};

/// A combat net radio channel whose stations are ports of the network.
#[derive(Debug)]
pub(crate) struct Net {
    channel: Channel,
    stations: Stations,
    wake_up: WakeUp,
    /// From the end of a frame to the packet's arrival.
    delay: Duration,
    /// The capture file that sees every packet.
    capture: Option<usize>,
}

impl Net {
    /// A channel whose stations must still be attached.
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            delay: channel.config().timing.dte_processing,
            channel,
            stations: Stations::default(),
            wake_up: WakeUp::default(),
            capture: None,
        }
    }

    /// The channel.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The channel; a station is added before its port is attached.
    pub(crate) fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// The station of a port.
    pub(crate) fn station(&self, port: PortId) -> Option<StationId> {
        self.stations.of(port).map(StationId)
    }

    /// Writes every packet on the air to a capture file from now on.
    pub(crate) fn capture(&mut self, capture: usize) {
        self.capture = Some(capture);
        self.channel.observe(true);
    }

    /// Tells the network of every frame from now on.
    pub(crate) fn watch(&mut self) {
        self.channel.observe(true);
    }

    /// Begins what happens without a packet.
    pub(crate) fn start(&mut self, delivery: &mut Delivery<'_>) {
        self.plan(delivery);
    }

    /// Passes the channel's events on.
    fn drain(&mut self, delivery: &mut Delivery<'_>) {
        while let Some(event) = self.channel.poll_event() {
            match event {
                Event::Failed { station, frame } => {
                    let port = self.stations[station.0];
                    delivery.fail(port, self.address(&frame), PacketId::of_token(frame.token));
                }
                Event::Forsaken { station, token } => {
                    delivery.lose(self.stations[station.0], PacketId::of_token(token));
                }
                Event::Received { station, from, token } => {
                    let packet = PacketId::of_token(token);
                    let (from, to) = (self.stations[from.0], self.stations[station.0]);
                    delivery.share(packet);
                    delivery.deliver(delivery.now() + self.delay, from, to, packet);
                }
                Event::Relayed { token, .. } => delivery.share(PacketId::of_token(token)),
                Event::Sent { token, is_received: true, .. } => {
                    delivery.release(PacketId::of_token(token));
                }
                Event::Sent { station, token, is_received: false } => {
                    delivery.lose(self.stations[station.0], PacketId::of_token(token));
                }
                Event::Transmitted(transmission) => self.tell(delivery, &transmission),
            }
        }
    }

    /// Writes a frame to the capture, and tells the network of it if it records its transmissions.
    fn tell(&self, delivery: &mut Delivery<'_>, it: &Transmission) {
        let carries = it.kind == TransmissionKind::Data;
        let packet = carries.then(|| PacketId::of_token(it.token));
        if let Some((capture, packet)) = self.capture.zip(packet) {
            let interface = u32::try_from(it.from.0).expect("a net has fewer stations");
            delivery.capture_packet(capture, interface, packet);
        }
        let Some(transmissions) = delivery.transmissions else { return };
        let node = |station: StationId| delivery.ports[self.stations[station.0].index()].node;
        let (from, to) = (node(it.from), it.to.map(node));
        let is_lost = it.to.is_some() && !it.is_received;
        transmissions.tell([it.start, it.end], from, to, packet, is_lost);
    }

    fn address(&self, frame: &Frame) -> LinkAddress {
        let first = frame.to.named().first();
        first
            .map_or(LinkAddress::Broadcast, |to| LinkAddress::Port(self.stations[usize::from(*to)]))
    }

    fn plan(&mut self, delivery: &mut Delivery<'_>) {
        self.wake_up.plan(delivery, self.channel.next_timeout());
    }
}

impl Medium for Net {
    fn attach(&mut self, port: PortId) {
        self.stations.attach(port);
    }

    fn handle_address(&mut self, port: PortId, address: IpAddr) {
        self.stations.handle_address(port, address);
    }

    fn transmit(
        &mut self,
        delivery: &mut Delivery<'_>,
        from: PortId,
        to: LinkAddress,
        packet: PacketId,
    ) {
        let to = match to {
            LinkAddress::Broadcast => Some(Targets::All),
            LinkAddress::Port(port) => self.station(port).map(Targets::one),
        };
        let octets = delivery.octets(packet);
        let precedence = Precedence::of_packet(octets);
        let octets = u32::try_from(octets.len()).expect("a packet is shorter");
        let is_taken = self.station(from).zip(to).is_some_and(|(station, to)| {
            let frame = Frame { token: packet.token(), octets, to, precedence };
            self.channel.send(delivery.now(), station, frame)
        });
        if !is_taken {
            delivery.lose(from, packet);
            return;
        }
        self.plan(delivery);
    }

    fn handle_event(&mut self, delivery: &mut Delivery<'_>, _token: u32) {
        let now = delivery.now();
        if !self.wake_up.take(now) {
            return;
        }
        self.channel.handle_timeout(now);
        self.drain(delivery);
        self.plan(delivery);
    }

    /// Any station: whether a way leads there shows when a packet is sent.
    fn resolve(&self, _port: PortId, address: IpAddr) -> Option<LinkAddress> {
        self.stations.resolve(address)
    }

    /// All to whom a way leads, over relays or not: for IP a net is one link.
    fn neighbours(&self, now: Time, port: PortId) -> Vec<Neighbour> {
        let Some(here) = self.station(port) else { return Vec::new() };
        let others = self.stations.ports().iter().enumerate();
        let cost = |(other, port): (usize, &PortId)| {
            let other = StationId(other);
            let hops = self.channel.hops(now, here, other).filter(|_| other != here)?;
            Some(Neighbour { port: *port, cost: hops.into() })
        };
        others.filter_map(cost).collect()
    }

    fn has_neighbours(&self, _now: Time, _port: PortId) -> bool {
        true
    }

    fn is_acknowledged(&self) -> bool {
        self.channel.config().link_type != LinkType::Unacknowledged
    }
}
