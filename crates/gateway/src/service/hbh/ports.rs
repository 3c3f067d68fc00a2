//! The MANET interfaces by position; HBH waits for absent interfaces.

use anyhow::{Context as _, bail};
use host::Kernel;
use host::fault::{self, Fault};
use host::links::LinkState;
use serde::Serialize;

use super::port::Port;
use crate::config::Hbh;
use crate::linux::device;
use crate::linux::firewall;
use crate::service::Absent;
use crate::sys::Link;

/// Prefix of our devices' names; the position of the MANET interface follows.
const DEVICE: &str = "trackway";

/// All places for interfaces. An interface keeps its position while it is configured.
#[derive(Default)]
pub struct Ports {
    places: Vec<Option<Place>>,
}

/// A configured interface.
struct Place {
    name: String,
    /// The port, or why there is none.
    port: Result<Port, String>,
    /// The fault that makes the interface unusable.
    fault: Option<String>,
}

/// The state of an interface, for an operator.
#[derive(Debug, Serialize)]
pub struct Status {
    name: String,
    is_there: bool,
    /// What is waited for.
    why: Option<String>,
}

impl Ports {
    /// Takes an interface that has no place yet, and returns its position.
    pub fn add(&mut self, name: &str) -> usize {
        let why = "not looked for yet".to_owned();
        let place = Some(Place { name: name.to_owned(), port: Err(why), fault: None });
        match self.places.iter().position(Option::is_none) {
            Some(free) => {
                self.places[free] = place;
                free
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        }
    }

    /// Frees the place of an interface.
    pub fn remove(&mut self, position: usize) {
        self.places[position] = None;
    }

    /// The interface is there.
    pub fn put(&mut self, position: usize, port: Port) {
        if let Some(place) = self.places.get_mut(position).and_then(Option::as_mut) {
            place.port = Ok(port);
            place.fault = None;
        }
    }

    /// The interface is not there; returns whether that is news.
    pub fn take_away(&mut self, position: usize, why: &str) -> bool {
        let Some(place) = self.places.get_mut(position).and_then(Option::as_mut) else {
            return false;
        };
        let is_news = !matches!(&place.port, Err(before) if before == why);
        place.port = Err(why.to_owned());
        place.fault = None;
        is_news
    }

    /// Notes that an interface cannot be used any more, until [`Self::take_fault`] is asked.
    pub fn note_fault(&mut self, position: usize, fault: String) {
        if let Some(place) = self.places.get_mut(position).and_then(Option::as_mut) {
            place.fault = Some(fault);
        }
    }

    /// An interface that cannot be used any more, and why.
    pub fn take_fault(&mut self) -> Option<(usize, String)> {
        let mut places = self.places.iter_mut().enumerate();
        places.find_map(|(position, place)| Some((position, place.as_mut()?.fault.take()?)))
    }

    pub fn get(&self, position: usize) -> Option<&Port> {
        self.places.get(position)?.as_ref()?.port.as_ref().ok()
    }

    pub fn get_mut(&mut self, position: usize) -> Option<&mut Port> {
        self.places.get_mut(position)?.as_mut()?.port.as_mut().ok()
    }

    /// The present interfaces with their positions.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Port)> {
        (0..)
            .zip(&self.places)
            .filter_map(|(at, place)| Some((at, place.as_ref()?.port.as_ref().ok()?)))
    }

    /// The position of the interface with this number.
    pub fn with_index(&self, index: u32) -> Option<usize> {
        self.iter().find(|(_, port)| port.index() == index).map(|(position, _)| position)
    }

    /// The position of the interface with this name, present or absent.
    pub fn with_name(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| place.as_ref().is_some_and(|place| place.name == name))
    }

    /// The range of possible positions.
    pub fn positions(&self) -> std::ops::Range<usize> {
        0..self.places.len()
    }

    /// Names and positions of the absent interfaces.
    pub fn absent(&self) -> Vec<(usize, String)> {
        let places = (0..).zip(&self.places);
        let places = places.filter_map(|(at, place)| Some((at, place.as_ref()?)));
        let absent = places.filter(|(_, place)| place.port.is_err());
        absent.map(|(position, place)| (position, place.name.clone())).collect()
    }

    /// The name of the interface at a position.
    pub fn name(&self, position: usize) -> &str {
        let place = self.places.get(position).and_then(Option::as_ref);
        place.map_or("", |place| &place.name)
    }

    /// What is waited for, in words for an operator.
    pub fn faults(&self) -> Vec<Fault> {
        let absent = |place: &Place| {
            let why = place.port.as_ref().err()?;
            let said = format!("HBH waits for {}: {why}", place.name);
            Some(Fault::new(&fault::INTERFACE, said))
        };
        self.places.iter().flatten().filter_map(absent).collect()
    }

    pub fn status(&self) -> Vec<Status> {
        let status = |place: &Place| Status {
            name: place.name.clone(),
            is_there: place.port.is_ok(),
            why: place.port.as_ref().err().cloned(),
        };
        self.places.iter().flatten().map(status).collect()
    }
}

/// Name of our device for the MANET interface at `position`.
pub fn device(position: usize) -> String {
    format!("{DEVICE}{position}")
}

/// Opens a MANET interface.
///
/// # Errors
/// When it is not there or cannot be used, with the remedy.
pub fn open(
    kernel: &mut Kernel,
    config: &Hbh,
    position: usize,
    name: &str,
) -> anyhow::Result<Port> {
    let Some(state) = LinkState::read(kernel, name)? else {
        bail!(Absent(format!("there is no interface {name}: `ip link` lists those that exist")));
    };
    let Some(mac) = state.mac else {
        bail!(
            "{name} is not an Ethernet-like interface: HBH knows neighbours by their hardware \
             addresses"
        );
    };
    let link = Link::open(
        state.index,
        config.core.protocol,
        config.limits.send_buffer,
        firewall::MARK.value(),
    )
    .map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "no right to open packet sockets: run as root or with CAP_NET_RAW and \
                 CAP_NET_ADMIN"
        ),
        _ => anyhow::anyhow!("cannot open a packet socket on {name}: {error}"),
    })?;
    let (tap, device) = device::open_tap(kernel, &device(position), mac, state.index)
        .with_context(|| format!("for {name}"))?;
    Ok(Port::new(name.to_owned(), mac, state, link, (tap, device)))
}
