//! Tests whether our own sending causes losses: if so, a smaller window avoids the losses.
//!
//! A buffer shorter than the target of the queue, or kept full by others, shows congestion only by
//! loss, and a radio has loss as well. So additional loss is tested before it counts as the
//! path's own.

use std::time::Duration;

use base::time::Time;

use super::round::{Ended, LossCount};

/// Loss is tested if it exceeds the path's loss by this amount, by this part of the path's loss, and
/// by this many deviations of a mean over this many datagrams.
const SLACK: f64 = 0.02;
const SLACK_SHARE: f64 = 0.25;
const DEVIATIONS: f64 = 1.5;
const MEMORY: f64 = 300.0;
/// Loss beyond this share of the received datagrams is tested at once.
const GROSS: f64 = 0.3;
/// The window of the test, as a part of the data received in a round trip.
pub const SMALL: f64 = 0.75;
/// The expected number of losses in a test if they are independent losses of the path.
const EXPECTED: f64 = 25.0;
/// The most datagrams of a test, in small windows, and the fewest.
const LONGEST: f64 = 14.0;
const LEAST: f64 = 60.0;
/// The most round trips of a test.
const ROUND_TRIPS: u32 = 32;
/// The part of its datagrams after which a test has a verdict even if it is ended early.
const ENOUGH: f64 = 0.1;
/// Losses are ours if less than this part of them remains in the test.
const OURS: f64 = 0.3;
/// The same where more than [`GROSS`] was lost before: a radio seldom loses so much.
const OURS_OF_GROSS: f64 = 0.55;
/// The same is certain earlier if none remains of so many expected ones.
const CERTAIN: f64 = 8.0;
/// Losses are the path's after all if more than this part remains although we yield to congestion.
const STAYING: f64 = 0.8;
/// The least number of round trips between tests; it doubles after each needless test.
const PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 256;

/// The path's own losses, and the tests of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blame {
    /// The tested loss rate of the path.
    path: f64,
    trial: Option<Trial>,
    /// Losses found to be ours, and their course since the window was cut.
    ours: Option<Ours>,
    /// The time before which there is no test, and the pause after the next test in round trips.
    after: Time,
    pause: u32,
}

/// A test, during which the window is small.
#[derive(Clone, Copy, Debug)]
struct Trial {
    window_before: f64,
    loss_before: f64,
    /// Losses are ours if less than this part of them remains.
    ours: f64,
    /// The number of datagrams that the trial takes.
    datagrams: f64,
    /// The number after which they are ours if none was lost.
    certain: f64,
    until: Time,
    /// The number of the first datagram sent with the small window, once what is in flight fits it.
    from: Option<u64>,
    /// The newest number and the count of received datagrams when the first one was reported.
    base: Option<(u64, u64)>,
}

/// Losses since the window was cut for them.
#[derive(Clone, Copy, Debug)]
struct Ours {
    /// The window that caused them, in octets.
    window: f64,
    loss_before: f64,
    datagrams: f64,
    since: LossCount,
}

/// The verdict of a test.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub is_ours: bool,
    /// The loss rate that now counts as the path's own.
    pub loss: f64,
    /// The window before it, in octets.
    pub window: f64,
}

impl Blame {
    /// A round trip has ended in which the `window` was kept small because of losses. Returns their rate
    /// if they have not become fewer, because then they are the path's after all. A larger window than the one that
    /// caused them proves nothing.
    pub fn refuted(&mut self, ended: &Ended, window: f64) -> Option<f64> {
        let ours = self.ours.as_mut()?;
        if window > ours.window {
            return None;
        }
        ours.since.add(ended.sent, ended.lost);
        if ours.since.sent < ours.datagrams {
            return None;
        }
        let loss = ours.since.rate();
        if loss < STAYING * ours.loss_before {
            ours.since = LossCount::default();
            return None;
        }
        self.path = loss.min(ours.loss_before);
        self.ours = None;
        Some(self.path)
    }

    /// A round trip of `rtt` has ended; `loss`, with deviation `spread`, would count as the path's own.
    /// Returns the window of a test if the loss must be tested: `used` octets of the `window` fill the
    /// path, in datagrams of `datagram` octets.
    pub fn handle_round(
        &mut self,
        now: Time,
        [loss, recent, spread]: [f64; 3],
        rtt: Duration,
        [window, used, datagram]: [f64; 3],
        is_starting: bool,
    ) -> Option<f64> {
        if self.trial.is_some() {
            return None;
        }
        let deviation = spread * (loss * (1.0 - loss) / MEMORY).sqrt();
        let slack = SLACK + SLACK_SHARE * self.path + DEVIATIONS * deviation;
        let is_suspect = !is_starting && now >= self.after && loss > self.path + slack;
        let is_gross = loss.max(recent) > self.path + GROSS * (1.0 - self.path);
        if !is_suspect && !is_gross {
            self.path = self.path.min(loss + slack);
            return None;
        }
        let loss = if is_gross { loss.max(recent) } else { loss };
        let small = SMALL * (1.0 - loss) * used.min(window);
        let most = LONGEST * small / datagram;
        self.trial = Some(Trial {
            window_before: window,
            loss_before: loss,
            ours: if is_gross { OURS_OF_GROSS } else { OURS },
            datagrams: (EXPECTED * spread * spread / loss).min(most).max(LEAST),
            certain: (CERTAIN * spread * spread / loss).max(LEAST),
            until: now + rtt * ROUND_TRIPS,
            from: None,
            base: None,
        });
        Some(small)
    }

    /// Losses at this rate are the path's.
    pub fn acquit(&mut self, loss: f64) {
        self.path = loss;
        self.ours = None;
    }

    /// The loss rate that was found to be the path's own.
    pub fn path(&self) -> f64 {
        self.path
    }

    pub fn is_testing(&self) -> bool {
        self.trial.is_some()
    }

    /// Continues the test: the peer has `received` datagrams up to `newest`, `next` will be sent next,
    /// and the data in flight fits the small window or does not yet.
    pub fn advance(
        &mut self,
        now: Time,
        [newest, received, next]: [u64; 3],
        fits: bool,
        rtt: Duration,
    ) -> Option<Verdict> {
        let trial = self.trial.as_mut()?;
        let is_late = trial.until <= now;
        let Some(from) = trial.from else {
            trial.from = fits.then_some(next);
            return if is_late { self.abandon(now, rtt) } else { None };
        };
        let Some((first, count)) = trial.base else {
            trial.base = (newest >= from).then_some((newest, received));
            return if is_late { self.abandon(now, rtt) } else { None };
        };
        let sent = newest.saturating_sub(first) as f64;
        let lost = (sent - received.saturating_sub(count) as f64).max(0.0);
        let is_paths = lost >= trial.ours * trial.loss_before * trial.datagrams;
        let is_certain = lost == 0.0 && sent >= trial.certain;
        if sent < trial.datagrams && !is_late && !is_paths && !is_certain {
            return None;
        }
        if sent < ENOUGH * trial.datagrams && !is_paths && !is_certain {
            return self.abandon(now, rtt);
        }
        let loss = lost / sent.max(1.0);
        let is_ours = !is_paths && loss < trial.ours * trial.loss_before;
        let (window, datagrams, loss_before) =
            (trial.window_before, trial.datagrams, trial.loss_before);
        let since = LossCount::default();
        self.ours = is_ours.then_some(Ours { window, loss_before, datagrams, since });
        self.trial = None;
        self.path = if is_ours { loss } else { loss_before };
        self.pause = if is_ours { PAUSE } else { (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE) };
        self.after = now + rtt * self.pause;
        Some(Verdict { is_ours, loss: self.path, window })
    }

    /// Ends a test early.
    pub fn abandon(&mut self, now: Time, rtt: Duration) -> Option<Verdict> {
        let trial = self.trial.take()?;
        self.pause = (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE);
        self.after = now + rtt * self.pause;
        Some(Verdict { is_ours: false, loss: self.path, window: trial.window_before })
    }
}
