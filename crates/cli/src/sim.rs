//! `trackway sim`: a network of one's own in the simulator.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

/// Simulate a network described in a file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and print what happened to its flows, links and nodes.
    #[command(
        after_help = "Example:\n  trackway sim run examples/chain.toml --seed 7 --pcap captures"
    )]
    Run {
        /// The scenario, a TOML file.
        scenario: PathBuf,
    },
}

/// Runs the subcommand of `args`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Run { scenario } = args.command;
    anyhow::bail!("{}: not yet", scenario.display())
}
