//! Hands packets out of the receiver: with their original headers, in the order of their release.

use std::collections::VecDeque;

use super::headers::Decompressor;
use super::parts::Parts;
use super::pool::Pool;
use super::record::{Form, Record};

/// Most buffers kept for reuse.
const KEPT: usize = 1_024;
/// Most octets of all kept buffers.
const KEPT_OCTETS: usize = KEPT * 1_536;
/// Most places kept in the queue of released packets when it is empty; memory for more is returned.
const RELEASED: usize = 4_096;
/// A released packet counts as so many octets at least, for the memory that it takes besides its own.
const LEAST: usize = 256;

/// Packets that are released, and the contexts of their headers.
#[derive(Debug)]
pub struct Outlet {
    contexts: Decompressor,
    parts: Parts,
    released: VecDeque<Vec<u8>>,
    /// Octets that the released packets count for, and may count for at most.
    waiting: usize,
    most: usize,
    pool: Pool,
    restored: Restored,
    /// Packets dropped because too many waited.
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

impl Outlet {
    /// An outlet in which released packets of `most` octets may wait.
    pub fn new(most: usize) -> Self {
        Self {
            contexts: Decompressor::default(),
            parts: Parts::default(),
            released: VecDeque::new(),
            waiting: 0,
            most,
            pool: Pool::new(KEPT, KEPT_OCTETS),
            restored: Restored::default(),
            refused: 0,
        }
    }

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
        if self.waiting >= self.most {
            self.refused += 1;
            return;
        }
        let mut packet = self.buffer();
        match record.form {
            Form::Announcing(_) | Form::Whole => packet.extend_from_slice(octets),
            Form::Part(part) => {
                self.give(packet);
                if let Some(joined) = self.parts.handle(source, part, octets) {
                    self.hand_out(joined);
                }
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
        self.hand_out(packet);
    }

    /// Packets that were dropped because too many waited to be taken.
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
        self.waiting -= packet.len().max(LEAST);
        if self.released.is_empty() {
            self.released.shrink_to(RELEASED);
        }
        let old = std::mem::replace(out, packet);
        self.give(old);
        true
    }

    /// Takes over the released packets of `before`, and its count of dropped ones.
    pub fn follow(&mut self, before: Self) {
        (self.released, self.waiting) = (before.released, before.waiting);
        self.refused = before.refused;
    }

    /// At most `count` contexts to tell the peer of, each with the source that announced it.
    pub fn poll_told(&mut self, count: usize) -> Vec<(u8, u64)> {
        self.contexts.poll_told(count)
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.take()
    }

    fn hand_out(&mut self, packet: Vec<u8>) {
        self.waiting += packet.len().max(LEAST);
        self.released.push_back(packet);
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        self.pool.give(buffer);
    }
}
