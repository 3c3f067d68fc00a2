//! A TUN device of ours: addresses, routes and the MTU. The kernel removes all of it with the
//! device, however we end.

use anyhow::{Context as _, bail};
use nix::libc;
use proto::ip::Prefix;
use tracing::{debug, warn};

use crate::linux::links::{self, LinkState};
use crate::linux::netlink::Netlink;
use crate::setup;
use crate::sys::Tap;

/// Its number, and the means to change it.
pub(crate) struct Device {
    netlink: Netlink,
    index: u32,
}

/// What a device is to be like.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) addresses: &'a [Prefix],
    /// Which networks are reached by it, and who has them.
    pub(crate) routes: Vec<(String, Prefix)>,
    pub(crate) mtu: usize,
    /// Whether the kernel hands over trains of segments, each with a header.
    pub(crate) has_trains: bool,
}

impl Device {
    /// Makes the device.
    ///
    /// # Errors
    /// When it cannot be made or an address or route is taken, with the remedy.
    pub(crate) fn open(mut netlink: Netlink, wanted: &Wanted<'_>) -> anyhow::Result<(Tap, Self)> {
        let name = wanted.name;
        let open = if wanted.has_trains { Tap::open_tun } else { Tap::open_plain_tun };
        let tun = open(name).map_err(|error| setup::no_device(name, &error))?;
        // Nothing of its own: no router solicitations, no link-local address.
        setup::set(name, "ipv6", "addr_gen_mode", "1");
        setup::set(name, "ipv6", "accept_ra", "0");
        let routes = wanted.routes.iter().map(|(_, prefix)| prefix);
        if wanted.addresses.iter().chain(routes).any(|prefix| prefix.address().is_ipv6()) {
            setup::set(name, "ipv6", "disable_ipv6", "0");
        }
        // Errors that we send to a program on this node come from this node's own address.
        setup::set(name, "ipv4", "accept_local", "1");
        let Some(state) = LinkState::read(&mut netlink, name)? else { bail!("{name} is gone") };
        let index = state.index;
        links::set_mtu(&mut netlink, index, wanted.mtu)
            .with_context(|| format!("setting the MTU of {name}"))?;
        links::bring_up(&mut netlink, index).with_context(|| format!("bringing {name} up"))?;
        for prefix in wanted.addresses {
            links::add_prefix(&mut netlink, index, prefix.address(), prefix.bits())
                .with_context(|| format!("giving {name} the address {prefix}"))?;
        }
        for (owner, prefix) in &wanted.routes {
            add_route(&mut netlink, index, prefix, wanted.addresses)
                .with_context(|| format!("the route of {owner} to {prefix} by {name}"))?;
        }
        Ok((tun, Self { netlink, index }))
    }

    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        debug!(mtu, "MTU of the device");
        if let Err(error) = links::set_mtu(&mut self.netlink, self.index, mtu) {
            warn!(mtu, %error, "MTU of the device not changed");
        }
    }
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
