//! How stations that share a frequency are kept apart, after Annex K; its times are ours.

use std::time::Duration;

/// How stations that want to transmit are kept apart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Two stations that alternate.
    #[default]
    PointToPoint,
    /// Any number: each waits for a random time once the frequency is free.
    Jitter {
        /// The longest wait.
        limit: Duration,
    },
    /// A few stations, each in slots of its own, over and over, once the frequency is free.
    Slotted {
        /// This station's place, from 0.
        position: u8,
        /// How many there are.
        stations: u8,
    },
}

impl Access {
    /// How long those wait who have had a turn, for those who have not.
    #[must_use]
    pub fn wait_for_others(self, times: Times) -> Duration {
        match self {
            Self::PointToPoint => Duration::ZERO,
            Self::Jitter { limit } => limit + times.slot,
            Self::Slotted { stations, .. } => times.slot * u32::from(stations),
        }
    }

    /// How long an exchange may last while nobody else waits; while somebody does, it is `exchange`.
    /// Pausing to ask whether others wait then costs one part in [`WORTH`] of the time.
    #[must_use]
    pub fn longest_exchange(self, times: Times, exchange: Duration) -> Duration {
        exchange.max(self.wait_for_others(times) * WORTH)
    }
}

/// How long things take on this frequency.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// Between the end of what was heard and our answer, for the layers above to answer too.
    pub gather: Duration,
    /// From the decision to transmit until others notice: switching, preamble, and some.
    pub slot: Duration,
    /// From the end of a transmission until an answer to it must have begun.
    pub answer: Duration,
}

/// While nobody else waits, an exchange lasts this many times as long as the pause after it, in which
/// others may begin.
const WORTH: u32 = 40;
