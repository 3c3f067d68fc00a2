//! Combat nets in files.

use sim::cnr::{AccessMethod, Hearing, LinkType, Preset, StationId};

use super::parse;

/// Four stations in a row, which relay, and a host behind a wire.
const ROW: &str = r#"
nodes = ["a", "b", "c", "d", "host"]
duration = "30min"

[[net]]
name = "company"
stations = ["a", "b", "c", "d"]
hears = [["a", "b"], ["b", "c"], ["d", "c"]]
loss = 0
acknowledgement = "coupled"
retries = 8
access = "dap-nad"

[[link]]
between = ["d", "host"]

[[udp]]
from = "a"
to = "host"
payload = 100
interval = "1min"
count = 10

[[tcp]]
from = "d"
to = "a"
start = "12min"
octets = 2000
"#;

fn complaint(old: &str, new: &str) -> String {
    let text = ROW.replacen(old, new, 1);
    assert_ne!(text, ROW);
    parse(&text).expect_err("a fault")
}

#[test]
fn a_net_whose_stations_relay_carries_what_flows_send() {
    let report = parse(ROW).expect("a scenario").run(None, None).expect("a report");

    let udp = report.flows[1].udp.as_ref().expect("datagrams");
    assert_eq!([udp.sent, udp.received], [10, 10], "{report}");
    let tcp = report.flows[0].tcp.as_ref().expect("TCP");
    assert_eq!(tcp.octets_received, 2_000, "{report}");
    let net = &report.nets[0];
    assert_eq!((&*net.name, net.stations.len()), ("company", 4));
    assert!(net.stations[1].relayed > 10 && net.stations[1].acks > 10, "{report}");
    assert!(net.busy > 0.01 && net.busy < 1.0, "{}", net.busy);
    assert!(report.to_string().contains("\nNets\n  net      node"), "{report}");
}

#[test]
fn what_is_said_of_nets_is_written_and_reads_back() {
    let text = ROW.replace("loss = 0", "preset = \"sincgars-4800\"\nscheduling.factor = 2");
    let text = text.replace("access = \"dap-nad\"", "access = \"re-nad\"\nbusy-detect = \"30ms\"");
    let plan = parse(&text).expect("a scenario");
    let net = &plan.nets[0];
    assert_eq!(net.config.preset, Preset::Sincgars4800);
    assert_eq!(net.config.access, AccessMethod::RadioEmbedded);
    assert_eq!(net.config.link_type, LinkType::Coupled);
    let pairs = [[0, 1], [1, 2], [3, 2]].map(|pair| pair.map(StationId));
    assert_eq!(net.hearing, Hearing::Pairs(pairs.to_vec()));
    // TCP's segments fit in the packets of the net.
    assert_eq!(plan.transfers[0].tcp.mtu, 576);

    let written = plan.to_toml().expect("it can be written");

    assert_eq!(parse(&written), Ok(plan), "{written}");
}

#[test]
fn places_decide_who_hears_whom_where_the_file_says_so() {
    let text = r#"
nodes = ["a", "b", "c"]
duration = "10min"

[[net]]
hears = "places"
range = 1000
loss = 0
topology-spacing = "0s"

[node.a]
position = [0, 0]

[node.b]
position = [900, 0]

[node.c]
position = [1800, 0]

[[udp]]
from = "a"
to = "c"
payload = 100
interval = "1min"
count = 3
"#;
    let plan = parse(text).expect("a scenario");
    assert_eq!(plan.nets[0].hearing, Hearing::Places);
    assert_eq!(parse(&plan.to_toml().expect("a file")), Ok(plan.clone()));

    let report = plan.run(None, None).expect("a report");

    assert_eq!(report.flows[0].udp.as_ref().expect("datagrams").received, 3);
    assert_eq!(report.nets[0].stations[1].relayed, 3, "b is between");
    let text = text.replace("position = [900, 0]", "");
    let said = parse(&text).expect_err("a fault");
    assert!(said.contains("node \"b\" has neither position nor motion"), "{said}");
}

#[test]
fn complaints_say_what_is_wrong_with_a_net() {
    for (old, new, expected) in [
        ("stations = [\"a\", ", "stations = [\"a\", \"a\", ", "this node is named twice"),
        (
            "stations = [\"a\", \"b\", \"c\", \"d\"]",
            "stations = []",
            "0 stations; allowed are 1 to 92",
        ),
        ("[\"d\", \"c\"]]", "[\"d\", \"host\"]]", "this node is no station of the net"),
        ("hears = [[\"a\", \"b\"]", "hears = [[\"a\", \"a\"]", "a station does not hear itself"),
        (
            "hears = [[\"a\", \"b\"], [\"b\", \"c\"], [\"d\", \"c\"]]",
            "hears = 3",
            "\"places\", or a list",
        ),
        ("access = \"dap-nad\"", "access = \"csma\"", "dap-nad"),
        ("access = \"dap-nad\"", "scheduling.factor = 2\naccess = \"r-nad\"", "it is for access"),
        ("access = \"dap-nad\"", "hybrid.urgent = 1\naccess = \"h-nad\"", "at most 1 together"),
    ] {
        let said = complaint(old, new);
        assert!(said.contains(expected), "{new}: {said}");
    }
}
