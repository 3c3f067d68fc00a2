//! A node: an IP stack with hooks as in Linux, its services and its applications.
//!
//! ```text
//!            prerouting                  forward                  postrouting
//!  medium ──▶ [hook] ──▶ route? ─[hook]────────────────▶ + ──────▶ [hook] ──▶ queue ──▶ medium
//!                          │ input                       ▲ output
//!                          ▼                             │
//!                       [hook] ICMP, UDP, TCP ──▶ applications
//! ```
//!
//! At the hooks, services take packets: see [`Service`].

mod deadlines;
mod endpoint;
mod icmp;
mod interface;
mod queue;
pub mod service;
mod services;
mod sockets;
mod stack;
mod table;
mod transport;

use std::collections::VecDeque;
use std::net::IpAddr;

use base::rng::Rng;
use base::time::Time;
use deadlines::{DeadlineId, Deadlines, Owner};

use crate::app::App;
use crate::counters::NodeCounters;
use crate::engine::{Engine, Kind, PacketId, Sequence};
use crate::ids::{NodeId, PortId};
use crate::medium::LinkAddress;
pub use endpoint::CodingReport;
pub use interface::Interface;
pub use interface::{INTERFACE, InterfaceConfig};
pub use queue::QueueDiscipline;
pub use service::Service;
use services::Services;
pub use sockets::PassiveOpens;
use sockets::Sockets;
pub use table::NextHop;
pub use table::Route;
use table::Table;

/// A node.
///
/// The world calls one `handle_*` for each event. Each does what the event is about, then settles:
/// packets to the node itself, then services that were touched, until nothing is left to do at this
/// instant. All that runs in a node has its deadlines behind the node's one wake-up.
#[derive(Debug)]
pub struct Node {
    id: NodeId,
    pub(crate) name: String,
    sequence: Sequence,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) table: Table,
    services: Services,
    apps: Vec<Local>,
    pub(crate) sockets: Sockets,
    deadlines: Deadlines,
    pub(crate) counters: NodeCounters,
    /// Packets from this node to itself.
    loopback: VecDeque<PacketId>,
}

/// An application on its node.
#[derive(Debug)]
struct Local {
    app: Box<dyn App>,
    deadline: DeadlineId,
}

impl Node {
    pub fn new(id: NodeId, name: String, rng: Rng, coding: Rng) -> Self {
        Self {
            id,
            name,
            sequence: Sequence::of_node(id),
            interfaces: Vec::new(),
            table: Table::default(),
            services: Services::default(),
            apps: Vec::new(),
            sockets: Sockets::new(rng, coding),
            deadlines: Deadlines::default(),
            counters: NodeCounters::default(),
            loopback: VecDeque::new(),
        }
    }

    /// Takes a packet that a medium brought to an interface.
    pub fn handle_arrival(
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
    pub fn handle_local(&mut self, engine: &mut Engine, packet: PacketId) {
        self.output(engine, packet);
        self.settle(engine);
    }

    /// Sends what has waited for an interface to become idle.
    pub fn handle_idle(&mut self, engine: &mut Engine, interface: usize) {
        self.pump(engine, interface);
        self.touch_senders(engine, interface);
        self.settle(engine);
    }

    /// Takes back a packet that an interface's medium could not bring to a neighbour.
    pub fn handle_failed(
        &mut self,
        engine: &mut Engine,
        interface: usize,
        to: LinkAddress,
        packet: PacketId,
    ) {
        if !self.offer_unsent(engine, interface, to, packet) {
            engine.lose(self.interfaces[interface].port, packet);
        }
        self.settle(engine);
    }

    /// Looks at an interface because its medium has called.
    pub fn handle_call(&mut self, engine: &mut Engine, interface: usize) {
        self.touch_users(interface);
        self.handle_idle(engine, interface);
    }

    /// Acts on the deadlines that are due.
    pub fn handle_wake(&mut self, engine: &mut Engine) {
        if !self.deadlines.take_wake(engine.now) {
            return;
        }
        let mut place = 0;
        while let Some(owner) = self.deadlines.pop_due(engine.now, &mut place) {
            match owner {
                Owner::App(app) => self.handle_app_timeout(engine, app),
                Owner::Service(service) => self.handle_service_timeout(engine.now, service),
                Owner::Socket(socket) => self.handle_socket_timeout(engine, socket),
            }
        }
        self.settle(engine);
        if let Some(wake) = self.deadlines.next_wake(engine.now) {
            self.schedule_wake(engine, wake);
        }
    }

    /// Takes an interface up or down.
    pub fn handle_link(&mut self, engine: &mut Engine, interface: usize, is_up: bool) {
        self.interfaces[interface].is_up = is_up;
        self.table.forget_recent();
        self.tell_interface(engine, interface);
        if is_up {
            self.pump(engine, interface);
        } else {
            while let Some(waiting) = self.interfaces[interface].dequeue() {
                self.drop_down(engine, interface, waiting.packet);
            }
        }
        self.handle_routes_changed(engine);
    }

    /// Takes another address of an interface.
    pub fn handle_address(&mut self, engine: &mut Engine, interface: usize, address: IpAddr) {
        self.interfaces[interface].addresses.push(address);
        self.table.forget_recent();
        self.tell_interface(engine, interface);
        self.settle(engine);
    }

    /// Lets services reconsider held packets, as their next hop may have changed.
    pub fn handle_routes_changed(&mut self, engine: &mut Engine) {
        self.tell_routes(engine);
        self.settle(engine);
    }

    /// Installs an application and returns its index.
    pub fn add_app(&mut self, engine: &mut Engine, app: Box<dyn App>) -> usize {
        let index = self.apps.len();
        let deadline = self.deadlines.add(Owner::App(index));
        self.apps.push(Local { app, deadline });
        self.set_deadline(engine, deadline, self.apps[index].app.next_timeout());
        index
    }

    /// Whether an application, or a connection of one, has something to do at this place of the deadlines.
    pub fn is_pending(&self, place: usize) -> bool {
        match self.deadlines.owner_at(place).flatten() {
            None | Some(Owner::Service(_)) => false,
            Some(Owner::App(_)) => true,
            Some(Owner::Socket(socket)) => self.sockets.is_active(socket),
        }
    }

    /// The first such place.
    pub fn first_pending(&self) -> Option<usize> {
        let mut places = (0..).take_while(|place| self.deadlines.owner_at(*place).is_some());
        places.find(|place| self.is_pending(*place))
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn app(&self, index: usize) -> &dyn App {
        &*self.apps[index].app
    }

    /// The address that packets to `destination` carry as their source.
    pub fn source_for(&mut self, engine: &Engine, destination: IpAddr) -> Option<IpAddr> {
        if self.is_local(destination) {
            return Some(destination);
        }
        let next = self.route(engine, destination);
        let towards = next.map(|next| &self.interfaces[next.interface]);
        towards
            .and_then(|interface| interface.address_like(destination))
            .or_else(|| self.interfaces.iter().find_map(|any| any.address_like(destination)))
    }

    pub fn is_local(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| interface.addresses.contains(&address))
    }

    /// Finishes what an event began, until nothing is left to do at this instant.
    fn settle(&mut self, engine: &mut Engine) {
        loop {
            if let Some(packet) = self.loopback.pop_front() {
                if let Some(header) = self.parse(engine, packet) {
                    self.input(engine, &header, packet);
                }
            } else if !self.settle_services(engine) {
                break;
            }
        }
    }

    /// Sends from the queue, and then from services, while the interface is idle.
    fn pump(&mut self, engine: &mut Engine, index: usize) {
        if !self.interfaces[index].is_up {
            return;
        }
        let port = self.interfaces[index].port;
        while engine.is_idle(port) {
            let waiting =
                self.interfaces[index].dequeue().map(|waiting| (waiting.packet, waiting.to));
            let waiting = waiting.or_else(|| self.poll_services(engine, index));
            let Some((packet, to)) = waiting else { return };
            self.send(engine, index, packet, to);
        }
        self.fill_queue(engine, index);
        if self.interfaces[index].queue_len() > 0 || self.has_service_over(engine, index) {
            engine.await_idle(&mut self.sequence, port);
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
            && let Some(local) = self.source_for(engine, destination)
        {
            self.apps[index].app.bind(local);
        }
        while let Some((local, remote, tcp)) = self.apps[index].app.poll_connect(engine.now) {
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
        self.plan_app(engine, index);
    }

    /// Sees to it that an application acts in time.
    fn plan_app(&mut self, engine: &mut Engine, index: usize) {
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
