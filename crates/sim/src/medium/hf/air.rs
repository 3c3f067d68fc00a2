//! The HF frequency as a medium of a network, accessed by each station's modem.
//!
//! ```text
//!  IP ─ transmit ─▶ outbox ─ poll_packet ─▶ service of the station ─ serve ─▶ Medium ─▶ ...
//!                                                  ▲                            │
//!                              call ─ poll_event ──┘ ◀────────── events ────────┘
//! ```
//!
//! A modem carries octets and not packets. A packet for a station therefore waits in the outbox until
//! the STANAG 5066 service of the station takes it, at the same instant.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::time::Time;
use hf::modem::{Event, Keying};

use super::{Medium as Radio, StationId};
use crate::engine::packets::PacketId;
use crate::ids::PortId;
use crate::medium::stations::WakeUp;
use crate::medium::{Delivery, LinkAddress, Medium, Neighbour};

/// A frequency whose stations are ports of the network.
#[derive(Debug)]
pub(crate) struct Air {
    radio: Radio,
    stations: Vec<Station>,
    addresses: BTreeMap<IpAddr, PortId>,
    wake_up: WakeUp,
}

#[derive(Debug)]
struct Station {
    port: PortId,
    outbox: VecDeque<PacketId>,
    events: VecDeque<Event>,
}

impl Air {
    /// A frequency whose stations must still be attached.
    pub(crate) fn new(radio: Radio) -> Self {
        Self { radio, stations: Vec::new(), addresses: BTreeMap::new(), wake_up: WakeUp::default() }
    }

    /// The radio channel and the modems.
    pub(crate) fn radio(&self) -> &Radio {
        &self.radio
    }

    /// The radio channel and the modems, so that channels can be changed.
    pub(crate) fn radio_mut(&mut self) -> &mut Radio {
        &mut self.radio
    }

    /// The next packet that a station's host wants to send.
    pub(crate) fn poll_packet(&mut self, station: StationId) -> Option<PacketId> {
        self.stations[station.0].outbox.pop_front()
    }

    /// The next event of a station's modem.
    pub(crate) fn poll_event(&mut self, station: StationId) -> Option<Event> {
        self.stations[station.0].events.pop_front()
    }

    /// Whether a station's modem has an event.
    pub(crate) fn has_event(&self, station: StationId) -> bool {
        !self.stations[station.0].events.is_empty()
    }

    /// Polls a station for data to transmit; see [`Radio::serve`].
    pub(crate) fn serve(
        &mut self,
        delivery: &mut Delivery<'_>,
        station: StationId,
        buffer: &mut Vec<u8>,
        poll: impl FnMut(usize, &mut Vec<u8>) -> Option<Keying>,
    ) {
        self.radio.serve(delivery.now(), station, buffer, poll);
        self.collect();
        self.plan(delivery);
    }

    /// Sorts the medium's events by station.
    fn collect(&mut self) {
        while let Some((station, event)) = self.radio.poll_event() {
            self.stations[station.0].events.push_back(event);
        }
    }

    fn plan(&mut self, delivery: &mut Delivery<'_>) {
        self.wake_up.plan(delivery, self.radio.next_timeout());
    }
}

impl Medium for Air {
    fn attach(&mut self, port: PortId) {
        self.stations.push(Station { port, outbox: VecDeque::new(), events: VecDeque::new() });
    }

    fn handle_address(&mut self, port: PortId, address: IpAddr) {
        self.addresses.insert(address, port);
    }

    fn transmit(
        &mut self,
        delivery: &mut Delivery<'_>,
        from: PortId,
        _to: LinkAddress,
        packet: PacketId,
    ) {
        if let Some(station) = self.stations.iter_mut().find(|station| station.port == from) {
            station.outbox.push_back(packet);
            delivery.call(from);
        }
    }

    fn handle_event(&mut self, delivery: &mut Delivery<'_>, _token: u32) {
        let now = delivery.now();
        if !self.wake_up.take(now) {
            return;
        }
        self.radio.handle_timeout(now);
        self.collect();
        for (index, station) in self.stations.iter().enumerate() {
            if !station.events.is_empty() || self.radio.room(StationId(index)) > 0 {
                delivery.call(station.port);
            }
        }
        self.plan(delivery);
    }

    fn resolve(&self, _port: PortId, address: IpAddr) -> Option<LinkAddress> {
        self.addresses.get(&address).copied().map(LinkAddress::Port)
    }

    /// No neighbours: the routes of the IP clients decide about reachability between stations.
    fn neighbours(&self, _now: Time, _port: PortId) -> Vec<Neighbour> {
        Vec::new()
    }

    fn under_way(&self) -> usize {
        usize::from(!self.radio.is_quiet())
    }
}
