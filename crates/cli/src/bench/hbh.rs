//! One hop of HBH on real interfaces: two namespaces joined by a cable, plain and by gateways.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, process};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde_json::Value;

use super::Case;

const ADDRESSES: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// A ping may take this much longer, in microseconds.
const PING_LIMIT: f64 = 200.0;
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Measures TCP's goodput and a ping's time, plain and by HBH.
pub(super) fn run(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "making network namespaces needs root: `sudo trackway bench hbh`"
    );
    let mut bench = Bench::new()?;
    let plain = bench.measure()?;
    bench.start_gateways()?;
    let hbh = bench.measure()?;

    let bench = "hbh";
    let case = |case: String, value, unit, limit| Case { bench, case, value, unit, limit };
    for (version, (plain, hbh)) in [4, 6].into_iter().zip(plain.iter().zip(&hbh)) {
        let (tcp, ping) = (format!("tcp v{version}"), format!("ping v{version}"));
        print(case(format!("{tcp} plain"), plain.goodput, "bit/s", None))?;
        print(case(format!("{tcp} hbh"), hbh.goodput, "bit/s", Some(plain.goodput)))?;
        print(case(format!("{ping} plain"), plain.median, "us", None))?;
        print(case(format!("{ping} hbh"), hbh.median, "us", None))?;
        let added = hbh.median - plain.median;
        print(case(format!("{ping} added"), added, "us", Some(PING_LIMIT)))?;
        let added = hbh.mean - plain.mean;
        print(case(format!("{ping} added, mean"), added, "us", Some(PING_LIMIT)))?;
    }
    Ok(())
}

/// What one address was reached with; times in microseconds, goodput in bit/s.
struct Measured {
    goodput: f64,
    median: f64,
    mean: f64,
}

/// Two namespaces and what runs in them; all ends with this.
struct Bench {
    signals: SignalFd,
    namespaces: [String; 2],
    file: PathBuf,
    programs: Vec<Child>,
}

impl Bench {
    fn new() -> anyhow::Result<Self> {
        // Ctrl-C ends the programs that run; we tidy up and then end ourselves.
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        mask.thread_block().context("cannot block signals")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let namespaces = ["a", "b"].map(|end| format!("twbench{}-{end}", process::id()));
        let file = env::temp_dir().join(format!("{}.toml", namespaces[0]));
        let bench = Self { signals, namespaces, file, programs: Vec::new() };

        let [a, b] = &bench.namespaces;
        bench.run("ip", &["netns", "add", a])?;
        bench.run("ip", &["netns", "add", b])?;
        let cable = ["link", "add", "eth0", "netns", a, "type", "veth", "peer", "eth0", "netns", b];
        bench.run("ip", &cable)?;
        for (number, namespace) in (1..).zip(&bench.namespaces) {
            let here =
                |args: &[&str]| bench.run("ip", &[&["-n", namespace.as_str()], args].concat());
            here(&["address", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"])?;
            here(&["address", "add", &format!("fd09::{number}/64"), "dev", "eth0", "nodad"])?;
            here(&["link", "set", "dev", "lo", "up"])?;
            here(&["link", "set", "dev", "eth0", "up"])?;
        }
        Ok(bench)
    }

    fn measure(&mut self) -> anyhow::Result<Vec<Measured>> {
        let mut measured = Vec::new();
        for address in ADDRESSES {
            // The first ones ask for hardware addresses, among other things.
            self.ping(address, 10)?;
            let mut times = self.ping(address, 300)?;
            times.sort_by(f64::total_cmp);
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let goodput = self.transfer(address)?;
            measured.push(Measured { goodput, median: times[times.len() / 2], mean });
        }
        Ok(measured)
    }

    fn start_gateways(&mut self) -> anyhow::Result<()> {
        fs::write(&self.file, "interfaces = [\"eth0\"]\nlog = \"warn\"\n")?;
        let program = env::current_exe().context("cannot find this program")?;
        let program = program.to_string_lossy().into_owned();
        let file = self.file.to_string_lossy().into_owned();
        for namespace in self.namespaces.clone() {
            let command = ["netns", "exec", &namespace, &program, "run", &file];
            self.start(&command, Stdio::null())?;
        }
        let deadline = Instant::now() + READY_WITHIN;
        for namespace in &self.namespaces {
            loop {
                self.check_interrupted()?;
                let command = ["netns", "exec", namespace, &program, "status", "--json"];
                let output = Command::new("ip").args(command).output()?;
                let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                if status["neighbours"] == 1 {
                    break;
                }
                ensure!(Instant::now() < deadline, "the gateways do not find each other");
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// The times of so many pings, in microseconds.
    fn ping(&self, address: &str, count: u32) -> anyhow::Result<Vec<f64>> {
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

    /// TCP's goodput in bit/s.
    fn transfer(&mut self, address: &str) -> anyhow::Result<f64> {
        let namespace = self.namespaces[1].clone();
        let command = ["netns", "exec", &namespace, "iperf3", "-s", "-1", "--forceflush"];
        let server = self.start(&command, Stdio::piped())?;
        let mut listening = [0; 1];
        if let Some(output) = &mut self.programs[server].stdout {
            output.read_exact(&mut listening).context("iperf3 does not listen")?;
        }
        thread::sleep(Duration::from_millis(100));
        let args = ["-c", address, "-t", "5", "-O", "1", "-J", "--connect-timeout", "5000"];
        let said = self.run_in(0, "iperf3", &args)?;
        self.end(server);
        let report: Value = serde_json::from_str(&said).context("iperf3's report")?;
        report["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .with_context(|| format!("iperf3 says: {}", report["error"]))
    }

    fn run_in(&self, end: usize, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let within = ["netns", "exec", &self.namespaces[end], "timeout", "60", program];
        self.run("ip", &[&within[..], args].concat())
    }

    fn run(&self, program: &str, args: &[&str]) -> anyhow::Result<String> {
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
    fn start(&mut self, command: &[&str], output: Stdio) -> anyhow::Result<usize> {
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

    fn end(&mut self, program: usize) {
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

    fn check_interrupted(&self) -> anyhow::Result<()> {
        match self.signals.read_signal() {
            Ok(None) => Ok(()),
            Ok(Some(_)) => bail!("interrupted"),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Bench {
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
        let _ = fs::remove_file(&self.file);
    }
}
