//! Estimates the loss rate of the path and the length of loss bursts.
//!
//! Reports carry totals, so a lost report loses no information.

use std::time::Duration;

use base::time::Time;

/// The memory of the estimate, in datagrams.
const MEMORY: f64 = 1_000.0;
/// The memory of a short-term estimate, which detects changes of the path.
const SHORT_MEMORY: f64 = 100.0;
/// The path has changed if the two estimates differ by this many standard deviations.
const CHANGE: f64 = 3.0;
/// Prior count of received datagrams: the first loss must not mean a bad path.
const PRIOR: f64 = 10.0;
/// The number of loss bursts from which their mean length counts.
const RUNS: f64 = 4.0;
const MAX_BURST: f64 = 64.0;
/// Prior count of lost datagrams where the worst is to be expected of a path that is hardly known: with
/// [`PRIOR`], 5 % on one that is not known at all.
const PRIOR_LOST: f64 = 0.5;
/// What was measured so long ago counts half.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The loss rate and the burstiness of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loss {
    newest: u64,
    received: u64,
    runs: u64,
    /// When the newest report came.
    at: Time,
    long: Tally,
    short: Tally,
}

/// Sums in which older datagrams weigh less.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: f64,
    lost: f64,
    runs: f64,
}

impl Loss {
    /// Takes the totals of the peer: the greatest number received plus one, datagrams received, and
    /// bursts of lost datagrams.
    pub fn handle_counts(&mut self, now: Time, newest: u64, received: u64, runs: u64) {
        if newest <= self.newest {
            return;
        }
        self.at = now;
        let sent = (newest - self.newest) as f64;
        let lost = sent - received.saturating_sub(self.received) as f64;
        let runs_more = runs.saturating_sub(self.runs) as f64;
        (self.newest, self.received, self.runs) = (newest, received, runs);
        self.long.add(sent, lost, runs_more, MEMORY);
        self.short.add(sent, lost, runs_more, SHORT_MEMORY);

        let (long, short) = (self.long.rate(), self.short.rate());
        let spread = (long * (1.0 - long) * self.burst() / SHORT_MEMORY + 1e-4).sqrt();
        if self.short.sent >= SHORT_MEMORY / 2.0 && (long - short).abs() > CHANGE * spread {
            self.long = self.short;
        }
    }

    /// Forgets all measurements, because the path is another. The totals go on.
    pub fn restart(&mut self) {
        let Self { newest, received, runs, .. } = *self;
        *self = Self { newest, received, runs, ..Self::default() };
    }

    /// The probability that a datagram is lost, 0 to 0.9.
    pub fn rate(&self) -> f64 {
        self.long.rate()
    }

    /// The loss rate that has to be feared: a standard deviation above the estimate, and the more above it
    /// the less was measured and the longer ago.
    pub fn feared(&self, now: Time) -> f64 {
        let weight = libm::exp2(-now.since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64());
        let measured = PRIOR + weight * self.long.sent;
        let p = (PRIOR_LOST + weight * self.long.lost) / measured;
        // Many paths lose nothing at all, so the fear fades faster where no loss was seen.
        let is_clean = self.long.lost < PRIOR_LOST;
        let p = if is_clean { p * (PRIOR / measured).sqrt() } else { p };
        let spread = self.rate() * (1.0 - self.rate()) / measured;
        (p + spread.sqrt()).clamp(self.rate(), 0.9)
    }

    /// The mean length of a loss burst, in datagrams, at least 1.
    pub fn burst(&self) -> f64 {
        if self.long.runs < RUNS {
            return 1.0;
        }
        (self.long.lost / self.long.runs).clamp(1.0, MAX_BURST)
    }

    /// The index of dispersion: the variance of the number of losses among many datagrams, relative to
    /// independent losses (Gilbert's model, with all datagrams of a burst lost).
    pub fn dispersion(&self) -> f64 {
        let independent = 1.0 / (1.0 - self.rate());
        (2.0 * self.burst().max(independent) * (1.0 - self.rate()) - 1.0).max(1.0)
    }
}

impl Tally {
    fn add(&mut self, sent: f64, lost: f64, runs: f64, memory: f64) {
        let kept = libm::exp(-sent / memory);
        self.sent = self.sent * kept + sent;
        self.lost = self.lost * kept + lost;
        self.runs = self.runs * kept + runs;
    }

    fn rate(&self) -> f64 {
        (self.lost / (self.sent + PRIOR)).clamp(0.0, 0.9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate after `count` more datagrams, of which every `every`th is lost; reported by tens.
    fn after(loss: &mut Loss, count: u64, every: u64) -> f64 {
        for _ in 0..count / 10 {
            let few = u64::from(loss.newest % every < 10);
            let (newest, lost) = (loss.newest + 10, if every < 10 { 10 / every } else { few });
            let (received, runs) = (loss.received + 10 - lost, loss.runs + lost);
            loss.handle_counts(Time::ZERO, newest, received, runs);
        }
        loss.rate()
    }

    #[test]
    fn a_change_of_the_loss_is_noticed_within_150_datagrams() {
        let mut loss = Loss::default();
        assert!(after(&mut loss, 3_000, 100) < 0.012);

        let worse = after(&mut loss, 100, 5);
        let better = after(&mut loss, 150, 1_000_000_000);

        assert!((0.09..0.15).contains(&worse), "{worse}");
        assert!(better < worse / 1.5, "{better}");
    }

    #[test]
    fn what_is_feared_is_above_the_estimate_by_what_is_not_known() {
        let mut loss = Loss::default();
        assert!((loss.feared(Time::ZERO) - 0.05).abs() < 1e-9);

        after(&mut loss, 3_000, 10);
        let known = loss.feared(Time::ZERO);
        assert!((0.105..0.112).contains(&known), "{known}");

        let later = loss.feared(Time::ZERO + 10 * HALF_LIFE);
        assert!(later >= loss.rate(), "never below the estimate: {later}");
        let mut half = Loss::default();
        after(&mut half, 3_000, 2);
        let above = half.feared(Time::ZERO) - half.rate();
        assert!((0.014..0.02).contains(&above), "{above}");
        let mut few = Loss::default();
        few.handle_counts(Time::ZERO, 150, 150, 0);
        assert!(few.feared(Time::ZERO) < 0.001, "150 datagrams without a loss are enough");
        let mut clean = Loss::default();
        after(&mut clean, 3_000, 1_000_000_000_000);
        let later = |minutes| clean.feared(Time::ZERO + HALF_LIFE * minutes);
        assert!(later(0) < 0.001 && (0.001..0.01).contains(&later(4)) && later(20) > 0.04);
    }
}
