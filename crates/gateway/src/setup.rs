//! What the gateway needs of the machine, made or refused with a remedy.

use std::fs;
use std::io;

use anyhow::{Context as _, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use proto::ethernet::Mac;

use crate::config::Config;
use crate::linux::firewall;
use crate::linux::links::{self, LinkState};
use crate::linux::netlink::Netlink;
use crate::linux::redirect::redirect;
use crate::service::hbh::port::Port;
use crate::sys::{Link, Tap};

/// Names of our devices begin so; the position of the MANET interface follows.
pub(crate) const DEVICE: &str = "trackway";

/// Name of our device for the MANET interface at `position`.
pub(crate) fn device(position: usize) -> String {
    format!("{DEVICE}{position}")
}

/// Opens the MANET interfaces.
pub(crate) fn open_ports(netlink: &mut Netlink, config: &Config) -> anyhow::Result<Vec<Port>> {
    let mut ports: Vec<Port> = Vec::new();
    for name in &config.interfaces {
        let Some(state) = LinkState::read(netlink, name)? else {
            bail!("there is no interface {name}: `ip link` lists those that exist");
        };
        let Some(mac) = state.mac else {
            bail!(
                "{name} is not an Ethernet-like interface: HBH knows neighbours by their \
                   hardware addresses"
            );
        };
        let link = Link::open(state.index, config.hbh.protocol, config.send_buffer, firewall::MARK)
            .map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => anyhow::anyhow!(
                    "no right to open packet sockets: run as root or with CAP_NET_RAW and \
                     CAP_NET_ADMIN"
                ),
                _ => anyhow::anyhow!("cannot open a packet socket on {name}: {error}"),
            })?;
        let tap = open_device(netlink, &device(ports.len()), mac, state.index)
            .with_context(|| format!("for {name}"))?;
        ports.push(Port::new(name.clone(), mac, state, link, tap));
    }
    Ok(ports)
}

/// Makes our device for the MANET interface numbered `interface`, which receives what goes into it.
fn open_device(netlink: &mut Netlink, name: &str, mac: Mac, interface: u32) -> anyhow::Result<Tap> {
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
pub(crate) fn no_device(name: &str, error: &io::Error) -> anyhow::Error {
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
pub(crate) fn set(device: &str, family: &str, key: &str, value: &str) {
    let path = format!("/proc/sys/net/{family}/conf/{device}/{key}");
    if let Err(error) = fs::write(&path, value)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%path, %error, "setting not changed");
    }
}

/// What tells the gateway to end; threads started later are not interrupted by it either.
pub(crate) fn signals() -> anyhow::Result<SignalFd> {
    let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    mask.thread_block().context("cannot block signals")?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .context("cannot wait for signals")
}

/// A seed that nobody can guess.
pub(crate) fn draw_seed() -> io::Result<u64> {
    use std::io::Read as _;
    let mut octets = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(u64::from_ne_bytes(octets))
}
