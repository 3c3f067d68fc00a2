//! Keeps the routes and rules that lead packets to a service's device, or refuse them without it: missing ones
//! are put back.
//!
//! ```text
//!   Wish ──▶ Ways ──▶ claims: routes and rules         left by a crash, taken over at the start
//!              ▲                                       removed by a clean end
//!              └── Changes ◀── the kernel: a route went or came, a device was taken down and up
//! ```
//! If another program adds a route to one of our networks, our route moves to a table of its own, which comes
//! first. So packets still come to us, and nobody fights for the place in the main table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context as _, bail};
use base::budget::Budget;
use base::ip::Prefix;
use base::time::Time;
use nix::libc;
use nix::poll::PollFlags;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use tracing::warn;

use super::claims::{self, Claims, Entry, Owner, Rival, Wish, rivals};
use super::device::{self, Device};
use super::fence::{self, Fence, Removals};
use super::links;
use super::netlink::{Monitor, Netlink};
use super::settings::Settings;

/// Datagrams of the kernel's that are read before packets have their turn.
const READS: usize = 64;
/// Times in a row that somebody may change our routes and find them put back at once, and until the next
/// time after that: whoever removes them again and again is not worth more of the thread.
const LOOKS: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(6);
/// Faults shown to an operator at most; thousands of routes may have faults.
const FAULTS: usize = 8;

/// The routes and rules of a service.
pub(crate) struct Ways {
    netlink: Netlink,
    claims: Claims,
    /// For each of its devices.
    wishes: Vec<Wish>,
    /// Keeps out what comes otherwise than by the devices in the name of those behind them.
    fence: Fence,
    /// Interfaces of the MANET.
    radios: BTreeSet<String>,
    /// Which key of a configuration lets our routes take the place of others', if any does.
    consent: Consent,
    /// Changed reverse path filters of interfaces: strict ones would refuse packets whose answers leave by the device.
    loosened: Settings,
    /// Routes of other programs added since to our networks, as `ip route` writes them.
    displacing: BTreeMap<Prefix, String>,
    /// Whether the check for missing routes is put off, because others change them all the time.
    is_put_off: bool,
}

/// Whether winning routes of other programs give way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Consent {
    /// They do.
    Given,
    /// Routes of others do not give way, unless this key of the configuration is set.
    Wanted(&'static str),
    /// They do not.
    Withheld,
}

impl Ways {
    /// Claims the routes to the networks behind the devices of a service, at least one; what an earlier
    /// run has left is taken over. `radios` are the interfaces of the MANET, if there is one.
    ///
    /// # Errors
    /// When one is taken or refused, with the remedy.
    pub(crate) fn open(
        wishes: Vec<Wish>,
        radios: BTreeSet<String>,
        consent: Consent,
    ) -> anyhow::Result<Self> {
        let owner = wishes.first().context("no device leads anywhere")?.owner;
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let claims = Claims::open(owner).context("cannot ask the kernel")?;
        let mut ways = Self {
            netlink,
            claims,
            wishes: Vec::new(),
            fence: Fence::new(owner),
            radios,
            consent,
            loosened: Settings::default(),
            displacing: BTreeMap::new(),
            is_put_off: false,
        };
        ways.follow(wishes)?;
        Ok(ways)
    }

    /// Other networks are behind the devices.
    ///
    /// # Errors
    /// When a route is taken or refused, with the remedy. All is as before then.
    pub(crate) fn follow(&mut self, mut wishes: Vec<Wish>) -> anyhow::Result<()> {
        self.make_way(&mut wishes)?;
        for wish in &wishes {
            if wish.networks().any(|network| network.address().is_ipv6()) {
                device::enable_v6(&wish.name);
            }
        }
        self.claims.set(plan(&wishes)).context("the routes")?;
        self.displacing.retain(|network, _| wishes.iter().any(|wish| wish.taken.contains(network)));
        self.wishes = wishes;
        self.loosen();
        self.fence.follow(&self.wishes, &self.radios);
        Ok(())
    }

    /// The MANET has these interfaces from now on.
    pub(crate) fn set_radios(&mut self, radios: BTreeSet<String>) {
        self.radios = radios;
        self.fence.follow(&self.wishes, &self.radios);
    }

    /// Packets that came in clear in the name of those behind the devices, and were dropped.
    pub(crate) fn kept_out(&self) -> u64 {
        self.fence.dropped()
    }

    /// The wish for the only device of a service.
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

    /// Deviations from the wishes, in words for an operator.
    pub(crate) fn faults(&self) -> Vec<String> {
        let displaced = self.displacing.iter().map(|(network, said)| {
            format!("{network}: `{said}` came; our route stands aside now, before it")
        });
        let missing = self.claims.missing();
        let missing_said =
            missing.iter().map(|(entry, why)| format!("{entry} is not there: {why}"));
        let mut faults: Vec<_> = missing_said.take(FAULTS).chain(displaced.take(FAULTS)).collect();
        let more = (missing.len() + self.displacing.len()).saturating_sub(faults.len());
        if more > 0 {
            faults.push(format!("{more} more routes"));
        }
        faults.extend(self.fence.fault());
        if self.is_put_off {
            faults.push(
                "others change our routes all the time: they are put back now and then".to_owned(),
            );
        }
        faults
    }

    /// Repairs changes made by others, and returns what was repaired.
    fn look(&mut self) -> anyhow::Result<Outcome> {
        let displaced = self.stand_aside()?;
        let restored = self.claims.reconcile().context("cannot ask for routes")?;
        let restored = restored + u64::from(self.fence.restore());
        Ok(Outcome { restored, displaced, ..Outcome::default() })
    }

    /// Moves routes aside whose place other programs have taken, or would take as soon as ours were gone; returns
    /// the number of moved routes.
    fn stand_aside(&mut self) -> anyhow::Result<u64> {
        let in_main = |wish: &Wish| -> Vec<_> {
            wish.networks().filter(|network| !wish.is_aside(network)).collect()
        };
        let networks = self.wishes.iter().flat_map(in_main).collect();
        let rivals = rivals_of(&mut self.netlink, &self.wishes, &networks)?;
        let mut wishes = self.wishes.clone();
        let taken = take(&mut wishes, &rivals);
        if taken.is_empty() {
            return Ok(0);
        }
        if let Err(why) = self.claims.set(plan(&wishes)) {
            warn!(why = %format!("{why:#}"), "routes do not stand aside of others'");
            return Ok(0);
        }
        self.wishes = wishes;
        self.loosen();
        let count = taken.len() as u64;
        for network in taken {
            let said = rivals.get(&network).map_or("", |rival| &rival.said);
            warn!(%network, came = said, "another route to a network of ours: ours stands aside, before it");
            self.displacing.insert(network, said.to_owned());
        }
        Ok(count)
    }

    /// Lets new routes of the wishes take the place of other programs' routes, where allowed.
    fn make_way(&mut self, wishes: &mut [Wish]) -> anyhow::Result<()> {
        let mut new = BTreeSet::new();
        for wish in &mut *wishes {
            let before = self.wishes.iter().find(|before| before.device == wish.device);
            let old: BTreeSet<_> = before.into_iter().flat_map(Wish::networks).collect();
            let here: BTreeSet<_> = wish.networks().collect();
            wish.taken = before.map(|before| before.taken.clone()).unwrap_or_default();
            wish.taken.retain(|taken| here.contains(taken));
            new.extend(here.difference(&old));
        }
        let rivals = rivals_of(&mut self.netlink, wishes, &new)?;
        self.expect_consent(wishes, &rivals)?;
        take(wishes, &rivals);
        Ok(())
    }

    fn expect_consent(
        &self,
        wishes: &[Wish],
        rivals: &BTreeMap<Prefix, Rival>,
    ) -> anyhow::Result<()> {
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
        let mut routes = wishes.iter().flat_map(|wish| &wish.routes);
        let its = routes.find(|(_, route)| route.network() == *network);
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

fn rivals_of(
    netlink: &mut Netlink,
    wishes: &[Wish],
    networks: &BTreeSet<Prefix>,
) -> anyhow::Result<BTreeMap<Prefix, Rival>> {
    let Some(Wish { owner, .. }) = wishes.first() else { return Ok(BTreeMap::new()) };
    let devices: Vec<_> = wishes.iter().map(|wish| wish.device).collect();
    rivals(netlink, *owner, &devices, networks).context("cannot ask for routes")
}

/// Moves routes aside that rival routes would beat, and returns their networks.
fn take(wishes: &mut [Wish], rivals: &BTreeMap<Prefix, Rival>) -> Vec<Prefix> {
    let mut all = Vec::new();
    for wish in wishes {
        // A rival route of a greater metric changes nothing while our route stands; but without our route it would
        // carry the packets, in place of the entry that refuses them.
        let is_taken =
            |network: &Prefix| rivals.get(network).is_some_and(|rival| rival.wins || !wish.is_open);
        let taken: Vec<_> = wish.networks().filter(is_taken).collect();
        wish.taken.extend(&taken);
        all.extend(taken);
    }
    all
}

fn plan(wishes: &[Wish]) -> BTreeSet<Entry> {
    wishes.iter().flat_map(Wish::plan).collect()
}

/// Gives up all that leads to the devices of a service, whether it runs or not.
pub(crate) fn give_up(owner: Owner) {
    claims::give_up(owner);
    fence::give_up(owner);
}

/// The kernel's notices of changes to routes and rules.
pub(crate) struct Changes {
    /// Becomes ready when either source of notices is ready.
    either: Epoll,
    monitor: Monitor,
    /// Notices of nftables, if the kernel has nftables.
    removals: Option<Removals>,
    /// Devices of ours that are down.
    down: BTreeSet<u32>,
    looks: Budget,
    /// When to look whether all is there, if something may be missing.
    look_at: Option<Time>,
}

/// What came of changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// Routes and rules that were put back.
    pub(crate) restored: u64,
    /// Routes that stand aside now because others' came.
    pub(crate) displaced: u64,
    /// Whether this host may have other addresses now.
    pub(crate) has_addresses: bool,
}

impl Changes {
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let monitor = Monitor::open().context("cannot hear of changes")?;
        let removals = Removals::open().ok();
        let either =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("cannot hear of changes")?;
        let both = [Some(&monitor), removals.as_ref().map(Removals::monitor)];
        for it in both.into_iter().flatten() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
            either.add(it, event).context("cannot hear of changes")?;
        }
        let looks = Budget::new(Time::ZERO, LOOKS, INTERVAL);
        Ok(Self { either, monitor, removals, down: BTreeSet::new(), looks, look_at: None })
    }

    /// When to call [`Self::handle`] at the latest, whether there is something to read or not.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.look_at
    }

    /// Whether to call [`Self::handle`].
    pub(crate) fn is_due(&self, now: Time, ready: PollFlags) -> bool {
        !ready.is_empty() || self.look_at.is_some_and(|at| at <= now)
    }

    /// Reads notices of changes, and repairs deviations from the wishes; `restore` gives the device of this
    /// number its addresses again, and returns whether the device has all of its addresses.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        ways: &mut Ways,
        mut restore: impl FnMut(u32) -> bool,
    ) -> anyhow::Result<Outcome> {
        let Self { monitor, removals, down, .. } = self;
        let (mut routes, mut links, mut addresses) = (false, false, false);
        let devices: Vec<_> = ways.wishes.iter().map(|wish| wish.device).collect();
        let is_lossy = monitor
            .read_some(READS, |message| {
                routes |= ways.claims.is_concerned(message, &devices);
                addresses |= matches!(message.kind, libc::RTM_NEWADDR | libc::RTM_DELADDR);
                let Some((index, is_up)) = links::up(message) else { return };
                links = true;
                // IPv4's routes go without a word when the device goes down.
                if devices.contains(&index) {
                    routes |= if is_up { down.remove(&index) } else { down.insert(index) };
                }
            })
            .context("cannot hear of changes")?;
        if links || is_lossy {
            ways.loosen();
        }
        if let Some(removals) = removals {
            routes |= removals.read(READS).context("cannot hear of changes")?;
        }
        if routes || is_lossy {
            self.look_at = Some(now);
        }
        let mut outcome = Outcome::default();
        if self.look_at.is_some_and(|at| at <= now) {
            if self.looks.spend(now) {
                let mut has_all = true;
                for &device in devices.iter().filter(|device| !self.down.contains(device)) {
                    has_all &= restore(device);
                }
                outcome = ways.look()?;
                ways.is_put_off = false;
                // What is missing although its device is up was refused, and may not be the next time.
                let missing = ways.claims.missing();
                let is_refused = !has_all || missing.keys().any(|entry| !entry.is_by(&self.down));
                self.look_at = is_refused.then_some(now + 2 * INTERVAL);
            } else {
                if !ways.is_put_off {
                    warn!("others change our routes all the time: they are put back now and then");
                }
                ways.is_put_off = true;
                self.look_at = Some(now + INTERVAL);
            }
        }
        outcome.has_addresses = addresses || is_lossy;
        Ok(outcome)
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.0.as_fd()
    }
}

/// The devices of a single-threaded service, with the routes to them.
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
    pub(crate) fn open(
        devices: Vec<Device>,
        wishes: Vec<Wish>,
        radios: BTreeSet<String>,
    ) -> anyhow::Result<Self> {
        // Nothing is missed between both.
        let changes = Changes::open()?;
        let ways = Ways::open(wishes, radios, Consent::Withheld)?;
        Ok(Self { devices, ways, changes })
    }

    /// When to call [`Self::handle_ready`] at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.changes.next_timeout()
    }

    /// Puts right what others have changed, if there is something to read or something is due, and returns what
    /// that was.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn handle_ready(&mut self, now: Time, ready: PollFlags) -> anyhow::Result<Outcome> {
        let Self { devices, ways, changes } = self;
        if !changes.is_due(now, ready) {
            return Ok(Outcome::default());
        }
        changes.handle(now, ways, |index| {
            let its = devices.iter_mut().find(|device| device.index() == index);
            its.is_none_or(Device::restore)
        })
    }

    /// All addresses of this host, whatever the interface; they change when [`Self::handle_ready`] says so.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn own_addresses(&mut self) -> anyhow::Result<BTreeSet<IpAddr>> {
        links::own_addresses(&mut self.ways.netlink).context("cannot ask for addresses")
    }

    /// As [`Ways::faults`].
    pub(crate) fn faults(&self) -> Vec<String> {
        self.ways.faults()
    }

    /// As [`Ways::kept_out`].
    pub(crate) fn kept_out(&self) -> u64 {
        self.ways.kept_out()
    }

    /// As [`Ways::set_radios`].
    pub(crate) fn set_radios(&mut self, radios: BTreeSet<String>) {
        self.ways.set_radios(radios);
    }
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}
