//! `trackway hf`: two STANAG 5066 nodes and what joins them, in real time.

mod exchange;
mod file;
mod modems;
mod observer;
mod options;
mod parameters;
mod progress;
mod report;
mod stop;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use gateway::bearer::Server;
use lab::figure::timeline::{Station, Timeline, timeline_to_svg};
use proto::time::Time;

use crate::namespace;
use exchange::Exchange;
use modems::Modems;
use observer::Observer;
pub(crate) use options::Args;
use options::{End, Plan};
use progress::Progress;
use report::Report;
use stop::Stop;

/// Runs the subcommand of `args`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let seed = plan.seed.unwrap_or_else(any_seed);
    let servers = [listen(&plan.ends[0])?, listen(&plan.ends[1])?];
    if let Some(path) = &plan.timeline {
        // Now, not after hours of an exchange that could then not be drawn.
        fs::File::create(path).with_context(|| format!("writing {}", path.display()))?;
    }
    let stop = Stop::new(plan.duration)?;
    greet(&plan, &servers, seed);
    if plan.is_modem_only {
        let mut modems = Modems::new(&plan, servers, seed);
        modems.run(&stop)?;
        modems.print(&plan, seed, stop.now().as_secs_f64())?;
        return Ok(ExitCode::SUCCESS);
    }
    let observer = Observer::new(plan.capture.as_deref(), plan.timeline.is_some())?;
    let mut exchange = Exchange::new(&plan, servers, seed, observer);
    let mut progress = Progress::new();
    let outcome = exchange.run(&stop, &mut progress);
    progress.end();
    outcome?;
    let now = stop.now();
    exchange.stop(now);
    let (elapsed, ends) = (now.since(Time::ZERO), exchange.ends());
    exchange.observer().finish().context("writing the captures")?;
    Report { plan: &plan, seed, elapsed, ends }.print()?;
    if let Some(path) = &plan.timeline {
        draw(path, &plan, exchange.observer())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws who transmitted what.
fn draw(path: &Path, plan: &Plan, observer: &mut Observer) -> io::Result<()> {
    let spans = observer.take_spans().unwrap_or_default();
    let stations = ["A", "B"].into_iter().zip(spans);
    let timeline = Timeline {
        name: "hf".to_owned(),
        title: "Who transmitted when".to_owned(),
        subtitle: format!(
            "{} and {} with {}, channel {}",
            plan.ends[0].address, plan.ends[1].address, plan.waveform, plan.channel
        ),
        stations: stations.map(|(name, spans)| Station { name: name.to_owned(), spans }).collect(),
        note: "Data is sent again when it was lost, and to fill the last block of a transmission. \
               Between two transmissions the radios turn round, or nobody has anything to say."
            .to_owned(),
    };
    fs::write(path, timeline_to_svg(&timeline))
}

/// Connections to a node at a time.
const CLIENTS: usize = 64;

/// Listens where an end is to be reached.
fn listen(end: &End) -> anyhow::Result<Server> {
    let bind = || Server::bind(end.listen);
    let bound = match &end.namespace {
        Some(namespace) => namespace::within(namespace, bind)?,
        None => bind(),
    };
    let place = end.namespace.as_ref().map_or(String::new(), |name| format!(" in {name}"));
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "{}{place} is in use: `ss -ltnp` shows by whom; --help, how to listen elsewhere",
            end.listen
        ),
        _ => anyhow!("cannot listen on {}{place}: {error}", end.listen),
    })
}

/// Says where clients connect; nobody may be there to read it.
fn greet(plan: &Plan, servers: &[Server; 2], seed: u64) {
    let mut err = io::stderr().lock();
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

/// The time, as good as any when nobody asks for the same again.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}
