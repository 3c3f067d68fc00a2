//! Leads packets of other programs to this host, although their addresses are not ours: a table of nftables marks
//! them, and rules with routes, which somebody may remove, lead marked packets here.
//!
//! The table goes with its process, however we end; if others end the process, the table is made again. Another table,
//! which does not go, comes behind it and drops what was not led here: so nothing leaves in clear meanwhile. A crash
//! leaves that table, and a rule for a mark that nobody sets: the next start takes them over, and `trackway down`
//! removes them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::Context as _;
use base::ip::Prefix;
use base::time::Time;
use host::fault::OVERRULED;
use host::fence::Content;
use host::nft::{Owned, Told};
use host::routes::{NextHop, Routes, probes};
use host::{Entry, Fault, Kept, Lead, Observer, Owner};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

/// Networks at most whose packets are tried after each change of the host.
const TRIED: usize = 32;

/// A table, and the rules and routes it relies on.
pub(crate) struct Led {
    lead: Lead,
    /// The networks whose packets are led here.
    networks: Vec<Prefix>,
    table: Owned,
    kept: Kept,
    routes: Routes,
    /// A network whose marked packets another program's rule leads elsewhere, and an address there.
    overruled: Option<(Prefix, IpAddr)>,
    /// Becomes ready when `nft` complains, or something on the host has changed.
    either: Epoll,
}

impl Led {
    /// Leads packets to some networks here: makes the rules and routes first, then by `orders` the table that leads, which
    /// needs them, and by `shut` the table that drops what is not led here.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule.
    pub(crate) fn start(
        observer: &Arc<Observer>,
        owner: Owner,
        lead: Lead,
        networks: &[Prefix],
        shut: Content,
        family: &'static str,
        orders: &[String],
    ) -> anyhow::Result<Self> {
        let routes = Routes::open().context("cannot ask the kernel for routes")?;
        let mut kept = Kept::open_besides(observer, owner, entries(&lead, networks))
            .context("no rule for packets that are led here")?;
        let table = Owned::start(family, orders, shut.needs).inspect_err(|_| {
            // Without the table they do nothing.
            let _ = kept.reconciler().follow_besides(BTreeSet::new());
        })?;
        // After a crash another table of this kind has dropped packets until now; a start that fails leaves it as it was.
        kept.reconciler().fence(shut);
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for fd in [table.as_fd(), kept.as_fd()] {
            either.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        let networks = networks.to_vec();
        let mut led = Self { lead, networks, table, kept, routes, overruled: None, either };
        led.try_lead();
        Ok(led)
    }

    /// Leads packets to these networks here from now on.
    ///
    /// # Errors
    /// When the kernel takes no rule.
    pub(crate) fn follow(&mut self, networks: &[Prefix]) -> anyhow::Result<()> {
        self.kept
            .reconciler()
            .follow_besides(entries(&self.lead, networks))
            .context("no rule for packets that are led here")?;
        self.networks = networks.to_vec();
        self.try_lead();
        Ok(())
    }

    /// Asks the kernel where it leads marked packets of this host to an address of each network: a rule of another
    /// program may come before ours. Rules by interface or source, and networks after the first [`TRIED`], are not tried.
    fn try_lead(&mut self) {
        let Self { routes, lead, .. } = self;
        let tried = self.networks.iter().take(TRIED);
        let mut tried = tried.flat_map(|to| probes(*to).into_iter().map(|ip| (*to, ip)));
        self.overruled =
            tried.find(|(_, ip)| routes.marked(*ip, lead.mark.value()) != NextHop::Here);
    }

    /// Changes both tables in one step.
    ///
    /// # Errors
    /// When `nft` refuses: nothing has changed.
    pub(crate) fn change(&mut self, shut: Content, orders: &[String]) -> anyhow::Result<()> {
        let Self { kept, table, .. } = self;
        kept.reconciler().change_fence(shut, |shut| table.change(&[&shut, orders].concat(), None))
    }

    /// Packets that were not led here, and were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.kept.kept_out()
    }

    /// The table that leads.
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
        if kept {
            self.try_lead();
        }
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
        let mut faults = self.kept.faults();
        faults.extend(self.overruled.map(|(network, to)| {
            let Lead { mark, .. } = self.lead;
            let ip = if to.is_ipv4() { "ip" } else { "ip -6" };
            let said = format!(
                "packets to {network} are not led to this host, and are dropped: a rule of another program decides before \
                 ours with mark {mark:#x}: `{ip} rule` shows it, `{ip} route get {to} mark {mark:#x}` where it leads; \
                 delete it, or give it a priority after ours"
            );
            Fault::new(&OVERRULED, said)
        }));
        faults
    }
}

impl AsFd for Led {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.0.as_fd()
    }
}

/// A rule, and the route that it leads to, for each version of IP among the networks.
fn entries(lead: &Lead, networks: &[Prefix]) -> BTreeSet<Entry> {
    networks.iter().flat_map(|network| lead.entries(network.address().is_ipv6())).collect()
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO).is_ok_and(|count| count > 0)
}
