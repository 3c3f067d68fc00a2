//! Gives memory back to the kernel some time after much of the memory in use was freed.
//!
//! A burst of connections leaves the heap full of holes. The allocator keeps the holes, as states of compression and
//! queues lie among the remaining data; only the end of the process would give the holes back.

use std::time::Duration;

use base::time::Time;

use crate::sys::heap;

/// Estimated octets of memory per connection, compression included.
const EACH: usize = 300 << 10;
/// So much has to be gone.
const MUCH: usize = 4 << 20;
/// How long it has to be gone: a burst is over then.
const CALM: Duration = Duration::from_secs(10);

/// What was kept at most since memory was given back last.
#[derive(Debug, Default)]
pub struct Slack {
    greatest: usize,
    due: Option<Time>,
}

impl Slack {
    /// Takes the number of streams now and the octets in them; gives memory back if this is due.
    pub fn follow(&mut self, now: Time, streams: u64, octets: u64) {
        if self.is_due(now, usize::try_from(streams * EACH as u64 + octets).unwrap_or(usize::MAX)) {
            heap::give_back();
        }
    }

    fn is_due(&mut self, now: Time, kept: usize) -> bool {
        self.greatest = self.greatest.max(kept);
        if self.greatest - kept < MUCH.max(self.greatest / 2) {
            self.due = None;
            return false;
        }
        if *self.due.get_or_insert(now + CALM) > now {
            return false;
        }
        (self.greatest, self.due) = (kept, None);
        true
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_much_of_it_has_been_gone_for_a_while() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut slack = Slack::default();

        let said = [
            (0, 1 << 20),
            (1, 0),
            (20, 0),
            (21, 64 << 20),
            (22, 40 << 20),
            (23, 1 << 20),
            (30, 1 << 20),
            (31, 60 << 20),
            (32, 0),
            (41, 0),
            (42, 0),
            (60, 0),
        ]
        .map(|(seconds, kept)| slack.is_due(at(seconds), kept));

        let due: Vec<_> = (0..).zip(said).filter(|(_, is_due)| *is_due).map(|it| it.0).collect();
        assert_eq!((due, slack.next_timeout()), (vec![10], None));
    }
}
