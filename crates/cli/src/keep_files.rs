//! The command `trackway keep-files`: the gateway starts it to read files again after giving up root.

use std::path::PathBuf;
use std::process::ExitCode;

/// Open the files of a configuration for the gateway that started this.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The user to be.
    user: u32,
    /// Its group.
    group: u32,
    /// Whose files it may open: `0,1000:1000`, users, each with the group of its own.
    owners: String,
    /// The configuration.
    file: PathBuf,
}

/// Opens files until the gateway ends.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    gateway::keep_files(&args.file, args.user, args.group, &args.owners)?;
    Ok(ExitCode::SUCCESS)
}
