//! Claims the networks behind a service's device: adds routes and rules marked as the service's own, which
//! survive the service.
//!
//! ```text
//!   Wish ──▶ plan ──▶ set ──▶ Claims ──▶ RTM_NEWROUTE, RTM_NEWRULE     protocol 117, 118, 119
//!                              ▲ is_concerned ──▶ reconcile: what is, against what should be
//!                              └ found at the start, however the one before ended: taken over
//! ```
//! Routes by the device go with the device, however we end. Routes that refuse packets stay, so that nothing
//! leaves in clear meanwhile; [`give_up`] removes them after a clean end, and so does [`remove_all`].

mod entry;
mod plan;
mod rivals;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::{Context as _, bail};
use nix::libc;
use tracing::{debug, info, warn};

use super::netlink::{Message, Netlink, Request};

pub(crate) use entry::{Entry, MARK, Owner};
use entry::{Found, family};
pub(crate) use plan::Wish;
pub(crate) use rivals::{Rival, rivals};

/// The fixed part of a question about all routes or rules.
const FIXED: usize = 12;

/// What a service has claimed.
#[derive(Debug)]
pub(crate) struct Claims {
    owner: Owner,
    netlink: Netlink,
    wanted: BTreeSet<Entry>,
    /// What is wanted and not there, and why.
    missing: BTreeMap<Entry, String>,
}

/// An entry that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{entry}: {error}")]
pub(crate) struct Refused {
    entry: Entry,
    error: io::Error,
}

impl Claims {
    /// Claims nothing yet.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn open(owner: Owner) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        Ok(Self { owner, netlink, wanted: BTreeSet::new(), missing: BTreeMap::new() })
    }

    /// Claims exactly the wanted entries; existing ones stay untouched.
    ///
    /// # Errors
    /// When the kernel does not take something; all is as before then.
    pub(crate) fn set(&mut self, wanted: BTreeSet<Entry>) -> anyhow::Result<()> {
        let owner = self.owner;
        let found = found(&mut self.netlink, owner)?;
        let (mut added, mut missing) = (Vec::new(), BTreeMap::new());
        for &entry in wanted.difference(&found) {
            match add(&mut self.netlink, owner, entry) {
                Ok(()) => added.push(entry),
                // It comes when the device is up again.
                Err(error) if is_down(entry, &error) => {
                    missing.insert(entry, error.to_string());
                }
                Err(error) => {
                    added.into_iter().rev().for_each(|it| remove(&mut self.netlink, owner, it));
                    return Err(Refused { entry, error }.into());
                }
            }
        }
        for &entry in found.iter().rev().filter(|entry| !wanted.contains(entry)) {
            remove(&mut self.netlink, owner, entry);
        }
        self.wanted = wanted;
        self.note(missing);
        Ok(())
    }

    /// Whether exactly these entries are claimed.
    pub(crate) fn is(&self, wanted: &BTreeSet<Entry>) -> bool {
        self.wanted == *wanted
    }

    /// Whether the kernel reports a lost entry of ours, or a route of others in the place of ours which does not
    /// lead to these devices: a route that replaces ours is reported in no other way.
    pub(crate) fn is_concerned(&self, message: Message<'_>, devices: &[u32]) -> bool {
        let is_gone =
            || Entry::parse(self.owner, message).is_some_and(|entry| self.wanted.contains(&entry));
        match message.kind {
            libc::RTM_DELRULE => is_gone(),
            libc::RTM_DELROUTE => is_gone() || self.is_where_ours_are(message, &[]),
            libc::RTM_NEWROUTE => self.is_where_ours_are(message, devices),
            _ => false,
        }
    }

    /// Whether a message reports a route of others in the place of ours, and not by these devices.
    fn is_where_ours_are(&self, message: Message<'_>, devices: &[u32]) -> bool {
        let Some(Found { to, table, protocol, device, .. }) = Found::parse(message) else {
            return false;
        };
        let route = |device| Entry::Route { to, table, device };
        let is_here = || {
            self.wanted.contains(&Entry::Unreachable { to, table })
                || self.wanted.range(route(0)..=route(u32::MAX)).next().is_some()
        };
        let is_excepted = || device.is_some_and(|device| devices.contains(&device));
        protocol != self.owner.protocol() && !is_excepted() && is_here()
    }

    /// What is wanted and not there, and why.
    pub(crate) fn missing(&self) -> &BTreeMap<Entry, String> {
        &self.missing
    }

    /// Puts back missing entries, and returns their number.
    ///
    /// # Errors
    /// When the kernel does not say what there is.
    pub(crate) fn reconcile(&mut self) -> io::Result<u64> {
        let found = found(&mut self.netlink, self.owner)?;
        let (mut restored, mut missing) = (0, BTreeMap::new());
        for &entry in self.wanted.difference(&found) {
            match add(&mut self.netlink, self.owner, entry) {
                Ok(()) => restored += 1,
                Err(error) => drop(missing.insert(entry, error.to_string())),
            }
        }
        if restored > 0 {
            warn!(restored, "routes or rules of ours were gone, and are put back");
        }
        self.note(missing);
        Ok(restored)
    }

    /// Logs missing entries when they have changed; thousands may go at once.
    fn note(&mut self, missing: BTreeMap<Entry, String>) {
        match missing.first_key_value() {
            _ if missing == self.missing => {}
            Some((entry, why)) => {
                warn!(count = missing.len(), first = %entry, why, "routes or rules of ours are not there");
            }
            None => info!("all routes and rules of ours are there again"),
        }
        self.missing = missing;
    }
}

/// Gives up all routes and rules of a service, whether it runs or not.
pub(in crate::linux) fn give_up(owner: Owner) {
    let none = |mut claims: Claims| claims.set(BTreeSet::new());
    if let Err(error) = Claims::open(owner).map_err(Into::into).and_then(none) {
        warn!(%error, "routes not removed: `trackway down` does it");
    }
}

/// Removes the routes and rules left by any service in this network namespace, and returns the removed ones.
///
/// # Errors
/// When a gateway runs, the kernel does not say what there is, or the right to change it is missing.
pub(crate) fn remove_all() -> anyhow::Result<Vec<String>> {
    let mut netlink = Netlink::open().context("cannot ask the kernel")?;
    let mut left = Vec::new();
    for owner in Owner::ALL {
        let found = found(&mut netlink, owner).context("cannot ask the kernel")?;
        // Routes by the device are there only as long as the device.
        if found.iter().any(|entry| matches!(entry, Entry::Route { .. })) {
            bail!(
                "a gateway runs in this network namespace: end `trackway run`, which removes them"
            );
        }
        left.extend(found.into_iter().rev().map(|entry| (owner, entry)));
    }
    let mut removed = Vec::new();
    for (owner, entry) in left {
        match netlink.ask(&entry.remove(owner), |_| {}) {
            Ok(()) => removed.push(entry.to_string()),
            Err(error) => return Err(Refused { entry, error }.into()),
        }
    }
    Ok(removed)
}

/// All that is a service's.
fn found(netlink: &mut Netlink, owner: Owner) -> io::Result<BTreeSet<Entry>> {
    let mut found = BTreeSet::new();
    for (kind, is_v6) in [
        (libc::RTM_GETROUTE, false),
        (libc::RTM_GETROUTE, true),
        (libc::RTM_GETRULE, false),
        (libc::RTM_GETRULE, true),
    ] {
        let mut fixed = [0; FIXED];
        fixed[0] = family(is_v6);
        let request = Request::dump(kind, &fixed);
        let all = netlink.dump(&request, |message, all| all.extend(Entry::parse(owner, message)));
        found.extend(all.or_else(without_family)?);
    }
    Ok(found)
}

/// A machine without IPv6 has no routes of it, and none of ours.
fn without_family<T>(error: io::Error) -> io::Result<Vec<T>> {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP) => Ok(Vec::new()),
        _ => Err(error),
    }
}

fn add(netlink: &mut Netlink, owner: Owner, entry: Entry) -> io::Result<()> {
    netlink.ask(&entry.add(owner), |_| {})
}

/// Removes an entry if the kernel has it.
fn remove(netlink: &mut Netlink, owner: Owner, entry: Entry) {
    match netlink.ask(&entry.remove(owner), |_| {}) {
        Ok(()) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT)) => {
            debug!(%entry, "gone already");
        }
        Err(error) => warn!(%entry, %error, "not removed"),
    }
}

/// Whether it is a route by the device while that is down.
fn is_down(entry: Entry, error: &io::Error) -> bool {
    matches!(entry, Entry::Route { .. })
        && matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV))
}
