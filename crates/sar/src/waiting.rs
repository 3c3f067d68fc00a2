//! The queue of messages: ordered by precedence, then by arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use base::time::Time;

use super::deadlines::Deadlines;
use super::message::{Message, MessageId, Options, Precedence};

/// Whose turn is earlier is less.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Turn {
    /// 0 is the highest precedence.
    rank: u8,
    order: u64,
}

impl Turn {
    pub fn new(precedence: Precedence, order: u64) -> Self {
        Self { rank: 5 - precedence.level(), order }
    }

    pub fn precedence(self) -> Precedence {
        Precedence::new(5 - self.rank)
    }
}

/// A message for a destination, or for several that a group reaches at once.
#[derive(Debug)]
pub struct Waiting {
    pub id: MessageId,
    pub message: Message,
    pub to: To,
    pub options: Options,
    pub expires: Option<Time>,
    /// The silent destination that keeps the message waiting.
    pub parked: Option<IpAddr>,
}

/// For whom.
#[derive(Clone, Debug)]
pub enum To {
    Several(Box<[IpAddr]>),
    Single(IpAddr),
}

impl To {
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Several(all) => all,
            Self::Single(one) => std::slice::from_ref(one),
        }
    }
}

/// All that wait.
#[derive(Debug, Default)]
pub struct Queue {
    all: BTreeMap<Turn, Waiting>,
    /// Messages ready to start when room becomes free.
    next: BTreeSet<Turn>,
    expiry: Deadlines<Turn>,
    octets: usize,
    /// Those that have been sent in part, and keep their numbers.
    begun: usize,
}

impl Queue {
    pub fn push(&mut self, turn: Turn, waiting: Waiting) {
        self.octets += waiting.message.data.len();
        self.begun += usize::from(waiting.options.resume.is_some());
        self.expiry.set(&mut None, waiting.expires, turn);
        self.next.insert(turn);
        self.all.insert(turn, waiting);
    }

    /// The next message in turn; parked messages are skipped.
    pub fn first(&self) -> Option<(Turn, &Waiting)> {
        let turn = *self.next.first()?;
        Some((turn, self.all.get(&turn)?))
    }

    /// It waits for a destination until [`Self::unpark`].
    pub fn park(&mut self, turn: Turn, address: IpAddr) {
        self.next.remove(&turn);
        if let Some(waiting) = self.all.get_mut(&turn) {
            waiting.parked = Some(address);
        }
    }

    /// It may start again.
    pub fn unpark(&mut self, turn: Turn) {
        if let Some(waiting) = self.all.get_mut(&turn) {
            waiting.parked = None;
            self.next.insert(turn);
        }
    }

    pub fn remove(&mut self, turn: Turn) -> Option<Waiting> {
        let waiting = self.all.remove(&turn)?;
        self.next.remove(&turn);
        self.expiry.set(&mut waiting.expires.clone(), None, turn);
        self.octets -= waiting.message.data.len();
        self.begun -= usize::from(waiting.options.resume.is_some());
        Some(waiting)
    }

    /// The turns of all waiting parts of a message. Their orders are consecutive and begin with the message's.
    pub fn of(&self, id: MessageId) -> Vec<Turn> {
        let of_rank = |rank| {
            let all = self.all.range(Turn { rank, order: id.0 }..);
            all.take_while(move |(turn, it)| turn.rank == rank && it.id == id)
                .map(|(turn, _)| *turn)
        };
        (0..=5).flat_map(of_rank).collect()
    }

    /// Takes one message with an expired lifetime.
    pub fn take_expired(&mut self, now: Time) -> Option<(Turn, Waiting)> {
        let turn = self.expiry.take(now)?;
        Some((turn, self.remove(turn)?))
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.expiry.next()
    }

    /// Messages that were sent in part.
    pub fn begun(&self) -> usize {
        self.begun
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn octets(&self) -> usize {
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ports, Resume};

    #[test]
    fn parts_of_a_message_are_found_by_its_number_and_those_sent_in_part_are_counted() {
        let mut queue = Queue::default();
        let to = To::Single(IpAddr::from([10, 0, 0, 1]));
        let message = Message { ports: Ports::default(), data: [7; 10].into() };
        let mut push = |precedence, id, order, is_begun: bool| {
            let resume = is_begun.then_some(Resume { serial: 7, segment: 10 });
            let precedence = Precedence::new(precedence);
            let options = Options { precedence, resume, ..Options::default() };
            let turn = Turn::new(precedence, order);
            let (id, message, to) = (MessageId(id), message.clone(), to.clone());
            queue.push(turn, Waiting { id, message, to, options, expires: None, parked: None });
            turn
        };
        let first = [push(3, 10, 10, true), push(3, 10, 11, false)];
        let second = [push(1, 12, 12, true)];
        push(3, 13, 13, false);

        assert_eq!(queue.of(MessageId(10)), first);
        assert_eq!(queue.of(MessageId(12)), second);
        assert_eq!((queue.len(), queue.begun(), queue.octets()), (4, 2, 40));
        queue.remove(first[0]);
        queue.remove(first[1]);
        assert_eq!((queue.len(), queue.begun(), queue.octets()), (2, 1, 20));
    }
}
