//! Builds the nftables tables that decide on connections to far networks before they are answered.
//!
//! ```text
//!   prerouting ─ to a far network ─▶ arriving: our sockets and known connections, then rule after rule
//!   output ───── to a far network ─▶ leaving:  known connections, then rule after rule
//!                                       ├─ block ─▶ counted, and dropped, ICMP or a reset
//!                                       ├─ hold ──▶ a SYN is told of and dropped; of this host remembered
//!                                       ├─ IP ────▶ by_ip:  remembered, and on by routing
//!                                       └─ split ─▶ to the rule's own listener; of this host by_pep:
//!                                                   remembered, and marked on its way there
//! ```
//! ICMP about a connection of ours goes the way of the connection: to the socket that has borrowed the address,
//! although the address is another host's. Packets of a remembered connection follow the decision on its first
//! packet, whatever the rules say later. Each rule has its own listener, so the listener of a connection shows us the
//! deciding rule.
//!
//! The picture shows the diverting table, which the kernel removes when the gateway is killed. A second table stays. It
//! has the same rules and comes directly behind the first: it drops packets that the first table has not marked, unless
//! the rules let them go by IP.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ip::{Prefix, protocol};
use host::beside::Carried;
use host::fence::{Content, DROP};
use host::nft::{self, OrdersFor, TABLE, interfaces, listed};
use host::numbers::Mark;
use host::{Owner, timewait};
use rules::{Ports, Refusal, Selector};

use super::super::firewall::{MARK as OWN, TARGET};
use super::super::led::{BEHIND, DIVERTED, has_mark, pass_others};

/// Mark by which routing leads packets to this host.
const MARK: Mark = DIVERTED.mark;
/// Mark of held SYNs now let in, also led to this host by routing.
pub const LET_IN: Mark = Mark(MARK.0 + 1);
/// Mark of the resets and errors that refuse held SYNs.
pub const REFUSED: Mark = Mark(0x7066);
/// The NFLOG group that reports held SYNs.
pub const GROUP: u16 = 29_810;
/// Prefix of the names of the rules' counters.
pub const COUNTER: &str = "rule-";

/// Ends of borrowed addresses, and connections, that are remembered in each set, each for a day after
/// its last packet.
const REMEMBERED: u32 = 65_536;
const LOOPBACK: &str = "lo";
/// The chain for packets without connection tracking.
const UNTRACKED: &str = "untracked";
/// The chains for packets coming in, for packets going out, and for errors of this host about connections.
const ENTRANCE: &str = "prerouting";
const EXIT: &str = "output";
const ERRORS: &str = "errors";
/// The chain that lets no marked packet leave this host: routing has lost the rule for them, and they would pass us.
/// In the table that stays: no answer of ours to a client, unless by an interface where clients are.
const GUARD: &str = "guard";
/// Octets of ICMP before the packet that an error is about.
const ICMP: usize = 8;
/// A packet that does not begin a connection.
const IS_LATER: &str = "tcp flags & (fin | syn | rst | ack) != syn";
/// One that does.
const IS_FIRST: &str = "tcp flags & (fin | syn | rst | ack) == syn";

/// What is diverted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// Connections to these networks.
    pub(crate) networks: Vec<Prefix>,
    /// The interfaces from which connections are taken, `lo` for this host's own; none for all.
    pub(crate) interfaces: Vec<String>,
    /// The first that fits decides; the last fits all.
    pub(crate) rules: Vec<Rule>,
    /// The ports on 127.0.0.1 and `::1` of our listeners for connections whose SYN was held.
    pub(crate) let_in: [u16; 2],
    /// Whether connections come by radio.
    pub(crate) is_by_radio: bool,
}

/// What becomes of some connections.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rule {
    /// Name of the rule, unique in the plan: letters, digits, `-`, `_` and `.`.
    pub(crate) name: String,
    /// Which connections.
    pub(crate) selector: Selector,
    /// What becomes of them.
    pub(crate) fate: Fate,
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// They are refused.
    Block(Refusal),
    /// We are told of their SYNs, which go nowhere by themselves.
    Hold,
    /// They go on by routing.
    Plain,
    /// They are led to our listeners on 127.0.0.1 and `::1` with these ports, 0 where there is none.
    Split([u16; 2]),
}

/// The content of the table that stays, where nothing is diverted and targets are reached in our own name. `is_by_radio`
/// says whether connections come by radio.
pub(crate) fn on_shore(is_by_radio: bool) -> Content {
    Content {
        undropped: "what comes for targets of a network that is gone leaves in clear",
        needs: super::NEEDS,
        carried: Some(carried(is_by_radio)),
        ..Content::default()
    }
}

/// Answers to clients here, and what other gateways' clients send to targets here.
fn carried(is_by_radio: bool) -> Carried {
    let which = has_one_of(&[timewait::LED, REFUSED, TARGET]);
    Carried { hook: "postrouting", which, is_secret: is_by_radio, ..Carried::default() }
}

/// An nftables expression: the packet has one of these marks.
fn has_one_of(marks: &[Mark]) -> String {
    format!("meta mark {{ {} }}", listed(marks.iter().map(|mark| format!("{mark:#x}"))))
}

/// A version of IP.
struct Version {
    digit: char,
    /// What `nft` calls it.
    name: &'static str,
    family: &'static str,
    address: IpAddr,
    /// Octets of a header without options, and where in it the protocol stands.
    header: usize,
    protocol: usize,
    /// Errors of its ICMP.
    errors: &'static str,
}

/// One of the two tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Table {
    /// Diverts, while we live.
    Diverting,
    /// Drops what was not diverted, and stays.
    Shut,
}

/// Where connections are met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hook {
    Arriving,
    Leaving,
}

const VERSIONS: [Version; 2] = [
    Version {
        digit: '4',
        name: "ip",
        family: "ipv4",
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        header: 20,
        protocol: 9,
        errors: "icmp type { destination-unreachable, time-exceeded, parameter-problem }",
    },
    Version {
        digit: '6',
        name: "ip6",
        family: "ipv6",
        address: IpAddr::V6(Ipv6Addr::LOCALHOST),
        header: 40,
        protocol: 6,
        errors: "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }",
    },
];

impl Plan {
    /// Whether any SYN is held.
    pub(crate) fn holds(&self) -> bool {
        self.rules.iter().any(|rule| rule.fate == Fate::Hold)
    }

    fn versions(&self) -> impl Iterator<Item = &'static Version> {
        VERSIONS.iter().filter(|version| self.networks.iter().any(|it| version.has(it)))
    }

    /// The orders for the diverting table.
    pub(crate) fn script(&self) -> Vec<String> {
        let table = Table::Diverting;
        let mut orders = vec![format!("add table inet {TABLE} {{ flags owner; }}")];
        orders.extend(self.rules.iter().map(|rule| rule.counter("add")));
        orders.extend(self.base(table));
        for (chain, hook) in
            [(UNTRACKED, "output priority raw"), (GUARD, "postrouting priority mangle")]
        {
            orders.push(table.orders().base_chain(chain, "filter", hook));
        }
        orders.push(table.orders().base_chain(ERRORS, "route", "output priority mangle"));
        let past_us = format!("{} oifname != \"{LOOPBACK}\" counter drop", has_mark(&DIVERTED));
        orders.push(table.orders().rule(GUARD, &past_us));
        orders.extend(self.deciding(table));
        orders
    }

    /// The content of the table that stays when the gateway is killed.
    pub(crate) fn shut(&self) -> Content {
        let table = Table::Shut;
        let mut orders = self.base(table);
        orders.extend(self.deciding(table));
        if !self.interfaces.is_empty() {
            orders.push(table.orders().base_chain(GUARD, "filter", "postrouting priority mangle"));
            let by: BTreeSet<_> =
                self.interfaces.iter().cloned().chain([LOOPBACK.to_owned()]).collect();
            let by = interfaces(&by);
            let ours = has_one_of(&[timewait::LED, REFUSED]);
            let answers = format!("{ours} oifname != {{ {by} }} {DROP}");
            orders.push(table.orders().rule(GUARD, &answers));
        }
        Content {
            orders,
            inherited: VERSIONS.iter().map(|version| format!("plain{}", version.digit)).collect(),
            undropped: "connections leave in clear while HF-PEP stands still",
            needs: super::NEEDS,
            carried: Some(carried(self.is_by_radio)),
        }
    }

    /// The orders for sets and chains common to both tables, and for the rules that remember decisions.
    fn base(&self, table: Table) -> Vec<String> {
        let mut orders = Vec::new();
        for version in &VERSIONS {
            orders.extend(version.sets(table));
            orders.extend(version.memory(table));
            orders.extend(Hook::ALL.map(|hook| table.orders().chain(&hook.chain(version))));
        }
        let (kind, priority) = match table {
            Table::Diverting => ("route", "mangle".to_owned()),
            Table::Shut => ("filter", BEHIND.to_string()),
        };
        orders.push(table.orders().base_chain(
            ENTRANCE,
            "filter",
            &format!("prerouting priority {priority}"),
        ));
        orders.push(table.orders().base_chain(EXIT, kind, &format!("output priority {priority}")));
        orders
    }

    /// The rules that decide.
    fn deciding(&self, table: Table) -> Vec<String> {
        [self.rules(table), self.entrances(table), self.exits(table)].concat()
    }

    /// Orders for an existing table: they bring this host's own ICMP errors about our connections to the sockets. A
    /// router that finds no neighbour sends such errors itself. The orders use a key unknown to `nft` before 1.0.3.
    pub(crate) fn own_errors() -> Vec<String> {
        let mut orders = Vec::new();
        for version in &VERSIONS {
            let Version { digit, name, errors, header, .. } = version;
            // Ports behind a header without options, as the kernel makes it for sockets; behind ICMP and such a header.
            let (ports, told) = (header * 8, (ICMP + header) * 8);
            let protocol = (ICMP + version.protocol) * 8;
            for (transport, number, set) in
                [("tcp", protocol::TCP, "answered"), ("udp", protocol::UDP, "asked")]
            {
                orders.push(format!(
                    "add set inet {TABLE} {set}{digit} {{ typeof {name} saddr . @th,{told},16; size \
                     {REMEMBERED}; flags dynamic,timeout; timeout 1d; }}"
                ));
                orders.push(Table::Diverting.orders().rule(
                    ERRORS,
                    &format!(
                        "meta l4proto {transport} meta mark {TARGET:#x} fib saddr type != local update \
                         @{set}{digit} {{ {name} saddr . @nh,{ports},16 }}"
                    ),
                ));
                orders.push(Table::Diverting.orders().rule(
                    ERRORS,
                    &format!(
                        "{errors} @th,{protocol},8 {number} {name} daddr . @th,{told},16 @{set}{digit} \
                         meta mark set {MARK:#x} accept"
                    ),
                ));
            }
        }
        orders
    }

    /// The orders that change a diverting table made for the plan `before` to the rules of this plan.
    pub(crate) fn follow(&self, before: &Self) -> Vec<String> {
        let is_in = |rules: &[Rule], rule: &Rule| rules.iter().any(|it| it.name == rule.name);
        let new = self.rules.iter().filter(|rule| !is_in(&before.rules, rule));
        let gone = before.rules.iter().filter(|rule| !is_in(&self.rules, rule));
        let mut orders: Vec<String> = new.map(|rule| rule.counter("add")).collect();
        let deciding = VERSIONS.iter().flat_map(|it| Hook::ALL.map(|hook| hook.chain(it)));
        let all = deciding.chain([UNTRACKED, ENTRANCE, EXIT].map(str::to_owned));
        orders.extend(all.map(|chain| format!("flush chain inet {TABLE} {chain}")));
        orders.extend(self.deciding(Table::Diverting));
        orders.extend(gone.map(|rule| rule.counter("delete")));
        orders
    }

    /// Which packets go to a far network.
    fn far(&self, version: &Version) -> String {
        let widest = nft::widest(&self.networks, version.address.is_ipv4());
        if widest.iter().any(|network| network.bits() == 0) {
            return format!("meta nfproto {}", version.family);
        }
        format!("{} daddr {{ {} }}", version.name, listed(widest))
    }

    /// What decides, for each version and hook.
    fn rules(&self, table: Table) -> Vec<String> {
        let mut orders = Vec::new();
        for version in self.versions() {
            let (digit, connection) = (version.digit, version.connection());
            for hook in Hook::ALL {
                let ours = match hook {
                    Hook::Arriving => {
                        format!("socket transparent 1 meta mark set {MARK:#x} accept")
                    }
                    Hook::Leaving => format!("{connection} @split{digit} goto by_pep{digit}"),
                };
                let ours = (table == Table::Diverting).then(|| format!("{IS_LATER} {ours}"));
                let plain = [
                    format!("{IS_LATER} {connection} @plain{digit} goto by_ip{digit}"),
                    // An answer to none of ours: that connection came by IP.
                    format!("tcp flags & (syn | ack) == syn | ack goto by_ip{digit}"),
                ];
                let let_in = self.let_in;
                let rules =
                    self.rules.iter().flat_map(|rule| rule.render(table, version, hook, let_in));
                let chain = hook.chain(version);
                let all = ours.into_iter().chain(plain).chain(rules);
                orders.extend(all.map(|rule| table.orders().rule(&chain, &rule)));
            }
        }
        if self.holds() && table == Table::Diverting {
            // Connection tracking knows nothing of a dropped SYN: a firewall that drops invalid packets would
            // drop the answer, too.
            orders.push(table.orders().rule(UNTRACKED, &format!("meta mark {REFUSED:#x} notrack")));
        }
        orders
    }

    fn entrances(&self, table: Table) -> Vec<String> {
        let from = match &self.interfaces[..] {
            [] => String::new(),
            some => format!("iifname {{ {} }} ", interfaces(some)),
        };
        let mut rules: Vec<String> = pass_others(&DIVERTED).collect();
        match table {
            Table::Shut => rules.push(is_led()),
            Table::Diverting => rules.extend(self.let_in()),
        }
        rules.push("meta l4proto != tcp accept".to_owned());
        rules.push(format!("meta mark != {MARK:#x} fib daddr type local accept"));
        rules.extend(self.versions().map(|version| {
            let (far, chain) = (self.far(version), Hook::Arriving.chain(version));
            format!("{from}{far} goto {chain}")
        }));
        rules.iter().map(|rule| table.orders().rule(ENTRANCE, rule)).collect()
    }

    /// The rules that lead packets to sockets of ours before any decision.
    fn let_in(&self) -> impl Iterator<Item = String> {
        let syns = self.versions().map(|version| {
            let (name, listener) = (version.name, version.listener(self.let_in));
            format!(
                "meta mark {LET_IN:#x} {} meta l4proto tcp tproxy {name} to {listener} meta mark set \
                 {MARK:#x} accept",
                self.far(version)
            )
        });
        // For an ICMP error, the kernel looks up the socket of the packet inside. These four names are keywords of
        // `nft`, which looks up other names, such as `ipv6-icmp`, in /etc/protocols: a host may lack that file.
        let known = format!(
            "meta l4proto {{ tcp, udp, icmp, icmpv6 }} socket transparent 1 socket wildcard 0 meta mark \
             set {MARK:#x} accept"
        );
        syns.chain([known])
    }

    fn exits(&self, table: Table) -> Vec<String> {
        let mut rules: Vec<String> = pass_others(&DIVERTED).collect();
        match table {
            Table::Shut => {
                let ours = has_one_of(&[OWN, TARGET, REFUSED, timewait::LED]);
                rules.extend([is_led(), format!("{ours} accept")]);
            }
            Table::Diverting => rules.extend(borrowed()),
        }
        rules.push("meta l4proto != tcp accept".to_owned());
        if self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == LOOPBACK) {
            rules.extend(self.versions().map(|version| {
                let (far, chain) = (self.far(version), Hook::Leaving.chain(version));
                format!("{far} goto {chain}")
            }));
        }
        rules.iter().map(|rule| table.orders().rule(EXIT, rule)).collect()
    }
}

/// The rule for packets already marked as ours.
fn is_led() -> String {
    format!("{} accept", has_mark(&DIVERTED))
}

/// The rules for packets of our own, and for answers of this host's own servers to addresses that we have borrowed.
fn borrowed() -> Vec<String> {
    let mut rules = vec![format!("meta mark {{ {LET_IN:#x}, {REFUSED:#x} }} accept")];
    for (transport, set) in [("udp", "lent"), ("tcp", "borrowed")] {
        rules.extend(VERSIONS.iter().map(|Version { digit, name, .. }| {
            let end = format!("{{ {name} saddr . {transport} sport }}");
            format!("meta mark {TARGET:#x} fib saddr type != local update @{set}{digit} {end}")
        }));
        rules.push(format!("meta l4proto {transport} {} accept", has_one_of(&[OWN, TARGET])));
        rules.extend(VERSIONS.iter().map(|Version { digit, name, .. }| {
            let which = format!("{name} daddr . {transport} dport @{set}{digit}");
            format!("{which} meta mark set {MARK:#x} accept")
        }));
    }
    rules
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Diverting => TABLE,
            Self::Shut => Owner::HfPep.table(),
        }
    }

    fn orders(self) -> OrdersFor {
        OrdersFor(self.name())
    }
}

impl Rule {
    fn counter(&self, verb: &str) -> String {
        format!("{verb} counter inet {TABLE} {COUNTER}{}", self.name)
    }

    /// The rule in the language of `nft`; none where the rule decides nothing. `let_in` are the ports of the
    /// listeners for held SYNs.
    fn render(&self, table: Table, version: &Version, hook: Hook, let_in: [u16; 2]) -> Vec<String> {
        let Some(fits) = conditions(&self.selector, version, hook) else { return Vec::new() };
        if table == Table::Shut && self.fate != Fate::Plain {
            return vec![fits + DROP];
        }
        let digit = version.digit;
        let split = |ports| match hook {
            Hook::Arriving => format!(
                "meta l4proto tcp tproxy {} to {} meta mark set {MARK:#x} accept",
                version.name,
                version.listener(ports)
            ),
            Hook::Leaving => format!("goto by_pep{digit}"),
        };
        let fates = match self.fate {
            Fate::Block(refusal) => {
                let how = match refusal {
                    Refusal::Prohibited => "reject with icmpx admin-prohibited",
                    Refusal::Reset => "reject with tcp reset",
                    Refusal::Silent => "drop",
                };
                vec![format!("counter name \"{COUNTER}{}\" {how}", self.name)]
            }
            Fate::Hold => {
                let end = match hook {
                    Hook::Arriving => "drop".to_owned(),
                    Hook::Leaving => format!("goto held{digit}"),
                };
                let tell = format!(
                    "{IS_FIRST} log prefix \"{}\" group {GROUP} queue-threshold 1 {end}",
                    self.name
                );
                // A packet of no connection goes to the listener for held SYNs, which refuses it.
                vec![tell, split(let_in)]
            }
            Fate::Plain => vec![format!("goto by_ip{digit}")],
            Fate::Split(ports) => vec![split(ports)],
        };
        fates.into_iter().map(|fate| fits.clone() + &fate).collect()
    }
}

/// The conditions under which a packet fits a selector; `None` if no packet of the version fits at the hook.
fn conditions(selector: &Selector, version: &Version, hook: Hook) -> Option<String> {
    if !selector.protocol.is_none_or(|own| own.fits(protocol::TCP)) {
        return None;
    }
    let mut fits = String::new();
    let mut and = |what: &str, values: &str| fits += &format!("{what} {{ {values} }} ");
    match hook {
        Hook::Leaving if selector.interfaces.is_empty() => {}
        Hook::Leaving => {
            selector.interfaces.iter().find(|name| *name == LOOPBACK)?;
        }
        Hook::Arriving if selector.interfaces.is_empty() => {}
        Hook::Arriving => and("iifname", &interfaces(&selector.interfaces)),
    }
    for (networks, end) in [(&selector.sources, "saddr"), (&selector.destinations, "daddr")] {
        let own: Vec<_> = networks.iter().filter(|network| version.has(network)).collect();
        if own.is_empty() && !networks.is_empty() {
            return None;
        }
        if own.iter().all(|network| network.bits() > 0) && !own.is_empty() {
            let what = format!("{} {end}", version.name);
            and(&what, &listed(own.iter().map(|it| it.network())));
        }
    }
    for (ports, end) in [(&selector.source_ports, "sport"), (&selector.destination_ports, "dport")]
    {
        if !Ports::is_any(ports) {
            and(&format!("tcp {end}"), &listed(ports.ranges()));
        }
    }
    if !selector.dscps.is_empty() {
        and(&format!("{} dscp", version.name), &listed(&selector.dscps));
    }
    Some(fits)
}

impl Hook {
    const ALL: [Self; 2] = [Self::Arriving, Self::Leaving];

    fn chain(self, version: &Version) -> String {
        let name = match self {
            Self::Arriving => "arriving",
            Self::Leaving => "leaving",
        };
        format!("{name}{}", version.digit)
    }
}

impl Version {
    fn has(&self, network: &Prefix) -> bool {
        network.address().is_ipv4() == self.address.is_ipv4()
    }

    /// What a table remembers.
    fn sets(&self, table: Table) -> Vec<String> {
        let (digit, its) = (self.digit, table.name());
        let end = format!("ipv{digit}_addr . inet_service");
        let memory = |name: &str, kind: &str| {
            format!(
                "add set inet {its} {name}{digit} {{ type {kind}; size {REMEMBERED}; flags \
                 dynamic,timeout; timeout 1d; }}"
            )
        };
        let both = format!("{end} . {end}");
        let plain = memory("plain", &both);
        match table {
            Table::Diverting => {
                vec![memory("borrowed", &end), memory("lent", &end), plain, memory("split", &both)]
            }
            Table::Shut => vec![plain],
        }
    }

    /// The address of our listener, with the port for its version of IP.
    fn listener(&self, ports: [u16; 2]) -> String {
        match self.address {
            IpAddr::V4(host) => format!("{host}:{}", ports[0]),
            IpAddr::V6(host) => format!("[{host}]:{}", ports[1]),
        }
    }

    /// What names a connection.
    fn connection(&self) -> String {
        let name = self.name;
        format!("{name} saddr . tcp sport . {name} daddr . tcp dport")
    }

    /// The chains of a table that remember decisions.
    fn memory(&self, table: Table) -> Vec<String> {
        let (digit, connection) = (self.digit, self.connection());
        let chain = |name: &str, own: &str, other: Option<&str>, end: &str| {
            let chain = format!("{name}{digit}");
            let forget = other.map(|other| format!("delete @{other}{digit} {{ {connection} }}"));
            let remember = format!("update @{own}{digit} {{ {connection} }}");
            let rules = forget.into_iter().chain([remember, end.to_owned()]);
            let rules = rules.map(|rule| table.orders().rule(&chain, &rule));
            [table.orders().chain(&chain)].into_iter().chain(rules).collect::<Vec<_>>()
        };
        if table == Table::Shut {
            return chain("by_ip", "plain", None, "accept");
        }
        let marked = format!("meta mark set {MARK:#x} accept");
        [
            chain("by_ip", "plain", Some("split"), "accept"),
            chain("by_pep", "split", Some("plain"), &marked),
            chain("held", "split", Some("plain"), "drop"),
        ]
        .concat()
    }
}
