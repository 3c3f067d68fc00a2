//! `trackway sim`: a network of one's own in the simulator.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use ::lab::animation::Limits;
use ::lab::scenario::{Plan, Watched};
use clap::Subcommand;

use crate::animation::{self, Animate};
use crate::failure::{misuse, print};
use crate::interrupt;
use crate::terminal;

/// Simulate a network described in a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway sim run examples/scenarios/chain.toml")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and print what happened to its flows, links and nodes.
    #[command(
        after_help = "Examples:\n  trackway sim run examples/scenarios/chain.toml --seed 7 --pcap captures\n  \
                      trackway sim run examples/scenarios/chain.toml --json | jq .flows\n  \
                      trackway sim run examples/scenarios/chain.toml --animate run.html"
    )]
    Run {
        /// The scenario, a TOML file; docs/guide/scenario.md says what may stand in it.
        scenario: PathBuf,

        /// The seed of all that is random [default: the scenario's].
        #[arg(long, value_name = "N")]
        seed: Option<u64>,

        /// Write what passes each node to NODE.pcapng in this folder.
        #[arg(long, value_name = "DIR")]
        pcap: Option<PathBuf>,

        #[command(flatten)]
        animate: Animate,

        /// Print the report as one JSON object on standard output, and nothing else.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand of `args`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Run { scenario, seed, pcap, animate, json } = args.command;
    let plan = Plan::read(&scenario).map_err(misuse)?;
    for note in &plan.notes {
        writeln!(terminal::err(), "{note}")?;
    }

    interrupt::end_cleanly()?;
    let limits = animate.is_wanted().then(Limits::default);
    let Watched { report, recording, captured } =
        plan.run_watched(seed, pcap.as_deref(), limits)?;
    // Show the report even if the disk fails.
    let shown = print(&if json {
        format!("{}\n", serde_json::to_string(&report)?)
    } else {
        report.to_string()
    });
    captured?;
    if let Some(mut recording) = recording {
        recording.title = animation::title(&scenario, seed.unwrap_or(plan.seed));
        animate.write(recording)?;
    }
    shown?;
    Ok(ExitCode::SUCCESS)
}
