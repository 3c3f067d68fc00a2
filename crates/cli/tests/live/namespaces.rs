//! The testbed as tests use it: what fails there fails the test.
//!
//! Tests run side by side, but for those that measure time: they are in modules called `timed`.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Output};

pub use testbed::{Emulated, PREFIX, Program, SOON, wait_until};

/// The program under test.
pub const TRACKWAY: &str = env!("CARGO_BIN_EXE_trackway");

/// A set of namespaces, empty at first.
pub struct Namespaces(testbed::Namespaces);

impl Namespaces {
    pub fn new() -> Self {
        Self(testbed::Namespaces::new(TRACKWAY).unwrap())
    }

    #[track_caller]
    pub fn add(&mut self, name: &str) -> String {
        self.0.add(name).unwrap()
    }

    #[track_caller]
    pub fn cable(&self, a: (&str, &str), b: (&str, &str)) {
        self.0.cable(a, b).unwrap();
    }

    #[track_caller]
    pub fn emulate(&mut self, ends: [(&str, &str, &str); 2], options: &str) -> Emulated {
        self.0.emulate(ends, options).unwrap()
    }

    #[track_caller]
    pub fn address(&self, namespace: &str, interface: &str, address: &str) {
        self.0.address(namespace, interface, address).unwrap();
    }

    #[track_caller]
    pub fn run(&self, namespace: &str, command: &str) -> String {
        self.0.run(namespace, command).unwrap_or_else(|error| panic!("{error:#}"))
    }

    #[track_caller]
    pub fn try_run(&self, namespace: &str, command: &str) -> Output {
        self.0.try_run(namespace, command).unwrap()
    }

    /// Runs a command, given word by word, to its end.
    pub fn try_words(&self, namespace: &str, words: &[&str]) -> Output {
        self.words(namespace, words).output().unwrap()
    }

    /// Opens a socket, or whatever belongs to the namespace of the thread that opens it.
    #[track_caller]
    pub fn within<T: Send>(&self, namespace: &str, open: impl FnOnce() -> T + Send) -> T {
        emulator::namespace::within(namespace, open).unwrap()
    }

    #[track_caller]
    pub fn unanswered(&self, from: &str, to: &str, pings: u16, len: usize) -> BTreeSet<u16> {
        self.0.unanswered(from, to, pings, len).unwrap()
    }

    #[track_caller]
    pub fn start(&mut self, namespace: &str, command: &str, ready: &str) -> usize {
        self.0.start(namespace, command, ready).unwrap_or_else(|error| panic!("{error:#}"))
    }

    #[track_caller]
    pub fn start_gateway(&mut self, namespace: &str, name: &str, config: &str) -> usize {
        let started = self.0.start_gateway(namespace, name, config);
        started.unwrap_or_else(|error| panic!("{error:#}"))
    }

    #[track_caller]
    pub fn run_gateway(&mut self, namespace: &str, file: &Path) -> usize {
        self.0.run_gateway(namespace, file).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Starts a gateway. If a route of others refuses the start, removes the route by the command that the gateway names,
    /// and starts it again; returns whether that was so.
    pub fn start_gateway_despite_routes(&mut self, host: &str, command: &str) -> (usize, bool) {
        let program = self.start(host, command, "");
        let is_over = wait_until(SOON, || {
            self.printed(program).contains("gateway ready") || self.program(program).has_ended()
        });
        let printed = self.printed(program);
        assert!(is_over, "{printed}");
        if printed.contains("gateway ready") {
            return (program, false);
        }
        let (_, rest) = printed.split_once("remove it with `").expect(&printed);
        let (remedy, _) = rest.split_once('`').expect(&printed);
        self.run(host, remedy);
        (self.start_gateway_despite_routes(host, command).0, true)
    }
}

impl Deref for Namespaces {
    type Target = testbed::Namespaces;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Namespaces {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Whether a program is installed, by its path or by its name for a shell; if not, reports that the test is skipped.
pub fn is_installed(program: impl AsRef<Path>, package: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    // A whole path stays what it is.
    let is_there = env::split_paths(&paths).any(|folder| folder.join(&program).exists());
    if !is_there {
        // Bypass the test harness, which shows only the output of failed tests.
        let _ = writeln!(io::stderr(), "\nskipped: {package} is not installed");
    }
    is_there
}

/// The gateway of an earlier version, which `scripts/older` builds; without one, reports that the test is skipped.
pub fn older() -> Option<String> {
    let target = Path::new(TRACKWAY).ancestors().nth(2).unwrap();
    let older = target.join("older/trackway");
    is_installed(&older, "an earlier version (scripts/older)")
        .then(|| older.to_str().unwrap().to_owned())
}

/// Copies the program to where others may run it. Another process does it: what this one has open for writing, children
/// that other tests start just then have open too, and the kernel runs no program that somebody may write.
pub fn copy_program(to: &Path) {
    let is_copied = Command::new("cp").arg(TRACKWAY).arg(to).status().unwrap().success();
    assert!(is_copied, "{}", to.display());
}

/// Receives, as often as the wait is interrupted: a machine that stands still for a moment interrupts waits with a limit
/// (signal(7), "Interruption of system calls").
pub fn undisturbed<T>(mut receive: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match receive() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
