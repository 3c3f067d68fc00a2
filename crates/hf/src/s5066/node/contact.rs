//! The presence of another station: when it was heard, what it left unanswered, and how long to
//! pause before it is tried again.

use std::time::Duration;

use base::time::Time;

/// The pause before retries to a station that failed; a call costs other stations a few seconds.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The presence of another station.
#[derive(Debug)]
pub(super) struct Contact {
    pub(super) heard_at: Time,
    /// The number of our latest transmission acknowledged by the station.
    pub(super) acked_turn: u64,
    /// The number of successive answers that did not come.
    pub(super) silences: u32,
    /// Whether it has not been heard since a call or a link failed.
    pub(super) is_lost: bool,
    /// When retries may begin, if they pause.
    pauses_until: Option<Time>,
    /// How long retries pause after the next failure.
    pause: Duration,
}

impl Contact {
    /// The presence of a station that was never heard.
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

    /// Notes that it was heard; returns whether that ends a pause.
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

    /// Begins a pause. Pauses get longer until the station is heard again.
    pub(super) fn pause(&mut self, now: Time) {
        self.pauses_until = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Whether retries to it pause.
    pub(super) fn is_pausing(&self) -> bool {
        self.pauses_until.is_some()
    }

    /// When a pause ends.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.pauses_until
    }
}
