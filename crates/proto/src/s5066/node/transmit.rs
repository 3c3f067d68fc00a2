//! Frames out: when a transmission starts, how long it is, and what goes into it.
//!
//! ```text
//!  preamble | control  acks  expedited  again, new, datagrams ...   | fill: acks, again, padding |
//!           └ octets of whole blocks, less the end of message ──────────────────────────────────┘
//! ```
//!
//! A transmission asks at most one station for an answer, because two would answer at once.

use std::time::Duration;

use super::super::cas::cpdu::Cpdu;
use super::super::dts::wire::{
    Body, DATAGRAM_IDS, Datagram, Eow, Frame, Header, MAX_PADDING, Segment,
};
use super::peer::ACK_LIST;
use super::record::Records;
use super::{Address, Config, FrameKind, Node, Record, Stats};
use crate::modem::{Transmit, Waveform};
use crate::time::Time;

/// A transmission under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    waveform: Waveform,
    /// When the preamble began.
    start: Time,
    /// When the last block ends.
    end: Time,
    /// Octets that its blocks hold.
    room: usize,
    /// Octets of frames so far.
    used: usize,
    /// Frames that the modem has not taken.
    buffer: Vec<u8>,
    taken: usize,
    /// Nothing more will be put into it.
    is_full: bool,
    /// The end was told to the modem.
    is_over: bool,
    /// Who is asked for an answer.
    pub(super) asks: Option<Address>,
    /// Who gets data with acknowledgement.
    data_to: Option<Address>,
    /// Acknowledgements still to be sent at the beginning.
    acks: Vec<Address>,
    /// Frames of data that still take an acknowledgement along.
    riding: u8,
    /// To whom acknowledgements went, for repeating them.
    acked: Vec<Address>,
    /// Copies made of what fills the end.
    copies: u8,
}

/// Copies of acknowledgements and control at the end at most.
const MAX_COPIES: u8 = 3;
/// How long data may go on before a call was answered.
const PIPELINED: Duration = Duration::from_secs(30);
/// Octets of a frame of data with a long number, but for addresses and segment.
const FRAME: usize = 16;
/// Octets of a sequence number at most.
const MAX_FSN: usize = 2;
/// Octets that an acknowledgement's header has more at most than that of data.
const ACK_EXTRA: usize = 4;
/// Octets that a datagram's header has more than that of data.
const DATAGRAM_EXTRA: usize = 6;
/// What a frame of link control or a warning takes, at most.
const CONTROL_LEN: usize = 30;

impl Node {
    /// The next thing for the modem: asked while it transmits for us and has room, and when it is
    /// idle; `room` counts only while it transmits.
    pub fn poll_transmit(&mut self, now: Time, room: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.turn.is_none() {
            return self.start(now);
        }
        loop {
            let turn = self.turn.as_mut()?;
            if turn.is_over {
                return None;
            }
            let ready = turn.buffer.len() - turn.taken;
            if ready >= room && room > 0 || ready > 0 && turn.is_full {
                let len = ready.min(room);
                if len == 0 {
                    return None;
                }
                out.extend_from_slice(&turn.buffer[turn.taken..turn.taken + len]);
                turn.taken += len;
                if turn.taken == turn.buffer.len() {
                    turn.buffer.clear();
                    turn.taken = 0;
                }
                return Some(Transmit::Octets);
            }
            if turn.is_full {
                turn.is_over = true;
                return Some(Transmit::End);
            }
            if room == 0 {
                return None;
            }
            if !self.produce(now) {
                self.turn.as_mut()?.is_full = true;
            }
        }
    }

    /// Whether there is anything to transmit.
    pub(super) fn has_work(&self) -> bool {
        !self.warnings.is_empty()
            || !self.datagrams.is_empty()
            || self.peers.values().any(|peer| peer.has_work())
    }

    /// Ends the transmission: the modem has sent all of it.
    pub(super) fn end_turn(&mut self, now: Time) {
        let Some(turn) = self.turn.take() else { return };
        self.stats.transmissions += 1;
        let end = turn.end.min(now);
        let keyed = end.since(turn.start);
        self.stats.keyed_nanos += u64::try_from(keyed.as_nanos()).unwrap_or(u64::MAX);
        self.note(|| Record::Keyed { start: turn.start, end, waveform: turn.waveform });
        self.asked = turn.asks;
        self.floor.handle_sent(now, turn.asks.is_some());
    }

    /// Starts a transmission if that is allowed and there is something to transmit.
    fn start(&mut self, now: Time) -> Option<Transmit> {
        if !self.has_work() || self.floor.next_start(now).is_none_or(|start| start > now) {
            return None;
        }
        let data_to = self.choose_peer();
        let wanted = self.wanted(data_to);
        if wanted == 0 {
            return None;
        }
        let waveform = self.waveform;
        let longest = match data_to.and_then(|to| self.peers.get(&to)) {
            Some(peer) if !peer.link.is_up() => self.config.longest.min(PIPELINED),
            Some(_) | None => self.config.longest,
        };
        let most = longest.saturating_sub(waveform.preamble()).as_nanos()
            / waveform.block_time().as_nanos();
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        let blocks = waveform.blocks(wanted).min(most);
        let start = now + self.config.switching;
        let acks = self.peers.iter().filter(|(_, peer)| peer.is_ack_due);
        let acks: Vec<Address> = acks.map(|(address, _)| *address).collect();
        self.turns += 1;
        self.turn = Some(Turn {
            number: self.turns,
            waveform,
            start,
            end: start + waveform.preamble() + waveform.block_time() * blocks,
            room: waveform.octets(blocks),
            used: 0,
            buffer: Vec::new(),
            taken: 0,
            is_full: false,
            is_over: false,
            asks: None,
            data_to,
            acked: acks.clone(),
            riding: 0,
            acks: acks
                .iter()
                .flat_map(|&to| std::iter::repeat_n(to, usize::from(self.config.ack_copies)))
                .collect(),
            copies: 0,
        });
        self.start_at = None;
        self.floor.handle_start();
        Some(Transmit::Start(waveform))
    }

    /// Who gets data with acknowledgement next: the most urgent, then the longest not served.
    fn choose_peer(&mut self) -> Option<Address> {
        let busy = self.peers.values().any(|peer| peer.link.is_exclusive());
        let may = |peer: &super::Peer| !busy || peer.link.is_exclusive();
        let wanting = self.peers.iter().filter(|(_, peer)| peer.wants_answer() && may(peer));
        let (&to, _) = wanting.max_by_key(|(_, peer)| {
            let urgency = peer.waiting.first().map_or(0, |request| request.priority);
            (peer.is_urgent(), urgency, std::cmp::Reverse(peer.served))
        })?;
        let (id, numbers, turn) = (self.next_id, self.numbers(), self.turns + 1);
        let peer = self.peers.get_mut(&to)?;
        peer.served = turn;
        if peer.link.is_down() && peer.has_data() {
            peer.call(id, false, numbers);
            self.next_id = (id + 1) % DATAGRAM_IDS;
        }
        Some(to)
    }

    /// Octets that what is to be transmitted takes.
    fn wanted(&self, data_to: Option<Address>) -> usize {
        let header = self.header_len(data_to);
        let control: usize = self.peers.values().map(|peer| peer.control_frames()).sum();
        let control = (control + self.warnings.len()) * CONTROL_LEN;
        let acks = self.peers.values().filter(|peer| peer.is_ack_due);
        let acks: usize = acks.map(|peer| peer.ack_len(header + ACK_EXTRA)).sum();
        let acks = acks * usize::from(self.config.ack_copies);
        let datagrams =
            self.datagrams.octets() + self.datagrams.len() * 2 * (header + DATAGRAM_EXTRA);
        let data = data_to
            .and_then(|to| self.peers.get(&to))
            .map_or(0, |peer| peer.data_len(header, self.segment(peer)));
        control + acks + datagrams + data
    }

    /// Octets of a frame of data around its segment.
    pub(super) fn header_len(&self, to: Option<Address>) -> usize {
        let to = to.map_or(7, Address::half_octets);
        let addresses = to.max(self.config.address.half_octets());
        FRAME + addresses.max(usize::from(self.config.address_octets)).min(7)
    }

    fn segment(&self, peer: &super::Peer) -> usize {
        peer.quality.segment(self.header_len(None), self.waveform, self.config.longest)
    }

    /// Puts the next frame into the transmission; false when it is full.
    fn produce(&mut self, now: Time) -> bool {
        self.produce_control(now)
            || self.produce_ack(now)
            || self.produce_data(now)
            || self.produce_fill(now)
    }

    /// Link control, warnings, management and resets.
    fn produce_control(&mut self, now: Time) -> bool {
        let Some(turn) = &self.turn else { return false };
        let data_to = turn.data_to;
        if let Some(&(to, received, reason)) = self.warnings.front() {
            self.warnings.pop_front();
            let body = Body::Warning { received, reason };
            if self.put(now, FrameKind::Control, to, Eow::None, body) {
                self.stats.warnings_sent += 1;
                return true;
            }
        }
        let owing = self.peers.iter().find(|(address, peer)| {
            peer.link.owed().is_some() && (!peer.owes_request() || data_to == Some(**address))
        });
        if let Some((&to, _)) = owing {
            return self.produce_link(now, to);
        }
        false
    }

    /// The next C_PDU about a link, twice if it asks for something: all depends on it.
    fn produce_link(&mut self, now: Time, to: Address) -> bool {
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
            segment: Segment::new(&octets),
        };
        let body = Body::Datagram(datagram);
        let eow = self.introduction();
        for _ in 0..if asks { 2 } else { 1 } {
            if !self.put(now, FrameKind::Control, to, eow, body) {
                break;
            }
        }
        if asks && let Some(turn) = &mut self.turn {
            turn.asks = Some(to);
        }
        true
    }

    /// Acknowledgements at the beginning of the transmission.
    fn produce_ack(&mut self, now: Time) -> bool {
        let Some(to) = self.turn.as_mut().and_then(|turn| turn.acks.pop()) else { return false };
        let Some(peer) = self.peers.get_mut(&to) else { return true };
        peer.is_ack_due = false;
        peer.receiver.handle_ack_sent();
        let may_ride = peer.receiver.ack().is_some() && peer.has_frames();
        match &mut self.turn {
            Some(turn) if turn.data_to == Some(to) && may_ride => turn.riding += 1,
            Some(_) | None => {
                self.acknowledge(now, to);
            }
        }
        true
    }

    /// Tells a peer what has arrived from it.
    fn acknowledge(&mut self, now: Time, to: Address) -> bool {
        let eow = self.introduction();
        let Some(peer) = self.peers.get(&to) else { return false };
        let acks = peer.receiver.acks(ACK_LIST);
        let sent = acks.iter().filter(|ack| self.put(now, FrameKind::Ack, to, eow, ack.body()));
        sent.count() > 0
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
        let is_first_call = peer.link.is_up() || peer.silences == 0;
        while is_first_call && peer.sender.backlog().unsent_c_pdus == 0 {
            let Some(request) = peer.waiting.pop() else { break };
            peer.push(&request);
        }
        let numbers = peer.sender.numbers();
        let ack = if turn.riding > 0 { peer.receiver.ack() } else { None };
        turn.riding = turn.riding.saturating_sub(1);
        let riding = ack.as_ref().map_or(0, |ack| MAX_FSN + ack.size());
        let Some(room) = (turn.room - turn.used).checked_sub(header + riding) else { return false };
        peer.sender.set_cuts_to_fit(peer.extensions.variable_segments);
        let Some(outgoing) = peer.sender.poll(now, number, segment, room) else { return false };
        let kind = if outgoing.is_repeat { FrameKind::Repeat } else { FrameKind::Data };
        let ack = ack.as_ref().map(|ack| ack.in_header());
        let body = Body::Data { numbers, data: outgoing.data, ack };
        turn.asks = Some(to);
        turn.put(config, stats, records, kind, to, Eow::None, body)
    }

    /// Fills the last block: acknowledgements and link control once more, data once more; if more
    /// than a block would stay empty, padding, because the end was announced.
    fn produce_fill(&mut self, now: Time) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        let rest = turn.room - turn.used;
        if turn.copies < MAX_COPIES && !turn.acked.is_empty() {
            turn.copies += 1;
            let acked = turn.acked.clone();
            return acked.into_iter().filter(|&to| self.acknowledge(now, to)).count() > 0;
        }
        let (number, data_to, block) =
            (turn.number, turn.data_to, turn.waveform.block_bits() as usize / 8);
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
        if rest <= block || !self.config.extensions.padding {
            return false;
        }
        let to = data_to.unwrap_or(Address::BROADCAST);
        let count = rest.saturating_sub(self.header_len(None)).min(MAX_PADDING);
        let count = u16::try_from(count).unwrap_or_default();
        self.put(now, FrameKind::Padding, to, Eow::None, Body::Padding { count })
    }

    /// What this node can do, for those who have not heard of it.
    fn introduction(&self) -> Eow {
        Eow::Extensions(self.config.extensions.profiles())
    }

    fn put(&mut self, now: Time, kind: FrameKind, to: Address, eow: Eow, body: Body<'_>) -> bool {
        let _ = now;
        let Self { turn: Some(turn), config, stats, records, .. } = self else { return false };
        turn.put(config, stats, records, kind, to, eow, body)
    }
}

impl Turn {
    /// Puts a frame into the transmission; false if it does not fit.
    #[expect(clippy::too_many_arguments, reason = "parts of a node that are borrowed apart")]
    fn put(
        &mut self,
        config: &Config,
        stats: &mut Stats,
        records: &mut Option<Records>,
        kind: FrameKind,
        to: Address,
        eow: Eow,
        body: Body<'_>,
    ) -> bool {
        let start = self.time_of(self.used);
        let header = Header {
            eow,
            eot: half_seconds(self.end.since(start)),
            to,
            from: config.address,
            address_size: config.address_octets,
        };
        let frame = Frame { header, body };
        let len = frame.size();
        if self.used + len > self.room {
            return false;
        }
        let at = self.buffer.len();
        frame.emit(&mut self.buffer);
        self.used += len;
        stats.sent.of(kind).add(len);
        if let Some(records) = records {
            let octets = self.buffer[at..].to_vec();
            records.push(stats, Record::Sent { start, end: self.time_of(self.used), kind, octets });
        }
        true
    }

    /// When the octet with this number is on the air.
    fn time_of(&self, octet: usize) -> Time {
        let nanos = octet as u64 * 8 * 1_000_000_000 / u64::from(self.waveform.bits_per_s());
        self.start + self.waveform.preamble() + Duration::from_nanos(nanos)
    }
}

/// The EOT: half seconds, rounded up.
fn half_seconds(left: Duration) -> u8 {
    u8::try_from(left.as_nanos().div_ceil(500_000_000)).unwrap_or(u8::MAX)
}
