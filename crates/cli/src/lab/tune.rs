//! `trackway lab tune`: the best values for parameters of a scenario.

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::lab::figure;
use ::lab::journal::{Journal, Unusable};
use ::lab::progress::Progress;
use ::lab::runner;
use ::lab::tune::{
    self, Asked, Effort, Ended, File, Goal, Known, Laboratory, MEASURES, Metric, Outcome, STEPS,
    Space, Subject, Trials,
};
use anyhow::Context as _;
use whole::write_whole;

use crate::failure::{misuse, print};
use crate::interrupt::Interrupt;
use crate::terminal;

/// Find the values of parameters with which a scenario of your own does best.
///
/// Two searches with the same number of runs: one parameter after the other over its range, and all at once by races
/// between settings. All settings are run with the same seeds, and what was found is measured again with others.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway lab tune examples/scenarios/chain.toml --metric goodput --parameters rto.min=200ms..10s:log
  trackway lab tune examples/scenarios/tactical-company.toml --flow overlay --metric 'c/(d*t)' \\
      --parameters rto.initial=1s..120s,delayed-ack.delay=0s..400ms:5

Values are a range, 1s..120s, 1s..120s:log or 1s..120s:12 for 12 steps, or a list, 20s|40s|80s. Keys with + between
them have the same value: rto.initial+rto.syn=1s..120s. docs/guide/lab.md says what each measure is.")]
pub struct Args {
    /// The scenario, a TOML file; docs/guide/scenario.md says what may stand in it.
    scenario: PathBuf,

    /// Keys of the file and the values to try, with commas between them; also several times.
    #[arg(
        long = "parameters",
        visible_alias = "parameter",
        value_name = "KEY=VALUES",
        required = true
    )]
    parameters: Vec<String>,

    /// What to make as large as possible: arithmetic on measures such as c (completion rate), d (mean delay), t (bits
    /// sent a second) and goodput.
    #[arg(long, value_name = "EXPRESSION", default_value = "c/(d*t)")]
    metric: String,

    /// Minimise it instead.
    #[arg(long)]
    minimise: bool,

    /// Whose traffic is measured: the name of a flow, or a kind such as tcp; also several times [default: all].
    #[arg(long = "flow", value_name = "NAME")]
    flows: Vec<String>,

    /// How often to run every setting, each time with another seed.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100_000))]
    runs: u32,

    /// How often to run what was found again, with seeds that it was not found by [default: as --runs].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100_000))]
    confirm: Option<u32>,

    /// How many values to try of a range, unless it says.
    #[arg(long, value_name = "N", default_value_t = STEPS as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_000))]
    steps: u32,

    /// Which family of seeds to draw with; another one repeats everything with other chance.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u32,

    /// How many runs to do at once [default: one for each core].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Where runs are kept, so that a search that was stopped goes on, and where results are written [default:
    /// trackway-tune/SCENARIO-DIGITS, where the digits follow from the scenario].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print the results as one JSON object on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Digits of a fingerprint in the name of a folder.
const DIGITS: usize = 8;

/// Searches.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::new()?;
    let file = File::read(&args.scenario).map_err(misuse)?;
    let of_file = |why: String| misuse(format!("{}: {why}", args.scenario.display()));
    let metric = Metric::parse(&args.metric).map_err(|why| misuse(format!("--metric: {why}")))?;
    let subject = Subject::new(&file.plan, &args.flows).map_err(of_file)?;
    subject.check(&file.plan, &metric).map_err(of_file)?;
    let steps = usize::try_from(args.steps).unwrap_or(STEPS);
    let mut asked = Vec::new();
    for text in &args.parameters {
        asked.extend(Asked::read_all(text, steps).map_err(|why| misuse(parameters(&why)))?);
    }
    let space = Space::new(&file, asked).map_err(|why| misuse(parameters(&why)))?;
    let goal = Goal { metric, is_least: args.minimise };

    let laboratory = Laboratory { file: &file, space: &space, subject: &subject };
    let (folder, journal, known) = open(args, &laboratory)?;
    let effort = Effort {
        runs: args.runs,
        confirmations: args.confirm.unwrap_or(args.runs),
        family: args.seed,
    };
    let had = known.len();
    let progress = Progress::new(tune::most(&space, effort));
    let jobs = args.jobs.unwrap_or_else(runner::cores);
    let with = (&progress, interrupt.flag());
    let mut trials = Trials::new((&space, &goal), &laboratory, (args.seed, jobs), with)
        .with_journal(journal, known);
    let outcome = tune::search(&mut trials, &goal, effort);
    progress.finish();
    match outcome {
        Ok(outcome) => {
            // Show the results even if the disk fails.
            let shown = print(&results(args, &outcome, &space, &goal)?);
            let files = write(&folder, &outcome, &laboratory, &goal)?;
            shown?;
            trials.are_kept()?;
            if !args.json {
                print(&format!("\nIn {}: {}\n", folder.display(), files.join(", ")))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(Ended::Failed(why)) => Err(of_file(why)),
        Err(Ended::Stopped) => {
            trials.are_kept()?;
            let done = trials.count();
            writeln!(
                terminal::err(),
                "stopped; {done} runs are kept in {}, {} of them new: the same command goes on from there",
                folder.display(),
                done - had
            )?;
            Ok(ExitCode::from(interrupt.code()))
        }
    }
}

fn parameters(why: &str) -> String {
    format!("--parameters: {why}")
}

/// Opens the folder of results, and reads earlier runs.
fn open(args: &Args, laboratory: &Laboratory<'_>) -> anyhow::Result<(PathBuf, Journal, Known)> {
    let Laboratory { file, subject, .. } = laboratory;
    let fingerprint = tune::fingerprint(&file.plan, subject);
    let folder = args.out.clone().unwrap_or_else(|| {
        let stem = file.path().file_stem().unwrap_or_default().to_string_lossy();
        PathBuf::from("trackway-tune").join(format!("{stem}-{}", &fingerprint[..DIGITS]))
    });
    let mut err = terminal::err();
    if args.out.is_none() && !folder.exists() && has_others(&folder) {
        writeln!(
            err,
            "the scenario, or whose traffic is measured, is not what it was in earlier searches: begins anew in {}",
            folder.display()
        )?;
    }
    let opened = tune::open(&folder, &fingerprint).map_err(|why| match why {
        Unusable::Other(_) => misuse(why),
        Unusable::Busy(_) | Unusable::Io { .. } => why.into(),
    })?;
    let (journal, mut known, mut is_anew) = opened;
    if !known.is_empty() {
        if tune::agrees(laboratory, &known) {
            writeln!(err, "goes on with {} runs that {} has", known.len(), folder.display())?;
        } else {
            journal.clear()?;
            known.clear();
            is_anew = true;
        }
    }
    if is_anew {
        let folder = folder.display();
        writeln!(err, "the runs that {folder} had are of another build of Trackway: begins anew")?;
    }
    Ok((folder, journal, known))
}

/// Whether a scenario with the same name has results.
fn has_others(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let start = &name[..name.len().saturating_sub(DIGITS)];
    let entries = folder.parent().and_then(|parent| fs::read_dir(parent).ok());
    let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|other| {
        let other = other.to_string_lossy();
        other.len() == name.len() && other.starts_with(start)
    })
}

/// Writes the files of results, the numbers before the pictures; returns the names.
fn write(
    folder: &Path,
    outcome: &Outcome,
    laboratory: &Laboratory<'_>,
    goal: &Goal,
) -> anyhow::Result<Vec<&'static str>> {
    const RECOMMENDED: &str = "recommended.toml";
    let Laboratory { file, space, .. } = laboratory;
    let mut names = Vec::new();
    let mut write = |name: &'static str, contents: &[u8]| {
        let path = folder.join(name);
        names.push(name);
        write_whole(&path, contents).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(best) = outcome.best() {
        let changes = space.changes(&best.setting);
        let recommended = file.text_with(&changes).map_err(anyhow::Error::msg)?;
        write(RECOMMENDED, recommended.as_bytes())?;
    } else {
        // An earlier search's recommendation no longer holds.
        let path = folder.join(RECOMMENDED);
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                return Err(why).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    write("tune.txt", tune::report(outcome, space, goal)?.as_bytes())?;
    write("tune.json", format!("{}\n", tune::to_json(outcome, space, goal)?).as_bytes())?;
    let picture = tune::picture(outcome, space, goal);
    write("tune.svg", picture.as_bytes())?;
    write("tune.png", &figure::to_png(&picture)?)?;
    names.push(::lab::journal::NAME);
    Ok(names)
}

/// Formats the results for printing.
fn results(args: &Args, outcome: &Outcome, space: &Space, goal: &Goal) -> anyhow::Result<String> {
    if args.json {
        return Ok(format!("{}\n", tune::to_json(outcome, space, goal)?));
    }
    let mut text = tune::report(outcome, space, goal)?;
    text.push_str("\nMeasures\n");
    for name in goal.metric.names() {
        let measures = MEASURES.iter().filter(|measure| measure.name == name);
        for measure in measures {
            text.push_str(&format!("  {:8}  {}\n", measure.name, measure.meaning));
        }
    }
    Ok(text)
}
