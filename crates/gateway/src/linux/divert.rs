//! TCP connections of others that are ended here, though their addresses are not ours.
//!
//! ```text
//!   from a LAN ─▶ prerouting: to a far network ─ tproxy ─▶ our listener, with the mark
//!   of this host ─▶ output:   to a far network ─ mark, so that routing leads it to lo ─▶ prerouting
//!   held SYN ─▶ told of and dropped; let in: raw socket, another mark ─▶ lo ─▶ prerouting: a listener of its own
//!   from a target ─▶ prerouting: to an address that a socket of ours has borrowed ─▶ that socket
//!
//!   ip rule: marked packets ─▶ our table of routes: everything is local
//! ```
//! [`Plan`] has what decides on the first packet of a connection. The rule and the routes are there before
//! the nftables table and go after it: what is diverted meanwhile would find no way. The table goes with
//! its process, however we end. What a crash leaves of the rest, a rule for a mark that nobody sets,
//! does nothing, and is taken over at the next start.

mod hold;
mod plan;
mod syn;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use nix::libc;
use proto::rules::Counters;
use tracing::warn;

use super::netlink::{self, Netlink, Request};
use super::nft::{self, Nft};

pub(crate) use hold::{Denial, Hold};
pub(crate) use plan::{Fate, Plan, Rule};
use plan::{LED, MARK};
pub(crate) use syn::Syn;

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
                     nft_tproxy nft_socket`; nft_log too for handshake = \"end-to-end\"), and nftables 1.0.1 or newer built with its command \
                     line, are needed";

/// In the order in which they are made.
const PARTS: [Part; 2] = [Part::Route, Part::Rule];

/// The diversion, while it lasts.
#[derive(Debug)]
pub(crate) struct Diversion {
    plan: Plan,
    /// Before the routes, so dropped before them: nothing is diverted any more when they go.
    nft: Nft,
    _routes: Routes,
}

/// The rule for marked packets, and the route that it leads to, of each family.
#[derive(Debug)]
struct Routes {
    netlink: Netlink,
    /// What is to be removed in the end, the last first: an address of the family, and which of both.
    made: Vec<(IpAddr, Part)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Route,
    Rule,
}

impl Diversion {
    /// Diverts connections from now on.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule, with the remedy.
    pub(crate) fn set_up(plan: Plan) -> anyhow::Result<Self> {
        let mut routes =
            Routes { netlink: Netlink::open().context("cannot ask the kernel")?, made: Vec::new() };
        for family in plan.families() {
            routes
                .add(family)
                .with_context(|| format!("no rule for connections diverted to {family}"))?;
        }
        let nft = Nft::start(FAMILY, &plan.script(), NEEDS)?;
        // No other gateway has the table, so what there was is nobody's.
        routes.take_over(plan.families());
        Ok(Self { plan, nft, _routes: routes })
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

impl Routes {
    /// Adds what a family needs; what is there already stays whose it is.
    fn add(&mut self, family: IpAddr) -> io::Result<()> {
        for part in PARTS {
            let flags = u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap_or_default();
            match self.netlink.ask(&part.request(family, true, flags)?, |_| {}) {
                Ok(()) => self.made.push((family, part)),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What these families need is to be removed in the end, whoever made it.
    fn take_over(&mut self, families: impl Iterator<Item = IpAddr>) {
        self.made = families.flat_map(|family| PARTS.map(|part| (family, part))).collect();
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        for &(family, part) in self.made.iter().rev() {
            let request = part.request(family, false, 0);
            match request.and_then(|request| self.netlink.ask(&request, |_| {})) {
                Ok(()) => {}
                // Somebody else has removed it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
                Err(error) => {
                    warn!(%error, "the rule for diverted connections is not removed");
                }
            }
        }
    }
}

impl Part {
    /// Adds it for a family, or removes it.
    fn request(self, family: IpAddr, adds: bool, flags: u16) -> io::Result<Request> {
        let pick = |add, remove| if adds { add } else { remove };
        let mut fixed = [0; FIXED];
        fixed[0] = netlink::family(family);
        match self {
            Self::Route => {
                fixed[5] = PROTOCOL;
                fixed[6] = libc::RT_SCOPE_HOST;
                fixed[7] = libc::RTN_LOCAL;
                let loopback = nix::net::if_::if_nametoindex("lo")?;
                let kind = pick(libc::RTM_NEWROUTE, libc::RTM_DELROUTE);
                Ok(Request::set(kind, flags, &fixed)
                    .with(libc::RTA_TABLE, &ROUTES.to_ne_bytes())
                    .with(libc::RTA_OIF, &loopback.to_ne_bytes()))
            }
            Self::Rule => {
                fixed[7] = FR_ACT_TO_TBL;
                let kind = pick(libc::RTM_NEWRULE, libc::RTM_DELRULE);
                Ok(Request::set(kind, flags, &fixed)
                    .with(FRA_PRIORITY, &PRIORITY.to_ne_bytes())
                    .with(FRA_FWMARK, &MARK.to_ne_bytes())
                    .with(FRA_FWMASK, &LED.to_ne_bytes())
                    .with(FRA_TABLE, &ROUTES.to_ne_bytes()))
            }
        }
    }
}
