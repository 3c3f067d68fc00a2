//! Repairs: sums of packets in flight, sent over an otherwise idle link.
//!
//! ```text
//!      0        2                    8
//!      +--------+--------------------+-------------- - -   each packet of a sum in this form,
//!      | length | of the IP header   | what IP carried     multiplied by its coefficient and
//!      +--------+--------------------+-------------- - -   followed by zeros
//!
//!   length     octets of what IP carried; bit 15: something before the packet will not come
//!   IPv4       type of service, identification (2), flags and offset (2), time to live
//!   IPv6       version, class and label (4), hop limit, 0
//! ```
//!
//! The rest of the IP header is the same in all packets of a flow, and in the repair's own. The coefficient of packet
//! `seq` in repair `id` is 1 / ((128 + id) xor (seq mod 128)) in GF(2^8): the rows of a Cauchy matrix, so any `n`
//! repairs recover any `n` lost packets within the repairs' common coverage.

use std::collections::VecDeque;

use base::ip::{V4_HEADER, V6_HEADER};

use super::packet::write_ip_header;
use super::pool::Pool;
use super::wire::Repair;

/// Octets of a packet in a sum before the IP payload.
pub const PREFIX: usize = 8;
/// Packets of a flow that a receiver keeps, to subtract from repairs: a whole window.
const KEPT: usize = 128;
/// Repairs that wait for more packets, or other repairs, to become useful.
const WAITING: usize = 32;
const HOLE: u16 = 0x8000;
/// Packets that a repair covers at most: the newest packets in flight.
pub const COVERED: usize = 32;
/// Octets that HBH adds to a packet at most, with a repair: a TCP segment that leaves so much room
/// can be repaired, and an acknowledgement can ride on it.
pub const OVERHEAD: usize = Repair::overhead(COVERED) + PREFIX;

/// Whether a packet with an IP header of this length can be in a sum.
pub fn is_repairable(packet: &[u8], header_len: usize) -> bool {
    let plain = if packet[0] >> 4 == 4 { V4_HEADER } else { V6_HEADER };
    header_len == plain && packet.len() - header_len < usize::from(HOLE)
}

/// Sets `sum` to the sum of the repair with the number `repeat`, of packets with their numbers and IP header lengths.
pub fn sum<'a>(
    repeat: u16,
    packets: impl Iterator<Item = (u64, &'a [u8], usize, bool)>,
    sum: &mut Vec<u8>,
) {
    sum.clear();
    for (seq, packet, header_len, has_hole) in packets {
        let coefficient = coefficient(repeat, seq);
        let payload = &packet[header_len..];
        if sum.len() < PREFIX + payload.len() {
            sum.resize(PREFIX + payload.len(), 0);
        }
        let (head, tail) = sum.split_at_mut(PREFIX);
        gf::accumulate(head, &[(coefficient, &prefix(packet, header_len, has_hole))]);
        gf::accumulate(tail, &[(coefficient, payload)]);
    }
}

/// What a receiver needs to use repairs.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Received packets, in the form used in sums.
    kept: VecDeque<(u64, Vec<u8>)>,
    /// Equations for packets that did not arrive, solved as far as possible: the first packet of
    /// each equation is in no other equation, and has coefficient 1.
    rows: VecDeque<Row>,
    /// Memory of finished equations, for reuse.
    free: Vec<Vec<(u64, u8)>>,
}

#[derive(Debug)]
struct Row {
    missing: Vec<(u64, u8)>,
    sum: Vec<u8>,
}

impl Decoder {
    /// Takes a packet that arrived, or was recovered.
    pub fn handle_packet(
        &mut self,
        seq: u64,
        packet: &[u8],
        header_len: usize,
        has_hole: bool,
        pool: &mut Pool,
    ) {
        if !is_repairable(packet, header_len) {
            return;
        }
        let mut octets = pool.copy(&prefix(packet, header_len, has_hole));
        octets.extend_from_slice(&packet[header_len..]);
        for index in 0..self.rows.len() {
            let row = &mut self.rows[index];
            if let Some(at) = row.missing.iter().position(|(missing, _)| *missing == seq) {
                let (_, coefficient) = row.missing.remove(at);
                row.add(coefficient, &octets);
                row.normalise();
                self.eliminate(index);
            }
        }
        self.drop_empty(pool);
        self.kept.push_back((seq, octets));
        if self.kept.len() > KEPT
            && let Some((_, oldest)) = self.kept.pop_front()
        {
            pool.give(oldest);
        }
    }

    /// Takes a repair that covers packets from number `first` on; `has_arrived` tells which numbers are not
    /// missing.
    pub fn handle_repair(
        &mut self,
        repair: &Repair<'_>,
        first: u64,
        has_arrived: impl Fn(u64) -> bool,
        pool: &mut Pool,
    ) {
        let missing = self.free.pop().unwrap_or_default();
        let mut row = Row { missing, sum: pool.copy(repair.sum) };
        for offset in repair.mask.iter() {
            let seq = first + u64::from(offset);
            let coefficient = coefficient(repair.repeat.0, seq);
            if !has_arrived(seq) {
                row.missing.push((seq, coefficient));
            } else if let Some((_, octets)) = self.kept.iter().rev().find(|(kept, _)| *kept == seq)
            {
                row.add(coefficient, octets);
            } else {
                self.recycle(row, pool);
                return;
            }
        }

        for other in &self.rows {
            if let Some(coefficient) =
                other.missing.first().and_then(|first| row.coefficient(first.0))
            {
                row.add_row(coefficient, other);
            }
        }
        row.normalise();
        if row.missing.is_empty() {
            self.recycle(row, pool);
            return;
        }
        if self.rows.len() == WAITING
            && let Some(oldest) = self.rows.pop_front()
        {
            self.recycle(oldest, pool);
        }
        self.rows.push_back(row);
        self.eliminate(self.rows.len() - 1);
    }

    /// The next packet that the repairs give, and whether something before it will not come.
    ///
    /// `header` is the IP header of a packet of the flow. Hand the packet to `handle_packet` before
    /// asking again.
    pub fn poll_recovered(
        &mut self,
        header: &[u8],
        protocol: u8,
        pool: &mut Pool,
    ) -> Option<(u64, Vec<u8>, bool)> {
        let index = self.rows.iter().position(|row| row.missing.len() == 1)?;
        let row = self.rows.remove(index)?;
        let &(seq, _) = row.missing.first()?;
        let restored = restore(&row.sum, header, protocol, pool);
        self.recycle(row, pool);
        let (packet, has_hole) = restored?;
        Some((seq, packet, has_hole))
    }

    /// Forgets equations of packets that will not come any more.
    pub fn forget(&mut self, is_over: impl Fn(u64) -> bool, pool: &mut Pool) {
        let is_over = |row: &Row| row.missing.iter().any(|(seq, _)| is_over(*seq));
        while let Some(index) = self.rows.iter().position(is_over) {
            if let Some(row) = self.rows.remove(index) {
                self.recycle(row, pool);
            }
        }
    }

    fn recycle(&mut self, row: Row, pool: &mut Pool) {
        let Row { mut missing, sum } = row;
        missing.clear();
        if self.free.len() < WAITING {
            self.free.push(missing);
        }
        pool.give(sum);
    }

    /// Takes the first packet of a row out of all others.
    fn eliminate(&mut self, index: usize) {
        let Some(row) = self.rows.get_mut(index) else { return };
        let Some(&(pivot, _)) = row.missing.first() else { return };
        let row = std::mem::replace(row, Row { missing: Vec::new(), sum: Vec::new() });
        for other in &mut self.rows {
            if let Some(coefficient) = other.coefficient(pivot) {
                other.add_row(coefficient, &row);
            }
        }
        self.rows[index] = row;
    }

    fn drop_empty(&mut self, pool: &mut Pool) {
        while let Some(index) = self.rows.iter().position(|row| row.missing.is_empty()) {
            if let Some(row) = self.rows.remove(index) {
                self.recycle(row, pool);
            }
        }
    }
}

impl Row {
    fn coefficient(&self, seq: u64) -> Option<u8> {
        self.missing
            .iter()
            .find(|(missing, _)| *missing == seq)
            .map(|(_, coefficient)| *coefficient)
    }

    fn add(&mut self, coefficient: u8, octets: &[u8]) {
        if self.sum.len() < octets.len() {
            self.sum.resize(octets.len(), 0);
        }
        gf::accumulate(&mut self.sum, &[(coefficient, octets)]);
    }

    fn add_row(&mut self, factor: u8, other: &Self) {
        for &(seq, theirs) in &other.missing {
            let product = gf::multiply(factor, theirs);
            match self.missing.iter().position(|(missing, _)| *missing == seq) {
                Some(at) => {
                    self.missing[at].1 ^= product;
                    if self.missing[at].1 == 0 {
                        self.missing.remove(at);
                    }
                }
                None => self.missing.push((seq, product)),
            }
        }
        self.add(factor, &other.sum);
    }

    /// Makes the first coefficient 1.
    fn normalise(&mut self) {
        let Some(&(_, first)) = self.missing.first() else { return };
        let factor = gf::inverse(first);
        for (_, coefficient) in &mut self.missing {
            *coefficient = gf::multiply(*coefficient, factor);
        }
        gf::scale(&mut self.sum, factor);
    }
}

/// The coefficient of packet `seq` in the repair with this number.
fn coefficient(repeat: u16, seq: u64) -> u8 {
    let [low, ..] = seq.to_le_bytes();
    gf::inverse((0x80 | repeat.to_le_bytes()[0]) ^ (low & 0x7f))
}

/// The octets of a packet in a sum before the IP payload.
fn prefix(packet: &[u8], header_len: usize, has_hole: bool) -> [u8; PREFIX] {
    let len = u16::try_from(packet.len() - header_len).unwrap_or(u16::MAX) & !HOLE;
    let [l0, l1] = (len | if has_hole { HOLE } else { 0 }).to_be_bytes();
    if packet[0] >> 4 == 4 {
        [l0, l1, packet[1], packet[4], packet[5], packet[6], packet[7], packet[8]]
    } else {
        [l0, l1, packet[0], packet[1], packet[2], packet[3], packet[7], 0]
    }
}

/// The packet whose form in a sum is `octets`.
fn restore(octets: &[u8], header: &[u8], protocol: u8, pool: &mut Pool) -> Option<(Vec<u8>, bool)> {
    let (&[l0, l1, a, b, c, d, e, f], payload) = octets.split_first_chunk::<PREFIX>()?;
    let len = u16::from_be_bytes([l0, l1]);
    let payload = payload.get(..usize::from(len & !HOLE))?;
    let mut packet = pool.copy(header);
    if header[0] >> 4 == 4 {
        if header.len() != V4_HEADER {
            return None;
        }
        packet[1] = a;
        packet[4..9].copy_from_slice(&[b, c, d, e, f]);
    } else {
        if header.len() != V6_HEADER || a >> 4 != 6 {
            return None;
        }
        packet[..4].copy_from_slice(&[a, b, c, d]);
        packet[7] = e;
    }
    packet.extend_from_slice(payload);
    write_ip_header(&mut packet, header.len(), protocol);
    Some((packet, len & HOLE != 0))
}

#[cfg(test)]
mod tests {
    use base::ip::{Spec, protocol};
    use proptest::prelude::*;

    use super::super::wire::{Mask, Seq};
    use super::*;

    fn packet(is_v4: bool, payload: &[u8], ttl: u8) -> Vec<u8> {
        let (source, destination) =
            if is_v4 { ("10.0.0.1", "10.0.0.2") } else { ("fd00::1", "fd00::2") };
        let spec = Spec::new(source.parse().unwrap(), destination.parse().unwrap(), protocol::TCP);
        let mut packet = Vec::new();
        spec.emit(payload.len(), &mut packet);
        packet.extend_from_slice(payload);
        if is_v4 {
            packet[8] = ttl;
            write_ip_header(&mut packet, V4_HEADER, protocol::TCP);
        } else {
            packet[7] = ttl;
        }
        packet
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn as_many_repairs_as_losses_recover_all_that_was_lost(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..40),
            lost in prop::collection::vec(any::<bool>(), 40),
            (first, id, is_v4) in (any::<u32>(), any::<u16>(), any::<bool>()),
            order in any::<u64>(),
        ) {
            let header_len = if is_v4 { V4_HEADER } else { V6_HEADER };
            let packets: Vec<Vec<u8>> = (0..).zip(&payloads)
                .map(|(ttl, payload)| packet(is_v4, payload, ttl)).collect();
            let number = |n: usize| u64::from(first) + n as u64;
            let holes = |n: usize| n.is_multiple_of(3);
            let mut mask = [0; 16];
            for n in 0..packets.len() {
                mask[n / 8] |= 1 << (n % 8);
            }
            let (mut decoder, mut pool) = (Decoder::default(), Pool::default());
            let missing: Vec<usize> = (0..packets.len()).filter(|n| lost[*n]).collect();
            // Half of what arrives comes after the repairs.
            let late = |n: usize| order >> (n % 64) & 1 == 1;
            let arrives = |decoder: &mut Decoder, pool: &mut Pool, is_late: bool| {
                for n in (0..packets.len()).filter(|n| !lost[*n] && late(*n) == is_late) {
                    decoder.handle_packet(number(n), &packets[n], header_len, holes(n), pool);
                }
            };

            arrives(&mut decoder, &mut pool, false);
            for repair in 0..missing.len() {
                let id = id.wrapping_add(u16::try_from(repair).unwrap());
                let mut octets = Vec::new();
                let covered = packets.iter().enumerate()
                    .map(|(n, packet)| (number(n), &packet[..], header_len, holes(n)));
                sum(id, covered, &mut octets);
                let mask = Mask::new(&mask).unwrap();
                let repair = Repair {
                    flow: super::super::wire::FlowId(1), first: Seq(0), repeat: Seq(id),
                    protocol: protocol::TCP, mask, sum: &octets,
                };
                let known = |seq: u64| {
                    let n = usize::try_from(seq - u64::from(first)).unwrap();
                    !lost[n] && !late(n)
                };
                decoder.handle_repair(&repair, first.into(), known, &mut pool);
            }
            arrives(&mut decoder, &mut pool, true);

            let header = packets[0][..header_len].to_vec();
            let mut recovered = Vec::new();
            while let Some((seq, packet, has_hole)) =
                decoder.poll_recovered(&header, protocol::TCP, &mut pool)
            {
                decoder.handle_packet(seq, &packet, header_len, has_hole, &mut pool);
                recovered.push((usize::try_from(seq - u64::from(first)).unwrap(), packet, has_hole));
            }
            recovered.sort();
            let expected: Vec<_> =
                missing.iter().map(|&n| (n, packets[n].clone(), holes(n))).collect();
            prop_assert_eq!(recovered, expected);
            prop_assert!(decoder.rows.is_empty());
        }
    }

    #[test]
    fn what_is_kept_and_what_waits_stays_within_bounds() {
        let (mut decoder, mut pool) = (Decoder::default(), Pool::default());
        let one = packet(true, &[7; 10], 1);
        for n in 0..=255 {
            decoder.handle_packet(n, &one, V4_HEADER, false, &mut pool);
        }
        assert_eq!(decoder.kept.len(), KEPT);

        for id in 0..100 {
            let mask = [0xff; 16];
            let repair = Repair {
                flow: super::super::wire::FlowId(1),
                first: Seq(0),
                repeat: Seq(id),
                protocol: 6,
                mask: Mask::new(&mask).unwrap(),
                sum: &[id.to_le_bytes()[0]; 30],
            };
            decoder.handle_repair(&repair, 0, |_| false, &mut pool);
        }
        assert_eq!(decoder.rows.len(), WAITING);
    }

    #[test]
    fn a_sum_that_gives_no_packet_of_the_flow_gives_nothing() {
        for (version, is_given) in [(6, true), (4, false)] {
            let (mut decoder, mut pool) = (Decoder::default(), Pool::default());
            let lost = packet(false, &[7; 10], 1);
            let mut sum_of_it = Vec::new();
            sum(3, std::iter::once((0, &lost[..], V6_HEADER, false)), &mut sum_of_it);
            // The coefficient of the octet that follows the length.
            sum_of_it[2] = gf::multiply(coefficient(3, 0), version << 4);
            let repair = Repair {
                flow: super::super::wire::FlowId(1),
                first: Seq(0),
                repeat: Seq(3),
                protocol: protocol::TCP,
                mask: Mask::new(&[1]).unwrap(),
                sum: &sum_of_it,
            };
            decoder.handle_repair(&repair, 0, |_| false, &mut pool);

            let given = decoder.poll_recovered(&lost[..V6_HEADER], protocol::TCP, &mut pool);

            assert_eq!(given.map(|(_, packet, _)| packet), is_given.then_some(lost));
        }
    }
}
