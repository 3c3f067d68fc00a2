//! Keeps the kernel entries that a service wants, and repairs changes by other programs.
//!
//! ```text
//!   DeviceRoutes, leads ──▶ Reconciler ──▶ plan ──▶ the kernel     a start takes over what a crash has left;
//!                             ▲      └──▶ faults                   `give_up` removes all after a clean end
//!                             └── Watch ◀── the kernel: something changed
//! ```
//! If another program adds a route to one of our networks, our route moves to a table of its own, which comes
//! first. So packets still come to us, and nobody fights for the place in the main table.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base::budget::Budget;
use base::counter::Counter;
use base::ip::Prefix;
use base::time::{Time, earliest};
use nix::libc;
use nix::poll::PollFlags;
use tracing::{debug, info, warn};

use crate::beside;
use crate::desired::DeviceRoutes;
use crate::entry::{self, Entry, Found, Owner, Table};
use crate::fault::{self, Fault};
use crate::fence::{self, Content, Fence, Growth};
use crate::links::{self, DeviceState};
use crate::netlink::{Kernel, Message, Request};
use crate::observer::{Interest, Observer, Subscription};
use crate::others::{self, Chosen};
use crate::pace::{INTERVAL, LOOKS, Pace, Trials};
use crate::plan::{self, Observed, Operation, Plan, Rival};
use crate::settings::Settings;

/// Kernel notices read before packets have their turn.
const READS: usize = 64;
/// Until refused entries are tried again.
const RETRY: Duration = Duration::from_secs(12);
/// Between two checks of our devices' settings, because the kernel does not report changes of settings.
const SETTINGS_INTERVAL: Duration = Duration::from_millis(500);
/// The most faults of a kind shown to an operator: thousands of routes may have faults.
const FAULTS: usize = 8;

/// The counter of [`Reconciler::kept_out`].
pub static IN_CLEAR: Counter = Counter::counter(
    "packets_in_clear",
    "packets",
    "Packets dropped because they came in clear in the name of hosts behind a service, or would have left in clear.",
);

/// Keeps a service's kernel entries.
pub struct Reconciler {
    owner: Owner,
    netlink: Kernel,
    /// Absent if entries are only listed or removed.
    observer: Option<Arc<Observer>>,
    foreign: Rivals,
    /// Complaints about other programs that use our numbers.
    clashes: BTreeSet<String>,
    /// Devices whose settings cannot be changed, and why.
    refused: BTreeMap<String, String>,
    /// Devices that others have renamed, and why they cannot have their names again.
    renamed: BTreeMap<String, String>,
    /// The service's devices, and entries wanted besides.
    devices: Vec<DeviceRoutes>,
    besides: BTreeSet<Entry>,
    wanted: BTreeSet<Entry>,
    /// Wanted entries that the kernel lacks, and why.
    missing: BTreeMap<Entry, String>,
    /// Drops packets that come or leave in clear.
    fence: Fence,
    /// Whether counters of the fence have grown lately; they are read while it has a wall.
    walled_off: BTreeMap<String, Growth>,
    /// How often the observer's wall had changed when the fence had it last.
    wall_changes: u64,
    /// Interfaces of the MANET.
    radios: BTreeSet<String>,
    /// How routes of ours treat other programs' routes.
    precedence: Precedence,
    /// Changed reverse path filters of interfaces: strict ones would refuse packets whose answers leave by the device.
    loosened: Settings,
    /// Routes of other programs added since to our networks, as `ip route` writes them.
    displacing: BTreeMap<Prefix, String>,
    /// Whether repairs are put off, because others change our entries all the time.
    is_put_off: bool,
    /// What was put back last, in words.
    last_restored: Option<String>,
    /// Whether a restarted service has not set its entries yet: obstacles that came meanwhile are faults, and do not
    /// prevent the start.
    is_restart: bool,
}

/// How new routes of ours treat other programs' routes that would win.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Precedence {
    /// Our routes come first.
    Ours,
    /// Our routes are refused, unless this key of the configuration is set.
    OursWith(&'static str),
    /// Our routes are refused.
    Theirs,
}

/// The result of a look at the kernel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// Routes, rules and addresses that were put back.
    pub restored: u64,
    /// Routes that newly stand aside for other programs' routes.
    pub displaced: u64,
    /// Whether this host may have other addresses now.
    pub has_addresses: bool,
}

/// Routes of other programs in the main table, at the last question to the kernel.
#[derive(Debug, Default)]
struct Rivals {
    /// The networks of the question.
    networks: BTreeSet<Prefix>,
    routes: Vec<Found>,
}

/// Which tables are searched for routes of other programs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Foreign {
    /// Our own tables; the main table's routes are known, because no notice has reported a change.
    OfOurTables,
    /// All tables.
    OfAllTables,
}

/// Something that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{entry}: {error}")]
struct Refused {
    entry: Entry,
    error: io::Error,
}

impl Reconciler {
    /// Wants nothing yet. Without an observer, entries are only listed or removed. `radios` are the interfaces of the MANET,
    /// if any. With `is_restart`, the service ran before in this process.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(
        owner: Owner,
        observer: Option<&Arc<Observer>>,
        radios: BTreeSet<String>,
        precedence: Precedence,
        is_restart: bool,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            owner,
            netlink: Kernel::open().context("cannot ask the kernel")?,
            observer: observer.cloned(),
            foreign: Rivals::default(),
            clashes: BTreeSet::new(),
            refused: BTreeMap::new(),
            renamed: BTreeMap::new(),
            devices: Vec::new(),
            besides: BTreeSet::new(),
            wanted: BTreeSet::new(),
            missing: BTreeMap::new(),
            fence: Fence::new(owner),
            walled_off: BTreeMap::new(),
            wall_changes: 0,
            radios,
            precedence,
            loosened: Settings::default(),
            displacing: BTreeMap::new(),
            is_put_off: false,
            last_restored: None,
            is_restart,
        })
    }

    /// Lists or removes the entries of a service.
    fn for_leftovers(owner: Owner) -> anyhow::Result<Self> {
        Self::new(owner, None, BTreeSet::new(), Precedence::Theirs, false)
    }

    /// Wants routes to the networks behind these devices from now on; takes over the entries left by an earlier run.
    ///
    /// # Errors
    /// When a route is taken or refused, with the remedy. Nothing has changed then.
    pub fn follow(&mut self, mut devices: Vec<DeviceRoutes>) -> anyhow::Result<()> {
        for device in &mut devices {
            let before = self.devices.iter().find(|before| before.device == device.device);
            let here: BTreeSet<_> = device.networks().collect();
            device.displaced = before.map(|before| before.displaced.clone()).unwrap_or_default();
            device.displaced.retain(|network| here.contains(network));
        }
        enable_v6(&devices);
        let observed =
            self.observe(&devices, Foreign::OfAllTables).context("cannot ask for routes")?;
        // Networks of ours before a crash are ours still: a restart must not fail for a route that came meanwhile.
        let left = observed.ours.iter().filter_map(|entry| Some(entry.place()?.0));
        let before = self.devices.iter().flat_map(DeviceRoutes::networks);
        let mut ours: BTreeSet<_> = left.chain(before).collect();
        if let Some(observer) = self.observer.as_ref().filter(|_| self.is_restart) {
            ours.extend(observer.networks(self.owner));
        }
        let rivals = observed.rivals(&devices);
        let new = rivals.iter().filter(|(network, _)| !ours.contains(network));
        self.expect_precedence(&devices, new)?;
        let displaced = plan::displace(&mut devices, &rivals);
        self.set(&devices, &self.besides.clone())?;
        if let Some(observer) = &self.observer {
            let networks = devices.iter().flat_map(DeviceRoutes::networks).collect();
            observer.note_networks(self.owner, networks);
        }
        self.is_restart = false;
        self.displacing
            .retain(|network, _| devices.iter().any(|it| it.displaced.contains(network)));
        self.devices = devices;
        // Nobody need be told of routes of ours that come first by the configuration.
        self.tell_displaced(displaced.iter().filter(|network| ours.contains(network)), &rivals);
        self.loosen();
        self.keep_wall();
        self.fence.follow_devices(&self.devices, &self.radios);
        Ok(())
    }

    /// Wants these entries from now on, besides the entries of devices.
    ///
    /// # Errors
    /// When the kernel refuses an entry. Nothing has changed then.
    pub fn follow_besides(&mut self, besides: BTreeSet<Entry>) -> anyhow::Result<()> {
        self.set(&self.devices.clone(), &besides)?;
        self.besides = besides;
        self.is_restart = false;
        Ok(())
    }

    /// The wanted entries that name no device.
    #[must_use]
    pub fn besides(&self) -> &BTreeSet<Entry> {
        &self.besides
    }

    /// The service's table has this content from now on.
    pub fn fence(&mut self, content: Content) {
        self.keep_wall();
        self.fence.follow(content);
    }

    /// The same in one step with whatever else `carry_out` changes, to which the orders for the table are given. Sets of
    /// the table keep their elements.
    ///
    /// # Errors
    /// Those of `carry_out`: nothing has changed.
    pub fn change_fence(
        &mut self,
        content: Content,
        carry_out: impl FnOnce(Vec<String>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.fence.change(content, carry_out)
    }

    /// The MANET has these interfaces from now on.
    pub fn set_radios(&mut self, radios: BTreeSet<String>) {
        self.radios = radios;
        self.fence.follow_devices(&self.devices, &self.radios);
    }

    /// How many packets were [`IN_CLEAR`].
    #[must_use]
    pub fn kept_out(&self) -> u64 {
        self.fence.dropped()
    }

    /// The addresses that the service sends to.
    #[must_use]
    pub fn endpoints(&self) -> BTreeSet<IpAddr> {
        self.devices.iter().flat_map(|device| &device.endpoints).copied().collect()
    }

    /// Sets the addresses that the service sends to.
    pub fn set_endpoints(&mut self, endpoints: &BTreeSet<IpAddr>) {
        let mut devices = self.devices.clone();
        for device in &mut devices {
            device.endpoints.clone_from(endpoints);
        }
        if wanted(&devices, &self.besides) != self.wanted
            && let Err(why) = self.set(&devices, &self.besides.clone())
        {
            warn!(why = %format!("{why:#}"), "routes do not follow the addresses of the peers");
        }
        self.devices = devices;
        self.loosen();
    }

    /// A device takes packets of so many octets from now on.
    pub fn set_mtu(&mut self, device: u32, mtu: u32) {
        debug!(mtu, "MTU of the device");
        for its in self.devices.iter_mut().filter(|it| it.device == device) {
            its.mtu = Some(mtu);
        }
        self.wanted = wanted(&self.devices, &self.besides);
        if let Err(error) =
            self.carry_out(Operation::Add(Entry::Device { device, is: DeviceState::Mtu(mtu) }))
        {
            warn!(mtu, %error, "MTU of the device not changed");
        }
    }

    /// Deviations from what is wanted, in words for an operator.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let Self { missing, displacing, .. } = self;
        let mut faults = Vec::new();
        faults.extend(missing.iter().take(FAULTS).map(|(entry, why)| {
            Fault::new(&fault::MISSING, format!("{entry} is not there: {why}"))
        }));
        faults.extend(displacing.iter().take(FAULTS).map(|(network, said)| {
            let said = format!(
                "{network}: `{said}` came; our route stands aside now, before it; `ip route delete {said}` removes it"
            );
            Fault::new(&fault::DISPLACED, said)
        }));
        for (kind, count) in
            [(&fault::MISSING, missing.len()), (&fault::DISPLACED, displacing.len())]
        {
            if count > FAULTS {
                faults.push(Fault::new(kind, format!("{} more routes", count - FAULTS)));
            }
        }
        faults.extend(self.clashes.iter().take(FAULTS).map(|it| Fault::new(&fault::CLASH, it)));
        faults.extend(self.fence.fault());
        faults.extend(self.gone());
        let has_wall = self.fence.has_wall();
        faults.extend((has_wall && self.has_grown(beside::ASTRAY)).then(|| self.astray()));
        faults.extend(self.loosened.faults());
        faults.extend(self.renamed.values().map(|why| Fault::new(&fault::UNFENCED, why)));
        faults.extend(self.refused.values().map(|why| Fault::new(&fault::SETTING, why)));
        if self.is_put_off {
            let last = self.last_restored.as_deref().unwrap_or("nothing");
            let said = format!(
                "others change what is ours all the time, last {last}: it is put back every second; `ip -ts monitor` shows \
                 the changes"
            );
            faults.push(Fault::new(&fault::CONTESTED, said));
        }
        faults
    }

    /// Makes the kernel have exactly the wanted entries; existing ones stay untouched. An entry that cannot be added is
    /// only missing at a restart, or if it was wanted before; otherwise the error undoes all.
    fn set(&mut self, devices: &[DeviceRoutes], besides: &BTreeSet<Entry>) -> anyhow::Result<()> {
        let wanted = wanted(devices, besides);
        let mut plan = Plan::default();
        // Obstacles may be gone with their device: the kernel does not report such losses.
        for foreign in [Foreign::OfOurTables, Foreign::OfAllTables] {
            let observed = self.observe_for(devices, &wanted, foreign);
            plan = plan::plan(&wanted, &observed.context("cannot ask the kernel")?);
            if plan.obstacles.is_empty() {
                break;
            }
        }
        let Plan { operations, obstacles } = plan;
        // A fault tells already of entries wanted before.
        let mut new = &wanted - &self.wanted;
        if self.is_restart {
            new.clear();
        }
        if let Some((entry, found)) = obstacles.iter().find(|(entry, _)| new.contains(entry)) {
            bail!(
                "{entry}: another program's route `{found}` has the place: remove it with `ip route delete {found}`"
            );
        }
        let (mut added, mut missing) = (Vec::new(), taken(obstacles));
        for operation in operations {
            match self.carry_out(operation) {
                Ok(entry) => added.extend(entry),
                // The entry is added when the device takes it again.
                Err(Refused { entry, error })
                    if !new.contains(&entry) || is_down(entry, &error) =>
                {
                    missing.insert(entry, why_not(entry, &error));
                }
                Err(refused) => {
                    for entry in added.into_iter().rev() {
                        let _ = self.carry_out(Operation::Remove(entry));
                    }
                    return Err(refused).context("the routes");
                }
            }
        }
        self.wanted = wanted;
        self.note(missing);
        Ok(())
    }

    /// Repairs changes made by others, and returns what was repaired.
    fn look(&mut self, foreign: Foreign) -> anyhow::Result<Outcome> {
        self.keep_names();
        enable_v6(&self.devices);
        let mut devices = self.devices.clone();
        let observed = self.observe(&devices, foreign).context("cannot ask for routes")?;
        // Whoever holds a device hears nothing when somebody moves it to another network namespace.
        if let Some(lost) = devices.iter().find(|device| !observed.has_device(device.device)) {
            bail!("the device {} is not in this network namespace any more", lost.name);
        }
        let rivals = observed.rivals(&devices);
        let displaced = plan::displace(&mut devices, &rivals);
        let wanted = wanted(&devices, &self.besides);
        let Plan { operations, obstacles } = plan::plan(&wanted, &observed);
        if !obstacles.is_empty() && foreign == Foreign::OfOurTables {
            // Obstacles may be gone with their device: the kernel does not report such losses.
            return self.look(Foreign::OfAllTables);
        }
        let mut missing = taken(obstacles);
        let mut restored = 0;
        for operation in operations {
            match self.carry_out(operation) {
                // An entry that newly stands aside was not gone.
                Ok(Some(entry)) if self.wanted.contains(&entry) => {
                    restored += 1;
                    self.last_restored = Some(entry.to_string());
                }
                Ok(_) => {}
                Err(Refused { entry, error }) => {
                    missing.insert(entry, why_not(entry, &error));
                }
            }
        }
        (self.devices, self.wanted) = (devices, wanted);
        if restored > 0 {
            warn!(restored, "routes, rules or addresses of ours were gone, and are put back");
        }
        self.note(missing);
        self.tell_displaced(displaced.iter(), &rivals);
        // Our route stands aside until the next start; that is a fault only while the other route is there.
        self.displacing.retain(|network, _| rivals.contains_key(network));
        for network in self.devices.iter().flat_map(|device| &device.displaced) {
            if let Some(rival) = rivals.get(network) {
                self.displacing.insert(*network, rival.said.clone());
            }
        }
        self.loosen();
        let is_fenced_again = self.fence.restore();
        let restored = restored + u64::from(is_fenced_again);
        Ok(Outcome { restored, displaced: displaced.len() as u64, has_addresses: false })
    }

    fn tell_displaced<'a>(
        &mut self,
        displaced: impl Iterator<Item = &'a Prefix>,
        rivals: &BTreeMap<Prefix, Rival>,
    ) {
        for network in displaced {
            let said = rivals.get(network).map_or("", |rival| &rival.said);
            warn!(%network, came = said, "another route to a network of ours: ours stands aside, before it");
            self.displacing.insert(*network, said.to_owned());
        }
    }

    /// Whether a wanted entry or the fence could not be made; another try may succeed.
    fn has_refused(&self) -> bool {
        !self.missing.is_empty() || !self.renamed.is_empty() || self.fence.has_fault()
    }

    /// Whether our entries need this device.
    fn needs(&self, device: u32) -> bool {
        self.devices.iter().any(|it| it.device == device)
            || self.besides.iter().any(|it| it.device() == Some(device))
    }

    /// Whether the kernel reports the loss of an entry of ours.
    fn is_concerned(&self, message: Message<'_>) -> bool {
        let is_gone =
            || others::entry_of(self.owner, message).is_some_and(|it| self.wanted.contains(&it));
        match message.kind {
            libc::RTM_DELRULE => is_gone() || self.has_priority_of(message),
            libc::RTM_NEWRULE => self.has_priority_of(message),
            libc::RTM_DELROUTE => {
                // An address of ours is of no use without its route in the table `local`.
                let is_local = |it: Found| {
                    let is_its = it.device.is_some_and(|it| self.needs(it));
                    it.kind == libc::RTN_LOCAL && is_its
                };
                is_gone() || Found::parse(message).is_some_and(is_local)
            }
            // Somebody has changed a route of ours in place.
            libc::RTM_NEWROUTE => others::entry_of(self.owner, message).is_some_and(|it| {
                it.device().is_some_and(|it| self.needs(it)) && !self.wanted.contains(&it)
            }),
            // IPv4's routes go without a word with the last address of their device, whoever added it.
            libc::RTM_DELADDR => {
                links::address_of(message).is_some_and(|(device, ..)| self.needs(device))
            }
            // IPv6 of the device is on again, and takes what it refused.
            libc::RTM_NEWADDR => links::address_of(message).is_some_and(|(device, ..)| {
                self.missing.keys().any(|it| it.device() == Some(device))
            }),
            // IPv4's routes go without a word when the device goes down.
            libc::RTM_NEWLINK => links::up(message).is_some_and(|(device, is_up)| {
                let has_other_mtu =
                    || entry::mtu_entry(message).is_some_and(|mtu| !self.wanted.contains(&mtu));
                let has_other_group =
                    || links::group_of(message).is_some_and(|it| it != links::GROUP);
                let is_awaited = || self.missing.keys().any(|it| it.device() == Some(device));
                let is_renamed = || {
                    let mut ours = self.devices.iter();
                    let its = ours.find(|it| it.device == device).zip(links::name_of(message));
                    its.is_some_and(|(ours, name)| ours.name.as_bytes() != name)
                };
                let is_changed = || {
                    let is_other = has_other_mtu() || has_other_group() || is_renamed();
                    is_other || is_awaited() || !links::has_queue(message)
                };
                self.needs(device) && (!is_up || is_changed())
            }),
            libc::RTM_DELLINK => links::subject(message).is_some_and(|device| self.needs(device)),
            // Only of reverse path filters and forwarding, which nobody changes often.
            libc::RTM_NEWNETCONF => self.devices.iter().any(DeviceRoutes::has_rules),
            _ => self.fence.is_concerned(message),
        }
    }

    /// Whether a message is about another program's rule with a priority of ours.
    fn has_priority_of(&self, message: Message<'_>) -> bool {
        Chosen::parse(message).is_some_and(|it| has_priority_of(&it, &self.wanted))
    }

    /// Whether the kernel reports that another program's route came to the place of our route, or left the place.
    fn is_foreign(&self, message: Message<'_>) -> bool {
        match message.kind {
            libc::RTM_DELROUTE => {
                let is_gone = |found: Found| self.displacing.contains_key(&found.to);
                self.is_where_ours_are(message, false) || Found::parse(message).is_some_and(is_gone)
            }
            // IPv4's routes go without a word with their device.
            libc::RTM_NEWLINK => {
                !self.displacing.is_empty() && links::up(message).is_some_and(|(_, is_up)| !is_up)
            }
            libc::RTM_NEWROUTE => self.is_where_ours_are(message, true),
            _ => false,
        }
    }

    /// Whether a message reports another program's route in the place of ours. New routes by our devices do not count:
    /// `came` says that the route is new.
    fn is_where_ours_are(&self, message: Message<'_>, came: bool) -> bool {
        let Some(Found { to, table, protocol, device, .. }) = Found::parse(message) else {
            return false;
        };
        let route = |device, source| Entry::Route { to, table, device, source };
        let last = Some(IpAddr::from([u8::MAX; 16]));
        let is_here = || {
            self.wanted.contains(&Entry::Unreachable { to, table })
                || self.wanted.contains(&Entry::Here { is_v6: to.address().is_ipv6(), table })
                || self.wanted.range(route(0, None)..=route(u32::MAX, last)).next().is_some()
                || table == Table::Main && self.devices.iter().any(|it| it.displaced.contains(&to))
        };
        let by_ours = |device| self.devices.iter().any(|it| it.device == device);
        protocol != self.owner.protocol() && !(came && device.is_some_and(by_ours)) && is_here()
    }

    fn expect_precedence<'a>(
        &self,
        devices: &[DeviceRoutes],
        mut rivals: impl Iterator<Item = (&'a Prefix, &'a Rival)>,
    ) -> anyhow::Result<()> {
        let Some((network, Rival { said, .. })) = rivals.find(|(_, rival)| rival.wins) else {
            return Ok(());
        };
        let remedy = match self.precedence {
            Precedence::Ours => return Ok(()),
            Precedence::OursWith(key) => {
                format!(", or let ours take its place while it is there with {key} = true")
            }
            Precedence::Theirs => String::new(),
        };
        let mut routes = devices.iter().flat_map(|device| &device.routes);
        let its = routes.find(|(_, route)| route.network() == *network);
        let whose = its.map_or("a peer", |(whose, _)| whose);
        bail!(
            "the route of {whose} to {network}: there is one already, `{said}`: remove it with \
             `ip route delete {said}`, add it with a greater metric{remedy}"
        );
    }

    /// Gives our devices their names again: firewalls, ours too, know interfaces by their names.
    fn keep_names(&mut self) {
        for device in &self.devices {
            let Some(other) = links::existing_name(device.device).filter(|it| *it != device.name)
            else {
                self.renamed.remove(&device.name);
                continue;
            };
            let name = &device.name;
            match links::rename(&mut self.netlink, device.device, name) {
                Ok(()) => {
                    warn!(%other, %name, "a device of ours was renamed, and has its name again");
                    self.last_restored = Some(format!("the name {name}"));
                    self.renamed.remove(name);
                }
                Err(error) => {
                    let why = format!(
                        "the device {name} is called {other} now, and cannot have its name again: {error}; packets in \
                         clear in the name of its peers are not kept out: `ip link set {name} name OTHER` frees the name"
                    );
                    self.renamed.insert(name.clone(), why);
                }
            }
        }
    }

    /// Gives our devices their settings again: the kernel does not report changes of settings.
    fn keep_settings(&mut self) {
        for device in self.devices.iter().filter(|device| device.speaks) {
            let name = &device.name;
            let Err(why) = links::accept_own_sources(name) else {
                self.refused.remove(name);
                continue;
            };
            if self.refused.insert(name.clone(), why.clone()).is_none() {
                warn!("{why}");
            }
        }
    }

    /// Whether the observer may have another wall than the fence.
    fn has_other_wall(&self) -> bool {
        self.observer.as_ref().is_some_and(|it| it.wall_changes() != self.wall_changes)
    }

    /// Packets brought here for networks next to this host leave by no uplink.
    fn keep_wall(&mut self) {
        if let Some(observer) = &self.observer {
            let (wall, changes) = observer.wall();
            self.fence.set_wall(wall);
            self.wall_changes = changes;
        }
    }

    /// Whether a counter of the fence has grown lately.
    fn has_grown(&self, counter: &str) -> bool {
        self.walled_off.get(counter).is_some_and(Growth::is_lasting)
    }

    /// Packets that should have gone to networks next to this host.
    fn gone(&self) -> Vec<Fault> {
        let gone = self.fence.wall().gone(|counter| self.has_grown(counter)).into_iter();
        let fault = |(network, interfaces, by): (Prefix, String, String)| {
            let (was, remedy) = match &interfaces[..] {
                "" => (
                    "which `networks` in `[host]` names".to_owned(),
                    "bring up the interface of this network (`ip link`, `ip address`)".to_owned(),
                ),
                some => (
                    format!("which was next to this host by {some}"),
                    format!(
                        "`ip link set {some} up`, or plug it in; `trackway reload` forgets networks that are gone for good"
                    ),
                ),
            };
            let said = format!(
                "packets of {} for {network}, {was}, would leave by {by} in clear, and are dropped: {remedy}",
                self.owner.table(),
            );
            Fault::new(&fault::DROPPED, said)
        };
        gone.take(FAULTS).map(fault).collect()
    }

    /// Packets for private addresses to which only a default route leads.
    fn astray(&self) -> Fault {
        let uplinks = self.fence.wall().uplinks();
        let said = format!(
            "packets from peers for private addresses to which only a default route leads would leave by {uplinks} in clear, \
             and are dropped: bring up the interface of their network (`ip link`, `ip address`); if they shall leave by \
             {uplinks}, `ip route add NETWORK via ROUTER` lets them"
        );
        Fault::new(&fault::DROPPED, said)
    }

    /// Loosens strict reverse path filters of interfaces where the peers' packets may arrive. Without our mark the way
    /// back to a peer is the device, so strict filters would drop the packets.
    fn loosen(&mut self) {
        self.keep_settings();
        let Some(observer) = &self.observer else { return };
        if !self.devices.iter().any(DeviceRoutes::has_rules) {
            self.loosened.forgive_all_but(&[], "rp_filter");
            return;
        }
        let is_ours = |index: &u32| self.devices.iter().any(|device| device.device == *index);
        let strict = observer.strict_interfaces().into_iter().filter(|index| !is_ours(index));
        let strict: Vec<_> = strict.filter_map(links::existing_name).collect();
        strict.iter().for_each(|name| self.loosened.set(name, "rp_filter", "2"));
        self.loosened.forgive_all_but(&strict, "rp_filter");
    }

    /// Reads the kernel's entries for these devices, and for the entries wanted besides.
    fn observe(&mut self, devices: &[DeviceRoutes], foreign: Foreign) -> io::Result<Observed> {
        let wanted = wanted(devices, &self.besides);
        self.observe_for(devices, &wanted, foreign)
    }

    fn observe_for(
        &mut self,
        devices: &[DeviceRoutes],
        wanted: &BTreeSet<Entry>,
        foreign: Foreign,
    ) -> io::Result<Observed> {
        let mut observed = Observed::default();
        for device in devices {
            let mut states = entry::of_device(&mut self.netlink, device.device)?;
            // An address is not there while nothing is delivered to it. On a device that is down, IPv6 delivers nothing.
            if states.contains(&Entry::Device { device: device.device, is: DeviceState::Up }) {
                let own = device.addresses.iter().map(Prefix::address).collect();
                let delivered = entry::delivered(&mut self.netlink, device.device, &own)?;
                states.retain(|entry| match entry {
                    Entry::Device { is: DeviceState::Address(it), .. } => {
                        !own.contains(&it.address()) || delivered.contains(&it.address())
                    }
                    _ => true,
                });
            }
            observed.devices.extend(states);
        }
        let networks: BTreeSet<_> = devices.iter().flat_map(DeviceRoutes::networks).collect();
        // Also the tables of networks that may be displaced later.
        let mut tables: BTreeSet<_> = wanted.iter().filter_map(|entry| entry.own_table()).collect();
        tables.extend(networks.iter().filter_map(|to| {
            let owner = self.owner;
            let all = DeviceRoutes { owner, displaced: [*to].into(), ..of_network(*to) };
            all.entries().into_iter().find_map(Entry::own_table)
        }));
        let asks_all =
            foreign == Foreign::OfAllTables || !networks.is_subset(&self.foreign.networks);
        let mut rivals = Vec::new();
        let owner = self.owner;
        // A route by another device is another program's, whatever its protocol number. Without an observer no service
        // runs that knows its devices: whatever is left is removed. The kernel tells the group of all links alone, so it
        // is asked only where such a route is left.
        let our_devices = OnceCell::new();
        if self.observer.is_some() {
            our_devices.get_or_init(|| Ok(devices.iter().map(|it| it.device).collect::<Vec<_>>()));
        }
        let all_of_ours =
            || Kernel::open().and_then(|mut it| links::of_group(&mut it, links::GROUP));
        let is_by_ours = |entry: &Entry| match entry {
            Entry::Route { device, .. } => {
                our_devices.get_or_init(all_of_ours).as_ref().is_ok_and(|all| all.contains(device))
            }
            _ => true,
        };
        let ours = |found: &Found| found.entry(owner).filter(is_by_ours);
        for is_v6 in [false, true] {
            let request = entry::routes(is_v6, None, Some(owner.protocol()));
            for found in
                self.found(&request, |it| (it.protocol == owner.protocol()).then_some(it))?
            {
                match ours(&found) {
                    Some(entry) => drop(observed.ours.insert(entry)),
                    None => observed.clash(
                        "protocol number",
                        owner.protocol().into(),
                        "protocols",
                        &found,
                    ),
                }
            }
            let of_others = |found: &Found| ours(found).is_none();
            for &number in &tables {
                let table = Table::Own(number);
                let request = entry::routes(is_v6, Some(table), None);
                let is_its = |it: Found| (it.table == table && of_others(&it)).then_some(it);
                let found = self.found(&request, is_its)?;
                let is_wanted = wanted.iter().any(|it| it.own_table() == Some(number));
                for it in found.iter().filter(|it| is_wanted && !plan::is_left(it)) {
                    observed.clash("table", number, owner.keys().0, it);
                }
                observed.others.extend(found);
            }
            if asks_all && !networks.is_empty() {
                let request = entry::routes(is_v6, Some(Table::Main), None);
                let is_its = |it: Found| {
                    let is_its = it.table == Table::Main && networks.contains(&it.to);
                    (is_its && of_others(&it)).then_some(it)
                };
                rivals.extend(self.found(&request, is_its)?);
            }
            let rules = others::rules(&mut self.netlink, is_v6).or_else(without_family)?;
            for rule in rules {
                let said = format!("`ip rule show pref {}`", rule.priority);
                let entry = rule.entry(owner);
                if entry.is_none() && rule.protocol == owner.protocol() {
                    observed.clash("protocol number", rule.protocol.into(), "protocols", &said);
                }
                observed.ours.extend(entry);
                if has_priority_of(&rule, wanted) {
                    observed.clash("priority", rule.priority, owner.keys().1, &said);
                }
            }
        }
        our_devices.into_inner().transpose()?;
        if asks_all {
            self.foreign = Rivals { networks, routes: rivals };
        }
        observed.others.extend(&self.foreign.routes);
        self.clashes.clone_from(&observed.clashes);
        Ok(observed)
    }

    /// The routes in the answer to a question, chosen and converted by `choose`.
    fn found<T>(
        &mut self,
        request: &Request,
        choose: impl Fn(Found) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let found = self.netlink.dump(request, |message, chosen| {
            chosen.extend(Found::parse(message).and_then(&choose));
        });
        entry::or_no_table(found).or_else(without_family)
    }

    /// Carries out a change, and returns the added entry, if any.
    fn carry_out(&mut self, operation: Operation) -> Result<Option<Entry>, Refused> {
        let owner = self.owner;
        let (entry, replaces) = match operation {
            Operation::Add(entry) => (entry, false),
            Operation::TakeOver(entry) => (entry, true),
            Operation::Remove(entry) => {
                let Some(request) = entry.remove(owner) else { return Ok(None) };
                match self.netlink.ask(&request, |_| {}) {
                    Err(error) if is_gone(&error) => debug!(%entry, "gone already"),
                    Err(error) => warn!(%entry, %error, "not removed"),
                    Ok(()) => {}
                }
                return Ok(None);
            }
        };
        match self.netlink.ask(&entry.add(owner, replaces), |_| {}) {
            // The kernel takes no rule twice, so another program has made the same rule.
            Err(error)
                if error.raw_os_error() == Some(libc::EEXIST)
                    && matches!(entry, Entry::Rule { .. }) => {}
            // Only the route of the address is gone.
            Err(error)
                if error.raw_os_error() == Some(libc::EEXIST)
                    && let Entry::Device { device, is: DeviceState::Address(own) } = entry =>
            {
                let request = Entry::add_local(device, own.address());
                self.netlink.ask(&request, |_| {}).map_err(|error| Refused { entry, error })?;
            }
            Err(error) => return Err(Refused { entry, error }),
            Ok(()) => {}
        }
        Ok(Some(entry))
    }

    /// Logs missing entries when they have changed; thousands may go at once.
    fn note(&mut self, missing: BTreeMap<Entry, String>) {
        match missing.first_key_value() {
            _ if missing == self.missing => {}
            Some((entry, why)) => {
                warn!(count = missing.len(), first = %entry, why, "routes or rules of ours are not there");
            }
            None => info!("all routes and rules of ours are there again"),
        }
        self.missing = missing;
    }
}

/// Entries that are missing because other programs' routes have their place, and why.
fn taken(obstacles: BTreeMap<Entry, Found>) -> BTreeMap<Entry, String> {
    let why = |found| {
        format!(
            "another program's route `{found}` has the place: `ip route delete {found}` frees it"
        )
    };
    obstacles.into_iter().map(|(entry, found)| (entry, why(found))).collect()
}

/// Whether another program's rule has a priority of ours.
fn has_priority_of(rule: &Chosen, wanted: &BTreeSet<Entry>) -> bool {
    let is_its =
        |it: &Entry| matches!(it, Entry::Rule { priority, .. } if *priority == rule.priority);
    Owner::of(rule.protocol).is_none() && wanted.iter().any(is_its)
}

/// All wanted entries.
fn wanted(devices: &[DeviceRoutes], besides: &BTreeSet<Entry>) -> BTreeSet<Entry> {
    devices.iter().flat_map(DeviceRoutes::entries).chain(besides.iter().copied()).collect()
}

fn of_network(network: Prefix) -> DeviceRoutes {
    DeviceRoutes { routes: vec![(String::new(), network)], ..DeviceRoutes::default() }
}

/// Switches IPv6 on for devices with IPv6 networks or addresses.
fn enable_v6(devices: &[DeviceRoutes]) {
    for device in devices {
        let addresses = device.addresses.iter().map(Prefix::address);
        let all = device.networks().map(|network| network.address()).chain(addresses);
        if all.into_iter().any(|address| address.is_ipv6()) {
            links::enable_v6(&device.name);
        }
    }
}

/// Whether an entry failed because its device is down or gone, or IPv6 is off there.
fn is_down(entry: Entry, error: &io::Error) -> bool {
    let down = [libc::ENETDOWN, libc::ENODEV];
    let is_down = error.raw_os_error().is_some_and(|it| down.contains(&it));
    entry.device().is_some() && (is_down || lacks_v6(entry, error))
}

/// Whether an entry failed because IPv6 is off on its device.
fn lacks_v6(entry: Entry, error: &io::Error) -> bool {
    let is_v6 = match entry {
        Entry::Device { is: DeviceState::Address(prefix), .. }
        | Entry::Route { to: prefix, .. } => prefix.address().is_ipv6(),
        _ => false,
    };
    is_v6 && error.raw_os_error() == Some(libc::EACCES)
}

/// Why an entry failed, in words for an operator.
fn why_not(entry: Entry, error: &io::Error) -> String {
    let device = entry.device().filter(|_| lacks_v6(entry, error));
    match device.and_then(links::existing_name) {
        Some(name) => format!(
            "IPv6 is off there, and cannot be switched on; on the host, in this network namespace: `sysctl -w \
             net.ipv6.conf.{name}.disable_ipv6=0`"
        ),
        None => error.to_string(),
    }
}

/// Whether there was nothing to remove.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

/// Takes an error for an empty answer if the machine lacks IPv6.
fn without_family<T>(error: io::Error) -> io::Result<Vec<T>> {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP) => Ok(Vec::new()),
        _ => Err(error),
    }
}

/// Removes all kernel entries of a service, whether the service runs or not.
pub fn give_up(owner: Owner) {
    let none = |mut it: Reconciler| it.set(&[], &BTreeSet::new());
    if let Err(error) = Reconciler::for_leftovers(owner).and_then(none) {
        warn!(%error, "routes not removed: `trackway down` does it");
    }
    fence::give_up(owner);
}

/// Removes the routes and rules left by any service in this network namespace, and returns the removed ones.
///
/// # Errors
/// When a gateway runs, the kernel cannot be asked, or the right to change entries is missing.
pub fn remove_all() -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for (owner, found) in found()? {
        // Routes by a device last only as long as the device.
        if found.iter().any(|entry| matches!(entry, Entry::Route { .. })) {
            bail!(
                "a gateway runs in this network namespace: end `trackway run`, which removes them"
            );
        }
        left.extend(found.into_iter().rev().map(|entry| (owner, entry)));
    }
    let mut netlink = Kernel::open().context("cannot ask the kernel")?;
    let mut removed = Vec::new();
    for (owner, entry) in left {
        let Some(request) = entry.remove(owner) else { continue };
        match netlink.ask(&request, |_| {}) {
            Ok(()) => removed.push(entry.to_string()),
            // It was gone already, or is another program's with our number, and not quite as ours.
            Err(error) if is_gone(&error) => warn!(%entry, %error, "not removed"),
            Err(error) => return Err(Refused { entry, error }.into()),
        }
    }
    Ok(removed)
}

/// Whether the kernel has routes or rules of ours.
///
/// # Errors
/// When the kernel cannot be asked.
pub(crate) fn has_left() -> anyhow::Result<bool> {
    Ok(found()?.iter().any(|(_, entries)| !entries.is_empty()))
}

/// All routes and rules of each owner.
fn found() -> anyhow::Result<Vec<(Owner, BTreeSet<Entry>)>> {
    let of = |owner| {
        let mut its = Reconciler::for_leftovers(owner)?;
        let found = its.observe(&[], Foreign::OfOurTables).context("cannot ask the kernel")?;
        Ok((owner, found.ours))
    };
    Owner::ALL.into_iter().map(of).collect()
}

/// The kernel's notices of changes that may concern a [`Reconciler`].
pub struct Watch {
    changes: Subscription,
    /// When to look for missing entries, and in which tables for other programs' routes.
    pace: Pace,
    foreign: Foreign,
    /// When to look at settings of our devices again.
    settings_at: Time,
    /// The changes of the wall that are followed at once, and when to follow further ones.
    walls: Budget,
    wall_trials: Trials,
}

impl Watch {
    /// Listens for changes from now on. To be opened before the reconciler, so that no change is missed in between.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open(observer: &Observer) -> anyhow::Result<Self> {
        let changes = observer.subscribe(Interest::HostAndTables)?;
        let budget = Budget::new(Time::ZERO, LOOKS, INTERVAL);
        let foreign = Foreign::OfOurTables;
        Ok(Self {
            changes,
            pace: Pace::default(),
            foreign,
            settings_at: Time::ZERO,
            walls: budget,
            wall_trials: Trials::default(),
        })
    }

    /// When to call [`Self::handle`] at the latest, whether there is something to read or not.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.pace.due_at(), Some(self.settings_at))
    }

    /// Whether to call [`Self::handle`].
    #[must_use]
    pub fn is_due(&self, now: Time, ready: PollFlags) -> bool {
        !ready.is_empty() || self.next_timeout().is_some_and(|at| at <= now)
    }

    /// Reads notices of changes, and repairs deviations.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn handle(&mut self, now: Time, of: &mut Reconciler) -> anyhow::Result<Outcome> {
        if self.settings_at <= now {
            self.settings_at = now + SETTINGS_INTERVAL;
            of.keep_settings();
            of.walled_off.values_mut().for_each(|it| it.pass(now));
            if of.fence.has_wall() {
                let forgotten = of.fence.wall().forgotten(of.walled_off.keys());
                of.walled_off.retain(|name, _| !forgotten.contains(name));
                for (name, count) in of.fence.counted() {
                    let its = of.walled_off.entry(name).or_insert_with(Growth::from_zero);
                    its.follow(now, count);
                }
            }
            if of.has_refused() {
                self.pace.ask(now + RETRY);
            }
        }
        let (mut is_concerned, mut addresses, mut settings) = (false, false, false);
        let mut has_foreign = false;
        let is_lossy = self.changes.read(READS, |message| {
            is_concerned |= of.is_concerned(message);
            has_foreign |= of.is_foreign(message);
            addresses |= matches!(message.kind, libc::RTM_NEWADDR | libc::RTM_DELADDR);
            settings |= message.kind == libc::RTM_NEWNETCONF;
        });
        if settings || is_lossy {
            of.loosen();
        }
        if has_foreign || is_lossy {
            self.foreign = Foreign::OfAllTables;
        }
        if is_concerned || has_foreign || is_lossy {
            self.pace.ask(now);
        }
        let looked = self.pace.look(now, || {
            let looked = of.look(self.foreign);
            let is_vain = looked.as_ref().is_ok_and(|it| *it == Outcome::default());
            (looked, !is_vain)
        });
        if self.pace.is_contested() && !of.is_put_off {
            warn!("others change what is ours all the time: it is put back every second");
        }
        of.is_put_off = self.pace.is_contested();
        if looked.is_some() {
            self.foreign = Foreign::OfOurTables;
            if of.has_refused() {
                // A refused entry may succeed the next time.
                self.pace.ask(now + RETRY);
            }
        }
        // Behind repairs, most of which need not ask for all routes of the host; and also when they fail.
        let is_due = self.walls.left(now) > 0 || self.wall_trials.due_at() <= now;
        if is_due && of.has_other_wall() {
            self.wall_trials.run(now, || of.keep_wall());
            let _ = self.walls.spend(now);
        }
        let mut outcome = looked.unwrap_or_else(|| Ok(Outcome::default()))?;
        outcome.has_addresses = addresses || is_lossy;
        Ok(outcome)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

/// Keeps the kernel entries of a single-threaded service, on the service's own thread.
pub struct Kept {
    reconciler: Reconciler,
    watch: Watch,
    observer: Arc<Observer>,
}

impl Kept {
    /// Keeps these devices and the routes to the networks behind them. A better route of another program is an error,
    /// unless the service had the network before in this process.
    ///
    /// # Errors
    /// When a route is taken or refused, with the remedy.
    pub fn open(
        observer: &Arc<Observer>,
        devices: Vec<DeviceRoutes>,
        radios: BTreeSet<String>,
        is_restart: bool,
    ) -> anyhow::Result<Self> {
        let owner = devices.first().context("no device leads anywhere")?.owner;
        let mut kept = Self::start(observer, owner, radios, is_restart)?;
        kept.reconciler.follow(devices)?;
        Ok(kept)
    }

    /// Keeps these entries of a service without devices.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn open_besides(
        observer: &Arc<Observer>,
        owner: Owner,
        entries: BTreeSet<Entry>,
    ) -> anyhow::Result<Self> {
        let mut kept = Self::start(observer, owner, BTreeSet::new(), false)?;
        kept.reconciler.follow_besides(entries)?;
        Ok(kept)
    }

    fn start(
        observer: &Arc<Observer>,
        owner: Owner,
        radios: BTreeSet<String>,
        is_restart: bool,
    ) -> anyhow::Result<Self> {
        let watch = Watch::open(observer)?;
        let precedence = Precedence::Theirs;
        let reconciler = Reconciler::new(owner, Some(observer), radios, precedence, is_restart)?;
        Ok(Self { reconciler, watch, observer: Arc::clone(observer) })
    }

    /// All addresses of this host, whatever the interface. [`Self::handle_ready`] reports changes.
    #[must_use]
    pub fn own_addresses(&self) -> BTreeSet<IpAddr> {
        self.observer.addresses()
    }

    /// The reconciler of the service.
    pub fn reconciler(&mut self) -> &mut Reconciler {
        &mut self.reconciler
    }

    /// When to call [`Self::handle_ready`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.watch.next_timeout()
    }

    /// Repairs changes by others, if notices wait or a time has come, and returns the result.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn handle_ready(&mut self, now: Time, ready: PollFlags) -> anyhow::Result<Outcome> {
        if !self.watch.is_due(now, ready) {
            return Ok(Outcome::default());
        }
        self.watch.handle(now, &mut self.reconciler)
    }

    /// As [`Reconciler::faults`].
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.reconciler.faults()
    }

    /// As [`Reconciler::kept_out`].
    #[must_use]
    pub fn kept_out(&self) -> u64 {
        self.reconciler.kept_out()
    }
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
