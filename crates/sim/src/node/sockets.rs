//! The TCP connections of a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::ip::{Header, icmp};
use proto::rng::Rng;
use proto::tcp::{self, Connection, Flags, Segment, State};
use proto::tcpnc::{Layer, wire};
use proto::time::Time;

use super::Node;
use super::deadlines::{DeadlineId, Owner};
use crate::engine::{Engine, PacketId};

/// Connections that a node may have; a SYN beyond is dropped and counted.
const LIMIT: usize = 4_096;

/// The connections of a node.
#[derive(Debug)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// By our end and the peer's.
    places: BTreeMap<(SocketAddr, SocketAddr), usize>,
    rng: Rng,
    /// Where TCP writes segments for a layer.
    segment: Vec<u8>,
}

/// A place for a connection, used again when one has ended.
#[derive(Debug)]
struct Slot {
    socket: Option<Socket>,
    deadline: DeadlineId,
}

/// A connection and the application that has it.
#[derive(Debug)]
struct Socket {
    connection: Connection,
    app: usize,
    /// TCP/NC between it and IP.
    layer: Option<Box<Layer>>,
}

impl Socket {
    /// Appends the next whole IP packet to `out`; `segment` is where TCP writes for the layer.
    fn poll_transmit(&mut self, now: Time, segment: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
        let Some(layer) = &mut self.layer else { return self.connection.poll_transmit(now, out) };
        loop {
            if layer.poll_transmit(now, out) {
                return true;
            }
            segment.clear();
            if !self.connection.poll_transmit(now, segment) {
                return false;
            }
            layer.handle_outgoing(now, segment);
        }
    }

    /// Lets TCP take one segment that its layer has for it; false if there was none.
    fn take_segment(&mut self, now: Time) -> bool {
        let Some(segment) = self.layer.as_mut().and_then(|layer| layer.poll_segment(now)) else {
            return false;
        };
        self.connection.handle_segment(now, &segment);
        true
    }

    fn handle_timeout(&mut self, now: Time) {
        self.connection.handle_timeout(now);
        if let Some(layer) = &mut self.layer {
            layer.handle_timeout(now);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let layer = self.layer.as_ref().and_then(|layer| layer.next_timeout());
        self.connection.next_timeout().into_iter().chain(layer).min()
    }
}

impl Sockets {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            places: BTreeMap::new(),
            rng,
            segment: Vec::new(),
        }
    }
}

impl Node {
    pub(super) fn handle_tcp(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        // Taken out so that the segment can borrow it while the node acts on it.
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
            socket.connection.handle_segment(engine.now, segment);
            self.drive_socket(engine, index);
            return;
        }
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK | Flags::RST) {
            let port = Some(segment.destination.port());
            if let Some(app) = self.apps.iter().position(|local| local.app.tcp_port() == port) {
                self.accept(engine, app, segment);
                return;
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
        self.add_socket(engine, connection, app);
    }

    /// Opens a connection for an application.
    pub(super) fn connect(
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
        self.add_socket(engine, connection, app);
    }

    fn add_socket(&mut self, engine: &mut Engine, connection: Connection, app: usize) {
        let layer = self.coding.layer(app, &connection);
        let socket = Socket { connection, app, layer };
        let ends = (socket.connection.local(), socket.connection.remote());
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

    pub(super) fn handle_socket_timeout(&mut self, engine: &mut Engine, index: usize) {
        if let Some(socket) = &mut self.sockets.slots[index].socket {
            socket.handle_timeout(engine.now);
            self.drive_socket(engine, index);
        }
    }

    /// Lets the application act on its connection, and sends what there is to send.
    fn drive_socket(&mut self, engine: &mut Engine, index: usize) {
        loop {
            let Some(socket) = &mut self.sockets.slots[index].socket else { return };
            let app = socket.app;
            self.apps[app].app.drive(engine.now, &mut socket.connection);
            self.leave_carrier(engine, app);
            self.transmit(engine, index);
            let Some(socket) = &mut self.sockets.slots[index].socket else { return };
            if !socket.take_segment(engine.now) {
                break;
            }
        }

        let Slot { socket: Some(socket), deadline } = &self.sockets.slots[index] else { return };
        let (next, deadline) = (socket.next_timeout(), *deadline);
        if socket.connection.state() == State::Closed {
            let ends = (socket.connection.local(), socket.connection.remote());
            if let Some(layer) = &socket.layer {
                self.coding.handle_end(socket.app, layer);
            }
            self.sockets.places.remove(&ends);
            self.sockets.slots[index].socket = None;
            self.sockets.free.push(index);
        }
        self.set_deadline(engine, deadline, next);
    }

    /// Sends what a connection has to send.
    fn transmit(&mut self, engine: &mut Engine, index: usize) {
        let mut segment = std::mem::take(&mut self.sockets.segment);
        while let Some(socket) = &mut self.sockets.slots[index].socket {
            let packet = engine.packets.add();
            let out = engine.packets.get_mut(packet);
            if !socket.poll_transmit(engine.now, &mut segment, out) {
                engine.packets.remove(packet);
                break;
            }
            self.output(engine, packet);
        }
        self.sockets.segment = segment;
    }

    /// Acts for an application whose own time has come.
    pub(super) fn drive_sockets_of(&mut self, engine: &mut Engine, app: usize) {
        for index in 0..self.sockets.slots.len() {
            if self.sockets.slots[index].socket.as_ref().is_some_and(|it| it.app == app) {
                self.drive_socket(engine, index);
            }
        }
    }

    /// Takes an ICMP error about a segment that this node sent.
    pub(super) fn handle_tcp_error(
        &mut self,
        engine: &mut Engine,
        local: SocketAddr,
        remote: SocketAddr,
        error: icmp::Error,
        seq: u32,
    ) {
        let Some(&index) = self.sockets.places.get(&(local, remote)) else { return };
        if let Some(socket) = &mut self.sockets.slots[index].socket {
            socket.connection.handle_icmp(engine.now, error, seq);
            self.drive_socket(engine, index);
        }
    }

    /// Takes a message of a peer's layer.
    pub(super) fn handle_coded_message(
        &mut self,
        engine: &mut Engine,
        message: &wire::Message<'_>,
    ) {
        let found = self.sockets.places.get(&(message.destination, message.source)).copied();
        let socket = found.and_then(|index| self.sockets.slots[index].socket.as_mut());
        let Some(layer) = socket.and_then(|socket| socket.layer.as_mut()) else {
            self.counters.unwanted += 1;
            return;
        };
        layer.handle_message(engine.now, message);
        if let Some(index) = found {
            self.drive_socket(engine, index);
        }
    }

    /// Hands a packet to the application that is the entry of a tunnel.
    pub(super) fn carry(&mut self, engine: &mut Engine, app: usize, packet: &[u8]) {
        let mut slots = self.sockets.slots.iter();
        let is_its = |slot: &Slot| slot.socket.as_ref().is_some_and(|socket| socket.app == app);
        let found = slots.position(is_its);
        let socket = found.and_then(|index| self.sockets.slots[index].socket.as_mut());
        let connection = socket.map(|socket| &mut socket.connection);
        self.apps[app].app.handle_carried(engine.now, connection, packet);
        if let Some(index) = found {
            self.drive_socket(engine, index);
        }
    }

    /// The layers of an application's connections.
    pub(super) fn layers(&self, app: usize) -> impl Iterator<Item = &Layer> {
        let sockets = self.sockets.slots.iter().filter_map(|slot| slot.socket.as_ref());
        sockets.filter(move |socket| socket.app == app).filter_map(|it| it.layer.as_deref())
    }

    /// The connections of an application.
    pub(crate) fn connections(&self, app: usize) -> impl Iterator<Item = &Connection> {
        let sockets = self.sockets.slots.iter().filter_map(|slot| slot.socket.as_ref());
        sockets.filter(move |socket| socket.app == app).map(|socket| &socket.connection)
    }
}
