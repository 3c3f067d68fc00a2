//! The sockets that peers send to, one for each address of `listen`. Chooses the socket for each datagram: the
//! socket that the peer sends to, and at first a suitable one.
//!
//! Beside each is a socket without a port. When calls are in vain for long, this socket gets a new port each time, in
//! case an address translator on the way keeps a dead mapping for the port of `listen`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use anyhow::Context as _;
use host::MARK;

use crate::config::{self, versions};
use crate::sys::{Arrivals, Head, Outbox, Udp};
use tracing::debug;

/// No socket is full.
const NONE: usize = usize::MAX;

/// The sockets.
pub struct Sockets {
    /// The sockets at the addresses of `listen`, then as many for fresh ports.
    all: Vec<Socket>,
    /// The place of the full socket to wait for.
    blocked: AtomicUsize,
}

struct Socket {
    at: SocketAddr,
    /// The socket's port; 0 for an unused socket for fresh ports.
    port: AtomicU16,
    udp: Udp,
}

/// Where a datagram came to, and where its answers leave from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Way {
    /// The place of the socket.
    pub socket: usize,
    /// The address of this host, if the kernel tells.
    pub source: Option<IpAddr>,
    /// The number of the interface that a datagram came by, or has to leave by whatever routes say.
    pub interface: Option<u32>,
}

impl Way {
    /// The same by whatever interface routes say.
    pub fn by_routes(self) -> Self {
        Self { interface: None, ..self }
    }
}

impl Sockets {
    /// # Errors
    /// When one cannot be had, with the remedy.
    pub fn open(config: &config::Tunnel) -> anyhow::Result<Self> {
        let mut all = Vec::with_capacity(2 * config.listen.len());
        let listening = config.listen.iter().map(|at| (*at, true));
        for (at, is_bound) in listening.chain(config.listen.iter().map(|at| (*at, false))) {
            let open = if is_bound { Udp::open_for } else { Udp::open_unbound };
            let udp = open(at, versions(at, &config.listen)).with_context(|| {
                let remedy =
                    if at.is_ipv6() { " (without IPv6 leave it out of tunnel.listen)" } else { "" };
                format!("cannot open a UDP socket on {at}{remedy}")
            })?;
            // Marked datagrams are routed as if there were no tunnel.
            udp.mark(MARK.value()).context("cannot mark what is sent: CAP_NET_ADMIN is needed")?;
            // Older kernels say less, and datagrams leave from where the kernel chooses.
            let _ = udp.tell_destinations();
            let port = AtomicU16::new(if is_bound { at.port() } else { 0 });
            all.push(Socket { at, port, udp });
        }
        Ok(Self { all, blocked: AtomicUsize::new(NONE) })
    }

    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|socket| socket.udp.as_fd())
    }

    /// The place of the full socket.
    pub fn blocked(&self) -> Option<usize> {
        Some(self.blocked.load(Ordering::SeqCst)).filter(|place| *place != NONE)
    }

    /// The one that is full.
    pub fn blocked_fd(&self) -> Option<BorrowedFd<'_>> {
        self.all.get(self.blocked()?).map(|socket| socket.udp.as_fd())
    }

    /// Receives datagrams waiting at one socket, at most a batch, and returns the number of messages.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive(&self, socket: usize, arrivals: &mut Arrivals) -> anyhow::Result<usize> {
        let Socket { at, udp, .. } = &self.all[socket];
        udp.receive(arrivals).with_context(|| format!("reading the socket on {at}"))
    }

    /// Whether IPv4 and IPv6 can be sent.
    pub fn versions(&self) -> [bool; 2] {
        let has = |version: usize| self.all.iter().any(|socket| socket.udp.versions()[version]);
        [has(0), has(1)]
    }

    /// Our address and port on a way, if known.
    pub fn local(&self, way: Way) -> SocketAddr {
        let Socket { at, port, .. } = &self.all[way.socket];
        SocketAddr::new(way.source.unwrap_or(at.ip()), port.load(Ordering::Relaxed))
    }

    /// Whether a socket of the tunnel has this port.
    pub fn has_port(&self, port: u16) -> bool {
        port != 0 && self.all.iter().any(|it| it.port.load(Ordering::Relaxed) == port)
    }

    /// The number of sockets at the addresses of `listen`; ways by other sockets are from fresh ports.
    pub fn listening(&self) -> usize {
        self.all.len() / 2
    }

    /// The way to an address from a fresh port: from another than before if it `is_new`, or if there is none yet.
    pub fn fresh_way(&self, to: SocketAddr, is_new: bool) -> Option<Way> {
        let way = self.way(to, None)?;
        let way = Way { socket: way.socket + self.listening(), ..way };
        let Socket { at, port, udp } = self.all.get(way.socket)?;
        if is_new || port.load(Ordering::Relaxed) == 0 {
            match udp.bind_anew(at.ip()) {
                Ok(number) => port.store(number, Ordering::Relaxed),
                Err(error) => {
                    port.store(0, Ordering::Relaxed);
                    debug!(%at, %error, "no fresh port");
                    return None;
                }
            }
        }
        Some(way)
    }

    /// Nobody needs a fresh port any more.
    pub fn forget_fresh(&self) {
        for Socket { at, port, udp } in &self.all[self.listening()..] {
            if port.swap(0, Ordering::Relaxed) != 0
                && let Err(error) = udp.unbind()
            {
                debug!(%at, %error, "a fresh port is kept");
            }
        }
    }

    /// The way to an address: the last way if it leads there, else the first suitable socket in this order: the only
    /// socket for the version of IP; the socket at the address that the kernel would choose; the socket at all
    /// addresses; any.
    pub fn way(&self, to: SocketAddr, last: Option<Way>) -> Option<Way> {
        let serves = |socket: &Socket| socket.udp.versions()[usize::from(to.is_ipv6())];
        if let Some(way) = last.filter(|way| serves(&self.all[way.socket])) {
            let source = way.source.filter(|source| source.is_ipv6() == to.is_ipv6());
            return Some(Way { source, ..way });
        }
        let listening = &self.all[..self.listening()];
        let fitting = || listening.iter().enumerate().filter(|(_, socket)| serves(socket));
        let chosen = if fitting().count() > 1 {
            let source = Udp::route_source(to, MARK.value()).ok();
            let is_its = |(_, socket): &(usize, &Socket)| Some(socket.at.ip()) == source;
            let is_any = |(_, socket): &(usize, &Socket)| socket.at.ip().is_unspecified();
            fitting().find(is_its).or_else(|| fitting().find(is_any))
        } else {
            None
        };
        let (socket, _) = chosen.or_else(|| fitting().next())?;
        Some(Way { socket, source: None, interface: None })
    }

    /// Whether a socket is at this address alone.
    pub fn is_at(&self, address: IpAddr) -> bool {
        self.all[..self.listening()].iter().any(|socket| socket.at.ip() == address)
    }

    /// The way to an address from an address of this host, by an interface; `None` if no socket would receive the answers.
    pub fn way_from(
        &self,
        to: SocketAddr,
        source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> Option<Way> {
        let listening = &self.all[..self.listening()];
        let place = |takes: &dyn Fn(&Socket) -> bool| {
            let serves = |socket: &Socket| socket.udp.versions()[usize::from(to.is_ipv6())];
            listening.iter().position(|socket| serves(socket) && takes(socket))
        };
        let is_its = |socket: &Socket| Some(socket.at.ip()) == source;
        let is_any = |socket: &Socket| socket.at.ip().is_unspecified();
        let is_left = |_: &Socket| source.is_none() && interface.is_none();
        let socket = place(&is_its).or_else(|| place(&is_any)).or_else(|| place(&is_left))?;
        Some(Way { socket, source, interface })
    }

    /// Sends the datagrams in `outbox`; returns whether all are gone. Otherwise the socket has to be waited for, and
    /// datagrams for other sockets wait as well.
    pub fn send(&self, socket: usize, outbox: &mut Outbox) -> bool {
        let is_sent = self.all[socket].udp.send(outbox);
        self.blocked.store(if is_sent { NONE } else { socket }, Ordering::SeqCst);
        is_sent
    }

    /// Whether a rule of this host has refused datagrams since this was last asked.
    pub fn take_forbidden(&self) -> bool {
        self.all.iter().fold(false, |is_one, socket| socket.udp.take_forbidden() | is_one)
    }

    /// Sends a single datagram; returns whether the kernel took the datagram.
    pub fn send_alone(&self, to: SocketAddr, last: Option<Way>, datagram: &[u8]) -> bool {
        self.way(to, last).is_some_and(|way| {
            let head = Head { class: None, source: way.source, interface: way.interface };
            self.all[way.socket].udp.send_alone(to, head, datagram)
        })
    }
}
