//! Bounds the hellos that answer stations which are no neighbours.

use std::collections::VecDeque;
use std::time::Duration;

use base::ethernet::Mac;
use base::time::Time;

/// Between two answers on an interface, and between two to one station; both grow with the crowd there.
const INTERVAL: Duration = Duration::from_millis(100);
const SAME_STATION: Duration = Duration::from_millis(300);

/// The answers to strangers on one interface.
#[derive(Debug, Default)]
pub struct Strangers {
    /// The stations answered lately, the latest last: few, because an interval has room for one answer.
    answered: VecDeque<(Mac, Time)>,
    /// The stranger that gets a hello, and when.
    pub next: Option<(Mac, Time)>,
}

impl Strangers {
    /// Whether a station may be answered now, where everybody talks so many times less; notes that it is.
    pub fn admit(&mut self, now: Time, station: Mac, crowd: u32) -> bool {
        self.answered.retain(|&(_, at)| now.since(at) < SAME_STATION * crowd);
        let is_soon = self.answered.back().is_some_and(|&(_, at)| now.since(at) < INTERVAL * crowd);
        if is_soon || self.answered.iter().any(|&(answered, _)| answered == station) {
            return false;
        }
        self.answered.push_back((station, now));
        true
    }
}
