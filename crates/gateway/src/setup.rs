//! What the gateway needs of the machine, made or refused with a remedy.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::config::Config;
use crate::firewall;
use crate::frame::Mac;
use crate::links::{self, LinkState};
use crate::netlink::Netlink;
use crate::port::Port;
use crate::sys::{Link, Tap};

/// Name of the device through which traffic enters HBH and leaves it.
pub(crate) const DEVICE: &str = "trackway0";

/// So that loose reverse-path filtering has an address to look at (RFC 7600).
const DUMMY_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8));

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
        if let Some(other) = ports.iter().find(|port| port.mac == mac) {
            bail!(
                "{name} and {} have the same hardware address {mac}: `ip link set dev {name} \
                   address ...` gives one of them another",
                other.name
            );
        }
        let link = Link::open(state.index, config.hbh.protocol, config.send_buffer, firewall::MARK)
            .map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => anyhow::anyhow!(
                    "no right to open packet sockets: run as root or with CAP_NET_RAW and \
                     CAP_NET_ADMIN"
                ),
                _ => anyhow::anyhow!("cannot open a packet socket on {name}: {error}"),
            })?;
        ports.push(Port::new(name.clone(), mac, state, link));
    }
    Ok(ports)
}

/// Makes the device `trackway0`.
pub(crate) fn open_device(netlink: &mut Netlink, ports: &[Port]) -> anyhow::Result<(Tap, Mac)> {
    let tap = Tap::open(DEVICE).map_err(|error| no_device(DEVICE, &error))?;

    // Nothing of its own: no router solicitations, no link-local address.
    set(DEVICE, "ipv6", "addr_gen_mode", "1");
    set(DEVICE, "ipv6", "accept_ra", "0");
    if ports.iter().any(|port| port.state.addresses.iter().any(IpAddr::is_ipv6)) {
        set(DEVICE, "ipv6", "disable_ipv6", "0");
    }
    // What comes out of HBH came in by another interface, so strict filtering would drop it.
    set(DEVICE, "ipv4", "rp_filter", "2");
    // Errors that we send to a program on this node come from this node's own address.
    set(DEVICE, "ipv4", "accept_local", "1");
    for family in ["ipv4", "ipv6"] {
        if forwards(family, "all") || forwards(family, "default") {
            set(DEVICE, family, "forwarding", "1");
        }
    }
    let Some(state) = LinkState::read(netlink, DEVICE)? else { bail!("{DEVICE} is gone") };
    links::bring_up(netlink, state.index).with_context(|| format!("bringing {DEVICE} up"))?;
    links::add_address(netlink, state.index, DUMMY_ADDRESS)
        .with_context(|| format!("giving {DEVICE} the address {DUMMY_ADDRESS}"))?;
    let mac = state.mac.with_context(|| format!("{DEVICE} has no hardware address"))?;
    Ok((tap, mac))
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

/// Whether the kernel forwards what comes in by an interface.
pub(crate) fn forwards(family: &str, interface: &str) -> bool {
    let path = format!("/proc/sys/net/{family}/conf/{interface}/forwarding");
    fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
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
