//! Finds rules of other programs that lead packets past our devices, before our routes or rules decide.
//!
//! A longer prefix of others is their right, and no fault. The kernel is asked for this host's own packets, and for
//! packets that a rule of others chooses by interface or source; rules by protocol or port are not tried.

use std::iter;
use std::net::IpAddr;

use base::ip::Prefix;
use host::entry::{Chosen, others_rules_by_origin};
use host::fault::OVERRULED;
use host::links;
use host::netlink::Netlink;
use nix::net::if_::if_nametoindex;

use super::{Findings, Needs};
use crate::linux::routes::{NextHop, Routes, probes};

/// Networks, and rules of one version of IP, that are tried at most.
const TRIED: usize = 32;

/// Packets of other hosts that a rule of another program is for.
struct Origin {
    /// The priority of the rule.
    priority: u32,
    /// The number of the incoming interface.
    interface: u32,
    /// The source address of such a packet.
    address: IpAddr,
}

/// Adds the first such rule that is found.
pub(super) fn examine(findings: &mut Findings, needs: &Needs) {
    let Ok(mut routes) = Routes::open() else { return };
    let origins = origins(&mut routes, needs);
    for &network in needs.networks.iter().take(TRIED) {
        for to in probes(network) {
            let its = origins.iter().filter(|it| it.address.is_ipv4() == to.is_ipv4());
            let mut tried = iter::once(None).chain(its.map(Some));
            if let Some(origin) =
                tried.find(|origin| is_past(&mut routes, needs, network, to, *origin))
            {
                tell(findings, network, to, origin);
                return;
            }
        }
    }
}

/// Packets that rules of other programs choose by interface or source, one packet for each rule, but for what comes by
/// our own devices.
fn origins(routes: &mut Routes, needs: &Needs) -> Vec<Origin> {
    let Ok(mut netlink) = Netlink::open() else { return Vec::new() };
    let mut origins = Vec::new();
    for is_v6 in [false, true] {
        let rules = others_rules_by_origin(&mut netlink, is_v6).unwrap_or_default();
        for Chosen { priority, came_by, source } in rules.into_iter().take(TRIED) {
            let source = source.map(host_of);
            let interface = match (&came_by, source) {
                (Some(name), _) => if_nametoindex(&name[..]).ok(),
                (None, Some(address)) => routes.towards(address).interface(),
                (None, None) => None,
            };
            let Some(interface) = interface.filter(|it| is_others(needs, *it)) else { continue };
            let neighbour = || links::neighbour_of(&mut netlink, interface, is_v6);
            let address = source.or_else(neighbour);
            origins.extend(address.map(|address| Origin { priority, interface, address }));
        }
    }
    origins
}

/// An address of a network; the first may be no host's.
fn host_of(network: Prefix) -> IpAddr {
    let first = network.network().address();
    let most = if first.is_ipv4() { 30 } else { 126 };
    if network.bits() > most { first } else { links::beside(first, 2) }
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
    origin: Option<&Origin>,
) -> bool {
    let came = origin.map(|it| (it.address, it.interface));
    let Ok((hop, bits)) = routes.decided(to, came) else { return false };
    let is_past = match hop {
        NextHop::Neighbour { interface, .. } => is_others(needs, interface),
        // What comes by an interface may be refused for other reasons.
        NextHop::Nowhere => origin.is_none(),
        NextHop::Here => false,
    };
    is_past && bits <= network.bits()
}

fn tell(findings: &mut Findings, network: Prefix, to: IpAddr, origin: Option<&Origin>) {
    let (mut which, mut asked) = (String::new(), String::new());
    if let Some(Origin { priority, interface, address }) = origin {
        let name = links::name(*interface);
        which = format!(
            " that come from {address} by {name}, as the rule of priority {priority} says,"
        );
        asked = format!(" from {address} iif {name}");
    }
    let version = if to.is_ipv4() { "ip" } else { "ip -6" };
    findings.add(
        &OVERRULED,
        format!(
            "packets to {network}{which} do not go by our device, and may leave in clear: another program's rule decides \
             before ours"
        ),
        format!("`{version} rule` shows it, `{version} route get {to}{asked}` where it leads; delete it"),
    );
}
