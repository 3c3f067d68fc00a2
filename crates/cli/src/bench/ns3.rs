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
        let mut words = command.split_whitespace();
        let program = words.next().ok_or_else(|| misuse("--ns3 needs a program"))?;
        let output = Command::new(program)
            .args(words)
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        anyhow::ensure!(output.status.success(), "{program} failed: {}", output.status);
        Self::parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
            format!("{program} did not end with a JSON line that has packets_per_cpu_s")
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
}
