//! Limits how much all transfers together may have in flight.
//!
//! The limit is `queue` at first, an amount that even a slow radio sends in seconds. By profile `default` the limit
//! then follows the round trips, like LEDBAT (RFC 6817). While round trips hardly exceed the shortest one, nothing
//! waits anywhere, and the limit grows by the data that arrives. When round trips take much longer, a queue has formed
//! below, and the limit shrinks, to `queue` at least.
//!
//! ```text
//!  round trip   shortest |  + 25 ms or 1/4  |  + 50 ms or 1/2  |
//!               it grows |    it stays      |   it shrinks by an eighth each round trip
//! ```

use std::time::Duration;

use base::time::Time;

use crate::config::{Config, Profile};
use crate::estimate::Trip;

/// The octets that destinations and the path to them can take.
#[derive(Debug)]
pub struct Room {
    octets: u32,
    least: u32,
    most: u32,
    /// It has shrunk, and does not again before.
    shrunk_until: Time,
}

/// Below this a queue does not count: clocks, computers and disks take as long.
const LITTLE: Duration = Duration::from_millis(25);

impl Room {
    pub fn new(config: &Config) -> Self {
        let least = config.flow.queue;
        let most = if config.profile == Profile::Default { config.flow.most_queue } else { least };
        Self { octets: least, least, most, shrunk_until: Time::ZERO }
    }

    pub fn octets(&self) -> u32 {
        self.octets
    }

    /// An answer tells that `arrived` octets are acknowledged; `load` were under way when it was asked for.
    pub fn handle_trip(&mut self, now: Time, trip: Trip, load: u64, arrived: u32) {
        let Trip { took, shortest } = trip;
        let waited = took.saturating_sub(shortest);
        // An unused allowance says nothing about the available room.
        let is_used = load * 2 >= u64::from(self.octets);
        if waited <= LITTLE.max(shortest / 4) {
            if is_used {
                self.octets = self.octets.saturating_add(arrived).min(self.most).max(self.least);
            }
        } else if waited > (LITTLE * 2).max(shortest / 2) && now >= self.shrunk_until {
            self.octets = (self.octets - self.octets / 8).max(self.least);
            self.shrunk_until = now + took;
        }
    }

    /// A destination did not answer in time.
    pub fn handle_silence(&mut self) {
        self.octets = (self.octets / 2).max(self.least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_round_trips_within_its_bounds() {
        let mut config = Config::default();
        (config.flow.queue, config.flow.most_queue) = (8_000, 20_000);
        let mut room = Room::new(&config);
        let ms = Duration::from_millis;
        let mut now = Time::ZERO;
        let mut trip = |room: &mut Room, took, load| {
            room.handle_trip(now, Trip { took, shortest: ms(200) }, load, 5_000);
            now += ms(10);
            room.octets()
        };

        assert_eq!(trip(&mut room, ms(210), 3_000), 8_000, "it was not used");
        assert_eq!([(); 3].map(|()| trip(&mut room, ms(250), 8_000)), [13_000, 18_000, 18_000]);
        assert_eq!(trip(&mut room, ms(250), 10_000), 20_000);
        assert_eq!(trip(&mut room, ms(290), 20_000), 20_000, "neither short nor long");
        // By an eighth, once in the round trip.
        assert_eq!([(); 3].map(|()| trip(&mut room, ms(320), 20_000)), [17_500; 3]);
        for _ in 0..1_000 {
            trip(&mut room, ms(320), 20_000);
        }
        assert_eq!(room.octets(), 8_000);

        room.handle_silence();
        assert_eq!(room.octets(), 8_000);
        (0..3).for_each(|_| _ = trip(&mut room, ms(200), 20_000));
        room.handle_silence();
        assert_eq!(room.octets(), 10_000);
    }
}
