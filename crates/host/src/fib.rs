//! Manages our own routes in the kernel's main table: marked as ours, beside the routes of other programs.
//!
//! ```text
//!   set, clear ──▶ Fib ──▶ RTM_NEWROUTE, RTM_DELROUTE    a protocol number, a metric of its own
//!                   ▲ handle_change: somebody removed one ──▶ reconcile: what is, against what should be
//! ```
//! No order replaces a route: the kernel refuses a new route if another program's route has its prefix and
//! metric, a next hop changes by adding the new route before deleting the old one, and each deletion names our
//! protocol. The kernel keeps the routes of a killed gateway: the next start removes them, and so does
//! `trackway down`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use base::ip::Prefix;
use nix::libc;
use tracing::debug;

use crate::entry::{self, FIXED, RTAX_MTU, Table};
use crate::links;
use crate::netlink::{self, Kernel, Message, Request};
use crate::numbers::Numbers;

/// The protocol number of our routes, shown by `ip route` (rtm_protocol).
fn protocol() -> u8 {
    Numbers::chosen().protocols
}

/// The next hop is on the link whatever the addresses say.
const ONLINK: u32 = 4;
/// The next hop's link is gone, or has no carrier.
const RTNH_F_DEAD: u32 = 1;
const RTNH_F_LINKDOWN: u32 = 16;

/// Routes that are ours.
#[derive(Debug)]
pub struct Fib {
    netlink: Kernel,
    /// The source address of this node's own packets by these routes.
    source: Option<Ipv4Addr>,
    routes: BTreeMap<Target, Held>,
    /// What became of the orders.
    pub stats: Stats,
}

/// The identity of a route within its table.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Target {
    /// The network's address.
    pub address: Ipv4Addr,
    /// Its prefix length.
    pub bits: u8,
    /// The metric: of two routes to a network the lower metric wins.
    pub metric: u32,
}

/// Where the packets go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hop {
    /// The number of the interface.
    pub interface: u32,
    /// The neighbour there; `None` for a device without neighbours.
    pub via: Option<Ipv4Addr>,
    /// Octets of the longest packet, if less than the interface's.
    pub mtu: Option<u32>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} metric {}", self.address, self.bits, self.metric)
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(via) = self.via {
            write!(f, "via {via} ")?;
        }
        write!(f, "dev {}", self.interface)
    }
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The route is there.
    Set,
    /// Another program's route has the same prefix and metric, and stays.
    Conflicting,
    /// The kernel refuses the route with this error code.
    Refused(i32),
}

/// What a comparison of all routes with the kernel's has found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Compared {
    /// Whether the kernel refuses a route: another try may succeed.
    pub is_refused: bool,
    /// Whether a route was missing, changed or surplus.
    pub has_repaired: bool,
}

base::counters! {
    /// What became of the orders.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Routes added or given another next hop.
        pub routes_set: counter(routes);
        /// Routes removed.
        pub routes_removed: counter(routes);
        /// Routes blocked by a route of another program.
        pub routes_conflicting: counter(routes);
        /// Routes that the kernel refused otherwise.
        pub routes_refused: counter(routes);
        /// Routes removed by others, and added again.
        pub routes_restored: counter(routes);
        /// Routes of an earlier run that were removed at the start.
        pub routes_left_over: counter(routes);
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    hop: Hop,
    /// The route in the kernel, as far as we know.
    installed: Option<(Hop, Option<Ipv4Addr>)>,
    /// The kernel's answer when the route was last set.
    outcome: Outcome,
}

/// One of our routes, read from the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Found {
    target: Target,
    hop: Hop,
    source: Option<Ipv4Addr>,
}

impl Target {
    /// The target of an IPv4 prefix; `None` for another.
    #[must_use]
    pub fn new(prefix: Prefix, metric: u32) -> Option<Self> {
        let network = prefix.network();
        let IpAddr::V4(address) = network.address() else { return None };
        Some(Self { address, bits: network.bits(), metric })
    }
}

impl Fib {
    /// Removes the routes left by an earlier run, and begins with no route.
    ///
    /// # Errors
    /// When the kernel does not list its routes.
    pub fn open() -> io::Result<Self> {
        let (routes, stats) = (BTreeMap::new(), Stats::default());
        let mut fib = Self { netlink: Kernel::open()?, source: None, routes, stats };
        fib.stats.routes_left_over = fib.remove_left()?.len() as u64;
        Ok(fib)
    }

    /// Removes the routes that a killed gateway has left, and returns them.
    fn remove_left(&mut self) -> io::Result<Vec<Found>> {
        let left = self.found()?;
        for it in &left {
            debug!(?it, "route of an earlier run removed");
            self.delete(it.target, it.hop, it.source);
        }
        Ok(left)
    }

    /// Sets the source address of packets that this node sends from now on.
    ///
    /// # Errors
    /// When the kernel does not list its routes.
    pub fn set_source(&mut self, source: Option<Ipv4Addr>) -> io::Result<()> {
        if self.source == source {
            return Ok(());
        }
        self.source = source;
        self.reconcile().map(drop)
    }

    /// Sends packets for this target to this hop from now on; returns whether that succeeded, or why not.
    pub fn set(&mut self, target: Target, hop: Hop) -> Outcome {
        let before = self.routes.get(&target).and_then(|held| held.installed);
        if before == Some((hop, self.source)) {
            return Outcome::Set;
        }
        let outcome = self.install(target, hop, before.is_some());
        let is_set = outcome == Outcome::Set;
        let installed = if is_set { Some((hop, self.source)) } else { before };
        self.routes.insert(target, Held { hop, installed, outcome });
        if let Some((old, source)) = before.filter(|_| is_set) {
            self.delete(target, old, source);
        }
        outcome
    }

    /// Removes our route to this target.
    pub fn remove(&mut self, target: Target) {
        let Some(held) = self.routes.remove(&target) else { return };
        if let Some((hop, source)) = held.installed {
            self.delete(target, hop, source);
        }
    }

    /// Removes all our routes.
    pub fn clear(&mut self) {
        while let Some((&target, _)) = self.routes.first_key_value() {
            self.remove(target);
        }
    }

    /// Whether a change reported by the kernel removed, changed or replaced a wanted route, or may have removed a route
    /// that stood in its way.
    #[must_use]
    pub fn is_concerned(&self, message: Message<'_>) -> bool {
        let Some((its, Found { target, hop, source })) = parse(message) else {
            // IPv4's routes go without a word with their interface.
            let is_down = links::up(message).is_some_and(|(_, is_up)| !is_up);
            return (is_down || message.kind == libc::RTM_DELLINK)
                && self.missing().next().is_some();
        };
        let Some(held) = self.routes.get(&target) else { return false };
        let is_removal = message.kind == libc::RTM_DELROUTE;
        let Some(installed) = held.installed else { return is_removal };
        let is_ours = its == protocol() && installed == (hop, source);
        // Where a route is replaced, the kernel reports only the new route.
        is_removal == is_ours
    }

    /// The wanted routes that the kernel lacks, and why.
    pub fn missing(&self) -> impl Iterator<Item = (Target, String)> {
        self.routes.iter().filter_map(|(&target, held)| {
            let said = match held.outcome {
                Outcome::Set => return None,
                Outcome::Conflicting => {
                    let route = format!("{target}");
                    format!(
                        "another program's has its place; `ip route show {route}` shows it, `ip route del {route}` removes it"
                    )
                }
                Outcome::Refused(code) => {
                    format!("the kernel refuses it: {}", io::Error::from_raw_os_error(code))
                }
            };
            Some((target, said))
        })
    }

    /// Makes the kernel's routes match the wanted routes.
    ///
    /// # Errors
    /// When the kernel does not list its routes.
    pub fn reconcile(&mut self) -> io::Result<Compared> {
        let found = self.found()?;
        for held in self.routes.values_mut() {
            (held.installed, held.outcome) = (None, Outcome::Set);
        }
        let mut surplus = Vec::new();
        for it in found {
            match self.routes.get_mut(&it.target) {
                Some(held) if held.hop == it.hop && self.source == it.source => {
                    held.installed = Some((it.hop, it.source));
                }
                _ => surplus.push(it),
            }
        }
        let is_missing = |(_, held): &(&Target, &Held)| held.installed.is_none();
        let missing: Vec<_> = self
            .routes
            .iter()
            .filter(is_missing)
            .map(|(target, held)| (*target, held.hop))
            .collect();
        let mut compared = Compared { is_refused: false, has_repaired: !surplus.is_empty() };
        for (target, hop) in missing {
            // A route of ours with another next hop or source may stand there.
            let has_other = surplus.iter().any(|it| it.target == target);
            let outcome = self.install(target, hop, has_other);
            let is_set = outcome == Outcome::Set;
            self.stats.routes_restored += u64::from(is_set);
            compared.has_repaired |= is_set;
            compared.is_refused |= matches!(outcome, Outcome::Refused(_));
            let installed = is_set.then_some((hop, self.source));
            self.routes.insert(target, Held { hop, installed, outcome });
        }
        for it in surplus {
            self.delete(it.target, it.hop, it.source);
        }
        Ok(compared)
    }

    /// How many routes stand in the kernel.
    #[must_use]
    pub fn installed(&self) -> usize {
        self.routes.values().filter(|held| held.installed.is_some()).count()
    }

    /// Adds a route: beside our old route if `has_own`, and never in place of another program's route.
    fn install(&mut self, target: Target, hop: Hop, has_own: bool) -> Outcome {
        let how = if has_own { libc::NLM_F_APPEND } else { libc::NLM_F_EXCL };
        let flags = u16::try_from(libc::NLM_F_CREATE | how).unwrap_or_default();
        let flagged = if hop.via.is_some() { ONLINK } else { 0 };
        let request = request(libc::RTM_NEWROUTE, flags, flagged, target, hop, self.source);
        match self.netlink.ask(&request, |_| {}) {
            Ok(()) => {
                self.stats.routes_set += 1;
                Outcome::Set
            }
            // Ours stands there already, word for word.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && has_own => Outcome::Set,
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.stats.routes_conflicting += 1;
                Outcome::Conflicting
            }
            Err(error) => {
                self.stats.routes_refused += 1;
                debug!(%target, %hop, %error, "route refused");
                Outcome::Refused(error.raw_os_error().unwrap_or_default())
            }
        }
    }

    /// Removes a route if the kernel has it.
    fn delete(&mut self, target: Target, hop: Hop, source: Option<Ipv4Addr>) {
        let request = request(libc::RTM_DELROUTE, 0, 0, target, hop, source);
        match self.netlink.ask(&request, |_| {}) {
            Ok(()) => self.stats.routes_removed += 1,
            // The route went with its interface or its address.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => debug!(%target, %hop, %error, "route not removed"),
        }
    }

    /// All routes with our protocol in the main table.
    fn found(&mut self) -> io::Result<Vec<Found>> {
        let request = entry::routes(false, Some(Table::Main), Some(protocol()));
        let found = self.netlink.dump(&request, |message, found| {
            found.extend(parse(message).filter(|(its, _)| *its == protocol()));
        });
        Ok(entry::or_no_table(found)?.into_iter().map(|(_, found)| found).collect())
    }
}

/// Filters `networks` for IPv4 networks reached over a link that is up, by a route of another program or of the kernel.
///
/// # Errors
/// When the kernel does not list its routes.
pub fn reached(netlink: &mut Kernel, networks: &[Prefix]) -> io::Result<Vec<Prefix>> {
    let request = entry::routes(false, Some(Table::Main), None);
    let ways = netlink.dump(&request, |message, ways| {
        let flags = message
            .fixed::<FIXED>()
            .map_or(0, |&[.., a, b, c, d]| u32::from_ne_bytes([a, b, c, d]));
        if flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) == 0 {
            ways.extend(networks.iter().position(|it| leads_to(message, it)));
        }
    });
    let ways: BTreeSet<_> = entry::or_no_table(ways)?.into_iter().collect();
    Ok(ways.into_iter().map(|at| networks[at]).collect())
}

/// Whether a message is about another program's route that overlaps a network. For a default route as network, only
/// default routes count.
#[must_use]
pub fn leads_to(message: Message<'_>, network: &Prefix) -> bool {
    let is_way = message.fixed::<FIXED>().is_some_and(|fixed| fixed[7] == libc::RTN_UNICAST);
    let Some((its, Found { target, .. })) = parse(message) else { return false };
    let Ok(to) = Prefix::new(target.address.into(), target.bits) else { return false };
    let is_part = network.bits() > 0 || target.bits == 0;
    is_way && its != protocol() && is_part && to.overlaps(network)
}

/// Removes the routes that a killed gateway has left, and returns them.
///
/// # Errors
/// When the kernel does not list its routes.
pub(crate) fn remove_all() -> io::Result<Vec<String>> {
    let (routes, stats) = (BTreeMap::new(), Stats::default());
    let found = Fib { netlink: Kernel::open()?, source: None, routes, stats }.remove_left()?;
    let said =
        |it: &Found| format!("route to {}/{} of the MANET", it.target.address, it.target.bits);
    Ok(found.iter().map(said).collect())
}

impl Drop for Fib {
    fn drop(&mut self) {
        self.clear();
    }
}

fn request(
    kind: u16,
    flags: u16,
    route_flags: u32,
    target: Target,
    hop: Hop,
    source: Option<Ipv4Addr>,
) -> Request {
    let is_new = kind == libc::RTM_NEWROUTE;
    let mut fixed = [0; FIXED];
    fixed[0] = netlink::family(target.address.into());
    fixed[1] = target.bits;
    fixed[4] = libc::RT_TABLE_MAIN;
    fixed[5] = protocol();
    fixed[6] = match hop.via {
        _ if !is_new => libc::RT_SCOPE_NOWHERE,
        Some(_) => libc::RT_SCOPE_UNIVERSE,
        None => libc::RT_SCOPE_LINK,
    };
    fixed[7] = libc::RTN_UNICAST;
    fixed[8..].copy_from_slice(&route_flags.to_ne_bytes());
    let mut request = Request::set(kind, flags, &fixed)
        .with_address(libc::RTA_DST, target.address.into())
        .with(libc::RTA_OIF, &hop.interface.to_ne_bytes())
        .with(libc::RTA_PRIORITY, &target.metric.to_ne_bytes());
    if let Some(via) = hop.via {
        request = request.with_address(libc::RTA_GATEWAY, via.into());
    }
    if let Some(source) = source {
        request = request.with_address(libc::RTA_PREFSRC, source.into());
    }
    if let Some(mtu) = hop.mtu.filter(|_| is_new) {
        request =
            request.with(libc::RTA_METRICS, &netlink::attribute(RTAX_MTU, &mtu.to_ne_bytes()));
    }
    request
}

/// An IPv4 route in the main table, and its protocol number.
fn parse(message: Message<'_>) -> Option<(u8, Found)> {
    let route = entry::Found::parse(message).filter(|it| it.table == Table::Main)?;
    let v4 = |address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    let interface = route.device.unwrap_or_default();
    let hop = Hop { interface, via: route.via.and_then(v4), mtu: route.mtu };
    let target = Target::new(route.to, route.metric)?;
    Some((route.protocol, Found { target, hop, source: route.source.and_then(v4) }))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::links::DeviceState;

    #[test]
    fn a_route_is_told_as_ip_tells_it() {
        let target = Target { address: Ipv4Addr::new(10, 2, 0, 0), bits: 16, metric: 500 };
        let hop = Hop { interface: 3, via: Some(Ipv4Addr::new(10, 0, 0, 1)), mtu: None };

        assert_eq!(format!("{target} {hop}"), "10.2.0.0/16 metric 500 via 10.0.0.1 dev 3");
    }

    /// A message about a route of IPv4 in the main table.
    fn route(to: &str, protocol: u8, kind: u8) -> Vec<u8> {
        let to: Prefix = to.parse().unwrap();
        let IpAddr::V4(address) = to.address() else { panic!("{to}") };
        let mut body = vec![0; FIXED];
        body[0] = netlink::family(to.address());
        (body[1], body[4], body[5], body[7]) = (to.bits(), libc::RT_TABLE_MAIN, protocol, kind);
        body.extend(netlink::attribute(libc::RTA_DST, &address.octets()));
        body
    }

    /// Routes of a large MANET.
    const MANY: u32 = 5_000;

    /// Why routes of a MANET are set one by one, and the host's plan is not made anew for each: the shortest of several
    /// times counts.
    #[test]
    #[ignore = "needs root: run by ./test"]
    fn a_change_of_one_route_costs_a_fraction_of_a_comparison_of_all() {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let mut fib = Fib::open().unwrap();
        DeviceState::Up.set(&mut fib.netlink, 1).unwrap();
        let target = |number: u32| Target {
            address: Ipv4Addr::from(0x2c00_0000_u32 | number << 4),
            bits: 28,
            metric: 1,
        };
        let hop = |mtu| Hop { interface: 1, via: None, mtu };
        for number in 0..MANY {
            assert_eq!(fib.set(target(number), hop(None)), Outcome::Set);
        }
        let shortest = |times: &mut dyn Iterator<Item = Duration>| times.min().unwrap();

        let one = shortest(&mut (0..20).map(|round| {
            let began = Instant::now();
            assert_eq!(fib.set(target(7), hop(Some(1_400 + round))), Outcome::Set);
            began.elapsed()
        }));
        let all = shortest(&mut (0..20).map(|_| {
            let began = Instant::now();
            let compared = fib.reconcile().unwrap();
            assert!(!compared.is_refused && !compared.has_repaired);
            began.elapsed()
        }));

        eprintln!("one of {MANY} routes changed in {one:?}, all compared in {all:?}");
        assert_eq!(fib.installed(), usize::try_from(MANY).unwrap());
        assert!(20 * one < all, "{one:?}, {all:?}");
    }

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn what_the_kernel_refuses_is_missing_with_its_reason() {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let mut fib = Fib::open().unwrap();
        let target = Target { address: Ipv4Addr::new(10, 2, 0, 0), bits: 16, metric: 1 };

        // The loopback is down.
        let outcome = fib.set(target, Hop { interface: 1, via: None, mtu: None });

        assert_eq!(outcome, Outcome::Refused(libc::ENETDOWN));
        let missing = |fib: &Fib| fib.missing().map(|(_, why)| why).collect::<Vec<_>>();
        assert!(missing(&fib)[0].contains("Network is down"), "{:?}", missing(&fib));
        assert!(fib.reconcile().unwrap().is_refused);
        DeviceState::Up.set(&mut fib.netlink, 1).unwrap();
        assert_eq!(fib.reconcile().unwrap(), Compared { is_refused: false, has_repaired: true });
        assert_eq!(fib.missing().count(), 0);
    }

    #[test]
    fn a_network_is_led_to_by_routes_of_others_to_all_or_a_part_of_it() {
        const STATIC: u8 = 4;
        for (network, to, protocol, kind, expected) in [
            ("192.168.7.0/24", "192.168.7.0/24", STATIC, libc::RTN_UNICAST, true),
            ("192.168.7.0/24", "192.168.7.128/25", STATIC, libc::RTN_UNICAST, true),
            ("192.168.7.0/24", "192.168.0.0/16", STATIC, libc::RTN_UNICAST, true),
            ("192.168.7.0/24", "0.0.0.0/0", STATIC, libc::RTN_UNICAST, true),
            ("192.168.7.0/24", "192.168.8.0/24", STATIC, libc::RTN_UNICAST, false),
            ("192.168.7.0/24", "192.168.7.0/24", 116, libc::RTN_UNICAST, false),
            ("192.168.7.0/24", "192.168.7.0/24", STATIC, libc::RTN_UNREACHABLE, false),
            ("0.0.0.0/0", "0.0.0.0/0", STATIC, libc::RTN_UNICAST, true),
            ("0.0.0.0/0", "192.168.7.0/24", STATIC, libc::RTN_UNICAST, false),
        ] {
            let body = route(to, protocol, kind);
            let message = Message::new(libc::RTM_NEWROUTE, &body);
            assert_eq!(leads_to(message, &network.parse().unwrap()), expected, "{network}: {to}");
        }
    }
}
