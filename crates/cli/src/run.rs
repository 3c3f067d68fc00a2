//! `trackway run`: the gateway.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use gateway::config::{Config, Level};
use tracing_subscriber::filter::LevelFilter;

use crate::failure;

/// Carry the traffic of this machine's MANET interfaces by HBH.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway run examples/hbh.toml")]
pub(crate) struct Args {
    /// The configuration, a TOML file.
    file: PathBuf,
}

/// Runs the gateway until it is told to end.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file } = args;
    let config = Config::read(&file).map_err(failure::misuse)?;
    tracing_subscriber::fmt()
        .with_max_level(filter(config.log))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    gateway::run(config)?;
    Ok(ExitCode::SUCCESS)
}

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    }
}
