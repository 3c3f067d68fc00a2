//! `./demo` with little to carry: what it shows, and what it leaves behind.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, process, thread};

use nix::sys::signal::{Signal, killpg};

use crate::namespaces::{Program, TRACKWAY, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn it_compares_and_leaves_nothing_behind() {
    let mut demo = Demo::start("whole");

    let (code, printed) = demo.program.finish(Duration::from_secs(120));

    assert_eq!(code, Some(0), "{printed}");
    let row = |title| printed.lines().find(|line| line.contains(title)).unwrap();
    assert!(row("mean of 1").contains(" s"), "{printed}");
    // Without Trackway, iperf3 may have lost its first datagram again and again.
    assert!(row("delivered").ends_with('%'), "{printed}");
    assert!(row("HBH retransmissions").contains('-'), "{printed}");
    demo.assert_nothing_left();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn stopped_at_any_moment_it_leaves_nothing_behind() {
    // While it makes namespaces, starts programs, lets them run, and has gateways.
    let moments = [("", 100), ("", 400), ("", 1_000), ("", 2_500), ("with Trackway", 0)];
    for (number, (text, millis)) in moments.into_iter().enumerate() {
        let mut demo = Demo::start(&format!("stopped-{number}"));
        demo.program.wait_for(text, Duration::from_secs(60));
        thread::sleep(Duration::from_millis(millis));

        // A terminal tells every program of the demo, `kill` only the demo itself.
        let pid = demo.program.pid();
        if number % 2 == 0 {
            killpg(pid, Signal::SIGINT).unwrap();
        } else {
            demo.program.signal(Signal::SIGINT);
        }
        let (code, printed) = demo.program.finish(Duration::from_secs(30));

        assert_eq!(code, Some(130), "stopped-{number}: {printed}");
        demo.assert_nothing_left();
    }
}

/// A run of the demo, its files in a directory of their own.
struct Demo {
    program: Program,
    directory: PathBuf,
}

impl Demo {
    fn start(name: &str) -> Self {
        let directory = env::temp_dir().join(format!("twtest{}-{name}", process::id()));
        fs::create_dir(&directory).unwrap();
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo"));
        command.arg("--quick").env("TRACKWAY", TRACKWAY).env("TMPDIR", &directory);
        let program = Program::start(command.process_group(0), "demo");
        Self { program, directory }
    }

    fn assert_nothing_left(&self) {
        let files: Vec<_> = fs::read_dir(&self.directory).unwrap().flatten().collect();
        assert!(files.is_empty(), "{files:?}");

        let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let namespaces = String::from_utf8(namespaces.stdout).unwrap();
        let own = format!("tw{}-", self.program.pid());
        assert!(!namespaces.lines().any(|line| line.starts_with(&own)), "{namespaces}");

        // Whatever it started has its directory in the environment. What was told to end together
        // with the demo may take a moment longer.
        let gone = wait_until(Duration::from_secs(5), || self.processes().is_empty());
        assert!(gone, "{:?}", self.processes());
    }

    /// The command lines of what it started and still runs.
    fn processes(&self) -> Vec<String> {
        let mark = self.directory.to_str().unwrap();
        let has_mark = |environment: Vec<u8>| String::from_utf8_lossy(&environment).contains(mark);
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|process| fs::read(process.path().join("environ")).is_ok_and(has_mark))
            .filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok())
            .collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = killpg(self.program.pid(), Signal::SIGTERM);
        let _ = self.program.finish(Duration::from_secs(30));
        let _ = fs::remove_dir_all(&self.directory);
    }
}
