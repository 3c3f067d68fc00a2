//! A place of the experiments: a net, its messages, and their carrier.

use std::time::Duration;

use base::quantity::{BitRate, Span};
use base::time::Time;
use sar::Profile;
use sim::{InterfaceConfig, LinkConfig, channel, cnr};

use super::assumption::ASSUMED;
use super::{BUSY, DELAY, MERIT, NINE, REPEATS, SET_UP, TOLD, TOLD_AFTER, TRANSMISSIONS};
use crate::prelude::*;
use crate::scenario::{Built, Messages, Net, Over, Plan};
use crate::tactical::{COMPLETION, RUNS};

/// For how long messages are made.
const MADE_FOR: Duration = Duration::from_secs(3_600);
/// Over how long answers to a message for all are spread: more than a second for each station.
const SPREAD: Duration = Duration::from_secs(20);
/// When a run ends.
const END: Duration = Duration::from_secs(4_200);

/// A place of the grids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    pub carrier: Carrier,
    /// The carrier's first timeout, in tenths of a second.
    pub timeout: u16,
    /// Octets of a message.
    pub octets: u16,
    /// Messages an hour, all stations together.
    pub hourly: u16,
    pub site: Site,
    pub purpose: Purpose,
}

/// What brings messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    /// S/R as in Liu's description.
    Seed,
    /// S/R, our profile.
    Ours,
    /// The same, with repairs for groups.
    Coded,
    /// TCP, a connection for each message.
    Tcp,
    /// TCP, connections kept for ten minutes.
    Kept,
}

/// Where stations are, and how they are joined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Site {
    /// A net with this number of stations.
    Net(u8),
    /// A company's net with one changed assumption: an index into the list of assumptions.
    Assumed(u8),
    /// A net of two stations that loses nothing.
    ClearPair,
    /// A link of 1 Mbit/s that loses nothing.
    FastLink,
    /// A net of so many stations with this loss in per cent, where each message is for all others.
    ToAll { stations: u8, loss: u8 },
}

/// The purpose of the runs: each purpose has its own random numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    Report,
    /// To choose timeouts.
    Choose,
}

impl Carrier {
    pub fn title(self) -> &'static str {
        match self {
            Self::Seed => "UDP + S/R, fixed timeout",
            Self::Ours => "UDP + S/R, our profile",
            Self::Coded => "the same with repairs",
            Self::Tcp => "TCP",
            Self::Kept => "TCP, connections kept",
        }
    }

    fn series(self) -> (&'static str, Ink) {
        match self {
            Self::Seed => ("sar-seed", Ink::Paper),
            Self::Ours => ("sar-default", Ink::Default),
            Self::Coded => ("sar-coded", Ink::Other(1)),
            Self::Tcp => ("tcp", Ink::Tcp),
            Self::Kept => ("tcp-kept", Ink::Other(0)),
        }
    }

    /// The timeout chosen for the carrier and messages of one segment, in tenths of a second.
    pub fn chosen(self) -> u16 {
        match self {
            Self::Seed | Self::Ours | Self::Coded => 100,
            Self::Tcp | Self::Kept => 70,
        }
    }
}

impl Trial {
    /// Messages of 128 octets in a company, at this rate.
    pub fn new(carrier: Carrier, hourly: u16) -> Self {
        Self {
            carrier,
            timeout: carrier.chosen(),
            octets: 128,
            hourly,
            site: Site::Net(16),
            purpose: Purpose::Report,
        }
    }

    /// Messages for all are answered over a longer time, for which fixed timers have to wait.
    pub fn at(self, site: Site) -> Self {
        let is_slow = matches!(site, Site::ToAll { .. }) && self.carrier == Carrier::Seed;
        Self { site, timeout: if is_slow { 400 } else { self.timeout }, ..self }
    }

    /// Longer ones take longer, for which fixed timers have to wait.
    pub fn of(self, octets: u16) -> Self {
        let is_slow = octets > 496 && self.carrier == Carrier::Seed;
        Self { octets, timeout: if is_slow { 300 } else { self.timeout }, ..self }
    }

    /// Bits of messages each second.
    pub fn bits(self) -> f64 {
        f64::from(self.hourly) * 8.0 * f64::from(self.octets) / 3_600.0
    }

    fn plan(self, seed: u64) -> Plan {
        let mut plan = Plan::new(seed, END);
        let stations = match self.site {
            Site::Net(stations) | Site::ToAll { stations, .. } => stations,
            Site::Assumed(_) => 16,
            Site::ClearPair | Site::FastLink => 2,
        };
        let nodes: Vec<usize> =
            (1..=stations).map(|number| plan.add_node(format!("s{number}"))).collect();
        if self.site == Site::FastLink {
            let channel = channel::Config {
                rate: BitRate::from_bits_per_s(1_000_000).unwrap_or_default(),
                delay: Duration::from_millis(10),
                ..channel::Config::default()
            };
            let link = LinkConfig::symmetric(channel, InterfaceConfig::default());
            plan.connect(nodes[0], nodes[1], link);
        } else {
            plan.nets.push(Net { config: self.net(), stations: nodes.clone(), ..Net::default() });
        }
        plan.messages = Some(self.messages(nodes));
        plan
    }

    fn net(self) -> cnr::Config {
        let mut config = cnr::Config::default();
        match self.site {
            Site::Assumed(place) => (ASSUMED[usize::from(place)].set)(&mut config),
            Site::ClearPair => config.loss = 0.0,
            Site::ToAll { loss, .. } => config.loss = f64::from(loss) / 100.0,
            Site::FastLink | Site::Net(_) => {}
        }
        config
    }

    fn messages(self, nodes: Vec<usize>) -> Messages {
        let over = match self.carrier {
            Carrier::Coded | Carrier::Ours | Carrier::Seed => Over::Sar,
            Carrier::Kept | Carrier::Tcp => Over::Tcp,
        };
        let is_to_all = matches!(self.site, Site::ToAll { .. });
        let keep = if self.carrier == Carrier::Kept { 600 } else { 0 };
        Messages {
            stop: Some(Time::ZERO + MADE_FOR),
            interval: Duration::from_secs(3_600) / u32::from(self.hourly),
            payload: self.octets.into(),
            destinations: if is_to_all { nodes.len() - 1 } else { 1 },
            group: is_to_all && over == Over::Sar,
            over,
            keep: Duration::from_secs(keep),
            sar: if over == Over::Sar { self.sar() } else { sar::Config::default() },
            tcp: if over == Over::Tcp { self.tcp() } else { tcp::Config::default() },
            nodes,
            ..Messages::default()
        }
    }

    fn timeout(self) -> Duration {
        Duration::from_millis(u64::from(self.timeout) * 100)
    }

    fn sar(self) -> sar::Config {
        let profile = if self.carrier == Carrier::Seed { Profile::Seed } else { Profile::Default };
        let mut config = sar::Config::of(profile);
        config.times.round_trip = self.timeout();
        config.coding = self.carrier == Carrier::Coded;
        if matches!(self.site, Site::ToAll { .. }) {
            config.times.spread = SPREAD;
        }
        config
    }

    /// A TCP of the paper's time, also the TCP with the shortest headers.
    fn tcp(self) -> tcp::Config {
        let mtu = match self.site {
            Site::FastLink => InterfaceConfig::default().mtu,
            _ => cnr::Config::default().mtu,
        };
        let mut tcp = tcp::Config { mtu, ..tcp::Config::default() };
        (tcp.offer.timestamps, tcp.offer.sack, tcp.offer.window_scaling) = (false, false, false);
        (tcp.rto.initial, tcp.rto.syn) = (self.timeout(), self.timeout());
        tcp.rto.after_syn_timeout = self.timeout();
        tcp.rto.max = Duration::from_secs(600);
        tcp
    }
}

impl Place for Trial {
    fn cell(&self) -> Cell {
        let trial = *self;
        let Self { carrier, octets, hourly, site, purpose, .. } = trial;
        let (carrier, _) = carrier.series();
        let name = Name::of("company").word(carrier).with("timeout", Span(trial.timeout()));
        let name = name.with("octets", octets).with("hourly", hourly);
        let name = match site {
            Site::Net(stations) => name.with("stations", stations),
            Site::Assumed(place) => name.with("assumed", ASSUMED[usize::from(place)].title),
            Site::ClearPair => name.word("clear-pair"),
            Site::FastLink => name.word("fast-link"),
            Site::ToAll { stations, loss } => {
                name.word("to-all").with("stations", stations).with("loss", format!("{loss}%"))
            }
        };
        let name = name.when(purpose == Purpose::Choose, "to-choose");
        let purpose = match purpose {
            Purpose::Report => "Report",
            Purpose::Choose => "Choose",
        };
        let draws = format!("company {octets} {hourly} {} {purpose}", site.draws());
        Cell::of(name, draws, move |seed| trial.plan(seed), measure).at_most(RUNS)
    }
}

impl Site {
    /// Its label: see [`Cell::new`].
    fn draws(self) -> String {
        match self {
            Self::Net(stations) => format!("Net({stations})"),
            Self::Assumed(place) => format!("Assumed({place})"),
            Self::ClearPair => "ClearPair".to_owned(),
            Self::FastLink => "FastLink".to_owned(),
            Self::ToAll { stations, loss } => {
                format!("ToAll {{ stations: {stations}, loss: {loss} }}")
            }
        }
    }
}

impl Drawn for Trial {
    fn line(&self) -> Line {
        let (series, ink) = self.carrier.series();
        Line::new(series, self.carrier.title(), ink)
    }

    fn x(&self) -> (f64, &'static str) {
        (self.bits().round(), "bit/s")
    }
}

fn measure(mut built: Built<'_>) -> Outcome {
    let (end, stride) = (built.end(), built.plan().duration);
    built.run_until(end, stride, |_| false);
    let report = built.messages().expect("there are messages");
    let mut outcome = vec![
        exact(COMPLETION, 100.0 * report.completion.unwrap_or_default()),
        exact(TOLD, 100.0 * report.told_share.unwrap_or_default()),
        (NINE, Observation::seconds(report.delay_90_s.map(Duration::from_secs_f64), END)),
    ];
    // Where none came, none was quick; what a carrier never does is not measured.
    let never = Observation::AtLeast(END.as_secs_f64());
    let took = |value: Option<f64>| value.map_or(never, Observation::Exact);
    outcome.push((DELAY, took(report.delay_s)));
    outcome.extend(report.told_after_s.map(|value| exact(TOLD_AFTER, value)));
    let is_opened = built.plan().messages.as_ref().is_some_and(|it| it.over == Over::Tcp);
    outcome.extend(is_opened.then(|| (SET_UP, took(report.set_up_s))));
    let repeats: u64 = report.sar.iter().map(|it| it.sent.again + it.sent.repairs).sum();
    outcome.push(exact(REPEATS, repeats as f64 / report.sent.max(1) as f64));
    if let Some(net) = built.nets.first() {
        let total = built.world.cnr_medium(*net).total(built.world.now());
        let stations = built.nodes.len() as f64;
        let sent = report.sent.max(1) as f64;
        let transmissions = total.transmissions as f64 / sent;
        outcome.push(exact(TRANSMISSIONS, transmissions));
        let merit = report.told_share.zip(report.delay_s);
        let merit = merit.map_or(0.0, |(told, delay)| told / (delay * transmissions));
        outcome.push(exact(MERIT, merit));
        let lived = END.as_secs_f64() * stations;
        outcome.push(exact(BUSY, 100.0 * total.busy.as_secs_f64() / lived));
    }
    outcome
}
