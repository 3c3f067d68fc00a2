//! State of a station: receiver, turn to transmit, outbox and peers.

use base::rng::Rng;

use super::config::{Config, Stats};
use super::frame::Precedence;
use super::outbox::{Outbox, Queued};

/// A station.
#[derive(Debug)]
pub struct Station {
    pub(super) ear: Ear,
    pub(super) turn: Turn,
    pub(super) outbox: Outbox,
    pub(super) peers: Peers,
    /// The neighbours listed in the station's last topology update, one bit each.
    pub(super) told: u128,
    pub(super) rng: Rng,
    /// Decides which otherwise readable frames noise destroys.
    pub(super) noise: Rng,
    pub(super) stats: Stats,
}

/// The receiver of a station.
#[derive(Debug, Default)]
pub struct Ear {
    pub(super) is_sending: bool,
    /// Number of noticed transmissions of other stations.
    pub(super) noticed: u32,
    /// When slots of the access delay begin, if the net stays free.
    pub(super) slots_from: u64,
    /// When the net last became busy or free.
    since: u64,
    /// Nanoseconds of busy net before `since`.
    pub(super) busy: u64,
    /// Nanoseconds for which the station transmitted.
    pub(super) keyed: u64,
    /// The share of time for which the net was busy, of late.
    pub(super) load: f64,
}

/// When a station may transmit.
#[derive(Debug, Default)]
pub struct Turn {
    /// Timers that were set before no longer count.
    pub(super) generation: u32,
    /// When the station transmits if the net stays free, and the precedence used to compute the time.
    pub(super) at: Option<(u64, Precedence)>,
    /// The time from which RE-NAD allows slots, and the precedence for which the time was drawn.
    pub(super) released: Option<(u64, Precedence)>,
    /// Of DAP-NAD: the station with the first slot.
    pub(super) first: usize,
    /// Of DAP-NAD: the precedence for which the first slots are.
    pub(super) mode: Precedence,
    /// Whether the station believes it was the last to transmit.
    pub(super) was_last: bool,
}

/// State of frames exchanged with other stations.
#[derive(Debug)]
pub struct Peers {
    /// The acknowledgement to send in the station's answer slot.
    pub(super) answer: Option<Answer>,
    /// The frame of type 3 that others answer now, and until when.
    pub(super) awaiting: Option<(Queued, u64)>,
    /// The number of the last frame sent.
    pub(super) number: u16,
    /// The latest frames of each station.
    seen: Vec<Seen>,
}

/// An acknowledgement of type 3.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub(super) at: u64,
    pub(super) to: u8,
    pub(super) number: u16,
}

/// The numbers of the latest frames of a station.
#[derive(Clone, Copy, Debug)]
struct Seen {
    numbers: [u16; Seen::MOST],
    count: usize,
}

impl Station {
    pub fn new(config: &Config, rng: Rng, noise: Rng) -> Self {
        let turn = Turn { mode: Precedence::Routine, ..Turn::default() };
        let peers = Peers { answer: None, awaiting: None, number: 0, seen: Vec::new() };
        Self {
            ear: Ear::default(),
            turn,
            outbox: Outbox::new(config),
            peers,
            told: 0,
            rng,
            noise,
            stats: Stats::default(),
        }
    }
}

impl Turn {
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
    /// Whether it neither transmits nor has noticed anything.
    pub fn is_free(&self) -> bool {
        self.noticed == 0 && !self.is_sending
    }

    /// Counts the time up to now, before the net becomes busy or free; the load forgets what is older than
    /// `memory`.
    pub fn count(&mut self, now: u64, memory: u64) {
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

impl Peers {
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
    pub fn next_number(&mut self) -> u16 {
        self.number = self.number.wrapping_add(1);
        self.number
    }
}

impl Seen {
    /// More than a window, twice over.
    const MOST: usize = 64;
}
