//! A node: an IP stack with hooks where Linux has them, and what runs on it.
//!
//! ```text
//!            prerouting                  forward                  postrouting
//!  medium ──▶ [HBH in] ──▶ route? ─────────────────────▶ + ──▶ [HBH out] ──▶ queue ──▶ medium
//!                            │ input                     ▲ output
//!                            ▼                           │
//!                         ICMP, UDP, TCP ──▶ applications
//! ```

mod deadlines;
mod hop;
mod icmp;
mod interface;
mod sockets;
mod stack;
mod table;
mod tcpnc;
mod transport;
mod tunnel;

use std::collections::VecDeque;
use std::net::IpAddr;

use proto::rng::Rng;
use proto::time::Time;

use crate::app::App;
use crate::counters::{Class, NodeCounters};
use crate::engine::{Engine, Kind, PacketId, Sequence};
use crate::ids::{NodeId, PortId};

use deadlines::{DeadlineId, Deadlines, Owner};
pub(crate) use hop::{Hop, link_of};
pub(crate) use interface::Interface;
pub use interface::InterfaceConfig;
use sockets::Sockets;
use table::Table;
pub use table::{NextHop, NotAPrefix, Prefix, Route};
use tcpnc::Coding;
pub use tcpnc::CodingReport;
pub(crate) use tunnel::{Tunnel, TunnelEnd};

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    id: NodeId,
    pub(crate) name: String,
    sequence: Sequence,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) table: Table,
    pub(crate) hop: Option<Hop>,
    pub(crate) tunnels: Vec<Tunnel>,
    /// Which tunnel is asked first.
    tunnel_turn: usize,
    /// Where tunnels write payloads.
    tunnel_payload: Vec<u8>,
    apps: Vec<Local>,
    sockets: Sockets,
    coding: Coding,
    deadlines: Deadlines,
    pub(crate) counters: NodeCounters,
    /// Packets from this node to itself.
    loopback: VecDeque<PacketId>,
}

/// An application on its node.
#[derive(Debug)]
struct Local {
    app: App,
    deadline: DeadlineId,
}

impl Node {
    pub(crate) fn new(id: NodeId, name: String, rng: Rng, coding: Rng) -> Self {
        Self {
            id,
            name,
            sequence: Sequence::of(id),
            interfaces: Vec::new(),
            table: Table::default(),
            hop: None,
            tunnels: Vec::new(),
            tunnel_turn: 0,
            tunnel_payload: Vec::new(),
            apps: Vec::new(),
            sockets: Sockets::new(rng),
            coding: Coding::new(coding),
            deadlines: Deadlines::default(),
            counters: NodeCounters::default(),
            loopback: VecDeque::new(),
        }
    }

    /// Takes a packet that a medium brought to an interface.
    pub(crate) fn handle_arrival(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        from: PortId,
        packet: PacketId,
    ) {
        self.counters.received += 1;
        self.prerouting(engine, interface, from, packet);
        self.settle(engine);
    }

    /// Sends a packet that something in this node made.
    pub(crate) fn handle_local(&mut self, engine: &mut Engine, packet: PacketId) {
        self.output(engine, packet);
        self.settle(engine);
    }

    /// Sends what has waited for an interface to become idle.
    pub(crate) fn handle_idle(&mut self, engine: &mut Engine, interface: usize) {
        self.interfaces[interface].awaits_idle = false;
        self.pump(engine, interface);
        self.touch_tunnels(interface);
        self.settle(engine);
    }

    /// Acts on the deadlines that are due.
    pub(crate) fn handle_wake(&mut self, engine: &mut Engine) {
        if !self.deadlines.take_wake(engine.now) {
            return;
        }
        let mut place = 0;
        while let Some(owner) = self.deadlines.pop_due(engine.now, &mut place) {
            match owner {
                Owner::App(app) => self.handle_app_timeout(engine, app),
                Owner::Hop => self.handle_hop_timeout(engine.now),
                Owner::Socket(socket) => self.handle_socket_timeout(engine, socket),
                Owner::Tunnel(tunnel) => self.handle_tunnel_timeout(engine.now, tunnel),
            }
        }
        self.settle(engine);
        if let Some(wake) = self.deadlines.next_wake(engine.now) {
            self.schedule_wake(engine, wake);
        }
    }

    /// Takes an interface up or down.
    pub(crate) fn handle_link(&mut self, engine: &mut Engine, interface: usize, is_up: bool) {
        self.interfaces[interface].is_up = is_up;
        self.table.forget_recent();
        if is_up {
            self.pump(engine, interface);
        } else {
            while let Some(waiting) = self.interfaces[interface].dequeue() {
                self.drop_down(engine, interface, waiting.packet);
            }
        }
        self.handle_routes_changed(engine);
    }

    /// Takes back from HBH what has another next hop now.
    pub(crate) fn handle_routes_changed(&mut self, engine: &mut Engine) {
        self.reroute_hop(engine);
        self.settle(engine);
    }

    /// Installs an application and returns its index.
    pub(crate) fn add_app(&mut self, engine: &mut Engine, app: App) -> usize {
        let index = self.apps.len();
        let deadline = self.deadlines.add(Owner::App(index));
        self.apps.push(Local { app, deadline });
        self.set_deadline(engine, deadline, self.apps[index].app.next_timeout());
        index
    }

    pub(crate) fn app(&self, index: usize) -> &App {
        &self.apps[index].app
    }

    /// The address that packets to `destination` carry as their source.
    pub(crate) fn source_for(&mut self, destination: IpAddr) -> Option<IpAddr> {
        if self.is_local(destination) {
            return Some(destination);
        }
        let towards = self.route(destination).map(|next| &self.interfaces[next.interface]);
        towards
            .and_then(|interface| interface.address_like(destination))
            .or_else(|| self.interfaces.iter().find_map(|any| any.address_like(destination)))
    }

    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| interface.addresses.contains(&address))
    }

    /// Finishes what an event began, until nothing is left to do at this instant.
    fn settle(&mut self, engine: &mut Engine) {
        loop {
            if let Some(packet) = self.loopback.pop_front() {
                self.input(engine, packet);
            } else if !self.settle_hop(engine) && !self.settle_tunnels(engine) {
                break;
            }
        }
    }

    /// Sends from the queue, and then from HBH, while the interface is idle.
    fn pump(&mut self, engine: &mut Engine, index: usize) {
        if !self.interfaces[index].is_up {
            return;
        }
        while self.interfaces[index].idle_at <= engine.now {
            let waiting =
                self.interfaces[index].dequeue().map(|waiting| (waiting.packet, waiting.to));
            let waiting = waiting.or_else(|| self.poll_hop(engine, index));
            let waiting = waiting.or_else(|| self.poll_tunnels(engine, index));
            let Some((packet, to)) = waiting else { return };
            let class = Class::of(engine.packets.get(packet), self.hop_protocol());
            let port = self.interfaces[index].port;
            let idle_at = engine.transmit(&mut self.sequence, port, to, packet, class);
            self.interfaces[index].idle_at = idle_at;
        }
        self.fill_hop_backlog(engine, index);
        self.fill_tunnel_backlog(engine, index);

        let has_hop = self.hop.as_ref().is_some_and(|hop| hop.uses(index));
        let has_core = has_hop || self.has_tunnel_over(index);
        let interface = &mut self.interfaces[index];
        if !interface.awaits_idle && (interface.queue_len() > 0 || has_core) {
            interface.awaits_idle = true;
            let idle = Kind::Idle { port: interface.port };
            engine.schedule(interface.idle_at, &mut self.sequence, idle);
        }
    }

    fn handle_app_timeout(&mut self, engine: &mut Engine, index: usize) {
        self.apps[index].app.handle_timeout(engine.now);
        self.drive_app(engine, index);
        self.drive_sockets_of(engine, index);
    }

    /// Lets an application act, and sends what it has to send.
    fn drive_app(&mut self, engine: &mut Engine, index: usize) {
        if let Some(destination) = self.apps[index].app.unbound_to()
            && let Some(local) = self.source_for(destination)
        {
            self.apps[index].app.bind(local);
        }
        if let Some((local, remote, tcp)) = self.apps[index].app.poll_connect(engine.now) {
            self.connect(engine, index, local, remote, tcp);
        }
        loop {
            let packet = engine.packets.add();
            if !self.apps[index].app.poll_transmit(engine.now, engine.packets.get_mut(packet)) {
                engine.packets.remove(packet);
                break;
            }
            self.output(engine, packet);
        }
        let Local { app, deadline } = &self.apps[index];
        let (deadline, next) = (*deadline, app.next_timeout());
        self.set_deadline(engine, deadline, next);
    }

    fn set_deadline(&mut self, engine: &mut Engine, id: DeadlineId, deadline: Option<Time>) {
        let deadline = deadline.map(|deadline| deadline.max(engine.now));
        if let Some(wake) = self.deadlines.set(id, deadline) {
            self.schedule_wake(engine, wake);
        }
    }

    fn schedule_wake(&mut self, engine: &mut Engine, at: Time) {
        engine.schedule(at, &mut self.sequence, Kind::Wake { node: self.id });
    }
}
