//! Maps ports and addresses to stations for media whose stations are ports, and schedules the wake-ups of media.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Index;

use base::time::Time;

use super::{Delivery, LinkAddress};
use crate::ids::PortId;

/// The port of each station, the station of each port, and the port of each address.
#[derive(Debug, Default)]
pub struct Stations {
    ports: Vec<PortId>,
    /// By the port's number.
    stations: Vec<Option<usize>>,
    addresses: BTreeMap<IpAddr, PortId>,
}

impl Stations {
    /// Makes a port the next station.
    pub fn attach(&mut self, port: PortId) {
        let station = self.ports.len();
        self.ports.push(port);
        if self.stations.len() <= port.index() {
            self.stations.resize(port.index() + 1, None);
        }
        self.stations[port.index()] = Some(station);
    }

    /// Learns that a port has an address.
    pub fn handle_address(&mut self, port: PortId, address: IpAddr) {
        self.addresses.insert(address, port);
    }

    /// The number of a port's station, from 0 in the order of [`Stations::attach`].
    pub fn of(&self, port: PortId) -> Option<usize> {
        self.stations.get(port.index()).copied().flatten()
    }

    /// The ports of all stations, in the order of their numbers.
    pub fn ports(&self) -> &[PortId] {
        &self.ports
    }

    /// The link address for sending to the port with this IP address.
    pub fn resolve(&self, address: IpAddr) -> Option<LinkAddress> {
        self.addresses.get(&address).copied().map(LinkAddress::Port)
    }
}

/// The port of a station.
impl Index<usize> for Stations {
    type Output = PortId;

    fn index(&self, station: usize) -> &PortId {
        &self.ports[station]
    }
}

/// The next event for which a medium has asked, if any.
#[derive(Debug, Default)]
pub struct WakeUp {
    at: Option<Time>,
}

impl WakeUp {
    /// Asks for an event at `next`, and not before now; none if an earlier event is on its way.
    pub fn plan(&mut self, delivery: &mut Delivery<'_>, next: Option<Time>) {
        let Some(next) = next.map(|next| next.max(delivery.now())) else { return };
        if self.at.is_none_or(|at| at > next) {
            self.at = Some(next);
            delivery.wake(next, 0);
        }
    }

    /// Whether the event of this time still matters: an earlier event may have replaced it.
    pub fn take(&mut self, now: Time) -> bool {
        self.at.take_if(|at| *at == now).is_some()
    }
}
