//! How much all transfers together may have under way.
//!
//! It is `queue` at first, which even a slow radio sends in seconds. By profile `default` it follows the
//! round trips from there, as LEDBAT does (RFC 6817): as long as a round trip takes hardly more than the
//! shortest one, nothing waits anywhere, and what arrives makes room for as much again; when it takes
//! much more, there is a queue below, and the room shrinks, to `queue` at least.
//!
//! ```text
//!  round trip   shortest |  + 25 ms or 1/4  |  + 50 ms or 1/2  |
//!               it grows |    it stays      |   it shrinks by an eighth each round trip
//! ```

use std::time::Duration;

use base::time::Time;

use crate::config::{Config, Profile};
use crate::estimate::Trip;

/// What destinations and the way to them bear.
#[derive(Debug)]
pub(super) struct Room {
    octets: u32,
    /// It has shrunk, and does not again before.
    shrunk_until: Time,
}

/// Below this a queue does not count: clocks, computers and disks take as long.
const LITTLE: Duration = Duration::from_millis(25);

impl Room {
    pub(super) fn new(config: &Config) -> Self {
        Self { octets: config.flow.queue, shrunk_until: Time::ZERO }
    }

    pub(super) fn octets(&self) -> u32 {
        self.octets
    }

    /// An answer tells that `arrived` octets are acknowledged; `load` were under way when it was asked for.
    pub(super) fn handle_trip(
        &mut self,
        now: Time,
        config: &Config,
        trip: Trip,
        (load, arrived): (u64, u32),
    ) {
        if config.profile != Profile::Default {
            return;
        }
        let (least, most) = (config.flow.queue, config.flow.most_queue);
        let Trip { took, shortest } = trip;
        let waited = took.saturating_sub(shortest);
        // What is not used tells nothing of what there is room for.
        let is_used = load * 2 >= u64::from(self.octets);
        if waited <= LITTLE.max(shortest / 4) {
            if is_used {
                self.octets = self.octets.saturating_add(arrived).min(most).max(least);
            }
        } else if waited > (LITTLE * 2).max(shortest / 2) && now >= self.shrunk_until {
            self.octets = (self.octets - self.octets / 8).max(least);
            self.shrunk_until = now + took;
        }
    }

    /// A destination did not answer in time.
    pub(super) fn handle_silence(&mut self, config: &Config) {
        self.octets = (self.octets / 2).max(config.flow.queue);
    }
}
