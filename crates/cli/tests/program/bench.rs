//! Tests `trackway bench` as a user runs it, but not its speed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn bench(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_trackway"))
        .arg("bench")
        .args(args)
        .output()
        .expect("it starts")
}

#[test]
fn json_is_one_object_a_case_and_nothing_else() {
    let output = bench(&[
        "sim",
        "--json",
        "--ns3",
        "echo {\"packets_per_cpu_s\":1e5,\"events_per_cpu_s\":4e5}",
    ]);

    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let cases: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    for case in &cases {
        let mut keys: Vec<&String> = case.as_object().expect("an object").keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["bench", "case", "limit", "ratio", "unit", "value"]);
        assert_eq!(case["bench"], "sim");
        assert!(case["value"].is_f64(), "{case}");
    }
    let case = |name: &str| cases.iter().find(|case| case["case"] == name).expect(name);
    assert!(case("chain events")["ratio"].is_f64());
    assert!(case("chain CPU time")["limit"].is_null());
    assert_eq!(case("chain link packets of ns-3")["value"], 1e5);
}

#[test]
fn the_codec_is_compared_with_what_the_machine_allows() {
    let output = bench(&["codec", "--json"]);

    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let cases: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    for name in [
        "repair-64",
        "repair-256",
        "fused-2",
        "fused-4",
        "fused-8",
        "decode-16-of-64",
        "repair-at-rank-511",
    ] {
        let case = cases.iter().find(|case| case["case"] == name).expect(name);
        assert_eq!(case["bench"], "codec");
        assert!(case["value"].as_f64().is_some_and(|value| value > 0.0), "{case}");
        // The others' limit is an instruction that multiplies octets, which not every machine has.
        if matches!(name, "repair-64" | "repair-256") {
            assert!(case["ratio"].is_f64(), "{case}");
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_long_path_is_measured_beside_what_was_asked() {
    let names = ["plain bbr 7 %", "ours bbr 5 %"];
    for (name, is_asked) in names.into_iter().zip([false, true]) {
        let args = ["path", "--json", "--seconds", "2", "--loss", "5%,7%", "--only", name];
        let output = bench(&args);

        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let cases: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let case = |name: &str| cases.iter().find(|case| case["case"] == name).expect(name);
        let goodput = case(name);
        assert!(goodput["value"].as_f64().is_some_and(|value| value > 0.0), "{goodput}");
        let octets = case(&format!("{name}, octets"));
        assert_eq!(octets["asked"]["at_most"].is_f64(), is_asked, "{octets}");
        assert_eq!(octets["met"].is_boolean(), is_asked, "{octets}");
    }
}

#[test]
fn what_cannot_be_run_is_said_in_one_sentence() {
    for (args, code) in [
        (&["path", "--loss", "100%"][..], 2),
        (&["path", "--only", "a stone"], 2),
        (&["sim", "--ns3", " "], 2),
        (&["sim", "--ns3", "/nonexistent/program"], 1),
        (&["sim", "--ns3", "false"], 1),
        (&["sim", "--ns3", "echo fast"], 1),
    ] {
        let output = bench(args);
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn no_option_of_another_benchmark_is_passed_over() {
    for (args, named) in [
        (["speed", "--json"], "speed"),
        (["codec", "--quick"], "--quick"),
        (["path", "--key"], "--key"),
        (["hbh", "--ns3=true"], "--ns3"),
    ] {
        let output = bench(&args);
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(&format!("'{named}'")), "{error}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_signal_ends_a_benchmark_at_once_and_gives_everything_back() {
    // The benchmark, and how many namespaces it has when it measures; `path` does three turns at a time.
    for (name, namespaces) in [("hbh", 2), ("split", 4), ("path", 15)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackway"));
        let mut child = command
            .args(["bench", name, "--json"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let prefix = format!("twtest{}-", child.id());
        let made = |folder: &Path| {
            let names = fs::read_dir(folder).expect("a folder").flatten();
            names.filter(|it| it.file_name().to_string_lossy().starts_with(&prefix)).count()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while made(Path::new("/run/netns")) < namespaces {
            assert!(Instant::now() < deadline, "{name} makes no namespaces");
            thread::sleep(Duration::from_millis(20));
        }

        let pid = Pid::from_raw(child.id().try_into().expect("a number of a process"));
        kill(pid, Signal::SIGINT).expect("it runs");
        let began = Instant::now();
        let status = child.wait().expect("it ends");

        assert_eq!(status.code(), Some(130), "{name}");
        // Programs are killed after a second; what remains is work for `ip`.
        assert!(began.elapsed() < Duration::from_secs(15), "{name}: {:?}", began.elapsed());
        assert_eq!(made(Path::new("/run/netns")), 0, "{name}: namespaces");
        assert_eq!(made(&env::temp_dir()), 0, "{name}: files");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut said)
            .expect("UTF-8");
        assert_eq!(said, "", "{name}");
    }
}
