//! Measures the resident memory that hostile input makes a core keep, each case in a process of its own.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Octets of a mebibyte.
pub const MIB: usize = 1 << 20;
/// The environment variable that names the case for such a process.
const CASE: &str = "TRACKWAY_MEMORY_CASE";

/// Does the `work` of each case of a test in a separate process, and returns the largest growth of resident memory, in
/// octets, of any case. In such a process, returns `None`: the test has nothing more to do.
///
/// # Panics
/// When a case fails, or the kernel does not say what is resident.
pub fn most_resident<T>(test: &str, cases: &[T], work: impl Fn(&T)) -> Option<usize> {
    if let Ok(case) = std::env::var(CASE) {
        begin();
        work(&cases[case.parse::<usize>().expect("a number")]);
        let grew = resident("VmHWM:").saturating_sub(BEFORE.load(Ordering::Relaxed));
        println!("grew by {grew} octets");
        return None;
    }
    let own = std::env::current_exe().expect("a test is a program");
    let measured = (0..cases.len()).map(|case| {
        let output = Command::new(&own)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CASE, case.to_string())
            // Freed memory goes back to the kernel, and all threads share one arena.
            .envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "65536")])
            .output()
            .expect("the program runs again");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let words = said.split_once("grew by ").expect("what it measured").1;
        let octets = words.split(' ').next().and_then(|word| word.parse().ok());
        println!("{test}, case {case}: {octets:?} octets");
        octets.expect("a number")
    });
    measured.max()
}

/// Begins a measurement with the present resident memory.
///
/// # Panics
/// When the kernel does not say what is resident.
pub fn begin() {
    // 5 resets the peak of resident memory (proc_pid_clear_refs).
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    BEFORE.store(resident("VmRSS:"), Ordering::Relaxed);
}

static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// The value of a line in `/proc/self/status`, in octets.
fn resident(line: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let words = status.lines().find_map(|found| found.strip_prefix(line)).expect("the line");
    let kib = words.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
    kib.expect("a number") << 10
}

/// Checks that `most` is within the bound, and above half of the bound: the test still tries the worst case.
///
/// # Panics
/// When `most` is outside.
pub fn assert_within(what: &str, most: Option<usize>, bound: usize) {
    if let Some(most) = most {
        assert!(most <= bound, "{what}: {most} of {bound} octets");
        assert!(most > bound / 2, "{what}: the worst is no longer tried: {most} of {bound}");
    }
}
