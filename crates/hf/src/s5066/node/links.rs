//! Links and outcomes: events from the lower layers to the clients' side, and its commands to them.

use std::ops::Range;

use base::time::Time;

use super::super::cas::cpdu::{BreakReason, Cpdu, RejectReason};
use super::super::cas::link;
use super::super::dts::arq::Repeat;
use super::super::dts::datagram::Arrived;
use super::super::dts::wire::Numbers;
use super::super::service::{Command, Failure, Indication, LinkEvent, Mode, Outcome, RequestId};
use super::super::sis::PeerState;
use super::super::sis::server::Known;
use super::super::sis::spdu::SPdu;
use super::Peer;
use super::{Address, Node};

impl Node {
    /// Carries out the commands of the clients' side.
    pub(crate) fn take_commands(&mut self, now: Time) {
        while let Some(command) = self.sis.poll_command() {
            match command {
                Command::MakeExclusive { peer: address } => {
                    if let Some(peer) = self.peer_mut(address) {
                        peer.wants_exclusive = true;
                    } else {
                        let event = LinkEvent::NotMade { peer: address, has_answered: false };
                        self.sis.handle_link(now, event);
                    }
                }
                Command::BreakExclusive { peer } => {
                    let Some(peer) = self.peers.get_mut(&peer) else { continue };
                    peer.wants_exclusive = false;
                    if peer.link.is_exclusive() {
                        peer.link.end(BreakReason::HigherLayer);
                    }
                }
                Command::AskRate { node, waveform } => {
                    self.request_rate(node, waveform);
                }
                Command::Describe { client, node } => {
                    let known = self.describe(node);
                    self.sis.handle_described(now, client, node, known);
                }
                Command::TakeBack { id } => self.take_back(now, id),
            }
        }
    }

    /// The state of another node, for clients that ask.
    fn describe(&self, node: Address) -> Known {
        let peer = self.peers.get(&node);
        let state = match peer {
            Some(peer) if peer.link.is_up() => PeerState::Up,
            Some(peer) if peer.link.is_calling() => PeerState::Calling,
            Some(peer) if peer.contact.is_lost => PeerState::Lost,
            Some(_) | None => PeerState::Down,
        };
        let backlog = peer.map_or(0, |peer| peer.waiting.octets(0) + peer.sender.backlog().unsent);
        Known { state, bits_per_s: self.waveform.bits_per_s(), backlog }
    }

    /// Withdraws a request if nothing of it was sent.
    fn take_back(&mut self, now: Time, id: RequestId) {
        let Self { peers, datagrams, .. } = self;
        let waiting = peers.values_mut().map(|peer| &mut peer.waiting).chain([datagrams]);
        let is_removed = waiting.into_iter().any(|waiting| waiting.remove(id).is_some());
        if is_removed {
            self.tell(now, id, Outcome::not_arrived(Failure::TakenBack));
        } else if peers.values_mut().any(|peer| peer.sender.take_back(id)) {
            self.report(now);
        }
    }

    /// Calls for the requested exclusive links once data under way on soft links is finished, and then
    /// also ends soft links beside an exclusive one (Annex B, section 3.2.2).
    pub(crate) fn settle_exclusive(&mut self, now: Time) {
        let wanted = self.peers.iter().filter(|(_, peer)| peer.wants_exclusive);
        for address in wanted.map(|(address, _)| *address).collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(&address) else { continue };
            if peer.link.is_up() && peer.link.is_exclusive() {
                peer.wants_exclusive = false;
                let event = LinkEvent::Made { peer: address, is_exclusive: true, is_caller: true };
                self.sis.handle_link(now, event);
                continue;
            }
            // On an established soft link the call is part of a transmission, and the other end may
            // send until that begins.
            let may_call = !peer.has_begun() && !peer.is_ack_due && self.turn.is_none();
            if peer.link.is_down() || peer.link.is_calling() && may_call {
                self.call_exclusive(now, address);
            }
        }

        let is_exclusive = self.is_exclusive();
        let is_caller =
            is_exclusive && self.exclusive.is_some_and(|one| self.links().any(|up| up == one));
        let may_end = is_caller && self.turn.is_none();
        for peer in self.peers.values_mut() {
            peer.is_finishing = peer.wants_exclusive || is_exclusive && !peer.link.is_exclusive();
            let is_over = !peer.has_begun() && !peer.is_ack_due && !peer.wants_exclusive;
            if may_end && peer.is_finishing && peer.link.is_up() && is_over {
                peer.link.end(BreakReason::HigherPriority);
            }
        }
        self.settle_links(now);
    }

    pub(crate) fn call_exclusive(&mut self, now: Time, address: Address) {
        let (id, numbers) = (self.take_id(), self.numbers());
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.wants_exclusive = false;
        peer.is_finishing = false;
        peer.call(id, true, numbers);
        self.settle_links(now);
    }

    /// Whether an exclusive link is established, not only requested.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.peers.values().any(|peer| peer.link.is_up() && peer.link.is_exclusive())
    }

    /// Acts on the events of links.
    pub(crate) fn settle_links(&mut self, now: Time) {
        let addresses: Vec<Address> = self.peers.keys().copied().collect();
        for address in addresses {
            while let Some(event) = self.peers.get_mut(&address).and_then(|it| it.link.poll_event())
            {
                self.handle_link(now, address, event);
            }
        }
    }

    fn handle_link(&mut self, now: Time, address: Address, event: link::Event) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        match event {
            link::Event::Made { is_exclusive, is_caller, is_long, in_doubt } => {
                let numbers = if is_long { Numbers::Long } else { Numbers::Short };
                if is_caller {
                    peer.change_numbers(numbers);
                } else {
                    peer.start_anew(numbers);
                }
                if in_doubt {
                    peer.resets.request();
                }
                peer.contact.silences = 0;
                self.stats.links.links_made += 1;
                if is_exclusive && is_caller {
                    self.exclusive = Some(address);
                }
                let event = LinkEvent::Made { peer: address, is_exclusive, is_caller };
                self.sis.handle_link(now, event);
            }
            link::Event::Broken { is_exclusive } => {
                // Requests that cannot have arrived wait for the next link.
                let numbers = peer.sender.numbers();
                peer.start_anew(numbers);
                self.stats.links.links_broken += 1;
                self.sis.handle_link(now, LinkEvent::Broken { peer: address, is_exclusive });
            }
            link::Event::Refused(reason) => {
                let failure = match reason {
                    RejectReason::BroadcastOnly
                    | RejectReason::ExclusiveLink
                    | RejectReason::HigherPriority
                    | RejectReason::Other(_)
                    | RejectReason::Unknown => Failure::Refused,
                };
                self.fail_call(now, address, failure, true);
            }
            link::Event::Unanswered => self.fail_call(now, address, Failure::NoResponse, false),
        }
    }

    fn fail_call(&mut self, now: Time, address: Address, failure: Failure, has_answered: bool) {
        self.stats.links.calls_failed += 1;
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.wants_exclusive = false;
        }
        self.fail_peer(now, address, failure);
        self.sis.handle_link(now, LinkEvent::NotMade { peer: address, has_answered });
    }

    /// Fails all requests to a peer, except those that may be retried.
    fn fail_peer(&mut self, now: Time, address: Address, failure: Failure) {
        // Absent stations must leave room for others.
        let pausing = self.peers.values().filter(|peer| peer.contact.is_pausing()).count();
        let may_retry = pausing < self.config.peers / 2;
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.contact.is_lost = failure == Failure::NoResponse;
        let waited = peer.fail(now, failure, may_retry);
        self.sis.handle_pause(address, peer.contact.is_pausing());
        for request in waited {
            self.tell(now, request.id, Outcome::not_arrived(failure));
        }
    }

    /// Reports the outcomes of requests to the clients' side.
    pub(crate) fn report(&mut self, now: Time) {
        let addresses: Vec<Address> = self.peers.keys().copied().collect();
        for address in addresses {
            while let Some((id, outcome)) = self.peers.get_mut(&address).and_then(|peer| {
                peer.sender.poll_outcome().or_else(|| peer.expedited.poll_outcome())
            }) {
                self.tell(now, id, outcome);
            }
            let is_lost = self.peers.get(&address).is_some_and(|peer| {
                peer.link.is_up() && (peer.resets.has_failed() || peer.expedited.is_exhausted())
            });
            if is_lost {
                self.lose_link(now, address);
            }
        }
        while let Some((id, outcome)) = self.outgoing.poll_outcome() {
            self.tell(now, id, outcome);
        }
    }

    /// Delivers received C_PDUs to the clients' side.
    pub(crate) fn deliver(&mut self, now: Time) {
        let addresses: Vec<Address> = self.peers.keys().copied().collect();
        for from in addresses {
            while let Some(delivered) =
                self.peers.get_mut(&from).and_then(|peer| peer.receiver.poll_delivered())
            {
                let mode = Mode::Arq { in_order: delivered.in_order };
                let arrived = whole(from, self.config.address, delivered.octets);
                self.indicate(now, &arrived, mode);
            }
            while let Some(octets) =
                self.peers.get_mut(&from).and_then(|peer| peer.expedited_in.poll_delivered())
            {
                let arrived = whole(from, self.config.address, octets);
                let arrived = Arrived { is_expedited: true, ..arrived };
                self.indicate(now, &arrived, Mode::Arq { in_order: true });
            }
        }
        while let Some(arrived) = self.assembly.poll_arrived() {
            let mode = Mode::NonArq { in_order: arrived.in_order, repeats: 0 };
            self.indicate(now, &arrived, mode);
        }
    }

    /// Hands the S_PDU in a C_PDU to the clients' side; places of errors lose the C_PDU's header.
    fn indicate(&mut self, now: Time, arrived: &Arrived, mode: Mode) {
        let Ok(Cpdu::Data(s_pdu)) = Cpdu::parse(&arrived.octets) else {
            self.stats.received.malformed += 1;
            return;
        };
        self.stats.s_pdus.delivered.add(s_pdu.len());
        if let Some(peer) = self.peers.get_mut(&arrived.from) {
            peer.link.handle_use(now);
        }
        if let Ok(SPdu::Data(data)) = SPdu::parse(s_pdu)
            && let Some(peer) = self.peers.get_mut(&arrived.from)
        {
            peer.recent_urgent.received.note(now, data.priority);
        }
        let (errored, missing) = (inside(&arrived.errored), inside(&arrived.missing));
        let Arrived { from, to, is_expedited, .. } = *arrived;
        let s_pdu = s_pdu.to_vec();
        let indication = Indication { from, to, mode, is_expedited, s_pdu, errored, missing };
        self.sis.handle_indication(now, &indication);
    }

    /// Acts on the missing answer to the last transmission.
    pub(crate) fn handle_silence(&mut self, now: Time) {
        self.stats.silences += 1;
        let Some(address) = self.asked.take() else { return };
        let limit = self.config.silences;
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.contact.silences += 1;
        let is_lost = peer.link.is_up() && peer.contact.silences >= limit;
        self.follow_up(address);
        self.slow_down();
        if is_lost {
            self.lose_link(now, address);
        }
    }

    /// Repeats what a peer was asked and has not answered, whether or not it was heard.
    pub(crate) fn follow_up(&mut self, address: Address) {
        let turns = self.turns;
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.link.handle_silence();
        peer.messages.handle_silence();
        peer.resets.handle_silence();
        peer.expedited.repeat_unanswered(turns, Repeat::All);
        if peer.contact.acked_turn < turns {
            peer.sender.repeat_unanswered(turns, Repeat::Probe);
        }
    }

    /// Drops the link to a peer that does not answer or does not understand us; its requests fail.
    fn lose_link(&mut self, now: Time, address: Address) {
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.link.forget();
        }
        self.settle_links(now);
        self.fail_peer(now, address, Failure::NoResponse);
    }

    /// The reason to refuse a request for a link, if there is one.
    pub(crate) fn refusal(&self, from: Address, is_exclusive: bool) -> Option<RejectReason> {
        if self.config.sis.is_broadcast_only {
            return Some(RejectReason::BroadcastOnly);
        }
        let mut others = self.peers.iter().filter(|(address, _)| **address != from);
        // A link that is only requested may never be established.
        let is_exclusive_up = |peer: &Peer| peer.link.is_up() && peer.link.is_exclusive();
        let exclusive = others.clone().filter(|(_, peer)| is_exclusive_up(peer)).count();
        let has_room =
            others.by_ref().filter(|(_, peer)| peer.link.is_up()).count() < self.config.links;
        // A second exclusive link may be made to negotiate about (Annex B, section 3).
        let most = usize::from(is_exclusive);
        if exclusive > most {
            Some(RejectReason::ExclusiveLink)
        } else if !has_room {
            Some(RejectReason::Unknown)
        } else {
            None
        }
    }
}

/// Converts octet ranges of a C_PDU to ranges of the S_PDU in it.
fn inside(places: &[Range<u16>]) -> Vec<Range<u16>> {
    let header = 1;
    let moved = places
        .iter()
        .map(|place| place.start.saturating_sub(header)..place.end.saturating_sub(header));
    moved.filter(|place| !place.is_empty()).collect()
}

/// A complete C_PDU that came by ARQ.
fn whole(from: Address, to: Address, octets: Vec<u8>) -> Arrived {
    Arrived {
        from,
        to,
        is_expedited: false,
        in_order: false,
        octets,
        errored: Vec::new(),
        missing: Vec::new(),
    }
}
