//! Whether the peer is there: it is asked while it is silent, and the path is down when it stays silent.
//!
//! ```text
//!            data sent                  silent for dead_after
//!   Heard ─────────────▶ Unanswered ──────────────────────────▶ Down
//!     ▲                      │                                   │
//!     └──────────────────────┴──── anything comes from it ───────┘
//! ```

use std::time::Duration;

use crate::time::{Time, earliest};

/// Between two questions to a peer that is silent.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// What the silence of the peer means.
#[derive(Debug)]
pub(super) struct Liveness {
    /// A peer that is silent for so long is gone.
    dead_after: Duration,
    state: State,
    /// When the peer is to be asked for a sign of life.
    ask_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Down,
    /// Nothing was sent since the peer was last heard.
    Heard,
    /// The first datagram since then was sent at this time.
    Unanswered(Time),
}

impl Liveness {
    pub(super) fn new(dead_after: Duration) -> Self {
        Self { dead_after, state: State::Heard, ask_at: None }
    }

    /// Something came from the peer; returns whether the path had been down.
    pub(super) fn handle_heard(&mut self) -> bool {
        self.ask_at = None;
        std::mem::replace(&mut self.state, State::Heard) == State::Down
    }

    /// Something was sent that the peer answers.
    pub(super) fn handle_sent(&mut self, now: Time) {
        if self.state == State::Heard {
            self.state = State::Unanswered(now);
        }
    }

    /// Has the peer asked at once.
    pub(super) fn ask(&mut self, now: Time) {
        self.ask_at = earliest(self.ask_at, Some(now));
    }

    /// Whether the peer is to be asked now; the next question is then due later.
    pub(super) fn poll_question(&mut self, now: Time) -> bool {
        let is_due = self.ask_at.is_some_and(|at| at <= now);
        if is_due {
            self.ask_at = Some(now + ASK_INTERVAL);
        }
        is_due
    }

    /// Returns whether the path is down from now on.
    pub(super) fn handle_timeout(&mut self, now: Time) -> bool {
        let is_over = self.next_timeout().is_some_and(|at| at <= now);
        if is_over {
            self.state = State::Down;
            self.ask_at = Some(now);
        }
        is_over
    }

    pub(super) fn is_down(&self) -> bool {
        self.state == State::Down
    }

    /// When the path is down unless the peer is heard.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Down | State::Heard => None,
            State::Unanswered(since) => Some(since + self.dead_after),
        }
    }

    /// When the next question may be sent.
    pub(super) fn next_question(&self) -> Option<Time> {
        self.ask_at
    }
}
