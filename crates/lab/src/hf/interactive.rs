//! An interactive exchange beside a bulk transfer, both by HF-PEP.

use std::iter;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use sim::app::dialogue::{Side, Stats};

use super::link::{self, BEGIN, Link};
use super::talk::{Script, Talks, noise, turn};
use super::transfer::{idle, seconds};
use super::{BIT_S, GROUP};
use crate::prelude::*;

const SPEEDS: [u32; 4] = [240_000, 9_600, 1_200, 300];
/// Octets of a line, and equally of its answer.
const LINE: usize = 40;
/// Lines that are said and answered, one after the other.
const LINES: usize = 8;
/// From the begin of the bulk transfer until the conversation begins: several transmissions, ...
const BEFORE: Duration = Duration::from_secs(600);
/// ... and at a moment of a transmission that the seed chooses.
const PHASE: Duration = Duration::from_secs(140);
/// The time that filled-up blocks of the interleaver add to both transmissions.
const BLOCKS: Duration = Duration::from_secs(2);
/// Octets of a frame at most: one that is being sent is finished, and if it is the last, the line goes with the
/// next transmission.
const FRAME: f64 = 600.0;
/// The time after which a conversation counts as failed.
const LIMIT: Duration = Duration::from_secs(900);

/// The most runs.
const RUNS: u32 = 10;

/// Until the first line is answered, from the client's attempt to connect.
const FIRST: Metric = "first";
/// The longest time until a later line is answered.
const LATER: Metric = "later";
/// The share of lines that were answered in time: see [`Scene::is_in_time`].
const IN_TIME: Metric = "in time";
/// What the bulk transfers deliver meanwhile, as a share of the speed.
const BULK: Metric = "bulk";

/// Where the bulk goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Bulk {
    None,
    /// From the host that begins the conversation.
    Away,
    /// To it.
    Back,
    /// Two transfers, one each way.
    Both,
}

const BULKS: [Bulk; 4] = [Bulk::None, Bulk::Away, Bulk::Back, Bulk::Both];

/// A conversation beside a bulk transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Scene {
    speed: u32,
    bulk: Bulk,
}

/// The scene that is shown as a timeline.
const SHOWN: Scene = Scene { speed: 9_600, bulk: Bulk::Away };

pub const CLAIM: Claim = Claim {
    id: "hf-interactive",
    group: GROUP,
    text: "an interactive exchange beside a bulk transfer waits for one transmission at most, and \
           transmissions then become short",
    source: "goals of this project",
    experiment: || Experiment::new(scenes(), judge),
};

fn scenes() -> impl Iterator<Item = Scene> {
    SPEEDS.into_iter().flat_map(|speed| BULKS.map(|bulk| Scene { speed, bulk }))
}

impl Bulk {
    /// Who sends.
    fn senders(self) -> &'static [Side] {
        match self {
            Self::None => &[],
            Self::Away => &[Side::Client],
            Self::Back => &[Side::Server],
            Self::Both => &[Side::Client, Side::Server],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Away => "away",
            Self::Back => "back",
            Self::Both => "both ways",
        }
    }
}

impl Scene {
    fn link(self) -> Link {
        idle(self.speed, false)
    }

    /// The scripts of the conversation and of the traffic beside it.
    fn scripts(self, start: Time) -> Vec<Script> {
        let lines = [turn(Side::Client, noise(LINE)), turn(Side::Server, noise(LINE))];
        let turns = iter::repeat_n(lines, LINES).flatten().collect();
        // More than the link carries to the end.
        let time = BEFORE + PHASE + LIMIT;
        let octets = self.speed as usize / 8 * usize::try_from(time.as_secs()).unwrap_or_default();
        let bulk = self.bulk.senders().iter().map(|&sender| {
            let asked = (sender == Side::Server).then(|| turn(Side::Client, noise(1)));
            Script::at_once(asked.into_iter().chain([turn(sender, noise(octets))]).collect())
        });
        iter::once(Script { start, turns }).chain(bulk).collect()
    }

    fn run(self, seed: u64) -> Outcome {
        let idle = Self { bulk: Bulk::None, ..self }.waits(seed);
        let waits = self.waits(seed);
        let in_time = waits.lines.iter().enumerate().filter(|(line, wait)| {
            idle.lines.get(*line).is_some_and(|idle| self.is_in_time(*line, *idle, **wait))
        });
        let in_time = in_time.count() as f64 / LINES as f64;
        let later = waits.lines.iter().skip(1).max();
        let later = later.filter(|_| waits.lines.len() == LINES).copied();
        vec![
            (FIRST, Observation::seconds(waits.lines.first().copied(), LIMIT)),
            (LATER, Observation::seconds(later, LIMIT)),
            exact(IN_TIME, in_time),
            exact(BULK, waits.bulk),
        ]
    }

    /// Whether a line was answered in time: within `idle`, the time on a link with nothing else, plus one
    /// transmission of each station that sends bulk. Such a transmission has the greatest length when nobody could
    /// know of the conversation, and later the length allowed beside a conversation.
    fn is_in_time(self, line: usize, idle: Duration, wait: Duration) -> bool {
        let station = self.link().station(0);
        let longest = if line == 0 { station.longest } else { station.longest_beside_urgent };
        let senders = u32::try_from(self.bulk.senders().len()).unwrap_or_default();
        let frame = Duration::from_secs_f64(FRAME * 8.0 / f64::from(self.speed));
        wait <= idle + longest * senders + BLOCKS + frame
    }

    /// The conversation, about to begin, and when that is.
    fn talks(self, seed: u64) -> (Talks, Time) {
        let start = BEGIN + BEFORE + Rng::stream(seed, "phase").within(PHASE);
        let mut talks = Talks::new(&self.link(), seed, &self.scripts(start));
        talks.world.run_until(start - PHASE);
        (talks, start)
    }

    /// The records of both stations from shortly before the conversation to its end.
    fn exchange(self, seed: u64) -> Exchange {
        let (mut talks, start) = self.talks(seed);
        talks.world.record_hf(talks.hf);
        talks.run_until_first_finished(start + LIMIT);
        Exchange {
            name: "hf-interactive-timeline".to_owned(),
            title: format!("A conversation beside bulk at {} bit/s", self.speed),
            subtitle: format!(
                "It begins after {} s; transmissions then become short",
                PHASE.as_secs()
            ),
            stations: link::records(&mut talks.world, talks.hf, start - PHASE),
        }
    }

    fn waits(self, seed: u64) -> Waits {
        let (mut talks, start) = self.talks(seed);
        talks.world.run_until(start);
        let before = delivered(&talks);
        talks.run_until_first_finished(start + LIMIT);
        let took = talks.world.now().since(start).as_secs_f64();
        let bulk = (delivered(&talks) - before) as f64 * 8.0 / took / f64::from(self.speed);
        let answered = talks.sides().next().map_or_else(Vec::new, |[client, _]| answered(client));
        let said = iter::once(start).chain(answered.iter().copied());
        let lines = answered.iter().zip(said).map(|(end, said)| end.since(said)).collect();
        Waits { lines, bulk }
    }
}

/// How long each line waited for its answer, and what the bulk had meanwhile.
struct Waits {
    lines: Vec<Duration>,
    bulk: f64,
}

/// Octets of the bulk transfers that have arrived.
fn delivered(talks: &Talks) -> u64 {
    let of = |[client, server]: [&Stats; 2]| {
        let heard = [client, server].map(|side| side.heard.last().map_or(0, |(_, octets)| *octets));
        heard.into_iter().sum::<u64>()
    };
    talks.sides().skip(1).map(of).sum()
}

/// When the client had each answer.
fn answered(client: &Stats) -> Vec<Time> {
    let whole = |line: usize| (LINE * line) as u64;
    let had = |octets| client.heard.iter().find(|(_, heard)| *heard >= octets).map(|(at, _)| *at);
    (1..=LINES).map_while(|line| had(whole(line))).collect()
}

impl Place for Scene {
    fn cell(&self) -> Cell {
        let scene = *self;
        let Self { speed, bulk } = scene;
        let name = Name::of("interactive").with("rate", speed).with("bulk", bulk.name());
        let bulk = match bulk {
            Bulk::None => "None",
            Bulk::Away => "Away",
            Bulk::Back => "Back",
            Bulk::Both => "Both",
        };
        let draws = format!("interactive Scene {{ speed: {speed}, bulk: {bulk} }}");
        Cell::new(name, draws, move |seed| scene.run(seed)).at_most(RUNS)
    }
}

fn judge(runs: &Runs<Scene>) -> Finding {
    let mut checks = Vec::new();
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for scene in runs.places() {
        let metrics = [FIRST, LATER, IN_TIME, BULK];
        let [first, later, in_time, bulk] = metrics.map(|metric| runs.at(scene, metric));
        let name = scene.bulk.name();
        let speed = scene.speed.to_string();
        let ink = if scene.bulk == Bulk::None { Ink::Paper } else { Ink::Default };
        for (metric, y) in [(FIRST, first), (LATER, later)] {
            let line = Line::new(format!("{name}, {metric}"), name, ink);
            points.push(Point::new(line, (f64::from(scene.speed), BIT_S), (y, metric)));
        }
        let mut row = vec![speed, name.to_owned(), seconds(&first), seconds(&later)];
        if scene.bulk == Bulk::None {
            row.extend([String::new(), String::new()]);
        } else {
            let what = format!(
                "at {} bit/s beside bulk {name}: {} of lines in time",
                scene.speed,
                percent(in_time.mean)
            );
            checks.push(Check::new(what, in_time.at_least(1.0)));
            row.extend([percent(in_time.mean), percent(bulk.mean)]);
        }
        rows.push(row);
    }
    let head = ["bit/s", "bulk", "first line, s", "later lines at most, s", "in time", "bulk"];
    let table = Table::list(
        "Until a line of 40 octets is answered, and what bulk has of the speed meanwhile",
        head,
        rows,
    );
    Finding {
        tables: vec![table],
        exchanges: vec![SHOWN.exchange(runs.first_seed(&SHOWN))],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, "")
    }
}

fn assumptions() -> Vec<String> {
    let mut all = super::transfer_assumptions();
    let station = Scene { speed: SPEEDS[0], bulk: Bulk::None }.link().station(0);
    all.push(format!(
        "{LINES} lines of {LINE} octets over a connection of their own, each answered by as many, and said when the \
         one before is answered. They begin {} min after the bulk, and up to {} s later by the seed. In time is a \
         first line that takes at most {} s longer than on an idle link for each station that sends bulk, a later \
         one that takes {} s longer, and {} s for blocks that are filled to their end and {FRAME} octets for a frame \
         that is being sent.",
        BEFORE.as_secs() / 60,
        PHASE.as_secs(),
        station.longest.as_secs_f64(),
        station.longest_beside_urgent.as_secs(),
        BLOCKS.as_secs(),
    ));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};

    /// The verdict if of one scene this share is in time, and all of the others.
    fn verdict(runs: u32, share: f64) -> Verdict {
        let odd = Scene { speed: SPEEDS[1], bulk: Bulk::Away };
        judge(&Runs::made_up(scenes(), runs, |scene| {
            let in_time = if *scene == odd { share } else { 1.0 };
            vec![(FIRST, 60.0), (LATER, 15.0), (IN_TIME, in_time), (BULK, 0.9)]
        }))
        .verdict
    }

    #[test]
    fn each_line_has_to_be_answered_in_time() {
        assert_eq!([verdict(3, 1.0), verdict(3, 0.75)], [Reproduced, Differs]);
        assert_eq!(verdict(1, 1.0), Undecided);
    }

    #[test]
    fn a_first_line_may_wait_for_a_long_transmission_and_a_later_one_for_a_short_one() {
        let seconds = Duration::from_secs;
        let idle = seconds(3);
        let is_in_time =
            |bulk, line, wait| Scene { speed: 9_600, bulk }.is_in_time(line, idle, seconds(wait));

        assert!(is_in_time(Bulk::Away, 0, 130) && !is_in_time(Bulk::Away, 0, 135));
        assert!(is_in_time(Bulk::Back, 1, 18) && !is_in_time(Bulk::Back, 1, 22));
        assert!(is_in_time(Bulk::Both, 1, 33) && !is_in_time(Bulk::None, 1, 6));
    }

    #[test]
    fn bulk_goes_on_beside_a_conversation() {
        let waits = Scene { speed: 9_600, bulk: Bulk::Both }.waits(1);

        assert_eq!(waits.lines.len(), LINES);
        assert!(waits.bulk > 0.5, "{}", waits.bulk);
    }
}
