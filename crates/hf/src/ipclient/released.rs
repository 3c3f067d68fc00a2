//! Output to the stack: received datagrams, and errors about the stack's own datagrams.

use std::collections::VecDeque;
use std::time::Duration;

use base::budget::Budget;
use base::time::Time;

/// Errors in a row at most, ...
const BURST: u32 = 20;
/// ... and how long until there may be one more.
const SPACING: Duration = Duration::from_millis(100);

/// Packets that wait for the stack.
#[derive(Debug)]
pub(super) struct Released {
    packets: VecDeque<Vec<u8>>,
    octets: usize,
    /// Octets at most.
    limit: usize,
    /// Errors that may be told now.
    errors: Budget,
}

impl Released {
    pub(super) fn new(now: Time, limit: usize) -> Self {
        let errors = Budget::new(now, BURST, SPACING);
        Self { packets: VecDeque::new(), octets: 0, limit, errors }
    }

    /// Takes a packet; false if there is no room.
    #[must_use]
    pub(super) fn push(&mut self, packet: Vec<u8>) -> bool {
        let has_room = self.octets + packet.len() <= self.limit;
        if has_room {
            self.octets += packet.len();
            self.packets.push_back(packet);
        }
        has_room
    }

    /// Takes an error; false if there is no room, or may be none now.
    #[must_use]
    pub(super) fn push_error(&mut self, now: Time, packet: Vec<u8>) -> bool {
        self.octets + packet.len() <= self.limit && self.errors.spend(now) && self.push(packet)
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let packet = self.packets.pop_front()?;
        self.octets -= packet.len();
        Some(packet)
    }
}
