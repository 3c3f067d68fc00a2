//! The node's side of the socket: binds clients, takes their U_PDUs in turn, and delivers.

mod bind;
mod config;
mod connection;
mod deliver;
mod hard_links;
mod outcomes;
mod pending;
mod questions;
mod requests;
pub mod stats;
mod submit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub(super) use config::OFF;
pub use config::{Backlog, Config, Confirm, FlowControl, Limits};
use connection::{Binding, Connection};
use hard_links::HardLinks;
use pending::{Own, Pending};
pub use questions::Known;
pub use stats::Stats;

use base::time::{Time, earliest};

use super::keep_alive::{Due, KeepAlive};
use super::output::OutputBuffer;
use super::primitive::{Management, Primitive};
use super::stream::{Stream, Unreadable};
use super::{NodeStatus, Sap, Service, UnavailableReason, UnbindReason};
use crate::s5066::Address;
use crate::s5066::service::{ClientId, Command, PRIORITIES, RequestId};

/// Nodes of which something is remembered, at most.
const MAX_NODES: usize = 1_024;
/// The longest U_PDU without ARQ, which the standard calls broadcast whoever it is for.
const BROADCAST_MTU: u16 = 4_096;

/// Events for the driver to act on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// [`Server::poll_octets`] has something.
    Readable(ClientId),
    /// The connection is to be closed after what [`Server::poll_octets`] has is sent, and
    /// [`Server::handle_disconnected`] called.
    Close(ClientId),
    /// A client of rank 15 tells or asks the node something.
    Management {
        /// The client concerned.
        client: ClientId,
        /// The type of message.
        kind: u8,
        /// The message.
        body: Vec<u8>,
    },
}

/// The clients of a node, and their side of the traffic with other nodes (Annex A).
///
/// The server stands between connections, whose driver gives it octets and sends its own, and the layers below, which
/// carry [`Request`](crate::s5066::service::Request)s. Call it in this order: one `handle_*`; `poll_event` and
/// `poll_command` until `None`; `poll_octets` of a client that is [`Event::Readable`]; `poll_request` while there is
/// room below; then wait, at most until [`Server::next_timeout`].
///
/// - facts of clients: `handle_connected`, `handle_octets`, `handle_disconnected`;
/// - facts from below: `handle_indication`, `handle_outcome`, `handle_link`, `handle_pause`,
///   `handle_availability`, `handle_capabilities`, `handle_introduced`, `handle_described`,
///   `handle_message`;
/// - time: `handle_timeout`, `next_timeout`;
/// - decisions: `poll_octets`, `poll_event`, `poll_command`, `poll_request`, `poll_unclaimed`,
///   `poll_unreadable`, and `probe_hard_link`;
/// - getters: the rest.
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
    links: HardLinks,
    commands: VecDeque<Command>,
    /// Nodes of ours.
    ours: BTreeSet<Address>,
    /// Nodes that get nothing with acknowledgement for a while.
    paused: BTreeSet<Address>,
    /// Nodes that confirm with numbers.
    compact: BTreeSet<Address>,
    /// The node's state, reported to clients.
    availability: (NodeStatus, UnavailableReason),
    /// Sender and access point of the last U_PDU for an unbound access point.
    unclaimed: Option<(Address, Sap)>,
    /// The last unreadable octets of a client.
    unreadable: Option<(ClientId, Unreadable)>,
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
            links: HardLinks::default(),
            commands: VecDeque::new(),
            ours: BTreeSet::new(),
            paused: BTreeSet::new(),
            compact: BTreeSet::new(),
            availability: (NodeStatus::ON, UnavailableReason::UNSPECIFIED),
            unclaimed: None,
            unreadable: None,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes a connection; `None` when there are too many that are bound, and it is to be closed.
    ///
    /// When all places are taken, the one that is unbound for the longest time gives way.
    pub fn handle_connected(&mut self, now: Time) -> Option<ClientId> {
        if self.connections.len() >= self.config.limits.max_clients && !self.give_way(now) {
            self.stats.connections.refused += 1;
            return None;
        }

        let client = ClientId(self.next_client);
        self.next_client += 1;
        let connection = Connection {
            stream: Stream::default(),
            outgoing: OutputBuffer::default(),
            is_announced: false,
            is_closing: false,
            keep_alive: KeepAlive::new(now, self.config.keep_alive),
            invalid: 0,
            bind_until: Some(now + self.config.bind_wait),
            binding: None,
        };
        self.connections.insert(client, connection);
        self.stats.connections.taken += 1;
        Some(client)
    }

    /// Forgets a connection without a client, which the driver is to close; false if there is none.
    fn give_way(&mut self, now: Time) -> bool {
        let unbound = self.connections.iter().filter(|(_, one)| one.binding.is_none());
        // One that is closing anyhow has no `bind_until` and comes first.
        let Some((&oldest, connection)) = unbound.min_by_key(|(_, one)| one.bind_until) else {
            return false;
        };
        self.stats.connections.closed_unbound += u64::from(!connection.is_closing);
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
            // Taken out, so that the primitives read can borrow from the stream meanwhile.
            let mut stream = std::mem::take(&mut connection.stream);
            stream.push(piece);
            self.handle_stream(now, client, &mut stream);
            if let Some(connection) = self.connections.get_mut(&client) {
                connection.stream = stream;
            }
        }
    }

    /// Whether to take a client's octets now. While many of its requests wait, flow off included, further octets are
    /// best left in the connection, which holds the client up without losing anything.
    #[must_use]
    pub fn wants_octets(&self, client: ClientId) -> bool {
        let Some(connection) = self.connections.get(&client) else { return true };
        let much = self.config.flow.flood.half();
        let has_much =
            connection.binding.as_ref().is_some_and(|it| it.queue.backlog().exceeds(much));
        !has_much || connection.keep_alive.is_asked()
    }

    /// The connection is gone: unbinds the client, and drops its waiting U_PDUs.
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

    /// Records whether a node is ours; up to 1,024 nodes of ours are remembered.
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
                self.stats.connections.closed_unbound += 1;
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
                self.stats.clients.inactive += 1;
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

    /// The next event for the driver.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next command about links.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Sender and access point of the last U_PDU for an unbound access point, since the previous call.
    pub fn poll_unclaimed(&mut self) -> Option<(Address, Sap)> {
        self.unclaimed.take()
    }

    /// The client that last sent something unreadable, and the unreadable octets, since the previous call.
    pub fn poll_unreadable(&mut self) -> Option<(ClientId, Unreadable)> {
        self.unreadable.take()
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

    /// The bound access points, and their connections.
    pub fn bound(&self) -> impl Iterator<Item = (Sap, ClientId)> {
        let sap = |at: usize| Sap::new(u8::try_from(at).unwrap_or_default());
        self.saps.iter().enumerate().filter_map(move |(at, client)| Some((sap(at), (*client)?)))
    }

    /// The backlog of all clients for the layers below.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let bindings = self.connections.values().filter_map(|client| client.binding.as_ref());
        bindings.fold(Backlog::default(), |sum, binding| {
            let one = binding.queue.backlog();
            Backlog { octets: sum.octets + one.octets, u_pdus: sum.u_pdus + one.u_pdus }
        })
    }

    /// Octets waiting for the layers below, of all clients, by priority; expedited ones count with the highest
    /// priority.
    #[must_use]
    pub fn queues(&self) -> [usize; PRIORITIES] {
        let mut queues = [0; PRIORITIES];
        let bindings = self.connections.values().filter_map(|client| client.binding.as_ref());
        for item in bindings.flat_map(|binding| binding.queue.items()) {
            queues[item.class().min(PRIORITIES - 1)] += item.u_pdu.len();
        }
        queues
    }

    /// Octets that wait for clients to read them, and incomplete primitives of theirs.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let octets =
            |connection: &Connection| connection.outgoing.len() + connection.stream.waiting();
        self.connections.values().map(octets).sum()
    }

    /// The longest U_PDU that is taken; without ARQ up to 4,096 octets are taken in any case.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        if self.config.is_broadcast_only {
            BROADCAST_MTU
        } else {
            self.config.mtu.min(BROADCAST_MTU)
        }
    }

    /// The longest U_PDU that is taken for this service.
    fn mtu_of(&self, service: Service) -> u16 {
        if service.mode.is_arq() { self.mtu() } else { BROADCAST_MTU }
    }

    fn binding(&self, client: ClientId) -> Option<&Binding> {
        self.connections.get(&client)?.binding.as_ref()
    }

    fn binding_mut(&mut self, client: ClientId) -> Option<&mut Binding> {
        self.connections.get_mut(&client)?.binding.as_mut()
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

    /// Sends a primitive to a client; a client that does not read is unbound.
    fn send(&mut self, now: Time, client: ClientId, primitive: &Primitive<'_>) {
        self.send_with(now, client, |out| primitive.emit(out));
    }

    /// The same for the primitive that `emit` appends.
    fn send_with(&mut self, now: Time, client: ClientId, emit: impl FnOnce(&mut Vec<u8>)) {
        let Some(connection) = self.connections.get(&client) else { return };
        if connection.is_closing {
            return;
        }
        if connection.outgoing.len() > self.config.limits.max_unread {
            self.stats.connections.closed_unread += 1;
            self.close(now, client, UnbindReason::INACTIVE);
            return;
        }
        self.push_with(client, emit);
    }

    fn push(&mut self, client: ClientId, primitive: &Primitive<'_>) {
        self.push_with(client, |out| primitive.emit(out));
    }

    fn push_with(&mut self, client: ClientId, emit: impl FnOnce(&mut Vec<u8>)) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.outgoing.push_with(emit);
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

/// Notes whether a node is among those.
fn remember(nodes: &mut BTreeSet<Address>, node: Address, is_such: bool) {
    if !is_such {
        nodes.remove(&node);
    } else if nodes.len() < MAX_NODES {
        nodes.insert(node);
    }
}
