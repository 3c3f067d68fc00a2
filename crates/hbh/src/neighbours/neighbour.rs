//! The state of one station that says hello.

use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;

use super::reception::Arrivals;
use crate::hello::Heard;
use crate::{Peer, TCP_LIFETIME};

/// Answers to one neighbour are no more frequent than this.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);
/// A neighbour that was asked may be silent for a third of the usual time.
const DOUBT_HOLD: u32 = 3;

/// A station that says hello.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) boot: u64,
    /// The counter of the last hello we accepted.
    pub(super) counter: u64,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) session: u32,
    pub(super) its_session: u32,
    pub(super) peer: Option<Peer>,
    pub(super) first_heard: Time,
    pub(super) heard: Time,
    /// When a packet was last sent there.
    pub(super) used: Time,
    pub(super) is_doubted: bool,
    pub(super) answered: Time,
    pub(super) answer_at: Option<Time>,
    /// Another boot at the same place, not yet proven to hear us now.
    pub(super) challenger: Option<Heard>,
    pub(super) arrivals: Arrivals,
}

impl Neighbour {
    pub(super) fn new(now: Time, boot: u64, session: u32) -> Self {
        Self {
            boot,
            counter: 0,
            addresses: Vec::new(),
            session,
            its_session: 0,
            peer: None,
            first_heard: now,
            heard: now,
            used: now,
            is_doubted: false,
            answered: now - ANSWER_INTERVAL,
            answer_at: None,
            challenger: None,
            arrivals: Arrivals::default(),
        }
    }

    /// When an answer may go there, at the earliest.
    pub(super) fn may_answer_at(&self, now: Time) -> Time {
        now.max(self.answered + ANSWER_INTERVAL)
    }

    /// Evaluates what the station's hello says about us; an answer, if needed, is due `at`.
    pub(super) fn take(
        &mut self,
        at: Time,
        us: Option<Heard>,
        is_partial: bool,
        wants_answer: bool,
    ) {
        let is_agreed = us.is_some_and(|us| us.echo == self.session)
            || (us.is_none() && is_partial && self.peer.is_some());
        if wants_answer || !is_agreed {
            self.answer_at = Some(at);
        }
    }

    /// When it has been silent for too long to be up, or to be remembered.
    pub(super) fn expires_at(&self, hold: Duration) -> Time {
        let silence = match (self.is_doubted, self.peer) {
            (true, Some(_)) => hold / DOUBT_HOLD,
            // It was up, and is asked whether it is back.
            (true, None) => TCP_LIFETIME,
            _ => hold,
        };
        self.heard + silence
    }

    /// Whether packets go there, and nothing comes.
    pub(super) fn is_missed(&self) -> bool {
        self.is_doubted && self.peer.is_some()
    }

    pub(super) fn as_heard(&self, now: Time) -> Heard {
        Heard {
            boot: self.boot,
            session: self.session,
            echo: self.its_session,
            reception: self.arrivals.reception(now),
        }
    }
}
