//! The command `trackway hf`: two STANAG 5066 nodes and the channel between them, in real time.

mod file;
mod modems;
mod options;
mod parameters;
mod picture;
mod progress;
mod radio;
mod report;
mod talk;
mod traffic;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use base::time::Time;
use emulator::hf::{Exchange, Modems, Observer};
use emulator::{Stop, any_seed, namespace};
use gateway::bearer::Server;
use options::{Options, Plan};
use picture::Picture;
use progress::Progress;
use report::Report;
use talk::Talk;
use traffic::Traffic;
use whole::WholeFile;

use crate::failure;
use crate::terminal;

#[cfg(test)]
pub use file::check_text;
pub use file::schema;

/// Join two STANAG 5066 nodes by emulated HF modems and a channel, in real time.
///
/// Each node serves the subnetwork interface (SIS) on TCP, so that any client can be tried without
/// a radio. Only the radio is emulated: waveforms take the time that they take. With --modem-only,
/// there are two modems alone, which two nodes of anybody's reach by TCP (MIL-STD-188-110D,
/// appendix A).
///
/// `trackway hf disable` and `enable` are about the gateway that runs here, and its traffic over HF.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  trackway hf --talk --speed 9600 --ber 1e-5 --timeline exchange.svg
  trackway hf --config examples/hf/hf.toml --duration 60s
  trackway hf disable web

The first runs until Ctrl-C; other SIS clients connect to 127.0.0.1:5066 and 127.0.0.1:5067."
)]
pub struct Args {
    #[command(subcommand)]
    traffic: Option<Traffic>,
    /// A TOML file with any of the options below; those on the command line count more.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

impl Args {
    /// Reads the file, and checks all together.
    fn plan(self) -> anyhow::Result<Plan> {
        let Self { config, options, .. } = self;
        let from_file =
            config.map(|path| file::read(&path)).transpose().map_err(failure::misuse)?;
        options.or(from_file.unwrap_or_default()).check().map_err(failure::misuse)
    }
}

/// Runs the subcommand of `args`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(traffic) = args.traffic {
        return traffic::run(traffic);
    }
    let plan = args.plan()?;
    let seed = plan.seed.unwrap_or_else(any_seed);
    let servers = [listen(&plan, 0)?, listen(&plan, 1)?];
    if let Some(path) = &plan.timeline {
        // Fail now, not after hours of an exchange that cannot be drawn.
        WholeFile::create(path).with_context(|| format!("writing {}", path.display()))?;
    }
    let stop = Stop::new(plan.duration)?;
    greet(&plan, &servers, seed);
    if plan.is_modem_only {
        let mut modems = Modems::new(plan.waveform, plan.channel, servers, seed);
        modems.run(&stop, |end, turned_away| tell("modem", end, &turned_away))?;
        modems::print(&modems, &plan, seed, stop.now().as_secs_f64())?;
        return Ok(ExitCode::SUCCESS);
    }
    let talk = Talk::start(&plan, &servers)?;
    let observer = Observer::new(plan.capture.as_deref())?;
    let mut exchange = Exchange::new(plan.channel, plan.nodes.clone(), servers, seed, observer);
    let mut picture = Picture::new(plan.timeline.as_deref());
    let mut progress = Progress::new();
    let outcome = loop {
        match exchange.turn(&stop, progress.next_timeout(), |end, it| picture.note(end, it)) {
            Ok(true) => {
                while let Some((end, trouble)) = exchange.poll_trouble(stop.now()) {
                    progress.end();
                    tell("node", end, &trouble);
                }
                while let Some(said) = talk.as_ref().and_then(Talk::poll) {
                    progress.end();
                    tell("client", 0, &said);
                }
                progress.show(stop.now(), &exchange);
            }
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    progress.end();
    outcome?;
    let now = stop.now();
    let captured = exchange.stop(now, |end, it| picture.note(end, it));
    captured.context("writing the captures")?;
    let (elapsed, ends) = (now.since(Time::ZERO), exchange.outcomes());
    Report { plan: &plan, seed, elapsed, ends }.print()?;
    picture.draw(&plan)?;
    Ok(ExitCode::SUCCESS)
}

/// Listens at the address of an end.
fn listen(plan: &Plan, end: usize) -> anyhow::Result<Server> {
    let end = &plan.ends[end];
    let bind = || Server::bind(end.listen);
    let bound = match &end.namespace {
        Some(name) => namespace::within(name, bind).map_err(failure::of_namespace)?,
        None => bind(),
    };
    let place = end.namespace.as_ref().map_or(String::new(), |name| format!(" in {name}"));
    bound.map(|server| server.allowing(plan.allow.clone())).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "{}{place} is in use: `ss -ltnp` shows by whom; --help, how to listen elsewhere",
            end.listen
        ),
        _ => anyhow!("cannot listen on {}{place}: {error}", end.listen),
    })
}

/// Reports an event at an end; the reader may be gone.
fn tell(what: &str, end: usize, happened: &dyn Display) {
    let name = ["A", "B"][end];
    let _ = writeln!(terminal::err(), "{what} {name}: {happened}");
}

/// Prints where clients connect; the reader may be gone.
fn greet(plan: &Plan, servers: &[Server; 2], seed: u64) {
    let mut err = terminal::err();
    for ((name, end), server) in ["A", "B"].into_iter().zip(&plan.ends).zip(servers) {
        let at = server.local_address().map_or(String::new(), |at| at.to_string());
        let place = end.namespace.as_ref().map_or(String::new(), |name| format!(" in {name}"));
        let _ = if plan.is_modem_only {
            writeln!(err, "modem {name} is at {at}{place}")
        } else {
            writeln!(err, "node {name}, {}, serves clients at {at}{place}", end.address)
        };
    }
    let (waveform, channel) = (plan.waveform, plan.channel);
    let _ = writeln!(err, "ready: {waveform}, channel {channel}, seed {seed}");
}
