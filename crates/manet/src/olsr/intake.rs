//! Handles received packets: reads their messages and decides which to forward (RFC 3626, 3.4).

use std::sync::Arc;

use base::time::Time;

use super::is_node;
use super::neighbourhood::Greeting;
use super::outbox::Refused;
use super::router::Olsr;
use super::stats::Counter;
use super::wire::{Addresses, Hello, Hna, Kind, Malformed, Message, Packet, Seq, Tc};
use crate::{Neighbour, Notice};

impl Olsr {
    /// Takes a packet of a neighbour.
    pub(super) fn take_packet(&mut self, now: Time, from: Neighbour, octets: &[u8]) {
        let is_own = self.own.addresses.contains(&from.address);
        if is_own || !is_node(from.address) || !self.ports.contains_key(&from.interface) {
            self.stats.count(Counter::PacketsStray);
            return;
        }
        let Ok(packet) = Packet::parse(octets) else {
            self.stats.count(Counter::PacketsMalformed);
            return;
        };
        self.stats.count(Counter::PacketsReceived);
        self.hood.handle_packet(now, from, packet.seq, &self.config);
        for message in packet.messages() {
            let originator = message.as_ref().map_or(from.address, |it| it.header.originator);
            let strange = self.stats.of(Counter::EntriesStrange);
            let taken = message.and_then(|message| self.take(now, from, packet.seq, &message));
            if taken.is_err() {
                self.stats.count(Counter::PacketsMalformed);
            }
            if taken.is_err() || self.stats.of(Counter::EntriesStrange) > strange {
                self.notices.add(Notice::Unreadable { from, originator });
            }
        }
    }

    fn take(
        &mut self,
        now: Time,
        from: Neighbour,
        seq: Seq,
        message: &Message<'_>,
    ) -> Result<(), Malformed> {
        let header = &message.header;
        let refused =
            if self.own.addresses.contains(&header.originator) || !is_node(header.originator) {
                self.take_own(now, from, message);
                Some(Counter::MessagesOwn)
            } else if header.ttl == 0 {
                Some(Counter::MessagesExpired)
            } else if header.kind == Kind::HELLO {
                return self.take_hello(now, from, seq, message);
            } else if self.hood.symmetric_at(from).is_none() {
                Some(Counter::MessagesStrange)
            } else {
                None
            };
        if let Some(counter) = refused {
            self.stats.count(counter);
            return Ok(());
        }

        let taken = if self.topology.is_duplicate(header.originator, header.seq) {
            self.stats.count(Counter::MessagesDuplicate);
            Ok(())
        } else {
            self.take_body(now, message)
        };
        // Forwarding needs only the header: others may understand a message unknown to this node (RFC 3626, 3.4.1).
        self.forward(now, from, message);
        taken
    }

    /// Handles a message with one of our addresses as its originator: an echo of our own, or a message of another node.
    /// We contradict content that others would believe for longer than our own messages.
    fn take_own(&mut self, now: Time, from: Neighbour, message: &Message<'_>) {
        let header = &message.header;
        let is_ours = self.own.addresses.contains(&header.originator);
        if !is_ours || self.numbers.may_be_ours(now, header.seq) {
            return;
        }
        self.stats.count(Counter::MessagesDisputed);
        self.notices.add(Notice::AddressDisputed { address: header.originator, from });
        self.numbers.overtake(header.seq);
        if header.kind == Kind::TC
            && let Ok(tc) = Tc::parse(message.body)
        {
            let early = now + self.jitter();
            self.advert.overtake(now, tc.ansn, early, &self.config);
        }
    }

    fn take_hello(
        &mut self,
        now: Time,
        from: Neighbour,
        seq: Seq,
        message: &Message<'_>,
    ) -> Result<(), Malformed> {
        // A HELLO from farther away would describe links of another node.
        if message.header.hops > 0 {
            self.stats.count(Counter::HellosForwarded);
            return Ok(());
        }
        let hello = &Hello::parse(message.body)?;
        let Some(port) = self.ports.get(&from.interface) else { return Ok(()) };
        let greeting = Greeting {
            from,
            seq,
            header: &message.header,
            hello,
            here: port.interface.address,
            own: &self.own.addresses,
        };
        self.hood.handle_hello(now, &greeting, &self.config, &mut self.stats);
        Ok(())
    }

    /// Handles the content of a flooded message of a known kind.
    fn take_body(&mut self, now: Time, message: &Message<'_>) -> Result<(), Malformed> {
        let (header, body, stats) = (&message.header, message.body, &mut self.stats);
        let (until, originator) = (now + header.validity(), header.originator);
        let is_changed = match header.kind {
            Kind::TC => self.topology.handle_tc(until, originator, &Tc::parse(body)?, stats),
            Kind::MID => {
                let is_known = |address| {
                    self.own.addresses.contains(&address)
                        || self.hood.symmetric().contains_key(&address)
                };
                let addresses = Addresses::parse(body);
                let is_changed =
                    self.topology.handle_mid(until, originator, &addresses, is_known, stats);
                if is_changed {
                    self.hood.handle_names();
                }
                is_changed
            }
            Kind::HNA => self.topology.handle_hna(until, originator, &Hna::parse(body), stats),
            Kind(_) => false,
        };
        self.are_routes_stale |= is_changed;
        Ok(())
    }

    /// Forwards a message by the rules for all, of kinds that are unknown too (RFC 3626, 3.4.1).
    fn forward(&mut self, now: Time, from: Neighbour, message: &Message<'_>) {
        let header = &message.header;
        let sender = self.hood.symmetric_at(from);
        let is_asked = header.ttl > 1 && sender.is_some_and(|main| self.hood.is_selector(main));
        let until = now + self.config.duplicate_hold;
        let name = (header.originator, header.seq);
        if !self.topology.remember(until, name, from.interface, is_asked, &mut self.stats) {
            return;
        }
        self.stats.count(Counter::MessagesForwarded);
        let due = now + self.jitter();
        let octets: Arc<[u8]> = message.relayed().into();
        for port in self.ports.values_mut() {
            let (room, most) = (port.interface.room, self.config.bounds.queue);
            match port.outbox.forward(due, octets.clone(), room, most) {
                Ok(()) => {}
                Err(Refused::Full) => self.stats.count(Counter::MessagesFull),
                Err(Refused::TooBig) => self.stats.count(Counter::MessagesTooBig),
            }
        }
    }
}
