//! Radios and motion in files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use base::time::Time;
use sim::mobility::{Motion, Position, Trace, bonnmotion, setdest};

use super::super::{Movement, Plan};
use super::parse;

/// Two nodes out of reach of each other, one that comes between them, and a host behind a wire.
const PASSING: &str = r#"
nodes = ["a", "b", "passer", "host"]
duration = "40s"
routing = "follow"

[[radio]]
name = "vhf"
stations = ["a", "b", "passer"]
queue = 20

[[link]]
between = ["b", "host"]

[node.a]
position = [0, 0]

[node.b]
position = [400, 0]

[node.passer]
position = [200, 900]
motion = [{ at = "5s", to = [200, -900], speed = 100.0 }]

[[udp]]
from = "a"
to = "host"
rate = "8kbit"
payload = 100
stop = "39s"
"#;

fn complaint(old: &str, new: &str) -> String {
    let text = PASSING.replacen(old, new, 1);
    assert_ne!(text, PASSING);
    parse(&text).expect_err("a fault")
}

#[test]
fn routes_follow_a_node_that_passes_by() {
    let report = parse(PASSING).expect("a scenario").run(None, None).expect("a report");

    // It is within 250 m of both for 300 m, which takes 3 s; ten datagrams a second.
    let udp = report.flows[0].udp.as_ref().expect("datagrams");
    assert!((28..=31).contains(&udp.received), "{report}");
    assert_eq!(report.radios[0].name, "vhf");
    let [a, _, passer] = &report.radios[0].stations[..] else { panic!("{report}") };
    assert!(a.data >= udp.received && passer.received >= udp.received, "{report}");
    assert!((passer.position[1] + 900.0).abs() < 1e-6, "{report}");
}

#[test]
fn routes_found_once_do_not_follow() {
    let text = PASSING.replace("\"follow\"", "\"shortest\"");

    let report = parse(&text).expect("a scenario").run(None, None).expect("a report");

    assert_eq!(report.flows[0].udp.as_ref().map(|udp| udp.received), Some(0), "{report}");
}

#[test]
fn a_radio_that_is_off_carries_nothing_and_routes_notice() {
    let off = |text: &str| PASSING.replace("queue = 20", text);
    let received = |text: &str| {
        let report = parse(text).expect("a scenario").run(None, None).expect("a report");
        report.flows[0].udp.as_ref().map(|udp| udp.received)
    };

    // The passer is between the others from 12.5 s to 15.5 s.
    let part = received(&off("off.passer = [[\"13.5s\", \"20s\"]]"));
    assert!((8..=11).contains(&part.unwrap_or_default()), "{part:?}");
    assert_eq!(received(&off("off.passer = [[\"12s\", \"16s\"]]")), Some(0));
    let node = PASSING.replace("[node.passer]", "[node.passer]\noff = [[\"12s\", \"16s\"]]");
    assert_eq!(received(&node), Some(0));
}

#[test]
fn the_motion_waits_for_time_0_where_hbh_runs_before() {
    // The links of the passer last 15 s: 150 datagrams.
    let text = format!("hbh = true\n{PASSING}")
        .replace("speed = 100.0", "speed = 20")
        .replace("40s", "80s")
        .replace("39s", "79s");

    let report = parse(&text).expect("a scenario").run(None, None).expect("a report");

    let udp = report.flows[0].udp.as_ref().expect("datagrams");
    assert!((130..=155).contains(&udp.received), "{report}");
    let carried: Vec<u64> =
        report.nodes.iter().filter_map(|node| Some(node.hbh.as_ref()?.packets)).collect();
    // From a over the passer and b to the host. It takes a hello or two until the passer is known.
    assert!(carried[..3].iter().all(|packets| *packets > 100), "{carried:?}: {report}");
}

#[test]
fn complaints_name_file_line_and_key_and_say_what_is_allowed() {
    let allowed = "allowed: -10000000 to 10000000";
    let cases = [
        (
            "position = [400, 0]",
            "",
            "x.toml:6: radio: node \"b\" has neither position nor motion; [node.NAME] has them, or \
             motion of the radio for all its stations"
                .to_owned(),
        ),
        (
            "position = [400, 0]",
            "position = [400]",
            "x.toml:18: node.b.position: [400] is not allowed: a list of two".to_owned(),
        ),
        (
            "position = [400, 0]",
            "position = [1e300, 0]",
            format!("x.toml:18: node.b.position: 1{} is not {allowed}", "0".repeat(300)),
        ),
        (
            "speed = 100.0",
            "speed = 0",
            "x.toml:22: node.passer.motion.speed: 0 is not allowed: 0.001 to 299792458".to_owned(),
        ),
        (
            "{ at = \"5s\"",
            "{ at = \"5s\", to = [1, 1], speed = 1 }, { at = \"4s\"",
            "x.toml:22: node.passer.motion.at: a node sets out in order of time".to_owned(),
        ),
        (
            "motion = [{ at = \"5s\", to = [200, -900], speed = 100.0 }]",
            "motion = { model = \"random\" }",
            "x.toml:22: node.passer.motion: such a motion says itself where it begins: no position"
                .to_owned(),
        ),
        (
            "position = [200, 900]\nmotion = [{ at = \"5s\", to = [200, -900], speed = 100.0 }]",
            "motion = { model = \"random\" }",
            "x.toml:21: node.passer.motion.model: \"random\" is not allowed: \"random-waypoint\""
                .to_owned(),
        ),
        (
            "position = [200, 900]\nmotion = [{ at = \"5s\", to = [200, -900], speed = 100.0 }]",
            "motion = { model = \"random-waypoint\", area = [0, 5] }",
            "x.toml:21: node.passer.motion: the sides of the area are 1 to 10000000 m, and its \
             corners within 10000000 m"
                .to_owned(),
        ),
        (
            "queue = 20",
            "off.host = [[\"1s\", \"2s\"]]",
            "x.toml:9: radio.off.host: this node is no station of the channel".to_owned(),
        ),
        (
            "queue = 20",
            "range = 0",
            "x.toml:9: radio.range: 0 is not allowed: 1 to 1000000".to_owned(),
        ),
    ];

    for (old, new, expected) in cases {
        assert_eq!(complaint(old, new), expected);
    }
}

#[test]
fn what_is_said_of_radios_and_motion_is_written_and_reads_back() {
    let random = "motion = { model = \"random-waypoint\", area = [500, 300.5], corner = [-1, 2], \
                  slowest = 2, fastest = 3, speeds = \"clipped-normal\", pause = \"1s\", \
                  steady = false }";
    let radio = "[[radio]]\nstations = [\"b\", \"host\"]\nrange = 300\nmtu = 1400\n\
                 off.b = [[\"1s\", \"2s\"], [\"3s\", \"4s\"]]\n";
    let text = format!("follow-every = \"1s\"\n{PASSING}\n{radio}{random}\n");
    let plan = parse(&text).expect("a scenario");

    let written = plan.to_toml().expect("it can be written");

    assert_eq!(parse(&written), Ok(plan.clone()), "{written}");
    assert!(matches!(plan.nodes[3].motion, Some(Movement::Random(_))), "{written}");
    assert_eq!(plan.radios[1].stations[0].off.spans().len(), 2);
}

/// A folder that goes when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("trackway-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_trace_moves_the_stations_of_a_radio() {
    let folder = Folder::new("traces");
    let mut motion = Motion::at_rest(Position::new(1.0, 2.0));
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    motion.go(at(10), at(20), Position::new(101.0, 2.0)).expect("a leg");
    let rest = Motion::at_rest(Position::new(50.0, 50.0));
    let trace = Trace::from([(0, rest), (1, motion.clone())]);
    fs::write(folder.0.join("move.tcl"), setdest::write(&trace)).expect("a file");
    fs::write(folder.0.join("move.gz"), bonnmotion::write_gzip(&trace)).expect("a file");
    let path = folder.0.join("x.toml");
    let text = |file: &str, more: &str| {
        format!(
            "nodes = [\"a\", \"b\"]\nduration = \"30s\"\n[[radio]]\n\
             motion = {{ trace = \"{file}\" {more} }}\n"
        )
    };
    let moves = |file: &str| {
        let plan = Plan::parse(&path, text(file, "")).expect("a scenario");
        let again = Plan::parse(&PathBuf::new(), plan.to_toml().expect("a file"));
        assert_eq!(again.as_ref(), Ok(&plan));
        let built = plan.build(1).expect("a network");
        built.motions[1].clone().expect("a motion")
    };

    for file in ["move.tcl", "move.gz"] {
        for second in [0, 10, 15, 30] {
            let (own, its) = (moves(file).position(at(second)), motion.position(at(second)));
            assert!(own.distance_squared(its) < 1e-6, "{file} {second} {own:?} {its:?}");
        }
    }
    let refused = |file: &str, more: &str| {
        Plan::parse(&path, text(file, more)).expect_err("a fault").to_string()
    };
    fs::write(folder.0.join("bad.tcl"), "\n$node_(0) set X_ 1e9\n").expect("a file");
    assert!(refused("none.tcl", "").contains("x.toml:4: radio.motion.trace: "));
    assert!(refused("none.tcl", "").contains("none.tcl: cannot be read: No such file"));
    assert!(refused("bad.tcl", "").contains("bad.tcl: line 2: X_ is \"1e9\"; allowed are"));
    assert!(refused(".", "").ends_with("is no file"), "{}", refused(".", ""));
    assert!(
        refused("move.tcl", ", node = 7")
            .ends_with("radio.motion.node: the file has no node 7; its nodes are 0 to 1")
    );
    // Numbers as CORE and SUMO have them: from 1, with gaps.
    let gaps: String = [1, 2, 6, 7, 9]
        .map(|node| format!("$node_({node}) set X_ {node}\n$node_({node}) set Y_ 0\n"))
        .concat();
    let gaps = format!("{gaps}$god_ set-dist 1 2 1\n$god_ set-dist 1 6 1\n");
    fs::write(folder.0.join("gaps.tcl"), gaps).expect("a file");
    let places = |more: &str| {
        let plan = Plan::parse(&path, text("gaps.tcl", more)).expect("a scenario");
        assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
        assert!(
            plan.notes[0]
                .ends_with("gaps.tcl: 2 orders that concern no node's motion were passed over")
        );
        let again = Plan::parse(&PathBuf::new(), plan.to_toml().expect("a file"));
        assert_eq!(again.as_ref(), Ok(&plan));
        let motions = plan.build(1).expect("a network").motions.into_iter().flatten();
        motions.map(|motion| motion.position(Time::ZERO).x).collect::<Vec<_>>()
    };
    assert_eq!(places(""), [1.0, 2.0], "in order");
    assert_eq!(places(", node = 6"), [6.0, 6.0]);
    assert_eq!(places("}\n[node.b]\nmotion = { trace = \"gaps.tcl\", node = 9"), [1.0, 9.0]);
    assert!(
        refused("gaps.tcl", ", node = 0").ends_with(
            "radio.motion.node: the file has no node 0; its nodes are 1 to 2, 6 to 7, 9"
        )
    );
    let one = "$node_(4) set X_ 0\n$node_(4) set Y_ 0\n";
    fs::write(folder.0.join("one.tcl"), one).expect("a file");
    assert!(refused("one.tcl", "").ends_with(
        "radio.motion.trace: this is for station 2, and the file moves the nodes 4 only; `node` \
         chooses one of them"
    ));
}

#[test]
fn every_seed_moves_random_nodes_in_its_own_way() {
    let text = "nodes = [\"a\", \"b\"]\n[[radio]]\nmotion = { model = \"random-waypoint\" }\n";
    let plan = parse(text).expect("a scenario");
    let motions = |seed| plan.build(seed).expect("a network").motions;

    assert_eq!(motions(1), motions(1));
    assert_ne!(motions(1), motions(2));
    assert_ne!(motions(1)[0], motions(1)[1]);
}
