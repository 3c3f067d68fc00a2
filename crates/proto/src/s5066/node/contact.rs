//! Whether another station is there: when it was heard, what it left unanswered, how long it is let be.

use std::time::Duration;

use crate::time::Time;

/// How long what is to be tried again waits after a failure, at first and at most: a call costs others
/// a few seconds.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What is known of another station's presence.
#[derive(Debug)]
pub(super) struct Contact {
    pub(super) heard_at: Time,
    /// Our last transmission that it acknowledged something after.
    pub(super) acked_turn: u64,
    /// Answers that did not come, in a row.
    pub(super) silences: u32,
    /// Whether nothing was heard of it since a call or a link failed.
    pub(super) is_lost: bool,
    /// What is to be tried again waits until then.
    pauses_until: Option<Time>,
    /// How long it waits after the next failure.
    pause: Duration,
}

impl Contact {
    /// With a station that was never heard.
    pub(super) fn new() -> Self {
        Self {
            heard_at: Time::ZERO,
            acked_turn: 0,
            silences: 0,
            is_lost: false,
            pauses_until: None,
            pause: PAUSE,
        }
    }

    /// Something was heard of it; returns whether that ends a pause.
    pub(super) fn handle_heard(&mut self, now: Time) -> bool {
        self.heard_at = now;
        self.is_lost = false;
        self.pause = PAUSE;
        self.pauses_until.take().is_some()
    }

    /// Returns whether a pause ends now.
    pub(super) fn handle_timeout(&mut self, now: Time) -> bool {
        self.pauses_until.take_if(|until| *until <= now).is_some()
    }

    /// Lets it be for a while, longer each time that nothing was heard before the next failure.
    pub(super) fn pause(&mut self, now: Time) {
        self.pauses_until = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Whether it is let be.
    pub(super) fn is_pausing(&self) -> bool {
        self.pauses_until.is_some()
    }

    /// When a pause ends.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.pauses_until
    }
}
