//! Keeps a service's table of nftables, which drops packets that would come or leave in clear.
//!
//! A service without devices says itself what its table holds: packets that would leave in clear while the service
//! stands still. In front of devices the table drops packets that arrive in clear with source addresses behind a
//! device, or for the device's own addresses:
//!
//! ```text
//!   prerouting ─┬ by a device of ours, or from this host ─────────────────────────────────────▶ passes
//!               ├ to an address of the device ────────────────────────────────────────────────▶ dropped
//!               ├ from a network behind it, unless another way leads back there ──────────────▶ dropped
//!               └ to somebody else, from where only a default route of the device leads back ─▶ dropped
//! ```
//! The way back is the kernel's route for a packet to the source, without the mark of packets that services send
//! outside. So the longest network decides, as for packets in the other direction. A peer's default route drops no
//! packets to this host: the tunnel's own datagrams come from anywhere, and nobody can tell which packets the host
//! wants from there by its own interfaces.
//!
//! The table belongs to the service, and stays when the process is killed: the networks are refused then, and
//! packets with their addresses are still false. A clean end removes the table, and so does `trackway down`. Somebody
//! else's changes are undone.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base::ip::Prefix;
use base::time::Time;
use nix::libc;
use nix::sys::socket::SockProtocol;
use tracing::{info, warn};

use crate::beside::{self, Carried, Wall};
use crate::desired::DeviceRoutes;
use crate::entry::{MARK, Owner};
use crate::fault::{self, Fault};
use crate::links::GROUP;
use crate::netlink::{Kernel, Message, Request};
use crate::nft::{self, OrdersFor};

const FAMILY: &str = "inet";
/// How long after the last dropped packet a counter is still said to grow.
const LASTING: Duration = Duration::from_secs(30);
/// The verdict of a rule on a packet that would come or leave in clear.
pub const DROP: &str = "counter name in-clear drop";
/// Names of the counters for dropped packets, besides those of the wall for networks that are gone.
const COUNTERS: [&str; 2] = ["in-clear", beside::ASTRAY];
/// Prefix of the seal's name: a counter that counts nothing. A hash of the table's content follows.
const SEAL: &str = "content-";
const UNDROPPED: &str = "packets that come in clear in the name of peers are not kept out";
const NEEDS: &str = "Linux 4.19 or newer with NFT_FIB_INET and NFT_SOCKET, or their modules (`modprobe -a nft_fib_inet \
                     nft_socket`), and nftables 1.0.1 or newer are needed";

const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_RULE_EXPRESSIONS: u16 = 4;

/// Which parts of a table are compared: the message that asks for each kind of content, and the attributes. Both handle
/// and expressions of a rule count: a replaced rule keeps its handle, and a rule made again may have the same expressions.
const CONTENT: [(i32, &[u16]); 3] = [
    (libc::NFT_MSG_GETTABLE, &[NFTA_TABLE_FLAGS]),
    (libc::NFT_MSG_GETCHAIN, &[NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY]),
    (libc::NFT_MSG_GETRULE, &[NFTA_RULE_CHAIN, NFTA_RULE_HANDLE, NFTA_RULE_EXPRESSIONS]),
];

/// What a service's table holds besides the counter of dropped packets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// The orders that make its sets, chains and rules. Carried out again after the rules were removed, they must leave
    /// sets and chains as they are.
    pub orders: Vec<String>,
    /// Its sets that begin with the elements of the same sets in [`nft::TABLE`]: somebody may remove the one table while
    /// the other one stays.
    pub inherited: Vec<String>,
    /// The packets that pass while there is no table, in words for an operator.
    pub undropped: &'static str,
    /// What the kernel must have.
    pub needs: &'static str,
    /// Packets that the service has brought here: the table lets them leave as its [`Wall`] says.
    pub carried: Option<Carried>,
}

/// The table of a service.
#[derive(Debug)]
pub(crate) struct Fence {
    /// Name of the table.
    table: &'static str,
    /// None if nothing is dropped yet.
    content: Option<Content>,
    wall: Arc<Wall>,
    /// Packets that were dropped before this process took the table over, by counter.
    dropped_before: BTreeMap<String, u64>,
    /// Packets dropped for forgotten networks.
    forgotten: u64,
    /// Why there is no table.
    fault: Option<String>,
}

/// The packets that are kept out in front of devices.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Plan {
    /// Names of the devices in front of the networks.
    devices: BTreeSet<String>,
    /// The networks, without default routes.
    networks: BTreeSet<Prefix>,
    /// Whether IPv4, and IPv6, go by the devices as a whole.
    is_default: [bool; 2],
    /// The devices' own addresses.
    addresses: BTreeSet<IpAddr>,
    /// Interfaces of the MANET: their stations may speak to the devices' addresses, and are met before routes to
    /// them are known.
    radios: BTreeSet<String>,
}

impl Fence {
    /// Drops nothing yet.
    pub(crate) fn new(owner: Owner) -> Self {
        Self {
            table: owner.table(),
            content: None,
            wall: Arc::default(),
            dropped_before: BTreeMap::new(),
            forgotten: 0,
            fault: None,
        }
    }

    /// From now on keeps out packets that should come by these devices; stations of the MANET come by the interfaces
    /// `radios`.
    pub(crate) fn follow_devices(&mut self, devices: &[DeviceRoutes], radios: &BTreeSet<String>) {
        let plan = Plan::of(devices, radios);
        let orders = plan.orders(self.table);
        let which = format!("iifname {{ {} }}", nft::interfaces(&plan.devices));
        // GRE's packets came in clear.
        let is_secret = |it: &DeviceRoutes| matches!(it.owner, Owner::IpClient | Owner::Tunnel);
        let is_secret = devices.iter().any(is_secret);
        self.follow(Content {
            orders,
            inherited: Vec::new(),
            undropped: UNDROPPED,
            needs: NEEDS,
            carried: Some(Carried { hook: "forward", which, is_secret, devices: plan.devices }),
        });
    }

    /// Has this content from now on. Sets begin empty unless an earlier process has left the same table.
    pub(crate) fn follow(&mut self, content: Content) {
        if self.content.as_ref() != Some(&content) {
            self.content = Some(content);
            self.make();
        }
    }

    /// Packets that the service has brought here may leave only as this says from now on.
    pub(crate) fn set_wall(&mut self, wall: Arc<Wall>) {
        let is_other = |it: &Content| self.orders_of(&wall, it) != self.wall_orders(it);
        let Some(content) = self.content.clone().filter(is_other) else {
            self.wall = wall;
            return;
        };
        let needs = content.needs;
        let apply = |orders: Vec<String>| nft::apply(FAMILY, &orders, needs);
        if let Err(why) = self.change_both(content, &wall, apply) {
            self.wall = wall;
            self.note(Err(why));
        }
    }

    /// The orders that make the wall.
    fn wall_orders(&self, content: &Content) -> Vec<String> {
        self.orders_of(&self.wall, content)
    }

    fn orders_of(&self, wall: &Wall, content: &Content) -> Vec<String> {
        let orders = |it| wall.orders(self.table, it);
        content.carried.as_ref().map(orders).unwrap_or_default()
    }

    /// The wall.
    pub(crate) fn wall(&self) -> &Wall {
        &self.wall
    }

    /// Whether the wall holds anything back.
    pub(crate) fn has_wall(&self) -> bool {
        let carried = self.content.as_ref().and_then(|content| content.carried.as_ref());
        carried.is_some_and(|it| !self.wall.is_open_for(it))
    }

    /// As [`Self::follow`], but sets keep their elements, and `carry_out` changes the table, together with whatever has
    /// to change in the same step.
    ///
    /// # Errors
    /// Those of `carry_out`: nothing has changed.
    pub(crate) fn change(
        &mut self,
        content: Content,
        carry_out: impl FnOnce(Vec<String>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.change_both(content, &Arc::clone(&self.wall), carry_out)
    }

    /// Changes content and wall: sets and counters of the table stay.
    fn change_both(
        &mut self,
        content: Content,
        wall: &Arc<Wall>,
        carry_out: impl FnOnce(Vec<String>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // What others have changed must not get a new seal.
        self.restore();
        let table = self.table;
        let before = self.content.as_ref().filter(|_| !self.has_fault());
        let seal = before.and_then(|before| self.seal(before).ok());
        let (mut orders, mut forgotten) = (Vec::new(), BTreeSet::new());
        let counted = if seal.is_some() { self.counted() } else { BTreeMap::new() };
        if let Some(seal) = &seal {
            // The wall's rules stand in a separate chain.
            if content.carried.is_some() && self.content.as_ref() == Some(&content) {
                orders.push(format!("flush chain {FAMILY} {table} {}", beside::CHAIN));
            } else {
                orders.push(format!("flush table {FAMILY} {table}"));
                orders.extend_from_slice(&content.orders);
            }
            orders.push(format!("delete counter {FAMILY} {table} {seal}"));
            forgotten = wall.forgotten(counted.keys());
            let deleted = forgotten.iter();
            orders.extend(deleted.map(|name| format!("delete counter {FAMILY} {table} {name}")));
            orders.extend(self.orders_of(wall, &content));
        }
        carry_out(orders)?;
        for name in &forgotten {
            self.forgotten += counted.get(name).copied().unwrap_or(0);
            // If the network comes back, its counter begins with 0.
            self.dropped_before.remove(name);
        }
        self.wall = Arc::clone(wall);
        if seal.is_some() {
            let outcome = self.add_seal(&content);
            self.content = Some(content);
            self.note(outcome);
        } else {
            self.content = Some(content);
            self.make();
        }
        Ok(())
    }

    /// Makes the table again if somebody has removed or changed it or parts of it, or if it could not be made before;
    /// returns whether it was made.
    pub(crate) fn restore(&mut self) -> bool {
        let had_fault = self.has_fault();
        if self.content.is_none() || !had_fault && self.is_whole() {
            return false;
        }
        self.make();
        if !had_fault && !self.has_fault() {
            warn!(table = self.table, "the table was gone or changed, and is made again");
        }
        !self.has_fault()
    }

    /// Whether the table could not be made.
    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Whether a notice reports a change of the table.
    pub(crate) fn is_concerned(&self, message: Message<'_>) -> bool {
        nft::table_of(message) == Some(self.table.as_bytes())
    }

    /// Packets that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.forgotten + self.counted().values().sum::<u64>()
    }

    /// Packets that were dropped, by counter.
    pub(crate) fn counted(&self) -> BTreeMap<String, u64> {
        let counters = nft::counters(self.table).unwrap_or_default();
        let since = |(name, count, _): (String, u64, u64)| {
            let before = self.dropped_before.get(&name).copied().unwrap_or(0);
            (name, count.saturating_sub(before))
        };
        counters.into_iter().map(since).collect()
    }

    /// Why nothing is dropped, for an operator.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let (why, content) = self.fault.as_ref().zip(self.content.as_ref())?;
        Some(Fault::new(&fault::UNFENCED, format!("{}: {why}", content.undropped)))
    }

    /// Makes the table, unless an earlier process has left the same: to replace a table, the kernel waits until no
    /// processor uses the old one (`synchronize_rcu`), on a busy machine for some 0.2 s, in which a service that starts
    /// would carry nothing.
    fn make(&mut self) {
        let is_whole = self.is_whole();
        self.dropped_before.clear();
        if is_whole {
            self.dropped_before = self.counted();
        }
        let outcome = if is_whole { Ok(()) } else { self.replace() };
        self.note(outcome);
    }

    /// Notes, and logs once, whether there is a table.
    fn note(&mut self, outcome: anyhow::Result<()>) {
        let fault = outcome.err().map(|why| format!("{why:#}"));
        let undropped = self.content.as_ref().map_or("", |content| content.undropped);
        match (&fault, &self.fault) {
            (Some(why), before) if before.as_ref() != Some(why) => warn!(%why, "{undropped}"),
            (None, Some(_)) => {
                info!(table = self.table, "packets in clear are dropped now");
            }
            _ => {}
        }
        self.fault = fault;
    }

    /// Makes the table, and seals it.
    fn replace(&self) -> anyhow::Result<()> {
        let Some(content) = &self.content else { return Ok(()) };
        let script = script(self.table, content, self.wall_orders(content));
        nft::apply(FAMILY, &script, content.needs)?;
        for set in &content.inherited {
            if let Err(error) = nft::copy_elements(set, nft::TABLE, self.table) {
                warn!(set, %error, "elements of a table are lost");
            }
        }
        self.add_seal(content)
    }

    /// Seals the table.
    fn add_seal(&self, content: &Content) -> anyhow::Result<()> {
        let sealed = self.seal(content).and_then(|seal| nft::add_counter(self.table, &seal));
        sealed.context("the table cannot be read or sealed")
    }

    /// Whether the table is as its content makes it, made by this process or by an earlier one: the seal says so.
    fn is_whole(&self) -> bool {
        let Some(Ok(seal)) = self.content.as_ref().map(|content| self.seal(content)) else {
            return false;
        };
        let counters = nft::counters(self.table).unwrap_or_default();
        counters.iter().any(|(name, ..)| *name == seal)
    }

    /// The name of the seal for what the table has now, if it was made by this content. Another version of the
    /// program may hash differently; then the table is made anew.
    fn seal(&self, made_by: &Content) -> io::Result<String> {
        let mut hasher = DefaultHasher::new();
        script(self.table, made_by, self.wall_orders(made_by)).hash(&mut hasher);
        for (what, kinds) in CONTENT {
            content(self.table, what, kinds)?.hash(&mut hasher);
        }
        Ok(format!("{SEAL}{:016x}", hasher.finish()))
    }
}

/// Tells whether a counter has grown lately.
#[derive(Debug, Default)]
pub struct Growth {
    last: Option<u64>,
    until: Time,
    now: Time,
}

impl Growth {
    /// The growth of a counter that began with zero.
    #[must_use]
    pub(crate) fn from_zero() -> Self {
        Self { last: Some(0), ..Self::default() }
    }

    /// Time passes; nobody has asked for the counter.
    pub(crate) fn pass(&mut self, now: Time) {
        self.now = now;
    }

    /// Takes the present value of the counter. Growth counts from the first value on.
    pub fn follow(&mut self, now: Time, count: u64) {
        self.now = now;
        if self.last.replace(count).is_some_and(|last| last < count) {
            self.until = now + LASTING;
        }
    }

    /// Whether the counter has grown, a while before the last call at most.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.now < self.until
    }
}

/// The orders that make a table, replacing a table of the same name.
fn script(table: &str, content: &Content, wall: Vec<String>) -> Vec<String> {
    let mut orders = vec![
        format!("add table {FAMILY} {table}"),
        format!("delete table {FAMILY} {table}"),
        format!("add table {FAMILY} {table}"),
    ];
    orders.extend(COUNTERS.map(|name| format!("add counter {FAMILY} {table} {name}")));
    orders.extend_from_slice(&content.orders);
    orders.extend(wall);
    orders
}

/// Removes a service's table, whether it runs or not.
pub(crate) fn give_up(owner: Owner) {
    let table = owner.table();
    if let Err(error) = remove(table) {
        warn!(table, %error, "table not removed: `trackway down` does it");
    }
}

/// Removes the tables left by any service in this network namespace, and returns their names.
///
/// # Errors
/// When the right to remove tables is missing.
pub(crate) fn remove_all() -> anyhow::Result<Vec<String>> {
    let mut removed = Vec::new();
    for table in Owner::ALL.map(Owner::table) {
        let name = format!("nftables table {FAMILY} {table}");
        if remove(table).with_context(|| format!("cannot remove the {name}"))? {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Removes a table; returns whether there was one.
fn remove(table: &str) -> io::Result<bool> {
    let question = nft::about(table, Request::get(nft::kind(libc::NFT_MSG_GETTABLE), &nft::INET));
    let mut netlink = match Kernel::open_to(SockProtocol::NetlinkNetFilter) {
        // The kernel has no netfilter tables at all.
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(false),
        opened => opened?,
    };
    // The kernel takes some 15 ms for each order, even one that it refuses, and a gateway that starts gives many.
    let asked = netlink.ask(&question, |_| {});
    match asked.and_then(|()| order_removal(&mut netlink, table)) {
        Ok(()) => Ok(true),
        // No nftables in this kernel, or no such table: nothing to remove.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn order_removal(netlink: &mut Kernel, table: &str) -> io::Result<()> {
    let order = Request::set(nft::kind(libc::NFT_MSG_DELTABLE), 0, &nft::INET);
    netlink.ask_in_batch(libc::NFNL_SUBSYS_NFTABLES, &nft::about(table, order))
}

/// The content of a table that a message asks for, with the values of some attributes of each part.
fn content(table: &str, what: i32, kinds: &[u16]) -> io::Result<Vec<Vec<Vec<u8>>>> {
    let name = format!("{table}\0");
    let request = nft::about(table, Request::dump(nft::kind(what), &nft::INET));
    let mut netlink = Kernel::open_to(SockProtocol::NetlinkNetFilter)?;
    netlink.dump(&request, |message, found| {
        let attributes = || message.attributes(nft::FIXED);
        // Asked for tables or chains, the kernel tells those of all tables.
        if attributes().any(|it| it == (nft::NFTA_TABLE, name.as_bytes())) {
            let its = attributes().filter(|(kind, _)| kinds.contains(kind));
            found.push(its.map(|(_, value)| value.to_vec()).collect());
        }
    })
}

impl Plan {
    fn of(devices: &[DeviceRoutes], radios: &BTreeSet<String>) -> Self {
        let all: BTreeSet<_> = devices.iter().flat_map(DeviceRoutes::networks).collect();
        let is_default = [true, false]
            .map(|is_v4| all.iter().any(|it| it.bits() == 0 && it.address().is_ipv4() == is_v4));
        Self {
            devices: devices.iter().map(|device| device.name.clone()).collect(),
            networks: all.into_iter().filter(|network| network.bits() > 0).collect(),
            is_default,
            addresses: devices
                .iter()
                .flat_map(|device| &device.addresses)
                .map(Prefix::address)
                .collect(),
            radios: radios.clone(),
        }
    }

    /// The orders that make the table's chains and rules.
    fn orders(&self, table: &'static str) -> Vec<String> {
        let table = OrdersFor(table);
        let entrance = table.base_chain("prerouting", "filter", "prerouting priority raw");
        let mut orders = vec![table.chain("in_name"), entrance];
        let mut add = |chain: &str, rule: &str| orders.push(table.rule(chain, rule));
        let devices = nft::interfaces(&self.devices);
        let beside_radios = match self.radios.is_empty() {
            true => String::new(),
            false => format!("iifname != {{ {} }} ", nft::interfaces(&self.radios)),
        };
        for (chain, rule) in [
            (
                "in_name",
                format!("fib saddr oif exists fib saddr oifname != {{ {devices} }} return"),
            ),
            ("in_name", "fib saddr type local return".to_owned()),
            ("in_name", "fib daddr type { broadcast, anycast, multicast } return".to_owned()),
            // Answers to packets that our own services send outside arrive from outside.
            ("in_name", format!("meta l4proto {{ tcp, udp }} socket mark {MARK:#x} return")),
            ("in_name", DROP.to_owned()),
            ("prerouting", format!("meta iifgroup {GROUP:#x} accept")),
            ("prerouting", "iifname lo accept".to_owned()),
            // Neighbour discovery comes from the link itself.
            ("prerouting", "icmpv6 type 133-137 accept".to_owned()),
        ] {
            add(chain, &rule);
        }
        for (is_v4, name) in [(true, "ip"), (false, "ip6")] {
            let has = |ip: IpAddr| ip.is_ipv4() == is_v4;
            let own = nft::listed(self.addresses.iter().filter(|ip| has(**ip)));
            if !own.is_empty() {
                // The rule of `wg-quick`; an address also assigned to the incoming interface passes.
                let rule = format!(
                    "{beside_radios}{name} daddr {{ {own} }} fib daddr . iif type != local fib saddr type != local {DROP}"
                );
                add("prerouting", &rule);
            }
            let behind = nft::listed(nft::widest(&self.networks, is_v4));
            if !behind.is_empty() {
                add("prerouting", &format!("{name} saddr {{ {behind} }} jump in_name"));
            }
            if self.is_default[usize::from(!is_v4)] {
                let family = if is_v4 { "ipv4" } else { "ipv6" };
                let rule = format!(
                    "{beside_radios}meta nfproto {family} fib daddr type unicast fib saddr oifname {{ {devices} }} {DROP}"
                );
                add("prerouting", &rule);
            }
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// Whatever else the machine does makes both longer, so the shortest of several times counts.
    #[test]
    #[ignore = "needs root: run by ./test"]
    fn a_table_that_is_not_there_costs_no_order() {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let table = Owner::Tunnel.table();
        let shortest = |work: &mut dyn FnMut()| {
            let times = (0..20).map(|_| {
                let began = Instant::now();
                work();
                began.elapsed()
            });
            times.min().unwrap()
        };

        let order = shortest(&mut || {
            let mut netlink = Kernel::open_to(SockProtocol::NetlinkNetFilter).unwrap();
            let refused = order_removal(&mut netlink, table).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
        });
        let removal = shortest(&mut || assert!(!remove(table).unwrap()));

        assert!(4 * removal < order, "{removal:?} where an order takes {order:?}");
    }

    fn of(name: &str, routes: &[&str], own: &[&str]) -> DeviceRoutes {
        let routes = routes.iter().map(|it| (name.to_owned(), it.parse().unwrap())).collect();
        let addresses = own.iter().map(|it| it.parse().unwrap()).collect();
        DeviceRoutes { name: name.to_owned(), routes, addresses, ..DeviceRoutes::default() }
    }

    #[test]
    fn the_table_is_this() {
        let routes = ["10.2.0.0/16", "10.2.3.0/24", "10.9.0.2/32", "::/0"];
        let wanted = of("trackway-nc0", &routes, &["10.9.0.1/24"]);
        let plan = Plan::of(&[wanted], &["wlan0".to_owned()].into());

        let expected = [
            "add table inet trackway_tunnel",
            "delete table inet trackway_tunnel",
            "add table inet trackway_tunnel",
            "add counter inet trackway_tunnel in-clear",
            "add counter inet trackway_tunnel astray",
            "add chain inet trackway_tunnel in_name",
            "add chain inet trackway_tunnel prerouting { type filter hook prerouting priority raw; policy accept; }",
            "add rule inet trackway_tunnel in_name fib saddr oif exists fib saddr oifname != { \"trackway-nc0\" } return",
            "add rule inet trackway_tunnel in_name fib saddr type local return",
            "add rule inet trackway_tunnel in_name fib daddr type { broadcast, anycast, multicast } return",
            "add rule inet trackway_tunnel in_name meta l4proto { tcp, udp } socket mark 0x7472776c return",
            "add rule inet trackway_tunnel in_name counter name in-clear drop",
            "add rule inet trackway_tunnel prerouting meta iifgroup 0x7472776b accept",
            "add rule inet trackway_tunnel prerouting iifname lo accept",
            "add rule inet trackway_tunnel prerouting icmpv6 type 133-137 accept",
            "add rule inet trackway_tunnel prerouting iifname != { \"wlan0\" } ip daddr { 10.9.0.1 } fib daddr . iif \
             type != local fib saddr type != local counter name in-clear drop",
            "add rule inet trackway_tunnel prerouting ip saddr { 10.2.0.0/16, 10.9.0.2/32 } jump in_name",
            "add rule inet trackway_tunnel prerouting iifname != { \"wlan0\" } meta nfproto ipv6 fib daddr type unicast \
             fib saddr oifname { \"trackway-nc0\" } counter name in-clear drop",
        ];
        let table = Owner::Tunnel.table();
        let content = Content { orders: plan.orders(table), ..Content::default() };
        assert_eq!(script(table, &content, Vec::new()), expected);
    }

    #[test]
    fn a_counter_grows_from_its_second_reading_until_it_has_rested() {
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        let mut growth = Growth::default();

        let told = [(0, 7), (5, 7), (10, 8), (39, 8), (40, 8), (45, 9), (74, 3), (75, 3)].map(
            |(seconds, count)| {
                growth.follow(at(seconds), count);
                growth.is_lasting()
            },
        );

        assert_eq!(told, [false, false, true, true, false, true, true, false]);
    }

    #[test]
    fn a_counter_from_zero_grows_at_once_and_rests_while_nobody_asks() {
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        let mut growth = Growth::from_zero();

        growth.follow(at(0), 0);
        assert!(!growth.is_lasting());
        growth.follow(at(1), 5);
        assert!(growth.is_lasting());
        growth.pass(at(31));
        assert!(!growth.is_lasting());
        growth.follow(at(32), 5);
        assert!(!growth.is_lasting());
    }
}
