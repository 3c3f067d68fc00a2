//! Where connections of clients come in: diverted from their way to a far network, or made to a port
//! of ours that stands for one target.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use proto::time::Time;
use tracing::warn;

use crate::config::HfPep;
use crate::config::hfpep::{Far, Peer};
use crate::linux::divert::{Diversion, Plan};
use crate::linux::tcp::start_listening;
use crate::reactor::has_input;
use crate::service::complaints::{Complaints, Subject};

use super::wire::reset_when_closed;

/// Connections taken from a listener before others have their turn.
const ACCEPTS: usize = 64;

/// What takes connections in.
#[derive(Debug)]
pub(super) struct Entry {
    diversion: Option<Diversion>,
    listeners: Vec<Listener>,
    peers: Vec<Peer>,
    gate: Gate,
}

/// What takes connections where descriptors may run out.
#[derive(Debug, Default)]
struct Gate {
    /// Given up to take a connection, and reset it, when there is no other descriptor: a connection
    /// that nobody takes would wake us up for ever.
    spare: Option<File>,
    turned_away: u64,
    complaints: Complaints,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    /// Who has the target that it stands for, and that; `None` for diverted connections, which say so themselves.
    fixed: Option<(Far, SocketAddr)>,
}

/// A connection that a client has made.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) stream: TcpStream,
    /// Who made it.
    pub(super) client: SocketAddr,
    /// Who has the target, if anybody.
    pub(super) far: Option<Far>,
    /// To whom.
    pub(super) target: SocketAddr,
}

impl Entry {
    /// # Errors
    /// When an address is taken or a right or program is missing, with the remedy.
    pub(super) fn open(config: &HfPep) -> anyhow::Result<Self> {
        let mut listeners = Vec::new();
        for listener in &config.listeners {
            let socket = start_listening(listener.at, false)
                .with_context(|| format!("cannot listen on {}", listener.at))?;
            listeners.push(Listener { socket, fixed: Some((listener.far, listener.target)) });
        }
        let mut peers = config.peers.clone();
        // The longest prefix that contains an address is the first one.
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.to.bits()));
        let diversion = if peers.is_empty() { None } else { Some(divert(config, &mut listeners)?) };
        let gate = Gate { spare: spare(), ..Gate::default() };
        Ok(Self { diversion, listeners, peers, gate })
    }

    /// How many descriptors [`Self::watch`] appends.
    pub(super) fn watched(&self) -> usize {
        self.listeners.len() + usize::from(self.diversion.is_some())
    }

    /// Appends what to wait for.
    pub(super) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let listeners = self.listeners.iter().map(|listener| listener.socket.as_fd());
        let diversion = self.diversion.iter().map(|diversion| diversion.as_fd());
        fds.extend(listeners.chain(diversion).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    }

    /// Connections that were reset because no descriptor was left.
    pub(super) fn turned_away(&self) -> u64 {
        self.gate.turned_away
    }

    /// The connections that have come; `ready` answers [`Self::watch`].
    ///
    /// # Errors
    /// When the diversion has ended.
    pub(super) fn handle_ready(
        &mut self,
        now: Time,
        ready: &[PollFlags],
    ) -> anyhow::Result<Vec<Arrived>> {
        if let (Some(diversion), Some(last)) = (&mut self.diversion, ready.last())
            && has_input(*last)
        {
            let said = diversion.complaints()?;
            warn!(%said, "nft complains");
        }
        let mut arrived = Vec::new();
        for (listener, ready) in self.listeners.iter().zip(ready) {
            if has_input(*ready) {
                accept(listener, &self.peers, &mut self.gate, now, &mut arrived);
            }
        }
        Ok(arrived)
    }
}

/// Takes connections of a listener.
fn accept(
    listener: &Listener,
    peers: &[Peer],
    gate: &mut Gate,
    now: Time,
    arrived: &mut Vec<Arrived>,
) {
    for _ in 0..ACCEPTS {
        let Some((stream, client)) = gate.accept(now, &listener.socket) else { return };
        if stream.set_nonblocking(true).is_err() {
            continue;
        }
        let (far, target) = match listener.fixed {
            Some((far, target)) => (Some(far), target),
            // A diverted connection has the address that it was made to.
            None => match stream.local_addr() {
                Ok(target) => (far_of(peers, target), target),
                Err(_) => continue,
            },
        };
        arrived.push(Arrived { stream, client, far, target });
    }
}

fn far_of(peers: &[Peer], target: SocketAddr) -> Option<Far> {
    peers.iter().find(|peer| peer.to.contains(target.ip())).map(|peer| peer.far)
}

impl Gate {
    /// The next connection of a listener, if there is one and a descriptor for it.
    fn accept(&mut self, now: Time, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        let error = match listener.accept() {
            Ok(accepted) => return Some(accepted),
            Err(error) => error,
        };
        let is_passing = matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::ConnectionAborted | ErrorKind::Interrupted
        );
        if is_passing {
            return None;
        }
        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            self.spare = None;
            if let Ok((stream, _)) = listener.accept() {
                reset_when_closed(&stream, true);
                self.turned_away += 1;
            }
            self.spare = spare();
        }
        if let Some(left_out) = self.complaints.admit(now, Subject::NoDescriptor) {
            warn!(%error, left_out, "a connection cannot be taken, and is reset: raise LimitNOFILE");
        }
        None
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn divert(config: &HfPep, listeners: &mut Vec<Listener>) -> anyhow::Result<Diversion> {
    let mut ports = [0; 2];
    let hosts = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for (port, host) in ports.iter_mut().zip(hosts) {
        let is_v6 = |peer: &Peer| peer.to.address().is_ipv6();
        if !config.peers.iter().any(|peer| is_v6(peer) == SocketAddr::new(host, 0).is_ipv6()) {
            continue;
        }
        let socket = start_listening(SocketAddr::new(host, 0), true)
            .context("cannot take others' connections: root or CAP_NET_ADMIN is needed")?;
        *port = socket.local_addr().context("where diverted connections come in")?.port();
        listeners.push(Listener { socket, fixed: None });
    }
    Diversion::set_up(&Plan {
        networks: config.peers.iter().map(|peer| peer.to).collect(),
        interfaces: config.interfaces.clone(),
        ports,
    })
}
