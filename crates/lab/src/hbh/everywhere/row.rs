//! What the runs say about one place, and which goals hold there.

use super::super::Carrier;
use super::run::{DELAY, PACKETS, RESUME};
use super::scenario::Scenario;
use crate::claim::{Metric, Results};
use crate::stats::Estimate;
use crate::words::{mean, number};

/// Delay over plain TCP's without loss, and with less loss than [`LOSS`].
pub(super) const CLEAN_DELAY: f64 = 1.03;
/// Delay over plain TCP's with loss.
pub(super) const LOSSY_DELAY: f64 = 1.0;
/// Packets over plain TCP's without loss.
pub(super) const CLEAN_PACKETS: f64 = 1.15;
/// Seconds from the end of an outage until the receiver gets more.
pub(super) const RESUME_GOAL: f64 = 1.0;
/// From this share on the goal for delay is that of loss.
const LOSS: f64 = 0.01;

/// A place with its numbers.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Which place.
    pub(super) number: usize,
    pub(super) scenario: Scenario,
    /// By carrier, in the order of [`Carrier::ALL`].
    pub(super) delays: [Estimate; 3],
    pub(super) packets: [Estimate; 3],
    /// Only after outages.
    pub(super) resumes: Option<[Estimate; 3]>,
}

/// A number of ours over that of plain TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) value: Estimate,
    /// Plain TCP did not always end, so the true ratio may be less.
    pub(super) is_at_most: bool,
}

/// A goal that is missed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Miss {
    Delay,
    Packets,
    Resume,
}

impl Miss {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Packets => "packets",
            Self::Resume => "resume",
        }
    }
}

impl Row {
    pub(super) fn new(results: &Results, number: usize, scenario: Scenario) -> Self {
        let of = |metric: Metric| {
            Carrier::ALL.map(|carrier| results.estimate(&scenario.cell_name(carrier), metric))
        };
        Self {
            number,
            scenario,
            delays: of(DELAY),
            packets: of(PACKETS),
            resumes: scenario.outage.map(|_| of(RESUME)),
        }
    }

    pub(super) fn delay(&self, carrier: Carrier) -> Ratio {
        ratio(&self.delays, carrier)
    }

    pub(super) fn packets(&self, carrier: Carrier) -> Ratio {
        ratio(&self.packets, carrier)
    }

    /// Seconds from the end of the outage until the receiver got more.
    pub(super) fn resume(&self, carrier: Carrier) -> Option<Estimate> {
        self.resumes.map(|resumes| resumes[place(carrier)])
    }

    /// What our profile misses here.
    pub(super) fn misses(&self) -> Vec<Miss> {
        let mut misses = Vec::new();
        if self.is_slow() {
            misses.push(Miss::Delay);
        }
        let packets = self.packets(Carrier::Default);
        if self.is_clean() && (packets.is_open() || packets.value.mean > CLEAN_PACKETS) {
            misses.push(Miss::Packets);
        }
        let resume = self.resume(Carrier::Default);
        if resume.is_some_and(|resume| resume.is_lower_bound() || resume.mean > RESUME_GOAL) {
            misses.push(Miss::Resume);
        }
        misses
    }

    /// Whether no packet is lost but where queues are full.
    pub(super) fn is_clean(&self) -> bool {
        self.scenario.losses.is_none() && self.scenario.outage.is_none()
    }

    /// The most that our delay may be, in delays of plain TCP.
    pub(super) fn delay_goal(&self) -> f64 {
        let loss = self.scenario.losses.map_or(0.0, |losses| losses.mean);
        if loss < LOSS { CLEAN_DELAY } else { LOSSY_DELAY }
    }

    /// Chance has its say only where it decides what is lost.
    fn is_slow(&self) -> bool {
        let ratio = self.delay(Carrier::Default);
        let least = if self.is_clean() { ratio.value.mean } else { ratio.value.low() };
        ratio.is_open() || least > self.delay_goal()
    }

    /// The table's row: number, name, runs, and both metrics side by side.
    pub(super) fn cells(&self) -> Vec<String> {
        let misses = self.misses().into_iter().map(Miss::name).collect::<Vec<_>>();
        vec![
            self.number.to_string(),
            self.scenario.name(),
            self.delays[0].runs.to_string(),
            mean(&self.delays[0]),
            self.delay(Carrier::Seed).text(),
            self.delay(Carrier::Default).text(),
            number(self.packets[0].mean),
            self.packets(Carrier::Seed).text(),
            self.packets(Carrier::Default).text(),
            misses.join(", "),
        ]
    }
}

impl Ratio {
    /// Whether nothing bounds it from above.
    fn is_open(&self) -> bool {
        self.value.is_lower_bound()
    }

    pub(super) fn text(&self) -> String {
        if self.is_at_most && !self.is_open() {
            return format!("at most {}", number(self.value.mean));
        }
        mean(&self.value)
    }
}

fn ratio(all: &[Estimate; 3], carrier: Carrier) -> Ratio {
    let (ours, plain) = (&all[place(carrier)], &all[place(Carrier::Tcp)]);
    // A lower bound below the line makes an upper bound of the whole.
    let bound = Estimate { ci95: None, censored: ours.censored, ..ours.times(1.0 / plain.mean) };
    let value = ours.over(plain).unwrap_or(bound);
    Ratio { value, is_at_most: plain.is_lower_bound() }
}

fn place(carrier: Carrier) -> usize {
    match carrier {
        Carrier::Tcp => 0,
        Carrier::Seed => 1,
        Carrier::Default => 2,
    }
}
