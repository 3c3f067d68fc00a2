//! How stations that share a frequency are kept apart, after Annex K; its times are ours.

use std::time::Duration;

/// How stations that want to transmit are kept apart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Two stations that alternate.
    #[default]
    PointToPoint,
    /// Any number of stations: each waits for a random time once the frequency is free.
    Jitter {
        /// The longest wait.
        limit: Duration,
    },
    /// A few stations, each with slots of its own, which repeat once the frequency is free.
    Slotted {
        /// The slot of this station, counted from 0.
        position: u8,
        /// The number of stations.
        stations: u8,
    },
}

impl Access {
    /// How long stations that have had a turn wait for the other stations.
    #[must_use]
    pub fn wait_for_others(self, times: Times) -> Duration {
        match self {
            Self::PointToPoint => Duration::ZERO,
            Self::Jitter { limit } => limit + times.slot,
            Self::Slotted { stations, .. } => times.slot * u32::from(stations),
        }
    }

    /// The longest exchange while nobody else waits; while somebody does, it is `exchange`. The pause
    /// in which others may begin takes one part in `PAUSE_SHARE` of the time.
    #[must_use]
    pub fn longest_exchange(self, times: Times, exchange: Duration) -> Duration {
        exchange.max(self.wait_for_others(times) * PAUSE_SHARE)
    }
}

/// Durations on this frequency.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// The delay of our answer after a reception, so that the layers above can answer too.
    pub gather: Duration,
    /// The time from the decision to transmit until others notice: switching, preamble, a margin.
    pub slot: Duration,
    /// The time from the end of a transmission until an answer to it must have begun.
    pub answer: Duration,
}

/// While nobody else waits, an exchange lasts this many times as long as the pause after it, in which
/// others may begin.
const PAUSE_SHARE: u32 = 40;
