//! The send side: queues data, tracks data in flight, and plans the next segment.
//!
//! ```text
//!        una                nxt          max                    una + wnd
//!         |    in flight     |  sent once |      queued     |       |
//!         +------------------+------------+-----------------+-------+
//!                              (again, after a timeout)   end
//! ```

use std::time::Duration;

use base::time::Time;

use super::config::Config;
use super::congestion::Window;
use super::controller::Controller;
use super::flight::Flight;
use super::offered::Offered;
use super::queue::Queue;
use super::reaction::Reaction;
use super::rtt::Estimator;
use super::scoreboard::Scoreboard;
use super::seq::Seq;
use super::stats::Sent;

/// The send side of a connection.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) config: Config,
    iss: Seq,
    /// The oldest unacknowledged place.
    pub(super) una: Seq,
    /// The next place to send; below `max` it is sent again.
    pub(super) nxt: Seq,
    /// Beyond everything ever sent.
    pub(super) max: Seq,
    /// What was written and is not acknowledged.
    queue: Queue,
    pub(super) offered: Offered,

    /// Whether the peer sends SACK.
    pub(super) sack: bool,
    pub(super) board: Scoreboard,
    pub(super) flight: Flight,
    pub(super) rtt: Estimator,
    pub(super) window: Window,
    pub(super) controller: Controller,
    pub(super) reaction: Reaction,
    /// The segment at `una` is to be sent again, whatever the window.
    pub(super) head_due: bool,
    /// The octet at `una` is probing a closed window.
    probing: bool,
    last_data_at: Option<Time>,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Plan {
    pub(super) seq: Seq,
    /// Octets of payload.
    pub(super) len: usize,
    pub(super) fin: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
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
pub(super) enum Next {
    Send(Plan),
    Wait(Wait),
}

/// What it is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wait {
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
    pub(super) fn new(config: Config, iss: u32) -> Self {
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
        }
    }

    /// The handshake is over: data may flow in segments of `mss`.
    pub(super) fn start(&mut self, mss: u64, syn_timed_out: bool) {
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
    pub(super) fn sent_syn(&mut self, now: Time) {
        self.nxt = self.iss + 1;
        self.max = self.nxt;
        self.flight.record(now, self.iss, self.max);
    }

    /// Queues octets up to the bound; returns how many.
    pub(super) fn write(&mut self, octets: &[u8]) -> usize {
        let len = octets.len().min(self.free());
        self.queue.write(&octets[..len]);
        len
    }

    /// Queues FIN after what is written.
    pub(super) fn finish(&mut self) {
        self.queue.finish();
    }

    /// Takes the peer's window from a segment at `seq` that acknowledges `ack`; returns whether it
    /// changed.
    pub(super) fn set_window(&mut self, seq: Seq, ack: Seq, wnd: u64) -> bool {
        let Some(is_change) = self.offered.update(seq, ack, wnd) else { return false };
        if self.probing && wnd > 0 {
            self.nxt = self.una;
        }
        is_change
    }

    /// Moves the acknowledgement number to `ack`; returns the octets of payload newly acknowledged.
    pub(super) fn advance(&mut self, ack: Seq) -> u64 {
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
    pub(super) fn next(&self, now: Time, extra: u64) -> Next {
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
        if seq > self.una && plan.end() > self.una + self.offered.wnd {
            return Next::Wait(Wait::Acks);
        }
        Next::Send(plan)
    }

    /// Plans a retransmission from `seq` on, up to the next data reported by SACK.
    pub(super) fn resend(&self, seq: Seq, room: u64, kind: Kind) -> Plan {
        let (_, stop) = self.board.hole_at(seq);
        let stop = stop.unwrap_or(self.max).min(self.max);
        let end = self.data_end().min(stop).min(seq + room);
        let fin = self.queue.has_fin() && end == self.data_end() && end < stop;
        Plan { seq, len: end.offset_from(seq), fin, kind }
    }

    /// New data at `seq`, as far as all the windows allow.
    pub(super) fn next_new(&self, now: Time, seq: Seq, room: u64) -> Next {
        let end = self.data_end();
        if seq >= end + u64::from(self.queue.has_fin()) {
            return Next::Wait(Wait::Data);
        }
        let allowed = (self.una + self.offered.wnd).since(seq);
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
    pub(super) fn probe(&self, extra: u64) -> Option<Plan> {
        let room = self.window.mss.saturating_sub(extra).max(1);
        let seq = self.una;
        if self.max > self.una && !self.probing {
            return None;
        }
        let allowed = room.min(self.offered.wnd).max(1);
        let len = self.data_end().since(seq).min(allowed);
        let fin = self.queue.has_fin() && len < allowed && seq + len == self.data_end();
        let kind = if self.offered.wnd == 0 { Kind::Probe } else { Kind::New };
        (len > 0 || fin).then(|| Plan { seq, len: usize::try_from(len).unwrap_or(0), fin, kind })
    }

    /// A planned segment was sent.
    pub(super) fn sent(&mut self, now: Time, plan: Plan, stats: &mut Sent) {
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
    pub(super) fn restart_if_idle(&mut self, now: Time) {
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
    pub(super) fn set_mss(&mut self, mss: u64) {
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
    pub(super) fn payload(&self, plan: Plan) -> (&[u8], &[u8]) {
        self.queue.slices(plan.seq, plan.len)
    }

    /// Beyond the last octet written.
    pub(super) fn data_end(&self) -> Seq {
        self.queue.end()
    }

    /// Octets written and never sent, FIN not counted.
    pub(super) fn unsent(&self) -> u64 {
        self.data_end().since(self.max.max(self.queue.start())) + u64::from(self.is_fin_unsent())
    }

    /// The octets of data from `from` to `to`: FIN, which may be the last place before `to`, is none.
    pub(super) fn data_between(&self, from: Seq, to: Seq) -> u64 {
        let has_fin = self.queue.has_fin() && from <= self.data_end() && self.data_end() < to;
        to.since(from) - u64::from(has_fin)
    }

    fn is_fin_unsent(&self) -> bool {
        self.queue.has_fin() && self.max <= self.data_end()
    }

    /// Whether the peer acknowledged our FIN.
    pub(super) fn is_fin_acked(&self) -> bool {
        self.queue.has_fin() && self.una > self.data_end()
    }

    /// Whether the peer acknowledged our SYN.
    pub(super) fn is_syn_acked(&self) -> bool {
        self.una > self.iss
    }

    /// Whether anything but a window probe is in flight.
    pub(super) fn is_outstanding(&self) -> bool {
        self.max > self.una && !self.probing
    }

    pub(super) fn is_probing(&self) -> bool {
        self.probing
    }

    /// Octets that wait for room in the send buffer's bound.
    pub(super) fn free(&self) -> usize {
        self.config.send_buffer.max(1).saturating_sub(self.queue.len())
    }

    /// The place of SYN.
    pub(super) fn iss(&self) -> Seq {
        self.iss
    }

    /// The timeout now, and the longest there may be.
    pub(super) fn probe_interval(&self, probes: u32) -> Duration {
        let factor = self.config.rto.backoff.max(1.0).powi(probes.min(64).cast_signed());
        let seconds =
            (self.rtt.rto().as_secs_f64() * factor).min(self.config.rto.max.as_secs_f64());
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(self.config.rto.max)
            .max(Duration::from_micros(1))
    }

    /// Gives the buffers back: nothing will be sent any more.
    pub(super) fn discard(&mut self) {
        self.queue.clear();
        self.board.clear();
        self.flight.clear();
    }
}

impl Plan {
    /// The sequence number after the segment.
    pub(super) fn end(self) -> Seq {
        self.seq + self.octets()
    }

    /// The length in sequence space.
    pub(super) fn octets(self) -> u64 {
        self.len as u64 + u64::from(self.fin)
    }
}
