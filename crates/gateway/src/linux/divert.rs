//! TCP connections of others that are ended here, though their addresses are not ours.
//!
//! ```text
//!   from a LAN ─▶ prerouting: to a far network ─ tproxy ─▶ our listener, with the mark
//!   of this host ─▶ output:   to a far network ─ mark, so that routing leads it to lo ─▶ prerouting
//!   from a target ─▶ prerouting: to an address that a socket of ours has borrowed ─▶ that socket
//!
//!   ip rule: marked packets ─▶ our table of routes: everything is local
//! ```
//! [`Plan`] has what decides on the first packet of a connection. The nftables table goes with its
//! process, however we end. What a crash leaves of the rest, a rule for a mark that nobody sets, does
//! nothing, and is taken over at the next start.

mod plan;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use nix::libc;
use proto::rules::Counters;
use tracing::warn;

use super::netlink::{self, Netlink, Request};
use super::nft::{self, Nft};

use plan::MARK;
pub(crate) use plan::{Fate, Plan, Rule};

/// Number of our table of routes, and priority of the rule that leads there: before all others.
const ROUTES: u32 = 29_810;
const PRIORITY: u32 = 100;
/// Who made the rule and the routes, as `ip route` shows it.
const PROTOCOL: u8 = 116;
const FIXED: usize = 12;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
/// The family of the table.
const FAMILY: &str = "inet";
const FR_ACT_TO_TBL: u8 = 1;
const NEEDS: &str = "Linux 5.9 or newer with NFT_TPROXY and NFT_SOCKET, or their modules (`modprobe -a \
                     nft_tproxy nft_socket`), and nftables 1.0.1 or newer built with its command \
                     line, are needed";

/// The diversion, while it lasts.
#[derive(Debug)]
pub(crate) struct Diversion {
    plan: Plan,
    nft: Nft,
    netlink: Netlink,
    /// An address of each family whose rule and route there are.
    families: Vec<IpAddr>,
}

impl Diversion {
    /// Diverts connections from now on.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule, with the remedy.
    pub(crate) fn set_up(plan: Plan) -> anyhow::Result<Self> {
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let nft = Nft::start(FAMILY, &plan.script(), NEEDS)?;
        let families: Vec<_> = plan.families().collect();
        let mut diversion = Self { plan, nft, netlink, families: Vec::new() };
        for family in families {
            diversion.families.push(family);
            change(&mut diversion.netlink, family, true)
                .with_context(|| format!("no rule for connections diverted to {family}"))?;
        }
        Ok(diversion)
    }

    /// Lets other rules decide from now on, for the same networks and interfaces. Connections that
    /// there are go on.
    ///
    /// # Errors
    /// When `nft` refuses; nothing has changed.
    pub(crate) fn follow(&mut self, plan: Plan) -> anyhow::Result<()> {
        self.nft.change(FAMILY, &plan.follow(&self.plan), NEEDS)?;
        self.plan = plan;
        Ok(())
    }

    /// What each rule has blocked, by its name.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn blocked(&self) -> io::Result<Vec<(String, Counters)>> {
        let counted = nft::counters(libc::NFPROTO_INET)?.into_iter();
        Ok(counted
            .filter_map(|(name, packets, octets)| {
                let name = name.strip_prefix(plan::COUNTER)?.to_owned();
                Some((name, Counters { hits: packets, octets, blocked: packets }))
            })
            .collect())
    }

    /// What `nft` has said since it was asked last, which is nothing but complaints.
    ///
    /// # Errors
    /// When `nft` has ended, and the diversion with it.
    pub(crate) fn complaints(&mut self) -> anyhow::Result<String> {
        self.nft.complaints()
    }
}

impl AsFd for Diversion {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.nft.as_fd()
    }
}

impl Drop for Diversion {
    fn drop(&mut self) {
        for &family in &self.families {
            if let Err(error) = change(&mut self.netlink, family, false) {
                warn!(%error, "the rule for diverted connections is not removed");
            }
        }
    }
}

/// Adds or removes the rule and the route of a family; what is there already may stay.
fn change(netlink: &mut Netlink, family: IpAddr, adds: bool) -> io::Result<()> {
    let flags = if adds { libc::NLM_F_CREATE | libc::NLM_F_EXCL } else { 0 };
    let flags = u16::try_from(flags).unwrap_or_default();
    let pick = |add, remove| if adds { add } else { remove };

    let mut fixed = [0; FIXED];
    fixed[0] = netlink::family(family);
    fixed[7] = FR_ACT_TO_TBL;
    let rule = Request::set(pick(libc::RTM_NEWRULE, libc::RTM_DELRULE), flags, &fixed)
        .with(FRA_PRIORITY, &PRIORITY.to_ne_bytes())
        .with(FRA_FWMARK, &MARK.to_ne_bytes())
        .with(FRA_FWMASK, &u32::MAX.to_ne_bytes())
        .with(FRA_TABLE, &ROUTES.to_ne_bytes());

    let mut fixed = [0; FIXED];
    fixed[0] = netlink::family(family);
    fixed[5] = PROTOCOL;
    fixed[6] = libc::RT_SCOPE_HOST;
    fixed[7] = libc::RTN_LOCAL;
    let loopback = nix::net::if_::if_nametoindex("lo")?;
    let route = Request::set(pick(libc::RTM_NEWROUTE, libc::RTM_DELROUTE), flags, &fixed)
        .with(libc::RTA_TABLE, &ROUTES.to_ne_bytes())
        .with(libc::RTA_OIF, &loopback.to_ne_bytes());

    for request in [rule, route] {
        match netlink.ask(&request, |_| {}) {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EEXIST | libc::ENOENT | libc::ESRCH)
                ) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}
