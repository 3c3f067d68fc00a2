//! The orders that make the table, and change it.

use rules::{PortRange, Protocol};

use super::*;

fn plan(rules: Vec<Rule>) -> Plan {
    let networks = ["10.9.0.0/16"].map(|it| it.parse().expect("a prefix"));
    let interfaces = vec!["eth1".to_owned(), "lo".to_owned()];
    Plan { networks: networks.to_vec(), interfaces, rules, let_in: [4001, 0], is_by_radio: false }
}

fn rule(name: &str, fate: Fate, change: impl FnOnce(&mut Selector)) -> Rule {
    let mut selector = Selector::default();
    change(&mut selector);
    Rule { name: name.to_owned(), selector, fate }
}

fn rules() -> Vec<Rule> {
    vec![
        rule("dns", Fate::Block(Refusal::Silent), |it| it.protocol = Some(Protocol::UDP)),
        rule("v6", Fate::Plain, |it| it.sources = vec!["fd00::/8".parse().unwrap()]),
        rule("lan", Fate::Block(Refusal::Prohibited), |it| {
            it.interfaces = vec!["eth1".to_owned(), "eth*".to_owned()];
            it.sources =
                ["10.1.0.0/16", "fd00::/8", "10.2.0.0/16"].map(|it| it.parse().unwrap()).to_vec();
            it.destinations = vec!["0.0.0.0/0".parse().unwrap()];
        }),
        rule("voice", Fate::Plain, |it| {
            it.source_ports = Ports::new(vec![PortRange::one(7)]);
            it.destination_ports = Ports::new(vec!["80-90".parse().unwrap(), PortRange::one(443)]);
            it.dscps = vec![46, 0];
        }),
        rule("own", Fate::Block(Refusal::Reset), |it| it.interfaces = vec!["lo".to_owned()]),
        rule("asked", Fate::Hold, |it| {
            it.destination_ports = Ports::new(vec![PortRange::one(22)]);
        }),
        rule("default", Fate::Split([4000, 0]), |_| ()),
    ]
}

#[test]
fn rules_are_rendered_in_their_order_where_they_have_something_to_decide_on() {
    let script = plan(rules()).script();

    let rules_of = |chain: &str| -> Vec<String> {
        let prefix = format!("add rule inet trackway {chain} ");
        script.iter().filter_map(|order| Some(order.strip_prefix(&prefix)?.to_owned())).collect()
    };
    let connection = "ip saddr . tcp sport . ip daddr . tcp dport";
    let voice = "tcp sport { 7 } tcp dport { 80-90, 443 } ip dscp { 46, 0 } goto by_ip4";
    assert_eq!(
        rules_of("arriving4"),
        [
            format!("{IS_LATER} socket transparent 1 meta mark set 0x74727064 accept"),
            format!("{IS_LATER} {connection} @plain4 goto by_ip4"),
            "tcp flags & (syn | ack) == syn | ack goto by_ip4".to_owned(),
            "iifname { \"eth1\", \"eth\\*\" } ip saddr { 10.1.0.0/16, 10.2.0.0/16 } counter name \
             \"rule-lan\" reject with icmpx admin-prohibited"
                .to_owned(),
            voice.to_owned(),
            "iifname { \"lo\" } counter name \"rule-own\" reject with tcp reset".to_owned(),
            format!(
                "tcp dport {{ 22 }} {IS_FIRST} log prefix \"asked\" group 29810 queue-threshold 1 drop"
            ),
            "tcp dport { 22 } meta l4proto tcp tproxy ip to 127.0.0.1:4001 meta mark set \
             0x74727064 accept"
                .to_owned(),
            "meta l4proto tcp tproxy ip to 127.0.0.1:4000 meta mark set 0x74727064 accept"
                .to_owned(),
        ]
    );
    assert_eq!(
        rules_of("leaving4"),
        [
            format!("{IS_LATER} {connection} @split4 goto by_pep4"),
            format!("{IS_LATER} {connection} @plain4 goto by_ip4"),
            "tcp flags & (syn | ack) == syn | ack goto by_ip4".to_owned(),
            voice.to_owned(),
            "counter name \"rule-own\" reject with tcp reset".to_owned(),
            format!(
                "tcp dport {{ 22 }} {IS_FIRST} log prefix \"asked\" group 29810 queue-threshold 1 \
                 goto held4"
            ),
            "tcp dport { 22 } goto by_pep4".to_owned(),
            "goto by_pep4".to_owned(),
        ]
    );
    assert_eq!(
        rules_of("by_pep4"),
        [
            format!("delete @plain4 {{ {connection} }}"),
            format!("update @split4 {{ {connection} }}"),
            "meta mark set 0x74727064 accept".to_owned(),
        ]
    );
    assert_eq!(
        rules_of("held4"),
        [
            format!("delete @plain4 {{ {connection} }}"),
            format!("update @split4 {{ {connection} }}"),
            "drop".to_owned(),
        ]
    );
    assert_eq!(rules_of("untracked"), ["meta mark 0x74727066 notrack"]);
    assert_eq!(
        rules_of("prerouting"),
        [
            "meta mark & 0xffffffff == 0x74727361 accept",
            "meta mark 0x74727065 ip daddr { 10.9.0.0/16 } meta l4proto tcp tproxy ip to 127.0.0.1:4001 \
             meta mark set 0x74727064 accept",
            "meta l4proto { tcp, udp, icmp, icmpv6 } socket transparent 1 socket wildcard 0 meta mark set \
             0x74727064 accept",
            "meta l4proto != tcp accept",
            "meta mark != 0x74727064 fib daddr type local accept",
            "iifname { \"eth1\", \"lo\" } ip daddr { 10.9.0.0/16 } goto arriving4",
        ]
    );
    assert_eq!(
        rules_of("output"),
        [
            "meta mark & 0xffffffff == 0x74727361 accept",
            "meta mark { 0x74727065, 0x74727066 } accept",
            "meta mark 0x74727074 fib saddr type != local update @lent4 { ip saddr . udp sport }",
            "meta mark 0x74727074 fib saddr type != local update @lent6 { ip6 saddr . udp sport }",
            "meta l4proto udp meta mark { 0x7472776b, 0x74727074 } accept",
            "ip daddr . udp dport @lent4 meta mark set 0x74727064 accept",
            "ip6 daddr . udp dport @lent6 meta mark set 0x74727064 accept",
            "meta mark 0x74727074 fib saddr type != local update @borrowed4 { ip saddr . tcp sport }",
            "meta mark 0x74727074 fib saddr type != local update @borrowed6 { ip6 saddr . tcp sport }",
            "meta l4proto tcp meta mark { 0x7472776b, 0x74727074 } accept",
            "ip daddr . tcp dport @borrowed4 meta mark set 0x74727064 accept",
            "ip6 daddr . tcp dport @borrowed6 meta mark set 0x74727064 accept",
            "meta l4proto != tcp accept",
            "ip daddr { 10.9.0.0/16 } goto leaving4",
        ]
    );
}

#[test]
fn the_table_that_stays_drops_by_the_same_rules_what_does_not_go_by_ip() {
    let Content { orders, .. } = plan(rules()).shut();

    let rules_of = |chain: &str| -> Vec<String> {
        let prefix = format!("add rule inet trackway_hfpep {chain} ");
        orders.iter().filter_map(|order| Some(order.strip_prefix(&prefix)?.to_owned())).collect()
    };
    let connection = "ip saddr . tcp sport . ip daddr . tcp dport";
    let known = [
        format!("{IS_LATER} {connection} @plain4 goto by_ip4"),
        "tcp flags & (syn | ack) == syn | ack goto by_ip4".to_owned(),
    ];
    let arriving = [
        "iifname { \"eth1\", \"eth\\*\" } ip saddr { 10.1.0.0/16, 10.2.0.0/16 } counter name in-clear drop",
        "tcp sport { 7 } tcp dport { 80-90, 443 } ip dscp { 46, 0 } goto by_ip4",
        "iifname { \"lo\" } counter name in-clear drop",
        "tcp dport { 22 } counter name in-clear drop",
        "counter name in-clear drop",
    ];
    assert_eq!(rules_of("arriving4"), [&known[..], &arriving.map(str::to_owned)].concat());
    let last = rules_of("leaving4").pop();
    assert_eq!(last.as_deref(), Some("counter name in-clear drop"));
    assert_eq!(
        rules_of("by_ip4"),
        [format!("update @plain4 {{ {connection} }}"), "accept".to_owned()]
    );
    assert_eq!(
        rules_of("prerouting"),
        [
            "meta mark & 0xffffffff == 0x74727361 accept",
            "meta mark & 0xfffffffe == 0x74727064 accept",
            "meta l4proto != tcp accept",
            "meta mark != 0x74727064 fib daddr type local accept",
            "iifname { \"eth1\", \"lo\" } ip daddr { 10.9.0.0/16 } goto arriving4",
        ]
    );
    assert_eq!(
        rules_of("output"),
        [
            "meta mark & 0xffffffff == 0x74727361 accept",
            "meta mark & 0xfffffffe == 0x74727064 accept",
            "meta mark { 0x7472776b, 0x74727074, 0x74727066, 0x74727061 } accept",
            "meta l4proto != tcp accept",
            "ip daddr { 10.9.0.0/16 } goto leaving4",
        ]
    );
    assert_eq!(
        rules_of("guard"),
        [
            "meta mark { 0x74727061, 0x74727066 } oifname != { \"eth1\", \"lo\" } counter name in-clear drop"
        ]
    );
    let anywhere = Plan { interfaces: Vec::new(), ..plan(rules()) }.shut();
    assert!(anywhere.orders.iter().all(|order| !order.contains("guard")));
}

#[test]
fn connections_of_this_host_stay_where_only_others_are_taken() {
    let script = Plan { interfaces: vec!["eth1".to_owned()], ..plan(rules()) }.script();

    assert!(script.iter().all(|order| !order.contains("output ip daddr { 10.9")), "{script:?}");
}

#[test]
fn other_rules_come_in_place_of_the_old_and_counters_of_those_that_stay_stay() {
    let mut rules = rules();
    let before = plan(rules.clone());
    rules.remove(0);
    rules.insert(1, rule("new", Fate::Block(Refusal::Silent), |_| ()));

    let orders = plan(rules).follow(&before);

    let deciding = |order: &&String| {
        let is_other = ["prerouting", "output", "arriving6", "leaving6"];
        !order.starts_with("add rule") && is_other.iter().all(|chain| !order.ends_with(chain))
    };
    let changes: Vec<_> = orders.iter().filter(deciding).collect();
    assert_eq!(
        changes,
        [
            "add counter inet trackway rule-new",
            "flush chain inet trackway arriving4",
            "flush chain inet trackway leaving4",
            "flush chain inet trackway untracked",
            "delete counter inet trackway rule-dns",
        ]
    );
    assert!(orders.iter().any(|order| order == "flush chain inet trackway prerouting"));
    let new = "add rule inet trackway leaving4 counter name \"rule-new\" drop";
    assert!(orders.iter().any(|order| order == new), "{orders:?}");
}

#[test]
fn networks_within_others_are_left_out_and_everything_is_a_version() {
    let far = |networks: &[&str]| {
        let networks = networks.iter().map(|it| it.parse().unwrap()).collect();
        let plan = Plan { networks, ..plan(Vec::new()) };
        VERSIONS.each_ref().map(|version| plan.far(version))
    };

    assert_eq!(
        far(&[
            "10.2.0.0/16",
            "fd02::/32",
            "10.2.3.0/24",
            "10.1.0.0/16",
            "10.2.0.0/16",
            "fd02::1/128"
        ]),
        ["ip daddr { 10.1.0.0/16, 10.2.0.0/16 }", "ip6 daddr { fd02::/32 }"]
    );
    assert_eq!(far(&["0.0.0.0/0", "10.2.0.0/16", "fd02::/32"])[0], "meta nfproto ipv4");
}

#[test]
fn errors_of_this_host_are_told_by_the_packet_that_they_are_about() {
    let orders = Plan::own_errors();

    for order in [
        "add set inet trackway answered4 { typeof ip saddr . @th,224,16; size 65536; flags dynamic,timeout; \
         timeout 1d; }",
        "add rule inet trackway errors meta l4proto tcp meta mark 0x74727074 fib saddr type != local update \
         @answered4 { ip saddr . @nh,160,16 }",
        "add rule inet trackway errors icmp type { destination-unreachable, time-exceeded, parameter-problem } \
         @th,136,8 6 ip daddr . @th,224,16 @answered4 meta mark set 0x74727064 accept",
        "add rule inet trackway errors icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, \
         parameter-problem } @th,112,8 17 ip6 daddr . @th,384,16 @asked6 meta mark set 0x74727064 accept",
    ] {
        assert!(orders.iter().any(|it| it == order), "{order}: {orders:#?}");
    }
}
