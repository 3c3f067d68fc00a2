//! Carries frames of interfaces on a channel of either kind, once all interfaces are joined.

use std::io::{self, Write};
use std::time::Duration;

use ::lab::scenario::Plan;
use base::readable::delay;
use base::time::Time;
use emulator::air::{Antennas, Hub, Lateness, Outcome};
use emulator::{End, NoEnd, Stop};
use sim::mobility::{Motion, Position};

use super::options::{Args, Joined, Stations};
use super::progress::{self, Progress};
use crate::failure::{self, misuse};
use crate::terminal;

/// How often a picture looks at the channel.
pub const LOOK: Duration = Duration::from_millis(100);

/// Interfaces that are about to be on a channel.
#[derive(Debug)]
pub struct Session<'a> {
    args: &'a Args,
    plan: &'a Plan,
    seed: u64,
    joined: Vec<Joined>,
    /// Nodes whose stations have no interface.
    silent: Vec<String>,
    antennas: Antennas,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    pub end: Time,
    pub outcome: Outcome,
    pub lateness: Lateness,
}

impl Carried {
    /// Prints frames that were on no channel, and how late frames were.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Outcome { missed, malformed, refused } = self.outcome;
        print_frames(
            out,
            &[
                (missed, "came faster than this machine could take them"),
                (malformed, "could not be understood"),
                (refused, "were not taken by an interface: is its MTU smaller, or is it down?"),
            ],
        )?;
        let late = self.lateness;
        let [mean, longest] = [late.mean(), late.longest].map(delay);
        writeln!(out, "late by {mean} in the mean, by {longest} at most")
    }
}

/// Prints what happened to how many frames, where it happened to any.
pub fn print_frames(out: &mut impl Write, counts: &[(u64, &str)]) -> io::Result<()> {
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "{count} frames {what}")?;
    }
    Ok(())
}

impl<'a> Session<'a> {
    /// Opens the interfaces.
    pub fn open(args: &'a Args, plan: &'a Plan, stations: Stations) -> anyhow::Result<Self> {
        let Stations { joined, silent, .. } = stations;
        let ends: Vec<End> = joined.iter().map(|it| it.end.clone()).collect();
        let antennas = Antennas::open(&ends).map_err(|why| match why {
            NoEnd::Missing(_) | NoEnd::NotEthernet(_) => misuse(why),
            NoEnd::Namespace(why) => failure::of_namespace(why),
            NoEnd::Down(_) | NoEnd::NotPermitted | NoEnd::System(..) => why.into(),
        })?;
        let seed = args.seed.unwrap_or(plan.seed);
        Ok(Self { args, plan, seed, joined, silent, antennas })
    }

    pub fn args(&self) -> &'a Args {
        self.args
    }

    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The interfaces, and their nodes.
    pub fn joined(&self) -> &[Joined] {
        &self.joined
    }

    /// Names and motions of the given nodes; a node without a place rests at the origin.
    pub fn motions(
        &self,
        nodes: impl IntoIterator<Item = usize>,
    ) -> anyhow::Result<Vec<(String, Motion)>> {
        let motions = self.plan.motions(self.seed)?;
        let rest = || Motion::at_rest(Position::default());
        let named = |node: usize| {
            (self.plan.nodes[node].name.clone(), motions[node].clone().unwrap_or_else(rest))
        };
        Ok(nodes.into_iter().map(named).collect())
    }

    /// Carries frames until the run ends; `look` is called every [`LOOK`] where `is_watched`, and `line` says how
    /// it goes.
    pub fn carry<H: Hub>(
        &self,
        hub: &mut H,
        is_watched: bool,
        mut look: impl FnMut(Time, &mut H),
        line: impl Fn(&H) -> String,
    ) -> anyhow::Result<Carried> {
        let stop = Stop::new(self.args.duration.map(|duration| duration.0))?;
        // The reader may be gone.
        let _ = writeln!(terminal::err(), "{}", self.ready());
        let mut progress = Progress::new();
        let every = if is_watched { LOOK } else { progress::EVERY };
        let outcome = self.antennas.carry(hub, &stop, every, |now, hub| {
            look(now, hub);
            let latest = hub.take_lateness();
            progress.show(now, latest, || line(hub));
        })?;
        progress.end();
        let end = stop.now();
        let lateness = progress.lateness(&hub.take_lateness());
        Ok(Carried { end, outcome, lateness })
    }

    /// The message when all interfaces are joined.
    fn ready(&self) -> String {
        let stations = match self.joined.len() {
            1 => "1 station".to_owned(),
            many => format!("{many} stations"),
        };
        let mut line = format!("joined {stations} with seed {}", self.seed);
        if !self.silent.is_empty() {
            line += &format!(
                "; without an interface, and therefore silent: {}",
                self.silent.join(", ")
            );
        }
        line
    }
}
