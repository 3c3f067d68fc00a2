//! Configuration of DSDV, with defaults.

use std::time::Duration;

/// The parameters of DSDV, with the defaults of ns-2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The longest time from one full update to the next.
    pub update_interval: Duration,
    /// The random part of the update interval: it keeps neighbours from sending at the same moment.
    pub update_spread: f64,
    /// Update intervals without a word of a neighbour until its routes are given up.
    pub hold: u32,
    /// The least time between an update and a following triggered one.
    pub trigger_spacing: Duration,
    /// How long a destination's best route is taken to come after the first with a number, at first.
    pub settling: Duration,
    /// The weight of the old settling time when a new one was measured.
    pub settling_weight: f64,
    /// The first full update is sent within this time of the start.
    pub start_jitter: Duration,
    /// The longest random delay of an update that is due.
    pub jitter: Duration,
    /// Whether a neighbour is given up when the link layer cannot reach it.
    pub link_breaks: bool,
    /// Whether the node announces a default route, to 0.0.0.0.
    pub is_gateway: bool,
    /// Destinations that are remembered.
    pub destinations: usize,
    /// Neighbours that are remembered.
    pub neighbours: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            update_interval: Duration::from_secs(15),
            update_spread: 0.25,
            hold: 3,
            trigger_spacing: Duration::from_secs(1),
            settling: Duration::from_secs(6),
            settling_weight: 0.875,
            start_jitter: Duration::from_secs(2),
            jitter: Duration::from_millis(10),
            link_breaks: false,
            is_gateway: false,
            destinations: 1_000,
            neighbours: 250,
        }
    }
}

impl Config {
    /// How long a neighbour may be silent.
    pub(super) fn patience(&self) -> Duration {
        self.update_interval * self.hold
    }
}
