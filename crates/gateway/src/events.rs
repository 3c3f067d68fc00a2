//! The last lines of the log, for who asks later how the gateway is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Lines that are kept.
const MOST: usize = 64;
/// Octets kept from a line at most.
const LONGEST: usize = 512;

/// A line of the log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Event {
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// How grave it is: `info`, `warn` or `error`.
    pub level: &'static str,
    /// What was said.
    pub what: String,
}

/// The last lines, shared by the log's writers and readers.
#[derive(Clone, Debug, Default)]
pub struct Recent(Arc<Mutex<VecDeque<Event>>>);

impl Recent {
    /// Keeps a line, cut if it is long, and forgets the oldest for it.
    pub fn push(&self, level: &'static str, what: &str) {
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let end = (0..=what.len().min(LONGEST)).rev().find(|&end| what.is_char_boundary(end));
        let what = what[..end.unwrap_or(0)].to_owned();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(Event { at_s, level, what });
    }

    /// All that are kept, the oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_between_letters() {
        let recent = Recent::default();

        recent.push("info", &format!("{}\u{e4}", "x".repeat(LONGEST - 1)));

        assert_eq!(recent.all()[0].what, "x".repeat(LONGEST - 1));
    }
}
