//! Makes our own devices: TUN devices with an MTU, and TAP devices that give frames to another
//! interface. The kernel removes addresses and filters with the device, however we end.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};
use base::ethernet::Mac;
use host::links::{self, DeviceState, LinkState};
use host::redirect::{redirect, redirects};
use host::{Entry, Kernel};
use tracing::{debug, info, warn};

use crate::linux::holder;
use crate::sys::Tap;

/// A TUN device: its number, and the means to change it.
pub(crate) struct Device {
    kernel: Kernel,
    index: u32,
}

/// What a device is to be like.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) mtu: usize,
    /// Whether the kernel hands over trains of segments, each with a header.
    pub(crate) has_trains: bool,
}

impl Device {
    /// Makes the device.
    ///
    /// # Errors
    /// When it cannot be made, with the remedy.
    pub(crate) fn open(kernel: Kernel, wanted: &Wanted<'_>) -> anyhow::Result<(Tap, Self)> {
        let name = wanted.name;
        let open = if wanted.has_trains { Tap::open_tun } else { Tap::open_plain_tun };
        let tun = open(name).map_err(|error| no_device(name, &error))?;
        Self::prepare(kernel, wanted, tun)
    }

    /// Takes over the device that a predecessor of this process has `left`, or makes the device.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn adopt_or_open(
        kernel: Kernel,
        wanted: &Wanted<'_>,
        left: Option<OwnedFd>,
    ) -> anyhow::Result<(Tap, Self)> {
        let name = wanted.name;
        let mut kernel = kernel;
        match left.map(|left| Tap::adopt_tun(name, left)) {
            None => Self::open(kernel, wanted),
            // Somebody has taken it into another namespace: it goes with its descriptor.
            Some(Ok(_)) if LinkState::read(&mut kernel, name)?.is_none() => {
                warn!(
                    device = name,
                    "the device of the gateway before this one is not in this namespace any more"
                );
                Self::open(kernel, wanted)
            }
            Some(Ok(tun)) => {
                info!(device = name, "goes on with the device of the gateway before this one");
                Self::prepare(kernel, wanted, tun)
            }
            Some(Err(error)) => {
                warn!(device = name, %error, "what was left by the gateway before this one is not used");
                Self::open(kernel, wanted)
            }
        }
    }

    fn prepare(mut kernel: Kernel, wanted: &Wanted<'_>, tun: Tap) -> anyhow::Result<(Tap, Self)> {
        let name = wanted.name;
        // Nothing of its own: no router solicitations, no link-local address.
        links::set_sysctl(name, "ipv6", "addr_gen_mode", "1");
        links::set_sysctl(name, "ipv6", "accept_ra", "0");
        let Some(state) = LinkState::read(&mut kernel, name)? else { bail!("{name} is gone") };
        let index = state.index;
        // The firewalls of our own services leave devices of our group alone.
        for is in [mtu_of(wanted.mtu), DeviceState::Group, DeviceState::Up] {
            let entry = Entry::Device { device: index, is };
            is.set(&mut kernel, index).with_context(|| entry.to_string())?;
        }
        Ok((tun, Self { kernel, index }))
    }

    /// Its number.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        debug!(mtu, "MTU of the device");
        if let Err(error) = mtu_of(mtu).set(&mut self.kernel, self.index) {
            warn!(mtu, %error, "MTU of the device not changed");
        }
    }
}

fn mtu_of(octets: usize) -> DeviceState {
    DeviceState::Mtu(u32::try_from(octets).unwrap_or(u32::MAX))
}

/// Makes a TAP device for the MANET interface numbered `interface`: the interface receives all frames that enter the
/// device. Returns the device and its number.
///
/// # Errors
/// When it cannot be made, with the remedy.
pub(crate) fn open_tap(
    kernel: &mut Kernel,
    name: &str,
    mac: Mac,
    interface: u32,
) -> anyhow::Result<(Tap, u32)> {
    let tap = Tap::open(name).map_err(|error| no_device(name, &error))?;

    // Nothing of its own: the kernel receives nothing here.
    links::set_sysctl(name, "ipv6", "disable_ipv6", "1");
    let Some(state) = LinkState::read(kernel, name)? else { bail!("{name} is gone") };
    // So a gateway in this network namespace is known, wherever its files are.
    DeviceState::Group
        .set(kernel, state.index)
        .with_context(|| format!("putting {name} into a group"))?;
    // A frame for another station than the device's own is not for this node.
    links::set_mac(kernel, state.index, mac)
        .with_context(|| format!("giving {name} the hardware address {mac}"))?;
    redirect(kernel, state.index, interface).map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ENOENT | nix::libc::EOPNOTSUPP) => anyhow::anyhow!(
            "packets cannot be redirected from {name}: a kernel with NET_SCH_INGRESS, NET_CLS_U32 \
             and NET_ACT_MIRRED, or their modules (`modprobe -a sch_ingress cls_u32 act_mirred`), \
             is needed"
        ),
        _ => anyhow::anyhow!("packets cannot be redirected from {name}: {error}"),
    })?;
    DeviceState::Up.set(kernel, state.index).with_context(|| format!("bringing {name} up"))?;
    Ok((tap, state.index))
}

/// Restores a device of [`open_tap`] if somebody has switched it off, or changed its hardware address or the
/// redirection to the interface; returns whether somebody has.
///
/// # Errors
/// When the device is gone, or the kernel refuses.
pub(crate) fn keep_tap(
    kernel: &mut Kernel,
    device: u32,
    mac: Mac,
    interface: u32,
) -> io::Result<bool> {
    let is_redirected = redirects(kernel, device, interface)?;
    if !is_redirected {
        redirect(kernel, device, interface)?;
    }
    Ok(links::keep(kernel, device, Some(mac))? || !is_redirected)
}

/// Why the device cannot be made, with the remedy.
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
