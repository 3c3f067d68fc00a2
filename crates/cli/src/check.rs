//! `trackway check`: whether a configuration can be used.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use gateway::Config;

use crate::failure;
use crate::terminal;

/// Check a gateway's configuration and start nothing.
///
/// What is allowed and probably not meant, such as a rule that never decides, is warned of.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway check examples/hbh.toml")]
pub(crate) struct Args {
    /// The configuration, a TOML file.
    file: PathBuf,
}

/// Checks the file.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file } = args;
    let config = Config::read(&file).map_err(failure::misuse)?;
    for warning in config.warnings() {
        writeln!(terminal::err(), "warning: {warning}")?;
    }
    writeln!(terminal::out(), "{}: all right", file.display())?;
    Ok(ExitCode::SUCCESS)
}
