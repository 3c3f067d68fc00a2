//! Compares the entries that a service wants with the kernel's, and plans the changes.
//!
//! ```text
//!   wanted ───┐
//!             ├─▶ plan ──▶ operations, in an order that never lets packets leave in clear
//!   observed ─┘        └─▶ obstacles: wanted entries in whose place another program has a route
//! ```
//! A plan leaves other programs' entries alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::ip::Prefix;
use nix::libc;

use crate::desired::DeviceRoutes;
use crate::entry::{Entry, Found, Owner, Place, Table, metric};

/// The kernel's entries that concern a service.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observed {
    /// Devices that are switched on, and their addresses.
    pub(crate) devices: BTreeSet<Entry>,
    /// Routes and rules that the service made.
    pub(crate) ours: BTreeSet<Entry>,
    /// Routes of other programs in our own tables, and in the main table to networks of the service.
    pub(crate) others: Vec<Found>,
    /// Complaints about other programs that use our numbers.
    pub(crate) clashes: BTreeSet<String>,
}

/// Changes to make, and the obstacles.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// The changes, in order.
    pub(crate) operations: Vec<Operation>,
    /// Wanted entries, each with another program's route in its place.
    pub(crate) obstacles: BTreeMap<Entry, Found>,
}

/// A change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Adds a missing entry.
    Add(Entry),
    /// Replaces a route of ours, or a route left by another service of ours.
    TakeOver(Entry),
    /// Removes an entry of the service.
    Remove(Entry),
}

/// A route of another program to a network that a service wants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rival {
    /// As `ip route` writes it.
    pub(crate) said: String,
    /// Whether its metric is better than our route's, or the same.
    pub(crate) wins: bool,
}

impl Observed {
    /// Notes a number of ours that another program uses; `key` in `[host]` sets the number.
    pub fn clash(&mut self, what: &str, number: u32, key: &str, used: &impl fmt::Display) {
        self.clashes.insert(format!(
            "another program uses our {what} {number}: {used}; `{key}` in [host] chooses other numbers"
        ));
    }

    /// Whether a device is in this network namespace.
    pub fn has_device(&self, device: u32) -> bool {
        self.devices.iter().any(|entry| entry.device() == Some(device))
    }

    fn has(&self, entry: Entry) -> bool {
        match entry {
            Entry::Device { .. } => self.devices.contains(&entry),
            _ => self.ours.contains(&entry),
        }
    }

    /// The best route of other programs in the main table to each network behind these devices. Default routes do
    /// not count: ours stand in tables of their own.
    pub fn rivals(&self, devices: &[DeviceRoutes]) -> BTreeMap<Prefix, Rival> {
        let networks: BTreeSet<_> = devices.iter().flat_map(DeviceRoutes::networks).collect();
        let by_ours = |device| devices.iter().any(|it| it.device == device);
        let mut best: BTreeMap<Prefix, Found> = BTreeMap::new();
        for found in &self.others {
            let is_rival = found.table == Table::Main
                && found.to.bits() > 0
                && networks.contains(&found.to)
                && !is_left(found)
                && !found.device.is_some_and(by_ours);
            if !is_rival {
                continue;
            }
            let known = best.entry(found.to).or_insert(*found);
            if found.metric < known.metric {
                *known = *found;
            }
        }
        let rival = |found: &Found| Rival {
            said: found.to_string(),
            wins: found.metric <= metric(&found.to),
        };
        best.iter().map(|(&network, found)| (network, rival(found))).collect()
    }
}

/// Plans the changes after which the service has exactly the wanted entries.
///
/// Entries that refuse packets are added first, then entries that carry packets, then rules. Surplus entries are
/// removed in the opposite order. So at each moment, a packet to a network of ours is carried or refused.
pub fn plan(wanted: &BTreeSet<Entry>, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let held: BTreeMap<Place, &Found> =
        observed.others.iter().map(|found| (found.place(), found)).collect();
    let own: BTreeMap<Place, Entry> =
        observed.ours.iter().filter_map(|entry| Some((entry.place()?, *entry))).collect();
    let mut replaced = BTreeSet::new();
    for &entry in wanted {
        if observed.has(entry) {
            continue;
        }
        if let Some(before) = entry.place().and_then(|place| own.get(&place)) {
            // Our route stands there, but by another device or with another source address.
            plan.operations.push(Operation::TakeOver(entry));
            replaced.insert(*before);
            continue;
        }
        match entry.place().and_then(|place| held.get(&place)) {
            None => plan.operations.push(Operation::Add(entry)),
            Some(found) if is_left(found) => plan.operations.push(Operation::TakeOver(entry)),
            // A route of another program with the same effect is good enough.
            Some(found) if is_same(entry, found) => {}
            Some(found) => {
                plan.obstacles.insert(entry, **found);
            }
        }
    }
    let is_surplus = |entry: &&Entry| !wanted.contains(*entry) && !replaced.contains(*entry);
    let surplus = observed.ours.iter().rev().filter(is_surplus);
    plan.operations.extend(surplus.map(|&entry| Operation::Remove(entry)));
    plan
}

/// Lets our routes stand aside where another program's route wins, or would win as soon as ours were gone; returns
/// the networks of routes that newly stand aside.
pub fn displace(devices: &mut [DeviceRoutes], rivals: &BTreeMap<Prefix, Rival>) -> Vec<Prefix> {
    let mut all = Vec::new();
    for device in devices {
        // A rival route of a greater metric changes nothing while our route stands; but without our route it would
        // carry the packets, in place of the entry that refuses them.
        let is_open = device.is_open;
        let is_taken =
            |network: &Prefix| rivals.get(network).is_some_and(|rival| rival.wins || !is_open);
        let before = &device.displaced;
        let new = |network: &Prefix| is_taken(network) && !before.contains(network);
        let new: Vec<_> = device.networks().filter(new).collect();
        device.displaced.extend(&new);
        all.extend(new);
    }
    all
}

/// Whether another program's route and our entry both deliver packets to this host.
fn is_same(entry: Entry, found: &Found) -> bool {
    matches!(entry, Entry::Here { .. }) && found.kind == libc::RTN_LOCAL
}

/// Whether a route was left by a service of ours: a route that refuses packets.
pub fn is_left(found: &Found) -> bool {
    Owner::of(found.protocol).is_some() && found.kind == libc::RTN_UNREACHABLE
}

#[cfg(test)]
mod tests;
