//! Decides what to change in the kernel, from what a service wants and what there is.
//!
//! ```text
//!   wanted ───┐
//!             ├─▶ plan ──▶ operations, in an order that never lets packets leave in clear
//!   observed ─┘        └─▶ obstacles: what is wanted and cannot be had, because it is another program's
//! ```
//! A plan touches nothing that another program made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::ip::Prefix;
use nix::libc;

use crate::desired::DeviceRoutes;
use crate::entry::{Entry, Found, Owner, Place, Table, metric};

/// What there is in the kernel, as far as it concerns a service.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observed {
    /// Devices that are switched on, and their addresses.
    pub(crate) devices: BTreeSet<Entry>,
    /// Routes and rules that the service made.
    pub(crate) ours: BTreeSet<Entry>,
    /// Routes of others in tables of our own, and in the main table those to networks that the service wants.
    pub(crate) others: Vec<Found>,
    /// Numbers of ours that other programs use, and for what.
    pub(crate) clashes: BTreeSet<String>,
}

/// What to do.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// In this order.
    pub(crate) operations: Vec<Operation>,
    /// Routes of other programs that have the place of ours.
    pub(crate) obstacles: BTreeMap<Entry, Found>,
}

/// A change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Adds what is not there.
    Add(Entry),
    /// Puts a route in the place of one of ours, or of one that another service of ours has left.
    TakeOver(Entry),
    /// Removes what the service made.
    Remove(Entry),
}

/// A route of another program to a network that a service wants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rival {
    /// As `ip route` writes it.
    pub(crate) said: String,
    /// Whether packets would go by it beside ours, or ours cannot stand beside it.
    pub(crate) wins: bool,
}

impl Observed {
    /// Another program uses a number of ours, which a key of `[host]` sets.
    pub fn clash(&mut self, what: &str, number: u32, key: &str, used: &impl fmt::Display) {
        self.clashes.insert(format!(
            "another program uses our {what} {number}: {used}; `{key}` in [host] chooses other numbers"
        ));
    }

    fn has(&self, entry: Entry) -> bool {
        match entry {
            Entry::Up { .. } | Entry::Mtu { .. } | Entry::Address { .. } => {
                self.devices.contains(&entry)
            }
            _ => self.ours.contains(&entry),
        }
    }

    /// Routes of other programs in the main table to networks behind these devices: the best for each network. A
    /// default route never counts: ours stands beside it.
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

/// Plans how what the service made becomes exactly what it wants.
///
/// First comes what refuses packets, then what carries them, then rules that lead packets there; what is wanted no
/// more goes in the opposite order. So a packet to a network of ours never finds a moment without both.
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
            // By another device, or from another address.
            plan.operations.push(Operation::TakeOver(entry));
            replaced.insert(*before);
            continue;
        }
        match entry.place().and_then(|place| held.get(&place)) {
            None => plan.operations.push(Operation::Add(entry)),
            Some(found) if is_left(found) => plan.operations.push(Operation::TakeOver(entry)),
            // Whoever made it, it does what ours would do.
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

/// Lets routes stand aside whose place other programs' routes have, or would have as soon as ours were gone;
/// returns their networks.
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

/// Whether another's route delivers to this host what an entry would.
fn is_same(entry: Entry, found: &Found) -> bool {
    matches!(entry, Entry::Here { .. }) && found.kind == libc::RTN_LOCAL
}

/// Whether a route is what a service of ours has left: no way for a packet.
pub fn is_left(found: &Found) -> bool {
    Owner::of(found.protocol).is_some() && found.kind == libc::RTN_UNREACHABLE
}

#[cfg(test)]
mod tests;
