//! One quantity at one place: ours, the same without the tunnel, and whether that is worse.

use super::Try;
use super::Way;
use super::run::{GOODPUT, OCTETS, PAGE, RIVAL, SLOWEST_PAGE, VOICE_P50, VOICE_P99};
use super::scenario::{Path, Scenario};
use crate::everywhere::Judged;
use crate::prelude::*;

/// What the headers and reports of the tunnel may cost in time and in rate.
pub const HEADERS: f64 = 1.05;
/// What they, and repairs, may cost in octets on the link.
pub const OCTETS_GOAL: f64 = 1.10;
/// The same of short pages and of voice: a tunnel that was quiet repairs in advance.
pub const SPARSE_OCTETS_GOAL: f64 = 1.5;
/// A flow that fills a path keeps a short queue, and voice waits in it: for this many packets, or this long.
const QUEUE_PACKETS: f64 = 8.0;
const QUEUE_SECONDS: f64 = 0.010;
/// How often the rate of a plain flow beside it may fit into ours, or ours into that.
pub const SHARE: f64 = 1.25;

/// What is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantity {
    Goodput,
    Octets,
    Page,
    /// Our rate over the rate of a plain flow beside ours.
    Share,
    SlowestPage,
    VoiceMedian,
    VoiceP99,
}

impl Quantity {
    pub const ALL: [Self; 7] = [
        Self::Goodput,
        Self::Share,
        Self::Page,
        Self::SlowestPage,
        Self::VoiceMedian,
        Self::VoiceP99,
        Self::Octets,
    ];

    /// The name in results and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Goodput
            | Self::Octets
            | Self::Page
            | Self::SlowestPage
            | Self::VoiceMedian
            | Self::VoiceP99 => self.metric(),
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::Octets => "octets for one",
            Self::Page | Self::SlowestPage => "s",
            Self::VoiceMedian | Self::VoiceP99 => "ms",
            Self::Share => "times the rival",
        }
    }

    fn metric(self) -> Metric {
        match self {
            Self::Goodput | Self::Share => GOODPUT,
            Self::Octets => OCTETS,
            Self::Page => PAGE,
            Self::SlowestPage => SLOWEST_PAGE,
            Self::VoiceMedian => VOICE_P50,
            Self::VoiceP99 => VOICE_P99,
        }
    }

    /// Whether it is measured where this is the load.
    fn is_of(self, scenario: &Scenario) -> bool {
        let load = &scenario.load;
        match self {
            Self::Goodput => load.down > 0 && !load.has_rival,
            Self::Octets => !load.has_rival,
            Self::Page | Self::SlowestPage => load.page.is_some(),
            Self::Share => load.has_rival,
            Self::VoiceMedian | Self::VoiceP99 => load.has_voice,
        }
    }

    /// How many times worse ours may be; `None` where it is only shown.
    pub fn goal(self, scenario: &Scenario) -> Option<f64> {
        match self {
            Self::Octets if scenario.load.down == 0 => Some(SPARSE_OCTETS_GOAL),
            Self::Octets => Some(OCTETS_GOAL),
            Self::Share => Some(SHARE),
            Self::VoiceMedian | Self::VoiceP99 if scenario.load.down > 0 => {
                Some(HEADERS + queue(&scenario.path))
            }
            Self::Goodput | Self::Page | Self::VoiceMedian | Self::VoiceP99 => Some(HEADERS),
            // The slowest page is a single one among many, so mostly chance.
            Self::SlowestPage => None,
        }
    }
}

/// What voice may wait in the queue of a download, in parts of the way without one.
fn queue(path: &Path) -> f64 {
    let packets = QUEUE_PACKETS * 1_500.0 * 8.0 / (f64::from(path.kbit_per_s) * 1e3);
    packets.max(QUEUE_SECONDS) / (path.round_trip() / 2).as_secs_f64()
}

/// A quantity at a place.
#[derive(Clone, Debug)]
pub struct Item {
    /// Which place.
    pub number: usize,
    pub scenario: Scenario,
    pub quantity: Quantity,
    /// By way, in the order of [`Way::ALL`].
    pub values: [Estimate; Way::ALL.len()],
    /// By way: the logarithm of our value over the way's value, run by run; for a share, of the share over the
    /// rival's.
    logs: [Estimate; Way::ALL.len()],
}

/// How many times one is the other. It may be less, where the other did not always end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The logarithm of the ratio; the interval is the logarithm's.
    log: Estimate,
    is_at_most: bool,
}

impl Item {
    /// The items measured at this place.
    pub fn all(runs: &Runs<Try>, number: usize, scenario: Scenario) -> Vec<Self> {
        let quantities = Quantity::ALL.into_iter().filter(|quantity| quantity.is_of(&scenario));
        // All ways meet the same chance in a run, and so do a flow and its rival.
        let log = |quantity: Quantity, way| {
            let [ours, it] = [Way::Ours, way].map(|way| Try { scenario, way });
            match quantity {
                Quantity::Share => runs.log_ratio((&it, GOODPUT), (&it, RIVAL)),
                Quantity::Goodput
                | Quantity::Octets
                | Quantity::Page
                | Quantity::SlowestPage
                | Quantity::VoiceMedian
                | Quantity::VoiceP99 => {
                    runs.log_ratio((&ours, quantity.metric()), (&it, quantity.metric()))
                }
            }
        };
        let values = |quantity: Quantity| {
            Way::ALL.map(|way| {
                let of = |metric| runs.at(&Try { scenario, way }, metric);
                let value = of(quantity.metric());
                match quantity {
                    Quantity::Share => log(quantity, way).exp(),
                    Quantity::VoiceMedian | Quantity::VoiceP99 => value.times(1e3),
                    Quantity::Goodput
                    | Quantity::Octets
                    | Quantity::Page
                    | Quantity::SlowestPage => value,
                }
            })
        };
        let item = |quantity| {
            let logs = Way::ALL.map(|way| log(quantity, way));
            Self { number, scenario, quantity, values: values(quantity), logs }
        };
        quantities.map(item).filter(|item| item.value(Way::Ours).runs > 0).collect()
    }

    pub fn value(&self, way: Way) -> &Estimate {
        &self.values[way as usize]
    }

    /// With what ours is compared: all plain ways, or itself where it has its measure in it.
    fn others(&self) -> Vec<Way> {
        if self.quantity == Quantity::Share {
            return vec![Way::Ours];
        }
        Way::PLAIN.into_iter().filter(|way| self.value(*way).runs > 0).collect()
    }

    /// How many times ours is what `way` is; unknown where that did not always end.
    pub fn ratio(&self, way: Way) -> Estimate {
        if self.value(way).is_lower_bound() {
            Estimate::UNKNOWN
        } else {
            self.logs[way as usize].exp()
        }
    }

    /// How many times worse ours is than `way`; at 1 there is no difference.
    pub fn worse(&self, way: Way) -> Ratio {
        let log = self.logs[way as usize];
        let log = match self.quantity {
            Quantity::Goodput => log.negated(),
            Quantity::Share if log.mean < 0.0 => log.negated(),
            Quantity::Octets
            | Quantity::Page
            | Quantity::Share
            | Quantity::SlowestPage
            | Quantity::VoiceMedian
            | Quantity::VoiceP99 => log,
        };
        // A lower bound below the line makes an upper bound of the whole.
        Ratio { log, is_at_most: self.value(way).is_lower_bound() }
    }

    /// The plain way beside which ours is worst, and how much worse.
    pub fn worst(&self) -> Option<(Way, Ratio)> {
        let all = self.others().into_iter().map(|way| (way, self.worse(way)));
        all.filter(|(_, ratio)| !ratio.log.mean.is_nan())
            .max_by(|a, b| a.1.log.mean.total_cmp(&b.1.log.mean))
    }
}

impl Judged for Item {
    /// How many times worse ours is than it may be, for an order.
    fn badness(&self) -> f64 {
        let goal = self.quantity.goal(&self.scenario).unwrap_or(f64::INFINITY);
        self.worst().map_or(0.0, |(_, ratio)| ratio.value().mean / goal)
    }

    /// Whether the goal is reached beside every plain way.
    fn holds(&self) -> Answer {
        let Some(goal) = self.quantity.goal(&self.scenario) else { return Answer::Yes };
        Answer::all(self.others().into_iter().map(|way| self.worse(way).at_most(goal)))
    }

    /// Describes the item, with the way that ours compares worst with.
    fn text(&self) -> String {
        let name = self.quantity.name();
        let Some((way, ratio)) = self.worst() else { return format!("{}: {name}", self.scenario) };
        let than = match self.quantity {
            Quantity::Share => "times from the rival's".to_owned(),
            _ => format!("times worse than {}", way.title()),
        };
        format!("{}: {name} {} {than}", self.scenario, ratio.text())
    }

    fn cells(&self) -> Vec<String> {
        let quantity = self.quantity;
        let mut row = vec![
            self.number.to_string(),
            self.scenario.to_string(),
            format!("{} [{}]", quantity.name(), quantity.unit()),
        ];
        row.extend(Way::ALL.map(|way| mean(self.value(way))));
        let (than, worse) = self.worst().map_or_else(
            || (String::new(), String::new()),
            |(way, ratio)| {
                let than = if quantity == Quantity::Share { "the rival" } else { way.title() };
                (than.to_owned(), ratio.text())
            },
        );
        row.extend([worse, than, quantity.goal(&self.scenario).map_or(String::new(), number)]);
        row
    }
}

impl Ratio {
    /// The geometric mean over the runs.
    pub fn value(&self) -> Estimate {
        self.log.exp()
    }

    /// Whether it is surely no more. What does not end is more than anything.
    fn at_most(&self, most: f64) -> Answer {
        match self.log.at_most(libm::log(most)) {
            _ if self.log.is_lower_bound() && !self.is_at_most => Answer::No,
            _ if self.log.is_lower_bound() => Answer::Undecided,
            Answer::No if self.is_at_most => Answer::Undecided,
            answer => answer,
        }
    }

    pub fn text(&self) -> String {
        if self.is_at_most && !self.log.is_lower_bound() {
            return format!("at most {}", number(self.value().mean));
        }
        mean(&self.value())
    }
}
