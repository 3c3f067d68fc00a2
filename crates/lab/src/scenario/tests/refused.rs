//! Files that say what cannot be, or what would have no effect.

use super::parse;

const PAIR: &str = r#"nodes = ["a", "b", "c", "d"]
duration = "1min"
[[link]]
between = ["a", "b"]
delay = "10ms"
[[link]]
between = ["c", "d"]
[[udp]]
from = "a"
to = "b"
payload = 100
interval = "1s"
start = "5s"
stop = "9s"
[[tcp]]
from = "a"
to = "b"
octets = 1000
"#;

#[test]
fn each_is_refused_with_its_line_and_what_is_wrong() {
    parse(PAIR).expect("a scenario");
    let cases = [
        (
            "delay = \"10ms\"",
            "jitter = \"1ms\"",
            "5: link.jitter: jitter 1ms is more than delay 0ns: nothing arrives before it is sent",
        ),
        (
            "delay = \"10ms\"",
            "delay = \"60ms\"\njitter = \"50ms\"\nback = { delay = \"10ms\" }",
            "6: link.jitter: jitter 50ms is more than delay 10ms: nothing arrives before it is sent",
        ),
        (
            "delay = \"10ms\"",
            "loss = 1",
            "5: link.loss: 1 is not clear: 100% or 1%? Write \"100%\" or \"1%\"",
        ),
        (
            "delay = \"10ms\"",
            "loss = 1.0",
            "5: link.loss: 1 is not clear: 100% or 1%? Write \"100%\" or \"1%\"",
        ),
        (
            "start = \"5s\"",
            "start = \"1min\"",
            "13: udp.start: the run is over by then: duration is \"60s\"",
        ),
        ("stop = \"9s\"", "stop = \"5s\"", "14: udp.stop: it stops before it starts"),
        (
            "octets = 1000",
            "octets = 1000\nstart = \"2h\"",
            "19: tcp.start: the run is over by then: duration is \"60s\"",
        ),
        (
            "to = \"b\"\npayload",
            "to = \"c\"\npayload",
            "10: udp.to: no links, radios or nets lead from \"a\" to \"c\"",
        ),
        (
            "octets = 1000",
            "octets = 1000\n[[route]]\nnode = \"a\"\nto = \"b\"\nvia = \"b\"\nat = \"1h\"",
            "23: route.at: the run is over by then: duration is \"60s\"",
        ),
        (
            "octets = 1000",
            "octets = 1000\nname = \"udp\"",
            "19: tcp.name: \"udp\" stands for all flows of a kind",
        ),
        (
            "octets = 1000",
            "octets = 1000\nname = \"x\"\n[[tcp]]\nfrom = \"a\"\nto = \"b\"\nname = \"x\"",
            "23: tcp.name: another flow is called \"x\"",
        ),
        (
            "octets = 1000",
            "octets = 1000\n[[net]]\nloss = 1",
            "20: net.loss: 1 is not clear: 100% or 1%? Write \"100%\" or \"1%\"",
        ),
        (
            "octets = 1000",
            "octets = 1000\nname = \"a\\u001b[2J\"",
            "19: tcp.name: a name has 1 to 64 characters, none of them a control character",
        ),
        (
            "octets = 1000",
            "octets = 1000\noptions.ecn = true",
            "19: tcp.options.ecn: nothing here marks packets: no link or radio has mark-at, no node HBH, and there is no tunnel",
        ),
        (
            "octets = 1000",
            "octets = 1000\nport = 9\nfrom-port = 8\n[[tcp]]\nfrom = \"a\"\nto = \"b\"\nport = 9\nfrom-port = 8",
            "23: tcp.to: another flow goes to port 9 from port 8 already",
        ),
        (
            "octets = 1000",
            "octets = 1000\n[messages]\nnodes = [\"a\", \"b\", \"d\"]",
            "20: messages.nodes: no links, radios or nets lead from \"a\" to \"d\"",
        ),
        (
            "octets = 1000",
            "octets = 1000\n[messages]\nnodes = [\"a\", \"b\"]\nstart = \"9s\"\nstop = \"8s\"",
            "22: messages.stop: it stops before it starts",
        ),
    ];
    for (old, new, expected) in cases {
        assert!(PAIR.contains(old), "{old}");

        let error = parse(&PAIR.replacen(old, new, 1)).expect_err(new);

        assert_eq!(error, format!("x.toml:{expected}"));
    }
}

#[test]
fn names_of_flows_that_have_none_are_their_own() {
    let again = "[[tcp]]\nfrom = \"a\"\nto = \"b\"\n".repeat(2);

    let plan = parse(&format!("{PAIR}{again}")).expect("a scenario");

    let names = plan.transfers.iter().map(|it| plan.name_of("tcp", &it.flow));
    assert_eq!(names.collect::<Vec<_>>(), ["tcp a to b", "tcp a to b 2", "tcp a to b 3"]);
}

#[test]
fn an_octet_count_and_a_probability_may_have_an_exponent() {
    let text = PAIR
        .replace("octets = 1000", "octets = 1e9")
        .replace("delay = \"10ms\"", "delay = \"10\u{3bc}s\"\nloss = \"1e-5\"");

    let plan = parse(&text).expect("a scenario");

    assert_eq!(plan.transfers[0].octets, Some(1_000_000_000));
    let channel = &plan.links[0].config.there;
    assert_eq!((channel.delay.as_micros(), channel.loss.mean()), (10, 1e-5));
}
