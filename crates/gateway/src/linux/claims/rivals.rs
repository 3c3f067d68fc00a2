//! Routes of others to the networks that we want.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nix::libc;
use nix::net::if_::if_indextoname;
use proto::ip::Prefix;

use super::entry::{Found, PROTOCOL, Table, family};
use super::{FIXED, without_family};
use crate::linux::netlink::{Netlink, Request};

/// Which of these networks others have routes to in the main table, each with one as `ip route` writes
/// it. A default route never counts: ours stands beside it.
///
/// # Errors
/// When the kernel does not say what routes there are.
pub(crate) fn rivals(
    netlink: &mut Netlink,
    device: u32,
    routes: &[Prefix],
) -> std::io::Result<BTreeMap<Prefix, String>> {
    let mut rivals = BTreeMap::new();
    for is_v6 in [false, true] {
        let mut fixed = [0; FIXED];
        fixed[0] = family(is_v6);
        let request = Request::dump(libc::RTM_GETROUTE, &fixed);
        let all = netlink.dump(&request, |message, all| {
            let Some(found) = Found::parse(message) else { return };
            let is_other = found.table == Table::Main
                && found.protocol != PROTOCOL
                && found.device != Some(device);
            let is_wanted = |route: &Prefix| route.network() == found.to;
            if is_other && found.to.bits() > 0 && routes.iter().any(is_wanted) {
                all.push((found.to, said(&found)));
            }
        });
        for (network, rival) in all.or_else(without_family)? {
            rivals.entry(network).or_insert(rival);
        }
    }
    Ok(rivals)
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
