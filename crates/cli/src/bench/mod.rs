//! The command `trackway bench`: measures how fast Trackway runs on this machine.

mod changes;
mod codec;
mod gateways;
mod hbh;
mod hfpep;
mod manet;
mod ns3;
mod path;
mod sar;
mod sim;
mod split;
mod tunnel;
mod unit;

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde_json::json;

use self::unit::Unit;
use crate::interrupt;
use crate::terminal;

/// Measure how fast Trackway runs on this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trackway bench codec
  sudo trackway bench path --quick")]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
    /// Print one JSON object per case on standard output, and nothing else.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// The arithmetic of the coded tunnel.
    #[command(after_help = "Example:\n  trackway bench codec")]
    Codec,
    Hbh(hbh::Options),
    Hfpep(hfpep::Options),
    /// Radios in the simulator.
    #[command(after_help = "Example:\n  trackway bench manet --ns3 scripts/ns3/manet")]
    Manet {
        /// Run this program of scripts/ns3 too, and compare.
        #[arg(long, value_name = "COMMAND")]
        ns3: Option<String>,
    },
    Path(path::Options),
    /// Messages of programs between two gateways; needs root.
    #[command(after_help = "Example:\n  sudo trackway bench sar")]
    Sar,
    /// The simulator.
    #[command(after_help = "Example:\n  trackway bench sim --ns3 './chain --loss=0.1 --mss=536'")]
    Sim {
        /// Run this program for ns-3 too, and compare with the chain. The last line that it prints is a JSON object with
        /// packets_per_cpu_s and events_per_cpu_s.
        #[arg(long, value_name = "COMMAND")]
        ns3: Option<String>,
    },
    /// The TCP splitter between two gateways; needs root.
    #[command(after_help = "Example:\n  sudo trackway bench split")]
    Split,
    /// The tunnel on a clean cable; needs root.
    #[command(after_help = "Example:\n  sudo trackway bench tunnel")]
    Tunnel {
        /// Measure only the cost of watching routes that other programs change.
        #[arg(long, conflicts_with = "wireguard_go")]
        changes: bool,
        /// The wireguard-go to compare with, else the one that is installed.
        #[arg(long, value_name = "PATH")]
        wireguard_go: Option<PathBuf>,
    },
}

/// One measured number.
#[derive(Debug)]
struct Case {
    bench: &'static str,
    case: String,
    value: f64,
    unit: Unit,
    /// The goal, or the machine's limit for `codec`.
    limit: Option<f64>,
}

/// Runs the benchmark that `args` names.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { bench, json } = args;
    let print = |case: Case| if json { print_json(&case) } else { print_line(&case) };
    let rates = |case: Case| if json { print_json(&case) } else { print_rate(&case) };
    match bench {
        Bench::Codec => codec::run(rates)?,
        Bench::Hbh(options) => hbh::run(&options, print)?,
        Bench::Hfpep(options) => hfpep::run(&options, print)?,
        Bench::Manet { ns3 } => manet::run(ns3.as_deref(), print)?,
        Bench::Path(options) => path::run(options, json)?,
        Bench::Sar => sar::run(print)?,
        Bench::Sim { ns3 } => sim::run(ns3.as_deref(), print)?,
        Bench::Split => split::run(print)?,
        Bench::Tunnel { changes: true, .. } => tunnel::run_beside_changes(print)?,
        Bench::Tunnel { wireguard_go, .. } => tunnel::run(wireguard_go.as_deref(), print)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports missing programs at once, not after minutes.
fn check_programs(programs: &[&str]) -> anyhow::Result<()> {
    for program in programs {
        let paths = env::var_os("PATH").unwrap_or_default();
        ensure!(
            env::split_paths(&paths).any(|path| path.join(program).is_file()),
            "the program `{program}` is missing: `apt install iproute2 iputils-ping iperf3`"
        );
    }
    Ok(())
}

/// Fails unless we may make namespaces; from now on, a signal gives back all that we have made and ends us at once. To be
/// called before threads start; `command` is what the user asked for.
fn begin(command: &str) -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "making network namespaces needs root: `sudo {command}`"
    );
    interrupt::end_after(testbed::give_back)
}

/// This program, to be run in a namespace.
fn this_program() -> anyhow::Result<String> {
    let program = env::current_exe().context("cannot find this program")?;
    Ok(program.to_string_lossy().into_owned())
}

fn print_json(case: &Case) -> io::Result<()> {
    let Case { bench, case, value, unit, limit } = case;
    let ratio = limit.map(|limit| value / limit);
    let object = json!({
        "bench": bench, "case": case, "value": value, "unit": unit.name(), "limit": limit, "ratio": ratio,
    });
    writeln!(terminal::out(), "{object}")
}

fn print_line(case: &Case) -> io::Result<()> {
    let Case { case, value, unit, limit, .. } = case;
    write!(terminal::out(), "{case:<32} {:>20}", unit.shown(*value))?;
    match limit {
        Some(limit) => writeln!(
            terminal::out(),
            "  {:>6.2} of the {} {}: {}",
            value / limit,
            unit.shown(*limit),
            if unit.is_cost() { "that are allowed" } else { "to be reached" },
            if unit.is_met(*value, *limit) { "met" } else { "missed" }
        ),
        None => writeln!(terminal::out()),
    }
}

/// As [`print_line`], for cases with the machine's limit.
fn print_rate(case: &Case) -> io::Result<()> {
    let Case { case, value, unit, limit, .. } = case;
    write!(terminal::out(), "{case:<32} {:>12}", unit.shown(*value))?;
    match limit {
        Some(limit) => {
            writeln!(terminal::out(), "{:>6.2} of {}", value / limit, unit.shown(*limit))
        }
        None => writeln!(terminal::out()),
    }
}
