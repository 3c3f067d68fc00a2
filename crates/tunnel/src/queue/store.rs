//! Packets in linked lists, in buffers that are reused: a steady flow allocates nothing.

use base::time::Time;

use super::classify::Kind;

/// How many buffers are kept; more are freed.
const KEPT: usize = 1_024;

/// The packets of all flows.
#[derive(Debug, Default)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) octets: Vec<u8>,
    pub(super) note: Note,
    next: Option<usize>,
}

/// What is known about a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) arrived: Time,
    pub(super) kind: Kind,
    /// Octets of the packet's flow queued when the packet arrived.
    pub(super) ahead: usize,
}

/// Where a chain of packets starts and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: usize,
    last: usize,
}

impl Store {
    /// Puts a packet at the end of a chain.
    pub(super) fn append(&mut self, chain: &mut Option<Chain>, octets: &[u8], note: Note) {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { octets: Vec::new(), note, next: None });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[index];
        slot.octets.clear();
        slot.octets.extend_from_slice(octets);
        (slot.note, slot.next) = (note, None);
        match chain {
            Some(chain) => {
                self.slots[chain.last].next = Some(index);
                chain.last = index;
            }
            None => *chain = Some(Chain { first: index, last: index }),
        }
    }

    /// The first packet of a chain.
    pub(super) fn first(&mut self, chain: Chain) -> &mut Slot {
        &mut self.slots[chain.first]
    }

    /// Takes the first packet off a chain.
    pub(super) fn remove_first(&mut self, chain: &mut Option<Chain>) {
        let Some(Chain { first, last }) = *chain else { return };
        let slot = &mut self.slots[first];
        *chain = slot.next.take().map(|first| Chain { first, last });
        if self.free.len() >= KEPT {
            slot.octets = Vec::new();
        }
        self.free.push(first);
    }
}
