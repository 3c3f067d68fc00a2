//! How long outer packets may be.

use std::net::SocketAddr;

use host::MARK;
use tunnel as nc;
use tunnel::secure::{OUTER_V4, OUTER_V6};

use crate::linux::routes::Routes;

/// The parameters of a core for a peer at `endpoint`.
pub(super) fn core_config(
    endpoint: Option<SocketAddr>,
    limit: Option<usize>,
    parameters: nc::Config,
) -> nc::Config {
    let is_v6 = endpoint.is_some_and(|endpoint| endpoint.is_ipv6());
    let first_link = |endpoint| Routes::open()?.first_link_mtu(endpoint, MARK);
    let max_mtu = endpoint
        .and_then(|endpoint| first_link(endpoint).ok())
        .map_or(parameters.max_mtu, |mtu| mtu.min(limit.unwrap_or(JUMBO)))
        .min(JUMBO);
    let overhead = if is_v6 { OUTER_V6 } else { OUTER_V4 };
    nc::Config { max_mtu, overhead, ..parameters }
}

/// Octets of the longest outer packet that is tried.
const JUMBO: usize = 9_216;
