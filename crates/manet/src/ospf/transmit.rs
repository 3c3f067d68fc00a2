//! Chooses the next packet to send on a link with room.

use base::time::Time;

use super::neighbour::State;
use super::router::{HEADERS, Ospf};
use super::stats::Counter;
use super::wire::{self, Body, Header, Lsa, Packet};

impl Ospf {
    /// The next packet for a link.
    pub(super) fn next_packet(&mut self, now: Time, interface: usize) -> Option<Packet> {
        let (router, area) = (self.id?, self.config.area);
        let body = self.next_body(now, interface)?;
        self.stats.count(match body {
            Body::Hello(_) => Counter::HellosSent,
            Body::Description(_) => Counter::DescriptionsSent,
            Body::Request(_) => Counter::RequestsSent,
            Body::Update(_) => Counter::UpdatesSent,
            Body::Acknowledgement(_) => Counter::AcknowledgementsSent,
        });
        Some(Packet { router, area, body })
    }

    fn next_body(&mut self, now: Time, interface: usize) -> Option<Body> {
        let again_at = now + self.config.retransmit_interval;
        let link = self.links.get_mut(&interface)?;
        if std::mem::take(&mut link.owes_hello) {
            return self.hello(interface);
        }
        if !link.acks.owed.is_empty() {
            let (others, each) = HEADERS;
            let count = link.entries(others, each).min(link.acks.owed.len());
            return Some(Body::Acknowledgement(link.acks.owed.drain(..count).collect()));
        }
        let asked = link.entries(wire::HEADER, wire::REQUESTED);
        let room = link.room() - wire::UPDATE;
        let peer = link.neighbour.as_mut()?;
        if let Some(description) = peer.poll_description(again_at) {
            return Some(Body::Description(description));
        }
        if matches!(peer.state, State::Exchange | State::Loading) && peer.wanted.is_askable() {
            let wanted = &mut peer.wanted;
            wanted.asked = wanted.lsas.keys().take(asked).copied().collect();
            wanted.again_at = Some(again_at);
            return Some(Body::Request(wanted.asked.iter().copied().collect()));
        }
        let lsas = self.next_lsas(now, interface, room)?;
        Some(Body::Update(lsas))
    }

    /// The LSAs of the next update: as many as fit.
    fn next_lsas(&mut self, now: Time, interface: usize, room: usize) -> Option<Vec<Lsa>> {
        let again_at = now + self.config.retransmit_interval;
        let delay = u16::try_from(self.config.transmit_delay.as_secs()).unwrap_or(Header::MAX_AGE);
        let peer = self.links.get_mut(&interface)?.neighbour.as_mut()?;
        let mut left = room;
        let mut lsas = Vec::new();
        for key in peer.owed.ready() {
            let Some(entry) = self.database.get(&key) else {
                peer.owed.forget(&key);
                continue;
            };
            let mut lsa = entry.lsa(now);
            if lsa.size() > room {
                self.stats.count(Counter::LsasTooBig);
                peer.owed.forget(&key);
                continue;
            }
            if lsa.size() > left {
                break;
            }
            left -= lsa.size();
            lsa.header.age = lsa.header.age.saturating_add(delay).min(Header::MAX_AGE);
            lsas.push(lsa);
            peer.owed.sent(&key, again_at);
        }
        (!lsas.is_empty()).then_some(lsas)
    }
}
