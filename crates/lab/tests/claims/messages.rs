//! Tests scenario files with messages over UDP, S/R and TCP.

use std::path::Path;
use std::time::Duration;

use lab::scenario::{MessagesReport, Over, Plan};
use sar::Profile;

const NET: &str = r#"
nodes = ["a", "b", "c", "d"]
duration = "4000s"

[defaults.tcp]
rto.initial = "7s"

[[net]]

[messages]
interval = "20s"
payload = 128
stop = "3000s"
"#;

const SAR: &str = "over = \"sar\"\n[messages.sar]\nprofile = \"seed\"\nround-trip = \"10s\"\n";

fn with(more: &str) -> String {
    format!("{NET}{more}")
}

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(Path::new("x.toml"), text.to_owned()).map_err(|complaint| complaint.to_string())
}

fn run(text: &str) -> MessagesReport {
    let report = parse(text).expect("a scenario").run(None, None).expect("a report");
    report.messages.expect("it")
}

#[test]
fn each_carrier_tells_what_it_knows() {
    let [udp, sar, tcp] = ["", SAR, "over = \"tcp\"\n"].map(|over| run(&with(over)));

    assert_eq!([udp.sent, sar.sent], [tcp.sent; 2], "the same messages");
    assert_eq!((udp.told, udp.set_up, udp.sar.len()), (0, 0, 0));
    assert!(udp.completion < Some(1.0), "{udp:?}");
    assert_eq!(sar.completion, Some(1.0), "{sar:?}");
    assert!(sar.told_share > Some(0.9) && sar.set_up == 0 && sar.sar.len() == 4, "{sar:?}");
    assert_eq!((tcp.told_share, tcp.set_up), (Some(1.0), tcp.sent), "{tcp:?}");
    assert!(sar.delay_s < tcp.delay_s && tcp.set_up_s < tcp.delay_s, "{tcp:?}");
    assert!(tcp.delay_90_s > tcp.delay_s && tcp.delay_90_s < tcp.longest_delay_s, "{tcp:?}");
}

#[test]
fn messages_are_written_and_read_back() {
    let several = "destinations = 3\ngroup = true\nprecedence = 2\nlifetime = \"30s\"\n";
    let kept = "over = \"tcp\"\nkeep = \"2min\"\n[messages.options]\nrto.min = \"3s\"\n";
    for more in [SAR, &format!("{several}{SAR}"), kept] {
        let plan = parse(&with(more)).expect("a scenario");
        let written = plan.to_toml().expect("it can be written");
        assert_eq!(parse(&written), Ok(plan), "{written}");
    }
    let plan = parse(&with(SAR)).expect("a scenario").messages.expect("it");
    assert_eq!((plan.over, plan.sar.profile), (Over::Sar, Profile::Seed));
    let plan = parse(&with(kept)).expect("a scenario").messages.expect("it");
    assert_eq!(plan.tcp.rto.initial, Duration::from_secs(7), "the usual TCP counts");
    assert_eq!((plan.tcp.mtu, plan.tcp.rto.min), (576, Duration::from_secs(3)));
}

#[test]
fn complaints_of_messages_name_line_and_key() {
    let cases = [
        ("over = \"ip\"\n", "x.toml:14: messages.over: \"ip\" is not"),
        ("over = \"tcp\"\ngroup = true\n", "x.toml:15: messages.group: group = true, over = "),
        ("keep = \"1s\"\n", "x.toml:14: messages.keep"),
        ("[messages.sar]\nprofile = \"seed\"\n", "x.toml:14: messages.sar: "),
        ("over = \"sar\"\n[messages.sar]\nsegments = 3\n", "x.toml:16: messages.sar.segments: "),
    ];
    for (more, expected) in cases {
        let said = parse(&with(more)).expect_err("a fault");
        assert!(said.starts_with(expected), "{said}");
    }
}
