//! The least window that brought the most: what is added to it has to bring more.

use super::round::Ended;

/// Round trips without growth after some of it was in vain; twice as many the next time.
const PAUSE: u32 = 16;
const LONGEST_PAUSE: u32 = 128;
/// Loss by which a larger window has to be worse.
const WORSE: f64 = 0.04;
const DEVIATIONS: f64 = 4.0;

/// The most that came through, and with which window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Best {
    /// Datagrams a second.
    rate: f64,
    /// Octets.
    pub(super) window: f64,
    /// The loss then.
    loss: f64,
    /// The window a round trip ago, which the counts of this one are due to.
    before: f64,
    pause: u32,
    next_pause: u32,
}

impl Best {
    /// Whether the window is not to grow.
    pub(super) fn is_pausing(&self) -> bool {
        self.pause > 0
    }

    /// Takes in a round trip. Says whether a window of more than `factor` of the best brought
    /// nothing but loss; `spread` is how far losses stray, as a multiple of independent ones.
    pub(super) fn is_wasteful(
        &mut self,
        window: f64,
        ended: &Ended,
        factor: f64,
        is_queueing: bool,
        spread: f64,
    ) -> bool {
        let window = std::mem::replace(&mut self.before, window);
        if ended.sent < 1.0 || window == 0.0 {
            return false;
        }
        self.pause = self.pause.saturating_sub(1);
        self.rate *= 0.998;
        let loss = ended.lost / ended.sent;
        let usual = (self.loss * (1.0 - self.loss)).max(0.01) / ended.sent;
        let is_worse = loss > self.loss + WORSE.max(DEVIATIONS * spread * usual.sqrt());
        let gain = (window / self.window.max(1.0) - 1.0).max(0.0);
        if self.window == 0.0
            || ended.rate > (1.0 + gain / 2.0).max(1.1) * self.rate
            || is_queueing && !is_worse
        {
            if self.window == 0.0 {
                self.loss = loss;
            }
            (self.rate, self.window) = (ended.rate, window);
            self.loss += (loss - self.loss) / 8.0;
            return false;
        }
        if window < 1.02 * self.window {
            self.loss += (loss - self.loss) / 8.0;
            if ended.rate > 0.98 * self.rate {
                self.window = window;
            }
            return false;
        }
        let is_wasteful = window > factor * self.window && is_worse;
        if is_wasteful {
            self.next_pause = (2 * self.next_pause).clamp(PAUSE, LONGEST_PAUSE);
            self.pause = self.next_pause;
        }
        is_wasteful
    }
}
