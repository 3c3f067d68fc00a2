//! How packets find a service's device, and what becomes of them without it: routes and rules, put back
//! when they go.
//!
//! ```text
//!   Wish ──▶ Ways ──▶ claims: routes and rules         left by a crash, taken over at the start
//!              ▲                                       removed by a clean end
//!              └── Changes ◀── the kernel: a route went, a device was taken down and up
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context as _, bail};
use nix::libc;
use proto::ip::Prefix;
use tracing::warn;

use super::claims::{Claims, Entry, Rival, Wish, rivals};
use super::device::{self, Device};
use super::links;
use super::netlink::{Monitor, Netlink};
use super::settings::Settings;

/// Datagrams of the kernel's that are read before packets have their turn.
const READS: usize = 64;

/// The routes and rules of a service.
pub(crate) struct Ways {
    netlink: Netlink,
    claims: Claims,
    /// For each of its devices.
    wishes: Vec<Wish>,
    /// Which key of a configuration lets our routes take the place of others', if any does.
    consent: Consent,
    /// Interfaces that would refuse what comes by the device, because it would not go back by them.
    loosened: Settings,
}

/// Whether routes of others that would win give way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Consent {
    /// They do.
    Given,
    /// They do not; this key of the configuration would let them.
    Wanted(&'static str),
    /// They do not.
    Withheld,
}

impl Ways {
    /// Claims the routes to the networks behind the devices of a service, at least one; what an earlier
    /// run has left is taken over.
    ///
    /// # Errors
    /// When one is taken or refused, with the remedy.
    pub(crate) fn open(wishes: Vec<Wish>, consent: Consent) -> anyhow::Result<Self> {
        let owner = wishes.first().context("no device leads anywhere")?.owner;
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let claims = Claims::open(owner).context("cannot ask the kernel")?;
        let loosened = Settings::default();
        let mut ways = Self { netlink, claims, wishes: Vec::new(), consent, loosened };
        ways.follow(wishes)?;
        Ok(ways)
    }

    /// Other networks are behind the devices.
    ///
    /// # Errors
    /// When a route is taken or refused, with the remedy. All is as before then.
    pub(crate) fn follow(&mut self, mut wishes: Vec<Wish>) -> anyhow::Result<()> {
        for wish in &mut wishes {
            self.make_way(wish)?;
            if wish.networks().any(|network| network.address().is_ipv6()) {
                device::enable_v6(&wish.name);
            }
        }
        self.claims.set(plan(&wishes)).context("the routes")?;
        self.wishes = wishes;
        self.loosen();
        Ok(())
    }

    /// What is wished for the device of a service that has one.
    pub(crate) fn wish(&self) -> Wish {
        self.wishes.first().cloned().unwrap_or_default()
    }

    /// The service itself sends to these.
    pub(crate) fn set_endpoints(&mut self, endpoints: &BTreeSet<IpAddr>) {
        for wish in &mut self.wishes {
            wish.endpoints.clone_from(endpoints);
        }
        let plan = plan(&self.wishes);
        if self.claims.is(&plan) {
            return;
        }
        if let Err(why) = self.claims.set(plan) {
            warn!(why = %format!("{why:#}"), "routes do not follow the addresses of the peers");
        }
        self.loosen();
    }

    /// Has the new ones of a wish's routes take the place of others', where that is allowed.
    fn make_way(&mut self, wish: &mut Wish) -> anyhow::Result<()> {
        let before = self.wishes.iter().find(|before| before.device == wish.device);
        let has = |network: &Prefix| {
            before.is_some_and(|before| before.networks().any(|it| it == *network))
        };
        let (old, new): (Vec<_>, Vec<_>) = wish.networks().partition(has);
        wish.taken = before.map(|before| before.taken.clone()).unwrap_or_default();
        wish.taken.retain(|taken| old.contains(taken));
        let rivals = rivals(&mut self.netlink, wish.owner, wish.device, &new)
            .context("cannot ask for routes")?;
        self.expect_consent(wish, &rivals)?;
        // One with a greater metric changes nothing as long as ours is there; but it would be the way
        // without, and not what refuses packets.
        let is_taken = |rival: &Rival| rival.wins || !wish.is_open;
        let taken = rivals.into_iter().filter(|(_, rival)| is_taken(rival));
        wish.taken.extend(taken.map(|(network, _)| network));
        Ok(())
    }

    fn expect_consent(&self, wish: &Wish, rivals: &BTreeMap<Prefix, Rival>) -> anyhow::Result<()> {
        let Some((network, Rival { said, .. })) = rivals.iter().find(|(_, rival)| rival.wins)
        else {
            return Ok(());
        };
        let remedy = match self.consent {
            Consent::Given => return Ok(()),
            Consent::Wanted(key) => {
                format!(", or let ours take its place while it is there with {key} = true")
            }
            Consent::Withheld => String::new(),
        };
        let its = wish.routes.iter().find(|(_, route)| route.network() == *network);
        let whose = its.map_or("a peer", |(whose, _)| whose);
        bail!(
            "the route of {whose} to {network}: there is one already, `{said}`: remove it with \
             `ip route delete {said}`, add it with a greater metric{remedy}"
        );
    }

    /// Where the packets of the peers may come by: without our mark the way back to them is the device,
    /// and interfaces that filter by the way back would drop them.
    fn loosen(&mut self) {
        if !self.wishes.iter().any(Wish::has_rules) {
            return;
        }
        let of_all = Settings::read("all", "rp_filter").unwrap_or_default();
        for name in Settings::interfaces() {
            let its = Settings::read(&name, "rp_filter").unwrap_or_default();
            let is_ours = self.wishes.iter().any(|wish| wish.name == name);
            // The greater of both counts.
            if !is_ours && its.max(of_all.clone()) == "1" {
                self.loosened.set(&name, "rp_filter", "2");
            }
        }
    }
}

fn plan(wishes: &[Wish]) -> BTreeSet<Entry> {
    wishes.iter().flat_map(Wish::plan).collect()
}

/// What the kernel tells of changes.
pub(crate) struct Changes {
    monitor: Monitor,
    /// Devices of ours that are down.
    down: BTreeSet<u32>,
}

/// What came of changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// Routes and rules that were put back.
    pub(crate) restored: u64,
    /// Whether this host may have other addresses now.
    pub(crate) has_addresses: bool,
}

impl Changes {
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let monitor = Monitor::open().context("cannot hear of changes")?;
        Ok(Self { monitor, down: BTreeSet::new() })
    }

    /// Reads what has changed, and puts back what is missing; `restore` gives the device of this number its
    /// addresses again.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn handle(
        &mut self,
        ways: &mut Ways,
        mut restore: impl FnMut(u32),
    ) -> anyhow::Result<Outcome> {
        let Self { monitor, down } = self;
        let (mut routes, mut links, mut outcome) = (false, false, Outcome::default());
        let is_lossy = monitor
            .read_some(READS, |message| {
                routes |= ways.claims.is_concerned(message);
                outcome.has_addresses |=
                    matches!(message.kind, libc::RTM_NEWADDR | libc::RTM_DELADDR);
                let Some((index, is_up)) = links::up(message) else { return };
                links = true;
                if ways.wishes.iter().any(|wish| wish.device == index) {
                    if is_up {
                        // IPv4's routes go without a word when the device goes down.
                        routes |= down.remove(&index);
                    } else {
                        down.insert(index);
                    }
                }
            })
            .context("cannot hear of changes")?;
        outcome.has_addresses |= is_lossy;
        if routes || is_lossy {
            let up = ways.wishes.iter().map(|wish| wish.device).filter(|it| !down.contains(it));
            up.for_each(&mut restore);
            outcome.restored = ways.claims.reconcile().context("cannot ask for routes")?;
        }
        if links || is_lossy {
            ways.loosen();
        }
        Ok(outcome)
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}

/// Devices of a service of one thread, and the ways to them.
pub(crate) struct Kept {
    devices: Vec<Device>,
    ways: Ways,
    changes: Changes,
}

impl Kept {
    /// As [`Ways::open`].
    ///
    /// # Errors
    /// As [`Ways::open`].
    pub(crate) fn open(devices: Vec<Device>, wishes: Vec<Wish>) -> anyhow::Result<Self> {
        // Nothing is missed between both.
        let changes = Changes::open()?;
        let ways = Ways::open(wishes, Consent::Withheld)?;
        Ok(Self { devices, ways, changes })
    }

    /// Puts back what is missing, and returns how many routes and rules that were; to be called when there
    /// is something to read.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn handle_ready(&mut self) -> anyhow::Result<u64> {
        let Self { devices, ways, changes } = self;
        let outcome = changes.handle(ways, |index| {
            devices.iter_mut().filter(|device| device.index() == index).for_each(Device::restore);
        })?;
        Ok(outcome.restored)
    }
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}
