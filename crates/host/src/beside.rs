//! Remembers the networks next to this host. If one goes away, packets that a tunnel brings for it would follow the
//! default route, in clear; they are dropped instead.
//!
//! ```text
//!   tunnel ─▶ gateway ─ eth1 ─▶ everywhere else: the default route leads here, so eth1 is an uplink
//!                └───── lan0 ─▶ 10.50.0.0/24: once lan0 is down, no packets for it leave by eth1
//! ```
//! Interfaces of default routes are uplinks from then on. Networks of uplinks are not remembered, unless the configuration
//! names them: another uplink may take their place. Where somebody has a route by an uplink to a network, to a part of it
//! or to a wider one that is no default route, packets may leave by this uplink.
//!
//! A network that was not there when the process began is known only if the configuration names it. But packets that came
//! encrypted or by radio, and are for private addresses, follow no default route of an uplink at all: nobody on the
//! Internet has these addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use base::ip::Prefix;
use nix::libc;

use crate::entry::{self, FIXED, Found, Owner};
use crate::links;
use crate::netlink::{self, Kernel, Message, Request};
use crate::nft::{self, OrdersFor};
use crate::routes::{Packets, Routes};

/// Prefix of the names of counters for networks that are gone.
const GONE: &str = "gone-";
/// Counts the packets that were dropped because only a default route leads to their private addresses.
pub(crate) const ASTRAY: &str = "astray";
/// The name of the chain that drops packets, in the table of each service.
pub const CHAIN: &str = "gone";
/// The most networks among the private ones to which routes by an uplink may lead. With more, the uplink belongs to a
/// large private network, and its default route leads there as well.
const MOST_LED: usize = 1_024;
/// Octets of `struct rtnexthop`: its length, flags, weight and the number of the interface.
const NEXT_HOP: usize = 8;

/// All private addresses (RFC 1918 and RFC 4193).
static PRIVATE: LazyLock<BTreeSet<Prefix>> = LazyLock::new(|| {
    let v4 = [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)];
    let v4 = v4.map(|(address, bits)| (IpAddr::V4(Ipv4Addr::from(address)), bits));
    let v6 = (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7);
    v4.into_iter().chain([v6]).filter_map(|(it, bits)| Prefix::new(it, bits).ok()).collect()
});

/// An interface's number, one of its addresses, and the prefix length.
type Place = (u32, IpAddr, u8);

/// The networks that were next to this host since the process began, and the uplinks.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The names of the interfaces that have, or had, an address in each network; none for a network that only the
    /// configuration names.
    networks: BTreeMap<Prefix, BTreeSet<String>>,
    /// Networks that the configuration names: they count by whatever interface they were, even if it is an uplink.
    named: BTreeSet<Prefix>,
    /// Networks of addresses that came without a route (`noprefixroute`), and the numbers of their interfaces: such a
    /// network counts once somebody has made its route.
    routeless: BTreeSet<(Prefix, u32)>,
    /// The lengths of their prefixes.
    lengths: BTreeSet<u8>,
    /// The names of interfaces that a default route leads to, or has led to.
    uplinks: BTreeSet<String>,
    /// The wall when the kernel was last asked for routes.
    wall: Arc<Wall>,
    /// Whether networks and uplinks are still those of the wall.
    is_current: bool,
    /// Whether routes are.
    has_routes: bool,
    /// How often something has changed.
    changes: u64,
}

/// Packets from a service that may not leave.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Wall {
    /// The networks that were next to this host, by no uplink, each with the interfaces where it was.
    networks: BTreeMap<Prefix, BTreeSet<String>>,
    uplinks: BTreeMap<String, Closed>,
}

/// The destinations of packets that may not leave by an uplink.
#[derive(Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Closed {
    /// Networks that were next to this host.
    networks: BTreeSet<Prefix>,
    /// Private destinations, for packets that came encrypted or by radio.
    private: BTreeSet<Prefix>,
    /// Destinations inside, to which somebody has a route by this uplink: packets for these may leave.
    led: BTreeSet<Prefix>,
}

/// The destinations in question to which routes lead, by the name of the interface.
type Led = BTreeMap<String, BTreeSet<Prefix>>;

/// Packets that a service has brought here for other hosts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Carried {
    /// The hook where they leave.
    pub hook: &'static str,
    /// The condition for them, in the language of `nft`.
    pub which: String,
    /// Whether they came encrypted, or by radio: what encrypts the link stands between the node and its modem, where we
    /// cannot see it, and an uplink is heard by others than the radio.
    pub is_secret: bool,
    /// The service's own devices. Nothing comes for the network of a device that is gone, so it needs no wall.
    pub devices: BTreeSet<String>,
}

impl Beside {
    /// Begins with the present addresses and default routes of this host, and the networks `named` by the configuration.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn new(named: &BTreeSet<Prefix>) -> io::Result<Self> {
        let mut beside = Self::default();
        beside.note_named(named);
        beside.note()?;
        Ok(beside)
    }

    /// Notes all addresses of this host, and to which interfaces default routes lead.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn note(&mut self) -> io::Result<()> {
        self.change();
        addresses()?.into_iter().for_each(|(place, makes)| self.note_address(place, makes));
        let (uplinks, led) = self.routes()?;
        uplinks.into_iter().for_each(|name| self.note_uplink(name));
        self.raise(led);
        Ok(())
    }

    /// Notes an address of an interface, and whether the kernel makes the route to its network.
    fn note_address(&mut self, (index, address, bits): Place, makes_route: bool) {
        let is_one_host = bits == if address.is_ipv4() { 32 } else { 128 };
        if is_one_host || links::is_link_local(address) || address.is_loopback() {
            return;
        }
        let Ok(prefix) = Prefix::new(address, bits) else { return };
        let network = prefix.network();
        if makes_route {
            self.note_network(network, index);
            return;
        }
        self.routeless.insert((network, index));
        let decided = Routes::open().and_then(|mut routes| {
            routes.decided(links::beside(network.address(), 1), &Packets::default())
        });
        if decided.is_ok_and(|(hop, its)| hop.interface() == Some(index) && its == bits) {
            self.note_network(network, index);
        }
    }

    /// Notes that a network is next to this host.
    fn note_network(&mut self, network: Prefix, index: u32) {
        let Some(name) = links::existing_name(index) else { return };
        self.lengths.insert(network.bits());
        if !self.networks.entry(network).or_default().insert(name) {
            return;
        }
        // All routes to private addresses are known. So a service that starts does not ask for all routes because its
        // own device has come.
        let has_routes = self.has_routes && is_private(&network);
        self.change();
        self.has_routes = has_routes;
    }

    /// The configuration names these networks: they count although no interface may have them.
    fn note_named(&mut self, named: &BTreeSet<Prefix>) {
        for network in named {
            self.named.insert(*network);
            self.lengths.insert(network.bits());
            self.networks.entry(*network).or_default();
        }
    }

    /// The configuration names these networks, too, from now on.
    pub(crate) fn name(&mut self, named: &BTreeSet<Prefix>) {
        if !named.is_subset(&self.named) {
            self.note_named(named);
            self.change();
        }
    }

    /// Notes what a notice says.
    pub(crate) fn take(&mut self, message: Message<'_>) {
        match message.kind {
            libc::RTM_NEWADDR => {
                let place = links::address_of(message).into_iter();
                place.for_each(|it| self.note_address(it, links::makes_route(message)));
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let Some(route) = Found::parse(message).filter(is_of_others) else { return };
                if message.kind == libc::RTM_NEWROUTE && !self.routeless.is_empty() {
                    let places = interfaces(message).into_iter().map(|index| (route.to, index));
                    let its: Vec<_> = places.filter(|it| self.routeless.contains(it)).collect();
                    its.into_iter().for_each(|(network, index)| self.note_network(network, index));
                }
                if message.kind == libc::RTM_NEWROUTE && is_default(&route) {
                    let names = interfaces(message).into_iter().filter_map(links::existing_name);
                    names.for_each(|name| self.note_uplink(name));
                }
                let parts = self.parts(&route);
                // The kernel reports no removal of a route that another one replaces.
                let is_led = |it: &Closed| parts.iter().any(|part| it.led.contains(part));
                let was_led = || self.wall.uplinks.values().any(is_led);
                let is_by_uplink = || interfaces(message).into_iter().any(|it| self.is_uplink(it));
                if !parts.is_empty() && (is_by_uplink() || was_led()) {
                    self.change();
                }
            }
            // IPv4's routes go without a word with the last address of their interface, and when it goes down.
            libc::RTM_DELADDR => {
                let index = links::address_of(message).map(|(index, ..)| index);
                if index.is_some_and(|it| self.concerns_wall(it)) {
                    self.change();
                }
            }
            libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                let is_up = message.kind == libc::RTM_NEWLINK
                    && links::up(message).is_none_or(|(_, is_up)| is_up);
                if !is_up && links::subject(message).is_some_and(|it| self.concerns_wall(it)) {
                    self.change();
                }
            }
            _ => {}
        }
    }

    /// Forgets networks in which this host has no address any more, unless the configuration has `named` them.
    ///
    /// # Errors
    /// As [`Self::new`]: none is forgotten.
    pub(crate) fn forget(&mut self, named: &BTreeSet<Prefix>) -> io::Result<()> {
        let addresses = addresses();
        if let Ok(addresses) = &addresses {
            (self.networks, self.routeless, self.lengths) = Default::default();
            addresses.iter().for_each(|(place, makes)| self.note_address(*place, *makes));
        }
        self.named.clear();
        self.note_named(named);
        self.change();
        addresses.map(drop)
    }

    /// How often something has changed: another [`Self::wall`] may follow from it.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// What may not leave now.
    pub(crate) fn wall(&mut self) -> Arc<Wall> {
        if !self.is_current {
            let led = match self.uplinks.is_empty() {
                _ if self.has_routes => Ok(self.wall.led()),
                true => Ok(Led::new()),
                false => self.routes().map(|(_, led)| led),
            };
            self.renew(led);
        }
        Arc::clone(&self.wall)
    }

    /// Makes the wall for the kernel's answer. What was known of routes counts on while the kernel cannot be asked.
    fn renew(&mut self, led: io::Result<Led>) {
        let is_answered = led.is_ok();
        self.raise(led.unwrap_or_else(|_| self.wall.led()));
        if !is_answered {
            self.change();
        }
    }

    /// Makes the wall for what routes lead to.
    fn raise(&mut self, mut led: Led) {
        let mut networks = self.networks.clone();
        networks.retain(|network, names| {
            self.named.contains(network) || names.is_disjoint(&self.uplinks)
        });
        let uplinks = self.uplinks.iter().map(|name| {
            let led = led.remove(name).unwrap_or_default();
            let is_closed = |network: &&Prefix| !leads(&led, network);
            let closed = networks.keys().filter(is_closed).copied().collect();
            let is_small = |range: &&Prefix| {
                led.iter().filter(|it| range.contains(it.address())).nth(MOST_LED).is_none()
            };
            let private = PRIVATE.iter().filter(is_closed).filter(is_small).copied().collect();
            (name.clone(), Closed { networks: closed, private, led })
        });
        let uplinks: BTreeMap<_, _> = uplinks.collect();
        if uplinks.is_empty() {
            networks.clear();
        }
        self.wall = Arc::new(Wall { networks, uplinks });
        (self.is_current, self.has_routes) = (true, true);
    }

    fn is_uplink(&self, index: u32) -> bool {
        links::existing_name(index).is_some_and(|name| self.uplinks.contains(&name))
    }

    /// Whether the wall may be another one once an interface has lost an address or carries nothing: it is an uplink,
    /// has a network that the wall lacks, or is gone.
    fn concerns_wall(&self, index: u32) -> bool {
        links::existing_name(index).is_none_or(|name| {
            let mut networks = self.networks.iter();
            self.uplinks.contains(&name)
                || networks.any(|(network, names)| {
                    names.contains(&name) && !self.wall.networks.contains_key(network)
                })
        })
    }

    /// Asks the kernel for others' routes once: the interfaces of default routes, and what the other routes lead to.
    fn routes(&self) -> io::Result<(BTreeSet<String>, Led)> {
        let mut netlink = Kernel::open()?;
        let (mut defaults, mut led) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for is_v6 in [false, true] {
            let found = netlink.dump(&entry::routes(is_v6, None, None), |message, found| {
                let Some(route) = Found::parse(message).filter(is_of_others) else { return };
                let parts = self.parts(&route);
                if is_default(&route) || !parts.is_empty() {
                    found.push((interfaces(message), is_default(&route), parts));
                }
            });
            for (by, is_default, parts) in entry::or_no_table(found)? {
                defaults.extend(by.iter().copied().filter(|_| is_default));
                by.iter().for_each(|it| led.entry(*it).or_default().extend(parts.iter().copied()));
            }
        }
        // A name is a question to the kernel, so not one for each route.
        let named = |(index, parts)| links::existing_name(index).map(|name| (name, parts));
        Ok((
            defaults.into_iter().filter_map(links::existing_name).collect(),
            led.into_iter().filter_map(named).collect(),
        ))
    }

    /// The private destinations and the remembered networks, or their parts, to which a route leads; of a default
    /// route, none.
    fn parts(&self, route: &Found) -> Vec<Prefix> {
        let mut parts = parts_of_private(route);
        if self.has_part(&route.to) {
            parts.push(route.to);
        } else if !is_default(route) {
            parts.extend(self.within(&route.to));
        }
        parts
    }

    /// Whether a network is remembered, or part of a remembered one.
    fn has_part(&self, its: &Prefix) -> bool {
        let wider = self.lengths.range(..=its.bits());
        let wider = wider.filter_map(|bits| Prefix::new(its.address(), *bits).ok());
        wider.into_iter().any(|it| self.networks.contains_key(&it.network()))
    }

    /// The remembered networks within a wider one.
    fn within(&self, wider: &Prefix) -> impl Iterator<Item = Prefix> + '_ {
        let wider = wider.network();
        let firsts = self.lengths.range(wider.bits() + 1..);
        let firsts = firsts.filter_map(move |bits| Prefix::new(wider.address(), *bits).ok());
        firsts.flat_map(move |first| {
            let others = self.networks.range(first..).map(|(network, _)| *network);
            others.take_while(move |it| it.bits() == first.bits() && wider.contains(it.address()))
        })
    }

    fn note_uplink(&mut self, name: String) {
        if self.uplinks.insert(name) {
            self.change();
        }
    }

    fn change(&mut self) {
        (self.is_current, self.has_routes) = (false, false);
        self.changes += 1;
    }
}

impl Wall {
    /// Whether all packets of a service may leave.
    pub(crate) fn is_open_for(&self, carried: &Carried) -> bool {
        let mut uplinks = self.uplinks.values();
        uplinks.all(|it| {
            self.networks_for(it, carried).is_empty() && it.private_for(carried).is_empty()
        })
    }

    /// The networks of packets that may not leave by an uplink.
    fn networks_for(&self, closed: &Closed, carried: &Carried) -> BTreeSet<Prefix> {
        let its = |network: &Prefix| self.networks.get(network).filter(|names| !names.is_empty());
        let is_own =
            |network: &&Prefix| its(network).is_some_and(|it| it.is_subset(&carried.devices));
        closed.networks.iter().filter(|network| !is_own(network)).copied().collect()
    }

    /// What routes lead to, by uplink.
    fn led(&self) -> Led {
        self.uplinks.iter().map(|(name, its)| (name.clone(), its.led.clone())).collect()
    }

    /// The orders that make its chain and rules in a table.
    pub(crate) fn orders(&self, table: &'static str, carried: &Carried) -> Vec<String> {
        let (Carried { hook, which, .. }, its) = (carried, OrdersFor(table));
        let chain = its.base_chain(CHAIN, "filter", &format!("{hook} priority mangle"));
        let mut orders = vec![chain];
        let mut alike = BTreeMap::<_, BTreeSet<_>>::new();
        for (name, closed) in &self.uplinks {
            alike.entry(closed).or_default().insert(name.clone());
        }
        let (mut counted, mut rules) = (BTreeSet::new(), Vec::new());
        for (closed, uplinks) in alike {
            let leaving = format!("{which} oifname {{ {} }}", nft::interfaces(&uplinks));
            let networks = self.networks_for(closed, carried);
            let of_uplinks = closed.rules(&networks, carried).into_iter();
            rules.extend(of_uplinks.map(|rule| its.rule(CHAIN, &format!("{leaving} {rule}"))));
            counted.extend(networks);
        }
        let counters = counted.iter().map(counter);
        orders.extend(counters.map(|name| format!("add counter inet {table} {name}")));
        orders.extend(rules);
        orders
    }

    /// The networks whose packets were dropped, as `has_grown` says of each counter; each with the interfaces where it
    /// was, and the uplinks that it is closed for.
    pub(crate) fn gone(&self, has_grown: impl Fn(&str) -> bool) -> Vec<(Prefix, String, String)> {
        let its = self.networks.iter().filter(|(network, _)| has_grown(&counter(network)));
        let gone = its.map(|(network, names)| {
            let closed = self.uplinks.iter().filter(|(_, its)| its.networks.contains(network));
            (*network, nft::listed(names), nft::listed(closed.map(|(name, _)| name)))
        });
        gone.filter(|(.., uplinks)| !uplinks.is_empty()).collect()
    }

    /// The counters among these that count for networks no longer known.
    pub(crate) fn forgotten<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
    ) -> BTreeSet<String> {
        let mut its: BTreeSet<_> = names.filter(|name| name.starts_with(GONE)).cloned().collect();
        if !its.is_empty() {
            for network in self.networks.keys() {
                its.remove(&counter(network));
            }
        }
        its
    }

    /// The uplinks, as a list.
    pub(crate) fn uplinks(&self) -> String {
        nft::listed(self.uplinks.keys())
    }
}

impl Closed {
    /// The private destinations of packets that may not leave.
    fn private_for(&self, carried: &Carried) -> &BTreeSet<Prefix> {
        static NONE: BTreeSet<Prefix> = BTreeSet::new();
        if carried.is_secret { &self.private } else { &NONE }
    }

    /// The rules for the destinations of packets that leave by the uplink.
    fn rules(&self, networks: &BTreeSet<Prefix>, carried: &Carried) -> Vec<String> {
        let private = self.private_for(carried);
        let walled = || networks.iter().chain(private);
        let is_part = |led: &&Prefix| walled().any(|it| it.contains(led.address()));
        let mut rules = Vec::new();
        for (is_v4, name) in [(true, "ip"), (false, "ip6")] {
            let gone = nft::widest(networks, is_v4);
            let counters = nft::listed(gone.iter().map(|it| format!("{it} : \"{}\"", counter(it))));
            for (networks, verdict) in [
                (nft::widest(self.led.iter().filter(is_part), is_v4), "accept".to_owned()),
                (gone, format!("counter name {name} daddr map {{ {counters} }} drop")),
                (nft::widest(private, is_v4), format!("counter name {ASTRAY} drop")),
            ] {
                if !networks.is_empty() {
                    let networks = nft::listed(networks);
                    rules.push(format!("{name} daddr {{ {networks} }} {verdict}"));
                }
            }
        }
        rules
    }
}

/// The addresses of all interfaces, and whether the kernel makes the route to the network of each.
fn addresses() -> io::Result<Vec<(Place, bool)>> {
    let request = Request::dump(libc::RTM_GETADDR, &[0; links::ADDRESS_FIXED]);
    Kernel::open()?.dump(&request, |message, all| {
        let place = links::address_of(message);
        all.extend(place.map(|place| (place, links::makes_route(message))));
    })
}

/// The name of the counter of packets that were dropped because their network is gone.
fn counter(network: &Prefix) -> String {
    format!("{GONE}{network}").replace(':', "_")
}

/// Whether a network, or a wider one, is among those to which routes lead. There may be 100,000.
fn leads(led: &BTreeSet<Prefix>, to: &Prefix) -> bool {
    let wider = |bits| Prefix::new(to.address(), bits).is_ok_and(|it| led.contains(&it.network()));
    (0..=to.bits()).any(wider)
}

/// Whether all of a network is in the other one.
fn is_part(network: &Prefix, of: &Prefix) -> bool {
    of.bits() <= network.bits() && of.contains(network.address())
}

fn is_private(network: &Prefix) -> bool {
    PRIVATE.iter().any(|range| is_part(network, range))
}

/// The private destinations to which a route leads that is no default route.
fn parts_of_private(route: &Found) -> Vec<Prefix> {
    let to = route.to;
    let part = |range: &Prefix| match range.bits() <= to.bits() {
        true => range.contains(to.address()).then_some(to),
        false => (!is_default(route) && to.contains(range.address())).then_some(*range),
    };
    PRIVATE.iter().filter_map(part).collect()
}

/// Whether a route is neither the kernel's for this host itself nor ours.
fn is_of_others(route: &Found) -> bool {
    let is_local =
        matches!(route.kind, libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_MULTICAST);
    !is_local && Owner::of(route.protocol).is_none()
}

/// Whether a route leads everywhere, or to half of everything.
fn is_default(route: &Found) -> bool {
    route.to.bits() <= 1 && route.kind == libc::RTN_UNICAST
}

/// The interfaces to which the route of a message leads.
fn interfaces(message: Message<'_>) -> Vec<u32> {
    let mut found = Vec::new();
    for (kind, value) in message.attributes(FIXED) {
        match kind {
            libc::RTA_OIF => found.extend(netlink::number(value)),
            libc::RTA_MULTIPATH => {
                let mut rest = value;
                while let Some(&[low, high, _, _, a, b, c, d]) = rest.first_chunk::<NEXT_HOP>() {
                    found.push(u32::from_ne_bytes([a, b, c, d]));
                    let length = usize::from(u16::from_ne_bytes([low, high])).max(NEXT_HOP);
                    rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The notice of a route of 10.50.0.0/`bits`, or of a default route.
    fn route(bits: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let family = u8::try_from(libc::AF_INET).unwrap();
        let kind = libc::RTN_UNICAST;
        let mut body = vec![family, bits, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_BOOT, 0, kind];
        body.extend([0; 4]);
        for (kind, value) in attributes {
            let length = u16::try_from(4 + value.len()).unwrap();
            body.extend([length.to_ne_bytes(), kind.to_ne_bytes()].concat());
            body.extend_from_slice(value);
        }
        body
    }

    #[test]
    fn all_interfaces_of_a_default_route_are_uplinks() {
        let lo = 1_u32.to_ne_bytes();
        let hop = |index: [u8; 4]| [&[8, 0, 0, 0][..], &index].concat();
        let hops = [hop(1_000_000_u32.to_ne_bytes()), hop(lo)].concat();
        for attributes in [(libc::RTA_OIF, &lo[..]), (libc::RTA_MULTIPATH, &hops)] {
            let mut beside = Beside::default();

            beside.take(Message::new(libc::RTM_NEWROUTE, &route(0, &[attributes])));

            // The only interface that every host has.
            assert_eq!(beside.uplinks, ["lo".to_owned()].into(), "{attributes:?}");
            assert_eq!(beside.changes(), 1);
        }
    }

    #[test]
    fn a_route_by_an_uplink_to_part_of_a_network_or_to_a_wider_one_is_a_change_and_no_other_route()
    {
        let mut beside = Beside::default();
        beside.note_address((1, "198.51.100.1".parse().unwrap(), 24), true);
        beside.note_uplink("lo".to_owned());
        let mut is_change = |bits, to: [u8; 4], by: u32| {
            let before = beside.changes();
            let by = by.to_ne_bytes();
            let body = route(bits, &[(libc::RTA_DST, &to), (libc::RTA_OIF, &by)]);
            beside.take(Message::new(libc::RTM_NEWROUTE, &body));
            beside.changes() > before
        };

        assert!(is_change(16, [198, 51, 0, 0], 1) && is_change(24, [198, 51, 100, 0], 1));
        assert!(is_change(32, [198, 51, 100, 9], 1) && !is_change(24, [198, 51, 101, 0], 1));
        assert!(!is_change(1, [128, 0, 0, 0], 1), "a default route leads there anyway");
        // A route by another interface is no change, unless it replaces a route by an uplink.
        assert!(!is_change(24, [198, 51, 100, 0], 1_000_000));
        let led = ["198.51.100.0/24".parse().unwrap()].into();
        beside.raise([("lo".to_owned(), led)].into());
        let by = 1_000_000_u32.to_ne_bytes();
        let body = route(16, &[(libc::RTA_DST, &[198, 51, 0, 0]), (libc::RTA_OIF, &by)]);
        beside.take(Message::new(libc::RTM_NEWROUTE, &body));
        assert!(!beside.is_current);
    }

    #[test]
    fn a_network_of_an_uplink_is_not_walled_off() {
        let mut beside = Beside::default();
        beside.networks.insert("10.9.0.0/24".parse().unwrap(), ["eth1".to_owned()].into());
        beside.networks.insert("10.50.0.0/16".parse().unwrap(), ["lan0".to_owned()].into());
        beside.networks.insert("10.50.3.0/24".parse().unwrap(), ["lan1".to_owned()].into());
        assert_eq!(*beside.wall(), Wall::default());

        beside.note_uplink("eth1".to_owned());

        let mut carried = carried("iifname ours");
        let expected = [
            "add chain inet t gone { type filter hook forward priority mangle; policy accept; }",
            "add counter inet t gone-10.50.0.0/16",
            "add counter inet t gone-10.50.3.0/24",
            "add rule inet t gone iifname ours oifname { \"eth1\" } ip daddr { 10.50.0.0/16 } counter name ip daddr map { \
             10.50.0.0/16 : \"gone-10.50.0.0/16\" } drop",
        ];
        assert_eq!(beside.wall().orders("t", &carried), expected);

        carried.is_secret = true;
        let private = [
            "add rule inet t gone iifname ours oifname { \"eth1\" } ip daddr { 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 } \
             counter name astray drop",
            "add rule inet t gone iifname ours oifname { \"eth1\" } ip6 daddr { fc00::/7 } counter name astray drop",
        ];
        let expected = [&expected[..], &private].concat();
        assert_eq!(beside.wall().orders("t", &carried), expected);
    }

    #[test]
    fn a_route_by_one_uplink_opens_no_other() {
        let mut beside = Beside::default();
        beside.networks.insert("10.50.0.0/16".parse().unwrap(), ["lan0".to_owned()].into());
        beside.uplinks = ["eth1".to_owned(), "eth2".to_owned()].into();
        let led = |parts: &[&str]| parts.iter().map(|it| it.parse().unwrap()).collect();

        beside.raise([("eth2".to_owned(), led(&["10.50.0.0/16"]))].into());

        let mut carried = carried("w");
        let chain =
            "add chain inet t gone { type filter hook forward priority mangle; policy accept; }";
        let counter = "add counter inet t gone-10.50.0.0/16";
        let gone = "add rule inet t gone w oifname { \"eth1\" } ip daddr { 10.50.0.0/16 } counter name ip daddr map { \
                    10.50.0.0/16 : \"gone-10.50.0.0/16\" } drop";
        assert_eq!(beside.wall().orders("t", &carried), [chain, counter, gone]);

        carried.is_secret = true;
        let many =
            (0..=255).flat_map(|low| (0..5).map(move |high| format!("172.16.{low}.{high}/32")));
        let many: Vec<_> = many.chain(["10.50.3.0/24".to_owned()]).collect();
        let many: Vec<_> = many.iter().map(|it| &it[..]).collect();
        let lan = led(&["10.0.0.0/8", "192.168.0.0/16", "fc00::/7"]);
        beside.raise([("eth1".to_owned(), led(&many)), ("eth2".to_owned(), lan)].into());

        let orders = beside.wall().orders("t", &carried);
        let is_of = |name: &str, daddr: &str, verdict: &str| {
            let order =
                format!("add rule inet t gone w oifname {{ \"{name}\" }} {daddr} {verdict}");
            orders.contains(&order)
        };
        let astray = "counter name astray drop";
        assert!(is_of("eth1", "ip daddr { 10.50.3.0/24 }", "accept"), "{orders:?}");
        assert!(is_of("eth1", "ip daddr { 10.0.0.0/8, 192.168.0.0/16 }", astray), "{orders:?}");
        assert!(is_of("eth1", "ip6 daddr { fc00::/7 }", astray), "{orders:?}");
        assert!(is_of("eth2", "ip daddr { 172.16.0.0/12 }", astray), "{orders:?}");
        assert!(
            !orders.iter().any(|it| it.contains("eth2") && it.contains("fc00::/7")),
            "{orders:?}"
        );
    }

    fn carried(which: &str) -> Carried {
        Carried {
            hook: "forward",
            which: which.to_owned(),
            is_secret: false,
            devices: BTreeSet::new(),
        }
    }

    #[test]
    fn while_the_kernel_does_not_answer_known_routes_count_and_it_is_asked_again() {
        let mut beside = Beside::default();
        let [lan, other] = ["10.50.0.0/16", "198.51.100.0/24"].map(|it| it.parse().unwrap());
        beside.networks.insert(lan, ["lan0".to_owned()].into());
        beside.note_uplink("eth1".to_owned());
        beside.renew(Ok([("eth1".to_owned(), [lan].into())].into()));
        assert!(beside.is_current);

        beside.networks.insert(other, ["lan1".to_owned()].into());
        beside.change();
        for _ in 0..2 {
            let before = beside.changes();
            beside.renew(Err(io::Error::other("busy")));

            let closed = &beside.wall.uplinks["eth1"];
            assert_eq!((&closed.networks, &closed.led), (&[other].into(), &[lan].into()));
            assert!(!beside.is_current && !beside.has_routes && beside.changes() > before);
        }
        beside.renew(Ok(Led::new()));
        assert!(beside.is_current && beside.wall.uplinks["eth1"].networks.contains(&lan));
    }

    #[test]
    fn a_network_that_the_configuration_names_is_walled_off_even_if_it_was_an_uplinks() {
        let mut beside = Beside::default();
        beside.note_uplink("eth1".to_owned());
        let [lan, up, others] =
            ["198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/24"].map(|it| it.parse().unwrap());
        for network in [up, others] {
            beside.networks.insert(network, ["eth1".to_owned()].into());
        }

        beside.note_named(&[lan, up].into());

        assert_eq!(beside.wall().uplinks["eth1"].networks, [lan, up].into());
        beside.raise([("eth1".to_owned(), [up].into())].into());
        assert_eq!(beside.wall().uplinks["eth1"].networks, [lan].into(), "while it is there");
        assert!(beside.within(&"198.51.0.0/16".parse().unwrap()).eq([lan]), "routes to it count");
        for named in [BTreeSet::from([lan]), BTreeSet::new()] {
            beside.forget(&named).unwrap();
            assert_eq!(beside.wall().networks.contains_key(&lan), !named.is_empty());
            assert!(!beside.wall().networks.contains_key(&up));
        }
    }

    #[test]
    fn of_several_networks_that_are_gone_those_are_told_whose_packets_were_dropped() {
        let mut beside = Beside::default();
        for (network, name) in [("10.50.0.0/24", "lan0"), ("fd51::/64", "lan1")] {
            beside.networks.insert(network.parse().unwrap(), [name.to_owned()].into());
        }
        beside.uplinks = ["eth1".to_owned(), "eth2".to_owned()].into();
        let led = ["fd51::/64".parse().unwrap()].into();
        beside.raise([("eth2".to_owned(), led)].into());

        let wall = beside.wall();
        let gone = |grown: &str| wall.gone(|counter| counter == grown);
        let told = |(network, interfaces, uplinks): &(Prefix, String, String)| {
            format!("{network} of {interfaces} by {uplinks}")
        };

        let v4 = gone("gone-10.50.0.0/24");
        assert!(v4.iter().map(told).eq(["10.50.0.0/24 of lan0 by eth1, eth2"]), "{v4:?}");
        let v6 = gone("gone-fd51__/64");
        assert!(v6.iter().map(told).eq(["fd51::/64 of lan1 by eth1"]), "{v6:?}");
        let orders = wall.orders("t", &carried("w"));
        let counter = "add counter inet t gone-fd51__/64".to_owned();
        assert!(orders.contains(&counter), "{orders:?}");
    }

    #[test]
    fn the_network_of_a_device_is_walled_off_for_other_services_at_once_without_asking_for_routes()
    {
        let mut beside = Beside::default();
        beside.note_uplink("eth1".to_owned());
        let wide = "10.60.0.0/16".parse().unwrap();
        beside.raise([("eth1".to_owned(), [wide].into())].into());

        // The only interface that every host has stands for the device.
        for address in ["10.77.0.1", "10.60.3.1"] {
            beside.note_address((1, address.parse().unwrap(), 24), true);
        }

        assert!(!beside.is_current && beside.has_routes);
        let own = "10.77.0.0/24".parse().unwrap();
        let wall = beside.wall();
        assert_eq!(wall.uplinks["eth1"].networks, [own].into(), "a wider route leads to the other");
        let mut carried = carried("w");
        assert!(!wall.is_open_for(&carried));
        let walled = wall.orders("t", &carried);
        assert!(walled.iter().any(|it| it.contains("10.77.0.0/24")), "{walled:?}");
        carried.devices.insert("lo".to_owned());
        assert!(wall.is_open_for(&carried));
        assert_eq!(wall.orders("t", &carried).len(), 1, "the chain alone");
        // Routes to other networks are not known.
        beside.note_address((1, "192.0.2.1".parse().unwrap(), 24), true);
        assert!(!beside.has_routes);
    }

    #[test]
    fn a_route_to_private_addresses_is_a_change_by_an_uplink_alone() {
        let lo = 1_u32.to_ne_bytes();
        let mut beside = Beside::default();
        let mut changes = |bits, to: [u8; 4]| {
            let before = beside.changes();
            let body = route(bits, &[(libc::RTA_DST, &to), (libc::RTA_OIF, &lo)]);
            beside.take(Message::new(libc::RTM_NEWROUTE, &body));
            beside.changes() - before
        };

        assert_eq!(changes(16, [10, 50, 0, 0]), 0);
        assert_eq!(changes(0, [0, 0, 0, 0]), 1, "an uplink from now on");
        let wide = [(16, [10, 50, 0, 0]), (8, [192, 0, 0, 0]), (24, [198, 51, 100, 0])];
        assert_eq!(wide.map(|(bits, to)| changes(bits, to)), [1, 1, 0]);
        assert_eq!(changes(1, [0, 0, 0, 0]), 0, "a default route leads there anyway");
    }
}
