//! `trackway sim`: a network of one's own in the simulator.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::lab::animation::{self, Limits, Recording};
use ::lab::scenario::Plan;
use anyhow::Context as _;
use clap::Subcommand;

use crate::failure::misuse;

/// Simulate a network described in a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway sim run examples/chain.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and print what happened to its flows, links and nodes.
    #[command(
        after_help = "Examples:\n  trackway sim run examples/chain.toml --seed 7 --pcap captures\n  \
                      trackway sim run examples/chain.toml --json | jq .flows\n  \
                      trackway sim run examples/chain.toml --animate run.html"
    )]
    Run {
        /// The scenario, a TOML file; docs/scenario.md says what may stand in it.
        scenario: PathBuf,

        /// The seed of all that is random [default: the scenario's].
        #[arg(long, value_name = "N")]
        seed: Option<u64>,

        /// Write what passes each node to NODE.pcapng in this folder.
        #[arg(long, value_name = "DIR")]
        pcap: Option<PathBuf>,

        /// Write a picture that moves to FILE: a page that needs nothing else where it ends in
        /// .html, a few seconds in a loop where it ends in .svg.
        #[arg(long, value_name = "FILE", value_parser = Picture::parse)]
        animate: Option<Picture>,

        /// The octets that the page of --animate may have; where that is too few, it shows fewer of the
        /// packets and says so.
        #[arg(long, value_name = "OCTETS", default_value_t = animation::USUAL_OCTETS)]
        animate_octets: usize,

        /// Print the report as one JSON object on standard output, and nothing else.
        #[arg(long)]
        json: bool,
    },
}

/// Where a picture that moves goes, and as what.
#[derive(Clone, Debug)]
struct Picture {
    path: PathBuf,
    is_page: bool,
}

impl Picture {
    fn parse(path: &str) -> Result<Self, String> {
        let path = PathBuf::from(path);
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        let is_page = match extension.as_ref().and_then(|extension| extension.to_str()) {
            Some("html" | "htm") => true,
            Some("svg") => false,
            _ => return Err("a picture ends in .html or .svg".to_owned()),
        };
        Ok(Self { path, is_page })
    }

    fn write(&self, recording: Recording, octets: usize) -> anyhow::Result<()> {
        let picture = if self.is_page {
            animation::to_html(recording, octets)
        } else {
            animation::to_looping_svg(&recording)
        };
        let failed = || format!("cannot write {}", self.path.display());
        fs::write(&self.path, picture).with_context(failed)
    }
}

/// Runs the subcommand of `args`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Run { scenario, seed, pcap, animate, animate_octets, json } = args.command;
    let plan = Plan::read(&scenario).map_err(misuse)?;

    let limits = animate.as_ref().map(|_| Limits::default());
    let (report, recording) = plan.run_watched(seed, pcap.as_deref(), limits)?;
    if let (Some(picture), Some(mut recording)) = (animate, recording) {
        recording.title = title(&scenario, seed.unwrap_or(plan.seed));
        picture.write(recording, animate_octets)?;
    }

    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a picture of a scenario is called.
fn title(scenario: &Path, seed: u64) -> String {
    let name = scenario.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
    format!("{name}, seed {seed}")
}
