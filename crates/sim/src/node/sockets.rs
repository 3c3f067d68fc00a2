//! The TCP connections of a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::ip::{Header, icmp};
use base::rng::Rng;
use base::tcp::{Flags, Segment};
use tcp::tcpnc::{self, Layer, wire};
use tcp::{Connection, State};

use super::Node;
use super::deadlines::{DeadlineId, Owner};
use super::endpoint::{CodingReport, Endpoint};
use crate::engine::{Engine, PacketId};

/// Connections that a node may have; a SYN beyond is dropped and counted.
const LIMIT: usize = 4_096;

/// The connections of a node.
#[derive(Debug)]
pub struct Sockets {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// By our end and the peer's.
    places: BTreeMap<(SocketAddr, SocketAddr), usize>,
    rng: Rng,
    /// How many passive opens each application that listens has at a time.
    passive_opens: PassiveOpens,
    /// The optional TCP/NC layer below the connections.
    layer: Option<tcpnc::Config>,
    /// Layer reports of ended connections: the last report of each application.
    ended: BTreeMap<usize, CodingReport>,
    /// For the layers.
    coding: Rng,
    /// Where TCP writes segments for a layer.
    segment: Vec<u8>,
}

/// How many passive opens (RFC 9293, 3.9.1) an application that listens has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PassiveOpens {
    /// A fixed number: a connection occupies one listener for its lifetime, and while all are occupied a
    /// caller finds no listener.
    Fixed(usize),
    /// One listener, replaced whenever a connection takes it: peers can connect at any time.
    #[default]
    OnDemand,
}

/// A place for a connection, used again when one has ended.
#[derive(Debug)]
struct Slot {
    socket: Option<Socket>,
    deadline: DeadlineId,
}

/// A connection and the application that owns it.
#[derive(Debug)]
struct Socket {
    endpoint: Endpoint,
    app: usize,
    /// Whether it took a passive open.
    is_passive: bool,
}

impl Sockets {
    pub fn new(rng: Rng, coding: Rng) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            places: BTreeMap::new(),
            passive_opens: PassiveOpens::default(),
            rng,
            layer: None,
            ended: BTreeMap::new(),
            coding,
            segment: Vec::new(),
        }
    }

    /// Says how many passive opens each application that listens has from now on.
    pub fn set_passive_opens(&mut self, passive_opens: PassiveOpens) {
        self.passive_opens = passive_opens;
    }

    /// Whether an application has a passive open that no connection has taken.
    fn listens(&self, app: usize) -> bool {
        let PassiveOpens::Fixed(most) = self.passive_opens else { return true };
        let sockets = self.slots.iter().filter_map(|slot| slot.socket.as_ref());
        sockets.filter(|socket| socket.is_passive && socket.app == app).count() < most
    }

    /// Puts TCP/NC under all connections that begin from now on.
    pub fn enable_tcpnc(&mut self, config: tcpnc::Config) {
        self.layer = Some(config);
    }

    /// Whether this IP protocol number means TCP/NC here.
    pub fn speaks(&self, protocol: u8) -> bool {
        self.layer.is_some_and(|layer| layer.protocol == protocol)
    }

    /// What TCP/NC did under an application's connection: the oldest that is open, or the last.
    pub fn coding(&self, app: usize) -> Option<CodingReport> {
        let sockets = self.slots.iter().filter_map(|slot| slot.socket.as_ref());
        let mut layers = sockets.filter(|it| it.app == app).filter_map(|it| it.layer());
        layers.next().map(CodingReport::of).or_else(|| self.ended.get(&app).copied())
    }

    /// Whether a connection has something to send, to repeat or to acknowledge.
    pub fn is_active(&self, index: usize) -> bool {
        let socket = self.slots.get(index).and_then(|slot| slot.socket.as_ref());
        socket.is_some_and(|socket| !socket.endpoint.connection.is_at_rest())
    }

    /// The connections of an application.
    pub fn connections(&self, app: usize) -> impl Iterator<Item = &Connection> {
        let sockets = self.slots.iter().filter_map(|slot| slot.socket.as_ref());
        sockets.filter(move |socket| socket.app == app).map(|socket| &socket.endpoint.connection)
    }
}

impl Socket {
    fn layer(&self) -> Option<&Layer> {
        self.endpoint.layer.as_deref()
    }
}

impl Node {
    pub fn handle_tcp(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        // The segment borrows the octets, so they are taken out while the node acts on the segment.
        let octets = std::mem::take(engine.packets.get_mut(packet));
        match Segment::parse(header, &octets, offset) {
            Ok(segment) => self.handle_segment(engine, &segment),
            Err(_) => self.counters.malformed_transport += 1,
        }
        *engine.packets.get_mut(packet) = octets;
    }

    fn handle_segment(&mut self, engine: &mut Engine, segment: &Segment<'_>) {
        let ends = (segment.destination, segment.source);
        let found = self.sockets.places.get(&ends).copied();
        if let Some(index) = found
            && let Some(socket) = &mut self.sockets.slots[index].socket
        {
            socket.endpoint.handle_segment(engine.now, segment);
            self.drive_socket(engine, index);
            return;
        }
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK | Flags::RST) {
            let port = Some(segment.destination.port());
            if let Some(app) = self.app_for(segment.source.port(), |app| app.tcp_port() == port) {
                if self.sockets.listens(app) {
                    self.accept(engine, app, segment);
                    return;
                }
                self.counters.passive_opens_missing += 1;
            }
        }

        self.counters.unwanted += 1;
        if let Some(reset) = segment.reset_for() {
            let packet = engine.packets.add();
            reset.emit(engine.packets.get_mut(packet));
            self.output(engine, packet);
        }
    }

    fn accept(&mut self, engine: &mut Engine, app: usize, syn: &Segment<'_>) {
        if self.sockets.places.len() >= LIMIT {
            self.counters.connections_refused += 1;
            return;
        }
        let Some(config) = self.apps[app].app.accept() else { return };
        let (local, remote) = (syn.destination, syn.source);
        let rng = &mut self.sockets.rng;
        let connection = Connection::accept(engine.now, config, local, remote, syn, rng);
        self.add_socket(engine, connection, app, true);
    }

    /// Opens a connection for an application.
    pub fn connect(
        &mut self,
        engine: &mut Engine,
        app: usize,
        local: SocketAddr,
        remote: SocketAddr,
        config: tcp::Config,
    ) {
        if self.sockets.places.len() >= LIMIT || self.sockets.places.contains_key(&(local, remote))
        {
            self.counters.connections_refused += 1;
            return;
        }
        let rng = &mut self.sockets.rng;
        let connection = Connection::connect(engine.now, config, local, remote, rng);
        self.add_socket(engine, connection, app, false);
    }

    fn add_socket(
        &mut self,
        engine: &mut Engine,
        connection: Connection,
        app: usize,
        is_passive: bool,
    ) {
        let ends = (connection.local(), connection.remote());
        let Sockets { layer, coding, .. } = &mut self.sockets;
        let endpoint = Endpoint::new(connection, *layer, coding);
        let socket = Socket { endpoint, app, is_passive };
        let index = self.sockets.free.pop().unwrap_or_else(|| {
            let index = self.sockets.slots.len();
            let deadline = self.deadlines.add(Owner::Socket(index));
            self.sockets.slots.push(Slot { socket: None, deadline });
            index
        });
        self.sockets.slots[index].socket = Some(socket);
        self.sockets.places.insert(ends, index);
        self.drive_socket(engine, index);
    }

    pub fn handle_socket_timeout(&mut self, engine: &mut Engine, index: usize) {
        if let Some(socket) = &mut self.sockets.slots[index].socket {
            socket.endpoint.handle_timeout(engine.now);
            self.drive_socket(engine, index);
        }
    }

    /// Lets the application act on its connection, and sends what there is to send.
    fn drive_socket(&mut self, engine: &mut Engine, index: usize) {
        loop {
            let Some(socket) = &mut self.sockets.slots[index].socket else { return };
            self.apps[socket.app].app.drive(engine.now, &mut socket.endpoint.connection);
            self.transmit(engine, index);
            let Some(socket) = &mut self.sockets.slots[index].socket else { return };
            if !socket.endpoint.take_segment(engine.now) {
                break;
            }
        }

        let Slot { socket: Some(socket), deadline } = &self.sockets.slots[index] else { return };
        let (next, deadline) = (socket.endpoint.next_timeout(), *deadline);
        let app = socket.app;
        let connection = &socket.endpoint.connection;
        if connection.state() == State::Closed {
            let ends = (connection.local(), connection.remote());
            let (app, report) = (socket.app, socket.layer().map(CodingReport::of));
            self.sockets.ended.extend(report.map(|report| (app, report)));
            self.sockets.places.remove(&ends);
            self.sockets.slots[index].socket = None;
            self.sockets.free.push(index);
        }
        self.set_deadline(engine, deadline, next);
        // Events of the connection may have given the application work to do.
        self.plan_app(engine, app);
    }

    /// Sends what a connection has to send.
    fn transmit(&mut self, engine: &mut Engine, index: usize) {
        let mut segment = std::mem::take(&mut self.sockets.segment);
        while let Some(socket) = &mut self.sockets.slots[index].socket {
            let packet = engine.packets.add();
            let out = engine.packets.get_mut(packet);
            if !socket.endpoint.poll_transmit(engine.now, &mut segment, out) {
                engine.packets.remove(packet);
                break;
            }
            self.output(engine, packet);
        }
        self.sockets.segment = segment;
    }

    /// Acts for an application whose own time has come.
    pub fn drive_sockets_of(&mut self, engine: &mut Engine, app: usize) {
        for index in 0..self.sockets.slots.len() {
            if self.sockets.slots[index].socket.as_ref().is_some_and(|it| it.app == app) {
                self.drive_socket(engine, index);
            }
        }
    }

    /// Takes an ICMP error about a segment that this node sent.
    pub fn handle_tcp_error(
        &mut self,
        engine: &mut Engine,
        local: SocketAddr,
        remote: SocketAddr,
        error: icmp::Error,
        seq: u32,
    ) {
        let Some(&index) = self.sockets.places.get(&(local, remote)) else { return };
        if let Some(socket) = &mut self.sockets.slots[index].socket {
            socket.endpoint.connection.handle_icmp(engine.now, error, seq);
            self.drive_socket(engine, index);
        }
    }

    /// Takes a packet of a peer's TCP/NC.
    pub fn handle_coded(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        // The message borrows the octets, so they are taken out while the node acts on the message.
        let octets = std::mem::take(engine.packets.get_mut(packet));
        match wire::Message::parse(header, &octets, offset) {
            Ok(message) => self.handle_message(engine, &message),
            Err(_) => self.counters.malformed_transport += 1,
        }
        *engine.packets.get_mut(packet) = octets;
    }

    fn handle_message(&mut self, engine: &mut Engine, message: &wire::Message<'_>) {
        let found = self.sockets.places.get(&(message.destination, message.source)).copied();
        let socket = found.and_then(|index| self.sockets.slots[index].socket.as_mut());
        let Some(layer) = socket.and_then(|socket| socket.endpoint.layer.as_mut()) else {
            self.counters.unwanted += 1;
            return;
        };
        layer.handle_message(engine.now, message);
        if let Some(index) = found {
            self.drive_socket(engine, index);
        }
    }
}
