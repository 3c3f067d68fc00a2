//! Reads iptables rules in the format of `iptables-save` (iptables(8), iptables-extensions(8)).
//!
//! Legacy iptables keeps separate rules. Rules by `iptables-nft` come from `nft`; here they get the matches that `nft`
//! cannot write as JSON.

use std::fs;
use std::net::IpAddr;

use base::ip::Prefix;

use super::tool::ask;
use super::{Base, Chain, ChainName, Firewalls, Hook, Marking, Match, Rule, Test, Verdict};
use super::{protocol_named, range};

/// For each IP version: the kernel's list of used tables, the program that lists rules, the program that changes them,
/// and whether the version is IPv4.
const PROGRAMS: [(&str, &str, &str, bool); 2] = [
    ("/proc/net/ip_tables_names", "iptables-legacy-save", "iptables-legacy", true),
    ("/proc/net/ip6_tables_names", "ip6tables-legacy-save", "ip6tables-legacy", false),
];
/// For each IP version: the program that lists the rules of `iptables-nft`, the family of their tables, and whether the
/// version is IPv4.
const TRANSLATED: [(&str, &str, bool); 2] =
    [("iptables-nft-save", "ip", true), ("ip6tables-nft-save", "ip6", false)];
/// Tables whose chains may drop packets, with their priority (`linux/netfilter_ipv4.h`).
const TABLES: [(&str, i64); 5] =
    [("raw", -300), ("mangle", -150), ("nat", -100), ("filter", 0), ("security", 50)];
const HOOKS: [(&str, Hook); 5] = [
    ("PREROUTING", Hook::Prerouting),
    ("INPUT", Hook::Input),
    ("FORWARD", Hook::Forward),
    ("OUTPUT", Hook::Output),
    ("POSTROUTING", Hook::Postrouting),
];

/// Adds the rules of legacy iptables. Runs no program if no table is in use.
pub fn read(to: &mut Firewalls) {
    for (list, program, orders, is_v4) in PROGRAMS {
        let used = fs::read_to_string(list).unwrap_or_default();
        if used.trim().is_empty() {
            continue;
        }
        match ask(program, &[], "").and_then(|answer| answer.success()) {
            Ok(said) => add(to, &String::from_utf8_lossy(&said), orders, is_v4),
            Err(why) => to.unread.push((
                format!(
                    "there are tables of legacy iptables, and their rules cannot be read: {why}"
                ),
                format!("apt install iptables, so that `{program}` tells them"),
            )),
        }
    }
}

/// Adds the matches of iptables extensions to rules of `iptables-nft`, because the JSON of `nft` lacks for example
/// `-m conntrack`. Without `iptables-nft-save` these matches stay unknown.
pub fn complete(to: &mut Firewalls) {
    for (program, family, is_v4) in TRANSLATED {
        let is_its = |name: &ChainName| name.table.split(' ').next() == Some(family);
        let lacks = |(name, chain): (&ChainName, &Chain)| {
            is_its(name) && chain.rules.iter().any(Rule::has_unknown)
        };
        if !to.chains.iter().any(lacks) {
            continue;
        }
        if let Ok(said) = ask(program, &[], "").and_then(|answer| answer.success()) {
            complete_by(to, &String::from_utf8_lossy(&said), family, is_v4);
        }
    }
}

/// Completes rules by a saved ruleset, which lists the same rules in the same order.
fn complete_by(to: &mut Firewalls, saved: &str, family: &str, is_v4: bool) {
    let mut all = Firewalls::default();
    add(&mut all, saved, "nft", is_v4);
    for (name, chain) in all.chains {
        let name = ChainName { table: format!("{family} {}", name.table), ..name };
        // Another length means that somebody has changed the chain in between.
        let known = to.chains.get_mut(&name).filter(|known| known.rules.len() == chain.rules.len());
        for (rule, told) in known.into_iter().flat_map(|it| &mut it.rules).zip(chain.rules) {
            if rule.has_unknown() {
                *rule = Rule { place: rule.place, ..told };
            }
        }
    }
}

/// Adds the chains of a saved ruleset.
fn add(to: &mut Firewalls, saved: &str, program: &'static str, is_v4: bool) {
    let mut table = None;
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = TABLES.iter().find(|(its, _)| *its == name.trim());
            continue;
        }
        let Some((table, priority)) = table else { continue };
        let name = |chain: &str| ChainName {
            program,
            table: (*table).to_owned(),
            chain: chain.to_owned(),
        };
        if let Some(chain) = line.strip_prefix(':') {
            let mut words = chain.split_whitespace();
            let (Some(chain), Some(policy)) = (words.next(), words.next()) else { continue };
            let hook = HOOKS.iter().find(|(its, _)| *its == chain).map(|(_, hook)| *hook);
            let drops = policy == "DROP";
            let base = hook.map(|hook| Base { hook, priority: *priority, drops });
            let versions = [is_v4, !is_v4];
            to.chains.insert(
                name(chain),
                Chain { base, versions, devices: Vec::new(), rules: Vec::new() },
            );
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let words = words(rule);
            let Some((chain, rest)) = words.split_first() else { continue };
            if let Some(chain) = to.chains.get_mut(&name(chain)) {
                let place = chain.rules.len() as u64 + 1;
                chain.rules.push(Rule { place, ..self::rule(rest) });
            }
        }
    }
}

/// Splits a line into words; quotes enclose a word with spaces.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_there) =
        (Vec::new(), String::new(), false, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => (is_quoted, is_there) = (!is_quoted, true),
            '\\' => word.extend(letters.next()),
            ' ' if !is_quoted => {
                if is_there || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_there = false;
            }
            letter => word.push(letter),
        }
    }
    if is_there || !word.is_empty() {
        words.push(word);
    }
    words
}

fn rule(words: &[String]) -> Rule {
    let mut rule = Rule::default();
    let (mut is_inverted, mut words) = (false, words.iter().map(String::as_str).peekable());
    let mut is_reverse_path = false;
    let mut has_target = false;
    while let Some(option) = words.next() {
        let was_inverted = std::mem::take(&mut is_inverted);
        // Options after the target belong to the target.
        if has_target {
            continue;
        }
        let option = match option {
            "!" => {
                is_inverted = true;
                continue;
            }
            "-m" => {
                is_reverse_path = words.next() == Some("rpfilter");
                if is_reverse_path {
                    rule.tests.push(Test::new(Match::ReversePath));
                }
                continue;
            }
            "--comment" => {
                words.next();
                continue;
            }
            "--invert" if is_reverse_path => {
                let is_of = |test: &&mut Test| matches!(test.of, Match::ReversePath);
                if let Some(test) = rule.tests.iter_mut().find(is_of) {
                    test.is_inverted = true;
                }
                continue;
            }
            // These options relax the reverse path test.
            "--accept-local" | "--loose" | "--validmark" if is_reverse_path => {
                rule.tests.push(Test::new(Match::Unknown));
                continue;
            }
            "-j" | "-g" => {
                has_target = true;
                let target = words.next();
                let marks = matches!(target, Some("CONNMARK" | "MARK"));
                rule.marks = marks.then(|| marking(words.clone()));
                let leaves_untracked =
                    target == Some("CT") && words.clone().any(|it| it == "--notrack");
                rule.untracks = leaves_untracked || target == Some("NOTRACK");
                rule.redirects = matches!(target, Some("DNAT" | "REDIRECT"));
                rule.verdict = target.and_then(|target| verdict(option, target));
                continue;
            }
            option => option,
        };
        let Some(value) = words.next_if(|word| !word.starts_with('-') && *word != "!") else {
            rule.tests.push(Test::new(Match::Unknown));
            continue;
        };
        rule.tests.push(Test {
            of: matched(option, value).unwrap_or(Match::Unknown),
            is_inverted: was_inverted,
        });
        // Skip the further values of an unknown option.
        while words.next_if(|word| !word.starts_with('-') && *word != "!").is_some() {}
    }
    rule
}

/// Parses the options of the MARK target: `--set-xmark 0x1/0xffffffff`.
fn marking<'w>(mut options: impl Iterator<Item = &'w str>) -> Marking {
    let is_set = |option: &str| matches!(option, "--set-xmark" | "--set-mark");
    let value = options.find(|option| is_set(option)).and_then(|_| options.next());
    let (mark, mask) =
        value.map_or(("", ""), |it| it.split_once('/').unwrap_or((it, "0xffffffff")));
    match (number(mark), number(mask)) {
        (Some(mark), Some(u32::MAX)) => Marking::To(mark),
        _ => Marking::Unknown,
    }
}

/// A number in decimal or, with `0x`, hexadecimal digits.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn verdict(option: &str, target: &str) -> Option<Verdict> {
    Some(match target {
        "ACCEPT" | "DNAT" | "MASQUERADE" | "NETMAP" | "REDIRECT" | "SNAT" => Verdict::Accept,
        "DROP" | "REJECT" => Verdict::Drop,
        "RETURN" => Verdict::Return,
        "NFQUEUE" | "QUEUE" => Verdict::Any,
        // These extensions have no verdict. The list is explicit because chains may also have names in capitals.
        "AUDIT" | "CHECKSUM" | "CLASSIFY" | "CONNMARK" | "CT" | "DSCP" | "LOG" | "MARK"
        | "NFLOG" | "NOTRACK" | "SET" | "TCPMSS" | "TEE" | "TOS" | "TPROXY" | "TRACE" | "TTL" => {
            return None;
        }
        chain if option == "-g" => Verdict::Goto(chain.to_owned()),
        chain => Verdict::Jump(chain.to_owned()),
    })
}

fn matched(option: &str, value: &str) -> Option<Match> {
    let interface =
        || vec![value.strip_suffix('+').map_or(value.to_owned(), |it| format!("{it}*"))];
    let network = || {
        let (address, bits) = value.split_once('/').unwrap_or((value, ""));
        let address: IpAddr = address.parse().ok()?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let bits = if bits.is_empty() { whole } else { bits.parse().ok()? };
        Some(vec![range(Prefix::new(address, bits).ok()?)])
    };
    let ports = || {
        let range = |part: &str| {
            let (first, last) = part.split_once(':').unwrap_or((part, part));
            let end = |text: &str, otherwise| {
                if text.is_empty() { Some(otherwise) } else { text.parse().ok() }
            };
            Some((end(first, 0)?, end(last, u16::MAX)?))
        };
        value.split(',').map(range).collect::<Option<Vec<_>>>()
    };
    Some(match option {
        "-i" => Match::CameBy(interface()),
        "-o" => Match::LeavesBy(interface()),
        "-s" => Match::From(network()?),
        "-d" => Match::To(network()?),
        "-p" => Match::Protocols(vec![protocol_named(value)?]),
        "--sport" | "--sports" => Match::FromPort(ports()?),
        "--dport" | "--dports" => Match::ToPort(ports()?),
        "--ctstate" | "--state" => {
            let has = |state: &str| value.split(',').any(|it| it == state);
            Match::State {
                new: has("NEW"),
                established: Some(has("ESTABLISHED")),
                untracked: has("UNTRACKED"),
            }
        }
        "--mark" => Match::Marks(vec![number(value)?]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::from_to;
    use super::super::{Fate, Packet};
    use super::*;

    /// Output of `iptables-legacy-save` from iptables 1.8.9.
    const SAVED: &str = "# Generated by iptables-save v1.8.9\n*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n*filter\n\
        :INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:site - [0:0]\n\
        -A INPUT -p udp -m udp --dport 51900 -m comment --comment \"no tunnels -j ACCEPT\" -j DROP\n\
        -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A FORWARD -i lan+ -j site\n-A site ! -d 10.2.0.0/16 -j RETURN\n-A site -p tcp -m multiport --dports 22,80:90 -j ACCEPT\n\
        -A site -m hashlimit --hashlimit-name x -j ACCEPT\nCOMMIT\n";

    #[test]
    fn the_rules_of_a_saved_ruleset_decide() {
        let mut all = Firewalls::default();
        add(&mut all, SAVED, "iptables-legacy", true);
        let forwarded = |came_by: &str, to: &str, port: u16| {
            let packet = Packet {
                came_by: Some(came_by.to_owned()),
                destination_port: Some(port),
                ..from_to("10.1.0.1", to)
            };
            match all.judge(&packet, Hook::Forward) {
                Fate::Passes => "passes".to_owned(),
                Fate::Dropped(culprit) => format!("dropped by {culprit}"),
                Fate::MayBeDropped(culprit) => format!("may be dropped by {culprit}"),
            }
        };

        let policy = "the policy of chain filter FORWARD of iptables-legacy";
        assert_eq!(forwarded("lan0", "10.2.0.1", 85), "passes");
        assert_eq!(forwarded("lan0", "10.2.0.1", 91), format!("may be dropped by {policy}"));
        assert_eq!(forwarded("lan0", "10.3.0.1", 85), format!("dropped by {policy}"));
        assert_eq!(forwarded("wan0", "10.2.0.1", 85), format!("dropped by {policy}"));

        let call = |port| Packet {
            protocol: Some(17),
            destination_port: Some(port),
            ..Packet::unknown(true)
        };
        let Fate::Dropped(culprit) = all.judge(&call(51_900), Hook::Input) else { panic!() };
        assert_eq!(culprit.to_string(), "rule 1 of chain filter INPUT of iptables-legacy");
        assert_eq!(
            culprit.remedy("udp dport 51900", "-p udp --dport 51900"),
            "iptables-legacy -t filter -I INPUT -p udp --dport 51900 -j ACCEPT"
        );
        assert_eq!(all.judge(&call(51_901), Hook::Input), Fate::Passes);
    }

    #[test]
    fn a_mark_of_ours_is_told_from_others_by_its_whole_value() {
        let ours = host::MARK.value();
        let marks = |options: &str| {
            let mut all = Firewalls::default();
            let saved = format!(
                "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -j MARK {options}\nCOMMIT\n"
            );
            add(&mut all, &saved, "iptables-legacy", true);
            all.takes_for_ours().map(|(culprit, mark)| (culprit.to_string(), mark))
        };

        let rule = "rule 1 of chain mangle PREROUTING of iptables-legacy".to_owned();
        let set = marks(&format!("--set-xmark {ours:#x}/0xffffffff"));
        assert_eq!(set, Some((rule, ours)));
        assert_eq!(marks(&format!("--set-xmark {ours:#x}/0xffff")), None);
        assert_eq!(marks("--set-xmark 0x1/0xffffffff"), None);
    }

    /// Forwarding by ufw 0.36.2 and iptables 1.8.9, as nftables 1.0.6 tells it, in short, and `iptables-nft-save`.
    #[test]
    fn what_nft_does_not_say_of_a_rule_of_iptables_is_said_by_iptables() {
        let rule = |chain: &str, handle: u64, expr: serde_json::Value| {
            let rule = serde_json::json!({ "family": "ip", "table": "filter", "chain": chain, "handle": handle, "expr": expr });
            serde_json::json!({ "rule": rule })
        };
        let base = serde_json::json!({ "family": "ip", "table": "filter", "name": "FORWARD", "type": "filter",
            "hook": "forward", "prio": 0, "policy": "drop" });
        let chain =
            serde_json::json!({ "family": "ip", "table": "filter", "name": "ufw-before-forward" });
        let conntrack = serde_json::json!({ "xt": { "type": "match", "name": "conntrack" } });
        let ruleset = serde_json::json!({ "nftables": [
            { "chain": base },
            { "chain": chain },
            rule("FORWARD", 7, serde_json::json!([{ "jump": { "target": "ufw-before-forward" } }])),
            rule("ufw-before-forward", 8, serde_json::json!([conntrack, { "accept": null }])),
        ] });
        let saved = |rules: &str| {
            format!(
                "*filter\n:FORWARD DROP [0:0]\n:ufw-before-forward - [0:0]\n-A FORWARD -j ufw-before-forward\n{rules}COMMIT\n"
            )
        };
        let established =
            "-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n";
        let judge = |saved: &str| {
            let mut all = Firewalls::of_nft(&ruleset);
            complete_by(&mut all, saved, "ip", true);
            all.judge(&from_to("10.1.0.1", "10.2.0.1"), Hook::Forward)
        };

        assert!(matches!(judge(&saved(established)), Fate::Dropped(_)));
        // A chain that has changed in between is not understood.
        assert!(matches!(judge(&saved("")), Fate::MayBeDropped(_)));
        assert!(matches!(judge(&saved(&established.repeat(2))), Fate::MayBeDropped(_)));
        assert_eq!(judge(&saved(&established.replace("RELATED", "NEW"))), Fate::Passes);
    }
}
