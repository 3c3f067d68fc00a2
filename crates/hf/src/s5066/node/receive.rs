//! Reception: from the modem's octets to the state machines of the peer that sent the frames.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::time::Time;

use super::super::cas::cpdu::Cpdu;
use super::super::dts::arq::Repeat;
use super::super::dts::policy::EOT_UNIT;
use super::super::dts::reset::Action;
use super::super::dts::scan::Heard;
use super::super::dts::wire::{self, Body, Datagram, Eow, Frame, Header, Numbers, Reason, Report};
use super::introduction::{self, Introduction};
use super::{Address, Extensions, MAX_WARNINGS, Node, Record};
use crate::modem::Waveform;

/// A reception under way.
#[derive(Debug)]
pub struct Reception {
    /// When the preamble ended.
    began: Time,
    /// When the modem last gave octets.
    last: Time,
    waveform: Waveform,
    /// Whether its beginning was heard. Otherwise this node may have taken frames of it before a
    /// restart, and a warning that there is no link would have them sent again.
    is_whole: bool,
    /// Whether a frame asks this station for an answer.
    asks: bool,
    /// Whether it had frames for other stations.
    has_others: bool,
    /// Stations that sent frames to this node.
    heard: BTreeSet<Address>,
    /// Stations that sent a frame while a link to them was up: this node may have accepted their data.
    linked: BTreeSet<Address>,
    /// The announcements of our own layouts that stations made.
    introduced: BTreeMap<Address, Introduction>,
}

impl Reception {
    /// When the modem last gave octets.
    pub fn last(&self) -> Time {
        self.last
    }

    /// How long the reception has lasted.
    pub fn lasts(&self, now: Time) -> Duration {
        now.since(self.began)
    }
}

impl Node {
    /// Begins a reception, and ends an earlier one whose end the modem has not reported.
    pub(crate) fn begin_reception(
        &mut self,
        now: Time,
        waveform: Option<Waveform>,
        is_whole: bool,
    ) {
        self.end_reception(now);
        self.floor.handle_carrier(now);
        let waveform = waveform.unwrap_or(self.waveform);
        self.reception = Some(Reception {
            began: now,
            last: now,
            waveform,
            is_whole,
            asks: false,
            has_others: false,
            heard: BTreeSet::new(),
            linked: BTreeSet::new(),
            introduced: BTreeMap::new(),
        });
    }

    /// Takes octets that the modem has decoded.
    pub(crate) fn receive(&mut self, now: Time, octets: &[u8]) {
        // A modem may deliver octets without reporting a carrier before.
        if self.reception.is_none() {
            self.begin_reception(now, None, false);
        }
        if let Some(reception) = &mut self.reception {
            reception.last = now;
        }
        let mut scanner = std::mem::take(&mut self.scanner);
        let mut rest = octets;
        while let Some(heard) = scanner.poll(&mut rest) {
            self.hear(now, heard);
        }
        self.scanner = scanner;
    }

    /// Ends the reception.
    pub(crate) fn end_reception(&mut self, now: Time) {
        let mut scanner = std::mem::take(&mut self.scanner);
        while let Some(heard) = scanner.flush() {
            self.hear(now, heard);
        }
        self.scanner = scanner;
        let Some(reception) = self.reception.take() else { return };
        let lasted = reception.lasts(now);
        self.stats.received.lasted += lasted;
        self.floor.handle_carrier_lost(now, reception.asks, reception.has_others);
        if let Some(asked) = self.asked.take_if(|asked| reception.heard.contains(asked)) {
            self.follow_up(asked);
        }
    }
}

impl Node {
    /// Takes a frame, or a damaged one, from the scanner.
    fn hear(&mut self, now: Time, heard: Heard<'_>) {
        match heard {
            Heard::Frame { frame, octets, place } => {
                self.note(|| Record::Heard {
                    at: now,
                    is_good: frame.is_good(),
                    octets: octets.to_vec(),
                });
                self.announce(&frame.header, place);
                self.handle_frame(now, &frame);
            }
            Heard::Invalid { header, kind, octets, place } => {
                self.note(|| Record::Heard { at: now, is_good: false, octets: octets.to_vec() });
                self.announce(&header, place);
                if header.to == self.config.address && kind != WARNING {
                    self.warn(header.from, kind, Reason::Invalid);
                }
            }
        }
    }

    /// Takes the announced end of the transmission. It counts from the frame's first bit, whose time
    /// on the air follows from the number of bits since the preamble.
    fn announce(&mut self, header: &Header, place: u64) {
        let Some(reception) = &self.reception else { return };
        if header.eot == 0 || header.from == self.config.address {
            return;
        }
        let rate = u64::from(reception.waveform.bits_per_s());
        let before = Duration::from_nanos(place.saturating_mul(8 * 1_000_000_000) / rate);
        let end = reception.began + before + EOT_UNIT * u32::from(header.eot);
        self.floor.handle_announcement(end);
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<'_>) {
        let Header { eow, to, from, .. } = frame.header;
        if from == self.config.address || from.is_group() {
            return;
        }
        if to != self.config.address && !to.is_group() {
            self.stats.received.foreign += 1;
            if let Some(reception) = &mut self.reception {
                reception.has_others = true;
            }
            return;
        }
        if frame.is_good() {
            self.stats.received.heard += 1;
        } else {
            self.stats.received.damaged += 1;
        }
        let own = self.config.extensions;
        let Some(peer) = self.peer_mut(from) else { return };
        let (has_returned, is_linked) = (peer.contact.handle_heard(now), peer.link.is_up());
        if let Eow::Extensions(profiles) = eow {
            peer.extensions.learn_profiles(own, profiles);
            let compact = peer.extensions.compact;
            self.sis.handle_capabilities(from, compact);
        }
        if has_returned {
            self.sis.handle_pause(from, false);
        }
        if let Eow::RateRequest(advice) = eow {
            self.take_advice(advice);
        }
        if self.asked == Some(from) {
            self.floor.handle_answer();
        }
        if let Some(reception) = &mut self.reception {
            reception.heard.insert(from);
            if is_linked {
                reception.linked.insert(from);
            }
        }
        self.handle_body(now, from, frame);
    }

    fn handle_body(&mut self, now: Time, from: Address, frame: &Frame<'_>) {
        let own = self.config.extensions;
        let is_short =
            self.peers.get(&from).is_some_and(|it| it.link.is_up() && !it.link.is_long());
        let is_known = match frame.kind() {
            LONG_DATA..=LONG_RESET => own.long_numbers && !is_short,
            PADDING => own.padding,
            _ => true,
        };
        if !is_known {
            self.asks_for_answer();
            self.warn(from, frame.kind(), Reason::UnknownKind);
            return;
        }
        match &frame.body {
            Body::Data { numbers, data, ack } => {
                self.asks_for_answer();
                if let Some(ack) = ack {
                    self.handle_ack(now, from, &ack.report(*numbers));
                }
                let Some(peer) = self.peers.get_mut(&from) else { return };
                if !peer.link.is_up() {
                    self.warn(from, frame.kind(), Reason::NotConnected);
                    return;
                }
                peer.link.handle_use(now);
                if peer.resets.is_open() {
                    return;
                }
                peer.is_ack_due = true;
                if peer.receiver.handle_data(*numbers, data).is_err() {
                    self.resynchronise(from);
                }
            }
            Body::Ack { is_expedited: false, ack } => {
                self.handle_ack(now, from, &ack.report(Numbers::Short));
            }
            Body::LongAck(ack) => self.handle_ack(now, from, &ack.report()),
            Body::Datagram(datagram) if datagram.is_expedited && datagram.size == 1 => {
                if datagram.segment.is_good {
                    self.handle_control(now, from, datagram);
                }
            }
            Body::Warning { received, reason } => self.handle_warning(from, *received, *reason),
            Body::Datagram(datagram) => {
                let to = frame.header.to;
                self.assembly.handle_datagram(now, from, to, datagram);
            }
            Body::Expedited(expedited) => {
                self.asks_for_answer();
                let Some(peer) = self.peers.get_mut(&from) else { return };
                if peer.link.is_up() {
                    peer.expedited_in.handle_data(expedited);
                    peer.is_ack_due = true;
                } else {
                    self.warn(from, frame.kind(), Reason::NotConnected);
                }
            }
            Body::Ack { is_expedited: true, ack } => {
                let turns = self.turns;
                let Some(peer) = self.peers.get_mut(&from) else { return };
                if peer.expedited.handle_ack(&ack.report(Numbers::Short), turns).is_none() {
                    self.stats.received.stray_acks += 1;
                }
            }
            Body::Management(management) => self.handle_message(from, frame.header.eow, management),
            Body::Reset { numbers, reset } => self.handle_reset(from, *numbers, reset),
            Body::Extension { kind: introduction::KIND, octets } => {
                self.handle_introduction(from, octets);
            }
            Body::Extension { .. } | Body::Padding { .. } => {}
        }
    }

    /// Takes a C_PDU about the link, which comes expedited and without ARQ (Annex B, section 3.1).
    fn handle_control(&mut self, now: Time, from: Address, datagram: &Datagram<'_>) {
        let Ok(c_pdu) = Cpdu::parse(datagram.segment.octets) else {
            self.stats.received.malformed += 1;
            return;
        };
        let refusal = match c_pdu {
            Cpdu::Request { is_exclusive, .. } => self.refusal(from, is_exclusive),
            _ => None,
        };
        if matches!(c_pdu, Cpdu::Request { .. } | Cpdu::Break(_)) {
            self.asks_for_answer();
        }
        let said = self.reception.as_ref().and_then(|it| it.introduced.get(&from)).copied();
        let own = self.config.extensions;
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let is_accepted = c_pdu == Cpdu::Accepted && peer.link.is_calling();
        if is_accepted || matches!(c_pdu, Cpdu::Request { .. }) {
            // A station without an introduction now may have lost the ability since its last one.
            peer.extensions.learn_ours(own, said);
            self.sis.handle_introduced(from, said.is_some());
            // Its introduction may have been lost: it may not have read data sent with the call.
            if is_accepted && said.is_none() && peer.link.is_long() {
                peer.sender.reset_since(u64::MAX);
            }
        }
        let is_long = own.long_numbers && said.is_some_and(|said| said.is_long);
        peer.link.handle_c_pdu(now, c_pdu, datagram.id, is_long, refusal);
        // Later frames of this transmission may need the link.
        self.settle_links(now);
    }

    fn handle_ack(&mut self, now: Time, from: Address, report: &Report<'_>) {
        let (turns, header) = (self.turns, self.header_len(Some(from)));
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if !peer.link.is_up() {
            if !peer.link.is_calling() {
                self.warn(from, ACK_ONLY, Reason::NotConnected);
                return;
            }
            // Our call was heard, and only the answer to it was lost.
            peer.link.handle_implied(now, report.numbers == Numbers::Long);
            self.settle_links(now);
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.link.handle_use(now);
        peer.contact.silences = 0;
        peer.contact.acked_turn = turns;
        match peer.sender.handle_ack(report, turns) {
            Ok(acked) => {
                let frames = acked.arrived + acked.lost;
                let octets = acked.arrived_octets + acked.lost_octets;
                let octets = usize::try_from(octets).unwrap_or(usize::MAX);
                let octets = octets.saturating_add(frames as usize * header);
                if frames > 0 {
                    peer.quality.handle_report(frames, octets, acked.lost);
                    self.rate_by_report(frames, acked.lost);
                }
            }
            Err(_) => self.resynchronise(from),
        }
    }

    /// Takes an introduction, in which a station announces our own layouts.
    fn handle_introduction(&mut self, from: Address, octets: &[u8]) {
        if let Ok(said) = Introduction::parse(octets)
            && let Some(reception) = &mut self.reception
        {
            reception.introduced.insert(from, said);
        }
    }

    fn handle_warning(&mut self, from: Address, received: u8, reason: Reason) {
        self.stats.received.warnings_heard += 1;
        let turns = self.turns;
        let Some(peer) = self.peers.get_mut(&from) else { return };
        match reason {
            // It has no link with us: call again, and send the remaining data then.
            Reason::NotConnected if peer.link.is_up() => {
                peer.sender.reset_since(turns);
                peer.link.handle_not_connected();
            }
            // The peer missed the call that came with the data.
            Reason::NotConnected if peer.link.is_calling() => {
                peer.sender.repeat_unanswered(turns, Repeat::All);
            }
            // The peer does not read our own layouts, so it has not taken data in them.
            Reason::UnknownKind | Reason::Invalid if matches!(received, LONG_DATA..=LONG_RESET) => {
                peer.extensions.learn_ours(Extensions::NONE, None);
                if peer.link.is_up() && peer.link.is_long() {
                    peer.sender.reset_since(turns);
                    peer.link.forget();
                }
            }
            Reason::UnknownKind | Reason::Invalid if received == PADDING => {
                peer.extensions.padding = false;
            }
            Reason::NotConnected
            | Reason::UnknownKind
            | Reason::Invalid
            | Reason::InvalidNow
            | Reason::Other(_) => {}
        }
    }

    /// Restarts both windows because those of the two ends do not agree (Annex C, section 6.2).
    fn resynchronise(&mut self, from: Address) {
        if let Some(peer) = self.peers.get_mut(&from).filter(|peer| !peer.resets.is_open()) {
            self.stats.resets += 1;
            peer.resets.request();
        }
    }

    fn handle_reset(&mut self, from: Address, numbers: Numbers, reset: &wire::Reset) {
        if !reset.is_ack {
            self.asks_for_answer();
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if !peer.link.is_up() {
            self.warn(from, RESET, Reason::NotConnected);
            return;
        }
        match peer.resets.handle_reset(reset) {
            Action::Full => peer.reset(numbers),
            Action::Receiver { lwe } => peer.receiver.resync(lwe),
            Action::None => {}
        }
    }

    /// Takes an orderwire message that needs an acknowledgement (Annex C, section 3.9).
    fn handle_message(&mut self, from: Address, eow: Eow, management: &wire::Management<'_>) {
        if management.is_valid {
            self.asks_for_answer();
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let message = peer.messages.handle_management(eow, management);
        if let Some(message) = message {
            self.handle_rate_message(from, message.eow);
        }
        self.settle_messages(from);
    }

    /// Queues a warning, once for each type of frame (Annex C, section 3.12).
    fn warn(&mut self, to: Address, received: u8, reason: Reason) {
        // After this warning the peer sends its whole transmission again. If some frames were accepted, they would
        // be accepted twice.
        let none_taken = |it: &Reception| it.is_whole && !it.linked.contains(&to);
        let none_taken = self.reception.as_ref().is_some_and(none_taken);
        // A call tells the peer as well. If it was heard and only its answer lost, a peer that took
        // the link for lost would take the data sent with the call a second time.
        let is_calling = self.peers.get(&to).is_some_and(|peer| peer.link.is_calling());
        if reason == Reason::NotConnected && (!none_taken || is_calling) {
            return;
        }
        let warning = (to, received, reason);
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push_back(warning);
        }
    }

    fn asks_for_answer(&mut self) {
        if let Some(reception) = &mut self.reception {
            reception.asks = true;
        }
    }
}

/// The type of a warning, which is never answered by another warning.
const WARNING: u8 = 15;
/// The type of an acknowledgement.
const ACK_ONLY: u8 = 1;
/// The types of frames with long numbers, and of padding.
const LONG_DATA: u8 = 9;
const LONG_RESET: u8 = 12;
const PADDING: u8 = 14;
/// The type of a reset.
const RESET: u8 = 3;
