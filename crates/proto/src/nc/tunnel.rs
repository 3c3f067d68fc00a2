//! One end of a tunnel.

use std::collections::VecDeque;
use std::time::Duration;

use super::Config;
use super::loss::Loss;
use super::mtu::Search;
use super::queue::Queue;
use super::rate::{self, Rate};
use super::receiver::Receiver;
use super::reporter::{self, Reporter};
use super::sender::{Carried, PeerView, Sender, margin};
use super::stats::{Estimates, Stats};
use super::wire::{
    self, Body, FLAGS, FLOOR, MAX_REPORT, Message, RECORD_HEADER, REPAIR_HEADER, Report, expand,
    fill_record_header, low24,
};
use crate::rng::Rng;
use crate::time::{Time, earliest};

/// How many standard deviations more are covered in advance while there is nothing else to send.
const IDLE_MARGIN: f64 = 1.5;
/// The same after a small source: its repairs cost little, and a request waits for it.
const SMALL_IDLE_MARGIN: f64 = 3.2;
/// A hole of this age, in round trips, is filled by the source itself, before new sources and whatever
/// the reckoning says: a repair that covers younger holes too helps it only when all can be solved.
const OLD: f64 = 3.0;
/// Round trips more that wait inside while the rate is held back to test losses.
const TESTING: f64 = 2.0;
/// From this loss rate on, stalls are the rule.
const NOTICEABLE_LOSS: f64 = 0.005;
/// How long the sender waits with a repair when it has nothing else to send, in shares of the
/// round trip: more may come, and a burst of losses may pass.
const IDLE_SHARE: u32 = 16;
const MIN_IDLE_WAIT: Duration = Duration::from_millis(1);
const MAX_IDLE_WAIT: Duration = Duration::from_millis(10);
/// A source of a sparse flow that is at most this part of a full one is sent twice beside a flow that
/// fills the path: cheaper than that its loss waits for a repair of full length.
const SMALL_PART: usize = 8;
/// The round trip before any is known.
const UNKNOWN_RTT: Duration = Duration::from_millis(500);
/// Doublings of the time to wait for a report at most.
const MAX_BACKOFF: u32 = 6;
/// Datagrams that may be sent each time that reports stay away.
const TIMEOUT_DATAGRAMS: u8 = 2;
/// Between two questions to a peer that is silent.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// Without progress for this long, or four round trips, the path MTU is in doubt.
const STUCK: Duration = Duration::from_secs(1);
/// A source that is given up is first waited for this much longer by the receiver.
const GRACE: Duration = Duration::from_millis(500);
/// Flows by bucket of the queue.
const BUCKETS: usize = 1_024;

/// One end of a tunnel to one peer.
#[derive(Debug)]
pub struct Tunnel {
    config: Config,
    stats: Stats,
    events: VecDeque<Event>,
    /// The last time that was told.
    seen: Time,

    queue: Queue,
    sender: Sender,
    rate: Rate,
    loss: Loss,
    /// For each flow the source with its last packet, plus one.
    flows: Vec<u64>,
    next_number: u64,
    /// The peer's clock and counters in full.
    peer_clock: u64,
    peer_received: u64,
    peer_marked: u64,
    peer_runs: u64,
    /// The least source that the peer misses, as it said last.
    peer_first_missing: u64,
    /// Since when it is that one.
    stuck_since: Time,
    last_sent: Time,
    /// A small source that is sent again unasked, and when.
    copy: Option<(u64, Time)>,
    /// Since when reports are awaited; `None` while there is nothing to report.
    awaiting: Option<Time>,
    /// Times that reports stayed away in a row, and what may be sent until the next.
    silence: u32,
    timeout_datagrams: u8,
    /// The first datagram that was sent since the peer was heard.
    unanswered_since: Option<Time>,
    is_down: bool,
    ask_at: Option<Time>,

    receiver: Receiver,
    reporter: Reporter,
    probe_reply: Option<u16>,
    mtu: Search,
    symbol: Vec<u8>,
}

/// A datagram that [`Tunnel::poll_transmit`] made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// Its number, never used twice by one `Tunnel`: the nonce of the cipher. The low 32 bits are
    /// enough on the wire.
    pub number: u64,
    /// Whether it must not be fragmented and may well be too big: a probe for the path MTU.
    pub is_probe: bool,
}

/// Why an inner packet was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The path is down: answer with ICMP destination unreachable.
    #[error("the path to the peer is down")]
    Down,
    /// Not an IP packet.
    #[error("not an IP packet")]
    Malformed,
    /// Answer with ICMP packet too big.
    #[error("the packet is too big, {mtu} octets fit")]
    TooBig {
        /// What fits.
        mtu: usize,
    },
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The greatest inner packet is now of this many octets.
    Mtu(usize),
    /// The peer has been silent for too long. What waits is discarded.
    PathDown,
    /// The peer is heard again.
    PathUp,
}

impl Tunnel {
    /// A tunnel to a peer whose keys were just agreed on.
    #[must_use]
    pub fn new(now: Time, config: Config, mut rng: Rng) -> Self {
        Self {
            stats: Stats::default(),
            events: VecDeque::new(),
            seen: now,
            queue: Queue::new(config.queue, &mut rng),
            sender: Sender::new(config.window),
            rate: Rate::new(now, &config),
            loss: Loss::default(),
            flows: vec![0; BUCKETS],
            next_number: 0,
            peer_clock: 0,
            peer_received: 0,
            peer_marked: 0,
            peer_runs: 0,
            peer_first_missing: 0,
            stuck_since: now,
            last_sent: now,
            copy: None,
            awaiting: None,
            silence: 0,
            timeout_datagrams: 0,
            unanswered_since: None,
            is_down: false,
            ask_at: None,
            receiver: Receiver::new(config.window, config.deadline + GRACE),
            reporter: Reporter::default(),
            probe_reply: None,
            mtu: Search::new(now, config.base_mtu, config.max_mtu),
            symbol: Vec::new(),
            config,
        }
    }

    /// Takes an inner IP packet to carry. How long it waits is decided here: it may be marked
    /// (ECN), or be dropped later where its flow does not know ECN.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn handle_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), Refused> {
        self.seen = now;
        if self.is_down {
            self.stats.refused_down += 1;
            return Err(Refused::Down);
        }
        if packet.len() > self.mtu() {
            self.stats.refused_too_big += 1;
            return Err(Refused::TooBig { mtu: self.mtu() });
        }
        if let Err(error) = self.queue.push(now, packet) {
            self.stats.refused_malformed += 1;
            return Err(error);
        }
        self.stats.packets_in += 1;
        self.stats.octets_in += packet.len() as u64;
        Ok(())
    }

    /// Takes the payload of an opened datagram of the peer, `is_marked` if the outer packet came
    /// with congestion experienced. The driver sends all as ECN capable, ECT(0). What cannot be
    /// read is counted.
    pub fn handle_datagram(&mut self, now: Time, number: u64, is_marked: bool, payload: &[u8]) {
        self.seen = now;
        self.stats.datagrams_received += 1;
        let rtt = self.known_rtt();
        let is_overtaken = self.reporter.handle_datagram(now, number, is_marked, rtt);
        self.handle_heard(now);
        let Ok(message) = Message::parse(payload) else {
            self.stats.malformed += 1;
            return;
        };
        if let Some(report) = &message.report {
            self.handle_report(now, report);
        }
        if let Some(floor) = message.floor {
            let floor = expand(floor, 24, self.receiver.end());
            self.receiver.handle_floor(now, floor, &mut self.stats);
        }
        let reference = self.receiver.end();
        match message.body {
            Body::Empty => {}
            Body::Probe { .. } => {
                self.probe_reply = u16::try_from(payload.len()).ok();
            }
            Body::ProbeReply { size } => self.handle_probe_reply(now, usize::from(size)),
            Body::Repair { first, count, symbol } => {
                let window = (expand(first, 24, reference), count);
                self.receiver.handle_repair(now, number, window, symbol, &mut self.stats);
            }
            Body::Source { number, symbol } => {
                let number = expand(number, 24, reference);
                self.receiver.handle_source(now, number, symbol, is_overtaken, &mut self.stats);
            }
        }
        let carries = matches!(message.body, Body::Repair { .. } | Body::Source { .. });
        if carries || message.wants_report {
            let octets = payload.len() + self.config.overhead;
            self.reporter.handle_eliciting(now, octets, self.known_rtt(), message.wants_report);
        }
    }

    /// The path has changed: the peer's address or our own. What was learnt of it is forgotten.
    pub fn handle_path_changed(&mut self, now: Time) {
        self.rate.reset(now);
        self.loss = Loss::default();
        let before = self.mtu();
        self.mtu.restart(now);
        self.note_mtu(before);
    }

    /// The system refused a datagram of this payload because the packet would be too big.
    pub fn handle_too_big(&mut self, now: Time, payload: usize) {
        let before = self.mtu();
        self.mtu.handle_too_big(now, payload + self.config.overhead);
        self.note_mtu(before);
    }

    /// The next inner packet to release, in place of what `out` holds.
    pub fn poll_packet(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.seen = now;
        let is_one = self.receiver.poll_packet(out);
        if is_one {
            self.stats.packets_out += 1;
            self.stats.octets_out += out.len() as u64;
        }
        is_one
    }

    /// The payload of the next datagram to send, in place of what `out` holds; `None` while there
    /// is nothing to send or the rate forbids it (then [`Tunnel::next_timeout`] says until when).
    ///
    /// The choice is made now, so ask only while the bearer has room.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        self.seen = now;
        out.clear();
        if let Some(size) = self.mtu.poll_probe(now, self.known_rtt()) {
            let padding = size - self.config.overhead - FLAGS;
            let body = Body::Probe { padding };
            Message { body, ..Message::default() }.emit(out);
            return Some(self.sent(now, out, Carried::Other, true));
        }
        if let Some(size) = self.probe_reply.take() {
            return Some(self.send_control(now, Body::ProbeReply { size }, false, out));
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = Some(now + ASK_INTERVAL);
            return Some(self.send_control(now, Body::Empty, true, out));
        }
        if self.reporter.is_due(now) && !self.has_room_for_report() {
            return Some(self.send_report(now, out));
        }
        if !self.is_down && self.may_send(now) {
            if let Some(transmit) = self.send_data(now, out) {
                return Some(transmit);
            }
            if self.queue.is_empty() && self.silence == 0 {
                self.rate.handle_idle(now);
            }
        }
        self.reporter.is_due(now).then(|| self.send_report(now, out))
    }

    /// What the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.seen = now;
        self.receiver.handle_timeout(now, &mut self.stats);
        self.mtu.handle_timeout(now);
        if self.sender.oldest_sent_at().is_some_and(|at| at + self.config.deadline <= now) {
            let oldest = now - self.config.deadline + Duration::from_nanos(1);
            let count = self.sender.give_up_before(oldest);
            self.note_given_up(count);
        }
        if self.silence_at().is_some_and(|at| at <= now) {
            self.stats.timeouts += 1;
            self.silence += 1;
            self.timeout_datagrams = TIMEOUT_DATAGRAMS;
            self.awaiting = Some(now);
            self.sender.handle_silence();
            self.rate.handle_timeout_loss(now);
            if self.silence >= 2 {
                self.mtu.verify(now);
                self.ask_at = earliest(self.ask_at, Some(now));
            }
        }
        if self.sender.has_unacknowledged() && self.stuck_at() <= now {
            self.stuck_since = now;
            self.mtu.verify(now);
        }
        if self.unanswered_since.is_some_and(|since| since + self.config.dead_after <= now)
            && !self.is_down
        {
            self.is_down = true;
            self.events.push_back(Event::PathDown);
            self.queue.clear();
            self.ask_at = Some(now);
        }
    }

    /// When to call [`Tunnel::handle_timeout`] at the latest, and to poll again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let mut next = [
            self.receiver.next_timeout(),
            self.mtu.next_timeout(),
            self.sender.oldest_sent_at().map(|at| at + self.config.deadline),
            self.silence_at(),
            self.ask_at,
            self.reporter.next_timeout(),
            self.sender.has_unacknowledged().then(|| self.stuck_at()),
            self.unanswered_since
                .filter(|_| !self.is_down)
                .map(|since| since + self.config.dead_after),
        ]
        .into_iter()
        .fold(None, earliest);
        if !self.is_down && (self.silence == 0 || self.timeout_datagrams > 0) {
            if let Some((_, at)) = self.copy {
                next = earliest(next, self.next_send(self.seen).map(|paced| paced.max(at)));
            }
            // While the window is full, only a report helps.
            let has_next = !self.queue.is_empty() && self.sender.next_source().is_some();
            if has_next || self.sender.lacks(&self.loss, self.margin()) {
                next = earliest(next, self.next_send(self.seen));
            } else if self.sender.lacks_lately(&self.loss, self.idle_margin()) {
                let paced = self.next_send(self.seen);
                next = earliest(next, paced.map(|at| at.max(self.idle_at())));
            }
        }
        next
    }

    /// The greatest inner packet, in octets.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.max_symbol() - RECORD_HEADER
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let queue = self.queue.stats();
        Stats {
            queue_marked: queue.marked,
            queue_dropped: queue.dropped_by_codel,
            queue_overflowed: queue.dropped_at_limit,
            refused_down: self.stats.refused_down + queue.cleared,
            ..self.stats
        }
    }

    /// What is known of the path.
    #[must_use]
    pub fn estimates(&self) -> Estimates {
        Estimates {
            rtt: self.rate.rtt(),
            rate: self.rate.rate(),
            loss: self.loss.rate(),
            burst: self.loss.burst(),
            queued: self.queue.len_octets(),
            unacknowledged: usize::try_from(self.sender.end() - self.sender.floor())
                .expect("within the window"),
            path_mtu: self.mtu.confirmed(),
        }
    }

    /// The peer is alive.
    fn handle_heard(&mut self, now: Time) {
        self.unanswered_since = None;
        self.mtu.handle_heard();
        if self.is_down {
            self.is_down = false;
            self.events.push_back(Event::PathUp);
            self.awaiting = self.awaiting.map(|_| now);
        }
        self.ask_at = None;
    }

    fn handle_report(&mut self, now: Time, report: &Report) {
        let newest = expand(report.newest, 32, self.next_number);
        let end = newest + 1;
        if end > self.next_number {
            self.stats.impossible_reports += 1;
            return;
        }
        let first_missing = expand(report.first_missing, 24, self.sender.floor());
        let view = PeerView {
            horizon: end,
            first_missing,
            end: first_missing + u64::from(report.extent),
            missing: report.missing,
            rank: report.rank,
            runs: report.holes.clone(),
        };
        if self.sender.handle_report(&view).is_err() {
            self.stats.impossible_reports += 1;
            return;
        }
        let grow = |low: u32, bits: u32, before: u64| expand(low, bits, before).max(before);
        self.peer_clock = grow(report.received_at, 32, self.peer_clock);
        self.peer_received = grow(report.received, 32, self.peer_received);
        self.peer_marked = grow(u32::from(report.marked), 16, self.peer_marked);
        self.peer_runs = grow(u32::from(report.runs), 16, self.peer_runs);
        self.loss.handle_counts(end, self.peer_received, self.peer_runs);
        self.rate.handle_report(
            now,
            &rate::Report {
                newest,
                newest_at: Duration::from_micros(self.peer_clock),
                delay: reporter::delay_of(report),
                received: self.peer_received,
                marked: self.peer_marked,
            },
        );
        if first_missing > self.peer_first_missing {
            self.peer_first_missing = first_missing;
            self.stuck_since = now;
        }
        self.silence = 0;
        self.awaiting = self.sender.has_unacknowledged().then_some(now);
    }

    fn handle_probe_reply(&mut self, now: Time, payload: usize) {
        let before = self.mtu();
        self.mtu.handle_reply(now, payload + self.config.overhead);
        self.note_mtu(before);
    }

    /// Tells the driver if what fits is no longer what it was.
    fn note_mtu(&mut self, before: usize) {
        let mtu = self.mtu();
        if mtu == before {
            return;
        }
        self.events.push_back(Event::Mtu(mtu));
        if mtu < before {
            let count = self.sender.give_up_longer(self.max_symbol());
            self.note_given_up(count);
        }
    }

    /// Accounts for sources that were given up. After the last of them no report is awaited any more,
    /// so that none would end a silence.
    fn note_given_up(&mut self, count: u64) {
        self.stats.sources_expired += count;
        if !self.sender.has_unacknowledged() {
            self.silence = 0;
            self.awaiting = None;
        }
    }

    fn may_send(&self, now: Time) -> bool {
        if self.silence > 0 {
            return self.timeout_datagrams > 0;
        }
        self.next_send(now).is_some_and(|at| at <= now)
    }

    /// When the rate lets a source or an equation go; `None` while too much is in flight.
    ///
    /// What fills the window may be nothing but reports, which nobody reports: a source has to go
    /// for the peer to say what it has.
    fn next_send(&self, now: Time) -> Option<Time> {
        self.rate.next_send(now).or((!self.sender.has_unacknowledged()).then_some(now))
    }

    /// The next equation or source.
    fn send_data(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((number, _)) = self.copy.take_if(|(_, at)| *at <= now)
            && let Some(transmit) = self.send_copy(now, number, out)
        {
            return Some(transmit);
        }
        if self.sender.lacks(&self.loss, self.margin()) || self.has_old_hole(now) {
            return self.send_equation(now, out);
        }
        if let Some(number) = self.sender.next_source()
            && let Some(transmit) = self.send_source(now, number, out)
        {
            return Some(transmit);
        }
        if self.sender.lacks_lately(&self.loss, self.idle_margin()) && self.idle_at() <= now {
            return self.send_equation(now, out);
        }
        None
    }

    /// Fills a source with what waits, and sends it.
    fn send_source(&mut self, now: Time, number: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        let max = self.max_symbol();
        // Some may have come while longer ones fitted.
        self.stats.refused_too_big += self.queue.drop_longer(max - RECORD_HEADER);
        self.queue.next_size()?;
        let mut symbol = self.sender.buffer();
        let mut is_sparse = true;
        while let Some(room) = max.checked_sub(symbol.len() + RECORD_HEADER) {
            let start = symbol.len();
            symbol.extend_from_slice(&[0; RECORD_HEADER]);
            let Some(popped) = self.queue.pop(now, room, self.stalling_rtt(), &mut symbol) else {
                symbol.truncate(start);
                break;
            };
            is_sparse &= popped.is_sparse && !popped.is_pure_ack;
            let wait = self.wait_of(number, popped.flow, popped.is_pure_ack);
            fill_record_header(&mut symbol[start..], wait);
        }
        if symbol.is_empty() {
            return None;
        }
        if self.is_small(symbol.len())
            && is_sparse
            && !self.queue.is_empty()
            && self.loss.rate() > NOTICEABLE_LOSS
        {
            self.copy = self.copy.or(Some((number, now + self.idle_wait())));
        }
        self.stats.sources_sent += 1;
        if !self.sender.has_unacknowledged() {
            self.stuck_since = now;
        }
        let (report, floor) = self.extras(now, symbol.len() + wire::SOURCE_HEADER);
        let symbol = self.sender.add_source(now, symbol, self.next_number);
        let body = Body::Source { number: low24(number), symbol };
        Message { report, floor, wants_report: false, body }.emit(out);
        Some(self.sent(now, out, Carried::Source, false))
    }

    /// Sends a source again that nobody asked for. It helps no other, so it is not an equation that
    /// the peer may count on.
    fn send_copy(&mut self, now: Time, number: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        let symbol = self.sender.again(number, self.next_number)?;
        let body = Body::Source { number: low24(number), symbol };
        Message { body, ..Message::default() }.emit(out);
        self.stats.sources_resent += 1;
        Some(self.sent(now, out, Carried::Other, false))
    }

    /// How many sources back the packet of this flow is that has to be released before the one
    /// that goes into source `number`.
    ///
    /// A pure acknowledgement waits for nothing, and nothing waits for it: what it says, the next
    /// one says too.
    fn wait_of(&mut self, number: u64, flow: u32, is_pure_ack: bool) -> u16 {
        if is_pure_ack {
            return 0;
        }
        let bucket = usize::try_from(flow).unwrap_or(0) % BUCKETS;
        let last = self.flows[bucket];
        self.flows[bucket] = number + 1;
        if last == 0 || last > number || last - 1 < self.sender.floor() {
            return 0;
        }
        u16::try_from(number - (last - 1)).unwrap_or(0)
    }

    /// Sends a source again, or a repair.
    fn send_equation(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let carrier = self.next_number;
        let limit = self.max_symbol();
        let (report, floor) = self.extras(now, limit + REPAIR_HEADER);
        let is_forced = self.silence > 0 && self.timeout_datagrams == TIMEOUT_DATAGRAMS;
        let lost = if is_forced {
            self.sender.oldest(carrier)
        } else if self.sender.lacks_known(&self.loss) || self.has_old_hole(now) {
            self.sender.next_lost(carrier)
        } else {
            None
        };
        if let Some((number, symbol)) = lost {
            let body = Body::Source { number: low24(number), symbol };
            Message { report, floor, wants_report: self.silence > 0, body }.emit(out);
            self.stats.sources_resent += 1;
        } else {
            let mut symbol = std::mem::take(&mut self.symbol);
            let (first, count) = self.sender.repair(carrier, &mut symbol)?;
            let body = Body::Repair { first: low24(first), count, symbol: &symbol };
            Message { report, floor, wants_report: self.silence > 0, body }.emit(out);
            self.symbol = symbol;
            self.stats.repairs_sent += 1;
        }
        Some(self.sent(now, out, Carried::Equation, false))
    }

    fn send_report(&mut self, now: Time, out: &mut Vec<u8>) -> Transmit {
        self.stats.reports_sent += 1;
        self.send_control(now, Body::Empty, false, out)
    }

    /// Whether a report can ride on what is sent next.
    fn has_room_for_report(&mut self) -> bool {
        let lacks = self.sender.lacks(&self.loss, self.margin());
        let next = self.queue.next_size().filter(|_| !lacks);
        next.is_some_and(|next| next + RECORD_HEADER + FLOOR + MAX_REPORT <= self.max_symbol())
    }

    fn send_control(
        &mut self,
        now: Time,
        body: Body<'_>,
        wants_report: bool,
        out: &mut Vec<u8>,
    ) -> Transmit {
        let (report, floor) = self.extras(now, 0);
        Message { report, floor, wants_report, body }.emit(out);
        let transmit = self.sent(now, out, Carried::Other, false);
        if wants_report {
            self.unanswered_since = self.unanswered_since.or(Some(now));
        }
        transmit
    }

    /// The report and the floor, where they are wanted and there is room beside `body` octets.
    fn extras(&mut self, now: Time, body: usize) -> (Option<Report>, Option<u32>) {
        let mut room = (self.max_symbol() + REPAIR_HEADER).saturating_sub(body);
        let floor = (self.sender.floor() > self.peer_first_missing && room >= FLOOR)
            .then(|| low24(self.sender.floor()));
        if floor.is_some() {
            room -= FLOOR;
        }
        let is_wanted = self.reporter.is_due(now) || self.reporter.has_news(now);
        if !is_wanted || room < MAX_REPORT {
            return (None, floor);
        }
        let (holes, ripe_at) = self.receiver.holes(now);
        (Some(self.reporter.report(now, holes, ripe_at)), floor)
    }

    /// Accounts for a datagram with payload `out`.
    fn sent(&mut self, now: Time, out: &[u8], carried: Carried, is_probe: bool) -> Transmit {
        let number = self.next_number;
        self.next_number += 1;
        let octets = out.len() + self.config.overhead;
        self.stats.datagrams_sent += 1;
        self.stats.octets_sent += octets as u64;
        self.sender.note(carried);
        self.rate.handle_sent(now, number, octets);
        if carried != Carried::Other {
            self.timeout_datagrams = self.timeout_datagrams.saturating_sub(1);
            self.last_sent = now;
            self.awaiting = self.awaiting.or(Some(now));
            self.unanswered_since = self.unanswered_since.or(Some(now));
        }
        Transmit { number, is_probe }
    }

    /// Octets of a symbol at most.
    fn max_symbol(&self) -> usize {
        self.mtu.confirmed() - self.config.overhead - FLAGS - REPAIR_HEADER
    }

    fn margin(&self) -> f64 {
        margin(self.rate.rtt(), self.config.patience)
    }

    /// The round trip that the queue is to keep busy: while a source is being recovered, the flows
    /// that wait for it send nothing.
    fn stalling_rtt(&self) -> Duration {
        let p = self.loss.rate();
        let test = if self.rate.is_testing() { TESTING } else { 0.0 };
        let stalls = (p / NOTICEABLE_LOSS).min(1.0) + 4.0 * p + test;
        self.rate.min_rtt().mul_f64(1.0 + stalls)
    }

    /// Whether a source is missing that was sent long ago, and is not on its way.
    fn has_old_hole(&mut self, now: Time) -> bool {
        self.sender.has_old_hole(now - self.rate.rtt().mul_f64(OLD))
    }

    /// Whether a source of so many octets is small beside a full one.
    fn is_small(&self, octets: usize) -> bool {
        octets <= self.max_symbol() / SMALL_PART
    }

    fn idle_margin(&self) -> f64 {
        let is_small = self.is_small(self.sender.newest().map_or(0, <[u8]>::len));
        self.margin() + if is_small { SMALL_IDLE_MARGIN } else { IDLE_MARGIN }
    }

    /// When a repair may be sent though nothing asks for it.
    fn idle_at(&self) -> Time {
        self.last_sent + self.idle_wait()
    }

    fn idle_wait(&self) -> Duration {
        (self.rate.rtt() / IDLE_SHARE).clamp(MIN_IDLE_WAIT, MAX_IDLE_WAIT)
    }

    /// When reports have stayed away for too long.
    fn silence_at(&self) -> Option<Time> {
        let since = self.awaiting.filter(|_| self.sender.has_unacknowledged() && !self.is_down)?;
        let since = since.max(if self.silence == 0 { self.last_sent } else { since });
        let wait = match self.known_rtt() {
            Some(rtt) => {
                rtt + (4 * self.rate.rtt_variation()).max(MIN_IDLE_WAIT)
                    + reporter::longest_wait(rtt)
            }
            None => UNKNOWN_RTT,
        };
        Some(since + wait * (1 << self.silence.min(MAX_BACKOFF)))
    }

    fn stuck_at(&self) -> Time {
        self.stuck_since + STUCK.max(4 * self.rate.rtt())
    }

    /// The round trip if it was ever measured.
    fn known_rtt(&self) -> Option<Duration> {
        (self.peer_received > 0).then(|| self.rate.rtt())
    }
}
