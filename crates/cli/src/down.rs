//! The command `trackway down`: cleans up after a crashed gateway.

use std::io::Write as _;
use std::process::ExitCode;

use crate::terminal;

/// Remove the routes and rules that a gateway has left in this network namespace when it crashed, and give back
/// the settings of interfaces that it had changed.
///
/// The routes keep what is meant for networks behind its devices from leaving otherwise. The next start takes
/// them over, so this is for when there is to be none; no configuration is needed, because they are marked as
/// trackway's.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway down")]
pub struct Args {}

/// Removes the leftovers of a crashed gateway, and prints them.
pub fn run(Args {}: Args) -> anyhow::Result<ExitCode> {
    let left = gateway::remove_left()?;
    let mut out = terminal::out();
    if left.is_empty() {
        writeln!(out, "nothing was left")?;
    }
    for line in left {
        writeln!(out, "{line}")?;
    }
    Ok(ExitCode::SUCCESS)
}
