//! Reacts to acknowledgements and timeouts on the send side: RFC 5681, RFC 6582 (NewReno), RFC 6675 (SACK), RFC 3042
//! (limited transmit).

use std::time::Duration;

use base::tcp::SackBlocks;
use base::time::Time;

use super::config::FullAck;
use super::congestion::{Ack, Delivery, Duplicate, Verdict, Window};
use super::reaction::{Recovery, Undo};
use super::sender::{Kind, Next, Plan, Sender, Wait};
use super::seq::Seq;
use super::stats::Feedback;

/// An acknowledgement, as far as the send side is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledgement {
    /// The acknowledgement number.
    pub(super) ack: Seq,
    /// Whether it carries no data, no SYN, no FIN and no new window.
    pub(super) is_bare: bool,
    /// The blocks, if the connection uses SACK.
    pub(super) sack: SackBlocks,
    /// Hops left in its packet.
    pub(super) ttl: u8,
    /// How long ago a segment was sent whose timestamp it echoes.
    pub(super) echo_age: Option<Duration>,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// New data is acknowledged; whether the retransmission timer restarts.
    Acked { restarts_timer: bool },
    /// A recovery began: the retransmission timer restarts.
    Lost,
    /// Nothing.
    None,
}

impl Sender {
    /// Takes an acknowledgement that lies between `una` and `max`.
    pub(super) fn handle_ack(
        &mut self,
        now: Time,
        report: &Acknowledgement,
        is_echoed: impl Fn(Time) -> bool,
        stats: &mut Feedback,
    ) -> Progress {
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
                fresh += self.board.insert(from, to);
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
    pub(super) fn handle_timeout(&mut self, now: Time, is_first: bool) {
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
    pub(super) fn handle_echo(&mut self, now: Time) -> bool {
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
    pub(super) fn pipe(&self) -> u64 {
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
    pub(super) fn next_by_sack(&self, now: Time, room: u64, recovery: Recovery) -> Next {
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
    pub(super) fn note_recovery(&mut self, plan: Plan) {
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
