//! What the node has without having confirmed it, and how much that may be.
//!
//! A datagram that the node has can be neither dropped nor overtaken: so it gets as much as it
//! confirms in the horizon, and no more. With `ahead` octets unconfirmed when a datagram was handed
//! over, itself included, and confirmed after `time`, the node does `ahead / time`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::tcp::Tcp;
use crate::s5066::sis::client::SendId;
use crate::time::Time;

/// The window until the node has confirmed anything.
const INITIAL: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Pending {
    bounds: (usize, usize),
    horizon: Duration,
    window: usize,
    octets: usize,
    handed: BTreeMap<SendId, Handed>,
}

/// A datagram that the node has.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) packet: Vec<u8>,
    pub(super) tcp: Option<Tcp>,
    at: Time,
    ahead: usize,
}

impl Pending {
    pub(super) fn new(bounds: (usize, usize), horizon: Duration) -> Self {
        let window = INITIAL.max(bounds.0).min(bounds.1);
        Self { bounds, horizon, window, octets: 0, handed: BTreeMap::new() }
    }

    pub(super) fn handle_sent(&mut self, now: Time, id: SendId, packet: Vec<u8>, tcp: Option<Tcp>) {
        self.octets += packet.len();
        self.handed.insert(id, Handed { packet, tcp, at: now, ahead: self.octets });
    }

    pub(super) fn handle_confirmed(&mut self, now: Time, id: SendId) -> Option<Handed> {
        let handed = self.take(id)?;
        let time = now.since(handed.at).as_millis().max(1);
        let sample = handed.ahead as u128 * self.horizon.as_millis() / time;
        let sample = usize::try_from(sample).unwrap_or(usize::MAX).min(self.bounds.1);
        // A quarter of the way to what the sample says.
        let window = self.window - self.window / 4 + sample / 4;
        self.window = window.max(self.bounds.0).min(self.bounds.1);
        Some(handed)
    }

    pub(super) fn take(&mut self, id: SendId) -> Option<Handed> {
        let handed = self.handed.remove(&id)?;
        self.octets -= handed.packet.len();
        Some(handed)
    }

    /// Takes all: none will be confirmed.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Handed> {
        self.octets = 0;
        std::mem::take(&mut self.handed).into_values()
    }

    pub(super) fn has_room(&self) -> bool {
        self.octets < self.window
    }

    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    pub(super) fn window(&self) -> usize {
        self.window
    }
}
