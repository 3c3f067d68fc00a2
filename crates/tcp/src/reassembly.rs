//! Reassembles received octets: takes them in any order, and returns them in order.
//!
//! ```text
//!     read here      next expected                          right edge of the window
//!        |  readable       |      | held |     | held |          |
//!        +-----------------+------+======+-----+======+----------+
//!     base                next                                 edge
//! ```

use base::tcp::{MAX_SACK_BLOCKS, SackBlocks};

use super::ring::Ring;
use super::seq::Seq;

/// Octets received and not yet read.
#[derive(Clone, Debug)]
pub struct Reassembly {
    ring: Ring,
    /// The place of the ring's first octet.
    base: Seq,
    next: Seq,
    /// Blocks received out of order, ascending, with holes between.
    held: Vec<Held>,
    /// Counts arrivals, to tell which block changed last.
    arrivals: u64,
    /// What came twice and was not reported yet.
    twice: Option<(Seq, Seq)>,
    max_holes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    from: Seq,
    to: Seq,
    /// The latest arrival that changed the block.
    arrival: u64,
}

/// How the payload of a segment was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// All of it was there.
    Duplicate,
    /// The segment extends the readable data; `filled` tells whether a hole was filled, at least in part.
    InOrder {
        /// Octets that became readable.
        octets: u64,
        /// Whether something was held above it.
        filled: bool,
    },
    /// It is held.
    OutOfOrder,
    /// It would make too many holes, and was dropped.
    Refused,
}

impl Reassembly {
    /// Expects `next` first.
    pub fn new(next: Seq, max_holes: usize) -> Self {
        Self {
            ring: Ring::default(),
            base: next,
            next,
            held: Vec::new(),
            arrivals: 0,
            twice: None,
            max_holes: max_holes.max(1),
        }
    }

    /// Takes octets that lie in the window.
    pub fn insert(&mut self, from: Seq, octets: &[u8]) -> Arrival {
        let to = from + octets.len() as u64;
        self.arrivals += 1;
        if to <= self.next {
            self.twice = Some((from, to));
            return Arrival::Duplicate;
        }
        if from <= self.next {
            return self.extend(from, to, octets);
        }

        // The new block merges with all blocks that it overlaps or touches.
        let first = self.held.partition_point(|held| held.to < from);
        let last = first + self.held[first..].partition_point(|held| held.from <= to);
        let mut merged = Held { from, to, arrival: self.arrivals };
        if first == last {
            if self.held.len() >= self.max_holes {
                return Arrival::Refused;
            }
            self.held.insert(first, merged);
        } else {
            let (low, high) = (self.held[first], self.held[last - 1]);
            if low.from <= from && to <= low.to {
                self.twice = Some((from, to));
                self.held[first].arrival = self.arrivals;
                return Arrival::Duplicate;
            }
            merged.from = merged.from.min(low.from);
            merged.to = merged.to.max(high.to);
            self.held[first] = merged;
            self.held.drain(first + 1..last);
        }
        self.ring.write(from.offset_from(self.base), octets);
        Arrival::OutOfOrder
    }

    fn extend(&mut self, from: Seq, to: Seq, octets: &[u8]) -> Arrival {
        let old = self.next;
        let fresh = &octets[old.offset_from(from)..];
        self.ring.write(old.offset_from(self.base), fresh);
        self.next = to;
        let filled = !self.held.is_empty();
        let reached = self.held.partition_point(|held| held.from <= to);
        if reached > 0 {
            self.next = self.next.max(self.held[reached - 1].to);
            self.held.drain(..reached);
        }
        Arrival::InOrder { octets: self.next.since(old), filled }
    }

    /// The sequence number after the last readable octet moves over a FIN.
    pub fn pass_fin(&mut self) {
        self.next += 1;
    }

    /// Moves readable octets out; returns how many.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        let len = buffer.len().min(self.readable());
        let (front, back) = self.ring.slices(0, len);
        buffer[..front.len()].copy_from_slice(front);
        buffer[front.len()..len].copy_from_slice(back);
        self.ring.consume(len);
        self.base += len as u64;
        len
    }

    /// Octets that can be read now.
    pub fn readable(&self) -> usize {
        // After a FIN the next number is one beyond the octets.
        self.next.offset_from(self.base).min(self.ring.len())
    }

    /// The next octet expected.
    pub fn next(&self) -> Seq {
        self.next
    }

    /// The place of the first octet not yet read.
    pub fn base(&self) -> Seq {
        self.base
    }

    /// The blocks to report, at most `room`: data received twice first, then the latest changes (RFC 2018, 4; RFC 2883,
    /// 4).
    pub fn sack_blocks(&mut self, room: usize, report_twice: bool) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let mut room = room.min(MAX_SACK_BLOCKS);
        let twice = self.twice.take();
        if let Some((from, to)) = twice.filter(|_| report_twice && room > 0) {
            blocks.push(from.wire(), to.wire());
            room -= 1;
        }
        let mut before = u64::MAX;
        for _ in 0..room {
            let newest = self.held.iter().filter(|held| held.arrival < before);
            let Some(held) = newest.max_by_key(|held| held.arrival) else { break };
            blocks.push(held.from.wire(), held.to.wire());
            before = held.arrival;
        }
        blocks
    }

    /// Whether there is anything for `sack_blocks` to report.
    pub fn has_blocks(&self) -> bool {
        !self.held.is_empty() || self.twice.is_some()
    }
}
