//! Reads the kernel's rules; and finds a packet for each rule of other programs, which may lead packets past ours.

use std::io;
use std::net::IpAddr;

use base::ip::Prefix;
use nix::libc;
use nix::net::if_::if_nametoindex;

use crate::entry::{
    Entry, FIB_RULE_INVERT, FIXED, FRA_FWMARK, FRA_FWMASK, FRA_PRIORITY, FRA_PROTOCOL,
    FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, Found, Owner, Rule, Table, everything, family, is_v6,
};
use crate::links;
use crate::netlink::{self, Kernel, Message, Request};
use crate::numbers::MAIN_PRIORITY;
use crate::routes::{NextHop, Packets, Routes};

// linux/fib_rules.h
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_OIFNAME: u16 = 17;
const FRA_UID_RANGE: u16 = 20;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
/// Actions of rules that refuse packets: `FR_ACT_BLACKHOLE`, `FR_ACT_UNREACHABLE` and `FR_ACT_PROHIBIT`
/// (`linux/fib_rules.h`).
const REFUSALS: [u8; 3] = [6, 7, 8];
/// The interface of this host's own packets.
const LOOPBACK: &str = "lo";

/// A rule in the kernel, of any program, and the packets that it is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chosen {
    /// The priority of the rule.
    pub priority: u32,
    /// The number of the program that made the rule.
    pub(crate) protocol: u8,
    is_v6: bool,
    table: Table,
    /// Only routes longer than so many bits count.
    longer: Option<u32>,
    /// Whether it is for packets by a certain outgoing interface alone.
    has_exit: bool,
    /// Whether the rule is for all other packets than described.
    pub is_inverted: bool,
    /// The name of the incoming interface.
    pub came_by: Option<String>,
    /// The network of the source.
    pub source: Option<Prefix>,
    /// The network of the destination.
    pub destination: Option<Prefix>,
    /// The relevant bits of the mark; 0 if the rule is not by mark.
    pub mask: u32,
    /// Whether the rule itself refuses packets: it is `blackhole`, `unreachable` or `prohibit`.
    pub is_refusal: bool,
    /// The other properties, without interface and source; the first of each range.
    pub packets: Packets,
}

/// The rules of other programs.
///
/// # Errors
/// When the kernel does not tell.
pub fn others_rules(netlink: &mut Kernel, is_v6: bool) -> io::Result<Vec<Chosen>> {
    let rules = rules(netlink, is_v6)?.into_iter();
    Ok(rules.filter(|it| Owner::of(it.protocol).is_none()).collect())
}

/// All rules of a version of IP.
///
/// # Errors
/// When the kernel does not tell.
pub(crate) fn rules(netlink: &mut Kernel, is_v6: bool) -> io::Result<Vec<Chosen>> {
    let mut fixed = [0; FIXED];
    fixed[0] = family(is_v6);
    let request = Request::dump(libc::RTM_GETRULE, &fixed);
    netlink.dump(&request, |message, found| found.extend(Chosen::parse(message)))
}

/// The route or rule in a message of the kernel, if it belongs to this service.
pub(crate) fn entry_of(owner: Owner, message: Message<'_>) -> Option<Entry> {
    match Found::parse(message) {
        Some(route) => route.entry(owner),
        None => Chosen::parse(message)?.entry(owner),
    }
}

impl Chosen {
    /// The rule in a message.
    pub(crate) fn parse(message: Message<'_>) -> Option<Self> {
        let &[family, to, from, tos, table, _, _, action, f0, f1, f2, f3] =
            message.fixed::<FIXED>()?;
        if !matches!(message.kind, libc::RTM_NEWRULE | libc::RTM_DELRULE) {
            return None;
        }
        let mut its = Self {
            priority: 0,
            protocol: libc::RTPROT_UNSPEC,
            is_v6: is_v6(family)?,
            table: Table::of(table.into()),
            longer: None,
            has_exit: false,
            is_inverted: u32::from_ne_bytes([f0, f1, f2, f3]) & FIB_RULE_INVERT != 0,
            came_by: None,
            source: None,
            destination: None,
            mask: 0,
            is_refusal: REFUSALS.contains(&action),
            packets: Packets { tos, ..Packets::default() },
        };
        // The first of a range.
        let port = |value: &[u8]| Some(u16::from_ne_bytes(value.first_chunk().copied()?));
        let network = |value: &[u8], bits: u8| Prefix::new(netlink::address(value)?, bits).ok();
        for (kind, value) in message.attributes(FIXED) {
            match kind {
                FRA_PRIORITY => its.priority = netlink::number(value)?,
                FRA_PROTOCOL => its.protocol = *value.first()?,
                FRA_TABLE => its.table = Table::of(netlink::number(value)?),
                // All ones without this condition.
                FRA_SUPPRESS_PREFIXLEN => {
                    its.longer = netlink::number(value).filter(|bits| *bits != u32::MAX);
                }
                FRA_OIFNAME => its.has_exit = true,
                FRA_DST => its.destination = network(value, to),
                FRA_SRC => its.source = network(value, from),
                FRA_IIFNAME => {
                    let name = value.strip_suffix(b"\0").unwrap_or(value);
                    its.came_by = Some(String::from_utf8_lossy(name).into_owned());
                }
                FRA_FWMARK => its.packets.mark = netlink::number(value)?,
                FRA_FWMASK => its.mask = netlink::number(value)?,
                FRA_UID_RANGE => its.packets.user = value.get(..4).and_then(netlink::number),
                FRA_IP_PROTO => its.packets.protocol = value.first().copied(),
                FRA_SPORT_RANGE => its.packets.source_port = port(value),
                FRA_DPORT_RANGE => its.packets.destination_port = port(value),
                _ => {}
            }
        }
        Some(its)
    }

    /// The entry of this service that the rule stands for, if any: no rule of ours has other conditions than a mark, and
    /// none is for all packets.
    pub(crate) fn entry(&self, owner: Owner) -> Option<Entry> {
        let &Self { is_v6, priority, table, mask, is_inverted, .. } = self;
        let mark = self.packets.mark;
        let has_others = self.has_exit
            || self.came_by.is_some()
            || self.source.is_some()
            || self.destination.is_some()
            || self.packets != Packets { mark, ..Packets::default() };
        if has_others || self.protocol != owner.protocol() {
            return None;
        }
        let rule = match self.longer {
            Some(bits) => Rule::Longer(u8::try_from(bits).ok()?),
            None if mark == 0 => return None,
            None if is_inverted => Rule::Unmarked(table),
            None => Rule::Marked { mark, mask, table },
        };
        Some(Entry::Rule { is_v6, priority, rule })
    }

    /// The destinations for which the rule itself refuses packets, before the main table decides.
    #[must_use]
    pub fn refuses(&self, is_v6: bool) -> Option<Prefix> {
        (self.is_refusal && self.priority < MAIN_PRIORITY)
            .then(|| self.destination.unwrap_or_else(|| everything(is_v6)))
    }

    /// A packet that the rule is for, whatever its mark and destination: of another host where the rule asks for an
    /// interface or a source. None if no such packet can come, or the rule is inverted.
    pub fn example(
        &self,
        netlink: &mut Kernel,
        routes: &mut Routes,
        is_v6: bool,
    ) -> Option<Packets> {
        if self.is_inverted {
            return None;
        }
        let source = self.source.map(host_of);
        let came_by = match (self.came_by.as_deref(), source) {
            (None | Some(LOOPBACK), None) => return Some(self.packets),
            (Some(LOOPBACK), Some(_)) => None,
            (Some(name), _) => Some(if_nametoindex(name).ok()?),
            (None, Some(address)) => {
                // A rule for other protocols may refuse them.
                let answers = Packets { protocol: self.packets.protocol, ..Packets::default() };
                match routes.next_hop(address, &answers) {
                    NextHop::Here => None,
                    hop => Some(hop.interface()?),
                }
            }
        };
        let neighbour = |interface| links::neighbour_of(netlink, interface, is_v6);
        let source = source.or_else(|| came_by.and_then(neighbour))?;
        Some(Packets { came_by, source: Some(source), ..self.packets })
    }
}

/// An address of a network; the first may be no host's.
fn host_of(network: Prefix) -> IpAddr {
    let first = network.network().address();
    let most = if first.is_ipv4() { 30 } else { 126 };
    if network.bits() > most { first } else { links::beside(first, 2) }
}
