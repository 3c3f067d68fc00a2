//! `trackway run`: the gateway.

use std::path::PathBuf;
use std::process::ExitCode;

use gateway::config::{Config, Level};
use gateway::events::Recent;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, reload};

use crate::failure;
use crate::log::{Format, Lines};

/// Carry this machine's traffic by the services that a configuration names.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway run examples/hbh/hbh.toml")]
pub struct Args {
    /// The configuration, a TOML file.
    file: PathBuf,
    /// Where the control socket is to be; without, in /run/trackway.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// How the log looks.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
}

/// Runs the gateway until it is told to end.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file, control, log_format } = args;
    let config = Config::read(&file).map_err(failure::misuse)?;
    let (level, handle) = reload::Layer::new(filter(config.process.log));
    let recent = Recent::default();
    let lines = Lines::new(log_format, recent.clone());
    let lines = fmt::layer().with_writer(std::io::stderr).event_format(lines);
    tracing_subscriber::registry().with(level).with(lines).init();
    // The handle fails only without a subscriber.
    let set_level = move |level| drop(handle.reload(filter(level)));
    gateway::run(&file, config, control.as_deref(), set_level, recent)?;
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
