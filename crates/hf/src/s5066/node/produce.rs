//! The frames of a transmission, built one by one when the modem requests octets.

use std::time::Duration;

use base::time::Time;

use super::super::cas::cpdu::Cpdu;
use super::super::dts::datagram;
use super::super::dts::policy::MAX_SEGMENT;
use super::super::dts::wire::{Body, CpduSegment, DATAGRAM_IDS, Datagram, Eow, MAX_PADDING};
use super::super::service::{Mode, Request};
use super::introduction::{self, Introduction};
use super::peer::ACK_LIST;
use super::transmit::Turn;
use super::{Address, Extensions, FrameKind, Node};

/// The most copies of acknowledgements at the end of a transmission.
const MAX_COPIES: u8 = 3;
/// The most octets of a sequence number.
const MAX_FSN: usize = 2;
/// Added to the reception window of a datagram, which is otherwise twice the time on the air of its
/// segments and their repetitions.
const DATAGRAM_SLACK: Duration = Duration::from_secs(120);

impl Node {
    /// Appends the next frame to the transmission; false when it is full.
    pub(super) fn produce(&mut self, now: Time) -> bool {
        self.produce_control()
            || self.produce_ack()
            || self.produce_exclusive(now)
            || self.produce_expedited(now)
            || self.produce_datagram()
            || self.produce_data(now)
            || self.produce_fill()
    }

    /// Link control, warnings, management and resets.
    fn produce_control(&mut self) -> bool {
        let Some(turn) = &self.turn else { return false };
        let data_to = turn.data_to;
        if let Some(&(to, received, reason)) = self.warnings.front() {
            self.warnings.pop_front();
            let body = Body::Warning { received, reason };
            if self.put(FrameKind::Control, to, Eow::None, body) {
                self.stats.warnings_sent += 1;
                return true;
            }
        }
        let owing = self.peers.iter().find(|(address, peer)| {
            peer.link.owed().is_some() && (!peer.owes_request() || data_to == Some(**address))
        });
        if let Some((&to, _)) = owing {
            return self.produce_link(to);
        }
        data_to.is_some_and(|to| self.produce_message(to) || self.produce_reset(to))
    }

    /// The next orderwire message, or the acknowledgement of one.
    fn produce_message(&mut self, to: Address) -> bool {
        let profiles = self.profiles();
        let Self { peers, turn: Some(turn), config, stats, records, .. } = self else {
            return false;
        };
        let Some(peer) = peers.get_mut(&to) else { return false };
        let Some(outgoing) = peer.messages.poll() else { return false };
        if outgoing.management.is_valid {
            turn.asks = Some(to);
        }
        let body = Body::Management(outgoing.management);
        let eow = outgoing.eow.unwrap_or(profiles);
        turn.put(config, stats, records, FrameKind::Control, to, eow, body)
    }

    /// The next reset, or the acknowledgement of a reset.
    fn produce_reset(&mut self, to: Address) -> bool {
        let Self { peers, turn: Some(turn), config, stats, records, .. } = self else {
            return false;
        };
        let Some(peer) = peers.get_mut(&to) else { return false };
        let Some(reset) = peer.resets.poll() else { return false };
        if !reset.is_ack {
            turn.asks = Some(to);
        }
        let body = Body::Reset { numbers: peer.sender.numbers(), reset };
        turn.put(config, stats, records, FrameKind::Control, to, Eow::None, body)
    }

    /// The next C_PDU about a link. A C_PDU that makes or ends a link is sent twice, because everything depends on it.
    /// The introduction is sent twice too, when the length of sequence numbers depends on it.
    fn produce_link(&mut self, to: Address) -> bool {
        let Some(owed) = self.peers.get_mut(&to).and_then(|peer| peer.link.poll_owed()) else {
            return false;
        };
        let asks = matches!(owed.c_pdu, Cpdu::Request { .. } | Cpdu::Break(_));
        let mut octets = Vec::with_capacity(Cpdu::HEADER);
        owed.c_pdu.emit(&mut octets);
        let id = owed.id.unwrap_or(self.next_id);
        if owed.id.is_none() {
            self.next_id = (self.next_id + 1) % DATAGRAM_IDS;
        }
        let datagram = Datagram {
            is_expedited: true,
            id,
            in_order: false,
            size: 1,
            offset: 0,
            window: 0,
            segment: CpduSegment::new(&octets),
        };
        let body = Body::Datagram(datagram);
        let makes = matches!(owed.c_pdu, Cpdu::Request { .. } | Cpdu::Accepted);
        let is_long = self.peers.get(&to).is_some_and(|peer| peer.link.is_long());
        let eow = self.profiles();
        let copies = if asks || makes { 2 } else { 1 };
        if makes && let Some(said) = Introduction::new(self.config.extensions, is_long) {
            let mut octets = Vec::new();
            said.emit(&mut octets);
            let body = Body::Extension { kind: introduction::KIND, octets: &octets };
            // All copies come before the C_PDUs, because the first C_PDU that is heard counts.
            for _ in 0..introduction::copies(is_long) {
                self.put(FrameKind::Control, to, eow, body);
            }
        }
        for _ in 0..copies {
            if !self.put(FrameKind::Control, to, eow, body) {
                break;
            }
        }
        if asks && let Some(turn) = &mut self.turn {
            turn.asks = Some(to);
        }
        true
    }

    /// Acknowledgements at the beginning of the transmission.
    fn produce_ack(&mut self) -> bool {
        let Some(to) = self.turn.as_mut().and_then(|turn| turn.acks.pop()) else { return false };
        let Some(peer) = self.peers.get_mut(&to) else { return true };
        peer.is_ack_due = false;
        peer.receiver.handle_ack_sent();
        let has_expedited = peer.expedited_in.is_ack_due();
        let may_ride = peer.receiver.ack().is_some() && peer.sends_data();
        match &mut self.turn {
            Some(turn) if turn.data_to == Some(to) && may_ride && !has_expedited => {
                turn.riding += 1;
            }
            Some(_) | None => {
                self.acknowledge(to);
            }
        }
        true
    }

    /// The call for an exclusive link: after the acknowledgements, because it ends the soft one.
    fn produce_exclusive(&mut self, now: Time) -> bool {
        let Some(Turn { data_to: Some(to), .. }) = self.turn else { return false };
        if !self.peers.get(&to).is_some_and(super::Peer::owes_exclusive) {
            return false;
        }
        self.call_exclusive(now, to);
        if let Some(turn) = &mut self.turn {
            turn.acked.retain(|acked| *acked != to);
        }
        self.produce_control()
    }

    /// Acknowledges the data of a peer.
    fn acknowledge(&mut self, to: Address) -> bool {
        let Some(peer) = self.peers.get_mut(&to) else { return false };
        let acks = peer.receiver.acks(ACK_LIST);
        let expedited = peer.expedited_in.ack();
        peer.expedited_in.handle_ack_sent();
        let mut sent = 0;
        if let Some(ack) = &expedited {
            let body = Body::Ack { is_expedited: true, ack: ack.in_header() };
            sent += usize::from(self.put(FrameKind::Ack, to, Eow::None, body));
        }
        sent +=
            acks.iter().filter(|ack| self.put(FrameKind::Ack, to, Eow::None, ack.body())).count();
        sent > 0
    }

    /// The next frame of expedited data with acknowledgement.
    fn produce_expedited(&mut self, now: Time) -> bool {
        let Some(Turn { number, data_to: Some(to), .. }) = self.turn else { return false };
        let header = self.header_len(Some(to));
        let Some(peer) = self.peers.get(&to) else { return false };
        let segment = self.segment(peer);
        let Self { peers, turn: Some(turn), config, stats, records, .. } = self else {
            return false;
        };
        let Some(peer) = peers.get_mut(&to).filter(|peer| peer.may_send()) else { return false };
        peer.push_expedited();
        let Some(room) = turn.rest().checked_sub(header) else { return false };
        let Some((expedited, is_repeat)) = peer.expedited.poll(now, number, segment, room) else {
            return false;
        };
        let kind = if is_repeat { FrameKind::Repeat } else { FrameKind::Data };
        turn.asks = Some(to);
        turn.put(config, stats, records, kind, to, Eow::None, Body::Expedited(expedited))
    }

    /// The next frame without acknowledgement; such frames get half of a transmission while data with
    /// acknowledgement waits.
    fn produce_datagram(&mut self) -> bool {
        let header = self.header_len(None) + Self::DATAGRAM_EXTRA;
        if self.turn.as_ref().is_some_and(|turn| turn.is_last) {
            return false;
        }
        while !self.outgoing.is_due()
            && let Some(request) = self.datagrams.pop()
        {
            self.push_datagram(&request);
        }
        let Self { peers, turn: Some(turn), config, stats, records, outgoing, .. } = self else {
            return false;
        };
        let others = turn.data_to.and_then(|to| peers.get(&to));
        let has_had_enough = turn.datagrams > turn.room() / 2 && !outgoing.has_expedited();
        if has_had_enough && others.is_some_and(super::Peer::sends_data) {
            return false;
        }
        let Some(room) = turn.rest().checked_sub(header) else { return false };
        let at = turn.now();
        let Some(next) = outgoing.poll(at, MAX_SEGMENT, room) else { return false };
        let kind = if next.is_repeat { FrameKind::Repeat } else { FrameKind::Data };
        turn.datagrams += header + next.datagram.segment.octets.len();
        let body = Body::Datagram(next.datagram);
        turn.put(config, stats, records, kind, next.to, Eow::None, body)
    }

    fn push_datagram(&mut self, request: &Request) {
        let mut octets = Vec::with_capacity(Cpdu::HEADER + request.s_pdu.len());
        Cpdu::Data(&request.s_pdu).emit(&mut octets);
        let (in_order, repeats) = match request.mode {
            Mode::NonArq { in_order, repeats } => (in_order, repeats),
            Mode::Arq { in_order } => (in_order, 0),
        };
        let alone = self.waveform.air_time(octets.len()) * (u32::from(repeats) + 1);
        let Request { id, to, is_expedited, expires, .. } = *request;
        let window = alone * 2 + DATAGRAM_SLACK;
        let c_pdu = datagram::DatagramPdu {
            id,
            to,
            octets,
            is_expedited,
            in_order,
            repeats,
            window,
            expires,
        };
        let pushed = self.outgoing.push(c_pdu);
        pushed.expect("a sender with nothing to send takes an S_PDU");
    }

    /// The next frame of data with acknowledgement.
    fn produce_data(&mut self, now: Time) -> bool {
        let Some(Turn { number, data_to: Some(to), .. }) = self.turn else { return false };
        let header = self.header_len(Some(to));
        let Some(peer) = self.peers.get(&to) else { return false };
        let segment = self.segment(peer);
        let Self { peers, turn: Some(turn), config, stats, records, .. } = self else {
            return false;
        };
        let Some(peer) = peers.get_mut(&to) else { return false };
        if !peer.may_send() {
            return false;
        }
        peer.push_waiting();
        let numbers = peer.sender.numbers();
        let ack = if turn.riding > 0 { peer.receiver.ack() } else { None };
        turn.riding = turn.riding.saturating_sub(1);
        let riding = ack.as_ref().map_or(0, |ack| MAX_FSN + ack.size());
        let Some(room) = turn.rest().checked_sub(header + riding) else { return false };
        peer.sender.set_cuts_to_fit(peer.extensions.variable_segments);
        let Some(outgoing) = peer.sender.poll(now, number, segment, room) else { return false };
        let kind = if outgoing.is_repeat { FrameKind::Repeat } else { FrameKind::Data };
        let ack = ack.as_ref().map(|ack| ack.in_header());
        let body = Body::Data { numbers, data: outgoing.data, ack };
        turn.asks = Some(to);
        turn.put(config, stats, records, kind, to, Eow::None, body)
    }

    /// Fills the last block with copies of acknowledgements, link control and data. If more than a
    /// block would stay empty, padding follows, because the end was announced.
    fn produce_fill(&mut self) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        let rest = turn.rest();
        if turn.copies < MAX_COPIES && !turn.acked.is_empty() {
            turn.copies += 1;
            let acked = turn.acked.clone();
            return acked.into_iter().filter(|&to| self.acknowledge(to)).count() > 0;
        }
        let (number, data_to, block) = (turn.number, turn.data_to, turn.block());
        if let Some(to) = data_to
            && turn.asks == Some(to)
        {
            let room = rest.saturating_sub(self.header_len(Some(to)));
            let Self { peers, turn: Some(turn), config, stats, records, .. } = self else {
                return false;
            };
            if let Some(peer) = peers.get_mut(&to).filter(|peer| peer.may_send()) {
                let numbers = peer.sender.numbers();
                if let Some(outgoing) = peer.sender.poll_spare(number, room) {
                    let body = Body::Data { numbers, data: outgoing.data, ack: None };
                    return turn.put(
                        config,
                        stats,
                        records,
                        FrameKind::Repeat,
                        to,
                        Eow::None,
                        body,
                    );
                }
            }
        }
        let padded = data_to.filter(|to| {
            rest > block && self.peers.get(to).is_some_and(|peer| peer.extensions.padding)
        });
        let Some(to) = padded else { return false };
        let count = rest.saturating_sub(self.header_len(None)).min(MAX_PADDING);
        let count = u16::try_from(count).unwrap_or_default();
        self.put(FrameKind::Padding, to, Eow::None, Body::Padding { count })
    }

    /// The extensions of this node, announced in calls and in answers to calls (EP7). Edition 3 does not have this
    /// message.
    fn profiles(&self) -> Eow {
        match self.config.extensions {
            Extensions::NONE => Eow::None,
            extensions => Eow::Extensions(extensions.profiles()),
        }
    }

    fn put(&mut self, kind: FrameKind, to: Address, eow: Eow, body: Body<'_>) -> bool {
        let Self { turn: Some(turn), config, stats, records, .. } = self else { return false };
        turn.put(config, stats, records, kind, to, eow, body)
    }
}
