//! Plans are carried out by a model of the kernel, while other programs change its routes, rules and devices.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::*;
use crate::entry::{MARK, Rule};
use crate::links::DeviceState;

/// The device of ours, and that of everybody.
const DEVICE: u32 = 7;
const OTHER: u32 = 3;
/// `RTPROT_KERNEL`, and `RTPROT_STATIC` of other programs.
const KERNEL: u8 = 2;
const STATIC: u8 = 4;
const OWNER: Owner = Owner::Tunnel;

const NETWORKS: [&str; 6] =
    ["10.2.0.0/16", "10.2.3.0/24", "0.0.0.0/0", "fd02::/64", "fd02::/32", "::/0"];
const ADDRESSES: [&str; 2] = ["10.77.0.1/24", "fd77::1/64"];
/// Packets to these are looked at, whatever the wanted networks are.
const TARGETS: [&str; 5] = ["10.2.3.4", "10.2.9.9", "203.0.113.1", "fd02::1", "2001:db8::1"];

/// As much of the kernel as decides where a packet goes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Kernel {
    up: BTreeSet<u32>,
    grouped: BTreeSet<u32>,
    queued: BTreeSet<u32>,
    addresses: BTreeSet<Prefix>,
    routes: Vec<Found>,
    rules: Vec<(u8, Entry)>,
}

/// What others do.
#[derive(Clone, Debug)]
enum Action {
    DeviceDown,
    DeviceUp,
    AddressRemoved(Index),
    RoutesOfDeviceFlushed,
    OursFlushed,
    RuleRemoved(Index),
    RouteRemoved(Index),
    RouteAdded { to: &'static str, metric: u32, in_own: bool },
}

impl Kernel {
    fn new() -> Self {
        let mut kernel = Self { up: [DEVICE, OTHER].into(), ..Self::default() };
        for to in ["0.0.0.0/0", "::/0"] {
            kernel.add_route(route(to, Table::Main, 5_000, STATIC)).unwrap();
        }
        kernel
    }

    fn carry_out(&mut self, operation: Operation) -> Result<(), ()> {
        let (entry, replaces) = match operation {
            Operation::Add(entry) => (entry, false),
            Operation::TakeOver(entry) => (entry, true),
            Operation::Remove(entry) => {
                self.routes.retain(|it| it.entry(OWNER) != Some(entry));
                self.rules.retain(|it| *it != (OWNER.protocol(), entry));
                return Ok(());
            }
        };
        match entry {
            Entry::Device { device, is: DeviceState::Up } => drop(self.up.insert(device)),
            Entry::Device { device, is: DeviceState::Group } => {
                self.grouped.insert(device);
            }
            Entry::Device { device, is: DeviceState::Queue } => {
                self.queued.insert(device);
            }
            // No packet is so long here.
            Entry::Device { is: DeviceState::Mtu(_), .. } => {}
            Entry::Device { is: DeviceState::Address(prefix), .. } => {
                self.addresses.insert(prefix);
                if self.up.contains(&DEVICE) {
                    let mut own = route("0.0.0.0/0", Table::Main, 0, KERNEL);
                    (own.to, own.metric) = (prefix.network(), metric(&prefix) / 4);
                    own.device = Some(DEVICE);
                    let _ = self.add_route(own);
                }
            }
            Entry::Rule { .. } => {
                if self.rules.iter().any(|(_, it)| *it == entry) {
                    return Err(());
                }
                self.rules.push((OWNER.protocol(), entry));
            }
            Entry::Unreachable { .. } | Entry::Here { .. } | Entry::Route { .. } => {
                let (to, table, metric) = entry.place().unwrap();
                // The loopback is up all the time.
                let device = entry.device().filter(|_| !matches!(entry, Entry::Here { .. }));
                if device.is_some_and(|device| !self.up.contains(&device)) {
                    return Err(());
                }
                let kind = match entry {
                    Entry::Unreachable { .. } => libc::RTN_UNREACHABLE,
                    Entry::Here { .. } => libc::RTN_LOCAL,
                    _ => libc::RTN_UNICAST,
                };
                let protocol = OWNER.protocol();
                let source = match entry {
                    Entry::Route { source, .. } => source,
                    _ => None,
                };
                let new = Found {
                    to,
                    table,
                    protocol,
                    kind,
                    device,
                    via: None,
                    source,
                    metric,
                    mtu: None,
                };
                if replaces {
                    self.routes.retain(|it| it.place() != new.place());
                }
                self.add_route(new)?;
            }
        }
        Ok(())
    }

    /// As with `NLM_F_EXCL`.
    fn add_route(&mut self, new: Found) -> Result<(), ()> {
        if self.routes.iter().any(|it| it.place() == new.place()) {
            return Err(());
        }
        self.routes.push(new);
        Ok(())
    }

    fn act(&mut self, action: &Action) {
        let by_device = |it: &Found| it.device == Some(DEVICE);
        match action {
            Action::DeviceDown => {
                self.up.remove(&DEVICE);
                self.routes.retain(|it| !by_device(it));
                self.addresses.retain(|it| it.address().is_ipv4());
            }
            Action::DeviceUp => drop(self.up.insert(DEVICE)),
            Action::AddressRemoved(which) if !self.addresses.is_empty() => {
                let all: Vec<_> = self.addresses.iter().copied().collect();
                let gone = *which.get(&all);
                self.addresses.remove(&gone);
                // Without an address of IPv4 the kernel takes IPv4's routes from the device.
                let is_last = gone.address().is_ipv4()
                    && !self.addresses.iter().any(|it| it.address().is_ipv4());
                self.routes.retain(|it| {
                    let is_own = it.protocol == KERNEL && it.to == gone.network();
                    let goes = is_own || (is_last && it.to.address().is_ipv4());
                    !(by_device(it) && goes)
                });
            }
            Action::RoutesOfDeviceFlushed => self.routes.retain(|it| !by_device(it)),
            Action::OursFlushed => self.routes.retain(|it| it.protocol != OWNER.protocol()),
            Action::RuleRemoved(which) if !self.rules.is_empty() => {
                self.rules.remove(which.index(self.rules.len()));
            }
            Action::RouteRemoved(which) if !self.routes.is_empty() => {
                self.routes.remove(which.index(self.routes.len()));
            }
            Action::RouteAdded { to, metric, in_own } => {
                let bits = to.parse::<Prefix>().unwrap().bits();
                let own = Table::Own(51_900 + u32::from(bits));
                let table = if *in_own { own } else { Table::Main };
                let _ = self.add_route(route(to, table, *metric, STATIC));
            }
            _ => {}
        }
    }

    fn observe(&self) -> Observed {
        let entry = |device, is| Entry::Device { device, is };
        let devices = self.up.iter().map(|&device| entry(device, DeviceState::Up));
        let groups = self.grouped.iter().map(|&device| entry(device, DeviceState::Group));
        let queues = self.queued.iter().map(|&device| entry(device, DeviceState::Queue));
        let addresses =
            self.addresses.iter().map(|&prefix| entry(DEVICE, DeviceState::Address(prefix)));
        let ours = self.routes.iter().filter_map(|it| it.entry(OWNER));
        let rules = self.rules.iter().filter(|(its, _)| *its == OWNER.protocol());
        Observed {
            devices: devices.chain(groups).chain(queues).chain(addresses).collect(),
            ours: ours.chain(rules.map(|(_, entry)| *entry)).collect(),
            others: self.routes.iter().filter(|it| it.entry(OWNER).is_none()).copied().collect(),
            clashes: BTreeSet::new(),
        }
    }

    /// What other programs have here.
    fn others(&self) -> Vec<Found> {
        let mut others = self.routes.clone();
        others.retain(|it| ![OWNER.protocol(), KERNEL].contains(&it.protocol));
        others
    }

    /// The route of a packet without our mark.
    fn look_up(&self, to: IpAddr) -> Option<&Found> {
        let mut rules: Vec<_> = self.rules.iter().map(|(_, entry)| *entry).collect();
        rules.sort_by_key(|it| match it {
            Entry::Rule { priority, .. } => *priority,
            _ => 0,
        });
        for entry in rules {
            let Entry::Rule { is_v6, rule, .. } = entry else { continue };
            let (table, longer) = match rule {
                Rule::Longer(bits) => (Table::Main, Some(bits)),
                Rule::Unmarked(table) => (table, None),
                Rule::Marked { mark, .. } => {
                    assert_ne!(mark, MARK.value());
                    continue;
                }
            };
            let found =
                self.best(to, table).filter(|it| longer.is_none_or(|bits| it.to.bits() > bits));
            if is_v6 == to.is_ipv6() && found.is_some() {
                return found;
            }
        }
        self.best(to, Table::Main)
    }

    fn best(&self, to: IpAddr, table: Table) -> Option<&Found> {
        let fits = self.routes.iter().filter(|it| it.table == table && it.to.contains(to));
        fits.max_by_key(|it| (it.to.bits(), std::cmp::Reverse(it.metric)))
    }
}

/// A reconciler over the model.
struct Keeper {
    devices: Vec<DeviceRoutes>,
    wanted: BTreeSet<Entry>,
}

impl Keeper {
    /// Does what [`crate::Reconciler`] does, and calls `each` between any two changes.
    fn follow(&mut self, kernel: &mut Kernel, mut each: impl FnMut(&Kernel)) -> Plan {
        let observed = kernel.observe();
        let rivals = observed.rivals(&self.devices);
        displace(&mut self.devices, &rivals);
        self.wanted = self.devices.iter().flat_map(DeviceRoutes::entries).collect();
        let plan = plan(&self.wanted, &observed);
        for &operation in &plan.operations {
            let done = kernel.carry_out(operation);
            assert!(done.is_ok(), "{operation:?} in {kernel:#?}");
            each(kernel);
        }
        plan
    }

    /// Whether an address is in a wanted network, but not in a longer one of somebody else.
    fn is_behind(&self, kernel: &Kernel, to: IpAddr) -> bool {
        let ours =
            self.devices.iter().flat_map(DeviceRoutes::networks).filter(|it| it.contains(to));
        let Some(longest) = ours.map(|it| it.bits()).max() else { return false };
        let foreign = kernel.routes.iter().filter(|it| {
            it.table == Table::Main && it.device != Some(DEVICE) && it.kind == libc::RTN_UNICAST
        });
        !foreign.into_iter().any(|it| it.to.contains(to) && it.to.bits() > longest)
    }
}

fn route(to: &str, table: Table, metric: u32, protocol: u8) -> Found {
    let to = to.parse().unwrap();
    let (kind, device) = (libc::RTN_UNICAST, Some(OTHER));
    Found { to, table, protocol, kind, device, via: None, source: None, metric, mtu: None }
}

fn devices() -> impl Strategy<Value = Vec<DeviceRoutes>> {
    let networks = subsequence(NETWORKS.to_vec(), 1..=NETWORKS.len());
    let addresses = subsequence(ADDRESSES.to_vec(), 0..=ADDRESSES.len());
    (networks, addresses, any::<bool>(), any::<bool>()).prop_map(
        |(networks, addresses, is_open, has_endpoint)| {
            let peer = |it: &str| ("peer".to_owned(), it.parse().unwrap());
            let endpoint = has_endpoint.then(|| "10.2.9.9".parse().unwrap());
            vec![DeviceRoutes {
                owner: OWNER,
                device: DEVICE,
                name: "trackway-nc0".to_owned(),
                routes: networks.into_iter().map(peer).collect(),
                addresses: addresses.into_iter().map(|it| it.parse().unwrap()).collect(),
                endpoints: endpoint.into_iter().collect(),
                is_open,
                ..DeviceRoutes::default()
            }]
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::DeviceDown),
        Just(Action::DeviceUp),
        any::<Index>().prop_map(Action::AddressRemoved),
        Just(Action::RoutesOfDeviceFlushed),
        Just(Action::OursFlushed),
        any::<Index>().prop_map(Action::RuleRemoved),
        any::<Index>().prop_map(Action::RouteRemoved),
        (select(NETWORKS.to_vec()), select(vec![0, 100, 1_024, 2_000]), any::<bool>())
            .prop_map(|(to, metric, in_own)| Action::RouteAdded { to, metric, in_own }),
    ]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    /// Whatever others did, one plan later all is as it should be, but where a route of another program stands; a
    /// second plan has nothing to do, and nothing of others was touched.
    #[test]
    fn what_is_wanted_is_there_again_and_nothing_else_has_changed(
        devices in devices(),
        actions in proptest::collection::vec(action(), 0..12),
    ) {
        let mut kernel = Kernel::new();
        let mut keeper = Keeper { devices, wanted: BTreeSet::new() };
        keeper.follow(&mut kernel, |_| {});

        for action in &actions {
            kernel.act(action);
            let others = kernel.others();
            let Plan { obstacles, .. } = keeper.follow(&mut kernel, |_| {});
            prop_assert_eq!(&kernel.others(), &others, "after {:?}", action);
            let observed = kernel.observe();
            for entry in &keeper.wanted {
                let is_there = observed.has(*entry);
                prop_assert!(is_there != obstacles.contains_key(entry), "{entry} after {action:?}");
            }
            prop_assert_eq!(observed.ours.difference(&keeper.wanted).next(), None);
            let again = keeper.follow(&mut kernel, |_| {});
            prop_assert_eq!(again.operations, vec![], "after {:?}", action);
        }
    }

    /// While routes move, for other networks or because of others' routes, no packet to a network that was and stays
    /// ours finds a way outside.
    #[test]
    fn no_packet_leaves_in_clear_while_routes_move(
        before in devices(),
        after in devices(),
        others in proptest::collection::vec(
            (select(NETWORKS.to_vec()), select(vec![0, 100, 2_000])), 0..4),
    ) {
        let mut kernel = Kernel::new();
        for (to, metric) in others {
            kernel.act(&Action::RouteAdded { to, metric, in_own: false });
        }
        let mut keeper = Keeper { devices: before, wanted: BTreeSet::new() };
        keeper.follow(&mut kernel, |_| {});
        let targets = TARGETS.map(|it| it.parse::<IpAddr>().unwrap());
        let was = |kernel: &Kernel, keeper: &Keeper| -> Vec<IpAddr> {
            targets.into_iter().filter(|it| keeper.is_behind(kernel, *it)).collect()
        };
        let mut ours = was(&kernel, &keeper);
        keeper.devices = after;
        let stays = was(&kernel, &keeper);
        ours.retain(|it| stays.contains(it));

        keeper.follow(&mut kernel, |kernel| {
            for target in &ours {
                let found = kernel.look_up(*target);
                let is_outside = found.is_some_and(|it| it.device == Some(OTHER));
                assert!(!is_outside, "{target} goes by {found:?}");
            }
        });
    }

    /// Where packets must not leave otherwise, none does after a crash, which takes the device along.
    #[test]
    fn no_packet_leaves_in_clear_after_a_crash(
        mut devices in devices(),
        others in proptest::collection::vec(
            (select(NETWORKS.to_vec()), select(vec![0, 100, 2_000])), 0..4),
    ) {
        devices[0].is_open = false;
        let mut kernel = Kernel::new();
        let mut keeper = Keeper { devices, wanted: BTreeSet::new() };
        keeper.follow(&mut kernel, |_| {});
        for (to, metric) in others {
            kernel.act(&Action::RouteAdded { to, metric, in_own: false });
            keeper.follow(&mut kernel, |_| {});
        }

        kernel.act(&Action::DeviceDown);

        for target in TARGETS.map(|it| it.parse::<IpAddr>().unwrap()) {
            let found = kernel.look_up(target);
            let is_outside = found.is_some_and(|it| it.device == Some(OTHER));
            prop_assert!(!(is_outside && keeper.is_behind(&kernel, target)), "{target}: {found:?}");
        }
    }

    /// Undone, the kernel is as it was before.
    #[test]
    fn given_up_all_is_as_before(
        devices in devices(),
        actions in proptest::collection::vec(action(), 0..6),
    ) {
        let mut kernel = Kernel::new();
        let mut keeper = Keeper { devices, wanted: BTreeSet::new() };
        keeper.follow(&mut kernel, |_| {});
        for action in &actions {
            kernel.act(action);
            keeper.follow(&mut kernel, |_| {});
        }
        let others = kernel.others();

        for operation in plan(&BTreeSet::new(), &kernel.observe()).operations {
            kernel.carry_out(operation).unwrap();
        }

        prop_assert_eq!(kernel.others(), others);
        prop_assert_eq!(kernel.observe().ours, BTreeSet::new());
        prop_assert!(kernel.rules.is_empty());
    }
}

#[test]
fn what_another_service_of_ours_has_left_is_taken_over_and_others_routes_are_not() {
    let to = "10.2.0.0/16".parse().unwrap();
    let entry = Entry::Unreachable { to, table: Table::Main };
    let (_, table, metric) = entry.place().unwrap();
    let left = |protocol, kind| Found {
        to,
        table,
        protocol,
        kind,
        device: None,
        via: None,
        source: None,
        metric,
        mtu: None,
    };
    let with = |found| Observed { others: vec![found], ..Observed::default() };

    let of_gre = left(Owner::Gre.protocol(), libc::RTN_UNREACHABLE);
    assert_eq!(plan(&[entry].into(), &with(of_gre)).operations, [Operation::TakeOver(entry)]);
    for found in
        [left(STATIC, libc::RTN_UNREACHABLE), left(Owner::Gre.protocol(), libc::RTN_UNICAST)]
    {
        let plan = plan(&[entry].into(), &with(found));
        assert_eq!((plan.operations, plan.obstacles.get(&entry)), (vec![], Some(&found)));
    }
}
