//! Numbers our conversations without remembering to whom each number was told.
//!
//! A number is a function of the station, its boot and an epoch, under a key that is drawn at each
//! start. So a station that we forgot after telling it the number, because too many others said hello,
//! still proves with the number that it hears us. A new epoch begins when a neighbour is forgotten and
//! after some time, and no number is used for two conversations.

use std::hash::Hasher as _;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use siphasher::sip::SipHasher24;

use super::Place;

#[derive(Debug)]
pub(super) struct Sessions {
    key: (u64, u64),
    epoch: u64,
    since: Time,
}

impl Sessions {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self { key: (rng.bits(), rng.bits()), epoch: 0, since: Time::ZERO }
    }

    /// Our number of a conversation with the station at `place` that started as `boot`: never 0.
    pub(super) fn number(&self, (interface, station): Place, boot: u64) -> u32 {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hasher.write(&self.epoch.to_be_bytes());
        hasher.write(&(interface as u64).to_be_bytes());
        hasher.write(&station.0);
        hasher.write(&boot.to_be_bytes());
        let [a, b, c, d, ..] = hasher.finish().to_be_bytes();
        u32::from_be_bytes([a, b, c, d]).max(1)
    }

    /// Begins a new epoch: numbers told before prove nothing any more.
    pub(super) fn renew(&mut self, now: Time) {
        self.epoch += 1;
        self.since = now;
    }

    /// Begins a new epoch if this one has lasted for so long.
    pub(super) fn renew_after(&mut self, now: Time, time: Duration) {
        if now.since(self.since) >= time {
            self.renew(now);
        }
    }
}
