//! What the node has without having confirmed it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::tcp::Tcp;
use crate::ip::FlowKey;
use crate::s5066::sis::client::{SendId, Share, Window};
use crate::time::Time;

/// Octets of datagrams that were confirmed and are remembered.
const REMEMBERED: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Pending {
    window: Window,
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
    share: Share,
}

impl Pending {
    pub(super) fn new(bounds: (usize, usize), horizon: Duration) -> Self {
        Self {
            window: Window::new(bounds, horizon),
            handed: BTreeMap::new(),
            acks: BTreeMap::new(),
            confirmed: VecDeque::new(),
            confirmed_octets: 0,
        }
    }

    pub(super) fn handle_sent(&mut self, now: Time, id: SendId, packet: Vec<u8>, tcp: Option<Tcp>) {
        let share = self.window.handle_sent(now, packet.len());
        if let Some(Tcp::Ack { flow, .. }) = tcp {
            self.acks.insert(flow, id);
        }
        self.handed.insert(id, Handed { packet, tcp, share });
    }

    /// Takes a confirmation; what it was about, as TCP.
    pub(super) fn handle_confirmed(&mut self, now: Time, id: SendId) -> Option<Option<Tcp>> {
        let handed = self.remove(id)?;
        self.window.handle_confirmed(now, handed.share);
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
        let handed = self.remove(id)?;
        self.window.handle_gone(handed.share);
        Some(handed)
    }

    fn remove(&mut self, id: SendId) -> Option<Handed> {
        let handed = self.handed.remove(&id)?;
        if let Some(Tcp::Ack { flow, .. }) = handed.tcp
            && self.acks.get(&flow) == Some(&id)
        {
            self.acks.remove(&flow);
        }
        Some(handed)
    }

    /// Takes all: none will be confirmed.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Handed> {
        self.acks.clear();
        let handed = std::mem::take(&mut self.handed);
        handed.values().for_each(|handed| self.window.handle_gone(handed.share));
        handed.into_values()
    }

    pub(super) fn has_room(&self) -> bool {
        self.window.has_room()
    }

    pub(super) fn octets(&self) -> usize {
        self.window.octets()
    }

    pub(super) fn window(&self) -> usize {
        self.window.size()
    }
}
