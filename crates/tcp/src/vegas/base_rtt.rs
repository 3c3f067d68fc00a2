//! Estimates BaseRTT, the round-trip time of an empty path.

use std::time::Duration;

use super::Rebase;

/// The least round-trip time that counts.
#[derive(Clone, Debug)]
pub struct Base {
    rebase: Rebase,
    least: Option<Duration>,
    /// The TTL of the last acknowledgement.
    ttl: Option<u8>,
    /// Rounds left until the minimum of a single round counts.
    settling: u8,
    /// Whether the window is to stay at its floor until then.
    is_draining: bool,
    /// The least round-trip time of the present round.
    least_now: Option<Duration>,
    /// Round trips in a row that had nothing near the least.
    far: u32,
    /// Whether a sample of this round trip was near the least.
    is_near: bool,
    rebased: u64,
}

impl Base {
    pub fn new(rebase: Rebase) -> Self {
        Self {
            rebase,
            least: None,
            ttl: None,
            settling: 0,
            is_draining: false,
            least_now: None,
            far: 0,
            is_near: false,
            rebased: 0,
        }
    }

    /// An acknowledgement came with so many hops left.
    pub fn take_ttl(&mut self, ttl: u8) {
        let before = self.ttl.replace(ttl);
        if self.rebase == Rebase::Hops && before.is_some_and(|before| before != ttl) {
            // Data in flight went half over the old path, so the round trip after this one counts.
            self.settling = 2;
        }
    }

    /// A segment took so long.
    pub fn sample(&mut self, rtt: Duration) {
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        self.is_near |= rtt <= least + least / 8;
        self.least_now = Some(self.least_now.map_or(rtt, |least| least.min(rtt)));
    }

    /// Ends a round with this round-trip time; returns the least known, or `rtt` itself if it `is_alone`.
    pub fn end_round(&mut self, rtt: Duration, is_alone: bool) -> Duration {
        self.sample(rtt);
        self.far = if self.is_near { 0 } else { self.far + 1 };
        if self.settling > 0 {
            self.settle();
        } else if matches!(self.rebase, Rebase::Rounds(rounds) if self.far >= rounds.max(1)) {
            // Our own queue may cause the distance: use one round trip to drain the queue, and one to measure.
            self.settling = 2;
            self.is_draining = true;
        }
        self.least_now = None;
        self.is_near = false;
        if is_alone {
            self.least = Some(rtt);
        }
        self.least.unwrap_or(rtt)
    }

    fn settle(&mut self) {
        self.settling -= 1;
        if self.settling == 0 {
            self.least = self.least_now;
            self.is_draining = false;
            self.far = 0;
            self.rebased += 1;
        }
    }

    /// Whether the window stays at its floor, so that our own queue does not spoil the measurement.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// A loss came between: the least stays.
    pub fn stop_draining(&mut self) {
        if self.is_draining {
            self.settling = 0;
            self.is_draining = false;
        }
    }

    /// The least, and how often it was forgotten.
    pub fn finding(&self) -> (Duration, u64) {
        (self.least.unwrap_or_default(), self.rebased)
    }
}
