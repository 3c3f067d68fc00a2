//! Decides which segment to send, and when.

use base::ip::ecn;
use base::tcp::{Flags, MAX_SACK_BLOCKS, Options, Segment, Timestamps};
use base::time::Time;

use super::connection::{Connection, Probe};
use super::event::State;
use super::receiver::Due;
use super::sender::{Kind, Next, Plan, Wait};

impl Connection {
    /// Puts the next whole IP packet in place of what `out` holds; false when there is none.
    ///
    /// The choice is made now, so ask only while the bearer has room.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        out.clear();
        if let Some((seq, ack)) = self.due.reset.take() {
            self.emit_reset(seq, ack, out);
            return true;
        }
        match self.state {
            State::SynReceived | State::SynSent if self.due.syn => {
                self.emit_syn(now, out);
                true
            }
            State::SynSent => false,
            State::CloseWait
            | State::Closing
            | State::Established
            | State::FinWait1
            | State::LastAck => self.poll_data(now, out),
            State::Closed | State::FinWait2 | State::SynReceived | State::TimeWait => {
                self.poll_ack(now, out)
            }
        }
    }

    fn poll_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        if self.receiver.duplicates_due > 0 {
            self.emit_ack(now, out);
            return true;
        }
        let extra = self.sack_len();
        if self.due.probe == Some(Probe::Window) {
            self.due.probe = None;
            if let Some(plan) = self.sender.probe(extra) {
                self.emit_data(now, plan, out);
                return true;
            }
        }
        self.sender.restart_if_idle(now);
        self.timers.pace = None;
        match self.sender.next(now, extra) {
            Next::Send(plan) => {
                self.emit_data(now, plan, out);
                return true;
            }
            Next::Wait(Wait::Peer) => {
                if !self.sender.is_outstanding() && self.timers.persist.is_none() {
                    let interval = self.sender.probe_interval(self.timers.probes);
                    self.timers.persist = Some(now + interval);
                }
            }
            Next::Wait(Wait::Pace(at)) => {
                self.timers.stop_probing();
                self.timers.pace = Some(at);
            }
            Next::Wait(Wait::Acks | Wait::Data) => self.timers.stop_probing(),
        }
        self.poll_ack(now, out)
    }

    fn poll_ack(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let receiver = &self.receiver;
        let is_due = receiver.duplicates_due > 0
            || receiver.due == Due::Now
            || (self.takes_data() && receiver.has_news());
        if is_due {
            self.emit_ack(now, out);
            return true;
        }
        if self.due.probe.take() == Some(Probe::Idle) {
            self.emit_idle_probe(now, out);
            return true;
        }
        false
    }

    fn takes_data(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    fn emit_syn(&mut self, now: Time, out: &mut Vec<u8>) {
        self.due.syn = false;
        let is_answer = self.state == State::SynReceived;
        let agreed = self.agreed;
        // A peer or a box between may choke on ECN: only the first SYN asks (RFC 3168, 6.1.1.1).
        let ecn = agreed.ecn && (is_answer || !self.is_syn_repeated);
        if !ecn {
            self.agreed.ecn = false;
        }
        let flags = Flags::SYN
            .with(Flags::ACK, is_answer)
            .with(Flags::ECE, ecn)
            .with(Flags::CWR, ecn && !is_answer);
        let shift = super::receiver::Receiver::shift_for(&self.config);
        let options = Options {
            mss: Some(self.announced_mss()),
            window_scale: agreed.scaling.then_some(shift),
            sack_permitted: agreed.sack,
            timestamps: agreed.timestamps.then(|| self.timestamps(now)),
            ..Options::default()
        };
        let window = u16::try_from(self.config.receive_buffer).unwrap_or(u16::MAX);
        let ack = if is_answer { self.receiver.next().wire() } else { 0 };
        let seq = self.sender.iss().wire();
        self.stats.sent.data_segments += 1;
        self.stats.sent.retransmissions += u64::from(self.is_syn_repeated);
        self.send(Segment { seq, ack, flags, window, options, ..self.blank() }, out);
        self.sender.sent_syn(now);
        self.timers.rto.get_or_insert(now + self.sender.rtt.rto());
        if is_answer {
            self.receiver.acked();
        }
    }

    fn emit_data(&mut self, now: Time, plan: Plan, out: &mut Vec<u8>) {
        let is_new = plan.seq >= self.sender.max;
        let is_last = plan.seq + plan.len as u64 == self.sender.data_end();
        let flags = Flags::ACK
            .with(Flags::PSH, is_last && plan.len > 0)
            .with(Flags::FIN, plan.fin)
            .with(Flags::CWR, self.reduced && is_new)
            .with(Flags::ECE, self.receiver.echo);
        // Neither retransmissions nor probes are marked (RFC 3168, 6.1.5 and 6.1.6).
        let is_marked = self.agreed.ecn && is_new && plan.len > 0 && plan.kind == Kind::New;
        if is_new {
            self.reduced = false;
        }
        let options = self.options(now);
        let segment = Segment {
            seq: plan.seq.wire(),
            ack: self.receiver.next().wire(),
            flags,
            window: self.receiver.advertise(),
            options,
            traffic_class: self.config.ip.dscp << 2 | if is_marked { ecn::ECT_0 } else { 0 },
            ..self.blank()
        };
        let (front, back) = self.sender.payload(plan);
        segment.emit_with(plan.len, out, |out| {
            out.extend_from_slice(front);
            out.extend_from_slice(back);
        });
        self.stats.sent.segments += 1;
        self.stats.sent.data_segments += 1;
        self.stats.sent.rescue_retransmissions += u64::from(plan.kind == Kind::Rescue);
        self.receiver.acked();
        self.sender.sent(now, plan, &mut self.stats.sent);
        if self.sender.is_outstanding() {
            self.timers.stop_probing();
            self.timers.rto.get_or_insert(now + self.sender.rtt.rto());
        }
    }

    fn emit_ack(&mut self, now: Time, out: &mut Vec<u8>) {
        self.receiver.duplicates_due = self.receiver.duplicates_due.saturating_sub(1);
        self.stats.sent.acks += 1;
        let seq = self.sender.nxt.wire();
        self.emit_bare(now, seq, out);
        self.receiver.acked();
    }

    /// A segment before the window, that the peer must answer (RFC 9293, 3.8.4).
    fn emit_idle_probe(&mut self, now: Time, out: &mut Vec<u8>) {
        self.stats.sent.keep_alive_probes += 1;
        let seq = (self.sender.una - 1).wire();
        self.emit_bare(now, seq, out);
    }

    fn emit_bare(&mut self, now: Time, seq: u32, out: &mut Vec<u8>) {
        let options = self.options(now);
        let segment = Segment {
            seq,
            ack: self.receiver.next().wire(),
            flags: Flags::ACK.with(Flags::ECE, self.receiver.echo),
            window: self.receiver.advertise(),
            options,
            ..self.blank()
        };
        self.send(segment, out);
    }

    fn emit_reset(&mut self, seq: u32, ack: Option<u32>, out: &mut Vec<u8>) {
        self.stats.sent.resets += 1;
        let flags = Flags::RST.with(Flags::ACK, ack.is_some());
        self.send(Segment { seq, ack: ack.unwrap_or(0), flags, ..self.blank() }, out);
    }

    fn send(&mut self, segment: Segment<'_>, out: &mut Vec<u8>) {
        self.stats.sent.segments += 1;
        segment.emit(out);
    }

    /// The options of a segment after the handshake.
    fn options(&mut self, now: Time) -> Options {
        let timestamps = self.agreed.timestamps.then(|| self.timestamps(now));
        let sack = if self.agreed.sack && self.receiver.reassembly.has_blocks() {
            let room = self.sack_room();
            self.receiver.reassembly.sack_blocks(room, self.config.offer.duplicate_sack)
        } else {
            base::tcp::SackBlocks::default()
        };
        Options { timestamps, sack, ..Options::default() }
    }

    fn sack_room(&self) -> usize {
        if self.agreed.timestamps { MAX_SACK_BLOCKS - 1 } else { MAX_SACK_BLOCKS }
    }

    /// Most octets for SACK blocks in the next segment.
    fn sack_len(&self) -> u64 {
        if !self.agreed.sack || !self.receiver.reassembly.has_blocks() {
            return 0;
        }
        4 + 8 * self.sack_room() as u64
    }

    fn timestamps(&self, now: Time) -> Timestamps {
        Timestamps { value: self.clock.show(now), echo: self.receiver.recent() }
    }

    fn blank(&self) -> Segment<'static> {
        Segment {
            source: self.local,
            destination: self.remote,
            seq: 0,
            ack: 0,
            flags: Flags::default(),
            window: 0,
            urgent: 0,
            options: Options::default(),
            payload: &[],
            ttl: self.config.ip.ttl,
            traffic_class: self.config.ip.dscp << 2,
            dont_fragment: self.config.ip.dont_fragment,
        }
    }
}
