//! What the node has without having confirmed it, and how much that may be.
//!
//! A datagram that the node has can be neither dropped nor overtaken: so it gets as much as it
//! confirms in the horizon, and no more. With `ahead` octets unconfirmed when a datagram was handed
//! over, itself included, and confirmed after `time`, the node does `ahead / time`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::tcp::Tcp;
use crate::ip::FlowKey;
use crate::s5066::sis::client::SendId;
use crate::time::Time;

/// Octets of datagrams that were confirmed and are remembered.
const REMEMBERED: usize = 64 << 10;
/// The window until the node has confirmed anything.
const INITIAL: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Pending {
    bounds: (usize, usize),
    horizon: Duration,
    window: usize,
    octets: usize,
    handed: BTreeMap<SendId, Handed>,
    /// The last acknowledgement of each flow that the node has.
    acks: BTreeMap<FlowKey, SendId>,
    /// Datagrams that were confirmed lately: their node may still say that nobody took them.
    confirmed: VecDeque<Vec<u8>>,
    confirmed_octets: usize,
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
        Self {
            bounds,
            horizon,
            window,
            octets: 0,
            handed: BTreeMap::new(),
            acks: BTreeMap::new(),
            confirmed: VecDeque::new(),
            confirmed_octets: 0,
        }
    }

    pub(super) fn handle_sent(&mut self, now: Time, id: SendId, packet: Vec<u8>, tcp: Option<Tcp>) {
        self.octets += packet.len();
        if let Some(Tcp::Ack { flow, .. }) = tcp {
            self.acks.insert(flow, id);
        }
        self.handed.insert(id, Handed { packet, tcp, at: now, ahead: self.octets });
    }

    /// Takes a confirmation; what it was about, as TCP.
    pub(super) fn handle_confirmed(&mut self, now: Time, id: SendId) -> Option<Option<Tcp>> {
        let unconfirmed = self.octets;
        let handed = self.take(id)?;
        let time = now.since(handed.at).as_millis().max(1);
        let sample = handed.ahead as u128 * self.horizon.as_millis() / time;
        let sample = usize::try_from(sample).unwrap_or(usize::MAX).min(self.bounds.1);
        // Few octets that took their time say nothing of what the node could have done.
        let had_enough = handed.ahead.max(unconfirmed) >= self.window / 2;
        if had_enough || sample > self.window {
            // A quarter of the way to what the sample says.
            let window = self.window - self.window / 4 + sample / 4;
            self.window = window.max(self.bounds.0).min(self.bounds.1);
        }
        self.confirmed_octets += handed.packet.len();
        self.confirmed.push_back(handed.packet);
        while self.confirmed_octets > REMEMBERED
            && let Some(oldest) = self.confirmed.pop_front()
        {
            self.confirmed_octets -= oldest.len();
        }
        Some(handed.tcp)
    }

    /// The datagram that begins like this and was confirmed.
    pub(super) fn take_confirmed(&mut self, start: &[u8]) -> Option<Vec<u8>> {
        let at = self.confirmed.iter().position(|packet| packet.starts_with(start))?;
        let packet = self.confirmed.remove(at)?;
        self.confirmed_octets -= packet.len();
        Some(packet)
    }

    /// The acknowledgement that the node has and this one replaces.
    pub(super) fn replaced(&self, tcp: Option<Tcp>) -> Option<SendId> {
        let Some(Tcp::Ack { flow, .. }) = tcp else { return None };
        let id = *self.acks.get(&flow)?;
        let older = self.handed.get(&id)?.tcp;
        tcp.filter(|newer| newer.replaces(older)).map(|_| id)
    }

    pub(super) fn take(&mut self, id: SendId) -> Option<Handed> {
        let handed = self.handed.remove(&id)?;
        self.octets -= handed.packet.len();
        if let Some(Tcp::Ack { flow, .. }) = handed.tcp
            && self.acks.get(&flow) == Some(&id)
        {
            self.acks.remove(&flow);
        }
        Some(handed)
    }

    /// Takes all: none will be confirmed.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Handed> {
        self.octets = 0;
        self.acks.clear();
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
