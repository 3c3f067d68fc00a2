//! `trackway air`: the simulator's radio channel in real time, between interfaces.

mod options;
mod picture;
mod progress;
mod report;

use std::io::{self, Write as _};
use std::process::ExitCode;

use ::lab::scenario::Plan;
use emulator::air::{Antennas, Hub};
use emulator::{End, NoEnd, Stop};
use sim::mobility::{Motion, Position};

use crate::animation;
use crate::failure::{self, misuse};
pub(crate) use options::Args;
use options::{Joined, Stations};
use picture::Picture;
use progress::Progress;
use report::Report;

/// Runs the subcommand of `args`.
#[expect(clippy::needless_pass_by_value, reason = "all subcommands alike")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::read(&args.scenario).map_err(misuse)?;
    let seed = args.seed.unwrap_or(plan.seed);
    let Stations { radio, joined, silent } = args.stations(&plan)?;
    let mut hub = hub(&plan, radio, &joined, seed)?;

    let ends: Vec<End> = joined.iter().map(|it| it.end.clone()).collect();
    let antennas = Antennas::open(&ends).map_err(|why| match why {
        NoEnd::Missing(_) | NoEnd::NotEthernet(_) => misuse(why),
        NoEnd::Namespace(why) => failure::of_namespace(why),
        NoEnd::Down(_) | NoEnd::NotPermitted | NoEnd::System(..) => why.into(),
    })?;
    let stop = Stop::new(args.duration.map(|duration| duration.0))?;
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{}", ready(&joined, &silent, seed));
    let mut progress = Progress::new();
    let mut picture = args.animate.is_wanted().then(|| Picture::new(&mut hub));
    let every = if picture.is_some() { picture::EVERY } else { progress::EVERY };
    let outcome = antennas.carry(&mut hub, &stop, every, |now, hub| {
        if let Some(picture) = &mut picture {
            picture.look(now, hub);
        }
        progress.show(now, hub);
    })?;
    progress.end();

    let end = stop.now();
    if let Some(picture) = picture {
        let stations = &plan.radios[radio].stations;
        let off = joined.iter().map(|it| (it.node.as_str(), stations[it.station].off.spans()));
        let mut recording = picture.finish(end, &mut hub, off);
        recording.title = animation::title(&args.scenario, seed);
        args.animate.write(recording)?;
    }
    let seconds = end.as_secs_f64();
    let lateness = progress.lateness(&mut hub);
    Report { joined: &joined, hub: &hub, seed, seconds, outcome, lateness }.print(args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// The channel, with a station for each interface.
fn hub(plan: &Plan, radio: usize, joined: &[Joined], seed: u64) -> anyhow::Result<Hub> {
    let radio = &plan.radios[radio];
    let motions = plan.motions(seed)?;
    let own = joined.iter().map(|it| motions[radio.stations[it.station].node].clone());
    // The reader of scenarios lets no station be nowhere.
    let own = own.map(|it| it.unwrap_or_else(|| Motion::at_rest(Position::default())));
    let mut hub = Hub::new(radio.config, own, radio.interface.queue_packets, seed);
    for (index, Joined { station, .. }) in joined.iter().enumerate() {
        let spans = radio.stations[*station].off.spans();
        hub.plan(spans.iter().flat_map(|it| [(it.start, index, false), (it.end, index, true)]));
    }
    Ok(hub)
}

/// What is said when all is joined.
fn ready(joined: &[Joined], silent: &[String], seed: u64) -> String {
    let stations = match joined.len() {
        1 => "1 station".to_owned(),
        many => format!("{many} stations"),
    };
    let mut line = format!("joined {stations} with seed {seed}");
    if !silent.is_empty() {
        line += &format!("; without an interface, and therefore silent: {}", silent.join(", "));
    }
    line
}
