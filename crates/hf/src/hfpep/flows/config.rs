//! Configuration of UDP flows: lifetimes, limits, and compression.

use std::time::Duration;

/// The parameters of UDP flows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// How long a flow is remembered in which no datagram goes either way, and none can be under way.
    pub idle: Duration,
    /// How long a datagram is worth sending, unless its user says otherwise.
    pub lifetime: Duration,
    /// Most flows opened here at a time; other ends may open the same number.
    pub flows: usize,
    /// Octets of a flow that wait to be sent, 64 more for each datagram.
    pub queue: usize,
    /// Whether answers are compressed, if that makes them shorter.
    pub compresses_answers: bool,
    /// How long a flow that the other end has refused is not asked for again.
    pub refused: Duration,
}

impl Config {
    /// How long a flow is remembered after a datagram that is worth sending for so long.
    pub(crate) fn kept(&self, lifetime: Duration) -> Duration {
        self.idle.saturating_add(self.lifetime.max(lifetime))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            lifetime: Duration::from_secs(120),
            flows: 1_024,
            queue: 64 << 10,
            compresses_answers: false,
            refused: Duration::from_secs(60),
        }
    }
}
