//! Sweeps of one parameter of HBH: delay and packets for each value.

use super::chain::{self, Chain};
use super::{PACKETS, SECONDS, curve, limit_curve};
use crate::claim::{Cell, Metric, Point, Results};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;

/// A series: HBH with each value of the parameter in turn.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    /// The series' name.
    pub(super) series: &'static str,
    /// What the figures call it.
    pub(super) title: &'static str,
    pub(super) ink: Ink,
    /// The values.
    pub(super) values: &'static [u16],
    /// The unit of the values.
    pub(super) unit: &'static str,
    /// The scenario for a value.
    pub(super) scenario: fn(u16) -> Chain,
}

impl Sweep {
    pub(super) fn cells(&self) -> Vec<Cell> {
        self.values.iter().map(|value| (self.scenario)(*value).cell()).collect()
    }

    pub(super) fn at(&self, results: &Results, value: u16, metric: Metric) -> Estimate {
        results.estimate(&(self.scenario)(value).name(), metric)
    }

    pub(super) fn delay(&self, results: &Results, value: u16) -> Estimate {
        self.at(results, value, chain::DELAY)
    }

    pub(super) fn packets(&self, results: &Results, value: u16) -> Estimate {
        self.at(results, value, chain::PACKETS)
    }

    /// The value with the least mean delay.
    pub(super) fn best(&self, results: &Results) -> u16 {
        let delay = |value: u16| self.delay(results, value).mean;
        let values = self.values.iter().copied();
        values.min_by(|a, b| delay(*a).total_cmp(&delay(*b))).unwrap_or_default()
    }

    /// All delays, and then all packets.
    pub(super) fn points(&self, results: &Results) -> Vec<Point> {
        let delay = |value: &u16| {
            let limit = (self.scenario)(*value).delay_limit();
            self.point(*value, self.delay(results, *value), SECONDS, limit)
        };
        let packets = |value: &u16| {
            let limit = (self.scenario)(*value).packets_limit();
            self.point(*value, self.packets(results, *value), PACKETS, limit)
        };
        self.values.iter().map(delay).chain(self.values.iter().map(packets)).collect()
    }

    fn point(&self, x: u16, y: Estimate, y_unit: &'static str, limit: Option<f64>) -> Point {
        let series = self.series.to_owned();
        Point {
            series,
            x: f64::from(x),
            x_unit: self.unit,
            y,
            y_unit,
            limit,
            limit2: None,
            sessions: None,
            cell: None,
        }
    }
}

/// What the figures of a parameter have in common.
pub(super) struct Look {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) subtitle: String,
    pub(super) x: Axis,
    pub(super) note: String,
}

/// A figure of the delays and one of the packets, both with the limit of the last sweep.
pub(super) fn figures(sweeps: &[Sweep], points: &[Point], look: &Look) -> Vec<Figure> {
    let figure = |suffix: &str, y: Axis, unit: &str| {
        let points: Vec<Point> =
            points.iter().filter(|point| point.y_unit == unit).cloned().collect();
        let limit = sweeps.last().map(|s| limit_curve(&points, s.series));
        let curves = sweeps.iter().map(|s| curve(&points, s.series, s.title, s.ink));
        Figure {
            name: format!("{}{suffix}", look.name),
            title: look.title.to_owned(),
            subtitle: look.subtitle.clone(),
            x: look.x.clone(),
            y,
            series: limit.into_iter().chain(curves).collect(),
            note: look.note.clone(),
        }
    };
    vec![
        figure("", Axis::linear("Delay from the first SYN to the last octet", SECONDS), SECONDS),
        figure("-packets", Axis::linear("IP packets put on all links", ""), PACKETS),
    ]
}
