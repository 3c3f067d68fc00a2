//! `trackway down`: what a gateway that crashed has left.

use std::io::Write as _;
use std::process::ExitCode;

/// Remove the routes and rules that a tunnel has left in this network namespace when it crashed.
///
/// They keep what is meant for the peers from leaving in clear. The next start takes them over, so this is for
/// when there is to be none; no configuration is needed, because they are marked as trackway's.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway down")]
pub(crate) struct Args {}

/// Removes them, and prints what there was.
pub(crate) fn run(Args {}: Args) -> anyhow::Result<ExitCode> {
    let removed = gateway::remove_routes()?;
    let mut out = std::io::stdout().lock();
    if removed.is_empty() {
        writeln!(out, "nothing was left")?;
    }
    for entry in removed {
        writeln!(out, "removed: {entry}")?;
    }
    Ok(ExitCode::SUCCESS)
}
