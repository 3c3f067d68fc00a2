//! `trackway check`: whether a configuration can be used.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use gateway::Config;
use gateway::doctor;

use crate::failure;
use crate::terminal;

/// Check a gateway's configuration and start nothing.
///
/// All that is wrong with the file is told, each with its line and what is allowed. What is allowed and probably not
/// meant, such as a rule that never decides, is warned of, and so is what this host lacks for the file or has in the way
/// (`trackway doctor`). The exit code is about the file alone: 0 if it can be used, 2 if not.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  trackway check examples/hbh/hbh.toml\n  trackway check --offline /dev/stdin < node.toml"
)]
pub struct Args {
    /// The configuration, a TOML file.
    file: PathBuf,
    /// Check the file alone: it is for another host.
    #[arg(long)]
    offline: bool,
}

/// Checks the file.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file, offline } = args;
    let config = Config::read(&file).map_err(failure::misuse)?;
    for warning in config.warnings() {
        writeln!(terminal::err(), "warning: {warning}")?;
    }
    if !offline {
        for finding in doctor::examine(&config) {
            super::doctor::print(&mut terminal::err(), &finding)?;
        }
    }
    writeln!(terminal::out(), "{}: all right", file.display())?;
    Ok(ExitCode::SUCCESS)
}
