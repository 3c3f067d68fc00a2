//! A program for ns-3, run beside ours for comparison.

use std::process::Command;

use anyhow::Context as _;

use crate::failure::misuse;

/// What such a program says of its own speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    /// Link packets for each CPU second.
    pub(super) packets: f64,
    /// Events for each CPU second.
    pub(super) events: f64,
}

impl Speed {
    /// Runs a command line, which a shell does not see, and reads the last line that it prints.
    pub(super) fn of(command: &str) -> anyhow::Result<Self> {
        Self::parse(&output_of(command, &[])?).with_context(|| {
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

/// What a MANET cost such a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Manet {
    /// CPU seconds for each simulated second.
    pub(super) cpu: f64,
    /// Kilobits a second of payload that arrived.
    pub(super) goodput: f64,
}

impl Manet {
    /// Runs a command line with these options after its own.
    pub(super) fn of(command: &str, options: &[String]) -> anyhow::Result<Self> {
        Self::parse(&output_of(command, options)?).with_context(|| {
            format!(
                "{command} did not end with a JSON line that has cpu_s_per_s and goodput_kbit_s"
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let line: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
        let number = |name: &str| line[name].as_f64();
        Some(Self { cpu: number("cpu_s_per_s")?, goodput: number("goodput_kbit_s")? })
    }
}

/// What a command line prints, which a shell does not see.
fn output_of(command: &str, options: &[String]) -> anyhow::Result<String> {
    let mut words = command.split_whitespace();
    let program = words.next().ok_or_else(|| misuse("--ns3 needs a program"))?;
    let output = Command::new(program)
        .args(words)
        .args(options)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    anyhow::ensure!(output.status.success(), "{program} failed: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
}
