//! HyStart++: leaves slow start when the round-trip time grows, before packets are lost (RFC 9406).

use std::time::Duration;

use super::congestion::Ack;

/// RFC 9406, 4.3, for all of these.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const RTT_SAMPLES: u32 = 8;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// What the round-trip times of a first slow start tell.
#[derive(Clone, Debug, Default)]
pub struct HyStart {
    /// Octets to be acknowledged until the round is over.
    left: u64,
    /// The shortest round-trip times of the last round and of this one, and the number of samples in this round.
    last: Option<Duration>,
    current: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Slow start that may be over.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The round-trip time that seemed to have grown: a later fall below this value refutes the growth.
    baseline: Duration,
    rounds: u32,
}

/// How fast the window may grow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// As in slow start, but slower by `HyStart::GROWTH_DIVISOR`.
    Conservative,
    /// Slow start is over.
    Done,
    /// As in slow start.
    SlowStart,
}

impl HyStart {
    /// Segments by which one acknowledgement opens the window, without pacing.
    pub const LIMIT: u64 = 8;
    /// By what growth is divided while slow start may be over.
    pub const GROWTH_DIVISOR: u64 = 4;

    /// Takes an acknowledgement.
    pub fn handle_ack(&mut self, ack: &Ack) -> Phase {
        if let Some(rtt) = ack.rtt {
            self.samples += 1;
            self.current = Some(self.current.map_or(rtt, |current| current.min(rtt)));
        }
        if self.samples >= RTT_SAMPLES {
            self.judge();
        }
        self.left = self.left.saturating_sub(ack.octets);
        if self.left == 0 {
            self.start_round(ack.flight_after);
        }
        match self.conservative {
            Some(Conservative { rounds, .. }) if rounds >= CONSERVATIVE_ROUNDS => Phase::Done,
            Some(_) => Phase::Conservative,
            None => Phase::SlowStart,
        }
    }

    fn judge(&mut self) {
        let Some(current) = self.current else { return };
        if let Some(Conservative { baseline, .. }) = self.conservative {
            if current < baseline {
                self.conservative = None;
            }
            return;
        }
        let Some(last) = self.last else { return };
        let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        if current >= last + threshold {
            self.conservative = Some(Conservative { baseline: current, rounds: 0 });
        }
    }

    /// A round ends when all that is in flight now is acknowledged.
    fn start_round(&mut self, flight: u64) {
        self.left = flight;
        self.last = self.current.take();
        self.samples = 0;
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds += 1;
        }
    }
}
