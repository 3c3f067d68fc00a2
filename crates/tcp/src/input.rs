//! Handles each received segment of a connection (RFC 9293, 3.10.7).

use base::tcp::{Flags, SackBlocks, Segment};
use base::time::Time;

use super::connection::Connection;
use super::event::{Event, State};
use super::receiver::Due;
use super::recovery::Acknowledgement;
use super::seq::Seq;

impl Connection {
    /// Handles a segment of this connection.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment<'_>) {
        self.stats.received.segments += 1;
        match self.state {
            State::Closed => self.refuse(segment),
            State::SynSent => self.handle_in_syn_sent(now, segment),
            State::CloseWait
            | State::Closing
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::LastAck
            | State::SynReceived
            | State::TimeWait => self.handle_synchronized(now, segment),
        }
    }

    /// RFC 9293, 3.10.7.3.
    fn handle_in_syn_sent(&mut self, now: Time, segment: &Segment<'_>) {
        let flags = segment.flags;
        let ack = self.sender.una.nearest(segment.ack);
        let is_acked = flags.has(Flags::ACK) && ack > self.sender.una && ack <= self.sender.max;
        if flags.has(Flags::ACK) && !is_acked {
            self.stats.received.bad_acks += 1;
            self.refuse(segment);
            return;
        }
        if flags.has(Flags::RST) {
            if is_acked {
                self.end(Event::Reset);
            } else {
                self.stats.received.ignored_resets += 1;
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }

        self.take_syn(now, segment);
        if !is_acked {
            // Both ends opened at once: our SYN goes again, now with an acknowledgement.
            self.state = State::SynReceived;
            self.due.syn = true;
            return;
        }
        self.take_segment_ack(now, segment, ack, false);
        self.establish(now);
        self.receiver.due = Due::Now;
        let after_syn = self.receiver.next();
        self.take_payload(now, segment, after_syn);
    }

    /// RFC 9293, 3.10.7.4: every state from SYN-RECEIVED on.
    fn handle_synchronized(&mut self, now: Time, segment: &Segment<'_>) {
        let flags = segment.flags;
        let mut seq = self.place(segment);
        let mut len = u64::from(segment.len());
        // Our SYN-ACK was lost, or both ends opened at once.
        let is_first_syn = flags.has(Flags::SYN)
            && self.state == State::SynReceived
            && seq + 1 == self.receiver.next();
        if is_first_syn {
            if !flags.has(Flags::ACK) {
                self.due.syn = true;
                self.is_syn_repeated = true;
            }
            seq += 1;
            len -= 1;
        }
        if !self.is_timely(now, segment) || !self.is_in_window(now, segment, seq, len) {
            return;
        }
        if flags.has(Flags::RST) {
            self.handle_reset(now, seq);
            return;
        }
        if flags.has(Flags::SYN) && !is_first_syn {
            // RFC 5961, 4.
            self.challenge(now);
            return;
        }
        if !flags.has(Flags::ACK) {
            return;
        }

        if let Some(timestamps) = segment.options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.take_timestamp(now, seq, timestamps.value);
        }
        if self.state != State::TimeWait {
            self.timers.heard(now, self.config.keep_alive);
        }
        if self.take_acknowledgement(now, segment, seq) {
            if is_first_syn {
                self.receiver.due = Due::Now;
            }
            self.take_payload(now, segment, seq);
        }
    }

    /// PAWS (RFC 7323, 5.3), and the presence of agreed options (3.2).
    fn is_timely(&mut self, now: Time, segment: &Segment<'_>) -> bool {
        if !self.agreed.timestamps || segment.flags.has(Flags::RST) {
            return true;
        }
        let Some(timestamps) = segment.options.timestamps else {
            self.stats.received.missing_timestamps += 1;
            return false;
        };
        if self.receiver.is_old(now, timestamps.value) {
            self.stats.received.paws_drops += 1;
            if segment.payload.is_empty() {
                // Most likely an acknowledgement that another overtook.
                self.receiver.due = Due::Now;
            } else {
                self.receiver.owe_duplicate();
            }
            return false;
        }
        true
    }

    /// First check of RFC 9293, 3.10.7.4: where the segment lies.
    fn is_in_window(&mut self, now: Time, segment: &Segment<'_>, seq: Seq, len: u64) -> bool {
        if self.receiver.is_acceptable(seq, len) {
            return true;
        }
        // A closed window stops data, not the rest of the segment.
        let is_closed = self.receiver.window() == 0 && seq == self.receiver.next();
        let flags = segment.flags;
        if is_closed && !flags.has(Flags::SYN) {
            if len > 0 && !flags.has(Flags::RST) {
                self.stats.received.out_of_window += 1;
                self.receiver.due = Due::Now;
            }
            return true;
        }

        if flags.has(Flags::RST) {
            self.stats.received.ignored_resets += 1;
            return false;
        }
        if self.state == State::TimeWait && flags.has(Flags::FIN) {
            self.timers.time_wait = Some(now + self.config.time_wait);
        }
        if segment.payload.is_empty() || seq >= self.receiver.edge() {
            self.stats.received.out_of_window += 1;
            self.challenge(now);
        } else {
            // All of it was there: report it (RFC 2883).
            self.receiver.take(now, &self.config, seq, segment.payload, &mut self.stats.received);
        }
        false
    }

    /// RFC 5961, 3.2.
    fn handle_reset(&mut self, now: Time, seq: Seq) {
        if seq != self.receiver.next() {
            self.stats.received.ignored_resets += 1;
            self.challenge(now);
            return;
        }
        match self.state {
            State::Closing | State::LastAck | State::TimeWait => self.end(Event::Closed),
            State::CloseWait
            | State::Closed
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::SynReceived
            | State::SynSent => self.end(Event::Reset),
        }
    }

    /// Fifth check: the acknowledgement. Returns whether the payload is to be looked at.
    fn take_acknowledgement(&mut self, now: Time, segment: &Segment<'_>, seq: Seq) -> bool {
        let ack = self.sender.una.nearest(segment.ack);
        if self.state == State::SynReceived {
            if ack <= self.sender.una || ack > self.sender.max {
                self.stats.received.bad_acks += 1;
                self.refuse(segment);
                return false;
            }
            self.take_segment_ack(now, segment, ack, false);
            self.establish(now);
        } else if ack > self.sender.max || ack + self.sender.offered.max_wnd < self.sender.una {
            // RFC 5961, 5.
            self.stats.received.bad_acks += 1;
            self.challenge(now);
            return false;
        } else if ack >= self.sender.una {
            let wnd = u64::from(segment.window) << self.agreed.peer_shift;
            let is_new_window = self.sender.set_window(seq, ack, wnd);
            let is_bare =
                !is_new_window && segment.payload.is_empty() && !segment.flags.has(Flags::FIN);
            self.take_segment_ack(now, segment, ack, is_bare);
            if self.sender.is_probing() || self.sender.offered.wnd == 0 {
                // The peer lives, its window is closed: no reason to give up (RFC 1122, 4.2.2.17).
                self.timers.patience.reset(now);
            }
        }
        if segment.flags.has(Flags::ECE) && self.agreed.ecn && self.sender.handle_echo(now) {
            self.stats.feedback.ecn_reductions += 1;
            self.reduced = true;
        }
        self.step_by_fin_ack(now);
        self.state != State::Closed
    }

    fn take_segment_ack(&mut self, now: Time, segment: &Segment<'_>, ack: Seq, is_bare: bool) {
        if self.state == State::SynReceived || self.state == State::SynSent {
            let is_scaled = !segment.flags.has(Flags::SYN);
            let shift = if is_scaled { self.agreed.peer_shift } else { 0 };
            let seq = self.receiver.next();
            self.sender.offered.start(seq, ack, u64::from(segment.window) << shift);
        }
        let timestamps = segment.options.timestamps.filter(|_| self.agreed.timestamps);
        // A timestamp from the future is no echo of ours.
        let echo = timestamps.and_then(|it| Some((it.echo, self.clock.age(now, it.echo)?)));
        let sack = if self.agreed.sack { segment.options.sack } else { SackBlocks::default() };
        let report = Acknowledgement {
            ack,
            is_bare,
            sack,
            ttl: segment.ttl,
            echo_age: echo.map(|(_, age)| age),
        };
        self.take_ack(now, &report, echo.map(|(value, _)| value));
    }

    /// Changes the state after the acknowledgement of our FIN.
    fn step_by_fin_ack(&mut self, now: Time) {
        if !self.is_finished() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.rest(now),
            State::LastAck => self.end(Event::Closed),
            State::CloseWait
            | State::Closed
            | State::Established
            | State::FinWait2
            | State::SynReceived
            | State::SynSent
            | State::TimeWait => {}
        }
    }

    /// Seventh and eighth check: payload and FIN. URG is taken as ordinary data (RFC 6093).
    fn take_payload(&mut self, now: Time, segment: &Segment<'_>, seq: Seq) {
        let flags = segment.flags;
        if self.agreed.ecn {
            if flags.has(Flags::CWR) {
                self.receiver.echo = false;
            }
            if segment.is_congestion_marked() {
                self.stats.received.ecn_marks += 1;
                self.receiver.echo = true;
            }
        }
        let is_open = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        if !is_open {
            if flags.has(Flags::FIN) {
                self.receiver.due = Due::Now;
                if self.state == State::TimeWait {
                    self.timers.time_wait = Some(now + self.config.time_wait);
                }
            }
            return;
        }
        let is_closed = self.receiver.window() == 0;
        if !segment.payload.is_empty() && !is_closed {
            let octets = self.receiver.take(
                now,
                &self.config,
                seq,
                segment.payload,
                &mut self.stats.received,
            );
            self.events.readable |= octets > 0;
        }
        if flags.has(Flags::FIN) && !is_closed {
            self.receiver.take_fin(seq + segment.payload.len() as u64);
        }
        if self.receiver.reach_fin() {
            self.events.peer_closed = true;
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.rest(now),
                State::CloseWait
                | State::Closed
                | State::Closing
                | State::LastAck
                | State::SynReceived
                | State::SynSent
                | State::TimeWait => {}
            }
        }
    }

    /// Both directions are closed: the ports rest (RFC 9293, 3.6.1).
    fn rest(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers.stop();
        if self.config.time_wait.is_zero() {
            let due = (self.receiver.due, self.receiver.duplicates_due);
            self.end(Event::Closed);
            (self.receiver.due, self.receiver.duplicates_due) = due;
        } else {
            self.timers.time_wait = Some(now + self.config.time_wait);
        }
    }

    /// Answers a segment that belongs to no connection.
    fn refuse(&mut self, segment: &Segment<'_>) {
        if let Some(reset) = segment.reset_for() {
            let ack = reset.flags.has(Flags::ACK).then_some(reset.ack);
            self.due.reset = Some((reset.seq, ack));
        }
    }
}
