//! Finds silent nodes that may be reachable again, as an interface has come up or a route has changed.
//!
//! ```text
//!   kernel ── links, addresses, routes ──▶ Ways ── gathered ──▶ which of the silent nodes to try
//! ```
//! Only changes on the way to a node count: in a net whose routes change all the time, other nodes are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Context as _;
use base::time::Time;
use host::links;
use host::netlink::Monitor;
use nix::libc;

use crate::linux::routes::{NextHop, Routes};

/// The known ways to silent nodes.
#[derive(Debug)]
pub(super) struct Ways {
    monitor: Monitor,
    routes: Routes,
    /// The next hops to them when something changed last.
    hops: BTreeMap<IpAddr, NextHop>,
    /// Interfaces known to be down, and interfaces that have come up since.
    down: BTreeSet<u32>,
    risen: BTreeSet<u32>,
    /// When the changes so far are looked at.
    due: Option<Time>,
}

/// Changes are gathered for so long: one seldom comes alone.
const GATHERED: Duration = Duration::from_millis(200);
/// Datagrams of the kernel's that are read before others have their turn.
const READS: usize = 64;
/// Nodes whose routes are asked for at a time.
const MOST: usize = 1_024;

impl Ways {
    /// # Errors
    /// When the kernel does not tell.
    pub(super) fn open() -> anyhow::Result<Self> {
        Ok(Self {
            monitor: Monitor::open().context("cannot hear of changes of routes")?,
            routes: Routes::open().context("cannot ask for routes")?,
            hops: BTreeMap::new(),
            down: BTreeSet::new(),
            risen: BTreeSet::new(),
            due: None,
        })
    }

    /// Takes what the kernel tells.
    ///
    /// # Errors
    /// When its socket is broken.
    pub(super) fn handle_ready(&mut self, now: Time) -> anyhow::Result<()> {
        let Self { monitor, down, risen, .. } = self;
        let mut has_changed = false;
        let is_lossy = monitor
            .read_some(READS, |message| {
                has_changed |= message.kind != libc::RTM_NEWLINK;
                let Some((interface, is_running)) = links::running(message) else { return };
                if !is_running {
                    down.insert(interface);
                } else if down.remove(&interface) {
                    risen.insert(interface);
                    has_changed = true;
                }
            })
            .context("cannot hear of changes of routes")?;
        if has_changed || is_lossy {
            self.due.get_or_insert(now + GATHERED);
        }
        Ok(())
    }

    /// When to ask [`Self::take`].
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The silent nodes with a changed route, or with an interface that is up again.
    pub(super) fn take(&mut self, now: Time, silent: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.due = None;
        let risen = std::mem::take(&mut self.risen);
        let before = std::mem::take(&mut self.hops);
        let mut found = Vec::new();
        for node in silent.take(MOST) {
            let hop = self.routes.towards(node);
            let has_risen =
                matches!(hop, NextHop::Neighbour { interface, .. } if risen.contains(&interface));
            if hop != NextHop::Nowhere && (has_risen || before.get(&node) != Some(&hop)) {
                found.push(node);
            }
            self.hops.insert(node, hop);
        }
        found
    }
}

impl AsFd for Ways {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
