//! TCP/NC in a node: a layer under its connections, and the entries of tunnels.
//!
//! ```text
//!   TCP ─▶ handle_outgoing ─▶ poll_transmit ─▶ output      forward ─ same way as the far gateway ─┐
//!   TCP ◀─ poll_segment ◀─ handle_message ◀─ input         send buffer of the tunnel's TCP  ◀─────┘
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use proto::ip::Header;
use proto::rng::Rng;
use proto::tcpnc::{self, Layer, wire};

use super::{NextHop, Node};
use crate::engine::{Engine, PacketId};

/// Which connections of a node have a layer, and what goes into tunnels.
#[derive(Debug)]
pub(crate) struct Coding {
    /// For all connections, and for those of some applications.
    host: Option<tcpnc::Config>,
    apps: BTreeMap<usize, tcpnc::Config>,
    /// Where tunnels lead: the far gateway, and the application that is the entry.
    entries: Vec<(IpAddr, usize)>,
    /// The layers of connections that are over, the last of each application.
    ended: BTreeMap<usize, CodingReport>,
    rng: Rng,
}

/// What a layer did, and what it knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodingReport {
    /// What happened.
    pub stats: tcpnc::Stats,
    /// The loss rate that it estimates, 0 to 1.
    pub loss: f64,
    /// Packets of the next coding window.
    pub window: usize,
}

impl CodingReport {
    pub(super) fn of(layer: &Layer) -> Self {
        Self { stats: *layer.stats(), loss: layer.loss(), window: layer.window_size() }
    }
}

impl Coding {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { host: None, apps: BTreeMap::new(), entries: Vec::new(), ended: BTreeMap::new(), rng }
    }

    /// The layer of a new connection of an application, if it is to have one.
    pub(super) fn layer(
        &mut self,
        app: usize,
        connection: &proto::tcp::Connection,
    ) -> Option<Box<Layer>> {
        let config = self.apps.get(&app).copied().or(self.host)?;
        let rng = Rng::stream(self.rng.bits(), "coefficients");
        let (local, remote) = (connection.local(), connection.remote());
        Some(Box::new(Layer::new(config, local, remote, rng)))
    }

    /// Notes the end of a connection.
    pub(super) fn handle_end(&mut self, app: usize, layer: &Layer) {
        self.ended.insert(app, CodingReport::of(layer));
    }

    pub(super) fn ended(&self, app: usize) -> Option<CodingReport> {
        self.ended.get(&app).copied()
    }

    /// Whether packets of this protocol are those of a layer of the node.
    pub(super) fn speaks(&self, protocol: u8) -> bool {
        self.host.iter().chain(self.apps.values()).any(|config| config.protocol == protocol)
    }
}

impl Node {
    /// Puts a layer under all connections of the node that begin from now on.
    pub(crate) fn enable_tcpnc(&mut self, config: tcpnc::Config) {
        self.coding.host = Some(config);
    }

    /// Puts a layer under the connections of an application.
    pub(crate) fn enable_tcpnc_for(&mut self, app: usize, config: tcpnc::Config) {
        self.coding.apps.insert(app, config);
    }

    /// Sends into a tunnel what would go the same way as packets for `far`.
    pub(crate) fn add_tcpnc_entry(&mut self, far: IpAddr, app: usize) {
        self.coding.entries.push((far, app));
    }

    /// What the layer of an application's connection did: the oldest that is open, or the last.
    pub(crate) fn coding(&self, app: usize) -> Option<CodingReport> {
        self.layers(app).next().map(CodingReport::of).or_else(|| self.coding.ended(app))
    }

    /// Takes a packet of a peer's layer.
    pub(super) fn handle_coded(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        // Taken out so that the message can borrow it while the node acts on it.
        let octets = std::mem::take(engine.packets.get_mut(packet));
        match wire::Message::parse(header, &octets, offset) {
            Ok(message) => self.handle_coded_message(engine, &message),
            Err(_) => self.counters.malformed_transport += 1,
        }
        *engine.packets.get_mut(packet) = octets;
    }

    /// The tunnel for forwarded packets with this next hop: the application that is its entry.
    pub(super) fn tcpnc_entry(&mut self, next: NextHop) -> Option<usize> {
        for index in 0..self.coding.entries.len() {
            let (far, app) = self.coding.entries[index];
            if self.route(far) == Some(next) {
                return Some(app);
            }
        }
        None
    }

    /// Puts a forwarded packet into the send buffer of a tunnel.
    pub(super) fn send_into_carrier(&mut self, engine: &mut Engine, app: usize, packet: PacketId) {
        let octets = std::mem::take(engine.packets.get_mut(packet));
        self.carry(engine, app, &octets);
        *engine.packets.get_mut(packet) = octets;
        engine.packets.remove(packet);
    }

    /// Sends on what came out of a tunnel.
    pub(super) fn leave_carrier(&mut self, engine: &mut Engine, app: usize) {
        while let Some(octets) = self.apps[app].app.poll_carried() {
            let packet = engine.packets.add_copy(&octets);
            match Header::parse(&octets) {
                Ok(header) if self.is_local(header.destination) => {
                    self.loopback.push_back(packet);
                }
                Ok(_) => self.forward(engine, packet),
                Err(_) => {
                    self.counters.malformed += 1;
                    engine.packets.remove(packet);
                }
            }
        }
    }
}
