//! Finds policy rules and routes of other programs that overrule our routes to whole networks.
//!
//! A longer route of another program into a network is no fault until such routes together cover the network. We ask
//! the kernel for the route of this host's own packets, and of one sample packet per foreign rule. Rules by mark are not
//! tried: whoever marks packets wants another route for them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ip::Prefix;
use host::Kernel;
use host::entry;
use host::fault::{COVERED, NO_ROUTE, OVERRULED};
use host::links::{self, LinkState};
use host::nft::listed;
use host::others::{Chosen, others_rules};
use nix::net::if_::if_nametoindex;

use super::{Findings, Needs};
use crate::linux::routes::{NextHop, Packets, Routes, refusing};

/// Limit on the networks to try, and on the rules of each IP version.
const TRIED: usize = 32;
/// Limit on the longer routes to follow in a network.
const FOLLOWED: usize = 256;
/// Limit on the routes listed in a finding.
const NAMED: usize = 4;
/// The first and the last IPv4 address of hosts.
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(1, 0, 0, 0), Ipv4Addr::new(223, 255, 255, 255)];
/// Global unicast, 2000::/3: the addresses of hosts on the Internet (RFC 4291, 2.4).
const GLOBAL: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);
const GLOBAL_BITS: u8 = 3;

/// A policy rule of another program, with sample packets that match it.
struct Tried {
    is_v6: bool,
    /// The rule's priority; 0 stands for packets that match no such rule.
    priority: u32,
    packets: Packets,
    /// The destinations that the rule itself refuses; `None` if it selects a table.
    refuses: Option<Prefix>,
}

/// Whether longer routes overrule our route to a network.
enum Before {
    /// Longer routes of other programs cover the network; `true` if all these routes refuse packets.
    Longer(Vec<Prefix>, bool),
    /// No longer route leads to this address of the network.
    Nothing(IpAddr),
    /// Our own routes are longer, or there are too many to follow.
    Unknown,
}

/// The fate of packets that our device should carry.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Past {
    /// They leave by another interface.
    Elsewhere,
    /// A rule or a route refuses them.
    Refused,
}

/// Finds foreign rules that overrule our routes, and networks covered by longer routes.
pub(super) fn examine(findings: &mut Findings, needs: &Needs, is_running: bool) {
    let Ok(mut routes) = Routes::open() else { return };
    let Ok(mut kernel) = Kernel::open() else { return };
    let refused = [false, true].map(|is_v6| refusing(&mut kernel, is_v6).unwrap_or_default());
    let mut free = Vec::new();
    for &network in needs.networks.iter().take(TRIED) {
        let refused = &refused[usize::from(network.address().is_ipv6())];
        match before(&mut routes, needs, refused, network) {
            Before::Longer(longer, refuses) => tell_longer(findings, network, &longer, refuses),
            Before::Nothing(at) => free.push((network, at)),
            Before::Unknown => {}
        }
    }
    if !is_running {
        return;
    }
    // Our routes exist only while the device does.
    for (_, networks) in needs.devices.iter().filter(|(name, _)| !has_device(name)) {
        free.retain(|(network, _)| !networks.contains(network));
    }
    examine_rules(findings, needs, &mut kernel, &mut routes, &free);
    examine_own(findings, needs, &mut kernel, &mut routes);
}

fn has_device(name: &str) -> bool {
    if_nametoindex(name).is_ok()
}

/// Finds addresses of this host that do not receive their packets: their route in the table `local` is gone, or another
/// rule comes before that table's.
fn examine_own(findings: &mut Findings, needs: &Needs, kernel: &mut Kernel, routes: &mut Routes) {
    // The kernel removes the IPv6 routes of an interface that is down.
    let ways = needs.ways.values().map(|way| &way.interface[..]);
    let names = needs.devices.keys().chain(&needs.radios).map(String::as_str);
    let names: BTreeSet<_> = names.chain(ways).chain(["lo"]).collect();
    let mut own: Vec<IpAddr> = Vec::new();
    for name in names {
        let Ok(Some(state)) = LinkState::read(kernel, name) else { continue };
        for address in state.addresses.iter().filter(|_| state.is_running) {
            // An IPv6 address has no route yet during duplicate address detection (RFC 4862, 5.4).
            if address.is_ipv6() && name != "lo" && !needs.devices.contains_key(name) {
                continue;
            }
            if entry::is_delivered(kernel, state.index, *address) {
                own.push(*address);
                continue;
            }
            let ip = if address.is_ipv4() { "ip" } else { "ip -6" };
            let more = if address.is_ipv4() {
                format!(" scope host src {address}")
            } else {
                String::new()
            };
            findings.add(
                &NO_ROUTE,
                format!(
                    "packets to {address}, an address of this host on {name}, are not delivered to it: its route in the table \
                     local was deleted"
                ),
                format!("{ip} route add local {address} dev {name} table local proto kernel{more}"),
            );
        }
    }
    for (is_v6, ip) in [(false, "ip"), (true, "ip -6")] {
        let mut its = own.iter().filter(|it| it.is_ipv6() == is_v6);
        let is_taken = |to: &&IpAddr| routes.marked(**to, 0) != NextHop::Here;
        if let Some(to) = its.find(is_taken) {
            findings.add(
                &OVERRULED,
                format!(
                    "packets to {to}, an address of this host, are not delivered to it: the rule for the table local comes \
                     after others, or is gone"
                ),
                format!("{ip} rule add priority 0 lookup local"),
            );
        }
    }
}

/// Walks through a network from its first address to its last, by the routes that the kernel chooses.
fn before(routes: &mut Routes, needs: &Needs, refused: &[Prefix], network: Prefix) -> Before {
    let is_v4 = network.address().is_ipv4();
    let (mut at, last) = hosts_of(network);
    let (mut longer, mut refuses) = (Vec::new(), true);
    for _ in 0..FOLLOWED {
        let to = address(at, is_v4);
        let Ok((hop, bits)) = routes.decided(to, &Packets::default()) else { break };
        let (bits, is_others) = match hop {
            NextHop::Here => (bits, false),
            NextHop::Neighbour { interface, .. } => (bits, is_others(needs, interface)),
            // The kernel does not report which route refuses.
            NextHop::Nowhere => {
                let its = refused.iter().filter(|it| it.contains(to)).map(Prefix::bits);
                (its.max().unwrap_or(0), true)
            }
        };
        let Some(block) = Prefix::new(to, bits).ok().filter(|_| bits > network.bits()) else {
            return Before::Nothing(to);
        };
        if is_others {
            longer.push(block.network());
            refuses &= hop == NextHop::Nowhere;
        }
        let end = block.range().1;
        if end >= last {
            return match longer.is_empty() {
                true => Before::Unknown,
                false => Before::Longer(longer, refuses),
            };
        }
        at = end + 1;
    }
    Before::Unknown
}

/// The first and the last host address of a network, as numbers. Multicast and the like have separate routes.
fn hosts_of(network: Prefix) -> (u128, u128) {
    let (first, last) = network.range();
    let [least, greatest] = match network.address() {
        IpAddr::V4(_) => HOSTS.map(|it| Prefix::number(it.into())),
        IpAddr::V6(_) => match Prefix::new(GLOBAL.into(), GLOBAL_BITS) {
            Ok(global) if network.bits() < GLOBAL_BITS && network.contains(GLOBAL.into()) => {
                global.range().into()
            }
            _ => return (first, last),
        },
    };
    if least > last || greatest < first {
        return (first, last);
    }
    (first.max(least), last.min(greatest))
}

/// The inverse of [`Prefix::number`].
fn address(number: u128, is_v4: bool) -> IpAddr {
    let v6 = Ipv6Addr::from_bits(number);
    v6.to_ipv4_mapped().filter(|_| is_v4).map_or(v6.into(), IpAddr::from)
}

/// Tries foreign rules on networks, each with an address to which no longer route leads.
fn examine_rules(
    findings: &mut Findings,
    needs: &Needs,
    kernel: &mut Kernel,
    routes: &mut Routes,
    networks: &[(Prefix, IpAddr)],
) {
    let of_all = |is_v6| Tried { is_v6, priority: 0, packets: Packets::default(), refuses: None };
    let chosen = chosen(kernel, routes, needs);
    let mut overruled = Vec::new();
    for tried in [false, true].map(of_all).iter().chain(&chosen) {
        let mut led: [Vec<(Prefix, IpAddr)>; 2] = Default::default();
        for &(network, to) in networks.iter().filter(|(_, to)| to.is_ipv6() == tried.is_v6) {
            // If all packets to a network bypass our device, rules for some of them add nothing.
            let is_told = overruled.contains(&network) && tried.priority != 0;
            match past(routes, needs, network, to, tried).filter(|_| !is_told) {
                Some(Past::Elsewhere) => led[0].push((network, to)),
                Some(Past::Refused) => led[1].push((network, to)),
                None => {}
            }
        }
        for (led, how) in led.iter().zip([Past::Elsewhere, Past::Refused]) {
            if tried.priority == 0 {
                overruled.extend(led.iter().map(|(network, _)| *network));
            }
            tell(findings, led, tried, how);
        }
    }
}

/// A sample packet for each selective rule of other programs. Rules for packets from our own devices are left out.
fn chosen(kernel: &mut Kernel, routes: &mut Routes, needs: &Needs) -> Vec<Tried> {
    let mut all = Vec::new();
    for is_v6 in [false, true] {
        let rules = others_rules(kernel, is_v6).unwrap_or_default();
        // An inverted rule matches almost all packets, so the packets of this host already test it.
        let chooses = |it: &Chosen| {
            let is_all = it.packets == Packets::default();
            let chooses = it.came_by.is_some() || it.source.is_some() || !is_all;
            chooses && it.packets.mark == 0 && !it.is_inverted
        };
        for rule in rules.into_iter().filter(chooses).take(TRIED) {
            let Some(packets) = rule.example(kernel, routes, is_v6) else { continue };
            if packets.came_by.is_none_or(|interface| is_others(needs, interface)) {
                let refuses = rule.refuses(is_v6);
                all.push(Tried { is_v6, priority: rule.priority, packets, refuses });
            }
        }
    }
    all
}

/// Whether an interface is known not to be ours. Its name is unknown if it has just gone.
fn is_others(needs: &Needs, interface: u32) -> bool {
    links::existing_name(interface).is_some_and(|name| !needs.devices.contains_key(&name))
}

/// Whether packets to an address of our network bypass our devices, and how.
fn past(
    routes: &mut Routes,
    needs: &Needs,
    network: Prefix,
    to: IpAddr,
    tried: &Tried,
) -> Option<Past> {
    let (hop, bits) = routes.decided(to, &tried.packets).ok()?;
    let past = match hop {
        NextHop::Neighbour { interface, .. } if is_others(needs, interface) => Past::Elsewhere,
        // Packets from an interface may be refused for other reasons.
        NextHop::Nowhere
            if tried.packets.came_by.is_none()
                || tried.refuses.is_some_and(|those| those.contains(to)) =>
        {
            Past::Refused
        }
        NextHop::Neighbour { .. } | NextHop::Nowhere | NextHop::Here => return None,
    };
    (bits <= network.bits()).then_some(past)
}

/// Adds the finding of a rule, with all networks whose packets it diverts from our devices.
fn tell(findings: &mut Findings, led: &[(Prefix, IpAddr)], tried: &Tried, past: Past) {
    let Some((_, to)) = led.first() else { return };
    let Tried { is_v6, priority, packets, .. } = tried;
    let which = match priority {
        0 => String::new(),
        _ => format!(" that match the rule of priority {priority} (such as{packets})"),
    };
    let networks = listed(led.iter().map(|(network, _)| network));
    let ip = if *is_v6 { "ip -6" } else { "ip" };
    let (becomes, shows) = match past {
        Past::Elsewhere => {
            let shows =
                format!("`{ip} rule` shows it, `{ip} route get {to}{packets}` where it leads");
            ("bypass our device, and may leave in clear: another program's rule", shows)
        }
        // The kernel reports neither whether a rule or a route refuses, nor the length of the route's prefix.
        Past::Refused => {
            let shows = format!("`{ip} rule` or `{ip} route show table all match {to}` shows it");
            ("are refused: another program's rule, or its refusing route,", shows)
        }
    };
    findings.add(
        &OVERRULED,
        format!("packets to {networks}{which} {becomes} decides before ours"),
        format!("{shows}; delete it"),
    );
}

/// Adds the finding of longer routes that cover a network.
fn tell_longer(findings: &mut Findings, network: Prefix, longer: &[Prefix], refuses: bool) {
    let how = match refuses {
        true => "refuse all packets to",
        false => "bypass our device, perhaps in clear, for all packets to",
    };
    let ip = if network.address().is_ipv6() { "ip -6" } else { "ip" };
    let more = longer.len().saturating_sub(NAMED);
    let longer = &longer[..longer.len() - more];
    let orders: Vec<_> = longer.iter().map(|to| format!("{ip} route delete {to}")).collect();
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    findings.add(
        &COVERED,
        format!("longer routes of other programs ({}{more}) {how} {network}", listed(longer)),
        format!("{}; or take {network} from the configuration", orders.join("; ")),
    );
}
