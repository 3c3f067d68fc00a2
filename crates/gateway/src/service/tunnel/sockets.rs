//! The sockets that peers send to, one for each address of `listen`, and which of them a datagram leaves from: the
//! one that the peer sends to, at first one that suits it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;

use crate::config::{self, versions};
use crate::linux::claims::MARK;
use crate::sys::{Arrivals, Head, Outbox, Udp};

/// No socket is full.
const NONE: usize = usize::MAX;

/// The sockets.
pub(super) struct Sockets {
    all: Vec<Socket>,
    /// The place of the one that is full and has to be waited for.
    blocked: AtomicUsize,
}

struct Socket {
    at: SocketAddr,
    udp: Udp,
}

/// Where a datagram came to, and where its answers leave from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Way {
    /// The place of the socket.
    pub(super) socket: usize,
    /// The address of this host, as far as the kernel tells.
    pub(super) source: Option<IpAddr>,
}

impl Sockets {
    /// # Errors
    /// When one cannot be had, with the remedy.
    pub(super) fn open(config: &config::Tunnel) -> anyhow::Result<Self> {
        let mut all = Vec::with_capacity(config.listen.len());
        for &at in &config.listen {
            let udp = Udp::open_for(at, versions(at, &config.listen)).with_context(|| {
                let remedy =
                    if at.is_ipv6() { " (without IPv6 leave it out of tunnel.listen)" } else { "" };
                format!("cannot open a UDP socket on {at}{remedy}")
            })?;
            // What it sends goes where it would without the tunnel.
            udp.mark(MARK).context("cannot mark what is sent: CAP_NET_ADMIN is needed")?;
            // Older kernels say less, and datagrams leave from where the kernel chooses.
            let _ = udp.tell_destinations();
            all.push(Socket { at, udp });
        }
        Ok(Self { all, blocked: AtomicUsize::new(NONE) })
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|socket| socket.udp.as_fd())
    }

    /// The place of the one that is full.
    pub(super) fn blocked(&self) -> Option<usize> {
        Some(self.blocked.load(Ordering::SeqCst)).filter(|place| *place != NONE)
    }

    /// The one that is full.
    pub(super) fn blocked_fd(&self) -> Option<BorrowedFd<'_>> {
        self.all.get(self.blocked()?).map(|socket| socket.udp.as_fd())
    }

    /// Takes what waits at one of them, at most a batch, and returns how many messages there are.
    ///
    /// # Errors
    /// When the socket is broken.
    pub(super) fn receive(&self, socket: usize, arrivals: &mut Arrivals) -> anyhow::Result<usize> {
        let Socket { at, udp } = &self.all[socket];
        udp.receive(arrivals).with_context(|| format!("reading the socket on {at}"))
    }

    /// Whether IPv4 and IPv6 can be sent.
    pub(super) fn versions(&self) -> [bool; 2] {
        let has = |version: usize| self.all.iter().any(|socket| socket.udp.versions()[version]);
        [has(0), has(1)]
    }

    /// The address and port of a way, as far as they are known.
    pub(super) fn local(&self, way: Way) -> SocketAddr {
        let at = self.all[way.socket].at;
        SocketAddr::new(way.source.unwrap_or(at.ip()), at.port())
    }

    /// The way to an address: the one that was taken last if it leads there, else one that suits it: the only one of
    /// its version; that at the address which the kernel would choose; that at all addresses; any.
    pub(super) fn way(&self, to: SocketAddr, last: Option<Way>) -> Option<Way> {
        let serves = |socket: &Socket| socket.udp.versions()[usize::from(to.is_ipv6())];
        if let Some(way) = last.filter(|way| serves(&self.all[way.socket])) {
            let source = way.source.filter(|source| source.is_ipv6() == to.is_ipv6());
            return Some(Way { source, ..way });
        }
        let fitting = || self.all.iter().enumerate().filter(|(_, socket)| serves(socket));
        let chosen = if fitting().count() > 1 {
            let source = Udp::route_source(to, MARK).ok();
            let is_its = |(_, socket): &(usize, &Socket)| Some(socket.at.ip()) == source;
            let is_any = |(_, socket): &(usize, &Socket)| socket.at.ip().is_unspecified();
            fitting().find(is_its).or_else(|| fitting().find(is_any))
        } else {
            None
        };
        let (socket, _) = chosen.or_else(|| fitting().next())?;
        Some(Way { socket, source: None })
    }

    /// Sends what is in `outbox`; returns whether all of it is gone. Otherwise that socket has to be waited for, and
    /// what is for others waits with it.
    pub(super) fn send(&self, socket: usize, outbox: &mut Outbox) -> bool {
        let is_sent = self.all[socket].udp.send(outbox);
        self.blocked.store(if is_sent { NONE } else { socket }, Ordering::SeqCst);
        is_sent
    }

    /// Sends a datagram of its own; returns whether the kernel took it.
    pub(super) fn send_alone(&self, to: SocketAddr, last: Option<Way>, datagram: &[u8]) -> bool {
        self.way(to, last).is_some_and(|way| {
            let head = Head { class: None, source: way.source };
            self.all[way.socket].udp.send_alone(to, head, datagram)
        })
    }
}
