//! S_KEEP_ALIVE: an answer within 10 s or none, and never more than one in 120 s (A.2.1.17).

use std::time::Duration;

use base::time::{Time, earliest};

/// An answer that cannot be sent within this time is not sent.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Least time between two to the same destination.
const SPACING: Duration = Duration::from_secs(120);

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// The other end is asked when nothing came from it for this long.
    idle: Option<Duration>,
    heard: Time,
    sent: Option<Time>,
    answer_at: Option<Time>,
    /// When the other end was asked; it is given up on when nothing comes.
    asked: Option<Time>,
}

/// The next step of keep-alive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Due {
    /// S_KEEP_ALIVE is to be sent.
    Send,
    /// The other end did not answer.
    GiveUp,
}

impl KeepAlive {
    /// `idle` is at least [`SPACING`], so that the other end is free to answer when it is asked.
    pub fn new(now: Time, idle: Option<Duration>) -> Self {
        let idle = idle.map(|idle| idle.max(SPACING));
        Self { idle, heard: now, sent: None, answer_at: None, asked: None }
    }

    /// Something came from the other end.
    pub fn handle_heard(&mut self, now: Time) {
        self.heard = now;
        self.asked = None;
    }

    /// Whether the other end is asked, and anything from it is an answer.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// S_KEEP_ALIVE came from the other end.
    pub fn handle_keep_alive(&mut self, now: Time) {
        let free_at = self.sent.map_or(now, |sent| sent + SPACING).max(now);
        if free_at <= now + ANSWER_WITHIN && self.answer_at.is_none() {
            self.answer_at = Some(free_at);
        }
    }

    pub fn handle_timeout(&mut self, now: Time) -> Option<Due> {
        if self.answer_at.is_some_and(|at| at <= now) {
            self.answer_at = None;
            self.sent = Some(now);
            return Some(Due::Send);
        }
        if self.give_up_at().is_some_and(|at| at <= now) {
            self.idle = None;
            self.asked = None;
            return Some(Due::GiveUp);
        }
        if self.ask_at().is_some_and(|at| at <= now) {
            self.asked = Some(now);
            self.sent = Some(now);
            return Some(Due::Send);
        }
        None
    }

    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.answer_at, earliest(self.give_up_at(), self.ask_at()))
    }

    fn ask_at(&self) -> Option<Time> {
        let idle = self.idle.filter(|_| self.asked.is_none())?;
        let free_at = self.sent.map_or(Time::ZERO, |sent| sent + SPACING);
        Some((self.heard + idle).max(free_at))
    }

    /// An answer may have to wait for its own spacing.
    fn give_up_at(&self) -> Option<Time> {
        Some(self.asked? + SPACING + ANSWER_WITHIN)
    }
}
