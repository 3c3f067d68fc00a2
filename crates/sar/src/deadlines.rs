//! A queue of deadlines, earliest first.

use std::collections::BTreeSet;

use base::time::Time;

/// Deadlines of many items, ordered by time. Each item keeps a copy of its own deadline.
#[derive(Debug)]
pub struct Deadlines<K> {
    due: BTreeSet<(Time, K)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self { due: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Deadlines<K> {
    /// Lets `key` be due at `at`, and no more when `noted` says.
    pub fn set(&mut self, noted: &mut Option<Time>, at: Option<Time>, key: K) {
        if *noted == at {
            return;
        }
        if let Some(old) = noted.take() {
            self.due.remove(&(old, key));
        }
        if let Some(at) = at {
            self.due.insert((at, key));
        }
        *noted = at;
    }

    /// Takes one that is due; its owner notes that.
    pub fn take(&mut self, now: Time) -> Option<K> {
        let (at, key) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        Some(key)
    }

    pub fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}
