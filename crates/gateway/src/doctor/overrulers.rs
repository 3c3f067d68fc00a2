//! Finds rules of other programs that lead packets past our devices, before our routes or rules decide.
//!
//! A longer prefix of others is their right, and no fault. The kernel is asked for this host's own packets, and for one
//! packet of those that each rule of others chooses; rules by mark are not tried, because who marks packets means it.

use std::iter;
use std::net::IpAddr;

use base::ip::Prefix;
use host::fault::OVERRULED;
use host::links;
use host::netlink::Netlink;
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

/// Adds the first such rule that is found.
pub(super) fn examine(findings: &mut Findings, needs: &Needs) {
    let Ok(mut routes) = Routes::open() else { return };
    let chosen = chosen(&mut routes, needs);
    for &network in needs.networks.iter().take(TRIED) {
        for to in probes(network) {
            let is_v6 = to.is_ipv6();
            let all = Tried { is_v6, priority: 0, packets: Packets::default() };
            let mut tried =
                iter::once(&all).chain(chosen.iter().filter(|tried| tried.is_v6 == is_v6));
            if let Some(tried) =
                tried.find(|tried| is_past(&mut routes, needs, network, to, &tried.packets))
            {
                tell(findings, network, to, tried);
                return;
            }
        }
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

/// Whether packets to an address of a network of ours go past our devices.
fn is_past(
    routes: &mut Routes,
    needs: &Needs,
    network: Prefix,
    to: IpAddr,
    packets: &Packets,
) -> bool {
    let Ok((hop, bits)) = routes.decided(to, packets) else { return false };
    let is_past = match hop {
        NextHop::Neighbour { interface, .. } => is_others(needs, interface),
        // What comes by an interface may be refused for other reasons.
        NextHop::Nowhere => packets.came_by.is_none(),
        NextHop::Here => false,
    };
    is_past && bits <= network.bits()
}

fn tell(findings: &mut Findings, network: Prefix, to: IpAddr, tried: &Tried) {
    let Tried { is_v6, priority, packets } = tried;
    let which = match priority {
        0 => String::new(),
        _ => format!(" that the rule of priority {priority} chooses (such as{packets})"),
    };
    let ip = if *is_v6 { "ip -6" } else { "ip" };
    findings.add(
        &OVERRULED,
        format!(
            "packets to {network}{which} do not go by our device, and may leave in clear: another program's rule decides \
             before ours"
        ),
        format!("`{ip} rule` shows it, `{ip} route get {to}{packets}` where it leads; delete it"),
    );
}
