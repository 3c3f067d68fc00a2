//! The TCP connections of a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::ip::{Header, icmp};
use proto::rng::Rng;
use proto::tcp::{self, Connection, Flags, Segment, State};

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
}

impl Sockets {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), places: BTreeMap::new(), rng }
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
        self.add_socket(engine, Socket { connection, app });
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
        self.add_socket(engine, Socket { connection, app });
    }

    fn add_socket(&mut self, engine: &mut Engine, socket: Socket) {
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
            socket.connection.handle_timeout(engine.now);
            self.drive_socket(engine, index);
        }
    }

    /// Lets the application act on its connection, and sends what there is to send.
    fn drive_socket(&mut self, engine: &mut Engine, index: usize) {
        let Slot { socket, deadline } = &mut self.sockets.slots[index];
        let (Some(socket), deadline) = (socket, *deadline) else { return };
        self.apps[socket.app].app.drive(engine.now, &mut socket.connection);
        loop {
            let Some(socket) = &mut self.sockets.slots[index].socket else { return };
            let packet = engine.packets.add();
            if !socket.connection.poll_transmit(engine.now, engine.packets.get_mut(packet)) {
                engine.packets.remove(packet);
                break;
            }
            self.output(engine, packet);
        }

        let Some(socket) = &mut self.sockets.slots[index].socket else { return };
        let next = socket.connection.next_timeout();
        if socket.connection.state() == State::Closed {
            let ends = (socket.connection.local(), socket.connection.remote());
            self.sockets.places.remove(&ends);
            self.sockets.slots[index].socket = None;
            self.sockets.free.push(index);
        }
        self.set_deadline(engine, deadline, next);
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

    /// The connections of an application.
    pub(crate) fn connections(&self, app: usize) -> impl Iterator<Item = &Connection> {
        let sockets = self.sockets.slots.iter().filter_map(|slot| slot.socket.as_ref());
        sockets.filter(move |socket| socket.app == app).map(|socket| &socket.connection)
    }
}
