//! The receiver of a station: what it follows, whether the channel is free, and the back-off that this decides.

use super::propagation::Propagation;

/// The receiver of a station. Every transmission in range updates it.
#[derive(Debug)]
pub struct Ear {
    is_on: bool,
    is_transmitting: bool,
    /// Whether the MAC waits for its turn to send.
    contends: bool,
    /// Whether it may send without a back-off if the channel stays free.
    is_immediate: bool,
    /// Whether the back-off ended at an instant at which others began to send: it sends all the same.
    is_committed: bool,
    /// Whether the last frame before silence could not be read.
    was_spoilt: bool,
    /// Number of transmissions of other stations sensed now.
    sensed: u32,
    /// The transmission that the receiver is locked on.
    lock: Option<Lock>,
    /// Total power of the other sensed transmissions.
    noise: f64,
    /// When the station's last transmission ended; the end of time during a transmission.
    sent_until: u64,
    /// Until when others have announced that they will send.
    nav: u64,
    busy_since: u64,
    /// Nanoseconds of busy channel before `busy_since`.
    busy: u64,
    /// While the channel is free: from when slots of the back-off are counted.
    slots_from: u64,
    /// Slots left to count, if a back-off runs.
    back_off: Option<u32>,
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
            is_immediate: false,
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
        let is_clean = is_strong && propagation.survives(power, self.noise);
        let new = Lock { slot, power, start: now, end, is_clean };
        let Some(lock) = &mut self.lock else {
            self.lock = Some(new);
            return;
        };
        if lock.start == now && propagation.survives(power, lock.power + self.noise) {
            // Both begin at once, so the receiver has not yet chosen the weaker one.
            self.noise += lock.power;
            *lock = Lock { is_clean: is_strong, ..new };
        } else if propagation.survives(lock.power, power) {
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

    /// Whether the back-off ended although others began to send at that instant.
    pub fn is_committed(&self) -> bool {
        self.is_committed
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    pub fn is_transmitting(&self) -> bool {
        self.is_transmitting
    }

    /// Whether the MAC waits for its turn to send.
    pub fn contends(&self) -> bool {
        self.contends
    }

    /// Nanoseconds for which the channel was busy.
    pub fn busy(&self) -> u64 {
        self.busy
    }

    /// Whether others have announced that they will send.
    pub fn is_reserved(&self, now: u64) -> bool {
        self.nav > now
    }

    /// Others have announced that they send until then.
    pub fn reserve(&mut self, until: u64) {
        self.nav = self.nav.max(until);
    }

    /// The MAC has a frame and waits for its turn: without a back-off if that is allowed and the channel is free,
    /// or for the rest of the last one, or for one that it draws.
    pub fn contend(
        &mut self,
        now: u64,
        [slot_time, difs]: [u64; 2],
        may_be_immediate: bool,
        draw: impl FnOnce() -> u32,
    ) {
        self.contends = true;
        let is_free = self.is_free();
        if is_free && self.turn(slot_time) < now {
            // The back-off after the last frame has ended meanwhile.
            self.back_off = None;
        }
        if self.back_off.is_some() {
            return;
        }
        self.is_immediate = may_be_immediate && is_free && !self.is_reserved(now);
        if self.is_immediate {
            self.back_off = Some(0);
            self.slots_from = self.slots_from.max(now);
        } else {
            self.back_off = Some(draw());
            self.slots_from = self.slots_from.max(now + difs);
        }
    }

    /// The channel is free again: who could have sent without a back-off needs one now.
    pub fn resume(&mut self, draw: impl FnOnce() -> u32) {
        if std::mem::take(&mut self.is_immediate) {
            self.back_off = Some(draw());
        }
    }

    /// The MAC sends.
    pub fn take_turn(&mut self) {
        (self.contends, self.is_immediate, self.back_off) = (false, false, None);
    }

    /// The MAC has a frame to send, or none, and a new back-off in any case.
    pub fn back_off(&mut self, slots: u32, contends: bool) {
        (self.contends, self.back_off) = (contends, Some(slots));
    }

    /// Slots are counted from so long after the station's own last transmission.
    pub fn wait_after_own(&mut self, gap: u64) {
        self.slots_from = self.slots_from.max(self.sent_until + gap);
    }

    /// Switches on.
    pub fn switch_on(&mut self, now: u64, difs: u64) {
        (self.is_on, self.slots_from) = (true, now + difs);
    }

    /// Counts slots from the beginning of time, as if nothing had been on the air.
    #[cfg(test)]
    pub fn forget_gaps(&mut self) {
        self.slots_from = 0;
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
