//! Finds routes of other programs that conflict with ours.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base::ip::Prefix;
use nix::libc;
use nix::net::if_::if_indextoname;

use super::entry::{Found, Owner, Table, family, metric};
use super::{FIXED, without_family};
use crate::linux::netlink::{Netlink, Request};

/// A route of others to a network that is to be ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rival {
    /// As `ip route` writes it.
    pub(crate) said: String,
    /// Whether packets would go by it beside ours, or ours cannot stand beside it.
    pub(crate) wins: bool,
}

/// Finds routes of other programs in the main table to these networks, other than by these devices: the best
/// for each network. A default route never counts: ours stands beside it.
///
/// # Errors
/// When the kernel does not say what routes there are.
pub(crate) fn rivals(
    netlink: &mut Netlink,
    owner: Owner,
    devices: &[u32],
    networks: &BTreeSet<Prefix>,
) -> std::io::Result<BTreeMap<Prefix, Rival>> {
    let mut rivals: BTreeMap<Prefix, Found> = BTreeMap::new();
    for is_v6 in [false, true] {
        if !networks.iter().any(|network| network.address().is_ipv6() == is_v6) {
            continue;
        }
        let mut fixed = [0; FIXED];
        fixed[0] = family(is_v6);
        let request = Request::dump(libc::RTM_GETROUTE, &fixed);
        let all = netlink.dump(&request, |message, all| {
            let Some(found) = Found::parse(message) else { return };
            if networks.contains(&found.to) && is_rival(&found, owner, devices) {
                all.push(found);
            }
        });
        for found in all.or_else(without_family)? {
            let best = rivals.entry(found.to).or_insert(found);
            if found.metric() < best.metric() {
                *best = found;
            }
        }
    }
    let rival =
        |found: &Found| Rival { said: said(found), wins: found.metric() <= metric(&found.to) };
    Ok(rivals.iter().map(|(&network, found)| (network, rival(found))).collect())
}

fn is_rival(found: &Found, owner: Owner, devices: &[u32]) -> bool {
    let of = |owner: Owner| owner.protocol() == found.protocol;
    // What a service of ours has left is no way for a packet.
    let is_left = Owner::ALL.into_iter().any(of) && found.kind == libc::RTN_UNREACHABLE;
    let is_ours = of(owner) || found.device.is_some_and(|device| devices.contains(&device));
    found.table == Table::Main && found.to.bits() > 0 && !is_ours && !is_left
}

fn said(found: &Found) -> String {
    let mut said = match found.kind {
        libc::RTN_BLACKHOLE => "blackhole ".to_owned(),
        libc::RTN_UNREACHABLE => "unreachable ".to_owned(),
        libc::RTN_PROHIBIT => "prohibit ".to_owned(),
        _ => String::new(),
    };
    // Writing to a string does not fail.
    let _ = write!(said, "{}", found.to);
    if let Some(via) = found.via {
        let _ = write!(said, " via {via}");
    }
    let name = found.device.and_then(|index| if_indextoname(index).ok());
    if let Some(name) = name {
        let _ = write!(said, " dev {}", name.to_string_lossy());
    }
    if let Some(metric) = found.metric {
        let _ = write!(said, " metric {metric}");
    }
    said
}
