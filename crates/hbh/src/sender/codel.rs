//! CoDel at the entrance (RFC 8289): tells senders early that a queue stays long.

use std::time::Duration;

use base::time::Time;

/// A wait that is always tolerated.
pub const TARGET: Duration = Duration::from_millis(25);
/// How long a wait may be above its target before the first packet is dropped: a round trip of a long path.
pub const INTERVAL: Duration = Duration::from_millis(400);

/// When to drop, or mark, the next packet of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codel {
    /// When the wait will have been too long for an interval.
    above_until: Option<Time>,
    /// When the next packet is dropped, while waits are too long.
    next: Option<Time>,
    /// Drops since then.
    count: u32,
}

impl Codel {
    /// Whether the first packet, which waited for `wait`, is to be dropped.
    pub fn drops(
        &mut self,
        now: Time,
        wait: Duration,
        (target, interval): (Duration, Duration),
    ) -> bool {
        if wait < target {
            self.above_until = None;
            self.next = None;
            return false;
        }
        let above_until = *self.above_until.get_or_insert(now + interval);
        match self.next {
            None if now >= above_until => {
                // A queue that was long a moment ago goes on where it was.
                self.count = if self.count > 2 { self.count - 2 } else { 1 };
            }
            Some(next) if now >= next => self.count = self.count.saturating_add(1),
            _ => return false,
        }
        let pause = interval.as_secs_f64() / f64::from(self.count).sqrt();
        self.next = Some(self.next.unwrap_or(now) + Duration::from_secs_f64(pause));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: (Duration, Duration) = (TARGET, INTERVAL);

    #[test]
    fn a_short_wait_or_a_burst_drops_nothing() {
        let mut codel = Codel::default();
        for ms in 0..2_000 {
            let wait = if ms % 390 < 380 { TARGET * 2 } else { TARGET / 2 };
            assert!(!codel.drops(at(ms), wait, SETTING), "{ms}");
        }
    }

    #[test]
    fn drops_come_ever_sooner_while_waits_stay_long() {
        let mut codel = Codel::default();

        let drops: Vec<u64> =
            (0..3_000).filter(|&ms| codel.drops(at(ms), TARGET * 2, SETTING)).collect();

        // 400 ms, then pauses of 400 / sqrt(1, 2, 3 ...).
        assert_eq!(drops[..5], [400, 800, 1_083, 1_314, 1_514]);
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }
}
