//! Divides time into round trips, by following one segment in each.

use std::time::Duration;

use base::time::Time;

/// The round trip in progress. Places are octets since the connection began.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// Octets acknowledged so far.
    acked: u64,
    /// The place of the segment whose acknowledgement ends the round trip.
    start: u64,
    started_at: Option<Time>,
    sum: Duration,
    count: u32,
}

/// A round trip that is over.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The mean over the segments of the round, or the duration of the round.
    pub(super) rtt: Duration,
    /// Octets sent during the round.
    pub(super) sent: u64,
}

impl Rounds {
    /// Something was sent: the first round trip begins with the first.
    pub fn begin(&mut self, now: Time) {
        self.started_at.get_or_insert(now);
    }

    /// Adds the round-trip time of one segment.
    pub fn sample(&mut self, rtt: Duration) {
        self.sum += rtt;
        self.count += 1;
    }

    /// Counts acknowledged octets, given the octets in flight; returns the round trip if this acknowledgement ends one.
    pub fn advance(&mut self, now: Time, octets: u64, in_flight: u64) -> Option<Round> {
        self.acked += octets;
        if self.acked <= self.start {
            return None;
        }
        let next = self.acked + in_flight;
        let elapsed = self.started_at.map_or(Duration::ZERO, |at| now.since(at));
        let rtt = if self.count > 0 { self.sum / self.count } else { elapsed };
        let round = Round { rtt, sent: next - self.start };
        *self = Self { start: next, started_at: Some(now), acked: self.acked, ..Self::default() };
        Some(round)
    }
}
