//! Finds rules of other programs that lead packets past our devices, before our routes or rules decide.
//!
//! A longer prefix of others is their right, and no fault. The kernel is asked for this host's own packets, and for one
//! packet of those that each rule of others chooses; rules by mark are not tried, because who marks packets means it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::ip::Prefix;
use host::fault::OVERRULED;
use host::links;
use host::netlink::Netlink;
use host::nft::listed;
use host::others::{Chosen, others_rules};

use super::{Findings, Needs};
use crate::linux::routes::{NextHop, Packets, Routes, probes};

/// Networks, and rules of one version of IP, that are tried at most.
const TRIED: usize = 32;

/// Packets that a rule of another program is for.
struct Tried {
    /// The version of IP.
    is_v6: bool,
    /// The priority of the rule; 0 for all packets.
    priority: u32,
    packets: Packets,
}

/// Adds such rules, each with the networks that it comes before.
pub(super) fn examine(findings: &mut Findings, needs: &Needs) {
    let Ok(mut routes) = Routes::open() else { return };
    let chosen = chosen(&mut routes, needs);
    let all = [false, true].map(|is_v6| Tried { is_v6, priority: 0, packets: Packets::default() });
    let tried: Vec<&Tried> = all.iter().chain(&chosen).collect();
    let mut found: BTreeMap<(usize, bool), Vec<(Prefix, IpAddr)>> = BTreeMap::new();
    for &network in needs.networks.iter().take(TRIED) {
        let mut past = |to: IpAddr| {
            let mut its = tried.iter().enumerate().filter(|(_, it)| it.is_v6 == to.is_ipv6());
            its.find_map(|(at, it)| {
                let hop = past(&mut routes, needs, network, to, &it.packets)?;
                Some((at, hop == NextHop::Nowhere, to))
            })
        };
        if let Some((at, is_refused, to)) = probes(network).into_iter().find_map(&mut past) {
            found.entry((at, is_refused)).or_default().push((network, to));
        }
    }
    for ((at, is_refused), networks) in found {
        tell(findings, &networks, tried[at], is_refused);
    }
}

/// One packet for each rule of other programs that chooses packets. Packets from our own devices are left out.
fn chosen(routes: &mut Routes, needs: &Needs) -> Vec<Tried> {
    let Ok(mut netlink) = Netlink::open() else { return Vec::new() };
    let mut all = Vec::new();
    for is_v6 in [false, true] {
        let rules = others_rules(&mut netlink, is_v6).unwrap_or_default();
        // Inverted rules are left out: they are for almost all packets, and so for this host's own, which are tried.
        let chooses = |it: &Chosen| {
            let is_all = it.packets == Packets::default();
            let chooses = it.came_by.is_some() || it.source.is_some() || !is_all;
            chooses && it.packets.mark == 0 && !it.is_inverted
        };
        for rule in rules.into_iter().filter(chooses).take(TRIED) {
            let Some(packets) = rule.example(&mut netlink, routes, is_v6) else { continue };
            if packets.came_by.is_none_or(|interface| is_others(needs, interface)) {
                all.push(Tried { is_v6, priority: rule.priority, packets });
            }
        }
    }
    all
}

/// Whether an interface is not ours. Without descriptors there are no names, and nothing is certain.
fn is_others(needs: &Needs, interface: u32) -> bool {
    links::existing_name(interface).is_some_and(|name| !needs.devices.contains(&name))
}

/// Where packets to an address of a network of ours go, if not by our devices.
fn past(
    routes: &mut Routes,
    needs: &Needs,
    network: Prefix,
    to: IpAddr,
    packets: &Packets,
) -> Option<NextHop> {
    let (hop, bits) = routes.decided(to, packets).ok()?;
    let is_past = match hop {
        NextHop::Neighbour { interface, .. } => is_others(needs, interface),
        // What comes by an interface may be refused for other reasons.
        NextHop::Nowhere => packets.came_by.is_none(),
        NextHop::Here => false,
    };
    (is_past && bits <= network.bits()).then_some(hop)
}

fn tell(findings: &mut Findings, networks: &[(Prefix, IpAddr)], tried: &Tried, is_refused: bool) {
    let Some((_, to)) = networks.first() else { return };
    let names = listed(networks.iter().map(|(network, _)| network));
    let Tried { is_v6, priority, packets } = tried;
    let which = match priority {
        0 => String::new(),
        _ => format!(" that the rule of priority {priority} chooses (such as{packets})"),
    };
    let ip = if *is_v6 { "ip -6" } else { "ip" };
    let (becomes, shows) = if is_refused {
        // The kernel does not say whether a rule or a route refuses, nor how long the route's prefix is.
        let shows = format!("`{ip} rule` or `{ip} route show table all match {to}` shows it");
        ("are refused: another program's rule, or its route that refuses,", shows)
    } else {
        let shows = format!("`{ip} rule` shows it, `{ip} route get {to}{packets}` where it leads");
        ("do not go by our device, and may leave in clear: another program's rule", shows)
    };
    findings.add(
        &OVERRULED,
        format!("packets to {names}{which} {becomes} decides before ours"),
        format!("{shows}; delete it"),
    );
}
