//! Configuration of TCP-AP, and how it counts the hops of a path.

use std::time::Duration;

use crate::congestion::Growth;

/// The settings of TCP-AP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The description to follow where the paper and the ns-2 agent differ.
    pub variant: Variant,
    /// How acknowledgements open NewReno's window.
    pub growth: Growth,
    /// How hops are counted.
    pub hops: Hops,
    /// Hops over which a segment disturbs later ones, at least 1 (4: radios that are heard 2.2 times as far as they are
    /// understood).
    pub reach: u8,
    /// The rule for a path shorter than the reach.
    pub short_path: ShortPath,
    /// Between segments before anything is measured.
    pub initial_interval: Duration,
    /// The weight of the old value in the mean of the delay, 0 to 1.
    pub alpha: f64,
    /// Delays whose variation counts, 1 to [`MOST_HISTORY`].
    pub history: u16,
    /// How variation is measured.
    pub variation: Variation,
    /// Delays that are longer are not believed.
    pub delay_bound: Duration,
    /// Bits a second of a link, at least 1.
    pub link_bits_per_s: u64,
    /// Octets that a frame has besides payload, headers of all layers and preambles.
    pub overhead: u16,
}

/// Most delays that are kept.
pub const MOST_HISTORY: u16 = 200;

/// Which TCP-AP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variant {
    /// The agent for ns-2: a delay of a hop beyond the bound is replaced by its mean, the pacer's
    /// clock goes on ticking while nothing waits, and a short path counts as one hop.
    Ns2,
    /// The formulas as published.
    Published,
}

/// How the hops of a path are known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hops {
    /// Where the number comes from.
    pub source: HopSource,
    /// Which of them count.
    pub mode: HopCountMode,
    /// Hops at the end of the path that are no radio's.
    pub wired: u8,
}

/// Where the number of hops comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HopSource {
    /// It is given.
    Fixed(u8),
    /// From the TTL of acknowledgements: hosts start with 32, 64, 128 or 255.
    Ttl,
}

/// Which hops count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HopCountMode {
    /// All of them.
    IncludeWired,
    /// Hops between radios only, as the agent for ns-2 counts.
    WirelessOnly,
}

/// How many hops' delay there is between segments on a path shorter than the reach.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShortPath {
    /// As many hops as the path has.
    All,
    /// One.
    OneHop,
}

/// How the variation of delays is measured; both by their mean.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variation {
    /// Their mean absolute deviation.
    Mad,
    /// The standard deviation of a population.
    Stddev,
}

impl Config {
    /// What a variant has unless told otherwise, at 2 Mbit/s.
    #[must_use]
    pub const fn of(variant: Variant) -> Self {
        Self {
            variant,
            growth: Growth::Octets { limit: 2 },
            hops: Hops { source: HopSource::Ttl, mode: HopCountMode::WirelessOnly, wired: 0 },
            reach: 4,
            short_path: match variant {
                Variant::Ns2 => ShortPath::OneHop,
                Variant::Published => ShortPath::All,
            },
            initial_interval: Duration::from_millis(50),
            alpha: 0.7,
            history: 50,
            variation: Variation::Stddev,
            delay_bound: Duration::from_millis(500),
            link_bits_per_s: 2_000_000,
            overhead: 112,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Variant::Published)
    }
}

impl Hops {
    /// Hops that count when an acknowledgement came with this TTL.
    pub(crate) fn count(self, ttl: u8) -> u8 {
        let all = match self.source {
            HopSource::Fixed(hops) => hops,
            // Routers lower the TTL, and there is one hop more than routers.
            HopSource::Ttl => {
                let start = [32, 64, 128, 255].into_iter().find(|start| *start >= ttl);
                (start.unwrap_or(u8::MAX) - ttl).saturating_add(1)
            }
        };
        match self.mode {
            HopCountMode::IncludeWired => all,
            HopCountMode::WirelessOnly => all.saturating_sub(self.wired),
        }
    }
}
