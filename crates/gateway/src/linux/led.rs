//! Leads packets of other programs to this host, although their addresses are not ours: a table of nftables marks
//! them, and rules with routes, which somebody may remove, lead marked packets here.
//!
//! The table goes with its process, however we end; if others end the process, the table is made again. What a crash
//! leaves is a rule for a mark that nobody sets: the next start takes it over, and `trackway down` removes it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::Context as _;
use base::time::Time;
use host::nft::{Owned, Told};
use host::{Entry, Fault, Kept, Lead, Observer, Owner};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

/// A table, and the rules and routes it relies on.
pub(crate) struct Led {
    lead: Lead,
    table: Owned,
    kept: Kept,
    /// Becomes ready when `nft` complains, or something on the host has changed.
    either: Epoll,
}

impl Led {
    /// Leads packets of some versions of IP here: makes the rules and routes first, then by `orders` the table, which
    /// needs them.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule; `needs` is what the kernel must have.
    pub(crate) fn start(
        observer: &Arc<Observer>,
        owner: Owner,
        lead: Lead,
        versions: impl Iterator<Item = IpAddr>,
        family: &'static str,
        orders: &[String],
        needs: &'static str,
    ) -> anyhow::Result<Self> {
        let mut kept = Kept::open_besides(observer, owner, entries(&lead, versions))
            .context("no rule for packets that are led here")?;
        let table = Owned::start(family, orders, needs).inspect_err(|_| {
            // Without the table they do nothing.
            let _ = kept.reconciler().follow_besides(BTreeSet::new());
        })?;
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for fd in [table.as_fd(), kept.as_fd()] {
            either.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(Self { lead, table, kept, either })
    }

    /// Leads packets of these versions here from now on.
    ///
    /// # Errors
    /// When the kernel takes no rule.
    pub(crate) fn follow(&mut self, versions: impl Iterator<Item = IpAddr>) -> anyhow::Result<()> {
        self.kept
            .reconciler()
            .follow_besides(entries(&self.lead, versions))
            .context("no rule for packets that are led here")
    }

    /// The table.
    pub(crate) fn table(&mut self) -> &mut Owned {
        &mut self.table
    }

    /// When to call [`Self::handle_ready`] at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.kept.next_timeout()
    }

    /// Puts back what others have removed; if they have ended the table's program, the table is made by the orders
    /// `whole`.
    ///
    /// # Errors
    /// When the table cannot be made again, or the kernel cannot be asked.
    pub(crate) fn handle_ready(
        &mut self,
        now: Time,
        whole: impl FnOnce() -> Vec<String>,
    ) -> anyhow::Result<Told> {
        let [table, kept] = [self.table.as_fd(), self.kept.as_fd()].map(is_ready);
        let ready = if kept { PollFlags::POLLIN } else { PollFlags::empty() };
        self.kept.handle_ready(now, ready)?;
        if !table {
            return Ok(Told::Complaints(String::new()));
        }
        let told = self.table.handle_ready(now, whole)?;
        if told == Told::MadeAgain {
            self.either.add(self.table.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(told)
    }

    /// Deviations from what is wanted, in words for an operator.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        self.kept.faults()
    }
}

impl AsFd for Led {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.0.as_fd()
    }
}

/// A rule, and the route that it leads to, for each version.
fn entries(lead: &Lead, versions: impl Iterator<Item = IpAddr>) -> BTreeSet<Entry> {
    versions.flat_map(|version| lead.entries(version.is_ipv6())).collect()
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO).is_ok_and(|count| count > 0)
}
