//! Tests scenarios as a user runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios").join(name)
}

fn run(scenario: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trackway"))
        .args(["sim", "run"])
        .arg(scenario)
        .args(args)
        .output()
        .expect("it starts")
}

fn report(name: &str, args: &[&str]) -> Value {
    let output = run(&example(name), &[&["--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one object and nothing else")
}

/// A file that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("trackway-{}-{name}", std::process::id())))
    }

    fn write(name: &str, text: &str) -> Self {
        let scratch = Self::new(name);
        fs::write(&scratch.0, text).expect("a writable folder");
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_company_shares_its_radio_net_and_urgent_calls_come_through() {
    let report = report("tactical-company.toml", &[]);

    let flows = report["flows"].as_array().expect("flows");
    assert_eq!(flows[0]["tcp"]["octets_received"], 6_000, "{}", flows[0]);
    for flow in &flows[1..] {
        let udp = &flow["udp"];
        let [sent, received] = ["sent", "received"].map(|key| udp[key].as_f64().expect("a number"));
        assert!(received > 0.8 * sent, "{flow}");
    }
    let stations = report["nets"][0]["stations"].as_array().expect("stations");
    assert_eq!(stations.len(), 16);
    assert!(stations.iter().all(|it| it["updates"] == 1), "{stations:?}");
}

#[test]
fn a_company_is_told_that_its_messages_came() {
    let report = report("tactical-messages.toml", &[]);

    let messages = &report["messages"];
    assert!(messages["sent"].as_u64() > Some(200), "{messages}");
    assert_eq!(messages["told"], messages["sent"], "{messages}");
    assert_eq!(messages["sar"].as_array().map(Vec::len), Some(16), "{messages}");
}

#[test]
fn each_example_carries_all_of_its_flows() {
    let folder = fs::read_dir(example("")).expect("the examples");
    let names = folder.map(|entry| entry.expect("an entry").file_name().into_string());
    let names: Vec<_> = names.map(|name| name.expect("UTF-8")).collect();
    assert!(names.len() >= 13, "{names:?}");

    for name in names {
        let report = report(&name, &[]);
        for flow in report["flows"].as_array().expect("flows") {
            let arrived = [&flow["tcp"]["octets_received"], &flow["udp"]["received"]];
            assert!(arrived.iter().any(|it| it.as_u64() > Some(0)), "{name}: {flow}");
        }
    }
}

#[test]
fn the_chain_delivers_within_seconds_and_every_node_speaks_hbh() {
    let report = report("chain.toml", &[]);

    let tcp = &report["flows"][0]["tcp"];
    assert_eq!(tcp["octets_received"], 100_000);
    assert!(tcp["delay_s"].as_f64().is_some_and(|delay| (3.7..15.0).contains(&delay)), "{tcp}");
    assert_eq!(report["links"].as_array().map(Vec::len), Some(8));
    for node in report["nodes"].as_array().expect("nodes") {
        assert!(node["hbh"]["data_sent"].as_u64() > Some(10), "{node}");
    }
}

#[test]
fn the_bottleneck_pushes_its_losses_to_the_edge() {
    let report = report("bottleneck.toml", &[]);

    let refused = |index: usize| report["nodes"][index]["hbh"]["full"].as_u64();
    let udp = &report["flows"][0]["udp"];
    assert!(udp["received"].as_u64() < udp["sent"].as_u64(), "{udp}");
    assert!(refused(0) > refused(1).max(refused(2)), "{report}");
}

#[test]
fn the_satellite_carries_new_tcp_faster_than_old() {
    let report = report("satellite.toml", &[]);

    let delay = |index: usize| report["flows"][index]["tcp"]["delay_s"].as_f64();
    assert!(delay(0).is_some() && delay(0) < delay(1), "{report}");
}

#[test]
fn a_transfer_survives_the_change_of_its_route() {
    let report = report("route-change.toml", &[]);

    assert_eq!(report["flows"][0]["tcp"]["octets_received"], 1_500_000);
    assert_eq!(report["flows"][1]["udp"]["sent"], 200);
    let through = |node: usize| report["nodes"][node]["forwarded"].as_u64();
    assert!(through(1) > Some(100) && through(2) > Some(100), "{report}");
}

#[test]
fn a_seed_gives_the_same_run_and_another_gives_another() {
    let hash = |args: &[&str]| report("chain.toml", args)["hash"].clone();

    assert_eq!(hash(&["--seed", "3"]), hash(&["--seed", "3"]));
    assert_ne!(hash(&["--seed", "3"]), hash(&["--seed", "4"]));
    assert_eq!(hash(&[]), hash(&["--seed", "1"]));
}

#[test]
fn captures_have_a_file_for_each_node() {
    let folder = Scratch::new("captures");
    let path = folder.0.to_str().expect("UTF-8");

    let output = run(&example("chain.toml"), &["--pcap", path]);

    assert!(output.status.success(), "{output:?}");
    for node in ["a", "b", "c", "d", "e"] {
        let capture = fs::read(folder.0.join(format!("{node}.pcapng"))).expect(node);
        assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a], "no section header");
        assert!(capture.len() > 10_000, "{}", capture.len());
    }
}

#[test]
fn the_summary_names_flows_links_and_hbh() {
    let output = run(&example("chain.toml"), &[]);

    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in ["100 kB", "100000 of 100000 octets", "\nFlows\n", "\nLinks\n", "\nHBH\n"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_wrong_scenario_is_one_line_and_code_2() {
    let chain = fs::read_to_string(example("chain.toml")).expect("the example");
    let cases = [
        (chain.replace("loss = \"5%\"", "loss = \"150%\""), ":12: defaults.link.loss: \"150%\""),
        (chain.replace("[\"d\", \"e\"]", "[\"d\", \"f\"]"), "there is no node \"f\""),
        (chain.replace("delay = \"50ms\"", "delay = \"50\""), "a time with its unit"),
        (chain.replace("queue = 50", "queues = 50"), "queues: there is no such key; queue is"),
        (chain.replace("queue = 50", "queue = -1"), "queue"),
        ("nodes = ".to_owned(), ":1:"),
        ("\u{0}\u{1}[[[".to_owned(), ":1:"),
    ];

    for (text, expected) in cases {
        let file = Scratch::write("wrong.toml", &text);

        let output = run(&file.0, &["--json"]);

        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(output.stdout.is_empty());
        assert!(error.contains("wrong.toml") && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_code_2_and_captures_nowhere_code_1() {
    let missing = run(Path::new("/nonexistent.toml"), &[]);
    let nowhere = run(&example("chain.toml"), &["--pcap", "/dev/null/captures"]);

    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(nowhere.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&nowhere.stderr).lines().count(), 1);
}

#[test]
fn a_picture_that_moves_is_written_and_changes_nothing_of_the_run() {
    let [page, looping] = ["run.html", "run.svg"].map(Scratch::new);
    let [page_path, looping_path] = [&page, &looping].map(|it| it.0.to_str().expect("a path"));

    let plain = report("chain.toml", &[]);
    let watched = report("chain.toml", &["--animate", page_path]);
    let short = report("chain.toml", &["--animate", looping_path]);

    assert_eq!(plain, watched);
    assert_eq!(plain, short);
    let page = fs::read_to_string(&page.0).expect("the page");
    assert!(page.starts_with("<!doctype html>") && page.contains("<title>chain, seed 1</title>"));
    let looping = fs::read_to_string(&looping.0).expect("the picture");
    assert!(looping.starts_with("<svg ") && looping.len() < 200_000, "{}", looping.len());
    assert!(looping.contains("class=\"packet\""), "{looping}");
    let refused = run(&example("chain.toml"), &["--animate", "run.mp4"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("a picture ends in .html or .svg"), "{said}");
}

#[test]
fn the_report_is_printed_though_nothing_else_can_be_written() {
    let folder = Scratch::new("taken");
    // Where captures and the picture are to go there are folders.
    fs::create_dir_all(folder.0.join("c.pcapng")).expect("a writable folder");
    fs::create_dir_all(folder.0.join("run.html")).expect("a writable folder");
    let path = folder.0.to_str().expect("UTF-8");
    let page = folder.0.join("run.html");

    let captured = run(&example("chain.toml"), &["--pcap", path]);
    let pictured = run(&example("chain.toml"), &["--animate", page.to_str().expect("UTF-8")]);

    let error = String::from_utf8_lossy(&captured.stderr).into_owned();
    assert_eq!(captured.status.code(), Some(1), "{error}");
    assert!(error.contains("c.pcapng"), "{error}");
    let names =
        fs::read_dir(&folder.0).expect("a folder").map(|it| it.expect("an entry").file_name());
    let names: std::collections::BTreeSet<_> = names.collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let error = String::from_utf8_lossy(&pictured.stderr).into_owned();
    assert_eq!(pictured.status.code(), Some(1), "{error}");
    assert!(error.contains("run.html"), "{error}");
    assert!(String::from_utf8_lossy(&pictured.stdout).contains("100000 of 100000 octets"));
}

#[test]
fn time_that_stands_still_is_an_error_that_says_where() {
    let text = "nodes = [\"a\", \"b\", \"c\"]\nduration = \"1ms\"\n[[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\n\
                between = [\"b\", \"c\"]\n[[tcp]]\nname = \"huge\"\nfrom = \"a\"\nto = \"c\"\n";
    let refused = Scratch::write("endless.toml", text);
    // So much takes no time either, and for ever.
    let endless = Scratch::write("huge.toml", &format!("{text}octets = 9_000_000_000_000\n"));

    let output = run(&refused.0, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("endless.toml:10: tcp.to: a transfer without `octets`"), "{error}");
    let output = run(&endless.0, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("time stands still at 0.000000000 s: 5000000 events"), "{error}");
    assert!(
        error.contains(" at a, b, c, by packets from ") && error.contains("(\"huge\")"),
        "{error}"
    );
}
