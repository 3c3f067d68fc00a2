//! Describes the addresses, routes and rules that services want, and converts them to and from netlink.
//!
//! Each route or rule carries the protocol number of its service, shown by `ip route` and `ip rule`. So the kernel
//! itself remembers what is ours, also after a crash.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, io};

use base::ip::Prefix;
use nix::libc;

use crate::links::{self, DeviceState};
use crate::netlink::{self, Kernel, Message, Request};
use crate::numbers::{Mark, Numbers};

/// The mark of packets that services send outside: the services' own routes do not apply to them.
pub const MARK: Mark = Mark(0x776c);
/// The metric of refusals: any other route to the same network is better.
const METRIC: u32 = 4_000_000_000;
/// `IP6_RT_PRIO_USER`: the default metric of an IPv6 route; an IPv4 route has 0.
const METRIC_V6: u32 = 1_024;

/// Octets of the fixed part of a route and of a rule; both have the same layout.
pub(crate) const FIXED: usize = 12;
/// `LOOPBACK_IFINDEX`: the number of `lo` in each network namespace.
const LOOPBACK: u32 = 1;
/// `RT_TABLE_MAIN`, as the value of an attribute.
const MAIN: u32 = 254;

pub(crate) const RTAX_MTU: u16 = 2;

// linux/fib_rules.h
pub(crate) const FRA_PRIORITY: u16 = 6;
pub(crate) const FRA_FWMARK: u16 = 10;
pub(crate) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub(crate) const FRA_TABLE: u16 = 15;
pub(crate) const FRA_FWMASK: u16 = 16;
pub(crate) const FRA_PROTOCOL: u16 = 21;
const FR_ACT_TO_TBL: u8 = 1;
pub(crate) const FIB_RULE_INVERT: u32 = 2;

/// An entry that a service wants in the kernel. Entries are added in the order of the variants: refusals come
/// before routes, and rules that lead packets to a table come last.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Entry {
    /// The state of a device of ours.
    Device {
        /// The number of the device.
        device: u32,
        /// The state.
        is: DeviceState,
    },
    /// Packets to a network are refused unless there is a better route.
    Unreachable {
        /// The network.
        to: Prefix,
        /// Where the route stands.
        table: Table,
    },
    /// Packets to any address are delivered to this host.
    Here {
        /// True for IPv6, false for IPv4.
        is_v6: bool,
        /// Where the route stands.
        table: Table,
    },
    /// Packets to a network go into a device.
    Route {
        /// The network.
        to: Prefix,
        /// Where the route stands.
        table: Table,
        /// The number of the device.
        device: u32,
        /// The source address for this host's packets: an address of the device, even if others are added.
        source: Option<IpAddr>,
    },
    /// A rule for packets.
    Rule {
        /// True for IPv6, false for IPv4.
        is_v6: bool,
        /// When the kernel looks at the rule: rules of lower numbers come first.
        priority: u32,
        /// What the rule does.
        rule: Rule,
    },
}

/// The service that made a route or a rule, and removes it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Owner {
    /// The encrypted coded tunnel.
    #[default]
    Tunnel,
    /// The IP client of an HF node.
    IpClient,
    /// Tunnels of GRE.
    Gre,
    /// The diversion of TCP connections for HF-PEP.
    HfPep,
    /// The capture of datagrams for S/R.
    Sar,
}

/// A table of routes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Table {
    /// The main table, which all programs use.
    Main,
    /// A table of our own.
    Own(u32),
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Rule {
    /// The main table decides, by routes longer than so many bits.
    Longer(u8),
    /// Packets without the mark [`MARK`] go by a table.
    Unmarked(Table),
    /// Packets with this mark go by a table.
    Marked {
        /// The mark.
        mark: u32,
        /// The relevant bits of the mark.
        mask: u32,
        /// The table.
        table: Table,
    },
}

/// The place of a route, taken by at most one route: network, table and metric.
pub(crate) type Place = (Prefix, Table, u32);

impl Owner {
    /// All services.
    pub const ALL: [Self; 5] = [Self::Tunnel, Self::IpClient, Self::Gre, Self::HfPep, Self::Sar];

    /// The number by which `ip route` and `ip rule` show the service.
    #[must_use]
    pub fn protocol(self) -> u8 {
        Numbers::chosen().protocols + 1 + self.position()
    }

    /// The service with this protocol number.
    #[must_use]
    pub fn of(protocol: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|owner| owner.protocol() == protocol)
    }

    /// The keys of `[host]` that choose the service's tables and priorities.
    pub(crate) fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Tunnel | Self::IpClient | Self::Gre => ("tables", "priorities"),
            Self::HfPep | Self::Sar => ("local-tables", "local-priorities"),
        }
    }

    /// The service's table of nftables that stays when the process is killed.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Tunnel => "trackway_tunnel",
            Self::IpClient => "trackway_ipclient",
            Self::Gre => "trackway_gre",
            Self::HfPep => "trackway_hfpep",
            Self::Sar => "trackway_sar",
        }
    }

    /// The service's place in [`Self::ALL`].
    pub(crate) fn position(self) -> u8 {
        match self {
            Self::Tunnel => 0,
            Self::IpClient => 1,
            Self::Gre => 2,
            Self::HfPep => 3,
            Self::Sar => 4,
        }
    }
}

impl Entry {
    /// The place of a route; `None` for all others.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Self::Unreachable { to, table } => Some((to, table, METRIC)),
            Self::Route { to, table, .. } => Some((to, table, metric(&to))),
            Self::Here { is_v6, table } => {
                let all = everything(is_v6);
                Some((all, table, metric(&all)))
            }
            Self::Device { .. } | Self::Rule { .. } => None,
        }
    }

    /// The table of our own that the entry stands in.
    pub(crate) fn own_table(self) -> Option<u32> {
        match self.place() {
            Some((_, Table::Own(number), _)) => Some(number),
            _ => None,
        }
    }

    /// The device without which the kernel does not take the entry.
    pub(crate) fn device(self) -> Option<u32> {
        match self {
            Self::Device { device, .. } | Self::Route { device, .. } => Some(device),
            Self::Here { .. } => Some(LOOPBACK),
            Self::Unreachable { .. } | Self::Rule { .. } => None,
        }
    }

    /// The order that adds the entry; takes another entry's place only if `replaces`.
    pub(crate) fn add(self, owner: Owner, replaces: bool) -> Request {
        let how = if replaces { libc::NLM_F_REPLACE } else { libc::NLM_F_EXCL };
        let flags = u16::try_from(libc::NLM_F_CREATE | how).unwrap_or_default();
        match self {
            Self::Device { device, is } => is.request(device),
            Self::Rule { .. } => self.request(owner, libc::RTM_NEWRULE, flags),
            Self::Unreachable { .. } | Self::Here { .. } | Self::Route { .. } => {
                self.request(owner, libc::RTM_NEWROUTE, flags)
            }
        }
    }

    /// The order that adds an address's route in the table `local`, as the kernel adds it with the address.
    pub(crate) fn add_local(device: u32, to: IpAddr) -> Request {
        let mut fixed = [0; FIXED];
        fixed[0] = netlink::family(to);
        fixed[1] = Prefix::host(to).bits();
        fixed[4] = libc::RT_TABLE_LOCAL;
        fixed[5] = libc::RTPROT_KERNEL;
        fixed[6] = libc::RT_SCOPE_HOST;
        fixed[7] = libc::RTN_LOCAL;
        let flags = u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap_or_default();
        let request = Request::set(libc::RTM_NEWROUTE, flags, &fixed)
            .with_address(libc::RTA_DST, to)
            .with(libc::RTA_OIF, &device.to_ne_bytes());
        if to.is_ipv4() { request.with_address(libc::RTA_PREFSRC, to) } else { request }
    }

    /// The order that removes the entry; `None` if the entry goes with its device.
    pub(crate) fn remove(self, owner: Owner) -> Option<Request> {
        match self {
            Self::Device { .. } => None,
            Self::Rule { .. } => Some(self.request(owner, libc::RTM_DELRULE, 0)),
            Self::Unreachable { .. } | Self::Here { .. } | Self::Route { .. } => {
                Some(self.request(owner, libc::RTM_DELROUTE, 0))
            }
        }
    }

    fn request(self, owner: Owner, kind: u16, flags: u16) -> Request {
        let Some((to, table, metric)) = self.place() else {
            return self.rule_request(owner, kind, flags);
        };
        let is_v4 = to.address().is_ipv4();
        let (what, scope) = match self {
            Self::Here { .. } => (libc::RTN_LOCAL, libc::RT_SCOPE_HOST),
            Self::Route { .. } if is_v4 => (libc::RTN_UNICAST, libc::RT_SCOPE_LINK),
            Self::Route { .. } => (libc::RTN_UNICAST, libc::RT_SCOPE_UNIVERSE),
            _ => (libc::RTN_UNREACHABLE, libc::RT_SCOPE_UNIVERSE),
        };
        let mut fixed = [0; FIXED];
        fixed[0] = netlink::family(to.address());
        fixed[1] = to.bits();
        fixed[4] = u8::try_from(table.number()).unwrap_or(libc::RT_TABLE_UNSPEC);
        fixed[5] = owner.protocol();
        fixed[6] = if kind == libc::RTM_DELROUTE { libc::RT_SCOPE_NOWHERE } else { scope };
        fixed[7] = what;
        let request = Request::set(kind, flags, &fixed)
            .with_address(libc::RTA_DST, to.address())
            .with(libc::RTA_TABLE, &table.number().to_ne_bytes());
        match self {
            Self::Route { device, source, .. } => {
                let request = request.with(libc::RTA_OIF, &device.to_ne_bytes());
                match source {
                    Some(source) => request.with_address(libc::RTA_PREFSRC, source),
                    None => request,
                }
            }
            Self::Here { .. } => request.with(libc::RTA_OIF, &LOOPBACK.to_ne_bytes()),
            _ => request.with(libc::RTA_PRIORITY, &metric.to_ne_bytes()),
        }
    }

    fn rule_request(self, owner: Owner, kind: u16, flags: u16) -> Request {
        let mut fixed = [0; FIXED];
        fixed[7] = FR_ACT_TO_TBL;
        let Self::Rule { is_v6, priority, rule } = self else {
            return Request::set(kind, flags, &fixed);
        };
        fixed[0] = family(is_v6);
        let (table, inverted) = match rule {
            Rule::Longer(_) => (Table::Main, 0),
            Rule::Unmarked(table) => (table, FIB_RULE_INVERT),
            Rule::Marked { table, .. } => (table, 0),
        };
        fixed[4] = u8::try_from(table.number()).unwrap_or(libc::RT_TABLE_UNSPEC);
        fixed[8..].copy_from_slice(&inverted.to_ne_bytes());
        let request = Request::set(kind, flags, &fixed)
            .with(FRA_PRIORITY, &priority.to_ne_bytes())
            .with(FRA_TABLE, &table.number().to_ne_bytes())
            .with(FRA_PROTOCOL, &[owner.protocol()]);
        let with_mark = |request: Request, mark: u32, mask: u32| {
            request.with(FRA_FWMARK, &mark.to_ne_bytes()).with(FRA_FWMASK, &mask.to_ne_bytes())
        };
        match rule {
            Rule::Longer(bits) => {
                request.with(FRA_SUPPRESS_PREFIXLEN, &u32::from(bits).to_ne_bytes())
            }
            Rule::Unmarked(_) => with_mark(request, MARK.value(), u32::MAX),
            Rule::Marked { mark, mask, .. } => with_mark(request, mark, mask),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |is_v6: &bool| if *is_v6 { "IPv6" } else { "IPv4" };
        match self {
            Self::Device { device, is } => {
                let name = links::name(*device);
                match is {
                    DeviceState::Up => write!(f, "{name} up"),
                    DeviceState::Group => write!(f, "group {:#x} of {name}", links::GROUP),
                    DeviceState::Queue => write!(f, "queue of {name}"),
                    DeviceState::Mtu(mtu) => write!(f, "MTU {mtu} of {name}"),
                    DeviceState::Address(prefix) => write!(f, "address {prefix} of {name}"),
                }
            }
            Self::Unreachable { to, table } => write!(f, "unreachable {to} in table {table}"),
            Self::Here { is_v6, table } => {
                write!(f, "local {} in table {table}", everything(*is_v6))
            }
            Self::Route { to, table, .. } => write!(f, "route to {to} in table {table}"),
            Self::Rule { is_v6, priority, rule } => {
                write!(f, "{} rule {priority}: ", version(is_v6))?;
                match rule {
                    Rule::Longer(bits) => write!(f, "main, longer than {bits} bits"),
                    Rule::Unmarked(table) => write!(f, "unmarked to table {table}"),
                    Rule::Marked { mark, table, .. } => {
                        write!(f, "marked {mark:#x} to table {table}")
                    }
                }
            }
        }
    }
}

impl Table {
    fn number(self) -> u32 {
        match self {
            Self::Main => MAIN,
            Self::Own(number) => number,
        }
    }

    pub(crate) fn of(number: u32) -> Self {
        if number == MAIN { Self::Main } else { Self::Own(number) }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => f.write_str("main"),
            Self::Own(number) => number.fmt(f),
        }
    }
}

/// A route in the kernel, of any program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    pub(crate) to: Prefix,
    pub(crate) table: Table,
    pub(crate) protocol: u8,
    /// `RTN_…`
    pub(crate) kind: u8,
    pub(crate) device: Option<u32>,
    pub(crate) via: Option<IpAddr>,
    pub(crate) source: Option<IpAddr>,
    /// The kernel omits an IPv4 metric of 0.
    pub(crate) metric: u32,
    /// The configured MTU.
    pub(crate) mtu: Option<u32>,
}

impl Found {
    /// The route in a message.
    pub(crate) fn parse(message: Message<'_>) -> Option<Self> {
        let fixed = message.fixed::<FIXED>()?;
        if !matches!(message.kind, libc::RTM_NEWROUTE | libc::RTM_DELROUTE) {
            return None;
        }
        let (mut to, mut table) = (everything(is_v6(fixed[0])?).address(), u32::from(fixed[4]));
        let (mut device, mut via, mut source, mut metric) = (None, None, None, 0);
        let mut mtu = None;
        for (kind, value) in message.attributes(FIXED) {
            match kind {
                libc::RTA_DST => to = netlink::address(value)?,
                libc::RTA_TABLE => table = netlink::number(value)?,
                libc::RTA_OIF => device = netlink::number(value),
                libc::RTA_GATEWAY => via = netlink::address(value),
                libc::RTA_PREFSRC => source = netlink::address(value),
                libc::RTA_PRIORITY => metric = netlink::number(value)?,
                libc::RTA_METRICS => {
                    let is_mtu = |(kind, _): &(u16, &[u8])| *kind == RTAX_MTU;
                    let its = netlink::attributes(value).find(is_mtu);
                    mtu = its.and_then(|(_, value)| netlink::number(value));
                }
                _ => {}
            }
        }
        let to = Prefix::new(to, fixed[1]).ok()?;
        let (protocol, kind) = (fixed[5], fixed[7]);
        Some(Self { to, table: Table::of(table), protocol, kind, device, via, source, metric, mtu })
    }

    /// The entry of this service that the route stands for, if any.
    pub(crate) fn entry(&self, owner: Owner) -> Option<Entry> {
        let &Self { to, table, source, .. } = self;
        match self.kind {
            // Our routes lead into devices: a route with a router is from a program that uses our number.
            _ if self.protocol != owner.protocol() || self.via.is_some() => None,
            libc::RTN_UNICAST => Some(Entry::Route { to, table, device: self.device?, source }),
            libc::RTN_UNREACHABLE => Some(Entry::Unreachable { to, table }),
            libc::RTN_LOCAL => Some(Entry::Here { is_v6: to.address().is_ipv6(), table }),
            _ => None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        (self.to, self.table, self.metric)
    }
}

/// Whether the kernel delivers packets to an address of an interface. If it does not answer, nothing is certain.
#[must_use]
pub fn is_delivered(netlink: &mut Kernel, index: u32, address: IpAddr) -> bool {
    delivered(netlink, index, &[address].into()).map_or(true, |all| !all.is_empty())
}

/// Those of a device's addresses to which the kernel delivers packets: their routes stand in the table `local`, or in
/// another one if the device is part of a virtual routing table (VRF).
///
/// # Errors
/// When the kernel does not answer.
pub(crate) fn delivered(
    netlink: &mut Kernel,
    device: u32,
    own: &BTreeSet<IpAddr>,
) -> io::Result<BTreeSet<IpAddr>> {
    let local = Table::of(libc::RT_TABLE_LOCAL.into());
    let found = local_routes(netlink, device, Some(local))?;
    let all = if own.is_subset(&found) { found } else { local_routes(netlink, device, None)? };
    Ok(&all & own)
}

fn local_routes(
    netlink: &mut Kernel,
    device: u32,
    table: Option<Table>,
) -> io::Result<BTreeSet<IpAddr>> {
    let mut all = BTreeSet::new();
    for is_v6 in [false, true] {
        let request = routes(is_v6, table, None).with(libc::RTA_OIF, &device.to_ne_bytes());
        let found = netlink.dump(&request, |message, found| {
            // Older kernels answer with all routes.
            let is_its = |it: &Found| {
                let is_host = it.to == Prefix::host(it.to.address());
                it.kind == libc::RTN_LOCAL && it.device == Some(device) && is_host
            };
            found.extend(Found::parse(message).filter(is_its).map(|it| it.to.address()));
        });
        match found {
            // Without IPv6, or without the device.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::ENODEV)
                ) => {}
            found => all.extend(or_no_table(found)?),
        }
    }
    Ok(all)
}

/// As `ip route` writes it.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            libc::RTN_BLACKHOLE => "blackhole ",
            libc::RTN_UNREACHABLE => "unreachable ",
            libc::RTN_PROHIBIT => "prohibit ",
            _ => "",
        })?;
        write!(f, "{}", self.to)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(device) = self.device {
            write!(f, " dev {}", links::name(device))?;
        }
        if let Table::Own(number) = self.table {
            write!(f, " table {number}")?;
        }
        // The default metric of the version is not written.
        if self.metric != 0 {
            write!(f, " metric {}", self.metric)?;
        }
        Ok(())
    }
}

/// The MTU that a message reports of a device; `None` for other messages.
pub(crate) fn mtu_entry(message: Message<'_>) -> Option<Entry> {
    links::mtu_of(message).map(|(device, mtu)| Entry::Device { device, is: DeviceState::Mtu(mtu) })
}

/// The state of a device: whether it is switched on, in our group and has a queue, its MTU and its addresses; nothing if the device
/// is gone.
///
/// # Errors
/// When the kernel does not answer.
pub(crate) fn of_device(netlink: &mut Kernel, device: u32) -> io::Result<BTreeSet<Entry>> {
    let mut found = BTreeSet::new();
    let asked = netlink.ask(&links::get_request(device), |message| {
        let is_on = links::up(message).is_some_and(|(_, is_up)| is_up);
        found.extend(is_on.then_some(Entry::Device { device, is: DeviceState::Up }));
        let has_group = links::group_of(message) == Some(links::GROUP);
        found.extend(has_group.then_some(Entry::Device { device, is: DeviceState::Group }));
        let queue = Entry::Device { device, is: DeviceState::Queue };
        found.extend(links::has_queue(message).then_some(queue));
        found.extend(mtu_entry(message));
    });
    match asked {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(found),
        asked => asked?,
    }
    for (_, address, bits) in links::addresses_of(netlink, Some(device))? {
        let prefix = Prefix::new(address, bits);
        found.extend(prefix.map(|it| Entry::Device { device, is: DeviceState::Address(it) }));
    }
    Ok(found)
}

/// The metric of a route of ours by a device.
pub(crate) fn metric(to: &Prefix) -> u32 {
    if to.address().is_ipv6() { METRIC_V6 } else { 0 }
}

/// Requests the routes of one IP version, optionally of one table or one program. Older kernels answer with all
/// routes.
pub(crate) fn routes(is_v6: bool, table: Option<Table>, protocol: Option<u8>) -> Request {
    let mut fixed = [0; FIXED];
    fixed[0] = family(is_v6);
    fixed[5] = protocol.unwrap_or(libc::RTPROT_UNSPEC);
    let request = Request::dump(libc::RTM_GETROUTE, &fixed);
    match table {
        Some(table) => request.with(libc::RTA_TABLE, &table.number().to_ne_bytes()),
        None => request,
    }
}

/// Takes the error for no routes if no route was ever in the table asked for: the main one too comes with its first
/// route.
pub(crate) fn or_no_table<T>(found: io::Result<Vec<T>>) -> io::Result<Vec<T>> {
    match found {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
        found => found,
    }
}

/// Whether an address family of the kernel is IPv6's; none for other families than both of IP.
pub(crate) fn is_v6(family: u8) -> Option<bool> {
    match i32::from(family) {
        libc::AF_INET => Some(false),
        libc::AF_INET6 => Some(true),
        _ => None,
    }
}

/// The address family of an order or of a question.
pub(crate) fn family(is_v6: bool) -> u8 {
    netlink::family(everything(is_v6).address())
}

/// The network of all addresses.
pub(crate) fn everything(is_v6: bool) -> Prefix {
    let nowhere: IpAddr =
        if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    Prefix::new(nowhere, 0).expect("no bits fit each address")
}
