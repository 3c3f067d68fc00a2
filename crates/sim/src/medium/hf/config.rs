//! Configuration of an HF frequency, and counters of its stations.

use std::time::Duration;

use hf::modem::Waveform;
use hf::s5066::{Address, node};

use super::channel::Channel;

/// A station, identified by its index in the medium.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StationId(pub usize);

/// Equipment and propagation delays. The defaults add up to the shortest turnaround claimed for
/// equipment, 150 to 200 ms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// The time from the command to transmit until the preamble begins.
    pub key_up: Duration,
    /// The time from the end of the last block until the station listens again.
    pub key_down: Duration,
    /// The time from the end of a block at the receiver until its octets are decoded.
    pub decoder: Duration,
    /// The propagation delay between two stations: 3.3 ms for each 1,000 km.
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
    /// Creates the configuration of a node that knows its modem's delays.
    #[must_use]
    pub fn station(&self, address: Address, waveform: Waveform) -> node::Config {
        let config = node::Config::new(address, waveform);
        node::Config { switching: self.key_up, decoding: self.decoder, ..config }
    }
}

/// The properties of a medium.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Config {
    /// The channel between any two stations, unless it is changed for a pair.
    pub channel: Channel,
    /// Equipment and propagation delays.
    pub timing: Timing,
}

/// The counters of a station.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Transmissions begun.
    pub transmissions: u64,
    /// Blocks sent.
    pub blocks: u64,
    /// Zero octets sent because the station supplied its data too late.
    pub underrun_octets: u64,
    /// Octets refused because there was no room.
    pub refused_octets: u64,
    /// Commands to transmit refused because a transmission was under way.
    pub refused_starts: u64,
    /// Transmissions whose preamble was missed: it collided, or the station began to listen too late.
    pub unreadable: u64,
    /// Receptions aborted because the station began to transmit.
    pub receptions_cut: u64,
    /// Unrecognised ends of message.
    pub missed_ends: u64,
}
