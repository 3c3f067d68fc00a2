//! The node's side of the socket: binds clients, takes their U_PDUs in turn, and delivers.

mod config;
mod connection;
mod deliver;
mod links;
mod questions;
mod submit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub use config::{Backlog, Config, Stats};
use connection::{Binding, Connection, Queue};
use links::Links;
pub use questions::Known;
use submit::{Own, Pending};

use super::keep_alive::{Due, KeepAlive};
use super::outgoing::Outgoing;
use super::primitive::{Management, Primitive};
use super::stream::Stream;
use super::{BindReason, Delivery, NodeStatus, Sap, Transmission, UnavailableReason, UnbindReason};
use crate::s5066::Address;
use crate::s5066::service::{Command, RequestId};
use crate::time::{Time, earliest};

/// Nodes of which something is remembered, at most.
const MAX_NODES: usize = 1_024;
/// Management messages that wait for the driver at most.
const MAX_MANAGEMENT: usize = 16;

/// Notes whether a node is among those.
fn remember(nodes: &mut BTreeSet<Address>, node: Address, is_such: bool) {
    if !is_such {
        nodes.remove(&node);
    } else if nodes.len() < MAX_NODES {
        nodes.insert(node);
    }
}

/// A connection to a client; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId(pub u32);

/// What the driver does next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// [`Server::poll_octets`] has something.
    Readable(ClientId),
    /// The connection is to be closed after what [`Server::poll_octets`] has is sent, and
    /// [`Server::handle_disconnected`] called.
    Close(ClientId),
    /// A client of rank 15 tells or asks the node something.
    Management {
        /// Who.
        client: ClientId,
        /// The type of message.
        kind: u8,
        /// The message.
        body: Vec<u8>,
    },
}

/// The clients of a node.
pub struct Server {
    config: Config,
    address: Address,
    connections: BTreeMap<ClientId, Connection>,
    saps: [Option<ClientId>; 16],
    next_client: u32,
    next_request: u64,
    /// Per class, the access point that was served last.
    served: [usize; connection::CLASSES],
    /// When U_PDUs that wait expire, and confirmations of others are late.
    deadlines: BTreeSet<(Time, RequestId, ClientId)>,
    /// What became of the U_PDUs handed down is not known yet.
    pending: BTreeMap<RequestId, Pending>,
    /// S_PDUs of the node's own.
    own: Own,
    links: Links,
    commands: VecDeque<Command>,
    /// Nodes of ours.
    ours: BTreeSet<Address>,
    /// Nodes that get nothing with acknowledgement for a while.
    paused: BTreeSet<Address>,
    /// Nodes that confirm with numbers.
    compact: BTreeSet<Address>,
    /// What clients are told of the node.
    availability: (NodeStatus, UnavailableReason),
    /// Of the last U_PDU for an access point that is not bound: who sent it, and the access point.
    unclaimed: Option<(Address, Sap)>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Server {
    /// The clients of the node with this address.
    #[must_use]
    pub fn new(config: Config, address: Address) -> Self {
        Self {
            config,
            address,
            connections: BTreeMap::new(),
            saps: [None; 16],
            next_client: 0,
            next_request: 0,
            served: [0; connection::CLASSES],
            deadlines: BTreeSet::new(),
            pending: BTreeMap::new(),
            own: Own::default(),
            links: Links::default(),
            commands: VecDeque::new(),
            ours: BTreeSet::new(),
            paused: BTreeSet::new(),
            compact: BTreeSet::new(),
            availability: (NodeStatus::ON, UnavailableReason::UNSPECIFIED),
            unclaimed: None,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes a connection; `None` when there are too many that are bound, and it is to be closed.
    ///
    /// When all places are taken, the one that is unbound for the longest time gives way.
    pub fn handle_connected(&mut self, now: Time) -> Option<ClientId> {
        if self.connections.len() >= self.config.max_clients && !self.give_way(now) {
            self.stats.connections_refused += 1;
            return None;
        }

        let client = ClientId(self.next_client);
        self.next_client += 1;
        let connection = Connection {
            stream: Stream::default(),
            outgoing: Outgoing::default(),
            is_announced: false,
            is_closing: false,
            keep_alive: KeepAlive::new(now, self.config.keep_alive),
            invalid: 0,
            bind_until: Some(now + self.config.bind_wait),
            binding: None,
        };
        self.connections.insert(client, connection);
        self.stats.connections += 1;
        Some(client)
    }

    /// Forgets a connection without a client, which the driver is to close; false if there is none.
    fn give_way(&mut self, now: Time) -> bool {
        let unbound = self.connections.iter().filter(|(_, one)| one.binding.is_none());
        // One that is closing anyhow has no `bind_until` and comes first.
        let Some((&oldest, connection)) = unbound.min_by_key(|(_, one)| one.bind_until) else {
            return false;
        };
        self.stats.closed_unbound += u64::from(!connection.is_closing);
        self.handle_disconnected(now, oldest);
        self.events.push_back(Event::Close(oldest));
        true
    }

    /// Takes octets from a client, in any pieces.
    pub fn handle_octets(&mut self, now: Time, client: ClientId, octets: &[u8]) {
        for piece in octets.chunks(Stream::PIECE) {
            let Some(connection) = self.connections.get_mut(&client) else { return };
            if connection.is_closing {
                return;
            }
            connection.keep_alive.handle_heard(now);
            // Taken out, so that what is read can be borrowed from it meanwhile.
            let mut stream = std::mem::take(&mut connection.stream);
            stream.push(piece);
            self.handle_stream(now, client, &mut stream);
            if let Some(connection) = self.connections.get_mut(&client) {
                connection.stream = stream;
            }
        }
    }

    fn handle_stream(&mut self, now: Time, client: ClientId, stream: &mut Stream) {
        while self.connections.get(&client).is_some_and(|connection| !connection.is_closing) {
            match stream.take() {
                Ok(None) => return,
                Ok(Some(fields)) => match Primitive::parse(fields) {
                    Ok(primitive) => self.handle_primitive(now, client, &primitive),
                    Err(_) => self.handle_invalid(now, client),
                },
                Err(_) => {
                    self.stats.invalid += 1;
                    self.stats.closed_invalid += 1;
                    self.close(now, client, UnbindReason::BAD_PRIMITIVES);
                    *stream = Stream::default();
                    return;
                }
            }
        }
    }

    fn handle_primitive(&mut self, now: Time, client: ClientId, primitive: &Primitive<'_>) {
        match *primitive {
            Primitive::BindRequest { sap, rank, service } => {
                self.handle_bind(now, client, sap, rank, service);
            }
            Primitive::UnbindRequest => {
                if self.binding(client).is_some() {
                    self.unbind(now, client, None);
                } else {
                    self.handle_unbound(now, client);
                }
            }
            Primitive::KeepAlive => {
                if let Some(connection) = self.connections.get_mut(&client) {
                    connection.keep_alive.handle_keep_alive(now);
                }
                self.keep_alive(now, client);
            }
            _ if self.binding(client).is_none() => self.handle_unbound(now, client),
            Primitive::UnidataRequest(request) => self.submit(now, client, request, false),
            Primitive::ExpeditedUnidataRequest(request) => self.submit(now, client, request, true),
            Primitive::HardLinkEstablish(link) => self.establish(now, client, link),
            Primitive::HardLinkTerminate { remote } => self.terminate(now, client, remote),
            Primitive::HardLinkAccept(link) => self.answer(now, client, link, None),
            Primitive::HardLinkReject { reason, link } => {
                self.answer(now, client, link, Some(reason));
            }
            Primitive::ManagementRequest(message) => self.handle_management(now, client, message),
            Primitive::BindAccepted { .. }
            | Primitive::BindRejected(_)
            | Primitive::UnbindIndication(_)
            | Primitive::HardLinkEstablished { .. }
            | Primitive::HardLinkRejected { .. }
            | Primitive::HardLinkTerminated { .. }
            | Primitive::HardLinkIndication { .. }
            | Primitive::SubnetAvailability { .. }
            | Primitive::DataFlowOn
            | Primitive::DataFlowOff
            | Primitive::ManagementIndication(_)
            | Primitive::UnidataIndication(_)
            | Primitive::UnidataConfirm(_)
            | Primitive::UnidataRejected(_)
            | Primitive::ExpeditedUnidataIndication(_)
            | Primitive::ExpeditedUnidataConfirm(_)
            | Primitive::ExpeditedUnidataRejected(_) => self.handle_invalid(now, client),
        }
    }

    fn handle_bind(&mut self, now: Time, client: ClientId, sap: Sap, rank: u8, service: Delivery) {
        let service = match self.may_bind(client, sap, rank, service) {
            Ok(service) => service,
            Err(reason) => {
                self.stats.binds_refused += 1;
                self.send(now, client, &Primitive::BindRejected(reason));
                return;
            }
        };
        if let Some(holder) = self.saps[usize::from(sap.number())] {
            self.stats.preempted += 1;
            self.unbind(now, holder, Some(UnbindReason::PREEMPTED));
        }
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.bind_until = None;
        connection.binding = Some(Binding {
            sap,
            rank,
            service,
            queue: Queue::new(),
            is_flow_off: false,
            undecided: 0,
            expedited: 0,
        });
        self.saps[usize::from(sap.number())] = Some(client);
        self.stats.binds += 1;
        self.send(now, client, &Primitive::BindAccepted { sap, mtu: self.mtu() });
        self.introduce(now, client);
    }

    fn may_bind(
        &self,
        client: ClientId,
        sap: Sap,
        rank: u8,
        service: Delivery,
    ) -> Result<super::Service, BindReason> {
        if self.config.saps & 1 << sap.number() == 0 {
            return Err(BindReason::BAD_SAP);
        }
        // A connection has one access point; a service that does not exist needs resources that do
        // not either.
        if self.binding(client).is_some_and(|binding| binding.sap != sap)
            || (rank == 15 && !self.config.may_manage)
        {
            return Err(BindReason::NO_RESOURCES);
        }
        let service = service.service().map_err(|_| BindReason::NO_RESOURCES)?;
        if self.config.is_broadcast_only && service.transmission == Transmission::Arq {
            return Err(BindReason::NO_ARQ);
        }
        let holder = self.saps[usize::from(sap.number())];
        match holder.and_then(|holder| self.binding(holder)) {
            Some(holder) if !self.config.preempts || holder.rank >= rank => {
                Err(BindReason::SAP_IN_USE)
            }
            _ if holder == Some(client) => Err(BindReason::SAP_IN_USE),
            _ => Ok(service),
        }
    }

    /// A request of a connection that is not bound: it is told so, and goes on at its own risk.
    fn handle_unbound(&mut self, now: Time, client: ClientId) {
        self.stats.unbound_requests += 1;
        let told = Primitive::UnbindIndication(UnbindReason::BAD_PRIMITIVES);
        self.send(now, client, &told);
        self.handle_invalid(now, client);
    }

    fn handle_invalid(&mut self, now: Time, client: ClientId) {
        self.stats.invalid += 1;
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.invalid += 1;
        if connection.invalid > self.config.max_invalid {
            self.stats.closed_invalid += 1;
            self.close(now, client, UnbindReason::BAD_PRIMITIVES);
        }
    }

    fn handle_management(&mut self, now: Time, client: ClientId, message: Management<'_>) {
        if self.handle_question(now, client, message) {
            return;
        }
        let may_manage = self.binding(client).is_some_and(|binding| binding.rank == 15);
        let is_management = |event: &&Event| matches!(event, Event::Management { .. });
        let waiting = self.events.iter().filter(is_management).count();
        if !may_manage || waiting >= MAX_MANAGEMENT {
            self.stats.management_refused += 1;
            return;
        }
        let Management { kind, body } = message;
        self.events.push_back(Event::Management { client, kind, body: body.to_vec() });
    }

    /// The connection is gone: the client is unbound, and what waits of it dropped.
    pub fn handle_disconnected(&mut self, now: Time, client: ClientId) {
        self.unbind(now, client, None);
        self.connections.remove(&client);
        self.events.retain(|event| match event {
            Event::Readable(about) | Event::Close(about) => *about != client,
            Event::Management { .. } => true,
        });
    }

    /// Takes what the node can do: clients are told of changes, and when they bind if it is less than
    /// everything.
    pub fn handle_availability(
        &mut self,
        now: Time,
        status: NodeStatus,
        reason: UnavailableReason,
    ) {
        let told = std::mem::replace(&mut self.availability, (status, reason));
        for client in self.saps.into_iter().flatten().filter(|_| told != (status, reason)) {
            self.send(now, client, &Primitive::SubnetAvailability { status, reason });
        }
    }

    /// What goes to a node with acknowledgement waits here for a while, or goes again.
    pub fn handle_pause(&mut self, node: Address, is_paused: bool) {
        if is_paused {
            self.paused.insert(node);
        } else {
            self.paused.remove(&node);
        }
    }

    /// Whether a node confirms with numbers (EP9); up to 1,024 nodes that do are remembered.
    pub fn handle_capabilities(&mut self, node: Address, confirms_compactly: bool) {
        remember(&mut self.compact, node, confirms_compactly);
    }

    /// Whether a node is one of ours; up to 1,024 nodes that are, are remembered.
    pub fn handle_introduced(&mut self, node: Address, is_ours: bool) {
        remember(&mut self.ours, node, is_ours);
    }

    /// Tells a client something; bodies are cut to 65,533 octets.
    pub fn handle_message(&mut self, now: Time, client: ClientId, kind: u8, body: &[u8]) {
        if self.binding(client).is_some() {
            let message = Management { kind, body };
            self.send(now, client, &Primitive::ManagementIndication(message));
        }
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let clients: Vec<_> = self.connections.keys().copied().collect();
        for client in clients {
            self.keep_alive(now, client);
            let Some(connection) = self.connections.get_mut(&client) else { continue };
            if connection.bind_until.take_if(|until| *until <= now).is_some() {
                self.stats.closed_unbound += 1;
                self.announce_close(client);
            }
        }
        self.expire(now);
        self.handle_link_timeout(now);
    }

    fn keep_alive(&mut self, now: Time, client: ClientId) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        if connection.is_closing {
            return;
        }
        match connection.keep_alive.handle_timeout(now) {
            Some(Due::Send) => self.send(now, client, &Primitive::KeepAlive),
            Some(Due::GiveUp) => {
                self.stats.inactive += 1;
                self.close(now, client, UnbindReason::INACTIVE);
            }
            None => {}
        }
    }

    /// Appends a piece of what a client is to read; whether there was any.
    pub fn poll_octets(&mut self, _now: Time, client: ClientId, out: &mut Vec<u8>) -> bool {
        let Some(connection) = self.connections.get_mut(&client) else { return false };
        let has_any = connection.outgoing.poll(out);
        if connection.outgoing.is_empty() {
            connection.is_announced = false;
        }
        has_any
    }

    /// What the driver does next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What is wanted of links.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Who sent a U_PDU for an access point that is not bound, and which; the last since this was
    /// asked before.
    pub fn poll_unclaimed(&mut self) -> Option<(Address, Sap)> {
        self.unclaimed.take()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let open = self.connections.values().filter(|connection| !connection.is_closing);
        let of_clients = open.fold(None, |next, connection| {
            let due = earliest(connection.bind_until, connection.keep_alive.next_timeout());
            earliest(next, due)
        });
        let of_u_pdus = self.deadlines.first().map(|(at, ..)| *at);
        earliest(of_clients, earliest(of_u_pdus, self.next_link_timeout()))
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Connections, bound or not.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The access points that are bound, and the connections that have them.
    pub fn bound(&self) -> impl Iterator<Item = (Sap, ClientId)> {
        let sap = |at: usize| Sap::new(u8::try_from(at).unwrap_or_default());
        self.saps.iter().enumerate().filter_map(move |(at, client)| Some((sap(at), (*client)?)))
    }

    /// What waits for the layers below, of all clients.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let bindings = self.connections.values().filter_map(|client| client.binding.as_ref());
        bindings.fold(Backlog::default(), |sum, binding| {
            let one = binding.queue.backlog();
            Backlog { octets: sum.octets + one.octets, u_pdus: sum.u_pdus + one.u_pdus }
        })
    }

    /// Octets that wait for clients to read them, and incomplete primitives of theirs.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let octets =
            |connection: &Connection| connection.outgoing.len() + connection.stream.waiting();
        self.connections.values().map(octets).sum()
    }

    /// The longest U_PDU that is taken.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.config.mtu.min(4_096)
    }

    fn binding(&self, client: ClientId) -> Option<&Binding> {
        self.connections.get(&client)?.binding.as_ref()
    }

    fn binding_mut(&mut self, client: ClientId) -> Option<&mut Binding> {
        self.connections.get_mut(&client)?.binding.as_mut()
    }

    /// The client takes off: its access point is free, and what waits of it is dropped.
    fn unbind(&mut self, now: Time, client: ClientId, reason: Option<UnbindReason>) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let Some(binding) = connection.binding.take() else { return };
        connection.bind_until = Some(now + self.config.bind_wait);
        self.saps[usize::from(binding.sap.number())] = None;
        for item in binding.queue.items() {
            self.stats.dropped_unbound += 1;
            if let Some(at) = item.expires {
                self.deadlines.remove(&(at, item.id, client));
            }
        }
        self.forget_pending(client);
        self.handle_unbound_link(now, client);
        if let Some(reason) = reason {
            self.push(client, &Primitive::UnbindIndication(reason));
        }
    }

    fn close(&mut self, now: Time, client: ClientId, reason: UnbindReason) {
        self.unbind(now, client, Some(reason));
        self.announce_close(client);
    }

    fn announce_close(&mut self, client: ClientId) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.bind_until = None;
        if !connection.is_closing {
            connection.is_closing = true;
            self.events.push_back(Event::Close(client));
        }
    }

    /// Gives a client something to read; one that does not read is unbound.
    fn send(&mut self, now: Time, client: ClientId, primitive: &Primitive<'_>) {
        let Some(connection) = self.connections.get(&client) else { return };
        if connection.is_closing {
            return;
        }
        if connection.outgoing.len() > self.config.max_unread {
            self.stats.closed_unread += 1;
            self.close(now, client, UnbindReason::INACTIVE);
            return;
        }
        self.push(client, primitive);
    }

    fn push(&mut self, client: ClientId, primitive: &Primitive<'_>) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.outgoing.push(primitive);
        if !std::mem::replace(&mut connection.is_announced, true) {
            self.events.push_back(Event::Readable(client));
        }
    }

    fn next_id(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// GMT since 1970.
    fn clock(&self, at: Time) -> Duration {
        self.config.epoch + Duration::from_nanos(at.as_nanos())
    }
}
