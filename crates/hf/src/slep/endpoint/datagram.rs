//! Sends datagrams for users and handles received ones.

use base::contract::Refused;
use base::time::Time;

use super::{Content, Event, Slep, Submission};
use crate::s5066::Address;
use crate::s5066::sis::Service;
use crate::s5066::sis::client::NotSent;
use crate::slep::coding;
use crate::slep::datagrams::{Datagram, Delivery, Outgoing};
use crate::slep::timers::DatagramId;
use crate::slep::wire::{Addresses, DATAGRAM, DatagramName, Ids, Pdu};

/// Octets of a datagram after decoding, at most.
const MOST_DECODED: usize = 64 << 10;

impl Slep {
    /// Sends a datagram. An event reports the outcome of a reliable one.
    ///
    /// # Errors
    /// When it is too long, there is no room, or it is reliable and to a group.
    pub fn send_datagram(
        &mut self,
        now: Time,
        to: Address,
        addresses: Addresses,
        delivery: Delivery,
        data: &[u8],
    ) -> Result<DatagramId, Refused> {
        let mtu = usize::from(self.mtu()).saturating_sub(DATAGRAM);
        // The limit applies before compression, so it does not depend on the content.
        let is_too_long = data.len() > mtu;
        let coded =
            if delivery.is_compressed && !is_too_long { coding::deflate(data) } else { None };
        let (length, is_coded) = (data.len(), coded.is_some());
        let data = coded.unwrap_or_else(|| data.to_vec());
        let refused = if is_too_long {
            Some(Refused::TooBig { mtu })
        } else if delivery.is_reliable && to.is_group() {
            Some(Refused::Down)
        } else if !self.datagrams.has_room(data.len(), self.config.limits.datagrams) {
            Some(Refused::Full)
        } else {
            None
        };
        let number = if refused.is_none() && delivery.is_reliable {
            self.peer(now, to).and_then(|peer| peer.datagrams().number())
        } else {
            None
        };
        let refused =
            refused.or((delivery.is_reliable && number.is_none()).then_some(Refused::Full));
        if let Some(refused) = refused {
            self.stats.datagrams.refused += 1;
            return Err(refused);
        }
        let expires = now + delivery.lifetime;
        self.stats.datagrams.coded += u64::from(is_coded);
        self.stats.datagrams.saved += (length - data.len()) as u64;
        let outgoing = Outgoing { to, addresses, delivery, expires, number, is_coded, data };
        let id = self.datagrams.push(outgoing);
        if let Some((number, peer)) = number.zip(self.peers.get_mut(&to)) {
            peer.datagrams().note(number, id);
        }
        self.datagrams.watch(&mut self.timers, id, expires);
        self.stats.datagrams.taken += 1;
        Ok(id)
    }

    /// The next datagram that arrived.
    pub fn poll_datagram(&mut self) -> Option<Datagram> {
        self.datagrams.poll()
    }

    /// Whether a datagram is still to be sent, or to be acknowledged.
    #[must_use]
    pub fn is_waiting(&self, id: DatagramId) -> bool {
        self.datagrams.get(id).is_some()
    }

    /// A datagram is too old, or nothing was heard of it.
    pub(crate) fn check_datagram(&mut self, now: Time, id: DatagramId) {
        let Some(expires) = self.datagrams.handle_timer(id) else { return };
        if expires <= now {
            self.drop_datagram(id, false);
        } else {
            self.stats.datagrams.repeated += 1;
            self.datagrams.repeat(id);
            self.datagrams.watch(&mut self.timers, id, expires);
        }
    }

    /// A datagram is done with.
    fn drop_datagram(&mut self, id: DatagramId, is_delivered: bool) {
        let Some(outgoing) = self.datagrams.remove(&mut self.timers, id) else { return };
        if is_delivered {
            self.stats.datagrams.delivered += 1;
        } else {
            self.stats.datagrams.expired += 1;
        }
        let Some(number) = outgoing.number else { return };
        if let Some(peer) = self.peers.get_mut(&outgoing.to) {
            peer.datagrams().settle(number);
        }
        self.events.push_back(if is_delivered {
            Event::Delivered(id)
        } else {
            Event::Undelivered(id)
        });
    }

    /// Sends a datagram if none of a stream goes before it; whether there was one.
    pub(crate) fn post(&mut self, now: Time) -> bool {
        while let Some((id, priority)) = self.datagrams.first() {
            if !self.ready.is_next(priority) || !self.window.has_room(priority) {
                return false;
            }
            self.datagrams.unlist(id, priority);
            let Some(outgoing) = self.datagrams.get(id) else { continue };
            let to = outgoing.to;
            if let Some(peer) = self.peers.get_mut(&to).filter(|it| it.is_waiting()) {
                peer.datagrams().park(id);
                continue;
            }
            let (addresses, epoch) = (outgoing.addresses, self.epoch);
            let name = outgoing.number.map(|number| DatagramName { epoch, id: number });
            let (is_coded, data) = (outgoing.is_coded, &outgoing.data[..]);
            let mut octets = Vec::new();
            Pdu::Datagram { name, addresses, is_coded, data }.emit(&mut octets);
            let service = to.is_group().then_some(Service::NON_ARQ);
            let ttl = Some(outgoing.expires.since(now));
            let content = Content::Datagram(id);
            match self.hand(now, &octets, Submission { to, priority, ttl, service, content }) {
                Ok(()) => {}
                Err(NotSent::TooLarge { .. }) => {
                    // The node was bound anew, with an MTU below what the datagram was taken for.
                    self.drop_datagram(id, false);
                    continue;
                }
                Err(NotSent::FlowOff | NotSent::Full | NotSent::NotBound) => {
                    self.datagrams.list(id);
                    return false;
                }
            }
            self.stats.datagrams.handed += 1;
            if name.is_none() {
                // Nothing more is done for it.
                self.datagrams.remove(&mut self.timers, id);
            }
            return true;
        }
        false
    }

    /// The node has confirmed a datagram: schedules its retransmission unless acknowledged.
    pub(crate) fn handle_datagram_confirmed(&mut self, now: Time, id: DatagramId) {
        if let Some(repeats) = self.datagrams.repeats(id) {
            let wait = self.config.times.ask_after * 2_u32.saturating_pow(repeats.min(10));
            self.datagrams.watch(&mut self.timers, id, now + wait);
        }
    }

    pub(crate) fn handle_datagram(
        &mut self,
        from: Address,
        name: Option<DatagramName>,
        addresses: Addresses,
        is_coded: bool,
        data: &[u8],
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let is_known = name.is_some_and(|name| peer.datagrams().has_seen(name.epoch, name.id));
        if is_known {
            self.stats.datagrams.received_again += 1;
        } else {
            let decoded =
                if is_coded { coding::inflate(data, MOST_DECODED) } else { Some(data.to_vec()) };
            let Some(data) = decoded else {
                self.stats.received.received_malformed += 1;
                return;
            };
            let datagram = Datagram { from, addresses, data };
            if !self.datagrams.arrive(datagram, self.config.limits.datagrams) {
                self.stats.datagrams.received_full += 1;
                return;
            }
            self.stats.datagrams.received += 1;
        }
        if let Some((name, peer)) = name.zip(self.peers.get_mut(&from)) {
            peer.datagrams().see(name.epoch, name.id);
            peer.datagrams().owe(name.epoch, name.id);
            self.talk(from);
        }
    }

    pub(crate) fn handle_receipt(&mut self, from: Address, epoch: u16, ids: Ids<'_>) {
        if epoch != self.epoch {
            return;
        }
        for number in ids.iter() {
            let peer = self.peers.get_mut(&from);
            if let Some(id) = peer.and_then(|peer| peer.datagrams().settle(number)) {
                self.drop_datagram(id, true);
            }
        }
    }
}
