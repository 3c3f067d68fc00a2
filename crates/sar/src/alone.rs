//! Destinations to ask one by one, because they stayed silent while others of their group answered.

use super::destination::Destination;

/// A question to some destinations only, sent to a few at a time.
#[derive(Debug, Default)]
pub(super) struct Alone {
    asked: Vec<usize>,
    /// Destinations that have not been sent the question yet.
    unsent: Vec<usize>,
}

/// Destinations that are asked at a time: on a radio channel many answers at once destroy each other.
const AT_ONCE: usize = 3;

impl Alone {
    /// Plans questions to some silent destinations, the least asked first.
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

    /// Drops destinations that have answered from the list to ask.
    pub(super) fn prune(&mut self, destinations: &[Destination]) {
        self.unsent.retain(|index| destinations[*index].is_silent());
    }
}
