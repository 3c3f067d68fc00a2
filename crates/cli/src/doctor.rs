//! The command `trackway doctor`: reports missing things and obstacles on this host for a configuration.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use gateway::Config;
use gateway::doctor::{self, Finding, Severity};

use crate::failure;
use crate::terminal;

/// Examine this host for a configuration: what it lacks and what is in the way, each with the command that mends it.
///
/// Nothing is changed. Exit code 1 if a finding is high: a service cannot carry traffic, or traffic may be
/// read or forged.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  trackway doctor examples/tunnel/tunnel-a.toml\n  trackway doctor --json /etc/trackway/gateway.toml"
)]
pub struct Args {
    /// The configuration, a TOML file.
    file: PathBuf,
    /// Print one JSON list, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Prints a finding and its remedy.
pub fn print(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let Finding { kind, what, remedy, .. } = finding;
    writeln!(out, "{} [{}]: {what}\n    {remedy}", kind.severity, kind.code)
}

/// Examines the host.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file, json } = args;
    let config = Config::read(&file).map_err(failure::misuse)?;
    let mut findings = doctor::examine(&config);
    // Without a running gateway, or without the right to ask it, there are no faults.
    let status = gateway::ask_status(None).ok().and_then(|it| serde_json::from_str(&it).ok());
    findings.extend(
        status.into_iter().flat_map(|it| doctor::of_running(&findings, &it)).collect::<Vec<_>>(),
    );
    findings.sort_by_key(|it| Reverse(it.kind.severity));
    let mut out = terminal::out();
    if json {
        writeln!(out, "{}", serde_json::to_string(&findings)?)?;
    } else if findings.is_empty() {
        writeln!(out, "{}: this host has all that it needs", file.display())?;
    }
    for finding in findings.iter().filter(|_| !json) {
        print(&mut out, finding)?;
    }
    let is_high = findings.iter().any(|it| it.kind.severity == Severity::High);
    Ok(if is_high { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
