//! What can be set.

use std::time::Duration;

/// The parameters of DSDV. The defaults are those of ns-2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The longest time from one full update to the next.
    pub update_interval: Duration,
    /// The part of that time that is random, so that neighbours do not send together.
    pub update_spread: f64,
    /// Update intervals without a word of a neighbour until its routes are given up.
    pub hold: u32,
    /// The least time between two updates of which the second is a triggered one.
    pub trigger_spacing: Duration,
    /// How long a destination's best route is taken to come after the first with a number, at first.
    pub settling: Duration,
    /// How much of the settling time that was known remains when another one was seen.
    pub settling_weight: f64,
    /// The first full update is sent within this time of the start.
    pub start_jitter: Duration,
    /// An update is sent within this time of when it is due.
    pub jitter: Duration,
    /// Whether a neighbour is given up when the link layer cannot reach it.
    pub link_breaks: bool,
    /// Whether it tells others of a default route, to 0.0.0.0.
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
