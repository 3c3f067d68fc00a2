//! Queue of messages to send.

use std::collections::{BTreeMap, VecDeque};

use base::time::Time;

use super::super::Sending;

/// Messages that wait to be sent.
#[derive(Debug)]
pub struct Outbox {
    /// Messages on an interface at most.
    most: usize,
    queues: BTreeMap<usize, Queue>,
    next: u64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Delayed messages, ordered by time, then in the order of writing.
    delayed: BTreeMap<(Time, u64), Queued>,
    /// Those that wait for room.
    ready: VecDeque<Queued>,
}

#[derive(Debug)]
struct Queued {
    sending: Sending,
    octets: Vec<u8>,
}

impl Outbox {
    pub fn new(most: usize) -> Self {
        Self { most, queues: BTreeMap::new(), next: 0 }
    }

    /// Lets a message wait until `at`, or for room only; false if too many wait.
    #[must_use]
    pub fn push(
        &mut self,
        interface: usize,
        at: Option<Time>,
        sending: Sending,
        octets: Vec<u8>,
    ) -> bool {
        let queue = self.queues.entry(interface).or_default();
        if queue.delayed.len() + queue.ready.len() >= self.most {
            return false;
        }
        let queued = Queued { sending, octets };
        match at {
            Some(at) => {
                queue.delayed.insert((at, self.next), queued);
                self.next += 1;
            }
            None => queue.ready.push_back(queued),
        }
        true
    }

    /// Messages that wait on an interface.
    pub fn waiting(&self, interface: usize) -> usize {
        self.queues.get(&interface).map_or(0, |queue| queue.delayed.len() + queue.ready.len())
    }

    /// Messages whose time has come wait for room from now on.
    pub fn handle_timeout(&mut self, now: Time) {
        for queue in self.queues.values_mut() {
            while let Some(first) = queue.delayed.first_entry()
                && first.key().0 <= now
            {
                queue.ready.push_back(first.remove());
            }
        }
    }

    pub fn poll(&mut self, interface: usize, out: &mut Vec<u8>) -> Option<Sending> {
        let queued = self.queues.get_mut(&interface)?.ready.pop_front()?;
        out.clear();
        out.extend_from_slice(&queued.octets);
        Some(queued.sending)
    }

    /// Forgets all messages on an interface.
    pub fn forget(&mut self, interface: usize) {
        self.queues.remove(&interface);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let first = |queue: &Queue| Some(queue.delayed.first_key_value()?.0.0);
        self.queues.values().filter_map(first).min()
    }
}
