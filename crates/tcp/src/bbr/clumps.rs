//! Measures how acknowledgements clump, so that the window lets the sender go on between two clumps.

use std::time::Duration;

use base::time::Time;

/// The greatest clump is taken over at least this many rounds, and over twice as many at most.
const ROUNDS: u32 = 5;
/// After so many octets the count begins anew.
const LONGEST: u64 = 1 << 30;
/// The window allows for at most this time at the rate of the path.
const MOST: Duration = Duration::from_millis(100);

/// What was acknowledged beyond the rate of the path (Linux: `bbr_update_ack_aggregation`).
#[derive(Clone, Debug, Default)]
pub struct Clumps {
    /// The start of a count of acknowledged octets, and the count.
    since: Option<(Time, u64)>,
    /// The greatest excess in the present rounds, and in the rounds before.
    most: [u64; 2],
    rounds: u32,
}

impl Clumps {
    /// Takes `acked` octets that were acknowledged, on a path of `rate` octets a second, with the window `cwnd`.
    pub fn take(&mut self, now: Time, acked: u64, rate: f64, cwnd: u64, is_new_round: bool) {
        if is_new_round {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.most = [0, self.most[0]];
            }
        }
        if acked == 0 || rate == 0.0 {
            return;
        }
        let expected = |since: Time| super::octets(rate * now.since(since).as_secs_f64());
        let going_on = self.since.filter(|(at, octets)| {
            *octets > expected(*at) && octets.saturating_add(acked) < LONGEST
        });
        let (at, octets) = going_on.unwrap_or((now, 0));
        let octets = octets + acked;
        self.since = Some((at, octets));
        self.most[0] = self.most[0].max(octets.saturating_sub(expected(at)).min(cwnd));
    }

    /// Octets that the window allows for.
    pub fn most(&self, rate: f64) -> u64 {
        let [now, before] = self.most;
        now.max(before).min(super::octets(rate * MOST.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// Takes 9 kB for each 10 ms, all of a `span` of ms together at its end; the path has 1 MB/s.
    fn after(clumps: &mut Clumps, begin: u64, span: u64, rounds: u64) {
        for round in 1..=rounds {
            let now = at(begin + round * span);
            for _ in 0..span / 10 {
                clumps.take(now, 9_000, 1e6, 1_000_000, false);
            }
            clumps.take(now, 0, 1e6, 1_000_000, true);
        }
    }

    #[test]
    fn what_comes_together_is_allowed_for_until_ten_rounds_have_passed() {
        let mut clumps = Clumps::default();
        after(&mut clumps, 0, 50, 4);
        assert_eq!(clumps.most(1e6), 45_000);

        after(&mut clumps, 1_000, 10, 5);
        assert_eq!(clumps.most(1e6), 45_000, "of the rounds before");
        after(&mut clumps, 1_050, 10, 5);

        assert_eq!(clumps.most(1e6), 9_000);
        assert_eq!(clumps.most(5e4), 5_000, "a tenth of a second");
    }
}
