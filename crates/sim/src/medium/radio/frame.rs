//! Frames that drivers hand to the medium, and events returned by the medium.

use base::time::Time;

use super::StationId;

/// A packet for the MAC of a station: the medium carries its token and its length, not its octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// What the driver knows the packet by.
    pub token: u32,
    /// Octets that the data frame carries.
    pub octets: u32,
    /// The destination station; `None` for every station in range.
    pub to: Option<StationId>,
}

/// The kinds of frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameKind {
    /// Says that data has arrived.
    Ack,
    /// Data for everybody.
    Broadcast,
    /// Clears the sender of an RTS to send.
    Cts,
    /// Data for one station.
    Data,
    /// Requests to send.
    Rts,
}

/// Events that a station reports to its driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The last attempt has failed; the station is ready for the next packet.
    Failed {
        /// The sending station.
        station: StationId,
        /// The frame given to the station.
        frame: Frame,
    },
    /// A data frame has arrived, for the first time.
    Received {
        /// The receiving station.
        station: StationId,
        /// The sending station.
        from: StationId,
        /// The sender's token for the packet.
        token: u32,
    },
    /// The packet was acknowledged, or was broadcast; the station is ready for the next. It comes
    /// after all who received the packet.
    Sent {
        /// The sending station.
        station: StationId,
        /// The frame given to the station.
        frame: Frame,
    },
    /// A frame has been on the air, while the medium is [observed](super::Medium::observe). This event comes
    /// before all events caused by the frame.
    Transmitted(Transmission),
}

/// A frame that has been on the air.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transmission {
    /// When its preamble began.
    pub start: Time,
    /// When its last bit was sent.
    pub end: Time,
    /// What it was.
    pub kind: FrameKind,
    /// Who sent it.
    pub from: StationId,
    /// The destination; `None` for everybody.
    pub to: Option<StationId>,
    /// The packet in a data frame; 0 in others.
    pub token: u32,
    /// Octets that a data frame carries; 0 in others.
    pub octets: u32,
    /// The duration field, in microseconds.
    pub duration: u16,
    /// The sequence number of a data frame.
    pub sequence: u16,
    /// Whether the same data frame was sent before.
    pub is_repeat: bool,
    /// Stations that could read it.
    pub heard: u32,
    /// Stations in range that could not: a collision, or they transmitted themselves.
    pub spoilt: u32,
    /// Whether the destination could read the frame; for a broadcast, whether any station could.
    pub is_received: bool,
}
