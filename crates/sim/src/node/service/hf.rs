//! A host's station on HF: an IP client and the STANAG 5066 node that it is a client of.
//!
//! ```text
//!  interface hf0 ─▶ IpClient ⇄ s5066::Node ⇄ modem of the medium
//!  (no queue)       (queue)
//! ```

use std::collections::VecDeque;

use proto::ipclient::{self, IpClient};
use proto::s5066::Node;
use proto::s5066::node::{self, Record};
use proto::s5066::sis::ClientId;
use proto::time::{Time, earliest};
use serde_json::json;

use super::{Service, ServiceReport, Way};
use crate::capture::Direction;
use crate::engine::{Engine, PacketId};
use crate::hf::{Air, StationId};
use crate::ids::PortId;

/// Records that are kept at most.
const MAX_RECORDS: usize = 1 << 20;

/// A station and the host's IP client.
pub struct Station {
    station: StationId,
    port: PortId,
    /// The index of the interface in its node.
    interface: usize,
    client: IpClient,
    node: Node,
    /// The connection of the client, as the node knows it.
    connection: Option<ClientId>,
    records: Option<VecDeque<Record>>,
    /// The file for what is heard and sent, and the number of the station in it.
    capture: Option<(usize, u32)>,
    /// On their way to the modem, and between client and node.
    buffer: Vec<u8>,
    octets: Vec<u8>,
}

impl Station {
    pub(crate) fn new(
        station: StationId,
        port: PortId,
        interface: usize,
        client: IpClient,
        node: Node,
    ) -> Self {
        Self {
            station,
            port,
            interface,
            client,
            node,
            connection: None,
            records: None,
            capture: None,
            buffer: Vec::new(),
            octets: Vec::new(),
        }
    }

    pub(crate) fn port(&self) -> PortId {
        self.port
    }

    pub(crate) fn client(&self) -> &IpClient {
        &self.client
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Keeps from now on what the station does and hears.
    pub(crate) fn record(&mut self) {
        self.records.get_or_insert_default();
        self.node.record(true);
    }

    pub(crate) fn poll_record(&mut self) -> Option<Record> {
        self.records.as_mut()?.pop_front()
    }

    /// Writes from now on what the station sends and hears to a capture of the engine's.
    pub(crate) fn capture(&mut self, capture: usize, interface: u32) {
        self.capture = Some((capture, interface));
        self.node.record(true);
    }

    /// Carries events and octets between the modem and the node until nothing is left.
    fn serve(&mut self, engine: &mut Engine) {
        let now = engine.now;
        let Self { station, node, buffer, .. } = self;
        let _ = engine.at_port(self.port, |air: &mut Air, delivery| {
            loop {
                while let Some(event) = air.poll_event(*station) {
                    node.handle_modem(now, event);
                }
                air.serve(delivery, *station, buffer, |room, out| {
                    node.poll_transmit(now, room, out)
                });
                if !air.has_event(*station) {
                    return;
                }
            }
        });
    }

    /// Takes the packets that IP has for the client.
    fn take_packets(&mut self, engine: &mut Engine) {
        let station = self.station;
        while let Some(Some(packet)) =
            engine.at_port(self.port, |air: &mut Air, _| air.poll_packet(station))
        {
            self.client.handle_packet(engine.now, engine.packets.get(packet));
            engine.packets.remove(packet);
        }
    }

    /// Carries octets between client and node, which are one TCP connection without delay.
    fn exchange(&mut self, engine: &mut Engine) {
        let now = engine.now;
        loop {
            let Some(connection) = self.connection else {
                self.connection = self.node.handle_connected(now);
                self.serve(engine);
                if self.connection.is_none() {
                    return;
                }
                self.client.handle_connected(now);
                continue;
            };
            let mut octets = std::mem::take(&mut self.octets);
            octets.clear();
            let mut is_busy = self.client.poll_octets(now, &mut octets);
            if is_busy {
                self.node.handle_octets(now, connection, &octets);
                self.serve(engine);
            }
            octets.clear();
            if self.node.poll_octets(now, connection, &mut octets) {
                self.client.handle_octets(now, &octets);
                is_busy = true;
            }
            self.octets = octets;
            self.serve(engine);
            let mut is_over = false;
            while let Some(event) = self.client.poll_event() {
                is_over |= event == ipclient::Event::Close;
            }
            while let Some(event) = self.node.poll_event() {
                is_over |= event == node::Event::Close(connection);
            }
            if is_over {
                self.node.handle_disconnected(now, connection);
                self.serve(engine);
                self.client.handle_disconnected(now);
                self.connection = None;
            } else if !is_busy {
                return;
            }
        }
    }

    fn keep_records(&mut self, engine: &mut Engine) {
        while let Some(record) = self.node.poll_record() {
            if let Some((capture, interface)) = self.capture {
                let capture = &mut engine.captures[capture];
                match &record {
                    Record::Heard { at, octets, .. } => {
                        capture.write(*at, interface, Direction::In, octets);
                    }
                    Record::Sent { start, octets, .. } => {
                        capture.write(*start, interface, Direction::Out, octets);
                    }
                    Record::Keyed { .. } => {}
                }
            }
            if let Some(records) = self.records.as_mut().filter(|kept| kept.len() < MAX_RECORDS) {
                records.push_back(record);
            }
        }
    }
}

impl std::fmt::Debug for Station {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "station {}", self.node.address())
    }
}

impl Service for Station {
    fn settle(&mut self, engine: &mut Engine) {
        let now = engine.now;
        self.take_packets(engine);
        if self.node.next_timeout().is_some_and(|at| at <= now) {
            self.node.handle_timeout(now);
        }
        self.serve(engine);
        if self.client.next_timeout().is_some_and(|at| at <= now) {
            self.client.handle_timeout(now);
        }
        self.exchange(engine);
        self.keep_records(engine);
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        let now = engine.now;
        let packet = engine.make(|octets| self.client.poll_packet(now, octets))?;
        Some((packet, Way::In(self.interface)))
    }

    fn next_timeout(&self) -> Option<Time> {
        earliest(self.client.next_timeout(), self.node.next_timeout())
    }

    fn uses(&self, interface: usize) -> bool {
        self.interface == interface
    }

    fn report(&self) -> Option<ServiceReport> {
        let state = json!({ "client": self.client.stats(), "node": self.node.stats() });
        Some(ServiceReport::new("hf", state))
    }

    /// One while the client has something to send or waits for a confirmation.
    fn under_way(&self) -> usize {
        let stats = self.client.stats();
        usize::from(stats.queued + stats.unconfirmed > 0)
    }
}
