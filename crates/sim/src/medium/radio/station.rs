//! State of a station: receiver and MAC (DCF).

use base::rng::Rng;

use super::config::Stats;
use super::frame::Frame;
use super::propagation::Propagation;

/// The receiver of a station. Every transmission in range updates it.
#[derive(Debug)]
pub struct Ear {
    pub(super) is_on: bool,
    pub(super) is_transmitting: bool,
    /// Whether the MAC waits for its turn to send.
    pub(super) contends: bool,
    /// Whether the back-off ended at an instant at which others began to send: it sends all the same.
    pub(super) is_committed: bool,
    /// Whether the last frame before silence could not be read.
    was_spoilt: bool,
    /// Number of transmissions of other stations sensed now.
    sensed: u32,
    /// The transmission that the receiver is locked on.
    lock: Option<Lock>,
    /// Total power of the other sensed transmissions.
    noise: f64,
    /// When the station's last transmission ended; the end of time during a transmission.
    pub(super) sent_until: u64,
    /// Until when others have announced that they will send.
    pub(super) nav: u64,
    busy_since: u64,
    /// Nanoseconds of busy channel before `busy_since`.
    pub(super) busy: u64,
    /// While the channel is free: from when slots of the back-off are counted.
    pub(super) slots_from: u64,
    /// Slots left to count, if a back-off runs.
    pub(super) back_off: Option<u32>,
}

/// A transmission that a receiver follows.
#[derive(Clone, Copy, Debug)]
struct Lock {
    slot: u32,
    power: f64,
    start: u64,
    end: u64,
    /// Whether the transmission is undamaged so far.
    is_clean: bool,
}

/// Reception of a transmission at one station.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub(super) station: u32,
    /// Whether it is strong enough to be read.
    pub(super) is_strong: bool,
    pub(super) power: f64,
}

/// Fate of a frame at a station.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The station can read it.
    Read,
    /// Others destroyed it, or it is too weak.
    Spoilt,
    /// The station transmitted when it began, or before it ended.
    Missed,
}

impl Ear {
    pub fn new() -> Self {
        Self {
            is_on: true,
            is_transmitting: false,
            contends: false,
            is_committed: false,
            was_spoilt: false,
            sensed: 0,
            lock: None,
            noise: 0.0,
            sent_until: 0,
            nav: 0,
            busy_since: 0,
            busy: 0,
            slots_from: 0,
            back_off: None,
        }
    }

    /// Whether it neither transmits nor senses anything.
    pub fn is_free(&self) -> bool {
        self.sensed == 0 && !self.is_transmitting
    }

    /// Begins to hear a transmission.
    #[expect(clippy::too_many_arguments, reason = "a frame as it is heard, spelt out in the loop")]
    pub fn hear(
        &mut self,
        now: u64,
        slot: u32,
        end: u64,
        power: f64,
        is_strong: bool,
        slot_time: u64,
        propagation: &Propagation,
    ) {
        self.grow_busy(now, slot_time);
        self.sensed += 1;
        if self.is_transmitting {
            self.noise += power;
            return;
        }
        let capture = propagation.capture;
        let is_clean = is_strong && power >= capture * self.noise;
        let new = Lock { slot, power, start: now, end, is_clean };
        let Some(lock) = &mut self.lock else {
            self.lock = Some(new);
            return;
        };
        if lock.start == now && power >= capture * (lock.power + self.noise) {
            // Both begin at once, so the receiver has not yet chosen the weaker one.
            self.noise += lock.power;
            *lock = Lock { is_clean: is_strong, ..new };
        } else if lock.power >= capture * power {
            self.noise += power;
        } else if end > lock.end {
            self.noise += lock.power;
            *lock = Lock { is_clean: false, ..new };
        } else {
            self.noise += power;
            lock.is_clean = false;
        }
    }

    /// Begins to hear a transmission that is already under way, and cannot be read.
    pub fn hear_rest(&mut self, now: u64, power: f64) {
        self.grow_busy(now, 1);
        self.sensed += 1;
        self.noise += power;
    }

    /// No longer hears a transmission that began at `start`.
    pub fn fade(&mut self, slot: u32, start: u64, power: f64) -> Outcome {
        self.sensed -= 1;
        let lock = self.lock.take_if(|lock| lock.slot == slot);
        if lock.is_none() {
            self.noise -= power;
        }
        if self.sensed == 0 {
            self.noise = 0.0;
        }
        if lock.is_some_and(|lock| lock.is_clean) {
            self.was_spoilt = false;
            Outcome::Read
        } else if start < self.sent_until {
            Outcome::Missed
        } else {
            self.was_spoilt = true;
            Outcome::Spoilt
        }
    }

    /// Marks the followed transmission as damaged because its sender was switched off.
    pub fn spoil(&mut self, slot: u32) {
        if let Some(lock) = self.lock.as_mut().filter(|lock| lock.slot == slot) {
            lock.is_clean = false;
        }
    }

    /// Begins to transmit, which ends the current reception.
    pub fn begin(&mut self, now: u64, slot_time: u64) {
        self.grow_busy(now, slot_time);
        if let Some(lock) = self.lock.take() {
            self.noise += lock.power;
        }
        self.is_transmitting = true;
        self.is_committed = false;
        self.sent_until = u64::MAX;
    }

    /// Has transmitted.
    pub fn end(&mut self, now: u64) {
        self.is_transmitting = false;
        self.was_spoilt = false;
        self.sent_until = now;
    }

    /// The channel has become free: slots are counted after the gap.
    pub fn calm(&mut self, now: u64, difs: u64, eifs: u64) {
        let gap = if std::mem::take(&mut self.was_spoilt) { eifs } else { difs };
        self.slots_from = (now + gap).max(self.nav.saturating_add(difs));
        self.busy += now - self.busy_since;
    }

    /// When its back-off ends, if the channel stays free.
    pub fn turn(&self, slot_time: u64) -> u64 {
        self.slots_from + u64::from(self.back_off.unwrap_or(0)) * slot_time
    }

    /// Switches off, and forgets all.
    pub fn switch_off(&mut self) {
        *self = Self { is_on: false, busy: self.busy, ..Self::new() };
    }

    /// Stops the back-off when the channel is no longer free.
    fn grow_busy(&mut self, now: u64, slot_time: u64) {
        if !self.is_free() {
            return;
        }
        self.busy_since = now;
        let Some(left) = self.back_off.filter(|_| now >= self.slots_from) else { return };
        let passed = (now - self.slots_from) / slot_time;
        match u32::try_from(passed).ok().and_then(|passed| left.checked_sub(passed)) {
            Some(left) if left > 0 => self.back_off = Some(left),
            _ if self.contends => self.is_committed = true,
            _ => self.back_off = None,
        }
    }
}

/// The MAC of a station.
#[derive(Debug)]
pub struct Mac {
    pub(super) phase: Phase,
    /// The frame to send.
    pub(super) frame: Option<Frame>,
    pub(super) sequence: u16,
    /// Whether the data frame was sent before.
    pub(super) is_repeat: bool,
    /// Whether the receiver already has the packet and will recognise repeats.
    pub(super) is_delivered: bool,
    /// Whether it may send without a back-off if the channel stays free.
    pub(super) is_immediate: bool,
    /// The longest back-off, in slots.
    pub(super) cw: u32,
    pub(super) short_tries: u8,
    pub(super) long_tries: u8,
    /// The answer due after a SIFS.
    pub(super) answer: Option<Answer>,
    /// Until when it waits for an answer.
    pub(super) until: u64,
    /// When the running timer ends, if any.
    pub(super) armed: Option<u64>,
    pub(super) generation: u32,
    pub(super) rng: Rng,
    pub(super) stats: Stats,
}

/// Phase of a MAC in sending its frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
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
pub enum Answer {
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

impl Mac {
    pub fn new(cw: u32, rng: Rng) -> Self {
        Self {
            phase: Phase::Idle,
            frame: None,
            sequence: 0,
            is_repeat: false,
            is_delivered: false,
            is_immediate: false,
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
    pub fn draw(&mut self) -> u32 {
        let slots = self.rng.below(u64::from(self.cw) + 1);
        u32::try_from(slots).expect("it is at most the window")
    }
}
