//! Tests scenario files with tactical traffic.

use std::path::Path;

use lab::scenario::{Bgp, Peers, Plan, Report};

/// Four routers in a line of needlines, with all kinds of traffic.
const LINE: &str = r#"
nodes = ["a", "b", "c", "d"]
duration = "4000s"
routing = "ospf"
passive-opens = 2

[ospf]
hello-interval = "60s"
dead-interval = "240s"
retransmit-interval = "30s"

[defaults.link]
rate = "480bit"
slots = "1s"
mtu = 576

[defaults.tcp]
rto.initial = "20s"
rto.syn = "20s"
r1 = 2
r2 = "80s after r1"

[[link]]
between = ["a", "b"]
framing = 9
frame = 128

[[link]]
between = ["b", "c"]

[[link]]
between = ["c", "d"]

[bgp]
start = "300s"
stop = "3900s"
options.delayed-ack.delay = "1s"

[messages]
nodes = ["a", "d"]
interval = "60s"
start = "300s"
stop = "3800s"
"#;

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(Path::new("x.toml"), text.to_owned()).map_err(|complaint| complaint.to_string())
}

fn run(text: &str) -> Report {
    parse(text).expect("a scenario").run(None, None).expect("a report")
}

#[test]
fn sessions_and_messages_come_over_needlines() {
    let report = run(LINE);

    let (bgp, messages) = (report.bgp.clone().expect("it"), report.messages.clone().expect("it"));
    // Of four sessions: at each end OPEN, its answer, 7 KEEPALIVEs and 3 UPDATEs.
    assert_eq!((bgp.messages, bgp.established), (8 * 12, 8), "{report}");
    assert_eq!(bgp.completion, Some(1.0), "{report}");
    assert!(bgp.tcp_octets > 8 * (50 + 7 * 20 + 3 * 110), "{report}");
    assert!((3.0..90.0).contains(&bgp.delay_s.expect("some")), "{report}");
    // An hour of one a minute, within five standard deviations; three hops of 8.7 s each and slots.
    assert!((20..=97).contains(&messages.sent), "{report}");
    assert_eq!((messages.completion, messages.errors), (Some(1.0), 0), "{report}");
    let delay = messages.delay_s.expect("some");
    assert!((26.2..60.0).contains(&delay), "{delay}");
    let text = report.to_string();
    assert!(text.contains("\nBGP\n") && text.contains("\nMessages\n"), "{text}");
}

#[test]
fn losses_of_needlines_are_those_of_messages() {
    let report = run(&LINE.replace("slots =", "loss = \"5%\"\nslots ="));

    let messages = report.messages.clone().expect("it");
    let bgp = report.bgp.clone().expect("it");
    // 0.95^3 of some 58, within five standard deviations.
    let completion = messages.completion.expect("some");
    assert!((0.6..1.0).contains(&completion), "{report}");
    assert!(bgp.completion.expect("some") > 0.8, "{report}");
}

#[test]
fn one_passive_open_is_too_few_for_a_mesh() {
    let mesh = LINE.replace("[bgp]\n", "[bgp]\npeers = \"mesh\"\n");
    let fixed = run(&mesh.replace("passive-opens = 2", "passive-opens = 1")).bgp.expect("it");
    let on_demand =
        run(&mesh.replace("passive-opens = 2", "passive-opens = \"on-demand\"")).bgp.expect("it");

    // Six sessions; the last node is called by three others, the one before by two.
    assert_eq!((on_demand.established, on_demand.no_passive_open), (12, 0), "{on_demand:?}");
    assert_eq!(fixed.established, 2 * 3, "{fixed:?}");
    assert!(fixed.no_passive_open > 0 && fixed.completion < on_demand.completion, "{fixed:?}");
}

#[test]
fn in_a_star_all_have_a_session_with_the_last() {
    let star =
        LINE.replace("[bgp]\n", "[bgp]\npeers = \"star\"\nnodes = [\"a\", \"c\", \"d\", \"b\"]\n");
    let bgp = run(&star.replace("passive-opens = 2\n", "")).bgp.expect("it");

    // At each end OPEN, its answer, 7 KEEPALIVEs and 3 UPDATEs.
    assert_eq!((bgp.established, bgp.messages), (2 * 3, 6 * 12), "{bgp:?}");
}

#[test]
fn tactical_traffic_is_written_and_reads_back() {
    let mesh = LINE.replace("[bgp]\n", "[bgp]\npeers = \"mesh\"\nkeepalive = 19\nopen = 90\n");
    for text in [LINE, &mesh] {
        let plan = parse(text).expect("a scenario");
        let written = plan.to_toml().expect("it can be written");
        assert_eq!(parse(&written), Ok(plan), "{written}");
    }
    let plan = parse(&mesh).expect("a scenario");
    let Some(Bgp { peers, sizes, tcp, .. }) = &plan.bgp else { panic!("{plan:?}") };
    assert_eq!((*peers, sizes.keepalive, tcp.mtu), (Peers::Mesh, 19, 576));
}

#[test]
fn complaints_of_tactical_traffic_name_line_and_key() {
    let cases = [
        ("passive-opens = 2", "passive-opens = 0", "x.toml:5: passive-opens: 0 is not allowed"),
        (
            "passive-opens = 2",
            "passive-opens = \"many\"",
            "x.toml:5: passive-opens: \"many\" is not",
        ),
        (
            "nodes = [\"a\", \"d\"]\n",
            "nodes = [\"a\", \"a\"]\n",
            "x.toml:40: messages.nodes: a node",
        ),
        (
            "nodes = [\"a\", \"d\"]\n",
            "nodes = [\"a\"]\n",
            "x.toml:39: messages: at least two nodes",
        ),
        ("nodes = [\"a\", \"d\"]\n", "nodes = [\"a\", \"e\"]\n", "x.toml:40: messages.nodes"),
        ("[bgp]\n", "[bgp]\nopen = 30\n", "x.toml:35: bgp.open: 30 is not allowed"),
    ];
    for (old, new, expected) in cases {
        let text = LINE.replacen(old, new, 1);
        assert_ne!(text, LINE, "{old}");
        let said = parse(&text).expect_err("a fault");
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn the_brigade_has_seven_needlines_between_its_corners() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/tactical-brigade.toml");
    let mut plan = Plan::read(Path::new(path)).expect("a scenario");
    plan.bgp = None;
    plan.messages = None;
    let mut built = plan.build(1).expect("a network");

    built.world.run_until(built.begin() + std::time::Duration::from_secs(600));

    for node in &built.nodes {
        // All needlines but its own.
        let own = built.world.addresses(*node).filter(|it| it.is_ipv4()).count();
        assert_eq!(built.world.routes(*node).len(), 31 - own);
    }
    let corner = built.world.addresses(built.nodes[19]).find(|it| it.is_ipv4()).expect("some");
    let way = built.world.path(built.nodes[0], corner).expect("a way");
    assert_eq!(way.len(), 8, "seven needlines");
}

#[test]
fn the_brigade_talks_for_an_hour() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/tactical-brigade.toml");
    let plan = Plan::read(Path::new(path)).expect("a scenario");

    let report = plan.run(None, None).expect("a report");

    let (bgp, messages) = (report.bgp.clone().expect("it"), report.messages.clone().expect("it"));
    // 66 sessions. In 55 minutes each end says OPEN, its answer, and 6 KEEPALIVEs; UPDATEs come to 2 or 3.
    assert!(bgp.established >= 2 * 66, "{report}");
    assert!((132 * 10..=132 * 11).contains(&bgp.messages), "{report}");
    assert!(bgp.completion.expect("some") > 0.98, "{report}");
    // 240 an hour, within five standard deviations.
    assert!((146..=294).contains(&messages.sent), "{report}");
    assert!(messages.completion.expect("some") > 0.98, "{report}");
    // A hop takes 8.7 s and half a slot, and there are some three of them.
    assert!((20.0..60.0).contains(&messages.delay_s.expect("some")), "{report}");
}
