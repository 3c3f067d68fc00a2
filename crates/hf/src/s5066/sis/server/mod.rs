//! The node's side of the socket: binds clients, takes their U_PDUs in turn, and delivers.

mod config;
mod hard_links;
pub mod stats;
mod submit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use base::time::{Time, earliest};
use hard_links::HardLinks;

use super::super::Address;
use super::super::service::{
    ClientId, Command, Failure, Indication, MAX_PRIORITY, Outcome, PRIORITIES, Request, RequestId,
};
use super::keep_alive::{Due, KeepAlive};
use super::messages::{self, PeerState, PeerStatus, Question};
use super::output::OutputBuffer;
use super::primitive::{
    Arrival, Block, Malformed, Management, Primitive, Refusal, UnidataConfirm, UnidataIndication,
    UnidataRejected,
};
use super::spdu::{Data, SPdu};
use super::stream::{Stream, Unreadable};
use super::{
    BindReason, Confirmation, Delivery, NodeStatus, Sap, Service, UnavailableReason, UnbindReason,
    UnidataReason,
};
use crate::modem::Waveform;

pub use config::{Backlog, Config, Confirm, FlowControl, Limits};
pub use stats::Stats;

pub(crate) use config::OFF;

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
/// carry [`Request`]s. Call it in this order: one `handle_*`; `poll_event` and
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
    served: [usize; CLASSES],
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
            served: [0; CLASSES],
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
    /// best left in the connection, which holds the client up without losing anything. But if the client's own hard
    /// link keeps out all of these requests, nothing moves until the client ends the link.
    #[must_use]
    pub fn wants_octets(&self, client: ClientId) -> bool {
        let Some(Connection { binding, keep_alive, .. }) = self.connections.get(&client) else {
            return true;
        };
        let much = self.config.flow.flood.half();
        let Some(full) = binding.as_ref().filter(|it| it.queue.backlog().exceeds(much)) else {
            return true;
        };
        keep_alive.is_asked() || self.links.keeps_out_own(client, full.sap, full.queue.items())
    }

    /// The connection is gone: unbinds the client, and drops its waiting U_PDUs.
    pub fn handle_disconnected(&mut self, now: Time, client: ClientId) {
        self.unbind(now, client, Leave::Lost(None));
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
        self.unbind(now, client, Leave::Lost(Some(reason)));
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

// A client's connection, and its queue for the layers below.

/// Priorities, and one more for what is expedited.
const CLASSES: usize = EXPEDITED + 1;
/// The class of expedited U_PDUs.
const EXPEDITED: usize = PRIORITIES;

struct Connection {
    stream: Stream,
    outgoing: OutputBuffer,
    /// Whether the driver knows that there is something to read.
    is_announced: bool,
    is_closing: bool,
    keep_alive: KeepAlive,
    invalid: u32,
    /// When it is closed unless it is bound.
    bind_until: Option<Time>,
    binding: Option<Binding>,
}

/// A client that is bound.
struct Binding {
    sap: Sap,
    rank: u8,
    service: Service,
    queue: Queue,
    is_flow_off: bool,
    /// U_PDUs that the layers below have, or the remote client has not confirmed.
    undecided: usize,
    /// Expedited U_PDUs, waiting or undecided.
    expedited: usize,
    /// Whether the client has asked to have its U_PDUs dropped when it is lost.
    drops_if_lost: bool,
}

/// U_PDUs that wait, by class and then by age.
struct Queue {
    classes: [VecDeque<Item>; CLASSES],
    backlog: Backlog,
}

/// A U_PDU that waits.
struct Item {
    id: RequestId,
    to: Address,
    to_sap: Sap,
    priority: u8,
    is_expedited: bool,
    service: Service,
    expires: Option<Time>,
    /// Whether the client set the time to live.
    has_ttl: bool,
    u_pdu: Vec<u8>,
}

impl Item {
    fn class(&self) -> usize {
        if self.is_expedited { EXPEDITED } else { usize::from(self.priority.min(MAX_PRIORITY)) }
    }
}

impl Queue {
    fn new() -> Self {
        Self { classes: std::array::from_fn(|_| VecDeque::new()), backlog: Backlog::default() }
    }

    fn push(&mut self, item: Item) {
        self.backlog.octets += item.u_pdu.len();
        self.backlog.u_pdus += 1;
        self.classes[item.class()].push_back(item);
    }

    /// Takes the oldest of the class that may go.
    fn take(&mut self, class: usize, may_go: impl Fn(&Item) -> bool) -> Option<Item> {
        let at = self.classes[class].iter().position(may_go)?;
        let item = self.classes[class].remove(at)?;
        self.forget(&item);
        Some(item)
    }

    /// Takes one whose time to live has ended.
    fn take_expired(&mut self, now: Time) -> Option<Item> {
        self.take_any(|item| item.expires.is_some_and(|at| at <= now))
    }

    /// Takes the oldest matching item of the first class with a match.
    fn take_any(&mut self, is_it: impl Fn(&Item) -> bool) -> Option<Item> {
        for class in &mut self.classes {
            if let Some(item) = class.iter().position(&is_it).and_then(|at| class.remove(at)) {
                self.forget(&item);
                return Some(item);
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        self.classes.iter().flatten()
    }

    fn forget(&mut self, item: &Item) {
        self.backlog.octets -= item.u_pdu.len();
        self.backlog.u_pdus -= 1;
    }
}

// U_PDUs at the layers below, and S_PDUs of the node's own waiting to get there.

/// S_PDUs of the node's own that wait at most.
const MAX_OWN: usize = 1_024;

/// A U_PDU that was handed down.
struct Pending {
    client: ClientId,
    to: Address,
    to_sap: Sap,
    is_arq: bool,
    is_expedited: bool,
    confirmation: Confirmation,
    /// Whether the layers below are done with it.
    is_done: bool,
    /// When the remote client has to have confirmed it.
    until: Option<Time>,
    /// The start of the U_PDU; empty when nobody is told the outcome.
    start: Vec<u8>,
}

/// How a confirmation says what it is about.
#[derive(Clone, Copy)]
enum Which<'a> {
    /// By its number.
    Id(u32),
    /// By how it starts.
    Start(&'a [u8]),
}

/// S_PDUs of the node's own: sent before S_PDUs of clients in the same class.
#[derive(Default)]
struct Own {
    classes: BTreeMap<usize, VecDeque<Request>>,
    len: usize,
}

impl Own {
    fn is_full(&self) -> bool {
        self.len >= MAX_OWN
    }

    fn push(&mut self, request: Request) {
        let class = if request.is_expedited { EXPEDITED } else { usize::from(request.priority) };
        self.len += 1;
        self.classes.entry(class).or_default().push_back(request);
    }

    fn take(&mut self, class: usize) -> Option<Request> {
        let request = self.classes.get_mut(&class)?.pop_front()?;
        self.len -= 1;
        Some(request)
    }
}

// Clients take an access point and give it up (A.2.1.1 to A.2.1.5).

impl Server {
    fn handle_bind(&mut self, now: Time, client: ClientId, sap: Sap, rank: u8, service: Delivery) {
        let service = match self.may_bind(client, sap, rank, service) {
            Ok(service) => service,
            Err(reason) => {
                self.stats.clients.binds_refused += 1;
                self.send(now, client, &Primitive::BindRejected(reason));
                return;
            }
        };
        if let Some(holder) = self.saps[usize::from(sap.number())] {
            self.stats.clients.preempted += 1;
            self.unbind(now, holder, Leave::Lost(Some(UnbindReason::PREEMPTED)));
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
            drops_if_lost: false,
        });
        self.saps[usize::from(sap.number())] = Some(client);
        self.stats.clients.binds += 1;
        self.send(now, client, &Primitive::BindAccepted { sap, mtu: self.mtu_of(service) });
        self.introduce(now, client);
    }

    fn may_bind(
        &self,
        client: ClientId,
        sap: Sap,
        rank: u8,
        service: Delivery,
    ) -> Result<Service, BindReason> {
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
        if self.config.is_broadcast_only && service.mode.is_arq() {
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

    /// A request on an unbound connection: the client is told, and goes on at its own risk.
    fn handle_unbound(&mut self, now: Time, client: ClientId) {
        self.stats.clients.unbound_requests += 1;
        let told = Primitive::UnbindIndication(UnbindReason::BAD_PRIMITIVES);
        self.send(now, client, &told);
        self.handle_invalid(now, client);
    }

    /// Unbinds a client: the access point becomes free, and the client's waiting U_PDUs are dropped.
    fn unbind(&mut self, now: Time, client: ClientId, leave: Leave) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let Some(binding) = connection.binding.take() else { return };
        connection.bind_until = Some(now + self.config.bind_wait);
        self.saps[usize::from(binding.sap.number())] = None;
        for item in binding.queue.items() {
            self.stats.submitted.dropped_unbound += 1;
            if let Some(at) = item.expires {
                self.deadlines.remove(&(at, item.id, client));
            }
        }
        let drops = binding.drops_if_lost && leave != Leave::Asked;
        self.forget_pending(client, drops);
        self.handle_unbound_link(now, client);
        if let Leave::Lost(Some(reason)) = leave {
            self.push(client, &Primitive::UnbindIndication(reason));
        }
    }
}

/// How a client leaves its access point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leave {
    /// It has asked to be unbound.
    Asked,
    /// Its connection is gone, or the node unbinds it for the reason given.
    Lost(Option<UnbindReason>),
}

// Reads primitives from clients' streams, and passes each to the code concerned.

/// Management messages that wait for the driver at most.
const MAX_MANAGEMENT: usize = 16;

impl Server {
    fn handle_stream(&mut self, now: Time, client: ClientId, stream: &mut Stream) {
        while self.connections.get(&client).is_some_and(|connection| !connection.is_closing) {
            match stream.take() {
                Ok(None) => return,
                Ok(Some(fields)) => match Primitive::parse(fields) {
                    Ok(primitive) => self.handle_primitive(now, client, &primitive),
                    Err(why) => self.handle_malformed(now, client, fields, why),
                },
                Err(broken) => {
                    self.unreadable = Some((client, broken.into()));
                    self.stats.clients.invalid += 1;
                    self.stats.connections.closed_invalid += 1;
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
                    self.hand_over(now, client);
                    self.unbind(now, client, Leave::Asked);
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

    /// A primitive that cannot be read, whose type and fields fill `octets`: whoever waits for an outcome is
    /// told that there will be none.
    fn handle_malformed(&mut self, now: Time, client: ClientId, octets: &[u8], why: Malformed) {
        self.unreadable = Some((client, Unreadable::primitive(octets, why)));
        let is_bound = self.binding(client).is_some();
        let refusal = Refusal::of(octets, why).filter(|it| is_bound || it.is_of_bind());
        if let Some(refusal) = refusal {
            self.stats.clients.binds_refused += u64::from(refusal.is_of_bind());
            let prefix = self.config.confirm.prefix;
            self.send_with(now, client, |out| refusal.emit(prefix, out));
        } else if !is_bound {
            self.handle_unbound(now, client);
            return;
        }
        self.handle_invalid(now, client);
    }

    fn handle_invalid(&mut self, now: Time, client: ClientId) {
        self.stats.clients.invalid += 1;
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.invalid += 1;
        if connection.invalid > self.config.limits.max_invalid {
            self.stats.connections.closed_invalid += 1;
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
            self.stats.clients.management_refused += 1;
            return;
        }
        let Management { kind, body } = message;
        self.events.push_back(Event::Management { client, kind, body: body.to_vec() });
    }
}

// Handles requests of clients to a node of ours beyond the standard.

/// How it is with another node, as far as the layers below know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Known {
    /// The link with it.
    pub state: PeerState,
    /// The rate of this node's transmissions, in bit/s.
    pub bits_per_s: u32,
    /// Octets for it that were not sent yet.
    pub backlog: usize,
}

impl Server {
    /// Tells a bound client the node's state, and that the node knows more than the standard asks.
    fn introduce(&mut self, now: Time, client: ClientId) {
        let (status, told) = self.availability;
        let reason = if self.config.has_messages { messages::OURS } else { told };
        if status != NodeStatus::ON || self.config.has_messages {
            self.send(now, client, &Primitive::SubnetAvailability { status, reason });
        }
    }

    /// Takes a management message; false for a message that is not ours.
    fn handle_question(&mut self, now: Time, client: ClientId, message: Management<'_>) -> bool {
        if message.kind != messages::KIND || !self.config.has_messages {
            return false;
        }
        match Question::parse(message.body) {
            Ok(Question::DropIfLost) => {
                if let Some(binding) = self.binding_mut(client) {
                    binding.drops_if_lost = true;
                }
            }
            Ok(Question::Peer(node)) => {
                self.commands.push_back(Command::Describe { client, node });
            }
            Ok(Question::Rate { node, rate, interleaver }) => {
                let may_manage = self.binding(client).is_some_and(|binding| binding.rank == 15);
                match Waveform::of_codes(rate, interleaver) {
                    Some(waveform) if may_manage => {
                        self.commands.push_back(Command::AskRate { node, waveform });
                    }
                    Some(_) | None => self.stats.clients.management_refused += 1,
                }
            }
            Ok(Question::TakeBack { to, to_sap, start }) => {
                self.take_back(now, client, to, to_sap, start);
            }
            Err(_) => self.handle_invalid(now, client),
        }
        true
    }

    /// Answers a question about another node.
    pub fn handle_described(&mut self, now: Time, client: ClientId, node: Address, known: Known) {
        let octets_for = |one: &Connection| {
            let items = one.binding.iter().flat_map(|binding| binding.queue.items());
            items.filter(|item| item.to == node).map(|item| item.u_pdu.len()).sum::<usize>()
        };
        let own = self.connections.get(&client).map_or(0, octets_for);
        let all: usize = self.connections.values().map(octets_for).sum();
        let word = |octets: usize| u32::try_from(octets).unwrap_or(u32::MAX);
        let Known { state, bits_per_s, backlog } = known;
        let (backlog, own_backlog) = (word(all + backlog), word(own));
        let mut body = Vec::new();
        PeerStatus { node, state, bits_per_s, backlog, own_backlog }.emit(&mut body);
        let answer = Management { kind: messages::KIND, body: &body };
        self.send(now, client, &Primitive::ManagementIndication(answer));
    }

    /// Gives a U_PDU back to its client if nothing of it was sent: the oldest with this beginning.
    fn take_back(&mut self, now: Time, client: ClientId, to: Address, to_sap: Sap, start: &[u8]) {
        let begins = |u_pdu: &[u8]| {
            let len = u_pdu.len().min(start.len());
            len > 0 && u_pdu[..len] == start[..len]
        };
        let Some(binding) = self.binding_mut(client) else { return };
        let taken = binding
            .queue
            .take_any(|item| item.to == to && item.to_sap == to_sap && begins(&item.u_pdu));
        if let Some(item) = taken {
            self.stats.submitted.taken_back += 1;
            self.give_back(now, client, &item, UnidataReason::TAKEN_BACK);
            self.check_bounds(now, client);
        } else if let Some(id) = self.pending_of(client, to, to_sap, begins) {
            self.commands.push_back(Command::TakeBack { id });
        }
    }
}

// Outcomes of U_PDUs: decided by the layers below, remote nodes and clocks, and reported to the client.

impl Server {
    /// Takes the outcome of a request.
    pub fn handle_outcome(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        self.handle_link_outcome(now, id, outcome);
        let Some(pending) = self.pending.get_mut(&id).filter(|pending| !pending.is_done) else {
            return;
        };
        match outcome {
            Outcome::Done if pending.confirmation == Confirmation::Client => {
                let until = now + self.config.confirm.wait;
                pending.is_done = true;
                pending.until = Some(until);
                let client = pending.client;
                self.deadlines.insert((until, id, client));
            }
            Outcome::Done => self.decide(now, id, Ok(())),
            Outcome::Failed { why, may_have_arrived } => {
                match why {
                    Failure::TakenBack => self.stats.submitted.taken_back += 1,
                    _ => self.stats.submitted.failed += 1,
                }
                let reason = match why {
                    _ if may_have_arrived => UnidataReason::MAY_HAVE_ARRIVED,
                    Failure::Expired => UnidataReason::EXPIRED,
                    Failure::TakenBack => UnidataReason::TAKEN_BACK,
                    Failure::NoResponse | Failure::Refused | Failure::LinkLost => {
                        UnidataReason::NO_RESPONSE
                    }
                };
                self.decide(now, id, Err(reason));
            }
        }
    }

    /// A remote node reports that a U_PDU reached its client, or did not. If several U_PDUs match, the report belongs
    /// to the oldest.
    fn handle_delivery(
        &mut self,
        now: Time,
        peer: Address,
        saps: [Sap; 2],
        which: Which<'_>,
        result: Result<(), UnidataReason>,
    ) {
        let [from, to] = saps;
        let client = self.saps[usize::from(from.number())];
        let is_it = |(id, pending): &(&RequestId, &Pending)| {
            let is_awaited = match pending.confirmation {
                Confirmation::Client => true,
                Confirmation::Node => result.is_err(),
                Confirmation::None => false,
            };
            is_awaited
                && Some(pending.client) == client
                && pending.to == peer
                && pending.to_sap == to
                && match which {
                    Which::Id(number) => id.low() == number,
                    Which::Start(octets) => {
                        let len = octets.len().min(pending.start.len());
                        octets[..len] == pending.start[..len]
                    }
                }
        };
        if let Some(id) = self.pending.iter().find(is_it).map(|(id, _)| *id) {
            self.decide(now, id, result);
        } else if let (Err(reason), Some(client), Which::Start(start)) = (result, client, which)
            && self.ours.contains(&peer)
        {
            // The other node has confirmed it, and found nobody to take it.
            self.stats.submitted.unreceived += 1;
            self.reject(now, client, false, reason, to, peer, start);
        } else {
            self.stats.submitted.stray_confirms += 1;
        }
    }

    /// Tells the client, if it wants to know, and forgets the U_PDU.
    fn decide(&mut self, now: Time, id: RequestId, result: Result<(), UnidataReason>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let Pending { client, to, to_sap, is_expedited, confirmation, until, start, .. } = pending;
        if let Some(until) = until {
            self.deadlines.remove(&(until, id, client));
        }
        if let Some(binding) = self.binding_mut(client) {
            binding.undecided -= 1;
            binding.expedited -= usize::from(is_expedited);
        }
        if confirmation == Confirmation::None {
            return;
        }
        match result {
            Ok(()) => {
                let u_pdu = &start[..start.len().min(self.config.confirm.prefix)];
                let confirm = UnidataConfirm { to_sap, to, u_pdu };
                self.stats.submitted.confirmed += 1;
                let primitive = if is_expedited {
                    Primitive::ExpeditedUnidataConfirm(confirm)
                } else {
                    Primitive::UnidataConfirm(confirm)
                };
                self.send(now, client, &primitive);
            }
            Err(reason) => self.reject(now, client, is_expedited, reason, to_sap, to, &start),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the primitive's fields")]
    fn reject(
        &mut self,
        now: Time,
        client: ClientId,
        is_expedited: bool,
        reason: UnidataReason,
        to_sap: Sap,
        to: Address,
        u_pdu: &[u8],
    ) {
        let u_pdu = &u_pdu[..u_pdu.len().min(self.config.confirm.prefix)];
        let rejected = UnidataRejected { reason, to_sap, to, u_pdu };
        let primitive = if is_expedited {
            Primitive::ExpeditedUnidataRejected(rejected)
        } else {
            Primitive::UnidataRejected(rejected)
        };
        self.send(now, client, &primitive);
    }

    /// Drops what is of no more use, and gives up on confirmations.
    fn expire(&mut self, now: Time) {
        while let Some(&(at, id, client)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            if self.pending.contains_key(&id) {
                self.stats.submitted.unconfirmed += 1;
                self.decide(now, id, Err(UnidataReason::MAY_HAVE_ARRIVED));
                continue;
            }
            while let Some(item) =
                self.binding_mut(client).and_then(|binding| binding.queue.take_expired(now))
            {
                self.stats.submitted.expired += 1;
                self.give_back(now, client, &item, UnidataReason::EXPIRED);
            }
            self.check_bounds(now, client);
        }
    }

    /// Tells a client that a U_PDU of its queue will not be sent, if it wants to know.
    fn give_back(&mut self, now: Time, client: ClientId, item: &Item, reason: UnidataReason) {
        if let Some(at) = item.expires {
            self.deadlines.remove(&(at, item.id, client));
        }
        if let Some(binding) = self.binding_mut(client) {
            binding.expedited -= usize::from(item.is_expedited);
        }
        if item.service.confirmation != Confirmation::None {
            let Item { is_expedited, to_sap, to, ref u_pdu, .. } = *item;
            self.reject(now, client, is_expedited, reason, to_sap, to, u_pdu);
        }
    }

    /// Forgets the U_PDUs at the layers below whose client is gone. With `drops` the layers below drop those of which
    /// nothing was sent.
    fn forget_pending(&mut self, client: ClientId, drops: bool) {
        let Self { pending, deadlines, stats, commands, .. } = self;
        pending.retain(|id, one| {
            if one.client != client {
                return true;
            }
            if let Some(until) = one.until {
                deadlines.remove(&(until, *id, client));
            }
            stats.submitted.dropped_unbound += 1;
            if drops && !one.is_done {
                commands.push_back(Command::TakeBack { id: *id });
            }
            false
        });
    }

    /// The oldest U_PDU that the layers below have of a client, if it is to be told of it.
    fn pending_of(
        &self,
        client: ClientId,
        to: Address,
        to_sap: Sap,
        begins: impl Fn(&[u8]) -> bool,
    ) -> Option<RequestId> {
        let is_it = |one: &Pending| {
            one.client == client && one.to == to && one.to_sap == to_sap && !one.is_done
        };
        let such = self.pending.iter().find(|(_, one)| is_it(one) && begins(&one.start));
        such.map(|(id, _)| *id)
    }

    /// Where U_PDUs of a client go that the layers below have, with ARQ.
    fn undecided_of(&self, client: ClientId) -> Vec<(Sap, Address)> {
        let its = self.pending.values().filter(|one| one.client == client);
        its.filter(|one| one.is_arq && !one.is_done).map(|one| (one.to_sap, one.to)).collect()
    }

    /// U_PDUs that the layers below have or remote clients have not confirmed.
    #[must_use]
    pub fn undecided(&self) -> usize {
        self.pending.len()
    }
}

// The way up: S_PDUs from other nodes.

/// Why a U_PDU could not be delivered, between nodes.
const SAP_NOT_BOUND: u8 = 1;

impl Server {
    /// Takes an S_PDU from another node.
    pub fn handle_indication(&mut self, now: Time, indication: &Indication) {
        let from = indication.from;
        let Ok(s_pdu) = SPdu::parse(&indication.s_pdu) else {
            self.stats.delivered.malformed += 1;
            return;
        };
        let is_damaged = !indication.errored.is_empty() || !indication.missing.is_empty();
        match s_pdu {
            SPdu::Data(data) => self.deliver(now, indication, data),
            // Only U_PDUs may have errors.
            _ if is_damaged => self.stats.delivered.malformed += 1,
            SPdu::DeliveryConfirm { from: source, to, u_pdu } => {
                self.handle_delivery(now, from, [source, to], Which::Start(u_pdu), Ok(()));
            }
            SPdu::DeliveryFail { from: source, to, u_pdu, .. } => {
                // There is one reason only.
                let result = Err(UnidataReason::SAP_NOT_BOUND);
                self.handle_delivery(now, from, [source, to], Which::Start(u_pdu), result);
            }
            SPdu::CompactConfirm { from: source, to, id } => {
                self.handle_delivery(now, from, [source, to], Which::Id(id), Ok(()));
            }
            SPdu::HardLinkRequest { .. }
            | SPdu::HardLinkConfirm
            | SPdu::HardLinkRejected(_)
            | SPdu::HardLinkTerminate(_)
            | SPdu::HardLinkTerminateConfirm => self.handle_link_pdu(now, from, s_pdu),
        }
    }

    fn deliver(&mut self, now: Time, indication: &Indication, data: Data<'_>) {
        let clock = self.clock(now);
        if data.ttd.is_some_and(|ttd| ttd.time(clock) + self.config.clock_error < clock) {
            self.stats.delivered.received_late += 1;
            return;
        }
        let client = self.saps[usize::from(data.to.number())];
        let bound = client.and_then(|client| Some((client, self.binding(client)?)));
        let Some((client, binding)) = bound else {
            self.stats.delivered.not_bound += 1;
            self.unclaimed = Some((indication.from, data.to));
            let s_pdu = SPdu::DeliveryFail {
                reason: SAP_NOT_BOUND,
                from: data.from,
                to: data.to,
                u_pdu: self.start(data.u_pdu),
            };
            // A node of ours reports each U_PDU acknowledged in vain, if the sender is one of ours too.
            let is_told = indication.mode.is_arq() && self.ours.contains(&indication.from);
            self.answer_data(indication, data, &s_pdu, is_told);
            return;
        };
        let takes_errors = binding.service.takes_errors;
        let Some(arrival) = arrival(indication, data.header(), takes_errors) else {
            self.stats.delivered.received_damaged += 1;
            return;
        };

        let is_expedited = indication.is_expedited;
        let told = UnidataIndication {
            priority: if is_expedited { 0 } else { data.priority },
            to_sap: data.to,
            to: indication.to,
            arrival,
            from_sap: data.from,
            from: indication.from,
            u_pdu: data.u_pdu,
        };
        let primitive = if is_expedited {
            Primitive::ExpeditedUnidataIndication(told)
        } else {
            Primitive::UnidataIndication(told)
        };
        self.send(now, client, &primitive);
        // A client that does not read was unbound instead.
        if self.binding(client).is_none() {
            return;
        }
        self.stats.delivered.u_pdus_delivered += 1;
        self.stats.delivered.octets_delivered += data.u_pdu.len() as u64;
        let s_pdu = match data.id {
            Some(id) => SPdu::CompactConfirm { from: data.from, to: data.to, id },
            None => SPdu::DeliveryConfirm {
                from: data.from,
                to: data.to,
                u_pdu: self.start(data.u_pdu),
            },
        };
        self.answer_data(indication, data, &s_pdu, false);
    }

    /// Tells the other node what became of its U_PDU, if it wants to know, or is told anyway.
    fn answer_data(
        &mut self,
        indication: &Indication,
        data: Data<'_>,
        s_pdu: &SPdu<'_>,
        is_told: bool,
    ) {
        if !(data.is_confirmed || is_told) || indication.to.is_group() {
            return;
        }
        let _ = self.send_own(indication.from, indication.is_expedited, data.priority, s_pdu);
    }

    fn start<'a>(&self, u_pdu: &'a [u8]) -> &'a [u8] {
        &u_pdu[..u_pdu.len().min(self.config.confirm.air_prefix)]
    }
}

/// How it came; `None` when it has errors that the client does not take, or the header has some.
fn arrival(indication: &Indication, header: usize, takes_errors: bool) -> Option<Arrival> {
    let Indication { mode, s_pdu, errored, missing, .. } = indication;
    if mode.is_arq() {
        return Some(Arrival::Arq);
    }
    if errored.is_empty() && missing.is_empty() && !takes_errors {
        return Some(Arrival::NonArq);
    }
    let hits_header = |range: &Range<u16>| usize::from(range.start) < header;
    if !takes_errors || errored.iter().chain(missing).any(hits_header) {
        return None;
    }
    let header = u16::try_from(header).ok()?;
    let end = u16::try_from(s_pdu.len()).unwrap_or(u16::MAX);
    let blocks = |ranges: &[Range<u16>]| {
        let clipped = ranges.iter().map(|range| range.start.min(end)..range.end.min(end));
        let within = clipped.filter(|range| !range.is_empty());
        within
            .map(|range| Block { offset: range.start - header, len: range.end - range.start })
            .collect()
    };
    Some(Arrival::NonArqWithErrors { errored: blocks(errored), missing: blocks(missing) })
}
