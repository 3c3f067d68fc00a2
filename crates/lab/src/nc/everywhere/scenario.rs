//! A place of the matrix: a path, its senders and their traffic.

use std::fmt;
use std::time::Duration;

use crate::prelude::*;
use base::quantity::Probability;
use sim::channel::{BadLoss, Fades, GilbertElliott, Loss};

/// A scenario, which is tried each [`Way`](super::Way).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    pub path: Path,
    pub load: Load,
}

/// The bottleneck, the same both ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    pub kbit_per_s: u32,
    /// Milliseconds there and back, without queues.
    pub round_trip: u32,
    /// The most packets that wait before the path.
    pub buffer: u32,
    pub losses: Losses,
    pub jitter: Jitter,
}

/// Which packets are lost, with the data and against it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Losses {
    /// In bursts of [`BURST`] packets in the mean; the share of packets.
    Bursts(f64),
    /// Losses in spans of this many milliseconds; the share of time.
    Fades(f64, u32),
    /// None but where buffers are full.
    None,
    /// Each on its own; the share of packets.
    Single(f64),
}

/// Packets of a mean burst.
pub const BURST: f64 = 5.0;

/// How the delay varies, by so many milliseconds either way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Jitter {
    InOrder(u32),
    None,
    /// Packets may overtake.
    Reordering(u32),
}

/// Who sends what.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Load {
    /// Downloads without end.
    pub down: u16,
    /// The same against them.
    pub up: u16,
    /// Octets of pages fetched one by one, each over its own connection.
    pub page: Option<u32>,
    /// A voice of 64 kbit/s, with the downloads.
    pub has_voice: bool,
    /// A download with CUBIC past the tunnel.
    pub has_rival: bool,
}

impl Load {
    pub const ONE: Self = Self { down: 1, up: 0, page: None, has_voice: false, has_rival: false };
    pub const TEN: Self = Self { down: 10, ..Self::ONE };
    pub const BOTH_WAYS: Self = Self { up: 1, has_voice: true, ..Self::ONE };
    pub const VOICE: Self = Self { down: 0, has_voice: true, ..Self::ONE };
    pub const BESIDE_VOICE: Self = Self { has_voice: true, ..Self::ONE };
    pub const BESIDE_CUBIC: Self = Self { has_rival: true, ..Self::ONE };

    pub fn page(octets: u32) -> Self {
        Self { down: 0, page: Some(octets), ..Self::ONE }
    }
}

impl Path {
    /// A clean path whose buffer holds a round trip, but at least 10 packets and at most 400.
    pub fn new(kbit_per_s: u32, round_trip: u32) -> Self {
        let octets = kbit_per_s * round_trip / 8;
        Self {
            kbit_per_s,
            round_trip,
            buffer: octets.div_ceil(1_500).clamp(10, 400),
            losses: Losses::None,
            jitter: Jitter::None,
        }
    }

    pub fn losing(self, losses: Losses) -> Self {
        Self { losses, ..self }
    }

    pub fn with_buffer(self, buffer: u32) -> Self {
        Self { buffer, ..self }
    }

    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    pub fn loading(self, load: Load) -> Scenario {
        Scenario { path: self, load }
    }

    pub fn round_trip(&self) -> Duration {
        Duration::from_millis(u64::from(self.round_trip))
    }

    /// The loss of the path, in one direction.
    pub fn loss(&self) -> Result<Loss, BadLoss> {
        let share = |share| Probability::new(share).unwrap_or_default();
        Ok(match self.losses {
            Losses::Bursts(mean) => {
                Loss::GilbertElliott(GilbertElliott::from_bursts(share(mean), BURST)?)
            }
            Losses::Fades(mean, millis) => {
                let length = Duration::from_millis(u64::from(millis));
                Loss::Fades(Fades::new(share(mean), length)?)
            }
            Losses::None => Loss::None,
            Losses::Single(mean) => Loss::random(share(mean)),
        })
    }
}

impl Scenario {
    /// How often to run it at most: seldom where a run takes long.
    pub fn most_runs(&self) -> u32 {
        match (self.load.page, self.path.kbit_per_s) {
            (Some(_), _) => 10,
            (None, ..=10_000) => 6,
            (None, _) => 4,
        }
    }

    /// How long downloads and voice go on.
    pub fn length(&self) -> Duration {
        let (slow, fast) = if self.load.has_rival { (60, 30) } else { (15, 8) };
        let seconds = match self.path.kbit_per_s {
            ..=1_000 => 2 * slow,
            1_001..=10_000 => slow,
            // The buffer is a fraction of a thousandth of a second: most is lost, and all of it repaired.
            _ if self.path.buffer < 10 => 2,
            _ => fast,
        };
        Duration::from_secs(seconds) + 20 * self.path.round_trip()
    }

    /// What at the beginning does not count.
    pub fn warm_up(&self) -> Duration {
        // A share is measured once flows have found their rates; otherwise the start is a part of a download.
        if self.load.has_rival { self.length() / 3 } else { Duration::ZERO }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.path, self.load)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kbit_per_s, round_trip, buffer, losses, jitter } = self;
        let mbit = f64::from(*kbit_per_s) / 1e3;
        write!(f, "{mbit} Mbit/s, {round_trip} ms, {buffer} packets")?;
        match losses {
            Losses::Bursts(mean) => write!(f, ", bursts {}", percent(*mean))?,
            Losses::Fades(mean, millis) => {
                write!(f, ", fades {} of {millis} ms", percent(*mean))?;
            }
            Losses::None => {}
            Losses::Single(mean) => write!(f, ", loss {}", percent(*mean))?,
        }
        match jitter {
            Jitter::InOrder(millis) => write!(f, ", jitter {millis} ms"),
            Jitter::None => Ok(()),
            Jitter::Reordering(millis) => write!(f, ", reordering {millis} ms"),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { down, up, page, has_voice, has_rival } = *self;
        if let Some(octets) = page {
            return write!(f, "pages of {} kB", octets / 1_000);
        }
        let flows = match (down, up) {
            (0, 0) => "",
            (1, 0) => "one flow",
            (1, 1) => "one flow each way",
            (_, 0) => "ten flows",
            _ => "ten flows each way",
        };
        f.write_str(flows)?;
        match (has_voice, flows.is_empty()) {
            (true, true) => f.write_str("voice")?,
            (true, false) => f.write_str(" and voice")?,
            (false, _) => {}
        }
        f.write_str(if has_rival { " beside CUBIC" } else { "" })
    }
}
