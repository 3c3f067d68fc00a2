//! Network namespaces, and programs that run in them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde_json::Value;

/// The signals that end us. Ctrl-C ends the programs that run; we tidy up and then end ourselves.
#[derive(Clone)]
pub struct Signals(Arc<(SignalFd, AtomicBool)>);

impl Signals {
    /// Call this before threads start: they inherit the blocked signals.
    pub fn block() -> anyhow::Result<Self> {
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        mask.thread_block().context("cannot block signals")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self(Arc::new((signals, AtomicBool::new(false)))))
    }

    /// Fails once there was one.
    pub fn check(&self) -> anyhow::Result<()> {
        let (signals, has_come) = &*self.0;
        if signals.read_signal()?.is_some() {
            has_come.store(true, Ordering::SeqCst);
        }
        if has_come.load(Ordering::SeqCst) { bail!("interrupted") } else { Ok(()) }
    }
}

/// Network namespaces with their programs; dropping this ends all.
pub struct Namespaces {
    signals: Signals,
    pub(super) names: Vec<String>,
    /// A folder for their files.
    pub(super) folder: PathBuf,
    programs: Vec<Child>,
}

/// What iperf3 shall do.
pub struct Transfer<'a> {
    /// Positions of the client's and of the server's namespace.
    pub(super) between: (usize, usize),
    pub(super) address: &'a str,
    /// Measured seconds, after the seconds left out.
    pub(super) seconds: u32,
    pub(super) left_out: u32,
    /// Further arguments of the client.
    pub(super) args: &'a [&'a str],
}

impl Namespaces {
    /// Makes one namespace for each of `ends`, with only its loopback up.
    pub fn new(signals: &Signals, ends: &[&str]) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("twbench{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(&prefix);
        fs::create_dir(&folder).context("cannot make a folder for temporary files")?;
        let signals = signals.clone();
        let mut made = Self { signals, names: Vec::new(), folder, programs: Vec::new() };
        for end in ends {
            let name = format!("{prefix}-{end}");
            made.run("ip", &["netns", "add", &name])?;
            made.names.push(name);
            made.ip(made.names.len() - 1, &["link", "set", "dev", "lo", "up"])?;
        }
        Ok(made)
    }

    /// Two that are joined by a cable, 10.9.0.1 and fd09::1 at one end, 2 at the other.
    pub fn pair() -> anyhow::Result<Self> {
        let pair = Self::new(&Signals::block()?, &["a", "b"])?;
        pair.cable((0, "eth0"), (1, "eth0"))?;
        for end in 0..2 {
            let number = end + 1;
            let address = format!("10.9.0.{number}/24");
            pair.ip(end, &["address", "add", &address, "dev", "eth0"])?;
            let address = format!("fd09::{number}/64");
            pair.ip(end, &["address", "add", &address, "dev", "eth0", "nodad"])?;
        }
        Ok(pair)
    }

    /// Joins two namespaces by a pair of new interfaces.
    pub fn cable(&self, a: (usize, &str), b: (usize, &str)) -> anyhow::Result<()> {
        let there = ["type", "veth", "peer", "name", b.1, "netns", &self.names[b.0]];
        self.ip(a.0, &[&["link", "add", "name", a.1], &there[..]].concat())?;
        for (end, interface) in [a, b] {
            self.ip(end, &["link", "set", "dev", interface, "up"])?;
        }
        Ok(())
    }

    /// Runs `ip` for a namespace.
    pub fn ip(&self, end: usize, args: &[&str]) -> anyhow::Result<String> {
        self.run("ip", &[&["-n", self.names[end].as_str()], args].concat())
    }

    /// The times of so many pings, in microseconds.
    pub fn ping(&self, address: &str, count: u32) -> anyhow::Result<Vec<f64>> {
        let sent = count.to_string();
        let said =
            self.run_in(0, "ping", &["-n", "-i", "0.01", "-c", &sent, "-W", "1", address])?;
        let mut times: Vec<f64> = said
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("time="))
            .filter_map(|time| time.parse::<f64>().ok())
            .map(|milliseconds| milliseconds * 1e3)
            .collect();
        ensure!(!times.is_empty(), "no ping was answered");
        // One that is not answered took longer than it was waited for.
        times.resize(times.len().max(count as usize), 1e6);
        Ok(times)
    }

    /// Waits until pings to an address are answered.
    pub fn wait_for_ping(&self, address: &str, limit: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        while self.run_in(0, "ping", &["-c", "1", "-W", "1", address]).is_err() {
            self.check_interrupted()?;
            ensure!(Instant::now() < deadline, "nothing comes through to {address}");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// TCP's goodput by iperf3, in bit/s.
    pub fn transfer(&mut self, transfer: &Transfer<'_>) -> anyhow::Result<f64> {
        let Transfer { seconds, left_out, .. } = *transfer;
        let programs @ (client, _) = self.start_transfer(transfer)?;
        let limit = Duration::from_secs(u64::from(seconds + left_out) + 60);
        let is_done = self.wait(client, limit);
        self.end_transfer(programs);
        ensure!(is_done?, "iperf3 does not end");
        let report = fs::read(self.transfer_report()).context("cannot read a temporary file")?;
        goodput(&report)
    }

    /// Does something else once iperf3 runs; that ends with it.
    pub fn beside<T>(
        &mut self,
        transfer: &Transfer<'_>,
        act: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let programs = self.start_transfer(transfer)?;
        thread::sleep(Duration::from_secs(u64::from(transfer.left_out)));
        let done = act(self);
        self.end_transfer(programs);
        done
    }

    fn end_transfer(&mut self, (client, server): (usize, usize)) {
        self.end(client);
        self.end(server);
    }

    fn transfer_report(&self) -> PathBuf {
        self.folder.join("iperf3.json")
    }

    /// Starts server and client; returns the client's and the server's positions.
    fn start_transfer(&mut self, transfer: &Transfer<'_>) -> anyhow::Result<(usize, usize)> {
        let Transfer { between: (client, server), address, seconds, left_out, args } = *transfer;
        let name = self.names[server].clone();
        let command = ["netns", "exec", &name, "iperf3", "-s", "-1", "--forceflush"];
        let server = self.start(&command, Stdio::piped())?;
        let mut listening = [0; 1];
        if let Some(output) = &mut self.programs[server].stdout {
            output.read_exact(&mut listening).context("iperf3 does not listen")?;
        }
        thread::sleep(Duration::from_millis(100));

        let name = self.names[client].clone();
        let times = [seconds, left_out].map(|seconds| seconds.to_string());
        let command = [
            &["netns", "exec", &name, "iperf3", "-c", address, "-t", &times[0], "-O", &times[1]],
            &["-J", "--connect-timeout", "20000"][..],
            args,
        ];
        let output = File::create(self.transfer_report()).context("cannot make a file")?;
        let client = self.start(&command.concat(), Stdio::from(output))?;
        Ok((client, server))
    }

    pub fn run_in(&self, end: usize, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let within = ["netns", "exec", &self.names[end], "timeout", "60", program];
        self.run("ip", &[&within[..], args].concat())
    }

    pub fn run(&self, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(program).args(args).stdin(Stdio::null()).output();
        self.check_interrupted()?;
        let Output { status, stdout, stderr } = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(program),
            _ => anyhow::anyhow!("{program}: {error}"),
        })?;
        let said = String::from_utf8_lossy(&stdout).into_owned();
        let complaint = String::from_utf8_lossy(&stderr);
        ensure!(status.success(), "`{program} {}`: {}", args.join(" "), complaint.trim());
        Ok(said)
    }

    /// Starts a command of `ip` and returns its position.
    pub fn start(&mut self, command: &[&str], output: Stdio) -> anyhow::Result<usize> {
        let child = Command::new("ip")
            .args(command)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::from(File::options().write(true).open("/dev/null")?))
            .spawn()
            .context("cannot start `ip`: `apt install iproute2`")?;
        self.programs.push(child);
        Ok(self.programs.len() - 1)
    }

    /// Waits until a program has ended by itself; false when it takes too long.
    fn wait(&mut self, program: usize, limit: Duration) -> anyhow::Result<bool> {
        let deadline = Instant::now() + limit;
        while self.programs[program].try_wait()?.is_none() {
            self.check_interrupted()?;
            if Instant::now() > deadline {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(true)
    }

    pub fn end(&mut self, program: usize) {
        let child = &mut self.programs[program];
        if matches!(child.try_wait(), Ok(None)) {
            let _ = i32::try_from(child.id()).map(|pid| kill(Pid::from_raw(pid), Signal::SIGTERM));
            let deadline = Instant::now() + Duration::from_secs(3);
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() > deadline {
                    let _ = child.kill();
                    let _ = child.wait();
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Ends a program started with a pipe and returns its output.
    pub fn end_and_read(&mut self, program: usize) -> anyhow::Result<String> {
        self.end(program);
        let mut said = String::new();
        if let Some(output) = &mut self.programs[program].stdout {
            output.read_to_string(&mut said).context("what a program printed")?;
        }
        Ok(said)
    }

    /// The process of a program.
    pub fn pid(&self, program: usize) -> u32 {
        self.programs[program].id()
    }

    /// Octets of memory that a program has had at most.
    pub fn memory(&self, program: usize) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.programs[program].id());
        let status = fs::read_to_string(&path).with_context(|| path)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("no VmHWM")? * 1024.0)
    }

    pub fn check_interrupted(&self) -> anyhow::Result<()> {
        self.signals.check()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for program in 0..self.programs.len() {
            self.end(program);
        }
        for name in &self.names {
            let _ =
                Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Says at once, and not after minutes, what is missing.
pub fn check_programs(programs: &[&str]) -> anyhow::Result<()> {
    for program in programs {
        let paths = env::var_os("PATH").unwrap_or_default();
        if !env::split_paths(&paths).any(|path| path.join(program).is_file()) {
            return Err(missing(program));
        }
    }
    Ok(())
}

/// Fails unless we may make namespaces; `command` is what the user asked for.
pub fn check_root(command: &str) -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "making network namespaces needs root: `sudo {command}`"
    );
    Ok(())
}

/// This program, to be run in a namespace.
pub fn this_program() -> anyhow::Result<String> {
    let program = env::current_exe().context("cannot find this program")?;
    Ok(Path::to_string_lossy(&program).into_owned())
}

fn missing(program: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "the program `{program}` is missing: `apt install iproute2 iputils-ping iperf3`"
    )
}

/// The goodput in the report of a client of iperf3.
fn goodput(report: &[u8]) -> anyhow::Result<f64> {
    let report: Value = serde_json::from_slice(report).context("iperf3's report")?;
    let goodput = report["end"]["sum_received"]["bits_per_second"].as_f64();
    goodput.with_context(|| format!("iperf3 says: {}", report["error"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_receiver_got_is_the_goodput() {
        let report = br#"{"end": {
            "sum_sent": {"bits_per_second": 3000}, "sum_received": {"bits_per_second": 2000.5}
        }}"#;

        assert_eq!(goodput(report).unwrap(), 2_000.5);
    }

    #[test]
    fn a_failure_of_iperf3_is_told() {
        let error = goodput(br#"{"intervals": [], "end": {}, "error": "refused"}"#);

        assert!(error.unwrap_err().to_string().contains("refused"));
    }
}
