//! Finds by which interface and from which address the further paths to peers leave, as these come and go.

use std::io;
use std::net::{IpAddr, SocketAddr};

use host::Kernel;
use host::links::{self, LinkState};
use host::routes::{NextHop, Routes};
use host::{MARK, Observer};
use tunnel::PathId;
use tunnel::secure::PeerId;

use super::Shared;
use super::sockets::{Sockets, Way};
use crate::config::Further;

/// A further path as configured, and where it leads.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub peer: PeerId,
    pub path: PathId,
    pub config: Further,
    /// `None` while nobody knows where the peer is.
    pub to: Option<SocketAddr>,
}

/// How a further path can be used now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// Where it leads.
    pub to: SocketAddr,
    /// By which its datagrams leave.
    pub way: Way,
    /// Octets of the longest outer packet on the first link.
    pub max_mtu: usize,
}

/// Asks the kernel.
pub struct Finder {
    kernel: Kernel,
    routes: Routes,
}

impl Finder {
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        Ok(Self { kernel: Kernel::open()?, routes: Routes::open()? })
    }

    /// Looks at all further paths again, and tells the peers' state of them.
    pub fn follow(&mut self, shared: &Shared) {
        let wanted = shared.state().wanted_paths();
        if wanted.is_empty() {
            return;
        }
        let found: Vec<_> = wanted
            .into_iter()
            .map(|wanted| {
                let found = self.find(&shared.observer, &shared.sockets, &wanted);
                (wanted.peer, wanted.path, found)
            })
            .collect();
        let mut state = shared.state();
        let now = shared.now();
        for (peer, path, found) in found {
            state.handle_found(now, peer, path, found);
        }
        shared.settle(state, now);
    }

    /// How to use a path now, or why it has to wait.
    fn find(
        &mut self,
        observer: &Observer,
        sockets: &Sockets,
        wanted: &Wanted,
    ) -> Result<Found, String> {
        let Further { interface, local, endpoint, .. } = &wanted.config;
        let to = match endpoint {
            Some(endpoint) => endpoint.located().map_err(|why| why.to_string())?,
            None => wanted.to,
        };
        let to = to.ok_or("the address of the peer is not known yet")?;
        let ip = to.ip().to_canonical();
        let link = match (interface, local) {
            (Some(name), _) => Some(self.link(name)?),
            (None, Some(local)) => self.link_with(observer, *local)?,
            (None, None) => None,
        };
        let source = match (local, &link) {
            (Some(local), Some(link)) if !link.addresses.contains(local) => {
                let name = links::name(link.index);
                return Err(format!("{local} is no address of the interface {name}"));
            }
            (Some(local), _) => Some(*local),
            (None, Some(link)) => {
                let is_usable = |it: &&IpAddr| it.is_ipv4() == ip.is_ipv4();
                let mut usable = link.addresses.iter().filter(is_usable).peekable();
                if usable.peek().is_none() {
                    let version = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
                    let name = links::name(link.index);
                    return Err(format!("the interface {name} has no address of {version}"));
                }
                // Where all addresses are listened at, the kernel knows best which of them it is.
                usable.copied().find(|address| sockets.is_at(*address))
            }
            (None, None) => None,
        };
        let index = link.as_ref().map(|link| link.index);
        let has_route = match index {
            Some(index) => self.routes.leads_by(index, ip, MARK.value()),
            None => self.routes.marked(ip, MARK.value()) != NextHop::Nowhere,
        };
        if !has_route {
            let by = index.map(|it| format!(" by the interface {}", links::name(it)));
            return Err(format!("no route{} leads to {ip}", by.unwrap_or_default()));
        }
        let Some(way) = sockets.way_from(to, source, index) else {
            return Err(match source {
                Some(source) => format!("no address of `listen` takes what comes to {source}"),
                None => format!("no address of `listen` is of the version of {ip}"),
            });
        };
        let max_mtu = self.routes.first_link_mtu(to, index, MARK.value());
        let max_mtu = max_mtu.map_err(|why| format!("its MTU is not known: {why}"))?;
        Ok(Found { to, way, max_mtu })
    }

    /// An interface that is up.
    fn link(&mut self, name: &str) -> Result<LinkState, String> {
        match LinkState::read(&mut self.kernel, name) {
            Ok(Some(link)) if link.is_running => Ok(link),
            Ok(Some(_)) => Err(format!("the interface {name} is down, or has no carrier")),
            Ok(None) => Err(format!("there is no interface {name}")),
            Err(why) => Err(format!("the kernel tells nothing of the interface {name}: {why}")),
        }
    }

    /// The interface with an address; none if the address is on the loopback interface, from where routes lead on.
    fn link_with(
        &mut self,
        observer: &Observer,
        local: IpAddr,
    ) -> Result<Option<LinkState>, String> {
        let places = observer.places();
        let Some((index, ..)) = places.into_iter().find(|(_, address, _)| *address == local) else {
            return Err(format!("{local} is no address of this host"));
        };
        match &links::name(index)[..] {
            "lo" => Ok(None),
            name => self.link(name).map(Some),
        }
    }
}
