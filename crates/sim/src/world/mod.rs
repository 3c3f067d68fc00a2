//! A simulated network: to build, to run, and to query for results.

mod build;
mod captures;
mod cnr;
mod hf;
mod plan;
mod radio;
mod report;
mod rest;
mod routes;
mod routing;
mod standstill;
mod tcpnc;
#[cfg(test)]
mod tests;
mod tunnels;

use std::net::IpAddr;

use base::time::Time;

use crate::app::App;
use crate::cnr::Net;
use crate::engine::{Engine, Failure, Kind, Port, Sequence};
use crate::flows::Flows;
use crate::ids::{AppId, LinkId, MediumId, NodeId, PortId};
use crate::node::{Interface, Node};
use crate::radio::Air;
use crate::transmissions::{Transmission, Transmissions};

pub use build::LinkConfig;
pub use hf::{HfRecord, HfStation, PepConfig};
pub use plan::Change;
pub use radio::RadioState;
pub use report::{LinkReport, NodeReport, Report};
pub use rest::Pending;
pub use standstill::Standstill;
pub use tcpnc::{CarrierReport, TcpncTunnel, TcpncTunnelConfig};
pub use tunnels::MEETING;

/// A network in virtual time.
///
/// It is built first: nodes, links and other media, routes, then services, which need the routes to
/// their far ends, then applications. Then it runs, by [`World::run_until`], [`World::run`] or
/// [`World::step`], and what [`World::at`] has planned happens on the way. Between any two steps it
/// may be changed, and asked by [`World::report`], [`World::services`] and [`World::app`].
#[derive(Debug)]
pub struct World {
    seed: u64,
    engine: Engine,
    nodes: Vec<Node>,
    /// The two ends of each.
    links: Vec<[PortId; 2]>,
    /// The medium and the ports of each HF frequency.
    frequencies: Vec<(MediumId, Vec<PortId>)>,
    /// The medium and the ports of each radio channel.
    radios: Vec<(MediumId, Vec<PortId>)>,
    /// The medium and the ports of each combat net.
    nets: Vec<(MediumId, Vec<PortId>)>,
    /// How many there are.
    tunnels: u16,
    /// Where each application runs: node, and index within the node.
    apps: Vec<(NodeId, usize)>,
    sequence: Sequence,
    changes: Vec<Change>,
    instant: standstill::Instant,
    standstill: Option<Standstill>,
}

impl World {
    /// An empty network; `seed` decides all that is random.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            engine: Engine::default(),
            nodes: Vec::new(),
            links: Vec::new(),
            frequencies: Vec::new(),
            radios: Vec::new(),
            nets: Vec::new(),
            tunnels: 0,
            apps: Vec::new(),
            sequence: Sequence::WORLD,
            changes: Vec::new(),
            instant: standstill::Instant::default(),
            standstill: None,
        }
    }

    /// Installs an application on a node.
    pub fn add_app(&mut self, node: NodeId, app: impl App) -> AppId {
        let index = self.nodes[node.index()].add_app(&mut self.engine, Box::new(app));
        self.apps.push((node, index));
        AppId(small(self.apps.len() - 1))
    }

    /// Sends an IP packet from a node, as if a program there had made it.
    pub fn inject(&mut self, node: NodeId, packet: &[u8]) {
        let packet = self.engine.packets.add_copy(packet);
        self.nodes[node.index()].handle_local(&mut self.engine, packet);
        self.call_ready();
    }

    /// Plans a change of the network.
    pub fn at(&mut self, time: Time, change: Change) {
        let index = small(self.changes.len());
        self.changes.push(change);
        self.engine.schedule(time, &mut self.sequence, Kind::Change { index });
    }

    /// Counts from now on what each flow puts on the links, for up to `limit` flows.
    ///
    /// Under HBH the ports are not in sight, and all flows between two hosts are one.
    pub fn count_flows(&mut self, limit: usize) {
        self.engine.flows = Some(Flows::new(limit));
    }

    /// Records sender, receiver and content of transmissions from now on, up to `limit` between two calls
    /// of [`World::take_transmissions`]: packets on wires, and frames on the radio channels and nets that
    /// exist already. HF keeps separate records.
    pub fn record_transmissions(&mut self, limit: usize) {
        self.engine.transmissions = Some(Transmissions::new(limit));
        for (medium, _) in &self.radios {
            self.engine.on_medium(*medium, |air: &mut Air, _| air.watch());
        }
        for (medium, _) in &self.nets {
            self.engine.on_medium(*medium, |net: &mut Net, _| net.watch());
        }
    }

    /// The transmissions since the last call, and the number lost to the limit. Transmissions on wires
    /// are reported when they begin, transmissions on radio channels when they end.
    pub fn take_transmissions(&mut self) -> (Vec<Transmission>, u64) {
        self.engine.transmissions.as_mut().map(Transmissions::take).unwrap_or_default()
    }

    /// Runs until all that happens before or at `end` has happened, unless time comes to a
    /// [standstill](World::standstill).
    pub fn run_until(&mut self, end: Time) {
        while self.step(end) {}
        if self.standstill.is_none() {
            self.engine.now = self.engine.now.max(end);
        }
    }

    /// Runs until nothing is left to happen, or `is_done` says so, or `limit` is reached.
    pub fn run(&mut self, limit: Time, mut is_done: impl FnMut(&Self) -> bool) {
        while !is_done(self) && self.step(limit) {}
    }

    /// Lets the next thing happen, unless that is after `limit`; false if there was none.
    pub fn step(&mut self, limit: Time) -> bool {
        if self.standstill.is_some() {
            return false;
        }
        let Some(event) = self.engine.queue.pop_until(limit) else { return false };
        if !self.counts(&event) {
            return false;
        }
        let Self { engine, nodes, .. } = self;
        engine.now = event.time;
        engine.events += 1;
        match event.kind {
            Kind::Arrive { port, from, packet } => {
                let Port { node, interface, .. } = engine.ports[port.index()];
                let packet = engine.packets.take(packet);
                nodes[node.index()].handle_arrival(engine, interface, from, packet);
            }
            Kind::Change { index } => self.apply(index as usize),
            Kind::Idle { port } => {
                let Port { node, interface, ref mut awaits_idle, .. } = engine.ports[port.index()];
                *awaits_idle = false;
                nodes[node.index()].handle_idle(engine, interface);
            }
            Kind::Medium { medium, token } => engine.handle_medium(medium, token),
            Kind::Wake { node } => nodes[node.index()].handle_wake(engine),
        }
        self.call_ready();
        true
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.engine.queue.next_time()
    }

    /// The ports at the two ends of a link, in the order of [`World::connect`].
    #[must_use]
    pub fn ends(&self, link: LinkId) -> [PortId; 2] {
        self.links[link.index()]
    }

    /// The first IPv4 address of a node; with no interface it has none.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<IpAddr> {
        self.addresses(node).find(IpAddr::is_ipv4)
    }

    /// All addresses of a node.
    pub fn addresses(&self, node: NodeId) -> impl Iterator<Item = IpAddr> {
        let interfaces = &self.nodes[node.index()].interfaces;
        interfaces.iter().flat_map(|interface| interface.addresses.iter().copied())
    }

    /// Lets nodes act that a medium has called to a port, or gives a packet back to. These come first: what
    /// they learn of a neighbour tells where the next packet goes.
    fn call_ready(&mut self) {
        loop {
            if let Some(Failure { from, to, packet }) = self.engine.failed.pop_front() {
                let Port { node, interface, .. } = self.engine.ports[from.index()];
                self.nodes[node.index()].handle_failed(&mut self.engine, interface, to, packet);
            } else if let Some(port) = self.engine.pop_ready() {
                let Port { node, interface, .. } = self.engine.ports[port.index()];
                self.nodes[node.index()].handle_call(&mut self.engine, interface);
            } else {
                return;
            }
        }
    }

    fn node_of(&self, port: PortId) -> NodeId {
        self.engine.ports[port.index()].node
    }

    fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    fn interface(&self, port: PortId) -> &Interface {
        let Port { node, interface, .. } = self.engine.ports[port.index()];
        &self.nodes[node.index()].interfaces[interface]
    }
}

fn small(index: usize) -> u32 {
    u32::try_from(index).expect("a world has fewer than 2^32 of anything")
}
