//! The interfaces that the protocol is spoken on: their sockets, and what comes and goes.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context as _;
use base::ip::Prefix;
use host::Kernel;
use host::fault::{self, Fault};
use host::links::LinkState;
use manet::{Neighbour, Sending};
use serde::Serialize;

use crate::linux::manet::Manet;

/// All interfaces that the configuration names, each at a place of its own.
#[derive(Debug, Default)]
pub struct Ports {
    places: Vec<Place>,
}

/// A configured interface, and its socket while usable.
#[derive(Debug)]
struct Place {
    /// Empty if the interface is no longer configured.
    name: String,
    port: Option<Port>,
    /// Why there is no socket.
    why: String,
    /// Whether the socket was refused: that does not mend itself.
    is_refused: bool,
}

/// An interface that can be used.
#[derive(Debug)]
pub struct Port {
    /// Its number in the kernel.
    index: u32,
    address: Ipv4Addr,
    mtu: usize,
    socket: Manet,
    /// A message that the interface had no room for.
    unsent: Option<(Sending, Vec<u8>)>,
}

/// What an operator is told.
#[derive(Debug, Serialize)]
pub struct Status {
    name: String,
    address: Option<Ipv4Addr>,
    /// Why it is not used.
    why: Option<String>,
}

impl Port {
    /// Its number in the kernel.
    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub fn mtu(&self) -> usize {
        self.mtu
    }

    pub fn socket(&self) -> &Manet {
        &self.socket
    }

    /// Whether a message waits until the interface has room.
    pub fn is_full(&self) -> bool {
        self.unsent.is_some()
    }

    /// Sends a new message, or one that waited before; returns whether the interface took it. A message that finds no
    /// room waits here.
    ///
    /// # Errors
    /// When the interface refuses it.
    pub fn send(&mut self, sending: Sending, message: &[u8]) -> io::Result<bool> {
        let is_sent = self.socket.send(self.address, sending.to, sending.ttl, message)?;
        if !is_sent {
            self.unsent = Some((sending, message.to_vec()));
        }
        Ok(is_sent)
    }

    /// Takes the message that found no room.
    pub fn take_unsent(&mut self) -> Option<(Sending, Vec<u8>)> {
        self.unsent.take()
    }
}

impl Ports {
    /// Names an interface; returns its place.
    pub fn add(&mut self, name: &str) -> usize {
        self.places.push(Place {
            name: name.to_owned(),
            port: None,
            why: String::new(),
            is_refused: false,
        });
        self.places.len() - 1
    }

    /// Forgets an interface; its place stays empty.
    pub fn remove(&mut self, position: usize) {
        if let Some(place) = self.places.get_mut(position) {
            place.name.clear();
            place.port = None;
        }
    }

    /// The places of the interfaces that are named, and their names.
    pub fn named(&self) -> Vec<(usize, String)> {
        let named = self.places.iter().enumerate().filter(|(_, place)| !place.name.is_empty());
        named.map(|(position, place)| (position, place.name.clone())).collect()
    }

    /// Those that can be used.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Port)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(position, place)| Some((position, place.port.as_ref()?)))
    }

    pub fn get(&self, position: usize) -> Option<&Port> {
        self.places.get(position)?.port.as_ref()
    }

    pub fn get_mut(&mut self, position: usize) -> Option<&mut Port> {
        self.places.get_mut(position)?.port.as_mut()
    }

    /// The place of the interface with this number.
    pub fn with_index(&self, index: u32) -> Option<usize> {
        self.iter().find(|(_, port)| port.index == index).map(|(position, _)| position)
    }

    /// The kernel's number of a neighbour's interface.
    pub fn index_towards(&self, neighbour: Neighbour) -> Option<u32> {
        self.get(neighbour.interface).map(|port| port.index)
    }

    /// Looks at an interface again; returns whether it is another now, and why it cannot be used.
    pub fn look(
        &mut self,
        kernel: &mut Kernel,
        position: usize,
        manet: Option<Prefix>,
        number: u16,
    ) -> (bool, Option<String>) {
        let Some(place) = self.places.get_mut(position) else { return (false, None) };
        let before = place.port.take();
        let had_port = before.is_some();
        place.is_refused = false;
        let used = before.as_ref().map(|port| port.address);
        let why = match find(kernel, &place.name, manet, used) {
            Ok(found) => match found.open(&place.name, number, before) {
                Ok((port, has_changed)) => {
                    place.port = Some(port);
                    place.why.clear();
                    return (has_changed, None);
                }
                Err(why) => {
                    place.is_refused = true;
                    why
                }
            },
            Err(why) => why,
        };
        let why = format!("{why:#}");
        let is_other = had_port || why != place.why;
        place.why.clone_from(&why);
        (is_other, Some(why))
    }

    /// Why a socket was refused, if one was.
    pub fn refusal(&self) -> Option<&str> {
        self.places.iter().find(|place| place.is_refused).map(|place| &place.why[..])
    }

    /// The name of the interface at a place; empty when none is.
    pub fn name(&self, position: usize) -> &str {
        self.places.get(position).map_or("", |place| &place.name)
    }

    /// What is waited for, if anything is.
    pub fn fault(&self) -> Option<String> {
        let absent = self.places.iter().filter(|it| !it.name.is_empty() && it.port.is_none());
        let names: Vec<_> = absent.map(|place| &place.name[..]).collect();
        (!names.is_empty()).then(|| format!("waits for {}", names.join(", ")))
    }

    /// What is waited for, in words for an operator.
    pub fn faults(&self) -> Vec<Fault> {
        let absent = self.places.iter().filter(|it| !it.name.is_empty() && it.port.is_none());
        let said = |place: &Place| format!("routing waits for {}: {}", place.name, place.why);
        absent.map(|place| Fault::new(&fault::INTERFACE, said(place))).collect()
    }

    /// Whether each interface that is named can be used.
    pub fn is_complete(&self) -> bool {
        self.places.iter().all(|place| place.name.is_empty() || place.port.is_some())
    }

    pub fn status(&self) -> Vec<Status> {
        let named = self.places.iter().filter(|place| !place.name.is_empty());
        named
            .map(|Place { name, port, why, .. }| Status {
                name: name.clone(),
                address: port.as_ref().map(|port| port.address),
                why: port.is_none().then(|| why.clone()),
            })
            .collect()
    }
}

/// An interface as found in the kernel.
struct Found {
    index: u32,
    mtu: usize,
    address: Ipv4Addr,
}

impl Found {
    /// Opens a socket for the interface, or keeps the previous socket if it still serves; returns also whether the port
    /// has changed.
    fn open(self, name: &str, number: u16, before: Option<Port>) -> anyhow::Result<(Port, bool)> {
        let Self { index, mtu, address } = self;
        if let Some(port) = before.filter(|port| port.index == index) {
            let has_changed = port.address != address || port.mtu != mtu;
            return Ok((Port { address, mtu, ..port }, has_changed));
        }
        let socket = Manet::open(name, number).with_context(|| {
            format!(
                "no socket for UDP port {number} on {name}: another routing daemon may have it \
                 (`ss -ulpn`), or root, CAP_NET_RAW or CAP_NET_BIND_SERVICE is missing"
            )
        })?;
        Ok((Port { index, address, mtu, socket, unsent: None }, true))
    }
}

/// The address in use stays in use as long as the interface has it; before, the first is taken.
fn find(
    kernel: &mut Kernel,
    name: &str,
    manet: Option<Prefix>,
    used: Option<Ipv4Addr>,
) -> anyhow::Result<Found> {
    let state = LinkState::read(kernel, name)?.with_context(|| {
        format!("there is no interface {name}: `ip link` lists those that exist")
    })?;
    anyhow::ensure!(state.is_running, "{name} is down, or has no carrier");
    let fitting = |address: &IpAddr| match address {
        IpAddr::V4(v4) if manet.is_none_or(|manet| manet.contains(*address)) => Some(*v4),
        _ => None,
    };
    let all: Vec<_> = state.addresses.iter().filter_map(fitting).collect();
    let address = used.filter(|used| all.contains(used)).or(all.first().copied());
    let address = address.with_context(|| match manet {
        Some(manet) => format!("{name} has no address in {manet}: `ip address add` gives it one"),
        None => format!("{name} has no IPv4 address: `ip address add` gives it one"),
    })?;
    Ok(Found { index: state.index, mtu: state.mtu, address })
}
