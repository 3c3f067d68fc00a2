//! `trackway bench`: how fast this machine runs us.

use std::process::ExitCode;

/// Measure how fast Trackway runs on this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway bench sim")]
pub(crate) struct Args {
    /// What to measure.
    name: String,

    /// Print one JSON object per case on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark that `args` names.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { name, json: _ } = args;
    Err(crate::failure::misuse(format!("no benchmark is called '{name}'")))
}
