//! `trackway status`: the counters of the gateway that runs here.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value};

/// Print the counters of the gateway that runs in this network namespace.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway status --json")]
pub(crate) struct Args {
    /// Print one JSON object, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Asks the gateway.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { json } = args;
    let status = gateway::ask_status()?;
    let mut out = std::io::stdout().lock();
    if json {
        out.write_all(status.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let counters: Map<String, Value> =
        serde_json::from_str(&status).context("the gateway's answer")?;
    for (name, value) in &counters {
        if value != 0 {
            writeln!(out, "{name:<28} {value:>14}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
