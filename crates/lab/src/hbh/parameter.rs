//! Sweeps a parameter of HBH and measures delay and packets for each value.

use hbh::{Config, Profile};

use super::chain::{self, Chain};
use super::{DELAY_AXIS, PACKETS, SECONDS, assumptions};
use crate::prelude::*;

/// A curve: HBH with each value of the parameter in turn.
#[derive(Debug)]
pub struct Curve {
    /// The name of the series.
    pub series: &'static str,
    /// What figures call it.
    pub title: &'static str,
    pub ink: Ink,
    pub profile: Profile,
    /// Loss of every link, each way.
    pub loss: f64,
    /// Gives the parameter a value.
    pub set: fn(&mut Config, u16),
    /// What the parameter counts.
    pub unit: &'static str,
}

impl Curve {
    /// The place of a value.
    pub const fn at(&'static self, value: u16) -> Setting {
        Setting { curve: self, value }
    }

    /// The value with the least mean delay.
    pub fn best(&'static self, runs: &Runs<Setting>) -> u16 {
        let own = runs.places().iter().filter(|it| **it == self.at(it.value));
        let delay = |it: &&Setting| runs.at(it, chain::DELAY).mean;
        own.min_by(|a, b| delay(a).total_cmp(&delay(b))).map_or(0, |it| it.value)
    }

    pub fn delay(&'static self, runs: &Runs<Setting>, value: u16) -> Estimate {
        runs.at(&self.at(value), chain::DELAY)
    }

    pub fn packets(&'static self, runs: &Runs<Setting>, value: u16) -> Estimate {
        runs.at(&self.at(value), chain::PACKETS)
    }
}

/// A value of the parameter on a curve.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    curve: &'static Curve,
    value: u16,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        (self.curve.series, self.value) == (other.curve.series, other.value)
    }
}

impl Setting {
    /// Every curve at every value.
    pub fn grid(curves: &'static [Curve], values: &[u16]) -> Vec<Self> {
        curves.iter().flat_map(|curve| values.iter().map(|value| curve.at(*value))).collect()
    }

    fn chain(&self) -> Chain {
        let mut config = Config::new(self.curve.profile);
        (self.curve.set)(&mut config, self.value);
        Chain::common(self.curve.loss, Some(config))
    }
}

impl Place for Setting {
    fn cell(&self) -> Cell {
        self.chain().cell()
    }
}

impl Drawn for Setting {
    fn line(&self) -> Line {
        Line::new(self.curve.series, self.curve.title, self.curve.ink)
    }

    fn x(&self) -> (f64, &'static str) {
        (f64::from(self.value), self.curve.unit)
    }

    fn limit(&self, metric: Metric) -> Option<f64> {
        match metric {
            chain::DELAY => self.chain().delay_limit(),
            _ => self.chain().packets_limit(),
        }
    }
}

/// What the figures of a parameter have in common.
pub struct Look {
    pub name: &'static str,
    pub title: &'static str,
    pub x: Axis,
    pub delay: Axis,
    pub note: &'static str,
}

impl Look {
    pub fn delay_axis() -> Axis {
        Axis::linear(DELAY_AXIS, SECONDS)
    }
}

/// The finding with the delays and packets of the grid, drawn with the limit of the last curve.
pub fn finding(runs: &Runs<Setting>, checks: &[Check], measured: &str, look: &Look) -> Finding {
    let delays = runs.points(chain::DELAY, SECONDS, |_| true);
    let packets = runs.points(chain::PACKETS, PACKETS, |_| true);
    let figure = |suffix: &str, y: Axis, points: &[Point]| {
        let last: Vec<Point> = match points.last() {
            Some(last) => points.iter().filter(|it| it.line == last.line).cloned().collect(),
            None => Vec::new(),
        };
        let below = vec![Series::limit(&last, "physical limit", Ink::Limit, 1.0)];
        let name = format!("{}{suffix}", look.name);
        Figure {
            subtitle: format!(
                "100 kB over four hops, loss on every link each way, {} runs",
                runs.count()
            ),
            note: look.note.to_owned(),
            ..Figure::of(points, &name, look.title).over(look.x.clone()).up(y).above(below)
        }
    };
    let packets_axis = Axis::linear("IP packets put on all links", "");
    Finding {
        figures: vec![
            figure("", look.delay.clone(), &delays),
            figure("-packets", packets_axis, &packets),
        ],
        tables: vec![
            Table::of("Delay in seconds", &delays),
            Table::of("Packets on all links", &packets),
        ],
        points: delays.into_iter().chain(packets).collect(),
        assumptions: assumptions(),
        ..runs.finding(checks, format!("{measured}."))
    }
}
