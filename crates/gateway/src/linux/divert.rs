//! Diverts TCP connections of other programs to this host, although their addresses are not ours.
//!
//! ```text
//!   from a LAN ─▶ prerouting: to a far network ─ tproxy ─▶ our listener, with the mark
//!   of this host ─▶ output:   to a far network ─ mark, so that routing leads it to lo ─▶ prerouting
//!   held SYN ─▶ told of and dropped; let in: raw socket, another mark ─▶ lo ─▶ prerouting: a listener of its own
//!   from a target ─▶ prerouting: to an address that a socket of ours has borrowed ─▶ that socket
//!
//!   ip rule: marked packets ─▶ our table of routes: everything is local
//! ```
//! [`Plan`] decides on the first packet of a connection. The rule and the routes are made before the nftables
//! table and removed after it. If somebody removes them they come back; meanwhile the table drops marked packets
//! that would leave this host, so that none leaves past us.

mod hold;
mod plan;
mod syn;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use base::time::Time;
use host::nft;
use host::{Lead, Owner};
use nix::libc;
use rules::Counters;
use tracing::warn;

use super::led::Led;

pub(crate) use hold::{Denial, Hold};
pub(crate) use plan::{Fate, Plan, Rule};
use plan::{LED, MARK};
pub(crate) use syn::Syn;

/// Leads diverted packets to this host: a rule before all other rules.
const LEAD: Lead = Lead { mark: MARK, mask: LED, table: 29_810, priority: 100 };
/// The family of the table.
const FAMILY: &str = "inet";
const NEEDS: &str = "Linux 5.9 or newer with NFT_TPROXY and NFT_SOCKET, or their modules (`modprobe -a \
                     nft_tproxy nft_socket`; nft_log too for handshake = \"end-to-end\"), and nftables 1.0.1 or newer built with its command \
                     line, are needed";

/// The diversion, while it lasts.
pub(crate) struct Diversion {
    plan: Plan,
    led: Led,
}

impl Diversion {
    /// Diverts connections from now on.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule, with the remedy.
    pub(crate) fn set_up(plan: Plan) -> anyhow::Result<Self> {
        let mut led =
            Led::start(Owner::HfPep, LEAD, plan.families(), FAMILY, &plan.script(), NEEDS)?;
        if let Err(why) =
            led.nft().change(FAMILY, &Plan::own_errors(), "nftables 1.0.3 or newer is needed")
        {
            warn!(
                why = %format!("{why:#}"),
                "errors of this host itself do not reach connections with others' addresses: that nobody \
                 is at a target's address is noticed after 30 s"
            );
        }
        Ok(Self { plan, led })
    }

    /// Lets other rules decide from now on, on connections to other networks from other interfaces.
    /// Existing connections go on.
    ///
    /// # Errors
    /// When `nft` or the kernel refuses; nothing has changed.
    pub(crate) fn follow(&mut self, plan: Plan) -> anyhow::Result<()> {
        // Rules for a version of IP without diverted connections do no harm: no packet has the mark.
        self.led.follow(plan.families().chain(self.plan.families()))?;
        self.led.nft().change(FAMILY, &plan.follow(&self.plan), NEEDS)?;
        self.plan = plan;
        Ok(())
    }

    /// Whether any SYN is held.
    pub(crate) fn holds(&self) -> bool {
        self.plan.holds()
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

    /// When to call [`Self::handle_ready`] at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.led.next_timeout()
    }

    /// Puts back what others have removed, and returns the complaints of `nft`.
    ///
    /// # Errors
    /// When `nft` has ended, and the diversion with it.
    pub(crate) fn handle_ready(&mut self, now: Time) -> anyhow::Result<String> {
        self.led.handle_ready(now)
    }

    /// What is not as it should be, in words for an operator.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.led.faults()
    }
}

impl AsFd for Diversion {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.led.as_fd()
    }
}
