//! Transmissions: when they start, how long they are, and for which stations.
//!
//! ```text
//!  preamble | control  acks  expedited  again, new, datagrams ...   | fill: acks, again, padding |
//!           └ octets of whole blocks, less the end of message ──────────────────────────────────┘
//! ```
//!
//! A transmission asks at most one station for an answer, because two would answer at once.

use std::cmp::Reverse;
use std::time::Duration;

use base::time::Time;

use super::super::cas::cpdu::Cpdu;
use super::super::dts::datagram;
use super::super::dts::policy::{EOT_UNIT, MAX_SEGMENT};
use super::super::dts::wire::{
    Body, CpduSegment, DATAGRAM_IDS, Datagram, Eow, Frame, Header, MAX_PADDING,
};
use super::super::service::{Mode, Request};
use super::introduction::{self, Introduction};
use super::record::Records;
use super::{ACK_LIST, Peer};
use super::{Address, Config, Extensions, FrameKind, Node, Record, Stats};
use crate::modem::{Keying, Waveform};

/// A transmission under way.
#[derive(Debug)]
pub struct Turn {
    number: u64,
    waveform: Waveform,
    /// When the preamble began.
    start: Time,
    /// When the last block ends.
    end: Time,
    /// The earliest end that a frame has announced.
    announced: Time,
    /// Octets that its blocks hold.
    room: usize,
    /// Whether no frame has announced the transmission's end yet, so that new data may go along.
    may_grow: bool,
    /// Octets of frames so far.
    used: usize,
    /// Frames that the modem has not taken.
    buffer: Vec<u8>,
    taken: usize,
    /// Whether no more frames will be added.
    is_full: bool,
    /// Whether the modem was told its end.
    is_over: bool,
    /// The station that must answer.
    asks: Option<Address>,
    /// The station that gets data with acknowledgement.
    data_to: Option<Address>,
    /// The stations to be acknowledged at the beginning.
    acks: Vec<Address>,
    /// The number of following data frames that also carry an acknowledgement.
    riding: u8,
    /// The stations acknowledged so far, for copies of the acknowledgements.
    acked: Vec<Address>,
    /// The number of copies made to fill the end.
    copies: u8,
    /// Octets of frames without acknowledgement.
    datagrams: usize,
    /// Whether the transmission ends an exchange, and therefore only answers and needs no answer.
    is_last: bool,
}

/// The longest transmission with data before a call is answered: 1 kB at 300 bit/s goes along.
const PIPELINED: Duration = Duration::from_secs(40);
/// The most data on the air that may go along with an answer that ends an exchange.
const ADDED: Duration = Duration::from_secs(5);
/// Octets that a transmission may have, however short it is to be: a call, or data with an acknowledgement. The end of
/// a message alone takes 2 s at 75 bit/s.
const LEAST_ROOM: usize = 100;
/// Octets of a data frame with a long number, without addresses and segment.
const FRAME: usize = 16;

impl Turn {
    /// How long the transmission has lasted, its preamble included.
    pub fn lasts(&self, now: Time) -> Duration {
        self.end.min(now).max(self.start).since(self.start)
    }
}

impl Node {
    /// Octets by which a datagram's header exceeds a data frame's.
    pub(crate) const DATAGRAM_EXTRA: usize = 6;

    /// The next instruction for the modem. Poll while it transmits for us and has room, and while it
    /// is idle; `room` counts only while it transmits.
    pub fn poll_transmit(&mut self, now: Time, room: usize, out: &mut Vec<u8>) -> Option<Keying> {
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
                return Some(Keying::Octets);
            }
            if turn.is_full {
                turn.is_over = true;
                return Some(Keying::End);
            }
            if room == 0 {
                return None;
            }
            self.grow(now);
            if !self.produce(now) {
                self.turn.as_mut()?.is_full = true;
            }
        }
    }

    /// Whether there is anything to transmit.
    fn has_work(&self) -> bool {
        !self.warnings.is_empty()
            || !self.datagrams.is_empty()
            || self.outgoing.is_due()
            || self.peers.values().any(|peer| peer.has_work())
    }

    /// The highest priority among everything to be transmitted.
    fn urgency(&self) -> u8 {
        let datagrams = self.datagrams.first().map_or(0, |request| request.priority);
        let wanting = self.peers.values().filter(|peer| peer.wants_answer());
        wanting.map(Peer::urgency).fold(datagrams, u8::max)
    }

    /// Ends the transmission after the modem has sent everything.
    pub(crate) fn end_turn(&mut self, now: Time) {
        let Some(turn) = self.turn.take() else { return };
        self.stats.transmissions += 1;
        let keyed = turn.lasts(now);
        let end = turn.start + keyed;
        self.stats.keyed += keyed;
        self.note(|| Record::Keyed { start: turn.start, end, waveform: turn.waveform });
        self.asked = turn.asks;
        // Others wait for the announced end, even if the transmission ended earlier.
        let decoded = now + self.config.decoding;
        let heard = decoded.max(turn.announced.min(turn.end + EOT_UNIT));
        self.floor.handle_sent(now, heard, turn.asks.is_some());
    }

    /// When a transmission may start, if there is something to transmit.
    pub(crate) fn next_start(&self, now: Time) -> Option<Time> {
        if self.turn.is_some() || !self.has_work() {
            return None;
        }
        let start = self.floor.next_start(now, self.urgency())?;
        Some(start.max(self.hold_until().unwrap_or(start)))
    }

    /// How long a station that has heard nobody since its start leaves the air to the station that goes first: both may
    /// have started at the same moment, and called each other at once.
    fn hold_until(&self) -> Option<Time> {
        let is_known = |peer: &Peer| peer.contact.heard_at > Time::ZERO;
        let is_new = self.turns == 0 && !self.peers.values().any(is_known);
        let mut wanting = self.peers.iter().filter(|(_, peer)| peer.has_work());
        let goes_last = wanting.any(|(address, _)| !self.goes_before(*address));
        (is_new && goes_last).then(|| self.started + self.floor.apart())
    }

    /// Whether this station, rather than the other one, transmits first where both want to at the same moment.
    pub(crate) fn goes_before(&self, other: Address) -> bool {
        self.config.address < other
    }

    /// Starts a transmission if that is allowed and there is something to transmit.
    fn start(&mut self, now: Time) -> Option<Keying> {
        self.start_at = self.next_start(now);
        self.start_at.take_if(|at| *at <= now)?;
        let urgency = self.urgency();
        let must_yield = self.floor.must_yield(now);
        let (data_to, is_last) = self.choose(must_yield);
        let wanted = self.wanted(data_to, is_last);
        if wanted == 0 {
            // There is nothing to answer, so others may begin.
            self.floor.yield_turn();
            // What must not go along with an answer has its own turn.
            return if must_yield { self.start(now) } else { None };
        }
        let waveform = self.waveform;
        let blocks = self.blocks(now, data_to, wanted);
        let start = now + self.config.switching;
        let acks = self.peers.iter().filter(|(_, peer)| peer.is_ack_due);
        let acks: Vec<Address> = acks.map(|(address, _)| *address).collect();
        self.turns += 1;
        self.turn = Some(Turn {
            number: self.turns,
            waveform,
            start,
            end: start + waveform.preamble() + waveform.block_time() * blocks,
            announced: Time::MAX,
            room: waveform.octets(blocks),
            may_grow: !must_yield,
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
            datagrams: 0,
            is_last,
        });
        self.floor.handle_start(now, if is_last { None } else { Some(urgency) });
        Some(Keying::Start(waveform))
    }

    /// Adds blocks for what has come since the command to transmit, before the first frame announces the
    /// end: a radio takes a while to key up.
    fn grow(&mut self, now: Time) {
        let Some(turn) = self.turn.as_mut() else { return };
        if !std::mem::take(&mut turn.may_grow) {
            return;
        }
        let data_to = turn.data_to.or_else(|| self.choose_peer(self.turns));
        let blocks = self.blocks(now, data_to, self.wanted(data_to, false));
        if let Some(turn) = &mut self.turn {
            turn.data_to = data_to;
            turn.room = turn.room.max(turn.waveform.octets(blocks));
            turn.end = turn
                .end
                .max(turn.start + turn.waveform.preamble() + turn.waveform.block_time() * blocks);
        }
    }

    /// The number of blocks for a transmission of the wanted octets, which may hold only a part of them.
    fn blocks(&self, now: Time, data_to: Option<Address>, wanted: usize) -> u32 {
        let waveform = self.waveform;
        let longest = self.longest(now, data_to);
        let most = longest.saturating_sub(waveform.preamble()).as_nanos()
            / waveform.block_time().as_nanos();
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        // Pieces of a PDU keep the length of the first, which may have gone at a higher rate.
        let header = self.header_len(data_to);
        let piece = data_to.and_then(|to| self.peers.get(&to)).map_or(0, |peer| {
            let ack = if peer.is_ack_due { peer.ack_len(header - FRAME) } else { 0 };
            header + ack + peer.sender.uncuttable().max(peer.expedited.uncuttable())
        });
        waveform.blocks(wanted).min(most.max(waveform.blocks(LEAST_ROOM.max(piece))))
    }

    /// The longest allowed transmission: short before a call is answered, while others wait for their
    /// turn, and while more urgent messages are sent or received.
    fn longest(&self, now: Time, data_to: Option<Address>) -> Duration {
        let longest = self.config.longest;
        let peer = data_to.and_then(|to| self.peers.get(&to));
        let is_called = peer.is_some_and(|peer| !peer.link.is_up());
        let urgency = peer.map_or(0, Peer::least_urgency);
        // Urgent data for the same station goes into this transmission, unless it is expedited.
        let is_beside_urgent = self.peers.iter().any(|(address, peer)| {
            let out = if Some(*address) == data_to {
                &peer.recent_urgent.expedited
            } else {
                &peer.recent_urgent.sent
            };
            peer.recent_urgent.received.is_above(urgency, now) || out.is_above(urgency, now)
        });
        [
            is_called.then_some(PIPELINED),
            self.floor.is_contended().then_some(self.config.exchange),
            is_beside_urgent.then_some(self.config.longest_beside_urgent),
        ]
        .into_iter()
        .flatten()
        .fold(longest, Duration::min)
    }

    /// The station that gets data in the next transmission, and whether this must only answer. After a
    /// long exchange, a little data may go along with the answer once.
    fn choose(&mut self, must_yield: bool) -> (Option<Address>, bool) {
        if must_yield && self.floor.has_added() {
            return (None, true);
        }
        let to = self.choose_peer(self.turns + 1);
        if must_yield {
            if self.waveform.air_time(self.wanted(to, false)) > ADDED {
                return (None, true);
            }
            self.floor.handle_added();
        }
        (to, false)
    }

    /// The next station to get data with acknowledgement: the station with the most urgent data, then a station that
    /// answers, then the least recently served. The urgency of a call is the urgency of its data. An unanswered call
    /// for an exclusive link lets others go first once; beside an exclusive link nobody else is called.
    fn choose_peer(&mut self, turn: u64) -> Option<Address> {
        let is_exclusive = self.is_exclusive();
        let may = |peer: &Peer| !is_exclusive || peer.link.is_exclusive() || !peer.link.is_down();
        let wanting = self.peers.iter().filter(|(_, peer)| peer.wants_answer() && may(peer));
        let (&to, _) = wanting.max_by_key(|(_, peer)| {
            let answers = !peer.contact.is_lost && peer.contact.silences == 0;
            let was_called = peer.is_called_exclusively() && !answers && peer.served + 1 == turn;
            let urgency = if was_called { 0 } else { peer.urgency() };
            (urgency, answers, peer.is_urgent(), Reverse(peer.served))
        })?;
        let (id, numbers) = (self.next_id, self.numbers());
        let peer = self.peers.get_mut(&to)?;
        peer.served = turn;
        if peer.link.is_down() && peer.has_data() {
            peer.call(id, false, numbers);
            self.take_id();
        }
        Some(to)
    }

    /// The octets that wait for this transmission, with their overhead.
    fn wanted(&self, data_to: Option<Address>, is_last: bool) -> usize {
        let header = self.header_len(data_to);
        let introduces = Introduction::new(self.config.extensions, false).is_some();
        let control = self.peers.iter().map(|(to, peer)| {
            peer.control_len(self.header_len(Some(*to)), introduces, data_to == Some(*to))
        });
        let control = control.sum::<usize>() + self.warnings.len() * header;
        let acks = self.peers.values().filter(|peer| peer.is_ack_due);
        let acks: usize = acks.map(|peer| peer.ack_len(header - FRAME)).sum();
        let acks = acks * usize::from(self.config.ack_copies);
        let datagrams = if is_last { 0 } else { self.datagrams_len() };
        let data = data_to
            .and_then(|to| self.peers.get(&to))
            .map_or(0, |peer| peer.data_len(header, self.segment(peer)));
        control + acks + datagrams + data
    }

    /// Octets on the air of all data without acknowledgement.
    fn datagrams_len(&self) -> usize {
        let header = |to| self.header_len(to) + Self::DATAGRAM_EXTRA;
        let begun = self.outgoing.backlog();
        let waiting = self.datagrams.iter().map(|request| {
            let times = match request.mode {
                Mode::NonArq { repeats, .. } => usize::from(repeats) + 1,
                Mode::Arq { .. } => 1,
            };
            let len = Cpdu::HEADER + request.s_pdu.len();
            times * (len + len.div_ceil(MAX_SEGMENT) * header(Some(request.to)))
        });
        begun + begun.div_ceil(MAX_SEGMENT) * header(None) + waiting.sum::<usize>()
    }

    /// Octets of a data frame without its segment.
    pub(crate) fn header_len(&self, to: Option<Address>) -> usize {
        let to = to.map_or(7, Address::half_octets);
        let addresses = to.max(self.config.address.half_octets());
        FRAME + addresses.max(usize::from(self.config.address_octets)).min(7)
    }

    fn segment(&self, peer: &Peer) -> usize {
        peer.quality.segment(self.header_len(None), self.waveform, self.config.longest)
    }
}

impl Turn {
    /// When the last block ends.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Whether what comes now may go along.
    pub fn may_grow(&self) -> bool {
        self.may_grow
    }

    /// The free octets.
    fn rest(&self) -> usize {
        self.room - self.used
    }

    /// The octets that its blocks hold for frames.
    fn room(&self) -> usize {
        self.room
    }

    /// The octets of a block.
    fn block(&self) -> usize {
        self.waveform.block_bits() as usize / 8
    }

    /// When the next frame is on the air.
    fn now(&self) -> Time {
        self.time_of(self.used)
    }

    /// Appends a frame to the transmission; false if it does not fit.
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
        self.announced = self.announced.min(start + EOT_UNIT * u32::from(header.eot));
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

// The frames of a transmission, built one by one when the modem requests octets.

/// The most copies of acknowledgements at the end of a transmission.
const MAX_COPIES: u8 = 3;
/// The most octets of a sequence number.
const MAX_FSN: usize = 2;
/// Added to the reception window of a datagram, which is otherwise twice the time on the air of its
/// segments and their repetitions.
const DATAGRAM_SLACK: Duration = Duration::from_secs(120);

impl Node {
    /// Appends the next frame to the transmission; false when it is full.
    fn produce(&mut self, now: Time) -> bool {
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
            peer.link.outgoing().is_some() && (!peer.is_request_due() || data_to == Some(**address))
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
        let Some(outgoing) = self.peers.get_mut(&to).and_then(|peer| peer.link.poll_outgoing())
        else {
            return false;
        };
        let asks = matches!(outgoing.c_pdu, Cpdu::Request { .. } | Cpdu::Break(_));
        let mut octets = Vec::with_capacity(Cpdu::HEADER);
        outgoing.c_pdu.emit(&mut octets);
        let id = outgoing.id.unwrap_or(self.next_id);
        if outgoing.id.is_none() {
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
        let makes = matches!(outgoing.c_pdu, Cpdu::Request { .. } | Cpdu::Accepted);
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
        if !self.peers.get(&to).is_some_and(super::Peer::is_exclusive_call_due) {
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
        // A slow transmission that must be short may have no room for the longest segment.
        let segment = turn.room().saturating_sub(header).min(MAX_SEGMENT);
        let Some(next) = outgoing.poll(at, segment, room) else { return false };
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

    /// Fills the last block with copies of acknowledgements, link control and data. If an end was announced and more
    /// than a block would stay empty, padding follows.
    fn produce_fill(&mut self) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        let rest = turn.rest();
        if turn.copies < MAX_COPIES && !turn.acked.is_empty() {
            turn.copies += 1;
            let acked = turn.acked.clone();
            return acked.into_iter().filter(|&to| self.acknowledge(to)).count() > 0;
        }
        let (number, data_to, block) = (turn.number, turn.data_to, turn.block());
        let is_announced = turn.used > 0;
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
            let reads = self.peers.get(to).is_some_and(|peer| peer.extensions.padding);
            is_announced && rest > block && reads
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
