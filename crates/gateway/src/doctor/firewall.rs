//! Finds rules of other firewalls that drop the services' traffic.

use std::collections::{BTreeMap, BTreeSet};

use base::ip::protocol;
use host::fault::{CLASH, FIREWALL, REVERSE_PATH, SETTING};
use host::settings::Settings;

use super::kinds::UNREAD;
use super::{Findings, Needs, is_strict};
use crate::firewalls::{ChainName, Fate, Firewalls, Hook, Packet};
use crate::linux::firewall::MARK;

/// Foreign interfaces examined at most.
const MOST: usize = 32;

/// Examines all rules in nftables, including the rules of `iptables-nft`, and in legacy iptables.
pub fn examine(findings: &mut Findings, needs: &Needs) {
    let firewalls = Firewalls::read();
    for (what, remedy) in firewalls.unread() {
        findings.add(&UNREAD, what.clone(), remedy.clone());
    }
    examine_traffic(findings, needs, &firewalls);
    let strict = needs.has_default(true) && is_strict();
    let is_fixed = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/sys/net/ipv4/conf/all/rp_filter")
        .is_err();
    if strict && is_fixed {
        findings.add(
            &SETTING,
            "strict reverse path filters drop what comes from a peer for everything, and cannot be changed from here"
                .to_owned(),
            "sysctl -w net.ipv4.conf.all.rp_filter=2 on the host".to_owned(),
        );
    }
}

/// Examines what rules of others do to the services' traffic.
pub fn examine_traffic(findings: &mut Findings, needs: &Needs, firewalls: &Firewalls) {
    let is_other = |name: &String| !needs.devices.contains(name) && !name.starts_with("trackway");
    let others: Vec<_> = Settings::interfaces().into_iter().filter(is_other).take(MOST).collect();
    judge(findings, needs, firewalls, &others);
    if let Some((culprit, mark)) = firewalls.takes_for_ours() {
        findings.add(
            &CLASH,
            format!(
                "{culprit} gives packets the mark {mark:#x}, which is ours: they may go past the tunnel in clear, or into \
                 other services"
            ),
            "delete the rule, or let `marks` in [host] choose other numbers".to_owned(),
        );
    }
}

/// Forwarded packets of a device that a chain drops.
#[derive(Default)]
struct Dropped<'i> {
    /// Whether packets from the device are dropped, and packets to the device.
    ways: [bool; 2],
    /// The other interfaces.
    others: BTreeSet<&'i String>,
    culprit: Option<String>,
}

/// Judges packets known only by their interfaces or port: a rule that drops such a packet for certain drops every
/// packet of the kind.
fn judge(findings: &mut Findings, needs: &Needs, firewalls: &Firewalls, interfaces: &[String]) {
    if needs.devices.is_empty() {
        return;
    }
    let versions: BTreeSet<bool> =
        needs.networks.iter().map(|network| network.address().is_ipv4()).collect();
    let mut found = BTreeSet::new();
    for is_v4 in versions {
        for device in &needs.devices {
            let mut by_chain: BTreeMap<ChainName, Dropped> = BTreeMap::new();
            for other in interfaces {
                for (way, came_by, leaves_by) in [(0, device, other), (1, other, device)] {
                    let packet = Packet {
                        came_by: Some(came_by.clone()),
                        leaves_by: Some(leaves_by.clone()),
                        ..Packet::unknown(is_v4)
                    };
                    if let Fate::Dropped(culprit) = firewalls.judge(&packet, Hook::Forward) {
                        let dropped = by_chain.entry(culprit.chain.clone()).or_default();
                        dropped.ways[way] = true;
                        dropped.others.insert(other);
                        dropped.culprit = Some(culprit.to_string());
                    }
                }
            }
            for (chain, Dropped { ways, others, culprit }) in by_chain {
                let order = |is_in: bool| {
                    let (in_nft, in_iptables) =
                        if is_in { ("iifname", "-i") } else { ("oifname", "-o") };
                    chain.remedy(&format!("{in_nft} {device}"), &format!("{in_iptables} {device}"))
                };
                let orders: Vec<_> = [true, false]
                    .into_iter()
                    .zip(ways)
                    .filter(|it| it.1)
                    .map(|it| order(it.0))
                    .collect();
                let way = match ways {
                    [true, true] => "from and to",
                    [true, false] => "from",
                    [false, _] => "to",
                };
                let others = others.into_iter().cloned().collect::<Vec<_>>().join(", ");
                let (culprit, orders) = (culprit.unwrap_or_default(), orders.join("; "));
                if found.insert(orders.clone()) {
                    findings.add_of_others(
                        &FIREWALL,
                        format!("{culprit} drops what is forwarded {way} {device}, beside {others}: packets of hosts \
                                 behind it vanish"),
                        format!("{orders} (and in the file that makes the chain)"),
                    );
                }
            }
        }
    }
    for at in &needs.listens {
        let call = Packet {
            protocol: Some(protocol::UDP),
            destination_port: Some(at.port()),
            ..Packet::unknown(at.is_ipv4())
        };
        if let Fate::Dropped(culprit) = firewalls.judge(&call, Hook::Input) {
            let port = at.port();
            let order = culprit
                .chain
                .remedy(&format!("udp dport {port}"), &format!("-p udp --dport {port}"));
            // Where this end calls, the peers' answers pass a firewall that knows connections.
            findings.add_of_others(
                &FIREWALL,
                format!("{culprit} drops what comes to UDP port {port}: peers cannot call"),
                format!("{order} (and in the file that makes the chain)"),
            );
        }
    }
    for (peer, at) in &needs.calls {
        let call = Packet {
            protocol: Some(protocol::UDP),
            destination: Some(at.ip()),
            destination_port: Some(at.port()),
            came_by: Some(String::new()),
            mark: Some(MARK.value()),
            ..Packet::unknown(at.is_ipv4())
        };
        let fates = [Hook::Output, Hook::Postrouting].map(|hook| firewalls.judge(&call, hook));
        for fate in fates {
            if let Fate::Dropped(culprit) = fate {
                let (ip, port) = (at.ip(), at.port());
                let family = if ip.is_ipv4() { "ip" } else { "ip6" };
                let order = culprit.chain.remedy(
                    &format!("{family} daddr {ip} udp dport {port}"),
                    &format!("-d {ip} -p udp --dport {port}"),
                );
                findings.add_of_peer(
                    &FIREWALL,
                    peer,
                    format!("{culprit} drops what this host sends to the peer {peer} at {at}"),
                    format!("{order} (and in the file that makes the chain)"),
                );
            }
        }
    }
    if needs.has_default(true) || needs.has_default(false) {
        for chain in firewalls.by_reverse_path() {
            findings.add(
                &REVERSE_PATH,
                format!("chain {chain} drops packets whose answers would leave by another interface: with a peer for \
                         everything these are all that peers send"),
                "let it pass marked 0x7472776c, or switch it off: firewalld IPv6_rpfilter=no or loose, NixOS \
                 networking.firewall.checkReversePath = \"loose\""
                    .to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs() -> Needs {
        Needs {
            devices: ["trackway-nc0".to_owned()].into(),
            networks: BTreeSet::from(["0.0.0.0/0".parse().unwrap()]),
            listens: vec!["0.0.0.0:51900".parse().unwrap()],
            far: Vec::new(),
            calls: vec![("b".to_owned(), "192.0.2.2:51900".parse().unwrap())],
        }
    }

    fn found(ruleset: &str) -> Vec<(&'static str, String)> {
        let mut findings = Findings::default();
        let firewalls = Firewalls::of_nft(&serde_json::from_str(ruleset).unwrap());
        judge(&mut findings, &needs(), &firewalls, &["lan0".to_owned(), "docker0".to_owned()]);
        findings.0.into_iter().map(|it| (it.kind.code, it.what)).collect()
    }

    /// Output of `nft -j list ruleset` (nftables 1.0.6), without handles.
    const DROPPING: &str = r#"{"nftables": [
        {"chain": {"family": "inet", "table": "filter", "name": "forward", "type": "filter", "hook": "forward",
                   "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input",
                   "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "more"}},
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [{"jump": {"target": "more"}}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "more", "expr": [RULE, {"accept": null}]}}]}"#;

    #[test]
    fn a_chain_that_drops_is_found_unless_a_rule_lets_pass_what_is_ours() {
        let ruleset = |rule: &str| DROPPING.replace("RULE", rule);
        let port = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 51900}}"#;

        let all = found(&ruleset(&port.replace("51900", "22")));
        assert_eq!(all.len(), 2, "{all:?}");
        let forwarded = "the policy of chain inet filter forward drops what is forwarded from and to trackway-nc0, beside \
                         docker0, lan0: ";
        assert!(all[0].1.starts_with(forwarded), "{all:?}");
        assert!(all[1].1.contains("UDP port 51900"), "{all:?}");
        assert_eq!(found(&ruleset(port)).len(), 1);
        let in_forward = |rule: &str| {
            found(&ruleset(rule).replace(r#""chain": "more""#, r#""chain": "forward""#))[0]
                .1
                .clone()
        };
        // A rule for another state of connections lets nothing new pass, one for other hosts perhaps.
        let state = r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}"#;
        assert!(in_forward(state).starts_with(forwarded));
        let source = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.1.0.1"}}"#;
        assert!(in_forward(source).contains("UDP port"), "{}", in_forward(source));
        let device = r#"{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "trackway*"}}"#;
        assert!(in_forward(device).contains("is forwarded to trackway-nc0, beside"));
        // A rule of Docker's, for packets to Docker's own bridge only.
        let docker = r#"{"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "docker0"}},
                        {"xt": {"type": "match", "name": "conntrack"}}"#;
        assert!(
            in_forward(docker).contains("from and to trackway-nc0, beside docker0, lan0"),
            "{}",
            in_forward(docker)
        );
        assert_eq!(found(&ruleset(port).replace(r#""filter""#, r#""trackway""#)), []);
    }

    #[test]
    fn a_chain_that_drops_calls_to_a_peer_is_found() {
        let ruleset = |port: &str, hook: &str| {
            let rule = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": PORT}},
                          {"drop": null}"#;
            let accepting = DROPPING.replace(r#""policy": "drop""#, r#""policy": "accept""#);
            let dropping = accepting.replace(r#", {"accept": null}"#, "");
            dropping.replace("RULE", &rule.replace("PORT", port)).replace(r#""input""#, hook)
        };

        for hook in [r#""output""#, r#""postrouting""#] {
            let dropped = found(&ruleset("51900", hook));
            assert_eq!(dropped.len(), 1, "{dropped:?}");
            assert!(
                dropped[0].1.ends_with("sends to the peer b at 192.0.2.2:51900"),
                "{dropped:?}"
            );
            assert_eq!(found(&ruleset("53", hook)), []);
        }
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
