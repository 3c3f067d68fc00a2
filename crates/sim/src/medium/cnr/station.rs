//! Parts of a station: its receiver, its turn to transmit, and the numbers of frames.

use super::frame::Precedence;

/// The receiver of a station.
#[derive(Debug, Default)]
pub struct Ear {
    is_sending: bool,
    /// Number of noticed transmissions of other stations.
    noticed: u32,
    /// When slots of the access delay begin, if the net stays free.
    slots_from: u64,
    /// When the net last became busy or free.
    since: u64,
    /// Nanoseconds of busy net before `since`.
    busy: u64,
    /// Nanoseconds for which the station transmitted.
    keyed: u64,
    /// The share of time for which the net was busy, of late.
    load: f64,
}

/// When a station may transmit.
#[derive(Debug, Default)]
pub struct Turn {
    /// Timers that were set before no longer count.
    generation: u32,
    /// When the station transmits if the net stays free, and the precedence used to compute the time.
    at: Option<(u64, Precedence)>,
    /// The time from which RE-NAD allows slots, and the precedence for which the time was drawn.
    released: Option<(u64, Precedence)>,
    /// Of DAP-NAD: the station with the first slot.
    first: usize,
    /// Of DAP-NAD: the precedence for which the first slots are.
    mode: Precedence,
    /// Whether the station believes it was the last to transmit.
    was_last: bool,
}

/// The numbers by which a station recognises frames.
#[derive(Debug, Default)]
pub struct Numbers {
    /// The number of the last frame sent.
    last: u16,
    /// The latest frames of each station.
    seen: Vec<Seen>,
}

/// The numbers of the latest frames of a station.
#[derive(Clone, Copy, Debug)]
struct Seen {
    numbers: [u16; Seen::MOST],
    count: usize,
}

impl Turn {
    /// Whether a timer is the one that was set last.
    pub fn is_current(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Of DAP-NAD: the station with the first slot.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Of DAP-NAD: the precedence for which the first slots are.
    pub fn mode(&self) -> Precedence {
        self.mode
    }

    /// Whether the station believes it was the last to transmit.
    pub fn was_last(&self) -> bool {
        self.was_last
    }

    /// The time from which RE-NAD allows slots.
    pub fn released_at(&self) -> u64 {
        self.released.map_or(0, |(at, _)| at)
    }

    /// Whether no turn stands for a frame of this precedence, or a higher one.
    pub fn is_wanted(&self, precedence: Precedence) -> bool {
        self.at.is_none_or(|(_, before)| precedence < before)
    }

    /// Has the station transmit at `found`, or when its turn stands already; returns when, and the number of the
    /// timer.
    pub fn set(&mut self, found: u64, precedence: Precedence) -> (u64, u32) {
        let at = self.at.map_or(found, |(before, _)| found.min(before));
        self.at = Some((at, precedence));
        self.generation = self.generation.wrapping_add(1);
        (at, self.generation)
    }

    /// It has come.
    pub fn take(&mut self) {
        (self.at, self.released) = (None, None);
    }

    /// It stands no longer, as the net is not free.
    pub fn cancel(&mut self) {
        self.at = None;
        self.generation = self.generation.wrapping_add(1);
    }

    /// A transmission has ended, of the station itself or of another.
    pub fn follow(&mut self, is_own: bool) {
        self.was_last = is_own;
    }

    /// The rotation of DAP-NAD goes on after a transmission that the station could read.
    pub fn rotate(&mut self, first: usize, mode: Precedence) {
        (self.first, self.mode) = (first, mode);
    }

    /// Draws when RE-NAD lets the station take slots, unless that is known for this precedence.
    pub fn release(&mut self, precedence: Precedence, draw: impl FnOnce() -> u64) {
        match self.released {
            None => self.released = Some((draw(), precedence)),
            Some((at, before)) if precedence < before => {
                self.released = Some((at.min(draw()), precedence));
            }
            Some(_) => {}
        }
    }
}

impl Ear {
    /// Whether the station transmits.
    pub fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// When slots of the access delay begin, if the net stays free.
    pub fn slots_from(&self) -> u64 {
        self.slots_from
    }

    /// The share of time for which the net was busy, of late.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// Nanoseconds for which the station transmitted.
    pub fn keyed(&self) -> u64 {
        self.keyed
    }

    /// Slots begin no earlier.
    pub fn hold_slots(&mut self, until: u64) {
        self.slots_from = self.slots_from.max(until);
    }

    /// The station begins to transmit.
    pub fn begin(&mut self, now: u64, memory: u64) {
        self.count(now, memory);
        self.is_sending = true;
    }

    /// The station has transmitted since `start`.
    pub fn end(&mut self, now: u64, memory: u64, start: u64) {
        self.count(now, memory);
        self.is_sending = false;
        self.keyed += now - start;
    }

    /// Notices a transmission of another.
    pub fn notice(&mut self, now: u64, memory: u64) {
        self.count(now, memory);
        self.noticed += 1;
    }

    /// A noticed transmission has ended.
    pub fn fade(&mut self, now: u64, memory: u64) {
        self.count(now, memory);
        self.noticed -= 1;
    }

    /// Whether it neither transmits nor has noticed anything.
    pub fn is_free(&self) -> bool {
        self.noticed == 0 && !self.is_sending
    }

    /// Counts the time up to now, before the net becomes busy or free; the load forgets what is older than
    /// `memory`.
    fn count(&mut self, now: u64, memory: u64) {
        let passed = now - self.since;
        let is_busy = !self.is_free();
        if is_busy {
            self.busy += passed;
        }
        // A fraction in the place of an exponential, which is not the same on every machine.
        let weight = passed as f64 / (passed + memory).max(1) as f64;
        self.load += weight * (f64::from(u8::from(is_busy)) - self.load);
        self.since = now;
    }

    /// How long the net was busy up to now.
    pub fn busy_until(&self, now: u64) -> u64 {
        self.busy + if self.is_free() { 0 } else { now.saturating_sub(self.since) }
    }
}

impl Numbers {
    /// Whether a frame is new; it is known from now on.
    pub fn is_new(&mut self, from: usize, number: u16) -> bool {
        if self.seen.len() <= from {
            self.seen.resize(from + 1, Seen { numbers: [0; Seen::MOST], count: 0 });
        }
        let Seen { numbers, count } = &mut self.seen[from];
        let known = &numbers[..(*count).min(Seen::MOST)];
        if known.contains(&number) {
            return false;
        }
        numbers[*count % Seen::MOST] = number;
        *count += 1;
        true
    }

    /// A number for the next frame.
    pub fn next(&mut self) -> u16 {
        self.last = self.last.wrapping_add(1);
        self.last
    }
}

impl Seen {
    /// More than a window, twice over.
    const MOST: usize = 64;
}
