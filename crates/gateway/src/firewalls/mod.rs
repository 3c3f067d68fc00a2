//! Reads the host's firewall rules, and evaluates which packets they drop.
//!
//! ```text
//!   nft -j list table …  ─▶ nft     ─┐   iptables-nft-save adds the matches that nft cannot write as JSON
//!   iptables-legacy-save ─▶ legacy  ─┤
//!   ip xfrm policy       ─▶ ipsec   ─┼▶ Firewalls ── judge(packet, hook) ─▶ Fate: passes, dropped, or may be dropped
//!   tc filter, tc qdisc  ─▶ control ─┘
//! ```
//! Rules of `iptables-nft` are rules of nftables. If a match is not understood, or needs an unknown property of the
//! packet, the evaluation follows both outcomes. Our own tables are skipped.

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
/// Limit on the tables of other programs to read.
const MOST: usize = 64;
/// Limit on nested jumps; nftables has the same.
const DEEPEST: usize = 16;

/// All firewall rules of the host.
#[derive(Clone, Debug, Default)]
pub struct Firewalls {
    chains: BTreeMap<ChainName, Chain>,
    /// Rulesets that could not be read, each with its remedy.
    unread: Vec<(String, String)>,
    /// Dropping chains at unsupported hooks, such as bridge hooks.
    unjudged: Vec<ChainName>,
}

/// Identifies a chain: the program, the table with the family, and the chain's own name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ChainName {
    program: &'static str,
    table: String,
    chain: String,
}

/// A hook: the point on a packet's path at which the kernel runs base chains.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Hook {
    /// At the incoming interface, before all other hooks.
    Ingress,
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
    /// At the outgoing interface, after all other hooks.
    Egress,
    /// Only for ARP requests and replies.
    ArpInput,
    ArpOutput,
}

#[derive(Clone, Debug, Default)]
struct Chain {
    /// The hook of a base chain; `None` for a chain that only jumps reach.
    base: Option<Base>,
    /// Whether the chain sees IPv4 packets, and IPv6 packets.
    versions: [bool; 2],
    /// The interfaces of a chain at ingress or egress.
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
    /// The handle of an nftables rule, or the position of an iptables rule in its chain, from 1.
    place: u64,
    tests: Vec<Test>,
    /// How the rule changes the packet's mark, if at all.
    marks: Option<Marking>,
    /// Whether the rule changes the packet's destination.
    redirects: bool,
    /// Whether the rule exempts the packet from connection tracking.
    untracks: bool,
    verdict: Option<Verdict>,
}

/// A change of a packet's firewall mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Marking {
    /// The rule sets this mark.
    To(u32),
    /// The rule computes the mark, for example from the connection's mark.
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

/// A condition of a rule: one match, perhaps inverted.
#[derive(Clone, Debug)]
struct Test {
    of: Match,
    is_inverted: bool,
}

#[derive(Clone, Debug)]
enum Match {
    /// Names of interfaces; a name may end in the wildcard `*`.
    CameBy(Vec<String>),
    LeavesBy(Vec<String>),
    From(Vec<Range>),
    To(Vec<Range>),
    Version(bool),
    /// Any ARP message, or only requests (`true`), or only replies (`false`).
    Arp(Option<bool>),
    Protocols(Vec<u8>),
    FromPort(Vec<(u16, u16)>),
    ToPort(Vec<(u16, u16)>),
    Marks(Vec<u32>),
    /// The matching states of connection tracking; `established` is `None` if only some replies match.
    State {
        new: bool,
        established: Option<bool>,
        untracked: bool,
    },
    /// Whether the route to the packet's source leaves by the incoming interface.
    ReversePath,
    Unknown,
}

/// A range of addresses: the first and the last.
type Range = (IpAddr, IpAddr);

#[derive(Clone, Debug)]
enum Verdict {
    Accept,
    Drop,
    Goto(String),
    Jump(String),
    Return,
    /// Not known: a verdict map that is not understood, or a queue to a program.
    Any,
}

/// A packet's state in connection tracking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connection {
    /// A reply in a connection that exists.
    Established,
    /// The first packet of a connection.
    New,
    /// The kernel does not track neighbour discovery (RFC 4861).
    Untracked,
    /// A rule may have exempted the packet.
    Unknown,
}

/// The known properties of a packet.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) is_v4: bool,
    /// For an ARP message: whether it is a request. `None` for an IP packet.
    pub(crate) arp: Option<bool>,
    pub(crate) protocol: Option<u8>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) source_port: Option<u16>,
    pub(crate) destination_port: Option<u16>,
    /// The incoming interface; an empty name if this host sends the packet.
    pub(crate) came_by: Option<String>,
    pub(crate) leaves_by: Option<String>,
    pub(crate) mark: Option<u32>,
    /// Whether the route back to the source leads to the incoming interface.
    pub(crate) returns: Option<bool>,
    pub(crate) connection: Connection,
}

impl Packet {
    /// The first packet of a connection, of which only the IP version is known.
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

/// The outcome for a packet at a hook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    Passes,
    Dropped(Culprit),
    MayBeDropped(Culprit),
}

/// The rule or the chain policy that drops a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Culprit {
    /// The base chain.
    pub(crate) chain: ChainName,
    /// The rule's chain and place; `None` for the base chain's policy.
    rule: Option<(ChainName, u64)>,
}

/// Whether a test holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Truth {
    No,
    Maybe,
    Yes,
}

/// All possible outcomes of a chain for a packet, and the rules behind them.
#[derive(Clone, Debug, Default)]
struct Outcomes {
    accepted: bool,
    dropped: Option<(ChainName, u64)>,
    /// The packet reaches the chain's end, or a `return`.
    returns: bool,
    /// The rule that may change the packet's mark, and how.
    marked: Option<((ChainName, u64), Marking)>,
    /// The rule that may change the packet's destination.
    redirected: Option<(ChainName, u64)>,
    /// The rule that may exempt the packet from connection tracking.
    untracked: Option<(ChainName, u64)>,
}

impl Firewalls {
    /// Reads the rules of all programs. [`Self::unread`] lists the failures.
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

    /// Reads only our own chains against leaks: they drop decrypted packets that would leave in clear.
    pub fn walls() -> Self {
        let mut all = Self::default();
        for owner in Owner::ALL {
            let words = ["-j", "list", "chain", "inet", owner.table(), beside::CHAIN];
            let said = ask("nft", &words, "").and_then(|answer| answer.success());
            // A service without such a wall has no chain.
            if let Some(said) = said.ok().and_then(|said| serde_json::from_slice(&said).ok()) {
                nft::add(&mut all, &said, true);
            }
        }
        all
    }

    /// Reads the tables of other programs; `named` is the output of `nft list tables`, such as `table inet filter`.
    ///
    /// Each table is read by its own command: listing a table with an owner, such as ours, makes `nft` 1.0.6 print
    /// uninitialised memory or nothing at all.
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
                // A program that hangs would hang for the other tables, too.
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

    /// Only rules of nftables.
    #[cfg(test)]
    pub fn of_nft(ruleset: &serde_json::Value) -> Self {
        let mut all = Self::default();
        nft::add(&mut all, ruleset, false);
        all
    }

    /// The rulesets that could not be read, each with its remedy.
    pub fn unread(&self) -> &[(String, String)] {
        &self.unread
    }

    /// Runs a packet through all chains at a hook.
    pub fn judge(&self, packet: &Packet, hook: Hook) -> Fate {
        let mut doubt = None;
        for (base, name, mut outcomes) in self.pass(packet, hook) {
            let rule = outcomes.dropped.take();
            let is_dropped = rule.is_some() || outcomes.returns && base.drops;
            let culprit = Culprit { chain: name.clone(), rule };
            let passes = outcomes.accepted || outcomes.returns && !base.drops;
            match (is_dropped, passes) {
                (true, false) => return Fate::Dropped(culprit),
                (true, true) => doubt = doubt.or(Some(culprit)),
                (false, _) => {}
            }
        }
        doubt.map_or(Fate::Passes, Fate::MayBeDropped)
    }

    /// The first rule at a hook, from this priority on, that may change the packet's mark; and the change.
    pub fn marks(&self, packet: &Packet, hook: Hook, from: i64) -> Option<(Culprit, Marking)> {
        let later = self.pass(packet, hook).into_iter().filter(|(base, ..)| base.priority >= from);
        later.into_iter().find_map(|(_, chain, outcomes)| {
            let (rule, marking) = outcomes.marked?;
            Some((Culprit { chain: chain.clone(), rule: Some(rule) }, marking))
        })
    }

    /// The first rule at a hook that may change the packet's destination.
    pub fn redirects(&self, packet: &Packet, hook: Hook) -> Option<Culprit> {
        self.first(packet, hook, |outcomes| outcomes.redirected)
    }

    /// The first rule at a hook that may exempt the packet from connection tracking.
    pub fn untracks(&self, packet: &Packet, hook: Hook) -> Option<Culprit> {
        self.first(packet, hook, |outcomes| outcomes.untracked)
    }

    fn first(
        &self,
        packet: &Packet,
        hook: Hook,
        which: impl Fn(Outcomes) -> Option<(ChainName, u64)>,
    ) -> Option<Culprit> {
        self.pass(packet, hook).into_iter().find_map(|(_, chain, outcomes)| {
            which(outcomes).map(|rule| Culprit { chain: chain.clone(), rule: Some(rule) })
        })
    }

    /// Dropping chains at unsupported hooks.
    pub fn unjudged(&self) -> &[ChainName] {
        &self.unjudged
    }

    /// Rules outside of the IP hooks whose outcome is not known, and may be a drop.
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
        all.filter(Culprit::is_outside_ip_hooks).collect()
    }

    /// The first rule that exempts packets from connection tracking, and the first rule that drops such packets. `None`
    /// unless there are both.
    pub fn drops_untracked(&self) -> Option<(Culprit, Culprit)> {
        let find = |is_it: &dyn Fn(&Rule) -> bool| {
            self.chains.iter().find_map(|(chain, its)| {
                let rule = its.rules.iter().find(|rule| is_it(rule))?;
                let (rule, chain) = (Some((chain.clone(), rule.place)), chain.clone());
                Some(Culprit { chain, rule })
            })
        };
        let is_neither = |test: &Test| {
            matches!(test.of, Match::State { new: false, established: Some(false), .. })
        };
        let drops = |rule: &Rule| {
            matches!(rule.verdict, Some(Verdict::Drop)) && rule.tests.iter().any(is_neither)
        };
        Some((find(&|rule| rule.untracks)?, find(&drops)?))
    }

    /// The first rule that sets one of our own marks, and the mark.
    pub fn takes_for_ours(&self) -> Option<(Culprit, u32)> {
        self.chains.iter().find_map(|(name, chain)| {
            chain.rules.iter().find_map(|rule| {
                let mark = rule.marks.and_then(Marking::ours)?;
                let rule = Some((name.clone(), rule.place));
                Some((Culprit { chain: name.clone(), rule }, mark))
            })
        })
    }

    /// The possible outcomes of each base chain at a hook, in the kernel's order.
    fn pass(&self, packet: &Packet, hook: Hook) -> Vec<(Base, &ChainName, Outcomes)> {
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
            let outcomes = self.walk(name, chain, &packet, &mut known, 0);
            if outcomes.marked.is_some() {
                packet.mark = None;
                known.clear();
            }
            if outcomes.redirected.is_some() {
                (packet.destination, packet.destination_port) = (None, None);
                known.clear();
            }
            if outcomes.untracked.is_some() {
                packet.connection = Connection::Unknown;
                known.clear();
            }
            (base, name, outcomes)
        };
        asked.into_iter().map(walk).collect()
    }

    /// Chains with a reverse path test: they may drop packets if the replies would leave by another interface.
    pub fn by_reverse_path(&self) -> Vec<&ChainName> {
        let tests =
            |rule: &Rule| rule.tests.iter().any(|test| matches!(test.of, Match::ReversePath));
        let all = self.chains.iter().filter(|(_, chain)| chain.rules.iter().any(tests));
        all.map(|(name, _)| name).collect()
    }

    /// The possible outcomes of a chain; `known` caches the result of each chain for the packet.
    fn walk(
        &self,
        name: &ChainName,
        chain: &Chain,
        packet: &Packet,
        known: &mut BTreeMap<ChainName, Outcomes>,
        depth: usize,
    ) -> Outcomes {
        if let Some(outcomes) = known.get(name) {
            return outcomes.clone();
        }
        let mut outcomes = Outcomes::default();
        let mut is_left = false;
        for rule in &chain.rules {
            let truth = rule.truth(packet);
            if let Some(marking) = rule.marks.filter(|_| truth != Truth::No) {
                outcomes.marked.get_or_insert_with(|| ((name.clone(), rule.place), marking));
            }
            if rule.redirects && truth != Truth::No {
                outcomes.redirected.get_or_insert_with(|| (name.clone(), rule.place));
            }
            if rule.untracks && truth != Truth::No {
                outcomes.untracked.get_or_insert_with(|| (name.clone(), rule.place));
            }
            let Some(verdict) = rule.verdict.as_ref().filter(|_| truth != Truth::No) else {
                continue;
            };
            let is_sure = truth == Truth::Yes;
            is_left = match verdict {
                Verdict::Accept => {
                    outcomes.accepted = true;
                    is_sure
                }
                Verdict::Drop => {
                    outcomes.dropped.get_or_insert_with(|| (name.clone(), rule.place));
                    is_sure
                }
                Verdict::Return => {
                    outcomes.returns = true;
                    is_sure
                }
                Verdict::Any => {
                    outcomes.dropped.get_or_insert_with(|| (name.clone(), rule.place));
                    outcomes.accepted = true;
                    false
                }
                Verdict::Goto(target) | Verdict::Jump(target) => {
                    let target = ChainName { chain: target.clone(), ..name.clone() };
                    let inner = match self.chains.get(&target) {
                        Some(chain) if depth < DEEPEST => {
                            self.walk(&target, chain, packet, known, depth + 1)
                        }
                        _ => Outcomes { returns: true, ..Outcomes::default() },
                    };
                    outcomes.accepted |= inner.accepted;
                    outcomes.dropped = outcomes.dropped.take().or(inner.dropped);
                    outcomes.marked = outcomes.marked.take().or(inner.marked);
                    outcomes.redirected = outcomes.redirected.take().or(inner.redirected);
                    outcomes.untracked = outcomes.untracked.take().or(inner.untracked);
                    let is_goto = matches!(verdict, Verdict::Goto(_));
                    outcomes.returns |= is_goto && inner.returns;
                    is_sure && (is_goto || !inner.returns)
                }
            };
            if is_left {
                break;
            }
        }
        outcomes.returns |= !is_left;
        known.insert(name.clone(), outcomes.clone());
        outcomes
    }
}

impl Rule {
    /// Whether the rule has a match that is not understood.
    fn has_unknown(&self) -> bool {
        self.tests.iter().any(|test| matches!(test.of, Match::Unknown))
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
    fn new(of: Match) -> Self {
        Self { of, is_inverted: false }
    }

    fn truth(&self, packet: &Packet) -> Truth {
        match (self.of.holds(packet), self.is_inverted) {
            (None, _) => Truth::Maybe,
            (Some(holds), is_inverted) if holds != is_inverted => Truth::Yes,
            (Some(_), _) => Truth::No,
        }
    }
}

impl Match {
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
            Self::State { new, established, untracked } => match packet.connection {
                Connection::Established => *established,
                Connection::New => Some(*new),
                Connection::Untracked => Some(*untracked),
                Connection::Unknown => None,
            },
            Self::ReversePath => packet.returns,
            Self::Unknown => None,
        }
    }
}

/// Whether an interface name fits the pattern in a rule.
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

/// The number of an IP protocol, by its name or its digits.
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
    /// The command that lets packets pass. `in_nft` and `in_iptables` are the matches for the packets in either syntax.
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

    /// The command that shows the rule.
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

    /// Whether the chain runs at an interface, where connection tracking has no effect.
    pub fn is_stateless(&self) -> bool {
        self.chain.table.starts_with("netdev ")
    }

    /// Whether the chain is in an ARP table.
    pub fn is_of_arp(&self) -> bool {
        self.chain.table.starts_with("arp ")
    }

    /// Whether the rule is outside of the IP hooks: at an interface, in traffic control, or an IPsec policy.
    pub fn is_outside_ip_hooks(&self) -> bool {
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
