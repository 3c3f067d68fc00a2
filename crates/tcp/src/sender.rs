//! The send side: queues data, tracks data in flight, and plans the next segment.
//!
//! ```text
//!        una                nxt          max                    una + wnd
//!         |    in flight     |  sent once |      queued     |       |
//!         +------------------+------------+-----------------+-------+
//!                              (again, after a timeout)   end
//! ```

use std::time::Duration;

use base::tcp::SackBlocks;
use base::time::Time;

use super::algorithm::{Controller, Finding};
use super::config::{Config, FullAck};
use super::congestion::{Ack, Delivery, Duplicate, Verdict, Window};
use super::flight::Flight;
use super::queue::Queue;
use super::resent::Resent;
use super::rtt::Estimator;
use super::scoreboard::Scoreboard;
use super::seq::Seq;
use super::stats::{Feedback, Sent};

/// The send side of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: Config,
    iss: Seq,
    /// The oldest unacknowledged place.
    una: Seq,
    /// The next place to send; below `max` it is sent again.
    nxt: Seq,
    /// Beyond everything ever sent.
    max: Seq,
    /// What was written and is not acknowledged.
    queue: Queue,
    offered: Offered,

    /// Whether the peer sends SACK.
    sack: bool,
    board: Scoreboard,
    flight: Flight,
    rtt: Estimator,
    window: Window,
    controller: Controller,
    reaction: Reaction,
    /// The segment at `una` is to be sent again, whatever the window.
    head_due: bool,
    /// The octet at `una` is probing a closed window.
    probing: bool,
    last_data_at: Option<Time>,
    /// When the newest segment of which the present acknowledgement tells was last sent.
    told_sent_at: Option<Time>,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    pub seq: Seq,
    /// Octets of payload.
    pub len: usize,
    pub fin: bool,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The oldest segment, again.
    Head,
    /// Not sent before.
    New,
    /// One octet into a closed window.
    Probe,
    /// The last resort of a recovery by SACK.
    Rescue,
    /// Sent before.
    Retransmission,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    Send(Plan),
    Wait(Wait),
}

/// What it is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Acknowledgements: the congestion window is full, or Nagle's algorithm holds.
    Acks,
    /// Something to send.
    Data,
    /// The controller's pace.
    Pace(Time),
    /// The peer's window is too small.
    Peer,
}

impl Sender {
    /// Nothing sent; `iss` is the place of SYN.
    pub fn new(config: Config, iss: u32) -> Self {
        let iss = Seq::initial(iss);
        let mut rtt = Estimator::new(config.rto);
        rtt.start_handshake();
        Self {
            config,
            iss,
            una: iss,
            nxt: iss,
            max: iss,
            queue: Queue::new(iss + 1),
            offered: Offered::new(iss),
            sack: false,
            board: Scoreboard::default(),
            flight: Flight::default(),
            rtt,
            window: Window { cwnd: 1, ssthresh: u64::MAX, mss: 1, next_send: None },
            controller: Controller::new(config.congestion.algorithm),
            reaction: Reaction::new(iss),
            head_due: false,
            probing: false,
            last_data_at: None,
            told_sent_at: None,
        }
    }

    /// The handshake is over: data may flow in segments of `mss`.
    pub fn start(&mut self, mss: u64, syn_timed_out: bool) {
        let config = &self.config;
        let initial = if syn_timed_out {
            self.rtt.start_after_syn_timeout();
            config.congestion.window_after_syn_loss
        } else {
            self.rtt.start();
            config.congestion.initial_window
        };
        self.window = Window {
            cwnd: initial.octets(mss).max(mss),
            ssthresh: config.congestion.initial_ssthresh.unwrap_or(u64::MAX),
            mss,
            next_send: None,
        };
    }

    /// A SYN or SYN-ACK was sent.
    pub fn sent_syn(&mut self, now: Time) {
        self.nxt = self.iss + 1;
        self.max = self.nxt;
        self.flight.record(now, self.iss, self.max);
    }

    /// Queues octets up to the bound; returns how many.
    pub fn write(&mut self, octets: &[u8]) -> usize {
        let len = octets.len().min(self.free());
        self.queue.write(&octets[..len]);
        len
    }

    /// Queues FIN after what is written.
    pub fn finish(&mut self) {
        self.queue.finish();
    }

    /// Takes the peer's window from a segment at `seq` that acknowledges `ack`; returns whether it
    /// changed.
    pub fn set_window(&mut self, seq: Seq, ack: Seq, wnd: u64) -> bool {
        let Some(is_change) = self.offered.update(seq, ack, wnd) else { return false };
        if self.probing && wnd > 0 {
            self.nxt = self.una;
        }
        is_change
    }

    /// Moves the acknowledgement number to `ack`; returns the octets of payload newly acknowledged.
    fn advance(&mut self, ack: Seq) -> u64 {
        let done = self.queue.advance(ack);
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.board.advance(ack);
        self.probing = false;
        self.head_due = false;
        self.reaction.limited = self.reaction.limited.min(self.max.since(ack));
        done
    }

    /// What to send next; `extra` octets of a segment go to options that come and go.
    pub fn next(&self, now: Time, extra: u64) -> Next {
        if self.una == self.iss {
            return Next::Wait(Wait::Data);
        }
        let room = self.window.mss.saturating_sub(extra).max(1);
        if self.head_due && self.max > self.una {
            return Next::Send(self.resend(self.una, room, Kind::Head));
        }
        if self.probing && self.nxt > self.una {
            return Next::Wait(Wait::Peer);
        }
        if self.sack
            && let Some(recovery) = self.reaction.recovery
        {
            return self.next_by_sack(now, room, recovery);
        }
        if self.nxt < self.max && !self.probing {
            return self.next_again(now, room);
        }
        self.next_new(now, self.nxt, room)
    }

    /// After a timeout: retransmits data in flight, except data reported by SACK.
    fn next_again(&self, now: Time, room: u64) -> Next {
        let (seq, _) = self.board.hole_at(self.nxt);
        if seq >= self.max {
            return self.next_new(now, self.max, room);
        }
        let plan = self.resend(seq, room, Kind::Retransmission);
        if !self.has_room(plan, self.window.cwnd) {
            return Next::Wait(Wait::Acks);
        }
        // The oldest may go even into a window that closed meanwhile (RFC 9293, 3.8.6).
        if seq > self.una && plan.end() > self.offered.edge {
            return Next::Wait(Wait::Acks);
        }
        Next::Send(plan)
    }

    /// Plans a retransmission from `seq` on, up to the next data reported by SACK.
    fn resend(&self, seq: Seq, room: u64, kind: Kind) -> Plan {
        let (_, stop) = self.board.hole_at(seq);
        let stop = stop.unwrap_or(self.max).min(self.max);
        let end = self.data_end().min(stop).min(seq + room);
        let fin = self.queue.has_fin() && end == self.data_end() && end < stop;
        Plan { seq, len: end.offset_from(seq), fin, kind }
    }

    /// New data at `seq`, as far as all the windows allow.
    fn next_new(&self, now: Time, seq: Seq, room: u64) -> Next {
        let end = self.data_end();
        if seq >= end + u64::from(self.queue.has_fin()) {
            return Next::Wait(Wait::Data);
        }
        let allowed = self.offered.edge.since(seq);
        let len = end.since(seq).min(room).min(allowed);
        let is_last = seq + len == end;
        let fin = self.queue.has_fin() && is_last && len < allowed;
        if len == 0 && !fin {
            return Next::Wait(Wait::Peer);
        }

        // Silly window avoidance and Nagle (RFC 9293, 3.8.6.2.1 and 3.7.4).
        let may_be_small = !self.config.nagle || self.max == self.una || self.probing;
        let is_worth_it = len == room
            || fin
            || (is_last && may_be_small)
            || (len >= self.offered.max_wnd.div_ceil(2) && may_be_small);
        if !is_worth_it {
            return Next::Wait(if is_last { Wait::Acks } else { Wait::Peer });
        }

        let plan = Plan { seq, len: usize::try_from(len).unwrap_or(0), fin, kind: Kind::New };
        if !self.has_room(plan, self.window.cwnd + self.limited_allowance()) {
            return Next::Wait(Wait::Acks);
        }
        if let Some(at) = self.window.next_send.filter(|at| *at > now) {
            return Next::Wait(Wait::Pace(at));
        }
        Next::Send(plan)
    }

    /// Whether a congestion window of `cwnd` octets lets a segment go.
    ///
    /// The window limits octets of data (RFC 5681, 2). FIN has a place in the sequence space and takes no
    /// room: it neither holds the last data back nor waits behind it.
    fn has_room(&self, plan: Plan, cwnd: u64) -> bool {
        let pipe = self.pipe();
        pipe == 0 || plan.len == 0 || pipe + plan.len as u64 <= cwnd
    }

    /// One octet, or what a small window takes, against the deadlock of a lost window update
    /// (RFC 9293, 3.8.6.1).
    pub fn probe(&self, extra: u64) -> Option<Plan> {
        let room = self.window.mss.saturating_sub(extra).max(1);
        let seq = self.una;
        if self.max > self.una && !self.probing {
            return None;
        }
        let allowed = room.min(self.peer_window()).max(1);
        let len = self.data_end().since(seq).min(allowed);
        let fin = self.queue.has_fin() && len < allowed && seq + len == self.data_end();
        let kind = if self.peer_window() == 0 { Kind::Probe } else { Kind::New };
        (len > 0 || fin).then(|| Plan { seq, len: usize::try_from(len).unwrap_or(0), fin, kind })
    }

    /// A planned segment was sent.
    pub fn sent(&mut self, now: Time, plan: Plan, stats: &mut Sent) {
        let end = plan.end();
        let is_again = plan.seq < self.max;
        stats.octets += plan.len as u64;
        if is_again {
            stats.retransmissions += 1;
            stats.octets_retransmitted += plan.len as u64;
        }
        match plan.kind {
            Kind::Head | Kind::Rescue => self.note_recovery(plan),
            Kind::Probe => {
                self.probing = true;
                stats.window_probes += 1;
                self.nxt = end;
            }
            Kind::New | Kind::Retransmission => {
                if self.is_limited(plan) {
                    stats.limited_transmits += 1;
                    self.reaction.limited += plan.len as u64;
                }
                self.probing = false;
                self.note_recovery(plan);
                if plan.seq >= self.nxt {
                    self.nxt = end;
                }
            }
        }
        self.max = self.max.max(end);
        self.flight.record(now, plan.seq, end);
        self.last_data_at = Some(now);
        self.controller.get().on_sent(now, &mut self.window, plan.octets());
    }

    /// Whether a new segment goes only because of early duplicate acknowledgements (RFC 3042).
    fn is_limited(&self, plan: Plan) -> bool {
        plan.kind == Kind::New
            && self.reaction.duplicates > 0
            && !self.reaction.is_repairing()
            && (plan.seq + plan.len as u64).since(self.una) > self.window.cwnd
    }

    /// How far the first duplicate acknowledgements stretch the window without SACK (RFC 3042).
    fn limited_allowance(&self) -> u64 {
        let is_early =
            !self.sack && !self.reaction.is_repairing() && self.config.recovery.limited_transmit;
        if is_early { u64::from(self.reaction.duplicates.min(2)) * self.window.mss } else { 0 }
    }

    /// Sets the window back after a silence (RFC 5681, 4.1).
    pub fn restart_if_idle(&mut self, now: Time) {
        if !self.config.congestion.restart_after_idle || self.max > self.una || self.unsent() == 0 {
            return;
        }
        if self.last_data_at.is_some_and(|at| now.since(at) > self.rtt.rto()) {
            let initial = self.config.congestion.initial_window.octets(self.window.mss);
            self.window.cwnd = self.window.cwnd.min(initial.max(self.window.mss));
            self.last_data_at = Some(now);
        }
    }

    /// The path takes segments of `mss` now; what was longer is sent again.
    pub fn set_mss(&mut self, mss: u64) {
        let is_smaller = mss < self.window.mss;
        self.window.mss = mss;
        self.window.cwnd = self.window.cwnd.max(mss);
        if is_smaller && self.max > self.una && !self.probing && self.una > self.iss {
            // No sign of congestion: the window stays (RFC 1191, 6.5).
            self.nxt = self.una;
            self.reaction.recovery = None;
            self.reaction.resent.clear();
            self.reaction.recover = self.max;
            self.reaction.duplicates = 0;
        }
    }

    /// The octets of a planned segment, in two pieces.
    pub fn payload(&self, plan: Plan) -> (&[u8], &[u8]) {
        self.queue.slices(plan.seq, plan.len)
    }

    /// SND.UNA: the oldest unacknowledged place.
    pub fn una(&self) -> Seq {
        self.una
    }

    /// SND.NXT: the next place to send.
    pub fn nxt(&self) -> Seq {
        self.nxt
    }

    /// Beyond everything ever sent.
    pub fn max(&self) -> Seq {
        self.max
    }

    /// The congestion window.
    pub fn window(&self) -> &Window {
        &self.window
    }

    #[cfg(test)]
    pub fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// SND.WND: the window that the peer offers.
    pub fn peer_window(&self) -> u64 {
        self.offered.edge.since(self.una)
    }

    /// The largest window that the peer has offered so far.
    pub fn largest_peer_window(&self) -> u64 {
        self.offered.max_wnd
    }

    /// Takes the window of the handshake, which is never compared with an older one.
    pub fn start_window(&mut self, seq: Seq, ack: Seq, wnd: u64) {
        self.offered.start(seq, ack, wnd);
    }

    /// Whether the peer sends SACK.
    pub fn set_sack(&mut self, sack: bool) {
        self.sack = sack;
    }

    /// The round-trip times and the retransmission timeout.
    pub fn rtt(&self) -> &Estimator {
        &self.rtt
    }

    /// What the congestion controller has found out.
    pub fn finding(&self) -> Finding {
        self.controller.finding()
    }

    /// Whether a loss detected by acknowledgements is being repaired.
    pub fn is_repairing(&self) -> bool {
        self.reaction.is_repairing()
    }

    /// When the oldest segment in flight was first sent.
    pub fn oldest_sent_at(&self) -> Option<Time> {
        self.flight.since()
    }

    /// Beyond the last octet written.
    pub fn data_end(&self) -> Seq {
        self.queue.end()
    }

    /// Octets written and never sent, FIN not counted.
    pub fn unsent(&self) -> u64 {
        self.data_end().since(self.max.max(self.queue.start())) + u64::from(self.is_fin_unsent())
    }

    /// The octets of data from `from` to `to`: FIN, which may be the last place before `to`, is none.
    fn data_between(&self, from: Seq, to: Seq) -> u64 {
        let has_fin = self.queue.has_fin() && from <= self.data_end() && self.data_end() < to;
        to.since(from) - u64::from(has_fin)
    }

    fn is_fin_unsent(&self) -> bool {
        self.queue.has_fin() && self.max <= self.data_end()
    }

    /// Whether the peer acknowledged our FIN.
    pub fn is_fin_acked(&self) -> bool {
        self.queue.has_fin() && self.una > self.data_end()
    }

    /// Whether the peer acknowledged our SYN.
    pub fn is_syn_acked(&self) -> bool {
        self.una > self.iss
    }

    /// Whether anything but a window probe is in flight.
    pub fn is_outstanding(&self) -> bool {
        self.max > self.una && !self.probing
    }

    pub fn is_probing(&self) -> bool {
        self.probing
    }

    /// Octets that wait for room in the send buffer's bound.
    pub fn free(&self) -> usize {
        self.config.send_buffer.max(1).saturating_sub(self.queue.len())
    }

    /// The place of SYN.
    pub fn iss(&self) -> Seq {
        self.iss
    }

    /// The timeout now, and the longest there may be.
    pub fn probe_interval(&self, probes: u32) -> Duration {
        let factor = self.config.rto.backoff.max(1.0).powi(probes.min(64).cast_signed());
        let seconds =
            (self.rtt.rto().as_secs_f64() * factor).min(self.config.rto.max.as_secs_f64());
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(self.config.rto.max)
            .max(Duration::from_micros(1))
    }

    /// Gives the buffers back: nothing will be sent any more.
    pub fn discard(&mut self) {
        self.queue.clear();
        self.board.clear();
    }
}

impl Plan {
    /// The sequence number after the segment.
    fn end(self) -> Seq {
        self.seq + self.octets()
    }

    /// The length in sequence space.
    fn octets(self) -> u64 {
        self.len as u64 + u64::from(self.fin)
    }
}

// Reacts to acknowledgements and timeouts on the send side: RFC 5681, RFC 6582 (NewReno), RFC 6675 (SACK), RFC 3042
// (limited transmit).

/// An acknowledgement, as far as the send side is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement {
    /// The acknowledgement number.
    pub ack: Seq,
    /// Whether it carries no data, no SYN, no FIN and no new window.
    pub is_bare: bool,
    /// The blocks, if the connection uses SACK.
    pub sack: SackBlocks,
    /// Hops left in its packet.
    pub ttl: u8,
    /// How long ago a segment was sent whose timestamp it echoes.
    pub echo_age: Option<Duration>,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// New data is acknowledged; whether the retransmission timer restarts.
    Acked { restarts_timer: bool },
    /// A recovery began: the retransmission timer restarts.
    Lost,
    /// Nothing.
    None,
}

impl Sender {
    /// Takes an acknowledgement that lies between `una` and `max`.
    pub fn handle_ack(
        &mut self,
        now: Time,
        report: &Acknowledgement,
        is_echoed: impl Fn(Time) -> bool,
        stats: &mut Feedback,
    ) -> Progress {
        self.told_sent_at = None;
        let fresh = if self.sack { self.take_blocks(report, stats) } else { 0 };
        if report.ack > self.una {
            return self.handle_new_ack(now, report, is_echoed, stats);
        }

        let is_duplicate =
            self.is_outstanding() && if self.sack { fresh > 0 } else { report.is_bare };
        if !is_duplicate {
            return Progress::None;
        }
        self.reaction.duplicates += 1;
        stats.duplicate_acks += 1;
        self.handle_duplicate(now, stats)
    }

    fn handle_duplicate(&mut self, now: Time, stats: &mut Feedback) -> Progress {
        let count = self.reaction.duplicates;
        let duplicate = Duplicate {
            count,
            is_enough: count >= self.config.recovery.duplicate_threshold.max(1)
                || self.is_head_lost(),
            in_recovery: self.reaction.recovery.is_some(),
            has_sack: self.sack,
            head: self.flight.head(),
            delivery: self.delivery(),
        };
        let repairs_alone = self.repairs_alone();
        if repairs_alone && !self.may_recover() {
            return Progress::None;
        }
        let verdict = self.controller.get().on_duplicate(now, &mut self.window, &duplicate);
        let is_due = verdict == Verdict::Retransmit;
        self.head_due |= is_due;
        if repairs_alone {
            if is_due {
                stats.fast_retransmits += 1;
                self.reaction.repairs = true;
            }
            return if is_due { Progress::Lost } else { Progress::None };
        }
        if duplicate.in_recovery {
            if !self.sack {
                self.window.cwnd += self.window.mss;
            }
            return Progress::None;
        }
        if duplicate.is_enough { self.enter_recovery(now, stats) } else { Progress::None }
    }

    /// Whether losses are the controller's to repair; SACK knows them better.
    fn repairs_alone(&mut self) -> bool {
        !self.sack && self.controller.get().repairs_alone()
    }

    /// Returns how many octets the blocks report for the first time.
    fn take_blocks(&mut self, report: &Acknowledgement, stats: &mut Feedback) -> u64 {
        let blocks = report.sack.as_slice();
        let mut fresh = 0;
        for (index, &(from, to)) in blocks.iter().enumerate() {
            let (from, to) = (self.una.nearest(from), self.una.nearest(to));
            let is_within = |&(low, high): &(u32, u32)| {
                self.una.nearest(low) <= from && to <= self.una.nearest(high)
            };
            if from >= to || to > self.max {
                stats.bad_sack_blocks += 1;
            } else if index == 0 && (to <= report.ack || blocks.get(1).is_some_and(is_within)) {
                stats.spurious_retransmissions += 1;
            } else if from >= report.ack {
                let octets = self.board.insert(from, to);
                if octets > 0 {
                    self.told_sent_at = self.told_sent_at.max(self.flight.sent_at(to));
                }
                fresh += octets;
            } else if to > report.ack {
                stats.bad_sack_blocks += 1;
            }
        }
        if fresh > 0 {
            let threshold = self.config.recovery.duplicate_threshold.max(1);
            self.board.judge(threshold, self.window.mss);
            self.reaction
                .resent
                .judge(self.board.highest(), u64::from(threshold) * self.window.mss);
            self.reaction.resent.forget(self.una, &self.board);
        }
        fresh
    }

    /// Data that left the network, and data in flight.
    fn delivery(&self) -> Delivery {
        Delivery {
            total: self.una.since(self.iss()) + self.board.octets_below(self.max),
            in_flight: self.pipe(),
            sent_at: self.told_sent_at,
            is_app_limited: self.unsent() == 0,
        }
    }

    fn handle_new_ack(
        &mut self,
        now: Time,
        report: &Acknowledgement,
        is_echoed: impl Fn(Time) -> bool,
        stats: &mut Feedback,
    ) -> Progress {
        self.undo_timeout(now, report, stats);
        let octets = report.ack.since(self.una);
        let flight = self.nxt.since(self.una);
        let was_syn = !self.is_syn_acked();
        stats.octets_acked += self.advance(report.ack);
        self.reaction.resent.forget(self.una, &self.board);
        if self.sack && !self.board.is_empty() {
            self.board.judge(self.config.recovery.duplicate_threshold.max(1), self.window.mss);
        }
        let (rtt, newest_rtt) = self.take_time(now, report, is_echoed, stats);
        if was_syn {
            return Progress::Acked { restarts_timer: true };
        }

        let ack = Ack {
            octets,
            flight,
            flight_after: self.max.since(self.una),
            rtt,
            newest_rtt,
            srtt: self.rtt.srtt(),
            is_window_limited: self.is_window_limited(flight),
            in_recovery: self.reaction.recovery.is_some(),
            ttl: report.ttl,
            head: self.flight.head(),
            delivery: self.delivery(),
        };
        let verdict = self.controller.get().on_ack(now, &mut self.window, &ack);
        self.head_due |= verdict == Verdict::Retransmit && self.max > self.una;
        self.reaction.repairs = self.head_due && self.repairs_alone();
        let Some(recovery) = self.reaction.recovery else {
            self.reaction.duplicates = 0;
            self.reaction.limited = 0;
            if self.is_head_lost() {
                self.enter_recovery(now, stats);
            }
            return Progress::Acked { restarts_timer: true };
        };
        if self.una >= recovery.point {
            self.leave_recovery(now);
            return Progress::Acked { restarts_timer: true };
        }
        self.handle_partial_ack(octets, recovery)
    }

    /// RFC 6298: at most one round-trip time per acknowledgement, and never an ambiguous one (Karn). Returns the time
    /// of the newest covered segment, free of delays by delayed acknowledgements, and the same time if only this
    /// segment is unambiguous.
    fn take_time(
        &mut self,
        now: Time,
        report: &Acknowledgement,
        is_echoed: impl Fn(Time) -> bool,
        stats: &mut Feedback,
    ) -> (Option<Duration>, Option<Duration>) {
        let landed = self.flight.land(report.ack, is_echoed);
        self.told_sent_at = self.told_sent_at.max(landed.latest);
        let clear = |at: Option<Time>| at.filter(|_| !landed.is_ambiguous);
        // An echo of an earlier copy may be a late answer to this copy or, if the answer was lost, an answer to the
        // last copy: the peer does not record the timestamp of data already received.
        let sample = match report.echo_age {
            Some(_) if landed.is_ambiguous => {
                landed.echoed.filter(|_| self.config.rto.time_repeats).map(|at| now.since(at))
            }
            Some(age) => Some(landed.echoed.map_or(age, |at| now.since(at))),
            None => clear(landed.oldest).map(|at| now.since(at)),
        };
        if let Some(sample) = sample {
            stats.rtt_samples += 1;
            self.rtt.sample(sample);
        } else if self.config.rto.forgive {
            self.rtt.start();
        }
        let newest = landed.newest.filter(|_| !landed.is_newest_again);
        (clear(landed.newest).map(|at| now.since(at)), newest.map(|at| now.since(at)))
    }

    /// RFC 3522: the acknowledged data left before the timer expired, so the acknowledgement was only late.
    fn undo_timeout(&mut self, now: Time, report: &Acknowledgement, stats: &mut Feedback) {
        let Some(Undo { at, cwnd, ssthresh }) = self.reaction.undo.take() else { return };
        // The age of an echo is known to a tick.
        let since = now.since(at) + self.config.offer.timestamp_tick;
        if report.echo_age.is_none_or(|age| age <= since) {
            return;
        }
        stats.timeouts_undone += 1;
        self.window.cwnd = self.window.cwnd.max(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        self.nxt = self.max;
        self.reaction.recover = self.una;
    }

    fn is_window_limited(&self, flight: u64) -> bool {
        let Self { window, config, .. } = self;
        !config.congestion.validate_window
            || if window.cwnd < window.ssthresh {
                2 * flight >= window.cwnd
            } else {
                flight + window.mss > window.cwnd
            }
    }

    /// IsLost(HighACK + 1), when a new recovery may start.
    fn is_head_lost(&self) -> bool {
        self.sack
            && self.board.lost_below().is_some_and(|below| below > self.una)
            && self.may_recover()
    }

    fn may_recover(&self) -> bool {
        // Without SACK, duplicates at `recover` itself may stem from needless retransmissions.
        if self.sack { self.una >= self.reaction.recover } else { self.una > self.reaction.recover }
    }

    fn enter_recovery(&mut self, now: Time, stats: &mut Feedback) -> Progress {
        if !self.may_recover() {
            return Progress::None;
        }
        stats.fast_retransmits += 1;
        let flight = self.max.since(self.una) - self.reaction.limited;
        self.controller.get().on_loss(now, &mut self.window, flight);
        if !self.sack {
            // The segments that have left the network (RFC 6582, 3.2, step 2).
            let left = u64::from(self.config.recovery.duplicate_threshold.max(1));
            self.window.cwnd += left * self.window.mss;
        }
        self.reaction.recovery = Some(Recovery {
            point: self.max,
            high_rxt: self.una,
            rescue_rxt: self.una,
            is_partial: false,
        });
        self.reaction.resent.clear();
        self.reaction.recover = self.max;
        self.reaction.limited = 0;
        self.head_due = true;
        Progress::Lost
    }

    fn handle_partial_ack(&mut self, octets: u64, recovery: Recovery) -> Progress {
        if let Some(recovery) = &mut self.reaction.recovery {
            recovery.is_partial = true;
        }
        if self.sack {
            return Progress::Acked { restarts_timer: true };
        }
        let mss = self.window.mss;
        self.window.cwnd = self.window.cwnd.saturating_sub(octets).max(mss);
        if octets >= mss {
            self.window.cwnd += mss;
        }
        self.head_due = true;
        Progress::Acked { restarts_timer: !self.config.recovery.impatient || !recovery.is_partial }
    }

    fn leave_recovery(&mut self, now: Time) {
        let flight = self.max.since(self.una);
        let window = &mut self.window;
        window.cwnd = match self.config.recovery.full_ack {
            FullAck::Flight if !self.sack => {
                window.ssthresh.min(flight.max(window.mss) + window.mss)
            }
            FullAck::Flight | FullAck::Ssthresh => window.ssthresh,
        };
        self.reaction.recovery = None;
        self.reaction.resent.clear();
        self.reaction.duplicates = 0;
        self.controller.get().on_recovered(now, &mut self.window, flight);
    }

    /// The retransmission timer expired: all data in flight counts as lost.
    pub fn handle_timeout(&mut self, now: Time, is_first: bool) {
        self.rtt.back_off();
        if !self.is_syn_acked() {
            return;
        }
        if self.config.recovery.undo_timeouts {
            let Window { cwnd, ssthresh, .. } = self.window;
            self.reaction.undo.get_or_insert(Undo { at: now, cwnd, ssthresh });
        }
        let flight = self.max.since(self.una) - self.reaction.limited;
        self.controller.get().on_timeout(now, &mut self.window, flight, is_first);
        self.reaction.recovery = None;
        self.reaction.resent.clear();
        self.reaction.repairs = false;
        self.reaction.recover = self.max;
        self.reaction.duplicates = 0;
        self.reaction.limited = 0;
        self.head_due = false;
        self.nxt = self.una;
        // A peer that reported the head, or stays silent, may have thrown its octets away.
        if !is_first || self.board.hole_at(self.una).0 > self.una {
            self.board.clear();
        }
    }

    /// The echo of a congestion mark: at most one reduction a window (RFC 3168, 6.1.2).
    ///
    /// Returns whether the window was reduced.
    pub fn handle_echo(&mut self, now: Time) -> bool {
        // An acknowledgement up to this point left before the peer learned of the reduction.
        if self.reaction.recovery.is_some()
            || self.una < self.reaction.recover
            || self.una <= self.reaction.reduced_until
        {
            return false;
        }
        let flight = self.max.since(self.una);
        self.controller.get().on_mark(now, &mut self.window, flight);
        self.reaction.reduced_until = self.max;
        true
    }

    /// Octets of data in flight, to be held against the congestion window.
    fn pipe(&self) -> u64 {
        if !self.sack {
            return self.data_between(self.una, self.nxt);
        }
        if let Some(recovery) = self.reaction.recovery {
            // RFC 6675, SetPipe: data not lost, plus retransmissions.
            let lost_below = self.board.lost_below().unwrap_or(self.una).max(self.una);
            let under_way =
                self.missing(lost_below, self.max) + self.missing(self.una, recovery.high_rxt);
            return under_way.saturating_sub(self.reaction.resent.octets(self.una, &self.board));
        }
        if self.config.recovery.limited_transmit || self.nxt < self.max {
            self.missing(self.una, self.nxt)
        } else {
            self.data_between(self.una, self.nxt)
        }
    }

    /// Octets of data that the peer has not reported, in a range.
    fn missing(&self, from: Seq, to: Seq) -> u64 {
        let held = self.board.octets_below(to) - self.board.octets_below(from.min(to));
        // A reported FIN is among what is held.
        self.data_between(from, to).saturating_sub(held)
    }

    /// RFC 6675, NextSeg.
    fn next_by_sack(&self, now: Time, room: u64, recovery: Recovery) -> Next {
        if self.window.cwnd < self.pipe() + self.window.mss {
            let new = self.next_new(now, self.max, room);
            let is_lone_fin = matches!(new, Next::Send(plan) if plan.len == 0);
            return if is_lone_fin { new } else { Next::Wait(Wait::Acks) };
        }
        if let Some((hole, end)) = self.reaction.resent.next(self.una, &self.board) {
            return Next::Send(self.resend(hole, room.min(end.since(hole)), Kind::Retransmission));
        }
        let (hole, stop) = self.board.hole_at(recovery.high_rxt.max(self.una));
        let is_below_highest = stop.is_some();
        let is_lost = self.board.lost_below().is_some_and(|below| hole < below);
        if is_lost {
            return Next::Send(self.resend(hole, room, Kind::Retransmission));
        }
        let new = self.next_new(now, self.max, room);
        if matches!(new, Next::Send(_)) {
            return new;
        }
        if is_below_highest {
            return Next::Send(self.resend(hole, room, Kind::Retransmission));
        }
        if self.una > recovery.rescue_rxt && self.max > self.una {
            let last = (self.max - room).max(self.una);
            let (hole, _) = self.board.hole_at(last);
            if hole < self.max {
                return Next::Send(self.resend(hole, room, Kind::Rescue));
            }
        }
        new
    }

    /// Records a recovery's retransmissions.
    fn note_recovery(&mut self, plan: Plan) {
        let point = self.reaction.recovery.map(|recovery| recovery.point);
        let una = self.una;
        if plan.kind == Kind::Head {
            self.head_due = false;
        }
        let (Some(recovery), Some(point)) = (&mut self.reaction.recovery, point) else { return };
        let is_repair = matches!(plan.kind, Kind::Head | Kind::Rescue | Kind::Retransmission);
        if is_repair && self.sack && self.config.recovery.lost_repairs {
            self.reaction.resent.record(plan.seq, plan.end(), self.max);
        }
        match plan.kind {
            Kind::Head => {
                recovery.high_rxt = recovery.high_rxt.max(plan.end());
                if recovery.rescue_rxt <= una {
                    recovery.rescue_rxt = plan.end();
                }
            }
            Kind::Rescue => recovery.rescue_rxt = point,
            Kind::Retransmission => recovery.high_rxt = recovery.high_rxt.max(plan.end()),
            Kind::New | Kind::Probe => {}
        }
    }
}

// Keeps the send side's state about losses and congestion.

/// The sender's recovery state, and what it remembers of earlier losses.
#[derive(Clone, Debug)]
struct Reaction {
    recovery: Option<Recovery>,
    /// What that sent again.
    resent: Resent,
    /// The congestion control had the oldest segment sent again, without a recovery.
    repairs: bool,
    /// The state before a timeout, for the case that the timeout was needless.
    undo: Option<Undo>,
    /// No fast retransmit before the peer has acknowledged up to here.
    recover: Seq,
    /// No further reduction by ECN before the peer has acknowledged up to here.
    reduced_until: Seq,
    /// Duplicate acknowledgements in a row.
    duplicates: u32,
    /// Octets in flight that went by limited transmit.
    limited: u64,
}

impl Reaction {
    fn new(iss: Seq) -> Self {
        Self {
            recovery: None,
            resent: Resent::default(),
            repairs: false,
            undo: None,
            recover: iss,
            reduced_until: iss,
            duplicates: 0,
            limited: 0,
        }
    }

    /// Whether a loss was found that is not yet repaired.
    fn is_repairing(&self) -> bool {
        self.recovery.is_some() || self.repairs
    }
}

/// A fast recovery.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// It ends when everything below is acknowledged (RecoveryPoint).
    point: Seq,
    /// Beyond what was sent again (HighRxt).
    high_rxt: Seq,
    /// A last resort is allowed once this is passed (RescueRxt).
    rescue_rxt: Seq,
    /// Whether a partial acknowledgement came.
    is_partial: bool,
}

/// What a needless timeout is undone to.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// When the timer first expired.
    at: Time,
    cwnd: u64,
    ssthresh: u64,
}

// The peer's offered window (RFC 9293, 3.10.7.4).

/// How much the peer takes.
#[derive(Clone, Debug)]
struct Offered {
    /// Octets from the acknowledgement on that came with them.
    wnd: u64,
    /// Beyond the last place that the peer takes. An acknowledgement that is too old to set the window moves `una` on,
    /// and leaves this where it is.
    edge: Seq,
    /// The largest window offered so far.
    max_wnd: u64,
    /// The segment that last set `wnd`: its sequence number and its acknowledgement number.
    wl: (Seq, Seq),
}

impl Offered {
    /// Nothing offered yet; `iss` is the place of our SYN.
    fn new(iss: Seq) -> Self {
        Self { wnd: 0, edge: iss, max_wnd: 0, wl: (iss, iss) }
    }

    /// Takes the first window, which is never compared with an older one.
    fn start(&mut self, seq: Seq, ack: Seq, wnd: u64) {
        self.wl = (seq, ack);
        (self.wnd, self.edge) = (wnd, ack + wnd);
        self.max_wnd = self.max_wnd.max(wnd);
    }

    /// Takes the window of a segment at `seq` that acknowledges `ack`, unless it is older than the one
    /// before; returns whether the window changed.
    fn update(&mut self, seq: Seq, ack: Seq, wnd: u64) -> Option<bool> {
        if seq < self.wl.0 || (seq == self.wl.0 && ack < self.wl.1) {
            return None;
        }
        let is_change = wnd != self.wnd;
        self.start(seq, ack, wnd);
        Some(is_change)
    }
}
