//! Tests `trackway lab tune` on scenarios, as a user runs it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A link that loses nothing and is so slow that a round trip of a full packet takes 4.4 s: who repeats sooner sends
/// in vain.
const SCENARIO: &str = r#"
nodes = ["a", "b"]
duration = "10min"

[defaults.link]
rate = "2kbit"
delay = "1s"
mtu = 576
loss = "2%"

# What is to be found.
[defaults.tcp]
rto.initial = "1s"   # too soon
rto.min = "1s"

[[link]]
between = ["a", "b"]

[[tcp]]
name = "file"
from = "a"
to = "b"
octets = 4000

[[udp]]
name = "ticks"
from = "b"
to = "a"
payload = 20
interval = "20s"
stop = "5min"
"#;

/// A folder that is gone afterwards, with the scenario in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("trackway-tune-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).expect("a writable folder");
        folder.write(SCENARIO);
        folder
    }

    fn write(&self, text: &str) {
        fs::write(self.0.join("slow.toml"), text).expect("a writable folder");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackway"));
        command.args(["lab", "tune", "slow.toml"]).args(args).current_dir(&self.0);
        command
    }

    fn tune(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it starts")
    }

    /// The only folder of results, with its name.
    fn results(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("trackway-tune")).expect("results");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SEARCH: [&str; 8] = [
    "--flow",
    "file",
    "--parameters",
    "rto.initial=1s..20s:6,delayed-ack.delay=0s|200ms",
    "--runs",
    "6",
    "--confirm",
    "8",
];

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).expect("UTF-8")
}

#[test]
fn the_best_values_are_found_confirmed_and_ready_to_use() {
    let folder = Folder::new("found");
    let output = folder.tune(&[&SEARCH[..], &["--json"]].concat());

    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object and nothing else");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {found:#}"));
    let first = &found["parameters"][0];
    assert_eq!(first["keys"][0], "defaults.tcp.rto.initial");
    assert_eq!(first["points"].as_array().map(Vec::len), Some(6));
    // Too short a timeout costs what it repeats in vain.
    assert_eq!(first["sensitivity"]["least"], "1s", "{first:#}");
    assert!(number(&first["sensitivity"]["ratio"]["mean"]) > 1.05, "{first:#}");
    let swept = &found["one_after_the_other"];
    let raced = &found["all_at_once"];
    assert!(number(&raced["runs"]) <= number(&swept["runs"]));
    assert_eq!(number(&swept["confirmed"]["runs"]), 8.0);
    assert!(number(&swept["gain"]["mean"]) > 0.0, "{found:#}");
    assert_eq!(found["better_than_as_written"], "yes", "{found:#}");
    assert_eq!(found["settings"][0]["key"], "defaults.tcp.rto.initial");

    // The second time nothing is run, and the text says the same.
    let results = folder.results();
    let [results] = &results[..] else { panic!("{results:?}") };
    let runs = fs::read_to_string(results.join("runs.tsv")).expect("runs");
    let again = folder.tune(&SEARCH);
    assert_eq!(fs::read_to_string(results.join("runs.tsv")).expect("runs"), runs);
    let said = text(&again.stdout);
    for part in
        ["Sensitivity", "Recommended: rto.initial = ", "rto_min", "a floor", "recommended.toml"]
    {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert!(text(&again.stderr).contains("goes on with"), "{again:?}");
    let recommended = fs::read_to_string(results.join("recommended.toml")).expect("a scenario");
    assert!(recommended.contains("   # too soon"), "{recommended}");
    assert!(!recommended.contains("rto.initial = \"1s\""), "{recommended}");
    let svg = fs::read_to_string(results.join("tune.svg")).expect("a picture");
    assert_eq!(svg.matches("<svg ").count(), 3, "a sheet with a panel for each parameter");
    assert!(svg.contains("rto.initial [s]"), "the axis has no unit");
}

#[test]
fn what_was_stopped_goes_on_and_finds_the_same() {
    let whole = Folder::new("whole");
    let expected = whole.tune(&[&SEARCH[..], &["--json", "--jobs", "3"]].concat());
    assert!(expected.status.success(), "{expected:?}");

    let folder = Folder::new("stopped");
    let mut command = folder.command(&[&SEARCH[..], &["--json", "--jobs", "1"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    // A tenth of all runs is done.
    stderr.read_line(&mut line).expect("UTF-8");
    assert!(line.contains(" runs, ") && line.contains(" s to go"), "{line}");
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGINT).expect("it runs");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("UTF-8");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("the same command goes on from there"), "{said}");

    let rest = folder.tune(&[&SEARCH[..], &["--json", "--jobs", "2"]].concat());
    assert!(text(&rest.stderr).contains("goes on with"), "{rest:?}");
    assert_eq!(text(&rest.stdout), text(&expected.stdout));
}

#[test]
fn a_changed_scenario_begins_anew_and_is_not_mixed_in() {
    let folder = Folder::new("changed");
    let few = ["--parameters", "rto.initial=2s|9s", "--runs", "2"];
    assert!(folder.tune(&few).status.success());
    let named = [&few[..], &["--out", "mine"]].concat();
    assert!(folder.tune(&named).status.success());

    folder.write(&SCENARIO.replace("4000", "5000"));
    let anew = folder.tune(&few);
    assert!(anew.status.success(), "{anew:?}");
    assert!(text(&anew.stderr).contains("begins anew in"), "{anew:?}");
    assert_eq!(folder.results().len(), 2);
    let refused = folder.tune(&named);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("mine has runs of another scenario"), "{refused:?}");
    // A comment changes nothing.
    folder.write(&format!("{SCENARIO}# the end\n"));
    assert!(folder.tune(&named).status.success());

    // Another build of the program: its measurements differ from today's runs.
    let path = folder.0.join("mine/runs.tsv");
    let runs = fs::read_to_string(&path).expect("runs");
    let (head, rest) = runs.split_once('\n').expect("lines");
    let other = |line: &str| {
        let (run, measured) = line.rsplit_once('\t').expect("a run and what was measured");
        let (_, further) = measured.split_once(' ').expect("several measures");
        format!("{run}\t0.5 {further}\n")
    };
    let others: String = rest.lines().map(other).collect();
    assert_ne!(rest, others);
    fs::write(&path, format!("{head}\n{others}")).expect("a writable file");
    let anew = folder.tune(&named);
    assert!(text(&anew.stderr).contains("another build of Trackway: begins anew"), "{anew:?}");
}

#[test]
fn what_is_wrong_is_said_with_what_is_right() {
    let folder = Folder::new("wrong");
    for (args, expected) in [
        (&["--parameters", "rto.inital=1s..9s"][..], "rto.initial is probably meant"),
        (
            &["--parameters", "rto.initial=0s..9s"],
            "defaults.tcp.rto.initial: \"0s\" is not allowed: 1µs to 24h",
        ),
        (&["--parameters", "rto.initial=9"], "a range such as 1s..120s"),
        (
            &["--parameters", "delay=100ms..200ms"],
            "delay may be defaults.link.delay or defaults.tcp.delayed-ack.delay or ",
        ),
        (
            &["--parameters", "rto.initial=1s..9s", "--metric", "c/delay"],
            "no measure is called delay",
        ),
        (&["--parameters", "rto.initial=1s..9s", "--metric", "c/(0*d)"], "has no value in any run"),
        (&["--parameters", "rto.initial=1s..9s", "--flow", "fil"], "\"file\" is probably meant"),
        (&["--parameters", "rto.initial=1s..9s,rto.initial=2s..3s"], "is tuned twice"),
        (&["--parameters", "rto.initial=1s..9s", "--out", "/dev/null/x"], "cannot use /dev/null/x"),
        (&[], "--parameters"),
    ] {
        let output = folder.tune(&[args, &["--runs", "2"]].concat());
        let said = text(&output.stderr);
        let code = if said.contains("cannot use") { 1 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    folder.write("nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n");
    let said = text(&folder.tune(&["--parameters", "delay=1s..9s"]).stderr);
    assert!(said.contains("there are no flows to measure: add [[tcp]]"), "{said}");
}

/// A link that is down for a minute: who gives up earlier loses the transfer, having been fast until then.
const DYING: &str = r#"
nodes = ["a", "b"]
duration = "10min"
[[link]]
between = ["a", "b"]
rate = "1mbit"
delay = "20ms"
loss = "1%"
down = [["5s", "65s"]]
noticed = false
[defaults.tcp]
r2 = 15
[[tcp]]
name = "t"
from = "a"
to = "b"
octets = 5_000_000
"#;

#[test]
fn a_setting_with_which_a_transfer_dies_never_wins() {
    let folder = Folder::new("dying");
    folder.write(DYING);
    for metric in [
        &["goodput"][..],
        &["c/(d*t)"],
        &["octets", "--minimise"],
        &["retransmissions", "--minimise"],
        &["timeouts", "--minimise"],
        &["d", "--minimise"],
        &["dmax", "--minimise"],
        &["connect", "--minimise"],
    ] {
        let args = ["--parameters", "r2=3|15", "--runs", "3", "--out", "found", "--metric"];
        let output = folder.tune(&[&args[..], metric].concat());

        assert!(output.status.success(), "{output:?}");
        let said = text(&output.stdout);
        assert!(
            said.contains("Recommended: nothing; keep the file as it is"),
            "{metric:?}: {said}"
        );
        assert!(said.contains("3 flows failed in 3 of 3 runs"), "{metric:?}: {said}");
        assert!(!said.contains("sysctl") && !said.contains("recommended.toml"), "{said}");
        let json = fs::read_to_string(folder.0.join("found/tune.json")).expect("the results");
        let found: Value = serde_json::from_str(&json).expect("an object");
        assert_eq!(found["parameters"][0]["best"], "15", "{metric:?}: {found:#}");
        assert!(
            found["recommended"].is_null() && !folder.0.join("found/recommended.toml").exists()
        );
    }
    // Where the file is the one that fails, the other is better.
    folder.write(&DYING.replace("r2 = 15", "r2 = 3"));
    let output = folder.tune(&["--parameters", "r2=3|15", "--runs", "3", "--metric", "goodput"]);
    let said = text(&output.stdout);
    assert!(said.contains("Recommended: r2 = 15") && said.contains("tcp_retries2=15"), "{said}");
}

#[test]
fn what_was_recommended_is_gone_when_it_is_no_more() {
    let folder = Folder::new("no-more");
    let few = [
        "--parameters",
        "rto.initial=2s|9s",
        "--metric",
        "offered",
        "--runs",
        "2",
        "--out",
        "found",
    ];
    fs::create_dir_all(folder.0.join("found")).expect("a writable folder");
    fs::write(folder.0.join("found/recommended.toml"), "old").expect("a writable folder");

    let output = folder.tune(&few);

    assert!(output.status.success(), "{output:?}");
    assert!(!folder.0.join("found/recommended.toml").exists(), "{output:?}");
}

#[test]
fn a_folder_is_for_one_search_at_a_time() {
    let folder = Folder::new("two");
    let mut command = folder.command(&[&SEARCH[..], &["--out", "mine", "--jobs", "1"]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    // A tenth of all runs is done.
    stderr.read_line(&mut line).expect("UTF-8");

    let second = folder.tune(&[&SEARCH[..], &["--out", "mine"]].concat());
    // The lock is free however the program ends.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let third = folder.tune(&[&SEARCH[..], &["--out", "mine"]].concat());

    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let said = text(&second.stderr);
    assert!(said.contains("mine is in use: another `trackway lab`"), "{said}");
    assert!(third.status.success(), "{third:?}");
    assert!(text(&third.stderr).contains("goes on with"), "{third:?}");
}

/// The picture cannot be written, nor in the end what is printed: the numbers are there all the same.
#[test]
fn results_are_printed_and_written_before_pictures_and_the_right_file_is_blamed() {
    let folder = Folder::new("full");
    let few = ["--parameters", "rto.initial=2s|9s", "--runs", "2", "--out", "found"];
    fs::create_dir_all(folder.0.join("found/tune.svg")).expect("a writable folder");

    let output = folder.tune(&few);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("cannot write found/tune.svg: "), "{error}");
    assert!(text(&output.stdout).contains("Sensitivity"), "{output:?}");
    let written = fs::read_to_string(folder.0.join("found/tune.txt")).expect("the report");
    assert!(written.contains("Sensitivity"), "{written}");

    fs::remove_dir(folder.0.join("found/tune.svg")).expect("it is there");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = folder.command(&few).stdout(full).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("cannot write to standard output: No space left"), "{error}");
    assert!(folder.0.join("found/tune.png").exists() && folder.0.join("found/tune.svg").is_file());
}

/// Runs are kept in a file that takes no more: the scenario has nothing to do with that.
#[test]
fn runs_that_cannot_be_kept_end_the_search_with_code_1() {
    let folder = Folder::new("unkept");
    fs::create_dir_all(folder.0.join("found/runs.tsv")).expect("a writable folder");

    let output =
        folder.tune(&["--parameters", "rto.initial=2s|9s", "--runs", "2", "--out", "found"]);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(
        error.contains("cannot use found/runs.tsv: ") && !error.contains("slow.toml"),
        "{error}"
    );
}
