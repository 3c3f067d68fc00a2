//! A program for ns-3, run beside ours for comparison.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use crate::failure::misuse;

/// The speed that a program for ns-3 reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Link packets for each CPU second.
    pub packets: f64,
    /// Events for each CPU second.
    pub events: f64,
}

impl Speed {
    /// Runs a command line without a shell, and reads the last line of its output.
    pub fn of(command: &str) -> anyhow::Result<Self> {
        let output = Running::start(command, &[])?.output()?;
        Self::parse(&output).with_context(|| {
            format!("{command} did not end with a JSON line that has packets_per_cpu_s")
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let line: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
        Some(Self {
            packets: line["packets_per_cpu_s"].as_f64()?,
            events: line["events_per_cpu_s"].as_f64()?,
        })
    }
}

/// The cost of a MANET in a program for ns-3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manet {
    /// CPU seconds for each simulated second.
    pub cpu: f64,
    /// Kilobits a second of delivered payload.
    pub goodput: f64,
}

impl Manet {
    /// Runs a command line with these options appended. Ends a program that takes longer than `most`, and
    /// returns `None`.
    pub fn of(command: &str, options: &[String], most: Duration) -> anyhow::Result<Option<Self>> {
        let mut child = Running::start(command, options)?;
        let Some(output) = child.output_within(most)? else { return Ok(None) };
        let parsed = Self::parse(&output).with_context(|| {
            format!(
                "{command} did not end with a JSON line that has cpu_s_per_s and goodput_kbit_s"
            )
        })?;
        Ok(Some(parsed))
    }

    fn parse(text: &str) -> Option<Self> {
        let line: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
        let number = |name: &str| line[name].as_f64();
        Some(Self { cpu: number("cpu_s_per_s")?, goodput: number("goodput_kbit_s")? })
    }
}

/// A running program, ended on drop.
#[derive(Debug)]
struct Running {
    program: String,
    child: Child,
    printed: mpsc::Receiver<String>,
}

impl Running {
    /// Starts a command line without a shell.
    fn start(command: &str, options: &[String]) -> anyhow::Result<Self> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or_else(|| misuse("--ns3 needs a program"))?;
        let mut child = Command::new(program)
            .args(words)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let mut stdout = child.stdout.take().context("a program without output")?;
        let (print, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            // Parsing fails if output could not be read, and nobody may wait for the output any more.
            let _ = stdout.read_to_end(&mut text);
            let _ = print.send(String::from_utf8_lossy(&text).into_owned());
        });
        Ok(Self { program: program.to_owned(), child, printed })
    }

    /// All output of the program until its end.
    fn output(mut self) -> anyhow::Result<String> {
        let printed = self.printed.recv().context("its output was not read")?;
        self.finish(printed)
    }

    /// As [`Self::output`]; `None` if the program takes longer.
    fn output_within(&mut self, most: Duration) -> anyhow::Result<Option<String>> {
        match self.printed.recv_timeout(most) {
            Ok(printed) => self.finish(printed).map(Some),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(why @ mpsc::RecvTimeoutError::Disconnected) => Err(why.into()),
        }
    }

    fn finish(&mut self, printed: String) -> anyhow::Result<String> {
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "{} failed: {status}", self.program);
        Ok(printed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let text =
            "hello\n{\"packets_per_cpu_s\": 195000, \"events_per_cpu_s\": 4.5e5, \"x\": 1}\n";

        assert_eq!(Speed::parse(text), Some(Speed { packets: 195_000.0, events: 450_000.0 }));
        assert_eq!(Speed::parse("no JSON"), None);
        assert_eq!(Speed::parse(""), None);
    }

    #[test]
    fn the_last_line_of_a_manet_counts() {
        let text = "hello\n{\"goodput_kbit_s\": 42.5, \"cpu_s_per_s\": 0.25}\n";

        assert_eq!(Manet::parse(text), Some(Manet { cpu: 0.25, goodput: 42.5 }));
        assert_eq!(Manet::parse("{\"cpu_s_per_s\": 0.25}"), None);
    }

    #[test]
    fn who_takes_too_long_is_given_up_and_ended() {
        let long = Manet::of("sleep 1000", &[], Duration::from_millis(10)).unwrap();
        let mut child = Running::start("sleep 1000", &[]).unwrap();
        let pid = child.child.id();
        assert_eq!(child.output_within(Duration::from_millis(10)).unwrap(), None);
        drop(child);

        assert_eq!(long, None);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn what_fails_or_says_nothing_of_use_is_complained_of() {
        let of = |command: &str| Manet::of(command, &[], Duration::from_secs(60));

        assert_eq!(of("false").unwrap_err().to_string(), "false failed: exit status: 1");
        assert!(of("echo hello").unwrap_err().to_string().starts_with("echo hello did not end"));
        let json = "echo {\"cpu_s_per_s\":1,\"goodput_kbit_s\":2}";
        assert_eq!(of(json).unwrap(), Some(Manet { cpu: 1.0, goodput: 2.0 }));
    }
}
