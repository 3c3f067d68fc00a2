//! Serves programs on connections to the Unix socket and on the UDP port; no program can hold up the others.
//!
//! ```text
//!   connection ─ at most 64 KiB a turn ─▶ line and octets ─▶ Request
//!              ◀─ what waits is bounded ─ Answer
//! ```
//! If a program does not read its answers, we read no more requests, give no messages, and cut it off in the end.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context as _;
use base::time::{Time, earliest};
use host::fault::{self, Fault};
use host::run::FolderWatch;
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{getsockopt, sockopt};
use tracing::{info, warn};

use super::super::complaints::{Complaints, Subject};
use super::api::{Answer, LONGEST_LINE, Request};
use super::socket::Listener;
use crate::config::Sar;
use crate::config::sar::Socket;
use crate::reactor::has_input;

/// Names a program as long as the service runs.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct ClientId(u64);

/// All programs.
#[derive(Debug)]
pub struct Clients {
    listener: Listener,
    socket: Socket,
    /// Hears when the name of the socket goes.
    names: FolderWatch,
    /// Why the socket is gone, if it is, and when it is tried again.
    missing: Option<(String, Time)>,
    udp: Option<UdpSocket>,
    connections: BTreeMap<ClientId, Connection>,
    addresses: BTreeMap<SocketAddr, (ClientId, Time)>,
    senders: BTreeMap<ClientId, SocketAddr>,
    next: u64,
    /// Set while no program can be accepted: the listener is not polled until then.
    deaf_until: Option<Time>,
    most: usize,
    longest: usize,
    buffer: Box<[u8]>,
    counters: Counters,
    complaints: Complaints,
}

base::counters! {
    /// What is counted of programs.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Counters {
        /// Connections taken.
        clients_accepted: counter(connections);
        /// Connections closed at once: too many, of all or of their user.
        clients_refused: counter(connections);
        /// Connections closed: a malformed request.
        clients_wrong: counter(connections);
        /// Connections closed: the program did not read its answers.
        clients_stalled: counter(connections);
        /// Malformed datagrams of programs.
        clients_datagrams_wrong: counter(datagrams);
        /// Answers that did not reach an address of the UDP port.
        clients_datagrams_failed: counter(answers);
        /// Addresses of the UDP port that were forgotten for others.
        clients_addresses_forgotten: counter(addresses);
    }
}

/// What programs did.
#[derive(Debug)]
pub enum Said {
    /// One asks; the octets are those behind the line.
    Asked(ClientId, Request, Vec<u8>),
    /// One is gone.
    Gone(ClientId),
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    /// Its user.
    user: u32,
    input: Input,
    output: Vec<u8>,
    sent: usize,
    is_over: bool,
}

/// Until programs are accepted again when there were no descriptors for them.
const DEAF: Duration = Duration::from_secs(1);
/// Datagrams and connections taken in a turn.
const TURN: usize = 64;
/// Octets that wait for a program: with more it is asked nothing and given no messages.
const BUSY: usize = 256 << 10;
/// With more it is cut off.
const STALLED: usize = 4 << 20;
/// Octets of a datagram.
const DATAGRAM: usize = 65_535;
/// Octets of a message that an answer in a datagram has room for.
const IN_DATAGRAM: usize = 60_000;

impl Clients {
    /// # Errors
    /// When the socket or the port is taken.
    pub fn open(config: &Sar) -> anyhow::Result<Self> {
        let listener = Listener::open(&config.socket)?;
        let names = listener.watch_name().context("cannot watch the folder of the socket")?;
        let bind = |at: SocketAddr| -> anyhow::Result<UdpSocket> {
            let udp = UdpSocket::bind(at)
                .with_context(|| format!("cannot listen for programs at {at}"))?;
            udp.set_nonblocking(true)?;
            Ok(udp)
        };
        Ok(Self {
            listener,
            socket: config.socket.clone(),
            names,
            missing: None,
            udp: config.udp.map(bind).transpose()?,
            connections: BTreeMap::new(),
            deaf_until: None,
            addresses: BTreeMap::new(),
            senders: BTreeMap::new(),
            next: 0,
            most: config.service.clients,
            longest: config.parameters.limits.message as usize,
            buffer: vec![0; READ].into_boxed_slice(),
            counters: Counters::default(),
            complaints: Complaints::default(),
        })
    }

    /// When programs are accepted again, if there were no descriptors for them, or when the socket is made again.
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.deaf_until, self.missing.as_ref().map(|(_, at)| *at))
    }

    /// What keeps programs out.
    pub fn faults(&self) -> Vec<Fault> {
        let deaf = self.deaf_until.map(|_| {
            let said = "sar: programs are not accepted: raise LimitNOFILE, or `ulimit -n`";
            Fault::new(&fault::DEAF, said)
        });
        let missing = self.missing.as_ref();
        let missing = missing.map(|(why, _)| Fault::new(&fault::LISTEN, format!("sar: {why}")));
        deaf.into_iter().chain(missing).collect()
    }

    /// Makes the socket again if somebody has removed its name.
    fn keep_socket(&mut self, now: Time) {
        if self.listener.is_there() {
            self.missing = None;
            return;
        }
        self.missing = match self.listener.restore(&self.socket) {
            Ok(()) => {
                warn!("the socket of programs was removed, and is there again");
                None
            }
            Err(why) => Some((format!("{why:#}"), now + DEAF)),
        };
    }

    /// How many programs there may be from now on.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// The listeners first, then connections; nothing is asked of programs unless `takes`.
    pub fn watch<'a>(&'a self, takes: bool, fds: &mut Vec<PollFd<'a>>) {
        let input = if takes { PollFlags::POLLIN } else { PollFlags::empty() };
        let callers = if self.deaf_until.is_none() { input } else { PollFlags::empty() };
        fds.push(PollFd::new(self.names.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.listener.as_fd(), callers));
        fds.extend(self.udp.iter().map(|udp| PollFd::new(udp.as_fd(), input)));
        fds.extend(self.connections.values().map(|it| {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, takes && it.waiting() < BUSY);
            events.set(PollFlags::POLLOUT, it.waiting() > 0);
            PollFd::new(it.stream.as_fd(), events)
        }));
    }

    /// Takes what programs say; `ready` answers [`Self::watch`].
    pub fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> Vec<Said> {
        let mut said = Vec::new();
        let Some((&[names, listener], ready)) = ready.split_first_chunk() else { return said };
        let mut ready = ready.iter();
        if self.udp.is_some() && ready.next().is_some_and(|it| has_input(*it)) {
            self.take_datagrams(now, &mut said);
        }
        let ids: Vec<ClientId> = self.connections.keys().copied().collect();
        for (id, ready) in ids.into_iter().zip(ready) {
            if has_input(*ready) {
                self.read(id, &mut said);
            }
        }
        self.deaf_until.take_if(|until| *until <= now);
        if has_input(listener) {
            self.accept(now);
        }
        if has_input(names) {
            self.names.read();
        }
        if has_input(names) || self.missing.as_ref().is_some_and(|(_, at)| *at <= now) {
            self.keep_socket(now);
        }
        said
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..TURN {
            let stream = match self.listener.accept() {
                Ok(stream) => stream,
                Err(error) => {
                    let is_short = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS]
                        .map(Some)
                        .contains(&error.raw_os_error());
                    // A program that waits would end each poll at once.
                    self.deaf_until = is_short.then_some(now + DEAF);
                    return;
                }
            };
            let who = getsockopt(&stream, sockopt::PeerCredentials);
            let user = who.map_or(u32::MAX, |who| who.uid());
            if !self.has_place(user) || stream.set_nonblocking(true).is_err() {
                self.counters.clients_refused += 1;
                continue;
            }
            self.counters.clients_accepted += 1;
            if let Ok(who) = who
                && let Some(left_out) = self.complaints.admit(now, Subject::ProgramConnected)
            {
                let (pid, uid, gid) = (who.pid(), who.uid(), who.gid());
                info!(pid, uid, gid, left_out, "a program connected");
            }
            let id = self.take_id();
            let (input, output) = (Input::default(), Vec::new());
            let it = Connection { stream, user, input, output, sent: 0, is_over: false };
            self.connections.insert(id, it);
        }
    }

    /// Whether a user may have another connection: the last quarter is for those that have fewer than all others.
    fn has_place(&self, user: u32) -> bool {
        let own = self.connections.values().filter(|it| it.user == user).count();
        self.connections.len() < self.most && own < self.most - self.most / 4
    }

    fn take_id(&mut self) -> ClientId {
        self.next += 1;
        ClientId(self.next)
    }

    fn read(&mut self, id: ClientId, said: &mut Vec<Said>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.stream.read(&mut self.buffer) {
            Ok(0) => connection.is_over = true,
            Ok(len) => connection.input.push(&self.buffer[..len]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => connection.is_over = true,
        }
        loop {
            match connection.input.take(self.longest) {
                Ok(Some((request, octets))) => said.push(Said::Asked(id, request, octets)),
                Ok(None) => break,
                Err(why) => {
                    self.counters.clients_wrong += 1;
                    Answer::Error { why }.emit(&mut connection.output);
                    let _ = connection.flush();
                    connection.is_over = true;
                    break;
                }
            }
        }
        connection.input.settle();
        if connection.is_over {
            self.close(id, said);
        }
    }

    fn close(&mut self, id: ClientId, said: &mut Vec<Said>) {
        if self.connections.remove(&id).is_some() {
            said.push(Said::Gone(id));
        }
    }

    fn take_datagrams(&mut self, now: Time, said: &mut Vec<Said>) {
        let mut buffer = vec![0; DATAGRAM];
        for _ in 0..TURN {
            let Some(udp) = &self.udp else { return };
            let (len, from) = match udp.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // An error about an answer that did not arrive.
                Err(_) => {
                    self.counters.clients_datagrams_failed += 1;
                    continue;
                }
            };
            let id = self.name(now, from, said);
            match datagram(&buffer[..len]) {
                Ok((request, octets)) => said.push(Said::Asked(id, request, octets.to_vec())),
                Err(why) => {
                    self.counters.clients_datagrams_wrong += 1;
                    self.tell(id, &Answer::Error { why }, &[]);
                }
            }
        }
    }

    /// The name of an address, which is new or was heard before.
    fn name(&mut self, now: Time, address: SocketAddr, said: &mut Vec<Said>) -> ClientId {
        if let Some((id, heard)) = self.addresses.get_mut(&address) {
            *heard = now;
            return *id;
        }
        if self.addresses.len() >= self.most {
            let oldest = self.addresses.iter().min_by_key(|(_, (_, heard))| *heard);
            if let Some((address, (id, _))) = oldest.map(|(address, it)| (*address, *it)) {
                self.counters.clients_addresses_forgotten += 1;
                self.addresses.remove(&address);
                self.senders.remove(&id);
                said.push(Said::Gone(id));
            }
        }
        let id = self.take_id();
        self.addresses.insert(address, (id, now));
        self.senders.insert(id, address);
        id
    }

    /// Tells a program something, if it is still there.
    pub fn tell(&mut self, id: ClientId, answer: &Answer, octets: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&id) {
            answer.emit(&mut connection.output);
            connection.output.extend_from_slice(octets);
            return;
        }
        let (Some(address), Some(udp)) = (self.senders.get(&id), &self.udp) else { return };
        let mut datagram = Vec::new();
        answer.emit(&mut datagram);
        datagram.extend_from_slice(octets);
        if udp.send_to(&datagram, address).is_err() {
            self.counters.clients_datagrams_failed += 1;
        }
    }

    /// Whether a program can be given so many octets more.
    pub fn has_room(&self, id: ClientId, octets: usize) -> bool {
        match self.connections.get(&id) {
            Some(connection) => connection.waiting() < BUSY,
            None => self.senders.contains_key(&id) && octets <= IN_DATAGRAM,
        }
    }

    /// Writes answers to programs; returns the programs that are gone, and whether any program can take more again.
    pub fn flush(&mut self) -> (Vec<Said>, bool) {
        let mut gone = Vec::new();
        let mut has_room = false;
        for (id, connection) in &mut self.connections {
            let was_busy = connection.waiting() >= BUSY;
            let is_open = connection.flush();
            has_room |= was_busy && connection.waiting() < BUSY;
            let is_stalled = connection.waiting() > STALLED;
            self.counters.clients_stalled += u64::from(is_stalled);
            if !is_open || is_stalled {
                gone.push(*id);
            }
        }
        let mut said = Vec::new();
        for id in gone {
            self.close(id, &mut said);
        }
        (said, has_room)
    }

    pub fn len(&self) -> usize {
        self.connections.len() + self.addresses.len()
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Connection {
    fn waiting(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Writes what the kernel takes; false when the connection is broken.
    fn flush(&mut self) -> bool {
        while self.waiting() > 0 {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if self.waiting() == 0 {
            self.output.clear();
            self.output.shrink_to(BUSY);
            self.sent = 0;
        } else if self.sent > BUSY {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        true
    }
}

// Parses requests of programs: from a stream, in pieces as received, or one request from a datagram.

/// Octets read from a connection in a turn.
const READ: usize = 64 << 10;

/// Octets received on a connection and not taken yet.
#[derive(Debug, Default)]
pub struct Input {
    octets: Vec<u8>,
    /// Octets at the beginning that were taken.
    taken: usize,
    /// A line already read, whose octets have not all arrived.
    line: Option<Request>,
}

impl Input {
    /// Takes the next octets.
    pub fn push(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// The next complete request, with the octets behind its line: `longest` at most.
    ///
    /// # Errors
    /// When the input is not a request; nothing behind it can be understood.
    pub fn take(&mut self, longest: usize) -> Result<Option<(Request, Vec<u8>)>, String> {
        if self.line.is_none() {
            let rest = &self.octets[self.taken..];
            let Some(end) = rest.iter().take(LONGEST_LINE + 1).position(|it| *it == b'\n') else {
                return match rest.len() {
                    0..=LONGEST_LINE => Ok(None),
                    _ => Err(format!("a line has {LONGEST_LINE} octets at most")),
                };
            };
            let request = Request::parse(&rest[..end])?;
            if request.octets() > longest {
                let have = request.octets();
                return Err(format!("octets = {have}: {longest} are allowed (`message` in [sar])"));
            }
            self.taken += end + 1;
            self.line = Some(request);
        }
        let need = self.line.as_ref().map_or(0, Request::octets);
        let Some(octets) = self.octets[self.taken..].get(..need) else { return Ok(None) };
        let octets = octets.to_vec();
        self.taken += need;
        Ok(self.line.take().map(|request| (request, octets)))
    }

    /// Frees the memory of taken requests, once all complete requests have been taken.
    pub fn settle(&mut self) {
        self.octets.drain(..self.taken);
        self.taken = 0;
        if self.octets.is_empty() {
            // A long message is over.
            self.octets.shrink_to(READ);
        }
    }

    /// Octets that wait for more.
    pub fn waiting(&self) -> usize {
        self.octets.len() - self.taken
    }
}

/// Reads a datagram as a request, and the octets behind its line.
///
/// # Errors
/// When the datagram is not a request, or the number of octets behind the line is wrong.
pub fn datagram(datagram: &[u8]) -> Result<(Request, &[u8]), String> {
    let (line, octets) = match datagram.iter().position(|it| *it == b'\n') {
        Some(end) => (&datagram[..end], &datagram[end + 1..]),
        None => (datagram, &[][..]),
    };
    let request = Request::parse(line)?;
    match request.octets() {
        need if need == octets.len() => Ok((request, octets)),
        need => Err(format!("octets = {need}, and there are {}", octets.len())),
    }
}
