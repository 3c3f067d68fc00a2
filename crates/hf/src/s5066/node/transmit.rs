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
use super::super::dts::policy::{EOT_UNIT, MAX_SEGMENT};
use super::super::dts::wire::{Body, Eow, Frame, Header};
use super::super::service::Mode;
use super::introduction::Introduction;
use super::peer::Peer;
use super::record::Records;
use super::{Address, Config, FrameKind, Node, Record, Stats};
use crate::modem::{Keying, Waveform};

/// A transmission under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
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
    pub(super) asks: Option<Address>,
    /// The station that gets data with acknowledgement.
    pub(super) data_to: Option<Address>,
    /// The stations to be acknowledged at the beginning.
    pub(super) acks: Vec<Address>,
    /// The number of following data frames that also carry an acknowledgement.
    pub(super) riding: u8,
    /// The stations acknowledged so far, for copies of the acknowledgements.
    pub(super) acked: Vec<Address>,
    /// The number of copies made to fill the end.
    pub(super) copies: u8,
    /// Octets of frames without acknowledgement.
    pub(super) datagrams: usize,
    /// Whether the transmission ends an exchange, and therefore only answers and needs no answer.
    pub(super) is_last: bool,
}

/// The longest transmission with data before a call is answered: 1 kB at 300 bit/s goes along.
const PIPELINED: Duration = Duration::from_secs(40);
/// The most data on the air that may go along with an answer that ends an exchange.
const ADDED: Duration = Duration::from_secs(5);
/// Octets of a data frame with a long number, without addresses and segment.
const FRAME: usize = 16;

impl Turn {
    /// How long the transmission has lasted, its preamble included.
    pub(super) fn lasts(&self, now: Time) -> Duration {
        self.end.min(now).max(self.start).since(self.start)
    }
}

impl Node {
    /// Octets by which a datagram's header exceeds a data frame's.
    pub(super) const DATAGRAM_EXTRA: usize = 6;

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
    pub(super) fn has_work(&self) -> bool {
        !self.warnings.is_empty()
            || !self.datagrams.is_empty()
            || self.outgoing.is_due()
            || self.peers.values().any(|peer| peer.has_work())
    }

    /// The highest priority among everything to be transmitted.
    pub(super) fn urgency(&self) -> u8 {
        let datagrams = self.datagrams.first().map_or(0, |request| request.priority);
        let wanting = self.peers.values().filter(|peer| peer.wants_answer());
        wanting.map(Peer::urgency).fold(datagrams, u8::max)
    }

    /// Ends the transmission after the modem has sent everything.
    pub(super) fn end_turn(&mut self, now: Time) {
        let Some(turn) = self.turn.take() else { return };
        self.stats.transmissions += 1;
        let keyed = turn.lasts(now);
        let end = turn.start + keyed;
        self.stats.keyed_nanos += u64::try_from(keyed.as_nanos()).unwrap_or(u64::MAX);
        self.note(|| Record::Keyed { start: turn.start, end, waveform: turn.waveform });
        self.asked = turn.asks;
        // Others wait for the announced end, even if the transmission ended earlier.
        let decoded = now + self.config.decoding;
        let heard = decoded.max(turn.announced.min(turn.end + EOT_UNIT));
        self.floor.handle_sent(now, heard, turn.asks.is_some());
    }

    /// When a transmission may start, if there is something to transmit.
    pub(super) fn next_start(&self, now: Time) -> Option<Time> {
        if self.turn.is_some() || !self.has_work() {
            return None;
        }
        self.floor.next_start(now, self.urgency())
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
            return None;
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
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        waveform.blocks(wanted).min(most)
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
            let out =
                if Some(*address) == data_to { &peer.lately.expedited } else { &peer.lately.sent };
            peer.lately.received.is_above(urgency, now) || out.is_above(urgency, now)
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
    pub(super) fn header_len(&self, to: Option<Address>) -> usize {
        let to = to.map_or(7, Address::half_octets);
        let addresses = to.max(self.config.address.half_octets());
        FRAME + addresses.max(usize::from(self.config.address_octets)).min(7)
    }

    pub(super) fn segment(&self, peer: &Peer) -> usize {
        peer.quality.segment(self.header_len(None), self.waveform, self.config.longest)
    }
}

impl Turn {
    /// When the last block ends.
    pub(super) fn end(&self) -> Time {
        self.end
    }

    /// Whether what comes now may go along.
    pub(super) fn may_grow(&self) -> bool {
        self.may_grow
    }

    /// The free octets.
    pub(super) fn rest(&self) -> usize {
        self.room - self.used
    }

    /// The octets that its blocks hold for frames.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// The octets of a block.
    pub(super) fn block(&self) -> usize {
        self.waveform.block_bits() as usize / 8
    }

    /// When the next frame is on the air.
    pub(super) fn now(&self) -> Time {
        self.time_of(self.used)
    }

    /// Appends a frame to the transmission; false if it does not fit.
    #[expect(clippy::too_many_arguments, reason = "parts of a node that are borrowed apart")]
    pub(super) fn put(
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
