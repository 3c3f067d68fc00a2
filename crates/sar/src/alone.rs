//! Destinations that are asked each alone, because they did not answer as others of their group did.

use super::destination::Destination;

/// Whom a question is for that does not go to all, some at a time.
#[derive(Debug, Default)]
pub(super) struct Alone {
    asked: Vec<usize>,
    /// Those of them to whom the question has not been sent.
    unsent: Vec<usize>,
}

/// Destinations that are asked at a time: on a radio channel many answers at once destroy each other.
const AT_ONCE: usize = 3;

impl Alone {
    /// Plans to ask some of those that have not answered, the least asked ones first.
    pub(super) fn plan(&mut self, destinations: &[Destination]) {
        let silent = destinations.iter().enumerate().filter(|(_, it)| it.is_silent());
        let mut silent: Vec<(u8, usize)> = silent.map(|(index, it)| (it.requests, index)).collect();
        silent.sort_unstable();
        silent.truncate(AT_ONCE);
        self.asked = silent.into_iter().map(|(_, index)| index).collect();
        self.unsent.clone_from(&self.asked);
    }

    pub(super) fn clear(&mut self) {
        self.asked.clear();
        self.unsent.clear();
    }

    /// Nobody is asked alone: the question is for all.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether the question is for this destination.
    pub(super) fn concerns(&self, index: usize) -> bool {
        self.is_empty() || self.asked.contains(&index)
    }

    /// Whether all who were asked have answered.
    pub(super) fn is_done(&self, destinations: &[Destination]) -> bool {
        let is_done = |index: &usize| !destinations[*index].is_silent();
        self.unsent.is_empty() && !self.is_empty() && self.asked.iter().all(is_done)
    }

    /// Whom to send the question next.
    pub(super) fn next(&self) -> Option<usize> {
        self.unsent.last().copied()
    }

    pub(super) fn pop(&mut self) {
        self.unsent.pop();
    }

    /// Forgets to ask those who have answered.
    pub(super) fn prune(&mut self, destinations: &[Destination]) {
        self.unsent.retain(|index| destinations[*index].is_silent());
    }
}
