//! Finds rules of other firewalls that drop what services carry.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::{Findings, Needs, is_strict};

/// Names of our own tables begin so.
const OURS: &str = "trackway";

/// A chain of another program that is asked about packets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Chain {
    hook: String,
    drops: bool,
    /// All texts in its rules.
    words: Vec<String>,
    /// Ports in its rules.
    numbers: Vec<u64>,
    /// Whether a rule drops what would not go back by the interface that it came by.
    is_by_reverse_path: bool,
}

/// Looks at all rules of nftables; those of `iptables-nft` are among them.
pub(super) fn examine(findings: &mut Findings, needs: &Needs) {
    let Ok(output) = Command::new("nft").args(["-j", "list", "ruleset"]).output() else { return };
    let Ok(ruleset) = serde_json::from_slice(&output.stdout) else { return };
    for (name, chain) in chains(&ruleset) {
        chain.judge(findings, needs, &name);
    }
    let strict = needs.has_default(true) && is_strict();
    let is_fixed = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/sys/net/ipv4/conf/all/rp_filter")
        .is_err();
    if strict && is_fixed {
        findings.add(
            "reverse-path",
            "strict reverse path filters drop what comes from a peer for everything, and cannot be changed from here"
                .to_owned(),
            "sysctl -w net.ipv4.conf.all.rp_filter=2 on the host".to_owned(),
        );
    }
}

impl Chain {
    fn judge(&self, findings: &mut Findings, needs: &Needs, name: &str) {
        if needs.devices.is_empty() {
            return;
        }
        let mentions = |word: &str| self.words.iter().any(|it| it == word || is_pattern(it, word));
        if self.hook == "forward" && self.drops {
            for device in needs.devices.iter().filter(|device| !mentions(device)) {
                findings.add(
                    "firewall",
                    format!("chain {name} drops what no rule of it accepts, and no rule names {device}: packets from \
                             and to hosts behind this one vanish"),
                    format!("nft insert rule {name} iifname {device} accept; nft insert rule {name} oifname {device} \
                             accept (and in the file that makes the chain)"),
                );
            }
        }
        if self.hook == "input" && self.drops {
            for at in &needs.listens {
                if !self.numbers.contains(&at.port().into()) {
                    findings.add(
                        "firewall",
                        format!("chain {name} drops what no rule of it accepts, and no rule names UDP port {}: peers \
                                 cannot call", at.port()),
                        format!("nft insert rule {name} udp dport {} accept (and in the file that makes the chain)",
                                at.port()),
                    );
                }
            }
        }
        if self.is_by_reverse_path && needs.has_default(true) {
            findings.add(
                "reverse-path",
                format!("chain {name} drops packets whose answers would leave by another interface: with a peer for \
                         everything these are all that peers send"),
                "let it pass marked 0x7472776c, or switch it off: firewalld IPv6_rpfilter=no or loose, NixOS \
                 networking.firewall.checkReversePath = \"loose\""
                    .to_owned(),
            );
        }
    }
}

/// Whether a name with a star at its end stands for a device.
fn is_pattern(pattern: &str, device: &str) -> bool {
    pattern.strip_suffix('*').is_some_and(|start| !start.is_empty() && device.starts_with(start))
}

/// The base chains of others, with all rules that they lead to, as `family table chain`.
fn chains(ruleset: &Value) -> BTreeMap<String, Chain> {
    let all = ruleset["nftables"].as_array().cloned().unwrap_or_default();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let name = |of: &Value, chain: &str| {
        format!("{} {} {}", text(of, "family"), text(of, "table"), text(of, chain))
    };
    let is_others = |of: &Value| !text(of, "table").starts_with(OURS);
    let mut chains: BTreeMap<String, Chain> = BTreeMap::new();
    for chain in all.iter().map(|it| &it["chain"]).filter(|it| it.is_object() && is_others(it)) {
        let (hook, drops) = (text(chain, "hook"), text(chain, "policy") == "drop");
        chains.insert(name(chain, "name"), Chain { hook, drops, ..Chain::default() });
    }
    let mut leads: Vec<(String, String)> = Vec::new();
    for rule in all.iter().map(|it| &it["rule"]).filter(|it| it.is_object() && is_others(it)) {
        let Some(chain) = chains.get_mut(&name(rule, "chain")) else { continue };
        let mut targets = Vec::new();
        collect(&rule["expr"], chain, &mut targets);
        let said = rule["expr"].to_string();
        chain.is_by_reverse_path |= said.contains("\"fib\"")
            && said.contains("\"saddr\"")
            && said.contains("\"iif\"")
            && said.contains("\"drop\"");
        let of = format!("{} {} ", text(rule, "family"), text(rule, "table"));
        leads.extend(targets.into_iter().map(|to| (name(rule, "chain"), of.clone() + &to)));
    }
    // What a chain leads to is asked in its place; each further step of the way adds one chain.
    for _ in 0..chains.len().min(16) {
        for (from, to) in &leads {
            let Some(target) = chains.get(to).cloned() else { continue };
            let Some(chain) = chains.get_mut(from) else { continue };
            let new: Vec<_> =
                target.words.into_iter().filter(|it| !chain.words.contains(it)).collect();
            chain.words.extend(new);
            let new: Vec<_> =
                target.numbers.into_iter().filter(|it| !chain.numbers.contains(it)).collect();
            chain.numbers.extend(new);
            chain.is_by_reverse_path |= target.is_by_reverse_path;
        }
    }
    chains.retain(|_, chain| !chain.hook.is_empty());
    chains
}

/// Adds the texts and numbers of an expression to a chain, and the chains that it leads to.
fn collect(expression: &Value, chain: &mut Chain, targets: &mut Vec<String>) {
    match expression {
        Value::String(text) => chain.words.push(text.clone()),
        Value::Number(number) => chain.numbers.extend(number.as_u64()),
        Value::Array(all) => all.iter().for_each(|it| collect(it, chain, targets)),
        Value::Object(all) => {
            for (key, value) in all {
                if matches!(&key[..], "jump" | "goto") {
                    targets.extend(value["target"].as_str().map(str::to_owned));
                }
                collect(value, chain, targets);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn needs() -> Needs {
        Needs {
            devices: ["trackway-nc0".to_owned()].into(),
            networks: BTreeSet::from(["0.0.0.0/0".parse().unwrap()]),
            listens: vec!["0.0.0.0:51900".parse().unwrap()],
            far: Vec::new(),
        }
    }

    fn found(ruleset: &str) -> Vec<(&'static str, String)> {
        let mut findings = Findings(Vec::new());
        for (name, chain) in chains(&serde_json::from_str(ruleset).unwrap()) {
            chain.judge(&mut findings, &needs(), &name);
        }
        findings.0.into_iter().map(|it| (it.code, it.what)).collect()
    }

    /// As `nft -j list ruleset` of nftables 1.0.6 writes it, without handles.
    const DROPPING: &str = r#"{"nftables": [
        {"chain": {"family": "inet", "table": "filter", "name": "forward", "type": "filter", "hook": "forward",
                   "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input",
                   "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "more"}},
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [{"jump": {"target": "more"}}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "more", "expr": [RULE, {"accept": null}]}}]}"#;

    #[test]
    fn a_chain_that_drops_is_found_unless_a_rule_names_what_is_ours() {
        let ruleset = |rule: &str| DROPPING.replace("RULE", rule);
        let port = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 51900}}"#;

        let both = found(&ruleset(&port.replace("51900", "22")));
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(
            both[0].1.contains("inet filter forward") && both[0].1.contains("trackway-nc0"),
            "{both:?}"
        );
        assert!(both[1].1.contains("UDP port 51900"), "{both:?}");
        assert_eq!(found(&ruleset(port)).len(), 1);
        let device = r#"{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "trackway*"}}"#;
        let forwarded = ruleset(device).replace(r#""chain": "more""#, r#""chain": "forward""#);
        assert_eq!(found(&forwarded).len(), 1);
        assert_eq!(found(&ruleset(port).replace(r#""filter""#, r#""trackway""#)), []);
    }

    #[test]
    fn a_check_of_the_way_back_is_found() {
        let rule = r#"{"match": {"op": "==", "left": {"fib": {"result": "oif", "flags": ["saddr", "mark", "iif"]}},
                       "right": false}}, {"drop": null}"#;
        let ruleset =
            DROPPING.replace("RULE", rule).replace(r#""policy": "drop""#, r#""policy": "accept""#);

        let found = found(&ruleset);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "reverse-path");
    }
}
