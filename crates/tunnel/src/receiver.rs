//! The receiving half: sources are collected, recovered, put in order and released.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::time::{Time, earliest};
use gf::coefficients::Coefficients;
use gf::equations::{Equations, Outcome};

use super::outlet::{Outlet, Restored};
use super::record::{Record, Records};
use super::stats::Received;
use super::wire::{MAX_HOLES, MAX_REPAIR_WINDOW};
use super::work::Budget;

/// The number of sources that are kept before the first missing one: a repair in flight may cover
/// them.
const KEPT: u64 = 1_024;
/// The most equations that are kept.
const MAX_RANK: usize = 512;
/// Octets of memory that the equations take at most.
const MAX_EQUATIONS: usize = 8 << 20;
/// Octets of memory estimated for each source kept: its packets and their state. Long sources have
/// room because not all are long.
const SOURCE: usize = 1_536;
/// Octets of memory for a packet that waits for another source: when the packet is released, it has its
/// headers.
const WAITER: usize = 256;
/// Steps for each source that becomes known of: its slot is made, looked through and given up.
pub const SLOT: u64 = 4_096;
/// So many sources ahead are no leap, whatever work there was.
const NEAR: u64 = 64;
/// Steps for each source that a repair covers: it is looked at, and its coefficient drawn.
const SCANNED: u64 = 64;
/// Steps for each missing source when a report is made: all of them are looked at.
pub const LISTED: u64 = 128;

/// The receiving half of a tunnel: recovers sources and releases packets in order.
#[derive(Debug)]
pub struct Receiver {
    /// The capacity in sources, from the first missing one on.
    window: u64,
    /// How long to wait for a missing source.
    give_up_after: Duration,
    /// The number of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    /// Missing sources that are not given up, and the times when they were first known to be missing.
    missing: BTreeMap<u64, Time>,
    equations: Equations,
    outlet: Outlet,
    /// Octets of the longest symbol.
    longest: usize,
    /// Octets of memory that the slots take, and may take.
    held: usize,
    most_held: usize,
}

/// A source.
#[derive(Debug, Default)]
struct Slot {
    state: State,
    /// Records that wait for others before they are released.
    unreleased: usize,
    /// Records waiting for the source of this slot, each with the number of the source that contains it.
    waiters: Vec<(u64, Record)>,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    GivenUp,
    #[default]
    Missing,
    Present(Vec<u8>),
}

/// The part of a report about sources.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holes {
    pub first_missing: u64,
    /// One past the newest known source.
    pub end: u64,
    pub missing: usize,
    pub rank: usize,
    /// (skip, length), from the first missing one on.
    pub runs: Vec<(u16, u16)>,
}

impl Receiver {
    /// `longest`: octets of the longest symbol that some path takes.
    pub fn new(window: usize, give_up_after: Duration, longest: usize) -> Self {
        let kept = index(KEPT);
        Self {
            window: window as u64,
            give_up_after,
            base: 0,
            slots: VecDeque::new(),
            missing: BTreeMap::new(),
            equations: Equations::default(),
            outlet: Outlet::new((window + kept) * SOURCE),
            longest,
            held: 0,
            most_held: (window + kept) * SOURCE,
        }
    }

    /// Octets that are held.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Missing sources are given up after so long.
    pub fn set_patience(&mut self, patience: Duration) {
        self.give_up_after = patience;
    }

    /// Takes a source.
    pub fn handle_source(
        &mut self,
        now: Time,
        number: u64,
        symbol: &[u8],
        work: &mut Budget,
        stats: &mut Received,
    ) {
        if symbol.len() > self.longest {
            stats.symbols_too_long += 1;
            return;
        }
        let is_over = work.is_over(now);
        if is_over && number >= self.end() + NEAR {
            stats.leaps_refused += 1;
            return;
        }
        if !self.extend(now, number, work, stats) {
            return;
        }
        let mut buffer = self.outlet.buffer();
        buffer.extend_from_slice(symbol);
        let mut solved = Vec::new();
        let is_new = self.missing.contains_key(&number) || self.is_given_up(number);
        if is_new && is_over {
            stats.repairs_over_budget += self.equations.forget(number) as u64;
        } else if is_new && self.equations.rank() > 0 {
            let before = self.equations.steps();
            self.equations.substitute(number, symbol, &mut solved);
            work.add(self.equations.steps() - before);
        }
        if self.place(number, buffer) {
            stats.sources_received += 1;
            work.earn(symbol.len());
        } else {
            stats.duplicates += 1;
        }
        self.place_solved(solved, stats);
        self.trim(stats);
    }

    /// Takes a repair over `count` sources from `first` on; `number` is its datagram's.
    pub fn handle_repair(
        &mut self,
        now: Time,
        number: u64,
        (first, count): (u64, u16),
        symbol: &[u8],
        work: &mut Budget,
        stats: &mut Received,
    ) {
        let end = first + u64::from(count);
        if symbol.len() > self.longest {
            stats.symbols_too_long += 1;
            return;
        }
        if first < self.base {
            stats.repairs_stale += 1;
            return;
        }
        if u64::from(count) > MAX_REPAIR_WINDOW.min(self.window) {
            stats.malformed += 1;
            return;
        }
        if work.is_over(now) {
            stats.repairs_over_budget += 1;
            return;
        }
        if !self.extend(now, end - 1, work, stats) {
            return;
        }
        if first < self.base {
            stats.repairs_stale += 1;
            return;
        }
        if self.missing.range(first..end).next().is_none() {
            stats.repairs_redundant += 1;
            return;
        }
        if self.equations.rank() >= MAX_RANK {
            stats.repairs_full += 1;
            return;
        }
        let (mut entries, mut terms) = (Vec::new(), Vec::<(u8, &[u8])>::new());
        let start = index(first - self.base);
        let slots = self.slots.range(start..start + usize::from(count));
        for ((source, slot), coefficient) in (first..).zip(slots).zip(Coefficients::of(number)) {
            match &slot.state {
                State::Present(symbol) => terms.push((coefficient, symbol)),
                State::GivenUp | State::Missing => entries.push((source, coefficient)),
            }
        }
        let longest = terms.iter().map(|(_, symbol)| symbol.len()).max().unwrap_or(0);
        let before = self.equations.steps();
        let (outlet, mut multiplied) = (&mut self.outlet, 0);
        let sum = || {
            let mut sum = outlet.buffer();
            sum.extend_from_slice(symbol);
            sum.resize(symbol.len().max(longest), 0);
            gf::accumulate(&mut sum, &terms);
            multiplied = (terms.len() * sum.len()) as u64;
            sum
        };

        let mut solved = Vec::new();
        match self.equations.insert(&entries, sum, &mut solved) {
            Outcome::Full => stats.repairs_full += 1,
            Outcome::Innovative => stats.repairs_useful += 1,
            Outcome::Redundant => stats.repairs_redundant += 1,
        }
        let solving = self.equations.steps() - before;
        work.add(solving + multiplied + SCANNED * u64::from(count));
        while self.equations.octets() > MAX_EQUATIONS {
            self.equations.forget_greatest();
            stats.repairs_full += 1;
        }
        self.place_solved(solved, stats);
        self.trim(stats);
    }

    /// The peer will not retransmit sources before `floor`.
    pub fn handle_floor(&mut self, now: Time, floor: u64, work: &mut Budget, stats: &mut Received) {
        if work.is_over(now) && floor >= self.end() + NEAR {
            stats.leaps_refused += 1;
            return;
        }
        if floor > self.end()
            && (floor - self.end() > self.window || !self.extend(now, floor - 1, work, stats))
        {
            return;
        }
        while let Some((&number, _)) = self.missing.first_key_value() {
            if number >= floor {
                break;
            }
            self.give_up(number, stats);
        }
        self.trim(stats);
    }

    /// Puts the next packet to release in place of what `out` holds; false when there is none.
    pub fn poll_packet(&mut self, out: &mut Vec<u8>) -> bool {
        self.outlet.poll_packet(out)
    }

    /// Released packets dropped because too many waited to be taken.
    pub fn refused(&self) -> u64 {
        self.outlet.refused()
    }

    /// Takes over the released packets of `before`, and its packets behind missing sources. Their peer has started anew
    /// and will not send the missing sources.
    pub fn follow(&mut self, mut before: Self, stats: &mut Received) {
        while let Some((&number, _)) = before.missing.first_key_value() {
            before.give_up(number, stats);
        }
        self.outlet.follow(before.outlet);
    }

    /// Header contexts to tell the peer, at most so many.
    pub fn poll_told(&mut self, most: usize) -> Vec<(u8, u64)> {
        self.outlet.poll_told(most)
    }

    /// How many packets were joined from parts, and how many headers restored.
    pub fn restored(&self) -> Restored {
        self.outlet.restored()
    }

    /// Gives up what has been missing for too long.
    pub fn handle_timeout(&mut self, now: Time, stats: &mut Received) {
        while let Some((&number, &since)) = self.missing.first_key_value() {
            if since + self.give_up_after > now {
                break;
            }
            self.give_up(number, stats);
        }
        self.trim(stats);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.missing.first_key_value().map(|(_, &since)| since + self.give_up_after)
    }

    /// One past the newest known source.
    pub fn end(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// The missing sources to report, and when the next source that may only be late, by `lateness`, counts as missing.
    pub fn holes(&self, now: Time, lateness: Duration, work: &mut Budget) -> (Holes, Option<Time>) {
        work.add(LISTED * self.missing.len() as u64);
        let first_missing = self.first_missing();
        let mut holes = Holes {
            first_missing,
            end: self.end(),
            rank: self.equations.rank(),
            ..Holes::default()
        };
        let mut ripe_at = None;
        let mut end = first_missing;
        for (&number, &since) in &self.missing {
            if since + lateness > now {
                ripe_at = earliest(ripe_at, Some(since + lateness));
                continue;
            }
            holes.missing += 1;
            let continued = holes.runs.last_mut().filter(|_| number == end);
            if let Some((_, len)) = continued {
                *len += 1;
            } else if holes.runs.len() < MAX_HOLES {
                holes.runs.push((distance(end, number), 1));
            } else {
                continue;
            }
            end = number + 1;
        }
        // Equations in excess are for sources that are not reported yet.
        holes.rank = holes.rank.min(holes.missing);
        (holes, ripe_at)
    }

    /// The first source that is missing, or the next one.
    fn first_missing(&self) -> u64 {
        self.missing.first_key_value().map_or(self.end(), |(&number, _)| number)
    }

    /// Makes room up to `number`; false if it is too far away.
    fn extend(&mut self, now: Time, number: u64, work: &mut Budget, stats: &mut Received) -> bool {
        if number < self.base {
            stats.duplicates += 1;
            return false;
        }
        let room = self.window + KEPT;
        // The peer keeps no more than a window before its newest source: none of our sources is in
        // this window.
        if number - self.base >= room + self.window {
            self.restart(number, stats);
        }
        while self.base + room <= number && !self.slots.is_empty() {
            self.evict(stats);
        }
        self.equations.forget_before(self.base);
        let first = (number + 1).saturating_sub(room);
        if self.base < first {
            stats.sources_given_up += first - self.base;
            self.base = first;
        }
        work.add(SLOT * (number + 1).saturating_sub(self.end()));
        while self.end() <= number {
            self.missing.insert(self.end(), now);
            self.slots.push_back(Slot::default());
        }
        true
    }

    /// Gives up all sources and restarts at `number`.
    fn restart(&mut self, number: u64, stats: &mut Received) {
        while let Some((&missing, _)) = self.missing.first_key_value() {
            self.give_up(missing, stats);
        }
        while let Some(slot) = self.slots.pop_front() {
            self.give_slot(slot);
        }
        self.equations.clear();
        self.base = number;
    }

    fn is_given_up(&self, number: u64) -> bool {
        self.slots[index(number - self.base)].state == State::GivenUp
    }

    /// Puts a symbol into its slot and releases complete packets; false if the symbol was there
    /// already.
    fn place(&mut self, number: u64, symbol: Vec<u8>) -> bool {
        let at = index(number - self.base);
        if matches!(self.slots[at].state, State::Present(_)) {
            self.outlet.give(symbol);
            return false;
        }
        self.missing.remove(&number);
        for record in Records::of(&symbol) {
            self.outlet.learn(number, &symbol, &record);
            let awaited = number.checked_sub(u64::from(record.wait));
            let awaited = awaited.filter(|_| record.wait > 0 && self.holds_back(awaited));
            if let Some(awaited) = awaited {
                self.slots[index(awaited - self.base)].waiters.push((number, record));
                self.slots[at].unreleased += 1;
                self.held += WAITER;
            } else {
                self.outlet.release(number, &symbol, &record);
            }
        }
        self.held += symbol.capacity();
        self.slots[at].state = State::Present(symbol);
        if self.slots[at].unreleased == 0 {
            self.wake(number);
        }
        true
    }

    fn place_solved(&mut self, mut solved: Vec<(u64, Vec<u8>)>, stats: &mut Received) {
        solved.sort_unstable_by_key(|&(number, _)| number);
        for (number, symbol) in solved {
            if number >= self.base && self.place(number, symbol) {
                stats.sources_recovered += 1;
            }
        }
    }

    /// Whether a packet must wait for this source.
    fn holds_back(&self, awaited: Option<u64>) -> bool {
        let Some(at) = awaited.and_then(|awaited| awaited.checked_sub(self.base)) else {
            return false;
        };
        let slot = &self.slots[index(at)];
        match slot.state {
            State::GivenUp => false,
            State::Missing => true,
            State::Present(_) => slot.unreleased > 0,
        }
    }

    /// Releases packets that waited for `number`, directly or indirectly.
    fn wake(&mut self, number: u64) {
        if self.slots[index(number - self.base)].waiters.is_empty() {
            return;
        }
        let mut awake = vec![number];
        while let Some(number) = awake.pop() {
            let waiters = std::mem::take(&mut self.slots[index(number - self.base)].waiters);
            self.held -= waiters.len() * WAITER;
            for (source, record) in waiters {
                let Some(at) = source.checked_sub(self.base).map(index) else { continue };
                let State::Present(symbol) = &self.slots[at].state else { continue };
                self.outlet.release(source, symbol, &record);
                self.slots[at].unreleased -= 1;
                if self.slots[at].unreleased == 0 {
                    awake.push(source);
                }
            }
        }
    }

    fn give_up(&mut self, number: u64, stats: &mut Received) {
        self.missing.remove(&number);
        self.slots[index(number - self.base)].state = State::GivenUp;
        stats.sources_given_up += 1;
        self.wake(number);
    }

    /// Forgets sources beyond the reach of further repairs, and the sources without room.
    fn trim(&mut self, stats: &mut Received) {
        let first_missing = self.first_missing();
        while self.base + KEPT < first_missing {
            self.drop_front();
        }
        while self.held > self.most_held && !self.slots.is_empty() {
            self.evict(stats);
        }
        self.equations.forget_before(self.base);
        self.outlet.forget_before(first_missing);
    }

    /// Forgets the oldest source although it may be missing. Equations that it is in are forgotten afterwards.
    fn evict(&mut self, stats: &mut Received) {
        if self.missing.contains_key(&self.base) {
            self.give_up(self.base, stats);
        }
        self.drop_front();
    }

    fn drop_front(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.base += 1;
            self.give_slot(slot);
        }
    }

    /// Nothing waits for its source any more, which has come or was given up.
    fn give_slot(&mut self, slot: Slot) {
        if let State::Present(symbol) = slot.state {
            self.held -= symbol.capacity();
            self.outlet.give(symbol);
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("within the window")
}

fn distance(from: u64, to: u64) -> u16 {
    u16::try_from(to - from).unwrap_or(u16::MAX)
}
