//! Recognizes delay that only looks like a queue: if more is in flight and the delay stays, the path is not
//! full.
//!
//! Where packets stay in order, each waits for the slowest before it, so jitter looks like a queue that no
//! smaller window shortens. A queue grows with the window; this delay does not. So where there is jitter, the
//! window grows for two round trips now and then, and shows which of both it is.

/// The window grows by this factor in a trial.
pub const RAISE: f64 = 1.25;
/// The path is not full if the delay grows by less than this part of what a full one would show.
const LITTLE: f64 = 0.35;
/// There is no trial while the jitter is less than this part of the target of the queue.
const NOTABLE: f64 = 0.5;
/// The delay that is no queue is at most this multiple of the jitter.
const MOST: f64 = 6.0;
/// The estimate fades to this part with each round trip, so that trials measure the delay again.
const FADE: f64 = 0.98;
/// A trial takes this many round trips after the round trip in which its first datagram was
/// reported.
const ROUNDS: u32 = 1;
/// In startup a delay is doubtful up to this multiple of the jitter beyond the delay of a queue of ours,
/// where this part of a datagram's time is usual: datagrams leave in pairs.
const DOUBTFUL: f64 = 10.0;
const USUAL: f64 = 0.5;
/// The memory of the jitter, in reports.
const MEMORY: f64 = 32.0;
/// Round trips to the next trial after one that found the path full; they double each time.
const PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 64;

/// The delay not caused by a queue, and the trials that find it. Times are in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bias {
    delay: f64,
    /// How much the delay of a report differs from those around it, and of how many reports the mean is.
    jitter: f64,
    reports: f64,
    /// The delays of the last reports.
    last: [f64; 2],
    /// The mean delay of the present round trip, and those of the last ones.
    present: Mean,
    means: [Option<f64>; 2],
    trial: Option<Trial>,
    /// Round trips to the next trial, and to the one after that.
    wait: u32,
    pause: u32,
}

/// A trial, during which the window is greater.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The window and the delay before it.
    window: f64,
    before: f64,
    /// By how much the delay grows on a full path.
    expected: f64,
    /// The first number sent with the greater window.
    from: u64,
    /// Round trips that ended since this number was reported, and their mean delay.
    rounds: u32,
    during: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn get(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Bias {
    /// Takes a report up to number `newest`: by how much its own delay exceeds the least one, and by how much
    /// the least of a short time does.
    pub fn handle_report(&mut self, newest: u64, own: f64, delay: f64) {
        let [last, before] = self.last;
        self.last = [own, last];
        // A queue that grows or shrinks evenly is no jitter.
        self.reports = (self.reports + 1.0).min(MEMORY);
        self.jitter += ((own - 2.0 * last + before).abs() / 2.0 - self.jitter) / self.reports;
        self.present.add(delay);
        if let Some(trial) = &mut self.trial
            && newest >= trial.from
        {
            trial.during.add(delay);
        }
    }

    /// The delay that is no queue.
    pub fn delay(&self) -> f64 {
        self.delay.min(MOST * self.jitter)
    }

    /// What jitter may look like in startup, before a trial can tell; a datagram takes `datagram` seconds.
    pub fn doubtful(&self, datagram: f64) -> f64 {
        DOUBTFUL * (self.jitter - USUAL * datagram).max(0.0)
    }

    /// A round trip has ended with the report of `newest`.
    pub fn end_round(&mut self, newest: u64) {
        self.means = [std::mem::take(&mut self.present).get(), self.means[0]];
        self.wait = self.wait.saturating_sub(1);
        self.delay *= FADE;
        if let Some(trial) = &mut self.trial
            && newest >= trial.from
        {
            trial.rounds += 1;
        }
    }

    /// Begins a trial if it is time for one, with number `next`; `target` is the queue's target, `turn` the
    /// round trip. The window is to be [`RAISE`] times as great then.
    pub fn begin(&mut self, window: f64, target: f64, turn: f64, next: u64) -> bool {
        let [Some(before), Some(earlier)] = self.means else { return false };
        let expected = (RAISE - 1.0) * turn;
        let is_steady = (before - earlier).abs() < LITTLE * expected;
        if self.wait > 0 || self.jitter < NOTABLE * target || !is_steady {
            return false;
        }
        let during = Mean::default();
        self.trial = Some(Trial { window, before, expected, from: next, rounds: 0, during });
        true
    }

    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Ends the trial once it has lasted long enough. Returns the window before it if that filled the path.
    pub fn end(&mut self) -> Option<f64> {
        let trial = self.trial.take_if(|trial| trial.rounds > ROUNDS)?;
        let delay = trial.during.get()?;
        if delay - trial.before < LITTLE * trial.expected {
            self.delay = delay.min(trial.before);
            self.pause = PAUSE;
            return None;
        }
        self.wait = self.pause;
        self.pause = (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE);
        Some(trial.window)
    }

    /// Forgets a trial, because the window has changed for another reason.
    pub fn abandon(&mut self) {
        self.trial = None;
    }
}
