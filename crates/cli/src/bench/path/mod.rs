//! Measures the tunnel on a long lossy link, with unmodified programs, beside its goals.
//!
//! ```text
//!   plan ──▶ turns ──▶ each in a network of its own ──▶ report, pictures
//!                      iperf3, requests
//! ```

mod network;
mod picture;
mod plan;
mod report;

use std::collections::VecDeque;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use base::quantity::Probability;
use lab::output::make_folder;
use lab::stats::{Estimate, Observation, Sample};
use network::Network;
use plan::{Cell, Extent, Load};
use testbed::Sites;
use testbed::probe::{Iperf, lone, talk};

use super::{begin, check_programs};
use crate::failure::misuse;
use crate::terminal;

/// Seconds after which requests and pings begin beside a download.
const LATER: u32 = 3;
const PINGS_PER_SECOND: u32 = 20;
/// The part of lone packets that only teaches the tunnel the loss of the path.
const WARM_UP: u32 = 5;
/// Downloads at once: at 10 Mbit/s each costs a core a few percent.
const JOBS: NonZeroUsize = NonZeroUsize::new(3).expect("3 is not 0");

/// The tunnel on a long lossy link, beside plain TCP; needs root.
///
/// Unmodified programs and fresh gateways each turn, in namespaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo trackway bench path --quick
  sudo trackway bench path --loss 5%,10% --only cubic")]
pub struct Options {
    /// Fewer and shorter turns, less than two minutes in all.
    #[arg(long)]
    quick: bool,

    /// How long each download is measured [default: 15, with --quick 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: Option<u32>,

    /// How often each turn is done, with other losses each time; figures are means then.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,

    /// The losses of the link [default: 0%,1%,2%,5%,10%,20%].
    #[arg(long, value_name = "P,...", value_delimiter = ',')]
    loss: Vec<Probability>,

    /// Only turns whose name contains this, such as `bbr` or `ours cubic`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// How many turns to do at once [default: 3].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Where to write pictures [default: trackway-bench, or nowhere with --json].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A turn with the outcomes of its runs; `None` where one failed.
#[derive(Clone, Debug)]
struct Measured {
    cell: Cell,
    outcomes: Option<Vec<Outcome>>,
}

/// The measurements of a run; anything not measured is 0 or empty.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// In bit/s.
    goodput: f64,
    /// Octets on the link for each delivered octet, both towards the client. For lone packets, datagrams
    /// sent for each packet.
    offered: f64,
    /// Times of requests, or one-way times of lone packets, in milliseconds, sorted.
    times: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: Options, json: bool) -> anyhow::Result<()> {
    let Options { quick, seconds, runs, loss, only, jobs, out } = options;
    let mut extent = if quick { Extent::quick() } else { Extent::default() };
    extent.seconds = seconds.unwrap_or(extent.seconds);
    if !loss.is_empty() {
        if loss.contains(&Probability::ONE) {
            return Err(misuse("--loss 100% leaves nothing to measure"));
        }
        // Without the rounding error of binary fractions.
        let percent = |loss: &Probability| (loss.get() * 1e6).round() / 1e4;
        extent.losses = loss.iter().map(percent).collect();
    }
    let mut cells = extent.cells();
    cells.retain(|cell| only.as_ref().is_none_or(|only| cell.name().contains(only.as_str())));
    if cells.is_empty() {
        return Err(misuse("no turn has such a name: `ours cubic 5 %` is one"));
    }
    begin("trackway bench path")?;
    check_programs(&["ip", "ping", "iperf3"])?;
    let out = out.or_else(|| (!json).then(|| PathBuf::from("trackway-bench")));
    if let Some(out) = &out {
        make_folder(out)?;
    }

    let measured = measure_all(&cells, runs.unwrap_or(1), jobs.unwrap_or(JOBS).get());

    let findings = report::findings(&measured);
    if json {
        report::print_json(&findings)?;
    } else {
        report::print_table(&findings)?;
    }
    if let Some(out) = &out {
        picture::write(out, &measured)?;
        if !json {
            writeln!(terminal::out(), "Pictures: {}", out.join("path-*.svg").display())?;
        }
    }
    Ok(())
}

/// Does all runs of all turns, some at once; returns the turns in the order of `cells`.
fn measure_all(cells: &[Cell], runs: u32, jobs: usize) -> Vec<Measured> {
    let all = (0..runs).flat_map(|run| (0..cells.len()).map(move |place| (place, run)));
    let waiting: Mutex<VecDeque<(usize, u32)>> = Mutex::new(all.collect());
    let total = cells.len() * runs as usize;
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (sender, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(total) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some((place, run)) = next() {
                    let outcome = measure(&cells[place], run);
                    if sender.send((place, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);

        let unmeasured = |cell: &Cell| Measured { cell: *cell, outcomes: Some(Vec::new()) };
        let mut measured: Vec<Measured> = cells.iter().map(unmeasured).collect();
        for (count, (place, outcome)) in (1..).zip(done) {
            let said = match &outcome {
                Ok(outcome) => outcome.in_short(),
                Err(error) => format!("failed: {error:#}"),
            };
            let Measured { cell, outcomes } = &mut measured[place];
            // Progress that cannot be shown is no reason to stop.
            let _ = writeln!(terminal::err(), "{count}/{total} {}: {said}", cell.name());
            *outcomes = outcomes.take().zip(outcome.ok()).map(|(mut before, outcome)| {
                before.push(outcome);
                before
            });
        }
        measured
    })
}

fn measure(cell: &Cell, run: u32) -> anyhow::Result<Outcome> {
    let Cell { carrier, pattern, loss, load, seconds } = *cell;
    // The same losses for each TCP inside.
    let seed = loss.to_bits().wrapping_add(run.into());
    let mut network = Network::new(carrier, cell.wire(), &pattern.loss(loss), seed)?;
    let sites = network.sites.clone();
    let transfer = |left_out, args| Iperf {
        between: (&sites.client, &sites.server),
        address: Sites::SERVER,
        seconds,
        left_out,
        args,
    };
    match load {
        Load::Download(tcp) => {
            let args = ["--reverse", "--congestion", tcp];
            let goodput = transfer(0, &args).goodput(&mut network.nets)?;
            let offered = network.finish()?;
            Ok(Outcome { goodput, offered, times: Vec::new() })
        }
        Load::Talk => Ok(Outcome { times: talk::talk(&sites, seconds)?, ..Outcome::default() }),
        Load::Both => {
            let args = ["--reverse", "--congestion", "cubic"];
            let load = transfer(LATER, &args);
            let times = load.beside(&mut network.nets, |_| talk::talk(&sites, seconds))?;
            Ok(Outcome { times, ..Outcome::default() })
        }
        Load::Lone => {
            lone::ask(&sites, seconds / WARM_UP)?;
            let before = network.counters()?;
            let times = lone::ask(&sites, seconds)?;
            let after = network.counters()?;
            let [packets, datagrams] = [0, 1].map(|place| after[place] - before[place]);
            Ok(Outcome { times, offered: datagrams / packets, goodput: 0.0 })
        }
        Load::BothWays => {
            let args = ["--bidir", "--congestion", "cubic"];
            let count = PINGS_PER_SECOND * seconds;
            let load = transfer(LATER, &args);
            let times = load.beside(&mut network.nets, |nets| {
                Network::pings(nets, &sites.gateways[0], count)
            })?;
            Ok(Outcome { times, ..Outcome::default() })
        }
    }
}

impl Measured {
    /// The mean over all runs; unknown where one failed.
    fn mean(&self, field: fn(&Outcome) -> f64) -> Estimate {
        let outcomes = self.outcomes.iter().flatten();
        let sample: Sample = outcomes.map(|it| Observation::Exact(field(it))).collect();
        sample.estimate().unwrap_or(Estimate::UNKNOWN)
    }

    /// The times of all runs, in milliseconds, sorted.
    fn times(&self) -> Vec<f64> {
        let outcomes = self.outcomes.iter().flatten();
        let mut times: Vec<f64> = outcomes.flat_map(|it| it.times.iter().copied()).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

impl Outcome {
    fn in_short(&self) -> String {
        let Self { goodput, offered, times } = self;
        let [p50, p99] = [50, 99].map(|percent| talk::percentile(times, percent));
        match (times.is_empty(), *offered > 0.0) {
            (true, _) => {
                format!("{:.2} Mbit/s, {offered:.3} octets for each delivered", goodput / 1e6)
            }
            (false, false) => format!("p50 {p50:.1} ms, p99 {p99:.1} ms"),
            (false, true) => {
                format!("p50 {p50:.1} ms, p99 {p99:.1} ms, {offered:.2} datagrams for each")
            }
        }
    }
}
