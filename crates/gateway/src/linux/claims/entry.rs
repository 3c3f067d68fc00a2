//! Encodes and parses our routes and rules in the kernel, marked as ours by their protocol.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ip::Prefix;
use nix::libc;

use crate::linux::netlink::{self, Message, Request};

/// The mark of packets that services send outside: the services' own routes do not apply to them.
pub(crate) const MARK: u32 = 0x7472_776c;
/// The metric of entries that refuse packets: any other route to the same network is better.
const METRIC: u32 = 4_000_000_000;
/// `IP6_RT_PRIO_USER`: the default metric of an IPv6 route; an IPv4 route has 0.
const METRIC_V6: u32 = 1_024;

/// Octets of the fixed part of a route and of a rule; both have the same layout.
const FIXED: usize = 12;
/// `RT_TABLE_MAIN`, as the value of an attribute.
const MAIN: u32 = 254;

// linux/fib_rules.h
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_PROTOCOL: u16 = 21;
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;

/// A route or rule of a service in the kernel, in order of adding: routes that refuse packets first, rules that
/// lead packets to a table last.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Entry {
    /// Packets to a network are refused unless there is a better route.
    Unreachable { to: Prefix, table: Table },
    /// Packets to a network go into the device of this number.
    Route { to: Prefix, table: Table, device: u32 },
    /// A rule for IPv6 or IPv4; its priority decides when the kernel looks at it.
    Rule { is_v6: bool, priority: u32, rule: Rule },
}

/// The service that made a route or a rule, and removes it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Owner {
    #[default]
    Tunnel,
    IpClient,
    Gre,
}

/// A table of routes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Table {
    /// That of everybody.
    Main,
    /// One of our own.
    Own(u32),
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Rule {
    /// The main table's routes decide that are longer than so many bits.
    Longer(u8),
    /// What does not carry our mark goes by a table.
    Unmarked(Table),
}

impl Owner {
    pub(in crate::linux) const ALL: [Self; 3] = [Self::Tunnel, Self::IpClient, Self::Gre];

    /// How `ip route` and `ip rule` show it: numbers that nobody is known to use.
    pub(super) fn protocol(self) -> u8 {
        117 + self.position()
    }

    /// Its place among all.
    pub(super) fn position(self) -> u8 {
        match self {
            Self::Tunnel => 0,
            Self::IpClient => 1,
            Self::Gre => 2,
        }
    }
}

impl Entry {
    /// The order that adds it.
    pub(super) fn add(self, owner: Owner) -> Request {
        let create = |more| u16::try_from(libc::NLM_F_CREATE | more).unwrap_or_default();
        match self {
            Self::Rule { .. } => self.request(owner, libc::RTM_NEWRULE, create(libc::NLM_F_EXCL)),
            Self::Route { table: Table::Main, .. } => {
                self.request(owner, libc::RTM_NEWROUTE, create(libc::NLM_F_EXCL))
            }
            // One with our metric is what another service has left, whose network is ours now. Nobody else has
            // any business in tables of our own.
            Self::Route { .. } | Self::Unreachable { .. } => {
                self.request(owner, libc::RTM_NEWROUTE, create(libc::NLM_F_REPLACE))
            }
        }
    }

    /// The order that removes it.
    pub(super) fn remove(self, owner: Owner) -> Request {
        match self {
            Self::Rule { .. } => self.request(owner, libc::RTM_DELRULE, 0),
            Self::Unreachable { .. } | Self::Route { .. } => {
                self.request(owner, libc::RTM_DELROUTE, 0)
            }
        }
    }

    fn request(self, owner: Owner, kind: u16, flags: u16) -> Request {
        let mut fixed = [0; FIXED];
        match self {
            Self::Unreachable { to, table } | Self::Route { to, table, .. } => {
                fixed[0] = netlink::family(to.address());
                fixed[1] = to.bits();
                fixed[4] = u8::try_from(table.number()).unwrap_or(libc::RT_TABLE_UNSPEC);
                fixed[5] = owner.protocol();
                let is_link = to.address().is_ipv4() && matches!(self, Self::Route { .. });
                fixed[6] = match kind {
                    libc::RTM_DELROUTE => libc::RT_SCOPE_NOWHERE,
                    _ if is_link => libc::RT_SCOPE_LINK,
                    _ => libc::RT_SCOPE_UNIVERSE,
                };
                let request = |fixed: &[u8]| {
                    Request::set(kind, flags, fixed)
                        .with_address(libc::RTA_DST, to.address())
                        .with(libc::RTA_TABLE, &table.number().to_ne_bytes())
                };
                if let Self::Route { device, .. } = self {
                    fixed[7] = libc::RTN_UNICAST;
                    request(&fixed).with(libc::RTA_OIF, &device.to_ne_bytes())
                } else {
                    fixed[7] = libc::RTN_UNREACHABLE;
                    request(&fixed).with(libc::RTA_PRIORITY, &METRIC.to_ne_bytes())
                }
            }
            Self::Rule { is_v6, priority, rule } => {
                fixed[0] = family(is_v6);
                let (table, inverted) = match rule {
                    Rule::Longer(_) => (Table::Main, 0),
                    Rule::Unmarked(table) => (table, FIB_RULE_INVERT),
                };
                fixed[4] = u8::try_from(table.number()).unwrap_or(libc::RT_TABLE_UNSPEC);
                fixed[7] = FR_ACT_TO_TBL;
                fixed[8..].copy_from_slice(&inverted.to_ne_bytes());
                let request = Request::set(kind, flags, &fixed)
                    .with(FRA_PRIORITY, &priority.to_ne_bytes())
                    .with(FRA_TABLE, &table.number().to_ne_bytes())
                    .with(FRA_PROTOCOL, &[owner.protocol()]);
                match rule {
                    Rule::Longer(bits) => {
                        request.with(FRA_SUPPRESS_PREFIXLEN, &u32::from(bits).to_ne_bytes())
                    }
                    Rule::Unmarked(_) => request
                        .with(FRA_FWMARK, &MARK.to_ne_bytes())
                        .with(FRA_FWMASK, &u32::MAX.to_ne_bytes()),
                }
            }
        }
    }

    /// Whether the entry is a route by one of these devices.
    pub(crate) fn is_by(self, devices: &BTreeSet<u32>) -> bool {
        matches!(self, Self::Route { device, .. } if devices.contains(&device))
    }

    /// The entry in a message of the kernel, if the entry belongs to this service.
    pub(super) fn parse(owner: Owner, message: Message<'_>) -> Option<Self> {
        match message.kind {
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let route = Found::parse(message)?;
                let Found { to, table, .. } = route;
                match route.kind {
                    _ if route.protocol != owner.protocol() => None,
                    libc::RTN_UNICAST => Some(Self::Route { to, table, device: route.device? }),
                    libc::RTN_UNREACHABLE => Some(Self::Unreachable { to, table }),
                    _ => None,
                }
            }
            libc::RTM_NEWRULE | libc::RTM_DELRULE => parse_rule(owner, message),
            _ => None,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { to, table } => write!(f, "unreachable {to} in table {table}"),
            Self::Route { to, table, .. } => write!(f, "route to {to} in table {table}"),
            Self::Rule { is_v6, priority, rule } => {
                let family = if *is_v6 { "IPv6" } else { "IPv4" };
                match rule {
                    Rule::Longer(bits) => {
                        write!(f, "{family} rule {priority}: main, longer than {bits} bits")
                    }
                    Rule::Unmarked(table) => {
                        write!(f, "{family} rule {priority}: unmarked to table {table}")
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

    fn of(number: u32) -> Self {
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

/// A route in the kernel, of any owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Found {
    pub(super) to: Prefix,
    pub(super) table: Table,
    pub(super) protocol: u8,
    /// `RTN_…`
    pub(super) kind: u8,
    pub(super) device: Option<u32>,
    pub(super) via: Option<IpAddr>,
    pub(super) metric: Option<u32>,
}

impl Found {
    /// The metric that counts: the kernel tells of none for IPv4 if it is 0.
    pub(super) fn metric(&self) -> u32 {
        self.metric.unwrap_or(0)
    }

    pub(super) fn parse(message: Message<'_>) -> Option<Self> {
        let fixed = message.fixed::<FIXED>()?;
        let nowhere: IpAddr = match i32::from(fixed[0]) {
            libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            libc::AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return None,
        };
        let (mut to, mut table) = (nowhere, u32::from(fixed[4]));
        let (mut device, mut via, mut metric) = (None, None, None);
        for (kind, value) in message.attributes(FIXED) {
            match kind {
                libc::RTA_DST => to = netlink::address(value)?,
                libc::RTA_TABLE => table = netlink::number(value)?,
                libc::RTA_OIF => device = netlink::number(value),
                libc::RTA_GATEWAY => via = netlink::address(value),
                libc::RTA_PRIORITY => metric = netlink::number(value),
                _ => {}
            }
        }
        let to = Prefix::new(to, fixed[1]).ok()?;
        let (protocol, kind) = (fixed[5], fixed[7]);
        Some(Self { to, table: Table::of(table), protocol, kind, device, via, metric })
    }
}

fn parse_rule(owner: Owner, message: Message<'_>) -> Option<Entry> {
    let fixed = message.fixed::<FIXED>()?;
    let is_v6 = match i32::from(fixed[0]) {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    let (mut priority, mut table) = (0, u32::from(fixed[4]));
    let (mut longer, mut is_ours) = (None, false);
    for (kind, value) in message.attributes(FIXED) {
        match kind {
            FRA_PRIORITY => priority = netlink::number(value)?,
            FRA_TABLE => table = netlink::number(value)?,
            FRA_SUPPRESS_PREFIXLEN => {
                longer = netlink::number(value).and_then(|bits| u8::try_from(bits).ok());
            }
            FRA_PROTOCOL => is_ours = value == [owner.protocol()],
            _ => {}
        }
    }
    let rule = match longer {
        Some(bits) => Rule::Longer(bits),
        None => Rule::Unmarked(Table::of(table)),
    };
    is_ours.then_some(Entry::Rule { is_v6, priority, rule })
}

/// The metric of a route of ours by a device.
pub(super) fn metric(to: &Prefix) -> u32 {
    if to.address().is_ipv6() { METRIC_V6 } else { 0 }
}

/// The address family of an order or of a question.
pub(super) fn family(is_v6: bool) -> u8 {
    let nowhere: IpAddr =
        if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    netlink::family(nowhere)
}
