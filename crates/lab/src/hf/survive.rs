//! Streams of SLEP across breaks of the CAS-1 link below them, beside TCP over IP Client.

mod report;

use std::time::Duration;

use base::quantity::Span;
use base::time::Time;
use sim::app::dialogue::{Side, Stats};
use sim::hf::{Channel, StationId};

use super::GROUP;
use super::link::{self, BEGIN, Carrier, Link};
use super::talk::{STATIONS, Script, Talks, noise, turn};
use super::transfer::{LIMIT, idle};
use crate::prelude::*;

/// The speed of the link.
const SPEED: u32 = 9_600;
/// Octets of a transfer, which takes some three minutes.
const OCTETS: usize = 200_000;
/// Octets of a request for data.
const REQUEST: usize = 100;
/// Octets of the confirmation that all data has come.
const CONFIRMATION: usize = 8;
/// 1 if everything was delivered once and in order, 0 if not.
pub const WHOLE: Metric = "delivered whole";
/// Links made more than without the break.
pub const LINKS: Metric = "links";
/// From the end of the break until octets arrive at a host again.
pub const RESUMED: Metric = "resumed";
/// How much later the end comes than without the break, and its length.
pub const LOST: Metric = "lost";

/// A transfer with a break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survival {
    /// By HF-PEP, or else end to end by TCP over the IP client.
    pub is_pep: bool,
    pub way: Way,
    pub fault: Fault,
    pub moment: Moment,
}

/// When the link breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// While the first transmission is on the air.
    Call,
    Middle,
    /// When all data has arrived, and its sender does not know.
    Confirmation,
}

/// Where the data goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// From the host that connects.
    Away,
    /// To it.
    Back,
    /// Over two connections at once, one each way.
    Both,
}

/// What breaks the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Neither station hears the other for so long.
    Outage(Duration),
    /// The node of this station is started anew.
    Restart(StationId),
}

/// The lengths of outages. In the middle of the transfer the link is given up in each: after the rest of a
/// transmission, and eight that are not answered.
const OUTAGES: [Duration; 3] =
    [Duration::from_secs(180), Duration::from_secs(360), Duration::from_secs(720)];

pub const CLAIM: Claim = Claim {
    id: "hf-survive",
    group: GROUP,
    text: "a stream of SLEP survives breaks of the CAS-1 link: each octet arrives once and in order",
    source: "TCP over HF radio, SLEP",
    experiment: || Experiment::new(survivals(), report::judge),
};

/// All transfers, those by HF-PEP first.
pub fn survivals() -> Vec<Survival> {
    let mut all = Vec::new();
    for is_pep in [true, false] {
        let outages = OUTAGES.into_iter().flat_map(|length| {
            let ways = [Way::Away, Way::Back].into_iter();
            ways.flat_map(move |way| {
                let fault = Fault::Outage(length);
                [Moment::Call, Moment::Middle, Moment::Confirmation].map(|moment| Survival {
                    is_pep,
                    way,
                    fault,
                    moment,
                })
            })
        });
        all.extend(outages);
        let both = OUTAGES.map(|length| (Way::Both, Fault::Outage(length)));
        let restarts = [Way::Away, Way::Back, Way::Both]
            .into_iter()
            .flat_map(|way| STATIONS.map(|station| (way, Fault::Restart(station))));
        let middle = both.into_iter().chain(restarts);
        all.extend(middle.map(|(way, fault)| Survival {
            is_pep,
            way,
            fault,
            moment: Moment::Middle,
        }));
    }
    all
}

impl Fault {
    /// How long it lasts.
    fn length(self) -> Duration {
        match self {
            Self::Outage(length) => length,
            Self::Restart(_) => Duration::ZERO,
        }
    }
}

impl Moment {
    /// As a share of the time that the transfer takes without a break.
    fn share(self) -> f64 {
        match self {
            Self::Call => 0.005,
            Self::Middle => 0.5,
            Self::Confirmation => 0.995,
        }
    }
}

impl Survival {
    fn link(&self) -> Link {
        let link = idle(SPEED, false);
        if self.is_pep { link } else { Link { carrier: Carrier::IpClient, ..link } }
    }

    /// What is said over each connection.
    fn scripts(&self) -> Vec<Script> {
        use Side::{Client, Server};
        let said = |turns: &[(Side, usize)]| {
            let turns = turns.iter().map(|&(speaker, octets)| turn(speaker, noise(octets)));
            Script::at_once(turns.collect())
        };
        let away = || said(&[(Client, OCTETS), (Server, CONFIRMATION)]);
        let back = || said(&[(Client, REQUEST), (Server, OCTETS), (Client, CONFIRMATION)]);
        match self.way {
            Way::Away => vec![away()],
            Way::Back => vec![back()],
            Way::Both => vec![away(), back()],
        }
    }

    /// Runs the transfer with its break.
    fn run(&self, seed: u64) -> Outcome {
        let (unbroken, usual) = self.unbroken(seed);
        let (talks, until) = self.broken(seed, unbroken, false);
        let first = |stats: &Stats| stats.heard.iter().map(|(at, _)| *at).find(|at| *at >= until);
        // All connections have to move again.
        let resumed = talks.sides().map(|sides| sides.into_iter().filter_map(first).min());
        let resumed =
            resumed.reduce(|one, other| one.zip(other).map(|(one, other)| one.max(other)));
        let resumed = resumed.flatten().map(|at| at.since(until).as_secs_f64());
        let expected = unbroken.map(|it| it + self.fault.length().as_secs_f64());
        let lost = talks.finished_s().zip(expected).map(|(end, expected)| end - expected);
        let is_whole = talks.sides().flatten().all(is_whole);
        let links = links(&talks).saturating_sub(usual);
        let time = |it| Observation::or_later(it, LIMIT.as_secs_f64());
        vec![
            exact(WHOLE, f64::from(u8::from(is_whole))),
            (LINKS, Observation::counted(links, talks.finished_s().is_some())),
            (RESUMED, time(resumed)),
            (LOST, time(lost)),
        ]
    }

    /// Seconds that the transfer takes without the break, and links made.
    fn unbroken(&self, seed: u64) -> (Option<f64>, u64) {
        let mut talks = Talks::new(&self.link(), seed, &self.scripts());
        talks.run(BEGIN + LIMIT);
        (talks.finished_s(), links(&talks))
    }

    /// The transfer with the break, and when that ended.
    fn broken(&self, seed: u64, unbroken: Option<f64>, is_recorded: bool) -> (Talks, Time) {
        let link = self.link();
        let mut talks = Talks::new(&link, seed, &self.scripts());
        if is_recorded {
            talks.world.run_until(BEGIN);
            talks.world.record_hf(talks.hf);
        }
        let from = Duration::from_secs_f64(unbroken.unwrap_or_default() * self.moment.share());
        talks.world.run_until(BEGIN + from);
        let until = BEGIN + from + self.fault.length();
        let Talks { world, hf, .. } = &mut talks;
        match self.fault {
            Fault::Outage(_) => {
                let [one, other] = STATIONS;
                let set = |world: &mut sim::World, channel| {
                    world.set_hf_channel(*hf, one, other, channel);
                    world.set_hf_channel(*hf, other, one, channel);
                };
                set(world, Channel::Silent);
                world.run_until(until);
                set(world, link.channel);
            }
            Fault::Restart(station) => {
                let position = u8::from(station != STATIONS[0]);
                world.restart_hf_node(*hf, station, link.station(position));
            }
        }
        talks.run(BEGIN + LIMIT);
        (talks, until)
    }

    /// The records of both stations in the run with this seed.
    fn exchange(&self, seed: u64) -> Exchange {
        let (mut talks, _) = self.broken(seed, self.unbroken(seed).0, true);
        Exchange {
            name: "hf-survive-timeline".to_owned(),
            title: "200 kB by HF-PEP at 9600 bit/s, with a break of three minutes".to_owned(),
            subtitle: "Unanswered transmissions, the link given up, calls, the rest".to_owned(),
            stations: link::records(&mut talks.world, talks.hf, BEGIN),
        }
    }
}

/// Links that were made. A node that was started anew has forgotten how many.
fn links(talks: &Talks) -> u64 {
    let made = talks.nodes().map(|node| node.links.links_made);
    made.into_iter().max().unwrap_or_default()
}

/// Whether one side of a conversation heard all, once and in order, over one connection.
fn is_whole(side: &Stats) -> bool {
    side.finished.is_some() && side.corrupt == 0 && side.connections == 1
}

impl Place for Survival {
    fn cell(&self) -> Cell {
        let Self { is_pep, way, fault, moment } = *self;
        let survival = *self;
        let carrier = if is_pep { "HF-PEP" } else { "IP client" };
        let [way, moment] = [
            match way {
                Way::Away => "Away",
                Way::Back => "Back",
                Way::Both => "Both",
            },
            match moment {
                Moment::Call => "Call",
                Moment::Middle => "Middle",
                Moment::Confirmation => "Confirmation",
            },
        ];
        let name = Name::of("survival").word(carrier).with("data", way);
        let (name, fault) = match fault {
            Fault::Outage(length) => {
                (name.with("outage", Span(length)), format!("Outage({length:?})"))
            }
            Fault::Restart(StationId(station)) => {
                (name.with("restart", station), format!("Restart(StationId({station}))"))
            }
        };
        let draws = format!("survival by {carrier}, {way}, {fault} at {moment}");
        Cell::new(name.with("at", moment), draws, move |seed| survival.run(seed))
    }
}
