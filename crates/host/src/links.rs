//! Reads the state of interfaces from the kernel, and changes a few settings of our own.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fs, io};

use base::ethernet::Mac;
use base::ip::Prefix;
use nix::libc;
use nix::net::if_::{if_indextoname, if_nametoindex};
use tracing::warn;

use crate::netlink::{self, Kernel, Message, Request};

/// The interface group of our own devices: their services check source addresses themselves.
pub const GROUP: u32 = 0x7472_776b;
/// The queue that our device gets if somebody has removed its queue, in packets: that of a new TUN device.
const QUEUE: u32 = 500;
const LINK_FIXED: usize = 16;
pub(crate) const ADDRESS_FIXED: usize = 8;
const NEIGHBOUR_FIXED: usize = 12;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
/// Kinds of virtual interfaces that ask for hardware addresses; other kinds have no ARP from the start.
const ASKING: [&[u8]; 6] = [b"bond", b"bridge", b"macvlan", b"team", b"veth", b"vlan"];
/// Kinds of interfaces that take all packets of their ports; a virtual routing table (VRF) takes none.
const TAKING: [&[u8]; 3] = [b"bond", b"bridge", b"team"];
const IFA_F_NODAD: u8 = 0x02;
/// Notices that a queueing discipline or a filter of a device is gone.
pub(crate) const CONTROL_REMOVALS: [u16; 2] = [libc::RTM_DELQDISC, libc::RTM_DELTFILTER];

/// The current state of an interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkState {
    /// Its number.
    pub index: u32,
    /// Hardware address, if the interface has an Ethernet address.
    pub mac: Option<Mac>,
    /// Octets of the longest IP packet.
    pub mtu: usize,
    /// Whether it is up and has a carrier.
    pub is_running: bool,
    /// Whether it could ask for the hardware addresses of neighbours, and somebody has switched that off.
    pub is_mute: bool,
    /// Whether it is a port of a bridge, or part of a bond or team, which takes all its packets.
    pub is_port: bool,
    /// Its addresses, IPv4 before IPv6, link-local ones last.
    pub addresses: Vec<IpAddr>,
}

/// A state that the gateway gives its own device.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum DeviceState {
    /// Switched on, without ARP.
    Up,
    /// In our group of interfaces, which the fence lets pass.
    Group,
    /// With room for packets that wait: without a queue, a TUN device drops all.
    Queue,
    /// With an MTU in octets.
    Mtu(u32),
    /// With an address, and the network of its prefix.
    Address(Prefix),
}

impl DeviceState {
    /// Makes a device so.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(self, netlink: &mut Kernel, device: u32) -> io::Result<()> {
        netlink.ask(&self.request(device), |_| {})
    }

    pub(crate) fn request(self, device: u32) -> Request {
        let change = |flags| Request::set(libc::RTM_NEWLINK, 0, &link_fixed(device, flags, flags));
        match self {
            Self::Up => change((libc::IFF_UP | libc::IFF_NOARP).cast_unsigned()),
            Self::Group => change(0).with(libc::IFLA_GROUP, &GROUP.to_ne_bytes()),
            Self::Queue => change(0).with(libc::IFLA_TXQLEN, &QUEUE.to_ne_bytes()),
            Self::Mtu(mtu) => change(0).with(libc::IFLA_MTU, &mtu.to_ne_bytes()),
            Self::Address(prefix) => {
                let mut fixed = [0; ADDRESS_FIXED];
                fixed[0] = netlink::family(prefix.address());
                fixed[1] = prefix.bits();
                // Nobody else can have an address on a device without neighbours: it may be used at once.
                fixed[2] = if prefix.address().is_ipv6() { IFA_F_NODAD } else { 0 };
                fixed[3] = libc::RT_SCOPE_UNIVERSE;
                fixed[4..].copy_from_slice(&device.to_ne_bytes());
                let flags =
                    u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap_or_default();
                Request::set(libc::RTM_NEWADDR, flags, &fixed)
                    .with_address(libc::IFA_LOCAL, prefix.address())
                    .with_address(libc::IFA_ADDRESS, prefix.address())
            }
        }
    }
}

impl LinkState {
    /// Asks for the interface `name`; `None` when there is none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn read(netlink: &mut Kernel, name: &str) -> io::Result<Option<Self>> {
        let mut state = None;
        // By name: between a question for the number and a question by number, the interface might go.
        let request = Request::get(libc::RTM_GETLINK, &link_fixed(0, 0, 0))
            .with(libc::IFLA_IFNAME, name.as_bytes());
        match netlink.ask(&request, |message| state = parse_link(message)) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            asked => asked?,
        }
        let Some(mut state) = state else { return Ok(None) };
        let found = addresses_of(netlink, Some(state.index))?;
        state.addresses = found.into_iter().map(|(_, address, _)| address).collect();
        // The first stays the first: the kernel lists primary addresses before secondary ones.
        state.addresses.sort_by_key(|&address| (is_link_local(address), address.is_ipv6()));
        Ok(Some(state))
    }
}

/// Octets of the longest IP packet that an interface takes.
///
/// # Errors
/// When no interface has this number, or the kernel does not answer.
pub fn mtu(netlink: &mut Kernel, index: u32) -> io::Result<usize> {
    let mut state = None;
    netlink.ask(&get_request(index), |message| state = parse_link(message))?;
    state.map(|state| state.mtu).ok_or_else(|| io::Error::other("no such interface"))
}

/// All addresses of this host, whatever the interface.
///
/// # Errors
/// When the kernel does not answer.
pub fn own_addresses(netlink: &mut Kernel) -> io::Result<BTreeSet<IpAddr>> {
    Ok(addresses_of(netlink, None)?.into_iter().map(|(_, address, _)| address).collect())
}

/// The interfaces with an address of IPv4, or of IPv6, that is not link-local.
///
/// # Errors
/// When the kernel does not answer.
pub fn with_address(netlink: &mut Kernel, is_v4: bool) -> io::Result<BTreeSet<u32>> {
    let is_one = |it: &IpAddr| it.is_ipv4() == is_v4 && !is_link_local(*it);
    let all = addresses_of(netlink, None)?.into_iter();
    Ok(all.filter(|(_, address, _)| is_one(address)).map(|(interface, ..)| interface).collect())
}

/// The number of the interface concerned by a message, if any.
#[must_use]
pub fn subject(message: Message<'_>) -> Option<u32> {
    match message.kind {
        // `struct ifinfomsg`, `ifaddrmsg` and `tcmsg` have the number in the same place.
        libc::RTM_NEWLINK
        | libc::RTM_DELLINK
        | libc::RTM_NEWADDR
        | libc::RTM_DELADDR
        | libc::RTM_DELQDISC
        | libc::RTM_DELTFILTER => {
            message.fixed::<8>().map(|&[.., a, b, c, d]| u32::from_ne_bytes([a, b, c, d]))
        }
        _ => None,
    }
}

/// The interface reported by a message, and whether the interface is switched on; `None` for other messages.
#[must_use]
pub fn up(message: Message<'_>) -> Option<(u32, bool)> {
    has_flags(message, libc::IFF_UP)
}

/// The interface reported by a message, and whether it is up and has a carrier; `None` for other messages.
#[must_use]
pub fn running(message: Message<'_>) -> Option<(u32, bool)> {
    has_flags(message, libc::IFF_UP | libc::IFF_RUNNING)
}

fn has_flags(message: Message<'_>, needed: i32) -> Option<(u32, bool)> {
    let &[_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = message.fixed::<LINK_FIXED>()?;
    let has_all = i32::from_ne_bytes([f0, f1, f2, f3]) & needed == needed;
    let index = u32::from_ne_bytes([i0, i1, i2, i3]);
    (message.kind == libc::RTM_NEWLINK).then_some((index, has_all))
}

/// The neighbour that did not answer the kernel, if a message reports one: the number of the interface, and the
/// address there.
#[must_use]
pub fn silent_neighbour(message: Message<'_>) -> Option<(u32, IpAddr)> {
    let &[_, _, _, _, i0, i1, i2, i3, s0, s1, _, _] = message.fixed::<NEIGHBOUR_FIXED>()?;
    let is_failed = u16::from_ne_bytes([s0, s1]) & libc::NUD_FAILED != 0;
    if message.kind != libc::RTM_NEWNEIGH || !is_failed {
        return None;
    }
    let address = netlink::address(message.attribute(NEIGHBOUR_FIXED, libc::NDA_DST)?)?;
    Some((u32::from_ne_bytes([i0, i1, i2, i3]), address))
}

/// Whether the entry of a neighbour is permanent: its hardware address was set by hand.
#[must_use]
pub fn is_permanent(netlink: &mut Kernel, index: u32, address: IpAddr) -> bool {
    neighbour_state(netlink, index, address) & libc::NUD_PERMANENT != 0
}

/// States of neighbour entries that were set by hand.
pub const PERMANENT: u16 = libc::NUD_PERMANENT;
/// States of neighbour entries that the kernel sends packets by, or lately did.
pub const IN_USE: u16 =
    libc::NUD_REACHABLE | libc::NUD_DELAY | libc::NUD_PROBE | libc::NUD_PERMANENT;

/// The neighbour entries on Ethernet in one of these states: the index of the interface, the IP address, and the hardware
/// address.
///
/// # Errors
/// When the kernel does not answer.
pub fn neighbours(netlink: &mut Kernel, states: u16) -> io::Result<Vec<(u32, IpAddr, Mac)>> {
    let request = Request::dump(libc::RTM_GETNEIGH, &[0; NEIGHBOUR_FIXED]);
    netlink.dump(&request, |message, found| {
        let neighbour = || {
            let &[_, _, _, _, i0, i1, i2, i3, s0, s1, _, _] = message.fixed::<NEIGHBOUR_FIXED>()?;
            let is_meant = u16::from_ne_bytes([s0, s1]) & states != 0;
            let address = netlink::address(message.attribute(NEIGHBOUR_FIXED, libc::NDA_DST)?)?;
            let mac = message.attribute(NEIGHBOUR_FIXED, libc::NDA_LLADDR)?.try_into().ok()?;
            is_meant.then_some((u32::from_ne_bytes([i0, i1, i2, i3]), address, Mac(mac)))
        };
        found.extend(neighbour());
    })
}

/// Whether the kernel asks, or has asked in vain, for the hardware address of a neighbour.
#[must_use]
pub fn is_sought(netlink: &mut Kernel, index: u32, address: IpAddr) -> bool {
    neighbour_state(netlink, index, address) & (libc::NUD_INCOMPLETE | libc::NUD_FAILED) != 0
}

/// The state of a neighbour, `NUD_…`; 0 if the kernel knows none.
fn neighbour_state(netlink: &mut Kernel, index: u32, address: IpAddr) -> u16 {
    let fixed = neighbour_fixed(index, address, 0);
    let request = Request::get(libc::RTM_GETNEIGH, &fixed).with_address(libc::NDA_DST, address);
    let mut state = 0;
    // Older kernels answer no such question, and a neighbour that is not known is an error.
    let _ = netlink.ask(&request, |message| {
        let fixed = message.fixed::<NEIGHBOUR_FIXED>();
        state = fixed.map_or(0, |fixed| u16::from_ne_bytes([fixed[8], fixed[9]]));
    });
    state
}

/// Gives an entry in the kernel's table of neighbours another hardware address, which the kernel tries before it relies
/// on it. Entries that somebody has set stay, and none is added.
///
/// # Errors
/// When the kernel refuses.
pub fn move_neighbour(
    netlink: &mut Kernel,
    index: u32,
    address: IpAddr,
    mac: Mac,
) -> io::Result<()> {
    let fixed = |state| neighbour_fixed(index, address, state);
    let mut is_other = false;
    let request = Request::get(libc::RTM_GETNEIGH, &fixed(0)).with_address(libc::NDA_DST, address);
    let asked = netlink.ask(&request, |message| {
        let Some(&[_, _, _, _, _, _, _, _, s0, s1, _, _]) = message.fixed::<NEIGHBOUR_FIXED>()
        else {
            return;
        };
        let has = message.attribute(NEIGHBOUR_FIXED, libc::NDA_LLADDR);
        let is_set = u16::from_ne_bytes([s0, s1]) & (libc::NUD_PERMANENT | libc::NUD_NOARP) != 0;
        is_other = !is_set && has.is_some_and(|has| has != mac.0);
    });
    match asked {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
        asked => asked?,
    }
    if !is_other {
        return Ok(());
    }
    let replace = u16::try_from(libc::NLM_F_REPLACE).unwrap_or_default();
    let request = Request::set(libc::RTM_NEWNEIGH, replace, &fixed(libc::NUD_STALE))
        .with_address(libc::NDA_DST, address)
        .with(libc::NDA_LLADDR, &mac.0);
    netlink.ask(&request, |_| {})
}

/// `struct ndmsg`
fn neighbour_fixed(index: u32, address: IpAddr, state: u16) -> [u8; NEIGHBOUR_FIXED] {
    let mut fixed = [0; NEIGHBOUR_FIXED];
    fixed[0] = netlink::family(address);
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..10].copy_from_slice(&state.to_ne_bytes());
    fixed
}

/// Gives an interface another hardware address.
///
/// # Errors
/// When the kernel refuses.
pub fn set_mac(netlink: &mut Kernel, index: u32, mac: Mac) -> io::Result<()> {
    let request = Request::set(libc::RTM_NEWLINK, 0, &link_fixed(index, 0, 0))
        .with(libc::IFLA_ADDRESS, &mac.0);
    netlink.ask(&request, |_| {})
}

/// Undoes changes of a device of ours by others: switches the device on, puts it into our group, gives it a queue, and
/// restores its hardware address `mac`, if any. Returns whether anything was undone.
///
/// # Errors
/// When the device is gone, or the kernel refuses.
pub fn keep(netlink: &mut Kernel, index: u32, mac: Option<Mac>) -> io::Result<bool> {
    let (mut is_on, mut has, mut group, mut has_queue) = (true, None, None, true);
    let request = Request::get(libc::RTM_GETLINK, &link_fixed(index, 0, 0));
    netlink.ask(&request, |message| {
        is_on = up(message).is_none_or(|(_, is_up)| is_up);
        has = parse_link(message).and_then(|state| state.mac);
        group = group_of(message);
        has_queue = self::has_queue(message);
    })?;
    let lost = mac.filter(|mac| has != Some(*mac));
    if let Some(mac) = lost {
        set_mac(netlink, index, mac)?;
    }
    if group != Some(GROUP) {
        DeviceState::Group.set(netlink, index)?;
    }
    if !has_queue {
        DeviceState::Queue.set(netlink, index)?;
    }
    if !is_on {
        DeviceState::Up.set(netlink, index)?;
    }
    Ok(lost.is_some() || group != Some(GROUP) || !has_queue || !is_on)
}

/// The numbers of the interfaces in a group. The devices of a gateway end with the gateway, so a device in our group
/// shows a running gateway.
///
/// # Errors
/// When the kernel does not answer.
pub fn of_group(netlink: &mut Kernel, group: u32) -> io::Result<Vec<u32>> {
    let request = Request::dump(libc::RTM_GETLINK, &link_fixed(0, 0, 0));
    netlink.dump(&request, |message, found| {
        let is_its = group_of(message) == Some(group);
        found.extend(subject(message).filter(|_| is_its));
    })
}

/// An address that a neighbour on a link might have: beside this node's own in the same network.
#[must_use]
pub fn neighbour_of(netlink: &mut Kernel, index: u32, is_v6: bool) -> Option<IpAddr> {
    let found = addresses_of(netlink, Some(index)).ok()?;
    let mut its = found.into_iter().filter(|(_, address, _)| address.is_ipv6() == is_v6);
    let (_, address, _) = its.find(|(_, address, _)| !is_link_local(*address))?;
    Some(beside(address, 3))
}

/// An address with some of the last bits changed.
#[must_use]
pub fn beside(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) ^ u32::from(bits)).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) ^ u128::from(bits)).into(),
    }
}

/// The group of an interface in a message about it.
pub(crate) fn group_of(message: Message<'_>) -> Option<u32> {
    message.attribute(LINK_FIXED, libc::IFLA_GROUP).and_then(netlink::number)
}

/// Whether packets may wait in an interface, by a message about it.
pub(crate) fn has_queue(message: Message<'_>) -> bool {
    message.attribute(LINK_FIXED, libc::IFLA_TXQLEN).and_then(netlink::number) != Some(0)
}

/// The name of an interface in a message about it.
pub(crate) fn name_of(message: Message<'_>) -> Option<&[u8]> {
    message.attribute(LINK_FIXED, libc::IFLA_IFNAME)?.strip_suffix(b"\0")
}

/// Gives an interface another name. Kernels before Linux 6.2 rename an interface only while it is down: it is down for
/// a moment then.
///
/// # Errors
/// When the name is taken, or the kernel refuses.
pub fn rename(netlink: &mut Kernel, index: u32, name: &str) -> io::Result<()> {
    let mut octets = name.as_bytes().to_vec();
    octets.push(0);
    let order =
        |fixed: &[u8]| Request::set(libc::RTM_NEWLINK, 0, fixed).with(libc::IFLA_IFNAME, &octets);
    match netlink.ask(&order(&link_fixed(index, 0, 0)), |_| {}) {
        // The kernel refuses an interface that is up before it looks at the name. So look first: for a taken name the
        // interface need not go down.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            if if_nametoindex(name).is_ok() {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            let up = libc::IFF_UP.cast_unsigned();
            let down = Request::set(libc::RTM_NEWLINK, 0, &link_fixed(index, 0, up));
            netlink.ask(&down, |_| {})?;
            netlink.ask(&order(&link_fixed(index, 0, 0)), |_| {})
        }
        outcome => outcome,
    }
}

/// The interface reported by a message, and its MTU; `None` for other messages.
pub(crate) fn mtu_of(message: Message<'_>) -> Option<(u32, u32)> {
    let state = (message.kind == libc::RTM_NEWLINK).then(|| parse_link(message))??;
    Some((state.index, u32::try_from(state.mtu).ok()?))
}

/// The interface, address and prefix length in a message about a new or removed address.
pub(crate) fn address_of(message: Message<'_>) -> Option<(u32, IpAddr, u8)> {
    let &[_, bits, _, _, a, b, c, d] = message.fixed::<ADDRESS_FIXED>()?;
    Some((u32::from_ne_bytes([a, b, c, d]), local_address(message)?, bits))
}

/// Whether the kernel itself makes the route to the network of a new address.
pub(crate) fn makes_route(message: Message<'_>) -> bool {
    let flags = message.attribute(ADDRESS_FIXED, libc::IFA_FLAGS).and_then(netlink::number);
    flags.unwrap_or_default() & libc::IFA_F_NOPREFIXROUTE == 0
}

/// Asks for an interface.
pub(crate) fn get_request(index: u32) -> Request {
    Request::get(libc::RTM_GETLINK, &link_fixed(index, 0, 0))
}

/// The addresses of an interface, or of all, in the form of [`address_of`].
pub(crate) fn addresses_of(
    netlink: &mut Kernel,
    index: Option<u32>,
) -> io::Result<Vec<(u32, IpAddr, u8)>> {
    let mut fixed = [0; ADDRESS_FIXED];
    fixed[4..].copy_from_slice(&index.unwrap_or_default().to_ne_bytes());
    let request = Request::dump(libc::RTM_GETADDR, &fixed);
    let found = netlink.dump(&request, |message, found| {
        found.extend(address_of(message).filter(|(of, ..)| index.is_none_or(|it| it == *of)));
    });
    match found {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(Vec::new()),
        found => found,
    }
}

/// The name of an interface, or its number if the interface is gone.
#[must_use]
pub fn name(index: u32) -> String {
    existing_name(index).unwrap_or_else(|| format!("interface {index}"))
}

/// The name of an interface, if the interface exists.
#[must_use]
pub fn existing_name(index: u32) -> Option<String> {
    // Instead of an error there may be no letters: without descriptors, and for an interface in another namespace.
    if_indextoname(index).ok()?.into_string().ok().filter(|name| !name.is_empty())
}

/// Switches IPv6 on for an interface.
pub fn enable_v6(interface: &str) {
    // What is refused for it is a fault, and tried again and again.
    let _ = try_set_sysctl(interface, "ipv6", "disable_ipv6", "0");
}

/// Changes a setting of an interface of ours, unless the value is right already. The setting ends with the
/// interface. A machine without IPv6 lacks the settings of IPv6; nothing is lost.
pub fn set_sysctl(interface: &str, family: &str, key: &str, value: &str) {
    if let Err(error) = try_set_sysctl(interface, family, key, value) {
        warn!(interface, family, key, %error, "setting not changed");
    }
}

/// As [`set_sysctl`], but returns errors.
///
/// # Errors
/// When the setting has another value, and cannot be changed.
fn try_set_sysctl(interface: &str, family: &str, key: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{family}/conf/{interface}/{key}");
    if fs::read_to_string(&path).is_ok_and(|before| before.trim() == value) {
        return Ok(());
    }
    match fs::write(&path, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Lets packets with this host's own addresses come in by a device of ours: ICMP errors for programs of this host.
///
/// # Errors
/// The consequence and the remedy, when the setting cannot be changed.
pub fn accept_own_sources(device: &str) -> Result<(), String> {
    try_set_sysctl(device, "ipv4", "accept_local", "1").map_err(|error| {
        format!(
            "net.ipv4.conf.{device}.accept_local cannot be changed: {error}: programs of this host are not told of \
             errors; on the host, in this network namespace: `sysctl -w net.ipv4.conf.{device}.accept_local=1`"
        )
    })
}

/// Whether an interface is a modem's of a mobile network, which asks for no neighbours although it looks like Ethernet.
#[must_use]
pub fn is_modem(name: &str) -> bool {
    let said = std::fs::read_to_string(format!("/sys/class/net/{name}/uevent"));
    said.is_ok_and(|said| said.lines().any(|line| line == "DEVTYPE=wwan"))
}

fn link_fixed(index: u32, flags: u32, change: u32) -> [u8; LINK_FIXED] {
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..].copy_from_slice(&change.to_ne_bytes());
    fixed
}

fn parse_link(message: Message<'_>) -> Option<LinkState> {
    let &[_, _, t0, t1, i0, i1, i2, i3, f0, f1, f2, f3, ..] = message.fixed::<LINK_FIXED>()?;
    let is_ethernet = u16::from_ne_bytes([t0, t1]) == libc::ARPHRD_ETHER;
    let flags = i32::from_ne_bytes([f0, f1, f2, f3]);
    let running = libc::IFF_UP | libc::IFF_RUNNING;
    let mut state = LinkState {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        mac: None,
        mtu: 0,
        is_running: flags & running == running,
        is_mute: is_ethernet && flags & libc::IFF_NOARP != 0,
        is_port: false,
        addresses: Vec::new(),
    };
    for (kind, value) in message.attributes(LINK_FIXED) {
        match kind {
            libc::IFLA_ADDRESS if is_ethernet => state.mac = value.try_into().ok().map(Mac),
            libc::IFLA_MTU => {
                state.mtu = netlink::number(value).and_then(|mtu| usize::try_from(mtu).ok())?;
            }
            IFLA_LINKINFO => {
                let name_of = |which| {
                    let name = netlink::attributes(value).find(|(kind, _)| *kind == which);
                    name.map(|(_, name)| name.strip_suffix(b"\0").unwrap_or(name))
                };
                state.is_mute &= name_of(IFLA_INFO_KIND).is_none_or(|it| ASKING.contains(&it));
                state.is_port =
                    name_of(IFLA_INFO_SLAVE_KIND).is_some_and(|it| TAKING.contains(&it));
            }
            _ => {}
        }
    }
    Some(state)
}

/// The interface's own address in a message about an address.
fn local_address(message: Message<'_>) -> Option<IpAddr> {
    if !matches!(message.kind, libc::RTM_NEWADDR | libc::RTM_DELADDR) {
        return None;
    }
    let mut address = None;
    for (kind, value) in message.attributes(ADDRESS_FIXED) {
        // On a point-to-point link IFA_ADDRESS is the other end's, IFA_LOCAL ours.
        if kind == libc::IFA_LOCAL || (kind == libc::IFA_ADDRESS && address.is_none()) {
            address = netlink::address(value);
        }
    }
    address
}

pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
