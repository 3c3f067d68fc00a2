//! Verdicts about packets, by rulesets as nftables 1.0.6 writes them.

use serde_json::Value;

use super::*;

/// The first packet of a TCP connection.
pub fn from_to(source: &str, destination: &str) -> Packet {
    Packet {
        protocol: Some(6),
        source: source.parse().ok(),
        destination: destination.parse().ok(),
        source_port: Some(5_000),
        destination_port: Some(443),
        ..Packet::unknown(true)
    }
}

/// A ruleset with rules, in the chain `forward` with the policy to accept.
fn firewalls(rules: &[&str], more: &str) -> Firewalls {
    let rule = |(at, expressions): (usize, &&str)| {
        format!(
            r#"{{"rule": {{"family": "inet", "table": "f", "chain": "forward", "handle": {}, "expr": [{expressions}]}}}}"#,
            at + 1
        )
    };
    let rules: Vec<_> = rules.iter().enumerate().map(rule).collect();
    let text = format!(
        r#"{{"nftables": [{{"metainfo": {{"version": "1.0.6"}}}}, {{"table": {{"family": "inet", "name": "f"}}}},
            {{"chain": {{"family": "inet", "table": "f", "name": "forward", "type": "filter", "hook": "forward",
                         "prio": 0, "policy": "accept"}}}},
            {{"chain": {{"family": "inet", "table": "f", "name": "more"}}}} {more}, {}]}}"#,
        rules.join(", ")
    );
    Firewalls::of_nft(&serde_json::from_str::<Value>(&text).unwrap())
}

fn fate(rules: &[&str], packet: &Packet) -> String {
    match firewalls(rules, "").judge(packet, Hook::Forward) {
        Fate::Passes => "passes".to_owned(),
        Fate::Dropped(by) => format!("dropped by {by}"),
        Fate::MayBeDropped(by) => format!("may be dropped by {by}"),
    }
}

const DROP: &str = r#"{"drop": null}"#;

fn matched(left: &str, right: &str) -> String {
    format!(
        r#"{{"match": {{"op": "==", "left": {left}, "right": {right}}}}}, {{"counter": {{"packets": 0, "bytes": 0}}}}"#
    )
}

fn payload(protocol: &str, field: &str) -> String {
    format!(r#"{{"payload": {{"protocol": "{protocol}", "field": "{field}"}}}}"#)
}

#[test]
fn each_test_that_is_understood_decides() {
    let meta = |key: &str| format!(r#"{{"meta": {{"key": "{key}"}}}}"#);
    let known = Packet {
        came_by: Some("lan0".to_owned()),
        leaves_by: Some("trackway-nc0".to_owned()),
        mark: Some(0),
        ..from_to("10.1.0.7", "10.2.0.1")
    };
    for (left, holds, fails) in [
        (meta("iifname"), r#""lan*""#, r#""wan0""#),
        (meta("oifname"), r#"{"set": ["a", "trackway-nc0"]}"#, r#""lan0""#),
        (meta("l4proto"), r#""tcp""#, r#"{"set": ["udp", 47]}"#),
        (meta("nfproto"), r#""ipv4""#, r#""ipv6""#),
        (meta("mark"), "0", "1953985387"),
        (payload("ip", "saddr"), r#"{"prefix": {"addr": "10.1.0.0", "len": 16}}"#, r#""10.1.0.8""#),
        (
            payload("ip", "daddr"),
            r#"{"range": ["10.2.0.0", "10.2.0.9"]}"#,
            r#"{"prefix": {"addr": "10.2.0.2", "len": 31}}"#,
        ),
        (payload("tcp", "dport"), r#"{"set": [22, {"range": [400, 500]}]}"#, "80"),
        (payload("th", "sport"), "5000", "5001"),
        (
            r#"{"ct": {"key": "state"}}"#.to_owned(),
            r#"["new", "untracked"]"#,
            r#"["established", "related"]"#,
        ),
    ] {
        let rule = |right: &str| format!("{}, {DROP}", matched(&left, right));
        assert_eq!(
            fate(&[&rule(holds)], &known),
            "dropped by the rule with handle 1 in chain inet f forward",
            "{left}"
        );
        assert_eq!(fate(&[&rule(fails)], &known), "passes", "{left} {fails}");
        let turned = |right: &str| rule(right).replace("==", "!=");
        if left.contains("ct") {
            continue;
        }
        assert_eq!(fate(&[&turned(holds)], &known), "passes", "{left}");
        assert!(fate(&[&turned(fails)], &known).starts_with("dropped"), "{left}");
    }
}

#[test]
fn what_is_not_known_or_not_understood_may_drop() {
    let doubt = "may be dropped by the rule with handle 1 in chain inet f forward";
    for unknown in [
        r#"{"xt": {"type": "match", "name": "addrtype"}}"#,
        "null",
        r#"{"limit": {"rate": 5, "per": "second"}}"#,
        &matched(r#"{"&": [{"meta": {"key": "mark"}}, 15]}"#, "3"),
        &matched(&payload("tcp", "flags"), r#""syn""#),
        &matched(r#"{"meta": {"key": "iifname"}}"#, r#""lan0""#),
        &matched(&payload("ip", "saddr"), r#""@no-such-set""#),
    ] {
        assert_eq!(fate(&[&format!("{unknown}, {DROP}")], &from_to("10.1.0.7", "10.2.0.1")), doubt);
    }
    // As firewalld has it before its verdict.
    let status =
        format!("{}, {{\"accept\": null}}", matched(r#"{"ct": {"key": "status"}}"#, r#""dnat""#));
    let after = fate(&[&status, DROP], &from_to("10.1.0.7", "10.2.0.1"));
    assert_eq!(after, "dropped by the rule with handle 2 in chain inet f forward");
    // What may be accepted before is no certain loss.
    let accept =
        format!("{}, {{\"accept\": null}}", matched(r#"{"meta": {"key": "iifname"}}"#, r#""a""#));
    let fate = fate(&[&accept, DROP], &from_to("10.1.0.7", "10.2.0.1"));
    assert_eq!(fate, "may be dropped by the rule with handle 2 in chain inet f forward");
}

#[test]
fn other_headers_are_no_doubt() {
    let udp = Packet { protocol: Some(17), ..from_to("10.1.0.7", "10.2.0.1") };
    for rule in [
        matched(&payload("icmp", "type"), r#""echo-request""#),
        matched(&payload("tcp", "flags"), r#""syn""#),
        matched(&payload("tcp", "dport"), "443"),
        matched(&payload("ip6", "hoplimit"), "1"),
        matched(&payload("ip6", "saddr"), r#""fd00::1""#).replace("==", "!="),
    ] {
        assert_eq!(fate(&[&format!("{rule}, {DROP}")], &udp), "passes", "{rule}");
    }
}

#[test]
fn jumps_returns_maps_and_sets_are_followed() {
    let to_port =
        |port: u16| Packet { destination_port: Some(port), ..from_to("10.1.0.7", "10.2.0.1") };
    let more = r#", {"rule": {"family": "inet", "table": "f", "chain": "more", "handle": 8, "expr": [
        {"vmap": {"key": {"payload": {"protocol": "tcp", "field": "dport"}}, "data": {"set": [
            [22, {"accept": null}], [23, {"return": null}], [{"range": [80, 90]}, {"drop": null}]]}}}]}},
        {"rule": {"family": "inet", "table": "f", "chain": "more", "handle": 9, "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@bad"}},
            {"reject": {"type": "icmpx", "expr": "port-unreachable"}}]}},
        {"set": {"family": "inet", "table": "f", "name": "bad", "type": "ipv4_addr", "flags": ["interval", "timeout"],
                 "elem": [{"elem": {"val": {"prefix": {"addr": "10.1.0.0", "len": 24}}, "timeout": 3600}}]}}"#;
    let judge =
        |rules: &[&str], port| match firewalls(rules, more).judge(&to_port(port), Hook::Forward) {
            Fate::Passes => "passes".to_owned(),
            Fate::Dropped(by) => by.to_string(),
            Fate::MayBeDropped(by) => format!("may be {by}"),
        };
    let jump = [r#"{"jump": {"target": "more"}}"#, DROP];
    let goto = [r#"{"goto": {"target": "more"}}"#, DROP];

    assert_eq!(judge(&jump, 22), "passes");
    assert_eq!(judge(&jump, 23), "the rule with handle 2 in chain inet f forward");
    assert_eq!(judge(&goto, 23), "passes");
    assert_eq!(judge(&jump, 85), "the rule with handle 8 in chain inet f more");
    assert_eq!(judge(&jump, 443), "the rule with handle 9 in chain inet f more");
}

#[test]
fn the_route_back_is_asked_for() {
    let rule = r#"{"match": {"op": "==", "left": {"fib": {"result": "oif", "flags": ["saddr", "mark", "iif"]}},
                   "right": false}}, {"drop": null}"#;
    let with = |returns| Packet { returns, ..from_to("10.1.0.7", "10.2.0.1") };

    assert_eq!(fate(&[rule], &with(Some(true))), "passes");
    assert!(fate(&[rule], &with(Some(false))).starts_with("dropped"));
    assert!(fate(&[rule], &with(None)).starts_with("may be dropped"));
    assert_eq!(firewalls(&[rule], "").by_reverse_path().len(), 1);
    let there = rule.replace("false", "true").replace("drop", "accept");
    assert_eq!(fate(&[&there, DROP], &with(Some(true))), "passes");
}

#[test]
fn tables_of_ours_of_other_families_and_asleep_are_passed_over() {
    let text = |table: &str, family: &str| {
        format!(
            r#"{{"nftables": [{{"table": {{"family": "{family}", "name": "f", "flags": "dormant"}}}},
               {{"chain": {{"family": "{family}", "table": "{table}", "name": "x", "type": "filter", "hook": "forward",
                 "prio": 0, "policy": "drop"}}}}]}}"#
        )
    };
    for (table, family, is_v4, is_dropped) in [
        ("g", "inet", true, true),
        ("g", "ip", true, true),
        ("g", "ip", false, false),
        ("g", "ip6", false, true),
        ("g", "bridge", true, false),
        ("f", "inet", true, false),
        ("trackway_tunnel", "inet", true, false),
    ] {
        let all = Firewalls::of_nft(&serde_json::from_str(&text(table, family)).unwrap());
        let fate = all.judge(&Packet::unknown(is_v4), Hook::Forward);
        assert_eq!(matches!(fate, Fate::Dropped(_)), is_dropped, "{table} {family} {is_v4}");
    }
}

#[test]
fn loops_and_deep_jumps_end() {
    let jump = r#"{"jump": {"target": "forward"}}"#;
    assert_eq!(fate(&[jump, jump], &Packet::unknown(true)), "passes");
}

#[test]
fn a_rule_that_may_change_the_mark_is_named_and_the_mark_is_not_known_after_it() {
    let set = r#"{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 7}}"#;
    let to_port =
        |port: u16| format!("{}, {set}", matched(&payload("tcp", "dport"), &port.to_string()));
    let packet = Packet { mark: Some(0), ..from_to("10.0.0.1", "10.0.0.2") };
    let later = r#", {"chain": {"family": "inet", "table": "f", "name": "later", "type": "filter", "hook": "forward",
                      "prio": 1, "policy": "accept"}},
        {"rule": {"family": "inet", "table": "f", "chain": "later", "handle": 9, "expr": [
            {"match": {"op": "==", "left": {"meta": {"key": "mark"}}, "right": 7}}, {"drop": null}]}}"#;

    for (rule, is_marked) in [(to_port(443), true), (to_port(80), false)] {
        let firewalls = firewalls(&[&rule], later);
        let by = firewalls.marks(&packet, Hook::Forward, -5).map(|(it, _)| it.to_string());
        let expected = "the rule with handle 1 in chain inet f forward".to_owned();
        assert_eq!(by, is_marked.then_some(expected));
        assert_eq!(
            firewalls.marks(&packet, Hook::Forward, 1),
            None,
            "a chain before does not count"
        );
        let fate = firewalls.judge(&packet, Hook::Forward);
        assert_eq!(matches!(fate, Fate::MayBeDropped(_)), is_marked, "{fate:?}");
    }
}

#[test]
fn a_rule_that_gives_packets_a_mark_of_ours_is_named() {
    let set = |mark: u32| {
        format!(r#"{{"mangle": {{"key": {{"meta": {{"key": "mark"}}}}, "value": {mark}}}}}"#)
    };
    let named = |mark: u32| {
        let taken = firewalls(&[&set(7), &set(mark)], "").takes_for_ours();
        taken.map(|(culprit, mark)| (culprit.to_string(), mark))
    };

    let ours = host::MARK.value();
    let expected = "the rule with handle 2 in chain inet f forward".to_owned();
    assert_eq!(named(ours), Some((expected.clone(), ours)));
    assert_eq!(named(ours + 1), Some((expected, ours + 1)));
    assert_eq!(named(ours & 0xffff), None);
}

/// A port that Docker forwards, as iptables 1.8.9 and nftables 1.0.6 write it.
#[test]
fn a_rule_that_gives_another_destination_is_named_and_the_destination_is_not_known_after_it() {
    let turned = r#"{"dnat": {"addr": "172.17.0.2", "port": 80}}"#;
    let nat = format!(
        r#", {{"chain": {{"family": "ip", "table": "nat", "name": "PREROUTING", "type": "nat", "hook": "prerouting",
              "prio": -100, "policy": "accept"}}}},
           {{"rule": {{"family": "ip", "table": "nat", "chain": "PREROUTING", "handle": 9, "expr": [{}, {turned}]}}}},
           {{"chain": {{"family": "ip", "table": "later", "name": "later", "type": "filter", "hook": "prerouting",
              "prio": 0, "policy": "accept"}}}},
           {{"rule": {{"family": "ip", "table": "later", "chain": "later", "handle": 3, "expr": [{}, {{"drop": null}}]}}}}"#,
        matched(&payload("tcp", "dport"), "8080"),
        matched(&payload("tcp", "dport"), "80"),
    );
    let firewalls = firewalls(&[r#"{"accept": null}"#], &nat);
    let packet = |port| Packet { destination_port: Some(port), ..from_to("10.0.0.1", "10.0.0.2") };

    let by = |port| firewalls.redirects(&packet(port), Hook::Prerouting).map(|it| it.to_string());
    let rule = "the rule with handle 9 in chain ip nat PREROUTING".to_owned();
    assert_eq!((by(8_080), by(443)), (Some(rule), None));
    let fate = |port| firewalls.judge(&packet(port), Hook::Prerouting);
    assert!(matches!(fate(8_080), Fate::MayBeDropped(_)), "{:?}", fate(8_080));
    assert_eq!(fate(443), Fate::Passes);
}

#[test]
fn the_state_of_a_connection_decides_unless_a_rule_keeps_the_packet_from_tracking() {
    let established = matched(r#"{"ct": {"key": "state"}}"#, r#"["established", "related"]"#);
    let untracked = matched(r#"{"ct": {"key": "state"}}"#, r#"["invalid", "untracked"]"#);
    let notrack = matched(&payload("tcp", "dport"), "443") + r#", {"notrack": null}"#;
    let accepted = format!(r#"{established}, {{"accept": null}}"#);
    let dropped = format!("{untracked}, {DROP}");
    let reply = Packet { connection: Connection::Established, ..from_to("10.1.0.7", "10.2.0.1") };
    let first = Packet { connection: Connection::New, ..reply.clone() };
    let untracked = Packet { connection: Connection::Untracked, ..reply.clone() };
    let rule = |number: u32| format!("the rule with handle {number} in chain inet f forward");

    assert_eq!(fate(&[&accepted, DROP], &reply), "passes");
    assert_eq!(fate(&[&accepted, DROP], &untracked), format!("dropped by {}", rule(2)));
    assert_eq!(fate(&[&dropped], &untracked), format!("dropped by {}", rule(1)));
    assert_eq!(fate(&[&accepted, DROP], &first), format!("dropped by {}", rule(2)));
    assert_eq!(fate(&[&dropped], &first), "passes");
    let both = firewalls(&[&notrack, &dropped], "");
    let (by, drops) = both.drops_untracked().unwrap();
    assert_eq!((by.to_string(), drops.to_string()), (rule(1), rule(2)));
    assert_eq!(both.untracks(&first, Hook::Forward), Some(by));
    let other = Packet { destination_port: Some(80), ..first };
    assert_eq!(both.untracks(&other, Hook::Forward), None);
    assert_eq!(firewalls(&[&dropped], "").drops_untracked(), None);
}

#[test]
fn chains_of_bridges_that_drop_are_named_and_not_judged() {
    let ruleset = |table: &str, policy: &str, statement: &str| {
        format!(
            r#"{{"nftables": [
            {{"chain": {{"family": "bridge", "table": "{table}", "name": "in", "type": "filter",
                         "hook": "input", "prio": 0, "policy": "{policy}"}}}},
            {{"chain": {{"family": "bridge", "table": "{table}", "name": "more"}}}},
            {{"rule": {{"family": "bridge", "table": "{table}", "chain": "in", "handle": 2,
                        "expr": [{{"jump": {{"target": "more"}}}}]}}}},
            {{"rule": {{"family": "bridge", "table": "{table}", "chain": "more", "handle": 3, "expr": [{statement}]}}}}]}}"#
        )
    };
    let named = |table: &str, policy: &str, statement: &str| {
        let all =
            Firewalls::of_nft(&serde_json::from_str(&ruleset(table, policy, statement)).unwrap());
        assert_eq!(all.judge(&Packet::unknown(true), Hook::Input), Fate::Passes);
        all.unjudged().iter().map(ToString::to_string).collect::<Vec<_>>()
    };

    let accept = r#"{"accept": null}"#;
    assert_eq!(named("f", "accept", DROP), ["bridge f in"]);
    assert_eq!(named("f", "drop", accept), ["bridge f in"]);
    assert_eq!(named("f", "accept", accept), [""; 0]);
    assert_eq!(named("trackway", "accept", DROP), [""; 0]);
}

/// Output of `nft` 1.0.6, which leaves out the interfaces in JSON.
const AT_DEVICES: &str = r#"{"nftables": [
    {"chain": {"family": "netdev", "table": "f", "name": "in", "type": "filter", "hook": "ingress", "prio": 0, "policy": "drop"}},
    {"chain": {"family": "netdev", "table": "f", "name": "out", "type": "filter", "hook": "egress", "prio": 0, "policy": "drop"}},
    {"rule": {"family": "netdev", "table": "f", "chain": "in", "handle": 2,
              "expr": [{"match": {"op": "==", "left": {"meta": {"key": "protocol"}}, "right": "arp"}}, {"accept": null}]}}]}"#;
const LISTED: &str = "table netdev f {\n\tchain in {\n\t\ttype filter hook ingress device \"eth0\" priority filter; policy drop;\n\
    \t\tmeta protocol arp accept\n\t}\n\n\tchain out {\n\t\ttype filter hook egress devices = { eth1, eth2 } priority filter; policy drop;\n\t}\n}\n";

#[test]
fn chains_at_interfaces_are_asked_there_alone() {
    let mut ruleset: Value = serde_json::from_str(AT_DEVICES).unwrap();
    assert!(nft::lacks_devices(&ruleset));
    nft::add_devices(&mut ruleset, LISTED);
    assert!(!nft::lacks_devices(&ruleset));
    let all = Firewalls::of_nft(&ruleset);
    let by = |name: &str| Packet {
        came_by: Some(name.to_owned()),
        leaves_by: Some(name.to_owned()),
        ..Packet::unknown(true)
    };
    let drops = |packet: &Packet, hook| matches!(all.judge(packet, hook), Fate::Dropped(_));

    let dropped = ["eth0", "eth1", "eth2", "eth3"]
        .map(|name| [Hook::Ingress, Hook::Egress].map(|hook| drops(&by(name), hook)));
    assert_eq!(dropped, [[true, false], [false, true], [false, true], [false, false]]);
    let arp = Packet { arp: Some(true), ..by("eth0") };
    assert!(!drops(&arp, Hook::Ingress));
    assert_eq!(all.unjudged(), []);
}

#[test]
fn messages_of_arp_are_told_apart() {
    let rule = |field: &str, right: &str| {
        let test = matched(&payload("arp", field), right);
        let text = format!(
            r#"{{"nftables": [{{"chain": {{"family": "arp", "table": "f", "name": "in", "type": "filter", "hook": "input",
                "prio": 0, "policy": "accept"}}}},
               {{"rule": {{"family": "arp", "table": "f", "chain": "in", "handle": 2, "expr": [{test}, {DROP}]}}}}]}}"#
        );
        Firewalls::of_nft(&serde_json::from_str(&text).unwrap())
    };
    let message = |is_request| Packet {
        arp: Some(is_request),
        source: "10.0.0.2".parse().ok(),
        ..Packet::unknown(true)
    };

    for (field, right, expected) in [
        ("operation", r#""request""#, [true, false]),
        ("operation", r#""reply""#, [false, true]),
        ("htype", "1", [true, true]),
        ("saddr ip", r#""10.0.0.2""#, [true, true]),
        ("saddr ip", r#""10.0.0.3""#, [false, false]),
    ] {
        let all = rule(field, right);
        let dropped = [true, false].map(|is_request| {
            matches!(all.judge(&message(is_request), Hook::ArpInput), Fate::Dropped(_))
        });
        assert_eq!(dropped, expected, "{field} {right}");
        assert_eq!(all.judge(&Packet::unknown(true), Hook::Input), Fate::Passes);
    }
}
