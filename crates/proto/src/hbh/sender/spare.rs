//! What a flow sends over a link that has nothing else to do.

use super::super::repair;
use super::super::wire::{self, Data, MAX_BUDGET, REPAIR};
use super::{Choice, Sender, State};
use crate::ip::V6_HEADER;
use crate::time::Time;

/// Octets that a repair has more than the longest packet in it: IPv6 header, HBH and its own.
const REPAIR_OVERHEAD: usize = V6_HEADER + wire::HEADER + repair::HEADER;

impl Sender {
    /// What an idle link that loses packets at this rate may send without being asked.
    ///
    /// Enough sums of what flies to make good the losses to be expected among it and their standard
    /// deviation; copies where there is but one packet, or where a sum would be longer than `mtu`.
    pub(in crate::hbh) fn choose_spare(&self, loss: f64, mtu: usize) -> Option<Choice> {
        let flying = || {
            self.flight.iter().enumerate().filter_map(|(index, slot)| match &slot.state {
                State::Flying(packet) if packet.is_waited_for() => Some((index, slot, packet)),
                _ => None,
            })
        };
        let count = flying().count() as f64;
        let longest = flying().map(|(_, _, packet)| packet.octets.len()).max()?;
        if count < 2.0 || longest + REPAIR_OVERHEAD > mtu {
            return flying()
                .find(|(_, slot, _)| slot.copies < 2_u8.saturating_add(slot.retries))
                .map(|(index, _, _)| Choice::Spare(index));
        }
        let oldest = flying().map(|(_, slot, _)| slot.order).min()?;
        let under_way = self.repairs.iter().filter(|(order, _)| *order > oldest).count() as f64;
        let losses = count * loss + libm::sqrt(count * loss * (1.0 - loss));
        (under_way < losses.ceil()).then_some(Choice::Repair)
    }

    /// Sends a sum of what flies: the message, without an IP header.
    pub(in crate::hbh) fn emit_repair(&mut self, now: Time, sum: &mut Vec<u8>, out: &mut Vec<u8>) {
        self.order += 1;
        self.last_sent = now;
        let oldest = self.flight.iter().map(|slot| slot.order).min().unwrap_or(0);
        self.repairs.retain(|(order, _)| *order > oldest);
        // The first sum is of all, those after it are of halves, drawn by their number.
        let is_first = self.repairs.is_empty();
        self.repairs.push_back((self.order, now));
        let order = self.order;
        let is_covered = |index: u32| {
            let mut hash = (order << 8 | u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 31;
            is_first || hash.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 63 == 1
        };
        let mut budget = MAX_BUDGET;
        let packets = (0..).zip(&self.flight).filter_map(|(index, slot)| match &slot.state {
            State::Flying(packet) if packet.is_waited_for() && is_covered(index) => {
                budget = budget.min(packet.budget);
                Some((index, &packet.octets[..]))
            }
            _ => None,
        });
        sum.clear();
        repair::emit(packets, sum);
        let data = Data {
            flow: self.id,
            seq: self.base(),
            wants_ack: false,
            outstanding: 0,
            budget,
            copy: 0,
            protocol: REPAIR,
            payload: sum,
        };
        data.emit(out);
    }
}
