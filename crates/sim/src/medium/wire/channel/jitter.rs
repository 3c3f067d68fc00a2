//! Jitter of packet delays: independent per packet, or without reordering.

use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, nanos};

/// Generator of jitter for one direction of a link, from 0 to twice the bound.
///
/// If packets may overtake, each draws its jitter uniformly. If packets stay in order, the jitter is a
/// function of the sending time: straight lines between points twice the bound apart, each drawn uniformly.
/// The jitter never falls faster than time goes on, so order is kept without holding packets back. The mean
/// equals the mean of the draws at any spacing of packets.
#[derive(Clone, Debug)]
pub struct Jitter {
    rng: Rng,
    /// Where the first point lies, drawn with the first packet.
    phase: Option<u64>,
    /// The line that the last packet was on, and its ends.
    line: u64,
    from: u64,
    to: u64,
}

impl Jitter {
    pub fn new(rng: Rng) -> Self {
        Self { rng, phase: None, line: 0, from: 0, to: 0 }
    }

    /// The jitter of a packet sent at `sent`. Calls must not go back in time.
    pub fn next(&mut self, sent: Time, bound: Duration, may_overtake: bool) -> Duration {
        let width = bound.saturating_mul(2);
        let period = nanos(width);
        if may_overtake || period == 0 {
            return self.rng.within(width);
        }
        let is_first = self.phase.is_none();
        let phase = *self.phase.get_or_insert_with(|| nanos(self.rng.within(width)));
        let place = sent.as_nanos().saturating_add(phase);
        let (line, within) = (place / period, place % period);
        if is_first || line != self.line {
            let is_next = !is_first && line == self.line + 1;
            self.from = if is_next { self.to } else { nanos(self.rng.within(width)) };
            self.to = nanos(self.rng.within(width));
            self.line = line;
        }
        let share = |end: u64, of: u64| u128::from(end) * u128::from(of) / u128::from(period);
        let jitter = share(self.from, period - within) + share(self.to, within);
        Duration::from_nanos(u64::try_from(jitter).unwrap_or(u64::MAX))
    }
}
