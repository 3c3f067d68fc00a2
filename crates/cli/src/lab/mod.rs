//! `trackway lab`: experiments that reproduce published results, and the tuning of scenarios.

mod tune;
mod worlds;

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::lab::campaign::{self, Keeper, Plan, Stopped, Tested};
use ::lab::claim::Claim;
use ::lab::grid::Cell;
use ::lab::journal::{Unusable, build_of};
use ::lab::output;
use ::lab::progress::Progress;
use ::lab::replay::{self, Replay};
use ::lab::runner;
use anyhow::Context as _;
use clap::Subcommand;
use serde_json::json;
use whole::write_whole;

use crate::failure::{misuse, no_such, print};
use crate::interrupt::Interrupt;
use crate::terminal;

/// Run experiments that reproduce published results, or tune a scenario.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway lab run hbh-delay")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments and the claims they test.
    #[command(after_help = "Example:\n  trackway lab list")]
    List {
        /// Print one JSON list, and nothing else.
        #[arg(long)]
        json: bool,
    },

    /// Run experiments; write tables, figures and a report.
    #[command(
        after_help = "Examples:\n  trackway lab run hbh-delay\n  trackway lab run hbh --runs 100 \
                      --out results\n  trackway lab run manet --quick\n  trackway lab run all --json > points.jsonl\n  \
                      trackway lab run worlds --seed 1000 --runs 200 --service hbh --kind jitter"
    )]
    Run {
        /// An experiment, a group of them, or `all`; `trackway lab list` names them. `worlds` compares services with
        /// plain IP in networks drawn at random.
        name: String,

        /// How often to run every scenario, each time with another seed; of `worlds`, how many worlds.
        #[arg(long, value_name = "N", default_value_t = 30)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
        runs: u32,

        /// A first look in a fraction of the time: two runs of every scenario, which seldom decide a claim.
        #[arg(long, conflicts_with = "runs")]
        quick: bool,

        /// Which family of seeds to draw with; another one repeats everything with other chance.
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u32,

        /// How many runs to do at once [default: one for each core].
        #[arg(long, value_name = "N")]
        jobs: Option<NonZeroUsize>,

        /// Where to write report.html, CSV, SVG and PNG files [default: trackway-lab, or nowhere
        /// with --json].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,

        /// Print one JSON object per point on standard output, and nothing else.
        #[arg(long)]
        json: bool,

        /// Run only the cells with this word in their names, such as `loss=0.1`; given more often, with all these words.
        /// What needs others stays undecided.
        #[arg(long, value_name = "WORD")]
        cell: Vec<String>,

        /// Print the tables of the report too.
        #[arg(long, conflicts_with = "json")]
        tables: bool,

        #[command(flatten)]
        worlds: worlds::Only,
    },

    /// Write an experiment's runs as scenario files for `trackway sim run`.
    #[command(
        after_help = "Example:\n  trackway lab scenario hbh-delay --cell repeated-at-once --run 3 --out \
                      scenarios\n  trackway sim run scenarios/hbh-delay-31.toml"
    )]
    Scenario {
        /// An experiment, a group of them, or `all`; `trackway lab list` names them.
        name: String,

        /// Only cells with these words in their names, which the files begin with [default: all].
        #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
        cell: String,

        /// Which run of each cell; the first is 0.
        #[arg(long, value_name = "N", default_value_t = 0)]
        run: u32,

        /// Which family of seeds to draw with.
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u32,

        /// Where to write them.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },

    Tune(tune::Args),
}

/// Runs of every scenario with `--quick`: the fewest that have an interval.
const QUICK: u32 = 2;

/// Words of cells' names in an error.
const NAMED: usize = 60;

/// Runs the subcommand of `args`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let claims = ::lab::claims();
    match args.command {
        Command::List { json } => list(&claims, json)?,
        Command::Run { name, runs, quick, seed, jobs, out, json, cell, tables, worlds } => {
            let runs = if quick { QUICK } else { runs };
            let jobs = jobs.unwrap_or_else(runner::cores);
            if name == worlds::NAME {
                if !cell.is_empty() {
                    return Err(misuse("worlds have no cells: choose them with --kind or --world"));
                }
                let output = worlds::Output { out: out.as_deref(), json, tables };
                return worlds::run(&worlds, (seed, runs), jobs, &output);
            }
            if worlds.is_given() {
                return Err(misuse(
                    "--service, --kind, --repeats and --world belong to `trackway lab run worlds`",
                ));
            }
            let chosen = campaign::select(&claims, &name).ok_or_else(|| unknown(&claims, &name))?;
            let cells = || chosen.iter().flat_map(|claim| (claim.experiment)().cells);
            if !cells().any(|it| it.is_called(&cell)) {
                return Err(no_such_cell(&name, &cell.join(" "), cells()));
            }
            let plan = Plan { runs, family: seed, jobs, only: &cell };
            let out = out.or_else(|| (!json).then(|| PathBuf::from("trackway-lab")));
            let interrupt = Interrupt::new()?;
            let keeper = out.as_deref().map(keep).transpose()?;
            let (progress, stop) = (Progress::new, interrupt.flag());
            let tested = match campaign::run_until(&chosen, plan, progress, keeper.as_ref(), stop) {
                Ok(tested) => tested,
                Err(Stopped { runs }) => {
                    kept(keeper.as_ref())?;
                    stopped(out.as_deref(), runs)?;
                    return Ok(ExitCode::from(interrupt.code()));
                }
            };

            // Show the results even if the disk fails.
            let shown = print(&if json {
                output::to_json_lines(&tested)?
            } else {
                summary(&tested, tables)
            });
            if let Some(out) = &out {
                let version = env!("CARGO_PKG_VERSION");
                let provenance = format!(
                    "Trackway {version}, trackway lab run {name} --runs {runs} --seed {seed}{}. The \
                     same command gives the same numbers on every machine.",
                    cell.iter().map(|text| format!(" --cell '{text}'")).collect::<String>(),
                );
                output::write_all(out, &tested, &provenance)?;
            }
            shown?;
            kept(keeper.as_ref())?;
            if let Some(out) = out.filter(|_| !json) {
                print(&format!("Report: {}\n", out.join("report.html").display()))?;
            }
        }
        Command::Scenario { name, cell, run, seed, out } => {
            if name == worlds::NAME {
                return Err(misuse(
                    "worlds are drawn anew for each run and have no scenario files; \
                     `trackway lab run worlds --seed N --world INDEX` runs one again",
                ));
            }
            let chosen = campaign::select(&claims, &name).ok_or_else(|| unknown(&claims, &name))?;
            let mut files = Vec::new();
            for claim in &chosen {
                files.extend(replay::scenarios(claim, &cell, seed, run)?);
            }
            if files.is_empty() {
                let cells = || chosen.iter().flat_map(|claim| (claim.experiment)().cells);
                if !cells().any(|it| it.name().has(&cell)) {
                    return Err(no_such_cell(&name, &cell, cells()));
                }
                return Err(misuse(format!(
                    "{name}: a program of the laboratory makes these runs, and no scenario file can say them; \
                     `trackway lab run {name} --cell WORD` runs chosen cells again, and examples/scenarios has files \
                     to begin with"
                )));
            }
            write_scenarios(&out, &files)?;
        }
        Command::Tune(args) => return tune::run(&args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the folder of results, and locks others out meanwhile.
fn keep(folder: &Path) -> anyhow::Result<Keeper> {
    output::make_folder(folder)?;
    // Right even if the program's file has been replaced since the start.
    let build = build_of(Path::new("/proc/self/exe"));
    let build = build.context("cannot tell which build of Trackway this is")?;
    let (keeper, is_anew) = Keeper::open(folder, &build).map_err(|why| match why {
        Unusable::Other(folder) => misuse(format!(
            "{} has runs of another command: name another folder with --out",
            folder.display()
        )),
        Unusable::Busy(_) | Unusable::Io { .. } => why.into(),
    })?;
    let (mut err, folder) = (terminal::err(), folder.display());
    if is_anew {
        writeln!(err, "the runs that {folder} had are of another build of Trackway: begins anew")?;
    } else if keeper.count() > 0 {
        writeln!(
            err,
            "{folder} has {} runs: those of them that are asked for are not done again",
            keeper.count()
        )?;
    }
    Ok(keeper)
}

fn kept(keeper: Option<&Keeper>) -> Result<(), Unusable> {
    keeper.map_or(Ok(()), Keeper::ensure_whole)
}

fn stopped(folder: Option<&Path>, count: usize) -> io::Result<()> {
    let mut err = terminal::err();
    match folder {
        Some(folder) => writeln!(
            err,
            "stopped; {count} runs are kept in {}: the same command goes on from there",
            folder.display()
        ),
        None => writeln!(err, "stopped; without --out no runs are kept"),
    }
}

fn write_scenarios(folder: &Path, files: &[Replay]) -> anyhow::Result<()> {
    output::make_folder(folder)?;
    let mut out = terminal::out();
    for Replay { file, cell, text } in files {
        let path = folder.join(file);
        let failed = || format!("cannot write {}", path.display());
        write_whole(&path, text).with_context(failed)?;
        writeln!(out, "{}: {cell}", path.display())?;
    }
    Ok(())
}

fn list(claims: &[Claim], json: bool) -> anyhow::Result<()> {
    let mut out = terminal::out();
    if json {
        let object = |Claim { id, group, text, source, .. }: &Claim| json!({ "experiment": id, "group": group, "claim": text, "source": source });
        let all: Vec<_> = claims.iter().map(object).collect();
        writeln!(out, "{}", serde_json::to_string(&all)?)?;
        return Ok(());
    }
    let mut group = "";
    for claim in claims {
        if claim.group != group {
            group = claim.group;
            writeln!(out, "{group}")?;
        }
        writeln!(out, "  {:18} {}", claim.id, claim.text)?;
    }
    let text = "HBH and the tunnel are no slower than plain IP in networks drawn at random";
    writeln!(out, "{0}\n  {0:18} {text}", worlds::NAME)?;
    Ok(())
}

fn summary(tested: &[Tested], tables: bool) -> String {
    let mut text = String::new();
    for Tested { claim, finding } in tested {
        text.push_str(&format!(
            "{}: {}\n  claim     {}\n  measured  {}\n  why       {}\n\n",
            claim.id, finding.verdict, claim.text, finding.measured, finding.reason
        ));
        for table in finding.tables.iter().filter(|_| tables) {
            text.push_str(&output::to_text(table));
            text.push('\n');
        }
    }
    text
}

/// The error about unknown words of cells; names all known words.
fn no_such_cell(name: &str, words: &str, cells: impl Iterator<Item = Cell>) -> anyhow::Error {
    let mut known = Vec::new();
    for cell in cells {
        let own = cell.name().as_str().split(' ').map(str::to_owned);
        own.for_each(|word| {
            if !known.contains(&word) {
                known.push(word);
            }
        });
    }
    let rest = known.len().saturating_sub(NAMED);
    known.truncate(NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    misuse(format!(
        "{name}: no cell has \"{words}\" in its name; the words in their names are {}{more}",
        known.join(" ")
    ))
}

fn unknown(claims: &[Claim], name: &str) -> anyhow::Error {
    let mut names = vec!["all", worlds::NAME];
    names.extend(claims.iter().map(|claim| claim.group));
    names.dedup();
    names.extend(claims.iter().map(|claim| claim.id));
    no_such("experiment", name, &names)
}
