//! Maps Internet hosts to gateways; a half tunnel carries packets for a host to its gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use base::time::Time;

/// Internet hosts that were asked for.
#[derive(Debug, Default)]
pub struct Hosts {
    hosts: BTreeMap<Ipv4Addr, Host>,
    /// Hosts whose route may be another one than the driver knows.
    changed: BTreeSet<Ipv4Addr>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    gateway: Ipv4Addr,
    until: Time,
}

impl Hosts {
    /// Reaches a host through a gateway from now on; false if the table is full.
    #[must_use]
    pub fn set(&mut self, host: Ipv4Addr, gateway: Ipv4Addr, until: Time, most: usize) -> bool {
        if self.hosts.len() >= most && !self.hosts.contains_key(&host) {
            return false;
        }
        self.hosts.insert(host, Host { gateway, until });
        self.changed.insert(host);
        true
    }

    /// The gateway of a host.
    pub fn gateway(&self, host: Ipv4Addr) -> Option<Ipv4Addr> {
        self.hosts.get(&host).map(|host| host.gateway)
    }

    /// The gateways that serve some host, in order and with repetitions.
    pub fn gateways(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.hosts.values().map(|host| host.gateway)
    }

    /// A packet to a host passed, or one to a gateway that may be to any host behind it.
    pub fn extend(&mut self, destination: Ipv4Addr, until: Time) {
        for (&host, state) in &mut self.hosts {
            if host == destination || state.gateway == destination {
                state.until = state.until.max(until);
            }
        }
    }

    pub fn remove(&mut self, host: Ipv4Addr) {
        if self.hosts.remove(&host).is_some() {
            self.changed.insert(host);
        }
    }

    /// Forgets unused hosts, and hosts behind unreachable gateways.
    pub fn expire(&mut self, now: Time, is_reached: impl Fn(Ipv4Addr) -> bool) {
        let over: Vec<Ipv4Addr> = self
            .hosts
            .iter()
            .filter(|(_, host)| host.until <= now || !is_reached(host.gateway))
            .map(|(&host, _)| host)
            .collect();
        over.into_iter().for_each(|host| self.remove(host));
    }

    /// The route to a gateway changed, and with it the routes to the hosts behind the gateway.
    pub fn note_gateway(&mut self, gateway: Ipv4Addr) {
        let behind = self.hosts.iter().filter(|(_, host)| host.gateway == gateway);
        self.changed.extend(behind.map(|(&host, _)| host));
    }

    pub fn poll_changed(&mut self) -> Option<Ipv4Addr> {
        self.changed.pop_first()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.hosts.values().map(|host| host.until).min()
    }
}
