//! `trackway lab`: experiments that reproduce published results.

use std::process::ExitCode;

use clap::Subcommand;

/// Run experiments that reproduce published results.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments and the claims they test.
    #[command(after_help = "Example:\n  trackway lab list")]
    List,
}

/// Runs the subcommand of `args`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { command: Command::List } = args;
    Ok(ExitCode::SUCCESS)
}
