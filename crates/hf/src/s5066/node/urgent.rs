//! The memory of recent urgent messages.
//!
//! A station cannot announce an urgent message while another transmits. So after the first urgent
//! message, transmissions of less urgent data are short for a while.

use std::time::Duration;

use base::time::Time;

use crate::s5066::service::{MAX_PRIORITY, PRIORITIES};

/// How long a message is remembered: longer than the pauses in a conversation of operators.
const MEMORY: Duration = Duration::from_secs(600);

/// The recent urgent messages between this node and another station.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    /// Messages received from it.
    pub(super) received: Urgent,
    /// Messages to be sent to it.
    pub(super) sent: Urgent,
    /// Expedited requests among these, which are sent one at a time and each need an answer.
    pub(super) expedited: Urgent,
}

/// The time until which the last message of each priority is remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Urgent {
    until: [Time; PRIORITIES],
}

impl Urgent {
    /// Remembers a message with this priority.
    pub(super) fn note(&mut self, now: Time, priority: u8) {
        self.until[usize::from(priority.min(MAX_PRIORITY))] = now + MEMORY;
    }

    /// Whether a message above this priority is remembered.
    pub(super) fn is_above(&self, priority: u8, now: Time) -> bool {
        self.until.iter().skip(usize::from(priority) + 1).any(|until| *until > now)
    }
}
