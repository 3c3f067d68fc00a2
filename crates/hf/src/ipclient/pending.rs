//! Keeps track of datagrams handed to the node and not confirmed yet.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::ip::FlowKey;
use base::time::Time;

use super::tcp::Tcp;
use crate::s5066::sis::client::{SendId, Share, Window};

/// Octets of datagrams that were confirmed and are remembered.
const REMEMBERED: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Pending {
    window: Window,
    handed: BTreeMap<SendId, Handed>,
    /// The last acknowledgement of each flow that the node has.
    acks: BTreeMap<FlowKey, SendId>,
    /// Datagrams that were confirmed lately: their node may still say that nobody took them.
    confirmed: VecDeque<Handed>,
    confirmed_octets: usize,
}

/// A datagram that the node has, or had.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) packet: Vec<u8>,
    /// What the node was given, if it was not the packet.
    compressed: Option<Vec<u8>>,
    pub(super) tcp: Option<Tcp>,
    share: Option<Share>,
}

impl Handed {
    pub(super) fn new(packet: Vec<u8>, compressed: Option<Vec<u8>>, tcp: Option<Tcp>) -> Self {
        Self { packet, compressed, tcp, share: None }
    }

    fn u_pdu(&self) -> &[u8] {
        self.compressed.as_ref().unwrap_or(&self.packet)
    }

    /// What it takes here.
    fn octets(&self) -> usize {
        self.packet.len() + self.compressed.as_ref().map_or(0, Vec::len)
    }
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

    pub(super) fn handle_sent(&mut self, now: Time, id: SendId, priority: u8, handed: Handed) {
        let share = Some(self.window.handle_sent(now, priority, handed.u_pdu().len()));
        if let Some(Tcp::Ack { flow, .. }) = handed.tcp {
            self.acks.insert(flow, id);
        }
        self.handed.insert(id, Handed { share, ..handed });
    }

    /// Takes the confirmation of a datagram; returns the TCP segment in it, if any.
    pub(super) fn handle_confirmed(&mut self, now: Time, id: SendId) -> Option<Option<Tcp>> {
        let mut handed = self.remove(id)?;
        if let Some(share) = handed.share.take() {
            self.window.handle_confirmed(now, share);
        }
        let tcp = handed.tcp;
        self.confirmed_octets += handed.octets();
        self.confirmed.push_back(handed);
        while self.confirmed_octets > REMEMBERED
            && let Some(oldest) = self.confirmed.pop_front()
        {
            self.confirmed_octets -= oldest.octets();
        }
        Some(tcp)
    }

    /// The datagram that begins like this and was confirmed.
    pub(super) fn take_confirmed(&mut self, start: &[u8]) -> Option<Vec<u8>> {
        let at = self.confirmed.iter().position(|handed| handed.u_pdu().starts_with(start))?;
        let handed = self.confirmed.remove(at)?;
        self.confirmed_octets -= handed.octets();
        Some(handed.packet)
    }

    /// The acknowledgement at the node that a newer one replaces.
    pub(super) fn replaced(&self, tcp: Option<Tcp>) -> Option<SendId> {
        let Some(Tcp::Ack { flow, .. }) = tcp else { return None };
        let id = *self.acks.get(&flow)?;
        let older = self.handed.get(&id)?.tcp;
        tcp.filter(|newer| newer.replaces(older)).map(|_| id)
    }

    pub(super) fn take(&mut self, id: SendId) -> Option<Handed> {
        let mut handed = self.remove(id)?;
        if let Some(share) = handed.share.take() {
            self.window.handle_gone(share);
        }
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
        let shares = handed.values().filter_map(|handed| handed.share);
        shares.for_each(|share| self.window.handle_gone(share));
        handed.into_values()
    }

    pub(super) fn has_room(&self, priority: u8) -> bool {
        self.window.has_room(priority)
    }

    pub(super) fn octets(&self) -> usize {
        self.window.octets()
    }

    pub(super) fn window(&self) -> usize {
        self.window.size()
    }
}
