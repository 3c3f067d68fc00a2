//! Where connections of clients come in: diverted from their way to a far network, or made to a port
//! of ours that stands for one target.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags};
use tracing::warn;

use crate::config::HfPep;
use crate::config::hfpep::{Far, Peer};
use crate::linux::divert::{Diversion, Plan};
use crate::linux::tcp::start_listening;
use crate::reactor::has_input;

/// Connections taken from a listener before others have their turn.
const ACCEPTS: usize = 64;

/// What takes connections in.
#[derive(Debug)]
pub(super) struct Entry {
    diversion: Option<Diversion>,
    listeners: Vec<Listener>,
    peers: Vec<Peer>,
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
        Ok(Self { diversion, listeners, peers })
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

    /// The connections that have come; `ready` answers [`Self::watch`].
    ///
    /// # Errors
    /// When the diversion has ended.
    pub(super) fn handle_ready(&mut self, ready: &[PollFlags]) -> anyhow::Result<Vec<Arrived>> {
        if let (Some(diversion), Some(last)) = (&mut self.diversion, ready.last())
            && has_input(*last)
        {
            let said = diversion.complaints()?;
            warn!(%said, "nft complains");
        }
        let mut arrived = Vec::new();
        for (listener, ready) in self.listeners.iter().zip(ready) {
            if has_input(*ready) {
                self.accept(listener, &mut arrived);
            }
        }
        Ok(arrived)
    }

    fn accept(&self, listener: &Listener, arrived: &mut Vec<Arrived>) {
        for _ in 0..ACCEPTS {
            let (stream, client) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted)
                    {
                        warn!(%error, "no connection can be taken");
                    }
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (far, target) = match listener.fixed {
                Some((far, target)) => (Some(far), target),
                // A diverted connection has the address that it was made to.
                None => match stream.local_addr() {
                    Ok(target) => (self.far_of(target), target),
                    Err(_) => continue,
                },
            };
            arrived.push(Arrived { stream, client, far, target });
        }
    }

    fn far_of(&self, target: SocketAddr) -> Option<Far> {
        self.peers.iter().find(|peer| peer.to.contains(target.ip())).map(|peer| peer.far)
    }
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
