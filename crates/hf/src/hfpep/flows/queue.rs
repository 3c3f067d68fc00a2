//! The queue of a flow: datagrams to be sent or acknowledged, within a bound.

use std::collections::VecDeque;

use crate::slep::DatagramId;

/// Octets charged for a datagram beside its own.
const EACH: usize = 64;

/// Datagrams of a flow that SLEP has not sent yet, or that wait for the other end's acknowledgement. SLEP has a bound
/// for all flows together; without a bound for each flow, one flow would keep the others out.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<(DatagramId, usize)>,
    octets: usize,
}

impl Queue {
    /// Whether there is room for so many octets more; `waits` says whether a datagram still does.
    pub fn has_room(
        &mut self,
        len: usize,
        most: usize,
        waits: impl Fn(DatagramId) -> bool,
    ) -> bool {
        while let Some((_, octets)) = self.waiting.pop_front_if(|(id, _)| !waits(*id)) {
            self.octets -= octets;
        }
        if self.octets + len + EACH > most {
            self.waiting.retain(|(id, _)| waits(*id));
            self.octets = self.waiting.iter().map(|(_, octets)| octets).sum();
        }
        self.octets + len + EACH <= most
    }

    /// Notes a datagram that waits.
    pub fn note(&mut self, id: DatagramId, len: usize) {
        self.waiting.push_back((id, len + EACH));
        self.octets += len + EACH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_makes_room_wherever_it_stands() {
        let mut queue = Queue::default();
        let most = 3 * (10 + EACH);
        for id in 1..=3 {
            assert!(queue.has_room(10, most, |_| true));
            queue.note(DatagramId(id), 10);
        }

        assert!(!queue.has_room(0, most, |_| true));
        assert!(!queue.has_room(11, most, |id| id != DatagramId(2)));
        assert!(queue.has_room(10, most, |id| id != DatagramId(2)));
        queue.note(DatagramId(4), 10);
        assert!(!queue.has_room(0, most, |id| id != DatagramId(2)));
        assert!(queue.has_room(2 * 10 + EACH, most, |id| id == DatagramId(4)));
    }
}
