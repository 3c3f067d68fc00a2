//! Starts a program, keeps its output in a file, and ends it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::PREFIX;
use crate::give_back::changing;

/// Time limit for an event that is sure to happen. The wait ends with the event, so the limit is generous for a busy
/// machine.
pub const SOON: Duration = Duration::from_secs(60);
/// How long a program may take to end before it is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A program that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    output: PathBuf,
}

impl Program {
    /// Starts a command, called `name` in messages.
    ///
    /// # Errors
    /// When there is no such program, or no file for its output.
    pub fn start(command: &mut Command, name: &str) -> anyhow::Result<Self> {
        Self::start_with(command, name, None, None)
    }

    /// As [`Self::start`], with descriptors for standard input and standard error output.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        command: &mut Command,
        name: &str,
        input: Option<OwnedFd>,
        error: Option<OwnedFd>,
    ) -> anyhow::Result<Self> {
        let _changing = changing();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let output = env::temp_dir().join(format!("{PREFIX}{}-{number}.out", process::id()));
        let file =
            fs::File::create(&output).context("cannot make a file for a program's output")?;
        let error = match error {
            Some(error) => Stdio::from(error),
            None => file.try_clone()?.into(),
        };
        command.stdin(input.map_or_else(Stdio::null, Stdio::from)).stderr(error).stdout(file);
        let child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
        Ok(Self { name: name.to_owned(), child, output })
    }

    /// Standard output and standard error output so far.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The process id, which is also the group's id if the process leads a group.
    ///
    /// # Panics
    /// Never: Linux's numbers of processes are below 2^22.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("a number of a process"))
    }

    /// Sends the program a signal.
    ///
    /// # Panics
    /// When the process is gone, or another's.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a program of ours takes signals");
    }

    /// Octets of memory that a program has now (`VmRSS`), or has had at most (`VmHWM`).
    ///
    /// # Errors
    /// When the process is gone.
    pub fn memory(&self, field: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.with_context(|| format!("no {field}"))? * 1024.0)
    }

    /// Seconds of CPU so far.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name may have spaces; user and system time are fields 14 and 15.
        let (_, rest) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
    }

    /// Asks the program to end, and kills it if need be.
    pub fn end(&mut self) {
        if self.has_ended() {
            return;
        }
        let _ = kill(self.pid(), Signal::SIGTERM);
        if !wait_until(ENDS_WITHIN, || self.has_ended()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Waits until the program has printed this text.
    ///
    /// # Panics
    /// When the time is over, or the program has ended, without the text.
    pub fn wait_for(&mut self, text: &str, at_most: Duration) {
        let has_text = wait_until(at_most, || self.printed().contains(text) || self.has_ended());
        let printed = self.printed();
        assert!(has_text && printed.contains(text), "{}: no \"{text}\" in\n{printed}", self.name);
    }

    /// Asks the program to end, waits for the end, and returns the exit code and the output.
    ///
    /// # Panics
    /// When the program does not end.
    pub fn stop(&mut self) -> (Option<i32>, String) {
        self.signal(Signal::SIGTERM);
        self.finish(SOON)
    }

    /// Waits until the program ends by itself; returns the exit code and the output.
    ///
    /// # Panics
    /// When the program does not end.
    pub fn finish(&mut self, at_most: Duration) -> (Option<i32>, String) {
        let ended = wait_until(at_most, || self.has_ended());
        assert!(ended, "{} does not end:\n{}", self.name, self.printed());
        (self.child.wait().ok().and_then(|it| it.code()), self.printed())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_file(&self.output);
    }
}

/// Waits until a condition holds; returns false if the time is over first.
pub fn wait_until(at_most: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + at_most;
    loop {
        if is_true() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
