//! Reads nftables rules from `nft -j list table` (libnftables-json(5)).

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::ip::Prefix;
use serde_json::Value;

use super::{
    Base, Chain, ChainName, Firewalls, Hook, Marking, Match, OURS, Range, Rule, Test, Verdict,
};
use super::{protocol_named, range};

/// Statements without effect on the verdict.
const HARMLESS: [&str; 10] = [
    "comment",
    "counter",
    "ct count",
    "ct helper",
    "ct timeout",
    "flow",
    "last",
    "log",
    "meter",
    "set",
];

/// Elements of named sets, by the table (with its family) and the set's name.
type Sets<'r> = BTreeMap<(String, &'r str), &'r Value>;

/// Adds either our chains, or the chains of all other programs.
pub fn add(to: &mut Firewalls, ruleset: &Value, are_ours: bool) {
    let none = Vec::new();
    let all = ruleset["nftables"].as_array().unwrap_or(&none);
    let of_kind = |kind: &'static str| {
        let objects = all.iter().map(move |it| &it[kind]).filter(|it| it.is_object());
        objects.filter(move |it| text(it, "table").starts_with(OURS) == are_ours)
    };
    let dormant: Vec<_> = of_kind("table")
        .filter(|it| it["flags"].to_string().contains("dormant"))
        .map(|it| format!("{} {}", text(it, "family"), text(it, "name")))
        .collect();
    let sets: Sets<'_> =
        of_kind("set").map(|it| ((table(it), text(it, "name")), &it["elem"])).collect();
    let mut unjudged = Vec::new();
    for chain in of_kind("chain") {
        let family = text(chain, "family");
        let versions = match family {
            "inet" | "netdev" => [true, true],
            "ip" | "arp" => [true, false],
            "ip6" => [false, true],
            // Bridge chains are not evaluated.
            _ => [false, false],
        };
        if dormant.contains(&table(chain)) {
            continue;
        }
        let at = hook(family, text(chain, "hook")).filter(|_| versions != [false, false]);
        let devices = devices(chain);
        let at = at.filter(|it| !is_of_device(*it) || !devices.is_empty());
        if at.is_none() && chain["hook"].is_string() {
            unjudged.push((name(chain, "name"), text(chain, "policy") == "drop"));
        }
        let base = at.map(|hook| Base {
            hook,
            priority: chain["prio"].as_i64().unwrap_or_default(),
            drops: text(chain, "policy") == "drop",
        });
        let chain_of = name(chain, "name");
        to.chains.insert(chain_of, Chain { base, versions, devices, rules: Vec::new() });
    }
    for object in of_kind("rule") {
        let Some(chain) = to.chains.get_mut(&name(object, "chain")) else { continue };
        let place = object["handle"].as_u64().unwrap_or_default();
        rules(&object["expr"], place, &table(object), &sets, &mut chain.rules);
    }
    let drops = |rule: &Rule| matches!(rule.verdict, Some(Verdict::Drop));
    for (name, has_policy) in unjudged {
        // Jumps stay within a table.
        let has = |(its, chain): (&ChainName, &Chain)| {
            its.table == name.table && chain.rules.iter().any(drops)
        };
        if has_policy || to.chains.iter().any(has) {
            to.unjudged.push(name);
        }
    }
}

fn text<'v>(of: &'v Value, key: &str) -> &'v str {
    of[key].as_str().unwrap_or_default()
}

fn table(of: &Value) -> String {
    format!("{} {}", text(of, "family"), text(of, "table"))
}

fn name(of: &Value, key: &str) -> ChainName {
    ChainName { program: "nft", table: table(of), chain: text(of, key).to_owned() }
}

fn is_of_device(hook: Hook) -> bool {
    matches!(hook, Hook::Ingress | Hook::Egress)
}

/// The interfaces of a chain.
fn devices(chain: &Value) -> Vec<String> {
    let all = match &chain["dev"] {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    all.into_iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Whether the JSON lacks the interfaces of a chain; `nft` 1.0.6 leaves them out.
pub fn lacks_devices(ruleset: &Value) -> bool {
    let lacks = |object: &Value| {
        let chain = &object["chain"];
        let at = hook(text(chain, "family"), text(chain, "hook"));
        at.is_some_and(is_of_device) && chain["dev"].is_null()
    };
    ruleset["nftables"].as_array().is_some_and(|all| all.iter().any(lacks))
}

/// Adds the interfaces of chains from the text form of `nft list table`: `type filter hook ingress device "eth0" priority
/// 0`, or `devices = { eth0, eth1 }`.
pub fn add_devices(ruleset: &mut Value, listed: &str) {
    let mut of_chains = BTreeMap::new();
    let mut chain = "";
    for line in listed.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("chain ") {
            chain = name.trim_end_matches(" {");
        } else if let Some((_, rest)) = line.split_once(" hook ")
            && let Some((_, rest)) = rest.split_once(" device")
            && let Some((devices, _)) = rest.trim_start_matches('s').split_once(" priority ")
        {
            let names = devices.split([' ', '=', '{', '}', ',', '"']);
            let names = names.filter(|it| !it.is_empty()).map(Value::from);
            of_chains.insert(chain, Value::Array(names.collect()));
        }
    }
    for object in ruleset["nftables"].as_array_mut().into_iter().flatten() {
        let Some(chain) = object.get_mut("chain").and_then(Value::as_object_mut) else { continue };
        let name = chain.get("name").and_then(Value::as_str);
        if let Some(devices) = name.and_then(|name| of_chains.get(name)) {
            chain.entry("dev").or_insert_with(|| devices.clone());
        }
    }
}

fn hook(family: &str, name: &str) -> Option<Hook> {
    Some(match name {
        "ingress" => Hook::Ingress,
        "egress" => Hook::Egress,
        "input" if family == "arp" => Hook::ArpInput,
        "output" if family == "arp" => Hook::ArpOutput,
        "prerouting" => Hook::Prerouting,
        "input" => Hook::Input,
        "forward" => Hook::Forward,
        "output" => Hook::Output,
        "postrouting" => Hook::Postrouting,
        _ => return None,
    })
}

/// Parses a rule. A verdict map becomes one [`Rule`] per key.
fn rules(statements: &Value, place: u64, table: &str, sets: &Sets<'_>, to: &mut Vec<Rule>) {
    let mut rule = Rule { place, ..Rule::default() };
    for statement in statements.as_array().into_iter().flatten() {
        let Some((kind, value)) = statement.as_object().and_then(|it| it.iter().next()) else {
            // `nft` cannot write this match as JSON.
            rule.tests.push(Test::new(Match::Unknown));
            continue;
        };
        match &kind[..] {
            "match" => {
                rule.tests.extend(implied(&value["left"]).map(Test::new));
                rule.tests.push(test(value, table, sets));
            }
            "vmap" => {
                let entries = value["data"]["set"].as_array();
                for entry in entries.into_iter().flatten() {
                    let [key, verdict] = [&entry[0], &entry[1]];
                    let asked = matched(&value["key"], key, table, sets);
                    let mut tests = rule.tests.clone();
                    tests.push(Test::new(asked));
                    to.push(Rule { tests, verdict: verdict_of(verdict), ..rule.clone() });
                }
                if entries.is_none() {
                    rule.verdict = Some(Verdict::Any);
                }
            }
            "queue" => rule.verdict = Some(Verdict::Any),
            "mangle" if value["key"]["meta"]["key"] == "mark" => {
                let mark = value["value"].as_u64().and_then(|it| u32::try_from(it).ok());
                rule.marks = Some(mark.map_or(Marking::Unknown, Marking::To));
            }
            "mangle" => {}
            "notrack" => rule.untracks = true,
            kind if HARMLESS.contains(&kind) => {}
            "dnat" | "redirect" => (rule.redirects, rule.verdict) = (true, Some(Verdict::Accept)),
            // These statements change or copy packets, and have no verdict.
            "dup" | "fwd" | "masquerade" | "snat" | "synproxy" | "tproxy" => {}
            _ => match verdict_of(statement) {
                Some(verdict) => rule.verdict = Some(verdict),
                None => rule.tests.push(Test::new(Match::Unknown)),
            },
        }
    }
    to.push(rule);
}

fn verdict_of(statement: &Value) -> Option<Verdict> {
    let (kind, value) = statement.as_object()?.iter().next()?;
    let target = || value["target"].as_str().map(str::to_owned);
    Some(match &kind[..] {
        "accept" => Verdict::Accept,
        "drop" | "reject" => Verdict::Drop,
        "return" => Verdict::Return,
        "jump" => Verdict::Jump(target()?),
        "goto" => Verdict::Goto(target()?),
        _ => return None,
    })
}

/// The protocol that a match on a header field implies.
fn implied(left: &Value) -> Option<Match> {
    match text(&left["payload"], "protocol") {
        "ip" => Some(Match::Version(true)),
        "ip6" => Some(Match::Version(false)),
        "arp" => Some(Match::Arp(None)),
        of => protocol_named(of).map(|of| Match::Protocols(vec![of])),
    }
}

fn test(value: &Value, table: &str, sets: &Sets<'_>) -> Test {
    let (left, right) = (&value["left"], &value["right"]);
    let is_inverted = match text(value, "op") {
        "==" | "in" => false,
        "!=" => true,
        _ => return Test::new(Match::Unknown),
    };
    if is_reverse_path(left)
        && let Some(is_there) = right.as_bool()
    {
        return Test { of: Match::ReversePath, is_inverted: is_inverted == is_there };
    }
    Test { of: matched(left, right, table, sets), is_inverted }
}

/// Whether an expression looks for the route back: `fib saddr . iif oif`, with a mark or without.
fn is_reverse_path(left: &Value) -> bool {
    let fib = &left["fib"];
    let has = |flag: &str| fib["flags"].as_array().is_some_and(|it| it.contains(&flag.into()));
    text(fib, "result") == "oif" && has("saddr") && has("iif")
}

fn matched(left: &Value, right: &Value, table: &str, sets: &Sets<'_>) -> Match {
    let Some(values) = values(right, table, sets) else { return Match::Unknown };
    match_of(left, &values).unwrap_or(Match::Unknown)
}

/// The values on the right side; `None` if a set is unknown.
fn values<'r>(right: &'r Value, table: &str, sets: &Sets<'r>) -> Option<Vec<&'r Value>> {
    let all: Vec<_> = match right {
        Value::String(name) if name.starts_with('@') => {
            let elements = sets.get(&(table.to_owned(), &name[1..]))?;
            elements.as_array().into_iter().flatten().collect()
        }
        Value::Array(all) => all.iter().collect(),
        Value::Object(object) if object.contains_key("set") => match &object["set"] {
            Value::Array(all) => all.iter().collect(),
            one => vec![one],
        },
        one => vec![one],
    };
    let plain = |value: &'r Value| match &value["elem"]["val"] {
        Value::Null => value,
        inner => inner,
    };
    Some(all.into_iter().map(plain).collect())
}

fn match_of(left: &Value, values: &[&Value]) -> Option<Match> {
    let names = || values.iter().map(|it| Some(it.as_str()?.to_owned())).collect::<Option<_>>();
    let addresses = || values.iter().map(|it| addresses(it)).collect::<Option<_>>();
    let ports = || values.iter().map(|it| ports(it)).collect::<Option<_>>();
    let protocols = || values.iter().map(|it| protocol_of(it)).collect::<Option<_>>();
    if let Some(key) = left["meta"]["key"].as_str() {
        return Some(match key {
            "iifname" | "iif" => Match::CameBy(names()?),
            "oifname" | "oif" => Match::LeavesBy(names()?),
            "l4proto" => Match::Protocols(protocols()?),
            "mark" => {
                let mark = |it: &&Value| it.as_u64().and_then(|it| u32::try_from(it).ok());
                Match::Marks(values.iter().map(mark).collect::<Option<_>>()?)
            }
            "nfproto" => match values {
                [one] => Match::Version(one.as_str()? == "ipv4"),
                _ => return None,
            },
            "protocol" => ethertype(values)?,
            _ => return None,
        });
    }
    if left["ct"]["key"] == "state" {
        let has = |state: &str| values.iter().any(|it| *it == state);
        return Some(Match::State {
            new: has("new"),
            established: Some(has("established")),
            untracked: has("untracked"),
        });
    }
    if left["ct"]["key"] == "status" {
        // The first packet of a connection has no reply yet; NAT is not evaluated.
        let later = ["assured", "dnat", "dying", "seen-reply", "snat"];
        let is_later = |it: &&Value| it.as_str().is_some_and(|it| later.contains(&it));
        let later = Match::State { new: false, established: None, untracked: false };
        return values.iter().all(is_later).then_some(later);
    }
    let payload = &left["payload"];
    Some(match (text(payload, "protocol"), text(payload, "field")) {
        ("ether", "type") => ethertype(values)?,
        // These fields are constant for IPv4 on Ethernet.
        ("arp", "htype" | "ptype" | "hlen" | "plen") => Match::Arp(None),
        ("arp", "operation") => match values {
            [one] if **one == "request" || **one == 1 => Match::Arp(Some(true)),
            [one] if **one == "reply" || **one == 2 => Match::Arp(Some(false)),
            _ => return None,
        },
        ("arp", "saddr ip") => Match::From(addresses()?),
        ("arp", "daddr ip") => Match::To(addresses()?),
        ("ip" | "ip6", "saddr") => Match::From(addresses()?),
        ("ip" | "ip6", "daddr") => Match::To(addresses()?),
        ("ip", "protocol") | ("ip6", "nexthdr") => Match::Protocols(protocols()?),
        (_, "sport") => Match::FromPort(ports()?),
        (_, "dport") => Match::ToPort(ports()?),
        _ => return None,
    })
}

/// The match for an Ethertype, by its name.
fn ethertype(values: &[&Value]) -> Option<Match> {
    let [one] = values else { return None };
    Some(match one.as_str()? {
        "ip" => Match::Version(true),
        "ip6" => Match::Version(false),
        "arp" => Match::Arp(None),
        _ => return None,
    })
}

fn addresses(value: &Value) -> Option<Range> {
    if let Value::Array(ends) = &value["range"] {
        let end = |at: usize| ends.get(at)?.as_str()?.parse::<IpAddr>().ok();
        return Some((end(0)?, end(1)?));
    }
    let prefix = &value["prefix"];
    if prefix.is_object() {
        let bits = u8::try_from(prefix["len"].as_u64()?).ok()?;
        return Prefix::new(prefix["addr"].as_str()?.parse().ok()?, bits).ok().map(range);
    }
    value.as_str()?.parse().ok().map(|one| (one, one))
}

fn ports(value: &Value) -> Option<(u16, u16)> {
    let port = |value: &Value| value.as_u64().and_then(|it| u16::try_from(it).ok());
    if let Value::Array(ends) = &value["range"] {
        return Some((port(ends.first()?)?, port(ends.get(1)?)?));
    }
    port(value).map(|one| (one, one))
}

fn protocol_of(value: &Value) -> Option<u8> {
    match value {
        Value::String(name) => protocol_named(name),
        value => value.as_u64().and_then(|it| u8::try_from(it).ok()),
    }
}
