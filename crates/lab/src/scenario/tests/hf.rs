//! Frequencies and what crosses them.

use std::path::Path;
use std::time::Duration;

use hf::s5066::cas::Access;
use hf::s5066::node::JITTER;
use hf::s5066::{Address, node};

use super::parse;

const HF: &str = r#"
nodes = ["pc", "ship", "shore", "server"]
duration = "1h"

[[link]]
between = ["pc", "ship"]

[[link]]
between = ["shore", "server"]

[[hf]]
stations = ["ship", "shore"]
waveform = "9600/short"
channel = "ber:1e-6"
behind = { ship = ["pc"], shore = ["server"] }

[[route]]
node = "pc"
to = "server"
via = "ship"

[[route]]
node = "server"
to = "pc"
via = "shore"

[[tcp]]
from = "pc"
to = "server"
octets = 20_000
"#;

#[test]
fn a_transfer_crosses_an_hf_frequency_between_two_networks() {
    let report = parse(HF).expect("a scenario").run(None, None).expect("a report");

    let tcp = report.flows[0].tcp.as_ref().expect("a transfer");
    assert_eq!(tcp.octets_received, 20_000, "{report}");
    let [ship, shore] = &report.hf[..] else { panic!("two stations: {report}") };
    assert!(ship.data_octets > 20_000 && shore.packets_out > 10, "{report}");
    assert_eq!((ship.dropped, shore.dropped), (0, 0), "{report}");
}

#[test]
fn what_is_wrong_with_a_frequency_is_said() {
    let complaint = |old: &str, new: &str| {
        assert!(HF.contains(old), "{old}");
        parse(&HF.replace(old, new)).expect_err("a mistake")
    };

    let cases = [
        (r#"["ship", "shore"]"#, r#"["ship"]"#, "1 stations; allowed are 2 to 32"),
        (r#"["ship", "shore"]"#, r#"["ship", "ship"]"#, "a node is one station of a frequency"),
        (r#"{ ship = ["pc"]"#, r#"{ pc = ["pc"]"#, "\"pc\" is no station of this frequency"),
        ("9600/short", "9601", "no 9601 bit/s in 4539, only 75, 150"),
        ("ber:1e-6", "sunny", "\"sunny\" is no HF channel: write clear, silent"),
    ];
    for (old, new, expected) in cases {
        let complaint = complaint(old, new);
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn stations_share_a_frequency_as_told() {
    let node = |added: &str| {
        let plan = parse(&HF.replace("[[hf]]", &format!("[[hf]]\n{added}"))).expect("a scenario");
        plan.frequencies[0].stations[1].config.clone()
    };
    let default = node("");

    assert_eq!(default, node::Config::new(Address::node(2), default.waveform));
    assert_eq!(node("access = \"slotted\"").access, Access::Slotted { position: 1, stations: 2 });
    assert_eq!(node("access = \"jitter\"").access, Access::Jitter { limit: JITTER });
    assert_eq!(
        node("access = \"jitter\"\njitter = \"3s\"").access,
        Access::Jitter { limit: Duration::from_secs(3) }
    );
    let chosen = node(
        r#"
longest = "30s"
exchange = "20s"
longest-beside-urgent = "10s"
switching = "0s"
calls = 9
idle = "1min"
ack-copies = 3
"#,
    );
    let periods = [chosen.longest, chosen.exchange, chosen.longest_beside_urgent, chosen.switching];
    assert_eq!(periods.map(|period| period.as_secs()), [30, 20, 10, 0]);
    assert_eq!((chosen.link.calls, chosen.link.idle.as_secs(), chosen.ack_copies), (9, 60, 3));
}

#[test]
fn a_third_station_makes_a_frequency_slotted() {
    let text = HF.replace(r#"["ship", "shore"]"#, r#"["ship", "shore", "pc"]"#);
    let access = |text: &str| {
        let plan = parse(text).expect("a scenario");
        plan.frequencies[0].stations.iter().map(|it| it.config.access).collect::<Vec<_>>()
    };

    let slots = [0, 1, 2].map(|position| Access::Slotted { position, stations: 3 });
    assert_eq!(access(&text), slots);
    let text = text.replace("[[hf]]", "[[hf]]\naccess = \"point-to-point\"");
    assert_eq!(access(&text), [Access::PointToPoint; 3]);
}

#[test]
fn choices_for_a_frequency_are_checked() {
    for (added, expected) in [
        ("access = \"slots\"", "hf.access: \"slots\" is not allowed: \"point-to-point\", "),
        ("jitter = \"3s\"", "hf.jitter: it is for access = \"jitter\""),
        ("longest = \"128s\"", "hf.longest: \"128s\" is not allowed: 1s to 127.5s"),
        ("exchange = \"4s\"", "hf.exchange: \"4s\" is not allowed: 5s to 10min"),
        (
            "longest-beside-urgent = \"9s\"\nlongest = \"8s\"",
            "hf.longest-beside-urgent: longest-beside-urgent = \"9s\", longest = \"8s\" are not",
        ),
        ("switching = \"11s\"", "hf.switching: \"11s\" is not allowed: 0s to 10s"),
        ("switching = 1", "hf.switching: \"1\" is not a time with its unit"),
        ("calls = 21", "hf.calls: 21 is not allowed: 1 to 20"),
        ("idle = \"2h\"", "hf.idle: \"2h\" is not allowed: 1s to 1h"),
        ("ack-copies = -1", "hf.ack-copies: -1 is not allowed: 1 to 5"),
    ] {
        let text = HF.replace("[[hf]]", &format!("[[hf]]\n{added}"));
        let complaint = parse(&text).expect_err("a mistake");
        assert!(complaint.starts_with(&format!("x.toml:12: {expected}")), "{complaint}");
    }
}

#[test]
fn an_urgent_stream_beside_a_transfer_waits_for_less() {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/hf-shared.toml"));
    let urgent = std::fs::read_to_string(path).expect("the example");
    assert!(urgent.contains("\ndscp = 46"), "{urgent}");
    let delay = |text: &str| {
        let report = parse(text).expect("a scenario").run(None, None).expect("a report");
        let udp = report.flows[1].udp.clone().expect("a stream");
        assert_eq!(udp.received, udp.sent, "{report}");
        (udp.delay_s.expect("some arrived"), report)
    };

    let (plain, _) = delay(&urgent.replace("\ndscp = 46", "\n"));
    let (soon, report) = delay(&urgent);

    assert!(soon < plain * 0.7, "{soon} s instead of {plain} s: {report}");
    let tcp = report.flows[0].tcp.as_ref().expect("a transfer");
    assert_eq!(Some(tcp.octets_received), tcp.octets, "{report}");
    assert!(report.to_string().contains("collided blocks"), "{report}");
}

#[test]
fn stations_that_ignore_others_collide() {
    let text = r#"
nodes = ["a", "b", "c", "d"]
duration = "5min"

[[hf]]
stations = ["a", "b", "c", "d"]
access = "slotted"

[[udp]]
from = "a"
to = "b"
rate = "200bit"
payload = 200

[[udp]]
from = "c"
to = "d"
rate = "200bit"
payload = 200
"#;
    let collisions = |text: &str| {
        let report = parse(text).expect("a scenario").run(None, None).expect("a report");
        let frequency = report.frequencies[0].clone();
        assert_eq!(frequency.stations, ["a", "b", "c", "d"]);
        frequency.collided_blocks + frequency.unreadable
    };

    let slotted = collisions(text);
    let careless = collisions(&text.replace("\"slotted\"", "\"point-to-point\""));

    assert!(slotted < careless, "{slotted} with slots, {careless} without");
}
