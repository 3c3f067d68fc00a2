//! Deadlines, the earliest first.
//!
//! Every owner of a deadline remembers the time noted here. A deadline moved back stays noted until it expires
//! and is checked then, so an arriving part costs nothing here.

use std::collections::BTreeSet;

use base::time::Time;

use crate::s5066::Address;

/// Identifies a datagram of this process; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DatagramId(pub u64);

/// Identifies a stream of this process; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StreamId(pub u64);

/// The owner of a deadline.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    Datagram(DatagramId),
    Peer(Address),
    Stream(StreamId),
}

#[derive(Debug, Default)]
pub struct Timers {
    due: BTreeSet<(Time, Timer)>,
}

impl Timers {
    /// Lets `timer` be due at `at`, if `noted` is none or later.
    pub fn set(&mut self, noted: &mut Option<Time>, at: Option<Time>, timer: Timer) {
        let Some(at) = at else { return };
        if noted.is_none_or(|noted| at < noted) {
            self.clear(noted, timer);
            self.due.insert((at, timer));
            *noted = Some(at);
        }
    }

    pub fn clear(&mut self, noted: &mut Option<Time>, timer: Timer) {
        if let Some(at) = noted.take() {
            self.due.remove(&(at, timer));
        }
    }

    /// Takes one that is due.
    pub fn take(&mut self, now: Time) -> Option<Timer> {
        let (at, timer) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        Some(timer)
    }

    pub fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}
