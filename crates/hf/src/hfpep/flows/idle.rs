//! When flows were last used.

use std::collections::BTreeSet;

use base::time::Time;

/// Flows by the time at which they are forgotten.
#[derive(Debug)]
pub(super) struct Idle<K>(BTreeSet<(Time, K)>);

impl<K: Copy + Ord> Idle<K> {
    pub(super) const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Moves a flow to another time, from the one that it had.
    pub(super) fn set(&mut self, until: &mut Time, at: Time, key: K) {
        self.0.remove(&(*until, key));
        *until = at;
        self.0.insert((at, key));
    }

    /// Moves a flow to a later time; never to an earlier one.
    pub(super) fn extend(&mut self, until: &mut Time, at: Time, key: K) {
        let at = at.max(*until);
        self.set(until, at, key);
    }

    pub(super) fn remove(&mut self, until: Time, key: K) {
        self.0.remove(&(until, key));
    }

    /// The next flow whose time has come.
    pub(super) fn take(&mut self, now: Time) -> Option<K> {
        let (_, key) = self.0.first().copied().filter(|(until, _)| *until <= now)?;
        self.0.pop_first();
        Some(key)
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|(until, _)| *until)
    }
}
