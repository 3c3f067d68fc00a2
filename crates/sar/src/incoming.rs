//! One transfer being received.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;

use super::config::{Config, Profile};
use super::estimate::Filter;
use super::message::Precedence;
use super::repair::Solver;
use super::shares;
use super::wire::{Cover, MaskBuffer, PARTIAL_HEADER, Place, WORD};

/// The factor between the gap that is expected and how long Basic waits: SRCL's maximum, and jitter.
const BASIC_GAP_FACTOR: f64 = 5.0 * 2.2;

/// A transfer being received: the segments that have arrived.
#[derive(Debug)]
pub struct Incoming {
    last: u16,
    precedence: Precedence,
    /// Those that have arrived.
    segments: BTreeMap<u16, Box<[u8]>>,
    /// All below have arrived.
    next: u16,
    /// Octets of each segment but the last, known after the first of them arrives.
    size: Option<usize>,
    /// Octets of the last segment, known from repairs.
    tail: Option<usize>,
    solver: Solver,
    /// Segments since the last answer.
    unanswered: u16,
    /// Whether its originator asks for answers by P.
    is_polled: bool,
    /// Unsolicited partial acknowledgements sent in a row.
    unsolicited: u8,
    started: Time,
    arrived: Time,
    gap: Filter,
    largest_gap: Duration,
    /// The deadline as noted in the common list.
    due: Option<Time>,
    /// The position in the list of all transfers, and the weight there.
    place: Option<(Stage, shares::EntryId)>,
    /// Octets received from the originator, less octets answered. Answers never exceed it, so a forged source address
    /// gains no amplification.
    credit: usize,
}

/// The progress of a transfer: invented transfers stay in the first stage, at almost no cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// One segment has arrived.
    Begun,
    /// Several have.
    Growing,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// It had come before.
    Again,
    /// It is longer or shorter than the others.
    Odd,
    Stored,
}

impl Incoming {
    pub fn new(now: Time, config: &Config, last: u16, it: Precedence) -> Self {
        Self {
            last,
            precedence: it,
            segments: BTreeMap::new(),
            next: 1,
            size: None,
            tail: None,
            solver: Solver::default(),
            unanswered: 0,
            is_polled: false,
            unsolicited: 0,
            started: now,
            arrived: now,
            gap: Filter::new(config.times.gap),
            largest_gap: Duration::ZERO,
            due: None,
            place: None,
            credit: 0,
        }
    }

    pub fn stage(&self) -> Stage {
        match self.segments.len() {
            0 | 1 => Stage::Begun,
            _ => Stage::Growing,
        }
    }

    /// The number of the transfer's last segment.
    pub fn last(&self) -> u16 {
        self.last
    }

    pub fn precedence(&self) -> Precedence {
        self.precedence
    }

    /// The deadline as noted in the common list.
    pub fn noted_due(&mut self) -> &mut Option<Time> {
        &mut self.due
    }

    /// Notes the position in the list of all transfers; returns the one before.
    pub fn note_place(
        &mut self,
        place: Option<(Stage, shares::EntryId)>,
    ) -> Option<(Stage, shares::EntryId)> {
        std::mem::replace(&mut self.place, place)
    }

    /// The originator asked for an answer by P, or by an acknowledgement request.
    pub fn handle_poll(&mut self) {
        self.is_polled = true;
    }

    /// Whether at least `most` segments have arrived since the last answer.
    pub fn has_unanswered(&self, most: u16) -> bool {
        self.unanswered >= most
    }

    /// An unsolicited partial acknowledgement is scheduled.
    pub fn handle_report(&mut self) {
        self.unsolicited += 1;
    }

    /// Counts a received datagram of so many octets as credit for answers.
    pub fn earn(&mut self, octets: usize) {
        self.credit = self.credit.saturating_add(octets);
    }

    /// Takes a segment.
    pub fn take(&mut self, now: Time, place: Place, data: &[u8]) -> Taken {
        let number = place.number();
        if self.segments.contains_key(&number) {
            return Taken::Again;
        }
        let last = self.segments.get(&self.last).map_or(0, |last| last.len());
        let fits = match (place.is_last(), self.size) {
            (true, size) => size.is_none_or(|size| data.len() <= size),
            (false, Some(size)) => data.len() == size,
            (false, None) => data.len() >= last,
        };
        if !fits {
            return Taken::Odd;
        }
        self.note_arrival(now);
        let mut solved = Vec::new();
        self.solver.substitute(number, data, &mut solved);
        self.store(number, data.into());
        self.store_solved(solved);
        self.unanswered += 1;
        Taken::Stored
    }

    /// Takes a repair; returns the number of segments solved, `None` if the repair is useless.
    pub fn repair(
        &mut self,
        now: Time,
        serial: u16,
        cover: &Cover,
        symbol: &[u8],
    ) -> Option<usize> {
        let is_odd = self.size.is_some_and(|size| size != symbol.len());
        if is_odd || self.last < 2 || cover.first.last() != self.last {
            return None;
        }
        let mut solved = Vec::new();
        let known = |number| self.segments.get(&number).map(|data| &**data);
        if !self.solver.add(serial, cover, symbol, known, &mut solved) {
            return None;
        }
        self.note_arrival(now);
        self.size = Some(symbol.len());
        self.tail = Some(cover.tail.into());
        let before = self.segments.len();
        self.store_solved(solved);
        Some(self.segments.len() - before)
    }

    fn store_solved(&mut self, solved: Vec<(u64, Vec<u8>)>) {
        for (number, mut data) in solved {
            let Ok(number) = u16::try_from(number) else { continue };
            if number == self.last {
                // Zeros filled it up.
                data.truncate(self.tail.unwrap_or(data.len()));
            }
            self.store(number, data.into());
        }
    }

    fn store(&mut self, number: u16, data: Box<[u8]>) {
        if number != self.last {
            self.size = Some(data.len());
        }
        self.segments.insert(number, data);
        while self.next <= self.last && self.segments.contains_key(&self.next) {
            // The last may be segment 65,535.
            let Some(next) = self.next.checked_add(1) else { break };
            self.next = next;
        }
    }

    fn note_arrival(&mut self, now: Time) {
        let gap = now.since(self.arrived);
        if !self.segments.is_empty() {
            self.gap.add(gap);
            self.largest_gap = self.largest_gap.max(gap);
        }
        self.arrived = now;
        self.unsolicited = 0;
    }

    /// Notes a sign of life of the originator without news.
    pub fn touch(&mut self, now: Time) {
        self.arrived = now;
        self.unsolicited = 0;
    }

    /// When to act unless another segment comes.
    pub fn deadline(&self, config: &Config) -> Time {
        let times = &config.times;
        match config.profile {
            Profile::Early | Profile::Seed => {
                self.started + times.gap * (u32::from(self.unsolicited) + 1)
            }
            Profile::Basic if self.largest_gap == Duration::ZERO => {
                self.arrived + times.gap.mul_f64(BASIC_GAP_FACTOR)
            }
            Profile::Basic => {
                let wait = self.largest_gap.max(times.gap).mul_f64(BASIC_GAP_FACTOR);
                self.arrived + wait.min(times.most_gap)
            }
            // The originator asks when it wants an answer.
            Profile::Default if self.is_polled => self.arrived + times.most_gap,
            Profile::Default | Profile::Enhanced => {
                // Segments that arrive in one burst would show no gap at all.
                let wait = (self.gap.relaxed() * self.missing()).max(times.gap);
                let wait = wait.min(times.most_gap);
                self.arrived + wait * (u32::from(self.unsolicited) + 1)
            }
        }
    }

    /// Whether to send one more unsolicited partial acknowledgement before the transfer is given up.
    pub fn may_report(&self, config: &Config) -> bool {
        let may = match config.profile {
            Profile::Basic => false,
            Profile::Default => !self.is_polled,
            Profile::Early | Profile::Enhanced | Profile::Seed => true,
        };
        may && self.unsolicited < config.retries.assembly
    }

    fn missing(&self) -> u32 {
        let have = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        u32::from(self.last).saturating_sub(have).max(1)
    }

    pub fn is_complete(&self) -> bool {
        self.segments.len() == usize::from(self.last)
    }

    /// Whether a segment of this many octets would make the message longer than `most`.
    pub fn exceeds(&self, most: u32, octets: usize) -> bool {
        let size = self.size.unwrap_or(octets);
        (usize::from(self.last) - 1) * size >= most as usize
    }

    /// Whether a single segment speaks for it, which anybody may have sent.
    pub fn is_doubtful(&self) -> bool {
        self.segments.len() <= 1 && self.solver.octets(1) == 0
    }

    pub fn first(&self) -> Option<&[u8]> {
        self.segments.get(&1).map(|data| &**data)
    }

    /// The message; complete.
    pub fn data(&self) -> Vec<u8> {
        let octets = self.segments.values().map(|data| data.len()).sum();
        let mut all = Vec::with_capacity(octets);
        self.segments.values().for_each(|data| all.extend_from_slice(data));
        all
    }

    /// The mask of a partial acknowledgement that is sent now.
    pub fn mask(&mut self) -> MaskBuffer {
        self.unanswered = 0;
        let mut mask = MaskBuffer::new(self.next);
        // A mask longer than the received octets is cut: the originator learns of the rest later.
        let octets = self.credit / WORD * WORD;
        let bits = octets.saturating_sub(PARTIAL_HEADER).saturating_mul(8).max(FEWEST_BITS);
        let bits = u16::try_from(bits).unwrap_or(u16::MAX).min(super::wire::LONGEST_MASK);
        let end = self.next.saturating_add(bits);
        self.segments.range(self.next..end).for_each(|(number, _)| mask.set(*number));
        let words = usize::from(mask.mask().header_words());
        self.credit = self.credit.saturating_sub(words * WORD);
        mask
    }

    /// Octets that it keeps; each segment costs some for its place.
    pub fn octets(&self) -> usize {
        self.octets_of(self.size.unwrap_or(self.last_octets()), 0)
    }

    /// The most by which the result of [`Self::octets`] grows with a segment or repair of `octets` octets. All segments
    /// count as much as the longest, so earlier segments may count for more afterwards.
    pub fn growth(&self, octets: usize) -> usize {
        let size = self.size.unwrap_or(self.last_octets().max(octets));
        self.octets_of(size, 1) - self.octets()
    }

    /// The last segment's length in octets; 0 while the segment is missing.
    fn last_octets(&self) -> usize {
        self.segments.get(&self.last).map_or(0, |last| last.len())
    }

    /// Octets with so many more segments, where each has `size` octets.
    fn octets_of(&self, size: usize, more: usize) -> usize {
        let segments = self.segments.len() + more;
        TRANSFER + segments * (size + PLACE) + self.solver.octets(size + PLACE)
    }
}

/// Octets of memory for a transfer, besides its segments.
pub const TRANSFER: usize = 768;
/// Bits of a mask that fit into the shortest partial acknowledgement.
const FEWEST_BITS: usize = 16;

/// Octets of memory for a segment, besides its data.
pub const PLACE: usize = 64;
