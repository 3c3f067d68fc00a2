//! `trackway link`: two interfaces joined by one of the simulator's links, in real time.

mod options;
mod report;

use std::io::Write as _;
use std::process::ExitCode;

use emulator::link::Cable;
use emulator::{NoEnd, Stop, any_seed};

use crate::failure::{self, misuse};
use crate::terminal;
pub use options::Args;
use report::Report;

/// Runs the subcommand of `args`.
#[expect(clippy::needless_pass_by_value, reason = "all subcommands alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.a == args.b {
        return Err(misuse(format_args!("a link has two ends, both are {}", args.a)));
    }
    let seed = args.seed.unwrap_or_else(any_seed);
    let directions = args.directions(seed)?;
    let cable = Cable::open(args.a.clone(), args.b.clone()).map_err(|why| match why {
        NoEnd::Missing(_) | NoEnd::NotEthernet(_) => misuse(why),
        NoEnd::Namespace(why) => failure::of_namespace(why),
        NoEnd::Down(_) | NoEnd::NotPermitted | NoEnd::System(..) => why.into(),
    })?;
    let stop = Stop::new(args.duration.map(|duration| duration.0))?;
    // The reader may be gone.
    let _ = writeln!(terminal::err(), "joined {} and {} with seed {seed}", args.a, args.b);
    let [ab, ba] = cable.join(directions, &stop)?;

    Report { args: &args, seed, seconds: stop.now().as_secs_f64(), ab, ba }.print()?;
    Ok(ExitCode::SUCCESS)
}
