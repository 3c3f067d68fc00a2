//! Chooses the next datagram that an end of a tunnel sends.
//!
//! ```text
//!   1  a probe for the path MTU, or the reply to one
//!   2  a probe of a silent peer
//!   3  a report that is due and cannot be sent with data
//!      as the rate allows:
//!   4    the copy of a small source
//!   5    an equation (a source again, or a repair) that the peer is likely to lack
//!   6    a source with packets from the queue
//!   7    an equation in advance, when nothing came for a moment
//!   8  a report that is due
//! ```

use std::time::Duration;

use base::serial::low24;
use base::time::{Time, earliest};

use super::parts::{Cut, LEAST_PART};
use super::queue::Popped;
use super::record::{PART_HEADER, RECORD_HEADER};
use super::recorder::Filling;
use super::sender::{Carried, Tail, margin};
use super::tunnel::{Transmit, Tunnel};
use super::understanding::COMPRESSED_HEADERS;
use super::wire::{
    self, Body, CONTEXT, FLAGS, FLOOR, MAX_CONTEXTS, MAX_REPORT, Message, REPAIR_HEADER,
};

/// The additional margin in standard deviations while there is nothing else to send.
const IDLE_MARGIN: f64 = 1.5;
/// The additional margin after a small source: its repairs cost little, and it may be a request.
const SMALL_IDLE_MARGIN: f64 = 3.2;
/// The probability with which what was sent last may be missing when the repairs in advance have come, on
/// a path with room for them: only a report would help then, a round trip later.
const RISK: f64 = 0.001;
/// Above this risk the next repair is sent soon; below it they are spread over the round trip, because
/// losses come in bursts and further packets bring equations of their own.
const HIGH_RISK: f64 = 0.05;
/// Until when after the last source the next repair waits, in 16ths of a round trip, by how many there were
/// since: the last one comes before a round trip and a half is over.
const SPREAD: [u32; 6] = [1, 4, 8, 10, 12, 14];
/// The round trip by which they are spread before one was measured: a longer one does no harm.
const GUESSED_RTT: Duration = Duration::from_millis(100);
/// A path has room for additional repairs while less than this part of the window was sent, on the mean of
/// some round trips.
const BUSY: f64 = 0.5;
/// A source missing for this many round trips is retransmitted before new sources, even if the repairs
/// under way should suffice: a repair that also covers younger losses helps only once all of them can
/// be solved.
const OLD: f64 = 3.0;
/// Additional round trips that packets may wait in the queue while the rate is low to test losses.
const TESTING: f64 = 2.0;
/// From this loss rate on, flows regularly stall while a source is recovered.
const NOTICEABLE_LOSS: f64 = 0.005;
/// When the sender has nothing else to send, it waits this share of the round trip before it sends a
/// repair: more packets may come, and a burst of losses may pass.
const IDLE_SHARE: u32 = 16;
const MIN_IDLE_WAIT: Duration = Duration::from_millis(1);
const MAX_IDLE_WAIT: Duration = Duration::from_millis(10);
/// A source counts as small up to this share of a full source. A small source of a sparse flow, beside a
/// flow that fills the path, is sent twice: the copy costs less than to wait for a repair of full
/// length.
const SMALL_SHARE: usize = 8;

impl Tunnel {
    /// Replaces `out` by the payload of the next datagram; `None` while there is nothing to send or the
    /// rate forbids it (then [`Tunnel::next_timeout`] tells until when).
    ///
    /// The choice is made now, so ask only while the bearer has room.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        self.seen = now;
        out.clear();
        if let Some(size) = self.mtu.poll_probe(now, self.known_rtt(), self.rate.rate()) {
            let padding = size - self.config.overhead - FLAGS;
            let body = Body::Probe { padding };
            Message { body, ..Message::default() }.emit(out);
            let passing = self.mtu.confirmed();
            self.reported.probes.handle_sent(self.next_number, size, passing);
            return Some(self.account(now, out, Carried::Other, true));
        }
        if let Some(size) = self.probe_replies.pop_front() {
            return Some(self.send_control(now, Body::ProbeReply { size }, false, out));
        }
        if self.liveness.poll_question(now) {
            return Some(self.send_control(now, Body::Empty, true, out));
        }
        if self.reporter.is_due(now) && !self.has_room_for_report(now) {
            return Some(self.send_report(now, out));
        }
        if !self.liveness.is_down() && self.may_send(now) {
            if let Some(transmit) = self.send_data(now, out) {
                return Some(transmit);
            }
            if !self.has_packets() && !self.silence.is_on() {
                self.rate.handle_idle(now);
            }
        }
        self.reporter.is_due(now).then(|| self.send_report(now, out))
    }

    /// When each kind of datagram may be sent, which may be in the past.
    pub(super) fn next_transmissions(&self) -> [Option<Time>; 5] {
        let (copy, data) = if !self.liveness.is_down() && self.silence.may_send() {
            (self.next_copy(), self.next_data())
        } else {
            (None, None)
        };
        let reporter = self.reporter.next_timeout();
        [self.mtu.next_probe(), self.liveness.next_question(), reporter, copy, data]
    }

    /// When the copy of a small source may be sent.
    fn next_copy(&self) -> Option<Time> {
        let (_, at) = self.copy?;
        Some(self.next_send(self.seen)?.max(at))
    }

    /// When a source or an equation may be sent.
    fn next_data(&self) -> Option<Time> {
        // While the window is full, only a report helps.
        let has_next = self.has_packets() && self.sender.next_source().is_some();
        if has_next || self.sender.lacks(&self.loss, self.margin()) {
            self.next_send(self.seen)
        } else {
            let at = earliest(self.spare_at(), self.hole_is_old_at())?;
            Some(self.next_send(self.seen)?.max(at))
        }
    }

    fn may_send(&self, now: Time) -> bool {
        self.next_send(now).is_some_and(|at| at <= now)
    }

    /// When the rate allows a source or an equation; `None` while too much is in flight.
    ///
    /// During a silence only its allowance counts. The window may be full of reports, which are not
    /// reported themselves. Then a source must be sent so that the peer reports.
    fn next_send(&self, now: Time) -> Option<Time> {
        if self.silence.is_on() {
            return self.silence.may_send().then_some(now);
        }
        self.rate.next_send(now).or((!self.sender.has_unacknowledged()).then_some(now))
    }

    /// Sends the next equation or source.
    fn send_data(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((number, _)) = self.copy.take_if(|(_, at)| *at <= now)
            && let Some(transmit) = self.send_copy(now, number, out)
        {
            return Some(transmit);
        }
        if self.sender.lacks(&self.loss, self.margin())
            || self.hole_is_old_at().is_some_and(|at| at <= now)
        {
            return self.send_equation(now, out);
        }
        if let Some(number) = self.sender.next_source()
            && let Some(transmit) = self.send_source(now, number, out)
        {
            return Some(transmit);
        }
        if self.spare_at().is_some_and(|at| at <= now) {
            return self.send_equation(now, out);
        }
        None
    }

    /// Fills a source with packets that wait, and sends it.
    fn send_source(&mut self, now: Time, number: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        let max = self.max_symbol();
        // Some packets may have come while longer ones still fitted.
        let too_long = self.queue.drop_longer(self.mtu());
        self.note_too_long(too_long);
        if !self.has_packets() {
            return None;
        }
        let compresses = self.understanding.agrees_on(COMPRESSED_HEADERS);
        let mut symbol = self.sender.buffer(max);
        let filling = Filling {
            number,
            floor: self.sender.floor(),
            reported: self.reported.first_missing(),
            rtt: self.rate.rtt(),
        };
        let (mut is_sparse, mut is_acknowledging) = (true, true);
        // Of all packets in the source, if that counts.
        let mut dscp = None;
        while let Some(room) = max.checked_sub(symbol.len() + RECORD_HEADER) {
            if let Some(popped) = self.begin_cut(now, room, dscp) {
                is_sparse &= popped.is_sparse;
            }
            if let Some(cut) = &self.recorder.cut {
                dscp = self.config.copy_dscp.then_some(cut.dscp);
                is_acknowledging = false;
                if !self.recorder.push_part(filling, max, &mut symbol) {
                    break;
                }
                continue;
            }
            let start = symbol.len();
            symbol.extend_from_slice(&[0; RECORD_HEADER]);
            let rtt = self.stalling_rtt();
            let Some(popped) = self.queue.pop(now, room, dscp, rtt, &mut symbol) else {
                symbol.truncate(start);
                break;
            };
            dscp = self.config.copy_dscp.then_some(popped.dscp);
            is_sparse &= popped.is_sparse && !popped.is_pure_ack;
            is_acknowledging &= popped.is_pure_ack;
            let stats = compresses.then_some(&mut self.stats.sent);
            self.recorder.finish(now, &popped, filling, &mut symbol, start, stats);
        }
        if symbol.is_empty() {
            return None;
        }
        if self.is_small(symbol.len())
            && is_sparse
            && self.has_packets()
            && self.loss.rate() > NOTICEABLE_LOSS
        {
            self.copy = self.copy.or(Some((number, now + self.idle_wait())));
        }
        self.stats.sent.sources_sent += 1;
        if !self.sender.has_unacknowledged() {
            self.reported.restart(now);
        }
        let extras = self.extras(now, symbol.len() + wire::SOURCE_HEADER);
        let symbol = self.sender.add_source(now, symbol, self.next_number);
        let body = Body::Source { number: low24(number), symbol };
        Message { body, ..extras }.emit(out);
        let dscp = dscp.unwrap_or(0);
        self.sender.set_dscp(dscp);
        let carried = if is_acknowledging { Carried::Acknowledgements } else { Carried::Source };
        Some(Transmit { dscp, ..self.account(now, out, carried, false) })
    }

    /// Takes a packet from the queue that is too long for a source, if one is next and there is room for
    /// a part of it beside packets of this DSCP.
    fn begin_cut(&mut self, now: Time, room: usize, dscp: Option<u8>) -> Option<Popped> {
        let has_room = room + RECORD_HEADER >= PART_HEADER + LEAST_PART;
        let is_cut = self.recorder.cut.is_some();
        if is_cut || !has_room || self.queue.next_size()? <= self.whole() {
            return None;
        }
        let mut packet = Vec::new();
        let rtt = self.stalling_rtt();
        let popped = self.queue.pop(now, usize::MAX, dscp, rtt, &mut packet)?;
        self.recorder.cut = Some(Cut::new(packet, popped.flow, popped.dscp));
        self.stats.inner.packets_cut += 1;
        Some(popped)
    }

    /// Whether packets, or the rest of one, wait to be sent.
    fn has_packets(&self) -> bool {
        self.recorder.cut.is_some() || !self.queue.is_empty()
    }

    /// Sends a second copy of a source unasked. It can make up for no other source, so it does not count
    /// as an equation.
    fn send_copy(&mut self, now: Time, number: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        let symbol = self.sender.again(number, self.next_number)?;
        let body = Body::Source { number: low24(number), symbol };
        Message { body, ..Message::default() }.emit(out);
        self.stats.sent.sources_resent += 1;
        let dscp = self.sender.dscp(Some(number));
        Some(Transmit { dscp, ..self.account(now, out, Carried::Other, false) })
    }

    /// Retransmits a source or sends a repair.
    fn send_equation(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let carrier = self.next_number;
        let limit = self.max_symbol();
        let extras = self.extras(now, limit + REPAIR_HEADER);
        let wants_report = self.silence.is_on();
        let lost = if self.silence.is_first_due() {
            self.sender.oldest(carrier)
        } else if self.sender.lacks_known(&self.loss)
            || self.hole_is_old_at().is_some_and(|at| at <= now)
        {
            self.sender.next_lost(carrier)
        } else {
            None
        };
        let dscp = if let Some((number, symbol)) = lost {
            let body = Body::Source { number: low24(number), symbol };
            Message { wants_report, body, ..extras }.emit(out);
            self.stats.sent.sources_resent += 1;
            self.sender.dscp(Some(number))
        } else {
            let mut symbol = std::mem::take(&mut self.symbol);
            let (first, count) = self.sender.repair(carrier, &mut symbol)?;
            let body = Body::Repair { first: low24(first), count, symbol: &symbol };
            Message { wants_report, body, ..extras }.emit(out);
            self.symbol = symbol;
            self.stats.sent.repairs_sent += 1;
            // It goes out for what was sent just now.
            self.sender.dscp(None)
        };
        Some(Transmit { dscp, ..self.account(now, out, Carried::Equation, false) })
    }

    fn send_report(&mut self, now: Time, out: &mut Vec<u8>) -> Transmit {
        self.stats.sent.reports_sent += 1;
        self.send_control(now, Body::Empty, false, out)
    }

    /// Whether the next datagram has room for a report.
    fn has_room_for_report(&mut self, now: Time) -> bool {
        if self.understanding.is_urgent(now) {
            return false;
        }
        let lacks = self.sender.lacks(&self.loss, self.margin());
        let cut = self.recorder.cut.as_ref().map(|cut| cut.left() + 1);
        let next = cut.or_else(|| self.queue.next_size()).filter(|_| !lacks);
        next.is_some_and(|next| next + RECORD_HEADER + FLOOR + MAX_REPORT <= self.max_symbol())
    }

    fn send_control(
        &mut self,
        now: Time,
        body: Body<'_>,
        wants_report: bool,
        out: &mut Vec<u8>,
    ) -> Transmit {
        let extras = self.extras(now, 0);
        let understands = if body == Body::Empty { self.understanding.show(now) } else { None };
        Message { wants_report, understands, body, ..extras }.emit(out);
        let transmit = self.account(now, out, Carried::Other, false);
        if wants_report {
            self.liveness.handle_sent(now);
        }
        transmit
    }

    /// A message with the report, the floor and the contexts, if they are wanted and fit beside `body`
    /// octets.
    fn extras(&mut self, now: Time, body: usize) -> Message<'static> {
        let mut room = (self.max_symbol() + REPAIR_HEADER).saturating_sub(body);
        let floor = (self.sender.floor() > self.reported.first_missing() && room >= FLOOR)
            .then(|| low24(self.sender.floor()));
        if floor.is_some() {
            room -= FLOOR;
        }
        let mut extras = Message { floor, ..Message::default() };
        let is_wanted = self.reporter.is_due(now) || self.reporter.has_news(now);
        let goes_alone = self.understanding.is_urgent(now) && body > 0;
        if !is_wanted || goes_alone || room < MAX_REPORT {
            return extras;
        }
        // The count, and the octet of what is understood, beside four for each.
        let fitting = (room - MAX_REPORT).saturating_sub(2) / CONTEXT;
        let told = self.receiver.outlet.poll_told(fitting.min(MAX_CONTEXTS));
        extras.contexts = told.into_iter().map(|(id, source)| (id, low24(source))).collect();
        let (holes, ripe_at) = self.receiver.holes(now);
        extras.report = Some(self.reporter.report(now, holes, ripe_at));
        extras
    }

    /// Accounts for a datagram with payload `out`, and numbers it.
    fn account(&mut self, now: Time, out: &[u8], carried: Carried, is_probe: bool) -> Transmit {
        let number = self.next_number;
        self.next_number += 1;
        let octets = out.len() + self.config.overhead;
        self.stats.sent.datagrams_sent += 1;
        self.stats.sent.octets_sent += octets as u64;
        self.sender.note(now, carried, octets, self.rate.rtt());
        self.rate.handle_sent(now, number, octets);
        if carried != Carried::Other {
            self.silence.handle_sent(now);
            self.liveness.handle_sent(now);
        }
        Transmit { number, is_probe, dscp: 0 }
    }

    fn margin(&self) -> f64 {
        margin(self.rate.rtt(), self.config.patience)
    }

    /// How long packets may wait in the queue: a round trip, and more if losses stall flows. While a
    /// source is recovered, the flows that wait for it send nothing, and the queue keeps the path busy.
    fn stalling_rtt(&self) -> Duration {
        let p = self.loss.rate();
        let test = if self.rate.is_testing() { TESTING } else { 0.0 };
        let stalls = (p / NOTICEABLE_LOSS).min(1.0) + 4.0 * p + test;
        self.rate.min_rtt().mul_f64(1.0 + stalls)
    }

    /// When a source that is known to be lost has been so for long enough to be sent again, however few
    /// equations the peer seems to lack.
    fn hole_is_old_at(&self) -> Option<Time> {
        Some(self.sender.oldest_hole()? + self.rate.rtt().mul_f64(OLD))
    }

    /// Whether a source of this many octets is small compared with a full one.
    fn is_small(&self, octets: usize) -> bool {
        octets <= self.max_symbol() / SMALL_SHARE
    }

    /// When a repair is sent in advance because there is nothing else to send; `None` if none is needed.
    fn spare_at(&self) -> Option<Time> {
        let soon = self.silence.last_sent() + self.idle_wait();
        let is_small = self.is_small(self.sender.newest().map_or(0, <[u8]>::len));
        if self.is_busy() {
            let margin = if is_small { SMALL_IDLE_MARGIN } else { IDLE_MARGIN };
            let lacks = self.sender.lacks_lately(&self.loss, self.margin() + margin);
            return lacks.then_some(soon);
        }
        if self.sender.lacks(&self.loss, self.margin() + IDLE_MARGIN) {
            return Some(soon);
        }
        let Tail { since, equations } = self.sender.tail();
        let share = *SPREAD.get(equations)?;
        // The repairs of a small packet cost little, also where loss is only feared.
        let p = if is_small { self.loss.feared(since) } else { self.loss.rate() };
        let risk = self.sender.tail_risk(p, self.loss.burst());
        if risk > HIGH_RISK {
            return Some(soon);
        }
        let rtt = self.known_rtt().unwrap_or(GUESSED_RTT);
        (risk > RISK).then(|| soon.max(since + rtt * share / 16))
    }

    /// Whether the path has no room for more than the flows' own packets and the repairs they need.
    fn is_busy(&self) -> bool {
        let Some(rtt) = self.known_rtt() else { return false };
        let window = self.rate.rate() / 8.0 * rtt.as_secs_f64();
        self.sender.octets_per_round() >= BUSY * window
    }

    fn idle_wait(&self) -> Duration {
        (self.rate.rtt() / IDLE_SHARE).clamp(MIN_IDLE_WAIT, MAX_IDLE_WAIT)
    }
}
