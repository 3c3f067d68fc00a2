//! The sent but unacknowledged packets of a flow (nACKedQ), by their numbers.

use std::collections::VecDeque;

use base::time::Time;

use super::super::packet::Packet;
use super::super::wire::{COPIES, Seq};

/// From the lowest outstanding packet to the one before `next`.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) slots: VecDeque<Slot>,
    /// The number of the next packet.
    next: Seq,
    /// How many slots are in each of these states.
    pub(super) flying: usize,
    pub(super) lost: usize,
    /// The number of transmissions so far, which numbers the latest.
    pub(super) order: u64,
}

/// The place of one packet.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    /// The latest transmissions that carried it, and when they did, each at its copy's place.
    sent: [(u64, Time); COPIES as usize],
    /// Transmissions in all.
    copies: u64,
    /// Transmissions since it was last found lost.
    pub(super) flying_copies: u8,
    pub(super) retries: u8,
    /// The transmission that was counted as lost.
    pub(super) doubted: u64,
    pub(super) was_overtaken: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// The packet arrived, or was given up.
    Done,
    Flying(Packet),
    /// The packet is to be sent again.
    Lost(Packet),
}

impl Flight {
    /// The number of the lowest outstanding packet.
    pub(super) fn base(&self) -> Seq {
        self.next.minus(u8::try_from(self.slots.len()).expect("within the span"))
    }

    /// Takes a packet that is sent for the first time, and returns its place.
    pub(super) fn launch(&mut self, packet: Packet) -> usize {
        self.slots.push_back(Slot {
            state: State::Flying(packet),
            sent: [(0, Time::ZERO); COPIES as usize],
            copies: 0,
            flying_copies: 0,
            retries: 0,
            doubted: 0,
            was_overtaken: false,
        });
        self.next = self.next.plus(1);
        self.flying += 1;
        self.slots.len() - 1
    }

    /// Numbers a transmission.
    pub(super) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The place of the first lost packet; there is one.
    pub(super) fn first_lost(&self) -> usize {
        let is_lost = |slot: &Slot| matches!(slot.state, State::Lost(_));
        self.slots.iter().position(is_lost).expect("as many as counted")
    }

    /// Hands every packet back, oldest first, and forgets it.
    pub(super) fn take_back(&mut self, mut take: impl FnMut(Packet)) {
        for slot in self.slots.drain(..) {
            if let State::Flying(packet) | State::Lost(packet) = slot.state {
                take(packet);
            }
        }
        (self.flying, self.lost) = (0, 0);
    }

    /// Forgets the places before the lowest outstanding packet.
    pub(super) fn slide(&mut self) {
        while self.slots.front().is_some_and(|slot| matches!(slot.state, State::Done)) {
            self.slots.pop_front();
        }
    }
}

impl Slot {
    /// Notes a transmission.
    pub(super) fn handle_sent(&mut self, now: Time, order: u64) {
        self.copies += 1;
        self.flying_copies = self.flying_copies.saturating_add(1);
        self.sent[usize::from(self.copy())] = (order, now);
    }

    /// The number of the latest copy.
    #[expect(clippy::cast_possible_truncation, reason = "below COPIES")]
    pub(super) fn copy(&self) -> u8 {
        (self.copies.saturating_sub(1) % u64::from(COPIES)) as u8
    }

    /// The transmission that carried the latest copy of this number, and its time.
    pub(super) fn transmission(&self, copy: u8) -> Option<(u64, Time)> {
        (u64::from(copy) < self.copies).then(|| self.sent.get(usize::from(copy)).copied())?
    }

    /// Which transmission carried it last.
    pub(super) fn order(&self) -> u64 {
        self.sent[usize::from(self.copy())].0
    }

    /// When it was sent last.
    pub(super) fn sent_at(&self) -> Time {
        self.sent[usize::from(self.copy())].1
    }

    /// Octets of the packet.
    pub(super) fn packet_len(&self) -> usize {
        match &self.state {
            State::Done => 0,
            State::Flying(packet) | State::Lost(packet) => packet.octets.len(),
        }
    }
}
