//! Tracks the questions of a transfer that still lack an answer.
//!
//! An answer does not name its question. But a segment that asked has arrived before its answer is written, so an
//! answer without this segment belongs to an earlier question. Several questions may therefore be in flight to a single
//! destination, and the window moves on while answers come.

use std::collections::VecDeque;

use base::time::Time;

use super::wire::{LONGEST_MASK, Mask};

/// Questions, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Polls {
    all: VecDeque<Poll>,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    /// The transmission that asked.
    pub(super) transmission: u32,
    /// The segment that asked, if any.
    pub(super) number: Option<u16>,
    pub(super) at: Time,
    /// Octets of all transfers in flight.
    pub(super) load: u64,
    /// Whether it was asked once, so that the answer tells the round trip (Karn's rule).
    pub(super) is_clean: bool,
}

/// Questions to a single destination at a time.
const MOST: usize = 8;

impl Polls {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MOST
    }

    pub(super) fn first(&self) -> Option<&Poll> {
        self.all.front()
    }

    pub(super) fn last(&self) -> Option<&Poll> {
        self.all.back()
    }

    pub(super) fn push(&mut self, poll: Poll) {
        self.all.push_back(poll);
    }

    pub(super) fn pop(&mut self) -> Option<Poll> {
        self.all.pop_front()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// The question was put again in other words.
    pub(super) fn blur(&mut self) {
        if let Some(poll) = self.all.front_mut() {
            (poll.is_clean, poll.number) = (false, None);
        }
    }

    /// Handles a partial acknowledgement. The last question answered by it becomes the first in the list; false if no
    /// question is answered.
    pub(super) fn settle(&mut self, mask: &Mask<'_>) -> bool {
        match self.all.iter().rposition(|poll| poll.is_answered_by(mask)) {
            Some(index) => _ = self.all.drain(..index),
            None => return self.all.is_empty(),
        }
        true
    }
}

impl Poll {
    fn is_answered_by(&self, mask: &Mask<'_>) -> bool {
        self.number.is_none_or(|number| {
            let is_in_reach = number.saturating_sub(mask.start()) < LONGEST_MASK;
            mask.start() > number || !is_in_reach || mask.arrived().any(|it| it == number)
        })
    }
}
