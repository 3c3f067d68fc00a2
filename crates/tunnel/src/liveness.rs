//! Detection of a lost peer: a silent peer is probed, and the path is down when it stays silent.
//!
//! ```text
//!            data sent                  silent for dead_after
//!   Heard ─────────────▶ Unanswered ──────────────────────────▶ Down
//!     ▲                      │                                   │
//!     └──────────────────────┴──── anything comes from it ───────┘
//! ```
//! On the way from Unanswered to Down the peer is doubted, once: it may have started anew and lost its
//! keys, which costs a round trip to find out. Later it counts as silent, over seconds and round trips: on a path
//! that loses a third of all datagrams, doubts come and go all the time.

use std::time::Duration;

use base::time::{Time, earliest};

/// The time between two probes of a silent peer.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two probes of a peer that is heard.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// After this time and so many round trips without an answer the peer counts as silent.
const LEAST_SILENCE: Duration = Duration::from_secs(2);
const SILENT_ROUND_TRIPS: u32 = 4;

/// The state of the peer's silence.
#[derive(Debug)]
pub struct Liveness {
    /// The silence after which a peer counts as lost.
    dead_after: Duration,
    state: State,
    /// When the peer is probed next, and when it was last.
    ask_at: Option<Time>,
    asked_at: Option<Time>,
    /// Whether the peer is doubted, and that was told.
    is_doubted: bool,
    /// Whether it counts as silent.
    is_silent: bool,
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
    pub fn new(dead_after: Duration) -> Self {
        Self {
            dead_after,
            state: State::Heard,
            ask_at: None,
            asked_at: None,
            is_doubted: false,
            is_silent: false,
        }
    }

    /// Something was received from the peer; returns whether the path was down before.
    pub fn handle_heard(&mut self) -> bool {
        self.ask_at = None;
        self.is_doubted = false;
        self.is_silent = false;
        std::mem::replace(&mut self.state, State::Heard) == State::Down
    }

    /// Something that the peer answers was sent.
    pub fn handle_sent(&mut self, now: Time) {
        if self.state == State::Heard {
            self.state = State::Unanswered(now);
        }
    }

    /// The peer did not answer in time, which is a round trip at least; returns whether it is doubted from now on.
    pub fn doubt(&mut self, now: Time, rtt: Duration) -> bool {
        let is_overdue = matches!(self.state, State::Unanswered(since) if now.since(since) >= rtt);
        is_overdue && !std::mem::replace(&mut self.is_doubted, true)
    }

    /// The peer counts as silent from now on.
    pub fn note_silent(&mut self) {
        self.is_silent = true;
    }

    /// Whether the peer is doubted.
    pub fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// Whether the peer counts as silent.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// When the peer counts as silent unless it is heard.
    pub fn silent_at(&self, rtt: Duration) -> Option<Time> {
        match self.state {
            State::Unanswered(since) if !self.is_silent => {
                Some(since + LEAST_SILENCE.max(SILENT_ROUND_TRIPS * rtt))
            }
            State::Down | State::Heard | State::Unanswered(_) => None,
        }
    }

    /// Probes the peer at once.
    pub fn ask(&mut self, now: Time) {
        self.ask_at = earliest(self.ask_at, Some(now));
    }

    /// Probes the peer though it is heard, because no report has come; but seldom.
    pub fn ask_again(&mut self, now: Time) {
        let soonest = self.asked_at.map_or(now, |at| at + ASK_AGAIN);
        self.ask_at = earliest(self.ask_at, Some(now.max(soonest)));
    }

    /// Whether the peer must be probed now; the next probe is then scheduled.
    pub fn poll_question(&mut self, now: Time) -> bool {
        let is_due = self.ask_at.is_some_and(|at| at <= now);
        if is_due {
            self.ask_at = Some(now + ASK_INTERVAL);
            self.asked_at = Some(now);
        }
        is_due
    }

    /// Returns whether the path is down from now on.
    pub fn handle_timeout(&mut self, now: Time) -> bool {
        let is_over = self.next_timeout().is_some_and(|at| at <= now);
        if is_over {
            self.state = State::Down;
            self.ask_at = Some(now);
        }
        is_over
    }

    pub fn is_down(&self) -> bool {
        self.state == State::Down
    }

    /// When the path counts as down unless the peer is heard.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Down | State::Heard => None,
            State::Unanswered(since) => Some(since + self.dead_after),
        }
    }

    /// When the next probe may be sent.
    pub fn next_question(&self) -> Option<Time> {
        self.ask_at
    }
}
