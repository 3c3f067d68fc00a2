//! The queue of future events, in order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use base::time::Time;

use super::packets::PacketId;
use crate::ids::{MediumId, NodeId, PortId};

/// Something that will happen.
///
/// Events at one instant are ordered by scheduler, then by the scheduler's event number. The order
/// does not depend on the order of insertion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) time: Time,
    order: Order,
    pub(crate) kind: Kind,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The last bit of a packet reaches a port.
    Arrive { port: PortId, from: PortId, packet: PacketId },
    /// Something in the world's plan is due.
    Change { index: u32 },
    /// A port may transmit again.
    Idle { port: PortId },
    /// Something that a medium asked for.
    Medium { medium: MediumId, token: u32 },
    /// A node's earliest deadline, unless that has moved.
    Wake { node: NodeId },
}

impl Event {
    pub(crate) fn new(time: Time, order: Order, kind: Kind) -> Self {
        Self { time, order, kind }
    }

    fn key(&self) -> (Time, Order) {
        (self.time, self.order)
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Event {}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

/// The scheduler of an event (24 bits), and the scheduler's event number (40 bits).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Order(u64);

/// Generates the order keys of one scheduler's events.
#[derive(Debug)]
pub(crate) struct Sequence(Order);

impl Sequence {
    /// Sequence of the world itself: its changes precede actions of nodes at the same instant.
    pub(crate) const WORLD: Self = Self(Order(0));

    /// Sequence of a medium: before all nodes, so that nodes act with all receptions of the instant known.
    pub(crate) fn of_medium(medium: MediumId) -> Self {
        assert!(medium.0 < MEDIA - 1, "a world has fewer than 2^23 media");
        Self(Order((u64::from(medium.0) + 1) << 40))
    }

    pub(crate) fn of_node(node: NodeId) -> Self {
        assert!(node.0 < MEDIA, "a world has fewer than 2^23 nodes");
        Self(Order(u64::from(MEDIA + node.0) << 40))
    }

    pub(crate) fn next(&mut self) -> Order {
        self.0.0 += 1;
        self.0
    }
}

/// Most media among the schedulers.
const MEDIA: u32 = 1 << 23;

/// A heap of events; nothing is ever removed from its middle.
#[derive(Debug, Default)]
pub struct Queue(BinaryHeap<Reverse<Event>>);

impl Queue {
    pub fn push(&mut self, event: Event) {
        self.0.push(Reverse(event));
    }

    /// The earliest event, when it is not after `limit`.
    pub fn pop_until(&mut self, limit: Time) -> Option<Event> {
        if self.next_time()? > limit {
            return None;
        }
        self.0.pop().map(|Reverse(event)| event)
    }

    pub fn next_time(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(event)| event.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_is_ordered_by_scheduler_then_count_whatever_the_insertion() {
        let at = |nanos, order| {
            Event::new(Time::from_nanos(nanos), order, Kind::Wake { node: NodeId(0) })
        };
        let (mut world, mut first, mut second) =
            (Sequence::WORLD, Sequence::of_node(NodeId(0)), Sequence::of_node(NodeId(1)));
        let events = [
            at(5, world.next()),
            at(5, first.next()),
            at(5, first.next()),
            at(5, second.next()),
            at(6, world.next()),
        ];
        let expected = events.map(|event| event.key());

        for rotation in 0..events.len() {
            let mut queue = Queue::default();
            for index in 0..events.len() {
                queue.push(events[(index + rotation) % events.len()]);
            }
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop_until(Time::MAX))
                .map(|event| event.key())
                .collect();

            assert_eq!(popped, expected);
        }
    }

    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 32);
    }
}
