//! The TUN device: addresses, routes and the MTU. The kernel removes all of it with the device,
//! however we end.

use anyhow::{Context as _, bail};
use nix::libc;
use tracing::{debug, warn};

use crate::config;
use crate::links::{self, LinkState};
use crate::netlink::Netlink;
use crate::secure::Prefix;
use crate::setup;
use crate::sys::Tap;

/// Its number, and the means to change it.
pub(super) struct Device {
    netlink: Netlink,
    index: u32,
}

impl Device {
    pub(super) fn new(netlink: Netlink, index: u32) -> Self {
        Self { netlink, index }
    }

    pub(super) fn set_mtu(&mut self, mtu: usize) {
        debug!(mtu, "MTU of the device");
        if let Err(error) = links::set_mtu(&mut self.netlink, self.index, mtu) {
            warn!(mtu, %error, "MTU of the device not changed");
        }
    }
}

/// Makes the device; its number.
pub(super) fn open(netlink: &mut Netlink, config: &config::Tunnel) -> anyhow::Result<(Tap, u32)> {
    let name = &config.device;
    let tun = Tap::open_tun(name).map_err(|error| setup::no_device(name, &error))?;
    // Nothing of its own: no router solicitations, no link-local address.
    setup::set(name, "ipv6", "addr_gen_mode", "1");
    setup::set(name, "ipv6", "accept_ra", "0");
    let prefixes = || config.addresses.iter().chain(config.peers.iter().flat_map(|p| &p.routes));
    if prefixes().any(|prefix| prefix.address().is_ipv6()) {
        setup::set(name, "ipv6", "disable_ipv6", "0");
    }
    // Errors that we send to a program on this node come from this node's own address.
    setup::set(name, "ipv4", "accept_local", "1");
    let Some(state) = LinkState::read(netlink, name)? else { bail!("{name} is gone") };
    let index = state.index;
    links::set_mtu(netlink, index, 1_280).with_context(|| format!("setting the MTU of {name}"))?;
    links::bring_up(netlink, index).with_context(|| format!("bringing {name} up"))?;
    for prefix in &config.addresses {
        links::add_prefix(netlink, index, prefix.address(), prefix.bits())
            .with_context(|| format!("giving {name} the address {prefix}"))?;
    }
    for peer in &config.peers {
        for prefix in &peer.routes {
            add_route(netlink, index, prefix, &config.addresses)
                .with_context(|| format!("the route of {} to {prefix} by {name}", peer.name))?;
        }
    }
    Ok((tun, index))
}

fn add_route(
    netlink: &mut Netlink,
    index: u32,
    prefix: &Prefix,
    own: &[Prefix],
) -> anyhow::Result<()> {
    let network = prefix.network();
    // The kernel made it with the address.
    if own.iter().any(|own| own.network() == network) {
        return Ok(());
    }
    match links::add_route(netlink, index, network.address(), network.bits()) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => bail!(
            "there is one already, which goes elsewhere: `ip route delete {network}`, or add it \
             with a metric"
        ),
        outcome => Ok(outcome?),
    }
}
