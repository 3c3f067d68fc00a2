//! Collects notices about other nodes until the driver fetches them for an operator.

use std::collections::BTreeSet;

use super::Notice;

/// Notices that wait: each once, and a few at most, since whoever is in radio range can cause them.
#[derive(Debug, Default)]
pub struct Notices(BTreeSet<Notice>);

/// Notices between two polls. Counters say how often there was a reason.
const MOST: usize = 8;

impl Notices {
    pub fn add(&mut self, notice: Notice) {
        if self.0.len() < MOST {
            self.0.insert(notice);
        }
    }

    pub fn poll(&mut self) -> Option<Notice> {
        self.0.pop_first()
    }
}
