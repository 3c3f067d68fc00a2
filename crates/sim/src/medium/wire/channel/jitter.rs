//! How the delay of packets varies: each on its own, or so that none overtakes another.

use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, nanos};

/// The jitter of one direction of a link, from 0 to twice its bound.
///
/// Packets that may overtake draw each for itself, uniformly. For those that stay in order the jitter is a
/// function of the time at which a packet is sent: straight lines between points that lie twice the bound apart,
/// each drawn uniformly. It never falls faster than time goes on, so nothing has to be held back to keep the
/// order, and the mean is that of the draws however close packets follow each other.
#[derive(Clone, Debug)]
pub(super) struct Jitter {
    rng: Rng,
    /// Where the first point lies, drawn with the first packet.
    phase: Option<u64>,
    /// The line that the last packet was on, and its ends.
    line: u64,
    from: u64,
    to: u64,
}

impl Jitter {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, phase: None, line: 0, from: 0, to: 0 }
    }

    /// The jitter of a packet that has been sent at `sent`, which never goes back.
    pub(super) fn next(&mut self, sent: Time, bound: Duration, may_overtake: bool) -> Duration {
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
