//! The distributed coordination function of IEEE 802.11: when a station sends.
//!
//! ```text
//!        send ─▶ Contend ──▶ Send RTS ──▶ AwaitCts ──▶ Send data ──▶ AwaitAck ──▶ Sent
//!                 ▲  │                       │ no CTS                   │ no ACK
//!                 │  └─▶ Send broadcast ─▶ Sent                         │
//!                 └────────── longer back-off ◀─────────────────────────┘ ──▶ Failed
//! ```

use base::time::Time;

use super::agenda::{GENERATIONS, Step};
use super::config::StationId;
use super::frame::{Event, Frame, FrameKind};
use super::medium::{Medium, Signal};
use super::station::{Answer, Phase};

impl Medium {
    /// Hands a packet to the MAC of a station; false if it has one already, or is switched off.
    #[must_use]
    pub fn send(&mut self, now: Time, station: StationId, frame: Frame) -> bool {
        if !self.is_ready(station) {
            return false;
        }
        let (now, StationId(station)) = (now.as_nanos(), station);
        let slot_time = self.timing.slot;
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        mac.frame = Some(frame);
        mac.sequence = mac.sequence.wrapping_add(1) % SEQUENCES;
        (mac.is_repeat, mac.is_delivered) = (false, false);
        (mac.short_tries, mac.long_tries) = (0, 0);
        mac.phase = Phase::Contend;
        ear.contends = true;

        let is_free = ear.is_free();
        if is_free && ear.turn(slot_time) < now {
            // The back-off after the last frame has ended meanwhile.
            ear.back_off = None;
        }
        if ear.back_off.is_none() {
            mac.is_immediate = !self.config.always_back_off && is_free && ear.nav <= now;
            if mac.is_immediate {
                ear.back_off = Some(0);
                ear.slots_from = ear.slots_from.max(now);
            } else {
                ear.back_off = Some(mac.draw());
                ear.slots_from = ear.slots_from.max(now + self.timing.difs);
            }
        }
        if is_free {
            let at = ear.turn(slot_time);
            self.arm(station, at);
        }
        true
    }

    /// The channel has become free for a station that waits for its turn.
    pub(crate) fn resume(&mut self, station: usize) {
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        if std::mem::take(&mut mac.is_immediate) {
            ear.back_off = Some(mac.draw());
        }
        let at = ear.turn(self.timing.slot);
        self.arm(station, at);
    }

    /// Acts on the end of a station's own frame.
    pub(crate) fn handle_sent(&mut self, now: u64, signal: &Signal) {
        let station = signal.from as usize;
        let wait = now + self.timing.sifs + self.timing.answer + self.timing.patience;
        let phase = match signal.kind {
            FrameKind::Ack | FrameKind::Broadcast | FrameKind::Cts => return,
            FrameKind::Data => Phase::AwaitAck,
            FrameKind::Rts => Phase::AwaitCts,
        };
        let mac = &mut self.macs[station];
        (mac.phase, mac.until) = (phase, wait);
        self.arm(station, wait);
    }

    /// Acts on a frame that a station could read.
    pub(crate) fn handle_frame(&mut self, now: u64, station: usize, signal: &Signal) {
        let is_for_it = signal.to.is_some_and(|to| to as usize == station);
        if !is_for_it && signal.kind != FrameKind::Broadcast {
            let ear = &mut self.ears[station];
            ear.nav = ear.nav.max(now + signal.duration);
            return;
        }
        match signal.kind {
            FrameKind::Ack if self.macs[station].phase == Phase::AwaitAck => {
                self.finish(station, true);
            }
            FrameKind::Ack => {}
            FrameKind::Broadcast => self.receive(station, signal),
            FrameKind::Cts => self.handle_cts(now, station),
            FrameKind::Data => self.handle_data(now, station, signal),
            FrameKind::Rts => self.handle_rts(now, station, signal),
        }
    }

    /// Sends what was announced a SIFS ago.
    pub(crate) fn handle_answer(&mut self, now: u64, station: usize) {
        let Some(answer) = self.macs[station].answer.take() else { return };
        if self.ears[station].is_transmitting {
            return;
        }
        let length = self.timing.answer;
        let from = index(station);
        match answer {
            Answer::Ack { to } => {
                self.macs[station].stats.acks += 1;
                self.begin(now, length, Signal::control(FrameKind::Ack, from, to, 0));
            }
            Answer::Cts { to, duration } => {
                self.macs[station].stats.cts += 1;
                self.begin(now, length, Signal::control(FrameKind::Cts, from, to, duration));
            }
            Answer::Data => self.send_data(now, station),
        }
    }

    /// Acts on a timer, unless it was set anew.
    pub(crate) fn handle_timer(&mut self, now: u64, station: usize, generation: u32) {
        let (ear, mac) = (&self.ears[station], &mut self.macs[station]);
        if generation != mac.generation & GENERATIONS {
            return;
        }
        mac.armed = None;
        match mac.phase {
            Phase::AwaitAck | Phase::AwaitCts if now < mac.until => {
                let until = mac.until;
                self.arm(station, until);
            }
            Phase::AwaitAck => self.handle_no_ack(station),
            Phase::AwaitCts => self.handle_no_cts(station),
            Phase::Contend if ear.is_committed => self.transmit(now, station),
            Phase::Contend if ear.is_free() => {
                let turn = ear.turn(self.timing.slot);
                if now < turn {
                    self.arm(station, turn);
                } else {
                    self.transmit(now, station);
                }
            }
            // The end of what is on the air sets it again, or the next frame.
            Phase::Contend | Phase::Idle | Phase::Send => {}
        }
    }

    /// Resets the MAC of a station being switched off and returns its unsent frame.
    pub(crate) fn reset(&mut self, station: usize) -> Option<Frame> {
        let mac = &mut self.macs[station];
        mac.phase = Phase::Idle;
        mac.answer = None;
        mac.armed = None;
        mac.generation = mac.generation.wrapping_add(1);
        mac.cw = self.config.cw_min;
        mac.frame.take()
    }

    fn handle_rts(&mut self, now: u64, station: usize, signal: &Signal) {
        let (ear, mac) = (&self.ears[station], &mut self.macs[station]);
        let may_answer = matches!(mac.phase, Phase::Contend | Phase::Idle)
            && mac.answer.is_none()
            && ear.is_free()
            && ear.nav <= now;
        if !may_answer {
            mac.stats.refused += 1;
            return;
        }
        let duration = signal.duration - self.timing.sifs - self.timing.answer;
        mac.answer = Some(Answer::Cts { to: signal.from, duration });
        self.plan_answer(now, station);
    }

    fn handle_cts(&mut self, now: u64, station: usize) {
        let mac = &mut self.macs[station];
        if mac.phase == Phase::AwaitCts {
            mac.phase = Phase::Send;
            mac.short_tries = 0;
            mac.answer = Some(Answer::Data);
            self.plan_answer(now, station);
        }
    }

    fn handle_data(&mut self, now: u64, station: usize, signal: &Signal) {
        let sender = &mut self.macs[signal.from as usize];
        if std::mem::replace(&mut sender.is_delivered, true) {
            self.macs[station].stats.duplicates += 1;
        } else {
            self.receive(station, signal);
        }
        let mac = &mut self.macs[station];
        if mac.answer.is_none() && !self.ears[station].is_transmitting {
            mac.answer = Some(Answer::Ack { to: signal.from });
            self.plan_answer(now, station);
        }
    }

    fn receive(&mut self, station: usize, signal: &Signal) {
        self.macs[station].stats.received += 1;
        let from = StationId(signal.from as usize);
        let (station, token) = (StationId(station), signal.token);
        self.events.push_back(Event::Received { station, from, token });
    }

    fn plan_answer(&mut self, now: u64, station: usize) {
        self.agenda.add(now + self.timing.sifs, Step::Answer { station: index(station) });
    }

    /// It is the station's turn.
    fn transmit(&mut self, now: u64, station: usize) {
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        let Some(frame) = mac.frame else { return };
        (ear.contends, ear.back_off) = (false, None);
        mac.phase = Phase::Send;
        mac.is_immediate = false;
        let Some(to) = frame.to else {
            mac.stats.broadcasts += 1;
            let length = self.timing.data(frame.octets, true);
            let signal = Signal::data(FrameKind::Broadcast, station, &frame, mac.sequence);
            return self.begin(now, length, signal);
        };
        if self.needs_rts(&frame) {
            let (length, duration) = (self.timing.rts, self.timing.after_rts(frame.octets));
            self.macs[station].stats.rts += 1;
            let signal = Signal::control(FrameKind::Rts, index(station), index(to.0), duration);
            self.begin(now, length, signal);
        } else {
            self.send_data(now, station);
        }
    }

    fn send_data(&mut self, now: u64, station: usize) {
        let mac = &mut self.macs[station];
        let Some(frame) = mac.frame else { return };
        mac.stats.data += 1;
        let is_repeat = std::mem::replace(&mut mac.is_repeat, true);
        let signal = Signal::data(FrameKind::Data, station, &frame, mac.sequence);
        let (length, duration) = (self.timing.data(frame.octets, false), self.timing.after_data());
        self.begin(now, length, Signal { duration, is_repeat, ..signal });
    }

    fn needs_rts(&self, frame: &Frame) -> bool {
        frame.octets.saturating_add(self.config.header) > self.config.rts_threshold
    }

    fn handle_no_cts(&mut self, station: usize) {
        let mac = &mut self.macs[station];
        mac.stats.rts_failures += 1;
        mac.short_tries = mac.short_tries.saturating_add(1);
        let is_last = mac.short_tries >= self.config.short_retries;
        self.handle_failure(station, is_last);
    }

    fn handle_no_ack(&mut self, station: usize) {
        let is_long = self.macs[station].frame.is_some_and(|frame| self.needs_rts(&frame));
        let mac = &mut self.macs[station];
        mac.stats.data_failures += 1;
        let (tries, most) = if is_long {
            (&mut mac.long_tries, self.config.long_retries)
        } else {
            (&mut mac.short_tries, self.config.short_retries)
        };
        *tries = tries.saturating_add(1);
        let is_last = *tries >= most;
        self.handle_failure(station, is_last);
    }

    /// Tries again after a longer back-off, or gives up.
    ///
    /// Stations that heard the failed frame but no answer count slots from EIFS after the frame's end. The sender
    /// does the same, so slots stay in step, as in a model with time in slots.
    fn handle_failure(&mut self, station: usize, is_last: bool) {
        if is_last {
            self.finish(station, false);
        } else {
            let cw_max = self.config.cw_max;
            let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
            mac.cw = (2 * mac.cw + 1).min(cw_max);
            mac.phase = Phase::Contend;
            ear.contends = true;
            ear.back_off = Some(mac.draw());
        }
        let (ear, eifs) = (&mut self.ears[station], self.timing.eifs);
        if ear.is_free() {
            ear.slots_from = ear.slots_from.max(ear.sent_until + eifs);
            if ear.contends {
                let at = ear.turn(self.timing.slot);
                self.arm(station, at);
            }
        }
    }

    /// Is done with a frame; the next waits a back-off in any case.
    pub(crate) fn finish(&mut self, station: usize, is_sent: bool) {
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        let Some(frame) = mac.frame.take() else { return };
        mac.phase = Phase::Idle;
        mac.cw = self.config.cw_min;
        ear.contends = false;
        ear.back_off = Some(mac.draw());
        let station = StationId(station);
        if !is_sent {
            mac.stats.given_up += 1;
        }
        self.events.push_back(if is_sent {
            Event::Sent { station, frame }
        } else {
            Event::Failed { station, frame }
        });
    }

    /// Makes a station's timer expire at `at` or earlier; after an early expiry it is set again.
    fn arm(&mut self, station: usize, at: u64) {
        let mac = &mut self.macs[station];
        if mac.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        mac.armed = Some(at);
        mac.generation = mac.generation.wrapping_add(1);
        let step = Step::Timer { station: index(station), generation: mac.generation };
        self.agenda.add(at, step);
    }
}

impl Signal {
    fn control(kind: FrameKind, from: u32, to: u32, duration: u64) -> Self {
        let (token, octets, sequence) = (0, 0, 0);
        Self { kind, from, to: Some(to), duration, token, octets, sequence, is_repeat: false }
    }

    fn data(kind: FrameKind, from: usize, frame: &Frame, sequence: u16) -> Self {
        let Frame { token, octets, to } = *frame;
        let (from, to) = (index(from), to.map(|to| index(to.0)));
        Self { kind, from, to, duration: 0, token, octets, sequence, is_repeat: false }
    }
}

fn index(station: usize) -> u32 {
    u32::try_from(station).expect("a channel has fewer stations")
}

/// Sequence numbers of frames have 12 bits.
const SEQUENCES: u16 = 1 << 12;
