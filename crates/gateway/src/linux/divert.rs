//! Diverts TCP connections of other programs to this host, although their addresses are not ours.
//!
//! ```text
//!   from a LAN ─▶ prerouting: to a far network ─ tproxy ─▶ our listener, with the mark
//!   of this host ─▶ output:   to a far network ─ mark, so that routing leads it to lo ─▶ prerouting
//!   held SYN ─▶ told of and dropped; let in: raw socket, another mark ─▶ lo ─▶ prerouting: a listener of its own
//!   from a target ─▶ prerouting: to an address borrowed by a socket of ours ─▶ the socket
//!
//!   ip rule: marked packets ─▶ our table of routes: everything is local
//! ```
//! [`Plan`] decides on the first packet of a connection. The rule and the routes are made before the nftables
//! table and removed after it. If somebody removes the rule or the routes, they are made again; meanwhile the
//! table drops marked packets that would leave this host and bypass us. The table goes with its process; another one
//! stays, and drops what only a missing diversion can let through.

mod hold;
mod plan;
mod syn;

use std::io;
use std::sync::Arc;

use base::time::Time;
use host::nft::{self, Told};
use host::{Kept, Observer, Owner};
use rules::Counters;
use tracing::warn;

use super::led::{DIVERTED, Led};

pub(crate) use hold::{Denial, Hold};
pub(crate) use plan::{Fate, Plan, Rule, on_shore};
pub(crate) use syn::Syn;

const NEEDS: &str = "Linux 5.9 or newer with NFT_TPROXY and NFT_SOCKET, or their modules (`modprobe -a \
                     nft_tproxy nft_socket`; nft_log too for handshake = \"end-to-end\"), and nftables 1.0.1 or newer built with its command \
                     line, are needed";

/// The diversion, while it lasts.
pub(crate) struct Diversion {
    plan: Plan,
    pub(crate) led: Led,
}

impl Diversion {
    /// Diverts connections from now on.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule, with the remedy.
    pub(crate) fn set_up(observer: &Arc<Observer>, plan: Plan) -> anyhow::Result<Self> {
        let script = plan.script();
        let mut led =
            Led::start(observer, Owner::HfPep, DIVERTED, &plan.networks, plan.shut(), &script)?;
        notice_own_errors(&mut led);
        Ok(Self { plan, led })
    }

    /// Lets other rules decide from now on, on connections to other networks from other interfaces.
    /// Existing connections go on.
    ///
    /// # Errors
    /// When `nft` or the kernel refuses; nothing has changed.
    pub(crate) fn follow(&mut self, plan: Plan) -> anyhow::Result<()> {
        self.led.follow(&plan.networks)?;
        self.led.change(plan.shut(), &plan.follow(&self.plan))?;
        self.plan = plan;
        Ok(())
    }

    /// Diverts nothing any more, and returns what keeps the table that stays.
    pub(crate) fn end(self) -> Kept {
        let kept = self.led.end();
        host::timewait::forget();
        kept
    }

    /// Whether any SYN is held.
    pub(crate) fn holds(&self) -> bool {
        self.plan.holds()
    }

    /// The packets blocked by each rule, with the rule's name.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn blocked(&self) -> io::Result<Vec<(String, Counters)>> {
        let counted = nft::counters(nft::TABLE)?.into_iter();
        Ok(counted
            .filter_map(|(name, packets, octets)| {
                let name = name.strip_prefix(plan::COUNTER)?.to_owned();
                Some((name, Counters { hits: packets, octets, blocked: packets }))
            })
            .collect())
    }

    /// Puts back what others have removed, and takes complaints of `nft`.
    ///
    /// # Errors
    /// When the table is gone and cannot be made again, or the kernel cannot be asked.
    pub(crate) fn handle_ready(&mut self, now: Time) -> anyhow::Result<Told> {
        let told = self.led.handle_ready(now, || self.plan.script())?;
        if told == Told::MadeAgain {
            notice_own_errors(&mut self.led);
        }
        Ok(told)
    }
}

/// Lets errors of this host itself reach connections with others' addresses, where `nft` knows how.
fn notice_own_errors(led: &mut Led) {
    let needs = "nftables 1.0.3 or newer is needed";
    if let Err(why) = led.table().change(&Plan::own_errors(), Some(needs)) {
        warn!(
            why = %format!("{why:#}"),
            "errors of this host itself do not reach connections with others' addresses: that nobody \
             is at a target's address is noticed after 30 s"
        );
    }
}
