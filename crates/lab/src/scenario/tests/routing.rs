//! Routing protocols in files.

use std::net::IpAddr;

use manet::aodv;
use sim::QueueDiscipline;
use sim::service::routing::RoutingProtocol;

use super::super::{Plan, Report, Routing};
use super::parse;

/// A chain of three radios, whose end is a gateway to a host behind two wires.
const CHAIN: &str = r#"
nodes = ["a", "b", "gate", "router", "host"]
duration = "60s"
routing = "aodv"

[[radio]]
stations = ["a", "b", "gate"]

[[link]]
between = ["gate", "router"]

[[link]]
between = ["router", "host"]

[node.a]
position = [0, 0]

[node.b]
position = [200, 0]

[node.gate]
position = [400, 0]
gateway = true

[[udp]]
from = "a"
to = "host"
rate = "8kbit"
payload = 100
start = "40s"
stop = "50s"

[[udp]]
from = "host"
to = "b"
rate = "8kbit"
payload = 100
start = "20s"
stop = "30s"
"#;

fn changed(old: &str, new: &str) -> String {
    let text = CHAIN.replacen(old, new, 1);
    assert_ne!(text, CHAIN);
    text
}

fn run(text: &str) -> Report {
    parse(text).expect("a scenario").run(None, None).expect("a report")
}

fn received(report: &Report) -> Vec<u64> {
    report.flows.iter().filter_map(|flow| flow.udp.as_ref()).map(|udp| udp.received).collect()
}

#[test]
fn each_protocol_joins_a_manet_to_hosts_behind_its_gateway() {
    for protocol in ["aodv", "dsdv", "olsr"] {
        let report = run(&CHAIN.replace("aodv", protocol));

        for received in received(&report) {
            assert!(received >= 95, "{protocol}: {report}");
        }
        let of = |node: usize| report.nodes[node].routing.as_ref();
        for node in 0..3 {
            let routing = of(node).expect("it runs one");
            assert!(routing.packets > 0 && routing.octets > 0, "{protocol}: {report}");
            assert!(routing.node.route_changes > 0, "{protocol}: {report}");
            assert!(routing.protocol.values().any(|count| *count > 0), "{protocol}: {report}");
        }
        assert!(of(3).is_none() && of(4).is_none(), "wires need no protocol");
        let text = report.to_string();
        assert!(text.contains("\nRouting\n") && text.contains("\nRouting, all nodes\n"), "{text}");
    }
}

#[test]
fn without_a_gateway_there_is_no_way_out_or_in() {
    for protocol in ["aodv", "dsdv", "olsr"] {
        let text = changed("gateway = true\n", "").replace("aodv", protocol);

        assert_eq!(received(&run(&text)), [0, 0], "{protocol}");
    }
}

#[test]
fn hosts_take_the_gateway_that_is_nearer() {
    let text = changed("stations = [\"a\", \"b\", \"gate\"]", "").replace(
        "[node.a]",
        "[node.router]\nposition = [400, 100]\ngateway = true\n\
         [node.host]\nposition = [400, 200]\n[node.a]",
    );
    let text = text.replace("\"host\"]\nduration", "\"host\", \"pc\"]\nduration").replace(
        "[[radio]]",
        "[[link]]\nbetween = [\"router\", \"pc\"]\n[[radio]]\n\
         stations = [\"a\", \"b\", \"gate\", \"router\", \"host\"]",
    );
    let plan = parse(&text).expect("a scenario");

    let built = plan.build(1).expect("a network");

    let [a, router, pc] = [0, 3, 5].map(|node| built.nodes[node]);
    let a: IpAddr = built.world.addresses(a).next().expect("an address");
    assert_eq!(built.world.next_hop(pc, a), Some(router));
}

fn aodv_of(plan: &Plan) -> &aodv::Config {
    match &plan.routing {
        Routing::Protocol(protocol) => match &**protocol {
            RoutingProtocol::Aodv(config) => config,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_link_layer_tells_aodv_unless_hellos_shall() {
    let plan = parse(CHAIN).expect("a scenario");
    let hellos = parse(&format!("{CHAIN}[aodv]\nprofile = \"hello\"\nhello.interval = \"2s\"\n"));
    let two = parse(&format!("{CHAIN}[[radio]]\nstations = [\"a\"]\n")).expect("a scenario");

    let manet = |plan: &Plan| aodv_of(plan).internet.manet.to_string();
    assert_eq!(aodv_of(&plan).profile, aodv::Profile::LinkLayerFeedback);
    assert_eq!(manet(&plan), "10.128.0.0/16");
    assert_eq!(manet(&two), "10.128.0.0/15");
    let hellos = hellos.expect("a scenario");
    assert_eq!(aodv_of(&hellos).hello.mode, aodv::Hellos::Active);
    assert_eq!(aodv_of(&hellos).hello.interval.as_secs(), 2);
    assert_eq!(manet(&hellos), "10.128.0.0/16");
}

#[test]
fn messages_go_first_on_radios_below_a_protocol() {
    let discipline =
        |text: &str| parse(text).expect("a scenario").radios[0].interface.queue_discipline;

    assert_eq!(discipline(CHAIN), QueueDiscipline::RoutingFirst);
    let follow = changed("aodv", "follow").replace("gateway = true\n", "");
    assert_eq!(discipline(&follow), QueueDiscipline::DropTail);
    let said = changed("[[radio]]", "[[radio]]\nqueue-discipline = \"drop-tail\"");
    assert_eq!(discipline(&said), QueueDiscipline::DropTail);
}

#[test]
fn what_is_said_of_routing_is_written_and_reads_back() {
    let hello = "profile = \"hello\"\nmanet = \"10.128.0.0/12\"\ngratuitous = true\n\
                 delete-period = \"7s\"\n";
    for (protocol, table) in [
        ("aodv", ""),
        ("aodv", hello),
        ("dsdv", "update-interval = \"3s\"\nlink-breaks = true\n"),
        ("olsr", "hello-interval = \"1s\"\nwillingness = 7\n"),
    ] {
        let queue = "[[radio]]\nqueue-discipline = \"fair\"\nthin-acks = true";
        let text = CHAIN.replace("aodv", protocol).replacen("[[radio]]", queue, 1);
        let plan = parse(&format!("{text}[{protocol}]\n{table}")).expect("a scenario");

        let written = plan.to_toml().expect("it can be written");

        assert_eq!(parse(&written), Ok(plan), "{written}");
    }
}

#[test]
fn complaints_of_routing_name_line_and_key() {
    let cases = [
        ("routing = \"aodv\"", "routing = \"rip\"", "x.toml:4: routing: \"rip\" is not allowed: "),
        (
            "gateway = true",
            "gateway = 1",
            "x.toml:23: node.gate.gateway: 1 is not allowed: true or false",
        ),
        (
            "routing = \"aodv\"",
            "routing = \"follow\"",
            "x.toml:23: node.gate.gateway: a gateway needs a routing protocol, such as routing = \
             \"aodv\"",
        ),
        (
            "[node.a]",
            "[node.host]\ngateway = true\n[node.a]",
            "x.toml:16: node.host.gateway: this node has no radio, so it is no gateway",
        ),
        (
            "[[radio]]",
            "[aodv]\nhello.interval = \"1ms\"\n[[radio]]",
            "x.toml:7: aodv.hello.interval: \"1ms\" is not allowed: ",
        ),
        (
            "[[radio]]",
            "[aodv]\ngateway = true\n[[radio]]",
            "x.toml:7: aodv.gateway: a gateway says so itself: gateway = true in [node.NAME]",
        ),
        ("[[radio]]", "[olsr]\nwillingness = 3\n[[radio]]", "x.toml:6: olsr: there is no such key"),
        (
            "[[radio]]",
            "[[radio]]\nqueue-discipline = \"lifo\"",
            "x.toml:7: radio.queue-discipline: \"lifo\" is not allowed: \"drop-tail\", ",
        ),
    ];

    for (old, new, expected) in cases {
        let said = parse(&changed(old, new)).expect_err("a fault");
        assert!(said.starts_with(expected), "{said}");
    }
    let said = parse("nodes = [\"a\"]\nrouting = \"olsr\"\n").expect_err("a fault");
    let expected = "x.toml:2: routing: a routing protocol runs on radios: [[radio]] adds a channel";
    assert_eq!(said, expected);
}

/// Four routers in a ring of links.
const RING: &str = r#"
nodes = ["a", "b", "c", "d"]
duration = "120s"
routing = "ospf"

[ospf]
hello-interval = "5s"
dead-interval = "20s"

[[link]]
between = ["a", "b"]
down = [["60s", "120s"]]

[[link]]
between = ["b", "c"]

[[link]]
between = ["c", "d"]

[[link]]
between = ["d", "a"]

[node.c]
addresses = ["192.168.7.1"]

[[udp]]
from = "a"
to = "c"
rate = "8kbit"
payload = 100
start = "20s"
stop = "110s"
"#;

#[test]
fn ospf_runs_on_links_and_finds_the_other_way_around() {
    let report = run(RING);

    // The end of a link that is down is noticed at once, and its neighbours are told.
    assert!(received(&report)[0] >= 895, "{report}");
    // Of what is left of the ring, with the address of c, each has routes to what is not its own.
    for (node, routes) in report.nodes.iter().zip([3, 3, 1, 2]) {
        let routing = node.routing.as_ref().expect("all run it");
        assert_eq!(routing.routes, routes, "{report}");
        assert!(routing.packets > 40, "{report}");
        assert_eq!(routing.protocol["area_mismatches"], 0);
    }
}

#[test]
fn ospf_is_written_and_reads_back_and_wants_links_alone() {
    let plan = parse(RING).expect("a scenario");
    let written = plan.to_toml().expect("it can be written");
    assert_eq!(parse(&written), Ok(plan), "{written}");

    let radio = "[[radio]]\nstations = [\"a\", \"b\"]\n[node.a]\nposition = [0, 0]\n\
                 [node.b]\nposition = [0, 9]\n";
    let said = parse(&format!("{RING}{radio}")).expect_err("a fault");
    assert!(said.starts_with("x.toml:4: routing: ospf runs on links between two"), "{said}");
    let said = parse(&RING.replace("20s\"\n\n[[link]]", "5s\"\n\n[[link]]")).expect_err("a fault");
    assert!(said.contains("dead-interval is more than hello-interval"), "{said}");
}
