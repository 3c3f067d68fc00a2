//! Hands packets out of the receiver: with their original headers, in the order of their release.

use std::collections::VecDeque;

use base::time::Time;

use super::headers::Decompressor;
use super::parts::Parts;
use super::pool::Pool;
use super::record::{Form, Record};
use super::work::{Budget, HANDED};

/// Most buffers kept for reuse.
const KEPT: usize = 1_024;
/// Most octets of all kept buffers.
const KEPT_OCTETS: usize = KEPT * 1_536;
/// Most places kept in the queue of released packets when it is empty; memory for more is returned.
const RELEASED: usize = 4_096;

/// Packets that are released, and the contexts of their headers.
#[derive(Debug)]
pub struct Outlet {
    contexts: Decompressor,
    parts: Parts,
    released: VecDeque<Vec<u8>>,
    pool: Pool,
    restored: Restored,
    /// For released packets; without it, they are dropped.
    budget: Budget,
    /// Packets dropped for that.
    refused: u64,
}

/// Counters of packets joined from parts and of compressed headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restored {
    /// Packets joined from their parts, and packets of which a part did not come.
    pub joined: u64,
    pub broken: u64,
    /// Packets whose headers were restored, and packets dropped because their context was not there.
    pub headers: u64,
    pub unknown: u64,
}

impl Default for Outlet {
    fn default() -> Self {
        Self {
            contexts: Decompressor::default(),
            parts: Parts::default(),
            released: VecDeque::new(),
            pool: Pool::new(KEPT, KEPT_OCTETS),
            restored: Restored::default(),
            budget: Budget::for_releasing(),
            refused: 0,
        }
    }
}

impl Outlet {
    /// Learns the context that a record in this source announces, if it does.
    pub fn learn(&mut self, source: u64, symbol: &[u8], record: &Record) {
        match record.form {
            Form::Announcing(id) => {
                let packet = &symbol[record.start..record.end];
                self.contexts.handle_announcement(source, id, packet);
            }
            Form::Compressed(_) | Form::Part(_) | Form::Whole => {}
        }
    }

    /// Releases the packet of a record in this source.
    pub fn release(&mut self, source: u64, symbol: &[u8], record: &Record) {
        let octets = &symbol[record.start..record.end];
        // Octets count when they are released: a repaired loss may release all that came behind it at once.
        self.budget.earn(octets.len());
        if self.budget.is_spent() {
            self.refused += 1;
            return;
        }
        let mut packet = self.buffer();
        match record.form {
            Form::Announcing(_) | Form::Whole => packet.extend_from_slice(octets),
            Form::Part(part) => {
                self.give(packet);
                let joined = self.parts.handle(source, part, octets);
                self.budget.add(if joined.is_some() { HANDED } else { 0 });
                self.released.extend(joined);
                return;
            }
            Form::Compressed(id) => {
                if self.contexts.restore(source, id, octets, &mut packet).is_err() {
                    self.restored.unknown += 1;
                    self.give(packet);
                    return;
                }
                self.restored.headers += 1;
            }
        }
        self.budget.add(HANDED);
        self.released.push_back(packet);
    }

    /// Time has passed, which counts for the budget.
    pub fn handle_time(&mut self, now: Time) {
        self.budget.is_over(now);
    }

    /// Packets that were dropped for want of budget.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// All before source `number` are there or given up, and released.
    pub fn forget_before(&mut self, number: u64) {
        self.parts.forget_before(number);
    }

    pub fn restored(&self) -> Restored {
        let (joined, broken) = self.parts.joined_and_broken();
        Restored { joined, broken, ..self.restored }
    }

    /// The next packet to release, in place of what `out` holds.
    pub fn poll_packet(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.released.pop_front() else { return false };
        if self.released.is_empty() {
            self.released.shrink_to(RELEASED);
        }
        let old = std::mem::replace(out, packet);
        self.give(old);
        true
    }

    /// At most `count` contexts to tell the peer of, each with the source that announced it.
    pub fn poll_told(&mut self, count: usize) -> Vec<(u8, u64)> {
        self.contexts.poll_told(count)
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.take()
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        self.pool.give(buffer);
    }
}
