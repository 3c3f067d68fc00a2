//! Devices of ours: TUN devices with addresses, routes and an MTU, and TAP devices that give frames
//! to another interface. The kernel removes all of it with the device, however we end.

use std::fs;
use std::io;

use anyhow::{Context as _, bail};
use nix::libc;
use proto::ip::Prefix;
use tracing::{debug, warn};

use crate::linux::links::{self, LinkState};
use crate::linux::netlink::Netlink;
use crate::linux::redirect::redirect;
use crate::sys::Tap;
use proto::ethernet::Mac;

/// A TUN device: its number, and the means to change it.
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
        let tun = open(name).map_err(|error| no_device(name, &error))?;
        // Nothing of its own: no router solicitations, no link-local address.
        set(name, "ipv6", "addr_gen_mode", "1");
        set(name, "ipv6", "accept_ra", "0");
        let routes = wanted.routes.iter().map(|(_, prefix)| prefix);
        if wanted.addresses.iter().chain(routes).any(|prefix| prefix.address().is_ipv6()) {
            set(name, "ipv6", "disable_ipv6", "0");
        }
        // Errors that we send to a program on this node come from this node's own address.
        set(name, "ipv4", "accept_local", "1");
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

/// Makes a TAP device for the MANET interface numbered `interface`, which receives what goes into it.
///
/// # Errors
/// When it cannot be made, with the remedy.
pub(crate) fn open_tap(
    netlink: &mut Netlink,
    name: &str,
    mac: Mac,
    interface: u32,
) -> anyhow::Result<Tap> {
    let tap = Tap::open(name).map_err(|error| no_device(name, &error))?;

    // Nothing of its own: the kernel receives nothing here.
    set(name, "ipv6", "disable_ipv6", "1");
    let Some(state) = LinkState::read(netlink, name)? else { bail!("{name} is gone") };
    // A frame for another station than the device's own is not for this node.
    links::set_mac(netlink, state.index, mac)
        .with_context(|| format!("giving {name} the hardware address {mac}"))?;
    redirect(netlink, state.index, interface).map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ENOENT | nix::libc::EOPNOTSUPP) => anyhow::anyhow!(
            "packets cannot be redirected from {name}: a kernel with NET_SCH_INGRESS, NET_CLS_U32 \
             and NET_ACT_MIRRED, or their modules (`modprobe -a sch_ingress cls_u32 act_mirred`), \
             is needed"
        ),
        _ => anyhow::anyhow!("packets cannot be redirected from {name}: {error}"),
    })?;
    links::bring_up(netlink, state.index).with_context(|| format!("bringing {name} up"))?;
    Ok(tap)
}

/// Why there is no device of this name, with the remedy.
fn no_device(name: &str, error: &io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(nix::libc::ENOENT) => anyhow::anyhow!(
            "there is no /dev/net/tun: `modprobe tun`, or a kernel with CONFIG_TUN, provides it"
        ),
        Some(nix::libc::EPERM | nix::libc::EACCES) => {
            anyhow::anyhow!("no right to make the device {name}: run as root or with CAP_NET_ADMIN")
        }
        Some(nix::libc::EBUSY) => {
            anyhow::anyhow!("the device {name} exists already: `ip link delete {name}` removes it")
        }
        _ => anyhow::anyhow!("cannot make the device {name}: {error}"),
    }
}

/// A machine without IPv6 has none of its settings; nothing is lost.
fn set(device: &str, family: &str, key: &str, value: &str) {
    let path = format!("/proc/sys/net/{family}/conf/{device}/{key}");
    if let Err(error) = fs::write(&path, value)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%path, %error, "setting not changed");
    }
}
