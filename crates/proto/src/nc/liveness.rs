//! Detection of a lost peer: a silent peer is probed, and the path is down when it stays silent.
//!
//! ```text
//!            data sent                  silent for dead_after
//!   Heard ─────────────▶ Unanswered ──────────────────────────▶ Down
//!     ▲                      │                                   │
//!     └──────────────────────┴──── anything comes from it ───────┘
//! ```

use std::time::Duration;

use crate::time::{Time, earliest};

/// The time between two probes of a silent peer.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the peer's silence.
#[derive(Debug)]
pub(super) struct Liveness {
    /// The silence after which a peer counts as lost.
    dead_after: Duration,
    state: State,
    /// When the peer is probed next.
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

    /// Something was received from the peer; returns whether the path was down before.
    pub(super) fn handle_heard(&mut self) -> bool {
        self.ask_at = None;
        std::mem::replace(&mut self.state, State::Heard) == State::Down
    }

    /// Something that the peer answers was sent.
    pub(super) fn handle_sent(&mut self, now: Time) {
        if self.state == State::Heard {
            self.state = State::Unanswered(now);
        }
    }

    /// Probes the peer at once.
    pub(super) fn ask(&mut self, now: Time) {
        self.ask_at = earliest(self.ask_at, Some(now));
    }

    /// Whether the peer must be probed now; the next probe is then scheduled.
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

    /// When the path counts as down unless the peer is heard.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Down | State::Heard => None,
            State::Unanswered(since) => Some(since + self.dead_after),
        }
    }

    /// When the next probe may be sent.
    pub(super) fn next_question(&self) -> Option<Time> {
        self.ask_at
    }
}
