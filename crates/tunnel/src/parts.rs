//! Packets that are longer than a source: cut over several in a row, and joined at the other end.
//!
//! ```text
//!   source   n                    n + 1          n + 2
//!          ┌─────────┬─────────┐┌─────────────┐┌────────┬─────────
//!          │ packet  │ part 0  ││   part 1    ││ part 2 │ packet
//!          └─────────┴─────────┘└─────────────┘└────────┴─────────
//! ```
//!
//! Part `i` is in source `n + i`, so source and index say which packet it belongs to, and at most one
//! packet begins in a source. Each part waits for the one before as the packets of a flow do
//! ([`super::recorder`]), so they come in order; a part out of order ends the packet.

use std::collections::BTreeMap;

use super::record::{PART_HEADER, Part, fill_part_header};

/// The most parts of a packet.
const MAX_PARTS: u8 = 128;
/// A part is at least as long, unless it is the last one.
pub const LEAST_PART: usize = 64;
/// Octets of packets that are not complete yet: more are not kept.
const MAX_OCTETS: usize = 1 << 18;
/// The longest packet that is joined.
const MAX_PACKET: usize = 16_383;

/// A packet that is being sent in parts.
#[derive(Debug)]
pub struct Cut {
    packet: Vec<u8>,
    /// The packet's flow, as the queue tells flows apart.
    flow: u32,
    /// Its six DSCP bits.
    dscp: u8,
    sent: usize,
    index: u8,
}

/// The parts of packets that are not complete yet, by the source with the first one.
#[derive(Debug, Default)]
pub struct Parts {
    begun: BTreeMap<u64, Begun>,
    octets: usize,
    /// Packets that begin before this source were forgotten for lack of room.
    evicted_before: u64,
    /// Packets with a missing part, and packets that were too long.
    broken: u64,
    /// Packets joined.
    joined: u64,
}

#[derive(Debug, Default)]
struct Begun {
    next: u8,
    octets: Vec<u8>,
}

impl Cut {
    pub fn new(packet: Vec<u8>, flow: u32, dscp: u8) -> Self {
        Self { packet, flow, dscp, sent: 0, index: 0 }
    }

    /// The packet's flow, as the queue tells flows apart.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Its six DSCP bits.
    pub fn dscp(&self) -> u8 {
        self.dscp
    }

    /// Octets that are still to be sent.
    pub fn left(&self) -> usize {
        self.packet.len() - self.sent
    }

    /// The whole packet, whatever was sent of it.
    pub fn into_packet(self) -> Vec<u8> {
        self.packet
    }

    /// Appends the next part to `symbol` as a record of at most `room` octets, which are more than its
    /// header; returns whether this was the last part.
    pub fn push_part(&mut self, room: usize, wait: u16, symbol: &mut Vec<u8>) -> bool {
        let len = self.left().min(room - PART_HEADER);
        let start = symbol.len();
        symbol.extend_from_slice(&[0; PART_HEADER]);
        symbol.extend_from_slice(&self.packet[self.sent..self.sent + len]);
        self.sent += len;
        let part = Part { index: self.index, is_last: self.left() == 0 };
        fill_part_header(&mut symbol[start..], wait, part);
        self.index += 1;
        part.is_last
    }

    /// Whether the other end would not take another part.
    pub fn is_too_long(&self) -> bool {
        self.index == MAX_PARTS
    }
}

impl Parts {
    /// Takes a part out of a source; returns the packet completed by the part.
    pub fn handle(&mut self, source: u64, part: Part, octets: &[u8]) -> Option<Vec<u8>> {
        let first = source.checked_sub(u64::from(part.index))?;
        let known = self.take(first);
        let mut begun = if part.index == 0 {
            // There is one already: a peer does not send two that begin in one source.
            self.broken += u64::from(known.is_some());
            Begun::default()
        } else {
            let Some(begun) = known else {
                // The first part did not come, or what there was has been counted.
                let is_new = part.index == 1 && first >= self.evicted_before;
                self.broken += u64::from(is_new);
                return None;
            };
            begun
        };
        if begun.next != part.index || begun.octets.len() + octets.len() > MAX_PACKET {
            self.broken += 1;
            return None;
        }
        begun.octets.extend_from_slice(octets);
        begun.next += 1;
        if part.is_last {
            self.joined += 1;
            return Some(begun.octets);
        }
        self.octets += begun.octets.len();
        self.begun.insert(first, begun);
        while self.octets > MAX_OCTETS
            && let Some((&oldest, _)) = self.begun.first_key_value()
        {
            self.take(oldest);
            self.evicted_before = oldest + 1;
            self.broken += 1;
        }
        None
    }

    /// How many packets were joined from their parts, and how many lack a part or were too long.
    pub fn joined_and_broken(&self) -> (u64, u64) {
        (self.joined, self.broken)
    }

    /// All sources before `number` are there or given up, and their records are released.
    pub fn forget_before(&mut self, number: u64) {
        while let Some((&oldest, _)) = self.begun.first_key_value()
            && oldest + u64::from(MAX_PARTS) < number
        {
            self.take(oldest);
            self.broken += 1;
        }
    }

    fn take(&mut self, first: u64) -> Option<Begun> {
        let begun = self.begun.remove(&first)?;
        self.octets -= begun.octets.len();
        Some(begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Part = Part { index: 0, is_last: false };

    #[test]
    fn a_part_that_does_not_come_ends_its_packet_alone() {
        let mut parts = Parts::default();
        let part = |index, is_last| Part { index, is_last };

        let said = [
            parts.handle(10, FIRST, b"a0"),
            parts.handle(20, FIRST, b"b0"),
            parts.handle(21, part(1, false), b"b1"),
            // That of 11 did not come.
            parts.handle(12, part(2, true), b"a2"),
            parts.handle(22, part(2, true), b"b2"),
            parts.handle(3, part(9, true), b"of before the beginning"),
        ];

        let whole = said.into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(whole, [b"b0b1b2"]);
        assert_eq!((parts.joined, parts.broken, parts.octets), (1, 1, 0));
    }

    #[test]
    fn each_packet_that_is_not_joined_is_counted_once() {
        let part = |index, is_last| Part { index, is_last };

        // Of three parts, the first did not come.
        let mut parts = Parts::default();
        parts.handle(11, part(1, false), b"1");
        parts.handle(12, part(2, true), b"2");
        assert_eq!(parts.broken, 1);

        // The first was forgotten for later ones; the second comes.
        let mut parts = Parts::default();
        for source in 1..=20 {
            parts.handle(10 * source, FIRST, &[0; MAX_OCTETS / 17]);
        }
        for source in 1..=20 {
            parts.handle(10 * source + 1, part(1, true), b"1");
        }
        assert_eq!((parts.broken, parts.joined, parts.octets), (3, 17, 0));

        // Two packets begin in the same source.
        let mut parts = Parts::default();
        for _ in 0..3 {
            parts.handle(10, FIRST, &[0; 100]);
        }
        assert_eq!((parts.broken, parts.octets), (2, 100));
    }

    #[test]
    fn what_is_never_completed_costs_bounded_memory() {
        let mut parts = Parts::default();

        for source in 0..10_000 {
            parts.handle(source, FIRST, &[0; 1_000]);
            assert!(parts.octets <= MAX_OCTETS);
        }
        assert_eq!(
            parts.begun.values().map(|begun| begun.octets.len()).sum::<usize>(),
            parts.octets
        );
        parts.forget_before(20_000);

        assert_eq!((parts.begun.len(), parts.octets, parts.broken), (0, 0, 10_000));
        for index in 0..127 {
            let part = Part { index, is_last: false };
            assert_eq!(parts.handle(u64::from(index), part, &[0; 1_400]), None);
            assert!(parts.octets <= MAX_PACKET);
        }
    }
}
