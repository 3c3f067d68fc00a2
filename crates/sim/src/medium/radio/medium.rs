//! The radio channel and its MACs: carries transmissions from each station to the stations in range, and decides
//! by the distributed coordination function of IEEE 802.11 when a station sends.
//!
//! ```text
//!        send ─▶ Contend ──▶ Send RTS ──▶ AwaitCts ──▶ Send data ──▶ AwaitAck ──▶ Sent
//!                 ▲  │                       │ no CTS                   │ no ACK
//!                 │  └─▶ Send broadcast ─▶ Sent                         │
//!                 └────────── longer back-off ◀─────────────────────────┘ ──▶ Failed
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use super::agenda::{Agenda, GENERATIONS, Step};
use super::config::{Config, StationId, Stats};
use super::ear::{Ear, Outcome};
use super::field::Field;
use super::frame::{Event, Frame, FrameKind, Transmission};
use super::propagation::Propagation;

use super::timing::Timing;
use crate::mobility::{Motion, Position};

/// A radio channel and the MACs of its stations.
///
/// It reads no clock. The driver hands each station one frame at a time with [`Medium::send`], calls
/// [`Medium::handle_timeout`] when [`Medium::next_timeout`] says so, and after each of both takes
/// events by [`Medium::poll_event`] until there is none.
#[derive(Debug)]
pub struct Medium {
    timing: Timing,
    config: Config,
    propagation: Propagation,
    field: Field,
    ears: Vec<Ear>,
    macs: Vec<Mac>,
    /// What is on the air, and places for more.
    air: Vec<OnAir>,
    free: Vec<u32>,
    agenda: Agenda,
    events: VecDeque<Event>,
    is_observed: bool,
    seed: u64,
    steps: u64,
    listeners: u64,
}

/// A transmission on the air.
#[derive(Debug)]
struct OnAir {
    signal: Signal,
    start: u64,
    end: u64,
    /// Who hears it; the memory stays for the next.
    heard: Vec<Heard>,
    /// Whether its station was switched off on the way.
    is_cut: bool,
}

/// A frame being sent by a station.
#[derive(Clone, Copy, Debug)]
struct Signal {
    kind: FrameKind,
    from: u32,
    to: Option<u32>,
    /// How long its receivers are to keep silent after it, in nanoseconds.
    duration: u64,
    token: u32,
    octets: u32,
    sequence: u16,
    is_repeat: bool,
}

/// Reception of a transmission at one station.
#[derive(Clone, Copy, Debug)]
struct Heard {
    station: u32,
    /// Whether it is strong enough to be read.
    is_strong: bool,
    power: f64,
}

/// The MAC of a station.
#[derive(Debug)]
struct Mac {
    phase: Phase,
    /// The frame to send.
    frame: Option<Frame>,
    sequence: u16,
    /// Whether the data frame was sent before.
    is_repeat: bool,
    /// Whether the receiver already has the packet and will recognise repeats.
    is_delivered: bool,
    /// The longest back-off, in slots.
    cw: u32,
    short_tries: u8,
    long_tries: u8,
    /// The answer due after a SIFS.
    answer: Option<Answer>,
    /// Until when it waits for an answer.
    until: u64,
    /// When the running timer ends, if any.
    armed: Option<u64>,
    generation: u32,
    rng: Rng,
    stats: Stats,
}

/// Phase of a MAC in sending its frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// It waits for an ACK.
    AwaitAck,
    /// It waits for a CTS.
    AwaitCts,
    /// It waits for its turn.
    Contend,
    /// It has nothing to send.
    Idle,
    /// It sends, or will after a SIFS.
    Send,
}

/// An answer to be sent after a SIFS.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Ack {
        to: u32,
    },
    Cts {
        to: u32,
        duration: u64,
    },
    /// The data that a CTS has cleared.
    Data,
}

impl Medium {
    /// A channel without stations; `seed` decides the back-offs.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            timing: Timing::new(&config),
            config,
            propagation: Propagation::new(&config),
            field: Field::new(config.sense_range.max(config.receive_range)),
            ears: Vec::new(),
            macs: Vec::new(),
            air: Vec::new(),
            free: Vec::new(),
            agenda: Agenda::default(),
            events: VecDeque::new(),
            is_observed: false,
            seed,
            steps: 0,
            listeners: 0,
        }
    }

    /// Adds a moving station, switched on. The seed and its name determine its back-offs, independent of
    /// other stations and channels.
    pub fn add_station(&mut self, name: &str, motion: Motion) -> StationId {
        let station = self.ears.len();
        let rng = Rng::stream(self.seed, &format!("radio {name}"));
        self.field.add(motion);
        self.ears.push(Ear::new());
        self.macs.push(Mac::new(self.config.cw_min, rng));
        StationId(station)
    }

    /// Gives a station another motion from now on.
    pub fn set_motion(&mut self, station: StationId, motion: Motion) {
        self.field.replace(station.0, motion);
    }

    /// Switches a station on or off. A station switched off loses its unsent frame, which is returned.
    pub fn set_on(&mut self, now: Time, station: StationId, is_on: bool) -> Option<Frame> {
        let StationId(index) = station;
        if self.ears[index].is_on() == is_on {
            return None;
        }
        if is_on {
            self.switch_on(now.as_nanos(), index);
            None
        } else {
            self.switch_off(index)
        }
    }

    /// Hands a packet to the MAC of a station; false if it has one already, or is switched off.
    #[must_use]
    pub fn send(&mut self, now: Time, station: StationId, frame: Frame) -> bool {
        if !self.is_ready(station) {
            return false;
        }
        let (now, StationId(station)) = (now.as_nanos(), station);
        let Timing { slot, difs, .. } = self.timing;
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        mac.frame = Some(frame);
        mac.sequence = mac.sequence.wrapping_add(1) % SEQUENCES;
        (mac.is_repeat, mac.is_delivered) = (false, false);
        (mac.short_tries, mac.long_tries) = (0, 0);
        mac.phase = Phase::Contend;
        ear.contend(now, [slot, difs], !self.config.always_back_off, || mac.draw());
        if ear.is_free() {
            let at = ear.turn(slot);
            self.arm(station, at);
        }
        true
    }

    /// Lets a station send at once, as if nothing had been on the air.
    #[cfg(test)]
    pub fn forget_gaps(&mut self, station: StationId) {
        self.ears[station.0].forget_gaps();
    }

    /// Tells of each frame on the air by [`Event::Transmitted`] from now on, or no longer.
    pub fn observe(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let limit = now.as_nanos();
        while let Some((at, step)) = self.agenda.pop(limit) {
            self.steps += 1;
            match step {
                Step::Answer { station } => self.handle_answer(at, station as usize),
                Step::End { slot } => self.end(at, slot),
                Step::Timer { station, generation } => {
                    self.handle_timer(at, station as usize, generation);
                }
            }
        }
    }

    /// The next thing that the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Medium::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.agenda.next().map(Time::from_nanos)
    }

    /// Whether a station takes a frame.
    #[must_use]
    pub fn is_ready(&self, station: StationId) -> bool {
        self.ears[station.0].is_on() && self.macs[station.0].phase == Phase::Idle
    }

    /// Whether a station is switched on.
    #[must_use]
    pub fn is_on(&self, station: StationId) -> bool {
        self.ears[station.0].is_on()
    }

    /// How many stations there are.
    #[must_use]
    pub fn stations(&self) -> usize {
        self.ears.len()
    }

    /// Where a station is.
    #[must_use]
    pub fn position(&self, station: StationId, now: Time) -> Position {
        self.field.position(station.0, now)
    }

    /// How a station moves.
    #[must_use]
    pub fn motion(&self, station: StationId) -> &Motion {
        self.field.motion(station.0)
    }

    /// Whether two different stations are switched on and can read each other's frames.
    #[must_use]
    pub fn are_neighbours(&self, now: Time, a: StationId, b: StationId) -> bool {
        a != b
            && self.is_on(a)
            && self.is_on(b)
            && self.propagation.is_readable(self.field.distance_squared(a.0, b.0, now))
    }

    /// The properties of the channel.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters of a station.
    #[must_use]
    pub fn stats(&self, station: StationId) -> Stats {
        let busy = Duration::from_nanos(self.ears[station.0].busy());
        Stats { busy, ..self.macs[station.0].stats }
    }

    /// The counters of all stations together.
    #[must_use]
    pub fn total(&self) -> Stats {
        let mut total = Stats::default();
        for station in 0..self.macs.len() {
            total.add(&self.stats(StationId(station)));
        }
        total
    }

    /// Work done by the medium: steps of its agenda, and receptions at stations.
    #[must_use]
    pub fn work(&self) -> (u64, u64) {
        (self.steps, self.listeners)
    }

    /// Puts a frame on the air.
    fn begin(&mut self, now: u64, length: u64, signal: Signal) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.air.push(OnAir { signal, start: 0, end: 0, heard: Vec::new(), is_cut: false });
            u32::try_from(self.air.len() - 1).expect("fewer transmissions at once than stations")
        });
        let Self { air, field, ears, propagation, .. } = self;
        let (end, slot_time) = (now + length, self.timing.slot);
        let on_air = &mut air[slot as usize];
        (on_air.signal, on_air.start, on_air.end, on_air.is_cut) = (signal, now, end, false);
        on_air.heard.clear();
        ears[signal.from as usize].begin(now, slot_time);
        field.refresh(now);
        field.around(signal.from as usize, now, |other, squared| {
            let ear = &mut ears[other];
            if !ear.is_on() || !propagation.is_sensed(squared) {
                return;
            }
            let (power, is_strong) = (propagation.power(squared), propagation.is_readable(squared));
            let station = u32::try_from(other).expect("the agenda has room for fewer");
            on_air.heard.push(Heard { station, is_strong, power });
            ear.hear(now, slot, end, power, is_strong, slot_time, propagation);
        });
        self.listeners += on_air.heard.len() as u64;
        self.agenda.add(end, Step::End { slot });
    }

    /// Takes a frame from the air.
    fn end(&mut self, now: u64, slot: u32) {
        let OnAir { signal, start, is_cut, ref mut heard, .. } = self.air[slot as usize];
        let mut heard = std::mem::take(heard);
        let first = self.events.len();
        let (mut read, mut spoilt, mut is_received) = (0, 0, false);
        if !is_cut {
            self.ears[signal.from as usize].end(now);
            self.handle_sent(now, &signal);
            self.settle(now, signal.from as usize);
        }
        for &Heard { station, is_strong, power } in &heard {
            let index = station as usize;
            match self.ears[index].fade(slot, start, power) {
                Outcome::Read => {
                    read += 1;
                    is_received |= signal.to.is_none_or(|to| to == station);
                    self.handle_frame(now, index, &signal);
                }
                Outcome::Missed if is_strong => {
                    spoilt += 1;
                    self.macs[index].stats.missed += 1;
                }
                Outcome::Spoilt if is_strong => {
                    spoilt += 1;
                    self.macs[index].stats.collisions += 1;
                }
                Outcome::Missed | Outcome::Spoilt => {}
            }
            self.settle(now, index);
        }
        if !is_cut && signal.kind == FrameKind::Broadcast {
            // Last, because the driver may release a packet once it is reported as sent.
            self.finish(signal.from as usize, true);
        }
        if self.is_observed {
            let it = transmission(&signal, [start, now], read, spoilt, is_received);
            self.events.insert(first, Event::Transmitted(it));
        }
        heard.clear();
        self.air[slot as usize].heard = heard;
        self.free.push(slot);
    }

    /// Lets a station go on that hears and sends nothing any more.
    fn settle(&mut self, now: u64, station: usize) {
        let ear = &mut self.ears[station];
        if !ear.is_free() {
            return;
        }
        ear.calm(now, self.timing.difs, self.timing.eifs);
        if ear.contends() {
            self.resume(station);
        }
    }

    fn switch_off(&mut self, station: usize) -> Option<Frame> {
        let index = u32::try_from(station).expect("the agenda has room for fewer");
        for (slot, on_air) in self.air.iter_mut().enumerate() {
            on_air.heard.retain(|heard| heard.station != index);
            if on_air.signal.from == index {
                let slot = u32::try_from(slot).expect("slots are numbered so");
                on_air.is_cut = true;
                for heard in &on_air.heard {
                    self.ears[heard.station as usize].spoil(slot);
                }
            }
        }
        self.ears[station].switch_off();
        self.reset(station)
    }

    fn switch_on(&mut self, now: u64, station: usize) {
        self.ears[station].switch_on(now, self.timing.difs);
        let index = u32::try_from(station).expect("the agenda has room for fewer");
        for slot in 0..self.air.len() {
            let from = self.air[slot].signal.from as usize;
            if self.air[slot].end <= now || self.is_free(slot) || from == station {
                continue;
            }
            let squared = self.field.distance_squared(station, from, Time::from_nanos(now));
            if self.propagation.is_sensed(squared) {
                let power = self.propagation.power(squared);
                let heard = Heard { station: index, is_strong: false, power };
                self.air[slot].heard.push(heard);
                self.ears[station].hear_rest(now, power);
            }
        }
    }

    fn is_free(&self, slot: usize) -> bool {
        self.free.iter().any(|free| *free as usize == slot)
    }

    /// The channel has become free for a station that waits for its turn.
    fn resume(&mut self, station: usize) {
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        ear.resume(|| mac.draw());
        let at = ear.turn(self.timing.slot);
        self.arm(station, at);
    }

    /// Acts on the end of a station's own frame.
    fn handle_sent(&mut self, now: u64, signal: &Signal) {
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
    fn handle_frame(&mut self, now: u64, station: usize, signal: &Signal) {
        let is_for_it = signal.to.is_some_and(|to| to as usize == station);
        if !is_for_it && signal.kind != FrameKind::Broadcast {
            self.ears[station].reserve(now + signal.duration);
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
    fn handle_answer(&mut self, now: u64, station: usize) {
        let Some(answer) = self.macs[station].answer.take() else { return };
        if self.ears[station].is_transmitting() {
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
    fn handle_timer(&mut self, now: u64, station: usize, generation: u32) {
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
            Phase::Contend if ear.is_committed() => self.transmit(now, station),
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
    fn reset(&mut self, station: usize) -> Option<Frame> {
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
            && !ear.is_reserved(now);
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
        if mac.answer.is_none() && !self.ears[station].is_transmitting() {
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
        ear.take_turn();
        mac.phase = Phase::Send;
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
            ear.back_off(mac.draw(), true);
        }
        let (ear, eifs) = (&mut self.ears[station], self.timing.eifs);
        if ear.is_free() {
            ear.wait_after_own(eifs);
            if ear.contends() {
                let at = ear.turn(self.timing.slot);
                self.arm(station, at);
            }
        }
    }

    /// Is done with a frame; the next waits a back-off in any case.
    fn finish(&mut self, station: usize, is_sent: bool) {
        let (ear, mac) = (&mut self.ears[station], &mut self.macs[station]);
        let Some(frame) = mac.frame.take() else { return };
        mac.phase = Phase::Idle;
        mac.cw = self.config.cw_min;
        ear.back_off(mac.draw(), false);
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

impl Mac {
    fn new(cw: u32, rng: Rng) -> Self {
        Self {
            phase: Phase::Idle,
            frame: None,
            sequence: 0,
            is_repeat: false,
            is_delivered: false,
            cw,
            short_tries: 0,
            long_tries: 0,
            answer: None,
            until: 0,
            armed: None,
            generation: 0,
            rng,
            stats: Stats::default(),
        }
    }

    /// A back-off within the window.
    fn draw(&mut self) -> u32 {
        let slots = self.rng.below(u64::from(self.cw) + 1);
        u32::try_from(slots).expect("it is at most the window")
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

fn transmission(
    signal: &Signal,
    [start, end]: [u64; 2],
    heard: u32,
    spoilt: u32,
    is_received: bool,
) -> Transmission {
    let Signal { kind, from, to, duration, token, octets, sequence, is_repeat } = *signal;
    Transmission {
        start: Time::from_nanos(start),
        end: Time::from_nanos(end),
        kind,
        from: StationId(from as usize),
        to: to.map(|to| StationId(to as usize)),
        token,
        octets,
        duration: u16::try_from(duration.div_ceil(1_000)).unwrap_or(MOST_DURATION),
        sequence,
        is_repeat,
        heard,
        spoilt,
        is_received,
    }
}

/// The longest time that a duration field can say, in microseconds.
const MOST_DURATION: u16 = 32_767;

fn index(station: usize) -> u32 {
    u32::try_from(station).expect("a channel has fewer stations")
}

/// Sequence numbers of frames have 12 bits.
const SEQUENCES: u16 = 1 << 12;
