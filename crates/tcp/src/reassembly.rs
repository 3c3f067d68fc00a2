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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    /// Octets of the stream, and the most that a segment carries.
    const STREAM: usize = 300;
    const SEGMENT: usize = 40;

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn a_set_of_octets_tells_what_each_arrival_was_and_what_is_reported(
            steps in vec((0..STREAM, 1..SEGMENT, 0_usize..60, option::of(1_usize..9)), 1..60),
            max_holes in 1_usize..8,
        ) {
            let start = Seq::initial(u32::MAX - 100);
            let mut reassembly = Reassembly::new(start, max_holes);
            // Which octets came, how many of them in order, and how many were read.
            let mut came = [false; STREAM + SEGMENT];
            let (mut next, mut read) = (0, 0);
            let mut twice = None;
            for (from, len, to_read, room) in steps {
                let octets: Vec<u8> = (from..from + len).map(octet).collect();
                let range = from..from + len;
                let before = blocks(&came, next);
                let is_known = came[range.clone()].iter().all(|came| *came);

                let arrival = reassembly.insert(start + from as u64, &octets);

                let touches = |it: &(usize, usize)| it.0 <= range.end && range.start <= it.1;
                let expected = if is_known {
                    Arrival::Duplicate
                } else if range.start <= next {
                    came[range.clone()].fill(true);
                    let old = next;
                    next = came.iter().position(|came| !came).unwrap_or(came.len());
                    let octets = (next - old) as u64;
                    Arrival::InOrder { octets, filled: !before.is_empty() }
                } else if before.len() >= max_holes && !before.iter().any(touches) {
                    Arrival::Refused
                } else {
                    came[range.clone()].fill(true);
                    Arrival::OutOfOrder
                };
                prop_assert_eq!(arrival, expected);
                prop_assert_eq!(reassembly.next(), start + next as u64);
                prop_assert_eq!(reassembly.readable(), next - read);

                let held = blocks(&came, next);
                if is_known {
                    twice = Some((start + from as u64, start + (from + len) as u64));
                }
                prop_assert_eq!(reassembly.has_blocks(), !held.is_empty() || twice.is_some());
                if let Some(room) = room {
                    let wire = |at: usize| (start + at as u64).wire();
                    let told = reassembly.sack_blocks(room, true);
                    let mut told = told.as_slice().to_vec();
                    let room = room.min(MAX_SACK_BLOCKS) - usize::from(twice.is_some());
                    if let Some((from, to)) = twice.take() {
                        prop_assert_eq!(told.remove(0), (from.wire(), to.wire()));
                    }
                    let newest = held.iter().find(|held| touches(held));
                    if let (Some(held), Arrival::OutOfOrder, 1..) = (newest, arrival, room) {
                        prop_assert_eq!(told[0], (wire(held.0), wire(held.1)));
                    }
                    prop_assert_eq!(told.len(), held.len().min(room));
                    let held: Vec<_> = held.iter().map(|it| (wire(it.0), wire(it.1))).collect();
                    prop_assert!(told.iter().all(|it| held.contains(it)), "{told:?} {held:?}");
                }

                let mut buffer = vec![0; to_read];
                let count = reassembly.read(&mut buffer);
                prop_assert_eq!(count, to_read.min(next - read));
                let expected = (read..read + count).map(octet);
                prop_assert!(buffer[..count].iter().copied().eq(expected));
                read += count;
                prop_assert_eq!(reassembly.base(), start + read as u64);
            }
        }
    }

    /// The octet of the stream at a place.
    fn octet(at: usize) -> u8 {
        u8::try_from(at % 251).expect("below 251")
    }

    /// The blocks beyond `next`, each from its first octet to behind its last.
    fn blocks(came: &[bool], next: usize) -> Vec<(usize, usize)> {
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        for at in (next..came.len()).filter(|at| came[*at]) {
            match blocks.last_mut() {
                Some(block) if block.1 == at => block.1 += 1,
                Some(_) | None => blocks.push((at, at + 1)),
            }
        }
        blocks
    }
}
