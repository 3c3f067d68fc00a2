//! What was sent and not yet reported.

use std::collections::VecDeque;

use crate::time::Time;

/// Datagrams that are remembered, at most: 6 MiB.
const LIMIT: usize = 1 << 18;

/// The datagrams after the newest one that the peer has reported, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    /// The number of the front of `sent`.
    first: u64,
    sent: VecDeque<Sent>,
    /// Octets sent since the start.
    total: u64,
    /// Octets up to the newest datagram that left: reported, or taken as gone.
    left: u64,
}

/// One datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sent {
    pub(super) at: Time,
    /// Octets sent since the start, with this one.
    pub(super) total: u64,
    /// Whether the window was full.
    pub(super) is_full: bool,
}

impl Flight {
    /// Remembers that `number` was sent. Numbers that were left out count as nothing sent.
    pub(super) fn handle_sent(&mut self, now: Time, number: u64, octets: usize, is_full: bool) {
        if self.sent.is_empty() || number < self.next() || number - self.next() > LIMIT as u64 {
            self.sent.clear();
            self.first = number;
        }
        while self.next() < number {
            self.push(now, false);
        }
        self.total = self.total.saturating_add(octets as u64);
        self.push(now, is_full);
    }

    /// Forgets all up to `number`, which is the newest that the peer has; `None` if it is not a
    /// datagram of this flight.
    pub(super) fn take(&mut self, number: u64) -> Option<Sent> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let sent = *self.sent.get(index)?;
        self.sent.drain(..=index);
        self.first = number + 1;
        self.left = self.left.max(sent.total);
        Some(sent)
    }

    /// Takes all as gone. A late report of it still counts.
    pub(super) fn give_up(&mut self) {
        self.left = self.total;
    }

    /// The number of the next datagram.
    pub(super) fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Octets on their way.
    pub(super) fn octets(&self) -> u64 {
        self.total - self.left
    }

    /// Octets up to the newest that left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Whether no more may be sent before a report.
    pub(super) fn is_full(&self) -> bool {
        self.sent.len() >= LIMIT && self.octets() > 0
    }

    fn push(&mut self, now: Time, is_full: bool) {
        if self.sent.len() >= LIMIT {
            self.sent.pop_front();
            self.first += 1;
        }
        self.sent.push_back(Sent { at: now, total: self.total, is_full });
    }
}
