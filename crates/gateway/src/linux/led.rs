//! Leads packets of other programs to this host, although their addresses are not ours: a table of nftables marks
//! them, and rules with routes, which somebody may remove, lead marked packets here.
//!
//! The table goes with its process, however we end; if others end the process, the table is made again. A second table
//! stays, and drops packets that the first has not led here: so nothing leaves in clear meanwhile. A crash leaves the
//! second table, and a rule for a mark without packets: the next start takes both over or removes them, and so does
//! `trackway down`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::Context as _;
use base::ip::{Prefix, protocol};
use base::time::{Time, earliest};
use host::Kernel;
use host::fault::{DROPPED, OVERRULED};
use host::fence::{Content, Growth};
use host::nft::{Owned, Told};
use host::numbers::Mark;
use host::others::{Chosen, others_rules};
use host::pace::Trials;
use host::routes::{NextHop, Packets, Routes, probes};
use host::{Entry, Fault, Kept, Lead, Observer, Owner};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use tracing::warn;

/// Networks, and rules of one version of IP, that are tried at most after a change of the host.
const TRIED: usize = 32;

/// A table, and the rules and routes it relies on.
pub(crate) struct Led {
    owner: Owner,
    lead: Lead,
    /// The networks whose packets are led here.
    networks: Vec<Prefix>,
    table: Owned,
    kept: Kept,
    routes: Routes,
    kernel: Kernel,
    /// A network whose packets another program's rule leads elsewhere, and an address there with such packets.
    overruled: Option<(Prefix, IpAddr, Packets)>,
    /// Whether the host has changed since the last trial.
    is_stale: bool,
    trials: Trials,
    dropped: RefCell<Growth>,
    /// Becomes ready when `nft` complains, or something on the host has changed.
    either: Epoll,
}

/// Leads diverted connections of HF-PEP, before all other rules. The last bit of the mark tells SYNs that were held.
pub(crate) const DIVERTED: Lead =
    Lead { mark: Mark(0x7064), mask: !1, position: 0, protocol: protocol::TCP };
/// Leads captured datagrams of S/R.
pub(crate) const CAPTURED: Lead =
    Lead { mark: Mark(0x7361), mask: u32::MAX, position: 1, protocol: protocol::UDP };
/// The priority of the chains that drop packets on their way past HF-PEP or S/R: behind destination NAT (-100), so that
/// no packet gets a far destination afterwards.
pub(super) const BEHIND: i32 = -99;
/// All leads. The mark of a lead says whose a packet is: tables of other services let the packet pass.
const LEADS: [&Lead; 2] = [&DIVERTED, &CAPTURED];

/// The condition for packets that a lead has marked, in the language of `nft`.
pub(super) fn has_mark(of: &Lead) -> String {
    let (mark, mask) = (of.mark.value(), of.mask);
    format!("meta mark & {mask:#x} == {:#x}", mark & mask)
}

/// The rules that let packets of other leads pass, in the language of `nft`: the first rules of a chain.
pub(super) fn pass_others(lead: &Lead) -> impl Iterator<Item = String> {
    let others = LEADS.into_iter().filter(|it| it.position != lead.position);
    others.map(|it| format!("{} accept", has_mark(it)))
}

impl Led {
    /// Leads packets to some networks here. Makes the rules and routes first, then the table that needs them by `orders`,
    /// and at last the table of `shut`, which drops packets that were not led here.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule.
    pub(crate) fn start(
        observer: &Arc<Observer>,
        owner: Owner,
        lead: Lead,
        networks: &[Prefix],
        shut: Content,
        orders: &[String],
    ) -> anyhow::Result<Self> {
        let routes = Routes::open().context("cannot ask the kernel for routes")?;
        let kernel = Kernel::open().context("cannot ask the kernel")?;
        let mut kept = Kept::open_besides(observer, owner, entries(&lead, networks))
            .context("no rule for packets that are led here")?;
        let table = Owned::start("inet", orders, shut.needs).inspect_err(|_| {
            // Without the table they do nothing.
            let _ = kept.reconciler().follow_besides(BTreeSet::new());
        })?;
        // After a crash the former table has dropped packets until now, and goes on if this start fails.
        kept.reconciler().fence(shut);
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for fd in [table.as_fd(), kept.as_fd()] {
            either.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        let networks = networks.to_vec();
        let mut led = Self {
            owner,
            lead,
            networks,
            table,
            kept,
            routes,
            kernel,
            overruled: None,
            is_stale: false,
            trials: Trials::default(),
            dropped: RefCell::default(),
            either,
        };
        led.try_lead();
        Ok(led)
    }

    /// Leads nothing any more, and returns what keeps the table that stays.
    pub(crate) fn end(self) -> Kept {
        let Self { table, mut kept, .. } = self;
        drop(table);
        if let Err(why) = kept.reconciler().follow_besides(BTreeSet::new()) {
            warn!(why = %format!("{why:#}"), "rules of a diversion that has ended are not removed");
        }
        kept
    }

    /// Leads packets to these networks here from now on. Rules and routes for a version of IP stay until the end:
    /// existing connections to former networks need them, and no other packet has the mark.
    ///
    /// # Errors
    /// When the kernel takes no rule.
    pub(crate) fn follow(&mut self, networks: &[Prefix]) -> anyhow::Result<()> {
        let reconciler = self.kept.reconciler();
        let entries = reconciler.besides() | &entries(&self.lead, networks);
        reconciler.follow_besides(entries).context("no rule for packets that are led here")?;
        self.networks = networks.to_vec();
        self.try_lead();
        Ok(())
    }

    /// Asks the kernel where it leads marked packets to an address of each network: a rule of another program may come
    /// before ours. Tries a packet of this host itself, and one packet for each such rule; networks and rules after the
    /// first [`TRIED`] are left out.
    fn try_lead(&mut self) {
        let own = Packets {
            mark: self.lead.mark.value(),
            protocol: Some(self.lead.protocol),
            ..Packets::default()
        };
        let rules = [false, true].map(|is_v6| self.rules_before(is_v6));
        self.overruled = None;
        for &network in self.networks.iter().take(TRIED) {
            let is_v6 = network.address().is_ipv6();
            let of_rules = rules[usize::from(is_v6)].iter().map(|(to, packets)| (*to, *packets));
            for (within, packets) in iter::once((None, own)).chain(of_rules) {
                let to = match within {
                    Some(within) if network.contains(within.address()) => probes(within),
                    Some(within) if !within.contains(network.address()) => continue,
                    _ => probes(network),
                };
                let is_past = |to: &IpAddr| {
                    let decided = self.routes.decided(*to, &packets);
                    decided.is_ok_and(|(hop, _)| hop != NextHop::Here)
                };
                if let Some(to) = to.into_iter().find(is_past) {
                    self.overruled = Some((network, to, packets));
                    return;
                }
            }
        }
    }

    /// Each rule of other programs before ours, as its destinations (if it names any) and a fitting packet of ours.
    fn rules_before(&mut self, is_v6: bool) -> Vec<(Option<Prefix>, Packets)> {
        let (mark, last) = (self.lead.mark.value(), self.lead.priority());
        let its = self.lead.protocol;
        let rules = others_rules(&mut self.kernel, is_v6).unwrap_or_default();
        let may_be_ours = |it: &Chosen| {
            let has_mark = (it.packets.mark ^ mark) & it.mask == 0;
            let has_protocol = it.packets.protocol.is_none_or(|protocol| protocol == its);
            it.priority <= last && has_mark && has_protocol
        };
        let rules: Vec<_> = rules.into_iter().filter(may_be_ours).take(TRIED).collect();
        let example = |rule: Chosen| {
            let packets = rule.example(&mut self.kernel, &mut self.routes, is_v6)?;
            Some((rule.destination, Packets { mark, protocol: Some(its), ..packets }))
        };
        rules.into_iter().filter_map(example).collect()
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
        earliest(self.kept.next_timeout(), self.is_stale.then_some(self.trials.due_at()))
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
        self.is_stale |= kept;
        if self.is_stale && self.trials.due_at() <= now {
            let mut trials = self.trials;
            trials.run(now, || self.try_lead());
            (self.is_stale, self.trials) = (false, trials);
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
    pub(crate) fn faults(&self, now: Time) -> Vec<Fault> {
        let mut faults = self.kept.faults();
        let mut dropped = self.dropped.borrow_mut();
        dropped.follow(now, self.dropped());
        if dropped.is_lasting() {
            let table = self.owner.table();
            let said = format!(
                "packets for others come past the diversion of {table}, and are dropped: a route leads answers to an \
                 interface that `interfaces` does not name, or another firewall changes marks; `nft list table inet \
                 {table}` shows what drops them, `ip route get ADDRESS` the interface"
            );
            faults.push(Fault::new(&DROPPED, said));
        }
        faults.extend(self.overruled.map(|(network, to, packets)| {
            let (mark, last) = (self.lead.mark, self.lead.priority());
            let ip = if to.is_ipv4() { "ip" } else { "ip -6" };
            let said = format!(
                "packets to {network} are not led to this host, and are dropped: a rule of another program decides before \
                 ours with mark {mark:#x}: `{ip} rule` shows it, `{ip} route get {to}{packets}` where it leads; delete it, \
                 or give it a priority above {last}"
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
