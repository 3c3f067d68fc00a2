//! A radio channel as a medium of a network: each station is a port.
//!
//! ```text
//!  IP ─ transmit ─▶ MAC of the station ─▶ Medium ─▶ MACs that hear it ─ deliver ─▶ IP
//!  IP ◀─ set_idle ── Sent
//!  IP ◀─ fail ────── Failed (link-layer feedback)
//! ```
//!
//! A neighbour's address leads to its station without any frame on the air: there is no ARP.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;

use super::capture::write_frame;
use super::{Event, Frame, FrameKind, Medium as Radio, StationId, Transmission};
use crate::engine::packets::PacketId;
use crate::ids::PortId;
use crate::medium::stations::{Stations, WakeUp};
use crate::medium::{Delivery, LinkAddress, Medium, Neighbour};

/// A radio channel whose stations are ports of the network.
#[derive(Debug)]
pub(crate) struct Air {
    radio: Radio,
    /// Of the channel, for addresses in captures.
    number: u8,
    stations: Stations,
    wake_up: WakeUp,
    /// Delay added by the link layers of both stations.
    delay: Duration,
    records: VecDeque<Transmission>,
    /// How many records may wait to be taken.
    records_limit: usize,
    records_dropped: u64,
    /// Whether the network records its transmissions.
    is_watched: bool,
    /// The capture file that sees every frame.
    capture: Option<usize>,
    /// Buffer for writing the next captured frame.
    buffer: Vec<u8>,
}

impl Air {
    /// A channel whose stations must still be attached.
    pub(crate) fn new(radio: Radio, number: u8) -> Self {
        Self {
            delay: 2 * radio.config().link_delay,
            radio,
            number,
            stations: Stations::default(),
            wake_up: WakeUp::default(),
            records: VecDeque::new(),
            records_limit: 0,
            records_dropped: 0,
            is_watched: false,
            capture: None,
            buffer: Vec::new(),
        }
    }

    /// The channel and the MACs.
    pub(crate) fn radio(&self) -> &Radio {
        &self.radio
    }

    /// The channel and the MACs; a station is added before its port is attached.
    pub(crate) fn radio_mut(&mut self) -> &mut Radio {
        &mut self.radio
    }

    /// The station of a port.
    pub(crate) fn station(&self, port: PortId) -> Option<StationId> {
        self.stations.of(port).map(StationId)
    }

    /// Switches a station on or off; switching off loses the frame being sent.
    pub(crate) fn set_on(&mut self, delivery: &mut Delivery<'_>, port: PortId, is_on: bool) {
        let Some(station) = self.station(port) else { return };
        if let Some(frame) = self.radio.set_on(delivery.now(), station, is_on) {
            delivery.lose(port, PacketId::of_token(frame.token));
            delivery.set_idle(port, delivery.now());
        }
        self.plan(delivery);
    }

    /// Keeps up to `limit` records of frames on the air from now on.
    pub(crate) fn record(&mut self, limit: usize) {
        self.records_limit = limit;
        self.observe();
    }

    /// The oldest record.
    pub(crate) fn poll_record(&mut self) -> Option<Transmission> {
        self.records.pop_front()
    }

    /// Frames of which there was no record, because too many waited to be taken.
    pub(crate) fn records_dropped(&self) -> u64 {
        self.records_dropped
    }

    /// Writes every frame to a capture file from now on.
    pub(crate) fn capture(&mut self, capture: usize) {
        self.capture = Some(capture);
        self.observe();
    }

    /// Tells the network of every frame from now on.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
        self.observe();
    }

    fn observe(&mut self) {
        let is_observed = self.records_limit > 0 || self.is_watched || self.capture.is_some();
        self.radio.observe(is_observed);
    }

    /// Passes the channel's events on.
    fn drain(&mut self, delivery: &mut Delivery<'_>) {
        while let Some(event) = self.radio.poll_event() {
            match event {
                Event::Failed { station, frame } => {
                    let port = self.stations[station.0];
                    delivery.fail(port, self.address(&frame), PacketId::of_token(frame.token));
                    delivery.set_idle(port, delivery.now());
                }
                Event::Received { station, from, token } => {
                    let packet = PacketId::of_token(token);
                    let (from, to) = (self.stations[from.0], self.stations[station.0]);
                    delivery.share(packet);
                    delivery.deliver(delivery.now() + self.delay, from, to, packet);
                }
                Event::Sent { station, frame } => {
                    delivery.release(PacketId::of_token(frame.token));
                    delivery.set_idle(self.stations[station.0], delivery.now());
                }
                Event::Transmitted(transmission) => self.keep(delivery, &transmission),
            }
        }
    }

    fn keep(&mut self, delivery: &mut Delivery<'_>, transmission: &Transmission) {
        if self.records.len() < self.records_limit {
            self.records.push_back(*transmission);
        } else if self.records_limit > 0 {
            self.records_dropped += 1;
        }
        self.tell(delivery, transmission);
        let Some(capture) = self.capture else { return };
        let StationId(from) = transmission.from;
        self.buffer.clear();
        let octets = if transmission.octets > 0 {
            delivery.octets(PacketId::of_token(transmission.token))
        } else {
            &[]
        };
        write_frame(transmission, self.radio.config(), self.number, octets, &mut self.buffer);
        let interface = u32::try_from(from).expect("a channel has fewer stations");
        delivery.capture(capture, interface, &self.buffer);
    }

    /// Reports a frame to the network, if transmissions are recorded.
    fn tell(&self, delivery: &mut Delivery<'_>, frame: &Transmission) {
        let Some(transmissions) = delivery.transmissions else { return };
        let node = |station: StationId| delivery.ports[self.stations[station.0].index()].node;
        let packet = matches!(frame.kind, FrameKind::Broadcast | FrameKind::Data)
            .then(|| PacketId::of_token(frame.token));
        let is_lost = frame.to.is_some() && !frame.is_received;
        let ends = [node(frame.from), frame.to.map_or(node(frame.from), node)];
        let to = frame.to.map(|_| ends[1]);
        transmissions.tell([frame.start, frame.end], ends[0], to, packet, is_lost);
    }

    fn address(&self, frame: &Frame) -> LinkAddress {
        frame.to.map_or(LinkAddress::Broadcast, |to| LinkAddress::Port(self.stations[to.0]))
    }

    fn plan(&mut self, delivery: &mut Delivery<'_>) {
        self.wake_up.plan(delivery, self.radio.next_timeout());
    }
}

impl Medium for Air {
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
            LinkAddress::Broadcast => Some(None),
            LinkAddress::Port(port) => self.station(port).map(Some),
        };
        let octets = u32::try_from(delivery.octets(packet).len()).expect("a packet is shorter");
        let is_taken = self.station(from).zip(to).is_some_and(|(station, to)| {
            let frame = Frame { token: packet.token(), octets, to };
            self.radio.send(delivery.now(), station, frame)
        });
        if !is_taken {
            delivery.lose(from, packet);
            return;
        }
        delivery.set_idle(from, Time::MAX);
        self.plan(delivery);
    }

    fn handle_event(&mut self, delivery: &mut Delivery<'_>, _token: u32) {
        let now = delivery.now();
        if !self.wake_up.take(now) {
            return;
        }
        self.radio.handle_timeout(now);
        self.drain(delivery);
        self.plan(delivery);
    }

    /// Any station, near or not: whether it is reached shows when a frame is sent.
    fn resolve(&self, _port: PortId, address: IpAddr) -> Option<LinkAddress> {
        self.stations.resolve(address)
    }

    fn neighbours(&self, now: Time, port: PortId) -> Vec<Neighbour> {
        let Some(here) = self.station(port) else { return Vec::new() };
        let others = self.stations.ports().iter().enumerate();
        let near =
            others.filter(|(other, _)| self.radio.are_neighbours(now, here, StationId(*other)));
        near.map(|(_, port)| Neighbour { port: *port, cost: 1 }).collect()
    }

    fn is_acknowledged(&self) -> bool {
        true
    }

    /// Others may always come near.
    fn has_neighbours(&self, _now: Time, _port: PortId) -> bool {
        true
    }
}
