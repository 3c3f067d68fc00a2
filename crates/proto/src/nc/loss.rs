//! Estimates the loss rate of the path and the length of loss bursts.
//!
//! Reports carry totals, so a lost report loses no information.

/// The memory of the estimate, in datagrams.
const MEMORY: f64 = 1_000.0;
/// The memory of a short-term estimate, which detects changes of the path.
const SHORT_MEMORY: f64 = 100.0;
/// The path has changed if the two estimates differ by this many standard deviations.
const CHANGE: f64 = 3.0;
/// Prior count of datagrams that arrived: the first loss must not mean a bad path.
const PRIOR: f64 = 10.0;
/// The number of loss bursts from which their mean length counts.
const RUNS: f64 = 4.0;
const MAX_BURST: f64 = 64.0;

/// The loss rate and the burstiness of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    newest: u64,
    received: u64,
    runs: u64,
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
    pub(super) fn handle_counts(&mut self, newest: u64, received: u64, runs: u64) {
        if newest <= self.newest {
            return;
        }
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

    /// The probability that a datagram is lost, 0 to 0.9.
    pub(super) fn rate(&self) -> f64 {
        self.long.rate()
    }

    /// The mean length of a loss burst, in datagrams, at least 1.
    pub(super) fn burst(&self) -> f64 {
        if self.long.runs < RUNS {
            return 1.0;
        }
        (self.long.lost / self.long.runs).clamp(1.0, MAX_BURST)
    }

    /// The index of dispersion: the variance of the number of losses among many datagrams, divided by
    /// what it would be if each was lost independently (Gilbert's model, in which a burst loses all).
    pub(super) fn dispersion(&self) -> f64 {
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
