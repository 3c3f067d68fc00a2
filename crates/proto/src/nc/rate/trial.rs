//! Finds out whether losses are caused by our own sending: those that a smaller window avoids are.
//!
//! A buffer that is shorter than the queue to aim at, or that others keep full, shows no queue: only
//! loss, as a radio does. So loss beyond the path's usual one is tested before it counts as the
//! path's own.

use std::time::Duration;

use super::round::Ended;
use crate::time::Time;

/// Loss that is put to the test exceeds that of the path by this, by this part of it, and by so many
/// deviations of a mean over so many datagrams.
const SLACK: f64 = 0.02;
const SLACK_SHARE: f64 = 0.25;
const DEVIATIONS: f64 = 1.5;
const MEMORY: f64 = 300.0;
/// Loss beyond this share of what gets through is tested at once.
const GROSS: f64 = 0.3;
/// The window of the test, as a part of what was received in a round trip.
pub(super) const SMALL: f64 = 0.75;
/// Losses that the test should meet if they are the path's, were they independent.
const EXPECTED: f64 = 25.0;
/// But it takes no more datagrams than so many small windows, and no fewer than this.
const LONGEST: f64 = 14.0;
const LEAST: f64 = 60.0;
/// A test ends after so many round trips in any case.
const ROUND_TRIPS: u32 = 32;
/// With this part of them there is a verdict in any case.
const ENOUGH: f64 = 0.1;
/// The losses are ours when less than this part of them stays.
const OURS: f64 = 0.3;
/// They are the path's after all when more than this part stays although we yield to congestion.
const STAYING: f64 = 0.8;
/// Round trips from one test to the next at least; twice as many after each that was needless.
const PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 256;

/// What is known of the path's own losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blame {
    /// Their rate, as far as it was tested.
    path: f64,
    trial: Option<Trial>,
    /// Losses found to be ours, and whether they went away with the smaller window.
    ours: Option<Ours>,
    /// No test before this, and the pause after the next, in round trips.
    after: Time,
    pause: u32,
}

/// A test: the window is small for a while.
#[derive(Clone, Copy, Debug)]
struct Trial {
    window_before: f64,
    loss_before: f64,
    /// Datagrams that it takes.
    datagrams: f64,
    until: Time,
    /// The number of the first datagram sent with the small window, once what is in flight fits it.
    from: Option<u64>,
    /// The newest number and the count of those received when that was reported.
    base: Option<(u64, u64)>,
}

/// Losses since the window was cut for them.
#[derive(Clone, Copy, Debug)]
struct Ours {
    loss_before: f64,
    datagrams: f64,
    sent: f64,
    lost: f64,
}

/// What a test found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) is_ours: bool,
    /// What the path is now taken to lose by itself.
    pub(super) loss: f64,
    /// The window before it, in octets.
    pub(super) window: f64,
}

impl Blame {
    /// A round trip has ended in which the window was kept small for the losses' sake. Returns their
    /// rate when they have not become fewer: they are the path's after all.
    pub(super) fn refuted(&mut self, ended: &Ended) -> Option<f64> {
        let ours = self.ours.as_mut()?;
        ours.sent += ended.sent;
        ours.lost += ended.lost;
        if ours.sent < ours.datagrams {
            return None;
        }
        let loss = ours.lost / ours.sent;
        if loss < STAYING * ours.loss_before {
            (ours.sent, ours.lost) = (0.0, 0.0);
            return None;
        }
        self.path = loss.min(ours.loss_before);
        self.ours = None;
        Some(self.path)
    }

    /// A round trip of `rtt` has ended, and a `loss` is to be ignored that strays by `spread`. Returns
    /// the window to test it with if it is suspect: `used` octets of the `window` fill the
    /// path, a `datagram` at a time.
    pub(super) fn handle_round(
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
            datagrams: (EXPECTED * spread * spread / loss).min(most).max(LEAST),
            until: now + rtt * ROUND_TRIPS,
            from: None,
            base: None,
        });
        Some(small)
    }

    pub(super) fn is_testing(&self) -> bool {
        self.trial.is_some()
    }

    /// The test goes on: the peer has `received` datagrams up to `newest`, `next` is to be sent next,
    /// and what is in flight fits the small window or does not yet.
    pub(super) fn advance(
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
        let is_paths = lost >= OURS * trial.loss_before * trial.datagrams;
        if sent < trial.datagrams && !is_late && !is_paths {
            return None;
        }
        if sent < ENOUGH * trial.datagrams && !is_paths {
            return self.abandon(now, rtt);
        }
        let loss = lost / sent.max(1.0);
        let is_ours = !is_paths && loss < OURS * trial.loss_before;
        let (window, before) = (trial.window_before, trial.loss_before);
        self.ours = is_ours.then_some(Ours {
            loss_before: before,
            datagrams: trial.datagrams,
            sent: 0.0,
            lost: 0.0,
        });
        self.trial = None;
        self.path = if is_ours { loss } else { before };
        self.pause = if is_ours { PAUSE } else { (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE) };
        self.after = now + rtt * self.pause;
        Some(Verdict { is_ours, loss: self.path, window })
    }

    /// Ends a test that came to nothing.
    pub(super) fn abandon(&mut self, now: Time, rtt: Duration) -> Option<Verdict> {
        let trial = self.trial.take()?;
        self.pause = (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE);
        self.after = now + rtt * self.pause;
        Some(Verdict { is_ours: false, loss: self.path, window: trial.window_before })
    }
}
