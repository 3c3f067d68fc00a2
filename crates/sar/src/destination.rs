//! The state of each destination of a transfer: its received segments and its answers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base::time::Time;

/// A destination of a transfer.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) address: IpAddr,
    pub(super) is_active: bool,
    /// The destination is silent, and the message waits for it: the rounds of the others go on without it.
    pub(super) is_parked: bool,
    /// It has all segments below.
    pub(super) low: u16,
    /// Those that it has above.
    pub(super) above: BTreeSet<u16>,
    /// Questions without an answer (RFARC).
    pub(super) requests: u8,
    pub(super) has_answered: bool,
    /// When the destination alone was asked; `None` unless asked exactly once.
    pub(super) asked_alone: Option<Time>,
    pub(super) restarts: u8,
}

impl Destination {
    pub(super) fn new(address: IpAddr) -> Self {
        Self {
            address,
            is_active: true,
            is_parked: false,
            low: 1,
            above: BTreeSet::new(),
            requests: 0,
            has_answered: false,
            asked_alone: None,
            restarts: 0,
        }
    }

    /// Whether the destination still has to answer.
    pub(super) fn is_silent(&self) -> bool {
        self.is_active && !self.has_answered
    }

    /// It has no outcome yet.
    pub(super) fn is_open(&self) -> bool {
        self.is_active || self.is_parked
    }

    /// Excludes the destination until it is heard.
    pub(super) fn park(&mut self) {
        (self.is_active, self.is_parked) = (false, true);
    }

    /// It takes part again.
    pub(super) fn unpark(&mut self) {
        if self.is_parked {
            (self.is_active, self.is_parked, self.has_answered) = (true, false, false);
        }
    }

    /// It may be there again: questions count anew.
    pub(super) fn rouse(&mut self) {
        self.unpark();
        (self.requests, self.restarts, self.asked_alone) = (0, 0, None);
    }

    /// Ends the destination's part for good.
    pub(super) fn close(&mut self) {
        (self.is_active, self.is_parked) = (false, false);
    }

    pub(super) fn lacks(&self, number: u16) -> bool {
        number >= self.low && !self.above.contains(&number)
    }

    /// Raises `low` over all segments present without a gap.
    pub(super) fn advance(&mut self) {
        while let Some(next) = self.above.first().copied()
            && next <= self.low
        {
            self.above.pop_first();
            if next == self.low {
                self.low = self.low.saturating_add(1);
            }
        }
    }
}
