//! `trackway lab run worlds`: services beside plain IP in networks drawn at random.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::process::ExitCode;

use ::lab::figure::{to_png, to_svg};
use ::lab::output;
use ::lab::progress::Progress;
use ::lab::worlds::{Kind, Results, Selection, Service};
use anyhow::Context as _;
use whole::write_whole;

use crate::failure::print;
use crate::interrupt::Interrupt;

/// The name on the command line.
pub const NAME: &str = "worlds";

/// Which worlds to run; for `worlds` alone.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Of `worlds`")]
pub struct Only {
    /// Compare only this service: `hbh` or `tunnel` [default: both].
    #[arg(long, value_name = "SERVICE")]
    service: Option<Service>,

    /// Run only `jitter` worlds, or those of another kind; a wrong name lists all.
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,

    /// Run each world TIMES times and compare means, because chance moves the ratio of a single run [default: 1].
    #[arg(long, value_name = "TIMES")]
    repeats: Option<NonZeroU32>,

    /// Run only the world with this index.
    #[arg(long, value_name = "INDEX", conflicts_with_all = ["kind", "runs", "quick"])]
    world: Option<u32>,
}

impl Only {
    pub fn is_given(&self) -> bool {
        self.service.is_some()
            || self.kind.is_some()
            || self.repeats.is_some()
            || self.world.is_some()
    }
}

/// Where results go.
#[derive(Debug)]
pub struct Output<'a> {
    /// The folder for files.
    pub out: Option<&'a Path>,
    /// Whether to print JSON lines and nothing else.
    pub json: bool,
    /// Whether to print all tables.
    pub tables: bool,
}

/// Runs `runs` worlds of a family of seeds.
pub fn run(
    only: &Only,
    (family, runs): (u32, u32),
    jobs: NonZeroUsize,
    output: &Output<'_>,
) -> anyhow::Result<ExitCode> {
    let services = only.service.map_or_else(|| Service::ALL.to_vec(), |service| vec![service]);
    let (kind, index, repeats) = (only.kind, only.world, only.repeats.unwrap_or(NonZeroU32::MIN));
    let selection = Selection { family, runs, kind, index, repeats, services, jobs };
    if let Some(out) = output.out {
        output::make_folder(out)?;
    }
    let interrupt = Interrupt::new()?;
    let results = selection.run(Progress::new, interrupt.flag())?;
    let text = text_of(&results, output.tables);
    let shown = print(&if output.json { results.to_json_lines()? } else { text });
    if let Some(out) = output.out {
        write(out, &results)?;
    }
    shown?;
    Ok(if results.is_whole { ExitCode::SUCCESS } else { ExitCode::from(interrupt.code()) })
}

fn text_of(results: &Results, all: bool) -> String {
    let tables = results.tables(all);
    tables.iter().map(|table| output::to_text(table) + "\n").collect()
}

/// Writes the tables, a row for each run and measure, and the picture.
fn write(out: &Path, results: &Results) -> anyhow::Result<()> {
    let write = |name: &str, contents: &[u8]| {
        let path = out.join(name);
        write_whole(&path, contents).with_context(|| format!("cannot write {}", path.display()))
    };
    write("worlds.txt", text_of(results, true).as_bytes())?;
    write("worlds.jsonl", results.to_json_lines()?.as_bytes())?;
    let svg = to_svg(&results.figure());
    write("worlds.svg", svg.as_bytes())?;
    write("worlds.png", &to_png(&svg)?)
}
