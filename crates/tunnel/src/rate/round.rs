//! Counts the datagrams sent and lost in each round trip; learns the usual loss of the path, and whether startup has
//! filled it.

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
/// A path that carries more lets the datagrams received in a round trip grow by this factor.
const GROWING: f64 = 1.25;
/// The path is full if it does not, and this part of the datagrams is lost beyond what was lost while it
/// did.
const EXCESS: f64 = 0.1;
/// The fewest datagrams of a round trip that tell.
const FEWEST: f64 = 16.0;

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
    pub sent: f64,
    pub lost: f64,
    pub queue: f64,
}

/// Datagrams, and how many of them were lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossCount {
    pub sent: f64,
    pub lost: f64,
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
    block: LossCount,
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

    /// The round trip ends with the report of `newest`, when the peer has `received` datagrams; the next one begins.
    pub fn end(&mut self, newest: u64, received: u64) -> Option<Ended> {
        let queue = self.queue;
        let from = self.from.replace((newest, received));
        self.queue = 0.0;
        let (first, before) = from?;
        let sent = newest.saturating_sub(first) as f64;
        let received = received.saturating_sub(before) as f64;
        Some(Ended { sent, lost: (sent - received).max(0.0), queue })
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl LossCount {
    pub fn add(&mut self, sent: f64, lost: f64) {
        self.sent += sent;
        self.lost += lost;
    }

    /// Reduces the counts so far to this part.
    pub fn fade(&mut self, part: f64) {
        self.sent *= part;
        self.lost *= part;
    }

    /// The part that was lost.
    pub fn rate(&self) -> f64 {
        (self.lost / self.sent.max(1.0)).clamp(0.0, 1.0)
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
        self.block.add(round.sent, round.lost);
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

/// Decides when startup has filled a path without a visible queue: more is sent, but no more arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ramp {
    /// The most datagrams received in a round trip.
    most: f64,
    /// The round trips in which more arrived than ever before.
    growing: LossCount,
}

/// What the path carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Full {
    /// Datagrams that may be in flight.
    pub datagrams: f64,
    /// The loss rate before it was full.
    pub loss: f64,
}

impl Ramp {
    /// Takes a round trip in which the window limited the sender.
    pub fn handle_round(&mut self, ended: &Ended) -> Option<Full> {
        let received = ended.sent - ended.lost;
        let loss = self.growing.rate();
        if received >= GROWING * self.most {
            self.most = received;
            self.growing.add(ended.sent, ended.lost);
            return None;
        }
        let is_full = ended.sent >= FEWEST && ended.lost > (loss + EXCESS) * ended.sent;
        is_full.then(|| Full { datagrams: received.max(self.most) / (1.0 - loss), loss })
    }
}
