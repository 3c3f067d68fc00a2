//! Datagrams that were sent and not yet reported.

use std::collections::VecDeque;

use base::time::Time;

/// The most datagrams that are remembered: 6 MiB.
const LIMIT: usize = 1 << 18;

/// The datagrams after the newest one that the peer has reported, by number.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    /// The number of the datagram at the front of `sent`.
    first: u64,
    sent: VecDeque<Sent>,
    /// Octets sent since the start.
    total: u64,
    /// Octets up to the newest datagram that was reported.
    reported: u64,
    /// Octets up to the newest datagram that was reported, counts as lost, or must have arrived.
    left: u64,
}

/// A sent datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sent {
    pub at: Time,
    /// Octets sent since the start, including this one.
    pub total: u64,
    /// Its own.
    octets: u32,
    /// Whether the window was full.
    pub is_full: bool,
}

impl Flight {
    /// Remembers that `number` was sent. Skipped numbers count as no octets.
    pub fn handle_sent(&mut self, now: Time, number: u64, octets: usize, is_full: bool) {
        if self.sent.is_empty() || number < self.next() || number - self.next() > LIMIT as u64 {
            self.sent.clear();
            self.first = number;
        }
        while self.next() < number {
            self.push(now, 0, false);
        }
        self.total = self.total.saturating_add(octets as u64);
        self.push(now, u32::try_from(octets).unwrap_or(u32::MAX), is_full);
    }

    /// Forgets all datagrams up to `number`, the newest at the peer, and returns datagram `number`;
    /// `None` if `number` is not in flight.
    pub fn take(&mut self, number: u64) -> Option<Sent> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let sent = *self.sent.get(index)?;
        self.sent.drain(..=index);
        self.first = number + 1;
        self.reported = sent.total;
        self.left = self.left.max(sent.total);
        Some(sent)
    }

    /// Counts at most `octets` more as arrived, though no report says so yet, of the datagrams that were
    /// sent by `time`.
    pub fn pass(&mut self, time: Time, octets: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a negative number counts as none, and one that is too great as the greatest"
        )]
        let octets = octets as u64;
        let count = self.sent.partition_point(|sent| sent.at <= time);
        let Some(last) = count.checked_sub(1).and_then(|last| self.sent.get(last)) else { return };
        // Datagrams that were sent together do not arrive together.
        let most = self.reported.saturating_add(octets);
        self.left = self.left.max(last.total.min(most));
    }

    /// Counts what was sent before `time` as lost.
    pub fn give_up_before(&mut self, time: Time) {
        let count = self.sent.partition_point(|sent| sent.at < time);
        let last = count.checked_sub(1).and_then(|last| self.sent.get(last));
        self.left = self.left.max(last.map_or(0, |last| last.total));
    }

    /// Counts all datagrams as lost. Late reports about the datagrams still count.
    pub fn give_up(&mut self) {
        self.left = self.total;
    }

    /// The number of the next datagram.
    pub fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Octets in flight.
    pub fn octets(&self) -> u64 {
        self.total - self.left
    }

    /// Octets up to the newest datagram that was reported, counts as lost, or must have arrived.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether no more datagrams may be sent before a report.
    pub fn is_full(&self) -> bool {
        self.sent.len() >= LIMIT && self.octets() > 0
    }

    fn push(&mut self, now: Time, octets: u32, is_full: bool) {
        if self.sent.len() >= LIMIT {
            self.sent.pop_front();
            self.first += 1;
        }
        self.sent.push_back(Sent { at: now, total: self.total, octets, is_full });
    }
}

impl Sent {
    pub fn octets(&self) -> u64 {
        self.octets.into()
    }
}
