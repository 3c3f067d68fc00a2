//! Tests `trackway storm` as a user runs it.

use std::process::{Command, Stdio};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn a_storm_that_is_stopped_tells_what_was_run() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackway"));
    command.args(["storm", "rules", "--minutes", "60", "--jobs", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Several times what the start and a run take.
    while processor_ticks(child.id()) < 50 {
        thread::yield_now();
    }

    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");

    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    let [head, rules, seeds] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(head.starts_with("service ") && head.ends_with(" failures"), "{told}");
    let [name, count, _, _, failures] = rules.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    assert_eq!((name, failures, seeds), ("rules", "0", "seeds 0x0 and on"), "{told}");
    assert_ne!(count, "0", "{told}");
    // One column under the other.
    assert_eq!(
        head.find("seeds").map(|at| at + "seeds".len()),
        rules.find(count).map(|at| at + count.len()),
        "{told}"
    );
}

/// How long a process has computed, in hundredths of a second.
fn processor_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    // proc_pid_stat(5): utime is the 12th field after the name.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    fields.split(' ').nth(11).expect("utime").parse().expect("a number")
}
