//! Two network namespaces joined by a cable, and programs that run in them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde_json::Value;

/// Two namespaces and what runs in them; all ends with this.
pub(super) struct Pair {
    signals: SignalFd,
    pub(super) namespaces: [String; 2],
    /// A folder for their files.
    pub(super) folder: PathBuf,
    programs: Vec<Child>,
}

impl Pair {
    pub(super) fn new() -> anyhow::Result<Self> {
        // Ctrl-C ends the programs that run; we tidy up and then end ourselves.
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        mask.thread_block().context("cannot block signals")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let namespaces = ["a", "b"].map(|end| format!("twbench{}-{end}", process::id()));
        let folder = env::temp_dir().join(&namespaces[0]);
        fs::create_dir(&folder).context("cannot make a folder for temporary files")?;
        let pair = Self { signals, namespaces, folder, programs: Vec::new() };

        let [a, b] = &pair.namespaces;
        pair.run("ip", &["netns", "add", a])?;
        pair.run("ip", &["netns", "add", b])?;
        let cable = ["link", "add", "eth0", "netns", a, "type", "veth", "peer", "eth0", "netns", b];
        pair.run("ip", &cable)?;
        for (number, namespace) in (1..).zip(&pair.namespaces) {
            let here =
                |args: &[&str]| pair.run("ip", &[&["-n", namespace.as_str()], args].concat());
            here(&["address", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"])?;
            here(&["address", "add", &format!("fd09::{number}/64"), "dev", "eth0", "nodad"])?;
            here(&["link", "set", "dev", "lo", "up"])?;
            here(&["link", "set", "dev", "eth0", "up"])?;
        }
        Ok(pair)
    }

    /// The times of so many pings, in microseconds.
    pub(super) fn ping(&self, address: &str, count: u32) -> anyhow::Result<Vec<f64>> {
        let count = count.to_string();
        let said =
            self.run_in(0, "ping", &["-n", "-i", "0.01", "-c", &count, "-W", "1", address])?;
        let times: Vec<f64> = said
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("time="))
            .filter_map(|time| time.parse::<f64>().ok())
            .map(|milliseconds| milliseconds * 1e3)
            .collect();
        ensure!(!times.is_empty(), "no ping was answered");
        Ok(times)
    }

    /// TCP's goodput in bit/s, over so many seconds after the first.
    pub(super) fn transfer(&mut self, address: &str, seconds: u32) -> anyhow::Result<f64> {
        let seconds = (seconds + 1).to_string();
        let namespace = self.namespaces[1].clone();
        let command = ["netns", "exec", &namespace, "iperf3", "-s", "-1", "--forceflush"];
        let server = self.start(&command, Stdio::piped())?;
        let mut listening = [0; 1];
        if let Some(output) = &mut self.programs[server].stdout {
            output.read_exact(&mut listening).context("iperf3 does not listen")?;
        }
        thread::sleep(Duration::from_millis(100));
        let args = ["-c", address, "-t", &seconds, "-O", "1", "-J", "--connect-timeout", "5000"];
        let said = self.run_in(0, "iperf3", &args)?;
        self.end(server);
        let report: Value = serde_json::from_str(&said).context("iperf3's report")?;
        report["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .with_context(|| format!("iperf3 says: {}", report["error"]))
    }

    pub(super) fn run_in(
        &self,
        end: usize,
        program: &str,
        args: &[&str],
    ) -> anyhow::Result<String> {
        let within = ["netns", "exec", &self.namespaces[end], "timeout", "60", program];
        self.run("ip", &[&within[..], args].concat())
    }

    pub(super) fn run(&self, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(program).args(args).stdin(Stdio::null()).output();
        self.check_interrupted()?;
        let Output { status, stdout, stderr } = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow::anyhow!(
                "the program `{program}` is missing: `apt install iproute2 iputils-ping iperf3`"
            ),
            _ => anyhow::anyhow!("{program}: {error}"),
        })?;
        let said = String::from_utf8_lossy(&stdout).into_owned();
        let complaint = String::from_utf8_lossy(&stderr);
        ensure!(status.success(), "`{program} {}`: {}", args.join(" "), complaint.trim());
        Ok(said)
    }

    /// Starts a command of `ip` and returns its position.
    pub(super) fn start(&mut self, command: &[&str], output: Stdio) -> anyhow::Result<usize> {
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

    pub(super) fn end(&mut self, program: usize) {
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

    /// Octets of memory that a program has had at most.
    pub(super) fn memory(&self, program: usize) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.programs[program].id());
        let status = fs::read_to_string(&path).with_context(|| path)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("no VmHWM")? * 1024.0)
    }

    pub(super) fn check_interrupted(&self) -> anyhow::Result<()> {
        match self.signals.read_signal() {
            Ok(None) => Ok(()),
            Ok(Some(_)) => bail!("interrupted"),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for program in 0..self.programs.len() {
            self.end(program);
        }
        for namespace in &self.namespaces {
            let _ = Command::new("ip")
                .args(["netns", "delete", namespace])
                .stderr(Stdio::null())
                .status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
