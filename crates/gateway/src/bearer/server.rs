//! Serves connections of many clients to one core, so that no client holds up the others.
//!
//! ```text
//!   listener ─▶ connection ─ at most 16 KiB a turn ─▶ Core::handle_octets
//!               connection ◀─ at most 64 KiB wait  ── Core::poll_octets
//! ```
//!
//! The core decides how many clients there may be, and which client gives way to another; this module decides
//! from which hosts clients may come, and how many from one other host.
//! A client that does not read is not read from either, and is closed after a while; the core bounds the octets
//! that wait for it. The kernel's probes notice a vanished client. A client that sends without end gets its turn
//! like all others.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use base::time::{Time, earliest};
use hf::s5066::Node;
use hf::s5066::sis::ClientId;
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{setsockopt, sockopt};

use super::allow::{Allow, Door, TurnedAway};

/// What the connections lead to.
pub trait Core {
    /// Takes a new client, or refuses it.
    fn handle_connected(&mut self, now: Time) -> Option<Client>;
    /// Takes octets of a client.
    fn handle_octets(&mut self, now: Time, client: Client, octets: &[u8]);
    /// Hears that a client is gone.
    fn handle_disconnected(&mut self, now: Time, client: Client);
    /// Appends some octets for a client and returns whether there were any.
    fn poll_octets(&mut self, now: Time, client: Client, out: &mut Vec<u8>) -> bool;
    /// Whether a client's octets are taken now; otherwise they wait in the kernel.
    fn wants_octets(&self, _client: Client) -> bool {
        true
    }
}

impl Core for Node {
    fn handle_connected(&mut self, now: Time) -> Option<Client> {
        self.handle_connected(now).map(|client| Client(client.0))
    }

    fn handle_octets(&mut self, now: Time, client: Client, octets: &[u8]) {
        self.handle_octets(now, ClientId(client.0), octets);
    }

    fn handle_disconnected(&mut self, now: Time, client: Client) {
        self.handle_disconnected(now, ClientId(client.0));
    }

    fn poll_octets(&mut self, now: Time, client: Client, out: &mut Vec<u8>) -> bool {
        self.poll_octets(now, ClientId(client.0), out)
    }

    fn wants_octets(&self, client: Client) -> bool {
        self.wants_octets(ClientId(client.0))
    }
}

/// A core's name for a client; never used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Client(pub u32);

/// A listening socket and the connections that came by it.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    door: Door,
    connections: Vec<Connection>,
    /// Present while no descriptors are left: nobody is accepted until then.
    accepts_at: Option<Time>,
    /// Whether no descriptors were left at the last attempt.
    is_deaf: bool,
    buffer: Box<[u8]>,
    stats: Stats,
}

base::counters! {
    /// What a server counts.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Connections taken.
        pub accepted: counter(connections);
        /// Connections closed at once: the core refused.
        pub refused: counter(connections);
        /// Connections closed at once: they came from where nobody may come from.
        pub strangers: counter(connections);
        /// Connections closed at once because their host already had the maximum number.
        pub crowded: counter(connections);
        /// Connections that the core had closed.
        pub closed: counter(connections);
        /// Connections ended by the client, or broken.
        pub lost: counter(connections);
        /// Connections closed because the client did not read.
        pub stalled: counter(connections);
        /// Octets received.
        pub octets_in: counter(octets);
        /// Octets sent.
        pub octets_out: counter(octets);
    }
}

#[derive(Debug)]
struct Connection {
    client: Client,
    from: IpAddr,
    stream: TcpStream,
    /// What the core gave and the kernel has not taken: `unsent[sent..]`.
    unsent: Vec<u8>,
    sent: usize,
    /// When the kernel last took something, or had nothing to take.
    moved_at: Time,
    life: Life,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    Open,
    /// The core is done with it: flush by then.
    Flushing {
        until: Time,
    },
    /// All is said; the client's end is waited for, so that nothing is lost on the way to it.
    Lingering {
        until: Time,
    },
    Gone,
}

/// Octets read from a connection in a turn.
const READ: usize = 16 << 10;
/// Octets that may wait for the kernel before the core is asked for more.
const UNSENT: usize = 64 << 10;
/// Connections accepted in a turn.
const ACCEPTS: usize = 16;
/// Connections of clients that the core is done with at most: beyond, the oldest is not waited for.
const CLOSING: usize = 64;
/// A client that takes nothing for this long is closed.
const STALL: Duration = Duration::from_secs(60);
/// How long the last octets of a connection may take.
const LINGER: Duration = Duration::from_secs(5);
/// Without descriptors, when to look again.
const PAUSE: Duration = Duration::from_secs(1);

/// When the kernel probes a silent connection, in seconds: a peer that vanished is noticed after
/// less than two minutes.
const PROBE_AFTER: u32 = 60;
const PROBE_EVERY: u32 = 15;
const PROBES: u32 = 3;

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// When the address is taken, or not ours.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            door: Door::default(),
            connections: Vec::new(),
            accepts_at: None,
            is_deaf: false,
            buffer: vec![0; READ].into_boxed_slice(),
            stats: Stats::default(),
        })
    }

    /// The same server, for clients from these networks and this host; the default is this host alone.
    #[must_use]
    pub fn allowing(mut self, allow: Allow) -> Self {
        self.set_allowed(allow);
        self
    }

    /// From now on accepts clients from these networks and this host; connected clients stay.
    pub fn set_allowed(&mut self, allow: Allow) {
        self.door.set(allow);
    }

    /// The next client turned away before reading anything from it: each host once.
    pub fn poll_turned_away(&mut self) -> Option<TurnedAway> {
        self.door.poll()
    }

    /// Appends what to wait for.
    pub fn watch<'a>(&'a self, core: &impl Core, fds: &mut Vec<PollFd<'a>>) {
        let accepts =
            if self.accepts_at.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        fds.push(PollFd::new(self.listener.as_fd(), accepts));
        fds.extend(self.connections.iter().map(|connection| {
            let is_open = connection.life == Life::Open;
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, !is_open || core.wants_octets(connection.client));
            events.set(PollFlags::POLLOUT, connection.waits());
            PollFd::new(connection.stream.as_fd(), events)
        }));
    }

    /// Moves octets of all ready connections; `ready` answers [`Self::watch`].
    pub fn handle_ready(&mut self, now: Time, ready: &[PollFlags], core: &mut impl Core) {
        let Some((&listener, ready)) = ready.split_first() else { return };
        for (at, &ready) in ready.iter().enumerate() {
            if ready.contains(PollFlags::POLLOUT) {
                self.write(now, at, core);
            }
            if ready.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
                self.read(now, at, core);
            }
        }
        if !listener.is_empty() {
            self.accept(now, core);
        }
        self.forget();
    }

    /// Sends what the core has for a client.
    pub fn push(&mut self, now: Time, client: Client, core: &mut impl Core) {
        if let Some(at) = self.position(client) {
            self.write(now, at, core);
        }
        self.forget();
    }

    /// Flushes and closes a client's connection; the core is told that it is gone.
    pub fn close(&mut self, now: Time, client: Client, core: &mut impl Core) {
        let Some(at) = self.position(client) else { return };
        let connection = &mut self.connections[at];
        if connection.life != Life::Open {
            return;
        }
        while core.poll_octets(now, client, &mut connection.unsent) {}
        core.handle_disconnected(now, client);
        connection.life = Life::Flushing { until: now + LINGER };
        self.stats.closed += 1;
        self.write(now, at, core);
        if self.connections.len() - self.connections() > CLOSING
            && let Some(oldest) = self.connections.iter_mut().find(|one| one.life != Life::Open)
        {
            oldest.life = Life::Gone;
        }
        self.forget();
    }

    /// Ends connections that take too long. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time, core: &mut impl Core) {
        self.accepts_at = self.accepts_at.filter(|&at| at > now);
        for connection in &mut self.connections {
            if connection.ends_at().is_none_or(|at| at > now) {
                continue;
            }
            if connection.life == Life::Open {
                self.stats.stalled += 1;
                core.handle_disconnected(now, connection.client);
            }
            connection.life = Life::Gone;
        }
        self.forget();
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.connections.iter().map(Connection::ends_at).fold(self.accepts_at, earliest)
    }

    /// Whether there were no descriptors or memory for the last client that came.
    #[must_use]
    pub fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Connections that the core knows.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.life == Life::Open).count()
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn accept(&mut self, now: Time, core: &mut impl Core) {
        for _ in 0..ACCEPTS {
            let (stream, from) = match self.listener.accept() {
                Ok((stream, from)) => {
                    self.is_deaf = false;
                    (stream, from.ip())
                }
                Err(error) => {
                    // A client may have gone already; without descriptors all clients wait.
                    let is_short = matches!(
                        error.raw_os_error(),
                        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
                    );
                    self.is_deaf = is_short;
                    if is_short {
                        self.accepts_at = Some(now + PAUSE);
                    }
                    return;
                }
            };
            match self.let_in(&stream, from) {
                Ok(()) => {}
                Err(TurnedAway::Crowd(_)) => {
                    self.stats.crowded += 1;
                    continue;
                }
                Err(TurnedAway::Stranger(_)) => {
                    self.stats.strangers += 1;
                    continue;
                }
            }
            let is_ready = prepare(&stream).is_ok();
            let Some(client) = is_ready.then(|| core.handle_connected(now)).flatten() else {
                self.stats.refused += 1;
                continue;
            };
            self.stats.accepted += 1;
            self.connections.push(Connection {
                client,
                from,
                stream,
                unsent: Vec::new(),
                sent: 0,
                moved_at: now,
                life: Life::Open,
            });
        }
    }

    fn let_in(&mut self, stream: &TcpStream, from: IpAddr) -> Result<(), TurnedAway> {
        // Whose address cannot be told comes from nowhere.
        let to = stream.local_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at| at.ip());
        let connections = self.connections.iter().filter(|connection| connection.from == from);
        self.door.check([from, to], connections.count())
    }

    fn read(&mut self, now: Time, at: usize, core: &mut impl Core) {
        let connection = &mut self.connections[at];
        let is_over = match connection.stream.read(&mut self.buffer) {
            Ok(0) => true,
            Ok(len) if connection.life == Life::Open => {
                self.stats.octets_in += len as u64;
                core.handle_octets(now, connection.client, &self.buffer[..len]);
                false
            }
            // The connection is closing: nobody reads these octets.
            Ok(_) => false,
            Err(error) => !is_passing(&error),
        };
        if is_over {
            self.lose(now, at, core);
        }
    }

    /// Moves octets from the core to the kernel until one of them has no more.
    fn write(&mut self, now: Time, at: usize, core: &mut impl Core) {
        let connection = &mut self.connections[at];
        loop {
            if !connection.waits() {
                connection.moved_at = now;
            }
            let is_open = connection.life == Life::Open;
            while is_open
                && connection.unsent.len() - connection.sent < UNSENT
                && core.poll_octets(now, connection.client, &mut connection.unsent)
            {}
            if !connection.waits() {
                break;
            }
            match connection.stream.write(&connection.unsent[connection.sent..]) {
                Ok(len) => {
                    self.stats.octets_out += len as u64;
                    connection.take(now, len);
                }
                Err(error) if is_passing(&error) => return,
                Err(_) => return self.lose(now, at, core),
            }
        }
        if let Life::Flushing { until } = connection.life {
            let _ = connection.stream.shutdown(Shutdown::Write);
            connection.life = Life::Lingering { until };
        }
    }

    fn lose(&mut self, now: Time, at: usize, core: &mut impl Core) {
        let connection = &mut self.connections[at];
        if connection.life == Life::Open {
            self.stats.lost += 1;
            core.handle_disconnected(now, connection.client);
        }
        connection.life = Life::Gone;
    }

    fn forget(&mut self) {
        self.connections.retain(|connection| connection.life != Life::Gone);
    }

    fn position(&self, client: Client) -> Option<usize> {
        self.connections.iter().position(|connection| connection.client == client)
    }
}

impl Connection {
    /// Whether something waits for the kernel.
    fn waits(&self) -> bool {
        self.sent < self.unsent.len()
    }

    fn ends_at(&self) -> Option<Time> {
        match self.life {
            Life::Open => self.waits().then(|| self.moved_at + STALL),
            Life::Flushing { until } | Life::Lingering { until } => Some(until),
            Life::Gone => None,
        }
    }

    fn take(&mut self, now: Time, len: usize) {
        self.moved_at = now;
        self.sent += len;
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        } else if self.sent >= UNSENT {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    probe(stream)
}

/// Lets the kernel find out when the other side has vanished.
pub(crate) fn probe(stream: &TcpStream) -> io::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &PROBE_AFTER)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &PROBE_EVERY)?;
    setsockopt(stream, sockopt::TcpKeepCount, &PROBES)?;
    Ok(())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
