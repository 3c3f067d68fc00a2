//! Datagrams sent, received and lost in each round trip, and the usual loss of the path.

use super::Feedback;

/// A loss is unusual if it exceeds the usual one by this many deviations.
const DEVIATIONS: f64 = 4.0;
/// The number of datagrams over which the usual loss is averaged.
const MEMORY: f64 = 300.0;
/// The number of datagrams after which the usual loss is known.
const KNOWN: f64 = 100.0;
/// Where congestion shows by loss alone, the losses have become more if twice the usual ones and this part
/// of the datagrams explain them so much better than the usual ones do: by this logarithm of likelihoods.
const MORE: f64 = 0.02;
const SURE: f64 = 2.3;
/// Lower usual loss rates count as this rate: a single loss is a sign then.
const RARE: f64 = 0.000_5;
/// The loss of so many datagrams in succession is at least that of the path.
const BLOCK: f64 = 50.0;

/// Counts from the beginning of a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    from: Option<(u64, u64)>,
    /// The longest queue in this round trip, in seconds.
    queue: f64,
}

/// A round trip that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub(super) sent: f64,
    pub(super) lost: f64,
    pub(super) queue: f64,
}

/// Datagrams sent and lost in succession.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    sent: f64,
    lost: f64,
}

/// The usual loss, which is no sign of congestion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ambient {
    mean: f64,
    /// The number of datagrams in the mean, while they are few.
    counted: f64,
    /// The recent loss, whatever its cause.
    recent: f64,
    /// The mean deviation of a round trip's loss from it, relative to that of independent losses.
    spread: f64,
    /// The evidence that losses have become more.
    suspicion: f64,
    /// Successive datagrams in that phase.
    block: Block,
}

impl Round {
    /// Takes a sample of the queue, in seconds.
    pub fn note_queue(&mut self, queue: f64) {
        self.queue = self.queue.max(queue);
    }

    /// The longest queue in this round trip, in seconds.
    pub fn queue(&self) -> f64 {
        self.queue
    }

    /// The round trip ends with `report`, and the next one begins.
    pub fn end(&mut self, report: &Feedback) -> Option<Ended> {
        let queue = self.queue;
        let from = self.from.replace((report.newest, report.received));
        self.queue = 0.0;
        let (newest, received) = from?;
        let sent = report.newest.saturating_sub(newest) as f64;
        let received = report.received.saturating_sub(received) as f64;
        Some(Ended { sent, lost: (sent - received).max(0.0), queue })
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Ambient {
    /// The usual loss of the path.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The recent loss, whatever its cause.
    pub fn recent(&self) -> f64 {
        self.recent
    }

    /// A test found this loss to be usual.
    pub fn set_mean(&mut self, loss: f64) {
        self.mean = loss;
    }

    /// The usual loss is at most this.
    pub fn limit_mean(&mut self, loss: f64) {
        self.mean = self.mean.min(loss);
    }

    /// Takes the loss of a round trip with or without congestion.
    pub fn note(&mut self, round: &Ended) {
        if round.sent >= 1.0 {
            let part = (round.sent / MEMORY).min(0.25);
            self.recent += (round.lost / round.sent - self.recent) * part;
        }
    }

    /// Takes the loss of a round trip without congestion.
    pub fn learn(&mut self, round: &Ended) {
        if round.sent < 1.0 {
            return;
        }
        self.counted = (self.counted + round.sent).min(MEMORY);
        let part = round.sent / self.counted.max(4.0 * round.sent);
        let expected = self.mean * round.sent;
        let usual = (expected * (1.0 - self.mean)).max(0.25).sqrt();
        self.spread += ((round.lost - expected).abs() / usual - self.spread) * part;
        self.mean += (round.lost / round.sent - self.mean) * part;
        self.mean = self.mean.clamp(0.0, 0.95);
    }

    /// Takes a round trip in a phase in which congestion shows by loss alone; whether losses have become
    /// more (Page's cumulative sum of the logarithm of likelihoods, 1954).
    pub fn is_rising(&mut self, round: &Ended) -> bool {
        self.block.sent += round.sent;
        self.block.lost += round.lost;
        if self.block.sent >= BLOCK {
            let block = std::mem::take(&mut self.block);
            self.mean = self.mean.min((block.lost + 1.0) / block.sent);
        }
        let usual = self.mean.max(RARE);
        let more = 2.0 * usual + MORE;
        let likelihood = round.lost * libm::log(more / usual) - round.sent * (more - usual);
        self.suspicion = (self.suspicion + likelihood).max(0.0);
        if self.suspicion < SURE {
            return false;
        }
        self.suspicion = 0.0;
        true
    }

    /// The usual loss is known from elsewhere.
    pub fn set(&mut self, loss: f64) {
        (self.mean, self.recent) = (loss, loss);
    }

    /// Whether enough datagrams were counted to know the usual loss.
    pub fn is_known(&self) -> bool {
        self.counted >= KNOWN
    }

    /// The deviation of a round trip's losses, as a multiple of the deviation of independent
    /// losses.
    pub fn spread(&self) -> f64 {
        self.spread.clamp(1.0, 5.0)
    }

    /// Whether a round trip lost more than the usual loss explains.
    pub fn is_exceeded(&self, round: &Ended) -> bool {
        if !self.is_known() {
            return false;
        }
        let expected = self.mean * round.sent;
        let usual = (expected * (1.0 - self.mean)).sqrt() * self.spread();
        round.lost > expected + DEVIATIONS * usual
    }
}
