//! The results of the runs at one place, and the goals that hold there.

use super::super::Carrier;
use super::Try;
use super::run::{DELAY, PACKETS, RESUME};
use super::scenario::Scenario;
use crate::everywhere::Judged;
use crate::prelude::*;

/// Delay over plain TCP's without loss, and with less loss than [`LOSS`].
pub const CLEAN_DELAY: f64 = 1.03;
/// Delay over plain TCP's with loss.
pub const LOSSY_DELAY: f64 = 1.0;
/// Packets over plain TCP's without loss.
pub const CLEAN_PACKETS: f64 = 1.15;
/// Seconds from the end of an outage until the receiver gets more.
pub const RESUME_GOAL: f64 = 1.0;
/// From this share on the goal for delay is that of loss.
const LOSS: f64 = 0.01;

/// A place with its numbers.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which place.
    pub number: usize,
    pub scenario: Scenario,
    /// By carrier, in the order of [`Carrier::ALL`].
    pub delays: [Estimate; 3],
    pub packets: [Estimate; 3],
    /// Only after outages.
    pub resumes: Option<[Estimate; 3]>,
}

/// A value of ours over the same value of plain TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub value: Estimate,
    /// Plain TCP did not always end, so the true ratio may be less.
    pub is_at_most: bool,
}

/// What a goal is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Goal {
    Delay,
    Packets,
    Resume,
}

impl Goal {
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Packets => "packets",
            Self::Resume => "resume",
        }
    }
}

impl Row {
    pub fn new(runs: &Runs<Try>, number: usize, scenario: Scenario) -> Self {
        let of = |metric: Metric| {
            Carrier::ALL.map(|carrier| runs.at(&Try { scenario, way: carrier }, metric))
        };
        Self {
            number,
            scenario,
            delays: of(DELAY),
            packets: of(PACKETS),
            resumes: scenario.outage.map(|_| of(RESUME)),
        }
    }

    pub fn delay(&self, carrier: Carrier) -> Ratio {
        ratio(&self.delays, carrier)
    }

    pub fn packets(&self, carrier: Carrier) -> Ratio {
        ratio(&self.packets, carrier)
    }

    /// Seconds from the end of the outage until the receiver got more.
    pub fn resume(&self, carrier: Carrier) -> Option<Estimate> {
        self.resumes.map(|resumes| resumes[carrier as usize])
    }

    /// The goals of this place, and whether our profile reaches them.
    pub fn goals(&self) -> Vec<(Goal, Answer)> {
        let delay = self.delay(Carrier::Default).at_most(self.delay_goal());
        let packets = self.packets(Carrier::Default).at_most(CLEAN_PACKETS);
        let resume = self
            .resume(Carrier::Default)
            .map(|it| if it.is_lower_bound() { Answer::No } else { it.at_most(RESUME_GOAL) });
        let all = [
            (Goal::Delay, Some(delay)),
            (Goal::Packets, Some(packets).filter(|_| self.is_clean())),
            (Goal::Resume, resume),
        ];
        all.into_iter().filter_map(|(goal, answer)| Some((goal, answer?))).collect()
    }

    /// What our profile surely misses here.
    pub fn misses(&self) -> Vec<Goal> {
        let goals = self.goals().into_iter();
        goals.filter(|(_, answer)| *answer == Answer::No).map(|(goal, _)| goal).collect()
    }

    /// Whether no packet is lost but where queues are full.
    pub fn is_clean(&self) -> bool {
        self.scenario.losses.is_none() && self.scenario.outage.is_none()
    }

    /// The most that our delay may be, in delays of plain TCP.
    pub fn delay_goal(&self) -> f64 {
        let loss = self.scenario.losses.map_or(0.0, |losses| losses.mean);
        if loss < LOSS { CLEAN_DELAY } else { LOSSY_DELAY }
    }
}

impl Judged for Row {
    fn badness(&self) -> f64 {
        self.delay(Carrier::Default).value.mean
    }

    fn holds(&self) -> Answer {
        Answer::all(self.goals().into_iter().map(|(_, answer)| answer))
    }

    fn text(&self) -> String {
        let misses: Vec<&str> = self.misses().into_iter().map(Goal::name).collect();
        let ratio = self.delay(Carrier::Default).text();
        format!("{} (delay {ratio}; misses {})", self.scenario, misses.join(", "))
    }

    /// The table's row: number, name, runs, and both metrics side by side.
    fn cells(&self) -> Vec<String> {
        let misses = self.misses().into_iter().map(Goal::name).collect::<Vec<_>>();
        vec![
            self.number.to_string(),
            self.scenario.name(),
            self.delays[0].runs.to_string(),
            mean(&self.delays[0]),
            self.delay(Carrier::Paper).text(),
            self.delay(Carrier::Default).text(),
            number(self.packets[0].mean),
            self.packets(Carrier::Paper).text(),
            self.packets(Carrier::Default).text(),
            misses.join(", "),
        ]
    }
}

impl Ratio {
    /// Whether it is surely no more. What does not end is more than anything.
    fn at_most(&self, most: f64) -> Answer {
        match self.value.at_most(most) {
            _ if self.value.is_lower_bound() => Answer::No,
            Answer::No if self.is_at_most => Answer::Undecided,
            answer => answer,
        }
    }

    pub fn text(&self) -> String {
        if self.is_at_most && !self.value.is_lower_bound() {
            return format!("at most {}", number(self.value.mean));
        }
        mean(&self.value)
    }
}

fn ratio(all: &[Estimate; 3], carrier: Carrier) -> Ratio {
    let (ours, plain) = (&all[carrier as usize], &all[Carrier::Tcp as usize]);
    let is_at_most = plain.is_lower_bound();
    // A lower bound below the line makes an upper bound of the whole.
    let value = if is_at_most { ours.times(1.0 / plain.mean) } else { ours.over(plain) };
    Ratio { value, is_at_most }
}
