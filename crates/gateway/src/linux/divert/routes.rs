//! Leads marked packets to this host, whatever their addresses: by a rule, and a table of routes.

use std::io;
use std::net::IpAddr;

use anyhow::Context as _;
use nix::libc;
use tracing::warn;

use super::super::netlink::{self, Netlink, Request};

/// Origin of the rule and the routes, as shown by `ip route`.
const PROTOCOL: u8 = 116;
const FIXED: usize = 12;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FR_ACT_TO_TBL: u8 = 1;

/// In the order in which they are made.
const PARTS: [Part; 2] = [Part::Route, Part::Rule];

/// The marked packets, and the rule and table for them.
#[derive(Clone, Copy, Debug)]
pub(in crate::linux) struct Lead {
    /// The mark of the packets.
    pub(in crate::linux) mark: u32,
    /// The bits of the mark that count.
    pub(in crate::linux) mask: u32,
    /// Number of the table of routes.
    pub(in crate::linux) table: u32,
    /// Priority of the rule that leads to the table.
    pub(in crate::linux) priority: u32,
}

/// The rule for marked packets, and the route that it leads to, of each family.
#[derive(Debug)]
pub(in crate::linux) struct Routes {
    lead: Lead,
    netlink: Netlink,
    /// Added parts, removed in the end in reverse order: an address of the family, and whether rule or route.
    made: Vec<(IpAddr, Part)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Route,
    Rule,
}

impl Routes {
    /// Leads marked packets of these families to this host until the returned value is dropped.
    ///
    /// # Errors
    /// When the kernel takes no rule.
    pub(in crate::linux) fn set_up(
        lead: Lead,
        families: impl Iterator<Item = IpAddr>,
    ) -> anyhow::Result<Self> {
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let mut routes = Self { lead, netlink, made: Vec::new() };
        routes.extend(families)?;
        Ok(routes)
    }

    /// Leads marked packets of these families here too.
    ///
    /// # Errors
    /// When the kernel takes no rule.
    pub(in crate::linux) fn extend(
        &mut self,
        families: impl Iterator<Item = IpAddr>,
    ) -> anyhow::Result<()> {
        for family in families {
            self.add(family)
                .with_context(|| format!("no rule for connections diverted to {family}"))?;
        }
        Ok(())
    }

    /// Adds the missing parts for a family; existing parts stay with their owner.
    fn add(&mut self, family: IpAddr) -> io::Result<()> {
        for part in PARTS {
            let flags = u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap_or_default();
            match self.netlink.ask(&part.request(&self.lead, family, true, flags)?, |_| {}) {
                Ok(()) => self.made.push((family, part)),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes over the parts of these families, whoever made them, and removes them in the end.
    pub(in crate::linux) fn take_over(&mut self, families: impl Iterator<Item = IpAddr>) {
        self.made = families.flat_map(|family| PARTS.map(|part| (family, part))).collect();
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        for &(family, part) in self.made.iter().rev() {
            let request = part.request(&self.lead, family, false, 0);
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
    fn request(self, lead: &Lead, family: IpAddr, adds: bool, flags: u16) -> io::Result<Request> {
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
                    .with(libc::RTA_TABLE, &lead.table.to_ne_bytes())
                    .with(libc::RTA_OIF, &loopback.to_ne_bytes()))
            }
            Self::Rule => {
                fixed[7] = FR_ACT_TO_TBL;
                let kind = pick(libc::RTM_NEWRULE, libc::RTM_DELRULE);
                Ok(Request::set(kind, flags, &fixed)
                    .with(FRA_PRIORITY, &lead.priority.to_ne_bytes())
                    .with(FRA_FWMARK, &lead.mark.to_ne_bytes())
                    .with(FRA_FWMASK, &lead.mask.to_ne_bytes())
                    .with(FRA_TABLE, &lead.table.to_ne_bytes()))
            }
        }
    }
}
