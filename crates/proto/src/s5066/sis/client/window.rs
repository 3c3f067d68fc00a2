//! How much a node may have without having confirmed it.
//!
//! What a node has can be neither dropped nor overtaken in most of them: so it gets as much as it
//! confirms in the horizon, and no more. With `ahead` octets unconfirmed when a U_PDU was handed over,
//! itself included, and confirmed after `time`, the node does `ahead / time`. Many small ones are bounded by
//! their number, so that flow control is heard before a node takes them for a flood.

use std::time::Duration;

use crate::s5066::sis::server::FLOOD;
use crate::time::Time;

/// The window until the node has confirmed anything.
const INITIAL: usize = 16 << 10;
/// U_PDUs that a node has without having confirmed them at most: as many as ours reads from a client.
const MOST: usize = FLOOD.half().u_pdus;
/// Of what is confirmed, the share by which a node may have more after it had turned the flow off.
const REGAINED: usize = 64;

/// The octets that a node has without having confirmed them, and how many it may have.
#[derive(Debug)]
pub struct Window {
    bounds: (usize, usize),
    /// What the node may have at most, by when it turned the flow off.
    ceiling: usize,
    horizon: Duration,
    size: usize,
    octets: usize,
    u_pdus: usize,
}

/// What is kept of a U_PDU that was handed over.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    at: Time,
    octets: usize,
    ahead: usize,
}

impl Window {
    /// A window between these `bounds` that holds what the node confirms in the `horizon`.
    #[must_use]
    pub fn new(bounds: (usize, usize), horizon: Duration) -> Self {
        let size = INITIAL.max(bounds.0).min(bounds.1);
        Self { bounds, ceiling: bounds.1, horizon, size, octets: 0, u_pdus: 0 }
    }

    /// The node has a U_PDU of so many octets; give back what this returns when it has it no more.
    pub fn handle_sent(&mut self, now: Time, octets: usize) -> Share {
        self.octets += octets;
        self.u_pdus += 1;
        Share { at: now, octets, ahead: self.octets }
    }

    /// The node has confirmed it.
    pub fn handle_confirmed(&mut self, now: Time, share: Share) {
        let unconfirmed = self.octets;
        self.handle_gone(share);
        let time = now.since(share.at).as_millis().max(1);
        let sample = share.ahead as u128 * self.horizon.as_millis() / time;
        let sample = usize::try_from(sample).unwrap_or(usize::MAX).min(self.bounds.1);
        // Few octets that took their time say nothing of what the node could have done.
        let had_enough = share.ahead.max(unconfirmed) >= self.size / 2;
        if had_enough || sample > self.size {
            // A quarter of the way to what the sample says.
            let size = self.size - self.size / 4 + sample / 4;
            self.size = size.max(self.bounds.0).min(self.ceiling);
        }
        self.ceiling = (self.ceiling + share.octets / REGAINED).min(self.bounds.1);
    }

    /// The node has turned the flow off: it has more than it takes. While the flow is off not even what is
    /// urgent goes to it, so it gets less from now on, and only by and by as much again.
    pub fn handle_flow_off(&mut self) {
        self.ceiling = (self.octets - self.octets / 8).max(self.bounds.0);
        self.size = self.size.min(self.ceiling);
    }

    /// The node has it no more, and has not confirmed it.
    pub fn handle_gone(&mut self, share: Share) {
        self.octets -= share.octets;
        self.u_pdus -= 1;
    }

    /// Whether the node may have another U_PDU.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.octets < self.size && self.u_pdus < MOST
    }

    /// What the node has.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// What the node may have.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
}
