//! Repairs: sums of packets that are under way, sent over a link that has nothing else to do.
//!
//! ```text
//!      0          16         18
//!      +----------+----------+----------- - -
//!      |   mask   |  length  | packet          length and packet: the exclusive or of those covered,
//!      +----------+----------+----------- - -  each followed by zeros; bit i of mask: number + i
//! ```
//!
//! A repair makes good any one loss among the packets that it covers, several repairs several, so
//! that a burst survives its losses without a round trip for each.

use std::collections::VecDeque;

use super::pool::Pool;
use super::wire::Seq;

/// Octets before the sum of the packets: mask and length.
pub(super) const HEADER: usize = 18;

/// Packets that a receiver keeps of a flow to subtract them from repairs.
const KEPT: usize = 64;
/// Repairs that wait for more packets, or other repairs, to become useful.
const WAITING: usize = 16;

/// Appends the sum of packets, each with how far its number lies after the first.
pub(super) fn emit<'a>(packets: impl Iterator<Item = (u32, &'a [u8])>, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEADER, 0);
    let mut mask = 0_u128;
    for (offset, octets) in packets {
        mask |= 1 << offset;
        let end = start + HEADER + octets.len();
        if out.len() < end {
            out.resize(end, 0);
        }
        add(&mut out[start + 16..start + HEADER], &length(octets));
        add(&mut out[start + HEADER..], octets);
    }
    out[start..start + 16].copy_from_slice(&mask.to_be_bytes());
}

/// What a receiver needs to use repairs.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    kept: VecDeque<(Seq, Vec<u8>)>,
    waiting: Vec<Sum>,
}

/// The sum of packets that have not arrived.
#[derive(Debug)]
struct Sum {
    missing: Numbers,
    /// Length and packet.
    octets: Vec<u8>,
}

/// A set of numbers of a flow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Numbers([u128; 2]);

impl Decoder {
    /// Takes a packet that arrived, or was recovered.
    pub(super) fn handle_packet(&mut self, seq: Seq, octets: &[u8], pool: &mut Pool) {
        for sum in &mut self.waiting {
            if sum.missing.contains(seq) {
                sum.missing.toggle(seq);
                sum.add_packet(octets);
            }
        }
        self.kept.push_back((seq, pool.copy(octets)));
        if self.kept.len() > KEPT
            && let Some((_, oldest)) = self.kept.pop_front()
        {
            pool.give(oldest);
        }
    }

    /// Takes a repair that starts at `first`; `has_arrived` tells which numbers are not missing.
    pub(super) fn handle_repair(
        &mut self,
        first: Seq,
        payload: &[u8],
        has_arrived: impl Fn(Seq) -> bool,
        pool: &mut Pool,
    ) {
        let Some((mask, sum)) = payload.split_first_chunk::<16>() else { return };
        let mut sum = Sum { missing: Numbers::default(), octets: pool.copy(sum) };
        let mask = u128::from_be_bytes(*mask);
        for offset in (0..128_u8).filter(|offset| mask >> offset & 1 == 1) {
            let seq = first.plus(offset);
            if !has_arrived(seq) {
                sum.missing.toggle(seq);
            } else if let Some((_, octets)) = self.kept.iter().find(|(kept, _)| *kept == seq) {
                sum.add_packet(octets);
            } else {
                pool.give(sum.octets);
                return;
            }
        }

        // Each sum that waits has a number that no other has, its first.
        self.waiting.retain(|other| !other.missing.is_empty());
        for other in &self.waiting {
            if other.missing.first().is_some_and(|pivot| sum.missing.contains(pivot)) {
                sum.add(other);
            }
        }
        let Some(pivot) = sum.missing.first() else {
            pool.give(sum.octets);
            return;
        };
        for other in &mut self.waiting {
            if other.missing.contains(pivot) {
                other.add(&sum);
            }
        }
        if self.waiting.len() == WAITING {
            pool.give(self.waiting.remove(0).octets);
        }
        self.waiting.push(sum);
    }

    /// The next packet that the repairs give; hand it to `handle_packet` before asking again.
    pub(super) fn poll_recovered(&mut self, pool: &mut Pool) -> Option<(Seq, Vec<u8>)> {
        let index = self.waiting.iter().position(|sum| sum.missing.len() == 1)?;
        let sum = self.waiting.swap_remove(index);
        let seq = sum.missing.first()?;
        let (len, octets) = sum.octets.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        let packet = pool.copy(octets.get(..len).unwrap_or_default());
        pool.give(sum.octets);
        Some((seq, packet))
    }

    /// Forgets sums of packets that will not come any more.
    pub(super) fn forget(&mut self, is_over: impl Fn(Seq) -> bool) {
        self.waiting.retain(|sum| !sum.missing.iter().any(&is_over));
    }
}

impl Sum {
    fn add_packet(&mut self, octets: &[u8]) {
        if self.octets.len() < 2 + octets.len() {
            self.octets.resize(2 + octets.len(), 0);
        }
        add(&mut self.octets[..2], &length(octets));
        add(&mut self.octets[2..], octets);
    }

    fn add(&mut self, other: &Self) {
        self.missing.0[0] ^= other.missing.0[0];
        self.missing.0[1] ^= other.missing.0[1];
        if self.octets.len() < other.octets.len() {
            self.octets.resize(other.octets.len(), 0);
        }
        add(&mut self.octets, &other.octets);
    }
}

impl Numbers {
    fn contains(self, seq: Seq) -> bool {
        self.0[usize::from(seq.0 >> 7)] >> (seq.0 & 0x7f) & 1 == 1
    }

    fn toggle(&mut self, seq: Seq) {
        self.0[usize::from(seq.0 >> 7)] ^= 1 << (seq.0 & 0x7f);
    }

    fn len(self) -> u32 {
        self.0[0].count_ones() + self.0[1].count_ones()
    }

    fn is_empty(self) -> bool {
        self.0 == [0, 0]
    }

    fn first(self) -> Option<Seq> {
        self.iter().next()
    }

    fn iter(self) -> impl Iterator<Item = Seq> {
        (0..=u8::MAX).map(Seq).filter(move |&seq| self.contains(seq))
    }
}

fn length(octets: &[u8]) -> [u8; 2] {
    u16::try_from(octets.len()).unwrap_or(u16::MAX).to_be_bytes()
}

/// Adds without carry; `octets` are not longer than `sum`.
fn add(sum: &mut [u8], octets: &[u8]) {
    for (sum, octet) in sum.iter_mut().zip(octets) {
        *sum ^= octet;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_repair_recovers_one_packet() {
        let packets: [&[u8]; 3] = [b"first", b"the second", b"3"];
        let mut repair = Vec::new();
        emit([0, 1, 2].map(|n| (n, packets[n as usize])).into_iter(), &mut repair);
        let (mut decoder, mut pool) = (Decoder::default(), Pool::default());

        decoder.handle_packet(Seq(254), packets[0], &mut pool);
        decoder.handle_repair(Seq(254), &repair, |seq| seq == Seq(254), &mut pool);
        assert_eq!(decoder.poll_recovered(&mut pool), None);
        decoder.handle_packet(Seq(0), packets[2], &mut pool);

        assert_eq!(decoder.poll_recovered(&mut pool), Some((Seq(255), packets[1].to_vec())));
    }

    proptest! {
        #[test]
        fn enough_repairs_recover_all_that_was_lost_and_nothing_else(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..20),
            lost in prop::collection::vec(any::<bool>(), 20),
            masks in prop::collection::vec(any::<u32>(), 60),
            first in any::<u8>(),
        ) {
            let (mut decoder, mut pool) = (Decoder::default(), Pool::default());
            let number = |n: usize| Seq(first).plus(u8::try_from(n).unwrap());
            let mut arrived: Vec<bool> = packets.iter().zip(&lost).map(|(_, lost)| !lost).collect();
            for (n, packet) in packets.iter().enumerate().filter(|(n, _)| arrived[*n]) {
                decoder.handle_packet(number(n), packet, &mut pool);
            }

            for mask in masks {
                let covered = packets.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1);
                let mut repair = Vec::new();
                emit(covered.map(|(n, packet)| (u32::try_from(n).unwrap(), &packet[..])), &mut repair);
                let known = arrived.clone();
                let has_arrived = |seq: Seq| known[usize::from(seq.0.wrapping_sub(first))];
                decoder.handle_repair(Seq(first), &repair, has_arrived, &mut pool);
                while let Some((seq, octets)) = decoder.poll_recovered(&mut pool) {
                    let n = usize::from(seq.0.wrapping_sub(first));
                    prop_assert!(!arrived[n], "it was missing");
                    prop_assert_eq!(&octets, &packets[n]);
                    arrived[n] = true;
                    decoder.handle_packet(seq, &octets, &mut pool);
                }
            }

            // 60 random sums of at most 20 unknowns: all solved but for one case in 2^40.
            prop_assert!(arrived.iter().all(|arrived| *arrived));
        }
    }
}
