//! Durations of frames and gaps in nanoseconds, computed from the configuration.

use std::time::Duration;

use base::quantity::BitRate;
use base::time::nanos;

use super::Config;
use super::frame::FrameKind;

/// Octets of an RTS frame, its check sequence included.
pub const RTS: u32 = 20;
/// Octets of a CTS or ACK frame, its check sequence included.
pub const ANSWER: u32 = 14;

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub slot: u64,
    pub sifs: u64,
    pub difs: u64,
    pub eifs: u64,
    pub patience: u64,
    pub rts: u64,
    /// A CTS or ACK.
    pub answer: u64,
    preamble: Duration,
    header: u32,
    basic: BitRate,
    fast: BitRate,
}

impl Timing {
    pub fn new(config: &Config) -> Self {
        let Config { preamble, basic_rate, data_rate, .. } = *config;
        let (slot, sifs) = (nanos(config.slot).max(1), nanos(config.sifs));
        Self {
            slot,
            sifs,
            difs: sifs + 2 * slot,
            eifs: nanos(config.eifs),
            patience: nanos(config.patience).max(1),
            rts: air_time(preamble, basic_rate, RTS),
            answer: air_time(preamble, basic_rate, ANSWER),
            preamble,
            header: config.header,
            basic: basic_rate,
            fast: data_rate,
        }
    }

    /// A data frame with so many octets inside.
    pub fn data(&self, octets: u32, is_broadcast: bool) -> u64 {
        let rate = if is_broadcast { self.basic } else { self.fast };
        air_time(self.preamble, rate, octets.saturating_add(self.header))
    }

    /// How long the exchange lasts that an RTS begins, from its end on.
    pub fn after_rts(&self, octets: u32) -> u64 {
        self.sifs + self.answer + self.after_cts(octets)
    }

    /// The same from the end of the CTS on.
    pub fn after_cts(&self, octets: u32) -> u64 {
        self.sifs + self.data(octets, false) + self.after_data()
    }

    /// The same from the end of the data on.
    pub fn after_data(&self) -> u64 {
        self.sifs + self.answer
    }
}

/// How long a frame is on the air: its bits fill whole microseconds, as in the DSSS header's length.
fn air_time(preamble: Duration, rate: BitRate, octets: u32) -> u64 {
    let octets = usize::try_from(octets).unwrap_or(usize::MAX);
    nanos(preamble) + nanos(rate.time_for(octets)).div_ceil(1_000) * 1_000
}

/// How long frames and whole exchanges are on the air, for tables and models.
#[derive(Clone, Copy, Debug)]
pub struct AirTime(Timing);

impl AirTime {
    /// Computes the times for a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self(Timing::new(config))
    }

    /// A frame; `octets` is what a data frame carries and counts for no other.
    #[must_use]
    pub fn frame(&self, kind: FrameKind, octets: u32) -> Duration {
        Duration::from_nanos(match kind {
            FrameKind::Ack | FrameKind::Cts => self.0.answer,
            FrameKind::Broadcast => self.0.data(octets, true),
            FrameKind::Data => self.0.data(octets, false),
            FrameKind::Rts => self.0.rts,
        })
    }

    /// DIFS, RTS, CTS, data and ACK with the gaps between them; without any back-off.
    #[must_use]
    pub fn exchange(&self, octets: u32) -> Duration {
        Duration::from_nanos(self.0.difs + self.0.rts + self.0.after_rts(octets))
    }

    /// DIFS, data and ACK; without any back-off.
    #[must_use]
    pub fn short_exchange(&self, octets: u32) -> Duration {
        Duration::from_nanos(self.0.difs + self.0.data(octets, false) + self.0.after_data())
    }
}
