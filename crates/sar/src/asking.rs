//! Decides which destinations of a transfer to ask for an answer: all of them, or single ones.

use base::time::Time;

use super::destination::Destination;
use super::outgoing::{Next, Outgoing};
use super::polls::Poll;

impl Outgoing {
    /// A question went out.
    pub(super) fn handle_asked(&mut self, now: Time, next: Next, load: u64) {
        // Answers of several destinations are spread in time, so they prove nothing about distance.
        let is_clean = self.timing.timeouts == 0 && !self.is_shared();
        if is_clean {
            self.timing.asked_at = Some(now);
        }
        let number = match next {
            Next::Segment { place, .. } => Some(place.number()),
            Next::Ask | Next::AskOne(_) | Next::Repair(_) => None,
        };
        if number.is_none() {
            self.polls.clear();
        }
        let is_first = self.polls.is_empty();
        let transmission = self.transmissions;
        self.polls.push(Poll { transmission, number, at: now, load, is_clean });
        if is_first {
            self.expect_answers();
        }
    }

    /// The first question waits for its answer.
    pub(super) fn expect_answers(&mut self) {
        for destination in self.destinations.iter_mut().filter(|it| it.is_active) {
            destination.requests = destination.requests.saturating_add(1);
            destination.has_answered = false;
            destination.asked_alone = None;
        }
        self.alone.clear();
    }

    /// Whether several destinations share what is sent.
    pub(super) fn is_shared(&self) -> bool {
        self.active().nth(1).is_some()
    }

    /// Destinations of the question in flight.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Destination> {
        let all = self.destinations.iter().enumerate();
        all.filter(|(index, it)| it.is_active && self.alone.concerns(*index)).map(|(_, it)| it)
    }

    /// A question went out to a single destination; the answers of the others count.
    pub(super) fn handle_asked_one(&mut self, now: Time, index: usize) {
        let destination = &mut self.destinations[index];
        // The group was asked once, and now it.
        destination.asked_alone = (destination.requests == 1).then_some(now);
        destination.requests = destination.requests.saturating_add(1);
        self.polls.blur();
    }
}
