//! Reads traffic control from `tc` (tc(8)): filters, and queueing disciplines that drop everything.

use std::net::Ipv4Addr;

use base::ip::Prefix;

use super::tool::ask;
use super::{Base, Chain, ChainName, Firewalls, Hook, Match, Rule, Test, Verdict};
use super::{protocol_named, range};

/// The program's name in a [`ChainName`].
pub const PROGRAM: &str = "tc";
/// The chain name of an interface's root discipline.
const DISCIPLINE: &str = "root";
/// A token bucket below this rate, in bit/s, passes next to nothing: an echo request takes 10 s.
const LEAST_RATE: u64 = 64;
/// A token bucket drops all packets longer than its burst, in octets: here even a bare IPv4 header.
const LEAST_BURST: u64 = 20;
/// Limit on the interfaces whose filters are read.
const MOST: usize = 32;
/// Classful disciplines, which may have filters.
const WITH_FILTERS: [&str; 7] = ["drr", "ets", "hfsc", "htb", "multiq", "prio", "qfq"];
/// Keys in the output of a filter that match nothing.
const HARMLESS: [&str; 6] = ["in_hw", "in_hw_count", "not_in_hw", "skip_hw", "skip_sw", "eth_type"];

/// Adds the filters and disciplines. A host without `tc` can hardly have any.
pub fn read(to: &mut Firewalls) {
    let said = |words: &[&str]| {
        let answer = ask("tc", words, "").and_then(|answer| answer.success());
        answer.map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
    };
    let disciplines = said(&["qdisc", "show"]);
    add_dropping(to, &disciplines);
    for (device, side) in filtered(&disciplines) {
        let mut words = vec!["filter", "show", "dev", device];
        words.extend(Some(side).filter(|side| *side != DISCIPLINE));
        add_filters(to, device, side, &said(&words));
    }
}

/// Parses `tc qdisc show`: kind and interface of each discipline, whether it is the root, and the line.
fn disciplines(said: &str) -> impl Iterator<Item = (&str, &str, bool, &str)> {
    said.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.nth(1)?;
        let device = words.skip_while(|word| *word != "dev").nth(1)?;
        Some((kind, device, line.contains(" root"), line))
    })
}

/// Adds the disciplines that drop all packets.
fn add_dropping(to: &mut Firewalls, said: &str) {
    for (kind, device, is_root, line) in disciplines(said) {
        let drops = match kind {
            "blackhole" => true,
            "pfifo" | "bfifo" => line.contains("limit 0p") || line.contains("limit 0b"),
            "netem" => line.contains("loss 100%"),
            "tbf" => {
                let is_below = |key: &str, unit: &str, least: u64| {
                    let value = line.split_whitespace().skip_while(|word| *word != key).nth(1);
                    let number = value.and_then(|it| it.strip_suffix(unit)?.parse().ok());
                    number.is_some_and(|it: u64| it < least)
                };
                is_below("rate", "bit", LEAST_RATE) || is_below("burst", "b", LEAST_BURST)
            }
            _ => false,
        };
        if is_root && drops {
            insert(to, device, DISCIPLINE, true, Vec::new());
        }
    }
}

/// The places of filters: interfaces, each with `ingress`, `egress` or the root discipline.
fn filtered(said: &str) -> Vec<(&str, &'static str)> {
    let mut all = Vec::new();
    for (kind, device, is_root, _) in disciplines(said) {
        let sides: &[_] = match kind {
            "clsact" => &["ingress", "egress"],
            "ingress" => &["ingress"],
            kind if is_root && WITH_FILTERS.contains(&kind) => &[DISCIPLINE],
            _ => continue,
        };
        all.extend(sides.iter().map(|side| (device, *side)));
    }
    all.truncate(2 * MOST);
    all
}

fn insert(to: &mut Firewalls, device: &str, side: &str, drops: bool, rules: Vec<Rule>) {
    // The kernel runs filters before the nftables chains at ingress, and after them at egress.
    let (hook, priority) = match side {
        "ingress" => (Hook::Ingress, i64::MIN),
        _ => (Hook::Egress, i64::MAX),
    };
    let name = ChainName { program: PROGRAM, table: device.to_owned(), chain: side.to_owned() };
    let devices = vec![device.to_owned()];
    let base = Some(Base { hook, priority, drops });
    to.chains.insert(name, Chain { base, versions: [true, true], devices, rules });
}

/// Adds the filters of one place by the output of `tc filter show`, which keeps the kernel's order.
fn add_filters(to: &mut Firewalls, device: &str, side: &str, said: &str) {
    let mut rules: Vec<Rule> = Vec::new();
    let mut side = side;
    for line in said.lines() {
        if let Some(head) = line.strip_prefix("filter ") {
            // A filter below the root sees only the packets of its class.
            let parent = head.split_whitespace().skip_while(|word| *word != "parent").nth(1);
            if side != "ingress" && side != "egress" {
                side = parent.unwrap_or(side);
            }
            rules.push(filter(head));
        } else if let Some(rule) = rules.last_mut() {
            match line.strip_prefix('\t') {
                Some(action) => rule.verdict = rule.verdict.take().or_else(|| verdict(action)),
                None => rule.tests.extend(test(line.trim())),
            }
        }
    }
    rules.retain(|rule| rule.verdict.is_some());
    if !rules.is_empty() {
        insert(to, device, side, false, rules);
    }
}

/// Parses the first line of a filter: `[parent 1:] protocol ip pref 5 u32 chain 0 …`.
fn filter(head: &str) -> Rule {
    let value = |of: &'static str| head.split_whitespace().skip_while(move |it| *it != of).nth(1);
    let place = value("pref").and_then(|it| it.parse().ok()).unwrap_or_default();
    let mut rule = Rule { place, ..Rule::default() };
    rule.tests.extend(
        match value("protocol") {
            Some("all") | None => None,
            Some("ip") => Some(Match::Version(true)),
            Some("ipv6") => Some(Match::Version(false)),
            Some("arp") => Some(Match::Arp(None)),
            Some(_) => Some(Match::Unknown),
        }
        .map(Test::new),
    );
    let kind = head.split_whitespace().skip_while(|it| *it != "pref").nth(2);
    let is_understood = matches!(kind, Some("flower" | "matchall" | "u32"));
    // Other kinds match by something else than lines of the output; chains above 0 see what a filter sends there.
    if !is_understood || value("chain").is_some_and(|it| it != "0") {
        rule.tests.push(Test::new(Match::Unknown));
    }
    rule.verdict = (kind == Some("bpf")).then_some(Verdict::Any);
    rule
}

/// Parses the line of an action.
fn verdict(action: &str) -> Option<Verdict> {
    let (_, what) = action.strip_prefix("action order ")?.split_once(": ")?;
    if let Some(way) = what.strip_prefix("gact action ") {
        return match way.split_whitespace().next()? {
            "drop" => Some(Verdict::Drop),
            "pass" => Some(Verdict::Accept),
            "continue" | "pipe" => None,
            _ => Some(Verdict::Any),
        };
    }
    if let Some((_, to)) = what.split_once("(Egress Redirect to device ") {
        // An `ifb` device returns the packets.
        return Some(if to.starts_with("ifb") { Verdict::Any } else { Verdict::Drop });
    }
    (what.starts_with("police") || what.contains("action drop")).then_some(Verdict::Any)
}

/// Parses a match of a filter: a key of `flower`, or octets of the header for `u32`.
fn test(line: &str) -> Option<Test> {
    let (key, value) = line.split_once(' ').unwrap_or((line, ""));
    if key.is_empty() || HARMLESS.contains(&key) {
        return None;
    }
    let network = || {
        let host = || value.parse().ok().map(Prefix::host);
        value.parse::<Prefix>().ok().or_else(host).map(range)
    };
    let ports = || {
        let (first, last) = value.split_once('-').unwrap_or((value, value));
        Some(vec![(first.parse().ok()?, last.parse().ok()?)])
    };
    let asked = match key {
        "match" => of_octets(value)?,
        "src_ip" => network().map_or(Match::Unknown, |it| Match::From(vec![it])),
        "dst_ip" => network().map_or(Match::Unknown, |it| Match::To(vec![it])),
        "ip_proto" => protocol_named(value).map_or(Match::Unknown, |it| Match::Protocols(vec![it])),
        "src_port" => ports().map_or(Match::Unknown, Match::FromPort),
        "dst_port" => ports().map_or(Match::Unknown, Match::ToPort),
        _ => Match::Unknown,
    };
    Some(Test::new(asked))
}

/// Parses a match on four octets of an IPv4 packet: `0a090002/ffffffff at 16`. `None` if it holds for all packets.
fn of_octets(written: &str) -> Option<Match> {
    let read = || {
        let (octets, at) = written.split_once(" at ")?;
        let (value, mask) = octets.split_once('/')?;
        let of = |text| u32::from_str_radix(text, 16).ok();
        Some((of(value)?, of(mask)?, at.trim().parse::<u8>().ok()?))
    };
    let Some((value, mask, at)) = read() else { return Some(Match::Unknown) };
    let network = || {
        let bits = u8::try_from(mask.leading_ones()).ok()?;
        let is_prefix = mask.leading_ones() + mask.trailing_zeros() == u32::BITS;
        let of = Prefix::new(Ipv4Addr::from(value).into(), bits).ok();
        of.filter(|_| is_prefix).map(|it| vec![range(it)])
    };
    let [high, low] = [value >> 16, value & 0xffff].map(|it| u16::try_from(it).unwrap_or_default());
    Some(match (at, mask) {
        (_, 0) => return None,
        (8, 0x00ff_0000) => Match::Protocols(vec![high.to_be_bytes()[1]]),
        (12, _) => network().map_or(Match::Unknown, Match::From),
        (16, _) => network().map_or(Match::Unknown, Match::To),
        (20, 0xffff_0000) => Match::FromPort(vec![(high, high)]),
        (20, 0x0000_ffff) => Match::ToPort(vec![(low, low)]),
        _ => Match::Unknown,
    })
}

#[cfg(test)]
mod tests_of_filters {
    use super::super::tests::from_to;
    use super::super::{Fate, Packet};
    use super::*;

    /// Output of iproute2 6.1.
    const DISCIPLINES: &str = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc htb 1: dev eth1 root refcnt 2 r2q 10 default 0\n\
        qdisc clsact ffff: dev eth0 parent ffff:fff1 \nqdisc ingress ffff: dev eth2 parent ffff:fff1 ---------------- \n\
        qdisc blackhole 8001: dev trackway-nc0 root refcnt 3 \nqdisc pfifo 8002: dev eth3 root refcnt 2 limit 0p\n\
        qdisc netem 8003: dev eth4 root refcnt 2 limit 1000 loss 100%\nqdisc netem 8004: dev eth5 root refcnt 2 limit 1000 loss 5%\n\
        qdisc pfifo 8005: dev eth6 root refcnt 2 limit 10p\nqdisc blackhole 8006: dev eth7 parent 1:1 \n\
        qdisc tbf 8007: dev eth8 root refcnt 3 rate 8bit burst 165b lat 539s \n\
        qdisc tbf 8008: dev eth11 root refcnt 3 rate 10Mbit burst 10b lat 1s \n\
        qdisc tbf 8009: dev eth10 root refcnt 3 rate 72bit burst 2Kb lat 1s \n";
    const BY_U32: &str = "filter protocol ip pref 5 u32 chain 0 \nfilter protocol ip pref 5 u32 chain 0 fh 800: ht divisor 1 \n\
        filter protocol ip pref 5 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 terminal flowid not_in_hw \n\
        \x20 match 0a090002/ffffffff at 16\n  match 00060000/00ff0000 at 8\n  match 000001bb/0000ffff at 20\n\
        \taction order 1: gact action drop\n\t random type none pass val 0\n\t index 1 ref 1 bind 1\n\n";
    const BY_FLOWER: &str = "filter protocol ip pref 6 flower chain 0 \nfilter protocol ip pref 6 flower chain 0 handle 0x1 \n\
        \x20 eth_type ipv4\n  ip_proto tcp\n  dst_ip 10.9.0.0/24\n  dst_port 440-450\n  not_in_hw\n\
        \taction order 1: gact action drop\n\t random type none pass val 0\n\t index 1 ref 1 bind 1\n";

    fn fate(said: &str, packet: &Packet) -> String {
        let mut all = Firewalls::default();
        add_filters(&mut all, "eth0", "egress", said);
        add_dropping(&mut all, DISCIPLINES);
        match all.judge(packet, Hook::Egress) {
            Fate::Passes => "passes".to_owned(),
            Fate::Dropped(by) => format!("{by}: {}", by.remedy("", "")),
            Fate::MayBeDropped(by) => format!("perhaps {by}"),
        }
    }

    fn by(device: &str, to: &str) -> Packet {
        Packet { leaves_by: Some(device.to_owned()), ..from_to("10.9.0.1", to) }
    }

    #[test]
    fn filters_are_asked_for_where_they_can_be() {
        let expected =
            [("eth1", "root"), ("eth0", "ingress"), ("eth0", "egress"), ("eth2", "ingress")];
        assert_eq!(filtered(DISCIPLINES), expected);
    }

    #[test]
    fn disciplines_that_send_nothing_drop_all() {
        for device in ["trackway-nc0", "eth3", "eth4", "eth8", "eth11"] {
            let expected =
                format!("the queueing discipline of {device}: tc qdisc del dev {device} root");
            assert_eq!(fate("", &by(device, "10.9.0.2")), expected);
        }
        for device in ["eth5", "eth6", "eth7", "eth10"] {
            assert_eq!(fate("", &by(device, "10.9.0.2")), "passes", "{device}");
        }
    }

    #[test]
    fn what_filters_test_is_understood() {
        for (said, pref) in [(BY_U32, 5), (BY_FLOWER, 6)] {
            let expected = format!(
                "the filter of preference {pref} at egress of eth0: tc filter del dev eth0 egress pref {pref}"
            );
            assert_eq!(fate(said, &by("eth0", "10.9.0.2")), expected);
            assert_eq!(fate(said, &by("eth0", "10.8.0.2")), "passes");
            assert_eq!(fate(said, &by("eth9", "10.9.0.2")), "passes");
            let other = Packet { destination_port: Some(80), ..by("eth0", "10.9.0.2") };
            assert_eq!(fate(said, &other), "passes");
            assert_eq!(fate(&said.replace("drop", "pass"), &by("eth0", "10.9.0.2")), "passes");
        }
    }

    #[test]
    fn what_is_not_understood_is_a_doubt() {
        let all = "filter protocol all pref 9 matchall chain 0 handle 0x1 \n  not_in_hw\n\taction order 1: ACTION\n";
        let packet = by("eth0", "10.9.0.2");
        let doubt = "perhaps the filter of preference 9 at egress of eth0";
        for (action, expected) in [
            ("gact action drop", "the filter of preference 9"),
            ("mirred (Egress Redirect to device eth7) stolen", "the filter of preference 9"),
            ("mirred (Egress Redirect to device ifb0) stolen", doubt),
            ("mirred (Egress Mirror to device eth7) pipe", "passes"),
            ("mirred (Ingress Redirect to device eth7) stolen", "passes"),
            ("police 0x1 rate 8Kbit burst 1Kb mtu 2Kb action drop overhead 0b", doubt),
            ("gact action pipe", "passes"),
        ] {
            let fate = fate(&all.replace("ACTION", action), &packet);
            assert!(fate.starts_with(expected), "{action}: {fate}");
        }
        let dropping = all.replace("ACTION", "gact action drop");
        for kind in ["basic", "fw", "cgroup"] {
            assert_eq!(fate(&dropping.replace("matchall", kind), &packet), doubt);
        }
        assert_eq!(fate(&dropping.replace("chain 0", "chain 7"), &packet), doubt);
        assert_eq!(
            fate(
                "filter protocol all pref 9 bpf chain 0 handle 0x1 p.o:[x] direct-action\n",
                &packet
            ),
            doubt
        );
        assert_eq!(fate(&dropping.replace("protocol all", "protocol arp"), &packet), "passes");
    }
}
