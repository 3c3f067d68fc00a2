//! Whether something urgent has passed lately.
//!
//! Who has something urgent cannot say so while another transmits. So after the first urgent message
//! transmissions of what is less urgent are short for a while.

use std::time::Duration;

use super::MAX_PRIORITY;
use crate::time::Time;

/// How long one message counts: longer than the pauses of a conversation by hand.
const MEMORY: Duration = Duration::from_secs(600);

/// What passed between this node and another station.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    /// What came from it.
    pub(super) received: Urgent,
    /// What it was to be sent.
    pub(super) sent: Urgent,
    /// Expedited requests among that: one at a time, each with its own answer.
    pub(super) expedited: Urgent,
}

/// Until when something of each priority counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Urgent {
    until: [Time; MAX_PRIORITY as usize + 1],
}

impl Urgent {
    /// Something of this priority goes or has come.
    pub(super) fn note(&mut self, now: Time, priority: u8) {
        self.until[usize::from(priority.min(MAX_PRIORITY))] = now + MEMORY;
    }

    /// Whether something above this priority went or came lately.
    pub(super) fn is_above(&self, priority: u8, now: Time) -> bool {
        self.until.iter().skip(usize::from(priority) + 1).any(|until| *until > now)
    }
}
