//! What a frequency is like, and what its stations count.

use std::time::Duration;

use proto::modem::Waveform;
use proto::s5066::{Address, node};

use super::channel::Channel;

/// A station, by its place in the medium.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StationId(pub usize);

/// How long what is not on the air takes. Ours: together the least turnaround that equipment is
/// said to reach, 150 to 200 ms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// From the command to transmit until the preamble begins: relay, amplifier, level control.
    pub key_up: Duration,
    /// From the end of the last block until the station listens again.
    pub key_down: Duration,
    /// From the end of a block at the receiver until its octets are there.
    pub decoder: Duration,
    /// From station to station; 3.3 ms for 1,000 km.
    pub propagation: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            key_up: Duration::from_millis(100),
            key_down: Duration::from_millis(20),
            decoder: Duration::from_millis(50),
            propagation: Duration::from_millis(5),
        }
    }
}

impl Timing {
    /// A station whose node knows how long its modem takes here.
    #[must_use]
    pub fn station(&self, address: Address, waveform: Waveform) -> node::Config {
        let config = node::Config::new(address, waveform);
        node::Config { switching: self.key_up, decoding: self.decoder, ..config }
    }
}

/// What a medium is like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Config {
    /// Between any two stations, unless told otherwise.
    pub channel: Channel,
    /// Delays.
    pub timing: Timing,
}

/// What a station did and met.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Transmissions begun.
    pub transmissions: u64,
    /// Blocks sent.
    pub blocks: u64,
    /// Octets of zero sent because the station was late.
    pub underrun_octets: u64,
    /// Octets that were offered when there was no room.
    pub refused_octets: u64,
    /// Commands to transmit while a transmission was under way.
    pub refused_starts: u64,
    /// Transmissions whose preamble another one hid, or that were on when listening began.
    pub unreadable: u64,
    /// Receptions given up to transmit.
    pub receptions_cut: u64,
    /// Ends of message that were not recognised.
    pub missed_ends: u64,
}
