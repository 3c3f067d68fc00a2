//! NewReno: slow start, congestion avoidance, and halving (RFC 5681, 3).

use base::time::Time;

use super::congestion::{Ack, CongestionControl, Growth, Verdict, Window};

/// The standard congestion control.
#[derive(Clone, Debug)]
pub struct NewReno {
    growth: Growth,
    /// Octets acknowledged since the window last grew, in congestion avoidance.
    counted: u64,
}

impl NewReno {
    /// Starts in slow start.
    #[must_use]
    pub fn new(growth: Growth) -> Self {
        Self { growth, counted: 0 }
    }
}

impl CongestionControl for NewReno {
    fn on_ack(&mut self, _now: Time, window: &mut Window, ack: &Ack) -> Verdict {
        if ack.in_recovery || !ack.is_window_limited {
            return Verdict::Continue;
        }
        let mss = window.mss;
        match self.growth {
            Growth::Octets { limit } if window.cwnd < window.ssthresh => {
                window.cwnd += ack.octets.min(u64::from(limit.max(1)) * mss);
            }
            Growth::Octets { .. } => {
                self.counted += ack.octets;
                if self.counted >= window.cwnd {
                    self.counted -= window.cwnd;
                    window.cwnd += mss;
                }
            }
            Growth::PerAck if window.cwnd < window.ssthresh => window.cwnd += mss,
            Growth::PerAck => window.cwnd += (mss * mss / window.cwnd.max(1)).max(1),
        }
        Verdict::Continue
    }

    fn on_loss(&mut self, _now: Time, window: &mut Window, flight: u64) {
        self.counted = 0;
        window.ssthresh = half(flight, window.mss);
        window.cwnd = window.ssthresh;
    }

    fn on_timeout(&mut self, _now: Time, window: &mut Window, flight: u64, is_first: bool) {
        self.counted = 0;
        if is_first {
            window.ssthresh = half(flight, window.mss);
        }
        window.cwnd = window.mss;
    }
}

/// RFC 5681, (4).
fn half(flight: u64, mss: u64) -> u64 {
    (flight / 2).max(2 * mss)
}
