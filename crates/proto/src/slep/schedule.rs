//! Whose turn it is: by priority, and within one in rounds.

use std::collections::VecDeque;

use super::stream::StreamId;
use crate::s5066::service::{MAX_PRIORITY, PRIORITIES};

/// Streams that have something to send.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// By priority.
    waiting: [VecDeque<StreamId>; PRIORITIES],
}

impl Ready {
    /// A stream has something to send.
    pub(super) fn push(&mut self, priority: u8, stream: StreamId) {
        self.waiting[usize::from(priority.min(MAX_PRIORITY))].push_back(stream);
    }

    /// A stream goes on with its turn.
    pub(super) fn push_first(&mut self, priority: u8, stream: StreamId) {
        self.waiting[usize::from(priority.min(MAX_PRIORITY))].push_front(stream);
    }

    /// Whether nothing of a higher priority waits.
    pub(super) fn is_next(&self, priority: u8) -> bool {
        self.waiting.iter().skip(usize::from(priority) + 1).all(VecDeque::is_empty)
    }

    /// The highest priority of those that wait.
    pub(super) fn highest(&self) -> Option<u8> {
        (0..=MAX_PRIORITY).rev().find(|priority| !self.waiting[usize::from(*priority)].is_empty())
    }

    /// Whose turn it is.
    pub(super) fn pop(&mut self) -> Option<StreamId> {
        self.waiting.iter_mut().rev().find_map(VecDeque::pop_front)
    }
}
