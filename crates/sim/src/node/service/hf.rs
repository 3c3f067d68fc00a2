//! A host's station on HF: a STANAG 5066 node, and its clients: an IP client and perhaps an HF-PEP.
//!
//! ```text
//!  interface hf0 ─┬▶ IpClient ⇄ s5066::Node ⇄ modem of the medium
//!  (no queue)     │  (queue)        ⇅
//!                 └──── TCP ────▶ HfPep
//! ```

mod client;
pub mod pep;

use std::collections::VecDeque;

use base::time::{Time, earliest};
use client::Attached;
use hf::ipclient::IpClient;
use hf::s5066::Node;
use hf::s5066::node::{self, Record};
use hf::s5066::sis::ClientId;
use pep::Pep;
use serde_json::json;

use super::{Frames, Service, ServiceReport, Way};
use crate::capture::Direction;
use crate::engine::{Engine, PacketId};
use crate::hf::{Air, StationId};
use crate::ids::PortId;

/// Records that are kept at most.
const MAX_RECORDS: usize = 1 << 20;

/// A station and the clients of its node.
pub struct Station {
    modem: Modem,
    /// The index of the interface in its node.
    interface: usize,
    ip: Attached<IpClient>,
    pep: Option<Attached<Pep>>,
    records: Option<VecDeque<Record>>,
    /// The file for what is heard and sent, and the number of the station in it.
    capture: Option<(usize, u32)>,
}

/// A node and its modem.
struct Modem {
    station: StationId,
    port: PortId,
    node: Node,
    /// Connections that the node wants to be closed.
    closing: Vec<ClientId>,
    /// On their way to the modem.
    buffer: Vec<u8>,
}

impl Modem {
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

    /// Whether the node has asked since the last call for a connection to be closed.
    fn take_close(&mut self, connection: ClientId) -> bool {
        while let Some(event) = self.node.poll_event() {
            if let node::Event::Close(connection) = event {
                self.closing.push(connection);
            }
        }
        let asked = self.closing.len();
        self.closing.retain(|it| *it != connection);
        self.closing.len() < asked
    }
}

impl Station {
    pub(crate) fn new(
        station: StationId,
        port: PortId,
        interface: usize,
        node: Node,
        client: IpClient,
        pep: Option<Pep>,
    ) -> Self {
        let (closing, buffer) = (Vec::new(), Vec::new());
        Self {
            modem: Modem { station, port, node, closing, buffer },
            interface,
            ip: Attached::new(client),
            pep: pep.map(Attached::new),
            records: None,
            capture: None,
        }
    }

    pub(crate) fn port(&self) -> PortId {
        self.modem.port
    }

    pub(crate) fn client(&self) -> &IpClient {
        self.ip.client()
    }

    pub(crate) fn pep(&self) -> Option<&Pep> {
        self.pep.as_ref().map(Attached::client)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.modem.node
    }

    /// Puts another process in the place of the node: its clients have to connect again.
    pub(crate) fn restart(&mut self, now: Time, node: Node) {
        self.modem.node = node;
        self.modem.closing.clear();
        self.modem.node.record(self.records.is_some() || self.capture.is_some());
        self.ip.disconnect(now);
        if let Some(pep) = &mut self.pep {
            pep.disconnect(now);
        }
    }

    /// Keeps from now on what the station does and hears.
    pub(crate) fn record(&mut self) {
        self.records.get_or_insert_default();
        self.modem.node.record(true);
    }

    pub(crate) fn poll_record(&mut self) -> Option<Record> {
        self.records.as_mut()?.pop_front()
    }

    /// Writes from now on what the station sends and hears to a capture of the engine's.
    pub(crate) fn capture(&mut self, capture: usize, interface: u32) {
        self.capture = Some((capture, interface));
        self.modem.node.record(true);
    }

    /// Takes the packets that IP has for the clients.
    fn take_packets(&mut self, engine: &mut Engine) {
        let Modem { station, port, .. } = self.modem;
        while let Some(Some(packet)) =
            engine.at_port(port, |air: &mut Air, _| air.poll_packet(station))
        {
            let (now, octets) = (engine.now, engine.packets.get(packet));
            let pep = self.pep.as_mut();
            if !pep.is_some_and(|pep| pep.client_mut().handle_packet(now, octets)) {
                self.ip.client_mut().handle_packet(now, octets);
            }
            engine.packets.remove(packet);
        }
    }

    /// Carries octets between the clients and the node until nothing is left.
    fn exchange(&mut self, engine: &mut Engine) {
        let Self { modem, ip, pep, .. } = self;
        loop {
            let mut is_busy = ip.exchange(engine, modem);
            is_busy |= pep.as_mut().is_some_and(|pep| pep.exchange(engine, modem));
            if !is_busy {
                return;
            }
        }
    }

    fn keep_records(&mut self, engine: &mut Engine) {
        while let Some(record) = self.modem.node.poll_record() {
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
        write!(f, "station {}", self.modem.node.address())
    }
}

impl Service for Station {
    fn settle(&mut self, engine: &mut Engine) {
        let now = engine.now;
        self.take_packets(engine);
        if self.modem.node.next_timeout().is_some_and(|at| at <= now) {
            self.modem.node.handle_timeout(now);
        }
        self.modem.serve(engine);
        if self.ip.client().next_timeout().is_some_and(|at| at <= now) {
            self.ip.client_mut().handle_timeout(now);
        }
        if let Some(pep) = &mut self.pep
            && pep.client().next_timeout().is_some_and(|at| at <= now)
        {
            pep.client_mut().handle_timeout(now);
        }
        self.exchange(engine);
        self.keep_records(engine);
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        let now = engine.now;
        let Self { ip, pep, .. } = self;
        let packet = engine.make(|octets| {
            ip.client_mut().poll_packet(now, octets)
                || pep.as_mut().is_some_and(|pep| pep.client_mut().poll_packet(now, octets))
        })?;
        Some((packet, Way::In(self.interface)))
    }

    fn next_timeout(&self) -> Option<Time> {
        let pep = self.pep().and_then(Pep::next_timeout);
        let clients = earliest(self.ip.client().next_timeout(), pep);
        earliest(clients, self.modem.node.next_timeout())
    }

    fn report(&self) -> Option<ServiceReport> {
        let (client, node) = (self.client().stats(), self.node().stats());
        let mut state = json!({ "client": client, "node": node });
        if let Some(pep) = self.pep() {
            let (core, tcp) = (pep.core(), pep.stats());
            state["pep"] = json!({ "pep": core.stats(), "slep": core.slep().stats(), "tcp": tcp });
        }
        Some(ServiceReport::new("hf", state))
    }

    /// One while the clients have something to send or wait for a confirmation.
    fn under_way(&self) -> usize {
        let stats = self.client().stats();
        let sessions = self.pep().map_or(0, |pep| pep.core().stats().sessions);
        usize::from(stats.queued + stats.unconfirmed > 0 || sessions > 0)
    }

    fn as_frames(&mut self) -> Option<&mut dyn Frames> {
        Some(self)
    }
}

impl Frames for Station {
    fn uses(&self, interface: usize) -> bool {
        self.interface == interface
    }
}
