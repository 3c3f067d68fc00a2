//! Reads the host's firewalls, and judges the fate of a packet.
//!
//! ```text
//!   nft -j list table …  ─▶ nft     ─┐   iptables-nft-save completes what nft cannot say of them
//!   iptables-legacy-save ─▶ legacy  ─┤
//!   ip xfrm policy       ─▶ ipsec   ─┼▶ Firewalls ── judge(packet, hook) ─▶ Fate: passes, dropped, or may be dropped
//!   tc filter, tc qdisc  ─▶ control ─┘
//! ```
//! Rules of `iptables-nft` are rules of nftables. If a test is not understood, or asks for an unknown property of the
//! packet, both outcomes are followed. Our own tables are passed over.

mod control;
mod ipsec;
mod legacy;
mod nft;
mod tool;
mod way;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use base::ip::{Prefix, protocol};
use host::numbers::Mark;
use host::{Owner, beside};

pub use tool::ask;
pub use way::{LOOPBACK, Seen, Way};

/// Prefix of our own tables' names.
const OURS: &str = "trackway";
/// Tables of others that are read at most.
const MOST: usize = 64;
/// Jumps followed by a packet at most; nftables has the same limit.
const DEEPEST: usize = 16;

/// All firewalls of this host.
#[derive(Clone, Debug, Default)]
pub struct Firewalls {
    chains: BTreeMap<ChainName, Chain>,
    /// What could not be read, each with the remedy.
    unread: Vec<(String, String)>,
    /// Chains that drop packets at hooks that are not judged here, such as hooks of bridges.
    unjudged: Vec<ChainName>,
}

/// Identifies a chain: the program, the table with the family, and the chain's own name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ChainName {
    program: &'static str,
    table: String,
    chain: String,
}

/// Where the kernel asks a chain.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Hook {
    /// At an interface, before anything else sees the packet.
    Ingress,
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
    /// At an interface, behind everything else.
    Egress,
    /// For requests and answers of ARP alone.
    ArpInput,
    ArpOutput,
}

#[derive(Clone, Debug, Default)]
struct Chain {
    /// Where the kernel enters the chain; none if only other chains lead here.
    base: Option<Base>,
    /// Whether the chain sees packets of IPv4, and of IPv6.
    versions: [bool; 2],
    /// At ingress and egress: the interfaces.
    devices: Vec<String>,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug)]
struct Base {
    hook: Hook,
    priority: i64,
    drops: bool,
}

#[derive(Clone, Debug, Default)]
struct Rule {
    /// Number by which people find the rule: its handle, or its place in the chain, counted from 1.
    place: u64,
    tests: Vec<Test>,
    /// How the rule changes the packet's mark, if at all.
    marks: Option<Marking>,
    /// Whether it gives the packet another destination.
    redirects: bool,
    /// Whether it keeps the packet from connection tracking.
    untracks: bool,
    verdict: Option<Verdict>,
}

/// A change of a packet's firewall mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Marking {
    /// The rule sets this mark.
    To(u32),
    /// The new mark follows from something else.
    Unknown,
}

impl Marking {
    /// The new mark, if Trackway uses it.
    pub fn ours(self) -> Option<u32> {
        match self {
            Self::To(mark) => Some(mark).filter(|mark| Mark::is_ours(*mark)),
            Self::Unknown => None,
        }
    }
}

/// A condition of a rule; `is_not` turns it round.
#[derive(Clone, Debug)]
struct Test {
    asks: Asks,
    is_not: bool,
}

#[derive(Clone, Debug)]
enum Asks {
    /// The interface by which the packet came; a star stands for any end.
    CameBy(Vec<String>),
    LeavesBy(Vec<String>),
    From(Vec<Range>),
    To(Vec<Range>),
    Version(bool),
    /// For ARP; with a value, for its requests alone, or for other messages.
    Arp(Option<bool>),
    Protocols(Vec<u8>),
    FromPort(Vec<(u16, u16)>),
    ToPort(Vec<(u16, u16)>),
    Marks(Vec<u32>),
    /// The state of the connection: whether those of a new flow, of an answer, and of what is not tracked, are among
    /// those asked for.
    Tracked {
        new: bool,
        answer: Option<bool>,
        nothing: bool,
    },
    /// Whether the route back to the source leads to the interface by which the packet came.
    ReturnsByTheSameWay,
    Unknown,
}

/// Addresses from the first to the last.
type Range = (IpAddr, IpAddr);

#[derive(Clone, Debug)]
enum Verdict {
    Accept,
    Drop,
    Goto(String),
    Jump(String),
    Return,
    /// A map of verdicts that is not understood, or a program's decision.
    Any,
}

/// The state of a packet's connection, as the kernel tracks it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connection {
    /// The packet answers another.
    Answer,
    /// The packet begins a flow.
    New,
    /// The kernel tracks no such packets: messages of neighbour discovery (RFC 4861).
    Nothing,
    /// Perhaps the packet is not tracked.
    Unknown,
}

/// The known properties of a packet.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) is_v4: bool,
    /// Whether it is a request, if it is no packet of IP, but a message of ARP.
    pub(crate) arp: Option<bool>,
    pub(crate) protocol: Option<u8>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) source_port: Option<u16>,
    pub(crate) destination_port: Option<u16>,
    /// Empty if this host sends the packet.
    pub(crate) came_by: Option<String>,
    pub(crate) leaves_by: Option<String>,
    pub(crate) mark: Option<u32>,
    /// Whether the route back to the source leads to the incoming interface.
    pub(crate) returns: Option<bool>,
    pub(crate) connection: Connection,
}

impl Packet {
    /// The first packet of a flow, with nothing known but the version of IP.
    pub fn unknown(is_v4: bool) -> Self {
        Self {
            is_v4,
            arp: None,
            protocol: None,
            source: None,
            destination: None,
            source_port: None,
            destination_port: None,
            came_by: None,
            leaves_by: None,
            mark: None,
            returns: None,
            connection: Connection::New,
        }
    }
}

/// What becomes of a packet at a hook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    Passes,
    Dropped(Culprit),
    MayBeDropped(Culprit),
}

/// Who drops a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Culprit {
    /// The base chain.
    pub(crate) chain: ChainName,
    /// The rule's chain and place; none for the base chain's policy.
    rule: Option<(ChainName, u64)>,
}

/// Whether a test holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Truth {
    No,
    Maybe,
    Yes,
}

/// How a packet may leave a chain.
#[derive(Clone, Debug, Default)]
struct Ends {
    accepted: bool,
    dropped: Option<(ChainName, u64)>,
    /// At its end, or by `return`.
    falls_out: bool,
    /// A rule that may have changed its mark, and how.
    marked: Option<((ChainName, u64), Marking)>,
    /// A rule that may have given it another destination.
    redirected: Option<(ChainName, u64)>,
    /// A rule that may have kept it from connection tracking.
    untracked: Option<(ChainName, u64)>,
}

impl Firewalls {
    /// Reads all of them. What cannot be read is told by [`Self::unread`].
    pub fn read() -> Self {
        let mut all = Self::default();
        match ask("nft", &["list", "tables"], "").and_then(|answer| answer.success()) {
            Ok(said) => all.read_tables(&String::from_utf8_lossy(&said)),
            Err(why) => all.unread.push((
                format!("rules of nftables cannot be read: {why}"),
                "run it as root, with nftables installed: apt install nftables".to_owned(),
            )),
        }
        legacy::complete(&mut all);
        legacy::read(&mut all);
        ipsec::read(&mut all);
        control::read(&mut all);
        all
    }

    /// Reads our own walls alone: chains that keep packets which services delivered here from leaving in
    /// clear.
    pub fn walls() -> Self {
        let mut all = Self::default();
        for owner in Owner::ALL {
            let words = ["-j", "list", "chain", "inet", owner.table(), beside::CHAIN];
            let said = ask("nft", &words, "").and_then(|answer| answer.success());
            // Where nothing is walled off there is no such chain.
            if let Some(said) = said.ok().and_then(|said| serde_json::from_slice(&said).ok()) {
                nft::add(&mut all, &said, true);
            }
        }
        all
    }

    /// Reads the tables of others, named as `nft list tables` does: `table inet filter` in each line. Each is asked for
    /// alone, because `nft` 1.0.6 writes whatever stands in memory for the flag of a table with an owner, as ours are,
    /// and nothing at all if that is no text.
    fn read_tables(&mut self, named: &str) {
        let tables = named.lines().filter_map(|line| line.strip_prefix("table ")?.split_once(' '));
        let others: Vec<_> = tables.filter(|(_, name)| !name.starts_with(OURS)).collect();
        if others.len() > MOST {
            let what = format!("of {} tables of nftables only {MOST} are read", others.len());
            self.unread.push((what, "look at the others: nft list ruleset".to_owned()));
        }
        for (family, name) in others.into_iter().take(MOST) {
            let unread = |why| {
                let what = format!("`nft -j list table {family} {name}` cannot be read: {why}");
                (what, "apt install nftables (1.0.1 or later)".to_owned())
            };
            let answer = match ask("nft", &["-j", "list", "table", family, name], "") {
                Ok(answer) => answer,
                // The other tables would take as long.
                Err(why) => return self.unread.push(unread(why)),
            };
            let read = answer
                .success()
                .and_then(|said| serde_json::from_slice(&said).map_err(|why| why.to_string()));
            match read {
                Ok(mut ruleset) => {
                    if nft::lacks_devices(&ruleset)
                        && let Ok(said) = ask("nft", &["list", "table", family, name], "")
                            .and_then(|answer| answer.success())
                    {
                        nft::add_devices(&mut ruleset, &String::from_utf8_lossy(&said));
                    }
                    nft::add(self, &ruleset, false);
                }
                Err(why) => self.unread.push(unread(why)),
            }
        }
    }

    /// The rules of nftables alone.
    #[cfg(test)]
    pub fn of_nft(ruleset: &serde_json::Value) -> Self {
        let mut all = Self::default();
        nft::add(&mut all, ruleset, false);
        all
    }

    /// What could not be read, and the remedy of each.
    pub fn unread(&self) -> &[(String, String)] {
        &self.unread
    }

    /// What the chains at a hook do with a packet.
    pub fn judge(&self, packet: &Packet, hook: Hook) -> Fate {
        let mut doubt = None;
        for (base, name, mut ends) in self.pass(packet, hook) {
            let rule = ends.dropped.take();
            let is_dropped = rule.is_some() || ends.falls_out && base.drops;
            let culprit = Culprit { chain: name.clone(), rule };
            let passes = ends.accepted || ends.falls_out && !base.drops;
            match (is_dropped, passes) {
                (true, false) => return Fate::Dropped(culprit),
                (true, true) => doubt = doubt.or(Some(culprit)),
                (false, _) => {}
            }
        }
        doubt.map_or(Fate::Passes, Fate::MayBeDropped)
    }

    /// A rule at a hook, from this priority on, that may change the mark of a packet, and how, if there is one.
    pub fn marks(&self, packet: &Packet, hook: Hook, from: i64) -> Option<(Culprit, Marking)> {
        let later = self.pass(packet, hook).into_iter().filter(|(base, ..)| base.priority >= from);
        later.into_iter().find_map(|(_, chain, ends)| {
            let (rule, marking) = ends.marked?;
            Some((Culprit { chain: chain.clone(), rule: Some(rule) }, marking))
        })
    }

    /// A rule at a hook that may give a packet another destination, if any.
    pub fn redirects(&self, packet: &Packet, hook: Hook) -> Option<Culprit> {
        self.first(packet, hook, |ends| ends.redirected)
    }

    /// A rule at a hook that may keep a packet from connection tracking, if any.
    pub fn untracks(&self, packet: &Packet, hook: Hook) -> Option<Culprit> {
        self.first(packet, hook, |ends| ends.untracked)
    }

    fn first(
        &self,
        packet: &Packet,
        hook: Hook,
        which: impl Fn(Ends) -> Option<(ChainName, u64)>,
    ) -> Option<Culprit> {
        self.pass(packet, hook).into_iter().find_map(|(_, chain, ends)| {
            which(ends).map(|rule| Culprit { chain: chain.clone(), rule: Some(rule) })
        })
    }

    /// Chains that may drop packets at hooks that are not judged.
    pub fn unjudged(&self) -> &[ChainName] {
        &self.unjudged
    }

    /// Rules beside the chains for all of IP that may drop packets, by what is not understood or not known.
    pub fn doubts(&self) -> Vec<Culprit> {
        let doubts = |rule: &&Rule| match rule.verdict {
            Some(Verdict::Any) => true,
            Some(Verdict::Drop) => rule.has_unknown(),
            _ => false,
        };
        let all = self.chains.iter().flat_map(|(name, chain)| {
            let rules = chain.rules.iter().filter(doubts);
            rules
                .map(|rule| Culprit { chain: name.clone(), rule: Some((name.clone(), rule.place)) })
        });
        all.filter(Culprit::is_beside).collect()
    }

    /// A rule that keeps packets from connection tracking, if there is a rule that drops what is not tracked.
    pub fn drops_untracked(&self) -> Option<(Culprit, Culprit)> {
        let find = |is_it: &dyn Fn(&Rule) -> bool| {
            self.chains.iter().find_map(|(chain, its)| {
                let rule = its.rules.iter().find(|rule| is_it(rule))?;
                let (rule, chain) = (Some((chain.clone(), rule.place)), chain.clone());
                Some(Culprit { chain, rule })
            })
        };
        let is_neither = |test: &Test| {
            matches!(test.asks, Asks::Tracked { new: false, answer: Some(false), .. })
        };
        let drops = |rule: &Rule| {
            matches!(rule.verdict, Some(Verdict::Drop)) && rule.tests.iter().any(is_neither)
        };
        Some((find(&|rule| rule.untracks)?, find(&drops)?))
    }

    /// A rule that gives packets a mark of ours, and the mark.
    pub fn takes_for_ours(&self) -> Option<(Culprit, u32)> {
        self.chains.iter().find_map(|(name, chain)| {
            chain.rules.iter().find_map(|rule| {
                let mark = rule.marks.and_then(Marking::ours)?;
                let rule = Some((name.clone(), rule.place));
                Some((Culprit { chain: name.clone(), rule }, mark))
            })
        })
    }

    /// How a packet may leave each chain at a hook, in the kernel's order.
    fn pass(&self, packet: &Packet, hook: Hook) -> Vec<(Base, &ChainName, Ends)> {
        let version = usize::from(!packet.is_v4);
        let device = if hook == Hook::Ingress { &packet.came_by } else { &packet.leaves_by };
        let asked = self.chains.iter().filter_map(|(name, chain)| {
            let base = chain.base.filter(|base| base.hook == hook && chain.versions[version])?;
            let is_there = !matches!(hook, Hook::Ingress | Hook::Egress)
                || device.as_ref().is_some_and(|it| chain.devices.contains(it));
            is_there.then_some((base, name, chain))
        });
        let mut asked: Vec<_> = asked.collect();
        asked.sort_by_key(|(base, name, _)| (base.priority, *name));
        let (mut packet, mut known) = (packet.clone(), BTreeMap::new());
        let walk = |(base, name, chain): (Base, _, _)| {
            let ends = self.walk(name, chain, &packet, &mut known, 0);
            if ends.marked.is_some() {
                packet.mark = None;
                known.clear();
            }
            if ends.redirected.is_some() {
                (packet.destination, packet.destination_port) = (None, None);
                known.clear();
            }
            if ends.untracked.is_some() {
                packet.connection = Connection::Unknown;
                known.clear();
            }
            (base, name, ends)
        };
        asked.into_iter().map(walk).collect()
    }

    /// Chains with a test of the reverse path: they may drop packets whose answers would leave by another interface.
    pub fn by_reverse_path(&self) -> Vec<&ChainName> {
        let tests = |rule: &Rule| {
            rule.tests.iter().any(|test| matches!(test.asks, Asks::ReturnsByTheSameWay))
        };
        let all = self.chains.iter().filter(|(_, chain)| chain.rules.iter().any(tests));
        all.map(|(name, _)| name).collect()
    }

    /// How a packet may leave a chain; `known` holds the answers so far, so that each chain is walked once.
    fn walk(
        &self,
        name: &ChainName,
        chain: &Chain,
        packet: &Packet,
        known: &mut BTreeMap<ChainName, Ends>,
        depth: usize,
    ) -> Ends {
        if let Some(ends) = known.get(name) {
            return ends.clone();
        }
        let mut ends = Ends::default();
        let mut is_left = false;
        for rule in &chain.rules {
            let truth = rule.truth(packet);
            if let Some(marking) = rule.marks.filter(|_| truth != Truth::No) {
                ends.marked.get_or_insert_with(|| ((name.clone(), rule.place), marking));
            }
            if rule.redirects && truth != Truth::No {
                ends.redirected.get_or_insert_with(|| (name.clone(), rule.place));
            }
            if rule.untracks && truth != Truth::No {
                ends.untracked.get_or_insert_with(|| (name.clone(), rule.place));
            }
            let Some(verdict) = rule.verdict.as_ref().filter(|_| truth != Truth::No) else {
                continue;
            };
            let is_sure = truth == Truth::Yes;
            is_left = match verdict {
                Verdict::Accept => {
                    ends.accepted = true;
                    is_sure
                }
                Verdict::Drop => {
                    ends.dropped.get_or_insert_with(|| (name.clone(), rule.place));
                    is_sure
                }
                Verdict::Return => {
                    ends.falls_out = true;
                    is_sure
                }
                Verdict::Any => {
                    ends.dropped.get_or_insert_with(|| (name.clone(), rule.place));
                    ends.accepted = true;
                    false
                }
                Verdict::Goto(target) | Verdict::Jump(target) => {
                    let target = ChainName { chain: target.clone(), ..name.clone() };
                    let inner = match self.chains.get(&target) {
                        Some(chain) if depth < DEEPEST => {
                            self.walk(&target, chain, packet, known, depth + 1)
                        }
                        _ => Ends { falls_out: true, ..Ends::default() },
                    };
                    ends.accepted |= inner.accepted;
                    ends.dropped = ends.dropped.take().or(inner.dropped);
                    ends.marked = ends.marked.take().or(inner.marked);
                    ends.redirected = ends.redirected.take().or(inner.redirected);
                    ends.untracked = ends.untracked.take().or(inner.untracked);
                    let is_goto = matches!(verdict, Verdict::Goto(_));
                    ends.falls_out |= is_goto && inner.falls_out;
                    is_sure && (is_goto || !inner.falls_out)
                }
            };
            if is_left {
                break;
            }
        }
        ends.falls_out |= !is_left;
        known.insert(name.clone(), ends.clone());
        ends
    }
}

impl Rule {
    /// Whether a test is not understood.
    fn has_unknown(&self) -> bool {
        self.tests.iter().any(|test| matches!(test.asks, Asks::Unknown))
    }

    fn truth(&self, packet: &Packet) -> Truth {
        let mut truth = Truth::Yes;
        for test in &self.tests {
            match test.truth(packet) {
                Truth::No => return Truth::No,
                Truth::Maybe => truth = Truth::Maybe,
                Truth::Yes => {}
            }
        }
        truth
    }
}

impl Test {
    fn new(asks: Asks) -> Self {
        Self { asks, is_not: false }
    }

    fn truth(&self, packet: &Packet) -> Truth {
        match (self.asks.holds(packet), self.is_not) {
            (None, _) => Truth::Maybe,
            (Some(holds), is_not) if holds != is_not => Truth::Yes,
            (Some(_), _) => Truth::No,
        }
    }
}

impl Asks {
    /// Whether the condition holds for the packet; `None` if unknown.
    fn holds(&self, packet: &Packet) -> Option<bool> {
        let named = |names: &[String], name: &Option<String>| {
            name.as_ref().map(|name| names.iter().any(|it| fits(it, name)))
        };
        let within = |ranges: &[Range], address: Option<IpAddr>| {
            address.map(|it| {
                let has = |(first, last): &Range| {
                    first.is_ipv4() == it.is_ipv4() && (*first..=*last).contains(&it)
                };
                ranges.iter().any(has)
            })
        };
        let among = |ranges: &[(u16, u16)], port: Option<u16>| {
            port.map(|port| ranges.iter().any(|(first, last)| (*first..=*last).contains(&port)))
        };
        match self {
            Self::CameBy(names) => named(names, &packet.came_by),
            Self::LeavesBy(names) => named(names, &packet.leaves_by),
            Self::From(ranges) => within(ranges, packet.source),
            Self::To(ranges) => within(ranges, packet.destination),
            Self::Version(is_v4) => Some(packet.arp.is_none() && *is_v4 == packet.is_v4),
            Self::Arp(which) => {
                Some(packet.arp.is_some_and(|it| which.is_none_or(|which| it == which)))
            }
            Self::Protocols(_) if packet.arp.is_some() => Some(false),
            Self::Protocols(all) => packet.protocol.map(|it| all.contains(&it)),
            Self::FromPort(ranges) => among(ranges, packet.source_port),
            Self::ToPort(ranges) => among(ranges, packet.destination_port),
            Self::Marks(all) => packet.mark.map(|mark| all.contains(&mark)),
            Self::Tracked { new, answer, nothing } => match packet.connection {
                Connection::Answer => *answer,
                Connection::New => Some(*new),
                Connection::Nothing => Some(*nothing),
                Connection::Unknown => None,
            },
            Self::ReturnsByTheSameWay => packet.returns,
            Self::Unknown => None,
        }
    }
}

/// Whether a name of an interface in a rule stands for this one.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// All addresses of a prefix.
fn range(prefix: Prefix) -> Range {
    let first = prefix.network().address();
    let last = match first {
        IpAddr::V4(first) => {
            let hosts = u32::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
            IpAddr::V4((first.to_bits() | hosts).into())
        }
        IpAddr::V6(first) => {
            let hosts = u128::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
            IpAddr::V6((first.to_bits() | hosts).into())
        }
    };
    (first, last)
}

/// The number of a protocol that a rule names.
fn protocol_named(name: &str) -> Option<u8> {
    Some(match name {
        "icmp" => 1,
        "igmp" => 2,
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "dccp" => 33,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "icmpv6" | "ipv6-icmp" => 58,
        "ospf" => 89,
        "vrrp" => 112,
        "comp" => 108,
        "sctp" => 132,
        "udplite" => 136,
        _ => return name.parse().ok(),
    })
}

impl Culprit {
    /// The command that lets packets pass: `in_nft` and `in_iptables` describe them in the words of each program.
    pub fn remedy(&self, in_nft: &str, in_iptables: &str) -> String {
        let ChainName { program, table, chain } = &self.chain;
        match (*program, &self.rule) {
            (ipsec::PROGRAM, Some((_, index))) => {
                format!("ip xfrm policy delete index {index} dir {chain}")
            }
            (ipsec::PROGRAM, None) => format!("ip xfrm policy setdefault {chain} accept"),
            (control::PROGRAM, Some((_, pref))) => match &chain[..] {
                "ingress" | "egress" => format!("tc filter del dev {table} {chain} pref {pref}"),
                _ => format!("tc filter del dev {table} parent {chain} pref {pref}"),
            },
            (control::PROGRAM, None) => format!("tc qdisc del dev {table} root"),
            _ => self.chain.remedy(in_nft, in_iptables),
        }
    }

    /// The command that shows it.
    pub fn shown_by(&self) -> String {
        let ChainName { program, table, chain } = &self.chain;
        match *program {
            ipsec::PROGRAM => "ip xfrm policy".to_owned(),
            control::PROGRAM => match &chain[..] {
                "ingress" | "egress" => format!("tc filter show dev {table} {chain}"),
                _ => format!("tc filter show dev {table}"),
            },
            _ => format!("nft list chain {table} {chain}"),
        }
    }

    /// Whether it is at an interface, where connections are not tracked.
    pub fn is_stateless(&self) -> bool {
        self.chain.table.starts_with("netdev ")
    }

    /// Whether it is of a table for ARP.
    pub fn is_of_arp(&self) -> bool {
        self.chain.table.starts_with("arp ")
    }

    /// Whether it is beside the chains for all of IP: at an interface, in traffic control, or of IPsec.
    pub fn is_beside(&self) -> bool {
        self.is_stateless() || [ipsec::PROGRAM, control::PROGRAM].contains(&self.chain.program)
    }
}

impl ChainName {
    fn remedy(&self, in_nft: &str, in_iptables: &str) -> String {
        let Self { program, table, chain } = self;
        match *program {
            "nft" => format!("nft insert rule {table} {chain} {in_nft} accept"),
            program => format!("{program} -t {table} -I {chain} {in_iptables} -j ACCEPT"),
        }
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program {
            "nft" => write!(f, "{} {}", self.table, self.chain),
            program => write!(f, "{} {} of {program}", self.table, self.chain),
        }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChainName { program, table, chain } = &self.chain;
        match &self.rule {
            Some((_, index)) if *program == ipsec::PROGRAM => write!(f, "policy {index} of IPsec"),
            None if *program == ipsec::PROGRAM => write!(f, "the default policy of IPsec"),
            Some((_, pref)) if *program == control::PROGRAM => {
                write!(f, "the filter of preference {pref} at {chain} of {table}")
            }
            None if *program == control::PROGRAM => {
                write!(f, "the queueing discipline of {table}")
            }
            Some((chain, place)) if chain.program == "nft" => {
                write!(f, "the rule with handle {place} in chain {chain}")
            }
            Some((chain, place)) => write!(f, "rule {place} of chain {chain}"),
            None => write!(f, "the policy of chain {}", self.chain),
        }
    }
}

#[cfg(test)]
mod tests;
