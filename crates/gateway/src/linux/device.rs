//! Makes our own devices: TUN devices with addresses and an MTU, and TAP devices that give frames to another
//! interface. The kernel removes addresses and filters with the device, however we end.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use anyhow::{Context as _, bail};
use base::ethernet::Mac;
use base::ip::Prefix;
use tracing::{debug, warn};

use crate::linux::fence;
use crate::linux::holder;
use crate::linux::links::{self, LinkState};
use crate::linux::netlink::Netlink;
use crate::linux::redirect::redirect;
use crate::sys::Tap;

/// A TUN device: its number, and the means to change it.
pub(crate) struct Device {
    netlink: Netlink,
    index: u32,
    addresses: Vec<Prefix>,
    /// The addresses that the kernel did not accept again.
    refused: BTreeSet<Prefix>,
}

/// What a device is to be like.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) addresses: &'a [Prefix],
    pub(crate) mtu: usize,
    /// Whether the kernel hands over trains of segments, each with a header.
    pub(crate) has_trains: bool,
    /// Whether errors that we send to a program on this node come from this node's own address. Then we
    /// have to see to it that nobody else sends from there.
    pub(crate) speaks: bool,
}

impl Device {
    /// Makes the device.
    ///
    /// # Errors
    /// When it cannot be made or an address is taken, with the remedy.
    pub(crate) fn open(mut netlink: Netlink, wanted: &Wanted<'_>) -> anyhow::Result<(Tap, Self)> {
        let name = wanted.name;
        let open = if wanted.has_trains { Tap::open_tun } else { Tap::open_plain_tun };
        let tun = open(name).map_err(|error| no_device(name, &error))?;
        // Nothing of its own: no router solicitations, no link-local address.
        set(name, "ipv6", "addr_gen_mode", "1");
        set(name, "ipv6", "accept_ra", "0");
        if wanted.addresses.iter().any(|prefix| prefix.address().is_ipv6()) {
            enable_v6(name);
        }
        if wanted.speaks {
            set(name, "ipv4", "accept_local", "1");
        }
        let Some(state) = LinkState::read(&mut netlink, name)? else { bail!("{name} is gone") };
        let index = state.index;
        links::set_mtu(&mut netlink, index, wanted.mtu)
            .with_context(|| format!("setting the MTU of {name}"))?;
        // The firewalls of our own services leave devices of this group alone.
        links::set_group(&mut netlink, index, fence::GROUP)
            .with_context(|| format!("putting {name} into a group"))?;
        links::bring_up(&mut netlink, index).with_context(|| format!("bringing {name} up"))?;
        for prefix in wanted.addresses {
            links::add_prefix(&mut netlink, index, prefix.address(), prefix.bits())
                .with_context(|| format!("giving {name} the address {prefix}"))?;
        }
        Ok((
            tun,
            Self { netlink, index, addresses: wanted.addresses.to_vec(), refused: BTreeSet::new() },
        ))
    }

    /// Its number.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Gives the device its addresses again, and returns whether it has all: IPv6 addresses go when a device is
    /// taken down.
    pub(crate) fn restore(&mut self) -> bool {
        for prefix in &self.addresses {
            let (address, bits) = (prefix.address(), prefix.bits());
            match links::add_prefix(&mut self.netlink, self.index, address, bits) {
                Ok(()) => drop(self.refused.remove(prefix)),
                Err(error) => {
                    if self.refused.insert(*prefix) {
                        warn!(address = %prefix, %error, "address not put back");
                    }
                }
            }
        }
        self.refused.is_empty()
    }

    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        debug!(mtu, "MTU of the device");
        if let Err(error) = links::set_mtu(&mut self.netlink, self.index, mtu) {
            warn!(mtu, %error, "MTU of the device not changed");
        }
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
            let held = holder::said(name);
            anyhow::anyhow!(
                "the device {name} exists already{held}: end who uses it and `ip link delete {name}`, \
                 or take another name"
            )
        }
        _ => anyhow::anyhow!("cannot make the device {name}: {error}"),
    }
}

/// Lets a device carry IPv6, wherever that is off.
pub(crate) fn enable_v6(device: &str) {
    set(device, "ipv6", "disable_ipv6", "0");
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
