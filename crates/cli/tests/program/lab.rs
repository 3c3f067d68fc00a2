//! Tests `trackway lab` as a user runs it.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn trackway(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trackway")).args(args).output().expect("it starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn every_claim_is_listed_in_its_group() {
    let output = trackway(&["lab", "list"]);

    let text = stdout(&output);
    assert!(output.status.success());
    assert!(text.starts_with("hbh\n"), "{text}");
    for id in ["goodput", "one", "two", "three", "five", "rto", "lre", "long", "clean", "fair"] {
        assert!(text.contains(&format!("\n  nc-{id} ")), "{id} is not in\n{text}");
    }
    for id in ["chain5", "51-uplink", "assumptions", "queues", "dcf", "chain", "ours"] {
        assert!(text.contains(&format!("\n  manet-{id} ")), "{id} is not in\n{text}");
    }
    for id in [
        "delay",
        "usage",
        "usage-growth",
        "lossless",
        "r",
        "w",
        "rto",
        "backpressure",
        "goals",
        "bursts",
    ] {
        assert!(text.contains(&format!("\n  hbh-{id} ")), "{id} is not in\n{text}");
    }
}

#[test]
fn json_is_one_object_a_line_whatever_the_number_of_jobs() {
    let run = |jobs| {
        let args = ["lab", "run", "hbh-lossless", "--runs", "2", "--jobs", jobs, "--json"];
        let output = trackway(&args);
        assert!(output.status.success(), "{output:?}");
        stdout(&output)
    };

    let text = run("1");

    assert_eq!(text, run("2"));
    assert!(text.lines().count() > 20, "{text}");
    for line in text.lines() {
        let point: serde_json::Value = serde_json::from_str(line).expect("an object");
        assert_eq!(point["experiment"], "hbh-lossless");
        assert_eq!((point["x_unit"].as_str(), point["y_unit"].as_str()), (Some("%"), Some("s")));
        assert!(point["y"].as_f64() > point["limit"].as_f64(), "faster than physics: {point}");
    }
}

#[test]
fn a_quick_look_is_two_runs_of_each_scenario() {
    let run = |args: &[&str]| trackway(&[&["lab", "run", "hbh-lossless", "--json"], args].concat());

    let quick = run(&["--quick"]);

    assert!(quick.status.success(), "{quick:?}");
    assert_eq!(stdout(&quick), stdout(&run(&["--runs", "2"])));
    assert_eq!(run(&["--quick", "--runs", "5"]).status.code(), Some(2));
}

#[test]
fn a_run_is_written_as_a_scenario_that_runs_again() {
    let folder = std::env::temp_dir().join(format!("trackway-cells-{}", std::process::id()));
    let out = folder.to_str().expect("UTF-8");
    let args = ["lab", "scenario", "hbh-lossless", "--run", "1", "--out", out];
    let written = trackway(&[&args[..], &["--cell", "loss=0.01 plain"]].concat());

    let text = stdout(&written);
    let (file, cell) = text.trim().split_once(": ").expect("a file and its cell");
    assert_eq!(cell, "chain loss=0.01 plain", "{text}");
    let again = trackway(&["sim", "run", file]);
    assert!(stdout(&again).contains("100000 of 100000 octets"), "{again:?}");
    fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn who_asks_for_cells_or_files_that_there_are_not_is_told_what_there_is() {
    for (args, told) in [
        (
            &["scenario", "hf-s5066", "--out", "none"][..],
            "hf-s5066: a program of the laboratory makes these runs, and no scenario file can say them; \
             `trackway lab run hf-s5066 --cell WORD`",
        ),
        (
            &["scenario", "worlds", "--out", "none"],
            "`trackway lab run worlds --seed N --world INDEX`",
        ),
        (
            &["scenario", "hbh-delay", "--out", "none", "--cell", "loss=0.07"],
            "hbh-delay: no cell has \"loss=0.07\" in its name; the words in their names are chain loss=0 plain loss=0.01",
        ),
        (
            &["run", "hbh-delay", "--cell", "plain", "--cell", "loss"],
            "no cell has \"plain loss\" in its name; the words in their names are chain",
        ),
    ] {
        let refused = trackway(&[&["lab"], args].concat());

        let error = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(told) && error.lines().count() == 1, "{error}");
        assert!(!std::path::Path::new("none").exists());
    }
}

#[test]
fn a_run_leaves_a_report_tables_and_pictures() {
    let folder = std::env::temp_dir().join(format!("trackway-lab-{}", std::process::id()));
    let out = folder.to_str().expect("UTF-8");

    let output = trackway(&["lab", "run", "hbh-lossless", "--runs", "2", "--out", out]);

    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    assert!(text.starts_with("hbh-lossless: "), "{text}");
    let read = |name: &str| fs::read(folder.join(name)).expect(name);
    assert!(read("report.html").starts_with(b"<!doctype html>"));
    assert!(read("hbh-lossless.csv").starts_with(b"experiment,claim,series,x,"));
    assert!(read("hbh-lossless.svg").starts_with(b"<svg "));
    assert_eq!(&read("hbh-lossless.png")[1..4], b"PNG");
    fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn a_wrong_name_is_answered_in_one_sentence_with_code_2() {
    for (name, remedy) in
        [("hbh-speed", "there are all, "), ("hbh-dealy", "hbh-delay is probably meant\n")]
    {
        let output = trackway(&["lab", "run", name, "--json"]);

        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let begin = format!("trackway: {name}: there is no such experiment; {remedy}");
        assert!(error.starts_with(&begin), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn arguments_out_of_range_are_code_2() {
    for args in [["lab", "run", "hbh", "--runs", "0"], ["lab", "run", "hbh", "--jobs", "0"]] {
        assert_eq!(trackway(&args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_code_1() {
    let args = ["lab", "run", "hbh-lossless", "--runs", "1", "--out", "/dev/null/results"];

    let output = trackway(&args);

    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot make /dev/null/results"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trackway"))
        .args(["lab", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());

    let output = child.wait_with_output().expect("it ends");

    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn runs_are_kept_and_not_done_again() {
    let folder = std::env::temp_dir().join(format!("trackway-kept-{}", std::process::id()));
    let out = folder.to_str().expect("UTF-8");
    let run =
        |runs| trackway(&["lab", "run", "hbh-lossless", "--runs", runs, "--json", "--out", out]);
    let whole = stdout(&run("3"));
    let path = folder.join("runs.tsv");
    let kept = fs::read_to_string(&path).expect("runs");

    let again = run("3");
    assert_eq!(stdout(&again), whole);
    assert_eq!(fs::read_to_string(&path).expect("runs"), kept, "something was run again");
    // Killed in the middle of a line.
    fs::write(&path, &kept[..kept.len() / 2]).expect("a writable file");
    assert_eq!(stdout(&run("3")), whole);
    let lines =
        |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(lines(&fs::read_to_string(&path).expect("runs")), lines(&kept));
    // Another build of the program, whose numbers are not ours.
    let other = kept.replacen("claims ", "claims 0", 1).replace("\tdelay\t", "\tdelay\t9");
    fs::write(&path, other).expect("a writable file");
    let anew = run("3");
    assert!(String::from_utf8_lossy(&anew.stderr).contains("another build"), "{anew:?}");
    assert_eq!(stdout(&anew), whole);
    fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn a_campaign_that_is_stopped_goes_on_and_keeps_others_out_meanwhile() {
    let folder = std::env::temp_dir().join(format!("trackway-stopped-{}", std::process::id()));
    let out = folder.to_str().expect("UTF-8");
    let args = |runs| ["lab", "run", "hbh-lossless", "--runs", runs, "--jobs", "1", "--out", out];
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackway"));
    let child = command.args(args("400")).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let path = folder.join("runs.tsv");
    let count = || fs::read_to_string(&path).map_or(0, |text| text.lines().count());
    while count() < 4 {
        std::thread::yield_now();
    }

    let second = trackway(&args("1"));
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains("is in use"), "{second:?}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{said}");
    assert!(said.contains("the same command goes on from there"), "{said}");
    assert!(!folder.join("report.html").exists());
    let had = count() - 1;
    assert!(said.contains(&format!("stopped; {had} runs are kept")), "{had}: {said}");

    let rest = trackway(&args("2"));
    assert!(rest.status.success(), "{rest:?}");
    let said = String::from_utf8_lossy(&rest.stderr).into_owned();
    assert!(said.contains(&format!("has {had} runs")), "{said}");
    fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn numbers_are_printed_and_written_before_pictures() {
    let folder = std::env::temp_dir().join(format!("trackway-first-{}", std::process::id()));
    let out = folder.to_str().expect("UTF-8");
    fs::create_dir_all(folder.join("hbh-lossless.svg")).expect("a writable folder");

    let output = trackway(&["lab", "run", "hbh-lossless", "--runs", "1", "--out", out]);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).starts_with("hbh-lossless: "), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("hbh-lossless.svg: "), "{error}");
    assert!(folder.join("report.html").exists() && folder.join("hbh-lossless.csv").exists());
    fs::remove_dir_all(folder).expect("it was made");
}
