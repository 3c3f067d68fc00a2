//! What is told of flows.

use super::*;

const TEXT: &str = r#"
    [ipclient]
    addresses = ["10.66.0.1/24"]
    ttl = "10min"
    [[ipclient.route]]
    node = "0.10.20.31"
    to = ["10.2.0.0/16", "10.66.0.2/32"]
    [[rule]]
    name = "dns"
    protocol = "udp"
    to-port = 53
    block = "icmp"
    [[rule]]
    name = "ping"
    protocol = "icmp"
    ttl = "10s"
    [[rule]]
    name = "ssh"
    to-port = 22
    priority = 9
    enabled = false
"#;

fn explain(protocol: &str, from: &str, to: &str) -> Explanation {
    let config = Config::parse("a.toml", TEXT).unwrap();
    Question::parse(protocol, from, to).unwrap().explain(&config)
}

#[test]
fn what_passes_is_told_with_its_service_and_node() {
    let told = explain("icmp", "10.1.2.3", "10.2.0.7");

    assert_eq!(told.rule.as_deref(), Some("ping"));
    let [PassedOver { rule, key, has, wanted }] = &told.passed_over[..] else { panic!() };
    let over = (&**rule, &**key, &**has, &**wanted);
    assert_eq!(over, ("dns", "protocol", "protocol 1", "udp"));
    let Outcome::Pass { service, why, treatment, via } = told.outcome else { panic!() };
    assert_eq!((&*service, &*why), ("ipclient", "only TCP is split"));
    assert_eq!((treatment.priority, treatment.ttl_s), (Some(0), Some(10)));
    let expected = Via::Node { network: "10.2.0.0/16".to_owned(), node: "0.10.20.31".to_owned() };
    assert_eq!(via, Some(expected));
}

#[test]
fn a_split_connection_is_told_with_the_peer_of_the_longest_prefix() {
    let text = "[[hfpep.peer]]\nnode = \"0.10.20.31\"\nto = [\"10.0.0.0/8\"]\n\
                [[hfpep.peer]]\ngateway = \"192.0.2.2:5099\"\nto = [\"10.2.0.0/16\"]\n";
    let config = Config::parse("a.toml", text).unwrap();

    let via = |to: &str| {
        let question = Question::parse("tcp", "10.1.2.3:5000", to).unwrap();
        let Outcome::Pass { via, .. } = question.explain(&config).outcome else { panic!() };
        via.unwrap()
    };

    let (network, gateway) = ("10.2.0.0/16".to_owned(), "192.0.2.2:5099".to_owned());
    assert_eq!(via("10.2.0.7:443"), Via::Gateway { network, gateway });
    let (network, node) = ("10.0.0.0/8".to_owned(), "0.10.20.31".to_owned());
    assert_eq!(via("10.3.0.7:443"), Via::Node { network, node });
}

#[test]
fn what_comes_to_a_port_of_direct_mode_is_told_with_its_target() {
    let text = "[[hfpep.listen]]\nat = \"10.1.0.1:53\"\nnode = \"0.10.20.31\"\n\
                target = \"10.2.0.1:5353\"\nprotocol = \"udp\"\n\
                [[rule]]\nname = \"own\"\nfrom-port = 7\nblock = \"icmp\"\n\
                [[rule]]\nname = \"names\"\nto-port = 5353\npriority = 9\n";
    let config = Config::parse("a.toml", text).unwrap();
    let explain =
        |protocol, from, to| Question::parse(protocol, from, to).unwrap().explain(&config);

    let told = explain("udp", "10.1.2.3:5000", "10.1.0.1:53");
    assert_eq!(told.rule.as_deref(), Some("names"));
    let Outcome::Pass { service, why, treatment, via } = told.outcome else { panic!() };
    let expected = "a port of this gateway stands for its target";
    assert_eq!((&*service, &*why, treatment.priority), ("hfpep", expected, Some(9)));
    let (network, node) = ("10.2.0.1:5353".to_owned(), "0.10.20.31".to_owned());
    assert_eq!(via, Some(Via::Node { network, node }));

    let Outcome::Block { told, .. } = explain("udp", "10.1.2.3:7", "10.1.0.1:53").outcome else {
        panic!()
    };
    assert_eq!(told, "nothing");
    let other = explain("tcp", "10.1.2.3:5000", "10.1.0.1:53").outcome;
    assert!(matches!(other, Outcome::Pass { service, .. } if service == "ipclient"));
}

#[test]
fn what_no_rule_matches_has_the_class_of_its_code_point_and_may_lead_nowhere() {
    let config = Config::parse("a.toml", TEXT).unwrap();
    let question = Question::parse("tcp", "10.1.2.3:5000", "10.9.0.1:443").unwrap();
    let told = Question { dscp: 46, ..question }.explain(&config);

    assert_eq!((told.rule, told.passed_over.len()), (None, 3));
    let Outcome::Pass { why, treatment, via, .. } = told.outcome else { panic!() };
    assert_eq!((&*why, via), ("no peer of its destination splits TCP", None));
    assert_eq!((treatment.priority, treatment.ttl_s), (Some(10), Some(600)));
}

#[test]
fn what_is_blocked_is_told_with_the_reason() {
    let told = |protocol, to| match explain(protocol, "10.1.2.3:5000", to).outcome {
        Outcome::Block { told, why } => format!("{told}: {why}"),
        outcome @ Outcome::Pass { .. } => panic!("{outcome:?}"),
    };

    let icmp = "ICMP administratively prohibited";
    assert_eq!(told("udp", "10.2.0.7:53"), format!("{icmp}: the rule blocks it"));
    assert_eq!(told("udp", "10.2.0.7:22"), format!("{icmp}: the rule is disabled"));
    assert_eq!(told("tcp", "10.2.0.7:22"), "a TCP reset: the rule is disabled");
}

#[test]
fn what_is_no_flow_is_refused_with_what_is_meant() {
    for (protocol, from, to, expected) in [
        ("tpc", "::1", "::1", "\"tpc\" is no protocol: \"tcp\", \"udp\", \"icmp\", or"),
        ("tcp", "10.0.0.1", "10.0.0.2:4", "tcp has ports: 10.1.2.3:5000 or"),
        ("icmp", "10.0.0.1:4", "10.0.0.2", "icmp has no ports"),
        ("47", "10.0.0.1:4", "10.0.0.2", "protocol 47 has no ports"),
        ("udp", "10.0.0.1:4", "[fd00::1]:4", "no packet has IPv4 on one side"),
        ("udp", "a:4", "[fd00::1]:4", "\"a:4\" is no address such as"),
    ] {
        let said = Question::parse(protocol, from, to).unwrap_err().to_string();
        assert!(said.starts_with(expected), "{said}\nnot\n{expected}");
    }
}

#[test]
fn a_service_that_does_not_run_takes_nothing() {
    let text = "[sar]\n[sar.carry]\nports = [514]\n[[sar.carry.peer]]\ngateway = \"192.0.2.9\"\nto = [\"127.9.0.0/16\"]\n";
    let config = Config::parse("a.toml", text).unwrap();
    let question = Question::parse("udp", "127.0.0.1:4000", "127.9.0.1:514").unwrap();
    let told = |runs: bool| match question.explain_here(&config, |_| runs).outcome {
        Outcome::Pass { service, why, .. } => (service, why),
        Outcome::Block { .. } => panic!(),
    };

    assert_eq!(told(true).0, "sar");
    let (service, why) = told(false);
    assert_eq!(service, "none");
    assert!(why.ends_with("; sar would take it, and does not run"), "{why}");
}
